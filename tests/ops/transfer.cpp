// Transfers whose size matters: around the limits between paths, long ones, and more than 2^31
// bytes.
#include <sys/sysinfo.h>

#include <algorithm>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

// A thread sanitizer keeps a record for each word of a long transfer: each 8 MiB take seconds. One
// transfer of several parts is enough for it, and strided ones of more than one.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t long_bytes = 2u << 20, rows_bytes = 1'500'000;
#else
constexpr uint64_t long_bytes = 8u << 20, rows_bytes = 2'500'000;
#endif

// Eight bytes of it at a time: a sanitizer looks at each access.
uint64_t pattern(uint64_t word, uint64_t salt) {
  const uint64_t mixed = (word + 1) * 0x9e3779b97f4a7c15u + salt * 0xbf58476d1ce4e5b9u;
  return mixed ^ mixed >> 29;
}
void fill(std::byte* data, uint64_t bytes, uint64_t salt) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    const uint64_t word = pattern(at / 8, salt);
    std::memcpy(data + at, &word, std::min<uint64_t>(8, bytes - at));
  }
}
void check(const std::byte* data, uint64_t bytes, uint64_t salt, const char* what) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    uint64_t word = pattern(at / 8, salt), there = word;
    std::memcpy(&there, data + at, std::min<uint64_t>(8, bytes - at));
    if (there != word)
      fail(__FILE__, __LINE__,
           std::string(what) + " of " + std::to_string(bytes) + " bytes is wrong from byte " +
               std::to_string(at) + " or one of the seven behind it");
  }
}

}  // namespace

