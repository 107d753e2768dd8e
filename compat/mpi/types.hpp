// MPI's datatypes, taken apart: what bytes an element covers, in the order of its type map. Made
// when a type is first used in a window, kept until it is freed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout.hpp"
#include "mpi_header.hpp"
#include "registry.hpp"

namespace skerry::mpi {

// What a predefined type is made for: which operations it has.
enum class Sort : uint8_t { integer, real, complex, logical, byte, pair, other };

// A predefined type.
struct Basic {
  MPI_Datatype type;
  Sort sort = Sort::other;
  int skerry_type = -1;  // for updates; below 0: the runtime has none that fits
  uint64_t bytes = 0;    // from one element to the next
  uint64_t align = 1;    // what the runtime's updates ask of an address
};

// Two predefined types may be one and the same, such as long and MPI_INT64_T.
inline bool are_same(const Basic* one, const Basic* other) {
  return one == other || (one != nullptr && other != nullptr && one->skerry_type >= 0 &&
                          one->skerry_type == other->skerry_type);
}

struct Type {
  Shape data;
  uint64_t bytes = 0;          // of data
  int64_t extent = 0;          // from one element to the next
  bool is_contiguous = false;  // any number of elements is one piece, which starts at `first`
  int64_t first = 0;           // of the first piece, which need not be the lowest
  // All bytes lie in [lowest, highest); those of updates, gaps included, in [lowest, run_highest).
  int64_t lowest = 0, highest = 0, run_highest = 0;
  // Several pieces of `block_bytes`, `stride` apart: each as long as the first. 0: they are not.
  uint64_t block_bytes = 0;
  int64_t stride = 0;
  const Basic* basic = nullptr;  // null: of several predefined types
  // Runs of `basic`, gaps between its elements included: what updates go by. They are the data but
  // for pairs.
  Shape pair_runs;         // null: it is not of pairs
  uint64_t run_bytes = 0;  // the sum of the runs
  const Layout& runs() const { return pair_runs != nullptr ? *pair_runs : *data; }
};

extern Registry<MPI_Datatype, const Type> known_types;

// A predefined one, or one of MPI_Type_create_f90_*, by what MPI says of it (predefined.cpp).
bool is_predefined(int combiner);
Type* make_predefined(MPI_Datatype type, int combiner);

// Null: not a datatype, or one that cannot be taken apart; fail() has been called.
const Type* make_type(MPI_Datatype type);
inline const Type* find_type(MPI_Datatype type) {
  const Type* const found = known_types.find(type);
  return found != nullptr ? found : make_type(type);
}

// Answers whether all bytes of `count` elements, and where they lie, can be counted in 63 bits:
// otherwise MPI_ERR_COUNT, and fail() has been called.
int check_length(const Type& type, MPI_Count count, const char* whose);

// What `count` elements cover, which end at `highest` each.
struct Span {
  int64_t first;
  uint64_t bytes;
};
inline Span span_of(const Type& type, int64_t highest, MPI_Count count) {
  if (count == 0 || type.bytes == 0) return {type.lowest, 0};
  const int64_t last = (count - 1) * type.extent;
  const int64_t first = type.lowest + (last < 0 ? last : 0);
  return {first, static_cast<uint64_t>(highest + (last > 0 ? last : 0) - first)};
}

// Splits `bytes` bytes of both sides into parts that are contiguous on both:
// action(origin offset, target offset, bytes) -> MPI_SUCCESS, or a class that ends it.
template <class Action>
int for_each_part(Cursor origin, Cursor target, uint64_t bytes, Action&& action) {
  while (bytes > 0) {
    uint64_t part = origin.rest() < target.rest() ? origin.rest() : target.rest();
    if (part > bytes) part = bytes;
    if (const int failed = action(origin.at(), target.at(), part); failed != MPI_SUCCESS)
      return failed;
    bytes -= part;
    if (bytes == 0) break;
    origin.advance(part);
    target.advance(part);
  }
  return MPI_SUCCESS;
}

}  // namespace skerry::mpi
