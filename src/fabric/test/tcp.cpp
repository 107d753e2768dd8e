// The tcp fabric against unauthenticated peers: silence, garbage, half a hello, broken connections;
// and streams that come byte by byte.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "fabric/tcp/address.hpp"
#include "fabric/tcp/frame.hpp"
#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

int raw_connection(const std::vector<std::byte>& address) {
  std::vector<tcp::SocketAddress> candidates;
  EXPECT_TRUE(tcp::decode_address(address, &candidates).ok());
  const int fd = socket(candidates[0].storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      ::connect(fd, reinterpret_cast<const sockaddr*>(&candidates[0].storage), candidates[0].bytes),
      0);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

void write_all(int fd, Bytes bytes) {
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

bool closed_by_peer(int fd) {
  char byte;
  const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

std::vector<std::byte> greeting(std::string_view hello) {
  const tcp::Greeting head{tcp::connect_magic, tcp::greeting_version,
                           static_cast<uint16_t>(hello.size())};
  std::vector<std::byte> out(sizeof head + hello.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::memcpy(out.data() + sizeof head, hello.data(), hello.size());
  return out;
}

std::vector<std::byte> frame(std::string_view header, Bytes payload) {
  const uint64_t prefix = tcp::encode_prefix(header.size(), payload.size());
  std::vector<std::byte> out(sizeof prefix + header.size() + payload.size());
  std::memcpy(out.data(), &prefix, sizeof prefix);
  std::memcpy(out.data() + sizeof prefix, header.data(), header.size());
  if (!payload.empty())
    std::memcpy(out.data() + sizeof prefix + header.size(), payload.data(), payload.size());
  return out;
}

tcp::InterfaceAddress own_loopback() {
  tcp::InterfaceAddress one;
  one.family = AF_INET;
  one.loopback = true;
  one.address = {127, 0, 0, 1};
  return one;
}

class Tcp : public testing::Test, protected TwoSides {
 protected:
  std::unique_ptr<Side> side(Options options = {}) {
    options.loopback_only = true;
    std::unique_ptr<Fabric> fabric;
    EXPECT_TRUE(make_tcp_fabric(options, &fabric).ok());
    return std::make_unique<Side>(std::move(fabric));
  }
  void serve(Options options = {}) {
    target = side(options);
    EXPECT_TRUE(target->fabric->listen(&address).ok());
  }
  ~Tcp() override {
    for (int fd : fds) ::close(fd);
  }
  int unauthenticated_peer() {
    fds.push_back(raw_connection(address));
    return fds.back();
  }
  // One that said its hello and was accepted.
  int peer() {
    const int fd = unauthenticated_peer();
    const size_t before = target->accepted.size();
    write_all(fd, greeting("hello"));
    EXPECT_TRUE(target_until([&] { return target->accepted.size() > before; }));
    return fd;
  }
  // A client of the same process.
  void connect_and_wait() {
    client = side();
    ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
    ASSERT_TRUE(until([&] { return !client->connected.empty(); }));
  }
  std::vector<int> fds;
};

// A data server that is lent: its own thread sleeps on, while another one takes its turns.
TEST_F(Tcp, BlindAwaitSleepsUntilItSeesWhatWasLeft) {
  serve();
  client = side();
  ASSERT_TRUE(target->fabric->open_await());
  EndpointId out = no_endpoint, in = no_endpoint;
  join(*client, *target, &out, &in);
  target->fabric->blind_await();
  std::atomic<bool> woke{false};
  std::thread own([&] {
    target->fabric->await(-1);
    woke = true;
  });
  EXPECT_EQ(send(*client, out, "for the borrower"), SendResult::accepted);
  ASSERT_TRUE(until([&] { return target->messages.size() == 1; }));
  EXPECT_FALSE(woke);
  EXPECT_EQ(send(*client, out, "for the thread"), SendResult::accepted);
  target->fabric->end_blindness(-1);
  own.join();
  ASSERT_TRUE(until([&] { return target->messages.size() == 2; }));
}

TEST_F(Tcp, GarbageIsClosedAtItsFirstWrongByte) {
  serve();
  const std::vector<std::string> garbage = {"G",
                                            "GET / HTTP/1.1\r\n\r\n",
                                            std::string("SKRX"),
                                            std::string("SKRY\x02\x00\x00\x00", 8),
                                            std::string("SKRY\x01\x00\x38\x00", 8),
                                            std::string("SKRY\x01\x00\xff\xff", 8)};
  for (const std::string& text : garbage) write_all(unauthenticated_peer(), as_bytes(text));
  ASSERT_TRUE(target_until([&] { return std::all_of(fds.begin(), fds.end(), closed_by_peer); }));
  EXPECT_TRUE(target->requests.empty());
  EXPECT_EQ(target->fabric->traffic().unauthenticated.garbage, garbage.size());
  EXPECT_EQ(target->fabric->traffic().unauthenticated.all(), garbage.size());
}

// Nobody looks at what follows the hello before its sender is accepted; but a frame that cannot be
// one is no peer's.
TEST_F(Tcp, BytesBehindTheHelloWait) {
  serve();
  std::vector<std::byte> bytes = greeting("hello");
  for (int i = 0; i < 12; ++i) bytes.push_back(std::byte{0xff});
  write_all(unauthenticated_peer(), bytes);
  ASSERT_TRUE(target_until([&] { return closed_by_peer(fds[0]); }));
  target->accept_requests = false;
  write_all(unauthenticated_peer(), greeting("hello"));
  ASSERT_TRUE(target_until([&] { return target->requests.size() == 1; }));
  const uint64_t prefix = tcp::encode_prefix(3, 2);
  write_all(fds[1], std::as_bytes(std::span(&prefix, 1)));
  write_all(fds[1], as_bytes("abcde"));
  for (int i = 0; i < 10; ++i) (void)target_until([] { return true; });
  EXPECT_EQ(target->message_count, 0u);
  EXPECT_TRUE(target->fabric->accept(target->requests[0], {}, &far).ok());
  ASSERT_TRUE(target_until([&] { return target->message_count == 1; }));
}

// A peer that comes faster than unauthenticated peers may be refused waits in the system's queue; a
// peer that waits among them gets in.
TEST_F(Tcp, AFloodIsRefusedAtALimitedRateAndAPeerGetsThrough) {
  Options options;
  options.max_refusals_per_s = 1000;  // 100 at once
  serve(options);
  client = side();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) write_all(unauthenticated_peer(), as_bytes("GET / HTTP/1.0"));
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("peer"), &near).ok());
  // Expect: never more than the rate allows (a slow machine only makes it fewer), and all in the
  // end.
  const auto within_rate = [&] {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
                               .count();
    return static_cast<double>(target->fabric->traffic().unauthenticated.garbage) <=
           101 + 1000 * seconds;
  };
  bool always = true;
  ASSERT_TRUE(until([&] {
    const uint64_t seen = target->fabric->traffic().unauthenticated.garbage;
    if (seen > 0) always = always && within_rate();
    return client->connected.size() == 1;
  }));
  EXPECT_TRUE(always);
  EXPECT_EQ(target->fabric->traffic().unauthenticated.garbage, 300u);
}

TEST_F(Tcp, HelloMayComeByteByByte) {
  serve();
  const int fd = unauthenticated_peer();
  for (std::byte b : greeting("slow hello")) {
    write_all(fd, {&b, 1});
    target->step(1'000'000);
  }
  ASSERT_TRUE(target_until([&] { return target->accepted.size() == 1; }));
  EXPECT_EQ(target->hellos[0], "slow hello");
}

// A wait for one endpoint used to sleep in recv while a payload was placed. With a low-water mark
// that recv took the first part of the payload, slept, and was not woken for the rest, which was
// shorter than the mark.
TEST_F(Tcp, TheTailOfADirectPlacementWakesItsReader) {
  serve();
  const int fd = peer();
  const std::vector<std::byte> payload = pattern(2 * inline_payload_bytes, 5);
  const std::vector<std::byte> bytes = frame("long", payload);
  const size_t begin = bytes.size() - payload.size() + 100, middle = begin + inline_payload_bytes;
  write_all(fd, {bytes.data(), begin});
  ASSERT_TRUE(target_until([&] { return target->directs_begun == 1; }));
  write_all(fd, {bytes.data() + begin, middle - begin});
  std::atomic<int> reader_id{0};
  std::thread reader([&] {
    reader_id = gettid();
    while (target->placed == 0 && target->closed.empty()) target->step(-1, target->accepted[0]);
  });
  // Expect: whether the reader has taken the first part or not when it falls asleep, the second
  // wakes it.
  char state = 0;
  while (state != 'S') {
    std::ifstream stat("/proc/self/task/" + std::to_string(reader_id.load()) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');
    state = name_end == std::string::npos ? '\0' : text.at(name_end + 2);
  }
  write_all(fd, {bytes.data() + middle, bytes.size() - middle});
  reader.join();
  ASSERT_EQ(target->placed, 1);
  EXPECT_EQ(target->messages.back().payload, payload);
}

// What the kernel keeps of the fabric's end of a connection to us.
class Kernel {
 public:
  explicit Kernel(int near) {
    sockaddr_storage ours{}, theirs{};
    socklen_t size = sizeof ours;
    EXPECT_EQ(getsockname(near, reinterpret_cast<sockaddr*>(&ours), &size), 0);
    for_each_descriptor([&](int fd, const std::string& what) {
      if (what == "anon_inode:[eventpoll]") epoll_ = fd;
      socklen_t bytes = sizeof theirs;
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &bytes) == 0 && bytes == size &&
          std::memcmp(&ours, &theirs, size) == 0)
        far_ = fd;
    });
    EXPECT_GE(epoll_, 0);
    EXPECT_GE(far_, 0);
  }
  int option(int name) const {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(far_, SOL_SOCKET, name, &value, &size), 0);
    return value;
  }
  // The receive window at its widest.
  uint64_t window() const {
    tcp_info info{};
    socklen_t size = sizeof info;
    EXPECT_EQ(getsockopt(far_, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_rcv_ssthresh;
  }
  // From now on epoll says nothing of it: what the kernel does once in a million connections.
  void loses_wake_ups() const {
    epoll_event none{};
    EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_MOD, far_, &none), 0);
  }

 private:
  template <class Function>
  static void for_each_descriptor(Function function) {
    DIR* const directory = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(directory)) {
      const int fd = std::atoi(entry->d_name);
      char what[64] = {};
      if (readlinkat(dirfd(directory), entry->d_name, what, sizeof what - 1) > 0)
        function(fd, what);
    }
    closedir(directory);
  }
  int epoll_ = -1, far_ = -1;
};

