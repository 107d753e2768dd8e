// Starting a job: one agent per host, then its plan.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/pure/assert.hpp"
#include "launcher/agent.hpp"
#include "launcher/child.hpp"
#include "launcher/describe.hpp"
#include "launcher/job.hpp"

extern char** environ;

namespace skerry::launcher {

using job::FrameType;
using job::FrameWriter;

namespace {

constexpr size_t input_window_bytes = 64 * 1024;

const std::vector<int> handled_signals = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                          SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == own_host_name();
}

// As the shell of another host should read it: unchanged.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "skerry";
}

}  // namespace

Job::Job(RunOptions options, Placement placement)
    : options_(std::move(options)),
      placement_(std::move(placement)),
      from_start_(static_cast<uint32_t>(placement_.ranks - placement_.late)),
      key_(random_key()),
      // A reader that has gone (`| head`) wants no more: the job ends as a program would that
      // SIGPIPE kills.
      output_(
          loop_, options_.prefix, [this] { begin_ending(128 + SIGPIPE); },
          [this] {
            acknowledge_output();
            check_end();
          }),
      reception_(
          loop_, key_,
          [this](uint32_t agent, UniqueFd socket) { agent_connected(agent, std::move(socket)); }),
      exchange_(static_cast<uint32_t>(placement_.ranks), static_cast<uint32_t>(placement_.late)),
      meetings_(static_cast<uint32_t>(placement_.ranks), static_cast<uint32_t>(options_.spares),
                static_cast<uint32_t>(placement_.late)),
      ranks_(static_cast<size_t>(placement_.ranks)),
      living_ranks_(from_start_) {
  for (const auto& host : placement_.hosts) {
    for (const auto& planned : host.ranks) {
      ranks_[planned.rank].agent = static_cast<uint32_t>(agents_.size());
      ranks_[planned.rank].node = planned.node;
    }
    agents_.emplace_back();
    agents_.back().host = host;
    agents_.back().local = options_.hosts.empty() || is_this_machine(host.host);
    listed_.insert(host.host);
  }
  for (uint32_t rank = from_start_; rank < ranks_.size(); ++rank) {
    ranks_[rank].ended = true;  // nothing is expected from it
    if ((rank - from_start_) % static_cast<uint32_t>(placement_.late_per_node) == 0)
      free_nodes_.insert(rank);
  }
}

Job::~Job() = default;

int Job::run() {
  signals_.reset(blocked_signals_fd(handled_signals));
  loop_.watch(signals_.get(), EPOLLIN, [this](uint32_t) { on_signals(); });
  adopt_orphans();
  if (!start_agents()) {
    finish_processes();
    return result_;
  }
  if (options_.timeout_s > 0) {
    loop_.after(std::chrono::seconds(options_.timeout_s), [this] {
      if (ending_) return;
      output_.say(
          concat("the job ran longer than --timeout ", options_.timeout_s, " s; ending it"));
      begin_ending(124);
    });
  }
  const int result = loop_.run();
  finish_processes();
  return result;
}

void Job::choose_input() {
  struct stat status;
  if (fstat(STDIN_FILENO, &status) != 0) return;
  // A terminal goes through us: rank 0, in a process group of its own, would be stopped when it
  // reads. Everything else a local rank 0 gets as it is, so that we take no byte from a pipe that
  // the rank does not read.
  input_ = agents_[ranks_[0].agent].local && isatty(STDIN_FILENO) != 1 ? Input::inherit
                                                                       : Input::piped;
}

bool Job::start_agents() {
  choose_input();
  bool remote = !options_.elastic.empty();
  for (uint32_t number = 0; number < agents_.size(); ++number) {
    // Before anything else is opened: the forked agent must not hold our sockets.
    if (agents_[number].local) start_local_agent(number);
    remote = remote || !agents_[number].local;
  }
  if (input_ == Input::inherit) {
    const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    (void)dup2(null.get(), STDIN_FILENO);
  }
  if (!remote) return true;
  if (const Status status = reception_.open(options_.interface); !status.ok()) {
    output_.say(status.message());
    result_ = 1;
    return false;
  }
  for (uint32_t number = 0; number < agents_.size(); ++number) {
    if (agents_[number].local) continue;
    if (const Status status = start_remote_agent(number); !status.ok()) {
      output_.say(concat("host ", agents_[number].host.host, ": ", status.message()));
      result_ = 1;
      return false;
    }
  }
  if (!options_.elastic.empty()) watch_elastic();
  loop_.after(std::chrono::seconds(options_.start_timeout_s), [this] { start_limit_passed(); });
  return true;
}

