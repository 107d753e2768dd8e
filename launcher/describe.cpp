#include "launcher/describe.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "core/pure/status.hpp"

namespace skerry::launcher {

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? concat("SIG", name) : concat("signal ", signal);
}

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return concat("exited with status ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return concat("was killed by signal ", signal, " (", signal_name(signal),
                WCOREDUMP(wait_status) ? ", core dumped)" : ")");
}

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string own_host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  return name;
}

}  // namespace skerry::launcher
