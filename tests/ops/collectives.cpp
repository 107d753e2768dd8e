// Groups, collectives over all types and reductions, mutexes.
#include <complex>
#include <numeric>
#include <random>
#include <thread>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

template <class T>
struct TypeOf;
template <>
struct TypeOf<int32_t> {
  static constexpr int value = SKERRY_INT32;
};
template <>
struct TypeOf<int8_t> {
  static constexpr int value = SKERRY_INT8;
};
template <>
struct TypeOf<uint8_t> {
  static constexpr int value = SKERRY_UINT8;
};
template <>
struct TypeOf<int16_t> {
  static constexpr int value = SKERRY_INT16;
};
template <>
struct TypeOf<uint16_t> {
  static constexpr int value = SKERRY_UINT16;
};
template <>
struct TypeOf<uint32_t> {
  static constexpr int value = SKERRY_UINT32;
};
template <>
struct TypeOf<uint64_t> {
  static constexpr int value = SKERRY_UINT64;
};
template <>
struct TypeOf<long double> {
  static constexpr int value = SKERRY_LONG_DOUBLE;
};
template <>
struct TypeOf<int64_t> {
  static constexpr int value = SKERRY_INT64;
};
template <>
struct TypeOf<float> {
  static constexpr int value = SKERRY_FLOAT;
};
template <>
struct TypeOf<double> {
  static constexpr int value = SKERRY_DOUBLE;
};
template <>
struct TypeOf<std::complex<float>> {
  static constexpr int value = SKERRY_COMPLEX_FLOAT;
};
template <>
struct TypeOf<std::complex<double>> {
  static constexpr int value = SKERRY_COMPLEX_DOUBLE;
};

template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> ||
                            std::is_same_v<T, std::complex<double>>;

// What member `index` contributes at position i: small, also negative and zero.
template <class T>
T contribution(int index, uint64_t i) {
  const int a = static_cast<int>((i * 7 + static_cast<uint64_t>(index) * 3) % 5) - 2;
  if constexpr (is_complex<T>)
    return T(static_cast<typename T::value_type>(a),
             static_cast<typename T::value_type>(
                 static_cast<int>(i + static_cast<uint64_t>(index)) % 3 - 1));
  else return static_cast<T>(a);
}

template <class T>
T expected(int reduction, int members, uint64_t i) {
  T result = contribution<T>(0, i);
  for (int m = 1; m < members; ++m) {
    const T x = contribution<T>(m, i);
    if constexpr (!is_complex<T>) {
      if (reduction == SKERRY_MIN) result = x < result ? x : result;
      if (reduction == SKERRY_MAX) result = x > result ? x : result;
    }
    if constexpr (std::is_integral_v<T>) {
      if (reduction == SKERRY_LAND) result = (result != 0) && (x != 0);
      if (reduction == SKERRY_LOR) result = (result != 0) || (x != 0);
      if (reduction == SKERRY_LXOR) result = (result != 0) != (x != 0);
      if (reduction == SKERRY_BAND) result = static_cast<T>(result & x);
      if (reduction == SKERRY_BOR) result = static_cast<T>(result | x);
      if (reduction == SKERRY_BXOR) result = static_cast<T>(result ^ x);
    }
    if (reduction == SKERRY_SUM) result = static_cast<T>(result + x);
    if (reduction == SKERRY_PROD) result = static_cast<T>(result * x);
  }
  // With one member a logical reduction still gives a truth value.
  if constexpr (std::is_integral_v<T>)
    if (members == 1 && reduction >= SKERRY_LAND && reduction <= SKERRY_LXOR) result = result != 0;
  return result;
}

