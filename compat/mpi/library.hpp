// The MPI library of this process: its functions, found by handle. The program may have loaded it
// for itself alone (Python does), and the names without a handle are ours.
#pragma once

#include "functions.inc"
#include "mpi_header.hpp"

// clang-format off: it indents each line of such a list more than the one before
#define SKERRY_MPI_HELPERS(X) \
  X(Abort) X(Add_error_code) X(Add_error_string) X(Allgather) X(Allreduce) X(Barrier) X(Bcast) \
  X(Comm_create_keyval) X(Comm_dup) X(Comm_free) X(Comm_get_attr) X(Comm_group) X(Comm_rank) \
  X(Comm_set_attr) X(Comm_set_errhandler) X(Comm_size) X(Comm_test_inter) X(Errhandler_free) \
  X(Error_string) X(Finalized) X(Group_free) X(Group_size) X(Group_translate_ranks) X(Info_get) \
  X(Initialized) X(Iprobe) X(Irecv) X(Is_thread_main) X(Isend) X(Op_commutative) X(Query_thread) \
  X(Recv) X(Reduce_local) X(Send) X(Test) X(Type_create_keyval) X(Type_free) \
  X(Type_get_contents) X(Type_get_envelope) X(Type_get_extent) X(Type_get_name) X(Type_set_attr) \
  X(Type_size) X(Wait) X(Win_call_errhandler) X(Win_get_errhandler) X(Win_get_name) \
  X(Win_set_errhandler)
// clang-format on
#define SKERRY_MPI_LARGE_HELPERS(X) \
  X(Type_get_contents_c) X(Type_get_envelope_c) X(Type_get_extent_c) X(Type_size_c)

#if defined(OPEN_MPI)
#define SKERRY_MPI_CONVERSIONS(X) X(Win_f2c)
#elif defined(SKERRY_MPI_STANDARD_ABI)
#define SKERRY_MPI_CONVERSIONS(X) X(Win_fromint)
#else
#define SKERRY_MPI_CONVERSIONS(X)  // MPICH's are macros
#endif

namespace skerry::mpi {

struct Real {
#define SKERRY_MPI_POINTER(name) decltype(&::PMPI_##name) name;
  SKERRY_MPI_FUNCTIONS(SKERRY_MPI_POINTER)
  SKERRY_MPI_HELPERS(SKERRY_MPI_POINTER)
  SKERRY_MPI_CONVERSIONS(SKERRY_MPI_POINTER)
#ifdef SKERRY_MPI_LARGE
  SKERRY_MPI_LARGE_FUNCTIONS(SKERRY_MPI_POINTER)
  SKERRY_MPI_LARGE_HELPERS(SKERRY_MPI_POINTER)
#endif
#undef SKERRY_MPI_POINTER
};

// A function is null if this version of the library does not have it. Ends the process if the
// library is not there.
const Real& real();

// Can MPI be called: initialised and not finalised?
bool is_up();

}  // namespace skerry::mpi
