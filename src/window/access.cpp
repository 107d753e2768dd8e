// Put, get and update inside an access epoch.
#include <array>
#include <cstring>
#include <utility>

#include "window/window.hpp"

namespace skerry::window {
namespace {

using memory::CallSpan;
using memory::SpanKind;
using operation::Mode;
using operation::Side;

Mode mode_of(const operation::Handle* handle) {
  return handle == nullptr ? Mode::implicit : Mode::handle;
}

Side origin_side(const void* base, uint64_t bytes) {
  Side side;
  side.base = static_cast<std::byte*>(const_cast<void*>(base));
  side.bytes = bytes;
  return side;
}

Side target_side(uint64_t offset, uint64_t bytes) {
  Side side;
  side.offset = offset;
  side.bytes = bytes;
  return side;
}

}  // namespace

// The slow ways into an access: a lock that is taken only now, or an error.
Status Window::check_epoch(const Target& target) const {
  if (epoch_ == Epoch::fence || epoch_ == Epoch::lock_all) return {};
  if (epoch_ == Epoch::none)
    return error(Code::invalid, "rank ", job_->rank(), " accesses rank ", target.rank,
                 " outside an epoch: call lock, lock_all, start or fence first");
  return error(Code::invalid, "rank ", job_->rank(), " accesses rank ", target.rank, " in ",
               to_string(epoch_), " epoch that does not cover it");
}

Status Window::out_of_range(const Target& target, const Access& access) const {
  const std::string at = target.unit == 1
                             ? concat("byte ", access.at)
                             : concat("displacement ", access.at, " (unit ", target.unit, ")");
  return error(Code::range, access.bytes, " bytes at ", at, " lie outside the ", target.bytes,
               " bytes of rank ", target.rank, "'s memory");
}

Status Window::begin(const Access& access, bool may_wait, Target** found, uint64_t* offset) {
  SKERRY_TRY(check_usable());
  State state = guard();
  SKERRY_TRY(target(access.rank, found));
  Target& target = **found;
  await_settled(target, state);
  if (target.hold == Hold::none && epoch_ == Epoch::lock_all) {
    target.own_epoch = false;
    target.shared = true;
    target.hold = all_promises_ != 0 ? Hold::free : Hold::wanted;
  }
  if (target.hold == Hold::none) SKERRY_TRY(check_epoch(target));
  if (__builtin_mul_overflow(access.at, target.unit, offset) || *offset > target.bytes ||
      access.bytes > target.bytes - *offset) [[unlikely]]
    return out_of_range(target, access);
  if (target.hold != Hold::wanted) [[likely]]
    return {};
  if (may_wait && target.mutex == nullptr && target.own_epoch && !multiple_ &&
      target.deferred.kind == Deferred::Kind::none)
    return {};
  return flush_deferred(target, state);
}

// What is deferred has copied its origin: with a handle, a put is source done at once.
bool Window::may_defer(const Access& access) {
  return access.bytes <= operation::Engine::longest_locked_bytes;
}
bool Window::may_defer(const Access& access, const operation::Handle* handle) {
  return handle == nullptr && may_defer(access);
}

Deferred& Window::defer(Target& target, Deferred::Kind kind, uint64_t offset, const void* origin,
                        uint64_t bytes) {
  Deferred& deferred = target.deferred;
  deferred.kind = kind;
  deferred.offset = offset;
  deferred.data.clear();
  const auto* const data = static_cast<const std::byte*>(origin);
  if (data != nullptr) deferred.data.assign(data, data + bytes);
  return deferred;
}

// Memory that the program gave is moved by messages of a size that its server can copy. All but the
// last are waited for, so that one handle is enough.
template <class Move>
Status Window::in_parts(uint64_t bytes, Mode mode, Move&& move) const {
  constexpr uint64_t part_bytes = fabric::inline_payload_bytes;
  uint64_t done = 0;
  while (flavor_ != Flavor::allocated && bytes - done > part_bytes) {
    SKERRY_TRY(move(done, part_bytes, Mode::blocking));
    done += part_bytes;
  }
  return move(done, bytes - done, mode);
}

// ---- the debug mode ---------------------------------------------------------------------------

template <class Issue>
Status Window::checked(Rank rank, const Check::Access& access, const void* origin, void* result,
                       operation::Handle* handle, Issue&& issue) {
  if (!Check::is_checking()) return issue(result);
  const auto one_at_a_time = check_->access();
  SKERRY_TRY(check_->begin(rank, access));
  if (handle == nullptr && origin != nullptr) check_->reads(rank, origin, access.bytes);
  if (handle == nullptr && result != nullptr) result = check_->fills(rank, result, access.bytes);
  const Status status = issue(result);
  if (!status.ok()) check_->refused(rank);
  else check_->issued(rank, handle);
  return status;
}

Status Window::done_here(Rank rank, Status status) const {
  if (check_ == nullptr) return status;
  const Status found = check_->done_here(rank);
  return status.ok() ? found : status;
}
Status Window::done_there(Rank rank, Status status) const {
  if (check_ == nullptr) return status;
  const Status found = check_->done_there(rank);
  return status.ok() ? found : status;
}

// ---- put and get ------------------------------------------------------------------------------

Status Window::put(const Access& to, const void* origin, operation::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(to, may_defer(to), &target, &offset));
  if (handle != nullptr) *handle = 0;
  if (to.bytes == 0) [[unlikely]]
    return {};  // wherever: no memory need lie there
  if (check_ == nullptr) [[likely]]
    return issue_put(*target, offset, origin, to.bytes, handle);
  return checked(to.rank, {Check::Kind::put, offset, to.bytes, {}}, origin, nullptr, handle,
                 [&](void*) { return issue_put(*target, offset, origin, to.bytes, handle); });
}

