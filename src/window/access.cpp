// One block: put, get, update, fetching update, compare-and-swap.
#include "window/access.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::window {
namespace {

using memory::CallSpan;
using memory::SpanKind;
using origin::Side;

origin::Mode mode_of(const origin::Handle* handle) {
  return handle == nullptr ? origin::Mode::implicit : origin::Mode::handle;
}

Side origin_side(const void* base, uint64_t bytes) {
  Side side;
  side.base = static_cast<std::byte*>(const_cast<void*>(base));
  side.bytes = bytes;
  return side;
}

// Longer updates are their data server's also under a lock of the adapter.
constexpr uint64_t longest_update_by_adapter = 1024;

// What is deferred has copied what it reads: a put is source done at once, with a handle, too. What
// returns data is done only with the epoch.
bool may_defer(wire::Kind kind, uint64_t bytes, const origin::Handle* handle) {
  return bytes <= origin::Guard::longest_bytes &&
         (handle == nullptr || kind == wire::Kind::put || kind == wire::Kind::accumulate);
}

}  // namespace

// ---- the one way of every block ----------------------------------------------------------------

Access Accesses::access_of(const Target& target, const Block& block, uint64_t offset,
                           uint64_t bytes, Mode mode) const {
  SKERRY_INVARIANT(offset <= target.bytes && bytes <= target.bytes - offset,
                   "an access lies inside its member's memory");
  Access access;
  access.kind = block.kind;
  access.mode = mode;
  access.target = memory_.address(target);
  access.remote.offset = offset;
  access.remote.bytes = bytes;
  access.by_adapter = goes_by_adapter(target);
  if (block.what != nullptr) access.what = *block.what;
  access.local = origin_side(block.reads() ? block.origin : block.result, bytes);
  if (access.kind == wire::Kind::fetch_update) access.result = origin_side(block.result, bytes);
  return access;
}

// Small ones that follow each other need no whole Access either.
bool Accesses::join_batch(const Target& target, uint64_t offset, uint64_t bytes,
                          const Block& block) {
  const bool is_put = block.kind == wire::Kind::put;
  if ((!is_put && block.kind != wire::Kind::accumulate) ||
      bytes > origin::Batch::longest_bytes || target.hold == Hold::wanted ||
      (is_put ? goes_by_adapter(target) : updates_by_adapter(target)) ||
      context_.check != nullptr ||
      context_.job.spans().is_due(is_put ? SpanKind::put : SpanKind::accumulate))
    return false;
  return context_.job.engine().join_batch(memory_.address(target), block.what, offset, block.origin,
                                          bytes, Mode::implicit);
}

// In each of the calls, where the kind is known: what the calls of one kind skip costs a tenth of a
// short put.
[[gnu::always_inline]] inline Status Accesses::run(const Place& place, const Block& block,
                                                   origin::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  const bool may_wait = may_defer(block.kind, place.bytes, handle) && !context_.completes_at_once;
  SKERRY_TRY(epochs_.begin_access(place, may_wait, &target, &offset));
  if (block.what != nullptr) SKERRY_TRY(check_alignment(block.what->type, offset));
  if (handle != nullptr) *handle = 0;
  if (place.bytes == 0) [[unlikely]]
    return {};  // wherever: no memory need lie there
  if (block.kind == wire::Kind::accumulate && block.what->operation == Operation::no_op) return {};
  if (target->region != nullptr && context_.check == nullptr) [[likely]]
    return apply_here(*target, offset, place.bytes, block);
  if (join_batch(*target, offset, place.bytes, block)) return context_.issued(*target, {});
  return context_.issued(*target, issue_checked(*target, offset, place.bytes, block, handle));
}

Status Accesses::issue_checked(Target& target, uint64_t offset, uint64_t bytes, Block block,
                               origin::Handle* handle) {
  if (context_.check == nullptr || !Check::is_checking()) [[likely]]
    return issue(target, offset, bytes, block, handle);
  Check& check = *context_.check;
  const auto one_at_a_time = check.access();
  Check::Access access{Check::Kind::update, offset, bytes, {}};
  if (block.what != nullptr) access.what = *block.what;
  else access.kind = block.kind == wire::Kind::put ? Check::Kind::put : Check::Kind::get;
  SKERRY_TRY(check.begin_access(target.rank, access));
  if (handle == nullptr && block.reads()) check.reads(target.rank, block.origin, bytes);
  if (handle == nullptr && block.result != nullptr)
    block.result = check.fills(target.rank, block.result, bytes);
  const Status status = issue(target, offset, bytes, block, handle);
  if (!status.ok()) check.refused(target.rank);
  else check.issued(target.rank, handle);
  return status;
}

