// Puts, gets and atomics of the ofi fabric. A put is done when it is complete at the target as far
// as the provider can tell, not when it left us.
#pragma once

#include <unordered_map>

#include "fabric/ofi/endpoints.hpp"

namespace skerry::fabric::ofi {

class Rma {
 public:
  Rma(Domain& domain, Pool& pool, Endpoints& endpoints)
      : domain_(domain), pool_(pool), endpoints_(endpoints) {}

  Status register_memory(void* base, uint64_t bytes, RemoteKey* key, uint64_t* registration);
  void deregister_memory(uint64_t registration) { registrations_.erase(registration); }
  SendResult start(Endpoint& endpoint, const RmaCall& call);
  // What libfabric did not take.
  void go_on(Endpoint& endpoint);
  // A piece is complete. True: the last one; then *call is what is done, and its `value` what was
  // there before an atomic.
  bool finish(Endpoint& endpoint, Operation* operation, RmaCall* call);
  // See the trial of atomics.
  void take_operands_as_addresses(bool yes) { operands_as_addresses_ = yes; }
  uint64_t heap_bytes() const;

 private:
  bool post(Endpoint& endpoint, Operation* operation);
  int64_t post_piece(Endpoint& endpoint, Operation* operation);   // libfabric's answer
  int64_t post_atomic(Endpoint& endpoint, Operation* operation);  // the same

  Domain& domain_;
  Pool& pool_;
  Endpoints& endpoints_;
  bool operands_as_addresses_ = false;
  std::unordered_map<uint64_t, Handle<fid_mr>> registrations_;
};

}  // namespace skerry::fabric::ofi