// A low-water mark above what the receive window holds rests on the kernel's look at that window,
// which can miss it: 95,232 bytes lay unread below a mark of 112,788, for ever.
TEST_F(Tcp, AMarkIsOneThatTheReceiveWindowReaches) {
  for (const uint32_t buffer_bytes : {0u, 64u * 1024}) {
    Options options;
    options.socket_buffer_bytes = buffer_bytes;
    serve(options);
    const int fd = peer();
    const std::vector<std::byte> payload = pattern(1024 * 1024, 5);
    const std::vector<std::byte> bytes = frame("long", payload);
    write_all(fd, {bytes.data(), bytes.size() - payload.size() + 100});
    ASSERT_TRUE(target_until([&] { return target->directs_begun == 1; }));
    const Kernel kernel(fd);
    EXPECT_GT(kernel.option(SO_RCVLOWAT), 1);
    EXPECT_LE(static_cast<uint64_t>(kernel.option(SO_RCVLOWAT)), kernel.window() / 2);
  }
}

// The endpoint of a connection that ended within a payload went on with the mark of that one: the
// next connection in its place had none.
TEST_F(Tcp, TheNextConnectionHasAMarkOfItsOwn) {
  serve();
  for (int turn = 1; turn <= 2; ++turn) {
    const int fd = peer();
    const std::vector<std::byte> bytes = frame("long", pattern(1024 * 1024, 5));
    write_all(fd, {bytes.data(), 1000});
    ASSERT_TRUE(target_until([&] { return target->directs_begun == turn; }));
    EXPECT_GT(Kernel(fd).option(SO_RCVLOWAT), 1) << "connection " << turn;
    shutdown(fd, SHUT_RDWR);
    const auto ended = static_cast<size_t>(turn);
    ASSERT_TRUE(target_until([&] { return target->closed.size() == ended; }));
    ::close(fd);
    fds.pop_back();
  }
  EXPECT_EQ(static_cast<uint32_t>(target->accepted[0]), static_cast<uint32_t>(target->accepted[1]))
      << "in the place of the first";
}

