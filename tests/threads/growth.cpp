// What comes and goes for ever: a job of one rank.
//   growth grow   25,000 segments, mutex sets and groups allocated and freed do not grow the
//                 process, and a handle of each that was freed stays recognised
//   growth find   threads look addresses up, and use a handle of a freed segment, while segments
//                 come and go
//   growth split  two ranks of one node: a split that fails at one of them leaves nothing behind
//   growth windows  thousands of windows
//   growth window two ranks of one node: so does a window
#include <skerry/skerry.h>
#include <skerry/window.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include <vector>

#include "core/futex.hpp"

namespace {

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", __FILE__, __LINE__, \
                   #condition, skerry_last_error());                                        \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (0)
#define OK(call) CHECK((call) == SKERRY_OK)

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

struct Handles {
  std::vector<skerry_segment*> segments;
  std::vector<skerry_mutexes*> mutexes;
  std::vector<skerry_group*> groups;
};

// Allocates and frees one of each; keeps the handles of some.
void cycle(skerry_job* job, int number, Handles* freed) {
  skerry_group* group = nullptr;
  skerry_segment* segment = nullptr;
  skerry_mutexes* mutexes = nullptr;
  OK(skerry_segment_alloc(skerry_world(job), 8, &segment));
  OK(skerry_segment_free(segment));
  if (number % 5 == 0) {
    OK(skerry_mutexes_create(skerry_world(job), 1, &mutexes));
    OK(skerry_mutexes_free(mutexes));
    OK(skerry_group_split(skerry_world(job), 0, 0, &group));
    OK(skerry_group_free(group));
  }
  if (number % 100 != 0) return;
  freed->segments.push_back(segment);
  freed->mutexes.push_back(mutexes);
  freed->groups.push_back(group);
}

// Each freed segment took 184 bytes for ever, each mutex set 224 more, each group some 510.
void grow(skerry_job* job) {
  constexpr int warm_up = 2000, cycles = 25'000;
  constexpr uint64_t bound = uint64_t{1} << 19;
  Handles freed;
  for (int i = 0; i < warm_up; ++i) cycle(job, i, &freed);
  const uint64_t before = resident_bytes();
  for (int i = 0; i < cycles; ++i) cycle(job, i, &freed);
  const uint64_t after = resident_bytes();
  std::printf("%d cycles: %llu KiB, then %llu KiB\n", cycles,
              static_cast<unsigned long long>(before >> 10),
              static_cast<unsigned long long>(after >> 10));
  CHECK(after < before + bound);

  // In the places of the freed ones live others now.
  skerry_segment* segment = nullptr;
  skerry_group* group = nullptr;
  skerry_mutexes* mutexes = nullptr;
  OK(skerry_segment_alloc(skerry_world(job), 8, &segment));
  OK(skerry_group_split(skerry_world(job), 0, 0, &group));
  OK(skerry_mutexes_create(skerry_world(job), 1, &mutexes));
  uint64_t word = 0;
  for (skerry_segment* old : freed.segments) {
    CHECK(old != segment);
    CHECK(skerry_put(old, 0, 0, &word, 8) == SKERRY_ERR_FREED);
    CHECK(skerry_segment_free(old) == SKERRY_ERR_FREED);
    CHECK(skerry_segment_local(old) == nullptr && skerry_segment_bytes(old, 0) == 0);
    CHECK(skerry_segment_group(old) == nullptr);
  }
  for (skerry_mutexes* old : freed.mutexes) {
    CHECK(skerry_mutex_lock(old, 0, 0) == SKERRY_ERR_FREED);
    CHECK(skerry_mutex_unlock(old, 0, 0) == SKERRY_ERR_FREED);
    CHECK(skerry_mutexes_free(old) == SKERRY_ERR_FREED);
  }
  for (skerry_group* old : freed.groups) {
    CHECK(skerry_barrier(old) == SKERRY_ERR_FREED);
    CHECK(skerry_group_free(old) == SKERRY_ERR_FREED);
  }
  OK(skerry_put(segment, 0, 0, &word, 8));
  OK(skerry_mutex_lock(mutexes, 0, 0));
  OK(skerry_mutex_unlock(mutexes, 0, 0));
  OK(skerry_barrier(group));

  // A segment outlives its group as memory. Its place and the group's are used again after that.
  skerry_segment* orphan = nullptr;
  OK(skerry_segment_alloc(group, 8, &orphan));
  OK(skerry_group_free(group));
  CHECK(skerry_barrier(group) == SKERRY_ERR_FREED);
  skerry_group* other = nullptr;
  OK(skerry_group_split(skerry_world(job), 0, 0, &other));
  OK(skerry_put(orphan, 0, 0, &word, 8));
  OK(skerry_segment_free(orphan));
  CHECK(skerry_barrier(group) == SKERRY_ERR_FREED);
  OK(skerry_barrier(other));
}

void find(skerry_job* job) {
  constexpr int lasting = 200, rounds = 300, threads = 3;
  constexpr uint64_t bytes = 4096;
  std::vector<skerry_segment*> segments(lasting);
  std::vector<uint64_t> addresses;
  for (auto& segment : segments) {
    OK(skerry_segment_alloc(skerry_world(job), bytes, &segment));
    addresses.push_back(skerry_segment_address(segment, 0));
  }
  skerry_segment* freed = nullptr;  // its place serves the segments that come and go
  OK(skerry_segment_alloc(skerry_world(job), bytes, &freed));
  OK(skerry_segment_free(freed));
  std::atomic<bool> over{false};
  std::vector<std::thread> seekers;
  for (int t = 0; t < threads; ++t)
    seekers.emplace_back([&, t] {
      for (size_t i = static_cast<size_t>(t); !over.load(); ++i) {
        const size_t at = i * 7 % segments.size();
        skerry_segment* found = nullptr;
        uint64_t offset = 0;
        OK(skerry_segment_find(job, 0, addresses[at] + i % bytes, &found, &offset));
        CHECK(found == segments[at] && offset == i % bytes);
        CHECK(skerry_segment_local(freed) == nullptr);
      }
    });
  for (int round = 0; round < rounds; ++round) {
    skerry_segment* passing = nullptr;
    OK(skerry_segment_alloc(skerry_world(job), bytes, &passing));
    const uint64_t address = skerry_segment_address(passing, 0);
    skerry_segment* found = nullptr;
    uint64_t offset = 0;
    OK(skerry_segment_find(job, 0, address + bytes - 1, &found, &offset));
    CHECK(found == passing && offset == bytes - 1);
    OK(skerry_segment_free(passing));
    CHECK(skerry_segment_find(job, 0, address, &found, &offset) == SKERRY_ERR_RANGE);
  }
  over = true;
  for (auto& seeker : seekers) seeker.join();
}

int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:") != line.npos;
  return count;
}

