#include "memory/apply.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "memory/test/naive.hpp"

namespace skerry::memory {
namespace {

// A page-aligned slice with a stripe table, as apply sees it.
class Node {
 public:
  explicit Node(uint64_t bytes)
      : table_(std::make_unique<Stripe[]>(stripe_count)), storage_(bytes + page_bytes) {
    const auto start = reinterpret_cast<uintptr_t>(storage_.data());
    region.base = storage_.data() + (round_up(start, page_bytes) - start);
    region.bytes = bytes;
    region.seed = stripe_seed(SegmentId{3, 7}, 5);
  }
  Stripes stripes(uint32_t owner) { return Stripes(table_.get(), owner, {}); }
  Stripe* table() { return table_.get(); }

  Region region;

 private:
  std::unique_ptr<Stripe[]> table_;
  std::vector<std::byte> storage_;
};

// But for long double, whose padding may hold anything: it has a test of its own.
constexpr ElementType all_types[] = {
    ElementType::int32,   ElementType::int64,         ElementType::float32,
    ElementType::int8,    ElementType::uint8,         ElementType::int16,
    ElementType::uint16,  ElementType::uint32,        ElementType::uint64,
    ElementType::float64, ElementType::complex_float, ElementType::complex_double};
constexpr size_t types_that_go_alone = 10;  // the first of them

template <class Random>
Operation random_operation(ElementType type, Random& random) {
  for (;;) {
    const auto operation = static_cast<Operation>(random() % operations);
    if (has_operation(type, operation)) return operation;
  }
}

// Small whole numbers: sums and products of them are exact in every type, so that results compare
// bit by bit in any order.
template <class Random>
void fill_with_numbers(ElementType type, std::byte* to, uint64_t bytes, Random& random) {
  const uint64_t part = part_bytes(type);
  for (uint64_t at = 0; at + part <= bytes; at += part) {
    const int number = static_cast<int>(random() % 9) - 4;
    const auto store = [&](auto value) { std::memcpy(to + at, &value, sizeof value); };
    switch (type) {
      case ElementType::int8:
      case ElementType::uint8: store(static_cast<int8_t>(number)); break;
      case ElementType::int16:
      case ElementType::uint16: store(static_cast<int16_t>(number)); break;
      case ElementType::int32:
      case ElementType::uint32: store(int32_t{number}); break;
      case ElementType::int64:
      case ElementType::uint64: store(int64_t{number}); break;
      case ElementType::long_double: store(static_cast<long double>(number)); break;
      case ElementType::float32:
      case ElementType::complex_float: store(static_cast<float>(number)); break;
      case ElementType::float64:
      case ElementType::complex_double: store(static_cast<double>(number)); break;
    }
  }
}

// Random shapes of both sides whose bytes stay within `bytes` from the returned offsets, none
// overlapping itself.
struct Transfer {
  Shape target;
  Shape origin;
  uint64_t target_offset;
  uint64_t origin_offset;
};

template <class Random>
Transfer random_transfer(uint64_t unit, uint64_t limit, Random& random) {
  static constexpr uint64_t blocks[] = {1, 2, 3, 4, 8, 16, 17};
  for (;;) {
    Transfer transfer{};
    Shape& a = transfer.target;
    Shape& b = transfer.origin;
    a.block_bytes = b.block_bytes = unit * blocks[random() % std::size(blocks)] *
                                    (random() % 4 == 0 ? 40 : 1);
    a.levels = b.levels = static_cast<int32_t>(random() % 5);
    uint64_t reach[2] = {a.block_bytes, b.block_bytes};
    for (int32_t k = 0; k < a.levels; ++k) {
      a.count[k] = b.count[k] = random() % 5 + (random() % 8 != 0);
      Shape* sides[2] = {&a, &b};
      for (int side = 0; side < 2; ++side) {
        const uint64_t gap = random() % 2 == 0 ? 0 : unit * (random() % 10);
        const auto step = static_cast<int64_t>(reach[side] + gap);
        sides[side]->stride[k] = random() % 4 == 0 ? -step : step;
        reach[side] = static_cast<uint64_t>(step) * std::max<uint64_t>(a.count[k], 1);
      }
    }
    int64_t low = 0;
    int64_t high = 0;
    if (!extent(a, &low, &high) || static_cast<uint64_t>(high - low) + unit > limit) continue;
    transfer.target_offset = static_cast<uint64_t>(-low) +
                             unit *
                                 (random() % ((limit - static_cast<uint64_t>(high - low)) / unit));
    if (!extent(b, &low, &high) || static_cast<uint64_t>(high - low) + unit > limit) continue;
    transfer.origin_offset = static_cast<uint64_t>(-low) +
                             random() % (limit - static_cast<uint64_t>(high - low));
    return transfer;
  }
}

// Every second one is one. `value` gets its 16 bytes.
Scale random_scale(ElementType type, std::byte* value, std::mt19937_64& random) {
  fill_with_numbers(type, value, 16, random);
  if (random() % 2 != 0) return Scale::of(type, value);
  std::memset(value, 0, 16);
  const auto one = [&](auto number) { std::memcpy(value, &number, sizeof number); };
  if (is_integer(type)) one(uint64_t{1});
  if (type == ElementType::float32 || type == ElementType::complex_float) one(1.0F);
  if (type == ElementType::float64 || type == ElementType::complex_double) one(1.0);
  EXPECT_TRUE(Scale::of(type, value).is_one);
  return Scale::one();
}

class ApplyOracle : public ::testing::TestWithParam<int> {};

// Every operation on the fast paths (direct, and through the packed stream in random chunks) and on
// the reference; memory must agree.
TEST_P(ApplyOracle, AgreesWithTheReferenceOnRandomStreams) {
  constexpr uint64_t slice_bytes = 40'000;  // ten stripes
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const ElementType type = all_types[random() % std::size(all_types)];
  const uint64_t unit = element_bytes(type);
  Node node(slice_bytes);
  const Stripes stripes = node.stripes(0);
  naive::Slice reference(slice_bytes);
  std::vector<std::byte> origin(slice_bytes);
  std::vector<std::byte> expected(slice_bytes);

#if defined(__SANITIZE_THREAD__)
  constexpr int steps = 60;  // one thread: nothing new for this sanitizer
#else
  constexpr int steps = 300;
#endif
  for (int step = 0; step < steps; ++step) {
    Transfer t = random_transfer(unit, slice_bytes, random);
    if (part_bytes(type) != unit && random() % 2 == 0 &&
        within(t.target, t.target_offset + unit / 2, slice_bytes)) {
      t.target_offset += unit / 2;  // complex elements need the alignment of their part only
    }
    uint64_t total = 0;
    ASSERT_TRUE(stream_bytes(t.target, &total));
    fill_with_numbers(type, origin.data() + t.origin_offset % part_bytes(type), slice_bytes - unit,
                      random);
    expected = origin;
    std::vector<std::byte> stream(total);
    Cursor target_cursor(t.target);
    Cursor origin_cursor(t.origin);
    const bool packed = random() % 2 == 0;
    const auto chunk = [&](uint64_t left) {
      return std::min<uint64_t>(left, unit * (1 + random() % 300));
    };
    std::byte* target_first = node.region.base + t.target_offset;
    std::byte* origin_first = origin.data() + t.origin_offset;

    switch (random() % 3) {
      case 0:  // put
        reference.put(t.target_offset, t.target, origin_first, t.origin);
        if (!packed) {
          put_strided(target_first, t.target, origin_first, t.origin);
          break;
        }
        origin_cursor.pack(stream, origin_first);
        while (!target_cursor.at_end()) {
          if (random() % 3 == 0) target_cursor.seek(target_cursor.position());  // resumed elsewhere
          const uint64_t bytes = std::min<uint64_t>(total - target_cursor.position(),
                                                    1 + random() % 2000);
          target_cursor.unpack(target_first,
                               std::span(stream).subspan(target_cursor.position(), bytes));
        }
        break;
      case 1:  // get
        reference.get(t.target_offset, t.target, expected.data() + t.origin_offset, t.origin);
        if (!packed) {
          get_strided(origin_first, t.origin, target_first, t.target);
        } else {
          while (!target_cursor.at_end()) {
            const uint64_t bytes = std::min<uint64_t>(total - target_cursor.position(),
                                                      1 + random() % 2000);
            target_cursor.pack(std::span(stream).subspan(target_cursor.position(), bytes),
                               target_first);
          }
          origin_cursor.unpack(origin_first, stream);
        }
        ASSERT_EQ(origin, expected) << "get, seed " << GetParam() << " step " << step;
        break;
      default: {  // accumulate, or another operation
        Update what;
        what.type = type;
        if (random() % 2 == 0) what.operation = random_operation(type, random);
        std::vector<std::byte> old(total), old_expected(total);
        std::byte* const fetched = random() % 2 == 0 ? nullptr : old.data();
        alignas(16) std::byte scale_value[16];
        const Scale scale = random_scale(type, scale_value, random);
        what.scale = what.operation == Operation::sum ? scale : Scale::one();
        reference.accumulate(t.target_offset, t.target, origin_first, t.origin, what, scale_value,
                             fetched == nullptr ? nullptr : old_expected.data());
        if (!packed && fetched == nullptr) {
          const Applied applied = accumulate_strided(node.region, t.target_offset, t.target,
                                                     origin_first, t.origin, what, stripes);
          ASSERT_EQ(applied.result, LockResult::locked);
          ASSERT_EQ(applied.bytes, total);
          break;
        }
        origin_cursor.pack(stream, origin_first);
        while (!target_cursor.at_end()) {
          const uint64_t at = target_cursor.position();
          const uint64_t bytes = chunk(total - at);
          // Now and then another owner holds the stripe of some byte: the server parks and resumes.
          const uint32_t blocked = static_cast<uint32_t>(random() % stripe_count);
          const bool block = random() % 2 == 0;
          const uint32_t victim = block ? stripe_index(node.region.seed, random() % slice_bytes)
                                        : blocked;
          if (block) {
            ASSERT_TRUE(node.table()[victim].word.try_lock(9));
          }
          const Applied applied = target_cursor.accumulate(
              node.region, t.target_offset, std::span(stream).subspan(at, bytes), what, stripes,
              Patience::try_once, fetched == nullptr ? nullptr : fetched + at);
          if (block) (void)node.table()[victim].word.release();
          ASSERT_EQ(target_cursor.position(), at + applied.bytes);
          ASSERT_EQ(applied.bytes % unit, 0u);
          if (applied.result == LockResult::locked) {
            ASSERT_EQ(applied.bytes, bytes);
          } else {
            ASSERT_EQ(applied.result, LockResult::busy);
            ASSERT_TRUE(block);
            ASSERT_EQ(applied.stripe, victim);
          }
        }
        if (fetched != nullptr) {
          ASSERT_EQ(old, old_expected) << "old elements, seed " << GetParam() << " step " << step;
        }
      }
    }
    ASSERT_TRUE(std::equal(reference.memory().begin(), reference.memory().end(), node.region.base))
        << "seed " << GetParam() << " step " << step;
  }
  for (uint32_t i = 0; i < stripe_count; ++i)
    ASSERT_EQ(node.table()[i].word.value.load(), 0u) << "a stripe was left locked";
}
INSTANTIATE_TEST_SUITE_P(Seeds, ApplyOracle, ::testing::Range(1, 25));

TEST(Apply, VectorCursorWalksPieces) {
  std::vector<std::byte> memory(1000);
  std::mt19937 random(1);
  for (std::byte& b : memory) b = static_cast<std::byte>(random());
  const std::vector<Piece> pieces{{500, 3}, {0, 0}, {10, 100}, {900, 0}, {700, 8}};
  Cursor cursor{std::span<const Piece>(pieces)};
  ASSERT_EQ(cursor.total_bytes(), 111u);
  std::vector<std::byte> stream(111);
  for (uint64_t at = 0; at < 111; at += 7)
    cursor.pack(std::span(stream).subspan(at, std::min<uint64_t>(7, 111 - at)), memory.data());
  EXPECT_TRUE(cursor.at_end());
  std::vector<std::byte> expected;
  for (const Piece& piece : pieces) {
    for (uint64_t i = 0; i < piece.bytes; ++i) expected.push_back(memory[piece.offset + i]);
  }
  EXPECT_EQ(stream, expected);
  std::vector<std::byte> copy(1000);
  cursor.seek(0);
  cursor.unpack(copy.data(), stream);
  for (const Piece& piece : pieces) {
    EXPECT_TRUE(std::equal(&memory[piece.offset], &memory[piece.offset] + piece.bytes,
                           &copy[piece.offset]));
  }
  cursor.seek(50);
  std::vector<std::byte> rest(61);
  cursor.pack(rest, memory.data());
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 50));
  Cursor none{std::span<const Piece>()};
  EXPECT_TRUE(none.at_end());
}

