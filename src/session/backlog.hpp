// Requests that wait for a connection: numbered and kept in their sessions' replay logs, but handed
// to no fabric yet (docs/design/0018-lazy-opening.md). This counts them, bounds them, and says
// whose turn it is to be opened. Pure.
//
//   add(part)            one more request of this session waits
//   sent(part, number)   it, and all before it, went out
//   drop(part)           its server cannot be reached: nothing of it waits any more
//
// Of each session it is the newest numbers that wait: (sent, issued].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/pure/assert.hpp"

namespace skerry::session {

class Backlog {
 public:
  // Of all sessions together.
  struct Limits {
    uint64_t requests = 4096;
    uint64_t bytes = 4u << 20;  // copied payload
  };

  // One session's part, embedded in its driver's record.
  struct Part {
    explicit Part(uint32_t o = 0) : owner(o) {}
    uint32_t owner;        // whose: the driver's name for it
    uint32_t replies = 0;  // of those that wait: requests that will be answered
    uint64_t bytes = 0;    // of those that wait: copied payload
    uint64_t sent = 0;     // newest request that was handed to the fabric, on any connection
    uint64_t issued = 0;   // newest request of all; equal to `sent`: nothing waits
    bool empty() const { return sent == issued; }
  };

  Backlog() = default;
  explicit Backlog(Limits limits) : limits_(limits) {}

  bool takes(uint64_t copied_bytes) const {
    return requests_ < limits_.requests && bytes_ + copied_bytes <= limits_.bytes;
  }
  // The next request of this session waits. now_ns: since when, if it is the first of all.
  void add(Part& part, uint64_t copied_bytes, bool awaits_reply, int64_t now_ns);
  // The next request went out at once; nothing waits before it.
  static void passed(Part& part, uint64_t number) {
    SKERRY_INVARIANT(part.empty() && number == part.sent + 1, "requests go out in their order");
    part.sent = part.issued = number;
  }
  // The oldest that waits went out. True: it was the last of its session.
  bool sent(Part& part, uint64_t number, bool awaited_reply);
  void drop(Part& part);

  // Its session has more than its share of a backlog that is half full: open it, even if another
  // link must make way.
  bool is_urgent(const Part& part) const {
    return 2 * bytes_ > limits_.bytes && part.bytes * parts_.size() >= bytes_;
  }
  // Sessions of which anything waits, the one that began to wait first at the front.
  std::span<Part* const> parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  uint64_t requests() const { return requests_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t replies() const { return replies_; }
  int64_t since_ns() const { return since_ns_; }  // since when anything waits
  void restart_clock(int64_t now_ns) { since_ns_ = now_ns; }

 private:
  Limits limits_;
  std::vector<Part*> parts_;
  uint64_t requests_ = 0;
  uint64_t bytes_ = 0;
  uint64_t replies_ = 0;
  int64_t since_ns_ = 0;
};

}  // namespace skerry::session
