#include "memory/spans.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace skerry::memory {
namespace {

uint32_t this_thread() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t own = threads.fetch_add(1, std::memory_order_relaxed);
  return own;
}

}  // namespace

std::string_view to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::put: return "put";
    case SpanKind::get: return "get";
    case SpanKind::accumulate: return "accumulate";
    case SpanKind::fetch_update: return "fetch_update";
    case SpanKind::read_modify_write: return "read_modify_write";
    case SpanKind::wait: return "wait";
    case SpanKind::fence: return "fence";
    case SpanKind::collective: return "collective";
    case SpanKind::lock: return "lock";
    case SpanKind::waited: return "waited";
  }
  return "?";
}

Spans::~Spans() { delete ring.exchange(nullptr, std::memory_order_release); }

// A record that says of nothing but time; its number is still to be stored. Null: recording is
// over, or there is no memory for it.
Span* Spans::next(SpanKind kind, int64_t begin_ns, int64_t end_ns, uint64_t* number) {
  int64_t last_ns = until_ns.load(std::memory_order_relaxed);
  if (end_ns >= last_ns) {
    // A reader that goes on sets it anew.
    until_ns.compare_exchange_strong(last_ns, 0, std::memory_order_relaxed);
    return nullptr;
  }
  SpanRing* to = ring.load(std::memory_order_acquire);
  if (to == nullptr) {
    auto* const made = new (std::nothrow) SpanRing;
    if (made == nullptr) return nullptr;
    if (ring.compare_exchange_strong(to, made, std::memory_order_acq_rel)) to = made;
    else delete made;
  }
  *number = to->last.fetch_add(1, std::memory_order_relaxed) + 1;
  Span& span = to->spans[*number % SpanRing::size];
  span.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  span.begin_ns = begin_ns;
  span.end_ns = end_ns;
  span.bytes = 0;
  span.target = no_rank;
  span.kind = kind;
  span.thread = this_thread();
  span.of = 1;
  span.lock_segment = 0;
  span.text[0] = 0;
  return &span;
}

void Spans::record(SpanKind kind, int64_t begin_ns, Rank target, uint64_t bytes) {
  const int64_t end_ns = monotonic_ns();
  Pace& pace = pace_[static_cast<size_t>(kind)];
  const uint32_t of = pace.of.load(std::memory_order_relaxed);
  const int64_t since_ns = std::max<int64_t>(end_ns - pace.last_ns.load(std::memory_order_relaxed),
                                             1);
  constexpr int64_t most_left_out = 1023;
  const auto left_out = static_cast<uint32_t>(
      std::min(period_ns * int64_t{of} / since_ns, most_left_out));
  pace.last_ns.store(end_ns, std::memory_order_relaxed);
  pace.left.store(left_out, std::memory_order_relaxed);
  pace.of.store(left_out + 1, std::memory_order_relaxed);
  uint64_t number = 0;
  Span* const span = next(kind, begin_ns, end_ns, &number);
  if (span == nullptr) return;
  span->bytes = bytes;
  span->target = target;
  span->of = of;
  span->number.store(number, std::memory_order_release);
}

void Spans::record_wait(int64_t begin_ns, int64_t end_ns, std::string_view text,
                        const LockName& lock) {
  uint64_t number = 0;
  Span* const span = next(SpanKind::waited, begin_ns, end_ns, &number);
  if (span == nullptr) return;
  span->lock_segment = lock ? lock.segment.packed() : 0;
  span->lock_place = lock.place();
  const size_t length = std::min<size_t>(text.size(), Span::text_bytes - 1);
  std::memcpy(span->text, text.data(), length);
  span->text[length] = 0;
  span->number.store(number, std::memory_order_release);
}

}  // namespace skerry::memory
