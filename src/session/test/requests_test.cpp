#include "session/requests.hpp"

#include <gtest/gtest.h>

namespace skerry::session {
namespace {

struct RequestsTest : testing::Test {
  uint64_t commit(bool awaits_reply) {
    (void)requests.reserve(64);
    return requests.commit(0, 0, 64, awaits_reply, nullptr);
  }
  Requests requests{1, 0};
  bool news = false;
};

TEST_F(RequestsTest, AnAcknowledgementThatComesLateIsNoNews) {
  EXPECT_EQ(commit(false), 1u);
  EXPECT_EQ(commit(false), 2u);
  ASSERT_TRUE(requests.acknowledge(2, &news).ok());
  EXPECT_TRUE(news);
  EXPECT_FALSE(requests.is_logged());
  // Expect (past): it changes nothing.
  ASSERT_TRUE(requests.acknowledge(1, &news).ok());
  EXPECT_FALSE(news);
  EXPECT_EQ(requests.applied(), 2u);
  // Expect (future): no such request was issued.
  EXPECT_EQ(requests.acknowledge(3, &news).code(), Code::internal);
}

TEST_F(RequestsTest, NoResultIsConfirmedPastAnAnswerThatIsMissing) {
  commit(true);
  commit(true);
  ASSERT_TRUE(requests.acknowledge(2, &news).ok());
  requests.result_received(2);
  EXPECT_EQ(requests.results_received(), 0u);
  requests.answered(1);
  requests.result_received(1);
  EXPECT_EQ(requests.results_received(), 1u);
  requests.answered(2);
  EXPECT_EQ(requests.results_received(), 2u);
}

TEST_F(RequestsTest, ARefusalThatIsToldTwiceIsReportedOnce) {
  commit(false);
  commit(false);
  ASSERT_TRUE(requests.acknowledge(2, &news).ok());
  EXPECT_TRUE(requests.refused(1));
  requests.note_failure(Status(Code::range, "first"));
  EXPECT_FALSE(requests.refused(1));
  EXPECT_TRUE(requests.refused(2));
  requests.note_failure(Status(Code::invalid, "second"));
  // Expect: a fence hears of the first, once.
  EXPECT_EQ(requests.take_failure().message(), "first");
  EXPECT_FALSE(requests.has_failure());
}

}  // namespace
}  // namespace skerry::session