// A server sleeps without a limit. With a payload under way it looks at its socket by itself.
TEST_F(Tcp, AWakeUpThatTheKernelLosesIsFoundAndCounted) {
  serve();
  const int fd = peer();
  const std::vector<std::byte> payload = pattern(2 * inline_payload_bytes, 5);
  const std::vector<std::byte> bytes = frame("long", payload);
  const size_t begin = bytes.size() - payload.size() + 100;
  write_all(fd, {bytes.data(), begin});
  ASSERT_TRUE(target_until([&] { return target->directs_begun == 1; }));
  EXPECT_EQ(target->fabric->traffic().waits_found_late, 0u);
  Kernel(fd).loses_wake_ups();
  write_all(fd, {bytes.data() + begin, bytes.size() - begin});
  std::atomic<bool> ended{false}, given_up{false};
  std::thread server_thread([&] {
    while (target->placed == 0 && !given_up) target->step(-1);
    ended = true;
  });
  // Expect: it ends by itself. The time is a net for a broken fabric.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!ended && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  given_up = true;
  target->fabric->wake();
  server_thread.join();
  ASSERT_EQ(target->placed, 1);
  EXPECT_EQ(target->messages.back().payload, payload);
  EXPECT_GE(target->fabric->traffic().waits_found_late, 1u);
}

// Without a mark, too, where somebody waits. What comes as it should is not late.
TEST_F(Tcp, AnOriginThatWaitsInVainLooksAtItsSockets) {
  serve();
  const int fd = peer();
  write_all(fd, frame("first", {}));
  ASSERT_TRUE(target_until([&] { return target->message_count == 1; }));
  EXPECT_EQ(target->fabric->traffic().waits_found_late, 0u);
  Kernel(fd).loses_wake_ups();
  write_all(fd, frame("second", {}));
  ASSERT_TRUE(target_until([&] { return target->message_count == 2; }));
  EXPECT_EQ(target->fabric->traffic().waits_found_late, 1u);
}

