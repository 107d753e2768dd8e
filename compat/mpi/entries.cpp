// The functions of MPI that the program calls: each looks for the window, and hands on to ours or
// to the library's own. generate.py makes them from functions.txt.
#include "caller.hpp"
#include "progress.hpp"

namespace skerry::mpi {

#ifndef SKERRY_MPI_LARGE
// OpenMPI has no large-count forms. Windows of ours have them nevertheless: programs look for them
// by weak symbols (mpi4py does), and find those of the preloaded library.
template <class... Counts>
static bool fit_int(Counts... counts) {
  return ((counts >= INT32_MIN && counts <= INT32_MAX) && ...);
}
#endif

// They are seen from outside, unlike all else of the adapter.
#pragma GCC visibility push(default)
#include "entries.inc"
#pragma GCC visibility pop

}  // namespace skerry::mpi
