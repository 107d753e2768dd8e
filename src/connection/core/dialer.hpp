// Connecting to one peer: each attempt with a hello of its own, whose answer proves the peer; when
// to try again, and when to give up. Pure: the caller connects. Links and relays dial until their
// Retry says otherwise; a trunk dials once, for the ranks that use it try again.
#pragma once

#include "connection/core/hello.hpp"
#include "connection/core/retry.hpp"

namespace skerry::connection {

// Who dials: the same for all peers.
struct Caller {
  JobKey key;
  uint32_t name;  // rank, or node
  Role role = Role::origin;
};

class Dialer : public Retry {
 public:
  Dialer() = default;
  // Hellos of an earlier dialler to this peer had generations up to this one.
  explicit Dialer(uint64_t generation) : generation_(generation) {}

  // The hello of the next attempt, which is being made.
  std::array<std::byte, hello_bytes> dial(const Caller& caller, const Peer& peer) {
    attempt();
    return make_hello(caller.key, peer, caller.name, ++generation_, caller.role);
  }
  // As check_answer, for the newest attempt.
  Status check(const Caller& caller, const Peer& peer, std::span<const std::byte> answer,
               uint64_t* applied, bool* refusals_follow = nullptr) const {
    return check_answer(caller.key, peer, {caller.name, generation_, {}}, answer, applied,
                        refusals_follow);
  }

 private:
  uint64_t generation_ = 0;  // of the newest attempt
};

}  // namespace skerry::connection
