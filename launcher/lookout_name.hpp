// The UNIX socket by which readers on a host reach the agent of a job (lookout.hpp).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "core/pure/status.hpp"

namespace skerry::launcher {

// Of the agent with this process id; returns its length. Abstract: it begins with a zero byte, and
// no file is made.
inline socklen_t lookout_address(pid_t agent, sockaddr_un* address) {
  const std::string name = concat("skerry-agent-", agent);
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace skerry::launcher
