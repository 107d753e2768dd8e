// What a program asks for: an access to somebody's memory. The same value goes from the interface
// down to the encoder: it is applied at once, deferred until its lock is needed, batched, or cut
// into requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/pure/element.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/shape.hpp"
#include "memory/apply.hpp"
#include "memory/spans.hpp"
#include "wire/message.hpp"

namespace skerry::origin {

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
using wire::Notify;

using Handle = uint64_t;  // 0: nothing outstanding

enum class Mode : uint8_t {
  blocking,  // returns at source done (put, accumulate) or with the data (get)
  handle,    // returns after issuing; completion through the handle
  implicit,  // the same; completion through wait_implicit
};

// An access that is one whole epoch: its data server takes this lock, applies the access and gives
// the lock back, if the lock is free. Otherwise nothing is done, and the answer is `contended`.
struct Guard {
  static constexpr uint64_t longest_bytes = 4096;  // of the access

  SegmentId locks;
  uint64_t index = 0;   // of the lock, among those of the target
  uint64_t holder = 0;  // as of Engine::lock
};

// One put, get, accumulate or fetching update. What it points to is the caller's, and stays until
// source done; what is filled, until the operation is done.
struct Access {
  wire::Kind kind = wire::Kind::put;  // put, get, accumulate or fetch_update
  Mode mode = Mode::blocking;         // with a guard: always blocking
  Target target;
  Side remote;      // at the target
  Side local;       // at the origin: read by a put, accumulate or fetching update, filled by a get
  Side result;      // fetch_update: gets the elements before. As many bytes as `local`, apart from
                    // them; a no-op does not read `local`
  Accumulate what;  // accumulate, fetch_update
  std::optional<Notify> notify;  // put: add to a counter after the data
  std::optional<Guard> guard;    // contiguous on both sides, and short
  bool by_adapter = false;       // however short: past the target's data server where that can be
  bool stays = false;     // put: the origin's bytes stay as they are until a fence, however few
  bool is_fenced = true;  // false: a put with notify that no fence waits for. Its acknowledgement
                          // may be late

  static Access put(const Target& target, const Side& remote, const Side& local, Mode mode) {
    return {wire::Kind::put, mode, target, remote, local, {}, {}, {}, {}};
  }
  static Access get(const Target& target, const Side& remote, const Side& local, Mode mode) {
    return {wire::Kind::get, mode, target, remote, local, {}, {}, {}, {}};
  }
  static Access accumulate(const Target& target, const Side& remote, const Side& local,
                           const Accumulate& what, Mode mode) {
    return {wire::Kind::accumulate, mode, target, remote, local, {}, what, {}, {}};
  }
  static Access fetch_update(const Target& target, const Side& remote, const Side& local,
                             const Side& result, const Accumulate& what, Mode mode) {
    return {wire::Kind::fetch_update, mode, target, remote, local, result, what, {}, {}};
  }

  bool updates() const {
    return kind == wire::Kind::accumulate || kind == wire::Kind::fetch_update;
  }
  bool returns_data() const { return kind == wire::Kind::get || kind == wire::Kind::fetch_update; }
  // Does it read its origin?
  bool carries_data() const {
    return kind != wire::Kind::get && !(updates() && what.operation == Operation::no_op);
  }
  // Where returned data goes.
  Side& filled() { return kind == wire::Kind::get ? local : result; }
  const Side& filled() const { return kind == wire::Kind::get ? local : result; }
  bool is_contiguous() const {
    return remote.form == Side::Form::contiguous && local.form == Side::Form::contiguous;
  }
  // At the target.
  uint64_t bytes() const { return kind == wire::Kind::fetch_update ? result.bytes : local.bytes; }
  // As what it is recorded.
  memory::SpanKind span_kind() const {
    return kind == wire::Kind::put          ? memory::SpanKind::put
           : kind == wire::Kind::get        ? memory::SpanKind::get
           : kind == wire::Kind::accumulate ? memory::SpanKind::accumulate
                                            : memory::SpanKind::fetch_update;
  }
};

// What a thread that waits for other ranks' calls does meanwhile (skerry_while_waiting), after a
// pause that grows. It does so often at first, when a rank that needs the work is likely to be
// near. A rank that waits long costs a fraction of a per cent of a core.
struct WaitingWork {
  static constexpr int64_t first_pause_ns = 100'000;
  static int64_t next_pause_ns(int64_t pause_ns) {
    return std::min<int64_t>(pause_ns + pause_ns / 8, 1'000'000);
  }

  void (*call)(void* context) = nullptr;  // null: nothing, it only sleeps
  void* context = nullptr;
};

// Long transfers are cut, so that no message occupies a server for long.
constexpr uint64_t long_part_bytes = 8u << 20;

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
// Bytes that lie in one place each: all of a side without gaps, however it is described. Pieces: 0.
uint64_t run_bytes(const Side& side);
memory::Cursor cursor_of(const Side& side);
// The request for one part of an access: the target's side, of which `done` bytes of the packed
// stream went before, and what becomes of the elements. `pieces`: the part's, of a target in
// pieces.
void describe(wire::Request& request, const Access& access, uint64_t done, size_t pieces);

}  // namespace skerry::origin
