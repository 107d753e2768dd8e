// What happens while a job runs: requests of ranks, output, input, signals, ends.
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <map>
#include <utility>

#include "launcher/describe.hpp"
#include "launcher/job.hpp"

namespace skerry::launcher {

using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

// timeout(1) and batch systems signal a process and then its group: both within a moment, and they
// mean one request.
constexpr std::chrono::milliseconds echo_time{300};
// Ranks that are asked to end have this time before people are told how to insist.
constexpr std::chrono::milliseconds patience_with_signals{3000};

void Job::tell(uint32_t rank, const std::vector<std::byte>& frame) {
  if (Link* const link = link_to(rank)) link->send(frame);
}

void Job::tell_all(const std::vector<std::byte>& frame) {
  for (auto& agent : agents_) {
    if (agent.link) agent.link->send(frame);
  }
}

std::string Job::name_of(uint32_t rank) const {
  const auto& one = ranks_[rank];
  return concat("rank ", rank, " on host ", agents_[one.agent].host.host,
                one.pid != 0 ? concat(" (pid ", one.pid, ")") : "");
}

bool Job::all_report_failures() const { return reporting_ranks_ == from_start_; }

// What an agent may send, and what follows. Frames about a rank are taken from its agent alone.
// Other types are not an agent's to send.
const Job::FrameRow Job::frame_table[] = {
    {FrameType::started, true, &Job::on_started},
    {FrameType::not_started, true, &Job::on_not_started},
    {FrameType::output, true, &Job::on_output},
    {FrameType::exited, true, &Job::on_exited},
    {FrameType::lost, true, &Job::on_lost},
    {FrameType::input_ack, false, &Job::on_input_ack},
    {FrameType::stopped, false, &Job::on_stopped},
    {FrameType::look_wanted, false, &Job::on_look_wanted},
    {FrameType::report, false, &Job::on_report},
    {FrameType::beat, false, &Job::on_beat},
    {FrameType::drain, false, &Job::on_drain},
    {FrameType::hello, true, &Job::on_rank_request},
    {FrameType::put, true, &Job::on_rank_request},
    {FrameType::get, true, &Job::on_rank_request},
    {FrameType::fence, true, &Job::on_rank_request},
    {FrameType::finish, true, &Job::on_rank_request},
    {FrameType::abort, true, &Job::on_rank_request},
    {FrameType::report_failures, true, &Job::on_rank_request},
    {FrameType::get_all, true, &Job::on_rank_request},
    {FrameType::lowest, true, &Job::on_rank_request},
    {FrameType::meet, true, &Job::on_meet},
    {FrameType::decide, true, &Job::on_decide},
};

void Job::on_frame(uint32_t number, const Frame& frame) {
  const auto* const row = std::ranges::find(frame_table, frame.type, &FrameRow::type);
  if (row == std::end(frame_table)) return;
  const bool is_its_agents = frame.rank < ranks_.size() && ranks_[frame.rank].agent == number;
  if (row->is_about_rank && !is_its_agents) return;
  (this->*row->handle)(number, frame);
}

void Job::on_started(uint32_t, const Frame& frame) {
  ranks_[frame.rank].pid = FrameReader(frame).u32();
}

void Job::on_not_started(uint32_t number, const Frame& frame) {
  FrameReader reader(frame);
  const bool not_found = reader.u8() != 0;
  if (!ending_ && agents_[number].is_late) {
    withdraw(number, concat("its rank ", frame.rank, " could not be started: ", reader.string()));
  } else if (!ending_) {
    output_.say(concat("could not start rank ", frame.rank, " on host ", agents_[number].host.host,
                       ": ", reader.string()));
    begin_ending(not_found ? 127 : 126);
  }
  // The agent starts no further ranks either.
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].agent == number && ranks_[rank].pid == 0) rank_is_gone(rank);
  }
  check_end();
}

void Job::on_exited(uint32_t, const Frame& frame) {
  on_rank_end(frame.rank, static_cast<int>(FrameReader(frame).u32()));
}

