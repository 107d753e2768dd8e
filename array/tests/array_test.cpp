// Arrays over several ranks and nodes: started by `skerry run` on every combination of ranks and
// nodes, and alone as a job of one. Every rank runs every test; EXPECT, not ASSERT, where others
// would be left waiting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <random>

#include "skerry/array.hpp"
#include "skerry/tasks.hpp"

namespace {

sk::Job* job;
sk::Group world() { return job->world(); }

double value_at(std::int64_t i, std::int64_t j) {
  return 1.0 + static_cast<double>(i) * 1000.0 + static_cast<double>(j);
}

sk::ArrayOptions with(sk::Placement placement) {
  sk::ArrayOptions options;
  options.placement = placement;
  return options;
}
sk::ArrayOptions irregular(sk::Placement placement, std::int64_t rows, std::int64_t columns) {
  sk::ArrayOptions options = with(placement);
  options.starts.resize(2);
  for (std::int64_t i = 0; i < rows; i += 3 + i % 4) options.starts[0].push_back(i);
  for (std::int64_t j = 0; j < columns; j += 5) options.starts[1].push_back(j);
  return options;
}

template <class T>
void set_own(const sk::Array<T>& a, double offset = 0) {
  const auto own = a.local();
  for (auto i = own.patch.lo[0]; i < own.patch.hi[0]; ++i)
    for (auto j = own.patch.lo[1]; j < own.patch.hi[1]; ++j)
      own.data[(i - own.patch.lo[0]) * own.ld + j - own.patch.lo[1]] = static_cast<T>(
          value_at(i, j) + offset);
  a.sync();
}

template <class T>
void expect_all(const sk::Array<T>& a, double factor = 1, double offset = 0) {
  const auto rows = a.shape()[0], columns = a.shape()[1];
  std::vector<T> all(static_cast<std::size_t>(rows * columns));
  a.get({0, rows, 0, columns}, all.data());
  int wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (all[static_cast<std::size_t>(i * columns + j)] !=
              static_cast<T>(factor * (value_at(i, j) + offset)) &&
          wrong++ == 0)
        ADD_FAILURE() << "at " << i << ", " << j << ": "
                      << all[static_cast<std::size_t>(i * columns + j)] << " instead of "
                      << factor * (value_at(i, j) + offset);
  EXPECT_EQ(wrong, 0);
  a.sync();
}

TEST(Array, EveryPatchReadsWhatOwnersWrote) {
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored}) {
    sk::Array<double> a(world(), {23, 31}, with(placement));
    set_own(a);
    std::mt19937 random(static_cast<unsigned>(job->rank()));
    for (int turn = 0; turn < 50; ++turn) {
      auto pick = [&](std::int64_t n) {
        std::int64_t x = random() % (n + 1), y = random() % (n + 1);
        return std::pair(std::min(x, y), std::max(x, y));
      };
      const auto [i0, i1] = pick(23);
      const auto [j0, j1] = pick(31);
      const std::int64_t ld = j1 - j0 + 3;
      std::vector<double> out(static_cast<std::size_t>((i1 - i0) * ld + 1), -1);
      if (j1 > j0) a.get({i0, i1, j0, j1}, out.data(), ld);
      for (auto i = i0; i < i1; ++i)
        for (std::int64_t j = j0; j < j0 + ld; ++j) {
          const double expected = j < j1 && j1 > j0 ? value_at(i, j) : -1;
          EXPECT_EQ(out[static_cast<std::size_t>((i - i0) * ld + j - j0)], expected);
        }
    }
    a.sync();
  }
}

TEST(Array, IrregularBlocksServePatchesToo) {
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored}) {
    sk::Array<float> a(world(), {29, 17}, irregular(placement, 29, 17));
    set_own(a);
    expect_all(a);
  }
}

TEST(Array, PutReachesEveryOwner) {
  sk::Array<std::int64_t> a(world(), {12, 12});
  if (job->rank() == job->size() - 1) {
    std::vector<std::int64_t> values(12 * 12);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int64_t>(value_at(i / 12, i % 12));
    a.put({0, 12, 0, 12}, values.data());
  }
  a.sync();
  expect_all(a);
}