void run_transfer(Context& c) {
  const uint64_t longest = 20u << 20;  // longer than one directly placed message may be
  skerry_segment* segment = nullptr;
  OK(skerry_segment_alloc(c.world(), longest + 4096, &segment));
  const auto* const mine = static_cast<const std::byte*>(skerry_segment_local(segment));
  const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
  std::vector<std::byte> buffer(longest), seen(longest);
  std::vector<uint64_t> sizes = {0,     1,      7,       8,          9,
                                 4095,  4096,   4097,    65535,      65536,
                                 65537, 131072, 1000003, long_bytes, (8u << 20) + 1};
  if (!c.as_threads || c.thorough) sizes.push_back(longest);
  for (const uint64_t bytes : sizes) {
    const uint64_t salt = bytes * 17 + static_cast<uint64_t>(c.rank);
    fill(buffer.data(), bytes, salt);
    OK(skerry_put(segment, right, 3, buffer.data(), bytes));
    std::memset(buffer.data(), 0xee, bytes);
    std::memset(seen.data(), 0x11, bytes);
    OK(skerry_get(segment, right, 3, seen.data(), bytes));  // a get sees the puts before it
    check(seen.data(), bytes, salt, "get after put");
    OK(skerry_sync(c.world()));
    check(mine + 3, bytes, bytes * 17 + static_cast<uint64_t>(left), "own slice");
    OK(skerry_barrier(c.world()));
  }

  // Long strided gets: sent from where the rows lie if the destination is contiguous, packed
  // otherwise; rows around the limit between the two, backwards too.
  for (const uint64_t row : {1000u, 1024u, 16384u, 70000u}) {
    for (const bool backwards : {false, true}) {
      for (const uint64_t gap : {0u, 48u}) {  // between the rows here
        skerry_strided rows{};
        rows.block_bytes = row;
        rows.levels = 2;
        rows.count[0] = 7;
        rows.count[1] = rows_bytes / row / 7;
        const auto stride = static_cast<int64_t>(row + 500);
        rows.target_stride[0] = backwards ? -stride : stride;
        rows.target_stride[1] = 7 * stride;
        rows.origin_stride[0] = static_cast<int64_t>(row + gap);
        rows.origin_stride[1] = 7 * rows.origin_stride[0];
        const uint64_t count = 7 * rows.count[1], reach = count * static_cast<uint64_t>(stride);
        const uint64_t first = 16 + (backwards ? 6 * static_cast<uint64_t>(stride) : 0),
                       salt = row + static_cast<uint64_t>(right);
        fill(buffer.data(), reach, salt);
        OK(skerry_put(segment, right, 16, buffer.data(), reach));
        std::memset(seen.data(), 0x11, 17 + count * (row + gap));
        OK(skerry_get_strided(segment, right, first, seen.data() + 16,
                              &rows));  // 16: beside page-aligned rows, what memcpy is slow for
        for (uint64_t i = 0; i < count; ++i) {
          const uint64_t there = backwards ? i / 7 * 7 + 6 - i % 7 : i;
          EXPECT(std::memcmp(seen.data() + 16 + i * (row + gap),
                             buffer.data() + there * static_cast<uint64_t>(stride), row) == 0);
          if (gap != 0) EXPECT(seen[16 + i * (row + gap) + row] == std::byte{0x11});
        }
        EXPECT(seen[15] == std::byte{0x11} && seen[16 + count * (row + gap)] == std::byte{0x11});
        OK(skerry_barrier(c.world()));
      }
    }
  }

  // Replies that the origin does not receive keep the server from what was sent behind them. A
  // barrier must not wait for that: without the helper (SKERRY_PROGRESS_THREAD=0) it did, for ever.
  {
    const int gets = c.as_threads && !c.thorough
                         ? 2
                         : 16;  // more than the sockets of a large machine hold
    for (int i = 0; i < gets; ++i)
      OK(skerry_get_nb(segment, right, 0, seen.data(), 4u << 20, SKERRY_IMPLICIT));
    OK(skerry_barrier(c.world()));
    OK(skerry_wait_implicit(c.job));
  }

  // Small puts that are collected, then a long get and a long put: in issue order, also where those
  // are the fabric's own.
  {
    const uint64_t bytes = 300'000;
    std::vector<std::byte> before(bytes, std::byte{1}), after(bytes, std::byte{3});
    const uint64_t twos = 0x0202020202020202;
    OK(skerry_put(segment, right, 0, before.data(), bytes));
    for (uint64_t at = 0; at < 800; at += 8)
      OK(skerry_put_nb(segment, right, at, &twos, 8, SKERRY_IMPLICIT));
    OK(skerry_get(segment, right, 0, seen.data(), bytes));
    EXPECT(std::memcmp(seen.data() + 800, before.data() + 800, bytes - 800) == 0);
    for (uint64_t at = 0; at < 800; ++at) EXPECT(seen[at] == std::byte{2});
    for (uint64_t at = 0; at < 800; at += 8)
      OK(skerry_put_nb(segment, right, at, &twos, 8, SKERRY_IMPLICIT));
    OK(skerry_put(segment, right, 0, after.data(), bytes));
    OK(skerry_get(segment, right, 0, seen.data(), bytes));
    EXPECT(std::memcmp(seen.data(), after.data(), bytes) == 0);
    OK(skerry_barrier(c.world()));
  }

  // A long get that is under way when a put to the same bytes is issued returns what was there
  // before: issue order. Guards against a server that sends straight from the slice while it
  // already takes in the next request.
  for (const uint64_t bytes : {uint64_t{200'000}, uint64_t{3'000'000}, longest}) {
    if (c.as_threads && bytes == longest && !c.thorough) continue;
    fill(buffer.data(), bytes, 1);
    OK(skerry_put(segment, right, 0, buffer.data(), bytes));
    skerry_handle get = 0, put = 0, small = 0;
    OK(skerry_get_nb(segment, right, 0, seen.data(), bytes, &get));
    fill(buffer.data(), bytes, 2);
    const uint64_t nines[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    OK(skerry_put_nb(segment, right, bytes - 64, nines, 32, &small));
    OK(skerry_put_nb(segment, right, 0, buffer.data(), bytes, &put));
    OK(skerry_wait(c.job, &put));
    OK(skerry_wait(c.job, &get));
    OK(skerry_wait(c.job, &small));
    check(seen.data(), bytes, 1, "get issued before a put to the same bytes");
    OK(skerry_get(segment, right, 0, seen.data(), bytes));
    check(seen.data(), bytes, 2, "get issued after a put to the same bytes");
    OK(skerry_barrier(c.world()));
  }

  // Many long gets at once between all ranks, waited for in any order: replies outgrow what the
  // network takes at once.
  {
    const uint64_t bytes = c.as_threads ? 100'000 : 700'000;
    fill(buffer.data(), 4 * bytes, 5);
    OK(skerry_sync(c.world()));
    std::memcpy(skerry_segment_local(segment), buffer.data(), 4 * bytes);
    OK(skerry_sync(c.world()));
    std::vector<skerry_handle> handles(static_cast<size_t>(4 * c.size));
    std::vector<std::vector<std::byte>> got(handles.size(), std::vector<std::byte>(bytes));
    for (size_t i = 0; i < handles.size(); ++i)
      OK(skerry_get_nb(segment, static_cast<int>(i) % c.size,
                       (i / static_cast<size_t>(c.size)) * bytes, got[i].data(), bytes,
                       &handles[i]));
    Random random(c.seed);
    std::vector<size_t> order(handles.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      OK(skerry_wait(c.job, &handles[i]));
      EXPECT(std::memcmp(got[i].data(), buffer.data() + (i / static_cast<size_t>(c.size)) * bytes,
                         bytes) == 0);
    }
    OK(skerry_sync(c.world()));
  }

  // There is no limit on the number of outstanding operations: ten times the completion slots.
  {
    const int many = c.as_threads ? 600 : 2600;
    std::vector<int64_t> values(static_cast<size_t>(many));
    for (int i = 0; i < many; ++i) values[static_cast<size_t>(i)] = c.rank * 100'000 + i;
    for (int i = 0; i < many; ++i)
      OK(skerry_put_nb(segment, right, static_cast<uint64_t>(i) * 8,
                       &values[static_cast<size_t>(i)], 8, SKERRY_IMPLICIT));
    std::vector<int64_t> back(static_cast<size_t>(many));
    std::vector<skerry_handle> handles(static_cast<size_t>(many));
    for (int i = 0; i < many; ++i)
      OK(skerry_get_nb(segment, right, static_cast<uint64_t>(i) * 8, &back[static_cast<size_t>(i)],
                       8, &handles[static_cast<size_t>(i)]));
    OK(skerry_wait_implicit(c.job));
    for (int i = many - 1; i >= 0; --i) OK(skerry_wait(c.job, &handles[static_cast<size_t>(i)]));
    for (size_t i = 0; i < back.size(); ++i) EXPECT_IS(back[i], values[i]);
  }
  OK(skerry_segment_free(segment));
}

// Gets and puts that nobody waits for yet: at a limit they queue for their server's next
// connection, and do not take each other's connections away. So does what goes through servers that
// several targets share.
void run_queued(Context& c) {
  constexpr int rounds = 50;
  skerry_segment* segment = nullptr;
  const auto words = static_cast<uint64_t>(c.size) * rounds;
  OK(skerry_segment_alloc(c.world(), words * 8, &segment));
  OK(skerry_sync(c.world()));
  const Counted before(c.job);
  std::vector<int64_t> sent(words), got(words, -1);
  skerry_handle* const implicit = SKERRY_IMPLICIT;
  for (int round = 0; round < rounds; ++round)
    for (int rank = 0; rank < c.size; ++rank) {
      const uint64_t mine = static_cast<uint64_t>(round * c.size + c.rank);
      const size_t at = static_cast<size_t>(round * c.size + rank);
      sent[at] = c.rank * 1'000'000 + round * 1000 + rank;
      OK(skerry_put_nb(segment, rank, mine * 8, &sent[at], 8, implicit));
      OK(skerry_get_nb(segment, rank, mine * 8, &got[at], 8, implicit));
    }
  OK(skerry_wait_implicit(c.job));
  OK(skerry_fence_all(c.job));
  const Counted after(c.job);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_IS(got[i], sent[i]);
  // Each server takes a few turns: in the loop, when the helper thread looks, and in the fence.
  const uint64_t evicted = after["connections_evicted"] - before["connections_evicted"];
  EXPECT(evicted < static_cast<uint64_t>(rounds * c.size / 3));
  OK(skerry_sync(c.world()));
  OK(skerry_segment_free(segment));
}

// One transfer of more than 2^31 bytes. Needs the segment twice over and a buffer: skipped, with
// the reason, where memory is short.
void run_huge(Context& c) {
  const uint64_t bytes = (uint64_t{1} << 31) + 12345;
  const int target = c.size - 1;
  struct sysinfo machine {};
  (void)sysinfo(&machine);
  int32_t enough = machine.freeram * machine.mem_unit > 3 * bytes ? 1 : 0;
  OK(skerry_allreduce(c.world(), SKERRY_INT32, SKERRY_MIN, &enough, 1));
  if (enough == 0) {
    if (c.rank == 0)
      std::printf("huge: skipped: less than %llu MiB of memory are free\n",
                  static_cast<unsigned long long>(3 * bytes >> 20));
    return;
  }
  skerry_segment* segment = nullptr;
  OK(skerry_segment_alloc(c.world(), c.rank == target ? bytes + 16 : 0, &segment));
  if (c.rank == 0) {
    void* memory = nullptr;
    OK(skerry_buffer_alloc(c.job, bytes, &memory));
    auto* const words = static_cast<uint64_t*>(memory);
    for (uint64_t i = 0; i < bytes / 8; ++i) words[i] = i * 0x9e3779b97f4a7c15u;
    std::memset(static_cast<char*>(memory) + bytes / 8 * 8, 0x5a, bytes % 8);
    OK(skerry_put(segment, target, 8, memory, bytes));
    std::memset(memory, 0, bytes);
    OK(skerry_get(segment, target, 8, memory, bytes));
    for (uint64_t i = 0; i < bytes / 8; ++i) EXPECT(words[i] == i * 0x9e3779b97f4a7c15u);
    // The same as rows of a little less than 1 GiB with a gap: offsets beyond 2^31 in a strided
    // transfer.
    skerry_strided rows{};
    rows.block_bytes = 1024;
    rows.levels = 1;
    rows.count[0] = 3;
    rows.origin_stride[0] = 1024;
    rows.target_stride[0] = (int64_t{1} << 30) - 8192;
    OK(skerry_put_strided(segment, target, 8, memory, &rows));
    std::memset(memory, 0, 3072);
    OK(skerry_get_strided(segment, target, 8, memory, &rows));
    for (uint64_t i = 0; i < 3072 / 8; ++i) EXPECT(words[i] == i * 0x9e3779b97f4a7c15u);
    OK(skerry_buffer_free(c.job, memory));
  }
  OK(skerry_sync(c.world()));
  OK(skerry_segment_free(segment));
}

}  // namespace skerry::test
