// What the windows' layer does (src/window), with the engine's own calls: epochs with a lock or
// without, accesses that wait to take it along, flush and unlock, one word or long. Every read is
// checked against all writes of the job, in the order of the simulated time (Checker, registers).
//
// Not here: the class Window itself with its bookkeeping, post and start, locks of the machine
// protocols, and memory that the program gave.
#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/storm/program.hpp"

namespace skerry::sim {

using origin::Mode;
using origin::Side;

namespace {

Side side_of(std::vector<uint64_t>& words, uint64_t offset) {
  Side side;
  side.bytes = words.size() * 8;
  side.offset = offset;
  side.base = reinterpret_cast<std::byte*>(words.data());
  return side;
}

}  // namespace

// As window::WindowContext::wait_issued: everything that this rank issued is done here.
bool Program::wait_issued() {
  return !failed(process_.engine().wait_implicit(), "wait_implicit") &&
         !failed(process_.engine().wait_named(), "wait_named");
}

// As window::WindowContext::finish: everything issued to the target is done there, too.
bool Program::finish(Rank target) {
  return process_.is_local(target) ||
         (wait_issued() && fence(process_.node().map().node_of(target)));
}

// As window::WindowLocks::give_back_queued.
bool Program::end_epoch(const Checker::Asked& asked) {
  if (process_.is_local(asked.target)) return give_back(asked);
  return wait_issued() && give_back(asked) && fence(process_.node().map().node_of(asked.target));
}

Program::Epoch Program::draw_epoch() {
  Epoch epoch;
  const auto [target, mutex] = draw_lock();
  epoch.target = target;
  epoch.mutex = mutex;
  epoch.locks = random_.below(3) != 0;
  epoch.shares = random_.below(2) == 0;
  epoch.deferred = epoch.locks && !process_.is_local(target) && random_.below(2) == 0 &&
                   config_.register_words * 8 <= origin::Guard::longest_bytes;
  return epoch;
}

// Lock, one access and unlock in one message. False in `had`: others have the lock, and nothing was
// done.
bool Program::at_once(const Epoch& epoch, const origin::Access& access, bool* had) {
  const Checker::Asked asked = checker_.asks(epoch.target, epoch.mutex, thread_, holder_,
                                             epoch.shares);
  bool contended = true;
  at_ = "deferred access";
  if (failed(send_guarded(access, epoch.mutex, epoch.shares, &contended), at_)) return false;
  *had = !contended;
  if (*had) checker_.had(asked);
  ++(contended ? contended_ : at_once_);
  return true;
}

// This thread's register at some rank gets its next value.
bool Program::publish() {
  const Epoch epoch = draw_epoch();
  const uint64_t offset = checker_.layout().registers(thread_);
  const uint64_t value = checker_.write_begins(thread_, epoch.target);
  std::vector<uint64_t> words(config_.register_words, value);
  const Side there = side_of(words, offset), here = side_of(words, 0);
  bool done = false;
  if (epoch.deferred &&
      !at_once(epoch,
               origin::Access::put({epoch.target, data_segment}, there, here, Mode::blocking),
               &done))
    return false;
  if (!done) {
    Checker::Asked asked;
    if (epoch.locks && !take(epoch.target, epoch.mutex, epoch.shares, &asked)) return false;
    at_ = "put in an epoch";
    at_rank_ = epoch.target;
    if (failed(process_.put(epoch.target, there, here, nullptr,
                            random_.below(2) == 0 ? Mode::implicit : Mode::blocking, nullptr),
               at_))
      return false;
    const bool flushes = !epoch.locks || random_.below(2) == 0;
    at_ = "flush";
    if (flushes && !finish(epoch.target)) return false;
    if (flushes) checker_.write_ended(thread_, epoch.target, value);
    if (random_.below(4) == 0 && !compute()) return false;
    if (epoch.locks && !end_epoch(asked)) return false;
  }
  checker_.write_ended(thread_, epoch.target, value);
  return true;
}

// Some thread's register at some rank.
bool Program::observe() {
  const Epoch epoch = draw_epoch();
  const uint32_t writer = random_.below(config_.all_threads());
  const uint64_t offset = checker_.layout().registers(writer);
  std::vector<uint64_t> words(config_.register_words, ~uint64_t{0});
  const Side there = side_of(words, offset), here = side_of(words, 0);
  const uint64_t floor = checker_.read_begins(thread_, writer, epoch.target);
  bool done = false;
  if (epoch.deferred &&
      !at_once(epoch,
               origin::Access::get({epoch.target, data_segment}, there, here, Mode::blocking),
               &done))
    return false;
  if (!done) {
    Checker::Asked asked;
    if (epoch.locks && !take(epoch.target, epoch.mutex, epoch.shares, &asked)) return false;
    at_ = "get in an epoch";
    at_rank_ = epoch.target;
    origin::Handle handle = 0;
    const Mode mode = any_mode();
    if (failed(
            process_.get(epoch.target, there, here, mode, mode == Mode::handle ? &handle : nullptr),
            at_))
      return false;
    at_ = "flush_local";
    if (handle != 0 && failed(process_.engine().wait(&handle), "wait")) return false;
    if (!epoch.locks && !process_.is_local(epoch.target) && !wait_issued()) return false;
    if (epoch.locks && !end_epoch(asked)) return false;
  }
  checker_.read_ended(thread_, writer, epoch.target, floor, words);
  return true;
}

// Store buffering, message passing and load buffering are rows of these.
bool Program::window_epochs() {
  for (uint32_t left = 1 + random_.below(4); left > 0; --left)
    if (!(random_.below(2) == 0 ? publish() : observe())) return false;
  return true;
}

}  // namespace skerry::sim
