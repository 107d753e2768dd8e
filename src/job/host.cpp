#include "job/host.hpp"

#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace skerry::job {

Status host_identity(std::optional<int> node_hint, HostIdentity* identity) {
  std::string text;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::getline(boot, text);
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  text += concat("|", static_cast<const char*>(name), "|", static_cast<int64_t>(getuid()));
  for (const char* path : {"/proc/self/ns/net", "/proc/self/ns/ipc"}) {
    struct stat info{};
    if (stat(path, &info) == 0) text += concat("|", static_cast<uint64_t>(info.st_ino));
  }
  text += concat("|", node_hint.value_or(-1));
  if (crypto_generichash(reinterpret_cast<unsigned char*>(identity->data()), identity->size(),
                         reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr,
                         0) != 0)
    return error(Code::internal, "hashing the host's identity failed");
  return {};
}

}  // namespace skerry::job
