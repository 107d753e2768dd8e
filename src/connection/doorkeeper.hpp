// Whom a data server lets in: whose hello is proven, which one is old, which earlier connection a
// new one replaces. Pure: the caller closes and accepts. Asked by the data server, for ranks and
// other servers, and by proxies, for trunks and links.
//
//   hello --knock--> stranger   no proof of this job's key, or no such peer: refuse, keep nothing
//                    replayed   used before, or overtaken by its successor: refuse
//                    welcome    its earlier connection has ended; answer when it may have one
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "connection/hello.hpp"

namespace skerry::connection {

// What is kept of a peer for as long as it may come back.
struct Visitor {
  uint64_t generation = 0;  // of its newest hello; only grows
  uint64_t endpoint = 0;    // of the fabric; 0: it is not connected
};

class Doorkeeper {
 public:
  enum class Verdict : uint8_t { stranger, replayed, welcome };

  // One line about a hello that was refused, with both names. A stranger's is what it claims.
  std::string refusal(std::span<const std::byte> bytes, Verdict why, uint64_t untold) const {
    uint32_t name = 0;
    const bool has_name = bytes.size() == hello_bytes;
    if (has_name) std::memcpy(&name, bytes.data(), sizeof name);
    return concat(
        "data server ", self_.server_index, " of node ", self_.server_node, " refuses ",
        why == Verdict::replayed ? "" : "what claims to be ",
        has_name ? concat("rank or node ", name) : concat("a peer whose hello has ", bytes.size(),
                                                          " bytes"),
        why == Verdict::replayed
            ? ": its hello was used before, or a later one of it came first"
            : ": its hello does not prove this job's key (another job, another version of Skerry, "
              "or forged), or the job has no such rank",
        untold != 0 ? concat(" (and ", untold, " others since the last such line)") : "");
  }

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

// Which refusals are told to people: one in pause_ns at most, for strangers may knock as often as
// they like.
class RefusalLog {
 public:
  static constexpr int64_t pause_ns = 10'000'000'000;
  // The line about a hello that `door` refuses at now_ns (monotonic). Empty: the last line is too
  // young; the next one counts this refusal.
  std::string line(const Doorkeeper& door, std::span<const std::byte> bytes,
                   Doorkeeper::Verdict why, int64_t now_ns) {
    if (now_ns < next_ns_) {
      ++untold_;
      return {};
    }
    next_ns_ = now_ns + pause_ns;
    return door.refusal(bytes, why, std::exchange(untold_, 0));
  }

 private:
  int64_t next_ns_ = INT64_MIN;
  uint64_t untold_ = 0;  // since the last line
};

}  // namespace skerry::connection
