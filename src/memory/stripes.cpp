#include "memory/stripes.hpp"

namespace skerry::memory {

LockResult Stripes::lock_busy(uint32_t index, Patience patience) const {
  switch (patience) {
    case Patience::wait: return lock_word_contended(table_[index].word, owner_, watch_);
    case Patience::try_once:
      // A stripe is usually held for less than a microsecond, so a few looks now are cheaper than
      // parking a session. Where local ranks contend for one word, only these looks give the server
      // its turn.
      for (uint32_t i = spin_limit(); i > 0; --i) {
        spin_pause();
        if (table_[index].word.try_lock(owner_)) return LockResult::locked;
      }
      return try_lock_word(table_[index].word, owner_, watch_);
  }
  return LockResult::busy;
}

Status Stripes::explain(LockResult result, uint32_t index) const {
  switch (result) {
    case LockResult::locked: return {};
    case LockResult::busy:
      return error(Code::internal, "stripe ", index, " is busy and the caller may not wait");
    case LockResult::owner_dead:
      return error(Code::peer_dead, "process ",
                   OwnerWord::owner_of(table_[index].word.value.load(std::memory_order_relaxed)),
                   " of this node died while it updated memory under stripe ", index,
                   "; what it was updating may be half done");
    case LockResult::aborted:
      return error(Code::peer_dead, "the job is ending: gave up waiting for stripe ", index);
  }
  return {};
}

}  // namespace skerry::memory
