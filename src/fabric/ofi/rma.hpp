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
  SendResult start(EndpointId id, const RmaCall& call);
  // To the rest of the fabric it is a get, through a buffer that begins with what was there before.
  SendResult start_atomic(EndpointId id, const AtomicCall& call);
  // In a buffer of the pool: the newest atomic's. For the trial.
  const uint64_t* last_operand() const { return last_operand_; }
  // What libfabric did not take.
  void go_on(Endpoint& endpoint);
  // Of every completion that there is, also of one whose endpoint was closed.
  static void note_complete(Operation* operation);
  // A piece is complete. True: the last one; then *cookie is of what is done.
  bool finish(Endpoint& endpoint, Operation* operation, uint64_t* cookie);
  uint64_t heap_bytes() const;

 private:
  Operation* begin(Endpoint& endpoint, const RmaCall& call);
  bool post(Endpoint& endpoint, Operation* operation);

  Domain& domain_;
  Pool& pool_;
  Endpoints& endpoints_;
  std::unordered_map<uint64_t, Handle<fid_mr>> registrations_;
  const uint64_t* last_operand_ = nullptr;
};

}  // namespace skerry::fabric::ofi
