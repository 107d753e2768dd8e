// Rules that the simulator leaves out on purpose, one at a time, to show that it finds what then
// goes wrong. In the product a rule always holds, and costs nothing.
#pragma once

#include <cstdint>
#include <string_view>

#ifdef SKERRY_SIMULATED

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
  sharers_join,        // a sharer that holds other locks joins present sharers, whoever waits
  bounded_passing,     // a waiter is passed by so many newcomers at most
  count_flags,         // a requester for exclusive use counts sharers that have a flag only
};
constexpr uint8_t rules = 17;
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
                                             "count_flags"};
  return names[static_cast<uint8_t>(rule)];
}

inline Rule rule_left_out = Rule::none;

}  // namespace skerry

#define SKERRY_RULE(name) (::skerry::rule_left_out != ::skerry::Rule::name)

#else

#define SKERRY_RULE(name) true

#endif
