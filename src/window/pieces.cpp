// Many pieces, and blocks at equal distances.
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "window/access.hpp"

namespace skerry::window {

using origin::Side;

namespace {

// Both sides of a request to another node. Lives until the engine has the request, which copies
// what it needs longer.
struct Sides {
  std::vector<Piece> there, here;
  origin::Side target, origin;

  explicit Sides(std::span<const VectorPiece> pieces) {
    std::byte* low = nullptr;
    for (const VectorPiece& piece : pieces)
      if (piece.bytes > 0 && (low == nullptr || piece.origin < low)) low = piece.origin;
    for (const VectorPiece& piece : pieces) {
      if (piece.bytes == 0) continue;
      here.push_back({static_cast<uint64_t>(piece.origin - low), piece.bytes});
      there.push_back({piece.offset, piece.bytes});
      target.bytes += piece.bytes;
    }
    origin.bytes = target.bytes;
    origin.base = low;
    if (target.bytes == 0) return;
    origin.form = target.form = origin::Side::Form::pieces;
    origin.pieces = here;
    target.pieces = there;
  }
  Sides(const Sides&) = delete;
};

}  // namespace

Status Accesses::check_pieces(const Target& target, const memory::Update* what,
                              std::span<const VectorPiece> pieces) {
  const uint64_t limit = target.bytes;
  for (const VectorPiece& piece : pieces)
    if (piece.bytes > 0 && (piece.offset > limit || piece.bytes > limit - piece.offset))
      return error(Code::range, piece.bytes, " bytes at byte ", as_written(piece.offset),
                   " lie outside the ", limit, " bytes of rank ", target.rank, "'s memory");
  if (what == nullptr) return {};
  const ElementType type = what->type;
  for (const VectorPiece& piece : pieces) {
    SKERRY_TRY(check_alignment(type, piece.offset));
    if (piece.bytes % element_bytes(type) != 0)
      return error(Code::invalid, piece.bytes, " bytes are no whole elements of ", to_string(type));
  }
  return {};
}

Status Accesses::access_pieces(Rank rank, wire::Kind kind, const memory::Update* what,
                               std::span<const VectorPiece> pieces) {
  Target* target = nullptr;
  uint64_t unused = 0;
  SKERRY_TRY(epochs_.begin_access({rank, 0, 0}, false, &target, &unused));
  SKERRY_TRY(check_pieces(*target, what, pieces));
  if (what != nullptr && what->operation == Operation::no_op) return {};
  if (is_one_request(*target)) {
    const Sides sides(pieces);
    Access access = access_of(*target, {kind, nullptr, nullptr, what}, 0, 0, Mode::implicit);
    access.remote = sides.target;
    access.local = sides.origin;
    return context_.issued(*target, context_.job.engine().issue(access));
  }
  const bool is_get = kind == wire::Kind::get;
  if (target->region != nullptr && context_.check == nullptr) {
    if (what != nullptr) return update_pieces(*target, *what, pieces);
    if (target->plain == nullptr) return move_pieces(*target, pieces, !is_get);
  }
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    std::byte* const here = piece.origin;
    const Block block{kind, is_get ? nullptr : here, is_get ? here : nullptr, what};
    SKERRY_TRY(issue_checked(*target, piece.offset, piece.bytes, block, nullptr));
  }
  return context_.issued(*target, {});
}

// Memory of this node that the kernel moves. As many at a time as the kernel takes with one call.
Status Accesses::move_pieces(const Target& target, std::span<const VectorPiece> pieces,
                             bool is_put) {
  if (is_put) context_.will_store();
  std::array<memory::Given::Part, memory::Given::most_parts> parts;
  size_t count = 0;
  const auto flush = [&] {
    const std::span<const memory::Given::Part> now(parts.data(), std::exchange(count, 0));
    return is_put ? target.region->given->write_parts(now) : target.region->given->read_parts(now);
  };
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    context_.job.local_counters().add(piece.bytes);
    parts[count++] = {piece.origin, piece.offset, piece.bytes};
    if (count == parts.size()) SKERRY_TRY(flush());
  }
  return count == 0 ? Status() : flush();
}

