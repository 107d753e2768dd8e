// Whom a data server lets in: whose hello is proven, which one is old, which earlier connection a
// new one replaces. Pure: the caller closes and accepts. Asked by the data server, for ranks and
// other servers, and by proxies, for trunks and links.
//
//   hello --knock--> stranger   no proof of this job's key, or no such peer: refuse, keep nothing
//                    replayed   used before, or overtaken by its successor: refuse
//                    welcome    its earlier connection has ended; answer when it may have one
#pragma once

#include <initializer_list>

#include "connection/core/hello.hpp"

namespace skerry::connection {

// What is kept of a peer for as long as it may come back.
struct Visitor {
  uint64_t generation = 0;  // of its newest hello; only grows
  uint64_t endpoint = 0;    // of the fabric; 0: it is not connected
};

class Doorkeeper {
 public:
  enum class Verdict : uint8_t { stranger, replayed, welcome };

  Doorkeeper(const JobKey& key, Peer self) : key_(key), self_(self) {}

  // A peer connects, in one of these roles. visitor_of(role, name) -> Visitor*; null: there is no
  // such peer. end(endpoint): an earlier connection of it broke without our noticing, or is just
  // closing. Nothing of it may be applied after the new one is told how far we came.
  template <class VisitorOf, class End>
  Verdict knock(std::span<const std::byte> bytes, std::initializer_list<Role> roles, Hello* hello,
                Role* role, VisitorOf&& visitor_of, End&& end) const {
    for (const Role one : roles) {
      if (!check_hello(key_, self_, bytes, hello, one).ok()) continue;
      *role = one;
      Visitor* const visitor = visitor_of(one, hello->rank);
      if (visitor == nullptr) return Verdict::stranger;
      if (hello->generation <= visitor->generation) return Verdict::replayed;
      visitor->generation = hello->generation;
      if (visitor->endpoint != 0) end(visitor->endpoint);
      visitor->endpoint = 0;
      return Verdict::welcome;
    }
    return Verdict::stranger;
  }

  // What lets it in. The caller accepts with it, and notes the endpoint in its visitor.
  std::array<std::byte, answer_bytes> answer(const Hello& hello, uint64_t applied = 0,
                                             bool refusals_follow = false) const {
    return make_answer(key_, self_, hello, applied, refusals_follow);
  }

 private:
  const JobKey& key_;
  const Peer self_;
};

}  // namespace skerry::connection
