// memcpy, also of no bytes from or to a null pointer, which the language forbids.
#pragma once

#include <cstdint>
#include <cstring>

namespace skerry {

inline void copy_bytes(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace skerry
