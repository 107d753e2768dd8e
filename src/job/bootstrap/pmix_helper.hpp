// A process that speaks PMIx in a rank's name, so that PMIx is not initialised in the rank itself
// (pmix_client.cpp says why). It ends with finish(), or when the rank's process has gone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

class PmixLibrary;

class PmixHelper {
 public:
  PmixHelper() = default;
  PmixHelper(PmixHelper&& other) noexcept;
  PmixHelper& operator=(PmixHelper&& other) noexcept;
  ~PmixHelper();

  // `library` is loaded and not initialised. Blocks until the helper has joined. Errors: network.
  static Status start(PmixLibrary* library, PmixHelper* helper, bool* reachable, int* rank,
                      int* size);

  // As the library's. Errors: network (also: the helper has gone).
  Status put(const std::string& key, std::span<const std::byte> value);
  Status get(int rank, const std::string& key, std::vector<std::byte>* value);
  Status fence();
  Status finish();
  void abort(int exit_status);

 private:
  Status ask(std::vector<std::byte> question, std::vector<std::byte>* answer);
  int socket_ = -1;  // -1: none, or finished
};

}  // namespace skerry::job
