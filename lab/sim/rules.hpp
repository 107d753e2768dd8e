// Rules that the storm and the tests of lock machines leave out on purpose, one at a time, to show
// that they find what then goes wrong. Compiled in front of the product's sources there
// (CMakeLists.txt), in place of what core/pure/rule.hpp says.
#pragma once

#include <cstdint>
#include <string_view>

namespace skerry {

enum class Rule : uint8_t {
  none,
  skip_duplicates,     // a request that was applied is not applied again
  keep_results,        // results of read-modify-writes are kept until their origin has them
  replay,              // after a break, what was not applied is sent again
  connection_limit,    // at the limit, opening takes an eviction
  fence_acknowledged,  // a fence waits for the acknowledgement of all before it
  hand_over,           // an unlock grants the mutex to the first waiter, and only then
  gets_before_puts,    // a write waits for the gets before it that still read there
  relay_grants,        // a grant whose origin has no connection goes through another server
  sharers_queue,       // a sharer does not join others while somebody waits
  tell_the_batch,      // all sharers that are handed a lock are told
  sharers_may_wait,    // a sharer that asks again has the lock only if it does not wait for it
  locked_once,         // an access under a lock that was applied is not applied again
  keep_lock,           // one that waits for a stripe keeps its lock
  sharers_join,        // a sharer that holds other locks joins present sharers, also if others wait
  bounded_passing,     // a waiter is passed by so many newcomers at most
  count_flags,         // a requester for exclusive use counts sharers that have a flag only
  // In jobs that go on without their dead:
  refuse_the_dead,   // servers end the connections of the dead, and open none
  locks_go_on,       // a lock whose holder died goes to the next
  tell_owner_died,   // who is told
  dead_leave_queue,  // the dead do not wait for locks
  take_over_guards,  // a guard whose owner died is taken over
  look_untold,       // a waiter that is not told that it has the lock sees it
  lose_nodes,        // what is under way to a lost node fails
};
constexpr uint8_t rules = 24;
constexpr bool is_of_deaths(Rule rule) { return rule >= Rule::refuse_the_dead; }
constexpr std::string_view to_string(Rule rule) {
  constexpr std::string_view names[rules] = {"none",
                                             "skip_duplicates",
                                             "keep_results",
                                             "replay",
                                             "connection_limit",
                                             "fence_acknowledged",
                                             "hand_over",
                                             "gets_before_puts",
                                             "relay_grants",
                                             "sharers_queue",
                                             "tell_the_batch",
                                             "sharers_may_wait",
                                             "locked_once",
                                             "keep_lock",
                                             "sharers_join",
                                             "bounded_passing",
                                             "count_flags",
                                             "refuse_the_dead",
                                             "locks_go_on",
                                             "tell_owner_died",
                                             "dead_leave_queue",
                                             "take_over_guards",
                                             "look_untold",
                                             "lose_nodes"};
  return names[static_cast<uint8_t>(rule)];
}

inline Rule rule_left_out = Rule::none;

namespace lock::machine {

// Of the migrating lock.
enum class LockRule : uint8_t {
  none,
  mode_again,      // who has the CPU lock looks at the mode again
  both_locks,      // step 3: the manager takes both locks
  network_mode,    // step 4: and writes "network mode"
  unlock_by_kind,  // what the manager holds for a client goes back to the manager
  tells_sharers,   // who was counted in leaves a network lock that says so
};
inline LockRule lock_rule_left_out = LockRule::none;

}  // namespace lock::machine
}  // namespace skerry

#define SKERRY_RULE(name) (::skerry::rule_left_out != ::skerry::Rule::name)
#define SKERRY_LOCK_RULE(name) \
  (::skerry::lock::machine::lock_rule_left_out != ::skerry::lock::machine::LockRule::name)
