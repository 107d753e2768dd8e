// Messages of the ofi fabric.
//
// On the wire a message of libfabric is a *parcel*: a head, then frames as on the tcp fabric
// (prefix, header, payload), as many as `more` gathered. A parcel with frames costs the sender a
// credit; the receiver returns credits with its own parcels or, when it has nothing to say, with an
// empty one. An empty parcel costs none, and no more than two of them can be under way.
//
// Where the provider has shared receive contexts, all endpoints receive into one pool of posted
// buffers. A completion does not say whose parcel it is: the parcel does, by the number that its
// receiver gave the connection when it was opened. The pool may be smaller than what all peers may
// send at once: then the provider keeps them waiting. Its tcp does not read the socket; an adapter
// says "receiver not ready" until there is a buffer. A parcel that waits for the sink is replaced
// in the pool, so what arrives behind it is received. Elsewhere each endpoint has window + 2
// buffers of its own, posted before a peer may send.
//
// Datagrams go the same way, the pool is that of their one endpoint. They may overtake each other:
// one that comes early waits for those before it.
#pragma once

#include "fabric/ofi/rma.hpp"

namespace skerry::fabric::ofi {

class Messages {
 public:
  Messages(Domain& domain, Pool& pool, Endpoints& endpoints, Rma& rma)
      : domain_(domain), pool_(pool), endpoints_(endpoints), rma_(rma) {}

  SendResult send(EndpointId id, Bytes header, Bytes payload, bool more);
  SendResult flush(EndpointId id);
  // Something came back: credits, a completion, the connection. What waited for it goes on.
  void after_progress(Endpoint& endpoint);

  // Of a datagram endpoint: ends it when all has arrived that the peer sent before it left.
  void end_if_left(Endpoint& endpoint);
  // Posts the buffers of a new endpoint: a peer may send from the moment that we answer it.
  Status post_receives(Endpoint& endpoint);
  // Fills the shared pool. What does not work now is tried again at the next dispatch.
  void post_shared();
  bool is_short_of_buffers() const;
  uint32_t shared_posted() const { return shared_posted_; }

  void sent(Endpoint& endpoint, const Completion& completion);
  void received(Endpoint& endpoint, const Completion& completion, Sink& sink);
  // Of a buffer of the pool, which is replaced. Returns its parcel; null: nothing arrived.
  Operation* take_shared(const Completion& completion);
  void received_shared(Operation* operation, Sink& sink);
  // Delivers what is in the inbox until it is empty or the sink parks.
  void deliver(EndpointId id, Sink& sink);

  void unpark(EndpointId id);
  bool any_unparked() const { return !unparked_.empty(); }
  void run_unparked(Sink& sink);

 private:
  enum class Delivered { all, parked, corrupt, gone };
  bool transmit(Endpoint& endpoint, Operation* operation);
  bool waits_for_rma(const Endpoint& endpoint) const;
  bool post_parcel(Endpoint& endpoint);
  void return_credits(Endpoint& endpoint);
  bool post_receive(fid_ep* to, Operation* operation);
  bool receive_again(Endpoint& endpoint, Operation* operation);
  uint32_t shared_wanted() const;
  void take_parcel(Endpoint& endpoint, Operation* operation, Sink& sink);
  bool keep_early(Endpoint& endpoint, Operation* operation);
  void take_early(EndpointId id, Sink& sink);
  Delivered deliver_frames(Endpoint& endpoint, Operation& parcel, Sink& sink);

  Domain& domain_;
  Pool& pool_;
  Endpoints& endpoints_;
  Rma& rma_;
  uint32_t shared_posted_ = 0;  // buffers in the shared context
  std::vector<EndpointId> unparked_;
};

}  // namespace skerry::fabric::ofi
