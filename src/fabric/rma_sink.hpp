// What one end of a connection hears that carries puts, gets and atomics alone: for trials and
// benches. A request to connect is accepted; a message is none that anybody waits for.
#pragma once

#include "fabric/fabric.hpp"

namespace skerry::fabric {

class RmaSink final : public Sink {
 public:
  explicit RmaSink(Fabric& fabric) : fabric_(fabric) {}

  // Moves this end once; sleeps for `timeout_ns` at most until there is something to do.
  void step(int64_t timeout_ns) {
    fabric_.poll(timeout_ns, no_endpoint);
    fabric_.dispatch(*this);
  }

  void on_connect_request(RequestId request, Bytes, std::string_view) override {
    EndpointId accepted = no_endpoint;
    if (!fabric_.accept(request, {}, &accepted).ok()) closed = true;
  }
  void on_connected(EndpointId, Bytes) override { connected = true; }
  Verdict on_message(EndpointId, Bytes, Bytes) override { return Verdict::taken; }
  std::byte* place_directly(EndpointId, Bytes, uint64_t) override { return nullptr; }
  Verdict on_placed(EndpointId, Bytes, uint64_t) override { return Verdict::taken; }
  void on_writable(EndpointId) override {}
  void on_sent(EndpointId, uint64_t) override {}
  void on_rma_done(EndpointId, uint64_t, bool ok) override {
    answered = ok;
    closed = closed || !ok;
  }
  void on_closed(EndpointId, CloseReason, std::string_view) override { closed = true; }

  bool connected = false;
  bool answered = false;  // the last put, get or atomic is done; its caller clears it before
  bool closed = false;    // or something failed

 private:
  Fabric& fabric_;
};

}  // namespace skerry::fabric
