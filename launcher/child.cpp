#include "launcher/child.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "core/pure/assert.hpp"
#include "launcher/unique_fd.hpp"

namespace skerry::launcher {
namespace {

enum class Step : int { directory, program };
struct ChildFailure {
  Step step;
  int error;
};

[[noreturn]] void report_and_exit(int fd, Step step) {
  const ChildFailure failure{step, errno};
  (void)!write(fd, &failure, sizeof failure);
  _exit(127);
}

// dup2 clears close-on-exec, except onto itself.
void place(int from, int to) {
  if (from < 0) return;
  if (from == to) {
    (void)fcntl(to, F_SETFD, 0);
  } else {
    (void)dup2(from, to);
  }
}

[[noreturn]] void become(const ChildOptions& options, char* const* arguments, pid_t parent,
                         int report_fd) {
  if (options.own_group) (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before we asked to be told
  place(options.stdin_fd, STDIN_FILENO);
  place(options.stdout_fd, STDOUT_FILENO);
  place(options.stderr_fd, STDERR_FILENO);
  if (options.passed_fd >= 0) (void)fcntl(options.passed_fd, F_SETFD, 0);
  if (options.core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(*options.core), &set);
    (void)sched_setaffinity(0, sizeof set, &set);
  }
  for (const auto& variable : options.environment) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0)
    report_and_exit(report_fd, Step::directory);
  // Ignored signals survive exec; the blocked ones would, too.
  (void)std::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments);
  report_and_exit(report_fd, Step::program);
}

// The field after the command name in /proc/PID/stat that holds the parent, or -1.
pid_t parent_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  const size_t name_end = text.rfind(')');
  int parent = -1;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1, " %*c %d", &parent) != 1)
    return -1;
  return parent;
}

}  // namespace

Status start_child(const ChildOptions& options, pid_t* pid, bool* not_found) {
  *not_found = false;
  std::vector<char*> arguments;
  for (const auto& word : options.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return error(Code::config, "no pipe for a new process: ", std::strerror(errno));
  UniqueFd read_end(report[0]), write_end(report[1]);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return error(Code::config, "cannot create a process: ", std::strerror(errno),
                 " (see ulimit -u and the cgroup's pids.max)");
  }
  if (child == 0) become(options, arguments.data(), parent, write_end.get());
  if (options.own_group)
    (void)setpgid(child, child);  // the child does it too: the first of both counts
  write_end.reset();
  ChildFailure failure{};
  ssize_t got = 0;
  while ((got = read(read_end.get(), &failure, sizeof failure)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof failure)) {
    *pid = child;
    return {};
  }
  (void)waitpid(child, nullptr, 0);
  *not_found = failure.step == Step::program;
  if (failure.step == Step::directory) {
    return error(Code::config, "cannot change to directory \"", options.directory,
                 "\": ", std::strerror(failure.error));
  }
  const std::string& program = options.command[0];
  const bool here = failure.error == ENOENT && program.find('/') == std::string::npos &&
                    access((options.directory.empty() ? program : options.directory + "/" + program)
                               .c_str(),
                           X_OK) == 0;
  return error(Code::config, "cannot start \"", program, "\": ", std::strerror(failure.error),
               here ? "; did you mean ./" + program + "?" : "");
}

void adopt_orphans() { (void)prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  const std::string self = std::to_string(getpid());
  if (std::ifstream list("/proc/self/task/" + self + "/children"); list) {
    for (pid_t child; list >> child;) children.push_back(child);
    return children;
  }
  std::error_code problem;  // a process that ends while we look is no problem
  for (const auto& entry : std::filesystem::directory_iterator("/proc", problem)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos && parent_of(name) == getpid()) {
      children.push_back(static_cast<pid_t>(std::atol(name.c_str())));
    }
  }
  return children;
}

void kill_descendants(const std::vector<pid_t>& spared,
                      const std::function<void(pid_t, int)>& reaped) {
  // Killing a child hands us its children (adopt_orphans), so this ends when the last generation
  // has gone. A process that forks while we look is found in the next round.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < deadline) {
    bool any = false;
    for (const pid_t child : own_children()) {
      if (std::find(spared.begin(), spared.end(), child) != spared.end()) continue;
      any = true;
      if (getpgid(child) == child) (void)kill(-child, SIGKILL);
      (void)kill(child, SIGKILL);
    }
    if (!any) return;
    // Sleeps until a child has ended (SIGCHLD is blocked) or a little while has passed.
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    const timespec pause{0, 20'000'000};
    bool progress = false;
    for (int status; true;) {
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) break;
      progress = true;
      reaped(pid, status);
    }
    if (!progress) (void)sigtimedwait(&child_signal, nullptr, &pause);
  }
}

int blocked_signals_fd(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  // Reading a terminal from the background then is an error instead of a stop.
  sigset_t terminal;
  sigemptyset(&terminal);
  sigaddset(&terminal, SIGTTIN);
  sigaddset(&terminal, SIGTTOU);
  sigprocmask(SIG_BLOCK, &terminal, nullptr);
  const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  SKERRY_ASSERT(fd >= 0, "signalfd works");
  return fd;
}

}  // namespace skerry::launcher
