// Puts and gets of the fabric's own (docs/design/0003-rma-order.md), and the keys they need. They
// have no numbers of their own: one takes its turn in the session by waiting for the messages
// before it and by making those after it wait.
#pragma once

#include <map>
#include <utility>

#include "origin/context.hpp"
#include "origin/link/link.hpp"
#include "origin/link/operations.hpp"
#include "origin/link/slots.hpp"

namespace skerry::origin {

class Rma : Part {
 public:
  using Part::Part;

  // Is this transfer better as the fabric's own?
  bool takes(const Access& access) const;
  // Issues it, in parts. Waits for keys, messages before it and room; not for its end.
  Status issue(Lock& lock, Link& link, const Access& access, Op* op);
  // A put or get finished. Null: late, or Resume will issue it again; otherwise the link it was of.
  Link* done(uint64_t cookie, bool ok);
  // Its server is lost.
  void abandon(Link& link, const Status& why);

 private:
  struct Running {
    Op* op;
    Link* link;
    bool is_get;
    std::byte* local;
    fabric::RemoteKey key;
    uint64_t at;  // offset in what the key names
    uint64_t bytes;
    uint64_t after_number;        // the newest request when it was issued
    fabric::EndpointId endpoint;  // on which
  };
  struct SegmentKey {  // of a target's slice
    fabric::RemoteKey key;
    uint64_t offset = 0;
  };
  static constexpr size_t max_keys = 1024;
  friend class Resume;  // what is running when its connection breaks

  Status key_of(Lock& lock, Link& link, const Target& target, SegmentKey* key);
  Status wait_turn(Lock& lock, Link& link, const Target& target, const Extent& writes);
  bool hand_over(const Running& rma, uint64_t cookie);
  void finish(const Running& rma, const Status& failure);

  std::map<uint64_t, Running> running_;  // by cookie: in the order of issuing
  uint64_t last_cookie_ = 0;
  std::map<std::pair<uint64_t, Rank>, SegmentKey> keys_;  // by packed segment id and rank; emptied
                                                          // when it has max_keys
};

}  // namespace skerry::origin