void Job::on_lost(uint32_t, const Frame& frame) {
  FrameReader reader(frame);
  if (!ending_ && all_go_on()) {  // what is left of it ends, and then it is dead
    tell(frame.rank, FrameWriter(FrameType::signal_rank, frame.rank).u32(SIGKILL).finish());
    return;
  }
  suspect({frame.rank, Weight::failed, std::string(reader.string()), 1});
}

void Job::on_input_ack(uint32_t, const Frame& frame) {
  input_window_ += FrameReader(frame).u32();
  pump_input();
}

void Job::on_stopped(uint32_t number, const Frame&) {
  agent_is_gone(agents_[number]);
  check_end();
}

// Looking at a job does not change it: nothing of this is kept.
void Job::on_look_wanted(uint32_t number, const Frame& frame) {
  const uint32_t request = FrameReader(frame).u32();
  if (others_of(number) == 0)
    agents_[number].link->send(
        FrameWriter(FrameType::looked).u32(request).u32(0).string("").finish());
  for (auto& agent : agents_)
    if (&agent != &agents_[number] && agent.link && !agent.gone)
      agent.link->send(FrameWriter(FrameType::look).u32(number).u32(request).finish());
}

void Job::on_report(uint32_t number, const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t asker = reader.u32(), request = reader.u32();
  if (!reader.ok() || asker >= agents_.size() || !agents_[asker].link) return;
  agents_[asker].link->send(FrameWriter(FrameType::looked)
                                .u32(request)
                                .u32(others_of(asker))
                                .string(agents_[number].host.host)
                                .bytes(reader.rest())
                                .finish());
}

uint32_t Job::others_of(uint32_t number) const {
  uint32_t others = 0;
  for (const auto& agent : agents_)
    others += &agent != &agents_[number] && agent.link && !agent.gone;
  return others;
}

void Job::welcome(uint32_t rank) {
  auto& asks = ranks_[rank];  // nothing yet, whatever it asked for in a session before
  reporting_ranks_ -= asks.reports_failures ? 1 : 0;
  going_on_ -= asks.goes_on ? 1 : 0;
  asks.reports_failures = asks.goes_on = false;
  // The agent puts the key in place of the generation, which it derives the key from.
  std::array<std::byte, job::job_key_bytes> epoch{};
  const uint32_t number = exchange_.epoch();
  std::memcpy(epoch.data(), &number, sizeof number);
  tell(rank, FrameWriter(FrameType::welcome, rank)
                 .u32(rank)
                 .u32(static_cast<uint32_t>(ranks_.size()))
                 .u32(ranks_[rank].node)
                 .u32(static_cast<uint32_t>(options_.spares))
                 .u32(static_cast<uint32_t>(placement_.late))
                 .u32(static_cast<uint32_t>(placement_.late_per_node))
                 .bytes(epoch)
                 .finish());
}

