// apply: where put, get, accumulate, update and read-modify-write touch bytes of a slice. The one
// other place is the fabric, which places long puts directly (docs/design/0004). Pure but for the
// stripes it locks, and for memory that a program gave (given.hpp).
//
// Callers have checked bounds (core/pure/shape.hpp: within), element types and alignment; apply
// asserts nothing about user input.
//
// What is atomic. Elements of an accumulate or update, and read-modify-writes, are atomic with each
// other (same stripe). An element that straddles two stripes, as a complex one may, is changed
// under both; so is a block of at most `whole_bytes`, which therefore changes as a whole. Puts,
// gets and strided blocks of 1, 2, 4 or 8 bytes at a multiple of their size are single stores and
// loads and do not tear. Everything else is copied in any order: a reader during a write sees a
// mixture.
//
// Order. A put releases and a get acquires. On one node, a rank that gets a flag sees the data put
// before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/pure/element.hpp"
#include "core/pure/shape.hpp"
#include "core/pure/status.hpp"
#include "memory/stripes.hpp"

namespace skerry::memory {

struct Given;

enum class Kind : uint8_t {
  node_shared,  // a slice of a segment, mapped by every process of the node
  given,        // memory of one process of the node alone (given.hpp); no base
  lock_words,   // node_shared, and ranks change its words by atomics of the processor, without
                // stripes: read-modify-writes are atomics, too
};

// One rank's slice as mapped by the caller.
struct Region {
  std::byte* base = nullptr;  // null: the slice has no bytes
  uint64_t bytes = 0;
  uint32_t seed = 0;  // stripe_seed(segment, rank)
  Kind kind = Kind::node_shared;
  const Given* given = nullptr;  // of Kind::given

  // Is [offset, offset + count) inside?
  bool holds(uint64_t offset, uint64_t count) const;
};

// ---- put and get ------------------------------------------------------------------------------
// Buffers must not overlap.
void put(std::byte* target, const void* origin, uint64_t bytes);
void get(void* origin, const std::byte* target, uint64_t bytes);
// The same for a region of any kind; the bytes are inside. Errors: those of Given::read and write.
Status put(const Region& target, uint64_t offset, const void* origin, uint64_t bytes);
Status get(void* origin, const Region& target, uint64_t offset, uint64_t bytes);

// Both sides strided: equal block_bytes, levels and counts.
void put_strided(std::byte* target, const Shape& target_shape, const std::byte* origin,
                 const Shape& origin_shape);
void get_strided(std::byte* origin, const Shape& origin_shape, const std::byte* target,
                 const Shape& target_shape);

// ---- accumulate and update --------------------------------------------------------------------
struct Scale {
  alignas(16) std::byte value[max_element_bytes];
  bool is_one;

  static Scale one();
  // `value` points to one element of `type`, at any alignment; null means one.
  static Scale of(ElementType type, const void* value);
  // Of the same type, and the same to the bit: a long double's padding may tell equal ones apart.
  bool operator==(const Scale& other) const {
    return is_one ? other.is_one
                  : !other.is_one && std::memcmp(value, other.value, sizeof value) == 0;
  }
};

// What becomes of each element: target = target (operation) scale * origin. The type has the
// operation; only a sum has a scale.
struct Update {
  ElementType type = ElementType::float64;
  Scale scale = Scale::one();
  Operation operation = Operation::sum;

  bool operator==(const Update& other) const {
    return type == other.type && operation == other.operation && scale == other.scale;
  }
};

// Blocks of an accumulate or update up to this length are atomic as a whole. MPI promises it of
// elements only, but MPI libraries do it, and programs keep a rank and an address in one update.
constexpr uint64_t whole_bytes = 64;

struct Applied {
  uint64_t
      bytes = 0;  // of the stream (or shape, in stream order) that are done; always whole elements
  LockResult
      result = LockResult::locked;  // locked: all done. Otherwise why it stopped after `bytes`
  uint32_t stripe = 0;              // the one that stopped it
  Status failure;  // of given memory that could not be reached: it stopped after `bytes`