TEST(Array, AccumulatesOfAllRanksAddUp) {
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored}) {
    sk::Array<double> a(world(), {40, 9}, with(placement));
    std::vector<double> values(40 * 9);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(i / 9, i % 9);
    for (int turn = 0; turn < 5; ++turn) a.acc({0, 40, 0, 9}, values.data(), 2.0);
    a.sync();
    if (placement == sk::Placement::mirrored) a.merge();
    expect_all(a, 10.0 * job->size());
  }
}

TEST(Array, ElementsAnywhereAreReadWrittenAndAdded) {
  sk::Array<std::int64_t> a(world(), {17, 13});
  std::vector<std::int64_t> indices, values;
  for (std::int64_t k = job->rank(); k < 17 * 13; k += job->size()) {
    indices.insert(indices.end(), {16 - k / 13, k % 13});
    values.push_back(k + 1);
  }
  a.scatter(indices, values.data());
  a.sync();
  const std::int64_t two = 2;
  a.scatter_acc(indices, values.data(), &two);
  a.sync();
  std::vector<std::int64_t> out(values.size());
  a.gather(indices, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], 3 * values[i]);
  indices = {0, 0, 17, 0};
  a.sync();
  EXPECT_THROW(a.scatter(indices, values.data()), sk::Error);
  EXPECT_THROW(a.gather(std::vector<std::int64_t>{1}, out.data()), sk::Error);
  a.sync();
  std::int64_t first = 0;
  a.gather(std::vector<std::int64_t>{0, 0}, &first);
  EXPECT_EQ(first, 3 * (16 * 13 + 1)) << "nothing moves if an index is out of range";
  a.sync();
}

TEST(Array, NonBlockingTransfersAreWaitedForInAnyOrder) {
  sk::Array<std::int32_t> a(world(), {30, 30});
  set_own(a);
  std::vector<std::vector<std::int32_t>> rows(30, std::vector<std::int32_t>(30));
  std::vector<sk::Transfer> transfers;
  for (std::int64_t i = 0; i < 30; ++i)
    transfers.push_back(a.get_nb({i, i + 1, 0, 30}, rows[static_cast<std::size_t>(i)].data()));
  for (std::size_t i = 30; i-- > 0;) {
    transfers[i].wait();
    for (int j = 0; j < 30; ++j)
      EXPECT_EQ(rows[i][static_cast<std::size_t>(j)], static_cast<std::int32_t>(value_at(i, j)));
  }
  a.sync();
  std::vector<std::int32_t> ones(900, 1);
  auto adding = a.acc_nb({0, 30, 0, 30}, ones.data());
  while (!adding.test()) {
  }
  a.sync();
  expect_all(a, 1, job->size());
}

TEST(Array, ReadIncHandsOutEveryNumberOnce) {
  sk::Array<std::int32_t> a(world(), {3, 5});
  std::int64_t sum = 0;
  for (int i = 0; i < 20; ++i) sum += a.read_inc({2, 4});
  const std::int64_t n = 20 * job->size();
  EXPECT_EQ(world().allreduce(sum), n * (n - 1) / 2);
  sk::Counter counter(world(), 5);
  sum = 0;
  for (int i = 0; i < 20; ++i) sum += counter.next() - 5;
  EXPECT_EQ(world().allreduce(sum), n * (n - 1) / 2);
  counter.reset();
  world().sync();
}

