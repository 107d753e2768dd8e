// Puts, gets and atomics of the fabric's own that are under way (docs/design/0003-rma-order.md),
// and what becomes of them when their connection breaks: the replay log's counterpart.
//
//   start -> done:    it finished
//         -> again:   its connection broke; it is issued on the next one
//         -> abandon: its server cannot be reached
// An atomic is never issued again: whether it took effect is not known.
#pragma once

#include <map>

#include "origin/context.hpp"
#include "origin/link/link.hpp"
#include "origin/link/op.hpp"

namespace skerry::origin {

class RmaLog {
 public:
  explicit RmaLog(EngineContext& context) : context_(context) {}

  struct Atomic {
    fabric::AtomicCall::Kind kind = fabric::AtomicCall::Kind::fetch_add;
    uint64_t value = 0;
    uint64_t expected = 0;
    uint64_t before = 0;      // filled
    bool is_unknown = false;  // its connection broke: whether it took effect is not known
  };
  struct Running {
    Op* op = nullptr;
    Link* link = nullptr;
    bool is_get = false;
    std::byte* local = nullptr;
    fabric::RemoteKey key{};
    uint64_t at = 0;  // offset in what the key names
    uint64_t bytes = 0;
    uint64_t after_number = 0;                          // the newest request when it was issued
    fabric::EndpointId endpoint = fabric::no_endpoint;  // on which
    Atomic* atomic = nullptr;     // null: a put or get; otherwise counted among the gets
    // Must one of both wait for the other?
    bool conflicts(const Running& other) const {
      return link == other.link && key.key == other.key.key && (!reads() || !other.reads()) &&
             at < other.at + other.bytes && other.at < at + bytes;
    }
    bool reads() const { return is_get && atomic == nullptr; }
  };
  // Is any under way that this one must wait for?
  bool any_conflict(const Running& rma) const;
  // Returns false if the fabric is full: nothing has happened.
  bool start(const Running& rma);
  // A put or get finished. Null: late, or again() will issue it; otherwise the link it was of.
  Link* done(uint64_t cookie, bool ok);
  // Issues those again that were issued before request `up_to`, on an earlier connection, and are
  // not known to be done, in the old order. Returns false if the fabric is full.
  bool again(Link& link, uint64_t up_to);
  // Its server is lost.
  void abandon(Link& link, const Status& why);

  // A message to this rank went out.
  static void note_message(Link& link, Rank to, uint64_t number);
  // If the session is drained no message is under way any more.
  static void forget_messages(Link& link, bool free_memory);
  static uint64_t memory_bytes(const Link& link);

 private:
  bool hand_over(const Running& rma, uint64_t cookie);
  static void finish(const Running& rma, const Status& failure);

  EngineContext& context_;
  std::map<uint64_t, Running> running_;  // by cookie: in the order of issuing
  uint64_t last_cookie_ = 0;
};

}  // namespace skerry::origin