TEST_F(Tcp, SilentUnauthenticatedPeersAreClosedAtTheDeadline) {
  Options options;
  options.hello_deadline_ns = 30'000'000;
  serve(options);
  unauthenticated_peer();
  write_all(unauthenticated_peer(), as_bytes("SKR"));
  write_all(unauthenticated_peer(), greeting("but nobody answers me"));
  target->accept_requests = false;
  ASSERT_TRUE(target_until([&] { return std::all_of(fds.begin(), fds.end(), closed_by_peer); }));
  EXPECT_EQ(target->fabric->traffic().unauthenticated.silent, 3u);
  EXPECT_EQ(target->fabric->traffic().endpoints_open, 0u);
}

TEST_F(Tcp, ConnectToAServerThatNeverAnswersTimesOut) {
  Options options;
  options.connect_timeout_ns = 20'000'000;
  client = side(options);
  serve();
  target->accept_requests = false;
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  ASSERT_TRUE(until([&] { return !client->closed.empty(); }));
  EXPECT_EQ(client->reasons[0], CloseReason::unanswered) << "its host did answer";
}

TEST_F(Tcp, AThousandIdleUnauthenticatedPeersDoNotKeepAPeerOut) {
  // The process may have 1,024 descriptors, as is common; both ends of each connection are in it,
  // so unauthenticated peers run it dry.
  constexpr uint64_t unauthenticated = 1000;
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  serve();
  client = side();
  rlimit small = old;
  small.rlim_cur = 700;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  for (uint64_t i = 0; i < unauthenticated; ++i) {
    if (fds.size() ==
        400) {  // ours are needed again: the server must have closed its end or do so now
      ::close(fds.front());
      fds.erase(fds.begin());
    }
    unauthenticated_peer();
    target->step();
  }
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("peer"), &near).ok());
  EXPECT_TRUE(until([&] { return client->connected.size() == 1; }));
  // How many are crowded out and how many leave by themselves depends on the machine's speed. The
  // table's bound does not: all but so many are closed, and no more are kept.
  const uint64_t kept = Options{}.max_unauthenticated;
  EXPECT_TRUE(target_until(
      [&] { return target->fabric->traffic().unauthenticated.all() >= unauthenticated - kept; }));
  EXPECT_TRUE(target_until([&] {
    return fds.size() -
               static_cast<uint64_t>(std::count_if(fds.begin(), fds.end(), closed_by_peer)) <=
           kept;
  }));
  EXPECT_GT(target->fabric->traffic().unauthenticated.crowded_out, 0u);
  setrlimit(RLIMIT_NOFILE, &old);
}

// The kernel reports a shortage of descriptors before it looks whether a connection waits. The
// server made room for one that was not there, and closed the peer that had got the last
// descriptor.
TEST_F(Tcp, APeerWithTheLastDescriptorMakesWayForNobody) {
  serve();
  const int late = unauthenticated_peer();
  std::vector<int> taken;
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken.push_back(fd);
  ::close(taken.back());
  taken.pop_back();
  // Until the server has accepted with the one that is left.
  ASSERT_TRUE(target_until([&] {
    const int probe = dup(STDERR_FILENO);
    if (probe >= 0) ::close(probe);
    return probe < 0;
  }));
  for (int i = 0; i < 20; ++i) target->step();
  EXPECT_FALSE(closed_by_peer(late));
  EXPECT_EQ(target->fabric->traffic().unauthenticated.crowded_out, 0u);
  for (const int fd : taken) ::close(fd);
  write_all(late, greeting("peer"));
  EXPECT_TRUE(target_until([&] { return target->requests.size() == 1; }));
}

// While it lives this process gets no descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &old_);
    rlimit none = old_;
    const int probe = dup(0);
    ::close(probe);
    none.rlim_cur = static_cast<rlim_t>(probe);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &old_); }

 private:
  rlimit old_{};
};

TEST_F(Tcp, OutOfDescriptorsAPeerStillGetsIn) {
  serve();
  client = side();
  for (int i = 0; i < 100; ++i) {
    unauthenticated_peer();
    target->step();
  }
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("peer"), &near).ok());
  // Now not one descriptor is left, but the accept queue holds the peer.
  bool connected = false;
  {
    const NoDescriptors none;
    connected = until([&] { return client->connected.size() == 1; });
  }
  EXPECT_TRUE(connected);
}

TEST_F(Tcp, OutOfDescriptorsWithoutUnauthenticatedPeersRefuses) {
  serve();
  unauthenticated_peer();
  bool refused = false;
  {
    const NoDescriptors none;
    refused = target_until([&] { return closed_by_peer(fds[0]); });
  }
  EXPECT_TRUE(refused);
  write_all(unauthenticated_peer(), greeting("hello"));  // and afterwards all is well
  ASSERT_TRUE(target_until([&] { return target->accepted.size() == 1; }));
}

