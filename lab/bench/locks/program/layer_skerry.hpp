// The layer over Skerry's windows.
#pragma once
#include <skerry/skerry.h>
#include <skerry/window.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "layer.hpp"

namespace layer {

struct State {
  skerry_job* job = nullptr;
  int rank = 0;
  int size = 0;
};
inline State& state() {
  static State only;
  return only;
}

inline int rank() { return state().rank; }
inline int size() { return state().size; }

[[noreturn]] inline void stop(const char* text) {
  std::fprintf(stderr, "rank %d: %s\n", rank(), text);
  skerry_abort(state().job, 3, text);
  std::abort();
}
inline void check(int status, const char* call) {
  if (status == SKERRY_OK) [[likely]]
    return;
  std::fprintf(stderr, "rank %d: %s: %s: %s\n", rank(), call, skerry_status_name(status),
               skerry_last_error());
  if (state().job == nullptr) std::exit(3);
  skerry_abort(state().job, 3, call);
}

inline void start(int*, char***) {
  State& s = state();
  check(skerry_init(nullptr, &s.job), "skerry_init");
  s.rank = skerry_rank(s.job);
  s.size = skerry_size(s.job);
}
inline void finish() { check(skerry_finalize(state().job), "skerry_finalize"); }
inline skerry_group* world() { return skerry_world(state().job); }
inline int leader_of(int rank) {
  return skerry_node_rank(state().job, skerry_node_of(state().job, rank), 0);
}
inline void barrier() { check(skerry_barrier(world()), "skerry_barrier"); }
inline void progress() {}  // nothing waits for this rank
inline std::vector<double> gather(double mine) {
  std::vector<double> all(static_cast<size_t>(size()));
  check(skerry_allgather(world(), &mine, sizeof mine, all.data()), "skerry_allgather");
  return all;
}

class Window {
 public:
  Window(Kind kind, size_t words, bool promise_free = false)
      : promises_(promise_free ? SKERRY_NO_CHECK : 0) {
    int64_t* const own = kind == Kind::allocated ? nullptr : own_words(kind, &words, &own_);
    const uint64_t bytes = words * sizeof(int64_t);
    if (kind == Kind::allocated) {
      check(skerry_window_allocate(world(), bytes, sizeof(int64_t), &window_),
            "skerry_window_allocate");
    } else {
      check(skerry_window_create(world(), own, bytes, sizeof(int64_t), &window_),
            "skerry_window_create");
    }
    barrier();
  }
  ~Window() { check(skerry_window_free(window_), "skerry_window_free"); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void lock(Mode mode, int rank) {
    const int asked = mode == Mode::exclusive ? SKERRY_LOCK_EXCLUSIVE : SKERRY_LOCK_SHARED;
    check(skerry_window_lock(window_, asked, rank, promises_), "skerry_window_lock");
  }
  void unlock(int rank) { check(skerry_window_unlock(window_, rank), "skerry_window_unlock"); }
  void put(int rank, size_t word, const int64_t* from) {
    check(skerry_window_put(window_, rank, word, from, sizeof *from), "skerry_window_put");
  }
  void get(int rank, size_t word, int64_t* to) {
    check(skerry_window_get(window_, rank, word, to, sizeof *to), "skerry_window_get");
  }
  void add(int rank, size_t word, int64_t value) {
    check(skerry_window_update(window_, rank, word, SKERRY_INT64, SKERRY_SUM, &value, 1),
          "skerry_window_update");
    check(skerry_window_flush_local(window_, rank), "skerry_window_flush_local");
  }
  void flush(int rank) { check(skerry_window_flush(window_, rank), "skerry_window_flush"); }

 private:
  uint32_t promises_;
  std::vector<int64_t> own_;  // empty if Skerry allocated the memory
  skerry_window* window_ = nullptr;
};

}  // namespace layer
