// A wake-up that Linux loses: a socket has bytes, poll(2) says readable, a level-triggered epoll
// never tells. Plain sockets over the loopback, nothing of Skerry. See README.md beside this file.
//
// Each pair is two threads. The receiver opens a fresh connection and asks for some 100 to 300 KB.
// It reads as a pattern says, and closes with a reset. A wait that lasts 2 s and leaves bytes
// unread that poll(2) calls readable is a stall.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Settings {
  uint64_t connections = 1'000'000;  // in all
  unsigned pairs = 2;
  bool reachable_marks = false;  // --pattern new: at most half of the receive window
  uint64_t seed = 1;
};
constexpr uint64_t most_mark_bytes = 256 * 1024;  // SO_RCVLOWAT, as far as that much is to come
constexpr uint64_t least_bytes = 100'000, most_bytes = 300'000;
constexpr size_t header_bytes = 96;
constexpr int stall_ms = 2000;

std::atomic<uint64_t> begun{0}, ended{0}, stalls{0}, waits{0};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "lost_wakeup: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

void set_option(int fd, int level, int name, int value) {
  if (setsockopt(fd, level, name, &value, sizeof value) != 0) fail("setsockopt");
}

// Serves one connection after the other until a request for 0 bytes.
void serve(int listener) {
  const std::vector<std::byte> bytes(header_bytes + most_bytes);
  for (bool goes_on = true; goes_on;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) fail("accept");
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    uint64_t wanted = 0;
    if (recv(fd, &wanted, sizeof wanted, MSG_WAITALL) != sizeof wanted) fail("request");
    goes_on = wanted != 0;
    uint64_t sent = 0;
    while (goes_on && sent < header_bytes + wanted) {
      const ssize_t n = send(fd, bytes.data() + sent, header_bytes + wanted - sent,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) {
        sent += static_cast<uint64_t>(n);
        continue;
      }
      if (errno != EAGAIN) fail("send");
      pollfd room{fd, POLLOUT, 0};
      poll(&room, 1, -1);
    }
    char nothing;
    (void)!recv(fd, &nothing, 1, 0);  // until the receiver has closed
    close(fd);
  }
}

class Receiver {
 public:
  Receiver(const Settings& settings, sockaddr_in address, unsigned index)
      : settings_(settings), address_(address), random_(settings.seed * 1000 + index) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) fail("epoll_create1");
  }
  ~Receiver() { close(epoll_); }

  void run() {
    while (begun.fetch_add(1) < settings_.connections) {
      one_connection(std::uniform_int_distribution<uint64_t>(least_bytes, most_bytes)(random_));
      ended.fetch_add(1);
    }
    open(0);
    close(fd_);
  }

 private:
  void open(uint64_t wanted) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) fail("socket");
    set_option(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0)
      fail("connect");
    if (send(fd_, &wanted, sizeof wanted, MSG_NOSIGNAL) != sizeof wanted) fail("request");
  }

  void one_connection(uint64_t wanted) {
    open(wanted);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_, &event) != 0) fail("epoll_ctl");
    uint64_t to_come = header_bytes + wanted, mark = 1;
    while (to_come > 0) {
      wait(to_come, mark);
      // The first read is a message's: it brings at most 128 KiB. The rest is a payload's.
      const uint64_t most = mark == 1 ? 128 * 1024 : to_come;
      const ssize_t n = recv(fd_, room_.data(), std::min(most, to_come), MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) fail("recv");
      to_come -= static_cast<uint64_t>(n);
      const uint64_t next = std::clamp<uint64_t>(to_come, 1, most_mark());
      if (next != mark) set_option(fd_, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(next));
      mark = next;
    }
    const linger at_once{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd_);
  }

  uint64_t most_mark() const {
    if (!settings_.reachable_marks) return most_mark_bytes;
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) fail("TCP_INFO");
    return std::clamp<uint64_t>(info.tcpi_rcv_ssthresh / 2, 1, most_mark_bytes);
  }

  // As the fabric does: looks for a moment, then sleeps.
  void wait(uint64_t to_come, uint64_t mark) {
    epoll_event event{};
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(60);
    do {
      if (epoll_wait(epoll_, &event, 1, 0) > 0) return;
      sched_yield();
    } while (std::chrono::steady_clock::now() < until);
    waits.fetch_add(1, std::memory_order_relaxed);
    if (epoll_wait(epoll_, &event, 1, stall_ms) != 0) return;
    int unread = 0;
    ioctl(fd_, FIONREAD, &unread);
    pollfd look{fd_, POLLIN, 0};
    const int readable = poll(&look, 1, 0);
    // Not lost, if the event came just now.
    if (readable == 0 || epoll_wait(epoll_, &event, 1, 100) != 0) return;
    stalls.fetch_add(1);
    std::printf("stall: %d bytes unread of %s to come, mark %s, poll says %s, connection %s\n",
                unread, std::to_string(to_come).c_str(), std::to_string(mark).c_str(),
                (look.revents & POLLIN) != 0 ? "readable" : "something else",
                std::to_string(ended.load()).c_str());
    std::fflush(stdout);
  }

  const Settings settings_;
  const sockaddr_in address_;
  std::mt19937_64 random_;
  int epoll_ = -1, fd_ = -1;
  std::vector<std::byte> room_ = std::vector<std::byte>(header_bytes + most_bytes);
};

void run_pair(const Settings& settings, unsigned index) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 8) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("listen");
  std::thread server(serve, listener);
  Receiver(settings, address, index).run();
  server.join();
  close(listener);
}

void print_state(double seconds) {
  std::printf("%.0f s: %s connections, %s sleeps, %s stalls\n", seconds,
              std::to_string(ended.load()).c_str(), std::to_string(waits.load()).c_str(),
              std::to_string(stalls.load()).c_str());
  std::fflush(stdout);
}

int usage() {
  std::fprintf(stderr,
               "usage: lost_wakeup [--pattern old|new] [--connections N] [--pairs N] "
               "[--seed N]\n");
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 >= count) return usage();
    const std::string name = arguments[i], value = arguments[i + 1];
    if (name == "--pattern" && value == "old") settings.reachable_marks = false;
    else if (name == "--pattern" && value == "new") settings.reachable_marks = true;
    else if (name == "--connections") settings.connections = std::stoull(value);
    else if (name == "--pairs") settings.pairs = static_cast<unsigned>(std::stoul(value));
    else if (name == "--seed") settings.seed = std::stoull(value);
    else return usage();
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::atomic<bool> done{false};
  std::thread reporter([&] {
    for (int tick = 1; !done.load(); ++tick) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (tick % 300 == 0) print_state(seconds());
    }
  });
  std::vector<std::thread> pairs;
  for (unsigned i = 0; i < settings.pairs; ++i)
    pairs.emplace_back([&settings, i] { run_pair(settings, i); });
  for (std::thread& pair : pairs) pair.join();
  done.store(true);
  reporter.join();
  print_state(seconds());
  return stalls.load() == 0 ? 0 : 1;
}
