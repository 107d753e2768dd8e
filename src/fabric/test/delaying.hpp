// A hook that holds back, by chance, a message and those behind it for some dispatches.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fabric/test/forward.hpp"

namespace skerry::fabric::test {

class Delaying final : public Forward {
 public:
  // `delays`: counts them; null: nobody does.
  Delaying(std::unique_ptr<Fabric> inner, uint32_t per_million, std::shared_ptr<uint64_t> delays)
      : Forward(std::move(inner)), per_million_(per_million), delays_(std::move(delays)) {}

  void dispatch(Sink& sink) override {
    for (auto held = held_.begin(); held != held_.end();) {
      if (--held->second != 0) {
        ++held;
      } else {
        inner_->unpark(held->first);
        held = held_.erase(held);
      }
    }
    Forward::dispatch(sink);
    // Dispatches are what we count: the next one must come. (Only now: a wake before the dispatch
    // is used up by it.)
    if (!held_.empty()) inner_->wake();
  }
  void unpark(EndpointId endpoint) override {
    if (!held_.contains(endpoint)) inner_->unpark(endpoint);  // otherwise our own unpark comes
  }
  void close(EndpointId endpoint) override {
    forget(endpoint);
    inner_->close(endpoint);
  }

 private:
  static constexpr uint32_t dispatches = 3;

  void forget(EndpointId endpoint) {
    held_.erase(endpoint);
    delayed_.erase(endpoint);
  }
  // Before delivery: true to hold the message back.
  bool holds(EndpointId endpoint) {
    if (delayed_.erase(endpoint) != 0 || !chance()) return false;
    delayed_.insert(endpoint);
    held_[endpoint] = dispatches;
    if (delays_ != nullptr) ++*delays_;
    return true;
  }
  bool chance() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (random_ >> 32) % 1'000'000 < per_million_;
  }

  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override {
    if (holds(endpoint)) return Verdict::park;
    return Forward::on_message(endpoint, header, payload);
  }
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    if (holds(endpoint)) return Verdict::park;
    return Forward::on_placed(endpoint, header, payload_bytes);
  }
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    forget(endpoint);
    Forward::on_closed(endpoint, reason, detail);
  }

  const uint32_t per_million_;
  const std::shared_ptr<uint64_t> delays_;
  uint64_t random_ = 0x9e3779b97f4a7c16u;
  std::unordered_map<EndpointId, uint32_t> held_;  // dispatches until we unpark
  std::unordered_set<EndpointId> delayed_;  // whose message at the head was held back already
};

}  // namespace skerry::fabric::test
