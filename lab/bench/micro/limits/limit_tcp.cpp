// The limit of TCP with both ends asleep in a system call.
//
//   limit_tcp serve [--cpu N] [--busy]
//       prints "port P"; a thread per connection; ends when its standard input does. With --busy
//       the main thread computes all the time
//   limit_tcp measure --host A --port P [--cpu N] [--rows LIST]
//
// Rows:
//   pingpong       8 B there and back
//   stream         1 MiB blocks, each acknowledged before the next; best settings found
//   stream_back    the same towards the client: 8 B request, 1 MiB back
//   stream_window  two blocks in flight
//   frames         8 B payload behind a 16 B header in batches of 64 KiB; the server copies each
//                  payload to its place
//   frames_own     the same behind 88 B, as large as a frame of Skerry
//   connect        connect and first byte back
//   close
//   overlap        a helper thread receives 1 MiB while the main thread computes as long as the
//                  transfer takes alone
#include <poll.h>

#include <atomic>
#include <thread>

#include "../common.hpp"
#include "compute.hpp"
#include "socket.hpp"

namespace {

constexpr size_t block_bytes = 1 << 20;
constexpr size_t payload_bytes = 8;
constexpr size_t batch_bytes = 64 << 10;

// First bytes of every connection: what the server shall do until the connection ends.
struct Hello {
  uint32_t mode;         // 'p', 's', 'g', 'f'
  uint32_t chunk_bytes;  // largest recv of a block; 0: the whole block in one call with MSG_WAITALL
  uint32_t buffer_bytes;  // SO_SNDBUF and SO_RCVBUF; 0: the kernel's tuning
  uint32_t wake_bytes;  // SO_RCVLOWAT while a block is received: wakes only for so much, or for the
                        // rest; 0: for anything
  uint32_t frame_bytes;  // header + payload
};
static_assert(sizeof(Hello) == 20);

void receive_block(int fd, char* block, uint32_t chunk_bytes, uint32_t wake_bytes) {
  if (wake_bytes == 0)
    return static_cast<void>(bench::receive_all(fd, block, block_bytes,
                                                chunk_bytes == 0 ? SIZE_MAX : chunk_bytes,
                                                chunk_bytes == 0 ? MSG_WAITALL : 0));
  int set = 0;
  for (size_t have = 0; have < block_bytes;) {
    const int wanted = static_cast<int>(std::min<size_t>(wake_bytes, block_bytes - have));
    if (wanted != set) bench::set_option(fd, SOL_SOCKET, SO_RCVLOWAT, set = wanted);
    // Asleep in poll: a recv that has taken less than the mark would sleep on until as many bytes
    // were in the queue again.
    pollfd readable{fd, POLLIN, 0};
    if (poll(&readable, 1, -1) < 0) bench::fail("poll");
    const ssize_t got = recv(fd, block + have, block_bytes - have, MSG_DONTWAIT);
    if (got <= 0) bench::fail("recv");
    have += static_cast<size_t>(got);
  }
  bench::set_option(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
}

void serve_frames(int fd, const Hello& hello, std::vector<char>& memory) {
  std::vector<char> batch(batch_bytes * 4);
  size_t held = 0;
  const uint32_t frame_bytes = hello.frame_bytes;
  for (;;) {
    const ssize_t got = recv(fd, batch.data() + held, batch.size() - held, 0);
    if (got <= 0) return;
    held += static_cast<size_t>(got);
    size_t at = 0;
    for (; held - at >= frame_bytes; at += frame_bytes) {
      uint64_t offset = 0;
      std::memcpy(&offset, batch.data() + at, sizeof offset);
      if (offset == UINT64_MAX) {
        bench::send_all(fd, &offset, sizeof offset);
        continue;
      }
      std::memcpy(memory.data() + (offset & (memory.size() - payload_bytes)),
                  batch.data() + at + frame_bytes - payload_bytes, payload_bytes);
    }
    std::memmove(batch.data(), batch.data() + at, held - at);
    held -= at;
  }
}

void serve(int fd) {
  Hello hello{};
  if (!bench::receive_all(fd, &hello, sizeof hello)) return static_cast<void>(close(fd));
  bench::tune(fd, static_cast<int>(hello.buffer_bytes));
  std::vector<char> block(block_bytes, 1);
  uint64_t word = 0;
  switch (hello.mode) {
    case 'p':
      while (recv(fd, &word, sizeof word, 0) == sizeof word)
        bench::send_all(fd, &word, sizeof word);
      break;
    case 's':
      while (recv(fd, block.data(), 1, MSG_PEEK) == 1) {
        receive_block(fd, block.data(), hello.chunk_bytes, hello.wake_bytes);
        bench::send_all(fd, &word, sizeof word);
      }
      break;
    case 'g':
      while (recv(fd, &word, sizeof word, 0) == sizeof word)
        bench::send_all(fd, block.data(), block_bytes);
      break;
    case 'f': serve_frames(fd, hello, block); break;
    default: break;
  }
  close(fd);
}

int run_server(const bench::Arguments& arguments) {
  bench::pin(static_cast<int>(arguments.number("--cpu", -1)));
  uint16_t port = 0;
  const int listener = bench::listen_on_any(&port);
  std::printf("port %u\n", port);
  std::fflush(stdout);
  std::thread([listener] {
    for (;;) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) bench::fail("accept");
      std::thread(serve, fd).detach();
    }
  }).detach();
  pollfd input{0, POLLIN, 0};
  if (arguments.has("--busy")) {
    const double x = bench::compute_until([&] {
      static int turn = 0;
      return ++turn % 256 == 0 && poll(&input, 1, 0) > 0;
    });
    bench::keep(x);
  } else {
    poll(&input, 1, -1);
  }
  std::_Exit(0);
}

