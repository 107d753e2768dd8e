// The layer over ARMCI.
#pragma once
#include <cstring>
#include <span>

#include "mpi_job.hpp"

extern "C" {
#include <armci.h>
}

namespace layer {

inline void start(int* count, char*** values) {
  start_mpi(count, values);
  ARMCI_Init();
}
inline void finish() {
  ARMCI_Finalize();
  MPI_Finalize();
}
inline void barrier() { ARMCI_Barrier(); }

class Memory {
 public:
  explicit Memory(size_t bytes) : bases_(static_cast<size_t>(size())) {
    if (ARMCI_Malloc(bases_.data(), static_cast<armci_size_t>(bytes)) != 0)
      stop("ARMCI_Malloc failed");
    ARMCI_Access_begin(base(rank()));
    std::memset(base(rank()), 0, bytes);
    ARMCI_Access_end(base(rank()));
    barrier();
  }
  ~Memory() { ARMCI_Free(base(rank())); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int64_t fetch_add(int rank, size_t offset) {
    long old = 0;
    ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, base(rank) + offset, 1, rank);
    return old;
  }
  void accumulate(int rank, size_t offset, std::span<const double> from) {
    double scale = 1;
    int bytes[1] = {static_cast<int>(from.size_bytes())};
    int no_stride[1] = {0};
    ARMCI_NbAccS(ARMCI_ACC_DBL, &scale, const_cast<double*>(from.data()), no_stride,
                 base(rank) + offset, no_stride, bytes, 0, rank, nullptr);
  }
  void finish(int rank) { ARMCI_Fence(rank); }
  int64_t get(int rank, size_t offset) {
    int64_t value = 0;
    ARMCI_Get(base(rank) + offset, &value, sizeof value, rank);
    return value;
  }

 private:
  std::byte* base(int rank) { return static_cast<std::byte*>(bases_[static_cast<size_t>(rank)]); }

  std::vector<void*> bases_;
};

}  // namespace layer
