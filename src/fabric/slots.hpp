// Slots: endpoints by id, for every fabric. An id is (generation << 32 | slot): never 0, never used
// twice, so a late call finds nothing.
//
// Threads: allocate and release by the holder of the issue lock (release also holds the progress
// role); find by both, at the same time. Items never move: chunks double in size and are published
// once.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/pure/assert.hpp"

namespace skerry::fabric {

// Item must have `std::atomic<uint64_t> id` (0: free; stored last when allocated, so that a
// matching id means published fields).
template <class Item>
class Slots {
 public:
  ~Slots() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // The item is not findable before publish: fill it first.
  Item* allocate(uint64_t* id) {
    uint32_t slot;
    if (free_.empty()) {
      slot = used_++;
      SKERRY_ASSERT(slot < max_slots, "endpoints");
      auto& chunk = chunks_[chunk_of(slot)];
      if (chunk.load(std::memory_order_relaxed) == nullptr)
        chunk.store(new Entry[first_chunk << chunk_of(slot)], std::memory_order_release);
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    Entry& entry = *at(slot);
    *id = uint64_t{++entry.generation} << 32 | slot;
    ++open_;
    return &entry.item;
  }
  static void publish(Item* item, uint64_t id) { item->id.store(id, std::memory_order_release); }

  // Null: closed, or never was.
  Item* find(uint64_t id) const {
    const uint32_t slot = static_cast<uint32_t>(id);
    if (slot >= max_slots || id == 0) return nullptr;
    Entry* entry = at(slot);
    return entry != nullptr && entry->item.id.load(std::memory_order_acquire) == id ? &entry->item
                                                                                    : nullptr;
  }

  void release(Item* item) {
    const uint64_t id = item->id.exchange(0, std::memory_order_relaxed);
    --open_;
    // A slot whose generations are used up stays empty: an id never names two endpoints.
    if (static_cast<uint32_t>(id >> 32) != UINT32_MAX) free_.push_back(static_cast<uint32_t>(id));
  }

  uint32_t open() const { return open_; }
  // Of one item, and of the places that are there and free.
  static constexpr uint64_t item_bytes() { return sizeof(Entry); }
  uint64_t spare_bytes() const {
    uint64_t places = 0;
    for (uint32_t c = 0; c < chunk_count; ++c)
      if (chunks_[c].load(std::memory_order_relaxed) != nullptr)
        places += uint64_t{first_chunk} << c;
    return (places - open_) * sizeof(Entry) + free_.capacity() * sizeof(uint32_t);
  }
  template <class Function>
  void for_each(Function function) const {
    for (uint32_t slot = 0; slot < used_; ++slot) {
      if (at(slot)->item.id.load(std::memory_order_relaxed) != 0) function(at(slot)->item);
    }
  }

 private:
  struct Entry {
    Item item;
    uint32_t generation = 0;  // of the last id given out for this slot; written by the issue side
  };
  static constexpr uint32_t first_chunk = 64;
  static constexpr uint32_t chunk_count = 16;
  static constexpr uint32_t max_slots = first_chunk * ((1u << chunk_count) - 1);  // 4 million

  // Chunk c holds slots [64 * (2^c - 1), 64 * (2^(c+1) - 1)).
  static uint32_t chunk_of(uint32_t slot) {
    return static_cast<uint32_t>(std::bit_width(slot / first_chunk + 1)) - 1;
  }
  Entry* at(uint32_t slot) const {
    const uint32_t c = chunk_of(slot);
    Entry* chunk = chunks_[c].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + (slot - first_chunk * ((1u << c) - 1));
  }

  std::array<std::atomic<Entry*>, chunk_count> chunks_{};
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
  uint32_t open_ = 0;
};

}  // namespace skerry::fabric
