// Spans: when single calls of a rank began and ended, and what it waited for in between, for
// `skerry trace`. Nothing is recorded until somebody who looks from outside sets `until_ns` in this
// process's memory; until then a call pays one comparison. At that time recording ends by itself,
// so a reader that was killed leaves nothing on.
//
// Records go round in a ring in the rank's own memory, which the reader copies (/proc/PID/mem). A
// call much shorter than its record costs is recorded once in so many: of each kind about one
// record in `period_ns`. So recording takes some percent of a period at most, whatever the program
// does.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/futex.hpp"
#include "core/pure/ids.hpp"
#include "memory/wait_note.hpp"

namespace skerry::memory {

enum class SpanKind : uint32_t {
  put,
  get,
  accumulate,
  fetch_update,
  read_modify_write,
  wait,  // for operations with a handle, or all without one
  fence,
  collective,
  lock,
  waited,  // part of one of those: its text says for what
};
constexpr uint32_t span_kinds = static_cast<uint32_t>(SpanKind::waited) + 1;
std::string_view to_string(SpanKind kind);

// One record. The reader takes it if `number` is what it expects and the ring has not come round
// since.
struct alignas(64) Span {
  static constexpr uint32_t text_bytes = 56;
  std::atomic<uint64_t> number;  // counts all records of the rank from 1; 0: being written
  int64_t begin_ns, end_ns;      // monotonic clock
  uint64_t bytes;                // of an operation
  Rank target;                   // no_rank: none
  SpanKind kind;
  uint32_t thread;        // of the process, from 0, in the order of their first records
  uint32_t of;            // calls of its kind that it stands for, this one among them
  uint64_t lock_segment;  // waited: SegmentId::packed of a lock; 0: none
  uint64_t lock_place;    // LockName::place
  char text[text_bytes];  // waited: zero-terminated, cut
};
static_assert(sizeof(Span) == 128 && offsetof(Span, lock_segment) == 48);

struct SpanRing {
  static constexpr uint64_t size = 8192;  // 1 MiB
  std::atomic<uint64_t> last{0};          // number of the newest record that was begun
  std::array<Span, size> spans{};         // record n is at n % size
};

// What a reader sees of a rank's Spans.
struct SpanSwitch {
  // The reader: monotonic time at which recording ends; 0: it is off. Also reset by the rank.
  std::atomic<int64_t> until_ns{0};
  // The rank: where the records are in this process; null: it has recorded nothing yet.
  std::atomic<SpanRing*> ring{nullptr};
};

class Spans : public SpanSwitch {
 public:
  static constexpr int64_t period_ns = 20'000;
  static constexpr int64_t shortest_wait_ns = 20'000;

  Spans() = default;
  ~Spans();
  Spans(const Spans&) = delete;
  Spans& operator=(const Spans&) = delete;

  bool is_on() const { return until_ns.load(std::memory_order_relaxed) != 0; }
  // A call of this kind begins: will a span of it be recorded? Counts the call. Inline to its end:
  // a call in it would make the fast paths that ask save registers.
  bool is_due(SpanKind kind) {
    if (!is_on()) [[likely]]
      return false;
    std::atomic<uint32_t>& calls_left = pace_[static_cast<size_t>(kind)].left;
    const uint32_t left = calls_left.load(std::memory_order_relaxed);
    if (left > 0) calls_left.store(left - 1, std::memory_order_relaxed);
    return left == 0;
  }
  void record(SpanKind kind, int64_t begin_ns, Rank target, uint64_t bytes);
  void record_wait(int64_t begin_ns, int64_t end_ns, std::string_view text, const LockName& lock);

 private:
  // Of one kind. Threads race for them; a lost count makes one more or one fewer record.
  struct Pace {
    std::atomic<uint32_t> left{0};  // calls before the next record
    std::atomic<uint32_t> of{1};    // calls that the next record stands for
    std::atomic<int64_t> last_ns{0};
  };
  Span* next(SpanKind kind, int64_t begin_ns, int64_t end_ns, uint64_t* number);

  std::array<Pace, span_kinds> pace_;
};

// For as long as it lives its thread is in a call of this kind. Null: nobody records.
class CallSpan {
 public:
  CallSpan(Spans* spans, SpanKind kind, Rank target, uint64_t bytes)
      : spans_(spans != nullptr && spans->is_due(kind) ? spans : nullptr),
        begin_ns_(spans_ == nullptr ? 0 : monotonic_ns()),
        bytes_(bytes),
        target_(target),
        kind_(kind) {}
  ~CallSpan() {
    if (spans_ != nullptr) [[unlikely]]
      spans_->record(kind_, begin_ns_, target_, bytes_);
  }
  CallSpan(const CallSpan&) = delete;
  CallSpan& operator=(const CallSpan&) = delete;

 private:
  Spans* const spans_;
  const int64_t begin_ns_;
  const uint64_t bytes_;
  const Rank target_;
  const SpanKind kind_;
};

// For as long as it lives its thread waits for what `text()` says. Short waits are not recorded:
// the call that they are part of shows them.
template <class Text>
class WaitSpan {
 public:
  WaitSpan(Spans* spans, Text text, const LockName& lock = {})
      : spans_(spans),
        text_(std::move(text)),
        lock_(lock),
        begin_ns_(spans != nullptr && spans->is_on() ? monotonic_ns() : 0) {}
  ~WaitSpan() {
    if (begin_ns_ == 0) [[likely]]
      return;
    const int64_t end_ns = monotonic_ns();
    if (end_ns - begin_ns_ >= Spans::shortest_wait_ns)
      spans_->record_wait(begin_ns_, end_ns, text_(), lock_);
  }
  WaitSpan(const WaitSpan&) = delete;
  WaitSpan& operator=(const WaitSpan&) = delete;

 private:
  Spans* const spans_;
  const Text text_;
  const LockName lock_;
  const int64_t begin_ns_;
};

}  // namespace skerry::memory
