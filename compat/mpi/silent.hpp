// Of a rank that does not answer: can this process see that it runs our library, or runs without?
#pragma once

#include <cstdint>

namespace skerry::mpi {

enum class Sight : uint8_t {
  nowhere,  // on another host, or its launcher gives ranks no numbers that we know
  without,  // it has loaded an MPI library, and not ours
  with      // it has loaded ours, and lives
};
// By /proc; ranks are those of MPI_COMM_WORLD.
Sight look_for(int own_rank, int rank);

}  // namespace skerry::mpi
