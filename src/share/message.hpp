// Messages of links and trunks: what they begin with, how those that wait are kept, and how much
// may wait. The rest of the header and the payload are the channel's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pure/assert.hpp"
#include "core/pure/ids.hpp"
#include "fabric/fabric.hpp"

namespace skerry::share {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::no_endpoint;
using fabric::RequestId;
using fabric::SendResult;
using fabric::Verdict;

constexpr uint8_t version = 6;

// Of a long payload. One that is read in one piece is passed on without a copy.
constexpr uint64_t part_bytes = fabric::one_piece_bytes;
// Of one message. A trunk that makes way waits 100 ms for what is under way, which a longer one
// might need again and again.
constexpr uint64_t most_payload_bytes = 512 * 1024;

enum class Kind : uint8_t {
  open = 1,      // the end that opened the trunk begins a channel. Header: the hello; payload: the
                 // address of the data server; `servers`: how many it has passed
  accepted = 2,  // header: the answer
  closed = 3,    // last message of a channel, from either side. Header: reason 1, then text for
                 // people
  data = 4,
  taken = 5,  // nothing but what its prefix says
  leave = 6,  // proxy to the channel's beginning: the slot of its trunk is needed: drain and close
  held = 7,   // to the rank that opened the channel: the data server, or the proxy on the way, is
              // there and has no slot yet. It will answer; it may take long
  begin = 8,  // data with a long payload. Header: its bytes in all, in 8 bytes, then the message's
              // own; payload: the first part of it
  part = 9,   // no header; payload: the next part. Nothing of the channel's own comes in between
};
inline bool carries_data(Kind kind) {
  return kind == Kind::data || kind == Kind::begin || kind == Kind::part;
}

struct Prefix {
  uint8_t version;
  uint8_t kind;
  uint16_t servers;  // open: data servers on the way so far, without the one that gets this; 0 in
                     // other kinds
  uint32_t channel;  // of this link or trunk: given out by the end that opened it
  uint64_t taken;  // data, begin, part, taken: cost of what this end of the channel has taken from
                   // the other so far; open, accepted: the channel's window; 0 in other kinds
};
static_assert(sizeof(Prefix) == 16);
inline Prefix prefix_of(Kind kind, uint32_t channel = 0, uint64_t taken = 0) {
  return {version, static_cast<uint8_t>(kind), 0, channel, taken};
}

// The number of a trunk's next channel. Numbers come again after 2^32 channels, some 5 days of
// 10,000 a second. What is taken is skipped, and an old message cannot meet a new channel of its
// number. A trunk keeps the order, so what was sent before 2^32 openings arrived before them. 0 is
// none.
template <class IsTaken>
uint32_t next_channel(uint32_t newest, IsTaken&& is_taken) {
  do ++newest;
  while (newest == 0 || is_taken(newest));
  return newest;
}

inline uint64_t cost_of(uint64_t header_bytes, uint64_t payload_bytes) {
  return 64 + header_bytes + payload_bytes;
}

inline bool decode(Bytes header, Prefix* prefix) {
  if (header.size() < sizeof *prefix) return false;
  std::memcpy(prefix, header.data(), sizeof *prefix);
  return prefix->version == version && prefix->kind >= static_cast<uint8_t>(Kind::open) &&
         prefix->kind <= static_cast<uint8_t>(Kind::part);
}

// A message's header on its way out.
struct Header {
  std::byte bytes[fabric::max_header_bytes];
  uint32_t size = 0;
  Header(const Prefix& prefix, Bytes rest)
      : size(static_cast<uint32_t>(sizeof prefix + rest.size())) {
    std::memcpy(bytes, &prefix, sizeof prefix);
    if (!rest.empty()) std::memcpy(bytes + sizeof prefix, rest.data(), rest.size());
  }
  Bytes get() const { return {bytes, size}; }
};

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A server's address, as its listen returns it: the node in 4 bytes, then that of the fabric
// beneath.
inline std::string address_with_node(NodeId node, Bytes address) {
  return text_of(std::as_bytes(std::span(&node, 1))) + text_of(address);
}
inline bool read_node(std::string_view address, NodeId* node) {
  if (address.size() <= sizeof *node) return false;
  std::memcpy(node, address.data(), sizeof *node);
  return *node >= 0;
}
inline std::string_view without_node(std::string_view address) {
  return address.substr(sizeof(NodeId));
}

inline std::string closed_text(CloseReason reason, std::string_view detail) {
  std::string text(1, static_cast<char>(reason));
  text += detail.substr(0, 200);
  return text;
}

// ---- what waits -------------------------------------------------------------------------------

// A proxy has two pools: one for what came from ranks, one for what came from other servers. A
// message that was forwarded finds room whatever ranks send, so the pools of several servers never
// wait for each other in a circle (models/pools.pml). Nothing waits for a pool, or a rank that
// takes no answers while it computes could stop all others. At the pool's limit the channel that
// keeps most is closed (Multiplex::relieve).
class Kept;
struct Pool {
  uint64_t limit = 0;  // bytes; 0: none
  uint64_t held = 0, peak = 0;
  std::vector<Kept*> keepers;  // that keep anything, in no order
  bool is_over() const { return limit != 0 && held > limit; }
};

struct Message {  // one that waits; the header with its prefix
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  Message(Bytes h, Bytes p) : header(h.begin(), h.end()), payload(p.begin(), p.end()) {}
  // With what a list takes for it.
  uint64_t bytes() const {
    return sizeof *this + 2 * sizeof(void*) + header.capacity() + payload.capacity();
  }
};

// Messages that wait, oldest first, charged to a pool. Two words while it is empty: two of these
// are in each channel that passes.
class Kept {
 public:
  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() { clear(); }