inline Status Window::issue_put(Target& target, uint64_t offset, const void* origin, uint64_t bytes,
                                operation::Handle* handle) {
  if (target.region != nullptr) [[likely]] {
    const CallSpan call(&job_->spans(), SpanKind::put, target.rank, bytes);
    job_->local_counters().add(bytes);
    will_store();
    return memory::put(target.region_of(offset, bytes), offset, origin, bytes);
  }
  if (target.hold == Hold::wanted) {
    defer(target, Deferred::Kind::put, offset, origin, bytes);
    return {};
  }
  const auto* const data = static_cast<const std::byte*>(origin);
  return in_parts(bytes, mode_of(handle), [&](uint64_t done, uint64_t part, Mode mode) {
    return job_->engine().put(address(target), target_side(offset + done, part),
                              origin_side(data + done, part), nullptr, mode,
                              mode == Mode::handle ? handle : nullptr);
  });
}

Status Window::get(const Access& from, void* origin, operation::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(from, may_defer(from, handle), &target, &offset));
  if (handle != nullptr) *handle = 0;
  if (from.bytes == 0) [[unlikely]]
    return {};
  if (check_ == nullptr) [[likely]]
    return issue_get(*target, offset, origin, from.bytes, handle);
  return checked(from.rank, {Check::Kind::get, offset, from.bytes, {}}, nullptr, origin, handle,
                 [&](void* to) { return issue_get(*target, offset, to, from.bytes, handle); });
}

inline Status Window::issue_get(Target& target, uint64_t offset, void* origin, uint64_t bytes,
                                operation::Handle* handle) {
  if (target.region != nullptr) [[likely]] {
    const CallSpan call(&job_->spans(), SpanKind::get, target.rank, bytes);
    job_->local_counters().add(bytes);
    return memory::get(origin, target.region_of(offset, bytes), offset, bytes);
  }
  auto* const data = static_cast<std::byte*>(origin);
  if (target.hold == Hold::wanted) {
    defer(target, Deferred::Kind::get, offset, nullptr, 0).into = {data, bytes};
    return {};
  }
  return in_parts(bytes, mode_of(handle), [&](uint64_t done, uint64_t part, Mode mode) {
    return job_->engine().get(address(target), target_side(offset + done, part),
                              origin_side(data + done, part), mode,
                              mode == Mode::handle ? handle : nullptr);
  });
}

// ---- update -----------------------------------------------------------------------------------

Status Window::check_alignment(ElementType type, uint64_t offset) const {
  if (offset % part_bytes(type) == 0) return {};
  return error(Code::invalid, "byte ", offset, " of the target's memory is not a multiple of ",
               part_bytes(type), ", which ", to_string(type), " needs");
}