void Job::start_local_agent(uint32_t number) {
  int ends[2];
  SKERRY_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
                "a socket pair can be made");
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t pid = fork();
  SKERRY_ASSERT(pid >= 0, "a process can be created");
  if (pid == 0) {
    // Its own group: a terminal's Ctrl-C must reach the ranks once, through us.
    (void)setpgid(0, 0);
    ours.reset();
    _exit(run_agent(std::move(theirs), UniqueFd(), key_));
  }
  agents_[number].process = pid;
  theirs.reset();
  attach(number, std::move(ours));
}

Status Job::start_remote_agent(uint32_t number) {
  auto& agent = agents_[number];
  int ends[2];
  SKERRY_ASSERT(pipe2(ends, O_CLOEXEC) == 0, "a pipe can be made");
  UniqueFd theirs(ends[0]), ours(ends[1]);
  const std::string program = options_.remote_program.empty() ? own_program()
                                                              : options_.remote_program;
  ChildOptions child;
  // --agent may carry options of its own: the shell splits it.
  child.command = {"/bin/sh",
                   "-c",
                   concat("exec ", options_.agent, " \"$@\""),
                   "sh",
                   agent.host.host,
                   quoted(program) + " agent"};
  child.stdin_fd = theirs.get();
  child.stdout_fd = STDERR_FILENO;
  bool not_found = false;
  SKERRY_TRY(start_child(child, &agent.process, &not_found));
  FrameWriter invitation(FrameType::invitation);
  invitation.u32(number)
      .bytes(key_)
      .u32(reception_.port())
      .u32(static_cast<uint32_t>(reception_.addresses().size()));
  for (const auto& address : reception_.addresses()) invitation.string(address);
  const auto frame = invitation.finish();
  // Fits into a pipe, so this cannot block. If the command is gone already, its end is reported.
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)!write(ours.get(), frame.data(), frame.size());
  agent.lifeline = std::move(ours);
  return {};
}

void Job::agent_connected(uint32_t number, UniqueFd socket) {
  // An agent connects once; a second connection that knows the key could only be a mistake of ours.
  if (number >= agents_.size() || agents_[number].local || agents_[number].link ||
      agents_[number].gone || stopping_)
    return;
  attach(number, std::move(socket));
}

void Job::start_limit_passed() {
  for (auto& agent : agents_) {
    if (agent.link || agent.gone || agent.is_late || ending_) continue;
    output_.say(concat("no agent from host ", agent.host.host, " within ", options_.start_timeout_s,
                       " s; try `", options_.agent, " ", agent.host.host,
                       " true`, see --agent, --interface and --start-timeout; ending the job"));
    begin_ending(1);
  }
}

void Job::attach(uint32_t number, UniqueFd socket) {
  auto& agent = agents_[number];
  agent.link = std::make_unique<Link>(
      loop_, std::move(socket), job::max_link_payload,
      [this, number](const job::Frame& frame) { on_frame(number, frame); },
      [this, number](const std::string& why) { on_agent_end(number, why); });
  if (ending_) return stop_agents();
  agent.link->send(encode(plan_for(agent)));
  if (agent.is_late && lease_timer_ != 0) lease_to(agent, true);
  if (input_ == Input::piped && ranks_[0].agent == number) {
    input_window_ = input_window_bytes;
    pump_input();
  }
}

Plan Job::plan_for(const Agent& agent) const {
  Plan plan;
  plan.size = static_cast<uint32_t>(placement_.ranks);
  plan.nodes = static_cast<uint32_t>(placement_.nodes);
  plan.input = input_;
  plan.bind = options_.bind;
  plan.command = options_.command;
  plan.ranks = agent.host.ranks;
  if (!agent.local) {
    char directory[PATH_MAX];
    if (getcwd(directory, sizeof directory) != nullptr) plan.directory = directory;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      if (text.rfind("SKERRY_", 0) == 0 && text.rfind("SKERRY_CONTROL_FD=", 0) != 0)
        plan.environment.push_back(text);
    }
  }
  for (const auto& wanted : options_.environment) {
    if (wanted.find('=') != std::string::npos) {
      plan.environment.push_back(wanted);
    } else if (const char* value = std::getenv(wanted.c_str())) {
      plan.environment.push_back(concat(wanted, "=", value));
    }
  }
  return plan;
}

}  // namespace skerry::launcher
