#include "fabric/ofi/library.hpp"

#include <dlfcn.h>

namespace skerry::fabric::ofi {
namespace {

// By version, not just by name: fi_info grew over the years, and the versions below are those whose
// layout the headers of 1.17 describe.
struct Loaded {
  Library library;
  std::string failure;  // empty: all found
  Loaded() {
    void* handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      failure = concat("libfabric cannot be loaded: ", dlerror(),
                       "; install libfabric1, or set SKERRY_FABRIC=tcp");
      return;
    }
    find(handle, "fi_getinfo", "FABRIC_1.3", &library.getinfo);
    find(handle, "fi_freeinfo", "FABRIC_1.3", &library.freeinfo);
    find(handle, "fi_dupinfo", "FABRIC_1.3", &library.dupinfo);
    find(handle, "fi_fabric", "FABRIC_1.1", &library.fabric);
    find(handle, "fi_strerror", "FABRIC_1.0", &library.strerror);
  }
  template <class Function>
  void find(void* handle, const char* name, const char* version, Function* function) {
    *function = reinterpret_cast<Function>(dlvsym(handle, name, version));
    if (*function == nullptr && failure.empty()) {
      failure = concat("libfabric has no ", name, " of version ", version,
                       ": it is older than 1.3 or not libfabric; set SKERRY_FABRIC=tcp");
    }
  }
};

}  // namespace

Status load(const Library** library) {
  static const Loaded loaded;
  if (!loaded.failure.empty()) return Status(Code::unsupported, loaded.failure);
  *library = &loaded.library;
  return {};
}

}  // namespace skerry::fabric::ofi