  // Before anything waits. Null: nobody counts it.
  void charge(Pool* pool) {
    SKERRY_INVARIANT(empty(), "what waits is charged already");
    pool_ = pool;
  }
  void push(Bytes header, Bytes payload) {
    begin();
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
    if (queue_->messages.empty()) finish();
    return message;
  }
  void put_back(Message message) {
    begin();
    queue_->messages.push_front(std::move(message));
    add(front().bytes());
  }
  void clear() {
    if (empty()) return;
    subtract(bytes());
    finish();
  }
  bool empty() const { return queue_ == nullptr; }
  uint64_t bytes() const { return queue_ == nullptr ? 0 : queue_->bytes; }

 private:
  struct Queue {  // never empty
    std::list<Message> messages;
    uint64_t bytes = 0;
    size_t index = 0;  // among the pool's keepers
  };

  void begin() {
    if (!empty()) return;
    queue_ = std::make_unique<Queue>();
    if (pool_ == nullptr) return;
    queue_->index = pool_->keepers.size();
    pool_->keepers.push_back(this);
  }
  void finish() {
    if (pool_ != nullptr) {
      SKERRY_INVARIANT(pool_->keepers[queue_->index] == this, "a keeper knows its place");
      Kept* const last = pool_->keepers.back();
      last->queue_->index = queue_->index;
      pool_->keepers[queue_->index] = last;
      pool_->keepers.pop_back();
    }
    queue_.reset();
  }
  void add(uint64_t bytes) {
    queue_->bytes += bytes;
    if (pool_ == nullptr) return;
    pool_->held += bytes;
    pool_->peak = std::max(pool_->peak, pool_->held);
  }
  void subtract(uint64_t bytes) {
    SKERRY_INVARIANT(bytes <= queue_->bytes && (pool_ == nullptr || bytes <= pool_->held),
                     "what goes was charged");
    queue_->bytes -= bytes;
    if (pool_ != nullptr) pool_->held -= bytes;
  }

  std::unique_ptr<Queue> queue_;  // null: nothing waits
  Pool* pool_ = nullptr;          // null: not counted
};
static_assert(sizeof(Kept) == 2 * sizeof(void*));

// How far one end of a channel may be ahead of the other. Every server on the way lowers it to its
// share when the channel opens; two of the longest messages always fit.
constexpr uint64_t most_window_bytes = 512 * 1024;
constexpr uint64_t least_window_bytes = 136 * 1024;
// Before the other end has accepted. A server without a free slot keeps that of every channel that
// waits for one. Longer messages wait.
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
