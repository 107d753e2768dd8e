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
#include <cstddef>
#include <cstdint>
#include <vector>

enum class Mode { exclusive, shared };
// allocated: the library's memory. created: the program's own, from the heap. pages: the same, in
// whole pages.
enum class Kind { allocated, created, pages };
constexpr size_t page_words = 512;

inline const char* to_string(Mode mode) { return mode == Mode::exclusive ? "exclusive" : "shared"; }
inline const char* to_string(Kind kind) {
  return kind == Kind::allocated ? "allocated" : kind == Kind::created ? "created" : "pages";
}

// The program's own memory, zeroed: the first of `words` words, at least, within `own`.
inline int64_t* own_words(Kind kind, size_t* words, std::vector<int64_t>* own) {
  if (kind == Kind::pages) *words = (*words + page_words - 1) / page_words * page_words;
  own->resize(*words + (kind == Kind::pages ? page_words : 0));
  if (kind != Kind::pages) return own->data();
  const auto address = reinterpret_cast<uintptr_t>(own->data());
  const uintptr_t page_bytes = page_words * sizeof(int64_t);
  return own->data() + (page_bytes - address % page_bytes) % page_bytes / sizeof(int64_t);
}

#ifdef LOCKS_SKERRY
#include "layer_skerry.hpp"
#else
#include "layer_mpi.hpp"
#endif
