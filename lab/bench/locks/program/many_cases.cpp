// Cases with many origins: figures 8, 9, 10 and 12 of the paper, and shared locks.
#include <algorithm>
#include <numeric>

#include "cases.hpp"

namespace locks {

namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// How often this rank can do `body` in the span; `longest_ns`: the longest that one took.
struct Tally {
  int64_t all = 0;
  int64_t in_span = 0;
  uint64_t longest_ns = 0;
};
template <typename Body>
Tally repeat_in(const Span& span, Body&& body) {
  Tally tally;
  uint64_t before = bench::now_ns();
  while (before < span.end_ns) {
    body(tally.all + 1);
    ++tally.all;
    const uint64_t after = bench::now_ns();
    if (span.holds(before) && span.holds(after)) ++tally.in_span;
    tally.longest_ns = std::max(tally.longest_ns, after - before);
    before = after;
  }
  return tally;
}

// Rank `me` reads its own memory, under its lock as MPI asks, until the token of `lap` is there.
void wait_for_token(Window& window, int me, int64_t lap) {
  while (read(window, me, value_word) < lap) {
    layer::progress();
    sched_yield();
  }
}
void pass_token(Window& window, int next, int64_t lap) {
  const int64_t data = lap * 3;
  window.lock(Mode::exclusive, next);
  window.put(next, slot_word, &data);
  window.put(next, value_word, &lap);
  window.unlock(next);
}

// The time of one lap: each rank computes, waits for the token and passes it on.
double lap_ns(Window& window, double span_ns, int64_t first, int64_t laps) {
  const int me = layer::rank();
  const int next = (me + 1) % layer::size();
  const int64_t warm = first + 2;
  uint64_t start = 0;
  layer::barrier();
  for (int64_t lap = first; lap < warm + laps; ++lap) {
    if (lap == warm) start = bench::now_ns();
    compute_for(span_ns);
    wait_for_token(window, me, me == 0 ? lap - 1 : lap);
    pass_token(window, next, lap);
  }
  const uint64_t end = bench::now_ns();
  if (me == 0) wait_for_token(window, me, warm + laps - 1);
  layer::barrier();
  expect("the data beside the last token", read(window, me, slot_word), (warm + laps - 1) * 3);
  return static_cast<double>(end - start) / static_cast<double>(laps);
}

size_t slot_of(int rank) { return slot_word + slot_words * static_cast<size_t>(rank); }

void lock_each(Window& window, const std::vector<int>& targets, int64_t from, int64_t count) {
  for (const int target : targets)
    for (int64_t i = 1; i <= count; ++i)
      lock_put_unlock(window, Mode::exclusive, target, from + i, slot_of(layer::rank()));
}

}  // namespace

// Every rank locks the memory of the next one.
void neighbours(Kind kind, const bench::Arguments&) {
  Window window(kind, window_words);
  const int me = layer::rank();
  const int size = layer::size();
  const Span span = common_span(300);
  const Tally tally = repeat_in(span, [&](int64_t value) {
    lock_put_unlock(window, Mode::exclusive, (me + 1) % size, value);
  });
  const std::vector<double> all = layer::gather(static_cast<double>(tally.all));
  const std::vector<double> counted = layer::gather(static_cast<double>(tally.in_span));
  expect("the last put of the neighbour", read(window, me, value_word),
         static_cast<int64_t>(all[static_cast<size_t>((me + size - 1) % size)]));
  report("latency", span.seconds() * 1e9 * size / std::max(1.0, sum(counted)), "ns");
  check_locks(window);
}

// Every rank, rank 0 included, increments a counter in rank 0's memory under its lock.
void contended(Kind kind, const bench::Arguments& arguments) {
  const bool broken = arguments.has("--broken");
  Window window(kind, window_words, broken);
  const Span span = common_span(600);
  const Tally tally = repeat_in(span, [&](int64_t) { increment(window, 0, broken); });
  layer::barrier();
  const std::vector<double> all = layer::gather(static_cast<double>(tally.all));
  const std::vector<double> counted = layer::gather(static_cast<double>(tally.in_span));
  const std::vector<double> longest = layer::gather(static_cast<double>(tally.longest_ns));
  const auto [fewest, most] = std::minmax_element(counted.begin(), counted.end());
  report("throughput", sum(counted) / span.seconds() / 1e6, "M/s");
  report("fairness", *most / std::max(1.0, *fewest), "times");
  report("longest", *std::max_element(longest.begin(), longest.end()), "ns");
  check_locks(window, static_cast<int64_t>(sum(all)));
}

// A token goes round. In each lap every rank computes for a span, waits for the token and passes it
// on with some data.
void ring(Kind kind, const bench::Arguments&) {
  Window window(kind, window_words);
  int64_t first = 1;
  for (const int span_us : {0, 200, 1000, 2000}) {
    const auto laps = static_cast<int64_t>(20 + 100e3 * bench::time_scale() /
                                                    (span_us == 0 ? 500 : span_us));
    report("span_" + std::to_string(span_us) + "_us", lap_ns(window, span_us * 1e3, first, laps),
           "ns");
    first += laps + 2;
  }
  check_locks(window);
}

// The leader of each node locks every rank of its node, then the other leaders, then its node's
// ranks again. The others wait in a barrier.
void tasks(Kind kind, const bench::Arguments& arguments) {
  const int64_t count = arguments.number("--count", static_cast<long>(1000 * bench::time_scale()));
  const int me = layer::rank();
  const bool leads = layer::leader_of(me) == me;
  std::vector<int> local;
  std::vector<int> leaders;
  for (int rank = 0; rank < layer::size(); ++rank) {
    if (rank == me) continue;
    if (layer::leader_of(rank) == me) local.push_back(rank);
    if (layer::leader_of(rank) == rank) leaders.push_back(rank);
  }
  Window window(kind, window_words);
  double spent_ns = 0;
  if (leads) {
    const uint64_t start = bench::now_ns();
    lock_each(window, local, 0, count);
    lock_each(window, leaders, 0, count);
    lock_each(window, local, count, count);
    spent_ns = static_cast<double>(bench::now_ns() - start);
  }
  layer::barrier();
  for (const int target : leads ? local : std::vector<int>{})
    expect("the last put to a rank", read(window, target, slot_of(me)), 2 * count);
  for (const int target : leads ? leaders : std::vector<int>{})
    expect("the last put to a leader", read(window, target, slot_of(me)), count);
  const std::vector<double> all = layer::gather(spent_ns);
  // as if it were 1,000, also in a shorter measurement
  const double longest_ns = *std::max_element(all.begin(), all.end());
  report("total", longest_ns * 1000 / static_cast<double>(count), "ns");
  check_locks(window);
}

// All ranks but 0, which waits in a barrier, read rank 0's memory under shared locks.
void readers(Kind kind, const bench::Arguments&) {
  Window window(kind, window_words);
  const Span span = common_span(300);
  Tally tally;
  if (layer::rank() != 0) tally = repeat_in(span, [&](int64_t) { read(window, 0, value_word); });
  layer::barrier();
  const std::vector<double> counted = layer::gather(static_cast<double>(tally.in_span));
  report("throughput", sum(counted) / span.seconds() / 1e6, "M/s");
  check_locks(window);
}

}  // namespace locks