class Client {
 public:
  Client(const bench::Arguments& arguments)
      : host_(arguments.text("--host", "127.0.0.1")),
        port_(static_cast<uint16_t>(arguments.number("--port", 0))),
        cpu_(static_cast<int>(arguments.number("--cpu", -1))) {}

  void ping_pong() {
    const int fd = open('p');
    uint64_t word = 1;
    bench::report("pingpong", bench::median_of_singles_ns([&] {
                                bench::send_all(fd, &word, sizeof word);
                                bench::receive_all(fd, &word, sizeof word);
                              }) / 1e3,
                  "us");
    close(fd);
  }

  void stream() {
    with_best_settings("stream",
                       [this](const Settings& s, double ms) { return stream_with(s, 1, ms); });
  }
  void stream_window() {
    with_best_settings("stream_window",
                       [this](const Settings& s, double ms) { return stream_with(s, 2, ms); });
  }
  void stream_back() {
    with_best_settings("stream_back",
                       [this](const Settings& s, double ms) { return stream_back_with(s, ms); });
  }

  void frames(const char* row, uint32_t header_bytes) {
    const uint32_t frame_bytes = header_bytes + payload_bytes;
    double best = 0;
    for (const uint32_t buffer_bytes : {0u, 1u << 20}) {
      const int fd = open('f', 0, buffer_bytes, 0, frame_bytes);
      const size_t per_batch = batch_bytes / frame_bytes;
      std::vector<char> batch(per_batch * frame_bytes);
      uint64_t value = 0;
      const double ns = bench::time_each_ns([&](uint64_t n) {
        for (uint64_t b = 0; b < n; ++b) {
          for (size_t i = 0; i < per_batch; ++i) {
            char* frame = batch.data() + i * frame_bytes;
            const uint64_t offset = (i * 8) & 0xffff;
            std::memcpy(frame, &offset, sizeof offset);
            ++value;
            std::memcpy(frame + header_bytes, &value, sizeof value);
          }
          bench::send_all(fd, batch.data(), batch.size());
        }
        std::vector<char> last(frame_bytes, static_cast<char>(0xff));
        bench::send_all(fd, last.data(), last.size());
        bench::receive_all(fd, &value, sizeof value);
      });
      best = std::max(best, static_cast<double>(per_batch) / ns * 1e3);
      close(fd);
    }
    bench::report(row, best, "M/s");
  }

  void connect_close() {
    std::vector<double> opening;
    std::vector<double> closing;
    for (int i = 0; i < 200; ++i) {
      const uint64_t start = bench::now_ns();
      const int fd = open('p');
      uint64_t word = 1;
      bench::send_all(fd, &word, sizeof word);
      bench::receive_all(fd, &word, sizeof word);
      const uint64_t opened = bench::now_ns();
      close(fd);
      closing.push_back(static_cast<double>(bench::now_ns() - opened) / 1e3);
      opening.push_back(static_cast<double>(opened - start) / 1e3);
    }
    bench::report("connect", bench::median(opening), "us");
    bench::report("close", bench::median(closing), "us");
  }