// Guards against: the peer was told nothing but that it was refused.
TEST_F(Tcp, OutOfDescriptorsAPeerIsToldSo) {
  serve();
  client = side();
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  bool closed = false;
  {
    const NoDescriptors none;
    closed = until([&] { return !client->closed.empty(); });
  }
  ASSERT_TRUE(closed);
  EXPECT_EQ(client->reasons[0], CloseReason::crowded_out) << client->details[0];
  EXPECT_NE(to_string(client->reasons[0]).find("ulimit -n"), std::string_view::npos);
}

// Of another version, it finds ours in the answer, and says so to its user. Bug guarded against: it
// took the server for another program, or for one that knows it and does not want it.
TEST_F(Tcp, PeersOfAnotherVersionLearnOurs) {
  serve();
  std::vector<std::byte> hello = greeting("hello");
  hello[offsetof(tcp::Greeting, version)] = std::byte{tcp::greeting_version + 1};
  write_all(unauthenticated_peer(), hello);
  std::byte word[sizeof(tcp::Greeting) + 2];
  ssize_t n = -1;
  ASSERT_TRUE(
      target_until([&] { return (n = recv(fds[0], word, sizeof word, MSG_DONTWAIT)) > 0; }));
  ASSERT_EQ(n, static_cast<ssize_t>(sizeof(tcp::Greeting) + 1));
  uint32_t hello_bytes = 0;
  EXPECT_EQ(tcp::inspect_greeting(word, sizeof word, tcp::refused_magic, &hello_bytes),
            tcp::GreetingState::complete);
  EXPECT_EQ(hello_bytes, 1u);
  EXPECT_EQ(refusal_of(word[sizeof(tcp::Greeting)]), CloseReason::refused);
}

// What nothing proves is not believed: a reason that is none, or a word that is none.
TEST(TcpFrame, AReasonThatIsNoneIsNotBelieved) {
  EXPECT_EQ(refusal_of(std::byte{static_cast<uint8_t>(CloseReason::by_us)}), CloseReason::refused);
  EXPECT_EQ(refusal_of(std::byte{255}), CloseReason::refused);
  EXPECT_EQ(refusal_of(std::byte{static_cast<uint8_t>(CloseReason::unproven)}),
            CloseReason::unproven);
}

TEST_F(Tcp, FramesMayComeByteByByte) {
  serve();
  const int fd = peer();
  const std::vector<std::byte> payload = pattern(300, 1), small = pattern(5, 2);
  std::vector<std::byte> stream;
  for (int i = 0; i < 3; ++i) {
    for (const auto& part : {frame("first", small), frame("second", payload), frame("h", {})})
      stream.insert(stream.end(), part.begin(), part.end());
  }
  // Every way to cut it in pieces of 1..13 bytes.
  for (size_t piece = 1; piece <= 13; ++piece) {
    target->messages.clear();
    for (size_t at = 0; at < stream.size(); at += piece) {
      write_all(fd, Bytes(stream).subspan(at, std::min(piece, stream.size() - at)));
      target->step(1'000'000);
    }
    ASSERT_TRUE(target_until([&] { return target->messages.size() == 9; }));
    for (size_t i = 0; i < 9; ++i) {
      EXPECT_EQ(target->messages[i].header, i % 3 == 0 ? "first" : i % 3 == 1 ? "second" : "h");
      EXPECT_TRUE(target->messages[i].payload == (i % 3 == 0   ? small
                                                  : i % 3 == 1 ? payload
                                                               : std::vector<std::byte>{}));
    }
  }
}

// Guards against: the rest of a cut header arrives together with payload bytes, which were then
// taken for the next frame.
TEST_F(Tcp, LongPayloadsArePlacedHoweverTheirHeaderIsCut) {
  serve();
  const int fd = peer();
  const std::vector<std::byte> long_one = pattern(inline_payload_bytes + 1000, 3),
                               small = pattern(40, 4);
  std::vector<std::byte> stream = frame("a long one", long_one);
  const size_t long_bytes = stream.size();
  const std::vector<std::byte> behind = frame("behind", small);
  stream.insert(stream.end(), behind.begin(), behind.end());
  for (size_t cut = 1; cut <= tcp::prefix_bytes + 12; ++cut) {
    for (const size_t second :
         {cut + 1, cut + 100, long_bytes - 1, long_bytes, long_bytes + 5, stream.size()}) {
      target->messages.clear();
      size_t at = 0;
      for (const size_t end : {cut, second, stream.size()}) {
        write_all(fd, Bytes(stream).subspan(at, end - at));
        at = end;
        target->step(1'000'000);
      }
      ASSERT_TRUE(run_until(
          {target.get()}, [&] { return target->messages.size() == 2 || !target->closed.empty(); }));
      ASSERT_TRUE(target->closed.empty())
          << "cut at " << cut << " and " << second << ": " << target->details.back();
      EXPECT_TRUE(target->messages[0].header == "a long one" &&
                  target->messages[0].payload == long_one)
          << "cut at " << cut << " and " << second;
      EXPECT_TRUE(target->messages[1].header == "behind" && target->messages[1].payload == small)
          << "cut at " << cut << " and " << second;
    }
  }
}

int send_buffer_of(int fd) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
  return bytes;
}

