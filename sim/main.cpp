// skerry-sim: `skerry sim` starts it. Commands: run (the default), paper, storm.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "sim/commands.hpp"

int main(int count, char** arguments) {
  using namespace skerry::sim;
  std::vector<std::string> words(arguments + 1, arguments + count);
  const std::string command = !words.empty() && !words[0].starts_with("-") ? words[0] : "";
  if (!command.empty()) words.erase(words.begin());
  if (command.empty() || command == "run") return run_main(words);
  if (command == "paper") return paper_main(words);
  if (command == "storm") return storm_main(words);
  std::fprintf(stderr, "skerry sim: unknown command \"%s\"\n\n%s", command.c_str(), help());
  return 2;
}