template <class T>
void check_reductions(Context& c, skerry_group* group, uint64_t count, int last = SKERRY_BXOR) {
  const int members = skerry_group_size(group), me = skerry_group_index(group, c.rank);
  const int type = TypeOf<T>::value;
  for (int reduction = SKERRY_SUM; reduction <= last; ++reduction) {
    std::vector<T> buffer(count);
    for (uint64_t i = 0; i < count; ++i) buffer[i] = contribution<T>(me, i);
    const bool unordered = is_complex<T> && (reduction == SKERRY_MIN || reduction == SKERRY_MAX);
    if (unordered || (!std::is_integral_v<T> && reduction >= SKERRY_LAND)) {
      EXPECT_ERROR(skerry_allreduce(group, type, reduction, buffer.data(), count),
                   SKERRY_ERR_INVALID, "");
      continue;
    }
    OK(skerry_allreduce(group, type, reduction, buffer.data(), count));
    for (uint64_t i = 0; i < count; ++i)
      if (!(buffer[i] == expected<T>(reduction, members, i)))
        fail(__FILE__, __LINE__,
             "allreduce of type " + std::to_string(type) + ", reduction " +
                 std::to_string(reduction) + ", element " + std::to_string(i) + " of " +
                 std::to_string(count) + " is wrong");
    const int root = skerry_group_rank(group, reduction % members);
    for (uint64_t i = 0; i < count; ++i) buffer[i] = contribution<T>(me, i);
    OK(skerry_reduce(group, type, reduction, buffer.data(), count, root));
    for (uint64_t i = 0; i < count; ++i) {
      const T wanted = c.rank == root ? expected<T>(reduction, members, i)
                                      : contribution<T>(me, i);  // others keep what they gave
      if (!(buffer[i] == wanted))
        fail(__FILE__, __LINE__,
             "reduce of type " + std::to_string(type) + ", reduction " + std::to_string(reduction) +
                 ", element " + std::to_string(i) + " is wrong");
    }
  }
}

void check_group(Context& c, skerry_group* group) {
  const int members = skerry_group_size(group), me = skerry_group_index(group, c.rank);
  EXPECT_IS(skerry_group_rank(group, me), c.rank);
  for (const uint64_t count : {uint64_t{1}, uint64_t{3}, uint64_t{2500}}) {
    check_reductions<int32_t>(c, group, count);
    check_reductions<int64_t>(c, group, count);
    check_reductions<float>(c, group, count);
    check_reductions<double>(c, group, count);
    check_reductions<std::complex<float>>(c, group, count);
    check_reductions<std::complex<double>>(c, group, count);
  }
  check_reductions<int8_t>(c, group, 4001);
  check_reductions<uint8_t>(c, group, 7);
  check_reductions<int16_t>(c, group, 7);
  check_reductions<uint16_t>(c, group, 4001);
  check_reductions<uint32_t>(c, group, 7);
  check_reductions<uint64_t>(c, group, 7);
  check_reductions<long double>(c, group, 2501);
  check_reductions<double>(c, group, 20'001, SKERRY_MAX);  // several bursts, the last one short
  if (group == c.world()) check_reductions<int64_t>(c, group, 600'001, SKERRY_PROD);
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{8192}, uint64_t{100'001}, uint64_t{300'001}}) {
    for (int root = bytes > 200'000 ? members - 1 : 0; root < members; ++root) {
      std::vector<unsigned char> buffer(bytes + 1, static_cast<unsigned char>(me + 1));
      const unsigned char guard = buffer.back();
      if (me == root)
        for (uint64_t i = 0; i < bytes; ++i)
          buffer[i] = static_cast<unsigned char>(i * 13 + static_cast<uint64_t>(root));
      OK(skerry_broadcast(group, buffer.data(), bytes, skerry_group_rank(group, root)));
      for (uint64_t i = 0; i < bytes; ++i)
        EXPECT(buffer[i] == static_cast<unsigned char>(i * 13 + static_cast<uint64_t>(root)));
      EXPECT(buffer.back() == guard);
    }
    std::vector<unsigned char> in(bytes), out(bytes * static_cast<uint64_t>(members) + 1, 0xcc);
    for (uint64_t i = 0; i < bytes; ++i)
      in[i] = static_cast<unsigned char>(i * 3 + static_cast<uint64_t>(me) * 11);
    OK(skerry_allgather(group, in.data(), bytes, out.data()));
    for (int m = 0; m < members; ++m)
      for (uint64_t i = 0; i < bytes; ++i)
        EXPECT(out[static_cast<uint64_t>(m) * bytes + i] ==
               static_cast<unsigned char>(i * 3 + static_cast<uint64_t>(m) * 11));
    EXPECT(out.back() == 0xcc);
  }
}

}  // namespace

