// The broker and its members: as threads of one process (one mapping for all) and as forked
// processes (a mapping each).
#include "memory/broker.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/futex.hpp"
#include "memory/apply.hpp"
#include "memory/broker_wire.hpp"
#include "memory/control.hpp"

namespace skerry::memory {
namespace {

constexpr int64_t patience_ns = 30'000'000'000;

std::array<std::byte, 16> token_of(int seed) {
  std::array<std::byte, 16> token{};
  token[0] = static_cast<std::byte>(seed);
  return token;
}

// A broker with a thread that serves it, as the data server does.
class ServedBroker {
 public:
  explicit ServedBroker(uint32_t max_pending = 64, uint64_t give_back_bytes = 64 << 20) {
    static int count = 0;
    Broker::Options options;
    options.job_tag = concat("test-", getpid(), "-", ++count);
    options.token = token_of(1);
    options.max_pending = max_pending;
    options.give_back_bytes = give_back_bytes;
    const Status status = Broker::create(options, &broker);
    EXPECT_TRUE(status.ok()) << status.message();
    stop_ = eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] {
      for (;;) {
        pollfd watched[2] = {{broker->fd(), POLLIN, 0}, {stop_, POLLIN, 0}};
        poll(watched, 2, -1);
        if (watched[1].revents != 0) return;
        broker->on_readable_owner();
      }
    });
  }
  ~ServedBroker() { stop(); }
  void stop() {  // afterwards the broker may be looked at
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    EXPECT_EQ(write(stop_, &one, 8), 8);
    thread_.join();
    close(stop_);
  }
  std::unique_ptr<Broker> broker;

 private:
  int stop_ = -1;
  std::thread thread_;
};

AttachRequest request_of(SegmentId id, const SegmentPlan& plan, std::span<const uint64_t> bytes,
                         uint32_t index) {
  AttachRequest request;
  request.id = id;
  request.total_bytes = plan.total_bytes;
  request.members = static_cast<uint32_t>(bytes.size());
  request.own_offset = plan.offsets[index];
  request.own_bytes = round_up(bytes[index], page_bytes);
  return request;
}

int count_open_files() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// The broker answers first and closes its end after that, on its own thread. A member that has the
// answer may be a moment ahead.
bool comes_down_to_open_files(int wanted) {
  const int64_t deadline_ns = deadline_after(patience_ns);
  while (count_open_files() != wanted) {
    if (monotonic_ns() >= deadline_ns) return false;
    std::this_thread::yield();
  }
  return true;
}

int count_memfd_maps() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:skerry") != std::string::npos;
  return count;
}