TEST(Apply, CopiesThatSeemToOverlapAreWhole) {
  std::vector<std::byte> memory(3 * 65536), expected(65536);
  std::byte* const page = memory.data() +
                          (4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096);
  std::mt19937 random(3);
  for (const uint64_t bytes : {2047u, 2048u, 2049u, 2112u, 4096u, 5000u, 16384u, 40000u}) {
    for (const uint64_t shift : {0u, 1u, 16u, 63u, 64u, 4095u}) {
      for (uint64_t i = 0; i < bytes; ++i) page[i] = expected[i] = static_cast<std::byte>(random());
      std::byte* const to = page + 16 * 4096 + shift;
      to[bytes] = to[-1] = std::byte{7};
      get(to, page, bytes);
      EXPECT_TRUE(std::equal(to, to + bytes, expected.begin())) << bytes << " " << shift;
      EXPECT_TRUE(to[bytes] == std::byte{7} && to[-1] == std::byte{7});
    }
  }
}

TEST(Apply, GatherNamesWhatPackCopies) {
  std::vector<std::byte> memory(4000);
  std::mt19937 random(5);
  for (std::byte& b : memory) b = static_cast<std::byte>(random());
  Shape shape;
  shape.block_bytes = 10;
  shape.levels = 2;
  shape.count[0] = 5, shape.stride[0] = -30;
  shape.count[1] = 4, shape.stride[1] = 200;
  std::vector<std::byte> packed(200);
  Cursor(shape).pack(packed, memory.data() + 1000);
  for (const uint64_t from : {0u, 7u, 10u, 55u}) {
    Cursor cursor(shape);
    cursor.seek(from);
    std::vector<std::span<const std::byte>> parts;
    ASSERT_TRUE(cursor.gather(memory.data() + 1000, 200 - from, 20, &parts));
    std::vector<std::byte> joined;
    for (const auto& part : parts) joined.insert(joined.end(), part.begin(), part.end());
    EXPECT_TRUE(std::equal(joined.begin(), joined.end(),
                           packed.begin() + static_cast<std::ptrdiff_t>(from), packed.end()))
        << from;
  }
  std::vector<std::span<const std::byte>> few;
  EXPECT_FALSE(Cursor(shape).gather(memory.data() + 1000, 200, 19, &few));
}

