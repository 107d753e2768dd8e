// `--elastic FILE`: hosts that are added to a job that goes on without the dead.
//
// The job knows from its start how many ranks may still come, and on which nodes: the last spares,
// as many on each node as on the largest node that is there. A host takes free nodes. Its ranks
// start by themselves: they read what the others have put, and their fences are among themselves.
// What they put, above all where their servers listen, all others hear of. When the first of them
// comes to a meeting, all have come through their last fence: they are spares like any other. If
// something fails before, the host is withdrawn, and the job has lost nothing.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "launcher/job.hpp"

namespace skerry::launcher {

using job::Frame;
using job::FrameType;
using job::FrameWriter;

constexpr std::chrono::milliseconds look_every{500};

void Job::watch_elastic() {
  (void)loop_.after(look_every, [this] { watch_elastic(); });
  if (is_over_ || ending_ || stopping_ || interrupted_by_ != 0 || !all_go_on()) return;
  std::error_code unknown;
  std::ifstream file;  // nothing else: a pipe would stop this process
  if (std::filesystem::is_regular_file(options_.elastic, unknown)) file.open(options_.elastic);
  std::ostringstream text;
  if (file.is_open()) text << file.rdbuf();
  std::vector<Host> hosts;
  const Status status = file.is_open() && file.good()
                            ? parse_host_lines(text.str(), &hosts)
                            : error(Code::config, "it is no file that can be read");
  if (std::string why = status.ok() ? "" : concat("no host is added from ", options_.elastic, ": ",
                                                  status.message());
      std::exchange(elastic_trouble_, why) != why && !why.empty())
    output_.say(why);
  if (!status.ok()) return;
  // Who is taken out of the file may be written there again. At one look alone the file may just be
  // written anew.
  std::set<std::string> missing;
  for (const std::string& name : listed_)
    if (std::ranges::find(hosts, name, &Host::name) == hosts.end()) missing.insert(name);
  for (const std::string& name : missing)
    if (missing_.contains(name)) listed_.erase(name);
  missing_ = std::move(missing);
  for (const Host& host : hosts)
    if (listed_.insert(host.name).second) add_host(host);
}

void Job::add_host(const Host& host) {
  const auto not_added = [&](const auto&... why) {
    output_.say(concat("host ", host.name, " is not added: ", why...));
  };
  if (std::ranges::any_of(agents_, [&](const Agent& one) {
        return one.host.host == host.name && !one.gone;
      }))
    return not_added("it is in the job");
  const auto per_node = static_cast<uint32_t>(placement_.late_per_node);
  if (static_cast<uint32_t>(host.slots) < per_node)
    return not_added("it has ", host.slots, " slots, and hosts take whole nodes of ", per_node,
                     " ranks");
  if (free_nodes_.empty()) {
    refused_.insert(host.name);
    return not_added("all spares have come (see --spares)");
  }
  const uint32_t first = *free_nodes_.begin();
  const auto number = static_cast<uint32_t>(agents_.size());
  agents_.emplace_back();
  Agent& agent = agents_.back();
  agent.host.host = host.name;
  agent.is_late = true;
  for (uint32_t rank = first; free_nodes_.contains(rank) &&
                              rank + per_node - first <= static_cast<uint32_t>(host.slots);) {
    free_nodes_.erase(rank);
    for (const uint32_t end = rank + per_node; rank < end; ++rank) {
      const auto node = static_cast<uint32_t>(placement_.late_node(static_cast<int>(rank)));
      agent.host.ranks.push_back({rank, node});
      ranks_[rank] = Rank{.agent = number, .node = node};
      ++living_ranks_;
    }
  }
  exchange_.admit(first, static_cast<uint32_t>(agent.host.ranks.size()));
  output_.say(concat("host ", host.name, " is added, with ", agent.host.ranks.size(), " spares"));
  if (const Status status = start_remote_agent(number); !status.ok())
    return withdraw(number, status.message());
  (void)loop_.after(std::chrono::seconds(options_.start_timeout_s), [this, number] {
    if (!agents_[number].link)
      withdraw(number, concat("no agent has come from it within ", options_.start_timeout_s, " s"));
  });
}

bool Job::is_starting(const Agent& agent) const {
  return agent.is_late && std::ranges::any_of(agent.host.ranks, [this](const PlannedRank& one) {
           return exchange_.is_starting(one.rank);
         });
}

// Nobody has taken its ranks in. Those that have said hello count as dead, for others have heard of
// them. If none has, another host may take their place.
void Job::withdraw(uint32_t number, const std::string& why) {
  auto& agent = agents_[number];
  if (agent.gone || std::exchange(agent.is_withdrawn, true)) return;
  if (!ending_)
    output_.say(concat("host ", agent.host.host, " could not be added: ", why,
                       is_over_ ? "" : "; the job goes on without it"));
  std::vector<Dead> dead;
  for (const auto& planned : agent.host.ranks) {
    output_.flush(planned.rank);
    if (!meetings_.is_dead(planned.rank))
      dead.push_back({planned.rank, concat("was on host ", agent.host.host,
                                           ", which could not be added: ", why)});
  }
  for (const auto& planned : agent.host.ranks) rank_is_gone(planned.rank);
  agent.gives_back = dead.empty();
  agent.heard.end();
  if (agent.link && !agent.link->ended()) agent.link->send(FrameWriter(FrameType::stop).finish());
  else agent_is_gone(agent);
  if (!dead.empty()) die(dead);
  advance();
  check_end();
}

// All that are at work have left the job, or are dead: who is not there yet comes too late.
void Job::close_to_hosts() {
  if (std::exchange(is_over_, true)) return;
  for (uint32_t number = 0; number < agents_.size(); ++number)
    if (!agents_[number].is_withdrawn && is_starting(agents_[number]))
      withdraw(number, "the job is over");
}

// Its nodes are free again.
void Job::give_back(Agent& agent) {
  for (size_t k = 0; k < agent.host.ranks.size();
       k += static_cast<size_t>(placement_.late_per_node))
    free_nodes_.insert(agent.host.ranks[k].rank);
  for (const auto& planned : agent.host.ranks) {
    exchange_.withdraw(planned.rank);
    ranks_[planned.rank].agent = no_agent;
  }
  agent.host.ranks.clear();
  for (const std::string& name : std::exchange(refused_, {})) listed_.erase(name);
  agent.gives_back = false;
}

// It has said hello. From here on it is expected, and hears what the others heard before. Others
// may wait for its host now: it has a time limit.
void Job::greet_late(uint32_t rank) {
  meetings_.arrives(rank);
  Link* const link = link_to(rank);
  for (const auto& [type, payload] : told_to_late_)
    if (link != nullptr) link->send(type, rank, payload);
  tell(rank, FrameWriter(FrameType::spares_wait, rank)
                 .u32(static_cast<uint32_t>(told_waiting_))
                 .finish());
  const uint32_t number = ranks_[rank].agent;
  if (std::exchange(agents_[number].is_greeted, true)) return;
  (void)loop_.after(std::chrono::seconds(options_.start_timeout_s), [this, number] {
    if (is_starting(agents_[number]))
      withdraw(number, concat("some of its ranks have not joined within ",
                              options_.start_timeout_s, " s (see --start-timeout)"));
  });
}

// A frame that all ranks are sent: those that come later hear of it, too.
void Job::remember_for_late(const std::vector<std::byte>& frame) {
  if (options_.elastic.empty()) return;
  job::FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  const auto payload = std::span(frame).subspan(sizeof header);
  told_to_late_.emplace_back(static_cast<FrameType>(header.type),
                             std::make_shared<const std::vector<std::byte>>(payload.begin(),
                                                                           payload.end()));
}

// Before ranks hear of a meeting that has taken some in: who has come out of it knows the number.
void Job::tell_waiting() {
  if (options_.elastic.empty()) return;
  const size_t waiting = meetings_.waiting_spares();
  if (std::exchange(told_waiting_, waiting) == waiting) return;
  tell_all(FrameWriter(FrameType::spares_wait, job::all_ranks)
               .u32(static_cast<uint32_t>(waiting))
               .finish());
}

// Requests of a rank whose host is being added that have another meaning for it. False: none.
bool Job::on_late_request(const Frame& frame) {
  const uint32_t rank = frame.rank;
  if (frame.type == FrameType::fence) {
    if (!exchange_.fence(rank).ok()) return false;
    for (const uint32_t released : exchange_.advance_starting(rank))
      tell(released, FrameWriter(FrameType::fence_done, released).finish());
    return true;
  }
  if (frame.type == FrameType::report_failures) return ranks_[rank].goes_on = true;
  if (frame.type == FrameType::abort) {
    job::FrameReader reader(frame);
    (void)reader.u32();
    withdraw(ranks_[rank].agent, concat("its rank ", rank, " ended it: ", reader.string()));
    return true;
  }
  if (frame.type != FrameType::put) return false;
  const auto told = FrameWriter(FrameType::late_put, job::all_ranks)
                        .u32(rank)
                        .bytes(frame.payload)
                        .finish();
  tell_all(told);
  remember_for_late(told);
  return false;
}

}  // namespace skerry::launcher
