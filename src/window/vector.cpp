// Put, get and update of many pieces inside an access epoch.
#include <algorithm>

#include "window/window.hpp"

namespace skerry::window {
namespace {

// Both sides of a request to another node. Lives until the engine has the request, which copies
// what it needs longer.
struct Sides {
  std::vector<Piece> there, here;
  operation::Side target, origin;

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
    origin.form = target.form = operation::Side::Form::pieces;
    origin.pieces = here;
    target.pieces = there;
  }
  Sides(const Sides&) = delete;
};

// Of memory that the program gave, by messages of a size that its server can copy.
template <class Move>
Status in_messages(const VectorPiece& piece, Move&& move) {
  for (uint64_t done = 0; done < piece.bytes;) {
    const uint64_t bytes = std::min<uint64_t>(piece.bytes - done, fabric::inline_payload_bytes);
    operation::Side there, here;
    there.offset = piece.offset + done;
    here.base = piece.origin + done;
    there.bytes = here.bytes = bytes;
    SKERRY_TRY(move(there, here));
    done += bytes;
  }
  return {};
}

}  // namespace

// The epoch allows it, the lock is held, and every piece is inside.
Status Window::begin_vector(Rank rank, std::span<const VectorPiece> pieces, Target** found) {
  uint64_t unused = 0;
  SKERRY_TRY(begin({rank, 0, 0}, false, found, &unused));
  const uint64_t limit = (*found)->bytes;
  for (const VectorPiece& piece : pieces)
    if (piece.bytes > 0 && (piece.offset > limit || piece.bytes > limit - piece.offset))
      return error(Code::range, piece.bytes, " bytes at byte ", piece.offset, " lie outside the ",
                   limit, " bytes of rank ", rank, "'s memory");
  return {};
}

// Memory that the program gave is moved piece by piece.
Status Window::put_vector(Rank rank, std::span<const VectorPiece> pieces) {
  Target* target = nullptr;
  SKERRY_TRY(begin_vector(rank, pieces, &target));
  if (target->region == nullptr && flavor_ == Flavor::allocated) {
    const Sides sides(pieces);
    return job_->engine().put(address(*target), sides.target, sides.origin, nullptr,
                              operation::Mode::implicit, nullptr);
  }
  for (const VectorPiece& piece : pieces) {
    if (target->region != nullptr) {
      job_->local_counters().add(piece.bytes);
      SKERRY_TRY(memory::put(*target->region, piece.offset, piece.origin, piece.bytes));
      continue;
    }
    SKERRY_TRY(in_messages(piece, [&](const operation::Side& there, const operation::Side& here) {
      return job_->engine().put(address(*target), there, here, nullptr, operation::Mode::implicit,
                                nullptr);
    }));
  }
  return {};
}

Status Window::get_vector(Rank rank, std::span<const VectorPiece> pieces) {
  Target* target = nullptr;
  SKERRY_TRY(begin_vector(rank, pieces, &target));
  if (target->region == nullptr && flavor_ == Flavor::allocated) {
    const Sides sides(pieces);
    return job_->engine().get(address(*target), sides.target, sides.origin,
                              operation::Mode::implicit, nullptr);
  }
  for (const VectorPiece& piece : pieces) {
    if (target->region != nullptr) {
      job_->local_counters().add(piece.bytes);
      SKERRY_TRY(memory::get(piece.origin, *target->region, piece.offset, piece.bytes));
      continue;
    }
    SKERRY_TRY(in_messages(piece, [&](const operation::Side& there, const operation::Side& here) {
      return job_->engine().get(address(*target), there, here, operation::Mode::implicit, nullptr);
    }));
  }
  return {};
}

Status Window::update_vector(Rank rank, const memory::Update& what,
                             std::span<const VectorPiece> pieces) {
  Target* target = nullptr;
  SKERRY_TRY(begin_vector(rank, pieces, &target));
  for (const VectorPiece& piece : pieces) {
    SKERRY_TRY(check_alignment(what.type, piece.offset));
    if (piece.bytes % element_bytes(what.type) != 0)
      return error(Code::invalid, piece.bytes, " bytes are no whole elements of ",
                   to_string(what.type));
  }
  if (what.operation == Operation::no_op) return {};
  if (target->region == nullptr && flavor_ == Flavor::allocated) {
    const Sides sides(pieces);
    return job_->engine().accumulate(address(*target), sides.target, sides.origin, what,
                                     operation::Mode::implicit, nullptr);
  }
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    if (target->region != nullptr) {
      SKERRY_TRY(update_here(*target, piece.offset, what, piece.origin, nullptr, piece.bytes));
      continue;
    }
    operation::Side there, here;
    there.offset = piece.offset;
    here.base = piece.origin;
    there.bytes = here.bytes = piece.bytes;
    SKERRY_TRY(job_->engine().accumulate(address(*target), there, here, what,
                                         operation::Mode::implicit, nullptr));
  }
  return {};
}

}  // namespace skerry::window
