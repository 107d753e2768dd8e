// Where the objects that C handles name live. A handle is an object's address with the generation
// of its place in the upper 16 bits. Freeing an object moves the generation on, so that old handles
// are recognised for ever, while the place serves the next object. After 2^16 objects a place
// retires: no generation ever comes twice.
//
// object_of() takes no lock, and may be asked of an old handle while its place serves others. All
// else: one thread at a time (Objects holds its mutex).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/pure/assert.hpp"

namespace skerry::job {

template <class T>
class Shelf {
 public:
  static_assert(sizeof(void*) == 8, "a handle holds 48 bits of address and 16 of generation");

  // Stands for every freed object. Null: object_of() answers null for those.
  std::unique_ptr<T> freed;

  // Moves the object to a place of its own, where it stays until discard().
  T* keep(T&& object) {
    if (free_.empty()) {
      places_.push_back(std::make_unique<Place>());
      free_.reserve(places_.size());  // so that discard() allocates nothing
      free_.push_back(places_.back().get());
      places_.back()->head.shelf = this;
    }
    Place* const place = free_.back();
    free_.pop_back();
    place->head.taken = true;
    T* const kept = new (place->storage) T(std::move(object));
    SKERRY_ASSERT(reinterpret_cast<uintptr_t>(kept) >> address_bits == 0,
                  "user addresses have at most 48 bits");
    return kept;
  }

  // Ends the object: its handles are those of a freed object from here on.
  void discard(T* object) {
    Head& head = head_of(object);
    SKERRY_ASSERT(head.taken, "an object is discarded once");
    const uint32_t next = generation_of(head) + 1;
    head.generation.store(next, std::memory_order_relaxed);
    object->~T();
    head.taken = false;
    if (next <= last_generation) free_.push_back(reinterpret_cast<Place*>(&head));
  }

  template <class Action>
  void for_each(Action&& action) {
    for (auto& place : places_)
      if (place->head.taken) action(*place->object());
  }

  static void* handle_of(const T* object) {
    if (object == nullptr) return nullptr;
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(object) |
                                   uint64_t{generation_of(head_of(object))} << address_bits);
  }
  // `handle`: from handle_of, of this job. The object, or what stands for freed ones.
  static T* object_of(const void* handle) {
    const auto bits = reinterpret_cast<uintptr_t>(handle);
    T* const object = reinterpret_cast<T*>(bits & ((uint64_t{1} << address_bits) - 1));
    const Head& head = head_of(object);
    return generation_of(head) == bits >> address_bits ? object : head.shelf->freed.get();
  }

 private:
  static constexpr unsigned address_bits = 48;
  static constexpr uint32_t last_generation = 0xffff;

  struct alignas(16) Head {
    Shelf* shelf = nullptr;
    std::atomic<uint32_t> generation{0};  // objects that were here before
    bool taken = false;                   // an object is here
  };
  struct Place {
    Head head;
    alignas(16) std::byte storage[sizeof(T)];
    T* object() { return reinterpret_cast<T*>(storage); }
    ~Place() {
      static_assert(alignof(T) <= 16 && offsetof(Place, storage) == sizeof(Head));
      if (head.taken) object()->~T();
    }
  };
  static Head& head_of(const T* object) {
    return *reinterpret_cast<Head*>(reinterpret_cast<uintptr_t>(object) - sizeof(Head));
  }

  static uint32_t generation_of(const Head& head) {
    return head.generation.load(std::memory_order_relaxed);
  }

  std::deque<std::unique_ptr<Place>> places_;
  std::vector<Place*> free_;  // places without an object that have generations left
};

}  // namespace skerry::job
