#include "launcher/agent.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

#include "core/futex.hpp"
#include "core/namespaces.hpp"
#include "launcher/child.hpp"
#include "launcher/describe.hpp"
#include "launcher/event_loop.hpp"
#include "launcher/lease.hpp"
#include "launcher/link.hpp"
#include "launcher/lookout.hpp"
#include "launcher/plan.hpp"

namespace skerry::launcher {
namespace {

using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

constexpr size_t output_window = 1 << 20;  // bytes sent and not yet written by the launcher; beyond
                                           // it ranks wait
constexpr auto exit_grace = std::chrono::milliseconds(1000);

// Libraries such as OpenBLAS start a thread for every core of the host, in each rank; then ranks
// wait for one another's threads. Empty: the user has said how many, or one rank has all cores.
std::string thread_setting(const Plan& plan, bool is_bound) {
  static constexpr const char* name = "OMP_NUM_THREADS";
  const bool is_given = std::ranges::any_of(plan.environment, [](const std::string& text) {
    return text.starts_with(concat(name, "="));
  });
  const auto ranks = static_cast<uint32_t>(plan.ranks.size());
  if (is_given || ranks < 2 || std::getenv(name) != nullptr) return {};
  return concat(name, "=", is_bound ? 1u : std::max(1u, usable_cores() / ranks));
}

class Agent {
 public:
  Agent(UniqueFd launcher, UniqueFd lifeline, const Key& key)
      : key_(key),
        signals_(blocked_signals_fd({SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP})),
        lifeline_(std::move(lifeline)),
        launcher_(
            loop_, std::move(launcher), job::max_link_payload,
            [this](const Frame& frame) { on_launcher(frame); },
            [this](const std::string&) { launcher_gone(); }) {
    adopt_orphans();
    lookout_.open();
    loop_.watch(signals_.get(), EPOLLIN, [this](uint32_t) { on_signals(); });
    if (lifeline_) loop_.watch(lifeline_.get(), EPOLLIN, [this](uint32_t) { on_lifeline(); });
  }

  int run() { return loop_.run(); }

 private:
  struct Rank {
    uint32_t rank = 0;
    pid_t pid = -1;                 // -1: not started, or reaped
    std::unique_ptr<Link> control;  // to the process that calls the library
    UniqueFd out[2];                // read ends of its stdout and stderr; none: at their end
    UniqueFd input;                 // write end of its stdin; none: not fed by us
    std::string input_queue;
    bool input_ended = false;  // close `input` when the queue is empty
    pid_t
        joined_pid = -1;  // the process that said hello, if it is not `pid`; -1: it is, or none has
    UniqueFd joined_watch;  // pidfd of joined_pid
    bool inside = false;    // said hello, and its finish was not answered yet
    bool welcomed = false;  // likewise, and its hello was answered: before, nothing is news to it
  };

  struct FrameRow {
    FrameType type;
    void (Agent::*handle)(const Frame& frame);
  };
  static const FrameRow frame_table[22];
  void on_launcher(const Frame& frame);
  void on_plan(const Frame& frame);
  void on_signal_rank(const Frame& frame);
  void on_input_frame(const Frame& frame);
  void on_output_ack(const Frame& frame);
  void on_stop(const Frame&) { stop(); }
  void on_look(const Frame& frame) { lookout_.on_look(frame); }
  void on_looked(const Frame& frame) { lookout_.on_looked(frame); }
  void on_drain_told(const Frame& frame) { lookout_.on_looked(frame); }
  void on_lease(const Frame& frame);
  void on_beat_back(const Frame& frame);
  void keep_lease();
  void stop_ranks(bool stop);
  void relay_to_ranks(const Frame& frame);
  void start(const Plan& plan);
  Status start_rank(const Plan& plan, const PlannedRank& planned, std::optional<int> core,
                    bool* not_found);
  void on_control(Rank& rank, const Frame& frame);
  void watch_joined(Rank& rank, pid_t pid);
  void process_gone(Rank& rank, const std::string& how);
  void relay(Rank& rank, const Frame& frame);
  void watch_output(Rank& rank, int stream);
  void read_output(Rank& rank, int stream, bool to_the_end);
  void pause_output(bool pause);
  void on_input(Rank& rank, std::span<const std::byte> data);  // empty: its end
  void feed(Rank& rank);
  void on_signals();
  void on_lifeline();
  void reaped(pid_t pid, int status);
  void stop();
  void launcher_gone();
  Rank* find(uint32_t rank);