  void overlap() {
    const int fd = open('g');
    std::vector<char> block(block_bytes);
    std::atomic<uint32_t> posted{0};
    std::atomic<uint32_t> done{0};
    std::thread helper([&] {
      bench::pin(cpu_);
      for (uint32_t turn = 1;; ++turn) {
        for (uint32_t seen = posted.load(); seen < turn; seen = posted.load()) posted.wait(seen);
        if (posted.load() == UINT32_MAX) return;
        receive_block(fd, block.data(), 0, 0);
        done.store(turn);
        done.notify_one();
      }
    });
    uint32_t turn = 0;
    uint64_t word = 0;
    auto start = [&] {
      bench::send_all(fd, &word, sizeof word);
      posted.store(++turn);
      posted.notify_one();
    };
    auto finish = [&] {
      for (uint32_t seen = done.load(); seen < turn; seen = done.load()) done.wait(seen);
    };
    bench::report("overlap", bench::overlap_share([&] { start(); }, [&] { finish(); }), "share");
    posted.store(UINT32_MAX);
    posted.notify_one();
    helper.join();
    close(fd);
  }

 private:
  struct Settings {
    uint32_t chunk_bytes;
    uint32_t buffer_bytes;
    uint32_t wake_bytes;
  };
  static constexpr Settings settings_[] = {{0, 0, 0},
                                           {256 << 10, 0, 0},
                                           {1 << 20, 0, 0},
                                           {0, 4 << 20, 0},
                                           {1 << 20, 4 << 20, 0},
                                           {1 << 20, 0, 256 << 10},
                                           {1 << 20, 0, 512 << 10}};

  // Tries all settings, then measures the best one anew: the best of several noisy figures would
  // flatter the limit.
  template <typename Measure>
  void with_best_settings(const char* row, Measure&& measure) {
    Settings best = settings_[0];
    double most = 0;
    for (const Settings& s : settings_) {
      const double found = measure(
          s, 40 / bench::time_scale());  // not shortened by --quick: which is best depends on it
      if (found > most) {
        most = found;
        best = s;
      }
    }
    bench::report(row, measure(best, 100), "GB/s");
  }

  double stream_back_with(const Settings& s, double total_ms) {
    const int fd = open('g', s.chunk_bytes, s.buffer_bytes, s.wake_bytes);
    std::vector<char> block(block_bytes);
    uint64_t word = 0;
    const double ns = bench::median_of_singles_ns(
        [&] {
          bench::send_all(fd, &word, sizeof word);
          receive_block(fd, block.data(), s.chunk_bytes, s.wake_bytes);
        },
        total_ms);
    close(fd);
    return block_bytes / ns;
  }

  double stream_with(const Settings& s, int window, double total_ms) {
    const int fd = open('s', s.chunk_bytes, s.buffer_bytes, s.wake_bytes);
    std::vector<char> block(block_bytes, 1);
    uint64_t word = 0;
    for (int i = 1; i < window; ++i) bench::send_all(fd, block.data(), block_bytes);
    const double ns = bench::median_of_singles_ns(
        [&] {
          bench::send_all(fd, block.data(), block_bytes);
          bench::receive_all(fd, &word, sizeof word);
        },
        total_ms);
    close(fd);
    return block_bytes / ns;
  }

  int open(char mode, uint32_t chunk_bytes = 0, uint32_t buffer_bytes = 0, uint32_t wake_bytes = 0,
           uint32_t frame_bytes = 0) const {
    const int fd = bench::connect_to(host_, port_, static_cast<int>(buffer_bytes));
    const Hello hello{static_cast<uint32_t>(mode), chunk_bytes, buffer_bytes, wake_bytes,
                      frame_bytes};
    bench::send_all(fd, &hello, sizeof hello);
    return fd;
  }

  std::string host_;
  uint16_t port_;
  int cpu_;
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  if (argc > 1 && std::string(argv[1]) == "serve") return run_server(arguments);
  if (argc < 2 || std::string(argv[1]) != "measure") {
    std::puts(
        "limit_tcp serve [--cpu N] [--busy]\n"
        "limit_tcp measure --host A --port P [--cpu N] [--rows "
        "pingpong,stream,stream_back,stream_window,frames,frames_own,connect,overlap]");
    return argc > 1 && arguments.has("--help") ? 0 : 2;
  }
  bench::pin(static_cast<int>(arguments.number("--cpu", -1)));
  Client client(arguments);
  const std::string rows = "," +
                           arguments.text("--rows", "pingpong,stream,stream_back,frames,connect") +
                           ",";
  auto wanted = [&](const char* row) {
    return rows.find("," + std::string(row) + ",") != std::string::npos;
  };
  if (wanted("pingpong")) client.ping_pong();
  if (wanted("stream")) client.stream();
  if (wanted("stream_back")) client.stream_back();
  if (wanted("stream_window")) client.stream_window();
  if (wanted("frames")) client.frames("frames", 16);
  if (wanted("frames_own")) client.frames("frames_own", 88);
  if (wanted("connect")) client.connect_close();
  if (wanted("overlap")) client.overlap();
}
