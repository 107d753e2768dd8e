// The few calls that the hot-spot benchmark makes, over Skerry (-DHOT_SKERRY), ARMCI (-DHOT_ARMCI)
// or MPI's windows. Everything else of the program is the same source for every library.
//
//   start(), finish()    join and leave the job; collective
//   rank(), size()
//   is_near(rank)        on this rank's node
//   barrier(), gather(x) collective; gather returns everybody's x by rank
//   stop(text)           ends the whole job with an error
//   account_bytes()      what the library says that serving others takes in this process; -1: it
//                        does not say
//
//   Memory               `bytes` in each rank, zeroed; made and freed collectively
//     fetch_add(rank, offset)           adds 1 to a 64-bit word; what it was
//     accumulate(rank, offset, from)    adds doubles, non-blocking: `from` stays as it is until
//                                       finish
//     finish(rank)                      all accumulates on that rank are done there
//     get(rank, offset)                 a 64-bit word
//
// An error of the library ends the job, so no call here returns one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#if defined(HOT_SKERRY)
#include "layer_skerry.hpp"
#elif defined(HOT_ARMCI)
#include "layer_armci.hpp"
#else
#include "layer_mpi.hpp"
#endif