  bool ok() const { return result == LockResult::locked && failure.ok(); }
  // Ok, or why it stopped.
  Status explain(const Stripes& stripes) const {
    return !failure.ok()                  ? failure
           : result == LockResult::locked ? Status()
                                          : stripes.explain(result, stripe);
  }
};

// offset is a multiple of part_bytes(type), bytes of element_bytes(type); origin has any alignment.
// Of a no-op its address counts, not its bytes.
// `old`: where the elements before the change go, as a packed stream, apart from `origin`; null:
// they are not wanted.
Applied accumulate(const Region& region, uint64_t offset, const std::byte* origin, uint64_t bytes,
                   const Update& what, const Stripes& stripes, Patience patience,
                   std::byte* old = nullptr);

// One element that is neither complex nor a long double: the fast paths for loops over single
// elements. `scale`: at any alignment; null means one. `old` null: not wanted.
constexpr bool goes_alone(ElementType type) {
  return !is_complex(type) && type != ElementType::long_double;
}
LockResult accumulate_one(const Region& region, uint64_t offset, const void* origin,
                          ElementType type, const void* scale, const Stripes& stripes);
LockResult update_one(const Region& region, uint64_t offset, const void* origin, ElementType type,
                      Operation operation, void* old, const Stripes& stripes);

// Both sides strided. With Patience::try_once use a Cursor instead: this one cannot be resumed.
Applied accumulate_strided(const Region& region, uint64_t offset, const Shape& target_shape,
                           const std::byte* origin, const Shape& origin_shape, const Update& what,
                           const Stripes& stripes);

// ---- read-modify-write ------------------------------------------------------------------------
enum class RmwOp : uint8_t { fetch_add = 0, swap = 1, compare_swap = 2 };

struct Rmw {
  RmwOp op;
  uint8_t word_bytes;  // 1, 2, 4 or 8; fewer than 4: compare_swap only
  uint64_t operand;    // what to add or store; 32-bit operations use the low half
  uint64_t expected;   // compare_swap only
};

// *old: the word before (32-bit ones zero-extended); set only if the result is locked. offset is a
// multiple of word_bytes.
// `failure`: of given memory that could not be reached; null if the region is not given.
LockResult rmw(const Region& region, uint64_t offset, const Rmw& what, const Stripes& stripes,
               Patience patience, uint64_t* old, Status* failure = nullptr);

// ---- pieces of the packed stream --------------------------------------------------------------
// A Cursor walks one side of a transfer in stream order and can stop anywhere. Origins pack with
// it, servers unpack, and long transfers are split into chunks. Pointers to memory are those of the
// first block (shape) or of offset 0 (pieces).
class Cursor {
 public:
  explicit Cursor(const Shape& shape);
  // `pieces` must outlive the cursor.
  explicit Cursor(std::span<const Piece> pieces);

  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t position() const { return position_; }
  bool at_end() const { return position_ == total_bytes_; }
  // Anywhere within [0, total_bytes()].
  void seek(uint64_t position);

  // Each moves stream bytes [position, position + stream.size()) and advances. stream.size() is at
  // most what is left.
  void pack(std::span<std::byte> stream,
            const std::byte* memory);  // memory -> stream (get at a target)
  void unpack(std::byte* memory,
              std::span<const std::byte> stream);  // stream -> memory (put at a target)
  // Lists where the next `bytes` of the stream lie, in order, so that a caller can send them from
  // there. False: in more than `most` pieces; the cursor's position is then undefined.
  [[nodiscard]] bool gather(const std::byte* memory, uint64_t bytes, size_t most,
                            std::vector<std::span<const std::byte>>* parts);
  // Position, chunk sizes and the shape's block are multiples of the element size. Stops early as
  // Applied says; position advances by Applied::bytes, so that a repeated call with the rest of the
  // stream resumes. first: offset of the first block (shape) or 0 (pieces). `old`: as above, beside
  // `stream`.
  Applied accumulate(const Region& region, uint64_t first, std::span<const std::byte> stream,
                     const Update& what, const Stripes& stripes, Patience patience,
                     std::byte* old = nullptr);

 private:
  // A run of `blocks` equal blocks at `offset`, `stride` apart; or, with blocks == 1, part of a
  // block.
  struct Run {
    int64_t offset;
    int64_t stride;
    uint64_t block_bytes;
    uint64_t blocks;
  };
  Run next_run(uint64_t limit_bytes);
  void advance_row(uint64_t blocks);

  Shape shape_;  // coalesced; the one block of the current piece when pieces_ is not empty
  std::span<const Piece> pieces_;  // empty: a shape
  uint64_t piece_ = 0;             // current piece
  uint64_t total_bytes_ = 0;
  uint64_t position_ = 0;
  uint64_t index_[max_levels] = {};  // of the current block
  int64_t offset_ = 0;               // of the current block
  uint64_t in_block_ = 0;            // bytes of the current block that are behind
};

}  // namespace skerry::memory
