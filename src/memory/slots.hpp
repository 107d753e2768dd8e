// Completion slots: how a reply reaches a waiter in the origin's node, by whichever process
// delivers it. The owner arms a slot and takes its result. A replier (the owner's own progress
// thread, or a server of its node) fills it. See CompletionSlot for who writes what.
#pragma once

#include <cstring>

#include "core/futex.hpp"
#include "memory/control.hpp"

namespace skerry::memory {

inline uint32_t slot_generation(const CompletionSlot& slot) {
  return CompletionSlot::generation_of(slot.word.load(std::memory_order_relaxed));
}

// Owner. The generation that this use of the slot has; the request carries it as its tag.
inline uint32_t arm_slot(CompletionSlot& slot) {
  const uint32_t generation = (slot_generation(slot) + 1) & 0x3fffffff;
  slot.word.store(CompletionSlot::make_word(generation, SlotState::waiting),
                  std::memory_order_release);
  return generation;
}

// Replier. Wakes the thread that sleeps on the word. False: this use of the slot is over (late or
// duplicate reply), and nothing changes.
inline bool fill_slot(CompletionSlot& slot, uint32_t generation, int32_t status, uint64_t result) {
  uint32_t expected = CompletionSlot::make_word(generation, SlotState::waiting);
  if (!slot.word.compare_exchange_strong(expected,
                                         CompletionSlot::make_word(generation, SlotState::filling),
                                         std::memory_order_acquire))
    return false;
  slot.status = status;
  slot.result_bytes = sizeof result;
  std::memcpy(slot.result, &result, sizeof result);
  slot.word.store(CompletionSlot::make_word(generation, SlotState::done),
                  std::memory_order_release);
  futex_wake(&slot.word, 1);
  return true;
}

// Owner. Back to free; a reply that is still under way finds another generation or state.
inline void free_slot(CompletionSlot& slot) {
  slot.word.store(CompletionSlot::make_word(slot_generation(slot), SlotState::free),
                  std::memory_order_release);
}

}  // namespace skerry::memory