uint16_t port_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<const sockaddr_in&>(address).sin_port;
}

// The descriptor in this process that is connected to the given port.
int connected_to(uint16_t port) {
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && port_of(peer) == port)
      return fd;
  }
  return -1;
}

// Sends long payloads from one to the other, until done() or so many that it will never be.
template <class Done>
void send_long_until(Side& from, EndpointId near, Side& to, Done done) {
  const std::vector<std::byte> payload(4 << 20);
  to.keep_messages = false;
  for (int turn = 0; turn < 500 && !done(); ++turn) {
    ASSERT_EQ(send(from, near, "long", payload), SendResult::accepted);
    const uint64_t wanted = to.message_count + 1;
    ASSERT_TRUE(run_until({&from, &to}, [&] { return to.message_count == wanted; }));
    to.messages.clear();
  }
}

// Grown by the kernel it would be megabytes.
TEST_F(Tcp, ANearPeersLongPayloadsPassASmallSendBuffer) {
  serve();
  connect_and_wait();
  std::vector<tcp::SocketAddress> candidates;
  ASSERT_TRUE(tcp::decode_address(address, &candidates).ok());
  const int fd = connected_to(port_of(candidates[0].storage));
  ASSERT_GE(fd, 0);

  // What the kernel makes of that size depends on its limits.
  const int sample = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), half = 256 * 1024;
  setsockopt(sample, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
  const int small_bytes = send_buffer_of(sample);
  ::close(sample);
  send_long_until(*client, near, *target, [&] { return send_buffer_of(fd) == small_bytes; });
  EXPECT_EQ(send_buffer_of(fd), small_bytes);
  // It stays so, and is no reason to keep anything that was sent.
  int more = 0;
  send_long_until(*client, near, *target, [&] { return ++more > 4; });
  EXPECT_EQ(send_buffer_of(fd), small_bytes);
  EXPECT_EQ(client->fabric->unsent_bytes(near), 0u);
}

TEST_F(Tcp, ABudgetedSendBufferStaysAsItIs) {
  Options options;
  options.socket_buffer_bytes = 256 * 1024;
  serve(options);
  connect_and_wait();
  sockaddr_storage ours{};
  socklen_t size = sizeof ours;
  std::vector<tcp::SocketAddress> candidates;
  ASSERT_TRUE(tcp::decode_address(address, &candidates).ok());
  ASSERT_EQ(getsockname(connected_to(port_of(candidates[0].storage)),
                        reinterpret_cast<sockaddr*>(&ours), &size),
            0);
  const int fd = connected_to(port_of(ours));
  ASSERT_GE(fd, 0);
  const int before_bytes = send_buffer_of(fd);
  int sent = 0;
  send_long_until(*target, target->accepted[0], *client, [&] { return ++sent > 8; });
  EXPECT_EQ(send_buffer_of(fd), before_bytes);
}

// Many requests that arrive together are answered in few packets: each costs its sender a system
// call.
TEST_F(Tcp, AnswersToMessagesThatCameTogetherTravelTogether) {
  serve();
  const int fd = peer();
  const auto packets = [&] {  // with data, that came here
    // tcpi_data_segs_in of the kernel's tcp_info, which the C library's does not have.
    constexpr size_t at = 152;
    std::byte info[at + sizeof(uint32_t)] = {};
    socklen_t bytes = sizeof info;
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes), 0);
    EXPECT_EQ(bytes, sizeof info);
    uint32_t count = 0;
    std::memcpy(&count, info + at, sizeof count);
    return count;
  };
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
    return target->fabric->send(endpoint, header, payload, false, 0) == SendResult::accepted;
  };
  const std::vector<std::byte> question = frame("question", pattern(16, 1));
  std::vector<std::byte> stream;
  constexpr size_t questions = 40;
  for (size_t i = 0; i < questions; ++i)
    stream.insert(stream.end(), question.begin(), question.end());
  const uint32_t before = packets();
  write_all(fd, stream);
  // Expect: all answers, whole and in order, in one packet; two if the questions came in two.
  std::vector<std::byte> answers(stream.size());
  size_t have = 0;
  while (have < answers.size()) {
    target->step(1'000'000);
    const ssize_t got = recv(fd, answers.data() + have, answers.size() - have, MSG_DONTWAIT);
    if (got > 0) have += static_cast<size_t>(got);
    ASSERT_FALSE(got == 0) << "closed";
  }
  EXPECT_EQ(target->message_count, questions);
  EXPECT_LE(packets() - before, 3u);
}

// What was to travel with a later answer is sent however the messages end: without another answer,
// with one that is parked, or with the end of the connection.
TEST_F(Tcp, AnAnswerThatWaitsForTheNextIsSentHoweverThatEnds) {
  enum class End { silent, parked, closed };
  for (const End end : {End::silent, End::parked, End::closed}) {
    serve();
    connect_and_wait();
    target->hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
      if (text_of(header) == "question")
        return target->fabric->send(endpoint, as_bytes("answer"), payload, false, 0) ==
               SendResult::accepted;
      if (end == End::closed) target->fabric->close(endpoint);
      return end != End::parked;
    };
    send(*client, near, "question", as_bytes("1"), true);
    send(*client, near, "last", {}, false);
    ASSERT_TRUE(until([&] { return client->message_count == 1; })) << static_cast<int>(end);
    EXPECT_EQ(client->messages[0].header, "answer");
  }
}

