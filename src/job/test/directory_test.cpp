// What a data server of a node sees of its memory, and what it remembers of that.
#include "job/directory.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "job/segment.hpp"
#include "memory/segment.hpp"

namespace skerry::job {
namespace {

constexpr int64_t patience_ns = 30'000'000'000;
constexpr Rank rank = 10;

// A node's broker with the thread that serves it, a rank that allocates, and the directory of a
// second data server, whose thread is the test's.
class Directory : public testing::Test {
 protected:
  void SetUp() override {
    static int count = 0;
    memory::Broker::Options options;
    options.job_tag = concat("directory-test-", getpid(), "-", ++count);
    const Status status = memory::Broker::create(options, &broker_);
    ASSERT_TRUE(status.ok()) << status.message();
    directory_ = std::make_unique<NodeDirectory>(*broker_, 0);
    member_ = memory::make_node_memory(broker_->address(), false);
    broker_->on_release([this](SegmentId id) {
      if (on_release) on_release(id);
    });
    stop_fd_ = eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] {
      for (;;) {
        pollfd watched[2] = {{broker_->fd(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
        poll(watched, 2, -1);
        if (watched[1].revents != 0) return;
        broker_->on_readable_owner();
      }
    });
  }
  void TearDown() override {
    const uint64_t one = 1;
    EXPECT_EQ(write(stop_fd_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    thread_.join();
    close(stop_fd_);
  }
  void allocate(SegmentId id, uint64_t bytes, uint32_t purpose = 0) {
    const uint64_t slices[] = {bytes};
    memory::SegmentPlan plan;
    ASSERT_TRUE(memory::plan_segment(slices, &plan));
    memory::AttachRequest request;
    request.id = id;
    request.total_bytes = plan.total_bytes;
    request.members = 1;
    request.own_offset = plan.offsets[0];
    request.own_bytes = memory::round_up(bytes, memory::page_bytes);
    std::byte* base = nullptr;
    const Status status = member_->attach(request, patience_ns, &base);
    ASSERT_TRUE(status.ok()) << status.message();
    const memory::LocalSegment segment(base, id);
    segment.set_purpose(purpose);
    segment.publish(0, 1, rank, plan.offsets[0], bytes);
  }
  void free(SegmentId id) { ASSERT_TRUE(member_->detach(id).ok()); }
  // Bytes of the rank's slice as the directory sees it; no_bytes: it was freed.
  static constexpr uint64_t no_bytes = UINT64_MAX;
  uint64_t bytes_of(SegmentId id) {
    memory::Region region;
    const Status status = directory_->find(id, rank, &region);
    EXPECT_TRUE(status.ok() || status.code() == Code::freed) << status.message();
    return status.ok() ? region.bytes : no_bytes;
  }

  std::function<void(SegmentId)> on_release;  // on the broker's thread
  std::unique_ptr<memory::Broker> broker_;
  std::unique_ptr<NodeDirectory> directory_;
  std::unique_ptr<memory::NodeMemory> member_;

 private:
  int stop_fd_ = -1;
  std::thread thread_;
};

// More segments than it remembers, and all of them in the same places.
TEST_F(Directory, SegmentsThatShareAPlaceAreToldApart) {
  std::map<uint32_t, uint64_t> all;  // bytes by generation
  for (uint32_t generation = 1; generation <= 40; ++generation) {
    all[generation] = 100 * generation;
    allocate({0, generation}, all[generation]);
  }
  for (int round = 0; round < 3; ++round)
    for (const auto& [generation, bytes] : all) {
      EXPECT_EQ(bytes_of({0, generation}), bytes);
      EXPECT_EQ(bytes_of({0, generation}), bytes);           // remembered now
      EXPECT_EQ(bytes_of({0, generation ^ 64u}), no_bytes);  // the same place, never allocated
      EXPECT_EQ(bytes_of({0, generation}), bytes);           // which did not take it
    }
}

// From the moment in which the broker says that a segment goes, and before it is unmapped.
TEST_F(Directory, WhatIsReleasedIsFoundNoMore) {
  const SegmentId goes{0, 1}, stays{0, 2};
  allocate(goes, 1000);
  allocate(stays, 2000);
  EXPECT_EQ(bytes_of(goes), 1000u);
  EXPECT_EQ(bytes_of(stays), 2000u);
  std::atomic<uint64_t> seen{0};
  on_release = [&](SegmentId id) { seen = bytes_of(id); };
  free(goes);
  EXPECT_EQ(seen, no_bytes);
  EXPECT_EQ(bytes_of(goes), no_bytes);
  EXPECT_EQ(bytes_of(stays), 2000u);
}

// Ids are not used again by a job. Should they be, the old segment is not taken for the new one.
TEST_F(Directory, AnIdThatIsUsedAgainNamesTheNewSegment) {
  const SegmentId id{3, 5};
  for (uint64_t bytes = 1000; bytes < 1010; ++bytes) {
    EXPECT_EQ(bytes_of(id), no_bytes);
    allocate(id, bytes);
    EXPECT_EQ(bytes_of(id), bytes);
    EXPECT_EQ(bytes_of(id), bytes);
    free(id);
  }
}

// Memory that serves one segment after the other: a late request for an earlier one was applied to
// the next.
TEST_F(Directory, AnEarlierLifeIsRefused) {
  const SegmentId first{3, 5}, second = first.next_life();
  allocate(first, 1000);
  EXPECT_EQ(bytes_of(first), 1000u);
  const memory::LocalSegment before = broker_->find(first);
  const uint64_t offset = before.entry(0)->offset;
  before.withdraw(0);
  EXPECT_EQ(bytes_of(first), no_bytes) << "between two lives";
  EXPECT_EQ(bytes_of(second), no_bytes);
  broker_->find(second).publish(0, 1, rank, offset, 500);
  EXPECT_EQ(bytes_of(second), 500u);
  EXPECT_EQ(bytes_of(first), no_bytes);
  EXPECT_EQ(bytes_of(second), 500u);
  free(first);  // of the memory
  EXPECT_EQ(bytes_of(second), no_bytes);
}

// Not found is not remembered: the segment may come later, and no release tells of that.
TEST_F(Directory, ASegmentIsFoundThoughItWasAskedForTooEarly) {
  EXPECT_EQ(bytes_of({0, 1}), no_bytes);
  allocate({0, 1}, 1000);
  EXPECT_EQ(bytes_of({0, 1}), 1000u);
}

TEST_F(Directory, RefusesWhatIsNotThere) {
  const SegmentId memory{0, 1}, mutexes{0, 2};
  allocate(memory, 1000);
  allocate(mutexes, 3 * sizeof(lock::Mutex), purpose_mutexes);
  memory::Region region;
  EXPECT_EQ(directory_->find(memory, rank + 1, &region).code(), Code::invalid);
  lock::Mutex *first = nullptr, *last = nullptr;
  ASSERT_TRUE(directory_->find_lock(mutexes, rank, 0, &first).ok());
  ASSERT_TRUE(directory_->find_lock(mutexes, rank, 2, &last).ok());
  EXPECT_EQ(last - first, 2);
  EXPECT_EQ(directory_->find_lock(mutexes, rank, 3, &last).code(), Code::range);
  // A put of garbage into mutexes ended the data server that then walked their queue.
  EXPECT_EQ(directory_->find(mutexes, rank, &region).code(), Code::invalid);
  EXPECT_EQ(directory_->find_lock(memory, rank, 0, &last).code(), Code::invalid);
  EXPECT_EQ(directory_->find_lock(mutexes, rank + 1, 0, &last).code(), Code::invalid);
  free(mutexes);
  EXPECT_EQ(directory_->find_lock(mutexes, rank, 0, &last).code(), Code::freed);
}

}  // namespace
}  // namespace skerry::job
