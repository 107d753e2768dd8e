// Rules of the migrating lock that a test leaves out on purpose, one at a time, to show that it
// finds what then goes wrong (core/pure/rule.hpp does the same for the other rooms, whose rules the
// storm leaves out). In the product a rule always holds, and costs nothing.
#pragma once

#include <cstdint>

#ifdef SKERRY_SIMULATED

namespace skerry::lock::machine {

enum class LockRule : uint8_t {
  none,
  mode_again,      // who has the CPU lock looks at the mode again
  both_locks,      // step 3: the manager takes both locks
  network_mode,    // step 4: and writes "network mode"
  unlock_by_kind,  // what the manager holds for a client goes back to the manager
};
inline LockRule lock_rule_left_out = LockRule::none;

}  // namespace skerry::lock::machine

#define SKERRY_LOCK_RULE(name) \
  (::skerry::lock::machine::lock_rule_left_out != ::skerry::lock::machine::LockRule::name)

#else

#define SKERRY_LOCK_RULE(name) true

#endif