Status Window::update_here(const Target& target, uint64_t offset, const memory::Update& what,
                           const void* origin, void* result, uint64_t bytes) const {
  const CallSpan call(&job_->spans(),
                      result == nullptr ? SpanKind::accumulate : SpanKind::fetch_update,
                      target.rank, bytes);
  job_->local_counters().add(bytes);
  const memory::Region& region = target.region_of(offset, bytes);
  const memory::Stripes& stripes = job_->stripes();
  if (bytes == element_bytes(what.type) && memory::goes_alone(what.type) &&
      region.kind != memory::Kind::given && origin != result) [[likely]] {
    const LockResult locked = memory::update_one(region, offset, origin, what.type, what.operation,
                                                 result, stripes);
    return locked == LockResult::locked
               ? Status()
               : stripes.explain(locked, memory::stripe_index(region.seed, offset));
  }
  const memory::Applied applied = memory::accumulate(
      region, offset, static_cast<const std::byte*>(origin), bytes, what, stripes,
      memory::Patience::wait, static_cast<std::byte*>(result));
  return applied.ok() ? Status() : applied.explain(stripes);
}

Status Window::update(const Access& to, const memory::Update& what, const void* origin,
                      operation::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(to, may_defer(to), &target, &offset));
  SKERRY_TRY(check_alignment(what.type, offset));
  if (handle != nullptr) *handle = 0;
  if (what.operation == Operation::no_op || to.bytes == 0) return {};
  if (check_ == nullptr) [[likely]]
    return issue_update(*target, offset, what, origin, to.bytes, handle);
  return checked(
      to.rank, {Check::Kind::update, offset, to.bytes, what}, origin, nullptr, handle,
      [&](void*) { return issue_update(*target, offset, what, origin, to.bytes, handle); });
}

inline Status Window::issue_update(Target& target, uint64_t offset, const memory::Update& what,
                                   const void* origin, uint64_t bytes, operation::Handle* handle) {
  if (target.region != nullptr) [[likely]]
    return update_here(target, offset, what, origin, nullptr, bytes);
  if (target.hold == Hold::wanted) {
    defer(target, Deferred::Kind::update, offset, origin, bytes).what = what;
    return {};
  }
  return job_->engine().accumulate(address(target), target_side(offset, bytes),
                                   origin_side(origin, bytes), what, mode_of(handle), handle);
}

Status Window::fetch_update(const Access& at, const memory::Update& what, const void* origin,
                            void* result, operation::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(at, at.bytes > 0 && may_defer(at, handle), &target, &offset));
  SKERRY_TRY(check_alignment(what.type, offset));
  if (handle != nullptr) *handle = 0;
  if (at.bytes == 0) return {};
  if (what.operation == Operation::no_op) origin = nullptr;
  if (check_ == nullptr) [[likely]]
    return issue_fetch_update(*target, offset, what, origin, result, at.bytes, handle);
  return checked(at.rank, {Check::Kind::update, offset, at.bytes, what}, origin, result, handle,
                 [&](void* to) {
                   return issue_fetch_update(*target, offset, what, origin, to, at.bytes, handle);
                 });
}

// `origin` null: a no-op, which reads none.
inline Status Window::issue_fetch_update(Target& target, uint64_t offset,
                                         const memory::Update& what, const void* origin,
                                         void* result, uint64_t bytes, operation::Handle* handle) {
  if (target.region != nullptr) [[likely]]
    return update_here(target, offset, what, origin != nullptr ? origin : result, result, bytes);
  if (target.hold == Hold::wanted) {
    Deferred& deferred = defer(target, Deferred::Kind::fetch_update, offset, origin, bytes);
    deferred.what = what;
    deferred.into = {static_cast<std::byte*>(result), bytes};
    return {};
  }
  return job_->engine().fetch_update(address(target), target_side(offset, bytes),
                                     origin_side(origin != nullptr ? origin : result, bytes),
                                     origin_side(result, bytes), what, mode_of(handle), handle);
}

