#include "connection/core/doorkeeper.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace skerry::connection {
namespace {

constexpr Peer server{3, 0, 1, Role::server};

class Door : public ::testing::Test {
 protected:
  Doorkeeper::Verdict knock(std::span<const std::byte> bytes) {
    return doorkeeper_.knock(
        bytes, {Role::origin, Role::relay}, &hello_, &role_,
        [this](Role, uint32_t name) { return name < 100 ? &visitors_[name] : nullptr; },
        [this](uint64_t endpoint) { ended_.push_back(endpoint); });
  }
  bool let_in(uint32_t name, uint64_t endpoint, bool is_gone = false) {
    return doorkeeper_.let_in(hello_, visitors_[name], 0, false,
                              [&](std::span<const std::byte> answer, uint64_t* to) -> Status {
                                if (is_gone) return error(Code::peer_dead, "it went away");
                                answer_.assign(answer.begin(), answer.end());
                                *to = endpoint;
                                return {};
                              });
  }

  const JobKey key_{std::byte{1}};
  Doorkeeper doorkeeper_{key_, server};
  uint64_t generation_ = 0;
  std::array<std::byte, hello_bytes> dial(uint32_t name, Role role = Role::origin) {
    return make_hello(key_, server, name, ++generation_, role);
  }
  std::map<uint32_t, Visitor> visitors_;
  std::vector<uint64_t> ended_;
  std::vector<std::byte> answer_;
  Hello hello_;
  Role role_{};
};

TEST_F(Door, AMemberComesInAndKnowsTheServer) {
  ASSERT_EQ(knock(dial(17)), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(role_, Role::origin);
  ASSERT_TRUE(let_in(17, 5));
  EXPECT_EQ(visitors_[17].endpoint, 5u);
  uint64_t applied = 1;
  EXPECT_TRUE(check_answer(key_, server, hello_, answer_, &applied).ok());
  EXPECT_EQ(applied, 0u);
}

TEST_F(Door, AStrangerStaysOutsideAndNothingIsKept) {
  const JobKey other{std::byte{2}};
  EXPECT_EQ(knock(make_hello(other, server, 17, 1)), Doorkeeper::Verdict::stranger);
  EXPECT_EQ(knock(dial(17, Role::trunk)), Doorkeeper::Verdict::stranger)
      << "nobody comes in that role here";
  EXPECT_TRUE(visitors_.empty());
  EXPECT_EQ(knock(dial(100)), Doorkeeper::Verdict::stranger)
      << "nobody has that name";
}

TEST_F(Door, EachRoleIsKnownByItsHello) {
  ASSERT_EQ(knock(dial(4, Role::relay)), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(role_, Role::relay);
  EXPECT_EQ(hello_.rank, 4u);
}

TEST_F(Door, AHelloIsWorthNothingTheSecondTime) {
  const auto first = dial(17);
  ASSERT_EQ(knock(first), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(knock(first), Doorkeeper::Verdict::replayed) << "before it was let in";
  ASSERT_TRUE(let_in(17, 5));
  EXPECT_EQ(knock(first), Doorkeeper::Verdict::replayed);
  EXPECT_TRUE(ended_.empty()) << "a replayed hello must not end the connection";
}

TEST_F(Door, AnAttemptThatItsSuccessorOvertookIsRefused) {
  const auto first = dial(17);
  const auto second = dial(17);
  EXPECT_EQ(knock(second), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(knock(first), Doorkeeper::Verdict::replayed);
}

TEST_F(Door, ANewConnectionEndsTheEarlierOneBeforeItIsLetIn) {
  ASSERT_EQ(knock(dial(17)), Doorkeeper::Verdict::welcome);
  ASSERT_TRUE(let_in(17, 5));
  ASSERT_EQ(knock(dial(17)), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(ended_, std::vector<uint64_t>{5});
  EXPECT_EQ(visitors_[17].endpoint, 0u) << "it may have to wait";
  EXPECT_FALSE(let_in(17, 6, true)) << "it went away meanwhile";
  EXPECT_EQ(visitors_[17].endpoint, 0u);
}

}  // namespace
}  // namespace skerry::connection