// A turn takes a bounded share of each connection, the smaller the more there are, and something of
// all. So those that ask for little wait for one turn at most, however much the others send.
TEST_F(Tcp, ATurnIsSharedByAllThatHaveSent) {
  serve();
  target->keep_messages = false;
  constexpr size_t streams = 32;
  constexpr uint64_t most_bytes = 40 * 1024;  // of one stream in a turn
  for (size_t i = 0; i <= streams; ++i) write_all(unauthenticated_peer(), greeting("x"));
  ASSERT_TRUE(target_until([&] { return target->accepted.size() == streams + 1; }));
  const std::vector<std::byte> put = frame("a put", pattern(2000, 1));
  std::vector<std::byte> stream;
  while (stream.size() < 200 * 1024) stream.insert(stream.end(), put.begin(), put.end());
  for (size_t i = 0; i < streams; ++i) {
    const int room = 1 << 20;
    setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    fcntl(fds[i], F_SETFL, O_NONBLOCK);
    ASSERT_GT(::send(fds[i], stream.data(), stream.size(), MSG_NOSIGNAL), 100 * 1024);
  }
  write_all(fds[streams], frame("a get", {}));
  std::map<EndpointId, uint64_t> taken_bytes;
  bool served = false;
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
    taken_bytes[endpoint] += header.size() + payload.size();
    served = served || text_of(header) == "a get";
    return true;
  };
  target->step(1'000'000'000);
  EXPECT_EQ(taken_bytes.size(), streams + 1);
  EXPECT_TRUE(served);
  for (const auto& [endpoint, bytes] : taken_bytes) EXPECT_LE(bytes, most_bytes);
}

// A payload that its header's reader did not find whole goes where the sink says, until it says
// that the place is gone.
TEST_F(Tcp, AnInlinePayloadIsPlacedUntilItIsDiverted) {
  serve();
  target->places_inline = true;
  const int fd = peer();
  const EndpointId endpoint = target->accepted[0];
  const std::vector<std::byte> payload = pattern(40'000, 3), other = pattern(40'000, 4);
  std::vector<std::byte> stream = frame("a part", payload);
  const std::vector<std::byte> behind = frame("behind", as_bytes("small"));
  stream.insert(stream.end(), behind.begin(), behind.end());
  for (const bool divert : {false, true}) {
    target->messages.clear();
    const int begun = target->directs_begun;
    write_all(fd, Bytes(stream).first(20'000));
    ASSERT_TRUE(target_until([&] { return target->directs_begun > begun; }));
    if (divert) {
      target->fabric->divert(endpoint);
      target->placed_payloads[endpoint] = other;
    }
    write_all(fd, Bytes(stream).subspan(20'000));
    ASSERT_TRUE(target_until([&] { return target->messages.size() == 2; }));
    EXPECT_TRUE(target->messages[0].payload == (divert ? other : payload)) << divert;
    EXPECT_EQ(target->messages[1].header, "behind");
  }
  EXPECT_EQ(target->placed, 2);
  target->fabric->divert(endpoint);  // nothing is being placed
  // Here as a whole, or short: as ever.
  write_all(fd, behind);
  ASSERT_TRUE(target_until([&] { return target->messages.size() == 3; }));
  EXPECT_EQ(target->directs_begun, 2);
}

TEST_F(Tcp, CorruptFramesCloseAndNothingElse) {
  serve();
  const uint64_t bad[] = {0,
                          513,
                          0xffff,
                          tcp::encode_prefix(0, 8),
                          tcp::encode_prefix(16, tcp::max_payload_bytes + 1),
                          ~uint64_t{0}};
  for (uint64_t prefix : bad) {
    const int fd = peer();
    write_all(fd, std::as_bytes(std::span(&prefix, 1)));
    const size_t closed = target->closed.size();
    ASSERT_TRUE(target_until([&] { return target->closed.size() > closed; }));
    EXPECT_EQ(target->reasons.back(), CloseReason::protocol_error);
  }
}

TEST_F(Tcp, RandomStreamsNeverCrash) {
  serve();
  target->keep_messages = false;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const int fd = peer();
    std::vector<std::byte> noise = pattern(4000 + seed * 31, seed + 1);
    for (size_t i = 0; i + 8 < noise.size();
         i += 64 + seed) {  // enough plausible prefixes to get beyond the first
      const uint64_t prefix = tcp::encode_prefix(1 + seed % 100, (i * 7) % 200'000);
      std::memcpy(noise.data() + i, &prefix, sizeof prefix);
    }
    write_all(fd, noise);
    shutdown(fd, SHUT_WR);
    const size_t closed = target->closed.size();
    ASSERT_TRUE(target_until([&] { return target->closed.size() > closed; }));
    ::close(fd);
    fds.pop_back();
  }
  EXPECT_EQ(target->fabric->traffic().endpoints_open, 0u);
}

TEST_F(Tcp, ConnectToSomethingElseIsAProtocolError) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fds.push_back(fd);
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof bound;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&bound), bytes), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes), 0);
  const tcp::InterfaceAddress loopback = own_loopback();
  client = side();
  ASSERT_TRUE(
      client->fabric
          ->connect(tcp::encode_address(tcp::host_identity(), ntohs(bound.sin_port), {loopback}),
                    as_bytes("x"), &near)
          .ok());
  const int peer = accept(fd, nullptr, nullptr);
  fds.push_back(peer);
  write_all(peer, as_bytes("SSH-2.0-OpenSSH\r\n"));
  ASSERT_TRUE(run_until({client.get()}, [&] { return !client->closed.empty(); }));
  EXPECT_EQ(client->reasons[0], CloseReason::protocol_error);
}

