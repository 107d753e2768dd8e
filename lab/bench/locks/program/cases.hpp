// What the cases share: waiting, one increment under the lock, and the checks that end every run.
#pragma once
#include <sched.h>

#include <string>
#include <vector>

#include "../../micro/common.hpp"
#include "../../micro/limits/compute.hpp"
#include "layer.hpp"

namespace locks {

using layer::Window;

// Where things lie in each rank's memory, in words of 8 bytes: a cache line for each.
constexpr size_t value_word = 0;   // what the measured operations put
constexpr size_t count_word = 8;   // incremented under the lock
constexpr size_t pair_word = 16;   // two words that a writer keeps equal
constexpr size_t added_word = 24;  // added to under shared locks
constexpr size_t slot_word = 32;   // from here a line for each origin
constexpr size_t slot_words = 8;
constexpr size_t window_words = slot_word + slot_words * 64;

inline void lock_unlock(Window& window, Mode mode, int target) {
  window.lock(mode, target);
  window.unlock(target);
}
inline void lock_put_unlock(Window& window, Mode mode, int target, int64_t value,
                            size_t word = value_word) {
  window.lock(mode, target);
  window.put(target, word, &value);
  window.unlock(target);
}
// Reads and then writes: two ranks inside at once would lose a count. `linger`: lets others run in
// between, so that this is certain to happen where locks do not exclude.
inline void increment(Window& window, int target, bool linger = false) {
  int64_t value = 0;
  window.lock(Mode::exclusive, target);
  window.get(target, count_word, &value);
  window.flush(target);
  if (linger) sched_yield();
  ++value;
  window.put(target, count_word, &value);
  window.unlock(target);
}
inline int64_t read(Window& window, int target, size_t word) {
  int64_t value = 0;
  window.lock(Mode::shared, target);
  window.get(target, word, &value);
  window.unlock(target);
  return value;
}

inline void compute_for(double span_ns) {
  const uint64_t start = bench::now_ns();
  bench::keep(bench::compute_until(
      [&] { return static_cast<double>(bench::now_ns() - start) >= span_ns; }));
}
inline void wait_until(uint64_t time_ns) {
  while (bench::now_ns() < time_ns) sched_yield();
}

inline void expect(const char* what, int64_t found, int64_t expected) {
  if (found == expected) return;
  const std::string text = std::string("wrong result: ") + what + " is " + std::to_string(found) +
                           ", expected " + std::to_string(expected);
  layer::stop(text.c_str());
}

// A span that all ranks agree on, although a barrier lets them go one after the other.
struct Span {
  uint64_t start_ns;
  uint64_t end_ns;
  bool holds(uint64_t time_ns) const { return time_ns >= start_ns && time_ns < end_ns; }
  double seconds() const { return static_cast<double>(end_ns - start_ns) * 1e-9; }
};
Span common_span(double span_ms);

// Report a figure once, by rank 0.
void report(const std::string& row, double value, const char* unit);

// Collective: every rank increments, adds and reads on rank 0's memory; ends the job if the sums or
// the pairs are not exact. `already`: increments made before.
void check_locks(Window& window, int64_t already = 0);

void idle(Kind kind, const bench::Arguments& arguments);
void inside(Kind kind, const bench::Arguments& arguments);
void computing(Kind kind, const bench::Arguments& arguments);
void neighbours(Kind kind, const bench::Arguments& arguments);
void contended(Kind kind, const bench::Arguments& arguments);
void ring(Kind kind, const bench::Arguments& arguments);
void migration(Kind kind, const bench::Arguments& arguments);
void tasks(Kind kind, const bench::Arguments& arguments);
void readers(Kind kind, const bench::Arguments& arguments);

}  // namespace locks
