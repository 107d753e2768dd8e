// Bytes as SKERRY_SERVER_BUDGET takes them: 64M, 160K, 1000.
#pragma once

#include <cstdint>
#include <string>

namespace skerry {

inline std::string bytes_name(uint64_t bytes) {
  constexpr uint64_t kib = 1024, mib = 1024 * kib;
  if (bytes == 0 || bytes % kib != 0) return std::to_string(bytes);
  return bytes % mib == 0 ? std::to_string(bytes / mib) + "M" : std::to_string(bytes / kib) + "K";
}

}  // namespace skerry
