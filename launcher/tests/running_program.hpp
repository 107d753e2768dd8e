// A program under test: its output can be waited for, it can be signalled, and nothing it starts is
// forgotten.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "launcher/unique_fd.hpp"

namespace skerry::launcher {

class RunningProgram {
 public:
  struct Options {
    std::map<std::string, std::string> environment;
    bool own_group = false;     // a process group of its own
    bool close_output = false;  // nobody reads its standard output
  };
  explicit RunningProgram(std::vector<std::string> command)
      : RunningProgram(std::move(command), Options()) {}
  RunningProgram(std::vector<std::string> command, const Options& options);
  ~RunningProgram();

  void write(const std::string& text);
  void close_input() { input_.reset(); }
  // Reads until the output so far contains `text`; false at its end or after a generous limit.
  bool wait_for(const std::string& text) { return read_until(1, text); }
  bool wait_for_error(const std::string& text) { return read_until(2, text); }
  // The number after `word` in the output, e.g. "pid 17".
  pid_t number_after(const std::string& word) const;
  void signal(int number) const;
  pid_t pid() const { return pid_; }

  // Closes the input, reads everything, waits. Returns the exit status (128 + signal), or -1 after
  // the limit.
  int finish();
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  bool read_some(int limit_ms);
  bool read_until(int stream, const std::string& text);
  pid_t pid_ = -1;  // -1: reaped
  UniqueFd input_, out_pipe_, err_pipe_;
  std::string out_, err_;
};

// Runs `command` to its end.
struct Ended {
  int status;
  std::string out, err;
};
Ended run_program(std::vector<std::string> command, const std::string& input = "");

// Waits until the process has gone (or is a zombie of somebody else); false after a generous limit.
bool wait_gone(pid_t pid);
// Waits until /proc shows the process in `state` ('T' stopped, 'S' asleep...).
bool wait_state(pid_t pid, char state);

// Where the programs under test are.
std::string program(const std::string& name);

}  // namespace skerry::launcher
