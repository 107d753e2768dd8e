// Segments: sizes, addresses, life and death; counters of what was done.
#include <skerry/window.h>

#include <algorithm>
#include <fstream>

#include "ops/check.hpp"

namespace skerry::test {

namespace {

void segments_come_and_go(Context& c) {
  // Many, coming and going; memory that was freed is zeroed when it comes back.
  for (int i = 0; i < (c.as_threads ? 5 : 25); ++i) {
    skerry_segment* several[3];
    for (auto& one : several) OK(skerry_segment_alloc(c.world(), 50'000, &one));
    for (auto* one : several) {
      auto* const data = static_cast<unsigned char*>(skerry_segment_local(one));
      for (int k = 0; k < 50'000; k += 499) EXPECT(data[k] == 0);
      std::memset(data, 0xff, 50'000);
    }
    OK(skerry_segment_free(several[1]));
    OK(skerry_segment_free(several[0]));
    OK(skerry_segment_free(several[2]));
  }
}

// The next segment of about the same size has the memory of the last one, which is refused as
// before.
void memory_serves_again(Context& c) {
  skerry_segment *first = nullptr, *second = nullptr;
  OK(skerry_segment_alloc(c.world(), 20'000, &first));
  const uint64_t address = skerry_segment_address(first, 0);
  std::memset(skerry_segment_local(first), 0xff, 20'000);
  unsigned char byte = 1;
  const auto put_often = [&](skerry_segment* segment) {  // so that the next goes the short way
    for (int i = 0; i < 3; ++i)
      OK(skerry_put_nb(segment, c.size - 1, static_cast<uint64_t>(c.rank), &byte, 1,
                       SKERRY_IMPLICIT));
  };
  OK(skerry_sync(c.world()));
  put_often(first);
  OK(skerry_sync(c.world()));
  OK(skerry_segment_free(first));
  const Counted before(c.job);
  EXPECT(before["reserve_bytes"] >= 20'000);
  OK(skerry_segment_alloc(c.world(), 19'000, &second));
  const Counted after(c.job);
  EXPECT_IS(after["segments_revived"], before["segments_revived"] + 1);
  EXPECT_IS(after["segments_made"], before["segments_made"]);
  EXPECT(after["reserve_bytes"] + 20'000 <= before["reserve_bytes"]);
  EXPECT_IS(skerry_segment_address(second, 0), address);
  EXPECT_IS(skerry_segment_bytes(second, 0), 19'000u);
  for (int i = 0; i < 19'000; ++i)
    EXPECT(static_cast<unsigned char*>(skerry_segment_local(second))[i] == 0);
  OK(skerry_sync(c.world()));
  put_often(second);
  EXPECT_ERROR(skerry_put_nb(second, c.size - 1, 19'000, &byte, 1, SKERRY_IMPLICIT),
               SKERRY_ERR_RANGE, "");
  EXPECT_ERROR(skerry_put(first, c.size - 1, 0, &byte, 1), SKERRY_ERR_FREED, "");
  EXPECT_ERROR(skerry_put(second, c.size - 1, 19'000, &byte, 1), SKERRY_ERR_RANGE, "");
  OK(skerry_segment_free(second));
  // A view that lives on keeps what it shows: its memory serves nobody else.
  OK(skerry_segment_alloc(c.world(), 20'000, &first));
  auto* const view = static_cast<unsigned char*>(skerry_segment_local(first));
  *view = 7;
  if (c.rank == 0) OK(skerry_memory_hold(view));
  OK(skerry_segment_free(first));
  OK(skerry_segment_alloc(c.world(), 20'000, &second));
  std::memset(skerry_segment_local(second), 0xff, 20'000);
  OK(skerry_sync(c.world()));
  if (c.rank == 0) {
    EXPECT_IS(static_cast<int>(*view), 7);
    skerry_memory_unhold(view);
  }
  OK(skerry_segment_free(second));
}

// Locks, windows' signals and the like lie in segments, too. A put there destroyed them.
void only_the_programs_own_are_found(Context& c) {
  skerry_segment* mine = nullptr;
  skerry_mutexes* locks = nullptr;
  skerry_window *allocated = nullptr, *created = nullptr, *gone = nullptr;
  std::vector<int64_t> given(100);
  OK(skerry_segment_alloc(c.world(), 10'000, &mine));
  OK(skerry_mutexes_create(c.world(), 3, &locks));
  OK(skerry_window_allocate(c.world(), 8000, 8, &allocated));
  OK(skerry_window_create(c.world(), given.data(), 800, 8, &created));
  OK(skerry_window_allocate(c.world(), 4000, 8, &gone));
  OK(skerry_window_free(gone));
  std::ifstream maps("/proc/self/maps");
  int pages = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:skerry") == std::string::npos) continue;
    char* dash = nullptr;
    const uint64_t begin = std::strtoull(line.c_str(), &dash, 16);
    const uint64_t end = std::strtoull(dash + 1, nullptr, 16);
    for (uint64_t address = begin; address < end; address += 4096, ++pages) {
      skerry_segment* found = nullptr;
      uint64_t offset = 0;
      if (skerry_segment_find(c.job, c.rank, address, &found, &offset) == SKERRY_OK)
        EXPECT(found == mine);
    }
  }
  EXPECT(pages > 0);
  OK(skerry_barrier(c.world()));
  OK(skerry_window_free(created));
  OK(skerry_window_free(allocated));
  OK(skerry_mutexes_free(locks));
  OK(skerry_segment_free(mine));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// Sizes that are equal but for one member, for two, for none: what each member has and where is
// known to all, also in a group whose order is not that of its ranks.
void sizes_with_exceptions(Context& c) {
  skerry_group* backwards = nullptr;
  OK(skerry_group_split(c.world(), c.rank % 2, -c.rank, &backwards));
  const uint64_t size = static_cast<uint64_t>(c.size);
  const auto bytes_of = [&](int kind, int rank) -> uint64_t {
    const auto r = static_cast<uint64_t>(rank);
    switch (kind) {
      case 0: return 5000;                              // all equal
      case 1: return r + 1 == size ? 17 : 5000;         // the last one is shorter
      case 2: return r == 0 ? 9000 : 0;                 // only the first has any
      case 3: return r == size / 2 || r == 1 ? 1 : 64;  // two in the middle
      case 4: return r % 2 == 0 ? 8 : 40'000;           // no majority
      default: return r * 1000;                         // all different
    }
  };
  const auto memory = [&] {
    skerry_memory now{};
    now.size = sizeof now;
    OK(skerry_memory_read(c.job, &now));
    return now;
  };
  // However many members: a group in order of ranks is a run, equal slices are one number.
  const skerry_memory before = memory();
  skerry_group* evens = nullptr;
  OK(skerry_group_split(c.world(), c.rank % 2 == 0 ? 0 : -1, 0, &evens));
  if (c.rank % 2 == 0) {
    EXPECT_IS(memory().group_bytes, before.group_bytes + 16);
    OK(skerry_group_free(evens));
  }
  for (int kind = 0; kind < 6; ++kind)
    for (skerry_group* group : {c.world(), backwards}) {
      skerry_segment* s = nullptr;
      OK(skerry_segment_alloc(group, bytes_of(kind, c.rank), &s));
      // Of processes: threads of one process cannot all map memory at one address, and a
      // sanitizer's process has no such address.
      if (!c.as_threads && !sanitized) {
        const uint64_t took = memory().segment_table_bytes - before.segment_table_bytes;
        if (kind == 0) EXPECT_IS(took, 0u);
        if (kind == 1 && group == c.world() && c.size > 3) EXPECT_IS(took, 2u * 16);
      }
      const int members = skerry_group_size(group);
      std::vector<uint64_t> addresses(static_cast<size_t>(members));
      const auto mine = reinterpret_cast<uint64_t>(skerry_segment_local(s));
      OK(skerry_allgather(group, &mine, sizeof mine, addresses.data()));
      for (int i = 0; i < members; ++i) {
        const int rank = skerry_group_rank(group, i);
        EXPECT_IS(skerry_segment_bytes(s, rank), bytes_of(kind, rank));
        EXPECT_IS(skerry_segment_address(s, rank), addresses[static_cast<size_t>(i)]);
        if (bytes_of(kind, rank) < 8) continue;
        OK(skerry_fetch_add_i64(s, rank, bytes_of(kind, rank) / 8 * 8 - 8, 1, nullptr));
      }
      OK(skerry_sync(group));
      if (bytes_of(kind, c.rank) >= 8) {
        int64_t sum = 0;
        OK(skerry_get(s, c.rank, bytes_of(kind, c.rank) / 8 * 8 - 8, &sum, sizeof sum));
        EXPECT_IS(sum, members);
      }
      OK(skerry_segment_free(s));
    }
  OK(skerry_group_free(backwards));
}

void refuse_too_much_memory(Context& c) {
  skerry_segment* s = nullptr;
  // No bytes on any rank.
  OK(skerry_segment_alloc(c.world(), 0, &s));
  OK(skerry_segment_free(s));
  // More than any machine has: the same answer for all, and the job goes on.
  EXPECT_ERROR(skerry_segment_alloc(c.world(), c.rank == c.size - 1 ? uint64_t{1} << 50 : 4096, &s),
               SKERRY_ERR_NO_MEMORY, "not enough memory: the ranks");
  EXPECT_ERROR(skerry_segment_alloc(c.world(), ~uint64_t{0}, &s), SKERRY_ERR_NO_MEMORY, "");
  void* memory = nullptr;
  OK(skerry_buffer_alloc(c.job, 100, &memory));
  EXPECT(reinterpret_cast<uintptr_t>(memory) % 4096 == 0);
  OK(skerry_buffer_free(c.job, memory));
  EXPECT_ERROR(skerry_buffer_alloc(c.job, ~uint64_t{0}, &memory), SKERRY_ERR_NO_MEMORY,
               "bytes of private memory");
}

}  // namespace

void run_segments(Context& c) {
  // Unequal sizes, zero for some; zeroed, page aligned, found by address.
  skerry_segment* s = nullptr;
  const auto bytes_of = [](int rank) {
    return rank % 3 == 1 ? uint64_t{0} : uint64_t{10'000} * static_cast<uint64_t>(rank + 1) + 7;
  };
  OK(skerry_segment_alloc(c.world(), bytes_of(c.rank), &s));
  auto* const mine = static_cast<unsigned char*>(skerry_segment_local(s));
  EXPECT((mine == nullptr) == (bytes_of(c.rank) == 0));
  EXPECT(reinterpret_cast<uintptr_t>(mine) % 4096 == 0);
  for (uint64_t i = 0; i < bytes_of(c.rank); ++i) EXPECT(mine[i] == 0);
  EXPECT(skerry_segment_address(s, c.rank) == reinterpret_cast<uint64_t>(mine));
  EXPECT_IS(skerry_segment_bytes(s, -1), 0u);
  EXPECT_IS(skerry_segment_bytes(s, c.size), 0u);
  std::vector<uint64_t> addresses(static_cast<size_t>(c.size));
  const uint64_t address = reinterpret_cast<uint64_t>(mine);
  OK(skerry_allgather(c.world(), &address, 8, addresses.data()));
  for (int r = 0; r < c.size; ++r) {
    EXPECT_IS(skerry_segment_bytes(s, r), bytes_of(r));
    EXPECT_IS(skerry_segment_address(s, r), addresses[static_cast<size_t>(r)]);
    EXPECT((skerry_segment_pointer(s, r) != nullptr) ==
           (skerry_same_node(c.job, r) == 1 && bytes_of(r) > 0));
    skerry_segment* found = nullptr;
    uint64_t offset = 1;
    if (bytes_of(r) == 0) {
      EXPECT_ERROR(skerry_put(s, r, 0, &offset, 1), SKERRY_ERR_RANGE, "lie outside the 0 bytes");
      OK(skerry_put(s, r, 0, &offset, 0));  // nothing, nowhere
      continue;
    }
    OK(skerry_segment_find(c.job, r, addresses[static_cast<size_t>(r)] + bytes_of(r) - 1, &found,
                           &offset));
    EXPECT(found == s && offset == bytes_of(r) - 1);
    EXPECT_ERROR(skerry_segment_find(c.job, r, addresses[static_cast<size_t>(r)] + bytes_of(r),
                                     &found, &offset),
                 SKERRY_ERR_RANGE, "");
    EXPECT(offset == bytes_of(r) - 1);  // outputs stay
  }
  // Stores through a mapped pointer and puts are the same memory.
  OK(skerry_sync(c.world()));
  const int host = 0;
  if (skerry_same_node(c.job, host) == 1)
    static_cast<unsigned char*>(skerry_segment_pointer(s, host))[100 + c.rank] = 7;
  else {
    const unsigned char seven = 7;
    OK(skerry_put(s, host, static_cast<uint64_t>(100 + c.rank), &seven, 1));
  }
  OK(skerry_sync(c.world()));
  if (c.rank == host)
    for (int r = 0; r < c.size; ++r) EXPECT(mine[100 + r] == 7);
  // After free: every use an error.
  OK(skerry_segment_free(s));
  unsigned char byte = 0;
  EXPECT_ERROR(skerry_put(s, 0, 0, &byte, 1), SKERRY_ERR_FREED, "the segment was freed");
  EXPECT_ERROR(skerry_get(s, c.size - 1, 0, &byte, 1), SKERRY_ERR_FREED, "the segment was freed");
  EXPECT_ERROR(skerry_segment_free(s), SKERRY_ERR_FREED, "freed already");
  EXPECT(skerry_segment_local(s) == nullptr && skerry_segment_pointer(s, 0) == nullptr);
  EXPECT_IS(skerry_segment_bytes(s, 0), 0u);
  skerry_segment* found = nullptr;
  uint64_t offset = 0;
  if (addresses[0] != 0)
    EXPECT_ERROR(skerry_segment_find(c.job, 0, addresses[0], &found, &offset), SKERRY_ERR_RANGE,
                 "");
  segments_come_and_go(c);
  memory_serves_again(c);
  only_the_programs_own_are_found(c);
  sizes_with_exceptions(c);
  refuse_too_much_memory(c);
}

namespace {

// What the variables came to, as the job's own counters say it.
void settings_are_told(Context& c) {
  const Counted now(c.job);
  const auto nodes = static_cast<uint64_t>(c.nodes);
  const auto number = [](const char* name, uint64_t otherwise) -> uint64_t {
    const char* const text = std::getenv(name);
    return text == nullptr || *text < '0' || *text > '9' ? otherwise
                                                         : std::strtoull(text, nullptr, 10);
  };
  const uint64_t servers = nodes == 1 ? 1 : number("SKERRY_SERVERS", 1);
  EXPECT(now["data_servers"] == servers || now["data_servers"] == 0);
  if (c.rank == 0) EXPECT_IS(now["data_servers"], servers);
  EXPECT_IS(now["connections_shared"], nodes == 1 ? 0 : number("SKERRY_SHARE", 0));
  // As few clusters as that size allows, as equal as can be.
  if (const uint64_t size = std::min(number("SKERRY_CLUSTER_SIZE", 0), nodes); size != 0) {
    const uint64_t clusters = (nodes + size - 1) / size;
    EXPECT_IS(now["cluster_nodes"], (nodes + clusters - 1) / clusters);
  } else {
    EXPECT(now["cluster_nodes"] >= 1 && now["cluster_nodes"] <= nodes);
  }
}

}  // namespace

void run_counters(Context& c) {
  if (!c.as_threads) settings_are_told(c);
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 200'000, &s));
  std::vector<std::byte> buffer(200'000);
  for (int r = 0; r < c.size; ++r) {
    OK(skerry_sync(c.world()));
    const Counted before(c.job);
    // Each rank writes its own bytes, and gets where no rank writes: what is counted here is no
    // race.
    OK(skerry_put(s, r, static_cast<uint64_t>(c.rank) * 1000, buffer.data(), 1000));
    OK(skerry_get(s, r, 50'000, buffer.data(), 150'000));
    OK(skerry_fetch_add_i64(s, r, 49'992, 1, nullptr));
    OK(skerry_fence(c.job, r));
    const Counted after(c.job);
    const bool local = skerry_same_node(c.job, r) == 1;
    EXPECT_IS(after["local_operations"] - before["local_operations"], local ? 3u : 0u);
    EXPECT_IS(after["local_bytes"] - before["local_bytes"], local ? 151'008u : 0u);
    EXPECT_IS(after["remote_operations"] - before["remote_operations"], local ? 0u : 3u);
    EXPECT_IS(after["remote_bytes"] - before["remote_bytes"], local ? 0u : 151'008u);
    if (local) {
      EXPECT_IS(after["wire_bytes_sent"], before["wire_bytes_sent"]);
    } else {
      EXPECT(after["wire_bytes_sent"] - before["wire_bytes_sent"] >= 1000);
      EXPECT(after["wire_bytes_received"] - before["wire_bytes_received"] >= 150'000);
      EXPECT(after["wire_bytes_received"] - before["wire_bytes_received"] < 160'000);
      EXPECT(after["connections_open"] >= 1 && after["connections_opened"] >= 1);
      EXPECT(after["fences"] > before["fences"]);
    }
  }
  const Counted before(c.job);
  OK(skerry_barrier(c.world()));
  const Counted after(c.job);
  EXPECT_IS(after["collectives"] - before["collectives"], 1u);
  // One list: every counter has a name that finds it, a unit, a line of text and a kind.
  const int count = skerry_counter_count();
  EXPECT(count > 40);
  for (int i = 0; i < count; ++i) {
    EXPECT_IS(skerry_counter_find(skerry_counter_name(i)), i);
    EXPECT(std::strlen(skerry_counter_unit(i)) > 0);
    EXPECT(std::strlen(skerry_counter_description(i)) > 0);
    EXPECT(skerry_counter_kind(i) >= SKERRY_COUNTER_TOTAL);
    EXPECT(skerry_counter_kind(i) <= SKERRY_COUNTER_PEAK);
  }
  uint64_t value = 0;
  OK(skerry_counter_value(c.job, skerry_counter_find("collectives"), &value));
  EXPECT_IS(value, after["collectives"]);
  // A caller that asks for fewer or more than there are.
  std::vector<uint64_t> values(static_cast<size_t>(count) + 2, 7);
  OK(skerry_counter_values(c.job, 2, values.data()));
  EXPECT_IS(values[0], after["local_operations"]);
  EXPECT_IS(values[1], after["local_bytes"]);
  EXPECT_IS(values[2], 7u);
  OK(skerry_counter_values(c.job, count + 1, values.data()));
  EXPECT_IS(values[static_cast<size_t>(count)], 0u);
  EXPECT_IS(values[static_cast<size_t>(count) + 1], 7u);
  EXPECT_ERROR(skerry_counter_find("no_such_thing"), SKERRY_ERR_INVALID, "no_such_thing");
  EXPECT_ERROR(skerry_counter_value(c.job, count, &value), SKERRY_ERR_INVALID, "give 0 to");
  EXPECT_ERROR(skerry_counter_kind(-1), SKERRY_ERR_INVALID, "counter -1");
  EXPECT_ERROR(skerry_counter_values(c.job, -1, values.data()), SKERRY_ERR_INVALID, "-1 counters");
  EXPECT_IS(skerry_counter_name(count) == nullptr, true);
  OK(skerry_segment_free(s));
}

}  // namespace skerry::test
