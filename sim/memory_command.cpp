// skerry sim memory: what a node keeps for jobs of a thousand to a million ranks. The product's own
// tables are built for a job of that size and measured; what cannot be built here is computed from
// the sizes of the product's types.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <unordered_map>

#include "core/pure/container_bytes.hpp"
#include "lock/home.hpp"
#include "memory/control.hpp"
#include "operation/link.hpp"
#include "placement/member_values.hpp"
#include "placement/members.hpp"
#include "placement/node_map.hpp"
#include "session/resting.hpp"
#include "sim/commands.hpp"

namespace skerry::sim {
namespace {

constexpr const char* help_text =
    "usage: skerry sim memory [options]   what a node keeps for a job of so many ranks\n\n"
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
  int32_t per_node = 64;
  uint32_t slots = 256;
  uint64_t address = 48;
  int32_t talks = 100;
};

struct Job {
  const Options& options;
  int32_t ranks;
  int32_t nodes() const { return (ranks + options.per_node - 1) / options.per_node; }
  uint64_t processes() const { return static_cast<uint64_t>(std::min(ranks, options.per_node)); }
  int32_t talks() const { return options.talks == 0 ? nodes() : std::min(options.talks, nodes()); }
};

uint64_t node_table_bytes(const Job& job) {
  std::vector<NodeId> rank_node(static_cast<size_t>(job.ranks));
  for (int32_t r = 0; r < job.ranks; ++r)
    rank_node[static_cast<size_t>(r)] = r / job.options.per_node;
  const std::vector<std::vector<std::vector<std::byte>>> addresses(
      static_cast<size_t>(job.nodes()), {std::vector<std::byte>(job.options.address)});
  return placement::build_node_map(rank_node, addresses).size();
}

memory::ControlLayout control(const Job& job) {
  memory::ControlSizes sizes;
  sizes.members = static_cast<uint32_t>(job.processes());
  sizes.slots_per_member = job.options.slots;
  sizes.waiters = memory::waiters_of(static_cast<uint32_t>(job.ranks), sizes.members);
  return memory::control_layout(sizes);
}

uint64_t members_bytes(Rank first, Rank step, int32_t count) {
  placement::Sequence sequence;
  for (int32_t i = 0; i < count; ++i) sequence.add(first + step * i);
  return placement::Members(std::move(sequence)).bytes();
}

// In each process: the world, its node, the leaders of all nodes, and the ranks that have its place
// on their nodes.
uint64_t group_bytes(const Job& job) {
  const int32_t per_node = std::min(job.ranks, job.options.per_node);
  return job.processes() *
         (placement::Members::all(job.ranks).bytes() + members_bytes(0, 1, per_node) +
          2 * members_bytes(0, job.options.per_node, job.ranks / per_node));
}

// `value(rank)`: bytes of its slice.
uint64_t segment_bytes(const Job& job, const std::function<uint64_t(int32_t)>& value) {
  placement::MemberValues::Builder sizes(job.ranks, false);
  for (int32_t r = 0; r < job.ranks; ++r) sizes.add(value(r));
  return sizes.table_bytes();
}

uint64_t served_bytes(const Job& job) {
  session::Resting known;
  const int32_t ranks = std::min(job.ranks, job.talks() * job.options.per_node);
  for (int32_t r = 0; r < ranks; ++r) known.put(r, {1, 1, 1});
  return known.memory_bytes();
}

uint64_t links_bytes(const Job& job) {
  std::unordered_map<uint64_t, void*> by_server;
  for (int32_t n = 0; n < job.talks(); ++n) by_server.try_emplace(static_cast<uint64_t>(n));
  return job.processes() *
         (table_bytes(by_server) +
          static_cast<uint64_t>(job.talks()) * (sizeof(operation::Link) + 2 * sizeof(void*)));
}

// The buffers of a group's collectives: 64 KiB for a member and for each child in its tree.
uint64_t area_bytes(const Job& job) {
  constexpr uint64_t burst = 2 * 32'768;
  return (2 * job.processes() - 1 + 2) * burst;
}

struct Row {
  const char* name;
  const char* why;
  bool counts;  // in the sum: what every job has, and what it talks to
  uint64_t (*bytes)(const Job&);
};

const Row rows[] = {
    {"node table", "the address of each node's server", true, node_table_bytes},
    {"slots, stripes, readers' lines", "of this node's ranks alone", true,
     [](const Job& job) {
       const memory::ControlLayout layout = control(job);
       return layout.waiters_offset + layout.node_table_offset - layout.reader_lines_offset;
     }},
    {"waiters' records", "bounded; of this node's locks", true,
     [](const Job& job) {
       const memory::ControlLayout layout = control(job);
       return layout.reader_lines_offset - layout.waiters_offset;
     }},
    {"members of four groups", "a run each, in each process", true, group_bytes},
    {"buffers of the world group", "of this node's ranks alone", true, area_bytes},
    {"a segment, equal slices", "one number", true,
     [](const Job& job) { return segment_bytes(job, [](int32_t) { return uint64_t{1} << 20; }); }},
    {"a segment, a shorter last slice", "two runs", true,
     [](const Job& job) {
       return segment_bytes(job, [&](int32_t r) { return uint64_t{r + 1 == job.ranks ? 1u : 8u}; });
     }},
    {"servers talked to", "a link each, in each process", true, links_bytes},
    {"ranks served", "20 bytes each, when they have left", true, served_bytes},
    {"a segment, all slices different", "a number for each rank", false,
     [](const Job& job) {
       return segment_bytes(job, [](int32_t r) { return static_cast<uint64_t>(r); });
     }},
    {"libarmci: notifications", "a counter for each sender, in each process", false,
     [](const Job& job) { return job.processes() * 8 * static_cast<uint64_t>(job.ranks); }},
    {"a window, SKERRY_LOCK=queue", "mail from each rank, in each slice", false,
     [](const Job& job) {
       return job.processes() * lock::machine::Home::bytes(lock::ProtocolKind::queue,
                                                           static_cast<uint32_t>(job.ranks));
     }},
    {"a window, SKERRY_LOCK=two_sided", "the same, and the manager's queue", false,
     [](const Job& job) {
       return job.processes() * lock::machine::Home::bytes(lock::ProtocolKind::two_sided,
                                                           static_cast<uint32_t>(job.ranks));
     }},
};

bool read_number(const std::string& text, uint64_t least, uint64_t most, uint64_t* out) {
  char* end = nullptr;
  *out = std::strtoull(text.c_str(), &end, 10);
  return !text.empty() && *end == 0 && text[0] != '-' && *out >= least && *out <= most;
}

int complain(const std::string& option, const std::string& value, const char* rule) {
  std::fprintf(stderr, "skerry sim memory: %s %s: give %s\n", option.c_str(), value.c_str(), rule);
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
      options->per_node = static_cast<int32_t>(number);
    } else if (option == "--slots") {
      if (!read_number(value, 16, 65'536, &number)) return complain(option, value, "16 to 65536");
      options->slots = static_cast<uint32_t>(number);
    } else if (option == "--address") {
      if (!read_number(value, 0, 256, &options->address))
        return complain(option, value, "0 to 256");
    } else if (option == "--talks") {
      if (!read_number(value, 0, most_ranks, &number))
        return complain(option, value, "0 to 4000000");
      options->talks = static_cast<int32_t>(number);
    } else {
      std::fprintf(stderr, "skerry sim memory: unknown option \"%s\"\n\n%s", option.c_str(),
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
               const std::function<uint64_t(const Job&)>& bytes) {
  std::printf("%-34s", name);
  for (const int32_t ranks : options.ranks)
    std::printf(" %10s", amount(bytes(Job{options, ranks})).c_str());
  std::printf("  %s\n", why);
}

}  // namespace

uint64_t table_bytes_of_node(int32_t ranks, int32_t per_node, int32_t talks) {
  Options options;
  options.per_node = per_node;
  options.talks = talks;
  uint64_t sum = 0;
  for (const Row& row : rows)
    if (row.counts) sum += row.bytes(Job{options, ranks});
  return sum;
}

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
      options.per_node, options.talks == 0 ? "all nodes" : concat(options.talks, " nodes").c_str(),
      "ranks");
  for (const int32_t ranks : options.ranks) std::printf(" %10d", ranks);
  std::printf("\n");
  for (const Row& row : rows)
    if (row.counts) print_row(options, row.name, row.why, row.bytes);
  print_row(options, "in all", "", [](const Job& job) {
    return table_bytes_of_node(job.ranks, job.options.per_node, job.options.talks);
  });
  std::printf("\nonly in jobs that use it, and not in the sum:\n");
  for (const Row& row : rows)
    if (!row.counts) print_row(options, row.name, row.why, row.bytes);
  return 0;
}

}  // namespace skerry::sim