Status Accesses::issue(Target& target, uint64_t offset, uint64_t bytes, const Block& block,
                       origin::Handle* handle) {
  if (target.region != nullptr) return apply_here(target, offset, bytes, block);
  const Access access = access_of(target, block, offset, bytes, mode_of(handle));
  if (target.hold == Hold::wanted) {
    SKERRY_INVARIANT(handle == nullptr || !access.returns_data(),
                     "a handle of what is deferred is done already");
    SKERRY_INVARIANT(target.deferred == nullptr, "only the first access of an epoch is deferred");
    target.deferred = std::make_unique<Deferred>(access);
    return {};
  }
  if (access.updates() && updates_by_adapter(target) && bytes <= longest_update_by_adapter) {
    ++target.updates_by_adapter;
    return update_by_adapter(access);
  }
  return send_in_parts(access, handle);
}

// By a get and a put. Not by an atomic of the adapter: after a break nobody could say whether that
// took effect.
Status Accesses::update_by_adapter(const Access& access) {
  alignas(max_element_bytes) std::byte elements[longest_update_by_adapter];
  std::byte before[longest_update_by_adapter];
  const uint64_t bytes = access.bytes();
  Access part = Access::get(access.target, access.remote, origin_side(elements, bytes),
                            Mode::blocking);
  part.by_adapter = true;
  origin::Engine& engine = context_.job.engine();
  SKERRY_TRY(engine.issue(part));
  std::memcpy(before, elements, bytes);
  if (access.what.operation != Operation::no_op) {
    const memory::Stripes& stripes = context_.job.stripes();
    SKERRY_TRY(memory::accumulate({.base = elements, .bytes = bytes}, 0, access.local.base, bytes,
                                  access.what, stripes, memory::Patience::wait)
                   .explain(stripes));
    part.kind = wire::Kind::put;
    SKERRY_TRY(engine.issue(part));
  }
  if (access.kind == wire::Kind::fetch_update) std::memcpy(access.result.base, before, bytes);
  return {};
}

// Memory that the program gave is moved by messages of a size that its server can copy. All but the
// last are waited for, so that one handle is enough.
Status Accesses::send_in_parts(const Access& access, origin::Handle* handle) {
  constexpr uint64_t part_bytes = fabric::inline_payload_bytes;
  origin::Engine& engine = context_.job.engine();
  if (memory_.flavor() == Flavor::allocated || access.updates())
    return engine.issue(access, handle);
  SKERRY_INVARIANT(!access.guard.has_value(), "what a guard goes with is one message");
  Access part = access;
  for (uint64_t left = access.bytes();; left -= part_bytes) {
    part.remote.bytes = part.local.bytes = std::min<uint64_t>(left, part_bytes);
    if (left <= part_bytes) break;
    part.mode = Mode::blocking;
    SKERRY_TRY(engine.issue(part));
    part.remote.offset += part_bytes;
    part.local.base += part_bytes;
  }
  part.mode = access.mode;
  return engine.issue(part, handle);
}

inline Status Accesses::apply_here(const Target& target, uint64_t offset, uint64_t bytes,
                                   const Block& block) {
  if (block.what != nullptr) {
    const bool is_read = block.what->operation == Operation::no_op;
    return update_here(target, offset, *block.what, is_read ? block.result : block.origin,
                       block.kind == wire::Kind::accumulate ? nullptr : block.result, bytes);
  }
  const bool is_put = block.kind == wire::Kind::put;
  const CallSpan call(&context_.job.spans(), is_put ? SpanKind::put : SpanKind::get, target.rank,
                      bytes);
  context_.job.local_counters().add(bytes);
  const memory::Region& region = target.region_of(offset, bytes);
  if (!is_put) return memory::get(block.result, region, offset, bytes);
  if (region.kind == memory::Kind::given &&
      epochs_.keep_for_complete(target.rank, offset, block.origin, bytes))
    return {};
  context_.will_store();
  return memory::put(region, offset, block.origin, bytes);
}

Status Accesses::check_alignment(ElementType type, uint64_t offset) {
  if (offset % part_bytes(type) == 0) return {};
  return error(Code::invalid, "byte ", as_written(offset),
               " of the target's memory is not a multiple of ",
               part_bytes(type), ", which ", to_string(type), " needs");
}

