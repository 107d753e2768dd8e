// What a rank waits for, told in the node's shared memory to whoever looks at a running job: a tool
// that asks nothing of the rank. Written only by a wait that goes on, so short waits pay nothing.
//
// Who writes: the rank's threads. Of several that wait, the last to begin is seen, and the first to
// end clears it. Who reads: any process, at any time. It takes the text only if `since_ns` is the
// same before and after.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace skerry::memory {

struct alignas(64) WaitNote {
  static constexpr uint32_t text_bytes = 56;
  std::atomic<int64_t> since_ns;  // monotonic clock; 0: no wait
  // In words, so that threads may race for it; zeros behind it, unless it fills them.
  std::array<std::atomic<uint64_t>, text_bytes / 8> text;
};
static_assert(sizeof(WaitNote) == 64);

// For as long as it lives its thread waits.
class NoteWait {
 public:
  explicit NoteWait(WaitNote* note) : note_(note) {}  // null: nobody is told
  ~NoteWait() {
    if (told_) note_->since_ns.store(0, std::memory_order_release);
  }
  NoteWait(const NoteWait&) = delete;
  NoteWait& operator=(const NoteWait&) = delete;

  // Longer texts are cut.
  void tell(int64_t now_ns, std::string_view text) {
    if (note_ == nullptr) return;
    std::array<uint64_t, WaitNote::text_bytes / 8> words{};
    std::memcpy(words.data(), text.data(), std::min<size_t>(text.size(), WaitNote::text_bytes));
    note_->since_ns.store(0, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < words.size(); ++i)
      note_->text[i].store(words[i], std::memory_order_relaxed);
    note_->since_ns.store(now_ns, std::memory_order_release);
    told_ = true;
  }

 private:
  WaitNote* const note_;
  bool told_ = false;
};

// "skerry::Status skerry::operation::Engine::fence(...)": "Engine::fence".
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
