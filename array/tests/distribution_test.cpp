// Pure: grids, blocks, joined starts, tiles.
#include <gtest/gtest.h>

#include <numeric>

#include "array/distribution.hpp"
#include "array/tiles.hpp"

namespace {

using sk::ArrayOptions;
using sk::Patch;
using sk::layout::BoxJoiner;
using sk::layout::choose_grid;
using sk::layout::Distribution;
using sk::layout::join_starts;
using sk::layout::TileMap;
using Shape = std::vector<std::int64_t>;

TEST(Grid, UsesEveryMemberAndKeepsBlocksNearSquare) {
  EXPECT_EQ(choose_grid(Shape{100, 100}, Shape{100, 100}, 4), (std::vector<int>{2, 2}));
  EXPECT_EQ(choose_grid(Shape{100, 100}, Shape{100, 100}, 6), (std::vector<int>{3, 2}));
  EXPECT_EQ(choose_grid(Shape{10, 1000}, Shape{10, 1000}, 4), (std::vector<int>{1, 4}));
  EXPECT_EQ(choose_grid(Shape{100, 100}, Shape{100, 100}, 7), (std::vector<int>{7, 1}));
}

TEST(Grid, NeverHasMoreBlocksThanIndices) {
  EXPECT_EQ(choose_grid(Shape{2, 2}, Shape{2, 2}, 7), (std::vector<int>{2, 2}));
  EXPECT_EQ(choose_grid(Shape{3}, Shape{3}, 1000000), (std::vector<int>{3}));
  EXPECT_EQ(choose_grid(Shape{1, 1, 1}, Shape{1, 1, 1}, 5), (std::vector<int>{1, 1, 1}));
}

void expect_partition(const Distribution& layout) {
  std::int64_t elements = 0;
  for (int b = 0; b < layout.blocks(); ++b) {
    const Patch block = layout.block(b);
    elements += block.elements();
    if (block.empty()) continue;
    EXPECT_EQ(layout.block_of(std::span(block.lo.data(), block.dims)), b);
    std::vector<std::int64_t> last;
    for (int d = 0; d < block.dims; ++d) last.push_back(block.hi[d] - 1);
    EXPECT_EQ(layout.block_of(last), b);
  }
  std::int64_t all = 1;
  for (auto n : layout.shape()) all *= n;
  EXPECT_EQ(elements, all);
  EXPECT_TRUE(layout.block(layout.blocks()).empty());
}

TEST(Distribution, RegularBlocksCoverTheArrayOnce) {
  for (int members : {1, 2, 3, 4, 5, 8, 12})
    for (const Shape& shape : {Shape{1}, Shape{17}, Shape{7, 13}, Shape{100, 3}, Shape{0, 5},
                               Shape{4, 5, 6}, Shape{2, 2, 2, 2, 2, 2, 2}}) {
      const Distribution layout(shape, {}, members);
      EXPECT_LE(layout.blocks(), members);
      expect_partition(layout);
    }
}

TEST(Distribution, IrregularBlocksAreKeptWhenMembersSuffice) {
  ArrayOptions options;
  options.starts = {{0, 3, 9}, {0, 5}};
  const Distribution layout(Shape{10, 8}, options, 6);
  EXPECT_EQ(layout.blocks(), 6);
  EXPECT_EQ(layout.block(0), Patch(0, 3, 0, 5));
  EXPECT_EQ(layout.block(5), Patch(9, 10, 5, 8));
  expect_partition(layout);
}

TEST(Distribution, IrregularBlocksAreJoinedForFewerMembers) {
  ArrayOptions options;
  std::vector<std::int64_t> starts;
  for (int atom = 0; atom < 33; ++atom) starts.push_back(atom * 8 + atom % 3);
  options.starts = {starts, starts};
  for (int members : {1, 2, 3, 4, 7, 8, 64}) {
    const Distribution layout(Shape{270, 270}, options, members);
    EXPECT_LE(layout.blocks(), members);
    expect_partition(layout);
    for (int d = 0; d < 2; ++d)
      for (auto bound : layout.bounds(d).first(layout.bounds(d).size() - 1))
        EXPECT_NE(std::find(starts.begin(), starts.end(), bound), starts.end())
            << bound << " is no atom's start";
  }
}

TEST(Distribution, JoinedBlocksAreOfNearlyEqualLength) {
  std::vector<std::int64_t> starts(100);
  std::iota(starts.begin(), starts.end(), 0);
  EXPECT_EQ(join_starts(starts, 100, 4), (Shape{0, 25, 50, 75}));
  EXPECT_EQ(join_starts(Shape{0, 97, 98, 99}, 100, 3).size(), 3u);
  EXPECT_EQ(join_starts(Shape{0, 1, 2, 3}, 100, 4), (Shape{0, 1, 2, 3}));
}

TEST(Distribution, GivenGridIsUsedAndReplacedOnlyIfMembersDoNotSuffice) {
  ArrayOptions options;
  options.grid = {1, 4};
  EXPECT_EQ(Distribution(Shape{10, 10}, options, 4).block(3), Patch(0, 10, 7, 10));
  EXPECT_EQ(Distribution(Shape{10, 10}, options, 3).blocks(), 3);
}

TEST(Distribution, PatchIsSplitIntoItsBlocks) {
  const Distribution layout(Shape{10, 10}, {}, 4);
  std::vector<std::pair<int, Patch>> parts;
  layout.for_each_block(Patch(4, 6, 2, 7),
                        [&](int b, const Patch& part) { parts.emplace_back(b, part); });
  EXPECT_EQ(parts, (std::vector<std::pair<int, Patch>>{{0, Patch(4, 5, 2, 5)},
                                                       {1, Patch(4, 5, 5, 7)},
                                                       {2, Patch(5, 6, 2, 5)},
                                                       {3, Patch(5, 6, 5, 7)}}));
  layout.for_each_block(Patch(3, 3, 0, 5),
                        [&](int, const Patch&) { ADD_FAILURE() << "an empty patch has no parts"; });
}

TEST(Distribution, RefusesWhatCannotBe) {
  EXPECT_NE(sk::layout::invalid_shape(Shape{-1, 3}, 8).find("negative: -1"), std::string::npos);
  EXPECT_NE(sk::layout::invalid_shape(Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}, 8)
                .find("2^63"),
            std::string::npos);
  EXPECT_NE(sk::layout::invalid_starts(Shape{10}, {{1, 2}}).find("begin with 0"),
            std::string::npos);
  EXPECT_NE(sk::layout::invalid_starts(Shape{10}, {{0, 4, 4}}).find("ascend"), std::string::npos);
  EXPECT_NE(sk::layout::invalid_starts(Shape{10}, {{0, 10}}).find("outside"), std::string::npos);
  EXPECT_NE(sk::layout::invalid_grid(Shape{10}, std::vector<int>{0}), "");
  EXPECT_EQ(sk::layout::invalid_shape(Shape{0, std::int64_t{1} << 62}, 8), "");
}