Status Accesses::update_here(const Target& target, uint64_t offset, const memory::Update& what,
                             const void* origin, void* result, uint64_t bytes) const {
  const CallSpan call(&context_.job.spans(),
                      result == nullptr ? SpanKind::accumulate : SpanKind::fetch_update,
                      target.rank, bytes);
  context_.job.local_counters().add(bytes);
  const memory::Region& region = target.region_of(offset, bytes);
  const memory::Stripes& stripes = context_.job.stripes();
  if (bytes == element_bytes(what.type) && memory::goes_alone(what.type) &&
      region.kind != memory::Kind::given && origin != result) [[likely]] {
    const LockResult locked = memory::update_one(region, offset, origin, what.type, what.operation,
                                                 result, stripes);
    return locked == LockResult::locked
               ? Status()
               : stripes.explain(locked, memory::stripe_index(region.seed, offset));
  }
  return memory::accumulate(region, offset, static_cast<const std::byte*>(origin), bytes, what,
                            stripes, memory::Patience::wait, static_cast<std::byte*>(result))
      .explain(stripes);
}

// ---- the calls ---------------------------------------------------------------------------------

Status Accesses::put(const Place& to, const void* origin, origin::Handle* handle) {
  return run(to, {wire::Kind::put, origin, nullptr, nullptr}, handle);
}

Status Accesses::get(const Place& from, void* origin, origin::Handle* handle) {
  return run(from, {wire::Kind::get, nullptr, origin, nullptr}, handle);
}

Status Accesses::update(const Place& to, const memory::Update& what, const void* origin,
                        origin::Handle* handle) {
  return run(to, {wire::Kind::accumulate, origin, nullptr, &what}, handle);
}

Status Accesses::fetch_update(const Place& at, const memory::Update& what, const void* origin,
                              void* result, origin::Handle* handle) {
  return run(at, {wire::Kind::fetch_update, origin, result, &what}, handle);
}

Status Accesses::compare_swap_by_adapter(const Target& target, uint64_t offset, uint64_t bytes,
                                         uint64_t expected, uint64_t desired, uint64_t* old) {
  *old = 0;
  Block block{wire::Kind::get, nullptr, old, nullptr};
  origin::Engine& engine = context_.job.engine();
  SKERRY_TRY(engine.issue(access_of(target, block, offset, bytes, Mode::blocking)));
  if (std::memcmp(old, &expected, bytes) != 0) return {};
  block = {wire::Kind::put, &desired, nullptr, nullptr};
  return engine.issue(access_of(target, block, offset, bytes, Mode::blocking));
}

Status Accesses::compare_swap(const Place& at, uint64_t expected, uint64_t desired, uint64_t* old) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(epochs_.begin_access(at, false, &target, &offset));
  if (offset % at.bytes != 0)
    return error(Code::invalid, "byte ", as_written(offset),
               " of the target's memory is not a multiple of ",
                 at.bytes);
  if (context_.check != nullptr && Check::is_checking()) [[unlikely]] {
    const auto one_at_a_time = context_.check->access();
    SKERRY_TRY(
        context_.check->begin_access(at.rank, {Check::Kind::compare_swap, offset, at.bytes, {}}));
    context_.check->issued(at.rank, nullptr);
  }
  if (updates_by_adapter(*target)) {
    ++target->updates_by_adapter;
    return compare_swap_by_adapter(*target, offset, at.bytes, expected, desired, old);
  }
  if (target->region == nullptr) {
    const wire::Rmw op = at.bytes == 8   ? wire::Rmw::compare_swap_64
                         : at.bytes == 4 ? wire::Rmw::compare_swap_32
                         : at.bytes == 2 ? wire::Rmw::compare_swap_16
                                         : wire::Rmw::compare_swap_8;
    return context_.job.engine().read_modify_write(memory_.address(*target), offset, op, desired,
                                                   expected, old);
  }
  const CallSpan call(&context_.job.spans(), SpanKind::read_modify_write, at.rank, at.bytes);
  context_.job.local_counters().add(at.bytes);
  const memory::Rmw what{memory::RmwOp::compare_swap, static_cast<uint8_t>(at.bytes), desired,
                         expected};
  const memory::Stripes& stripes = context_.job.stripes();
  Status failure;
  const LockResult locked = memory::rmw(target->region_of(offset, at.bytes), offset, what, stripes,
                                        memory::Patience::wait, old, &failure);
  if (locked == LockResult::locked) return failure;
  return stripes.explain(locked, memory::stripe_index(target->region->seed, offset));
}

}  // namespace skerry::window