namespace {

// Broadcasts and reductions to a root in a row, of each length of slots and then of all: more than
// slots last for. Members that only give run ahead, and none may overwrite what was not read yet.
void check_rooted_in_a_row(Context& c, skerry_group* group) {
  constexpr uint64_t counts[] = {1, 32, 33, 128, 129, 512};  // two for each kind of slots
  constexpr int calls = 150;
  const int members = skerry_group_size(group), me = skerry_group_index(group, c.rank);
  std::mt19937_64 draw(c.seed);
  for (int call = 0; call < 4 * calls; ++call) {
    const int kind = call / calls;
    const uint64_t count = counts[kind < 3 ? 2 * kind + draw() % 2 : draw() % 6];
    const int root = static_cast<int>(draw() % 4 == 0 ? draw() % members : call / 40 % members);
    const bool reduces = draw() % 2 == 0;
    const auto value = [&](int member, uint64_t i) {
      return int64_t{call} * 100'000 + member * 1000 + static_cast<int64_t>(i);
    };
    std::vector<int64_t> data(count);
    for (uint64_t i = 0; i < count; ++i) data[i] = value(me, i);
    const int to = skerry_group_rank(group, root);
    if (reduces) OK(skerry_reduce(group, SKERRY_INT64, SKERRY_SUM, data.data(), count, to));
    else OK(skerry_broadcast(group, data.data(), 8 * count, to));
    if (reduces && me != root) continue;
    for (uint64_t i = 0; i < count; ++i) {
      int64_t sum = 0;
      for (int m = 0; m < members; ++m) sum += value(m, i);
      EXPECT_IS(data[i], reduces ? sum : value(root, i));
    }
  }
}

}  // namespace

void run_collectives(Context& c) {
  check_group(c, c.world());
  check_rooted_in_a_row(c, c.world());
  // The same floating-point sum on every member.
  double x = 0.1 * (c.rank + 1);
  OK(skerry_allreduce(c.world(), SKERRY_DOUBLE, SKERRY_SUM, &x, 1));
  std::vector<double> all(static_cast<size_t>(c.size));
  OK(skerry_allgather(c.world(), &x, 8, all.data()));
  for (const double y : all) EXPECT(y == x);
  // A barrier holds all ranks until the last has come: a counter that each adds to before it is
  // full after it.
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 64, &s));
  for (int i = 1; i <= 20; ++i) {
    int64_t count = 0;
    OK(skerry_fetch_add_i64(s, i % c.size, 0, 1, nullptr));
    OK(skerry_barrier(c.world()));
    OK(skerry_fetch_add_i64(s, i % c.size, 0, 0, &count));
    EXPECT_IS(count % c.size, 0);
    OK(skerry_barrier(c.world()));
  }
  OK(skerry_segment_free(s));
}

// Each collective once, for jobs of a thousand ranks. run_collectives looks at every byte that
// every member sends to every other: a thousand ranks would need 300 GB.
void run_many_ranks(Context& c) {
  int64_t sum = c.rank;
  OK(skerry_allreduce(c.world(), SKERRY_INT64, SKERRY_SUM, &sum, 1));
  EXPECT_IS(sum, int64_t{c.size} * (c.size - 1) / 2);
  for (const int root : {0, c.size / 2, c.size - 1}) {
    int64_t value = c.rank;
    OK(skerry_broadcast(c.world(), &value, 8, root));
    EXPECT_IS(value, root);
  }
  std::vector<int32_t> all(static_cast<size_t>(c.size), -1);
  OK(skerry_allgather(c.world(), &c.rank, sizeof c.rank, all.data()));
  for (int r = 0; r < c.size; ++r) EXPECT_IS(all[static_cast<size_t>(r)], r);
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 8, &s));
  const int next = (c.rank + 1) % c.size;
  const int64_t value = c.rank;
  OK(skerry_put(s, next, 0, &value, 8));
  OK(skerry_sync(c.world()));
  EXPECT_IS(*static_cast<int64_t*>(skerry_segment_local(s)), (c.rank + c.size - 1) % c.size);
  OK(skerry_segment_free(s));
}