TEST(Apply, OneElementIsChangedLikeMany) {
  std::mt19937 random(6);
  Node one(512), many(512);
  const Stripes here = one.stripes(0), there = many.stripes(0);
  for (int step = 0; step < 5000; ++step) {
    Update what;
    what.type = all_types[random() % types_that_go_alone];
    what.operation = random_operation(what.type, random);
    const uint64_t bytes = element_bytes(what.type), offset = random() % (512 / bytes) * bytes;
    alignas(16) std::byte numbers[2][16], old[2][16] = {};
    for (auto& number : numbers) fill_with_numbers(what.type, number, 16, random);
    fill_with_numbers(what.type, one.region.base + offset, bytes, random);
    std::memcpy(many.region.base + offset, one.region.base + offset, bytes);
    const bool is_sum = what.operation == Operation::sum, fetches = !is_sum && random() % 2 == 0;
    const void* const scale = random() % 3 == 0 ? nullptr : numbers[1];
    if (is_sum) what.scale = Scale::of(what.type, scale);
    ASSERT_EQ(is_sum ? accumulate_one(one.region, offset, numbers[0], what.type, scale, here)
                     : update_one(one.region, offset, numbers[0], what.type, what.operation,
                                  fetches ? old[0] : nullptr, here),
              LockResult::locked);
    ASSERT_EQ(accumulate(many.region, offset, numbers[0], bytes, what, there, Patience::wait,
                         fetches ? old[1] : nullptr)
                  .bytes,
              bytes);
    ASSERT_EQ(std::memcmp(one.region.base, many.region.base, 512), 0)
        << to_string(what.type) << " " << to_string(what.operation) << " " << step;
    ASSERT_EQ(std::memcmp(old[0], old[1], 16), 0) << step;
  }
}

