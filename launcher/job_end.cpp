// How a job ends: which failure is shown, which processes are told, and that nothing stays behind.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "launcher/child.hpp"
#include "launcher/job.hpp"

namespace skerry::launcher {

using job::FrameType;
using job::FrameWriter;

namespace {
// Long enough for the death that made others fail to be seen, too short to be noticed.
constexpr std::chrono::milliseconds settle_time{50};
constexpr std::chrono::milliseconds grace{2000};  // between SIGTERM and SIGKILL
constexpr std::chrono::milliseconds stop_limit{
    10000};  // for an agent to answer that it has stopped
constexpr std::chrono::milliseconds agent_exit_limit{2000};
}  // namespace

void Job::suspect(Suspect suspect) {
  if (ending_) return;
  // A rank that aborts also exits: one event.
  const bool known = std::any_of(suspects_.begin(), suspects_.end(),
                                 [&](const Suspect& one) { return one.rank == suspect.rank; });
  if (known) return;
  suspects_.push_back(std::move(suspect));
  if (settle_timer_ == 0) settle_timer_ = loop_.after(settle_time, [this] { conclude(); });
}

void Job::conclude() {
  loop_.cancel(settle_timer_);
  settle_timer_ = 0;
  if (ending_ || suspects_.empty()) return;
  const auto worst = std::max_element(
      suspects_.begin(), suspects_.end(),
      [](const Suspect& a, const Suspect& b) { return a.weight < b.weight; });
  output_.say(concat(name_of(worst->rank), " ", worst->cause,
                     worst->weight == Weight::aborted ? "" : "; ending the job"));
  begin_ending(worst->exit_status);
}

void Job::begin_ending(int exit_status) {
  if (ending_) return;
  ending_ = true;
  result_ = exit_status;
  tell_all(FrameWriter(FrameType::signal_rank, job::all_ranks).u32(SIGTERM).finish());
  loop_.after(grace, [this] { stop_agents(); });
  for (auto& agent : agents_) {
    if (!agent.link) agent_is_gone(agent);  // has no ranks to end
  }
  loop_.after(std::chrono::milliseconds(0), [this] { check_end(); });
}

void Job::stop_agents() {
  ending_ = true;
  for (auto& agent : agents_) {
    if (agent.gone) continue;
    if (agent.link && !agent.link->ended()) {
      agent.link->send(FrameWriter(FrameType::stop).finish());
    } else {
      agent_is_gone(agent);  // never connected, or lost; finish_processes() ends its command
    }
  }
  if (!stopping_) {
    stopping_ = true;
    loop_.after(stop_limit, [this] {
      for (auto& agent : agents_) {
        if (agent.gone) continue;
        output_.say(
            concat("host ", agent.host.host, " does not answer; processes may be left there"));
        agent_is_gone(agent);
      }
      check_end();
    });
  }
  check_end();
}

void Job::rank_is_gone(uint32_t rank) {
  if (ranks_[rank].ended) return;
  ranks_[rank].ended = true;
  --living_ranks_;
  if (rank == 0) pump_input();  // nobody reads any more
}

void Job::agent_is_gone(Agent& agent) {
  agent.gone = true;
  for (const auto& planned : agent.host.ranks) rank_is_gone(planned.rank);
  if (agent.link) agent.link->close();
  agent.lifeline.reset();
  if (agent.gives_back) give_back(agent);
}

void Job::check_end() {
  if (living_ranks_ > 0) return;
  conclude();
  if (!stopping_) return stop_agents();
  if (std::any_of(agents_.begin(), agents_.end(), [](const Agent& agent) { return !agent.gone; }))
    return;
  output_.flush_all();
  // A slow reader still gets everything; the output calls us again.
  if (output_.idle()) loop_.stop(result_);
}

void Job::finish_processes() {
  for (auto& agent : agents_) {
    agent_is_gone(agent);
    if (!agent.link && agent.process > 0)
      (void)kill(agent.process, SIGTERM);  // a command that never brought an agent
  }
  // The agents end by themselves now, and so do the commands that ran them.
  const auto deadline = EventLoop::Clock::now() + agent_exit_limit;
  const auto any_left = [this] {
    return std::any_of(agents_.begin(), agents_.end(),
                       [](const Agent& agent) { return agent.process > 0; });
  };
  const auto reap = [this](pid_t pid, int) {
    for (auto& agent : agents_) {
      if (agent.process == pid) agent.process = -1;
    }
  };
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  while (any_left() && EventLoop::Clock::now() < deadline) {
    for (int status; true;) {
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) break;
      reap(pid, status);
    }
    const timespec pause{0, 100'000'000};
    if (any_left()) (void)sigtimedwait(&child_signal, nullptr, &pause);
  }
  kill_descendants({}, reap);
}

}  // namespace skerry::launcher
