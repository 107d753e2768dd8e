// Words for what became of a process.
#pragma once

#include <string>

namespace skerry::launcher {

std::string signal_name(int signal);  // "SIGKILL", or "signal 77"
std::string describe_end(
    int wait_status);                 // "was killed by signal 9 (SIGKILL)", "exited with status 3"
int exit_status_of(int wait_status);  // the status, or 128 + signal
std::string own_host_name();          // never empty

}  // namespace skerry::launcher
