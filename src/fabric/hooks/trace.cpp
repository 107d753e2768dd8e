#include "fabric/hooks/forward.hpp"
#include "fabric/hooks/hooks.hpp"

namespace skerry::fabric {
namespace {

std::string_view to_string(SendResult result) {
  switch (result) {
    case SendResult::accepted: return "accepted";
    case SendResult::would_block: return "would_block";
    case SendResult::closed: return "closed";
  }
  return "unknown";
}
std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::taken: return "taken";
    case Verdict::park: return "park";
  }
  return "unknown";
}

class Tracing final : public Forward {
 public:
  Tracing(std::unique_ptr<Fabric> inner, std::function<void(std::string_view)> writer)
      : Forward(std::move(inner)), writer_(std::move(writer)) {}

  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    Status status = inner_->connect(address, hello, endpoint);
    write("connect -> ", status.ok() ? std::to_string(*endpoint) : status.message());
    return status;
  }
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override {
    Status status = inner_->accept(request, reply, endpoint);
    write("accept ", request, " -> ", status.ok() ? std::to_string(*endpoint) : status.message());
    return status;
  }
  void reject(RequestId request) override {
    write("reject ", request);
    inner_->reject(request);
  }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    const SendResult result = inner_->send(endpoint, header, payload, more, cookie);
    write("send ", endpoint, " header ", header.size(), " payload ", payload.size(),
          more ? " more -> " : " -> ", to_string(result));
    return result;
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    const SendResult result = inner_->send_gathered(endpoint, header, parts, cookie);
    write("send ", endpoint, " header ", header.size(), " payload ", total_bytes(parts), " in ",
          parts.size(), " parts -> ", to_string(result));
    return result;
  }
  void unpark(EndpointId endpoint) override {
    write("unpark ", endpoint);
    inner_->unpark(endpoint);
  }
  SendResult put(EndpointId endpoint, const void* local, RemoteKey key, uint64_t offset,
                 uint64_t bytes, uint64_t cookie) override {
    const SendResult result = inner_->put(endpoint, local, key, offset, bytes, cookie);
    write("put ", endpoint, " key ", key.key, " offset ", offset, " bytes ", bytes, " cookie ",
          cookie, " -> ", to_string(result));
    return result;
  }
  SendResult get(EndpointId endpoint, void* local, RemoteKey key, uint64_t offset, uint64_t bytes,
                 uint64_t cookie) override {
    const SendResult result = inner_->get(endpoint, local, key, offset, bytes, cookie);
    write("get ", endpoint, " key ", key.key, " offset ", offset, " bytes ", bytes, " cookie ",
          cookie, " -> ", to_string(result));
    return result;
  }
  SendResult fetch_and_add(EndpointId endpoint, RemoteKey key, uint64_t offset, uint64_t operand,
                           uint64_t cookie) override {
    const SendResult result = inner_->fetch_and_add(endpoint, key, offset, operand, cookie);
    write("fetch_and_add ", endpoint, " key ", key.key, " offset ", offset, " operand ", operand,
          " cookie ", cookie, " -> ", to_string(result));
    return result;
  }
  SendResult compare_and_swap(EndpointId endpoint, RemoteKey key, uint64_t offset,
                              uint64_t expected, uint64_t value, uint64_t cookie) override {
    const SendResult result = inner_->compare_and_swap(endpoint, key, offset, expected, value,
                                                       cookie);
    write("compare_and_swap ", endpoint, " key ", key.key, " offset ", offset, " expected ",
          expected, " value ", value, " cookie ", cookie, " -> ", to_string(result));
    return result;
  }
  void close(EndpointId endpoint) override {
    write("close ", endpoint);
    inner_->close(endpoint);
  }

 private:
  void on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) override {
    write("on_connect_request ", request, " hello ", hello.size(), " from ", peer_name);
    outer_->on_connect_request(request, hello, peer_name);
  }
  void on_connected(EndpointId endpoint, Bytes reply) override {
    write("on_connected ", endpoint, " reply ", reply.size());
    outer_->on_connected(endpoint, reply);
  }
  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override {
    const Verdict verdict = outer_->on_message(endpoint, header, payload);
    write("on_message ", endpoint, " header ", header.size(), " payload ", payload.size(), " -> ",
          to_string(verdict));
    return verdict;
  }
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    const Verdict verdict = outer_->on_placed(endpoint, header, payload_bytes);
    write("on_placed ", endpoint, " payload ", payload_bytes, " -> ", to_string(verdict));
    return verdict;
  }
  void on_writable(EndpointId endpoint) override {
    write("on_writable ", endpoint);
    outer_->on_writable(endpoint);
  }
  void on_sent(EndpointId endpoint, uint64_t cookie) override {
    write("on_sent ", endpoint, " cookie ", cookie);
    outer_->on_sent(endpoint, cookie);
  }
  void on_rma_done(EndpointId endpoint, uint64_t cookie, bool ok) override {
    write("on_rma_done ", endpoint, " cookie ", cookie, ok ? " ok" : " failed");
    outer_->on_rma_done(endpoint, cookie, ok);
  }
  void on_atomic_done(EndpointId endpoint, uint64_t cookie, bool ok, uint64_t before) override {
    write("on_atomic_done ", endpoint, " cookie ", cookie, ok ? " before " : " failed ", before);
    outer_->on_atomic_done(endpoint, cookie, ok, before);
  }
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    write("on_closed ", endpoint, " ", fabric::to_string(reason), ": ", detail);
    outer_->on_closed(endpoint, reason, detail);
  }
  template <class... Parts>
  void write(const Parts&... parts) {
    writer_(concat(parts...));
  }

  const std::function<void(std::string_view)> writer_;
};

}  // namespace

std::unique_ptr<Fabric> hook_trace(std::unique_ptr<Fabric> inner,
                                   std::function<void(std::string_view)> writer) {
  return std::make_unique<Tracing>(std::move(inner), std::move(writer));
}

}  // namespace skerry::fabric
