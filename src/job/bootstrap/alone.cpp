#include "job/bootstrap/alone.hpp"

#include <unistd.h>

#include <cstdio>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {

Status AloneBootstrap::put(std::string_view key, std::span<const std::byte> value) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(check_value(value));
  values_[std::string(key)].assign(value.begin(), value.end());
  return {};
}

Status AloneBootstrap::get(int rank, std::string_view key, std::vector<std::byte>* value) {
  const auto found = values_.find(key);
  if (rank != 0 || found == values_.end()) {
    return nothing_put(rank, key);
  }
  *value = found->second;
  return {};
}

void AloneBootstrap::abort(int exit_status, std::string_view message) {
  std::fprintf(stderr, "skerry: rank 0 ended the job: %.*s\n", static_cast<int>(message.size()),
               message.data());
  std::fflush(nullptr);
  _exit(exit_status);
}

}  // namespace skerry::job
