#include "fabric/hooks/forward.hpp"
#include "fabric/hooks/hooks.hpp"

namespace skerry::fabric {
namespace {

void add(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

class Counting final : public Forward {
 public:
  Counting(std::unique_ptr<Fabric> inner, std::shared_ptr<HookCounts> counts)
      : Forward(std::move(inner)), counts_(std::move(counts)) {}

  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    add(counts_->connects);
    return inner_->connect(address, hello, endpoint);
  }
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override {
    Status status = inner_->accept(request, reply, endpoint);
    if (status.ok()) add(counts_->accepts);
    return status;
  }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    const SendResult result = inner_->send(endpoint, header, payload, more, cookie);
    tally(result, counts_->messages_sent, counts_->bytes_sent, header.size() + payload.size());
    return result;
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    const SendResult result = inner_->send_gathered(endpoint, header, parts, cookie);
    tally(result, counts_->messages_sent, counts_->bytes_sent, header.size() + total_bytes(parts));
    return result;
  }
  SendResult put(EndpointId endpoint, const void* local, RemoteKey key, uint64_t offset,
                 uint64_t bytes, uint64_t cookie) override {
    const SendResult result = inner_->put(endpoint, local, key, offset, bytes, cookie);
    tally(result, counts_->puts, counts_->put_bytes, bytes);
    return result;
  }
  SendResult get(EndpointId endpoint, void* local, RemoteKey key, uint64_t offset, uint64_t bytes,
                 uint64_t cookie) override {
    const SendResult result = inner_->get(endpoint, local, key, offset, bytes, cookie);
    tally(result, counts_->gets, counts_->get_bytes, bytes);
    return result;
  }
  SendResult fetch_and_add(EndpointId endpoint, RemoteKey key, uint64_t offset, uint64_t operand,
                           uint64_t cookie) override {
    return tally_atomic(inner_->fetch_and_add(endpoint, key, offset, operand, cookie));
  }
  SendResult compare_and_swap(EndpointId endpoint, RemoteKey key, uint64_t offset,
                              uint64_t expected, uint64_t value, uint64_t cookie) override {
    return tally_atomic(inner_->compare_and_swap(endpoint, key, offset, expected, value, cookie));
  }
  void poll(int64_t timeout_ns, EndpointId only) override {
    add(counts_->polls);
    inner_->poll(timeout_ns, only);
  }
  int dispatch(Sink& sink) override {
    add(counts_->dispatches);
    return Forward::dispatch(sink);
  }
  void close(EndpointId endpoint) override {
    const uint64_t before = inner_->traffic().endpoints_open;
    inner_->close(endpoint);
    add(counts_->closed_by_us, before - inner_->traffic().endpoints_open);
  }

 private:
  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override {
    return received(outer_->on_message(endpoint, header, payload), header.size() + payload.size());
  }
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    return received(outer_->on_placed(endpoint, header, payload_bytes),
                    header.size() + payload_bytes);
  }
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    add(counts_->closed);
    outer_->on_closed(endpoint, reason, detail);
  }
  Verdict received(Verdict verdict, uint64_t bytes) {
    if (verdict == Verdict::park) {
      add(counts_->parked);
    } else {
      add(counts_->messages_received);
      add(counts_->bytes_received, bytes);
    }
    return verdict;
  }
  void tally(SendResult result, std::atomic<uint64_t>& operations, std::atomic<uint64_t>& amount,
             uint64_t bytes) {
    if (result == SendResult::accepted) {
      add(operations);
      add(amount, bytes);
    }
    if (result == SendResult::would_block) add(counts_->would_block);
  }
  SendResult tally_atomic(SendResult result) {
    if (result == SendResult::accepted) add(counts_->atomics);
    if (result == SendResult::would_block) add(counts_->would_block);
    return result;
  }
  const std::shared_ptr<HookCounts> counts_;
};

}  // namespace

std::unique_ptr<Fabric> hook_count(std::unique_ptr<Fabric> inner,
                                   std::shared_ptr<HookCounts> counts) {
  return std::make_unique<Counting>(std::move(inner), std::move(counts));
}

}  // namespace skerry::fabric
