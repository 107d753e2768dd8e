// What a caller asks of the engine: whose memory, which bytes on either side, how it wants to hear
// of the end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/pure/element.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/shape.hpp"
#include "memory/apply.hpp"
#include "wire/message.hpp"

namespace skerry::operation {

// Whose memory, and which segment.
struct Target {
  Rank rank = no_rank;
  SegmentId segment;
  bool by_message = false;  // no key of the fabric's leads there: never by RMA
};

// One side of a transfer. Origin: `base` is the buffer's address. Target: `offset` lies in the
// slice. Exactly one of the three forms.
struct Side {
  enum class Form : uint8_t { contiguous, strided, pieces };
  Form form = Form::contiguous;
  std::byte* base = nullptr;      // origin only
  uint64_t offset = 0;            // target only
  uint64_t bytes = 0;             // of the packed stream
  const Shape* shape = nullptr;   // strided
  std::span<const Piece> pieces;  // pieces; origin: offsets relative to base
};

using Accumulate = memory::Update;
struct Notify {
  uint64_t counter_offset = 0;
  uint64_t increment = 0;
};

using Handle = uint64_t;  // 0: nothing outstanding

enum class Mode : uint8_t {
  blocking,  // returns at source done (put, accumulate) or with the data (get)
  handle,    // returns after issuing; completion through the handle
  implicit,  // the same; completion through wait_implicit
};

// One put, accumulate, get or fetching update. What it points to is the caller's, and stays until
// source done.
struct Transfer {
  wire::Kind kind = wire::Kind::put;  // put, accumulate, get or fetch_update
  Target target;
  const Side& remote;                // at the target
  const Side& local;                 // at the origin; its `bytes` count
  const Accumulate* what = nullptr;  // accumulate, fetch_update
  const Notify* notify = nullptr;    // put: add to a counter after the data; null: nothing
  Mode mode = Mode::blocking;
  const Side* result = nullptr;  // fetch_update: where the old elements go, at the origin; as many
                                 // bytes as `local`, of which a no-op reads nothing
};

// What a thread that waits for other ranks' calls does meanwhile (skerry_while_waiting), after a
// pause that grows: often at first, when a rank that needs the work is likely to be near. A rank
// that waits long costs a fraction of a per cent of a core.
struct WaitingWork {
  static constexpr int64_t first_pause_ns = 100'000;
  static int64_t next_pause_ns(int64_t pause_ns) {
    return std::min<int64_t>(pause_ns + pause_ns / 8, 1'000'000);
  }

  void (*call)(void* context) = nullptr;  // null: nothing, it only sleeps
  void* context = nullptr;
};

// Bytes of somebody's slice.
struct Extent {
  Target target;
  uint64_t begin = 0;
  uint64_t end = 0;  // equal to begin: none
  bool is_empty() const { return begin == end; }
  bool overlaps(const Extent& other) const {
    return begin < other.end && other.begin < end && target.rank == other.target.rank &&
           target.segment == other.target.segment;
  }
};
// From the first to the last byte that the target's side of a transfer touches.
Extent extent_of(const Target& target, const Side& side);
// No gaps and no other order, however it is described.
bool is_contiguous(const Side& side);
// Of a strided side: bytes that lie in one place each. Others: 0.
uint64_t run_bytes(const Side& side);
memory::Cursor cursor_of(const Side& side);
// What becomes of the elements: type, operation and scale.
void describe_update(wire::Request& request, const Accumulate& what);

}  // namespace skerry::operation
