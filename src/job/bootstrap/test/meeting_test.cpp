#include "job/bootstrap/meeting.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {
namespace {

// The port that an invitation names: after the two tokens.
uint16_t port_of(std::span<const std::byte> invitation) {
  FrameBuffer buffer(max_control_payload);
  buffer.append(invitation);
  std::optional<Frame> frame;
  EXPECT_TRUE(buffer.next(&frame).ok());
  FrameReader reader(*frame);
  (void)reader.bytes(32);
  return static_cast<uint16_t>(reader.u32());
}

int connect_to(std::span<const std::byte> invitation) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_of(invitation));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

using Invitations = std::vector<std::vector<std::byte>>;

// All ranks, opened and invited, in this process.
std::vector<std::unique_ptr<Meeting>> make_meetings(int size, Invitations* invitations) {
  std::vector<std::unique_ptr<Meeting>> ranks;
  invitations->resize(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<Meeting>());
    EXPECT_TRUE(ranks.back()->open(rank, size, &(*invitations)[static_cast<size_t>(rank)]).ok());
  }
  for (int rank = 1; rank < size; ++rank) {
    const auto& invitation = (*invitations)[static_cast<size_t>(Meeting::parent_of(rank))];
    EXPECT_TRUE(ranks[static_cast<size_t>(rank)]->accept_invitation(invitation).ok());
  }
  return ranks;
}

TEST(Meeting, NobodyLeavesBeforeAllHaveComeDespiteUnauthenticatedPeers) {
  constexpr int size = 12;
  Invitations invitations;
  auto meetings = make_meetings(size, &invitations);
  std::vector<int> others;
  for (int i = 0; i < 40; ++i) {
    others.push_back(connect_to(invitations[static_cast<size_t>(i % 3)]));
    if (i % 2 == 0) (void)send(others.back(), "hello, is this the printer?", 27, MSG_NOSIGNAL);
  }
  std::atomic<int> arrived{0};
  std::vector<std::thread> ranks;
  for (auto& mine : meetings) {
    ranks.emplace_back([&] {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        const Status status = mine->meet();
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_GE(arrived.load(), round * size);
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const int fd : others) close(fd);
}

// Runs `rank_main(rank)` in a process of its own for each rank, with at most `files` open files.
// True if all returned true.
bool run_ranks(int size, rlim_t files, const std::function<bool(int)>& rank_main) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      const rlimit limit{files, files};
      (void)setrlimit(RLIMIT_NOFILE, &limit);
      _exit(rank_main(rank) ? 0 : 1);
    }
    processes.push_back(pid);
  }
  bool all = true;
  for (const pid_t pid : processes) {
    int status = 0;
    all = waitpid(pid, &status, 0) == pid && status == 0 && all;
  }
  return all;
}

// Every rank came to rank 0, which needed a descriptor for each at the same time. With 60 ranks and
// 48 descriptors no rank could leave, and rank 0 asked its full listener without a pause.
TEST(Meeting, MoreRanksMeetThanOneRankMayOpenFiles) {
  constexpr int size = 60;
  constexpr rlim_t files = 24;
  struct Shared {
    pthread_barrier_t opened;
    std::atomic<int> arrived;
    uint32_t bytes[size];
    std::byte invitations[size][4096];
  };
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->opened, &attributes, size);
  EXPECT_TRUE(run_ranks(size, files, [&](int rank) {
    Meeting mine;
    std::vector<std::byte> invitation;
    bool good = mine.open(rank, size, &invitation).ok();
    shared->bytes[rank] = static_cast<uint32_t>(invitation.size());
    std::copy(invitation.begin(), invitation.end(), shared->invitations[rank]);
    pthread_barrier_wait(&shared->opened);
    if (rank > 0) {
      const int parent = Meeting::parent_of(rank);
      good = mine.accept_invitation({shared->invitations[parent], shared->bytes[parent]}).ok() &&
             good;
    }
    for (int round = 1; round <= 3 && good; ++round) {
      shared->arrived.fetch_add(1);
      good = mine.meet().ok() && shared->arrived.load() >= round * size;
    }
    return good;
  }));
  munmap(shared, sizeof(Shared));
}

