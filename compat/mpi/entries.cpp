// The functions of MPI that the program calls: each looks for the window, and hands on to ours or
// to the library's own.
#include "window.hpp"

namespace skerry::mpi {

#include "entries.inc"

}  // namespace skerry::mpi
