// What belongs to a handle of MPI's. Reads take no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace skerry::mpi {

// Key: an MPI handle, an integer or a pointer. A node keeps its place for ever; what was removed
// leaves it free for another key of the same chain. So a reader never loses its way.
template <class Key, class Value>
class Registry {
 public:
  constexpr Registry() = default;
  Value* find(Key key) const {
    Value* const value = find_recent(key);
    return value != nullptr ? value : find_in_chain(key);
  }
  // The one of the last call is likely it; null: look further.
  Value* find_recent(Key key) const {
    if (const Node* const node = recent_.load(std::memory_order_acquire);
        node != nullptr && node->key.load(std::memory_order_acquire) == key) [[likely]]
      return node->value.load(std::memory_order_acquire);
    return nullptr;
  }
  void add(Key key, Value* value) {
    const std::lock_guard guard(mutex_);
    std::atomic<Node*>& chain = chain_of(key);
    Node* free = chain.load(std::memory_order_relaxed);
    while (free != nullptr && free->value.load(std::memory_order_relaxed) != nullptr)
      free = free->next;
    if (free != nullptr) {
      free->key.store(key, std::memory_order_release);
      free->value.store(value, std::memory_order_release);
    } else {
      auto* const node = new Node{key, value, chain.load(std::memory_order_relaxed)};
      chain.store(node, std::memory_order_release);
    }
  }
  // What was there; null: nothing.
  Value* remove(Key key) {
    const std::lock_guard guard(mutex_);
    for (Node* node = chain_of(key).load(std::memory_order_relaxed); node != nullptr;
         node = node->next)
      if (node->key.load(std::memory_order_relaxed) == key)
        if (Value* const value = node->value.exchange(nullptr); value != nullptr) return value;
    return nullptr;
  }
  template <class Action>
  void for_each(Action&& action) {
    const std::lock_guard guard(mutex_);
    for (std::atomic<Node*>& chain : chains_)
      for (Node* node = chain.load(); node != nullptr; node = node->next)
        if (Value* const value = node->value.load(); value != nullptr) action(*value);
  }

 private:
  struct Node {
    std::atomic<Key> key;
    std::atomic<Value*> value;  // null: free
    Node* next;                 // never changes
  };
  static constexpr unsigned bits = 10;
  static_assert(sizeof(Key) <= sizeof(uint64_t));

  [[gnu::noinline]] Value* find_in_chain(Key key) const {
    for (Node* node = chain_of(key).load(std::memory_order_acquire); node != nullptr;
         node = node->next) {
      if (node->key.load(std::memory_order_acquire) != key) continue;
      Value* const value = node->value.load(std::memory_order_acquire);
      if (value == nullptr) continue;
      recent_.store(node, std::memory_order_release);
      return value;
    }
    return nullptr;
  }

  std::atomic<Node*>& chain_of(Key key) const {
    uint64_t number = 0;
    std::memcpy(&number, &key, sizeof key);
    return chains_[(number * 0x9e3779b97f4a7c15u) >> (64 - bits)];
  }

  mutable std::atomic<Node*> recent_{nullptr};  // found last; readers write it
  mutable std::atomic<Node*> chains_[1u << bits] = {};
  std::mutex mutex_;  // of writers
};

}  // namespace skerry::mpi
