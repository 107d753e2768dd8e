// A table of words that name objects, each by a key that the object itself keeps: some 11 bytes for
// each, where std::unordered_map takes 45 to 60. For tables with an entry for each connection.
// Pure.
//
// Open addressing with linear probing; what is erased leaves no mark. Adding or erasing ends
// iterators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pure/assert.hpp"

namespace skerry {

// Entry: what fits in a word; Entry{} is none and compares equal to no other. KeyOf: Entry ->
// integer, the same as long as it is in the table.
template <class Entry, class KeyOf>
class PointerTable {
 public:
  class Iterator {
   public:
    Iterator(const Entry* at, const Entry* end) : at_(at), end_(end) { skip(); }
    Entry operator*() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      skip();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void skip() {
      while (at_ != end_ && *at_ == Entry{}) ++at_;
    }
    const Entry* at_;
    const Entry* end_;
  };

  // Entry{}: there is none with this key.
  Entry find(uint64_t key) const {
    if (places_.empty()) return Entry{};
    return places_[place_of(key)];
  }
  bool contains(uint64_t key) const { return find(key) != Entry{}; }
  // No entry has its key yet.
  void insert(Entry entry) {
    SKERRY_INVARIANT(entry != Entry{}, "none is no entry");
    if ((size_ + 1) * 5 > places_.size() * 4) resize(places_.size() + places_.size() / 2 + 4);
    Entry& place = places_[place_of(KeyOf{}(entry))];
    SKERRY_INVARIANT(place == Entry{}, "a key names one object");
    place = entry;
    ++size_;
  }
  // Returns what was there: Entry{}: nothing.
  Entry erase(uint64_t key) {
    const Entry found = find(key);
    if (found == Entry{}) return found;
    const size_t count = places_.size();
    size_t hole = place_of(key);
    // Entries behind the hole move up, unless that would bring them before their first place.
    for (size_t at = next(hole); places_[at] != Entry{}; at = next(at)) {
      const size_t first = first_place(KeyOf{}(places_[at]));
      if ((at + count - first) % count < (at + count - hole) % count) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole] = Entry{};
    --size_;
    if (places_.size() > 16 && size_ * 4 < places_.size()) resize(places_.size() / 2);
    return found;
  }

  Iterator begin() const { return {places_.data(), places_.data() + places_.size()}; }
  Iterator end() const {
    return {places_.data() + places_.size(), places_.data() + places_.size()};
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint64_t memory_bytes() const { return places_.capacity() * sizeof(Entry); }

 private:
  size_t next(size_t place) const { return place + 1 == places_.size() ? 0 : place + 1; }
  // Multiplied by 2^64 over the golden ratio, so that keys that count up lie far apart; then the
  // upper half, scaled to the number of places.
  size_t first_place(uint64_t key) const {
    const uint64_t mixed = (key ^ key >> 32) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>((mixed >> 32) * places_.size() >> 32);
  }
  // Where the entry with this key is, or would go.
  size_t place_of(uint64_t key) const {
    size_t at = first_place(key);
    while (places_[at] != Entry{} && KeyOf{}(places_[at]) != key) at = next(at);
    return at;
  }
  void resize(size_t places) {
    SKERRY_ASSERT(places > size_ && places >> 32 == 0, "a place is always free");
    std::vector<Entry> old(places);
    old.swap(places_);
    for (const Entry entry : old)
      if (entry != Entry{}) places_[place_of(KeyOf{}(entry))] = entry;
  }

  std::vector<Entry> places_;  // Entry{}: free
  size_t size_ = 0;
};

}  // namespace skerry