// The members that had opened the group's memory kept it for ever when another could not.
void split(skerry_job* job) {
  CHECK(skerry_size(job) == 2 && skerry_node_count(job) == 1);
  skerry_group* group = nullptr;
  OK(skerry_group_split(skerry_world(job), 0, 0, &group));
  OK(skerry_group_free(group));
  const int before = shared_mappings();
  for (int round = 0; round < 20; ++round) {
    rlimit usual{};
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    const rlimit none{1, usual.rlim_max};  // poll takes no 0
    if (skerry_rank(job) == 1) CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    // Of another color: a kept group would be used again, without a descriptor.
    CHECK(skerry_group_split(skerry_world(job), 1 + round, 0, &group) == SKERRY_ERR_NETWORK);
    CHECK(std::strstr(skerry_last_error(), "ulimit -n") != nullptr);
    if (skerry_rank(job) == 1) CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  }
  // The node's broker lets go of its own part when it has heard of the other member's end.
  const int64_t end_ns = skerry::deadline_after(10'000'000'000);
  while (shared_mappings() > before && skerry::monotonic_ns() < end_ns) std::this_thread::yield();
  CHECK(shared_mappings() <= before);
  OK(skerry_group_split(skerry_world(job), 0, 0, &group));
  OK(skerry_group_free(group));
}

uint64_t address_space_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// A window is made of three segments. When a member had no room for the second or third, all kept
// the first for ever.
void window(skerry_job* job) {
  CHECK(skerry_size(job) == 2 && skerry_node_count(job) == 1);
  constexpr uint64_t bytes = 256 << 10, step = 4096;
  skerry_window* made = nullptr;
  OK(skerry_window_allocate(skerry_world(job), 8, 8, &made));  // not to serve again
  OK(skerry_window_free(made));
  const int before = shared_mappings();
  rlimit usual{};
  CHECK(getrlimit(RLIMIT_AS, &usual) == 0);
  int failed = 0, status = SKERRY_ERR_NO_MEMORY;
  for (uint64_t room = bytes; status != SKERRY_OK; room += step) {
    CHECK(room < 16 * bytes);
    const rlimit tight{address_space_bytes() + room, usual.rlim_max};
    if (skerry_rank(job) == 1) CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
    status = skerry_window_allocate(skerry_world(job), bytes, 8, &made);
    if (skerry_rank(job) == 1) CHECK(setrlimit(RLIMIT_AS, &usual) == 0);
    if (status == SKERRY_OK) break;
    CHECK(status == SKERRY_ERR_NO_MEMORY);
    ++failed;
  }
  CHECK(failed > 3);
  OK(skerry_window_free(made));
  const int64_t end_ns = skerry::deadline_after(10'000'000'000);
  const int most = before + 3;  // the group keeps the segments of the one that was made
  while (shared_mappings() > most && skerry::monotonic_ns() < end_ns) std::this_thread::yield();
  CHECK(shared_mappings() <= most);
}

// Thousands of windows of every kind at once; each is locked and used.
void windows(skerry_job* job) {
  constexpr int count = 2000;
  const int rank = skerry_rank(job), other = (rank + 1) % skerry_size(job);
  std::vector<skerry_window*> made(count);
  static int64_t memory[4];
  const int64_t one = 1;
  const int before = shared_mappings();
  for (int i = 0; i < count; ++i) {
    skerry_group* const world = skerry_world(job);
    if (i % 3 == 0) OK(skerry_window_allocate(world, 8, 8, &made[size_t(i)]));
    else if (i % 3 == 1)
      OK(skerry_window_create(world, memory, sizeof memory, 8, &made[size_t(i)]));
    else OK(skerry_window_create_dynamic(world, &made[size_t(i)]));
  }
  for (int i = 0; i < count; ++i) {
    if (i % 3 == 2) continue;
    skerry_window* const w = made[size_t(i)];
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, other, 0));
    OK(skerry_window_update(w, other, 0, SKERRY_INT64, SKERRY_SUM, &one, 1));
    OK(skerry_window_unlock(w, other));
  }
  OK(skerry_barrier(skerry_world(job)));
  CHECK(memory[0] == (count + 1) / 3);
  for (int i = 0; i < count; i += 3)
    CHECK(*static_cast<int64_t*>(skerry_window_local(made[size_t(i)])) == 1);
  const int at_work = shared_mappings();
  for (skerry_window* w : made) OK(skerry_window_free(w));
  // Bug guarded against: the places of all windows that there ever were at once stayed. What may
  // stay: what the group keeps of their memory (job::Reserve), a desk, and boards of long calls.
  constexpr int kept_segments = 128;  // job::Reserve::most_kept
  const int left = shared_mappings();
  if (left > before + kept_segments + 3) {
    std::fprintf(stderr, "%d shared mappings before %d windows, %d with them, %d after\n", before,
                 count, at_work, left);
    std::exit(1);
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.thread_level = SKERRY_THREAD_MULTIPLE;
  skerry_job* job = nullptr;
  OK(skerry_init(&options, &job));
  if (std::strcmp(arguments[1], "grow") == 0) grow(job);
  else if (std::strcmp(arguments[1], "split") == 0) split(job);
  else if (std::strcmp(arguments[1], "window") == 0) window(job);
  else if (std::strcmp(arguments[1], "windows") == 0) windows(job);
  else find(job);
  OK(skerry_finalize(job));
  return 0;
}