Status Window::compare_swap(const Access& at, uint64_t expected, uint64_t desired, uint64_t* old) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(at, false, &target, &offset));
  if (offset % at.bytes != 0)
    return error(Code::invalid, "byte ", offset, " of the target's memory is not a multiple of ",
                 at.bytes);
  if (check_ != nullptr && Check::is_checking()) [[unlikely]] {
    const auto one_at_a_time = check_->access();
    SKERRY_TRY(check_->begin(at.rank, {Check::Kind::compare_swap, offset, at.bytes, {}}));
    check_->issued(at.rank, nullptr);
  }
  if (target->region == nullptr) {
    const wire::Rmw op = at.bytes == 8   ? wire::Rmw::compare_swap_64
                         : at.bytes == 4 ? wire::Rmw::compare_swap_32
                         : at.bytes == 2 ? wire::Rmw::compare_swap_16
                                         : wire::Rmw::compare_swap_8;
    return job_->engine().read_modify_write(address(*target), offset, op, desired, expected, old);
  }
  const CallSpan call(&job_->spans(), SpanKind::read_modify_write, at.rank, at.bytes);
  job_->local_counters().add(at.bytes);
  const memory::Rmw what{memory::RmwOp::compare_swap, static_cast<uint8_t>(at.bytes), desired,
                         expected};
  const memory::Stripes& stripes = job_->stripes();
  Status failure;
  const LockResult locked = memory::rmw(target->region_of(offset, at.bytes), offset, what, stripes,
                                        memory::Patience::wait, old, &failure);
  if (locked == LockResult::locked) return failure;
  return stripes.explain(locked, memory::stripe_index(target->region->seed, offset));
}

// ---- many pieces ------------------------------------------------------------------------------

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

// Do pieces travel together? Memory that the program gave is moved piece by piece.
bool Window::is_one_request(const Target& target) const {
  return target.region == nullptr && flavor_ == Flavor::allocated && check_ == nullptr;
}

// Given memory of this node. As many at a time as the kernel takes with one call.
Status Window::move_pieces(const Target& target, std::span<const VectorPiece> pieces, bool is_put) {
  if (is_put) will_store();
  std::array<memory::Given::Part, memory::Given::most_parts> parts;
  size_t count = 0;
  const auto flush = [&] {
    const std::span<const memory::Given::Part> now(parts.data(), std::exchange(count, 0));
    return is_put ? target.region->given->write_parts(now) : target.region->given->read_parts(now);
  };
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    job_->local_counters().add(piece.bytes);
    parts[count++] = {piece.origin, piece.offset, piece.bytes};
    if (count == parts.size()) SKERRY_TRY(flush());
  }
  return count == 0 ? Status() : flush();
}

Status Window::put_vector(Rank rank, std::span<const VectorPiece> pieces) {
  Target* target = nullptr;
  SKERRY_TRY(begin_vector(rank, pieces, &target));
  if (is_one_request(*target)) {
    const Sides sides(pieces);
    return job_->engine().put(address(*target), sides.target, sides.origin, nullptr, Mode::implicit,
                              nullptr);
  }
  if (goes_through_kernel(*target)) return move_pieces(*target, pieces, true);
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    const auto issue = [&](void*) {
      return issue_put(*target, piece.offset, piece.origin, piece.bytes, nullptr);
    };
    SKERRY_TRY(check_ == nullptr ? issue(nullptr)
                                 : checked(rank, {Check::Kind::put, piece.offset, piece.bytes, {}},
                                           piece.origin, nullptr, nullptr, issue));
  }
  return {};
}

Status Window::get_vector(Rank rank, std::span<const VectorPiece> pieces) {
  Target* target = nullptr;
  SKERRY_TRY(begin_vector(rank, pieces, &target));
  if (is_one_request(*target)) {
    const Sides sides(pieces);
    return job_->engine().get(address(*target), sides.target, sides.origin, Mode::implicit,
                              nullptr);
  }
  if (goes_through_kernel(*target)) return move_pieces(*target, pieces, false);
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    const auto issue = [&](void* to) {
      return issue_get(*target, piece.offset, to, piece.bytes, nullptr);
    };
    SKERRY_TRY(check_ == nullptr ? issue(piece.origin)
                                 : checked(rank, {Check::Kind::get, piece.offset, piece.bytes, {}},
                                           nullptr, piece.origin, nullptr, issue));
  }
  return {};
}

