// What a rank waits for, told in the node's shared memory to those who look at a running job: a
// tool that asks nothing of the rank. Written only by a wait that goes on, so short waits pay
// nothing.
//
// Who writes: the rank's threads. Of several that wait, one is seen: the last that began to wait
// for a lock, or, if none waits for a lock, the first that began to wait. When its wait ends the
// others are not seen, unless they tell again. Who reads: any process, at any time. It takes the
// rest only if `since_ns` is the same before and after.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/futex.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::memory {

// A lock of the fair queue: `index` in the slice of `rank`.
struct LockName {
  SegmentId segment;
  Rank rank = no_rank;
  uint32_t index = 0;
  explicit operator bool() const { return rank != no_rank; }
  uint64_t place() const { return uint64_t{static_cast<uint32_t>(rank)} << 32 | index; }
  friend bool operator==(const LockName&, const LockName&) = default;
};
inline std::string text_of(const LockName& lock) {
  return concat("lock ", lock.index, " of rank ", lock.rank);
}

struct alignas(64) WaitNote {
  static constexpr uint32_t text_bytes = 96;
  std::atomic<int64_t> since_ns;       // monotonic clock; 0: no wait
  std::atomic<uint64_t> lock_segment;  // SegmentId::packed; 0: it waits for no lock
  std::atomic<uint64_t> lock_place;    // LockName::place
  uint64_t reserved;                   // 0
  // In words, so that threads may race for it; zeros behind it, unless it fills them.
  std::array<std::atomic<uint64_t>, text_bytes / 8> text;
};
static_assert(sizeof(WaitNote) == 128);

// For as long as it lives its thread waits.
class NoteWait {
 public:
  explicit NoteWait(WaitNote* note) : note_(note) {}  // null: nobody is told
  ~NoteWait() {
    if (told_ns_ != 0 && note_->since_ns.load(std::memory_order_relaxed) == told_ns_)
      note_->since_ns.store(0, std::memory_order_release);
  }
  NoteWait(const NoteWait&) = delete;
  NoteWait& operator=(const NoteWait&) = delete;

  // Longer texts are cut. Changes nothing if it is told already, or somebody else's is seen.
  void tell(int64_t now_ns, std::string_view text, const LockName& lock = {}) {
    if (note_ == nullptr || told_ns_ != 0) return;
    if (!lock && note_->since_ns.load(std::memory_order_relaxed) != 0) return;
    std::array<uint64_t, WaitNote::text_bytes / 8> words{};
    std::memcpy(words.data(), text.data(), std::min<size_t>(text.size(), WaitNote::text_bytes));
    note_->since_ns.store(0, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < words.size(); ++i)
      note_->text[i].store(words[i], std::memory_order_relaxed);
    note_->lock_segment.store(lock ? lock.segment.packed() : 0, std::memory_order_relaxed);
    note_->lock_place.store(lock.place(), std::memory_order_relaxed);
    note_->since_ns.store(now_ns, std::memory_order_release);
    told_ns_ = now_ns;
  }

  void tell(int64_t now_ns, const LockName& lock) {
    if (told_ns_ == 0) tell(now_ns, text_of(lock), lock);
  }
  bool has_told() const { return told_ns_ != 0; }

 private:
  WaitNote* const note_;
  int64_t told_ns_ = 0;  // 0: it has told nothing
};

// wait(until_ns) sleeps, and so does this until `until_ns`; tell() only once the wait has lasted
// since `began_ns`. Most are over before anybody could look, and to make a text takes as long as a
// short one.
template <class Wait, class Tell>
WaitResult wait_and_tell(const NoteWait& note, int64_t began_ns, int64_t until_ns, Wait&& wait,
                         Tell&& tell) {
  constexpr int64_t untold_ns = 10'000'000;
  const int64_t tell_ns = began_ns + untold_ns;
  if (!note.has_told() && (until_ns == no_deadline || tell_ns < until_ns)) {
    if (const WaitResult result = wait(tell_ns); result != WaitResult::timeout) return result;
    tell();
  }
  return wait(until_ns);
}

// "skerry::Status skerry::origin::Engine::fence(...)": "Engine::fence".
constexpr std::string_view short_name(std::string_view function) {
  function = function.substr(0, function.find('('));
  if (const size_t space = function.rfind(' '); space != function.npos)
    function.remove_prefix(space + 1);
  const size_t last = function.rfind("::");
  if (last == function.npos || last == 0) return function;
  const size_t before = function.rfind("::", last - 1);
  return before == function.npos ? function : function.substr(before + 2);
}
static_assert(short_name("a::Status a::b::Engine::fence(a::c::Ref)") == "Engine::fence");

}  // namespace skerry::memory
