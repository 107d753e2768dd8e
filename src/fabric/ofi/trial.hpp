// Are a provider's atomics right? Two fabrics of this process connect; one adds, compares and swaps
// on a word of the other, and looks at every answer and at memory.
#pragma once

#include <string>

#include "fabric/ofi/domain.hpp"

namespace skerry::fabric::ofi {

struct Trial {
  std::string wrong;  // empty: they are right
  bool swaps = false;
  // One was answered while nobody looked at the target's end. (A thread of the provider may have.)
  bool alone = false;
  // The known defect of libfabric's verbs before 2.2.0: seen exactly, and made up for.
  bool operands_as_addresses = false;
};

// Of this provider; made once in a process. (Adapters of one provider that differ in this are not
// known.) Any thread.
const Trial& tried(const Library& library, const std::string& provider, Kind kind,
                   const Options& options);

}  // namespace skerry::fabric::ofi
