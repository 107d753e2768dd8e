// The shared library lab/locks/lab_locks.so: SKERRY_LOCK=.../lab_locks.so:queue.
#include "locks/protocols.hpp"

extern "C" __attribute__((visibility("default"))) const skerry::lock::machine::Machines*
skerry_lock_machines(const char* name) {
  skerry::lock::ProtocolKind kind{};
  return skerry::lock::from_string(name, &kind) ? &skerry::lock::machines_of(kind) : nullptr;
}