void Job::on_rank_request(uint32_t, const Frame& frame) {
  const uint32_t rank = frame.rank;
  const bool starts = exchange_.is_starting(rank) && !agents_[ranks_[rank].agent].is_withdrawn;
  const bool is_new = starts && frame.type == FrameType::hello;
  // Its last words: the others may have finished already.
  if (meetings_.is_dead(rank) && !is_new) return;
  if (starts && on_late_request(frame)) return;
  FrameReader reader(frame);
  Status status;
  if (frame.type == FrameType::hello) {
    status = !options_.elastic.empty() && exchange_.epoch() != 0
                 ? error(Code::config, "a job with --elastic is joined once")
                 : exchange_.hello(rank);
    if (status.ok()) welcome(rank);
    if (is_new) greet_late(rank);
  } else if (frame.type == FrameType::put) {
    const auto key = reader.string();
    status = exchange_.put(rank, key, reader.rest());
  } else if (frame.type == FrameType::get) {
    const uint32_t owner = reader.u32();
    const auto value = exchange_.get(owner, reader.string());
    FrameWriter answer(FrameType::value, rank);
    answer.u8(value.has_value());
    if (value) answer.bytes(*value);
    return tell(rank, answer.finish());
  } else if (frame.type == FrameType::get_all) {
    for (const auto& payload : exchange_.get_all(reader.string()))
      if (Link* const link = link_to(rank)) link->send(FrameType::values, rank, payload);
    return;
  } else if (frame.type == FrameType::lowest) {
    const auto key = reader.string();
    const auto lowest = exchange_.lowest(key, reader.rest());
    return tell(
        rank,
        FrameWriter(FrameType::lowest_is, rank).u32(lowest.value_or(job::all_ranks)).finish());
  } else if (frame.type == FrameType::fence) {
    status = exchange_.fence(rank);
  } else if (frame.type == FrameType::finish) {
    status = exchange_.finish(rank);
  } else if (frame.type == FrameType::report_failures) {
    auto& asks = ranks_[rank];
    const bool goes_on = reader.u8() != 0;
    reporting_ranks_ += asks.reports_failures ? 0 : 1;
    going_on_ += (goes_on ? 1U : 0U) - (asks.goes_on ? 1U : 0U);
    asks.reports_failures = true;
    asks.goes_on = goes_on;
    if (all_go_on() && lease_timer_ == 0) lease_to_hosts(true);
  } else if (frame.type == FrameType::abort) {
    const auto exit_status = static_cast<int>(reader.u32() & 0xff);
    return suspect({rank, Weight::aborted, concat("ended the job: ", reader.string()),
                    exit_status == 0 ? 1 : exit_status});
  }
  if (!status.ok())
    return suspect(
        {rank, Weight::failed, concat("misused the launcher (", status.message(), ")"), 1});
  advance();
}

// ---- going on without the dead ----------------------------------------------------------------

void Job::on_meet(uint32_t, const Frame& frame) {
  FrameReader reader(frame);
  const std::string key(reader.string());
  const uint32_t limit_ms = reader.u32(), size = reader.u32(), count = reader.u32();
  std::vector<Meetings::Run> members;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    const uint32_t first = reader.u32();
    members.push_back({first, reader.u32()});
  }
  const auto bytes = reader.rest();
  if (!reader.ok() || !job::check_key(key).ok())
    return suspect({frame.rank, Weight::failed, "sent a meet frame that makes no sense", 1});
  if (exchange_.is_starting(frame.rank) && lives(frame.rank)) exchange_.settle(frame.rank);
  bool is_first = false;
  if (count == 0) {
    tell_met(meetings_.wait_as_spare(frame.rank, key));
    return release_if_drained(ranks_[frame.rank].agent);
  }
  tell_met(meetings_.come(frame.rank, key, members, bytes, &is_first, size));
  if (is_first && limit_ms != job::all_ranks)
    (void)loop_.after(std::chrono::milliseconds(limit_ms),
                      [this, key] { tell_met(meetings_.expire(key)); });
  end_leavers(meetings_.wanted_elsewhere(job::leave_meeting, key, frame.rank, is_first));
}

// They leave the job, and others wait for them. Neither can go on while they live.
void Job::end_leavers(const std::vector<uint32_t>& leavers) {
  for (const uint32_t rank : leavers) {
    // One before led its node, or was the one that wanted it.
    if (meetings_.is_dead(rank) || !meetings_.is_wanted(job::leave_meeting, rank)) continue;
    if (result_ == 0) result_ = 1;
    tell(rank, FrameWriter(FrameType::signal_rank, rank).u32(SIGKILL).finish());
    go_on_without(rank, "left the job (finalize, or the end of its program) while others wait for "
                        "it in a collective call, and was ended");
  }
}

void Job::on_decide(uint32_t, const Frame& frame) {
  FrameReader reader(frame);
  const auto key = reader.string();
  const uint8_t proposal = reader.u8();
  if (!reader.done() || !job::check_key(key).ok())
    return suspect({frame.rank, Weight::failed, "sent a decide frame that makes no sense", 1});
  tell(frame.rank, FrameWriter(FrameType::decided, frame.rank)
                       .string(key)
                       .u8(meetings_.decide(key, proposal))
                       .finish());
}

