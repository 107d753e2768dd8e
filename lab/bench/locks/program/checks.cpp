// The checks that end every run: a library that is fast and wrong gets no figure.
#include <algorithm>

#include "cases.hpp"

namespace locks {

Span common_span(double span_ms) {
  layer::barrier();
  const std::vector<double> times = layer::gather(static_cast<double>(bench::now_ns() / 1000));
  const auto last_us = static_cast<uint64_t>(*std::max_element(times.begin(), times.end()));
  const uint64_t start_ns = (last_us + 2000) * 1000;
  return {start_ns, start_ns + static_cast<uint64_t>(span_ms * 1e6 * bench::time_scale())};
}

void report(const std::string& row, double value, const char* unit) {
  if (layer::rank() == 0) bench::report(row.c_str(), value, unit);
}

namespace {

// Rank 0 keeps two words equal; the others must never see them differ.
void write_pair(Window& window, int64_t value) {
  window.lock(Mode::exclusive, 0);
  window.put(0, pair_word, &value);
  window.flush(0);
  window.put(0, pair_word + 1, &value);
  window.unlock(0);
}
void read_pair(Window& window) {
  int64_t first = 0;
  int64_t second = 0;
  window.lock(Mode::shared, 0);
  window.get(0, pair_word, &first);
  window.flush(0);
  window.get(0, pair_word + 1, &second);
  window.unlock(0);
  expect("the second word that a reader saw", second, first);
}

}  // namespace

void check_locks(Window& window, int64_t already) {
  constexpr int times = 10;
  for (int i = 1; i <= times; ++i) {
    increment(window, 0);
    window.lock(Mode::shared, 0);
    window.add(0, added_word, 1);
    window.unlock(0);
    if (layer::rank() == 0) write_pair(window, i);
    else read_pair(window);
  }
  layer::barrier();
  const int64_t added = int64_t{times} * layer::size();
  expect("the count of increments under exclusive locks", read(window, 0, count_word),
         already + added);
  expect("the sum of additions under shared locks", read(window, 0, added_word), added);
  layer::barrier();
}

}  // namespace locks
