// Sharers that leave no trace in the lock's word. A lock that several ranks of its node share again
// and again is *biased* to readers. A sharer then writes the lock's name into a flag of its own
// cache line and leaves the word alone, so readers do not disturb each other. A requester for
// exclusive use takes the bias away with the guard: it turns each flag into a count in the word.
// From then on all is as without.
//
//   sharer:   flag = name; still biased? it has the lock. Otherwise it takes the flag back. If that
//             fails, it was counted, and has the lock.
//   unlock:   takes the flag back. If that fails, it was counted: it counts itself out.
//   revoke:   counts itself in, takes the bias away; for each flag with the name: counts it, then
//             takes the flag; if that fails, its owner did: counts it out again. Counts itself out.
//
// An exclusive requester of an unbiased lock pays nothing. Bias comes after `bias_after` requests
// that met other sharers, so taking it away is paid for by them.
//
// Source: Dice, Kogan, "BRAVO: Biased Locking for Reader-Writer Locks", USENIX ATC 2019. Here each
// rank has a line of its own instead of a shared table, and a writer waits for counted sharers
// instead of flags, so that it can sleep.
#pragma once

#include <atomic>
#include <cstdint>

namespace skerry::lock {

// One for each rank of the node, in memory that they share; zeroed when new. A line further back
// has the last name given.
constexpr uint64_t reader_line_bytes = 128;  // two cache lines: they are fetched in pairs
struct alignas(reader_line_bytes) ReaderLine {
  static constexpr uint32_t flags = 16;
  std::atomic<uint64_t> flag[flags];  // 0, or the name of a lock that the line's rank shares.
                                      // Written by its threads; revokers: back to 0
};
static_assert(sizeof(ReaderLine) == reader_line_bytes);

class ReaderLines {
 public:
  ReaderLines() = default;  // none: no lock is ever biased
  ReaderLines(ReaderLine* lines, uint32_t count) : lines_(lines), count_(count) {}
  uint32_t count() const { return count_; }
  // The flag for the lock `name` of rank `member` (0, 1, ...) of the node.
  std::atomic<uint64_t>& flag(uint32_t member, uint64_t name) const {
    return lines_[member].flag[name % ReaderLine::flags];
  }
  uint64_t new_name() const {
    return lines_[count_].flag[0].fetch_add(1, std::memory_order_relaxed) + 1;
  }

 private:
  ReaderLine* lines_ = nullptr;
  uint32_t count_ = 0;
};

struct Mutex;

// A rank of the lock's node asks to share it, without the guard, by its flag or by a count, as
// `holder` (mutex.hpp). False: ask as others do.
bool share(Mutex& mutex, const ReaderLines& lines, uint32_t member, uint64_t holder);
// By its flag alone. False: by a count.
bool share_by_flag(Mutex& mutex, const ReaderLines& lines, uint32_t member);
// It gives back a share, however it got it. False: it is the last, and others wait (release).
bool unshare(Mutex& mutex, const ReaderLines& lines, uint32_t member);
// False: not by a flag: count it out.
bool unshare_by_flag(Mutex& mutex, const ReaderLines& lines, uint32_t member);
// It got its share by a count, beside other sharers. Biases the lock if that was so often.
void met_others(Mutex& mutex, const ReaderLines& lines);
// With the guard, before the lock is asked for exclusive use: afterwards it is not biased.
void revoke_bias(Mutex& mutex, const ReaderLines& lines);

#ifdef SKERRY_SIMULATED
constexpr uint32_t bias_after = 2;
#else
constexpr uint32_t bias_after = 256;
#endif

}  // namespace skerry::lock
