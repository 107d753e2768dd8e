#include <unordered_map>
#include <unordered_set>

#include "fabric/hooks/forward.hpp"
#include "fabric/hooks/hooks.hpp"

namespace skerry::fabric {
namespace {

class Throttled final : public Forward {
 public:
  Throttled(std::unique_ptr<Fabric> inner, uint32_t limit)
      : Forward(std::move(inner)), limit_(limit) {}

  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    return refuses(endpoint)
               ? SendResult::would_block
               : counted(endpoint, inner_->send(endpoint, header, payload, more, cookie));
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    return refuses(endpoint)
               ? SendResult::would_block
               : counted(endpoint, inner_->send_gathered(endpoint, header, parts, cookie));
  }
  int dispatch(Sink& sink) override {
    int upcalls = Forward::dispatch(sink);
    sent_.clear();
    std::unordered_set<EndpointId> blocked;
    blocked.swap(blocked_);
    for (EndpointId endpoint : blocked) {
      if (inner_->flush(endpoint) == SendResult::closed) continue;  // its on_closed came or comes
      sink.on_writable(endpoint);
      ++upcalls;
    }
    return upcalls;
  }
  void close(EndpointId endpoint) override {
    blocked_.erase(endpoint);
    inner_->close(endpoint);
  }

 private:
  bool refuses(EndpointId endpoint) {
    const auto found = sent_.find(endpoint);
    if (found == sent_.end() || found->second < limit_) return false;
    // what was held back with `more` must not wait for the message that we refuse
    inner_->flush(endpoint);
    blocked_.insert(endpoint);
    inner_->wake();
    return true;
  }
  SendResult counted(EndpointId endpoint, SendResult result) {
    if (result == SendResult::accepted) ++sent_[endpoint];
    return result;
  }

  const uint32_t limit_;
  std::unordered_map<EndpointId, uint32_t> sent_;  // since the last dispatch
  std::unordered_set<EndpointId> blocked_;         // answered would_block by us: on_writable is due
};

}  // namespace

std::unique_ptr<Fabric> hook_throttle(std::unique_ptr<Fabric> inner,
                                      uint32_t messages_per_dispatch) {
  return std::make_unique<Throttled>(std::move(inner), messages_per_dispatch);
}

}  // namespace skerry::fabric
