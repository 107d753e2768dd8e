// Rules of the lock protocols that a test leaves out on purpose, one at a time, to show that it
// finds what then goes wrong (core/pure/rule.hpp does the same for the other rooms, whose rules the
// storm leaves out). In the product a rule always holds, and costs nothing.
#pragma once

#include <cstdint>

#ifdef SKERRY_SIMULATED

namespace skerry::lock::machine {

enum class LockRule : uint8_t {
  none,
  manager_one_writer,     // two_sided: a request is granted only when it excludes no holder
  manager_grants_next,    // two_sided: a release grants the next in the queue
  manager_arrival_order,  // two_sided: a shared request does not overtake the queue
  compare_holds,          // one_sided: a failed compare-and-swap is no grant
  network_word_unit,      // one_sided: a local requester asks the network, too
  mode_again,             // migrating: who has the CPU lock looks at the mode again
  both_locks,             // migrating, step 3: the manager takes both locks
  network_mode,           // migrating, step 4: and writes "network mode"
  await_link,             // queue: one who has joined is waited for, even if not heard of yet
  bounded_hand_over,  // cohort, asymmetric: a cohort passes the lock on a bounded number of times
  renew,              // cohort: and then asks for it again in the name of the next in line
  victim,             // asymmetric: a cohort's leader lets the other cohort go first
  writers_wait_for_readers,  // reader_writer
  readers_wait_for_writers,  // reader_writer
  unlock_by_kind,  // migrating: what the manager holds for a client goes back to the manager
};
inline LockRule lock_rule_left_out = LockRule::none;

}  // namespace skerry::lock::machine

#define SKERRY_LOCK_RULE(name) \
  (::skerry::lock::machine::lock_rule_left_out != ::skerry::lock::machine::LockRule::name)

#else

#define SKERRY_LOCK_RULE(name) true

#endif
