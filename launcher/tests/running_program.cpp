#include "launcher/tests/running_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace skerry::launcher {
namespace {

constexpr auto limit = std::chrono::seconds(
    30);  // far beyond what anything here takes: reaching it is a failure

using Clock = std::chrono::steady_clock;
int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now())
                        .count();
  return static_cast<int>(left > 0 ? left : 0);
}

void make_pipe(UniqueFd* read_end, UniqueFd* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  read_end->reset(ends[0]);
  write_end->reset(ends[1]);
}

}  // namespace

RunningProgram::RunningProgram(std::vector<std::string> command, const Options& options) {
  UniqueFd in, out, err;
  make_pipe(&in, &input_);
  make_pipe(&out_pipe_, &out);
  make_pipe(&err_pipe_, &err);
  std::vector<char*> arguments;
  for (auto& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    if (options.own_group) (void)setpgid(0, 0);
    (void)dup2(in.get(), STDIN_FILENO);
    (void)dup2(out.get(), STDOUT_FILENO);
    (void)dup2(err.get(), STDERR_FILENO);
    for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  if (options.close_output) out_pipe_.reset();
  (void)std::signal(SIGPIPE, SIG_IGN);
}

RunningProgram::~RunningProgram() {
  if (pid_ < 0) return;
  (void)kill(pid_, SIGKILL);
  (void)waitpid(pid_, nullptr, 0);
}

void RunningProgram::write(const std::string& text) {
  (void)!::write(input_.get(), text.data(), text.size());
}

bool RunningProgram::read_some(int limit_ms) {
  pollfd ready[2] = {{out_pipe_.get(), POLLIN, 0}, {err_pipe_.get(), POLLIN, 0}};
  if (!out_pipe_ && !err_pipe_) return false;
  if (poll(ready, 2, limit_ms) <= 0) return false;
  for (const int stream : {0, 1}) {
    if (ready[stream].revents == 0) continue;
    UniqueFd& pipe = stream == 0 ? out_pipe_ : err_pipe_;
    char chunk[65536];
    const ssize_t got = read(pipe.get(), chunk, sizeof chunk);
    if (got > 0) {
      (stream == 0 ? out_ : err_).append(chunk, static_cast<size_t>(got));
    } else {
      pipe.reset();
    }
  }
  return true;
}

bool RunningProgram::read_until(int stream, const std::string& text) {
  const auto deadline = Clock::now() + limit;
  const std::string& where = stream == 1 ? out_ : err_;
  while (where.find(text) == std::string::npos) {
    if (!read_some(left_ms(deadline))) return false;
  }
  return true;
}

pid_t RunningProgram::number_after(const std::string& word) const {
  const size_t at = out_.find(word);
  return at == std::string::npos ? -1
                                 : static_cast<pid_t>(std::atoi(out_.c_str() + at + word.size()));
}

void RunningProgram::signal(int number) const { (void)kill(pid_, number); }

int RunningProgram::finish() {
  close_input();
  const auto deadline = Clock::now() + limit;
  while ((out_pipe_ || err_pipe_) && read_some(left_ms(deadline))) {
  }
  const UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd ended{watch.get(), POLLIN, 0};
  if (poll(&ended, 1, left_ms(deadline)) != 1) return -1;
  int status = 0;
  (void)waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Ended run_program(std::vector<std::string> command, const std::string& input) {
  RunningProgram running(std::move(command));
  running.write(input);
  const int status = running.finish();
  return {status, running.out(), running.err()};
}

bool wait_gone(pid_t pid) {
  const UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!watch) return true;
  pollfd ended{watch.get(), POLLIN, 0};
  return poll(&ended, 1, left_ms(Clock::now() + limit)) == 1;
}

bool wait_state(pid_t pid, char state) {
  const auto deadline = Clock::now() + limit;
  while (Clock::now() < deadline) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] == state)
      return true;
    (void)poll(nullptr, 0, 2);  // the kernel offers nothing to wait on
  }
  return false;
}

std::string program(const std::string& name) {
  return std::string(SKERRY_PROGRAM_DIRECTORY) + "/" + name;
}

}  // namespace skerry::launcher
