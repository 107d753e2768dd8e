// The commands of skerry-sim. Each returns the program's exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::sim {

int run_main(const std::vector<std::string>& words);
int paper_main(const std::vector<std::string>& words);
int locks_main(const std::vector<std::string>& words);   // lab/locks/study
int memory_main(const std::vector<std::string>& words);  // memory_command.cpp
int routes_main(const std::vector<std::string>& words);  // routes_command.cpp
const char* help();

// Says on stderr why `command` does not run; the exit status then.
int complain(const char* command, const Status& status);

}  // namespace skerry::sim
