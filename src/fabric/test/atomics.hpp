// Atomics of an adapter on one 8-byte word of registered memory, for the lock machines of
// lab/locks: the product's fabrics have none. In the byte order of the processors; the word's
// address is a multiple of 8.
#pragma once

#include "fabric/fabric.hpp"

namespace skerry::fabric::test {

// Adds `value`, or stores it if the word is `expected`.
struct AtomicCall {
  bool compares = false;
  RemoteKey key;
  uint64_t offset = 0;
  uint64_t value = 0;
  uint64_t expected = 0;       // compares only
  uint64_t* before = nullptr;  // what was there; valid until the end is told
  uint64_t cookie = 0;
};

class HasAtomics {
 public:
  virtual ~HasAtomics() = default;
  // on_rma_done(cookie) tells when the effect is visible to the processors there, and *before is.
  // Not ordered with puts, gets and messages of the endpoint, nor among each other.
  virtual SendResult start_atomic(EndpointId endpoint, const AtomicCall& call) = 0;
};

inline SendResult fetch_and_add(Fabric& fabric, EndpointId endpoint, RemoteKey key, uint64_t offset,
                                uint64_t value, uint64_t* before, uint64_t cookie) {
  return dynamic_cast<HasAtomics&>(fabric).start_atomic(
      endpoint, {false, key, offset, value, 0, before, cookie});
}
inline SendResult compare_and_swap(Fabric& fabric, EndpointId endpoint, RemoteKey key,
                                   uint64_t offset, uint64_t expected, uint64_t value,
                                   uint64_t* before, uint64_t cookie) {
  return dynamic_cast<HasAtomics&>(fabric).start_atomic(
      endpoint, {true, key, offset, value, expected, before, cookie});
}

}  // namespace skerry::fabric::test
