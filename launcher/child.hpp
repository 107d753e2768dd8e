// Starting a process, and ending everything that descends from us.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::launcher {

struct ChildOptions {
  std::vector<std::string> command;                   // searched in PATH
  std::vector<std::string> environment;               // "NAME=VALUE", over ours
  std::string directory;                              // empty: ours
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;  // -1: ours
  int passed_fd = -1;       // kept open across exec under its own number; -1: none
  std::optional<int> core;  // to be bound to
  bool own_group = true;    // its own process group, so that a terminal's signals reach it only
                            // through us
};

// The child is killed by the kernel when the calling process ends. Errors: config; *not_found tells
// a missing program from other failures.
Status start_child(const ChildOptions& options, pid_t* pid, bool* not_found);

// From now on orphaned descendants become our children.
void adopt_orphans();
// Pids of our living or unreaped children.
std::vector<pid_t> own_children();
// Kills (SIGKILL) and reaps every descendant of ours but `spared` until none is left. Descendants
// that cannot die (kernel waits) are given up after a few seconds. Calls reaped(pid, wait status).
void kill_descendants(const std::vector<pid_t>& spared,
                      const std::function<void(pid_t, int)>& reaped);

// SIGCHLD and whatever the launcher forwards are blocked in launcher and agents and read from a
// signalfd; children get a clean mask.
int blocked_signals_fd(const std::vector<int>& signals);

}  // namespace skerry::launcher
