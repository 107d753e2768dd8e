// The name of the UNIX socket by which readers on a host reach the agent of a job (lookout.hpp).
#pragma once

#include <sys/types.h>

#include <string>

#include "core/pure/status.hpp"

namespace skerry::launcher {

// Of the agent with this process id. Abstract: it begins with a zero byte, and no file is made.
inline std::string lookout_name(pid_t agent) {
  return concat(std::string(1, '\0'), "skerry-agent-", agent);
}

}  // namespace skerry::launcher