  const Key key_;
  EventLoop loop_;
  UniqueFd signals_;
  UniqueFd
      lifeline_;  // at its end when the launcher has gone; none: the launcher's socket is enough
  Link launcher_;
  Lookout lookout_{loop_, launcher_};
  Lease lease_;                        // of all ranks here
  EventLoop::TimerId lease_timer_ = 0;  // 0: no lease is held
  bool ranks_stopped_ = false;          // since the lease has run out
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unordered_map<uint32_t, Rank*> by_number_;  // into ranks_, by the rank's number
  size_t output_in_flight_ = 0;                    // bytes of output sent and not acknowledged
  bool output_paused_ = false;
};

Agent::Rank* Agent::find(uint32_t rank) {
  const auto found = by_number_.find(rank);
  return found == by_number_.end() ? nullptr : found->second;
}

// What the launcher may send, and what follows. Other types are not the launcher's to send.
const Agent::FrameRow Agent::frame_table[] = {
    {FrameType::plan, &Agent::on_plan},
    {FrameType::signal_rank, &Agent::on_signal_rank},
    {FrameType::input, &Agent::on_input_frame},
    {FrameType::output_ack, &Agent::on_output_ack},
    {FrameType::stop, &Agent::on_stop},
    {FrameType::look, &Agent::on_look},
    {FrameType::looked, &Agent::on_looked},
    {FrameType::drain_told, &Agent::on_drain_told},
    {FrameType::lease, &Agent::on_lease},
    {FrameType::beat_back, &Agent::on_beat_back},
    {FrameType::welcome, &Agent::relay_to_ranks},
    {FrameType::value, &Agent::relay_to_ranks},
    {FrameType::fence_done, &Agent::relay_to_ranks},
    {FrameType::finish_done, &Agent::relay_to_ranks},
    {FrameType::rank_died, &Agent::relay_to_ranks},
    {FrameType::values, &Agent::relay_to_ranks},
    {FrameType::lowest_is, &Agent::relay_to_ranks},
    {FrameType::met, &Agent::relay_to_ranks},
    {FrameType::decided, &Agent::relay_to_ranks},
    {FrameType::leave, &Agent::relay_to_ranks},
    {FrameType::late_put, &Agent::relay_to_ranks},
    {FrameType::spares_wait, &Agent::relay_to_ranks},
};

void Agent::on_launcher(const Frame& frame) {
  const auto* const row = std::ranges::find(frame_table, frame.type, &FrameRow::type);
  if (row != std::end(frame_table)) (this->*row->handle)(frame);
}

void Agent::on_plan(const Frame& frame) {
  Plan plan;
  if (const Status status = decode(frame, &plan); !status.ok())
    return launcher_.send(
        FrameWriter(FrameType::not_started).u8(0).string(status.message()).finish());
  start(plan);
}

void Agent::on_signal_rank(const Frame& frame) {
  const auto signal = static_cast<int>(FrameReader(frame).u32());
  for (const auto& rank : ranks_) {
    if ((frame.rank != job::all_ranks && frame.rank != rank->rank) || rank->pid < 0) continue;
    (void)kill(-rank->pid, signal);
    // A stopped rank must wake to notice that it is to end.
    if (signal == SIGTERM) (void)kill(-rank->pid, SIGCONT);
  }
}

void Agent::on_input_frame(const Frame& frame) {
  FrameReader reader(frame);
  if (Rank* const rank = find(frame.rank)) on_input(*rank, reader.rest());
}

void Agent::on_output_ack(const Frame& frame) {
  output_in_flight_ -= std::min<size_t>(output_in_flight_, FrameReader(frame).u32());
  if (output_paused_ && output_in_flight_ < output_window) pause_output(false);
}

void Agent::on_lease(const Frame& frame) {
  lease_.begin(EventLoop::Clock::now(), LeaseLength(FrameReader(frame).u32()));
  loop_.cancel(std::exchange(lease_timer_, 0));
  // A launcher that stands still is not silent: its kernel takes what is sent.
  launcher_.end_after_silence(2 * lease_.length());
  stop_ranks(false);
  if (lease_.is_held()) keep_lease();
}

void Agent::on_beat_back(const Frame& frame) {
  lease_.answer(FrameReader(frame).u32());
  if (lease_.holds(EventLoop::Clock::now())) stop_ranks(false);
}

// Without a lease no rank runs: others may believe them dead. If the launcher only stood still,
// they continue with its answer. If they were declared dead, or it cannot be reached, the
// connection ends, and they with it.
void Agent::stop_ranks(bool stop) {
  if (ranks_stopped_ == stop) return;
  ranks_stopped_ = stop;
  for (const auto& rank : ranks_)
    if (rank->pid > 0 && kill(-rank->pid, stop ? SIGSTOP : SIGCONT) != 0 && errno != ESRCH && stop)
      return launcher_gone();  // it must not run, and cannot be stopped
}

void Agent::keep_lease() {
  // An answer may have come while this process did not run.
  if (!lease_.holds(EventLoop::Clock::now())) launcher_.drain();
  if (launcher_.ended()) return;  // and the ranks have
  const auto now = EventLoop::Clock::now();
  stop_ranks(!lease_.holds(now));
  launcher_.send(FrameWriter(FrameType::beat).u32(lease_.ask(now)).finish());
  lease_timer_ = loop_.after(lease_.pause(now), [this] { keep_lease(); });
}

void Agent::relay_to_ranks(const Frame& frame) {
  if (frame.rank != job::all_ranks) {
    if (Rank* rank = find(frame.rank)) relay(*rank, frame);
    return;
  }
  for (const auto& rank : ranks_) relay(*rank, frame);
}

void Agent::start(const Plan& plan) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  (void)sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &allowed)) cores.push_back(core);
  }
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    std::optional<int> core;
    if (plan.bind == Bind::core && !cores.empty()) core = cores[i % cores.size()];
    bool not_found = false;
    const Status status = start_rank(plan, plan.ranks[i], core, &not_found);
    if (status.ok()) continue;
    launcher_.send(FrameWriter(FrameType::not_started, plan.ranks[i].rank)
                       .u8(not_found)
                       .string(status.message())
                       .finish());
    break;
  }
  // Rank 0 has it now. If rank 0 closes it, the process that writes there should notice.
  if (plan.input == Input::inherit) {
    const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    (void)dup2(null.get(), STDIN_FILENO);
  }
}

