// The trial that decides whether a provider's atomics are trusted.
//
// libfabric's verbs provider before 2.2.0 takes the address of an operand for its value. A trial
// sees that exactly, and then the fabric hands over values as addresses. Anything else that is not
// right turns atomics off.
#pragma once

#include <string>

#include "fabric/ofi/library.hpp"
#include "fabric/fabric.h"

namespace skerry::fabric::ofi {

struct AtomicsTrial {
  bool works = false;
  bool operands_as_addresses = false;  // works, but takes an operand's address for its value
  std::string reason;                  // why not; empty if it works
};

// Once in a process and provider: adapters of one provider that differ in this are not known.
AtomicsTrial trial_of_atomics(const Options& options, const Library* library,
                              const std::string& provider);

}  // namespace skerry::fabric::ofi
