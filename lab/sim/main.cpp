// skerry-sim. Commands: run (the default), paper, locks, memory, routes, storm, calibrate.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/commands.hpp"

namespace {

constexpr const char* calibrate_help =
    "usage: skerry-sim calibrate [--out FILE] [--nodes N]\n\n"
    "Measures what connections and requests cost here, on a job of N ranks on N virtual nodes\n"
    "(12), and writes the numbers that `skerry-sim --costs FILE` computes with (out/costs.json).\n"
    "Takes a few seconds; a busy machine gives larger numbers.\n";

// A program beside this one.
std::string beside(const char* name) {
  char self[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", self, sizeof self);
  const std::string program(self, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return program.substr(0, program.rfind('/') + 1) + name;
}

// Becomes the program words[0]. Returns only if that fails, with the exit status.
int become(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  std::fprintf(stderr, "skerry-sim: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  return 1;
}

// The storm is a program of its own: it has the product's rooms inside, built for the simulator's
// threads and clock.
int storm_main(std::vector<std::string> words) {
  words.insert(words.begin(), beside("skerry-storm"));
  return become(std::move(words));
}

// A job that measures.
int calibrate_main(const std::vector<std::string>& words) {
  std::string out = "out/costs.json", nodes = "12";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") return std::fputs(calibrate_help, stdout), 0;
    if (i + 1 < words.size() && words[i] == "--out") {
      out = words[++i];
    } else if (i + 1 < words.size() && words[i] == "--nodes") {
      nodes = words[++i];
      if (const int n = std::atoi(nodes.c_str()); n < 4 || n > 128) {
        std::fprintf(stderr, "skerry-sim calibrate: --nodes %s: give 4 to 128\n", nodes.c_str());
        return 2;
      }
    } else {
      std::fprintf(stderr, "skerry-sim calibrate: unknown word %s\n\n%s", words[i].c_str(),
                   calibrate_help);
      return 2;
    }
  }
  return become(
      {beside("skerry"), "run", "-n", nodes, "--nodes", nodes, beside("skerry-calibrate"), out});
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
  if (command == "calibrate") return calibrate_main(words);
  std::fprintf(stderr, "skerry-sim: unknown command \"%s\"\n\n%s", command.c_str(), help());
  return 2;
}
