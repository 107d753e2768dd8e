// The few calls that the benchmark makes, over Skerry (-DLOCKS_SKERRY) or over MPI. Everything
// else of the program is the same source for every library.
//
//   start(), finish()    join and leave the job; collective
//   rank(), size()
//   leader_of(rank)      the lowest rank on the same node
//   barrier(), gather(x) collective; gather returns everybody's x by rank
//   progress()           what a library needs from a rank that polls its own memory
//   stop(text)           ends the whole job with an error
//
//   Window               `words` 64-bit words in each rank, zeroed; made and freed collectively.
//                        `promise_free`: promises wrongly that no lock conflicts, so that a test
//                        can see that the checks notice
//     lock(mode, rank), unlock(rank)         an access epoch at `rank`
//     put(rank, word, from), get(rank, word, to), add(rank, word, value)
//                                            one word, inside an epoch; add is atomic
//     flush(rank)                            what was issued is done there and here
//
// An error of the library ends the job, so no call here returns one.
#pragma once

enum class Mode { exclusive, shared };
// allocated: the library's memory. created: the program's own, from the heap.
enum class Kind { allocated, created };

inline const char* to_string(Mode mode) { return mode == Mode::exclusive ? "exclusive" : "shared"; }
inline const char* to_string(Kind kind) {
  return kind == Kind::allocated ? "allocated" : "created";
}

#ifdef LOCKS_SKERRY
#include "layer_skerry.hpp"
#else
#include "layer_mpi.hpp"
#endif
