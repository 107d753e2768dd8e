// mpi.h of the ABI that this adapter is compiled for. OpenMPI's predefined handles are addresses of
// objects in its library, which must not be linked: they are looked up by name, once for each place
// that names one.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#ifdef OPEN_MPI
namespace skerry::mpi {
void* object(const char* name);
}
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global)                        \
  ([] {                                                             \
    static void* const found_once = ::skerry::mpi::object(#global); \
    return static_cast<type>(found_once);                           \
  }())
#else
#define SKERRY_MPI_LARGE 1  // the _c functions of MPI 4
#endif
