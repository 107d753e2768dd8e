// Which connection goes when the cap is reached (A. Vishnu, M. Krishnan, P. Balaji: "Dynamic
// Time-Variant Connection Management for PGAS Models on InfiniBand"). Pure: bookkeeping that all
// policies share, and one small class per policy which says what a connection is worth.
//
//   opened(p)         used(p) ...       choose() -> p       closed(p, evicted)
//   ---------> open ------------> open --------------> open -------------------> remembered,
//                                                                                within a bound
//
// Time is logical: it advances when the partner changes, so a burst of requests to one server
// counts as one use. Nothing is allocated after construction. Not thread safe: its owner's lock
// guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::connection {

using Partner = uint32_t;  // dense index of a data server, 0..; the highest value is never a server

class VictimPolicy {
 public:
  // What is known of one open connection. Written by the bookkeeping only.
  struct Entry {
    Partner server;
    uint32_t teardowns;    // evictions of this server so far, as far as remembered
    uint64_t last_used;    // logical time of its newest use
    uint64_t used_before;  // of the use before that one, also across evictions; 0: none known
  };

  struct Worth {
    uint64_t major = 0;
    uint64_t minor = 0;
    friend constexpr auto operator<=>(const Worth&, const Worth&) = default;
  };

  // Policy by name; null: there is none of that name (names() lists them). `capacity`: most
  // connections that are open at a time, 1..; it is the caller's duty not to open more.
  static std::unique_ptr<VictimPolicy> make(std::string_view name, uint32_t capacity);
  static std::span<const std::string_view> names();
  // Errors: config.
  static Status check_name(std::string_view name);

  virtual ~VictimPolicy() = default;
  VictimPolicy(const VictimPolicy&) = delete;
  VictimPolicy& operator=(const VictimPolicy&) = delete;

  // The connection counts towards the cap from now on; opening one is a use. Of one that is open
  // already: a use.
  void opened(Partner server);
  // A request goes to it. Of one that is not open: nothing. O(1); a repeated use of the same server
  // is one comparison.
  void used(Partner server) {
    if (newest_ < size_ && entries_[newest_].server == server) return;
    use_other(server);
  }
  // It no longer counts. `evicted`: torn down for the cap; a break or a server's wish is held
  // against nobody. Of one not open: nothing.
  void closed(Partner server, bool evicted);
  // The open connection that is worth least among those that are not pinned; none if all are.
  // O(open connections), a few ns each: small beside any teardown. pinned(server) -> bool.
  template <class Pinned>
  std::optional<Partner> choose(Pinned&& pinned) {
    at_cap();
    std::optional<Partner> victim;
    Worth least{};
    for (uint32_t i = 0; i < size_; ++i) {
      const Worth own = worth(entries_[i]);
      if ((!victim || own < least) && !pinned(entries_[i].server)) {
        victim = entries_[i].server;
        least = own;
      }
    }
    return victim;
  }

  uint32_t size() const { return size_; }
  uint32_t capacity() const { return capacity_; }
  bool is_open(Partner server) const { return find(server) != none; }
  uint64_t now() const { return now_; }
  // Bytes of this object and its tables: proportional to the capacity, whatever the number of
  // servers.
  virtual uint64_t bytes() const;

 protected:
  explicit VictimPolicy(uint32_t capacity);
  // Distinct for distinct entries (last_used is), so that the choice does not depend on the order
  // of the table.
  virtual Worth worth(const Entry& entry) const = 0;
  // A use of `server` that is not a repetition, or an opening, was entered. For policies that
  // learn; a few ns at most on average.
  virtual void noticed(Partner) {}
  // Somebody must go: as many are open as may be.
  virtual void at_cap() {}

 private:
  friend struct VictimTest;
  // One server that was open and is not. Sets of `ways` by the server's low bits: while there are
  // at most as many servers as places nobody is forgotten; beyond that the one with the fewest
  // teardowns goes, the longest gone among equals.
  struct Past {
    Partner server = no_server;
    uint32_t teardowns = 0;
    uint64_t last_used = 0;
  };
  static constexpr Partner no_server = ~Partner{0};
  static constexpr uint32_t none = ~uint32_t{0};
  static constexpr uint32_t ways = 8;
  static constexpr uint32_t least_remembered = 256;
  static constexpr uint32_t remembered_per_place = 8;
  static constexpr uint32_t
      most_teardowns = 1u << 20;  // then all counts halve: they age, and never overflow

  uint32_t home(Partner server) const { return (server * 0x9e3779b1u) >> shift_; }
  uint32_t find(Partner server) const;  // index into entries_, or none
  void use_other(Partner server);
  void insert(uint32_t index);
  void erase(Partner server);
  std::span<Past> set_of(Partner server) {
    return {past_.data() + (server & set_mask_) * ways, ways};
  }
  void remember(const Entry& entry);
  void age();

  std::vector<Entry> entries_;   // the first size_ are open, in no order
  std::vector<uint32_t> table_;  // open addressing: index into entries_, or none; at most half full
  std::vector<Past> past_;
  uint32_t size_ = 0;
  uint32_t capacity_;
  uint32_t newest_ = none;  // index of the entry used last; none or stale: unknown
  uint32_t shift_ = 0;
  uint32_t table_mask_ = 0;
  uint32_t set_mask_ = 0;
  uint64_t now_ = 0;
};

}  // namespace skerry::connection