TEST(Broker, ThreadsOfOneProcessShareOneMapping) {
  ServedBroker served;
  const SegmentId id{0, 1};
  const uint64_t bytes[] = {10'000, 0, 5'000'000};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  std::byte* bases[3] = {};
  std::unique_ptr<NodeMemory> members[3];
  std::vector<std::thread> threads;
  const int files_before = count_open_files();
  for (uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      members[i] = make_node_memory(served.broker->address(), true);
      const Status status = members[i]->attach(request_of(id, plan, bytes, i), patience_ns,
                                               &bases[i]);
      ASSERT_TRUE(status.ok()) << status.message();
      LocalSegment(bases[i], id)
          .publish(i, 3, static_cast<Rank>(10 + 2 * i), plan.offsets[i], bytes[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int connections = 2 * 3;  // of each member, which it keeps, both ends in this process
  EXPECT_TRUE(comes_down_to_open_files(files_before + connections))
      << "descriptors are closed after mapping: " << count_open_files() << ", before "
      << files_before;
  EXPECT_EQ(bases[0], bases[1]);
  EXPECT_EQ(bases[0], bases[2]);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bases[0]) % huge_page_bytes, 0u)
      << "large segments may use huge pages";
  EXPECT_EQ(count_memfd_maps(), 1);

  const LocalSegment segment(bases[1], id);
  Region region;
  ASSERT_TRUE(segment.find(14, &region));
  EXPECT_EQ(region.bytes, 5'000'000u);
  EXPECT_EQ(region.base, bases[0] + plan.offsets[2]);
  EXPECT_EQ(region.base[4'999'999], std::byte{0});
  ASSERT_TRUE(segment.find(12, &region));
  EXPECT_EQ(region.base, nullptr);
  EXPECT_FALSE(segment.find(11, &region));
  EXPECT_FALSE(segment.find(16, &region));
  EXPECT_EQ(members[0]->attach(request_of(id, plan, bytes, 0), patience_ns, &bases[0]).code(),
            Code::invalid)
      << "attached twice";
  for (auto& member : members) EXPECT_TRUE(member->detach(id).ok());
  EXPECT_EQ(members[0]->detach(id).code(), Code::freed);
  EXPECT_EQ(count_memfd_maps(), 0);
  served.stop();
  EXPECT_EQ(served.broker->segments_owner(), 0u);
  EXPECT_FALSE(served.broker->find(id));
}

// A second data server of the node keeps what the broker found for it, and asks again once a
// release is counted. Until it is through, on_release does not return, and the segment is mapped.
// The data server freed them all with the last mapping, and served nobody meanwhile.
TEST(Broker, PagesThatWereNotReservedAreGivenBackByTheirMember) {
  ServedBroker served;
  const SegmentId id{0, 1};
  const uint64_t bytes[] = {2 * page_bytes, page_bytes};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  std::byte* bases[2] = {};
  std::unique_ptr<NodeMemory> members[2];
  for (uint32_t i = 0; i < 2; ++i) {
    members[i] = make_node_memory(served.broker->address(), true);
    AttachRequest request = request_of(id, plan, bytes, i);
    request.reserved_bytes = 0;
    const Status status = members[i]->attach(request, patience_ns, &bases[i]);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  const auto is_taken = [&](std::byte* page) {
    unsigned char taken = 0;
    EXPECT_EQ(mincore(page, page_bytes, &taken), 0);
    return (taken & 1) != 0;
  };
  std::byte* const first = bases[1] + plan.offsets[0];
  std::byte* const second = bases[1] + plan.offsets[1];
  EXPECT_FALSE(is_taken(first));
  *first = *second = std::byte{1};
  EXPECT_TRUE(is_taken(first));
  EXPECT_FALSE(is_taken(first + page_bytes));
  EXPECT_TRUE(members[0]->detach(id).ok());
  EXPECT_FALSE(is_taken(first));
  EXPECT_EQ(*second, std::byte{1});
  EXPECT_TRUE(members[1]->detach(id).ok());
}

// A member closes a group while another, which has just been woken, still reads its flags.
TEST(Broker, WhatOthersReadOnGoesWithTheLastMember) {
  ServedBroker served;
  const SegmentId id{0, 1};
  std::unique_ptr<NodeMemory> members[2];
  std::byte* bases[2];
  for (uint64_t i = 0; i < 2; ++i) {
    members[i] = make_node_memory(served.broker->address(), false);
    AttachRequest request{id, 2 * page_bytes, 2, i * page_bytes, page_bytes};
    request.others_read_on = true;
    ASSERT_TRUE(members[i]->attach(request, patience_ns, &bases[i]).ok());
  }
  *bases[0] = std::byte{1};
  EXPECT_TRUE(members[0]->detach(id).ok());
  EXPECT_EQ(*bases[1], std::byte{1});
  EXPECT_TRUE(members[1]->detach(id).ok());
}

// Pages between two segments: their owner has them back as they were, unless somebody needed
// memory.
TEST(Broker, PagesThatAreKeptGoWhenSomebodyNeedsThem) {
  ServedBroker served;
  const SegmentId id{0, 1};
  const uint64_t bytes[] = {2 * page_bytes, page_bytes};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  std::byte* bases[2] = {};
  std::unique_ptr<NodeMemory> members[2];
  std::vector<SegmentId> told;
  served.broker->on_release([&](SegmentId released) { told.push_back(released); });
  for (uint32_t i = 0; i < 2; ++i) {
    members[i] = make_node_memory(served.broker->address(), false);
    const Status status = members[i]->attach(request_of(id, plan, bytes, i), patience_ns,
                                             &bases[i]);
    ASSERT_TRUE(status.ok()) << status.message();
    LocalSegment(bases[i], id).publish(i, 2, static_cast<Rank>(i), plan.offsets[i], bytes[i]);
  }
  const LocalSegment segment(bases[0], id);
  std::byte* const first = bases[0] + plan.offsets[0];
  std::byte* const second = bases[0] + plan.offsets[1];
  *first = *second = std::byte{1};
  EXPECT_TRUE(segment.is_here());
  segment.withdraw(0);
  EXPECT_FALSE(segment.is_here());
  segment.keep_pages(0, 2 * page_bytes);
  EXPECT_EQ(segment.kept_bytes(0), 2 * page_bytes);
  uint64_t there = 0;
  ASSERT_TRUE(segment.take_pages(0, nullptr, &there).ok());
  EXPECT_EQ(there, 2 * page_bytes);
  EXPECT_EQ(*first, std::byte{1});
  EXPECT_EQ(segment.kept_bytes(0), 0u);
  segment.keep_pages(0, 2 * page_bytes);
  ASSERT_TRUE(members[1]->give_back_kept({}).ok());
  EXPECT_EQ(segment.kept_bytes(0), 0u);
  ASSERT_TRUE(segment.take_pages(0, nullptr, &there).ok());
  EXPECT_EQ(there, 0u);
  EXPECT_EQ(told, std::vector<SegmentId>{id}) << "what was made of the pages must go";
  EXPECT_EQ(*second, std::byte{1}) << "pages in use stay";
  ASSERT_TRUE(members[0]->reserve(bases[0], plan.offsets[0], 2 * page_bytes).ok());
  EXPECT_EQ(*first, std::byte{0});
  for (auto& member : members) EXPECT_TRUE(member->detach(id).ok());
}

// Giving back gigabytes kept the data server from its other requests for as long.
TEST(Broker, KeptPagesGoAPartAtATime) {
  ServedBroker served(64, page_bytes);
  const uint64_t bytes[] = {page_bytes};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  auto member = make_node_memory(served.broker->address(), false);
  std::vector<LocalSegment> segments;
  const auto keep = [&] {
    for (const LocalSegment& segment : segments) segment.keep_pages(0, page_bytes);
  };
  const auto kept_bytes = [&] {
    uint64_t all = 0;
    for (const LocalSegment& segment : segments) all += segment.kept_bytes(0);
    return all;
  };
  for (uint32_t k = 1; k <= 3; ++k) {
    const SegmentId id{0, k};
    std::byte* base = nullptr;
    ASSERT_TRUE(member->attach(request_of(id, plan, bytes, 0), patience_ns, &base).ok());
    segments.emplace_back(base, id);
    segments.back().publish(0, 1, 0, plan.offsets[0], page_bytes);
    segments.back().withdraw(0);
  }
  keep();
  ASSERT_TRUE(member->give_back_kept({}).ok());
  EXPECT_EQ(kept_bytes(), 0u) << "who asks for memory asks until all is there";
  for (const LocalSegment& segment : segments) {
    uint64_t there = 0;
    ASSERT_TRUE(segment.take_pages(0, nullptr, &there).ok());
  }
  keep();
  served.stop();
  broker_wire::Request request{};
  request.magic_number = broker_wire::magic;
  request.token = token_of(1);
  request.op = static_cast<uint32_t>(broker_wire::Op::give_back);
  const int peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const std::string& name = served.broker->address().name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  ASSERT_EQ(connect(peer, reinterpret_cast<sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  served.broker->on_readable_owner();
  for (uint64_t left : {2u, 1u, 0u, 0u}) {
    ASSERT_EQ(send(peer, &request, sizeof request, MSG_NOSIGNAL), 56);
    served.broker->on_readable_owner();
    broker_wire::Reply reply{};
    ASSERT_EQ(recv(peer, &reply, sizeof reply, 0), 256);
    EXPECT_EQ(kept_bytes(), left * page_bytes);
    EXPECT_TRUE(left == 0 || reply.more == 1);
  }
  close(peer);
}

// The system refuses to take pages that the program locked (mlock, mlockall).
TEST(Broker, LockedPagesThatAreGivenBackAreZero) {
  ServedBroker served;
  const SegmentId id{0, 1};
  const uint64_t bytes[] = {page_bytes};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  auto member = make_node_memory(served.broker->address(), false);
  std::byte* base = nullptr;
  ASSERT_TRUE(member->attach(request_of(id, plan, bytes, 0), patience_ns, &base).ok());
  const LocalSegment segment(base, id);
  segment.publish(0, 1, 0, plan.offsets[0], bytes[0]);
  std::byte* const slice = base + plan.offsets[0];
  if (mlock(slice, page_bytes) != 0) GTEST_SKIP() << "no memory may be locked here";
  *slice = std::byte{1};
  member->give_back(base, plan.offsets[0], page_bytes);
  EXPECT_EQ(*slice, std::byte{0}) << "by its owner";
  *slice = std::byte{1};
  segment.withdraw(0);
  segment.keep_pages(0, page_bytes);
  ASSERT_TRUE(member->give_back_kept({}).ok());
  EXPECT_EQ(*slice, std::byte{0}) << "by the broker";
  EXPECT_TRUE(member->detach(id).ok());
}

TEST(Broker, WhatAnotherThreadFoundIsMappedUntilItHasSeenTheRelease) {
  ServedBroker served;
  const SegmentId id{0, 1};
  const uint64_t bytes[] = {10'000};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  std::atomic<bool> reads{false}, ended{false};
  served.broker->on_release([&](SegmentId gone) {
    EXPECT_EQ(gone, id);
    EXPECT_FALSE(served.broker->find(id));
    EXPECT_EQ(served.broker->releases(), 1u);
    while (!ended.load(std::memory_order_acquire)) std::this_thread::yield();
  });
  auto member = make_node_memory(served.broker->address(), true);
  std::byte* base = nullptr;
  ASSERT_TRUE(member->attach(request_of(id, plan, bytes, 0), patience_ns, &base).ok());
  LocalSegment(base, id).publish(0, 1, 10, plan.offsets[0], bytes[0]);
  std::thread server([&] {
    const LocalSegment found = served.broker->find(id);
    EXPECT_TRUE(found);
    while (served.broker->releases() == 0) {
      Region region;
      EXPECT_TRUE(found.find(10, &region));
      EXPECT_EQ(region.base[9'999], std::byte{0});
      reads.store(true, std::memory_order_release);
    }
    ended.store(true, std::memory_order_release);
  });
  while (!reads.load(std::memory_order_acquire)) std::this_thread::yield();
  EXPECT_TRUE(member->detach(id).ok());
  server.join();
  served.stop();
}

TEST(Broker, RefusesWhatMakesNoSense) {
  ServedBroker served;
  auto a = make_node_memory(served.broker->address(), false);
  auto b = make_node_memory(served.broker->address(), false);
  std::byte* base = nullptr;
  AttachRequest request{{0, 1}, 8192, 2, 0, 4096};
  ASSERT_TRUE(a->attach(request, patience_ns, &base).ok());
  request.total_bytes = 12288;
  const Status disagree = b->attach(request, patience_ns, &base);
  EXPECT_EQ(disagree.code(), Code::invalid);
  EXPECT_NE(disagree.message().find("12288"), std::string::npos) << disagree.message();
  // Expect: the failure left nothing behind, so that the right request still works.
  request.total_bytes = 8192;
  EXPECT_TRUE(b->attach(request, patience_ns, &base).ok());
  auto c = make_node_memory(served.broker->address(), false);
  EXPECT_EQ(c->attach(request, patience_ns, &base).code(), Code::invalid) << "a third of two";
  EXPECT_EQ(c->attach({{0, 2}, 1000, 1, 0, 0}, patience_ns, &base).code(), Code::invalid)
      << "not whole pages";
  EXPECT_EQ(c->attach({{0, 3}, uint64_t{1} << 60, 1, 0, 0}, patience_ns, &base).code(),
            Code::no_memory)
      << "more than address space";
  EXPECT_TRUE(a->detach({0, 1}).ok());
  EXPECT_TRUE(b->detach({0, 1}).ok());
}

TEST(Broker, UnauthenticatedPeersAreRefusedAndKeepNobodyOut) {
  ServedBroker served(8);
  BrokerAddress wrong = served.broker->address();
  wrong.token = token_of(2);
  std::byte* base = nullptr;
  EXPECT_EQ(
      make_node_memory(wrong, false)->attach({{0, 1}, 4096, 1, 0, 0}, patience_ns, &base).code(),
      Code::peer_dead);

  std::vector<int> silent;
  for (int i = 0; i < 50; ++i) {  // more than it keeps
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string& name = served.broker->address().name;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
    if (i % 3 == 0) {
      ASSERT_GT(send(fd, "garbage", 7, MSG_NOSIGNAL), 0);
    }
    silent.push_back(fd);
  }
  auto member = make_node_memory(served.broker->address(), false);
  const Status status = member->attach({{0, 1}, 4096, 1, 0, 4096}, patience_ns, &base);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(member->detach({0, 1}).ok());
  for (const int fd : silent) close(fd);
  served.stop();
  EXPECT_GE(served.broker->unauthenticated_refused_owner(), 1u);
}

// A pause for want of descriptors ended in the moment in which a peer spoke: it was closed unheard,
// and then another connection in its place.
TEST(Broker, WhoSpeaksWhenAPauseEndsIsHeard) {
  Broker::Options options;
  options.job_tag = concat("pause-", getpid());
  options.token = token_of(1);
  std::unique_ptr<Broker> broker;
  ASSERT_TRUE(Broker::create(options, &broker).ok());
  const std::string& name = broker->address().name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  int peers[3];
  for (int& fd : peers) fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto come = [&](int fd) {
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
    broker->on_readable_owner();
  };
  come(peers[0]);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const int next = dup(STDERR_FILENO);
  close(next);
  const rlimit none{static_cast<rlim_t>(next), usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  come(peers[1]);  // gets the descriptor that was kept
  come(peers[2]);  // none is left: the listener rests
  pollfd rests{broker->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&rests, 1, -1), 1);  // no longer
  broker_wire::Request request{};
  request.magic_number = broker_wire::magic;
  request.token = options.token;
  request.op = static_cast<uint32_t>(broker_wire::Op::detach);
  ASSERT_EQ(send(peers[0], &request, sizeof request, MSG_NOSIGNAL), 56);
  broker->on_readable_owner();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  broker_wire::Reply reply{};
  ASSERT_EQ(recv(peers[0], &reply, sizeof reply, 0), 256);
  EXPECT_EQ(reply.status, static_cast<int32_t>(Code::freed));
  for (const int fd : peers) close(fd);
}

TEST(Broker, AGoneOrSilentBrokerIsAnErrorNotAHang) {
  std::byte* base = nullptr;
  std::unique_ptr<Broker> broker;
  Broker::Options options;
  options.job_tag = concat("silent-", getpid());
  ASSERT_TRUE(Broker::create(options, &broker).ok());
  auto member = make_node_memory(broker->address(), false);
  // No thread serves it: the time limit passes; the job ends; then it goes away for good.
  EXPECT_EQ(member->attach({{0, 1}, 4096, 1, 0, 0}, 5'000'000, &base).code(), Code::timeout);
  std::atomic<uint32_t> abort{1};
  member->watch_abort(&abort);
  EXPECT_EQ(member->attach({{0, 1}, 4096, 1, 0, 0}, -1, &base).code(), Code::peer_dead);
  member->watch_abort(nullptr);
  broker.reset();
  const Status status = member->attach({{0, 1}, 4096, 1, 0, 0}, -1, &base);
  EXPECT_EQ(status.code(), Code::peer_dead);
  EXPECT_NE(status.message().find("leader"), std::string::npos) << status.message();
}

TEST(Broker, TwoBrokersOfOneNameIsAnError) {
  std::unique_ptr<Broker> first;
  std::unique_ptr<Broker> second;
  Broker::Options options;
  options.job_tag = concat("twice-", getpid());
  ASSERT_TRUE(Broker::create(options, &first).ok());
  EXPECT_EQ(Broker::create(options, &second).code(), Code::network);
  options.node = 1;  // another virtual node of the same job on this host
  EXPECT_TRUE(Broker::create(options, &second).ok());
}

#if !defined( \
    __SANITIZE_THREAD__)  // a forked child of a process with threads is beyond ThreadSanitizer
// Runs `body` in a child; its return value is the exit status.
pid_t run_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(Processes, ShareMemoryThroughTheBroker) {
  ServedBroker served;
  const BrokerAddress address = served.broker->address();
  const SegmentId id{0, 1};
  constexpr uint32_t members = 4;  // the barrier below counts on it
  const uint64_t bytes[members] = {4096, 100, 3'000'000, 8};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  const ControlLayout layout = control_layout(
      {.members = members, .slots_per_member = 4, .waiters = 16, .node_table_bytes = 100});
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < members; ++i) {
    children.push_back(run_child([&, i]() -> int {
      const int inherited_maps = count_memfd_maps();  // of the broker in our parent, depending on
                                                      // when we were forked
      auto memory = make_node_memory(address, true);
      std::byte* control_base = nullptr;
      if (!memory->attach({{0, 0}, layout.total_bytes, members, 0, 0}, patience_ns, &control_base)
               .ok())
        return 1;
      const Control control(control_base, layout);
      if (i == 0) control.initialise();
      std::byte* base = nullptr;
      if (!memory->attach(request_of(id, plan, bytes, i), patience_ns, &base).ok()) return 2;
      LocalSegment segment(base, id);
      segment.publish(i, members, static_cast<Rank>(i), plan.offsets[i], bytes[i]);
      // A barrier of this test's own, in the node table.
      auto& arrived = *reinterpret_cast<std::atomic<uint32_t>*>(control.node_table());
      const auto barrier = [&](uint32_t round) {
        arrived.fetch_add(1);
        futex_wake(&arrived, 1 << 30);
        return wait_until(
                   &arrived, [round](uint32_t v) { return v >= round * 4; },
                   deadline_after(patience_ns), nullptr) == WaitResult::reached;
      };
      if (!barrier(1) || !control.matches()) return 3;
      const Stripes stripes(control.stripes(), i, control.watch());
      Region target;
      if (!segment.find(3, &target) || target.bytes != 8) return 4;
      for (int round = 0; round < 1000; ++round) {
        uint64_t old = 0;
        if (rmw(target, 0, {RmwOp::fetch_add, 8, 1, 0}, stripes, Patience::wait, &old) !=
            LockResult::locked)
          return 5;
      }
      if (!barrier(2)) return 6;
      uint64_t sum = 0;
      get(&sum, target.base, 8);
      if (sum != 1000 * members) return 7;
      if (!barrier(3)) return 8;
      if (count_memfd_maps() != inherited_maps + 2) return 9;
      if (!memory->detach(id).ok() || !memory->detach({0, 0}).ok() ||
          count_memfd_maps() != inherited_maps)
        return 10;
      return 0;
    }));
  }
  for (const pid_t pid : children) EXPECT_EQ(status_of(pid), 0);
  served.stop();
  EXPECT_EQ(served.broker->segments_owner(), 0u);
}

// Without a descriptor for the connection the broker left its listener readable: its thread never
// slept again, and members waited without a word.
TEST(Processes, ABrokerWithoutDescriptorsSaysSoAndGoesOnLater) {
  ServedBroker served;
  const uint64_t bytes[] = {4096};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  int go[2], told[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(told), 0);
  const pid_t member = run_child([&]() -> int {
    auto memory = make_node_memory(served.broker->address(), false);
    std::byte* base = nullptr;
    char byte = 0;
    for (const bool enough : {false, true}) {
      if (read(go[0], &byte, 1) != 1) return 1;
      const Status status = memory->attach(request_of({0, 7}, plan, bytes, 0), patience_ns, &base);
      if (status.ok() != enough) return enough ? 2 : 3;
      if (!enough && status.message().find("Too many open files") == std::string::npos) return 4;
      if (write(told[1], &byte, 1) != 1) return 5;
    }
    return memory->detach({0, 7}).ok() ? 0 : 6;
  });
  std::vector<int> taken;
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken.push_back(fd);
  ASSERT_EQ(write(go[1], "1", 1), 1);
  char byte = 0;
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  for (const int fd : taken) close(fd);
  ASSERT_EQ(write(go[1], "2", 1), 1);
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  EXPECT_EQ(status_of(member), 0);
  for (const int fd : {go[0], go[1], told[0], told[1]}) close(fd);
}

// A member that keeps its connection does not keep others out.
TEST(Processes, AConnectionThatIsKeptMakesRoomForANewOne) {
  ServedBroker served;
  const uint64_t bytes[] = {4096};
  SegmentPlan plan;
  ASSERT_TRUE(plan_segment(bytes, &plan));
  int go[2], told[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(told), 0);
  const pid_t first = run_child([&]() -> int {
    auto memory = make_node_memory(served.broker->address(), false);
    std::byte* base = nullptr;
    char byte = 0;
    for (uint32_t generation = 1; generation <= 2; ++generation) {
      const SegmentId id{0, generation};
      if (read(go[0], &byte, 1) != 1) return 1;
      if (!memory->attach(request_of(id, plan, bytes, 0), patience_ns, &base).ok()) return 2;
      if (write(told[1], &byte, 1) != 1) return 3;
    }
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(write(go[1], "1", 1), 1);
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  std::vector<int> taken;
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken.push_back(fd);
  // Expect: the broker closes the connection that is kept, and has a descriptor for the newcomer's;
  // none for memory.
  const pid_t second = run_child([&]() -> int {
    for (const int fd : taken) close(fd);
    auto memory = make_node_memory(served.broker->address(), false);
    std::byte* base = nullptr;
    const Status status = memory->attach(request_of({0, 7}, plan, bytes, 0), patience_ns, &base);
    return status.message().find("Too many open files") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status_of(second), 0);
  for (const int fd : taken) close(fd);
  ASSERT_EQ(write(go[1], "2", 1), 1);
  EXPECT_EQ(status_of(first), 0) << "it connects anew";
  for (const int fd : {go[0], go[1], told[0], told[1]}) close(fd);
}

TEST(Processes, ADeathInsideAStripeIsFoundByWhoWaitsForIt) {
  const ControlLayout layout = control_layout({.members = 2});
  void* shared = mmap(nullptr, layout.total_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const Control control(static_cast<std::byte*>(shared), layout);
  control.initialise();
  std::vector<std::byte> slice(4096);
  const Region region{slice.data(), slice.size(), stripe_seed({0, 1}, 0), Kind::node_shared};
  const uint32_t index = stripe_index(region.seed, 0);

  const pid_t victim = run_child([&]() -> int {
    const Stripes stripes(control.stripes(), 1, control.watch());
    if (stripes.lock(index, Patience::wait) != LockResult::locked) return 1;
    raise(SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status_of(victim)));
  // Expect: while no process has noticed the death, the server sees a busy stripe and the patient
  // keep waiting, ...
  const OwnerWatch watch = control.watch();
  const Stripes stripes(control.stripes(), 0, watch);
  EXPECT_EQ(stripes.lock(index, Patience::try_once), LockResult::busy);
  // ... and once the launcher has told, a sleeper finds it without being woken.
  std::thread undertaker([&] {
    control.member(1).state.store(static_cast<uint32_t>(MemberState::dead),
                                  std::memory_order_release);
  });
  uint64_t old = 0;
  EXPECT_EQ(rmw(region, 8, {RmwOp::fetch_add, 8, 1, 0}, stripes, Patience::wait, &old),
            LockResult::owner_dead);
  undertaker.join();
  EXPECT_EQ(stripes.lock(index, Patience::try_once), LockResult::owner_dead);
  const Status status = stripes.explain(LockResult::owner_dead, index);
  EXPECT_EQ(status.code(), Code::peer_dead);
  EXPECT_NE(status.message().find("process 1 "), std::string::npos) << status.message();
  munmap(shared, layout.total_bytes);
}
#endif

TEST(Control, KeepsTheFirstReasonToEnd) {
  const ControlLayout layout = control_layout({.members = 1});
  void* shared = mmap(nullptr, layout.total_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const Control control(static_cast<std::byte*>(shared), layout);
  EXPECT_FALSE(control.matches()) << "not initialised yet";
  control.initialise();
  EXPECT_TRUE(control.matches());
  EXPECT_FALSE(Control(static_cast<std::byte*>(shared), control_layout({.members = 2})).matches());
  EXPECT_FALSE(control.is_aborted());
  EXPECT_TRUE(control.set_abort(3, -5, std::string(5000, 'x')));
  EXPECT_FALSE(control.set_abort(4, -5, "too late"));
  EXPECT_TRUE(control.is_aborted());
  EXPECT_EQ(control.header().abort_rank, 3);
  EXPECT_EQ(std::string(control.header().abort_text), std::string(1023, 'x'));
  munmap(shared, layout.total_bytes);
}

// The records took 32 bytes for each rank of the job.
TEST(Control, RecordsOfWaitersDoNotGrowWithTheJob) {
  EXPECT_EQ(waiters_of(4, 2), 68u);
  const auto bytes_of = [](uint32_t ranks) {
    const ControlLayout layout = control_layout({.members = 64, .waiters = waiters_of(ranks, 64)});
    return layout.reader_lines_offset - layout.waiters_offset;
  };
  EXPECT_EQ(bytes_of(10'000), bytes_of(1'000'000));
  EXPECT_LE(bytes_of(1'000'000), 300u * 1024);
}

TEST(Control, CostsWhatTheDesignAllows) {
  // What one more rank on the node costs the node. Pinned, so that no change makes it grow without
  // noticing.
  const uint64_t few = control_layout({.members = 64}).total_bytes;
  const uint64_t many = control_layout({.members = 128}).total_bytes;
  EXPECT_EQ((many - few) / 64, sizeof(Member) + 64 * sizeof(CompletionSlot) + reader_line_bytes);
}

TEST(Plan, PutsEverySliceOnItsOwnPages) {
  SegmentPlan plan;
  const uint64_t bytes[] = {1, 0, 4096, 4097};
  ASSERT_TRUE(plan_segment(bytes, &plan));
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{4096, 8192, 8192, 12288}));
  EXPECT_EQ(plan.total_bytes, 20480u);
  const uint64_t too_many[] = {uint64_t{1} << 62, uint64_t{1} << 62};
  EXPECT_FALSE(plan_segment(too_many, &plan));
  const std::vector<uint64_t> crowd(200, 8);
  ASSERT_TRUE(plan_segment(crowd, &plan));
  EXPECT_EQ(plan.offsets[0], 12288u) << "the header of 200 members needs three pages";
}

}  // namespace
}  // namespace skerry::memory
