// Commands that are programs of their own, so that `skerry` stays small: they lie in libexec/skerry
// beside its bin.
#pragma once

#include <string>
#include <vector>

namespace skerry::launcher {

// Where `name` lies: ../libexec/skerry/NAME from this program. Empty: it is not installed.
std::string helper_program(const std::string& name);
// `skerry info --nodes ...`: becomes skerry-plan. Returns only if that fails, with the exit status.
int plan_main(const std::vector<std::string>& words);
// `skerry stacks ...`, `top`, `matrix` and `trace` become skerry-look, likewise.
int look_main(const std::string& command, const std::vector<std::string>& words);
// `skerry info --connections ...` (the words after that): starts a small job of virtual nodes that
// measures.
int connections_main(const std::vector<std::string>& words);

}  // namespace skerry::launcher