TEST(Array, MoreDimensions) {
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored}) {
    sk::Array<double> a(world(), {5, 6, 7, 4}, with(placement));
    const std::int64_t low[] = {1, 0, 2, 1}, high[] = {4, 6, 5, 3};
    const sk::Patch patch(low, high);
    std::vector<double> values(static_cast<std::size_t>(patch.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    const bool writes = placement == sk::Placement::distributed
                            ? job->rank() == 0
                            : job->rank() == job->node_rank(job->node(), 0);
    if (writes) a.put(patch, values.data());
    a.sync();
    std::vector<double> back(values.size());
    a.get(patch, back.data());
    EXPECT_EQ(back, values);
    sk::Array<double> v(world(), {5000}, with(placement));
    v.fill(2.5);
    double two[2];
    v.get({2499, 2501}, two);
    EXPECT_EQ(two[0] + two[1], 5);
    if (placement == sk::Placement::mirrored) {
      a.merge(), v.merge();
      a.get(patch, back.data());
      EXPECT_EQ(back[7], 7.0 * job->nodes());
      v.get({4998, 5000}, two);
      EXPECT_EQ(two[1], 2.5 * job->nodes());
    }
    a.sync();
  }
}

TEST(Array, CopyWorksBetweenAllPlacementsAndDistributions) {
  for (auto from_placement : {sk::Placement::distributed, sk::Placement::mirrored})
    for (auto to_placement : {sk::Placement::distributed, sk::Placement::mirrored})
      for (bool regular : {true, false}) {
        sk::Array<double> from(world(), {37, 70}, with(from_placement));
        sk::Array<double> to(world(), {37, 70},
                             regular ? with(to_placement) : irregular(to_placement, 37, 70));
        set_own(from);
        to.fill(-1);
        to.sync();
        from.copy_to(to);
        expect_all(to);
      }
}

TEST(Array, DistributedToMirroredEqualsZeroLocalCopyAndMerge) {
  sk::Array<double> from(world(), {100, 90}),
      direct(world(), {100, 90}, with(sk::Placement::mirrored)),
      paper(world(), {100, 90}, with(sk::Placement::mirrored));
  set_own(from);
  from.copy_to(direct);
  paper.fill(7);
  paper.zero();
  const auto own = from.local();
  if (own.data) paper.put(own.patch, own.data, own.ld);
  paper.merge();
  expect_all(direct);
  expect_all(paper);
}

TEST(Merge, SumsTheCopiesOfEveryType) {
  auto sums = [](auto element) {
    using T = decltype(element);
    sk::Array<T> a(world(), {150, 133}, with(sk::Placement::mirrored));
    set_own(a, job->node());
    a.merge();
    const int k = job->nodes();
    expect_all(a, k, (k - 1) / 2.0);
  };
  sums(double{});
  if (job->nodes() % 2) sums(std::int64_t{}), sums(std::int32_t{});  // a half would be lost
  sums(float{});
  if (job->nodes() % 2) sums(std::uint64_t{}), sums(std::uint32_t{});
}

template <class T>
void expect_arithmetic(T value) {
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored}) {
    sk::Array<T> a(world(), {17, 13}, with(placement));
    a.fill(value);
    std::vector<T> all(17 * 13);
    a.acc({0, 17, 0, 13}, std::vector<T>(17 * 13, value).data(), T(2));
    a.sync();
    a.scale(T(3));
    a.merge();
    a.get({0, 17, 0, 13}, all.data());
    // Every one of the ranks that share a copy adds two; integers wrap around.
    T expected = value;
    const int adders = placement == sk::Placement::mirrored ? job->node_size(job->node())
                                                            : job->size();
    for (int i = 0; i < adders; ++i) expected = static_cast<T>(expected + value + value);
    expected = static_cast<T>(expected + expected + expected);
    T merged = placement == sk::Placement::mirrored ? T(0) : expected;
    if (placement == sk::Placement::mirrored && job->size() % job->nodes() == 0)
      for (int i = 0; i < job->nodes(); ++i) merged = static_cast<T>(merged + expected);
    else if (placement == sk::Placement::mirrored) merged = all[0];
    for (const T& one : all) EXPECT_EQ(one, merged) << sk::to_string(a.type());
    a.sync();
  }
}

TEST(Types, EveryOneIsStoredAndSummed) {
  expect_arithmetic<std::int8_t>(100);
  expect_arithmetic<std::uint8_t>(200);
  expect_arithmetic<std::int16_t>(-30000);
  expect_arithmetic<std::uint16_t>(65535);
  expect_arithmetic<std::uint32_t>(4000000000u);
  expect_arithmetic<std::uint64_t>(1);
  expect_arithmetic<std::complex<float>>({1, -2});
  expect_arithmetic<std::complex<double>>({0.5, 2});
}

TEST(Types, TruthValuesAreStoredAndNotSummed) {
  sk::Array<bool> a(world(), {9, 40});
  a.fill(true);
  bool row[40] = {};
  a.get({3, 4, 0, 40}, row);
  EXPECT_TRUE(std::all_of(row, row + 40, [](bool one) { return one; }));
  a.sync();
  row[0] = false;
  if (job->rank() == 0) a.put({5, 6, 0, 40}, row);
  a.sync();
  bool one[2] = {true, false};
  a.get({5, 6, 0, 1}, one);
  a.get({5, 6, 1, 2}, one + 1);
  EXPECT_TRUE(!one[0] && one[1]);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { a.acc({0, 9, 0, 40}, row); }, [&] { a.scale(true); }, [&] { a.merge(); },
           [&] { a.read_inc({0, 0}); }}) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const sk::Error& error) {
      EXPECT_EQ(error.code(), SKERRY_ERR_INVALID);
      EXPECT_NE(std::string(error.what()).find("bool"), std::string::npos) << error.what();
    }
  }
}

