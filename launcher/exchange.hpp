// The launcher's side of {put, get, fence}: what ranks have put, which ranks wait. Pure.
// A request costs the same whatever the number of ranks; only a completed fence or finish, and a
// list of all values, look at every rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::launcher {

enum class RankState : uint8_t {
  absent,     // has not said hello, or has finished (a program may join again)
  joined,     // said hello
  fencing,    // waits in a fence
  finishing,  // waits for the others' finish
};
const char* to_string(RankState state);

class Exchange {
 public:
  // The last `late` ranks are not there yet, and nobody waits for them: see admit.
  explicit Exchange(uint32_t size, uint32_t late = 0);

  // Errors (network): the rank may not do this now. It then is to be treated as broken.
  Status hello(uint32_t rank);
  Status put(uint32_t rank, std::string_view key, std::span<const std::byte> value);
  Status fence(uint32_t rank);
  Status finish(uint32_t rank);
  // nullopt: `owner` has put no such key.
  std::optional<std::span<const std::byte>> get(uint32_t owner, std::string_view key) const;

  // The payloads of the `values` frames that list what every rank has put under `key`; at least
  // one. Every node asks for them: they are kept while anybody sends them. The list is valid until
  // the next put or completed finish.
  using Payload = std::shared_ptr<const std::vector<std::byte>>;
  const std::vector<Payload>& get_all(std::string_view key);
  // The lowest rank that has put exactly `value` under `key`; nullopt: none has.
  std::optional<uint32_t> lowest(std::string_view key, std::span<const std::byte> value) const;

  // Late ranks of one host, which start by themselves: until they have settled, their fences are
  // among themselves.
  void admit(uint32_t first, uint32_t count);
  // The start of the rank is over, and so is that of all that started with it: they have come
  // through the same fences. From here on they are of all.
  void settle(uint32_t rank);
  bool is_starting(uint32_t rank) const { return ranks_[rank].starts_with.count != 0; }
  // It never came, and may be admitted again.
  void withdraw(uint32_t rank) { ranks_[rank].starts_with = {}; }
  // After a fence of such a rank: those that it lets go on.
  std::vector<uint32_t> advance_starting(uint32_t rank);

  // The rank's process has ended; `tolerated`: the others go on without it.
  void gone(uint32_t rank, bool tolerated);
  bool joined(uint32_t rank) const { return ranks_[rank].state != RankState::absent; }

  enum class Event { none, fence_done, finish_done };
  // Called after every change: what has become complete. A completed finish forgets all values, so
  // that the ranks may join again.
  Event advance();
  // A wait that can never end: `waiting` waits in a fence or finish, `gone` ended without joining.
  struct Stuck {
    uint32_t waiting;
    uint32_t gone;
  };
  std::optional<Stuck> stuck() const;

  // How often all ranks have finished: the generation of the job that ranks join now.
  uint32_t epoch() const { return epoch_; }

 private:
  struct Run {
    uint32_t first = 0, count = 0;
  };
  struct Rank {
    RankState state = RankState::absent;
    bool gone = false;       // its process has ended
    bool tolerated = false;  // gone or not there yet, and nobody waits for it
    uint32_t values = 0;     // put in this epoch
    Run starts_with{};       // late ranks that start together; none: it is one of all
  };
  struct Values {  // what was put under one key
    std::map<uint32_t, std::vector<std::byte>> by_rank;
    std::vector<Payload> frames;  // for get_all; empty: not encoded yet
  };
  static std::string index_of(std::string_view key, std::span<const std::byte> value);
  void enter(Rank& rank, RankState state);
  void count(const Rank& rank, uint32_t difference);

  std::vector<Rank> ranks_;
  // Of the ranks that are not tolerated:
  uint32_t living_;             // all of them
  uint32_t fencing_ = 0;        // those in state fencing
  uint32_t finishing_ = 0;      // those in state finishing
  std::set<uint32_t> missing_;  // ranks that are gone, not tolerated and absent
  std::map<std::string, Values, std::less<>> values_;
  std::unordered_map<std::string, uint32_t> lowest_;  // by index_of
  uint32_t epoch_ = 0;
};

}  // namespace skerry::launcher
