// Rules of the laboratory's protocols that a test leaves out, one at a time (sim/rules.hpp).
#pragma once

#include <cstdint>

#ifdef SKERRY_SIMULATED

namespace skerry::lock::machine {

enum class LabRule : uint8_t {
  none,
  manager_one_writer,     // two_sided: a request is granted only when it excludes no holder
  manager_grants_next,    // two_sided: a release grants the next in the queue
  manager_arrival_order,  // two_sided: a shared request does not overtake the queue
  compare_holds,          // one_sided: a failed compare-and-swap is no grant
  network_word_unit,      // one_sided: a local requester asks the network, too
  await_link,             // queue: one who has joined is waited for, even if not heard of yet
  bounded_hand_over,  // cohort, asymmetric: a cohort passes the lock on a bounded number of times
  renew,              // cohort: and then asks for it again in the name of the next in line
  victim,             // asymmetric: a cohort's leader lets the other cohort go first
  writers_wait_for_readers,  // reader_writer
  readers_wait_for_writers,  // reader_writer
};
inline LabRule lab_rule_left_out = LabRule::none;

}  // namespace skerry::lock::machine

#define SKERRY_LAB_RULE(name) \
  (::skerry::lock::machine::lab_rule_left_out != ::skerry::lock::machine::LabRule::name)

#else

#define SKERRY_LAB_RULE(name) true

#endif
