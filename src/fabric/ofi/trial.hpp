// Are a provider's atomics right? Two fabrics of this process connect; one adds, compares and swaps
// on a word of the other, and looks at every answer and at memory.
#pragma once

#include <string>

#include "fabric/ofi/domain.hpp"

namespace skerry::fabric::ofi {

struct Trial {
  std::string wrong;  // empty: they are right
  bool swaps = false;
  // How long one takes while nobody looks at the target's end, the median. (A thread of the
  // provider may have.) 0: it was not answered, or not tried.
  int64_t alone_ns = 0;
  // The known defect of libfabric's verbs before 2.2.0: seen exactly, and made up for.
  bool operands_as_addresses = false;
};

// Of this provider; made once in a process. (Adapters of one provider that differ in this are not
// known.) Any thread.
const Trial& tried(const Library& library, const std::string& provider, Kind kind,
                   const Options& options);

}  // namespace skerry::fabric::ofi
