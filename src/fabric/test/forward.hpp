// The base of all hooks: passes every call in and every upcall out unchanged. A hook overrides what
// it is about.
#pragma once

#include "fabric/fabric.hpp"

namespace skerry::fabric {

class Forward : public Fabric, protected Sink {
 public:
  explicit Forward(std::unique_ptr<Fabric> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  Status listen(std::vector<std::byte>* address) override { return inner_->listen(address); }
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    return inner_->connect(address, hello, endpoint);
  }
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override {
    return inner_->accept(request, reply, endpoint);
  }
  void reject(RequestId request, CloseReason why) override { inner_->reject(request, why); }
  void hold(RequestId request) override { inner_->hold(request); }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    return inner_->send(endpoint, header, payload, more, cookie);
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    return inner_->send_gathered(endpoint, header, parts, cookie);
  }
  SendResult flush(EndpointId endpoint) override { return inner_->flush(endpoint); }
  uint64_t unsent_bytes(EndpointId endpoint) const override {
    return inner_->unsent_bytes(endpoint);
  }
  void unpark(EndpointId endpoint) override { inner_->unpark(endpoint); }
  Status register_memory(void* base, uint64_t bytes, RemoteKey* key,
                         uint64_t* registration) override {
    return inner_->register_memory(base, bytes, key, registration);
  }
  void deregister_memory(uint64_t registration) override {
    inner_->deregister_memory(registration);
  }
  SendResult start_rma(EndpointId endpoint, const RmaCall& call) override {
    return inner_->start_rma(endpoint, call);
  }
  SendResult start_atomic(EndpointId endpoint, const AtomicCall& call) override {
    return inner_->start_atomic(endpoint, call);
  }
  bool limits_connections() const override { return inner_->limits_connections(); }
  Status limit_connections(uint32_t limit) override { return inner_->limit_connections(limit); }
  Connections connections() const override { return inner_->connections(); }
  bool has_room_for(Bytes address) const override { return inner_->has_room_for(address); }
  Status watch(int fd) override { return inner_->watch(fd); }
  void unwatch(int fd) override { inner_->unwatch(fd); }
  void poll(int64_t timeout_ns, EndpointId only) override { inner_->poll(timeout_ns, only); }
  void dispatch(Sink& sink) override {
    outer_ = &sink;
    inner_->dispatch(*this);
  }
  void close_drained(EndpointId endpoint) override { close(endpoint); }
  void close(EndpointId endpoint) override { inner_->close(endpoint); }
  void divert(EndpointId endpoint) override { inner_->divert(endpoint); }
  void wake() override { inner_->wake(); }
  Traffic traffic() const override { return inner_->traffic(); }
  Memory memory() const override { return inner_->memory(); }

 protected:
  void on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) override {
    outer_->on_connect_request(request, hello, peer_name);
  }
  void on_connected(EndpointId endpoint, Bytes reply) override {
    outer_->on_connected(endpoint, reply);
  }
  void on_held(EndpointId endpoint) override { outer_->on_held(endpoint); }
  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override {
    return outer_->on_message(endpoint, header, payload);
  }
  std::byte* place_directly(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    return outer_->place_directly(endpoint, header, payload_bytes);
  }
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    return outer_->on_placed(endpoint, header, payload_bytes);
  }
  std::byte* place_inline(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    return outer_->place_inline(endpoint, header, payload_bytes);
  }
  void on_writable(EndpointId endpoint) override { outer_->on_writable(endpoint); }
  void on_sent(EndpointId endpoint, uint64_t cookie) override { outer_->on_sent(endpoint, cookie); }
  void on_rma_done(EndpointId endpoint, uint64_t cookie, bool ok) override {
    outer_->on_rma_done(endpoint, cookie, ok);
  }
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    outer_->on_closed(endpoint, reason, detail);
  }
  void on_watched(int fd) override { outer_->on_watched(fd); }

  const std::unique_ptr<Fabric> inner_;
  Sink* outer_ = nullptr;  // during dispatch
};

}  // namespace skerry::fabric
