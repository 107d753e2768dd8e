// Multiplex: the fabric on both sides of routes through servers. It says which of three each call,
// and each message, is for: Trunks (the connections beneath), Channels (what begins or ends here)
// and Transits (what passes through a proxy).
#pragma once

#include "share/channels.hpp"
#include "share/transits.hpp"

namespace skerry::share {

class Multiplex final : public fabric::Fabric, private fabric::Sink, private Trunks::User {
 public:
  Multiplex(std::unique_ptr<fabric::Fabric> inner, Options options, bool is_proxy);

  std::string_view name() const override { return inner_->name(); }
  const fabric::Capabilities& capabilities() const override { return context_.capabilities; }
  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override;
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override;
  void reject(RequestId request) override {
    is_channel(request) ? channels_.reject(request) : inner_->reject(request);
  }
  void hold(RequestId request) override {
    is_channel(request) ? channels_.hold(request) : inner_->hold(request);
  }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    return is_channel(endpoint) ? channels_.send(endpoint, header, payload, more, cookie)
                                : inner_->send(endpoint, header, payload, more, cookie);
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    return is_channel(endpoint) ? channels_.send_gathered(endpoint, header, parts, cookie)
                                : inner_->send_gathered(endpoint, header, parts, cookie);
  }
  SendResult flush(EndpointId endpoint) override {
    return is_channel(endpoint) ? channels_.flush(endpoint) : inner_->flush(endpoint);
  }
  uint64_t unsent_bytes(EndpointId endpoint) const override {
    return is_channel(endpoint) ? channels_.unsent_bytes(endpoint) : inner_->unsent_bytes(endpoint);
  }
  void unpark(EndpointId endpoint) override {
    is_channel(endpoint) ? channels_.unpark(endpoint) : inner_->unpark(endpoint);
  }
  void close(EndpointId endpoint) override {
    is_channel(endpoint) ? channels_.close(endpoint) : inner_->close(endpoint);
  }
  Status register_memory(void* base, uint64_t bytes, fabric::RemoteKey* key,
                         uint64_t* registration) override;
  void poll(int64_t timeout_ns, EndpointId only) override {
    context_.poll(timeout_ns, is_channel(only) ? context_.link_of(only) : only);
  }
  void dispatch(fabric::Sink& sink) override;
  Status watch(int fd) override { return inner_->watch(fd); }
  void unwatch(int fd) override { inner_->unwatch(fd); }
  void wake() override { inner_->wake(); }
  Traffic traffic() const override;
  Memory memory() const override;
  bool limits_connections() const override {
    return !context_.is_proxy && context_.options.guide.routes.most_links() > 1;
  }
  Status limit_connections(uint32_t limit) override { return trunks_.limit(limit); }
  bool has_room_for(Bytes address) const override;
  Connections connections() const override { return trunks_.connections(); }

 private:
  static bool is_channel(EndpointId id) { return Channels::is_channel(id); }
  Status next_hop(std::string_view target, std::string* address) const;
  Status onward(std::string_view target, uint32_t servers, std::string* address) const;
  void take_open(Trunk& trunk, const Prefix& prefix, Bytes hello, Bytes address);
  bool relieve(Pool& pool);

  // Trunks::User
  void on_trunk_end(const Places& channels, CloseReason reason, std::string_view detail,
                    bool later) override;
  void on_trunk_leaves(Place& place) override;
  bool on_turn(Place& place) override;

  // fabric::Sink
  void on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) override;
  void on_connected(EndpointId endpoint, Bytes reply) override;
  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override;
  std::byte* place_directly(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override;
  std::byte* place_inline(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override;
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override;
  void on_writable(EndpointId endpoint) override;
  void on_sent(EndpointId endpoint, uint64_t cookie) override {
    context_.outer->on_sent(endpoint, cookie);
  }
  void on_rma_done(EndpointId, uint64_t, bool) override {}  // none is begun
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override;
  void on_watched(int fd) override { context_.outer->on_watched(fd); }

  const std::unique_ptr<fabric::Fabric> inner_;
  Context context_;
  Trunks trunks_;
  Channels channels_;
  Transits transits_;
};

}  // namespace skerry::share
