// Which machine this process runs on, and which Linux namespaces it is in. Processes in different
// ones do not mean the same by a process number, a network address or the name of a socket.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace skerry {

// Until the machine starts anew the same for all its processes, in containers too: hexadecimal
// digits with dashes between. Empty where /proc does not say.
inline std::string boot_id() {
  char text[40] = {};
  if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (std::fscanf(file, "%39s", text) != 1) text[0] = 0;
    std::fclose(file);
  }
  return text;
}

enum class Namespace : uint8_t { pid, net, ipc };

// Equal on two processes of one host in the same namespace. 0: the system does not say.
inline uint64_t own_namespace(Namespace kind) {
  constexpr const char* paths[] = {"/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/ipc"};
  struct stat info {};
  return stat(paths[static_cast<int>(kind)], &info) == 0 ? info.st_ino : 0;
}

}  // namespace skerry
