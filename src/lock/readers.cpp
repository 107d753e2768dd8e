#include "lock/readers.hpp"

#include "core/pure/rule.hpp"
#include "lock/mutex.hpp"

namespace skerry::lock {

bool share(Mutex& mutex, const ReaderLines& lines, uint32_t member, Holder holder) {
  if (share_by_flag(mutex, lines, member)) return true;
  bool others = false;
  if (try_share(mutex, holder, &others) != LockAnswer::granted) return false;
  if (others) met_others(mutex, lines);
  return true;
}

bool share_by_flag(Mutex& mutex, const ReaderLines& lines, uint32_t member) {
  if (!is_biased(mutex.word.load(std::memory_order_acquire))) return false;
  const uint64_t name = mutex.name.load(std::memory_order_relaxed);
  std::atomic<uint64_t>& flag = lines.flag(member, name);
  uint64_t found = 0;
  if (!flag.compare_exchange_strong(found, name, std::memory_order_seq_cst,
                                    std::memory_order_relaxed))
    return false;  // another lock's, or another thread's
  // Sequentially consistent, as the revoker's: either we see that the bias is gone, or it sees the
  // flag. An acquire, too: what the last exclusive holder did is visible.
  if (is_biased(mutex.word.load(std::memory_order_seq_cst))) return true;
  found = name;
  // Failed: the revoker counted us.
  return !flag.compare_exchange_strong(found, 0, std::memory_order_acq_rel);
}

bool unshare(Mutex& mutex, const ReaderLines& lines, uint32_t member) {
  return unshare_by_flag(mutex, lines, member) || try_unshare(mutex) == UnlockAnswer::released;
}

bool unshare_by_flag(Mutex& mutex, const ReaderLines& lines, uint32_t member) {
  uint64_t name = mutex.name.load(std::memory_order_relaxed);
  if (name == 0) return false;
  std::atomic<uint64_t>& flag = lines.flag(member, name);
  return flag.load(std::memory_order_relaxed) == name &&
         flag.compare_exchange_strong(name, 0, std::memory_order_release,
                                      std::memory_order_relaxed);
}

void met_others(Mutex& mutex, const ReaderLines& lines) {
  if (lines.count() == 0) return;
  // A hint that several may overwrite.
  const uint32_t met = mutex.met_sharers.load(std::memory_order_relaxed) + 1;
  mutex.met_sharers.store(met, std::memory_order_relaxed);
  if (met < bias_after) return;
  if (uint64_t none = 0; mutex.name.load(std::memory_order_relaxed) == 0)
    mutex.name.compare_exchange_strong(none, lines.new_name(), std::memory_order_relaxed);
  // Release: who sees the bias sees the name. We share the lock, so it is not held exclusively.
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  while ((value & (shared_bit | queued_bit | biased_bit)) == shared_bit)
    if (mutex.word.compare_exchange_weak(value, value | biased_bit, std::memory_order_release,
                                         std::memory_order_relaxed))
      return;
}

void revoke_bias(Mutex& mutex, const ReaderLines& lines) {
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  do {
    if (!is_biased(value)) return;
    // One share of our own: the count cannot fall to 0 meanwhile.
  } while (!mutex.word.compare_exchange_weak(value, (value & ~biased_bit) + 1,
                                             std::memory_order_seq_cst, std::memory_order_relaxed));
  mutex.met_sharers.store(0, std::memory_order_relaxed);
  const uint64_t name = mutex.name.load(std::memory_order_relaxed);
  for (uint32_t member = 0; member < lines.count() && SKERRY_RULE(count_flags); ++member) {
    std::atomic<uint64_t>& flag = lines.flag(member, name);
    if (flag.load(std::memory_order_seq_cst) != name) continue;
    mutex.word.fetch_add(1, std::memory_order_relaxed);
    // An acquire: if the flag's owner was faster, we come after what it did.
    if (uint64_t found = name; !flag.compare_exchange_strong(found, 0, std::memory_order_acq_rel))
      mutex.word.fetch_sub(1, std::memory_order_relaxed);
  }
  // Nobody can queue without the guard, so this frees the lock if no sharer is left.
  (void)try_unshare(mutex);
}

}  // namespace skerry::lock
