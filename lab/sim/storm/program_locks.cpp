// What a program does with locks: sections under one that it has for itself or shares, and accesses
// that take it along in one message.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "sim/storm/program.hpp"

namespace skerry::sim {

using origin::Mode;
using origin::Side;

std::pair<Rank, uint32_t> Program::draw_lock() {
  if (config_.hot_lock && random_.below(4) != 0) return {at_rank_ = 0, 0};
  const Rank target = at_rank_ = any_rank();
  return {target, random_.below(Layout::mutexes)};
}

bool Program::take(Rank target, uint32_t mutex, bool shares, Checker::Asked* asked, bool joins) {
  at_ = shares ? "lock to share" : "lock";
  at_rank_ = target;
  *asked = checker_.asks(target, mutex, thread_, holder_, shares);
  asked->joins = joins;
  if (failed(process_.lock(target, mutex, holder(shares, joins)), at_)) return false;
  checker_.granted(*asked);
  return true;
}

bool Program::give_back(const Checker::Asked& asked) {
  at_ = "unlock";
  at_rank_ = asked.target;
  checker_.released(asked);
  return !failed(process_.unlock(asked.target, asked.mutex, holder(asked.shares)), "unlock");
}

bool Program::lock_something() {
  if (config_.shared_percent == 0) return section();
  if (random_.below(100) < config_.sweep_percent)
    return random_.below(3) != 0 ? sweep() : section();
  if (random_.below(100) < config_.at_once_percent) return access_at_once();
  if (random_.below(100) < config_.shared_percent) return pair_section(true);
  return random_.below(2) == 0 ? section() : pair_section(false);
}

bool Program::section() {
  const auto [target, mutex] = draw_lock();
  Checker::Asked asked;
  if (!take(target, mutex, false, &asked)) return false;
  uint64_t value = 0;
  Side there, here;
  there.bytes = here.bytes = 8;
  there.offset = checker_.layout().guarded(mutex);
  here.base = reinterpret_cast<std::byte*>(&value);
  at_ = "get under a mutex";
  if (failed(process_.get(target, there, here, Mode::blocking, nullptr), "get")) return false;
  if (value != checker_.guarded(target, mutex))
    checker_.fail(describe(), ": under mutex ", mutex, " of rank ", target, " it read ", value,
                  ", not ", checker_.guarded(target, mutex));
  ++value;
  checker_.count_guarded(target, mutex);
  at_ = "put under a mutex";
  if (failed(process_.put(target, there, here, nullptr,
                          random_.below(2) == 0 ? Mode::blocking : Mode::implicit, nullptr),
             "put"))
    return false;
  // Something else meanwhile: never another mutex, never somebody else's notification.
  if (random_.below(3) == 0 && !transfer(random_.below(2) == 0)) return false;
  if (random_.below(4) == 0 && !accumulate()) return false;
  if (random_.below(6) == 0 && !compute()) return false;
  return give_back(asked);
}

// ---- pairs ------------------------------------------------------------------------------------

Status Program::get_words(Rank target, uint64_t offset, std::span<uint64_t> words) {
  Side there, here;
  there.bytes = here.bytes = words.size_bytes();
  there.offset = offset;
  here.base = reinterpret_cast<std::byte*>(words.data());
  return process_.get(target, there, here, Mode::blocking, nullptr);
}

Status Program::put_words(Rank target, uint64_t offset, std::span<uint64_t> words) {
  Side there, here;
  there.bytes = here.bytes = words.size_bytes();
  there.offset = offset;
  here.base = reinterpret_cast<std::byte*>(words.data());
  return process_.put(target, there, here, nullptr, Mode::blocking, nullptr);
}

// Reads a count word by word. One that has the lock for itself adds one, word by word.
bool Program::pair_section(bool shares) {
  const auto [target, mutex] = draw_lock();
  Checker::Asked asked;
  if (!take(target, mutex, shares, &asked)) return false;
  const uint64_t at = checker_.layout().counted(mutex);
  Pair pair{};
  const std::span<uint64_t> first = std::span(pair).first(1), second = std::span(pair).last(1);
  at_ = shares ? "read under a shared lock" : "count under a lock";
  if (failed(get_words(target, at, first), at_)) return false;
  if (random_.below(2) == 0 && !compute()) return false;
  at_ = shares ? "read under a shared lock" : "count under a lock";
  at_rank_ = target;
  if (failed(get_words(target, at + 8, second), at_)) return false;
  checker_.count_read(asked, pair);
  if (shares) return give_back(asked);
  const Pair old = pair;
  for (uint64_t& word : pair) ++word;
  checker_.count_begins(asked, 1);
  if (failed(put_words(target, at, first), at_)) return false;
  if (random_.below(2) == 0 && !transfer(random_.below(2) == 0)) return false;
  if (random_.below(3) == 0 && !compute()) return false;
  at_ = "count under a lock";
  at_rank_ = target;
  if (failed(put_words(target, at + 8, second), at_)) return false;
  checker_.count_ended(asked, 1, old);
  return give_back(asked);
}

// Shares several locks at a time, in any order, as ranks inside lock_all do. Nobody that has one
// for itself waits for another, so all get through.
bool Program::sweep() {
  std::vector<Checker::Asked> held;
  for (uint32_t left = 2 + random_.below(2); left > 0; --left) {
    const auto [target, mutex] = draw_lock();
    if (std::any_of(held.begin(), held.end(), [&, t = target, m = mutex](const auto& asked) {
          return asked.target == t && asked.mutex == m;
        }))
      continue;
    Checker::Asked asked;
    if (!take(target, mutex, true, &asked, !held.empty())) return false;
    held.push_back(asked);
    Pair pair{};
    at_ = "read under several shared locks";
    if (failed(get_words(target, checker_.layout().counted(mutex), pair), at_)) return false;
    checker_.count_read(asked, pair);
    if (random_.below(2) == 0 && !compute()) return false;
  }
  for (const Checker::Asked& asked : held)
    if (!give_back(asked)) return false;
  return true;
}

// ---- one message ------------------------------------------------------------------------------

Program::Access Program::draw_access() {
  Access access;
  access.kind = static_cast<Access::Kind>(random_.below(Access::kinds));
  const bool reads = access.kind == Access::Kind::read_count ||
                     access.kind == Access::Kind::read_stamp;
  access.shares = reads && random_.below(2) == 0;
  access.more = 1 + random_.below(5);
  access.stamp = uint64_t{thread_ + 1} << 32 | ++tickets_;
  return access;
}

// Lock, access and unlock in one message; or one after the other, if others have the lock.
bool Program::access_at_once() {
  const auto [target, mutex] = draw_lock();
  Access access = draw_access();
  const Checker::Asked asked = checker_.asks(target, mutex, thread_, holder_, access.shares);
  if (access.kind == Access::Kind::add || access.kind == Access::Kind::fetch_add)
    checker_.count_begins(asked, access.more);
  if (access.kind == Access::Kind::put_stamp) checker_.stamp_begins(asked, access.stamp);
  bool contended = true;
  if (!process_.is_local(target)) {
    at_ = "access with a lock";
    at_rank_ = target;
    if (failed(send_locked(asked, &access, &contended), at_)) return false;
    if (!contended) checker_.had(asked);
    ++(contended ? contended_ : at_once_);
  }
  Checker::Asked queued;
  if (contended) {
    if (!take(target, mutex, access.shares, &queued)) return false;
    at_ = "access under a lock";
    if (failed(apply_locked(queued, &access), at_)) return false;
  }
  check_access(asked, access);
  return !contended || give_back(queued);
}

Status Program::send_guarded(origin::Access access, uint32_t mutex, bool shares,
                             bool* contended) {
  access.guard = origin::Guard{mutex_segment, mutex, holder(shares)};
  const Status status = process_.engine().issue(access);
  *contended = status.code() == Code::contended;
  return *contended ? Status() : status;
}

Status Program::send_locked(const Checker::Asked& asked, Access* access, bool* contended) {
  const origin::Target target{asked.target, data_segment};
  const origin::Accumulate sum{ElementType::uint64, memory::Scale::one(), Operation::sum};
  Pair operands = access->operands();
  const bool counts = access->kind == Access::Kind::add ||
                      access->kind == Access::Kind::fetch_add ||
                      access->kind == Access::Kind::read_count;
  Side there, data, found;
  there.offset = counts ? checker_.layout().counted(asked.mutex)
                        : checker_.layout().stamped(asked.mutex);
  data.base = reinterpret_cast<std::byte*>(operands.data());
  found.base = reinterpret_cast<std::byte*>(access->found.data());
  there.bytes = data.bytes = found.bytes = sizeof operands;
  const auto send = [&](const origin::Access& all) {
    return send_guarded(all, asked.mutex, access->shares, contended);
  };
  switch (access->kind) {
    case Access::Kind::add:
      return send(origin::Access::accumulate(target, there, data, sum, Mode::blocking));
    case Access::Kind::fetch_add:
      return send(origin::Access::fetch_update(target, there, data, found, sum, Mode::blocking));
    case Access::Kind::put_stamp:
      return send(origin::Access::put(target, there, data, Mode::blocking));
    case Access::Kind::read_count:
    case Access::Kind::read_stamp: break;
  }
  return send(origin::Access::get(target, there, found, Mode::blocking));
}

// The same with the lock held.
Status Program::apply_locked(const Checker::Asked& asked, Access* access) {
  const Rank target = asked.target;
  const uint64_t counted = checker_.layout().counted(asked.mutex);
  const uint64_t stamped = checker_.layout().stamped(asked.mutex);
  const origin::Accumulate sum{ElementType::uint64, memory::Scale::one(), Operation::sum};
  Pair operands = access->operands();
  Side to, from, result;
  to.bytes = from.bytes = result.bytes = sizeof operands;
  to.offset = counted;
  from.base = reinterpret_cast<std::byte*>(operands.data());
  result.base = reinterpret_cast<std::byte*>(access->found.data());
  switch (access->kind) {
    case Access::Kind::add:
      return process_.accumulate(target, to, from, sum, Mode::blocking, nullptr);
    case Access::Kind::fetch_add:
      return process_.fetch_update(target, to, from, result, sum, Mode::blocking, nullptr);
    case Access::Kind::read_count: return get_words(target, counted, access->found);
    case Access::Kind::put_stamp: return put_words(target, stamped, operands);
    case Access::Kind::read_stamp: break;
  }
  return get_words(target, stamped, access->found);
}

void Program::check_access(const Checker::Asked& asked, const Access& access) {
  switch (access.kind) {
    case Access::Kind::add: return checker_.count_ended(asked, access.more, {});
    case Access::Kind::fetch_add: return checker_.count_ended(asked, access.more, access.found);
    case Access::Kind::read_count: return checker_.count_read(asked, access.found);
    case Access::Kind::put_stamp: return checker_.stamp_ended(asked, access.stamp);
    case Access::Kind::read_stamp: break;
  }
  checker_.stamp_read(asked, access.found);
}

// ---- mistakes ---------------------------------------------------------------------------------

// An unlock of what it does not hold. On other nodes the refusal comes later, by a fence.
bool Program::refused_unlock() {
  const Rank target = at_rank_ = any_rank();
  if (process_.is_local(target)) return true;
  at_ = "unlock of what it does not hold";
  const NodeId node = process_.node().map().node_of(target);
  const uint64_t call = checker_.refused_begins(process_.rank(), node);
  if (failed(process_.unlock(target, random_.below(Layout::mutexes), holder_), "unlock"))
    return false;
  checker_.refused_sent(process_.rank(), node, call);
  return true;
}

}  // namespace skerry::sim
