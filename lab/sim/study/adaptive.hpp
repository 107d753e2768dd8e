// No victim policy is best for every program, and a program changes. This one runs the product's
// beside each other on the same uses, as bookkeeping without connections, counts how often each
// would have had to open one lately, and chooses as the best of them would among what is really
// open. It costs four times the memory, and no real run has shown that it pays.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "connection/cap.hpp"

namespace skerry::sim {

class Adaptive {
 public:
  static constexpr std::array<std::string_view, 3> among{"lru", "lru_m", "reuse"};

  explicit Adaptive(uint32_t cap);
  // A request goes to this partner, on an open connection.
  void used(connection::Partner partner);
  // A connection::Policy.
  connection::Worth worth(connection::Partner partner, const connection::Uses& uses,
                          uint64_t now) const {
    return shadows_[best_].policy(partner, uses, now);
  }
  uint64_t memory_bytes() const;

 private:
  static constexpr uint64_t fade = 512;  // uses after which an old miss counts about a third

  struct Shadow {
    connection::Policy policy;
    connection::Cap cap;
    std::unordered_map<connection::Partner, connection::Cap::Claim> claims;
    uint64_t misses = 0;
  };
  std::array<Shadow, among.size()> shadows_;
  size_t best_ = 0;
  connection::Partner newest_ = ~connection::Partner{0};
};

}  // namespace skerry::sim