TEST(Merge, MovesOnlyTilesThatAreNotZero) {
  const auto before = sk::array_counters(world());
  sk::Array<double> a(world(), {640, 640}, with(sk::Placement::mirrored));
  a.merge();
  EXPECT_EQ(sk::array_counters(world())["merge_bytes_moved"], before["merge_bytes_moved"])
      << "a zero array was moved";
  const double one = 1;
  if (job->rank() == 0) a.put({600, 601, 3, 4}, &one);  // on node 0 alone
  a.merge();
  double back = 0, near = 1;
  a.get({600, 601, 3, 4}, &back);
  a.get({601, 602, 3, 4}, &near);
  EXPECT_EQ(back, 1);
  EXPECT_EQ(near, 0);
  const auto after = sk::array_counters(world());
  const auto moved = world().allreduce(
      static_cast<std::int64_t>(after["merge_bytes_moved"] - before["merge_bytes_moved"]));
  EXPECT_EQ(moved, (job->nodes() - 1) * 32 * 32 * 8);
}

TEST(Merge, FullArrayMovesNoMoreThanReduceScatterAndAllgather) {
  const auto before = sk::array_counters(world());
  sk::Array<double> a(world(), {512, 256}, with(sk::Placement::mirrored));
  a.fill(1);
  a.merge();
  const auto after = sk::array_counters(world());
  const auto moved = world().allreduce(
      static_cast<std::int64_t>(after["merge_bytes_moved"] - before["merge_bytes_moved"]));
  EXPECT_EQ(moved, 2 * (job->nodes() - 1) * 512 * 256 * 8);
  EXPECT_EQ(after["merge_bytes_skipped"], before["merge_bytes_skipped"]);
}

TEST(Merge, CopiesAgreeToTheBit) {
  sk::Array<double> a(world(), {200, 200}, with(sk::Placement::mirrored));
  std::mt19937_64 random(static_cast<std::uint64_t>(job->rank()) + 1);
  const auto own = a.local();
  for (std::int64_t i = 0; i < own.patch.elements(); ++i)
    own.data[i] = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 60));
  a.merge();
  std::vector<double> all(200 * 200);
  a.get({0, 200, 0, 200}, all.data());
  std::uint64_t hash = 0;
  for (double x : all) {
    std::uint64_t bits;
    std::memcpy(&bits, &x, 8);
    hash = hash * 31 + bits;
  }
  for (auto other : world().allgather(hash)) EXPECT_EQ(other, hash);
}

TEST(Matmul, AgreesWithTheDefinition) {
  const std::int64_t m = 45, n = 38, k = 61;
  auto left = [](std::int64_t i, std::int64_t l) {
    return std::sin(static_cast<double>(i * 7 + l));
  };
  auto right = [](std::int64_t l, std::int64_t j) {
    return std::cos(static_cast<double>(l * 3 - j));
  };
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored})
    for (auto out_placement : {sk::Placement::distributed, sk::Placement::mirrored})
      for (bool trans_a : {false, true})
        for (bool trans_b : {false, true}) {
          sk::Array<double> a(world(), {trans_a ? k : m, trans_a ? m : k}, with(placement));
          sk::Array<double> b(world(), {trans_b ? n : k, trans_b ? k : n},
                              irregular(placement, trans_b ? n : k, trans_b ? k : n));
          sk::Array<double> c(world(), {m, n}, with(out_placement));
          auto set = [](const sk::Array<double>& array, auto f, bool transposed) {
            const auto own = array.local();
            for (auto i = own.patch.lo[0]; i < own.patch.hi[0]; ++i)
              for (auto j = own.patch.lo[1]; j < own.patch.hi[1]; ++j)
                own.data[(i - own.patch.lo[0]) * own.ld + j - own.patch.lo[1]] = transposed
                                                                                     ? f(j, i)
                                                                                     : f(i, j);
            array.sync();
          };
          set(a, left, trans_a);
          set(b, right, trans_b);
          c.fill(3);
          sk::matmul(a, b, c, 0.5, 2.0, trans_a, trans_b);
          std::vector<double> got(static_cast<std::size_t>(m * n));
          c.get({0, m, 0, n}, got.data());
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (std::int64_t l = 0; l < k; ++l) sum += left(i, l) * right(l, j);
              EXPECT_NEAR(got[static_cast<std::size_t>(i * n + j)], 0.5 * sum + 6, 1e-12);
            }
          c.sync();
        }
}

