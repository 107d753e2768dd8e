// The fake clock: events in the order of their time, and in the order of their scheduling at equal
// times, so that a seed replays exactly.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace skerry::sim {

using Time = int64_t;  // ns since the start of the simulated run

// A heap of four children per node: half as deep as a binary one, and its children share a cache
// line or two.
template <class Event>
class EventQueue {
 public:
  Time now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  Time next_time() const { return heap_.front().at; }  // not when empty
  uint64_t processed() const { return processed_; }
  void reserve(size_t events) { heap_.reserve(events); }

  // `at` before now means now.
  void schedule(Time at, Event event) {
    heap_.push_back({at < now_ ? now_ : at, sequence_++, std::move(event)});
    size_t i = heap_.size() - 1;
    while (i > 0) {
      const size_t parent = (i - 1) / 4;
      if (!before(heap_[i], heap_[parent])) break;
      std::swap(heap_[i], heap_[parent]);
      i = parent;
    }
  }
  // The next event; the clock is set to its time. Not when empty.
  Event pop() {
    Event event = std::move(heap_.front().event);
    now_ = heap_.front().at;
    ++processed_;
    Item last = std::move(heap_.back());
    heap_.pop_back();
    if (!heap_.empty()) sink(std::move(last));
    return event;
  }

 private:
  struct Item {
    Time at;
    uint64_t sequence;
    Event event;
  };
  static bool before(const Item& a, const Item& b) {
    return a.at != b.at ? a.at < b.at : a.sequence < b.sequence;
  }
  void sink(Item item) {
    size_t i = 0;
    for (;;) {
      const size_t first = 4 * i + 1;
      if (first >= heap_.size()) break;
      const size_t end = first + 4 < heap_.size() ? first + 4 : heap_.size();
      size_t least = first;
      for (size_t k = first + 1; k < end; ++k)
        if (before(heap_[k], heap_[least])) least = k;
      if (!before(heap_[least], item)) break;
      heap_[i] = std::move(heap_[least]);
      i = least;
    }
    heap_[i] = std::move(item);
  }

  std::vector<Item> heap_;
  Time now_ = 0;
  uint64_t sequence_ = 0;
  uint64_t processed_ = 0;
};

}  // namespace skerry::sim
