// What waits in a proxy, and how much of it there may be.
//
// A proxy has two pools: one for what came from ranks, one for what came from other servers. A
// message that was forwarded finds room whatever ranks send, so the pools of several servers never
// wait for each other in a circle (models/pools.pml). Nothing waits for a pool: at its limit the
// channel that keeps most in it is closed, unless it is the only one there, and its session
// resumes. Otherwise a rank that takes no answers while it computes could fill a pool and stop all
// others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "core/pure/assert.hpp"
#include "fabric/fabric.h"

namespace skerry::share {

struct Pool {
  uint64_t limit = 0;  // bytes; 0: none
  uint64_t held = 0, peak = 0;
  bool is_over() const { return limit != 0 && held > limit; }
};

struct Message {  // one that waits; the header with its prefix
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  Message(fabric::Bytes h, fabric::Bytes p)
      : header(h.begin(), h.end()), payload(p.begin(), p.end()) {}
  // With what a list takes for it.
  uint64_t bytes() const {
    return sizeof *this + 2 * sizeof(void*) + header.capacity() + payload.capacity();
  }
};

// Messages that wait, oldest first, charged to a pool. Two words while it is empty: there are
// several for each connection, and two for each channel that passes.
class Kept {
 public:
  Kept() = default;
  explicit Kept(Pool* pool) : pool_(pool) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() { clear(); }

  // Before anything waits. Null: nobody counts it.
  void charge(Pool* pool) {
    SKERRY_INVARIANT(empty(), "what waits is charged already");
    pool_ = pool;
  }
  void push(fabric::Bytes header, fabric::Bytes payload) {
    if (queue_ == nullptr) queue_ = std::make_unique<Queue>();
    queue_->messages.emplace_back(header, payload);
    add(queue_->messages.back().bytes());
  }
  Message& front() { return queue_->messages.front(); }
  void pop() { (void)take(); }
  // The oldest, which the caller may give back with put_back, unchanged.
  Message take() {
    subtract(front().bytes());
    Message message = std::move(front());
    queue_->messages.pop_front();
    if (queue_->messages.empty()) queue_.reset();
    return message;
  }
  void put_back(Message message) {
    if (queue_ == nullptr) queue_ = std::make_unique<Queue>();
    queue_->messages.push_front(std::move(message));
    add(front().bytes());
  }
  void clear() {
    subtract(bytes());
    queue_.reset();
  }
  void swap(Kept& other) { std::swap(queue_, other.queue_); }  // of the same pool
  bool empty() const { return queue_ == nullptr; }
  uint64_t bytes() const { return queue_ == nullptr ? 0 : queue_->bytes; }
  const Pool* pool() const { return pool_; }

 private:
  struct Queue {  // never empty
    std::list<Message> messages;
    uint64_t bytes = 0;
  };

  void add(uint64_t bytes) {
    queue_->bytes += bytes;
    if (pool_ == nullptr) return;
    pool_->held += bytes;
    pool_->peak = std::max(pool_->peak, pool_->held);
  }
  void subtract(uint64_t bytes) {
    if (queue_ == nullptr) return;
    queue_->bytes -= bytes;
    if (pool_ != nullptr) pool_->held -= bytes;
  }

  std::unique_ptr<Queue> queue_;  // null: nothing waits
  Pool* pool_ = nullptr;          // null: not counted
};
static_assert(sizeof(Kept) == 2 * sizeof(void*));

// How far one end of a channel may be ahead of the other: what cannot be passed on waits on the
// way. Every server on the way lowers it to its share when the channel opens; two of the longest
// messages always fit.
constexpr uint64_t most_window_bytes = 512 * 1024;
constexpr uint64_t least_window_bytes = 136 * 1024;
// Before the other end has accepted: one of the longest messages fits. A server without a free slot
// keeps that of every channel that waits for one.
constexpr uint64_t early_window_bytes = 40 * 1024;
// An honest end's messages take less than this where they wait: a record is a little longer than
// what the message costs.
constexpr uint64_t most_waiting_bytes = 2 * most_window_bytes;
constexpr std::string_view beyond_window = "more came in a channel than its window allows";
inline uint64_t window_within(const Pool& pool, uint64_t channels, uint64_t wish) {
  const uint64_t share = pool.limit == 0 ? most_window_bytes
                                         : pool.limit / std::max<uint64_t>(channels, 1);
  return std::clamp(std::min(wish, share), least_window_bytes, most_window_bytes);
}

}  // namespace skerry::share
