#include "connection/doorkeeper.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "connection/dialer.hpp"
#include "connection/test/given.hpp"

namespace skerry::connection {
namespace {

class Door : public ::testing::Test {
 protected:
  Doorkeeper::Verdict knock(std::span<const std::byte> bytes) {
    return doorkeeper_.knock(
        bytes, {Role::origin, Role::relay}, &hello_, &role_,
        [this](Role, uint32_t name) { return name < 100 ? &visitors_[name] : nullptr; },
        [this](uint64_t endpoint) { ended_.push_back(endpoint); });
  }
  void let_in(uint32_t name, uint64_t endpoint) {
    const auto answer = doorkeeper_.answer(hello_);
    answer_.assign(answer.begin(), answer.end());
    visitors_[name].endpoint = endpoint;
  }

  const JobKey key_{std::byte{1}};
  Doorkeeper doorkeeper_{key_, server};
  Caller caller_{key_, 17};
  Dialer dialer_;
  std::map<uint32_t, Visitor> visitors_;
  std::vector<uint64_t> ended_;
  std::vector<std::byte> answer_;
  Hello hello_;
  Role role_{};
};

TEST_F(Door, AMemberComesInAndKnowsTheServer) {
  ASSERT_EQ(knock(dialer_.dial(caller_, server)), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(role_, Role::origin);
  let_in(17, 5);
  uint64_t applied = 1;
  EXPECT_TRUE(dialer_.check(caller_, server, answer_, &applied).ok());
  EXPECT_EQ(applied, 0u);
  (void)dialer_.dial(caller_, server);
  EXPECT_FALSE(dialer_.check(caller_, server, answer_, &applied).ok())
      << "each attempt wants an answer of its own";
}

TEST_F(Door, AStrangerStaysOutsideAndNothingIsKept) {
  const JobKey other{std::byte{2}};
  EXPECT_EQ(knock(dialer_.dial({other, 17}, server)), Doorkeeper::Verdict::stranger);
  EXPECT_EQ(knock(dialer_.dial({key_, 17, Role::trunk}, server)), Doorkeeper::Verdict::stranger)
      << "nobody comes in that role here";
  EXPECT_TRUE(visitors_.empty());
  EXPECT_EQ(knock(dialer_.dial({key_, 100}, server)), Doorkeeper::Verdict::stranger)
      << "nobody has that name";
}

TEST_F(Door, EachRoleIsKnownByItsHello) {
  ASSERT_EQ(knock(dialer_.dial({key_, 4, Role::relay}, server)), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(role_, Role::relay);
  EXPECT_EQ(hello_.rank, 4u);
}

TEST_F(Door, AHelloIsWorthNothingTheSecondTime) {
  const auto first = dialer_.dial(caller_, server);
  ASSERT_EQ(knock(first), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(knock(first), Doorkeeper::Verdict::replayed) << "before it was let in";
  let_in(17, 5);
  EXPECT_EQ(knock(first), Doorkeeper::Verdict::replayed);
  EXPECT_TRUE(ended_.empty()) << "a replayed hello must not end the connection";
}

TEST_F(Door, AnAttemptThatItsSuccessorOvertookIsRefused) {
  const auto first = dialer_.dial(caller_, server);
  const auto second = dialer_.dial(caller_, server);
  EXPECT_EQ(knock(second), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(knock(first), Doorkeeper::Verdict::replayed);
}

TEST_F(Door, ANewConnectionEndsTheEarlierOneBeforeItIsLetIn) {
  ASSERT_EQ(knock(dialer_.dial(caller_, server)), Doorkeeper::Verdict::welcome);
  let_in(17, 5);
  ASSERT_EQ(knock(dialer_.dial(caller_, server)), Doorkeeper::Verdict::welcome);
  EXPECT_EQ(ended_, std::vector<uint64_t>{5});
  EXPECT_EQ(visitors_[17].endpoint, 0u) << "it may have to wait, or go away meanwhile";
}

TEST(RefusalLog, StrangersFillNoLog) {
  const JobKey key{};
  const Doorkeeper door(key, server);
  RefusalLog log;
  const auto line = [&](int64_t now_ns) {
    return log.line(door, {}, Doorkeeper::Verdict::stranger, now_ns);
  };
  EXPECT_EQ(line(100), door.refusal({}, Doorkeeper::Verdict::stranger, 0));
  EXPECT_EQ(line(101), "");
  EXPECT_EQ(line(100 + RefusalLog::pause_ns - 1), "");
  EXPECT_EQ(line(100 + RefusalLog::pause_ns), door.refusal({}, Doorkeeper::Verdict::stranger, 2));
}

TEST(Doorkeeper, ARefusalNamesBothSidesAndTheReason) {
  const JobKey key{};
  const Doorkeeper door(key, {4, 1, 1, Role::server});
  const auto hello = make_hello(key, {4, 1, 1, Role::server}, 17, 3);
  const std::string again = door.refusal(hello, Doorkeeper::Verdict::replayed, 0);
  EXPECT_NE(again.find("server 1 of node 4 refuses rank or node 17: its hello was used before"),
            std::string::npos)
      << again;
  const std::string other = door.refusal({hello.data(), 5}, Doorkeeper::Verdict::stranger, 2);
  EXPECT_NE(other.find("a peer whose hello has 5 bytes"), std::string::npos) << other;
  EXPECT_NE(other.find("another job"), std::string::npos) << other;
  EXPECT_NE(other.find("and 2 others"), std::string::npos) << other;
}

}  // namespace
}  // namespace skerry::connection
