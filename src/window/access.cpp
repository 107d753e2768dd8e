// Put, get and update inside an access epoch.
#include <cstring>

#include "window/window.hpp"

namespace skerry::window {
namespace {

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
  return error(Code::range, access.bytes, " bytes at displacement ", access.at, " (unit ",
               target.unit, ") lie outside the ", target.bytes, " bytes of rank ", target.rank,
               "'s memory");
}

Status Window::begin(const Access& access, bool may_wait, Target** found, uint64_t* offset) {
  SKERRY_TRY(check_usable());
  auto state = guard();
  SKERRY_TRY(target(access.rank, found));
  Target& target = **found;
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
  if (may_wait && target.mutex == nullptr && target.own_epoch &&
      target.deferred.kind == Deferred::Kind::none)
    return {};
  return flush_deferred(target);
}

Status Window::put(const Access& to, const void* origin, operation::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(to, handle == nullptr && to.bytes <= operation::Engine::longest_locked_bytes,
                   &target, &offset));
  if (handle != nullptr) *handle = 0;
  if (target->region != nullptr) [[likely]] {
    job_->local_counters().add(to.bytes);
    memory::put(target->region->base + offset, origin, to.bytes);
    return {};
  }
  if (target->hold == Hold::wanted) {
    const auto* const data = static_cast<const std::byte*>(origin);
    target->deferred.kind = Deferred::Kind::put;
    target->deferred.offset = offset;
    target->deferred.data.assign(data, data + to.bytes);
    return {};
  }
  return data_->put(to.rank, target_side(offset, to.bytes), origin_side(origin, to.bytes), nullptr,
                    mode_of(handle), handle);
}

Status Window::get(const Access& from, void* origin, operation::Handle* handle) {
  Target* target = nullptr;
  uint64_t offset = 0;
  SKERRY_TRY(begin(from, handle == nullptr && from.bytes <= operation::Engine::longest_locked_bytes,
                   &target, &offset));
  if (handle != nullptr) *handle = 0;
  if (target->region != nullptr) [[likely]] {
    job_->local_counters().add(from.bytes);
    memory::get(origin, target->region->base + offset, from.bytes);
    return {};
  }
  if (target->hold == Hold::wanted) {
    target->deferred.kind = Deferred::Kind::get;
    target->deferred.offset = offset;
    target->deferred.into = {static_cast<std::byte*>(origin), from.bytes};
    return {};
  }
  return data_->get(from.rank, target_side(offset, from.bytes), origin_side(origin, from.bytes),
                    mode_of(handle), handle);
}

}  // namespace skerry::window
