// Cases with one origin and one target: figures 6, 7 and 11 of the paper.
#include <sched.h>

#include "cases.hpp"

namespace locks {

namespace {

constexpr int target = 1;

// The median time of what fits into most of the target's computing. Looks at the clock often enough
// to notice an operation that waits for the target, and seldom enough not to weigh beside quick
// ones.
double each_during_ns(Window& window, double span_ns) {
  compute_for(0.1 * span_ns);  // by now the target computes
  const uint64_t start = bench::now_ns();
  std::vector<double> each_ns;
  int64_t value = 0;
  int batch = 1;
  for (uint64_t before = start; static_cast<double>(before - start) < 0.6 * span_ns;) {
    for (int i = 0; i < batch; ++i) lock_put_unlock(window, Mode::exclusive, target, ++value);
    const uint64_t after = bench::now_ns();
    each_ns.push_back(static_cast<double>(after - before) / batch);
    batch = each_ns.back() < 10'000 ? 32 : 1;
    before = after;
  }
  return bench::median(each_ns);
}

double with_idle_target_ns(Window& window) {
  int64_t value = 0;
  double each_ns = 0;
  if (layer::rank() == 0)
    each_ns = bench::time_each_ns([&](uint64_t n) {
      for (uint64_t i = 0; i < n; ++i) lock_put_unlock(window, Mode::exclusive, target, ++value);
    });
  layer::barrier();
  if (layer::rank() == 0) expect("the last put", read(window, target, value_word), value);
  return each_ns;
}

double with_computing_target_ns(Window& window, double span_ns) {
  const int repeats = 5 + static_cast<int>(40e6 * bench::time_scale() / span_ns);
  std::vector<double> each_ns;
  for (int i = 0; i < repeats; ++i) {
    layer::barrier();
    if (layer::rank() == target) compute_for(span_ns);
    if (layer::rank() == 0) each_ns.push_back(each_during_ns(window, span_ns));
  }
  layer::barrier();
  return bench::median(each_ns);
}

}  // namespace

// Rank 0 locks rank 1's memory, which waits in a barrier.
void idle(Kind kind, const bench::Arguments&) {
  Window window(kind, window_words);
  for (const Mode mode : {Mode::exclusive, Mode::shared}) {
    double plain_ns = 0;
    double put_ns = 0;
    int64_t value = 0;
    if (layer::rank() == 0) {
      plain_ns = bench::time_each_ns([&](uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) lock_unlock(window, mode, target);
      });
      put_ns = bench::time_each_ns([&](uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) lock_put_unlock(window, mode, target, ++value);
      });
      expect("the last put", read(window, target, value_word), value);
    }
    layer::barrier();
    report(std::string("lock.") + to_string(mode), plain_ns, "ns");
    report(std::string("lock_put.") + to_string(mode), put_ns, "ns");
  }
  check_locks(window);
}

// Rank 0 holds the lock of rank 1's memory. Each operation is done there before the next begins.
void inside(Kind kind, const bench::Arguments&) {
  Window window(kind, window_words);
  double get_ns = 0;
  double put_ns = 0;
  if (layer::rank() == 0) {
    int64_t value = 0;
    int64_t found = 0;
    window.lock(Mode::exclusive, target);
    put_ns = bench::time_each_ns([&](uint64_t n) {
      for (uint64_t i = 0; i < n; ++i) {
        ++value;
        window.put(target, value_word, &value);
        window.flush(target);
      }
    });
    get_ns = bench::time_each_ns([&](uint64_t n) {
      for (uint64_t i = 0; i < n; ++i) {
        window.get(target, value_word, &found);
        window.flush(target);
      }
    });
    window.unlock(target);
    expect("a get after the last put", found, value);
  }
  layer::barrier();
  report("get", get_ns, "ns");
  report("put", put_ns, "ns");
  check_locks(window);
}

// Rank 0 locks rank 1's memory, while rank 1 computes for a span without calling the library.
void computing(Kind kind, const bench::Arguments&) {
  Window window(kind, window_words);
  for (const int span_ms : {0, 1, 2, 5, 10}) {
    const double each_ns = span_ms == 0 ? with_idle_target_ns(window)
                                        : with_computing_target_ns(window, span_ms * 1e6);
    report("span_" + std::to_string(span_ms) + "_ms", each_ns, "ns");
  }
  check_locks(window);
}

// Rank 1 locks rank 0's memory on its own node, rank 2 does so from another; rank 0 waits in a
// barrier. Turns of a few local requests and a remote one, which a barrier starts, make up the
// share of remote requests, however long each takes.
void migration(Kind kind, const bench::Arguments&) {
  struct Share {
    int percent, local, remote;
  };
  const int turns = 10 + static_cast<int>(190 * bench::time_scale());
  Window window(kind, window_words);
  for (const Share share : {Share{0, 100, 0}, Share{1, 99, 1}, Share{10, 9, 1}, Share{50, 1, 1}}) {
    const int count = layer::rank() == 1 ? share.local : (layer::rank() == 2 ? share.remote : 0);
    uint64_t spent_ns = 0;
    for (int turn = 0; turn < turns; ++turn) {
      layer::barrier();
      const uint64_t start = bench::now_ns();
      for (int i = 0; i < count; ++i) {
        if (layer::rank() == 1) lock_unlock(window, Mode::exclusive, 0);
        else lock_put_unlock(window, Mode::exclusive, 0, turn);
      }
      spent_ns += bench::now_ns() - start;
    }
    const double each_ns = count == 0 ? 0
                                      : static_cast<double>(spent_ns) /
                                            (static_cast<double>(count) * turns);
    const std::vector<double> all = layer::gather(each_ns);
    const std::string name = ".share_" + std::to_string(share.percent);
    report("local" + name, all[1], "ns");
    if (share.remote != 0) report("remote" + name, all[2], "ns");
  }
  check_locks(window);
}

}  // namespace locks