TEST(Tiles, EveryElementIsInOneTileWhateverBoxIsAskedFor) {
  for (const Shape& shape : {Shape{5000}, Shape{100, 70}, Shape{40, 3, 50}})
    for (int canonical : {1, 2, 3})
      for (int members : {1, 2, 4}) {
        const TileMap tiles(Distribution(shape, {}, canonical));
        const Distribution other(shape, {}, members);
        std::int64_t elements = 0;
        std::vector<int> seen(static_cast<std::size_t>(tiles.tiles()));
        for (int b = 0; b < other.blocks(); ++b) {
          const auto [low, high] = tiles.range(other.block(b));
          tiles.for_each(other.block(b), [&](const TileMap::Tile& tile) {
            elements += tile.part.elements();
            seen.at(static_cast<std::size_t>(tile.number)) = 1;
            EXPECT_LE(low, tile.number);
            EXPECT_LT(tile.number, high);
            EXPECT_LT(tile.in_block, tile.of_block);
            const auto [block, box] = tiles.place(tile.number);
            EXPECT_EQ(box, tile.whole);
            const std::span corner(tile.part.lo.data(), shape.size());
            EXPECT_EQ(tiles.tile_of(block, Distribution(shape, {}, canonical).block(block), corner),
                      tile.number);
          });
        }
        std::int64_t all = 1;
        for (auto n : shape) all *= n;
        EXPECT_EQ(elements, all);
        EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), std::int64_t{0}), tiles.tiles());
      }
}

TEST(BoxJoiner, FullBlockBecomesOneBox) {
  const TileMap tiles(Distribution(Shape{100, 100}, {}, 1));
  BoxJoiner joiner(1 << 20);
  tiles.for_each(Patch(0, 100, 0, 100),
                 [&](const TileMap::Tile& tile) { joiner.add(tile.part, 0); });
  const auto boxes = joiner.take();
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].box, Patch(0, 100, 0, 100));
}

TEST(BoxJoiner, NeverJoinsWhatDiffersAndKeepsEveryElement) {
  const TileMap tiles(Distribution(Shape{200, 200}, {}, 4));
  BoxJoiner joiner(6 * 32 * 32);
  std::int64_t elements = 0;
  tiles.for_each(Patch(0, 200, 0, 200), [&](const TileMap::Tile& tile) {
    if (tile.part.hi[1] > tile.part.hi[0]) return;  // a triangle
    elements += tile.part.elements();
    joiner.add(tile.part, static_cast<int>(tile.number % 2));
  });
  std::int64_t joined = 0;
  for (const auto& box : joiner.take()) {
    joined += box.box.elements();
    EXPECT_LE(box.box.elements(), 6 * 32 * 32);
  }
  EXPECT_EQ(joined, elements);
}

}  // namespace
