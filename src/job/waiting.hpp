// How a rank waits for what another rank of its node does in shared memory: counters and flags.
//
// First it looks, then it gives the core away between looks, for a bounded time; then it sleeps on
// its doorbell (memory/doorbell.hpp). Whether it gives the core away at once depends on whether the
// machine has a core for each rank (Job::is_crowded).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

#include "core/futex.hpp"
#include "job/job.hpp"
#include "memory/doorbell.hpp"
#include "memory/wait_note.hpp"

namespace skerry::job {

// How many wait asleep for the flags of some ranks: who raises a flag rings doorbells only if it is
// not 0. Sequentially consistent, as the flag must be: either the sleeper sees the flag, or the
// other sees the sleeper.
class Asleep {
 public:
  explicit Asleep(std::atomic<uint32_t>* count) : count_(count) {  // null: nobody looks
    if (count_ != nullptr) count_->fetch_add(1, std::memory_order_seq_cst);
  }
  ~Asleep() {
    if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_seq_cst);
  }
  Asleep(const Asleep&) = delete;
  Asleep& operator=(const Asleep&) = delete;

 private:
  std::atomic<uint32_t>* const count_;
};

// What a long wait looks at now and then. True: it waits in vain, and has come to its limit.
using Look = std::function<bool()>;

// Until ready(), `timeout_ns` (negative: no limit) passed, or the job ends. What makes it ready
// rings this rank's doorbell. `text()` says what it waits for, for those who look from outside.
// `look`: null: none.
template <class Ready, class Text>
WaitResult wait_here(Job& job, int64_t timeout_ns, std::atomic<uint32_t>* asleep, Ready&& ready,
                     Text&& text, const Look* look = nullptr) {
  const int64_t deadline_ns = deadline_after(timeout_ns);
  const memory::WaitSpan span(&job.spans(), text);
  memory::Member& me = job.control().member(job.member_index());
  // To be woken takes a core that went idle some 50 us: worth a spin of about twice that. Of two
  // ranks that wait for each other by turns, one that has slept would make the other sleep, and so
  // on for ever.
  constexpr int64_t longest_spin_ns = 100'000, time_slice_ns = 1'000'000;
  const auto ready_now = [&] {
    if (ready()) return true;
    job.take_turn(0);
    return ready();
  };
  if (timeout_ns < 0 || timeout_ns >= time_slice_ns) {
    if (job.has_borrowed() ? job.idle_core_spin().give_way(ready_now, longest_spin_ns)
        : job.is_crowded() ? job.idle_core_spin().give_way(ready, longest_spin_ns)
                         : job.idle_core_spin().spin(ready, longest_spin_ns))
      return WaitResult::reached;
  }
  job.give_back_server();  // whose thread rings our doorbell
  memory::NoteWait note(&me.waits);
  const int64_t began_ns = monotonic_ns();
  const auto bell = [&](int64_t until_ns) {
    const Asleep here(asleep);
    return memory::wait_doorbell(me, job.control().abort_flag(), until_ns, ready);
  };
  // Under a cap on connections each look may evict one.
  constexpr int64_t first_pause_ns = 100'000'000, longest_pause_ns = 1'000'000'000;
  for (int64_t pause_ns = first_pause_ns;; pause_ns = std::min(2 * pause_ns, longest_pause_ns)) {
    const int64_t look_ns = look == nullptr ? no_deadline : deadline_after(pause_ns);
    const bool looks =
        look != nullptr && (deadline_ns == no_deadline || look_ns < deadline_ns);
    const int64_t end_ns = looks ? look_ns : deadline_ns;
    const WaitResult result = job.wait_working(end_ns, [&](int64_t until_ns) {
      return memory::wait_and_tell(note, began_ns, until_ns, bell,
                                   [&] { note.tell(began_ns, text()); });
    });
    if (result != WaitResult::timeout || !looks) return result;
    if ((*look)()) return ready() ? WaitResult::reached : WaitResult::timeout;
  }
}

// The same for what other nodes alone make ready. A thread that has borrowed its
// node's data server sleeps in that first: one wake-up in place of two. Not for long: the server's
// own thread serves what this rank knows nothing of, and sleeps without waking up in between.
template <class Ready, class Text>
WaitResult wait_for_nodes(Job& job, int64_t timeout_ns, Ready&& ready, Text&& text,
                          const Look* look = nullptr) {
  constexpr int64_t longest_loan_ns = 2'000'000;
  if (job.has_borrowed()) {
    const memory::WaitSpan span(&job.spans(), text);  // of the loan alone
    const int64_t until_ns = monotonic_ns() + longest_loan_ns;
    for (int64_t left_ns = longest_loan_ns; left_ns > 0; left_ns = until_ns - monotonic_ns()) {
      if (ready()) return WaitResult::reached;
      if (job.control().is_aborted()) return WaitResult::aborted;
      job.take_turn(left_ns);
    }
    job.give_back_server();
  }
  return wait_here(job, timeout_ns, nullptr, ready, text, look);
}

}  // namespace skerry::job
