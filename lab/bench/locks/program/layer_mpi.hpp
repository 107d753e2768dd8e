// The layer over MPI. MPI's default error handler ends the job, so results need no check.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "layer.hpp"

namespace layer {

struct State {
  int rank = 0;
  int size = 0;
  std::vector<int> leaders;
};
inline State& state() {
  static State only;
  return only;
}

inline void start(int* count, char*** values) {
  MPI_Init(count, values);
  State& s = state();
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.size);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, s.rank, MPI_INFO_NULL, &node);
  int leader = s.rank;
  MPI_Bcast(&leader, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  s.leaders.resize(static_cast<size_t>(s.size));
  MPI_Allgather(&leader, 1, MPI_INT, s.leaders.data(), 1, MPI_INT, MPI_COMM_WORLD);
}
inline void finish() { MPI_Finalize(); }
inline int rank() { return state().rank; }
inline int size() { return state().size; }
inline int leader_of(int rank) { return state().leaders[static_cast<size_t>(rank)]; }
inline void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
// A probe, as some MPIs let others' operations through only in calls that look at the network.
inline void progress() {
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
}
inline std::vector<double> gather(double mine) {
  std::vector<double> all(static_cast<size_t>(size()));
  MPI_Allgather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, MPI_COMM_WORLD);
  return all;
}
[[noreturn]] inline void stop(const char* text) {
  std::fprintf(stderr, "rank %d: %s\n", rank(), text);
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}

class Window {
 public:
  Window(Kind kind, size_t words, bool promise_free = false)
      : promises_(promise_free ? MPI_MODE_NOCHECK : 0) {
    if (kind != Kind::allocated) memory_ = own_words(kind, &words, &own_);
    const auto bytes = static_cast<MPI_Aint>(words * sizeof(int64_t));
    if (kind == Kind::allocated) {
      MPI_Win_allocate(bytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &memory_, &window_);
    } else {
      MPI_Win_create(memory_, bytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &window_);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank(), 0, window_);
    for (size_t i = 0; i < words; ++i) static_cast<int64_t*>(memory_)[i] = 0;
    MPI_Win_unlock(rank(), window_);
    barrier();
  }
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void lock(Mode mode, int rank) {
    MPI_Win_lock(mode == Mode::exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, rank, promises_,
                 window_);
  }
  void unlock(int rank) { MPI_Win_unlock(rank, window_); }
  void put(int rank, size_t word, const int64_t* from) {
    MPI_Put(from, 1, MPI_INT64_T, rank, static_cast<MPI_Aint>(word), 1, MPI_INT64_T, window_);
  }
  void get(int rank, size_t word, int64_t* to) {
    MPI_Get(to, 1, MPI_INT64_T, rank, static_cast<MPI_Aint>(word), 1, MPI_INT64_T, window_);
  }
  void add(int rank, size_t word, int64_t value) {
    added_ = value;
    MPI_Accumulate(&added_, 1, MPI_INT64_T, rank, static_cast<MPI_Aint>(word), 1, MPI_INT64_T,
                   MPI_SUM, window_);
    MPI_Win_flush_local(rank, window_);
  }
  void flush(int rank) { MPI_Win_flush(rank, window_); }

 private:
  int promises_;
  std::vector<int64_t> own_;  // empty if MPI allocated the memory
  void* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
  int64_t added_ = 0;
};

}  // namespace layer
