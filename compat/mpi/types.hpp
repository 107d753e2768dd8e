// MPI's datatypes, flattened: what bytes an element covers, in the order of its type map. Made when
// a type is first used in a window, kept until it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

struct Piece {
  int64_t at;
  uint64_t bytes;
};

struct Type {
  std::vector<Piece> pieces;   // of data; neighbours are joined
  uint64_t bytes = 0;          // of data: the sum of the pieces
  int64_t extent = 0;          // from one element to the next
  bool is_contiguous = false;  // any number of elements is one piece, which starts at `first`
  int64_t first = 0;           // of the first piece, which need not be the lowest
  // All bytes lie in [lowest, highest); those of updates, gaps included, in [lowest, run_highest).
  int64_t lowest = 0, highest = 0, run_highest = 0;
  // Several pieces of `block_bytes`, `stride` apart: each as long as the first. 0: they are not.
  uint64_t block_bytes = 0;
  int64_t stride = 0;
  const Basic* basic = nullptr;  // null: of several predefined types
  // Runs of `basic`, gaps between its elements included: what updates go by. They are the pieces
  // but for pairs.
  std::vector<Piece> pair_runs;
  uint64_t run_bytes = 0;  // the sum of the runs
  const std::vector<Piece>& runs() const {
    return basic != nullptr && basic->sort == Sort::pair ? pair_runs : pieces;
  }
};

extern Registry<MPI_Datatype, const Type> known_types;

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

// Goes through the pieces (or runs) of `count` elements, in order.
class Cursor {
 public:
  Cursor(const std::vector<Piece>& pieces, int64_t extent) : pieces_(&pieces), extent_(extent) {}
  int64_t at() const { return element_at_ + (*pieces_)[piece_].at + static_cast<int64_t>(within_); }
  uint64_t rest() const { return (*pieces_)[piece_].bytes - within_; }
  void advance(uint64_t bytes) {
    within_ += bytes;
    if (within_ < (*pieces_)[piece_].bytes) return;
    within_ = 0;
    if (++piece_ < pieces_->size()) return;
    piece_ = 0;
    element_at_ += extent_;
  }

 private:
  const std::vector<Piece>* pieces_;
  int64_t extent_;
  int64_t element_at_ = 0;
  size_t piece_ = 0;
  uint64_t within_ = 0;
};

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