bool Job::lives(uint32_t rank) const { return !ranks_[rank].ended && !meetings_.is_dead(rank); }

void Job::tell_met(const std::vector<Meetings::Outcome>& outcomes) {
  tell_waiting();
  for (const auto& outcome : outcomes) {
    const auto payloads = Meetings::payloads_of(outcome);
    std::map<uint32_t, std::vector<uint32_t>> by_agent;
    for (const uint32_t rank : outcome.tell)
      if (lives(rank)) by_agent[ranks_[rank].agent].push_back(rank);
    for (const auto& [number, told] : by_agent) {
      const Agent& agent = agents_[number];
      if (!agent.link) continue;
      const auto living = std::ranges::count_if(
          agent.host.ranks, [this](const PlannedRank& planned) { return lives(planned.rank); });
      const bool all = told.size() > 1 && static_cast<size_t>(living) == told.size();
      for (const auto& payload : payloads) {
        if (all) agent.link->send(FrameType::met, job::all_ranks, payload);
        else
          for (const uint32_t rank : told) agent.link->send(FrameType::met, rank, payload);
      }
    }
    if (outcome.key == job::leave_meeting && outcome.missing.empty()) close_to_hosts();
  }
}

// From here on these ranks are dead, whatever their processes do: each begins a new view. Agents
// are told of all in one piece, and before the meetings that the deaths end.
void Job::die(std::span<const Dead> dead) {
  std::vector<std::byte> frames;
  std::vector<Meetings::Outcome> outcomes;
  for (const auto& [rank, cause] : dead) {
    ++view_;
    exchange_.gone(rank, true);
    const auto frame = FrameWriter(FrameType::rank_died, job::all_ranks)
                           .u32(rank)
                           .string(cause)
                           .u32(view_)
                           .finish();
    frames.insert(frames.end(), frame.begin(), frame.end());
    remember_for_late(frame);
    std::ranges::move(meetings_.died(rank), std::back_inserter(outcomes));
  }
  tell_all(frames);
  tell_met(outcomes);
  if (meetings_.living_at_work() != 0) return;
  result_ = 1;  // nobody is left that could go on
  close_to_hosts();
}

// The lowest rank of a node hosts its memory and its data servers: the node dies with it.
void Job::go_on_without(uint32_t rank, const std::string& cause) {
  const uint32_t node = ranks_[rank].node;
  std::vector<uint32_t> others;
  bool leads = true;
  for (uint32_t other = 0; other < ranks_.size(); ++other) {
    if (other == rank || ranks_[other].node != node) continue;
    leads = leads && other > rank;
    others.push_back(other);
  }
  if (!leads) others.clear();
  std::erase_if(others, [&](uint32_t other) {
    return !lives(other) || !exchange_.joined(other);
  });
  output_.say(concat(name_of(rank), " ", cause,
                     leads ? concat("; node ", node, " is lost with it") : "",
                     "; the job goes on"));
  std::vector<Dead> dead{{rank, cause}};
  for (const uint32_t other : others) {
    tell(other, FrameWriter(FrameType::signal_rank, other).u32(SIGKILL).finish());
    dead.push_back({other, concat("ended with rank ", rank, ", which led its node")});
  }
  die(dead);
  advance();
}

// ---- hosts that fall silent -------------------------------------------------------------------

void Job::lease_to_hosts(bool begin) {
  if (!begin && lease_timer_ == 0) return;
  loop_.cancel(std::exchange(lease_timer_, 0));
  bool watches = begin && !options_.elastic.empty();  // hosts that come later
  for (auto& agent : agents_) {
    if (agent.local || agent.gone || !agent.link) continue;
    lease_to(agent, begin);
    watches = begin;
  }
  if (watches) watch_hosts();
}

