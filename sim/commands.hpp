// The commands of skerry-sim. Each returns the program's exit status.
#pragma once

#include <string>
#include <vector>

namespace skerry::sim {

int run_main(const std::vector<std::string>& words);
int paper_main(const std::vector<std::string>& words);
int locks_main(const std::vector<std::string>& words);   // locks_command.cpp
int memory_main(const std::vector<std::string>& words);  // memory_command.cpp
const char* help();

}  // namespace skerry::sim