// This node's memory. Pieces that follow each other in one stripe are gathered to one: each update
// costs a lock and, in memory that the program gave, two system calls. A stripe, and no more, so
// that all of it changes as a whole, as short pieces do that go alone.
Status Window::update_pieces(const Target& target, const memory::Update& what,
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
  if (is_one_request(*target)) {
    const Sides sides(pieces);
    return job_->engine().accumulate(address(*target), sides.target, sides.origin, what,
                                     Mode::implicit, nullptr);
  }
  if (target->region != nullptr && check_ == nullptr) return update_pieces(*target, what, pieces);
  for (const VectorPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    const auto issue = [&](void*) {
      return issue_update(*target, piece.offset, what, piece.origin, piece.bytes, nullptr);
    };
    SKERRY_TRY(check_ == nullptr
                   ? issue(nullptr)
                   : checked(rank, {Check::Kind::update, piece.offset, piece.bytes, what},
                             piece.origin, nullptr, nullptr, issue));
  }
  return {};
}

// ---- blocks at equal distances ------------------------------------------------------------------

namespace {

// One by one, for what takes no shapes. The first one's side is at offset 0 of `here`.
std::vector<VectorPiece> pieces_of(uint64_t offset, const Shape& there, std::byte* origin,
                                   const Shape& here) {
  std::vector<VectorPiece> pieces;
  uint64_t index[max_levels] = {};
  int64_t to = static_cast<int64_t>(offset), from = 0;
  for (;;) {
    pieces.push_back({origin + from, static_cast<uint64_t>(to), there.block_bytes});
    int32_t k = 0;
    for (; k < there.levels; ++k) {
      to += there.stride[k];
      from += here.stride[k];
      if (++index[k] < there.count[k]) break;
      to -= there.stride[k] * static_cast<int64_t>(there.count[k]);
      from -= here.stride[k] * static_cast<int64_t>(there.count[k]);
      index[k] = 0;
    }
    if (k == there.levels) return pieces;
  }
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

Status Window::begin_strided(Rank rank, uint64_t offset, const Shape& there, Target** found) {
  uint64_t unused = 0;
  SKERRY_TRY(begin({rank, 0, 0}, false, found, &unused));
  if (flavor_ == Flavor::dynamic || within(there, offset, (*found)->bytes)) return {};
  return error(Code::range, "a strided transfer from byte ", offset, " leaves the ",
               (*found)->bytes, " bytes of rank ", rank, "'s memory");
}

Status Window::put_strided(Rank rank, uint64_t offset, const Shape& there, const void* origin,
                           const Shape& here) {
  Target* target = nullptr;
  SKERRY_TRY(begin_strided(rank, offset, there, &target));
  uint64_t bytes = 0;
  if (!stream_bytes(there, &bytes) || bytes == 0) return {};
  auto* const from = static_cast<std::byte*>(const_cast<void*>(origin));
  if (target->plain != nullptr && target->plain == target->region && check_ == nullptr) {
    const CallSpan call(&job_->spans(), SpanKind::put, target->rank, bytes);
    job_->local_counters().add(bytes);
    will_store();
    memory::put_strided(target->plain->base + offset, there, from, here);
    return {};
  }
  if (is_one_request(*target))
    return job_->engine().put(address(*target), strided_side(nullptr, offset, there, bytes),
                              strided_side(from, 0, here, bytes), nullptr, Mode::implicit, nullptr);
  return put_vector(rank, pieces_of(offset, there, from, here));
}

Status Window::get_strided(Rank rank, uint64_t offset, const Shape& there, void* origin,
                           const Shape& here) {
  Target* target = nullptr;
  SKERRY_TRY(begin_strided(rank, offset, there, &target));
  uint64_t bytes = 0;
  if (!stream_bytes(there, &bytes) || bytes == 0) return {};
  auto* const to = static_cast<std::byte*>(origin);
  if (target->plain != nullptr && target->plain == target->region && check_ == nullptr) {
    const CallSpan call(&job_->spans(), SpanKind::get, target->rank, bytes);
    job_->local_counters().add(bytes);
    memory::get_strided(to, here, target->plain->base + offset, there);
    return {};
  }
  if (is_one_request(*target))
    return job_->engine().get(address(*target), strided_side(nullptr, offset, there, bytes),
                              strided_side(to, 0, here, bytes), Mode::implicit, nullptr);
  return get_vector(rank, pieces_of(offset, there, to, here));
}

}  // namespace skerry::window