void Job::lease_to(Agent& agent, bool begin) {
  const LeaseLength length(begin ? options_.lease_ms : 0);
  agent.link->send(
      FrameWriter(FrameType::lease).u32(static_cast<uint32_t>(length.count())).finish());
  if (begin) agent.heard.begin(EventLoop::Clock::now(), length);
  else agent.heard.end();
}

void Job::on_beat(uint32_t number, const Frame& frame) {
  auto& agent = agents_[number];
  agent.heard.beat(EventLoop::Clock::now());
  agent.link->send(FrameWriter(FrameType::beat_back).u32(FrameReader(frame).u32()).finish());
}

// A launcher that did not run heard nothing, and perhaps the hosts did not run either: all stand on
// a machine that was suspended. Their leases have run out, so to wait longer for them is safe.
void Job::watch_hosts() {
  const auto now = EventLoop::Clock::now();
  const LeaseLength pause(std::max(1, options_.lease_ms / 4));
  if (now > std::exchange(watched_at_, now) + 2 * pause)
    for (auto& agent : agents_) agent.heard.excuse(now);
  for (uint32_t number = 0; number < agents_.size(); ++number) {
    auto& agent = agents_[number];
    if (agent.gone || !agent.heard.has_run_out(EventLoop::Clock::now())) continue;
    // What it said may wait here: this process itself may not have run.
    if (!agent.link->ended()) agent.link->drain();
    if (agent.gone || !agent.heard.has_run_out(EventLoop::Clock::now())) continue;
    go_on_without_host(number, agent.link->ended()
                                   ? std::string("lost its agent")
                                   : concat("was silent for ", options_.lease_ms, " ms"));
  }
  lease_timer_ = loop_.after(pause, [this] { watch_hosts(); });
}

void Job::go_on_without_host(uint32_t number, const std::string& why) {
  if (ending_) return;
  auto& agent = agents_[number];
  if (is_starting(agent)) return withdraw(number, concat("it ", why));
  if (!agent.heard.is_heard()) {  // its ranks may hold a lease that began a moment ago
    output_.say(concat("host ", agent.host.host, " ", why,
                       ", and was never heard of in this job; ending the job"));
    return begin_ending(1);
  }
  const std::string cause = concat("was on host ", agent.host.host, ", which ", why);
  std::vector<Dead> dead;
  for (const auto& planned : agent.host.ranks) {
    if (!lives(planned.rank)) continue;
    output_.flush(planned.rank);
    if (exchange_.joined(planned.rank)) dead.push_back({planned.rank, cause});
    else exchange_.gone(planned.rank, false);
  }
  output_.say(concat("host ", agent.host.host, " ", why, " and is lost, with ", dead.size(),
                     " ranks that were in the job; the job goes on"));
  agent_is_gone(agent);
  die(dead);
  advance();
  check_end();
}

void Job::advance() {
  switch (exchange_.advance()) {
    case Exchange::Event::none: break;
    case Exchange::Event::fence_done:
      tell_all(FrameWriter(FrameType::fence_done, job::all_ranks).finish());
      break;
    case Exchange::Event::finish_done:
      meetings_.forget();
      tell_all(FrameWriter(FrameType::finish_done, job::all_ranks).finish());
      break;
  }
  if (ending_ || !suspects_.empty()) return;
  if (const auto stuck = exchange_.stuck()) {
    suspect({stuck->gone, Weight::failed,
             concat("exited with status 0 without joining the job that rank ", stuck->waiting,
                    " waits in"),
             1});
  }
}

void Job::on_output(uint32_t number, const Frame& frame) {
  FrameReader reader(frame);
  const int stream = reader.u8();
  const auto data = reader.rest();
  if (stream != 1 && stream != 2) return;
  output_.add(frame.rank, stream, {reinterpret_cast<const char*>(data.data()), data.size()});
  agents_[number].unacknowledged += static_cast<uint32_t>(data.size());
  if (output_.has_room()) acknowledge_output();
}

