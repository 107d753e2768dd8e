// `skerry info`: what this machine offers to a job.
#pragma once

#include <string>
#include <vector>

namespace skerry::launcher {

// One thing to know, e.g. {"memory", "available", "21.3 GiB"}.
struct Fact {
  std::string section;
  std::string name;
  std::string value;
};

// Every section in order; add one here. What cannot be found out is left out.
std::vector<Fact> machine_facts();
int info_main(const std::vector<std::string>& words);

}  // namespace skerry::launcher