Status Agent::start_rank(const Plan& plan, const PlannedRank& planned, std::optional<int> core,
                         bool* not_found) {
  int control[2], out[2], err[2], in[2] = {-1, -1};
  const auto no_descriptors = [&] {
    return error(Code::config, "cannot open pipes for rank ", planned.rank, ": ",
                 std::strerror(errno), " (see ulimit -n)");
  };
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) return no_descriptors();
  UniqueFd control_ours(control[0]), control_theirs(control[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return no_descriptors();
  UniqueFd out_ours(out[0]), out_theirs(out[1]);
  if (pipe2(err, O_CLOEXEC) != 0) return no_descriptors();
  UniqueFd err_ours(err[0]), err_theirs(err[1]);
  UniqueFd in_ours, in_theirs;
  ChildOptions child;
  if (planned.rank == 0 && plan.input == Input::piped) {
    if (pipe2(in, O_CLOEXEC) != 0) return no_descriptors();
    in_theirs.reset(in[0]);
    in_ours.reset(in[1]);
    (void)fcntl(in_ours.get(), F_SETFL, O_NONBLOCK);
    child.stdin_fd = in_theirs.get();
  } else if (planned.rank == 0 && plan.input == Input::inherit) {
    child.stdin_fd = STDIN_FILENO;
  } else {
    in_theirs.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    child.stdin_fd = in_theirs.get();
  }
  child.command = plan.command;
  child.environment = plan.environment;
  if (const std::string threads = thread_setting(plan, core.has_value()); !threads.empty())
    child.environment.push_back(threads);
  child.environment.push_back(concat("SKERRY_RANK=", planned.rank));
  child.environment.push_back(concat("SKERRY_SIZE=", plan.size));
  child.environment.push_back(concat("SKERRY_NODE=", planned.node));
  child.environment.push_back(concat("SKERRY_CONTROL_FD=", control_theirs.get()));
  child.directory = plan.directory;
  child.stdout_fd = out_theirs.get();
  child.stderr_fd = err_theirs.get();
  child.passed_fd = control_theirs.get();
  child.core = core;

  auto rank = std::make_unique<Rank>();
  rank->rank = planned.rank;
  SKERRY_TRY(start_child(child, &rank->pid, not_found));
  launcher_.send(
      FrameWriter(FrameType::started, rank->rank).u32(static_cast<uint32_t>(rank->pid)).finish());
  rank->out[0] = std::move(out_ours);
  rank->out[1] = std::move(err_ours);
  rank->input = std::move(in_ours);
  Rank* mine = rank.get();
  rank->control = std::make_unique<Link>(
      loop_, std::move(control_ours), job::max_control_payload,
      [this, mine](const Frame& frame) { on_control(*mine, frame); },
      [this, mine](const std::string& why) {
        process_gone(*mine, concat("left the launcher's connection (", why, ")"));
      });
  for (const int stream : {0, 1}) {
    (void)fcntl(rank->out[stream].get(), F_SETFL, O_NONBLOCK);
    if (!output_paused_) watch_output(*mine, stream);
  }
  by_number_[mine->rank] = mine;
  ranks_.push_back(std::move(rank));
  return {};
}

void Agent::on_control(Rank& rank, const Frame& frame) {
  const auto number = static_cast<uint16_t>(frame.type);
  if (number > static_cast<uint16_t>(FrameType::decide)) {
    launcher_.send(FrameWriter(FrameType::lost, rank.rank)
                       .string(concat("sent a ", to_string(frame.type), " frame"))
                       .finish());
    return;
  }
  if (frame.type == FrameType::hello) {
    rank.inside = true;
    rank.welcomed = false;
    FrameReader reader(frame);
    const auto pid = static_cast<pid_t>(reader.u32());
    // In a container its number is not ours: the end of the wrapper that we started has to do.
    watch_joined(rank, reader.u64() == own_namespace(Namespace::pid) ? pid : -1);
  }
  launcher_.send(FrameWriter(frame.type, rank.rank).bytes(frame.payload).finish());
}

// A rank's program may run under a shell or another wrapper, which would outlive it and hold the
// control connection open.
void Agent::watch_joined(Rank& rank, pid_t pid) {
  if (rank.joined_watch) loop_.forget(rank.joined_watch.get());
  rank.joined_watch.reset();
  rank.joined_pid = -1;
  if (pid == rank.pid || pid <= 0 || getpgid(pid) != rank.pid) return;
  rank.joined_watch.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!rank.joined_watch) return;
  rank.joined_pid = pid;
  loop_.watch(rank.joined_watch.get(), EPOLLIN, [this, &rank](uint32_t) {
    loop_.forget(rank.joined_watch.get());
    rank.joined_watch.reset();
    process_gone(rank, concat("lost the process ", rank.joined_pid, " that had joined the job"));
  });
}