// Takes every descriptor that this process may still open.
std::vector<int> take_all_descriptors() {
  std::vector<int> taken;
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken.push_back(fd);
  return taken;
}

TEST(Meeting, AShortageOfDescriptorsIsWaitedForAndNamedWhenItLasts) {
  EXPECT_TRUE(run_ranks(1, 64, [](int) {
    Meeting parent(std::chrono::milliseconds(300)), child(std::chrono::milliseconds(300));
    std::vector<std::byte> invitation, none;
    bool good = parent.open(0, 2, &invitation).ok() && child.open(1, 2, &none).ok() &&
                child.accept_invitation(invitation).ok() && none.empty();
    std::vector<int> taken = take_all_descriptors();
    const Status lonely = child.meet();  // has no socket
    good = good && lonely.message().find("ulimit -n") != std::string::npos;
    return good;
  }));
  EXPECT_TRUE(run_ranks(1, 64, [](int) {
    Meeting parent(std::chrono::milliseconds(300));
    std::vector<std::byte> invitation;
    bool good = parent.open(0, 2, &invitation).ok();
    const int waiting = connect_to(invitation);
    std::vector<int> taken = take_all_descriptors();
    const auto busy_ns = [] {
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return now.tv_sec * 1'000'000'000L + now.tv_nsec;
    };
    const long before_ns = busy_ns();
    const Status full = parent.meet();                   // cannot accept
    good = good && busy_ns() - before_ns < 100'000'000;  // it sleeps meanwhile
    good = good && full.message().find("ulimit -n") != std::string::npos;
    return good && waiting >= 0;
  }));
  EXPECT_TRUE(run_ranks(1, 64, [](int) {
    Meeting parent, child;
    std::vector<std::byte> invitation, none;
    bool good = parent.open(0, 2, &invitation).ok() && child.open(1, 2, &none).ok() &&
                child.accept_invitation(invitation).ok();
    // The threads begin before the shortage: a sanitizer looks at what they start with, and needs a
    // descriptor for that.
    std::atomic<bool> is_short{false};
    std::vector<int> taken;
    std::thread visitor([&] {
      is_short.wait(false);
      good = child.meet().ok() && good;
    });
    std::thread relief([&] {
      is_short.wait(false);
      for (const int fd : taken) close(fd);
    });
    taken = take_all_descriptors();
    is_short = true;
    is_short.notify_all();
    const bool met = parent.meet().ok();
    relief.join();
    visitor.join();
    return good && met;
  }));
}

TEST(Meeting, AParentThatHasGoneIsAnErrorAndNoWait) {
  Invitations invitations;
  auto ranks = make_meetings(2, &invitations);
  ranks[0].reset();
  EXPECT_EQ(ranks[1]->meet().code(), Code::network);
}

TEST(Meeting, ARankWhoseParentGivesUpIsToldSo) {
  std::vector<std::byte> invitation, none;
  auto root = std::make_unique<Meeting>(std::chrono::milliseconds(300));  // rank 2 never comes
  ASSERT_TRUE(root->open(0, 3, &invitation).ok());
  Meeting child;
  ASSERT_TRUE(child.open(1, 3, &none).ok());
  ASSERT_TRUE(child.accept_invitation(invitation).ok());
  Status told;
  std::thread thread([&] { told = child.meet(); });
  EXPECT_EQ(root->meet().code(), Code::network);
  root.reset();  // if the child comes only now, nobody listens
  thread.join();
  EXPECT_EQ(told.code(), Code::network);
}

TEST(Meeting, ACutInvitationIsRefused) {
  Meeting parent;
  std::vector<std::byte> invitation, none;
  ASSERT_TRUE(parent.open(0, 2, &invitation).ok());
  for (size_t bytes = 0; bytes < invitation.size(); ++bytes) {
    Meeting mine;
    ASSERT_TRUE(mine.open(1, 2, &none).ok());
    EXPECT_FALSE(mine.accept_invitation(std::span(invitation).first(bytes)).ok());
  }
}

}  // namespace
}  // namespace skerry::job