TEST(Apply, LongDoublesAreElementsOfSixteenBytes) {
  constexpr size_t count = 600;  // more than two stripes
  Node node(count * 16);
  const Stripes stripes = node.stripes(0);
  auto* const values = reinterpret_cast<long double*>(node.region.base);
  std::vector<long double> origin(count), old(count), expected(count);
  std::mt19937 random(7);
  for (const Operation operation : {Operation::sum, Operation::product, Operation::min,
                                    Operation::max, Operation::replace, Operation::no_op}) {
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<long double>(random() % 9) - 4;
      origin[i] = static_cast<long double>(random() % 9) - 4;
    }
    Update what;
    what.type = ElementType::long_double;
    what.operation = operation;
    long double three = 3;
    if (operation == Operation::sum) what.scale = Scale::of(what.type, &three);
    const std::vector<long double> before(values, values + count);
    ASSERT_EQ(
        accumulate(node.region, 0, reinterpret_cast<const std::byte*>(origin.data()), count * 16,
                   what, stripes, Patience::wait, reinterpret_cast<std::byte*>(old.data()))
            .bytes,
        count * 16);
    EXPECT_EQ(old, before);
    for (size_t i = 0; i < count; ++i) {
      long double wanted = before[i];
      if (operation == Operation::sum) wanted += 3 * origin[i];
      if (operation == Operation::product) wanted *= origin[i];
      if (operation == Operation::min) wanted = std::min(wanted, origin[i]);
      if (operation == Operation::max) wanted = std::max(wanted, origin[i]);
      if (operation == Operation::replace) wanted = origin[i];
      ASSERT_EQ(values[i], wanted) << to_string(operation) << " " << i;
    }
  }
}