TEST(Queries, DistributionAndLocateAgree) {
  for (auto placement : {sk::Placement::distributed, sk::Placement::mirrored}) {
    sk::Array<double> a(world(), {19, 11}, with(placement));
    std::int64_t elements = 0;
    for (int rank = 0; rank < job->size(); ++rank) {
      const sk::Patch block = a.distribution(rank);
      elements += block.elements();
      if (block.empty() || (placement == sk::Placement::mirrored && !job->same_node(rank)))
        continue;
      const std::int64_t corner[] = {block.lo[0], block.lo[1]};
      EXPECT_EQ(a.locate(corner), rank);
    }
    EXPECT_EQ(elements, 19 * 11 * (placement == sk::Placement::mirrored ? job->nodes() : 1));
    std::int64_t held = 0;
    for (const auto& holder : a.locate(sk::Patch(3, 17, 2, 9))) {
      held += holder.patch.elements();
      if (placement == sk::Placement::mirrored) EXPECT_TRUE(job->same_node(holder.rank));
    }
    EXPECT_EQ(held, 14 * 7);
    EXPECT_EQ(a.local().patch, a.distribution(job->rank()));
  }
}

template <class Fn>
void expect_error(int code, const std::string& part, Fn&& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error that says: " << part;
  } catch (const sk::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Errors, NameTheValueAndTheRemedy) {
  sk::Array<double> a(world(), {10, 10});
  double x = 0;
  expect_error(SKERRY_ERR_RANGE, "[3:12, 0:5]", [&] { a.get({3, 12, 0, 5}, &x); });
  expect_error(SKERRY_ERR_RANGE, "[-1:2, 0:5]", [&] { a.put({-1, 2, 0, 5}, &x); });
  expect_error(SKERRY_ERR_RANGE, "[5:2, 0:5]", [&] { a.acc({5, 2, 0, 5}, &x); });
  expect_error(SKERRY_ERR_RANGE, "1 dimensions", [&] { a.get({0, 1}, &x); });
  expect_error(SKERRY_ERR_INVALID, "needs int32 or int64", [&] { a.read_inc({0, 0}); });
  expect_error(SKERRY_ERR_INVALID, "negative: -4", [&] { sk::Array<double>(world(), {-4, 2}); });
  sk::Array<float> f(world(), {10, 10});
  expect_error(SKERRY_ERR_INVALID, "float64 (10, 10) to float32 (10, 10)", [&] { a.copy_to(f); });
  expect_error(SKERRY_ERR_INVALID, "one type", [&] { sk::matmul(a, f, a); });
  a.free();
  expect_error(SKERRY_ERR_FREED, "freed", [&] { a.get({0, 1, 0, 1}, &x); });
  expect_error(SKERRY_ERR_FREED, "freed", [&] { a.free(); });
}

TEST(Errors, TooMuchMemoryIsTheSameErrorEverywhere) {
  expect_error(SKERRY_ERR_NO_MEMORY, "",
               [&] { sk::Array<double>(world(), {std::int64_t{1} << 25, std::int64_t{1} << 25}); });
  sk::Array<double> still_works(world(), {10, 10});
  still_works.fill(1);
}

TEST(Errors, MembersThatDisagreeAllLearnOfIt) {
  if (job->size() == 1) return;  // one rank agrees with itself
  expect_error(SKERRY_ERR_INVALID, "different arrays",
               [&] { sk::Array<double>(world(), {10, 10 + job->rank()}); });
  try {
    sk::Array<double> refused(world(), {10, job->rank() ? 10 : -1});
    ADD_FAILURE() << "one member's shape is negative";
  } catch (const sk::Error& error) {
    EXPECT_EQ(error.code(), SKERRY_ERR_INVALID);
  }
}

