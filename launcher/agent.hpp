// The agent: starts the ranks of one host, passes on what they say and what happens to them, and
// leaves no process behind. One runs for every host, also for the launcher's own (as its forked
// child), so that killing the launcher kills the ranks.
#pragma once

#include "launcher/auth.hpp"
#include "launcher/unique_fd.hpp"

namespace skerry::launcher {

// Waits for the plan on `launcher` and works until the launcher has gone: then, or at the end of
// `lifeline` (none: there is none), it kills what is left. Returns the process's exit status.
int run_agent(UniqueFd launcher, UniqueFd lifeline, const Key& key);

// `skerry agent`: reads the invitation from standard input, connects to the launcher, proves
// itself, then run_agent.
int agent_main();

}  // namespace skerry::launcher
