// Accesses inside an epoch. What leaves the node is a value, origin::Access: `issue` defers it
// until the epoch needs its lock, or sends it. Memory of this node is accessed at once.
//
//   access.cpp   one block
//   pieces.cpp   many pieces, and blocks at equal distances
#pragma once

#include <cstdint>
#include <span>

#include "window/context.hpp"
#include "window/epochs.hpp"
#include "window/memory.hpp"

namespace skerry::window {

using origin::Access;

// One piece of an access; `offset` counts bytes, whatever the target's unit.
struct VectorPiece {
  std::byte* origin = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class Accesses {
 public:
  Accesses(WindowContext& context, const Memory& memory, Epochs& epochs)
      : context_(context), memory_(memory), epochs_(epochs) {}

  // `handle` null: done at the next synchronization.
  Status put(const Place& to, const void* origin, origin::Handle* handle);
  Status get(const Place& from, void* origin, origin::Handle* handle);
  // target = target (operation) origin for whole elements; the type has the operation.
  Status update(const Place& to, const memory::Update& what, const void* origin,
                origin::Handle* handle);
  // The same; `result` gets the elements before. A no-op reads no `origin`.
  Status fetch_update(const Place& at, const memory::Update& what, const void* origin, void* result,
                      origin::Handle* handle);
  // A put, get or accumulate (`what`; null: none) of pieces anywhere in a member's memory. A wrong
  // one: none is accessed.
  Status access_pieces(Rank rank, wire::Kind kind, const memory::Update* what,
                       std::span<const VectorPiece> pieces);
  // A put or get of blocks at equal distances: equal but for the strides, and not malformed.
  // `offset` in bytes.
  Status access_strided(Rank rank, wire::Kind kind, uint64_t offset, const Shape& there,
                        std::byte* origin, const Shape& here);
  // Of 1, 2, 4 or 8 bytes. Blocks until *old is there.
  Status compare_swap(const Place& at, uint64_t expected, uint64_t desired, uint64_t* old);

 private:
  using Mode = origin::Mode;

  // This side of an access of one block. Within the node nothing more is needed: to fill in a whole
  // Access takes as long as a short put.
  struct Block {
    wire::Kind kind;
    const void* origin;          // read; null: nothing is
    void* result;                // filled; null: nothing is
    const memory::Update* what;  // accumulate, fetch_update
    bool reads() const {  // a no-op reads nothing: what was given as its origin may be no memory
      return kind != wire::Kind::get && (what == nullptr || what->operation != Operation::no_op);
    }
  };
  Access access_of(const Target& target, const Block& block, uint64_t offset, uint64_t bytes,
                   Mode mode) const;
  Status run(const Place& place, const Block& block, origin::Handle* handle);
  // Of a member elsewhere. True: it is issued, in the batch that is being collected for it.
  bool join_batch(const Target& target, uint64_t offset, uint64_t bytes, const Block& block);
  // In the debug mode it is looked at, too.
  Status issue_checked(Target& target, uint64_t offset, uint64_t bytes, Block block,
                       origin::Handle* handle);
  Status issue(Target& target, uint64_t offset, uint64_t bytes, const Block& block,
               origin::Handle* handle);
  Status send_in_parts(const Access& access, origin::Handle* handle);
  bool goes_by_adapter(const Target& target) const {
    return target.goes_by_adapter() && memory_.flavor() == Flavor::allocated;
  }
  // Under the lock nobody else changes the elements between a get and a put, unless several threads
  // of this rank share it. Then the target's data server updates them. So it does after the first
  // few of an epoch: each of those waits for two round trips, and messages travel together.
  static constexpr uint32_t most_updates_by_adapter = 4;
  bool updates_by_adapter(const Target& target) const {
    return goes_by_adapter(target) && !context_.multiple &&
           target.updates_by_adapter < most_updates_by_adapter;
  }
  Status update_by_adapter(const Access& access);
  Status compare_swap_by_adapter(const Target& target, uint64_t offset, uint64_t bytes,
                                 uint64_t expected, uint64_t desired, uint64_t* old);
  Status apply_here(const Target& target, uint64_t offset, uint64_t bytes, const Block& block);
  Status update_here(const Target& target, uint64_t offset, const memory::Update& what,
                     const void* origin, void* result, uint64_t bytes) const;
  static Status check_alignment(ElementType type, uint64_t offset);
  // Do pieces travel together? Memory that the program gave is moved piece by piece.
  bool is_one_request(const Target& target) const {
    return target.region == nullptr && memory_.flavor() == Flavor::allocated &&
           context_.check == nullptr;
  }
  // Every piece is inside, and of whole elements.
  static Status check_pieces(const Target& target, const memory::Update* what,
                             std::span<const VectorPiece> pieces);
  Status move_pieces(const Target& target, std::span<const VectorPiece> pieces, bool is_put);
  Status update_pieces(const Target& target, const memory::Update& what,
                       std::span<const VectorPiece> pieces) const;

  WindowContext& context_;
  const Memory& memory_;
  Epochs& epochs_;
};

}  // namespace skerry::window
