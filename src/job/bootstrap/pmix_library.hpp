// The PMIx library: found at run time, and the few calls that Skerry makes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

// The part of the PMIx 3 to 6 binary interface that we use, as its standard fixes it.
struct PmixProc {
  char name_space[256];
  uint32_t rank;
};
struct PmixValue {
  uint16_t type;
  union {
    bool flag;
    uint32_t uint32;
    struct {
      char* bytes;
      size_t size;
    } object;
    struct {  // the largest member of the real union
      char* envar;
      char* value;
      char separator;
    } variable;
  } data;
};
struct PmixInfo {
  char key[512];
  uint32_t flags;
  PmixValue value;
};
static_assert(sizeof(PmixProc) == 260 && sizeof(PmixValue) == 32 && sizeof(PmixInfo) == 552);

// Who this process is to the launcher.
struct PmixPlace {
  int32_t reachable;  // 0: no launcher stands behind the variables
  int32_t rank, size;
};

class PmixLibrary {
 public:
  // Prefers the library that is already in this process (an MPI brought it), then the launcher's
  // own, whose wire format certainly fits. Errors: config (none found).
  Status load();
  int major_version() const;

  Status init(PmixPlace* place);
  Status put(const std::string& key, std::span<const std::byte> value);
  Status get(int rank, const std::string& key, std::vector<std::byte>* value);
  Status fence();
  void finalize() { (void)finalize_(nullptr, 0); }
  void abort(int exit_status) { (void)abort_(exit_status, "", nullptr, 0); }

 private:
  Status check(int result, std::string_view what) const;

  PmixProc self_{};
  int (*init_)(PmixProc*, PmixInfo*, size_t) = nullptr;
  int (*finalize_)(const PmixInfo*, size_t) = nullptr;
  int (*put_)(uint8_t scope, const char* key, PmixValue*) = nullptr;
  int (*commit_)() = nullptr;
  int (*fence_)(const PmixProc*, size_t, const PmixInfo*, size_t) = nullptr;
  int (*get_)(const PmixProc*, const char* key, const PmixInfo*, size_t, PmixValue**) = nullptr;
  int (*abort_)(int status, const char* message, PmixProc*, size_t) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  const char* (*get_version_)() = nullptr;
};

}  // namespace skerry::job
