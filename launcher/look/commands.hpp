// What `skerry stacks`, `top`, `matrix` and `trace` do with a job. Each takes the words after
// its name and returns an exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/look/job.hpp"
#include "launcher/look/sample.hpp"

namespace skerry::look {

// The first rank waits for `lock`, which the next one holds, and so on; the last one's is held by
// the first.
struct Link {
  Rank rank = no_rank;
  memory::LockName lock;
  int64_t since_ns = 0;
};
using Circle = std::vector<Link>;

// Of ranks that each wait for a lock and its exclusive holder: rank i waits as waiting[i] says.
struct Edge {
  Link waiter;
  Rank holder = no_rank;
};
// Every circle once, from its lowest rank on. Pure.
std::vector<Circle> circles_in(const std::vector<Edge>& waiting);

int stacks_main(const std::vector<std::string>& words);
int top_main(const std::vector<std::string>& words);
int trace_main(const std::vector<std::string>& words);
int matrix_main(const std::vector<std::string>& words);
// Asks the launcher, through an agent of this machine, to take a host out of a job.
int drain_main(const std::vector<std::string>& words);
// For the agents of `skerry run`: encode()d, what is seen of the job of this process.
int report_main(const std::vector<std::string>& words);
// For sk.attach: JSON of the named slices of a job's ranks on this machine, and where they lie.
int labels_main(const std::vector<std::string>& words);

// "lock 3 of rank 1 (segment 0.5)"
std::string name_of(const memory::LockName& lock);
// Lines that say which ranks are not seen, and why; empty: none.
std::string elsewhere(const Sample& sample, const std::string& command);
std::string quoted(const std::string& text);  // for JSON

// The words of a command: at most one job, flags that are known, and options with a value.
struct Words {
  std::string job;
  std::vector<std::string> flags;
  std::vector<std::pair<std::string, std::string>> values;
  bool has(const std::string& flag) const;
  std::string value(const std::string& option, const std::string& otherwise) const;
};
// Prints `usage` for --help (*status 0) or, with what is wrong, for a mistake (2): then false.
bool read_words(const std::vector<std::string>& words, const std::string& command,
                const char* usage, const std::vector<std::string>& flags,
                const std::vector<std::string>& options, Words* read, int* status);
// Prints why there is none, and returns false.
bool open_job(const std::string& command, const std::string& word, JobView* job);

}  // namespace skerry::look
