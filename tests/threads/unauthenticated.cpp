// Unauthenticated peers at a data server while a job runs: members of another job, wrong roles and
// servers, recorded hellos, half-open and idle connections, garbage by the thousand. All are
// refused and counted by reason; the job's own connections live through it and its sums are exact.
// Runs as ranks that are threads of one process: unauthenticated [--count N].
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "capi/handles.hpp"
#include "connection/hello.hpp"
#include "fabric/fabric.hpp"
#include "fabric/tcp/address.hpp"
#include "fabric/tcp/frame.hpp"
#include "job/bootstrap/test/thread_bootstrap.hpp"
#include "ops/check.hpp"
#include "wire/message.hpp"

using namespace skerry;
using namespace skerry::test;

namespace {

using Hello = std::array<std::byte, connection::hello_bytes>;

// One TCP connection of an unauthenticated peer.
class Visitor {
 public:
  explicit Visitor(fabric::Bytes server) {
    std::vector<fabric::tcp::SocketAddress> candidates;
    OK(fabric::tcp::decode_address(server, &candidates).ok() ? 0 : -1);
    fd_ = socket(candidates[0].storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&candidates[0].storage),
                candidates[0].bytes) != 0)
      fail(__FILE__, __LINE__, "an unauthenticated peer cannot connect");
  }
  Visitor(Visitor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Visitor& operator=(Visitor&&) = delete;
  ~Visitor() {
    if (fd_ >= 0) ::close(fd_);
  }
  void say(fabric::Bytes bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(std::string_view text) { say(std::as_bytes(std::span(text))); }
  void greet(fabric::Bytes hello) {
    const fabric::tcp::Greeting greeting{fabric::tcp::connect_magic, fabric::tcp::greeting_version,
                                         static_cast<uint16_t>(hello.size())};
    std::vector<std::byte> bytes(sizeof greeting);
    std::memcpy(bytes.data(), &greeting, sizeof greeting);
    bytes.insert(bytes.end(), hello.begin(), hello.end());
    say(bytes);
  }
  // Sleeps until the server has closed; true if all that it said was that it refuses.
  bool is_sent_away() {
    using namespace fabric::tcp;
    std::array<std::byte, 64> said;
    size_t got = 0;
    while (got < said.size()) {
      const ssize_t n = recv(fd_, said.data() + got, said.size() - got, 0);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    uint32_t hello_bytes = 0;
    return got == 0 || (inspect_greeting(said.data(), got, refused_magic, &hello_bytes) ==
                            GreetingState::complete &&
                        got == sizeof(Greeting) + hello_bytes);
  }

 private:
  int fd_ = -1;
};

Status make_fabric(fabric::Options options, std::unique_ptr<fabric::Fabric>* made) {
  options.hello_deadline_ns = 3'000'000'000;
  return fabric::make_tcp_fabric(options, made);
}

constexpr int silent = 256;  // as many as a server keeps

// They say nothing for longer than they may: each is sent away, and the job goes on.
template <class Work>
void say_nothing(fabric::Bytes server, Work&& work) {
  std::vector<Visitor> visitors;
  for (int i = 0; i < silent; ++i) {
    visitors.emplace_back(server);
    if (i % 16 == 0) work();
  }
  for (Visitor& visitor : visitors) EXPECT_IS(visitor.is_sent_away(), true);
  work();
}

// As the second rank counts them, while the first goes on. The server takes its time for refusals:
// peers that say nothing must stay until it has taken more than it keeps.
std::atomic<uint64_t> crowded_out{0};

void tell_crowded_out(skerry_job* job, skerry_segment* s, const std::atomic<bool>& over) {
  while (!over.load()) {
    (void)skerry_notify_wait(s, 128, 1, 1'000'000, nullptr);
    crowded_out.store(Counted(job)["refused_crowded_out"]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int count = 2000;
  for (int i = 1; i + 1 < argc; i += 2)
    if (std::string(argv[i]) == "--count") count = std::atoi(argv[i + 1]);
  auto bootstraps = job::make_thread_bootstraps(2, 2);
  const connection::JobKey key = *bootstraps[0]->launcher_key();
  std::atomic<bool> over{false};
  std::vector<std::thread> ranks;
  for (auto& bootstrap : bootstraps)
    ranks.emplace_back([&, b = std::move(bootstrap)]() mutable {
      job::JobOptions options;
      options.config.huge_pages = false;
      std::unique_ptr<job::Job> made;
      const Status started = job::Job::start(std::move(b), options, make_fabric, &made);
      if (!started.ok()) fail(__FILE__, __LINE__, started.message());
      const auto listed = made->map().server_address({1, 0});
      const std::vector<std::byte> server(listed.begin(), listed.end());
      skerry_job* const handle = capi::to(made.release());
      skerry_segment* s = nullptr;
      OK(skerry_segment_alloc(skerry_world(handle), 4096, &s));
      OK(skerry_sync(skerry_world(handle)));
      if (skerry_rank(handle) == 0) {
        // The job goes on meanwhile: this very thread adds one between any two attacks.
        int64_t sum = 0;
        auto work = [&] {
          int64_t old = 0;
          OK(skerry_fetch_add_i64(s, 1, 0, 1, &old));
          EXPECT_IS(old, sum);
          ++sum;
        };
        const connection::Peer peer{1, 0, wire::version, connection::Role::server};
        work();
        const Counted before(handle);
        uint64_t unproven = 0, replayed = 0, garbage = 0;

        // A peer that does not know the key, or means another server, another version, another
        // role; and ranks that do not exist.
        connection::JobKey other = key;
        other[0] ^= std::byte{1};
        connection::Hello answered{0, 1'000'000, {}};
        std::vector<Hello> forged = {
            connection::make_hello(other, peer, 0, 1'000'000),
            connection::make_hello(key, {0, 0, wire::version, connection::Role::server}, 0,
                                   1'000'000),
            connection::make_hello(key, {1, 1, wire::version, connection::Role::server}, 0,
                                   1'000'000),
            connection::make_hello(key, {1, 0, wire::version + 1, connection::Role::server}, 0,
                                   1'000'000),
            connection::make_hello(key, peer, 2, 1'000'000),
            connection::make_hello(key, peer, ~0u, 1'000'000),
        };
        // a server's proof in an origin's hello
        Hello reflected = connection::make_hello(key, peer, 0, 1'000'000);
        const auto answer = connection::make_answer(key, peer, answered, 0);
        std::memcpy(reflected.data() + 12, answer.data(), connection::hash_bytes);
        forged.push_back(reflected);
        for (const Hello& hello : forged) {
          Visitor visitor(server);
          visitor.greet(hello);
          EXPECT_IS(visitor.is_sent_away(), true);
          ++unproven;
          work();
        }
        {
          Visitor visitor(server);  // no proof at all
          visitor.greet({});
          EXPECT_IS(visitor.is_sent_away(), true);
          ++unproven;
        }
        // Recorded hellos of rank 0, whose generation is 1 by now.
        for (int i = 0; i < 50; ++i) {
          Visitor visitor(server);
          visitor.greet(connection::make_hello(key, peer, 0, static_cast<uint32_t>(i % 2)));
          EXPECT_IS(visitor.is_sent_away(), true);
          ++replayed;
          work();
        }
        // Garbage, whole and in pieces, by the thousand; people who come and go; and some who say
        // nothing and stay.
        std::vector<Visitor> idle;
        for (int i = 0; i < count; ++i) {
          Visitor visitor(server);
          if (i % 4 == 0 && idle.size() < 400) {
            if (i % 8 == 0) visitor.say("SKRY");
            idle.push_back(std::move(visitor));
          } else if (i % 4 != 1) {
            visitor.say("GET / HTTP/1.1\r\n\r\n");
            ++garbage;
          }
          if (i % 16 == 0) work();
        }
        for (int i = 0; crowded_out.load() == 0 && i < 200'000; ++i) work();
        idle.clear();
        say_nothing(server, work);
        OK(skerry_fence_all(handle));
        const Counted after(handle);
        EXPECT_IS(after["connections_opened"],
                  before["connections_opened"]);  // no peer took our connection from us
        EXPECT_IS(after["connections_closed"], before["connections_closed"]);
        int64_t total = 0;
        OK(skerry_get(s, 1, 0, &total, 8));
        EXPECT_IS(total, sum);
        // What rank 1 must have counted. Garbage that arrives after its sender has gone, or that
        // was crowded out before it was read, counts as that; so only the sum is known.
        const uint64_t expected[] = {unproven, replayed, static_cast<uint64_t>(count + silent),
                                     silent, garbage};
        OK(skerry_put(s, 1, 64, expected, sizeof expected));
        OK(skerry_fence_all(handle));
        over.store(true);
        OK(skerry_sync(skerry_world(handle)));
      } else {
        tell_crowded_out(handle, s, over);
        uint64_t expected[5];
        OK(skerry_get(s, 1, 64, expected, sizeof expected));
        Counted c(handle);
        // The server counts what it has seen: the last ones may still be on their way.
        const auto enough = [&] {
          return c["refused_connections"] >= expected[0] + expected[1] + expected[2] - 256 &&
                 c["refused_malformed"] > 0 && c["refused_silent"] >= expected[3];
        };
        while (!enough()) {
          (void)skerry_notify_wait(s, 128, 1, 1'000'000, nullptr);
          c = Counted(handle);
        }
        EXPECT_IS(c["refused_unproven"], expected[0]);
        EXPECT_IS(c["refused_replayed"], expected[1]);
        EXPECT_IS(c["refused_connections"] <= expected[0] + expected[1] + expected[2], true);
        EXPECT_IS(c["refused_malformed"] <= expected[4], true);
        EXPECT_IS(c["refused_crowded_out"] > 0, true);  // more were idle than are kept
        std::printf(
            "unauthenticated: %llu refused: %llu unproven, %llu replayed, %llu garbage, %llu "
            "crowded out, %llu left, %llu silent\n",
            static_cast<unsigned long long>(c["refused_connections"]),
            static_cast<unsigned long long>(c["refused_unproven"]),
            static_cast<unsigned long long>(c["refused_replayed"]),
            static_cast<unsigned long long>(c["refused_malformed"]),
            static_cast<unsigned long long>(c["refused_crowded_out"]),
            static_cast<unsigned long long>(c["refused_left"]),
            static_cast<unsigned long long>(c["refused_silent"]));
        OK(skerry_sync(skerry_world(handle)));
      }
      OK(skerry_finalize(handle));
    });
  for (auto& rank : ranks) rank.join();
  return 0;
}
