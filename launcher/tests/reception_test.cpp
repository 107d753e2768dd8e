// Which peers the port lets in that agents of other hosts report to.
#include "launcher/reception.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>

#include <thread>

namespace skerry::launcher {
namespace {

UniqueFd unauthenticated_peer(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

struct Port {
  Port()
      : reception(loop, key, [this](uint32_t agent, UniqueFd socket) {
          recognised.push_back(agent);
          sockets.push_back(std::move(socket));
          loop.stop(0);
        }) {
    EXPECT_TRUE(reception.open("127.0.0.1").ok());
    loop.after(std::chrono::seconds(60),
               [this] { loop.stop(1); });  // a failure must not hang the test
  }
  const Key key = random_key();
  EventLoop loop;
  std::vector<uint32_t> recognised;
  std::vector<UniqueFd> sockets;
  Reception reception;
};

TEST(Reception, LetsAnAgentInDespiteAThousandIdleUnauthenticatedPeersAndGarbage) {
  Port port;
  std::vector<UniqueFd> unauthenticated;
  std::thread others([&] {
    for (int i = 0; i < 1000; ++i) {
      unauthenticated.push_back(unauthenticated_peer(port.reception.port()));
      const char garbage[200] = "GET / HTTP/1.1\r\n";
      if (i % 3 == 0)
        (void)send(unauthenticated.back().get(), garbage, sizeof garbage, MSG_NOSIGNAL);
      if (i % 7 == 0) unauthenticated.back().reset();
    }
    UniqueFd socket;
    const Status status = report_to_launcher({"127.0.0.1"}, port.reception.port(), 5, port.key,
                                             &socket);
    EXPECT_TRUE(status.ok()) << status.message();
  });
  EXPECT_EQ(port.loop.run(), 0);
  others.join();
  EXPECT_EQ(port.recognised, std::vector<uint32_t>{5});
}

// Without a descriptor for a waiting agent the listener stayed readable and the launcher never
// slept.
TEST(Reception, AShortageOfDescriptorsIsWaitedForAsleep) {
  Port port;
  const UniqueFd waiting = unauthenticated_peer(port.reception.port());
  std::vector<UniqueFd> taken;
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken.emplace_back(fd);
  const auto busy_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000L + now.tv_nsec;
  };
  const long before_ns = busy_ns();
  port.loop.after(std::chrono::milliseconds(500), [&] { port.loop.stop(2); });
  EXPECT_EQ(port.loop.run(), 2);
  EXPECT_LT(busy_ns() - before_ns, 100'000'000) << "ns of this core in half a second";
  taken.clear();
  std::thread agent([&] {
    UniqueFd socket;
    EXPECT_TRUE(
        report_to_launcher({"127.0.0.1"}, port.reception.port(), 4, port.key, &socket).ok());
  });
  EXPECT_EQ(port.loop.run(), 0);
  agent.join();
  EXPECT_EQ(port.recognised, std::vector<uint32_t>{4});
}

TEST(Reception, RefusesAnAgentWithAnotherKey) {
  Port port;
  std::thread others([&] {
    UniqueFd socket;
    const Status wrong = report_to_launcher({"127.0.0.1"}, port.reception.port(), 0, random_key(),
                                            &socket);
    EXPECT_EQ(wrong.code(), Code::network);
    EXPECT_FALSE(socket);
    EXPECT_TRUE(
        report_to_launcher({"127.0.0.1"}, port.reception.port(), 1, port.key, &socket).ok());
  });
  EXPECT_EQ(port.loop.run(), 0);
  others.join();
  EXPECT_EQ(port.recognised, std::vector<uint32_t>{1});
}

TEST(Reception, AnAgentRefusesAFalseLauncherAndTriesTheNextAddress) {
  Port port;
  // 127.0.0.2 answers on the same port but does not know the key.
  EventLoop false_loop;
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port.reception.port());
  ASSERT_EQ(inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  std::thread impostor([&] {
    const UniqueFd victim(accept(listener.get(), nullptr, nullptr));
    auto answer = job::FrameWriter(job::FrameType::challenge).bytes(random_nonce()).finish();
    const auto
        welcome = job::FrameWriter(job::FrameType::agent_welcome).bytes(random_key()).finish();
    answer.insert(answer.end(), welcome.begin(), welcome.end());
    (void)send(victim.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    char until_closed[256];
    while (recv(victim.get(), until_closed, sizeof until_closed, 0) > 0) {
    }
  });
  std::thread agent([&] {
    UniqueFd socket;
    EXPECT_TRUE(
        report_to_launcher({"127.0.0.2", "127.0.0.1"}, port.reception.port(), 3, port.key, &socket)
            .ok());
  });
  EXPECT_EQ(port.loop.run(), 0);
  agent.join();
  impostor.join();
  EXPECT_EQ(port.recognised, std::vector<uint32_t>{3});
}

TEST(Reception, AnUnknownInterfaceIsNamedWithWhatThereIs) {
  EventLoop loop;
  Reception reception(loop, random_key(), [](uint32_t, UniqueFd) {});
  const Status status = reception.open("nosuch0");
  EXPECT_EQ(status.code(), Code::config);
  EXPECT_NE(status.message().find("nosuch0"), std::string::npos);
  EXPECT_NE(status.message().find("127.0.0.1"), std::string::npos);
}

}  // namespace
}  // namespace skerry::launcher
