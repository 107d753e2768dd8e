#include <gtest/gtest.h>

#include "launcher/look/commands.hpp"

namespace skerry::look {
namespace {

Edge waits(Rank rank, Rank holder) { return {{rank, {SegmentId{0, 5}, holder, 0}, 1}, holder}; }

std::vector<std::vector<Rank>> ranks_of(const std::vector<Circle>& circles) {
  std::vector<std::vector<Rank>> out;
  for (const Circle& circle : circles) {
    std::vector<Rank>& ranks = out.emplace_back();
    for (const Link& link : circle) ranks.push_back(link.rank);
  }
  return out;
}

using Ranks = std::vector<std::vector<Rank>>;

TEST(Circles, AChainIsNone) {
  EXPECT_EQ(ranks_of(circles_in({})), Ranks{});
  EXPECT_EQ(ranks_of(circles_in({waits(0, 1), waits(1, 2)})), Ranks{});
}

TEST(Circles, EachIsFoundOnceFromItsLowestRank) {
  EXPECT_EQ(ranks_of(circles_in({waits(2, 1), waits(1, 2)})), (Ranks{{1, 2}}));
  EXPECT_EQ(ranks_of(circles_in({waits(5, 3), waits(3, 4), waits(4, 5), waits(0, 7), waits(7, 0)})),
            (Ranks{{0, 7}, {3, 4, 5}}));
}

TEST(Circles, ThoseThatWaitForOneAreNotInIt) {
  EXPECT_EQ(ranks_of(circles_in({waits(0, 1), waits(1, 2), waits(2, 1), waits(9, 2)})),
            (Ranks{{1, 2}}));
}

TEST(Circles, ARankMayWaitForItself) {
  EXPECT_EQ(ranks_of(circles_in({waits(3, 3), waits(1, 3)})), (Ranks{{3}}));
}

}  // namespace
}  // namespace skerry::look
