#include "job/host.hpp"

#include <sodium.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "core/namespaces.hpp"

namespace skerry::job {
namespace {

HostIdentity hash(std::string_view text) {
  HostIdentity identity{};
  crypto_generichash(reinterpret_cast<unsigned char*>(identity.data()), identity.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return identity;
}

}  // namespace

Status find_host(std::optional<int> node_hint, HostIdentity* identity, uint64_t* machine) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const std::string boot = boot_id();
  const HostIdentity whole = hash(boot.empty() ? name : boot);
  std::memcpy(machine, whole.data(), sizeof *machine);
  std::string text = concat(boot, "|", static_cast<const char*>(name), "|",
                            static_cast<int64_t>(getuid()));
  for (const Namespace kind : {Namespace::net, Namespace::ipc, Namespace::pid}) {
    const uint64_t inode = own_namespace(kind);
    // Two ranks that take each other's process number for their own write to the wrong memory.
    if (inode == 0 && kind == Namespace::pid)
      return error(Code::config,
                   "/proc/self/ns/pid does not say in which PID namespace this process is: "
                   "mount a /proc of this container's own (unshare --mount-proc)");
    text += concat("|", inode);
  }
  text += concat("|", node_hint.value_or(-1));
  *identity = hash(text);
  return {};
}

}  // namespace skerry::job
