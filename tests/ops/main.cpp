// The operation tests as a program of a job:
//
//   ops [SECTION | all | some,names] [--seed N] [--rounds N] [--threads N] [--thorough]
#include <sstream>

#include "ops/check.hpp"

using namespace skerry::test;

int main(int argc, char** argv) {
  Context context;
  std::string wanted = "all";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return std::strtoull(i + 1 < argc ? argv[++i] : "0", nullptr, 0); };
    if (word == "--seed") context.seed = number();
    else if (word == "--rounds") context.rounds = static_cast<int>(number());
    else if (word == "--threads") context.threads = static_cast<int>(number());
    else if (word == "--thorough") context.thorough = true;
    else wanted = word;
  }
  const char *const protocol = std::getenv("SKERRY_LOCK"), *fabric = std::getenv("SKERRY_FABRIC");
  // By itself it is not with an adapter that has atomics.
  if (protocol != nullptr && std::string(protocol) != "auto")
    context.fair_locks = std::string(protocol) == "fair";
  else
    context.fair_locks = std::string(fabric ? fabric : "").find("verbs") == std::string::npos;
  skerry_options options = SKERRY_OPTIONS_INIT;
  if (context.threads > 1) options.thread_level = SKERRY_THREAD_MULTIPLE;
  OK(skerry_init(&options, &context.job));
  context.rank = skerry_rank(context.job);
  context.size = skerry_size(context.job);
  context.nodes = skerry_node_count(context.job);
  EXPECT(skerry_thread_level_granted(context.job) == options.thread_level);

  std::vector<std::string> names;
  std::istringstream words(wanted);
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  int ran = 0;
  for (const Section* section = sections; section->name != nullptr; ++section) {
    bool chosen = false;
    for (const std::string& name : names)
      chosen = chosen || name == section->name || (name == "all" && section->by_default);
    if (!chosen) continue;
    section->run(context);
    OK(skerry_sync(context.world()));
    ++ran;
    if (context.rank == 0) {
      std::printf("%s: right\n", section->name);
      std::fflush(stdout);
    }
  }
  OK(skerry_finalize(context.job));
  if (ran == 0) {
    std::fprintf(stderr, "no section called %s\n", wanted.c_str());
    return 2;
  }
  return 0;
}