// Complex doubles at the alignment of their part, so that some straddle two stripes: every thread
// replaces them by two equal halves, and fetches no element of two different ones.
TEST(Apply, FetchedElementsAreWhole) {
  constexpr uint64_t elements = 300;
  Node node(elements * 16 + 16);
  constexpr int rounds = 200;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const Stripes stripes = node.stripes(t);
      std::vector<double> mine(elements * 2), old(elements * 2);
      for (int i = 0; i < rounds; ++i) {
        std::fill(mine.begin(), mine.end(), t * 1000 + i);
        Update what{ElementType::complex_double, Scale::one(), Operation::replace};
        if (t == 2) what.operation = Operation::no_op;
        ASSERT_EQ(accumulate(node.region, 8, reinterpret_cast<const std::byte*>(mine.data()),
                             elements * 16, what, stripes, Patience::wait,
                             reinterpret_cast<std::byte*>(old.data()))
                      .result,
                  LockResult::locked);
        for (uint64_t k = 0; k < elements; ++k) ASSERT_EQ(old[2 * k], old[2 * k + 1]) << k;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A rank and an address in one update of bytes: a fetch gets both of one writer, also
// where two stripes meet. Once only the part in one stripe was changed at a time.
TEST(Apply, ShortBlocksAreWhole) {
  constexpr uint64_t words = whole_bytes / 8;
  Node node(2 * stripe_bytes);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const Stripes stripes = node.stripes(t);
      std::vector<uint64_t> mine(words), old(words);
      for (uint64_t i = 0; i < 20000; ++i) {
        std::fill(mine.begin(), mine.end(), t * 0x10101010101 + i * 0x1000001000001);
        Update what{ElementType::uint8, Scale::one(), Operation::replace};
        if (t == 2) what.operation = Operation::no_op;
        ASSERT_EQ(accumulate(node.region, stripe_bytes - 8,
                             reinterpret_cast<const std::byte*>(mine.data()), whole_bytes, what,
                             stripes, Patience::wait, reinterpret_cast<std::byte*>(old.data()))
                      .result,
                  LockResult::locked);
        for (uint64_t k = 1; k < words; ++k) ASSERT_EQ(old[k], old[0]) << k;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Apply, ReadModifyWriteAgreesWithTheReference) {
  std::mt19937_64 random(4);
  Node node(256);
  naive::Slice reference(256);
  const Stripes stripes = node.stripes(0);
  for (int step = 0; step < 2000; ++step) {
    Rmw what{};
    what.op = static_cast<RmwOp>(random() % 3);
    what.word_bytes = random() % 2 == 0 ? 4 : 8;
    what.operand = random() % 4 == 0 ? random() : random() % 3;
    what.expected = random() % 3;
    const uint64_t offset = random() % (256 / what.word_bytes) * what.word_bytes;
    uint64_t old = 0;
    ASSERT_EQ(rmw(node.region, offset, what, stripes, Patience::try_once, &old),
              LockResult::locked);
    ASSERT_EQ(old, reference.rmw(offset, what));
    ASSERT_TRUE(std::equal(reference.memory().begin(), reference.memory().end(), node.region.base))
        << step;
  }
}

TEST(Apply, AccumulateAndReadModifyWriteFromManyThreadsLoseNothing) {
  // Complex doubles at the alignment of their part, so that one in 256 straddles two stripes; and
  // counters between them.
  constexpr uint64_t bytes = 3 * stripe_bytes;
  Node node(bytes);
  constexpr int rounds = 200;
  const uint64_t elements = (bytes - 32) / 16;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Stripes stripes = node.stripes(t);
      std::vector<double> ones(elements * 2, 1.0);
      const double two[2] = {2.0, 0.0};
      const Scale scale = t % 2 == 0 ? Scale::one() : Scale::of(ElementType::complex_double, two);
      for (int i = 0; i < rounds; ++i) {
        const Applied applied = accumulate(
            node.region, 8, reinterpret_cast<const std::byte*>(ones.data()), elements * 16,
            {ElementType::complex_double, scale}, stripes, Patience::wait);
        ASSERT_EQ(applied.result, LockResult::locked);
        uint64_t old = 0;
        for (const uint64_t offset : {uint64_t{0}, bytes - 8}) {
          ASSERT_EQ(
              rmw(node.region, offset, {RmwOp::fetch_add, 8, 1, 0}, stripes, Patience::wait, &old),
              LockResult::locked);
        }
        uint64_t seen = 0;
        get(&seen, node.region.base, 8);  // polls the counter without a stripe
        ASSERT_GE(seen, static_cast<uint64_t>(i + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto* values = reinterpret_cast<const double*>(node.region.base + 8);
  for (uint64_t i = 0; i < elements * 2; ++i) ASSERT_EQ(values[i], 6.0 * rounds) << i;
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(node.region.base), 4u * rounds);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(node.region.base + bytes - 8), 4u * rounds);
}

TEST(Apply, AlignedWordsDoNotTearAndFlagsPublishData) {
  Node node(64);
  std::byte* flag = node.region.base;
  std::byte* data = node.region.base + 16;
  std::thread origin([&] {
    for (uint64_t i = 1; i <= 20'000; ++i) {
      const uint64_t both[3] = {i, i, i};
      put(data, both, sizeof both);
      const uint64_t pattern = i << 32 | i;
      put(flag, &pattern, 8);
    }
  });
  uint64_t last = 0;
  while (last < 20'000) {
    uint64_t pattern = 0;
    get(&pattern, flag, 8);
    ASSERT_EQ(pattern >> 32, pattern & 0xffff'ffff) << "torn";
    const uint64_t now = pattern >> 32;
    ASSERT_GE(now, last);
    last = now;
    uint64_t first = 0;
    get(&first, data, 8);
    ASSERT_GE(first, now) << "the flag was visible before the data";
  }
  origin.join();
}

TEST(Stripe, SeedsSpreadRanksAndSegments) {
  // Neighbouring ranks' slices and neighbouring segments start at different stripes (a fixed
  // function: checked once and for all).
  std::vector<uint32_t> starts;
  for (Rank rank = 0; rank < 16; ++rank) {
    for (uint32_t generation = 1; generation <= 4; ++generation)
      starts.push_back(stripe_index(stripe_seed({0, generation}, rank), 0));
  }
  std::sort(starts.begin(), starts.end());
  const auto distinct = std::unique(starts.begin(), starts.end()) - starts.begin();
  EXPECT_GE(distinct, 56);
}

}  // namespace
}  // namespace skerry::memory