// This node's memory. Pieces that follow each other in one stripe are gathered to one: each update
// costs a lock and, in memory that the program gave, two system calls. A stripe, and no more, so
// that all of it changes as a whole, as short pieces do that go alone.
Status Accesses::update_pieces(const Target& target, const memory::Update& what,
                               std::span<const VectorPiece> pieces) const {
  alignas(64) std::array<std::byte, memory::stripe_bytes> gathered;
  uint64_t begin = 0, bytes = 0;
  const auto flush = [&] {
    return bytes == 0 ? Status()
                      : update_here(target, begin, what, gathered.data(), nullptr,
                                    std::exchange(bytes, 0));
  };
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    const uint64_t in_stripe = memory::stripe_bytes - piece.offset % memory::stripe_bytes;
    const bool follows = bytes > 0 && piece.offset == begin + bytes &&
                         piece.offset % memory::stripe_bytes != 0;
    if (!follows || piece.bytes > in_stripe) SKERRY_TRY(flush());
    if (piece.bytes > in_stripe) {
      SKERRY_TRY(update_here(target, piece.offset, what, piece.origin, nullptr, piece.bytes));
      continue;
    }
    if (bytes == 0) begin = piece.offset;
    std::memcpy(gathered.data() + bytes, piece.origin, piece.bytes);
    bytes += piece.bytes;
  }
  return flush();
}

// ---- blocks at equal distances ------------------------------------------------------------------

namespace {

// One by one, for what takes no shapes. The first one's side is at offset 0 of `here`.
std::vector<VectorPiece> pieces_of(uint64_t offset, const Shape& there, std::byte* origin,
                                   const Shape& here) {
  std::vector<VectorPiece> pieces;
  Odometer odometer;
  int64_t to = static_cast<int64_t>(offset), from = 0;
  do pieces.push_back({origin + from, static_cast<uint64_t>(to), there.block_bytes});
  while (odometer.step(there, &to, here, &from));
  return pieces;
}

Side strided_side(std::byte* base, uint64_t offset, const Shape& shape, uint64_t bytes) {
  Side side;
  side.form = Side::Form::strided;
  side.base = base;
  side.offset = offset;
  side.bytes = bytes;
  side.shape = &shape;
  return side;
}

}  // namespace

Status Accesses::access_strided(Rank rank, wire::Kind kind, uint64_t offset, const Shape& there,
                                std::byte* origin, const Shape& here) {
  Target* target = nullptr;
  uint64_t unused = 0, bytes = 0;
  SKERRY_TRY(epochs_.begin_access({rank, 0, 0}, false, &target, &unused));
  if (memory_.flavor() != Flavor::dynamic && !within(there, offset, target->bytes))
    return error(Code::range, "a strided transfer from byte ", as_written(offset), " leaves the ",
                 target->bytes, " bytes of rank ", rank, "'s memory");
  if (!stream_bytes(there, &bytes) || bytes == 0) return {};
  const bool is_put = kind == wire::Kind::put;
  if (target->plain != nullptr && target->plain == target->region && context_.check == nullptr) {
    const memory::CallSpan call(
        &context_.job.spans(), is_put ? memory::SpanKind::put : memory::SpanKind::get, rank, bytes);
    context_.job.local_counters().add(bytes);
    std::byte* const memory = target->plain->base + offset;
    if (is_put) context_.will_store();
    if (is_put) memory::put_strided(memory, there, origin, here);
    else memory::get_strided(origin, here, memory, there);
    return {};
  }
  if (!is_one_request(*target))
    return access_pieces(rank, kind, nullptr, pieces_of(offset, there, origin, here));
  Access access = access_of(*target, {kind, nullptr, nullptr, nullptr}, 0, 0, Mode::implicit);
  access.remote = strided_side(nullptr, offset, there, bytes);
  access.local = strided_side(origin, 0, here, bytes);
  return context_.issued(*target, context_.job.engine().issue(access));
}

}  // namespace skerry::window
