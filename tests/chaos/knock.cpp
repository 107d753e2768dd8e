// Unauthenticated peers, many of them, and a dummy to compare a server with.
//
//   knock listen                           accepts and closes, nothing else; prints its port first
//   knock garbage HOST PORT SECONDS COUNT  connects, says garbage, waits to be sent away; 32 at a
//                                          time, until both SECONDS and COUNT are done
//   knock slow HOST PORT SECONDS N         N connections that say one byte of a hello every half
//                                          second, and come again when sent away
//   knock replay HOST PORT SECONDS HEX     sends recorded bytes over and over, one connection each
//   knock scan HOST SECONDS                connects to one port after another and goes
//
// Prints how many connections it made. tests/chaos/unauthenticated.py uses it; by itself it is no
// test.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in address_of(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

int start_connect(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const linger gone{1, 0};  // closing resets: no port of ours stays in TIME_WAIT, or a long attack
                            // would run out of them
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &gone, sizeof gone);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    close(fd);
    return -1;
  }
  return fd;
}

int listen_and_close() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, 4096) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 1;
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  for (;;) {
    const int visitor = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (visitor >= 0) close(visitor);
  }
}

// Keeps `width` connections open. Each sends `words`, all at once or byte by byte, and connects
// again when the server has closed.
uint64_t knock(const sockaddr_in& address, size_t width, const std::string& words, bool slowly,
               double seconds, uint64_t at_least) {
  struct Visitor {
    int fd = -1;
    size_t said = 0;
    bool connected = false;
  };
  std::vector<Visitor> visitors(width);
  std::vector<pollfd> watched(width);
  uint64_t made = 0;
  const auto begin = Clock::now();
  auto next_byte = begin;
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds || made < at_least) {
    for (Visitor& v : visitors)
      if (v.fd < 0) {
        v = {start_connect(address), 0, false};
        if (v.fd >= 0) ++made;
      }
    for (size_t i = 0; i < width; ++i)
      watched[i] = {visitors[i].fd, static_cast<short>(visitors[i].connected ? POLLIN : POLLOUT),
                    0};
    poll(watched.data(), watched.size(), 100);
    const bool byte_due = slowly && Clock::now() >= next_byte;
    if (byte_due) next_byte = Clock::now() + std::chrono::milliseconds(500);
    for (size_t i = 0; i < width; ++i) {
      Visitor& v = visitors[i];
      if (v.fd < 0) continue;
      if (!v.connected && (watched[i].revents & POLLOUT) != 0 &&
          (watched[i].revents & (POLLERR | POLLHUP)) == 0) {
        v.connected = true;
        if (!slowly) (void)!send(v.fd, words.data(), words.size(), MSG_NOSIGNAL);
      } else if (watched[i].revents != 0) {  // sent away
        close(v.fd);
        v.fd = -1;
        continue;
      }
      if (byte_due && v.connected && v.said < words.size())
        (void)!send(v.fd, &words[v.said++], 1, MSG_NOSIGNAL);
    }
  }
  for (Visitor& v : visitors)
    if (v.fd >= 0) close(v.fd);
  return made;
}

uint64_t scan(const char* host, double seconds) {
  uint64_t made = 0;
  const auto begin = Clock::now();
  for (int port = 1; std::chrono::duration<double>(Clock::now() - begin).count() < seconds;
       port = port % 65535 + 1) {
    const int fd = start_connect(address_of(host, port));
    if (fd < 0) continue;
    ++made;
    pollfd watched{fd, POLLOUT, 0};
    poll(&watched, 1, 20);
    close(fd);
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "listen") return listen_and_close();
  uint64_t made = 0;
  if (kind == "scan" && argc == 4) {
    made = scan(argv[2], std::atof(argv[3]));
  } else if (argc == 6) {
    const sockaddr_in server = address_of(argv[2], std::atoi(argv[3]));
    const double seconds = std::atof(argv[4]);
    if (kind == "garbage")
      made = knock(server, 32, "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n", false, seconds,
                   std::strtoull(argv[5], nullptr, 0));
    if (kind == "slow")
      made = knock(server, std::strtoull(argv[5], nullptr, 0),
                   std::string("SKRY\x01\x00\x24\x00", 8) + std::string(36, 'x'), true, seconds, 0);
    if (kind == "replay") {
      std::string words;
      const std::string hex = argv[5];
      for (size_t i = 0; i + 1 < hex.size(); i += 2)
        words += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
      made = knock(server, 4, words, false, seconds, 0);
    }
  } else {
    std::fprintf(stderr, "knock: see the head of knock.cpp\n");
    return 2;
  }
  std::printf("%llu\n", static_cast<unsigned long long>(made));
  return 0;
}
