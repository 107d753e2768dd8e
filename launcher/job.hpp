// `skerry run`: one job from its start to its end. Knows its ranks only through agents, one per
// host.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/auth.hpp"
#include "launcher/event_loop.hpp"
#include "launcher/exchange.hpp"
#include "launcher/lease.hpp"
#include "launcher/link.hpp"
#include "launcher/meetings.hpp"
#include "launcher/options.hpp"
#include "launcher/output.hpp"
#include "launcher/reception.hpp"

namespace skerry::launcher {

class Job {
 public:
  Job(RunOptions options, Placement placement);
  ~Job();
  Job(const Job&) = delete;

  // Blocks until every process of the job has ended. Returns the launcher's exit status.
  int run();

 private:
  static constexpr uint32_t no_agent = UINT32_MAX;  // of a spare whose host has not come
  struct Agent {
    HostRanks host;
    bool local = false;
    pid_t process = -1;  // the forked agent, or the command that runs it elsewhere; -1: none, or
                         // ended
    UniqueFd lifeline;   // its standard input; none: local
    std::unique_ptr<Link> link;  // null: has not connected yet
    bool gone = false;           // stopped, lost or never started: nothing more is expected from it
    Heard heard;                 // of another host, in a job that goes on
    bool drained = false;        // its ranks were told to leave
    bool is_late = false;        // was added while the job ran
    bool is_withdrawn = false;   // could not be added
    bool is_greeted = false;     // late: a rank of it has said hello
    bool gives_back = false;     // when it has gone another host may take its nodes
    uint32_t unacknowledged = 0;  // bytes of output taken from it that wait in our queues
  };
  struct Rank {
    uint32_t agent = no_agent;
    uint32_t node = 0;
    uint32_t pid = 0;  // 0: not started yet
    bool ended = false;
    bool reports_failures = false;  // asked to be told of dead ranks
    bool goes_on = false;           // and to go on without them
    bool told_to_end = false;       // a spare of a host that is drained
  };
  // Something went wrong with a rank. Failures come in clusters (the others notice and fail as
  // well): the most telling one of the first moments is shown.
  enum class Weight { aborted, failed, killed };
  struct Suspect {
    uint32_t rank;
    Weight weight;
    std::string cause;
    int exit_status;
  };

  // start (job_start.cpp)
  bool start_agents();
  void start_local_agent(uint32_t number);
  Status start_remote_agent(uint32_t number);
  void agent_connected(uint32_t number, UniqueFd socket);
  void start_limit_passed();
  void attach(uint32_t number, UniqueFd socket);
  Plan plan_for(const Agent& agent) const;
  void choose_input();

  // events (job_events.cpp)
  void on_frame(uint32_t number, const job::Frame& frame);
  using FrameHandler = void (Job::*)(uint32_t agent, const job::Frame& frame);
  struct FrameRow {
    job::FrameType type;
    bool is_about_rank;  // the frame's rank must be one of the agent's
    FrameHandler handle;
  };
  static const FrameRow frame_table[22];
  void on_started(uint32_t number, const job::Frame& frame);
  void on_not_started(uint32_t number, const job::Frame& frame);
  void on_exited(uint32_t number, const job::Frame& frame);
  void on_lost(uint32_t number, const job::Frame& frame);
  void on_input_ack(uint32_t number, const job::Frame& frame);
  void on_stopped(uint32_t number, const job::Frame& frame);
  void on_rank_request(uint32_t number, const job::Frame& frame);
  void on_meet(uint32_t number, const job::Frame& frame);
  void on_decide(uint32_t number, const job::Frame& frame);
  bool lives(uint32_t rank) const;
  void tell_met(const std::vector<Meetings::Outcome>& outcomes);
  void go_on_without(uint32_t rank, const std::string& cause);
  void end_leavers(const std::vector<uint32_t>& leavers);
  struct Dead {
    uint32_t rank;
    std::string cause;
  };
  void die(std::span<const Dead> dead);
  void on_output(uint32_t number, const job::Frame& frame);
  void on_look_wanted(uint32_t number, const job::Frame& frame);
  void on_report(uint32_t number, const job::Frame& frame);
  void on_beat(uint32_t number, const job::Frame& frame);

