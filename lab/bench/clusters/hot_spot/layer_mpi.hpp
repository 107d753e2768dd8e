// The layer over MPI's windows, in one epoch of shared locks from beginning to end.
#pragma once
#include <cstring>
#include <span>

#include "mpi_job.hpp"

namespace layer {

inline void start(int* count, char*** values) { start_mpi(count, values); }
inline void finish() { MPI_Finalize(); }
inline void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

class Memory {
 public:
  explicit Memory(size_t bytes) {
    MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory_,
                     &window_);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank(), 0, window_);
    std::memset(memory_, 0, bytes);
    MPI_Win_unlock(rank(), window_);
    barrier();
    MPI_Win_lock_all(0, window_);
  }
  ~Memory() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int64_t fetch_add(int rank, size_t offset) {
    const int64_t one = 1;
    int64_t old = 0;
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, rank, static_cast<MPI_Aint>(offset), MPI_SUM,
                     window_);
    MPI_Win_flush(rank, window_);
    return old;
  }
  void accumulate(int rank, size_t offset, std::span<const double> from) {
    const int count = static_cast<int>(from.size());
    MPI_Accumulate(from.data(), count, MPI_DOUBLE, rank, static_cast<MPI_Aint>(offset), count,
                   MPI_DOUBLE, MPI_SUM, window_);
  }
  void finish(int rank) { MPI_Win_flush(rank, window_); }
  int64_t get(int rank, size_t offset) {
    int64_t value = 0;
    MPI_Get(&value, 1, MPI_INT64_T, rank, static_cast<MPI_Aint>(offset), 1, MPI_INT64_T, window_);
    MPI_Win_flush(rank, window_);
    return value;
  }

 private:
  void* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace layer