namespace {

// Through an exchange of the program. Bug guarded against: the status of a failure was none of
// skerry_status.
void check_created(Context& c) {
  const auto allgather = [](void* world, const void* in, uint64_t bytes, void* out) {
    return skerry_allgather(static_cast<skerry_group*>(world), in, bytes, out);
  };
  const skerry_exchange exchange{sizeof exchange, c.rank, c.size, c.world(), allgather, nullptr};
  std::vector<int> ranks(static_cast<size_t>(c.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  skerry_group* group = nullptr;
  OK(skerry_group_create(c.job, ranks.data(), &exchange, &group));
  EXPECT_IS(skerry_group_index(group, c.rank), c.rank);
  check_group(c, group);
  OK(skerry_group_free(group));
  // One member alone is wrong: all get its answer.
  if (c.rank == c.size - 1) ranks[0] = c.size;
  EXPECT_ERROR(skerry_group_create(c.job, ranks.data(), &exchange, &group), SKERRY_ERR_INVALID,
               "does not exist");
}

// What two groups of one color left does not serve the group of both.
void check_kept(Context& c) {
  for (int i = 0; i < 2; ++i) {
    skerry_group* g = nullptr;
    for (int odd = 0; odd < 2; ++odd) {
      OK(skerry_group_split(c.world(), c.rank % 2 == odd ? 7 : -1, 0, &g));
      if (g != nullptr) OK(skerry_group_free(g));
    }
    OK(skerry_group_split(c.world(), 7, 0, &g));
    EXPECT_IS(skerry_group_size(g), c.size);
    OK(skerry_group_free(g));
  }
}

}  // namespace

void run_groups(Context& c) {
  check_created(c);
  // Odd and even, order reversed by the key.
  skerry_group* half = nullptr;
  OK(skerry_group_split(c.world(), c.rank % 2, -c.rank, &half));
  const int members = c.rank % 2 == 0 ? (c.size + 1) / 2 : c.size / 2;
  EXPECT_IS(skerry_group_size(half), members);
  for (int i = 0; i + 1 < members; ++i)
    EXPECT(skerry_group_rank(half, i) > skerry_group_rank(half, i + 1));
  EXPECT_ERROR(skerry_group_index(half, c.rank + 1), SKERRY_ERR_INVALID,
               "is not a member of the group");
  EXPECT_ERROR(skerry_group_rank(half, members), SKERRY_ERR_INVALID, "position");
  check_group(c, half);
  // A group of a group; some join none.
  skerry_group* few = half;
  OK(skerry_group_split(half, skerry_group_index(half, c.rank) == 0 ? -1 : 5, 0, &few));
  EXPECT((few == nullptr) == (skerry_group_index(half, c.rank) == 0));
  if (few != nullptr) check_group(c, few);
  // One group per node, as many groups at once as nodes; equal keys: ordered by rank.
  skerry_group* node = nullptr;
  OK(skerry_group_split(c.world(), c.node_of(c.rank), 0, &node));
  EXPECT_IS(skerry_group_size(node), skerry_node_size(c.job, c.node_of(c.rank)));
  for (int i = 0; i < skerry_group_size(node); ++i)
    EXPECT_IS(skerry_group_rank(node, i), skerry_node_rank(c.job, c.node_of(c.rank), i));
  // Segments on groups: slices of the members only.
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(half, 1000 + static_cast<uint64_t>(c.rank), &s));
  EXPECT(skerry_segment_group(s) == half);
  for (int r = 0; r < c.size; ++r)
    EXPECT_IS(skerry_segment_bytes(s, r),
              r % 2 == c.rank % 2 ? 1000u + static_cast<uint64_t>(r) : 0u);
  for (int i = 0; i < members; ++i) {
    const int r = skerry_group_rank(half, i);
    const int64_t value = c.rank * 1000 + r;
    OK(skerry_put(s, r, 8 * static_cast<uint64_t>(c.rank), &value, 8));
  }
  OK(skerry_sync(half));
  for (int i = 0; i < members; ++i) {
    const int r = skerry_group_rank(half, i);
    EXPECT_IS(static_cast<int64_t*>(skerry_segment_local(s))[r], r * 1000 + c.rank);
  }
  if (c.size > 1) {
    const int outsider = c.rank == 0 ? 1 : c.rank - 1;
    int64_t value = 0;
    EXPECT_ERROR(skerry_put(s, outsider, 0, &value, 8), SKERRY_ERR_INVALID,
                 "is not a member of the segment's group");
    EXPECT_ERROR(skerry_broadcast(half, &value, 8, outsider), SKERRY_ERR_INVALID,
                 "is not a member of the group");
    EXPECT(skerry_segment_pointer(s, outsider) == nullptr);
  }
  OK(skerry_segment_free(s));
  if (few != nullptr) OK(skerry_group_free(few));
  OK(skerry_group_free(node));
  OK(skerry_group_free(half));
  EXPECT_ERROR(skerry_barrier(half), SKERRY_ERR_FREED, "the group was freed");
  // Groups come and go.
  for (int i = 0; i < 20; ++i) {
    skerry_group* g = nullptr;
    OK(skerry_group_split(c.world(), (c.rank + i) % 3, i % 2 == 0 ? c.rank : -c.rank, &g));
    int32_t one = 1;
    OK(skerry_allreduce(g, SKERRY_INT32, SKERRY_SUM, &one, 1));
    EXPECT_IS(one, skerry_group_size(g));
    OK(skerry_group_free(g));
  }
  check_kept(c);
}

void run_mutexes(Context& c) {
  skerry_mutexes* m = nullptr;
  OK(skerry_mutexes_create(c.world(), static_cast<uint32_t>(c.rank % 3),
                           &m));  // unequal, some none
  EXPECT_ERROR(skerry_mutex_lock(m, 0, 0), SKERRY_ERR_RANGE, "mutex 0 of rank 0, which hosts 0");
  EXPECT_ERROR(skerry_mutex_lock(m, c.size, 0), SKERRY_ERR_INVALID, "does not exist");
  if (c.size > 2) {
    OK(skerry_mutex_lock(m, 2, c.rank % 2 == 0 ? 0u : 1u));
    OK(skerry_mutex_unlock(m, 2, c.rank % 2 == 0 ? 0u : 1u));
  }
  OK(skerry_mutexes_free(m));
  EXPECT_ERROR(skerry_mutex_lock(m, 0, 0), SKERRY_ERR_FREED, "freed");

  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 4096, &s));
  OK(skerry_mutexes_create(c.world(), 2, &m));
  auto* const mine = static_cast<int64_t*>(skerry_segment_local(s));
  // Mutual exclusion for every host, from every node: a word changed by get and put, and a second
  // one that must always equal it.
  const int turns = c.as_threads ? 10 : 60;
  for (int host = 0; host < c.size; ++host) {
    for (int i = 0; i < turns; ++i) {
      int64_t pair[2];
      OK(skerry_mutex_lock(m, host, 1));
      OK(skerry_get(s, host, 0, pair, 16));
      EXPECT_IS(pair[0], pair[1]);
      ++pair[0];
      OK(skerry_put(s, host, 0, &pair[0], 8));
      OK(skerry_put(s, host, 8, &pair[0],
                    8));  // no fence: what went to the host's node is visible to the next holder
      OK(skerry_mutex_unlock(m, host, 1));
    }
  }
  OK(skerry_sync(c.world()));
  EXPECT_IS(mine[0], int64_t{turns} * c.size);
  // No rank starves: each gets all its turns, however fast the others are. (That the queue is first
  // come, first served is shown where queueing can be observed: src/lock/test.)
  for (int host = 0; host < c.size; host += c.size > 1 ? c.size - 1 : 1) {
    OK(skerry_sync(c.world()));
    const int repeats = 20;
    for (int i = 0; i < repeats; ++i) {
      OK(skerry_mutex_lock(m, host, 0));
      OK(skerry_fetch_add_i64(s, host, 64, 1, nullptr));
      OK(skerry_mutex_unlock(m, host, 0));
    }
    OK(skerry_sync(c.world()));
    if (c.rank == host) EXPECT_IS(mine[8], int64_t{repeats} * c.size);
  }

  // Held by one, wanted again by the same: an error, not a deadlock. Unlocking what is not held
  // too. Local and remote hosts.
  for (int host = 0; host < c.size; host += c.size > 1 ? c.size - 1 : 1) {
    OK(skerry_mutex_lock(m, host, 1));
    EXPECT_ERROR(skerry_mutex_lock(m, host, 1), SKERRY_ERR_INVALID, "which it holds");
    OK(skerry_mutex_unlock(m, host, 1));
    OK(skerry_sync(c.world()));
  }
  if (c.node_of(c.rank) == c.node_of(0))
    EXPECT_ERROR(skerry_mutex_unlock(m, 0, 0), SKERRY_ERR_INVALID, "which it does not hold");
  OK(skerry_sync(c.world()));
  if (c.node_of(c.rank) != c.node_of(0)) {
    // A remote unlock is not waited for; the fence tells.
    const int status = skerry_mutex_unlock(m, 0, 0);
    if (status == SKERRY_OK)
      EXPECT_ERROR(skerry_fence(c.job, 0), SKERRY_ERR_INVALID, "does not hold");
    else EXPECT_IS(status, SKERRY_ERR_INVALID);
  }
  OK(skerry_sync(c.world()));
  OK(skerry_mutexes_free(m));
  OK(skerry_segment_free(s));
}

}  // namespace skerry::test
