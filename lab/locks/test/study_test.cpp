#include "locks/study/study.hpp"

#include <gtest/gtest.h>

namespace skerry::sim {
namespace {

using lock::ProtocolKind;
using lock::machine::Domain;

LockStudyConfig study(ProtocolKind protocol, uint32_t ranks, Domain domain = Domain::nic) {
  LockStudyConfig c;
  c.protocol = protocol;
  c.ranks = ranks;
  c.lock.domain = domain;
  c.costs = domain == Domain::nic ? Costs::infiniband_2010() : Costs::tcp();
  c.acquisitions = 5'000;
  return c;
}

class LockStudies : public testing::TestWithParam<uint8_t> {
 protected:
  ProtocolKind kind() const { return static_cast<ProtocolKind>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Locks, LockStudies, testing::Range<uint8_t>(0, lock::protocol_kinds),
                         [](const auto& one) {
                           return std::string(to_string(static_cast<ProtocolKind>(one.param)));
                         });

TEST_P(LockStudies, OneSeedIsOneRun) {
  const LockStudyResult a = run_lock_study(study(kind(), 64));
  const LockStudyResult b = run_lock_study(study(kind(), 64));
  EXPECT_EQ(a.acquisitions, 5'000u);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.time_s, b.time_s);
  EXPECT_EQ(a.longest_wait_us, b.longest_wait_us);
}

// No protocol can be faster than the section that it guards.
TEST_P(LockStudies, StaysBelowWhatTheSectionAllows) {
  for (const Domain domain : {Domain::server, Domain::nic})
    for (const uint32_t ranks : {1u, 16u, 64u, 500u}) {
      LockStudyConfig c = study(kind(), ranks, domain);
      c.lock
          .network_swap = true;  // a queue that is joined by retries is fair behind its door alone
      const LockStudyResult r = run_lock_study(c);
      EXPECT_TRUE(r.is_complete);
      EXPECT_LT(r.per_second, 1e6) << "a section of 1 us";
      EXPECT_EQ(r.holders_most, 1u);
      if (is_fair(kind())) {
        EXPECT_EQ(r.never_granted, 0u);
      }
    }
}

TEST_P(LockStudies, ReadersShareWhereTheProtocolHasReaders) {
  LockStudyConfig c = study(kind(), 64);
  c.shared_share = 1;
  const LockStudyResult r = run_lock_study(c);
  EXPECT_EQ(r.holders_most > 1, machines_of(kind()).has_readers);
}

TEST(LockStudy, OffersTheShareOfRemoteRequests) {
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    LockStudyConfig c = study(ProtocolKind::queue, 32);
    c.think_ns = 1'000'000;  // hardly anybody waits
    c.remote_share = share;
    EXPECT_NEAR(run_lock_study(c).remote_granted, share, 0.02);
  }
}

// What the protocols are for, each in its own place.
TEST(LockStudy, ShowsWhatEachProtocolIsFor) {
  LockStudyConfig c = study(ProtocolKind::migrating, 16);  // one node
  EXPECT_EQ(run_lock_study(c).network_atomics, 0);
  EXPECT_EQ(run_lock_study(c).messages, 0);
  c = study(ProtocolKind::asymmetric, 16);
  EXPECT_EQ(run_lock_study(c).network_atomics, 0);
  // Expect: tries of one_sided multiply with the ranks; the queue's atomics do not.
  const LockStudyResult one_sided = run_lock_study(study(ProtocolKind::one_sided, 1'000));
  c = study(ProtocolKind::queue, 1'000);
  c.lock.network_swap = true;
  const LockStudyResult queue = run_lock_study(c);
  EXPECT_GT(one_sided.network_atomics, 4 * queue.network_atomics);
  EXPECT_GT(one_sided.longest_wait_us, queue.longest_wait_us);
  // Expect: cohorts save messages between nodes.
  const LockStudyResult cohort = run_lock_study(study(ProtocolKind::cohort, 1'000));
  EXPECT_GT(cohort.per_second, queue.per_second);
}

}  // namespace
}  // namespace skerry::sim