void Job::acknowledge_output() {
  if (!output_.has_room()) return;
  for (auto& agent : agents_) {
    if (agent.unacknowledged == 0 || !agent.link) continue;
    agent.link->send(FrameWriter(FrameType::output_ack).u32(agent.unacknowledged).finish());
    agent.unacknowledged = 0;
  }
}

void Job::on_rank_end(uint32_t rank, int wait_status) {
  if (ranks_[rank].ended) return;
  output_.flush(rank);
  if (Agent& agent = agents_[ranks_[rank].agent]; agent.is_withdrawn || is_starting(agent)) {
    rank_is_gone(rank);
    withdraw(ranks_[rank].agent,
             concat("its rank ", rank, " ", describe_end(wait_status)));
    return check_end();
  }
  const int exit_status = exit_status_of(wait_status);
  const bool joined = exchange_.joined(rank);
  if (exit_status != 0 || joined) {
    const std::string
        cause = exit_status != 0 ? describe_end(wait_status)
                                 : "exited with status 0 without leaving the job (skerry_finalize)";
    const int failure = exit_status != 0 ? exit_status : 1;
    if (ending_) {
      // It ends because we asked it to.
    } else if (interrupted_by_ != 0) {
      begin_ending(failure);  // the user knows why
    } else if (meetings_.is_dead(rank)) {
      // It was declared dead with its node.
    } else if (joined && all_go_on()) {
      // A program that ends by itself has something to say with its status.
      const bool leaves = agents_[ranks_[rank].agent].drained && exit_status == 0;
      if (!WIFSIGNALED(wait_status) && result_ == 0 && !leaves) result_ = failure;
      go_on_without(rank, leaves ? "has left, since its host is drained" : cause);
    } else if (all_report_failures()) {
      output_.say(concat(name_of(rank), " ", cause, "; the job goes on"));
      if (result_ == 0) result_ = failure;
      exchange_.gone(rank, true);
      tell_all(FrameWriter(FrameType::rank_died, job::all_ranks)
                   .u32(rank)
                   .string(cause)
                   .u32(0)
                   .finish());
      advance();
    } else {
      suspect({rank, WIFSIGNALED(wait_status) ? Weight::killed : Weight::failed, cause, failure});
    }
  } else {
    exchange_.gone(rank, false);
    advance();
  }
  rank_is_gone(rank);
  release_if_drained(ranks_[rank].agent);
  check_end();
}

void Job::on_agent_end(uint32_t number, const std::string& why) {
  auto& agent = agents_[number];
  if (agent.gone) return;
  if (agent.is_withdrawn) agent_is_gone(agent);
  else if (is_starting(agent)) withdraw(number, concat("its agent was lost (", why, ")"));
  if (agent.gone) return check_end();
  if (has_left(agent)) {
    agent_is_gone(agent);
    return check_end();
  }
  // Its ranks may go on until their lease ends: watch_hosts tells.
  if (!ending_ && all_go_on() && agent.heard.is_watched()) return;
  if (!ending_) {
    output_.say(concat("lost the agent on host ", agent.host.host, " (", why, "); ending the job"));
    begin_ending(1);
  }
  agent_is_gone(agent);
  check_end();
}

void Job::on_signals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    on_signal(static_cast<int>(info.ssi_signo));
}