  // hosts that are added (job_elastic.cpp)
  void watch_elastic();
  void add_host(const Host& host);
  bool is_starting(const Agent& agent) const;  // was added, and is not all there yet
  void withdraw(uint32_t number, const std::string& why);
  void close_to_hosts();
  void give_back(Agent& agent);
  void welcome(uint32_t rank);
  void greet_late(uint32_t rank);
  void remember_for_late(const std::vector<std::byte>& frame);
  bool on_late_request(const job::Frame& frame);
  void tell_waiting();

  // a host leaves (job_drain.cpp)
  void on_drain(uint32_t number, const job::Frame& frame);
  std::string drain(const std::string& host);
  bool has_left(const Agent& agent) const;  // was drained, and its ranks have ended
  void release_if_drained(uint32_t number);
  void end_spares_of_drained(Agent& agent);

  uint32_t others_of(uint32_t number) const;  // agents that live
  void on_agent_end(uint32_t number, const std::string& why);
  void lease_to_hosts(bool begin);
  void lease_to(Agent& agent, bool begin);
  void watch_hosts();
  void go_on_without_host(uint32_t number, const std::string& why);
  void on_rank_end(uint32_t rank, int wait_status);
  void on_signals();
  void on_signal(int signal);
  void on_child(pid_t pid, int wait_status);
  void pump_input();
  void end_input();
  void acknowledge_output();
  void advance();

  // the end (job_end.cpp)
  void suspect(Suspect suspect);
  void conclude();
  void begin_ending(int exit_status);
  void stop_agents();
  void rank_is_gone(uint32_t rank);
  void agent_is_gone(Agent& agent);
  void check_end();
  void finish_processes();

  // Of the rank's agent; null: there is none.
  Link* link_to(uint32_t rank) {
    const uint32_t agent = ranks_[rank].agent;
    return agent == no_agent ? nullptr : agents_[agent].link.get();
  }
  void tell(uint32_t rank, const std::vector<std::byte>& frame);
  void tell_all(const std::vector<std::byte>& frame);
  bool all_report_failures() const;
  bool all_go_on() const { return going_on_ == from_start_; }
  std::string name_of(uint32_t rank) const;

  const RunOptions options_;
  const Placement placement_;
  const uint32_t from_start_;  // ranks but those that come with hosts which are added
  const Key key_;
  EventLoop loop_;
  Output output_;
  Reception reception_;
  Exchange exchange_;
  Meetings meetings_;  // of ranks that go on without the dead
  UniqueFd signals_;
  std::vector<Agent> agents_;
  std::vector<Rank> ranks_;
  uint32_t living_ranks_;
  uint32_t reporting_ranks_ = 0;  // ranks from the start that asked to be told of dead ones
  uint32_t going_on_ = 0;         // of these, ranks that go on without them
  uint32_t view_ = 0;             // how many ranks the job has lost and goes on without
  std::set<uint32_t> free_nodes_;    // the first ranks of nodes for which no host has come
  std::set<std::string> listed_;     // hosts of the elastic file that were looked at
  std::set<std::string> missing_;    // of these, who was not there at the last look
  std::string elastic_trouble_;      // what was said last of that file
  bool is_over_ = false;             // all at work have left, or died: no host is added any more
  std::set<std::string> refused_;    // hosts that find a place when another gives up its own
  size_t told_waiting_ = 0;          // how many spares wait, as ranks know it
  // Deaths, and what late ranks put, in order: for those that come later.
  std::vector<std::pair<job::FrameType, Meetings::Payload>> told_to_late_;
  EventLoop::TimerId lease_timer_ = 0;  // 0: no host holds a lease
  EventLoop::Clock::time_point watched_at_{};  // when hosts were last looked at

  Input input_ = Input::none;   // of rank 0
  size_t input_window_ = 0;     // bytes of input that rank 0's agent will still take
  bool input_watched_ = false;  // standard input is in the loop
  bool input_pollable_ = true;  // false: a regular file

  std::vector<Suspect> suspects_;        // until concluded
  EventLoop::TimerId settle_timer_ = 0;  // 0: no suspects
  bool ending_ = false;                  // the remaining ranks were told to end
  bool stopping_ = false;                // the agents were told to stop
  int interrupted_by_ = 0;               // the signal by which we were asked to end; 0: none
  EventLoop::Clock::time_point interrupted_at_;
  int result_ = 0;  // exit status so far
};

// `skerry run WORDS`.
int run_main(const std::vector<std::string>& words);

}  // namespace skerry::launcher
