// `skerry drain`: a host leaves a job that goes on without the dead.
//
// Its ranks are told, bring away what they have, and end with status 0. Each counts as dead from
// then on, which is no failure. When the last has ended, its agent ends too: the host may go.
#include <algorithm>
#include <csignal>
#include <iterator>
#include <set>
#include <utility>

#include "launcher/job.hpp"

namespace skerry::launcher {

using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

void Job::on_drain(uint32_t number, const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t request = reader.u32();
  const std::string host(reader.string());
  if (!reader.done() || !agents_[number].link) return;
  const std::string told = drain(host);
  agents_[number].link->send(FrameWriter(FrameType::drain_told)
                                 .u32(request)
                                 .bytes(std::as_bytes(std::span(told)))
                                 .finish());
}

// What came of it: an error begins with "cannot".
std::string Job::drain(const std::string& host) {
  // The last of that name: a host that has left may have been added again.
  const auto last =
      std::find_if(agents_.rbegin(), agents_.rend(),
                   [&](const Agent& one) { return one.host.host == host; });
  const auto agent = last == agents_.rend() ? agents_.end() : std::prev(last.base());
  if (agent == agents_.end()) return concat("cannot drain ", host, ": it is no host of this job");
  if (agent->gone || !agent->link) return concat("cannot drain ", host, ": it has left the job");
  if (agent->local) return concat("cannot drain ", host, ": the launcher runs on it");
  if (ending_) return concat("cannot drain ", host, ": the job is ending");
  if (is_starting(*agent)) return concat("cannot drain ", host, ": it is being added");
  if (!all_go_on())
    return concat("cannot drain ", host, ": the job does not go on without ranks (on_failure ",
                  "SKERRY_FAILURE_CONTINUES)");
  size_t at_work = 0;  // spares that wait have nothing to bring away, and are not told
  for (const auto& planned : agent->host.ranks) {
    const uint32_t rank = planned.rank;
    if (!lives(rank)) continue;
    if (meetings_.is_spare(rank)) continue;
    ++at_work;
    tell(rank, FrameWriter(FrameType::leave, rank).finish());
  }
  const bool again = std::exchange(agent->drained, true);
  if (!again)
    output_.say(concat("host ", host, " is drained: its ", at_work, " ranks are told to leave"));
  release_if_drained(static_cast<uint32_t>(agent - agents_.begin()));
  return concat(host, ": ", at_work, " ranks ", again ? "have not left yet" : "are told to leave");
}

bool Job::has_left(const Agent& agent) const {
  return agent.drained && std::ranges::all_of(agent.host.ranks, [this](const auto& planned) {
           return ranks_[planned.rank].ended;
         });
}

// A spare that nobody has taken in has nothing to bring away. But the leader of a node takes its
// node along: it waits until the others of its node have left.
void Job::end_spares_of_drained(Agent& agent) {
  std::set<uint32_t> nodes_at_work;
  for (const auto& planned : agent.host.ranks)
    if (lives(planned.rank) && !meetings_.is_spare(planned.rank))
      nodes_at_work.insert(ranks_[planned.rank].node);
  for (const auto& planned : agent.host.ranks) {
    const uint32_t rank = planned.rank;
    if (!lives(rank) || !meetings_.is_spare(rank)) continue;
    meetings_.leaves(rank);
    if (!nodes_at_work.contains(ranks_[rank].node) &&
        !std::exchange(ranks_[rank].told_to_end, true))
      tell(rank, FrameWriter(FrameType::signal_rank, rank).u32(SIGKILL).finish());
  }
  tell_waiting();
}

void Job::release_if_drained(uint32_t number) {
  auto& agent = agents_[number];
  if (agent.drained && !agent.gone && !ending_) end_spares_of_drained(agent);
  if (agent.gone || stopping_ || !agent.link || !has_left(agent)) return;
  output_.say(concat("host ", agent.host.host, " has left the job"));
  agent.link->send(FrameWriter(FrameType::stop).finish());
}

}  // namespace skerry::launcher
