// The litmus tests of docs/memory-model.md, each for every pair of a writer and its right
// neighbour, on every path: a target on the same node, on another one by small messages, by long
// ones with direct placement, strided, and in pieces.
#include <algorithm>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

enum class Path { word, small, direct, strided, vector };
constexpr Path all_paths[] = {Path::word, Path::small, Path::direct, Path::strided, Path::vector};

constexpr uint64_t words_of(Path path) {
  switch (path) {
    case Path::word: return 1;
    case Path::small: return 500;
    case Path::direct: return 20'000;
    case Path::strided: return 64;
    case Path::vector: return 64;
  }
  return 0;
}

// Data of a test lie at data_at, flags before them. Strided and vector data use every second word.
constexpr uint64_t flag_at = 0, second_flag_at = 64, data_at = 4096,
                   slice_bytes = data_at + 2 * 8 * 20'000;

struct Field {
  Context& c;
  skerry_segment* s;

  uint64_t stride(Path path) const { return path == Path::strided || path == Path::vector ? 2 : 1; }
  skerry_strided shape(Path path) const {
    skerry_strided rows{};
    rows.block_bytes = 8;
    rows.levels = 1;
    rows.count[0] = words_of(path);
    rows.origin_stride[0] = 8;
    rows.target_stride[0] = 16;
    return rows;
  }
  std::vector<skerry_piece> pieces(Path path, int64_t* buffer) const {
    std::vector<skerry_piece> list;
    for (uint64_t i = 0; i < words_of(path); ++i) list.push_back({buffer + i, data_at + 16 * i, 8});
    return list;
  }
  void put(Path path, int rank, int64_t value) const {
    std::vector<int64_t> buffer(words_of(path), value);
    if (path == Path::strided) {
      const skerry_strided rows = shape(path);
      OK(skerry_put_strided(s, rank, data_at, buffer.data(), &rows));
    } else if (path == Path::vector) {
      const auto list = pieces(path, buffer.data());
      OK(skerry_put_vector(s, rank, list.data(), list.size()));
    } else {
      OK(skerry_put(s, rank, data_at, buffer.data(), buffer.size() * 8));
    }
  }
  void accumulate(Path path, int rank, int64_t value) const {
    std::vector<int64_t> buffer(words_of(path), value);
    if (path == Path::strided) {
      const skerry_strided rows = shape(path);
      OK(skerry_acc_strided(s, rank, data_at, SKERRY_INT64, nullptr, buffer.data(), &rows));
    } else if (path == Path::vector) {
      const auto list = pieces(path, buffer.data());
      OK(skerry_acc_vector(s, rank, SKERRY_INT64, nullptr, list.data(), list.size()));
    } else {
      OK(skerry_acc(s, rank, data_at, SKERRY_INT64, nullptr, buffer.data(), buffer.size()));
    }
  }
  std::vector<int64_t> get(Path path, int rank) const {
    std::vector<int64_t> buffer(words_of(path), -1);
    if (path == Path::strided) {
      const skerry_strided rows = shape(path);
      OK(skerry_get_strided(s, rank, data_at, buffer.data(), &rows));
    } else if (path == Path::vector) {
      const auto list = pieces(path, buffer.data());
      OK(skerry_get_vector(s, rank, list.data(), list.size()));
    } else {
      OK(skerry_get(s, rank, data_at, buffer.data(), buffer.size() * 8));
    }
    return buffer;
  }
  // Plain loads by the owner.
  bool own_data_are(Path path, int64_t value) const {
    const auto* const data = static_cast<const int64_t*>(skerry_segment_local(s)) + data_at / 8;
    for (uint64_t i = 0; i < words_of(path); ++i)
      if (data[i * stride(path)] != value) return false;
    return true;
  }
  int64_t own_flag(uint64_t at) const {
    return __atomic_load_n(static_cast<int64_t*>(skerry_segment_local(s)) + at / 8,
                           __ATOMIC_ACQUIRE);
  }
  void set_flag(int rank, uint64_t at, int64_t value) const {
    OK(skerry_put(s, rank, at, &value, 8));
  }
  // Polls one's own memory. Sleeps in the kernel between looks: cores are often fewer than ranks.
  void await_flag(uint64_t at, int64_t value) const {
    while (own_flag(at) != value) (void)skerry_notify_wait(s, 128, 1, 20'000, nullptr);
  }
  void clear() const {
    OK(skerry_sync(c.world()));
    std::memset(skerry_segment_local(s), 0, slice_bytes);
    OK(skerry_sync(c.world()));
  }
};

#define SAY(condition, test, path)                                                          \
  do {                                                                                      \
    if (!(condition))                                                                       \
      fail(__FILE__, __LINE__,                                                              \
           std::string("litmus " test ", path ") + std::to_string(static_cast<int>(path)) + \
               ": " #condition);                                                            \
  } while (0)

// L7 store buffering: each of a pair puts its flag at the other's place, fences, and reads the
// other's: not both may miss. Through memory of a third party, and with each flag in the other's
// memory. L11: the same with a fetch-and-add and no fence.
void store_buffering(Context& c, const Field& f) {
  const int pair = c.rank / 2 * 2, partner = c.rank == pair ? pair + 1 : pair;
  for (int i = 0; i < (c.as_threads ? 18 : 120) && c.size > 1; ++i) {
    const int mode = i % 3;  // both flags on rank 0, both on the last, each in the other's memory
    const bool adds = i % 2 == 1;
    f.clear();
    int64_t seen = 1;
    if (partner < c.size) {
      const int flag_host = mode == 0 ? 0 : mode == 1 ? c.size - 1 : partner;
      const int look_host = mode == 2 ? c.rank : flag_host;
      const uint64_t at = 1024 + static_cast<uint64_t>(pair) * 16;  // pairs do not meet
      const uint64_t mine = at + (mode == 2 ? 0 : static_cast<uint64_t>(c.rank - pair) * 8);
      const uint64_t theirs = at + (mode == 2 ? 0 : static_cast<uint64_t>(partner - pair) * 8);
      const int64_t one = 1;
      int64_t old = 0;
      if (adds) OK(skerry_fetch_add_i64(f.s, flag_host, mine, one, &old));
      else f.set_flag(flag_host, mine, one);
      if (!adds) OK(skerry_fence(c.job, flag_host));
      OK(skerry_get(f.s, look_host, theirs, &seen, 8));
    }
    std::vector<int64_t> all(static_cast<size_t>(c.size));
    OK(skerry_allgather(c.world(), &seen, 8, all.data()));
    for (int r = 0; r + 1 < c.size; r += 2)
      SAY(all[static_cast<size_t>(r)] == 1 || all[static_cast<size_t>(r) + 1] == 1,
          "L7, L11 store buffering", Path::word);
  }
}

}  // namespace

void run_litmus(Context& c) {
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), slice_bytes, &s));
  const Field f{c, s};
  const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
  const int rounds = c.as_threads ? 2 : 6;
  for (const Path path : all_paths) {
    f.clear();
    for (int64_t i = 1; i <= rounds; ++i) {
      // L1 message passing: data, fence, flag. A rank that sees the flag sees the data.
      f.put(path, right, i);
      OK(skerry_fence(c.job, right));
      f.set_flag(right, flag_at, i);
      f.await_flag(flag_at, i);
      SAY(f.own_data_are(path, i), "L1 message passing", path);
      OK(skerry_barrier(c.world()));

      // L2 the same without the fence: operations of one origin on one target are in issue order.
      f.put(path, right, -i);
      f.set_flag(right, flag_at, -i);
      f.await_flag(flag_at, -i);
      SAY(f.own_data_are(path, -i), "L2 put after put", path);
      OK(skerry_barrier(c.world()));

      // L3 put with notify.
      f.put(path, right, i + 100);
      OK(skerry_put_notify(s, right, flag_at, nullptr, 0, second_flag_at, 1));
      OK(skerry_notify_wait(s, second_flag_at, static_cast<uint64_t>(i), patience_ns, nullptr));
      SAY(f.own_data_are(path, i + 100), "L3 put with notify", path);
      OK(skerry_barrier(c.world()));

      // L4 a get sees every earlier put of its own origin to that target.
      f.put(path, right, i + 200);
      for (const int64_t x : f.get(path, right)) SAY(x == i + 200, "L4 get after put", path);
      OK(skerry_barrier(c.world()));

      // L5 accumulates are there after the fence; of several origins all are.
      f.put(path, right, 0);
      OK(skerry_sync(c.world()));
      f.accumulate(path, right, 1);
      f.accumulate(path, left, 10);
      OK(skerry_fence_all(c.job));
      OK(skerry_barrier(c.world()));
      SAY(f.own_data_are(path, 11), "L5 accumulate and fence", path);
      OK(skerry_barrier(c.world()));

      // L6 a read-modify-write takes effect after the accumulate before it.
      f.put(path, right, i);
      f.accumulate(path, right, 5);
      int64_t old = 0;
      OK(skerry_fetch_add_i64(s, right, data_at, 1000, &old));
      SAY(old == i + 5, "L6 fetch-and-add after accumulate", path);
      OK(skerry_barrier(c.world()));
    }
  }

  store_buffering(c, f);

  // L8 an aligned word never tears: the owner polls while its neighbour writes words whose halves
  // are equal.
  f.clear();
  for (int64_t i = 1; i <= 200; ++i) {
    const int64_t word = i | i << 32;
    OK(skerry_put(s, right, flag_at, &word, 8));
    const int64_t seen = f.own_flag(flag_at);
    SAY((seen & 0xffffffff) == seen >> 32, "L8 no tearing", Path::word);
    int64_t got = 0;
    OK(skerry_get(s, left, flag_at, &got, 8));
    SAY((got & 0xffffffff) == got >> 32, "L8 no tearing", Path::word);
  }
  OK(skerry_sync(c.world()));

  // L9 polling: a put without a fence arrives all the same while its origin computes or sleeps in
  // something else.
  f.clear();
  f.set_flag(right, flag_at, 7);
  f.await_flag(flag_at, 7);
  OK(skerry_barrier(c.world()));

  // L10 a chain of three: 0 puts to 2 and fences, then tells 1; 1 tells 2; 2 sees what 0 put.
  if (c.size >= 3) {
    for (const Path path : all_paths) {
      f.clear();
      if (c.rank == 0) {
        f.put(path, 2, 99);
        OK(skerry_fence(c.job, 2));
        f.set_flag(1, flag_at, 1);
      } else if (c.rank == 1) {
        f.await_flag(flag_at, 1);
        f.set_flag(2, flag_at, 1);
      } else if (c.rank == 2) {
        f.await_flag(flag_at, 1);
        SAY(f.own_data_are(path, 99), "L10 transitivity", path);
      }
    }
  }
  OK(skerry_sync(c.world()));
  OK(skerry_segment_free(s));
}

}  // namespace skerry::test
