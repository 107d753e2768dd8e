// Which Linux namespaces this process is in. Processes in different ones do not mean the same by a
// process number, a network address or the name of a socket.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace skerry {

enum class Namespace : uint8_t { pid, net, ipc };

// Equal on two processes of one host in the same namespace. 0: the system does not say.
inline uint64_t own_namespace(Namespace kind) {
  const auto path = [&] {
    switch (kind) {
      case Namespace::pid: return "/proc/self/ns/pid";
      case Namespace::net: return "/proc/self/ns/net";
      case Namespace::ipc: return "/proc/self/ns/ipc";
    }
    return "";
  };
  struct stat info {};
  return stat(path(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace skerry