void Agent::process_gone(Rank& rank, const std::string& how) {
  if (!rank.inside) return;
  // Usually the rank's own process has ended too, and how says more: wait for that before
  // reporting.
  loop_.after(exit_grace, [this, &rank, how] {
    if (rank.inside && rank.pid > 0)
      launcher_.send(FrameWriter(FrameType::lost, rank.rank).string(how).finish());
  });
}

void Agent::relay(Rank& rank, const Frame& frame) {
  if (!rank.control || rank.control->ended() || !rank.inside) return;
  rank.welcomed = rank.welcomed || frame.type == FrameType::welcome;
  if (!rank.welcomed) return;
  if (frame.type == FrameType::finish_done) rank.inside = false;
  if (frame.type != FrameType::welcome)
    return rank.control->send(FrameWriter(frame.type).bytes(frame.payload).finish());
  // The launcher sent the generation of the job in place of the key, which must not cross the
  // network.
  FrameReader reader(frame);
  const auto numbers = reader.bytes(6 * sizeof(uint32_t));  // see FrameType::welcome
  const uint32_t epoch = reader.u32();
  if (reader.ok())
    rank.control->send(
        FrameWriter(frame.type).bytes(numbers).bytes(epoch_key(key_, epoch)).finish());
}

void Agent::watch_output(Rank& rank, int stream) {
  loop_.watch(rank.out[stream].get(), EPOLLIN,
              [this, &rank, stream](uint32_t) { read_output(rank, stream, false); });
}

