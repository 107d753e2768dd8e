// skerry-storm: `skerry-sim storm` starts it.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sim/storm/storm.hpp"

namespace skerry::sim {
namespace {

constexpr const char* help =
    "usage: skerry-sim storm [options]   (all that it prints is simulated)\n"
    "  --seed N          one storm: prints what it is like and what came of it\n"
    "  --seeds N | A-B   storms 1 to N, or A to B (1000)\n"
    "  --jobs N          so many at a time (all cores)\n"
    "  --leave-out RULE  without one of the product's rules, to see it found\n"
    "  --defect NAME     storms made for a fault that the product has or had\n"
    "  --deaths          only storms in which some die and the others go on\n"
    "  --list            names the rules and the faults\n"
    "  --keep-going      names every seed that fails, and goes on\n"
    "  --quiet           no progress\n";

struct Options {
  uint64_t first = 1, last = 1000;
  uint32_t jobs = std::max(1u, std::thread::hardware_concurrency());
  bool one = false, quiet = false, keep_going = false, deaths = false;
  Rule left_out = Rule::none;
  int defect = -1;
};

StormConfig config_of(const Options& options, uint64_t seed) {
  StormConfig config = options.defect < 0
                           ? options.deaths ? StormConfig::with_deaths(seed)
                                            : StormConfig::of_seed(seed)
                           : StormConfig::of_defect(static_cast<Defect>(options.defect), seed);
  config.left_out = options.left_out;
  return config;
}

// What the workers share: the next seeds to take, and what they found.
struct Board {
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> failed{UINT64_MAX};  // the lowest seed that failed
  std::atomic<uint64_t> counts[sizeof(StormResult::Counts) / sizeof(uint64_t)];
};

constexpr uint64_t chunk = 64;

void add(Board& board, const StormResult::Counts& counts) {
  uint64_t values[sizeof counts / sizeof(uint64_t)];
  std::memcpy(values, &counts, sizeof counts);
  for (size_t i = 0; i < std::size(values); ++i) board.counts[i] += values[i];
}

// A seed at a time until none is left or one has failed.
void work(const Options& options, Board& board, std::atomic<uint64_t>& at) {
  for (;;) {
    const uint64_t begin = board.next.fetch_add(chunk);
    const uint64_t end = std::min(begin + chunk, options.last + 1);
    if (begin > options.last || (board.failed.load() < begin && !options.keep_going)) return;
    StormResult::Counts counts{};
    for (uint64_t seed = begin; seed < end; ++seed) {
      at.store(seed);
      alarm(longest_seed_s);  // a loop in which no fiber gives way ends its worker, and is found
      const StormResult result = run_storm(config_of(options, seed));
      if (result.failure.empty()) {
        counts += result.counts;
        continue;
      }
      if (options.keep_going) {
        std::printf("seed %llu: %.200s\n", static_cast<unsigned long long>(seed),
                    result.failure.substr(0, result.failure.find('\n')).c_str());
        std::fflush(stdout);
      }
      uint64_t lowest = board.failed.load();
      while (seed < lowest && !board.failed.compare_exchange_weak(lowest, seed)) {
      }
      if (!options.keep_going) return;
    }
    add(board, counts);
  }
}

void print_counts(uint64_t seeds, const StormResult::Counts& c) {
  const auto print = [](const char* what, uint64_t n) {
    std::printf("%14llu %s\n", static_cast<unsigned long long>(n), what);
  };
  print("seeds, every rule held (simulated)", seeds);
  print("steps of fibers", c.steps);
  print("operations of programs", c.operations);
  print("accesses that took their lock along", c.at_once);
  print("those that others had it from", c.contended);
  print("requests that servers applied", c.requests);
  print("connections cut", c.cuts);
  print("connections resumed with something to send again", c.resumed);
  print("requests sent again", c.replayed);
  print("evictions", c.evictions);
  print("connections that servers closed for others", c.dropped);
  print("grants through other servers", c.relayed);
  print("connections between data servers", c.trunks);
  print("messages passed on", c.forwarded);
  print("channels closed for want of room", c.no_room);
  print("ranks that died", c.deaths);
}

int run_one(const Options& options) {
  const StormConfig config = config_of(options, options.first);
  std::printf("%s\n", config.describe().c_str());
  std::fflush(stdout);
  const StormResult result = run_storm(config);
  std::printf("%llu steps, %lld us simulated: %s\n",
              static_cast<unsigned long long>(result.counts.steps),
              static_cast<long long>(result.simulated_ns / 1000),
              result.failure.empty() ? "every rule held" : result.failure.c_str());
  return result.failure.empty() ? 0 : 1;
}

int report_failure(const Options& options, uint64_t seed) {
  const StormConfig config = config_of(options, seed);
  std::printf("%s\n", config.describe().c_str());
  std::fflush(stdout);
  std::printf("%s\n", run_storm_apart(config).c_str());
  std::string more;
  if (options.left_out != Rule::none) more += concat(" --leave-out ", to_string(options.left_out));
  if (options.deaths) more += " --deaths";
  if (options.defect >= 0)
    more += concat(" --defect ", to_string(static_cast<Defect>(options.defect)));
  std::printf("replay: skerry-sim storm --seed %llu%s\n", static_cast<unsigned long long>(seed),
              more.c_str());
  return 1;
}

void print_progress(const Options& options, const Board& board, double seconds) {
  const uint64_t next = std::min(board.next.load(), options.last + 1);
  const uint64_t done = next - options.first, all = options.last + 1 - options.first;
  std::fprintf(stderr, "%llu of %llu seeds, %.0f a second\n", static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(all), static_cast<double>(done) / seconds);
}

// Workers are processes: a storm that crashes takes its worker along and is found by it.
int run_many(const Options& options) {
  const size_t at_bytes = options.jobs * sizeof(std::atomic<uint64_t>);
  void* const memory = mmap(nullptr, sizeof(Board) + at_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::fputs("skerry-sim storm: no memory\n", stderr), 2;
  auto* const board = new (memory) Board;
  auto* const at = reinterpret_cast<std::atomic<uint64_t>*>(board + 1);
  board->next = options.first;
  std::vector<pid_t> workers;
  for (uint32_t i = 0; i < options.jobs; ++i) {
    const pid_t worker = fork();
    if (worker == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      work(options, *board, at[i]);
      _exit(0);
    }
    workers.push_back(worker);
  }
  const auto began = std::chrono::steady_clock::now();
  auto told = began;
  for (size_t left = workers.size(); left > 0;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, options.quiet ? 0 : WNOHANG);
    if (ended <= 0) {
      usleep(100'000);
      const auto now = std::chrono::steady_clock::now();
      if (now - told < std::chrono::seconds(10)) continue;
      told = now;
      print_progress(options, *board, std::chrono::duration<double>(now - began).count());
      continue;
    }
    --left;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const auto i = static_cast<size_t>(std::find(workers.begin(), workers.end(), ended) -
                                       workers.begin());
    board->failed = std::min(board->failed.load(), at[i].load());
  }
  if (board->failed.load() != UINT64_MAX && options.keep_going) return 1;
  if (board->failed.load() != UINT64_MAX) return report_failure(options, board->failed.load());
  StormResult::Counts counts;
  uint64_t values[sizeof counts / sizeof(uint64_t)];
  for (size_t i = 0; i < std::size(values); ++i) values[i] = board->counts[i];
  std::memcpy(&counts, values, sizeof counts);
  print_counts(options.last - options.first + 1, counts);
  return 0;
}

bool read_number(const std::string& word, uint64_t* value) {
  char* end = nullptr;
  *value = std::strtoull(word.c_str(), &end, 10);
  return end != word.c_str() && *end == 0;
}

bool read_option(const std::string& name, const std::string& value, Options* options) {
  uint64_t number = 0;
  if (name == "--seed" && read_number(value, &number)) {
    options->one = true;
    options->first = options->last = number;
    return true;
  }
  if (name == "--seeds") {
    const size_t dash = value.find('-');
    if (dash == std::string::npos) return read_number(value, &options->last);
    return read_number(value.substr(0, dash), &options->first) &&
           read_number(value.substr(dash + 1), &options->last) && options->first <= options->last;
  }
  if (name == "--jobs" && read_number(value, &number) && number > 0 && number <= 1024) {
    options->jobs = static_cast<uint32_t>(number);
    return true;
  }
  if (name == "--leave-out")
    for (uint8_t r = 1; r < rules; ++r)
      if (value == to_string(static_cast<Rule>(r)))
        return options->left_out = static_cast<Rule>(r), true;
  if (name == "--defect")
    for (uint8_t d = 0; d < defects; ++d)
      if (value == to_string(static_cast<Defect>(d))) return options->defect = d, true;
  return false;
}

int list() {
  for (uint8_t r = 1; r < rules; ++r)
    std::printf("rule %s\n", std::string(to_string(static_cast<Rule>(r))).c_str());
  for (uint8_t d = 0; d < defects; ++d)
    std::printf("fault %s%s\n", std::string(to_string(static_cast<Defect>(d))).c_str(),
                is_known(static_cast<Defect>(d)) ? " (not mended yet)" : "");
  return 0;
}

int storm_main(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") return std::fputs(help, stdout), 0;
    if (words[i] == "--list") return list();
    if (words[i] == "--keep-going") {
      options.keep_going = true;
      continue;
    }
    if (words[i] == "--deaths") {
      options.deaths = true;
      continue;
    }
    if (words[i] == "--quiet") {
      options.quiet = true;
      continue;
    }
    if (i + 1 == words.size() || !read_option(words[i], words[i + 1], &options)) {
      std::fprintf(stderr, "skerry-sim storm: cannot make sense of \"%s%s%s\"\n\n%s",
                   words[i].c_str(), i + 1 < words.size() ? " " : "",
                   i + 1 < words.size() ? words[i + 1].c_str() : "", help);
      return 2;
    }
    ++i;
  }
  return options.one ? run_one(options) : run_many(options);
}

}  // namespace
}  // namespace skerry::sim

int main(int count, char** arguments) {
  return skerry::sim::storm_main({arguments + 1, arguments + count});
}