void Job::on_signal(int signal) {
  if (signal == SIGCHLD) {
    for (int status; true;) {
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      on_child(pid, status);
    }
  }
  const auto pass_on = [this](int what) {
    tell_all(FrameWriter(FrameType::signal_rank, job::all_ranks)
                 .u32(static_cast<uint32_t>(what))
                 .finish());
  };
  if (signal == SIGTSTP) {
    lease_to_hosts(false);  // we will not answer; it continues ranks that had no lease
    pass_on(SIGTSTP);
    (void)kill(getpid(), SIGSTOP);
    return;  // again from here when continued: SIGCONT is pending then
  }
  if (signal == SIGCONT) {
    pass_on(SIGCONT);
    if (all_go_on() && lease_timer_ == 0) lease_to_hosts(true);
    return pump_input();  // we may be in the foreground again
  }
  if (signal == SIGUSR1 || signal == SIGUSR2) return pass_on(signal);
  // A request to end. The ranks decide what to do with the first one; the second is an order,
  // unless it is the first one's echo.
  if (interrupted_by_ != 0) {
    if (EventLoop::Clock::now() - interrupted_at_ < echo_time) return;
    output_.say(concat("second ", signal_name(signal), ": killing the job"));
    if (!ending_) begin_ending(128 + signal);
    return stop_agents();
  }
  interrupted_by_ = signal;
  interrupted_at_ = EventLoop::Clock::now();
  if (ending_) return;
  pass_on(signal);
  const bool nobody_to_ask = std::none_of(agents_.begin(), agents_.end(),
                                          [](const Agent& agent) { return agent.link != nullptr; });
  if (nobody_to_ask) begin_ending(128 + signal);
  // Ranks that wait for each other may not look.
  (void)loop_.after(patience_with_signals, [this, signal] {
    if (!ending_)
      output_.say(
          concat(signal_name(signal),
                 " was passed on to the ranks, which have not ended; a second one kills the job"));
  });
}

void Job::on_child(pid_t pid, int wait_status) {
  for (auto& agent : agents_) {
    if (agent.process != pid) continue;
    agent.process = -1;
    if (agent.link || agent.gone) return;  // the connection tells
    if (agent.is_late)
      return withdraw(static_cast<uint32_t>(&agent - agents_.data()),
                      concat("`", options_.agent, " ", agent.host.host, "` ",
                             describe_end(wait_status)));
    if (!ending_) {
      output_.say(concat("could not start an agent on host ", agent.host.host, ": `",
                         options_.agent, " ", agent.host.host, "` ", describe_end(wait_status),
                         "; ending the job"));
      begin_ending(1);
    }
    agent_is_gone(agent);
    return check_end();
  }
}

void Job::pump_input() {
  const auto unwatch = [this] {
    if (input_watched_) loop_.forget(STDIN_FILENO);
    input_watched_ = false;
  };
  if (input_ != Input::piped || ranks_[0].ended || input_window_ == 0) return unwatch();
  if (!input_watched_ && input_pollable_) {
    input_watched_ = loop_.watch(STDIN_FILENO, EPOLLIN, [this](uint32_t) {
      std::array<char, 16 * 1024> chunk;
      const ssize_t got = read(STDIN_FILENO, chunk.data(), std::min(chunk.size(), input_window_));
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
      if (got < 0 && errno == EIO) {  // a terminal, and we are in the background: until SIGCONT
        loop_.forget(STDIN_FILENO);
        input_watched_ = false;
        return;
      }
      if (got <= 0) return end_input();
      tell(0, FrameWriter(FrameType::input, 0)
                  .bytes(std::as_bytes(std::span(chunk.data(), static_cast<size_t>(got))))
                  .finish());
      input_window_ -= static_cast<size_t>(got);
      pump_input();
    });
    input_pollable_ = input_watched_;
  }
  while (!input_pollable_ && input_window_ > 0 &&
         input_ == Input::piped) {  // a regular file: as much as may be sent
    std::array<char, 16 * 1024> chunk;
    const ssize_t got = read(STDIN_FILENO, chunk.data(), std::min(chunk.size(), input_window_));
    if (got <= 0) return end_input();
    tell(0, FrameWriter(FrameType::input, 0)
                .bytes(std::as_bytes(std::span(chunk.data(), static_cast<size_t>(got))))
                .finish());
    input_window_ -= static_cast<size_t>(got);
  }
}

void Job::end_input() {
  if (input_watched_) loop_.forget(STDIN_FILENO);
  input_watched_ = false;
  input_ = Input::none;
  tell(0, FrameWriter(FrameType::input, 0).finish());
}

}  // namespace skerry::launcher
