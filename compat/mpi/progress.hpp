// Calls on windows move MPI's messages on, as MPI promises: a program that polls a window may wait
// for something that another rank does only when a message of this rank has arrived.
#pragma once

#include <algorithm>
#include <cstdint>

#include "window.hpp"

namespace skerry::mpi {

// How many calls a thread makes until it next enters MPI. Entering takes some hundred nanoseconds,
// an access inside a node some ten: so the time between two entries follows what an entry takes
// that finds nothing to do, whatever the pace of the calls.
class Pace {
 public:
  // An entry with nothing to do takes at most 1 / `share` of the thread's time.
  static constexpr int64_t share = 256;
  static constexpr int64_t most_calls = 32768;  // between two entries
  // An entry that took `busy` times as long as an idle one moved a message on: the next call enters
  // again, so that a large message does not wait for each of its parts.
  static constexpr int64_t busy = 8;

  // The thread entered MPI at `began_ns` and left it at `ended_ns`. Returns the calls until the
  // next entry, 1 at least.
  uint32_t next(int64_t began_ns, int64_t ended_ns) {
    const int64_t took_ns = std::max<int64_t>(ended_ns - began_ns, 1);
    const int64_t since_ns = std::max<int64_t>(began_ns - last_ns_, 1);
    last_ns_ = ended_ns;
    // Creeps up, so that one entry that was measured too short does not count for ever.
    idle_ns_ = idle_ns_ == 0 ? took_ns : std::min(took_ns, idle_ns_ + idle_ns_ / 64 + 1);
    calls_ = took_ns > busy * idle_ns_
                 ? 1
                 : std::clamp<int64_t>(calls_ * share * idle_ns_ / since_ns, 1, most_calls);
    return static_cast<uint32_t>(calls_);
  }

 private:
  int64_t calls_ = 1;    // between the last two entries
  int64_t last_ns_ = 0;  // when the last entry ended
  int64_t idle_ns_ = 0;  // what an entry takes that finds nothing; 0: none was made
};

// Where the loader has put it, without a call that asks: a call costs an access a tenth. These four
// bytes are all that the adapter takes of the room that the loader keeps for libraries opened late.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit uint32_t calls_until_entry;
// Lets MPI work, and sets `calls_until_entry`.
[[gnu::cold]] void enter_mpi(const Window& window);

// At the end of every call on a window, where least is left to be kept for later. Returns what the
// call does.
inline int counted(Window& window, const char* call, int error_class) {
  if (--calls_until_entry == 0) [[unlikely]]
    enter_mpi(window);
  return answer(window, call, error_class);
}

}  // namespace skerry::mpi
