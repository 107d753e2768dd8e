// What a data server keeps of origins without a connection that wait for nothing: 20 bytes of each,
// together with those of neighbouring ranks. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/pure/container_bytes.hpp"
#include "core/pure/ids.hpp"

namespace skerry::session {

class Resting {
 public:
  struct Origin {
    uint64_t applied;  // TargetSession::applied
    uint32_t incarnation;
    uint64_t generation;  // of its newest connection; 56 bits of it are kept
  };
  // The rank is not here yet.
  void put(Rank rank, const Origin& origin) {
    std::vector<Entry>& block = blocks_[rank / ranks_in_block];
    if (block.size() == block.capacity())
      block.reserve(block.size() < step ? block.size() + 1 : block.size() + step);
    block.push_back(
        {place_of(rank) & 0xff, static_cast<uint32_t>(origin.generation >> 32) & 0xff'ffff,
         static_cast<uint32_t>(origin.generation), static_cast<uint32_t>(origin.applied),
         static_cast<uint32_t>(origin.applied >> 32), origin.incarnation});
    ++size_;
  }
  // Takes it out. False: it is not here.
  bool take(Rank rank, Origin* origin) {
    const auto block = blocks_.find(rank / ranks_in_block);
    if (block == blocks_.end()) return false;
    for (Entry& entry : block->second) {
      if (entry.place != place_of(rank)) continue;
      *origin = {uint64_t{entry.applied_high} << 32 | entry.applied_low, entry.incarnation,
                 uint64_t{entry.generation_high} << 32 | entry.generation_low};
      entry = block->second.back();
      block->second.pop_back();
      if (block->second.empty()) blocks_.erase(block);
      --size_;
      return true;
    }
    return false;
  }
  uint64_t size() const { return size_; }
  uint64_t memory_bytes() const {
    uint64_t bytes = tree_bytes(blocks_);
    for (const auto& [block, entries] : blocks_) bytes += vector_bytes(entries);
    return bytes;
  }

 private:
  struct Entry {
    // The block says the rest of the rank. 56 bits of generations last for ever: 200,000 years of
    // 10,000 a second.
    uint32_t place : 8, generation_high : 24;
    uint32_t generation_low;
    uint32_t applied_low, applied_high;  // two halves: no padding
    uint32_t incarnation;
  };
  static_assert(sizeof(Entry) == 20);
  static constexpr Rank ranks_in_block = 64;
  static uint32_t place_of(Rank rank) { return static_cast<uint32_t>(rank % ranks_in_block); }
  static constexpr size_t step = 8;  // entries that a block grows by

  std::map<Rank, std::vector<Entry>> blocks_;  // by rank / ranks_in_block
  uint64_t size_ = 0;
};

}  // namespace skerry::session