TEST_F(Tcp, DescriptorsCloseOnExec) {
  serve();
  connect_and_wait();
  DIR* directory = opendir("/proc/self/fd");
  ASSERT_NE(directory, nullptr);
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= 2) continue;
    char target_name[64] = "";
    const std::string path = concat("/proc/self/fd/", fd);
    if (readlink(path.c_str(), target_name, sizeof target_name - 1) < 0) continue;
    const std::string_view kind = target_name;
    if (!kind.starts_with("socket:") && !kind.starts_with("anon_inode:")) continue;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << kind;
  }
  closedir(directory);
}

TEST(TcpAddress, InterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  Options options;
  options.interface = "nosuch0";
  std::vector<tcp::InterfaceAddress> chosen;
  const Status status = tcp::choose_listen_addresses(options, &chosen);
  EXPECT_EQ(status.code(), Code::network);
  EXPECT_NE(status.message().find("nosuch0"), std::string::npos);
  EXPECT_NE(status.message().find("lo (127.0.0.1)"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("SKERRY_INTERFACE"), std::string::npos);
  options.interface = "lo";
  EXPECT_TRUE(tcp::choose_listen_addresses(options, &chosen).ok());
  options.interface = "127.0.0.1";
  EXPECT_TRUE(tcp::choose_listen_addresses(options, &chosen).ok());
}

TEST(TcpAddress, SameHostUsesLoopbackAndAnotherHostNever) {
  const tcp::InterfaceAddress loopback = own_loopback();
  tcp::InterfaceAddress v4;
  v4.family = AF_INET;
  v4.prefix_bits = 24;
  v4.address = {192, 0, 2, 7};
  std::vector<tcp::SocketAddress> candidates;
  ASSERT_TRUE(tcp::decode_address(tcp::encode_address(tcp::host_identity(), 99, {v4, loopback}),
                                  &candidates)
                  .ok());
  ASSERT_EQ(candidates.size(), 2u);
  EXPECT_EQ(to_string(candidates[0]), "127.0.0.1:99");
  tcp::HostIdentity other{};
  ASSERT_TRUE(
      tcp::decode_address(tcp::encode_address(other, 99, {v4, loopback}), &candidates).ok());
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(to_string(candidates[0]), "192.0.2.7:99");
  EXPECT_EQ(tcp::decode_address(tcp::encode_address(other, 99, {loopback}), &candidates).code(),
            Code::network);
}

TEST(TcpAddress, ASharedSubnetComesFirst) {
  for (const tcp::InterfaceAddress& ours : tcp::interface_addresses()) {
    if (ours.loopback) continue;
    tcp::InterfaceAddress elsewhere = ours, near = ours;
    elsewhere.address[0] ^= 0x15;  // whatever our subnet is, this is not in it
    std::vector<tcp::SocketAddress> candidates;
    ASSERT_TRUE(tcp::decode_address(tcp::encode_address(tcp::HostIdentity{}, 5, {elsewhere, near}),
                                    &candidates)
                    .ok());
    EXPECT_NE(to_string(candidates[0]).find(to_string(ours)), std::string::npos);
  }
}

TEST(TcpAddress, DamagedBlobsAreErrors) {
  const tcp::InterfaceAddress loopback = own_loopback();
  const std::vector<std::byte> blob = tcp::encode_address(tcp::host_identity(), 99, {loopback});
  std::vector<tcp::SocketAddress> candidates;
  for (size_t bytes = 0; bytes < blob.size(); ++bytes)
    EXPECT_FALSE(tcp::decode_address(Bytes(blob).first(bytes), &candidates).ok());
  for (size_t at = 0; at < 2; ++at) {
    std::vector<std::byte> damaged = blob;
    damaged[at] = std::byte{0xff};
    EXPECT_FALSE(tcp::decode_address(damaged, &candidates).ok());
  }
}

}  // namespace
}  // namespace skerry::fabric::test
