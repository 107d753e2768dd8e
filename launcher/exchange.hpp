// The launcher's side of {put, get, fence}: what ranks have put, who waits for whom. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  explicit Exchange(uint32_t size) : ranks_(size) {}

  // Errors (network): the rank may not do this now. It then is to be treated as broken.
  Status hello(uint32_t rank);
  Status put(uint32_t rank, std::string_view key, std::span<const std::byte> value);
  Status fence(uint32_t rank);
  Status finish(uint32_t rank);
  // nullopt: `owner` has put no such key.
  std::optional<std::span<const std::byte>> get(uint32_t owner, std::string_view key) const;

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
  struct Rank {
    RankState state = RankState::absent;
    bool gone = false;       // its process has ended
    bool tolerated = false;  // gone, and nobody waits for it
    uint32_t values = 0;     // put in this epoch
  };
  std::vector<Rank> ranks_;
  std::map<std::pair<uint32_t, std::string>, std::vector<std::byte>> values_;
  uint32_t epoch_ = 0;
};

}  // namespace skerry::launcher
