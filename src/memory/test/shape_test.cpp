#include "core/pure/shape.hpp"

#include <gtest/gtest.h>

namespace skerry {
namespace {

Shape shape_of(uint64_t block_bytes, std::initializer_list<std::pair<uint64_t, int64_t>> levels) {
  Shape shape = Shape::contiguous(block_bytes);
  for (const auto& [count, stride] : levels) {
    shape.count[shape.levels] = count;
    shape.stride[shape.levels] = stride;
    ++shape.levels;
  }
  return shape;
}

// The same blocks laid end to end: the shape of the packed stream.
Shape dense(const Shape& shape) {
  Shape out = shape;
  uint64_t run_bytes = shape.block_bytes;
  for (int32_t k = 0; k < shape.levels; ++k) {
    out.stride[k] = static_cast<int64_t>(run_bytes);
    run_bytes *= shape.count[k];
  }
  return out;
}

TEST(Shape, KnowsItsStreamAndExtent) {
  const Shape shape = shape_of(8, {{4, 100}, {3, -1000}});
  uint64_t bytes = 0;
  int64_t low = 0;
  int64_t high = 0;
  ASSERT_TRUE(stream_bytes(shape, &bytes));
  ASSERT_TRUE(extent(shape, &low, &high));
  EXPECT_EQ(bytes, 96u);
  EXPECT_EQ(low, -2000);
  EXPECT_EQ(high, 308);
  EXPECT_TRUE(within(shape, 2000, 2308));
  EXPECT_FALSE(within(shape, 1999, 2308));
  EXPECT_FALSE(within(shape, 2000, 2307));
}

TEST(Shape, OfNothingIsWithinAnything) {
  EXPECT_TRUE(within(shape_of(8, {{0, 1 << 20}}), 1 << 30, 16));
  EXPECT_TRUE(within(shape_of(0, {{5, 1 << 20}}), 1 << 30, 16));
  EXPECT_TRUE(within(Shape::contiguous(0), 16, 16));
}

TEST(Shape, RefusesWhatOverflows) {
  uint64_t bytes = 0;
  EXPECT_FALSE(stream_bytes(shape_of(uint64_t{1} << 40, {{uint64_t{1} << 30, 1}}), &bytes));
  EXPECT_FALSE(stream_bytes(shape_of(uint64_t{1} << 63, {{2, 1}}), &bytes));
  EXPECT_FALSE(within(shape_of(1, {{3, INT64_MAX}}), 0, UINT64_MAX));
  EXPECT_FALSE(within(shape_of(1, {{2, INT64_MIN}}), 0, 100));
  EXPECT_FALSE(within(Shape::contiguous(10), UINT64_MAX - 5, 100));
  Shape shape = Shape::contiguous(1);
  shape.levels = 9;
  EXPECT_FALSE(stream_bytes(shape, &bytes));
  shape.levels = -1;
  EXPECT_FALSE(stream_bytes(shape, &bytes));
}

TEST(Shape, CoalescesWhatIsContiguousOnBothSides) {
  Shape a = shape_of(8, {{4, 8}, {5, 32}, {3, 1000}});
  Shape b = shape_of(8, {{4, 8}, {5, 64}, {3, 320}});
  coalesce(&a, &b);
  // Expect: the first level melts into the block; levels two and three stay (b's third continues
  // its second, a's does not).
  EXPECT_EQ(a.block_bytes, 32u);
  EXPECT_EQ(a.levels, 2);
  EXPECT_EQ(b.stride[1], 320);
  Shape c = dense(a);
  coalesce(&c);
  EXPECT_EQ(c.levels, 0);
  EXPECT_EQ(c.block_bytes, 8u * 4 * 5 * 3);
}

}  // namespace
}  // namespace skerry
