// skerry-sim: `skerry sim` starts it. Commands: run (the default), paper, locks,
// memory, routes, storm, plan (for skerry info --nodes).
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "sim/commands.hpp"

namespace {

// The storm is a program of its own, beside this one: it has the product's rooms inside, built for
// the simulator's threads and clock.
int storm_main(std::vector<std::string> words) {
  char self[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", self, sizeof self);
  std::string program(self, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  program = program.substr(0, program.rfind('/') + 1) + "skerry-storm";
  std::vector<char*> arguments = {program.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  std::fprintf(stderr, "skerry sim: cannot start %s: %s\n", program.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  using namespace skerry::sim;
  std::vector<std::string> words(arguments + 1, arguments + count);
  const std::string command = !words.empty() && !words[0].starts_with("-") ? words[0] : "";
  if (!command.empty()) words.erase(words.begin());
  if (command.empty() || command == "run") return run_main(words);
  if (command == "paper") return paper_main(words);
  if (command == "locks") return locks_main(words);
  if (command == "memory") return memory_main(words);
  if (command == "routes") return routes_main(words);
  if (command == "storm") return storm_main(words);
  if (command == "plan") return plan_main(words);
  std::fprintf(stderr, "skerry sim: unknown command \"%s\"\n\n%s", command.c_str(), help());
  return 2;
}
