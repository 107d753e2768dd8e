#include "job/bootstrap/meeting.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
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

TEST(Meeting, NobodyLeavesBeforeAllHaveComeDespiteStrangers) {
  constexpr int size = 6;
  Meeting host;
  std::vector<std::byte> invitation;
  ASSERT_TRUE(host.open(size, &invitation).ok());
  std::vector<int> strangers;
  for (int i = 0; i < 40; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_of(invitation));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (i % 2 == 0) (void)send(fd, "hello, is this the printer?", 27, MSG_NOSIGNAL);
    strangers.push_back(fd);
  }
  std::atomic<int> arrived{0};
  std::vector<std::thread> ranks;
  for (int rank = 1; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      Meeting mine;
      EXPECT_TRUE(mine.accept_invitation(rank, invitation).ok());
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        const Status status = mine.meet();
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_GE(arrived.load(), round * size);
      }
    });
  }
  for (int round = 1; round <= 20; ++round) {
    ++arrived;
    const Status status = host.meet();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_GE(arrived.load(), round * size);
  }
  for (auto& rank : ranks) rank.join();
  for (const int fd : strangers) close(fd);
}

TEST(Meeting, AHostThatHasGoneIsAnErrorAndNoWait) {
  auto host = std::make_unique<Meeting>();
  std::vector<std::byte> invitation;
  ASSERT_TRUE(host->open(2, &invitation).ok());
  Meeting mine;
  ASSERT_TRUE(mine.accept_invitation(1, invitation).ok());
  host.reset();
  EXPECT_EQ(mine.meet().code(), Code::network);
}

TEST(Meeting, ACutInvitationIsRefused) {
  Meeting host;
  std::vector<std::byte> invitation;
  ASSERT_TRUE(host.open(2, &invitation).ok());
  for (size_t bytes = 0; bytes < invitation.size(); ++bytes) {
    Meeting mine;
    EXPECT_FALSE(mine.accept_invitation(1, std::span(invitation).first(bytes)).ok());
  }
}

}  // namespace
}  // namespace skerry::job
