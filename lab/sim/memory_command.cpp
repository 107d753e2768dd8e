// skerry-sim memory: what a node keeps for jobs of a thousand to a million ranks. The rows
// are the planner's.
#include <cstdio>
#include <cstdlib>

#include "launcher/planner/node_tables.hpp"
#include "sim/commands.hpp"

namespace skerry::sim {
namespace {

constexpr const char* help_text =
    "usage: skerry-sim memory [options]   what a node keeps for a job of so many ranks\n\n"
    "The product's tables, built for each size and measured: bytes on one node, all its processes\n"
    "together. Nothing runs: docs/simulator.md says what each row means.\n\n"
    "  --ranks LIST      (1000,10000,100000,1000000)\n"
    "  --per-node N      ranks on a node, and as many processes (64)\n"
    "  --slots N         SKERRY_SLOTS (256)\n"
    "  --address N       bytes of a server's address: tcp takes 28, and 20 for each interface "
    "(48)\n"
    "  --talks N         nodes that each process has talked to, and whose ranks have talked to\n"
    "                    this node's server; 0: all (100)\n";

struct Options {
  std::vector<int32_t> ranks = {1000, 10'000, 100'000, 1'000'000};
  planner::TablesOfJob job{0};  // but for its ranks
};

bool read_number(const std::string& text, uint64_t least, uint64_t most, uint64_t* out) {
  char* end = nullptr;
  *out = std::strtoull(text.c_str(), &end, 10);
  return !text.empty() && *end == 0 && text[0] != '-' && *out >= least && *out <= most;
}

int complain(const std::string& option, const std::string& value, const char* rule) {
  std::fprintf(stderr, "skerry-sim memory: %s %s: give %s\n", option.c_str(), value.c_str(), rule);
  return 2;
}

// 0, or the exit status.
int read_options(const std::vector<std::string>& words, Options* options) {
  constexpr uint64_t most_ranks = 4'000'000;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string& option = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    uint64_t number = 0;
    if (option == "--ranks") {
      options->ranks.clear();
      for (size_t at = 0; at <= value.size();) {
        const size_t end = std::min(value.find(',', at), value.size());
        if (!read_number(value.substr(at, end - at), 1, most_ranks, &number))
          return complain(option, value, "numbers from 1 to 4000000, with commas between");
        options->ranks.push_back(static_cast<int32_t>(number));
        at = end + 1;
      }
    } else if (option == "--per-node") {
      if (!read_number(value, 1, 65'536, &number)) return complain(option, value, "1 to 65536");
      options->job.per_node = static_cast<int32_t>(number);
    } else if (option == "--slots") {
      if (!read_number(value, 16, 65'536, &number)) return complain(option, value, "16 to 65536");
      options->job.slots = static_cast<uint32_t>(number);
    } else if (option == "--address") {
      if (!read_number(value, 0, 256, &options->job.address))
        return complain(option, value, "0 to 256");
    } else if (option == "--talks") {
      if (!read_number(value, 0, most_ranks, &number))
        return complain(option, value, "0 to 4000000");
      options->job.talks = static_cast<int32_t>(number);
    } else {
      std::fprintf(stderr, "skerry-sim memory: unknown option \"%s\"\n\n%s", option.c_str(),
                   help_text);
      return 2;
    }
  }
  return 0;
}

std::string amount(uint64_t bytes) {
  char text[32];
  const auto b = static_cast<double>(bytes);
  if (bytes < 10'000) std::snprintf(text, sizeof text, "%.0f B", b);
  else if (bytes < 10'000'000) std::snprintf(text, sizeof text, "%.0f KB", b / 1e3);
  else std::snprintf(text, sizeof text, "%.0f MB", b / 1e6);
  return text;
}

void print_row(const Options& options, const char* name, const char* why,
               uint64_t (*bytes)(const planner::TablesOfJob&)) {
  std::printf("%-34s", name);
  planner::TablesOfJob job = options.job;
  for (const int32_t ranks : options.ranks) {
    job.ranks = ranks;
    std::printf(" %10s", amount(bytes(job)).c_str());
  }
  std::printf("  %s\n", why);
}

}  // namespace

int memory_main(const std::vector<std::string>& words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::fputs(help_text, stdout);
    return 0;
  }
  Options options;
  if (const int bad = read_options(words, &options); bad != 0) return bad;
  std::printf(
      "computed from the product's structures, not measured in a job: bytes on one node\n"
      "(%d ranks on a node; each process has talked to %s)\n\n%-34s",
      options.job.per_node,
      options.job.talks == 0 ? "all nodes" : concat(options.job.talks, " nodes").c_str(), "ranks");
  for (const int32_t ranks : options.ranks) std::printf(" %10d", ranks);
  std::printf("\n");
  for (const planner::TableRow& row : planner::table_rows())
    if (row.counts) print_row(options, row.name, row.why, row.bytes);
  print_row(options, "in all", "", planner::tables_bytes);
  std::printf("\nonly in jobs that use it, and not in the sum:\n");
  for (const planner::TableRow& row : planner::table_rows())
    if (!row.counts) print_row(options, row.name, row.why, row.bytes);
  return 0;
}

}  // namespace skerry::sim