// A read sees what was there at the last refresh, of any writer, and everything after the
// next one. The shapes leave partial tiles at the ends, and ranks without a block.
TEST(Mirrors, ReadWhatWasThereAtTheLastRefresh) {
  for (const std::int64_t rows : {1, 700}) {
    sk::Array<double> a(world(), {rows, 130});
    set_own(a);
    sk::Mirror m(a);
    const auto expect = [&](double offset, const char* when) {
      std::vector<double> row(130);
      for (std::int64_t i = job->rank() % rows; i < rows; i += 97) {
        m.get({i, i + 1, 0, 130}, row.data());
        EXPECT_EQ(row[0], value_at(i, 0) + offset) << when << ", row " << i;
        EXPECT_EQ(row[129], value_at(i, 129) + offset) << when << ", row " << i;
      }
    };
    expect(0, "new");
    set_own(a, 0.5);
    expect(0, "written, not refreshed");
    m.refresh();
    expect(0.5, "refreshed");
    m.refresh();
    expect(0.5, "refreshed again");
    double x;
    expect_error(SKERRY_ERR_RANGE, "", [&] { m.get({rows, rows + 1, 0, 1}, &x); });
    a.free();
    expect(0.5, "its array was freed");
    expect_error(SKERRY_ERR_FREED, "freed", [&] { m.refresh(); });
    m.free();
    expect_error(SKERRY_ERR_FREED, "freed", [&] { m.get({0, 1, 0, 1}, &x); });
  }
  sk::Array<double> copies(world(), {4, 4}, with(sk::Placement::mirrored));
  expect_error(SKERRY_ERR_INVALID, "distributed", [&] { sk::Mirror refused(copies); });
}

// How often all members together drew each element of a matrix.
void expect_once(sk::Tasks& tasks, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(rows * columns));
  while (const auto tile = tasks.next())
    for (auto i = tile->lo[0]; i < tile->hi[0]; ++i)
      for (auto j = tile->lo[1]; j < std::max<std::int64_t>(1, tile->hi[1]); ++j)
        ++drawn[static_cast<std::size_t>(i * columns + j)];
  world().allreduce(std::span<std::int64_t>(drawn));
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), 1), rows * columns);
  EXPECT_EQ(tasks.drawn(), tasks.size());
  EXPECT_FALSE(tasks.next());
}

TEST(Tasks, EachTileGoesToOneMemberOnce) {
  for (const auto placement : {sk::Placement::distributed, sk::Placement::mirrored})
    for (const auto& [rows, columns] : {std::pair{40, 33}, {1, 1}, {3, 200}}) {
      sk::Array<double> a(world(), {rows, columns}, with(placement));
      sk::Tasks tasks(a);
      expect_once(tasks, rows, columns);
      const std::int64_t edges[] = {3, 5};
      sk::Tasks small(a, edges);
      EXPECT_GE(small.size(), (rows + 2) / 3 * ((columns + 4) / 5));
      expect_once(small, rows, columns);
    }
  for (const std::int64_t count : {0, 1, 100}) {
    sk::Tasks numbers(world(), count);
    EXPECT_EQ(numbers.size(), count);
    expect_once(numbers, count, 1);
  }
}

TEST(Tasks, OwnTilesComeFirst) {
  sk::Array<double> a(world(), {64, 64});
  sk::Tasks tasks(a);
  world().barrier();
  bool others = false;
  while (const auto tile = tasks.next()) {
    const bool own = a.locate(*tile)[0].rank == job->rank();
    EXPECT_FALSE(own && others) << "an own tile after another's";
    others |= !own;
  }
  world().sync();
}

TEST(Tasks, BadInputIsAnErrorOnAll) {
  sk::Array<double> a(world(), {8, 8});
  const std::int64_t edges[] = {3, 0};
  expect_error(SKERRY_ERR_INVALID, "edge", [&] { sk::Tasks refused(a, edges); });
  expect_error(SKERRY_ERR_INVALID, "negative", [&] { sk::Tasks refused(world(), -1); });
  if (job->size() > 1)
    expect_error(SKERRY_ERR_INVALID, "different", [&] { sk::Tasks refused(world(), job->rank()); });
}

TEST(Groups, ArraysOfASubgroupLeaveOthersAlone) {
  sk::Group half = world().split(job->rank() % 2, -job->rank());
  {
    sk::Array<double> a(half, {20, 20}), m(half, {20, 20}, with(sk::Placement::mirrored));
    set_own(a, job->rank() % 2);
    a.copy_to(m);
    expect_all(m, 1, job->rank() % 2);
    m.merge();
  }
  half.free();
  world().sync();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  sk::Job joined;
  job = &joined;
  const int failed = RUN_ALL_TESTS();
  return joined.world().allreduce(failed, sk::Reduction::max);
}