void Agent::read_output(Rank& rank, int stream, bool to_the_end) {
  UniqueFd& pipe = rank.out[stream];
  std::byte chunk[64 * 1024];
  // To the end of what is there now: a descendant that writes for ever must not hold us.
  int budget = 0;
  if (pipe && to_the_end) (void)ioctl(pipe.get(), FIONREAD, &budget);
  while (pipe && (to_the_end || !output_paused_)) {
    const ssize_t got = read(pipe.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      loop_.forget(pipe.get());
      pipe.reset();
      return;
    }
    const std::span data(chunk, static_cast<size_t>(got));
    launcher_.send(FrameWriter(FrameType::output, rank.rank)
                       .u8(static_cast<uint8_t>(stream + 1))
                       .bytes(data)
                       .finish());
    output_in_flight_ += data.size();
    if (output_in_flight_ >= output_window && !output_paused_) pause_output(true);
    budget -= static_cast<int>(got);
    if (!to_the_end || budget <= 0) return;  // one chunk at a time: the other ranks' turn
  }
}

void Agent::pause_output(bool pause) {
  output_paused_ = pause;
  for (const auto& rank : ranks_) {
    for (const int stream : {0, 1}) {
      if (!rank->out[stream]) continue;
      if (pause) {
        loop_.forget(rank->out[stream].get());
      } else {
        watch_output(*rank, stream);
      }
    }
  }
}

void Agent::on_input(Rank& rank, std::span<const std::byte> data) {
  rank.input_queue.append(reinterpret_cast<const char*>(data.data()), data.size());
  rank.input_ended = data.empty();
  feed(rank);
}

void Agent::feed(Rank& rank) {
  uint32_t taken = 0;
  bool full = false;
  while (rank.input && !rank.input_queue.empty() && !full) {
    const ssize_t got = write(rank.input.get(), rank.input_queue.data(), rank.input_queue.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      full = true;
    } else if (got < 0) {  // rank 0 reads no more
      loop_.forget(rank.input.get());
      rank.input.reset();
    } else {
      rank.input_queue.erase(0, static_cast<size_t>(got));
      taken += static_cast<uint32_t>(got);
    }
  }
  if (!rank.input) {
    taken += static_cast<uint32_t>(rank.input_queue.size());
    rank.input_queue.clear();
  }
  if (taken > 0) launcher_.send(FrameWriter(FrameType::input_ack).u32(taken).finish());
  if (!rank.input) return;
  loop_.forget(rank.input.get());
  if (full) {
    loop_.watch(rank.input.get(), EPOLLOUT, [this, &rank](uint32_t) { feed(rank); });
  } else if (rank.input_ended) {
    rank.input.reset();
  }
}

void Agent::on_signals() {
  // A terminal's signals are the launcher's to pass on; only a request to end is ours.
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGTERM) return launcher_gone();
  }
  // Of those that ended together, the ones that a signal killed come first. Others may have ended
  // because of them, and the first that the ranks hear of is what they are told.
  std::vector<std::pair<pid_t, int>> ended;
  for (int status; true;) {
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) break;
    ended.emplace_back(pid, status);
  }
  std::ranges::stable_partition(ended, [](const auto& each) { return WIFSIGNALED(each.second); });
  for (const auto& [pid, status] : ended) reaped(pid, status);
}

void Agent::on_lifeline() {
  char ignored[256];
  const ssize_t got = read(lifeline_.get(), ignored, sizeof ignored);
  if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) return;
  launcher_gone();
}

void Agent::reaped(pid_t pid, int status) {
  for (const auto& rank : ranks_) {
    if (rank->pid != pid) continue;
    rank->pid = -1;
    // Its last words come before its end.
    if (rank->control && !rank->control->ended()) rank->control->drain();
    for (const int stream : {0, 1}) read_output(*rank, stream, true);
    launcher_.send(
        FrameWriter(FrameType::exited, rank->rank).u32(static_cast<uint32_t>(status)).finish());
    rank->inside = false;
    return;
  }
  // Otherwise an orphan of a rank that we adopted.
}

void Agent::stop() {
  kill_descendants({}, [this](pid_t pid, int status) { reaped(pid, status); });
  for (const auto& rank : ranks_) {
    for (const int stream : {0, 1}) read_output(*rank, stream, true);
  }
  launcher_.send(FrameWriter(FrameType::stopped).finish());
  // The launcher closes the connection once it has read all this: launcher_gone() ends us.
}

void Agent::launcher_gone() {
  kill_descendants({}, [](pid_t, int) {});
  loop_.stop(0);
}

}  // namespace

int run_agent(UniqueFd launcher, UniqueFd lifeline, const Key& key) {
  Agent agent(std::move(launcher), std::move(lifeline), key);
  return agent.run();
}

}  // namespace skerry::launcher
