// Ranks as threads of one process, for tests: ThreadSanitizer sees nothing between processes.
#pragma once

#include "job/bootstrap/bootstrap.hpp"

namespace skerry::job {

// One bootstrap per rank, each to be used by its own thread. Ranks are split over `nodes` nodes in
// contiguous blocks, as `skerry run --nodes` does. Needs 1 <= nodes <= size. A bootstrap destroyed
// before finish() makes the others' waits fail (network) instead of hang.
std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int size, int nodes = 1);

}  // namespace skerry::job
