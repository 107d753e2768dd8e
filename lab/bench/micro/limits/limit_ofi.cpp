// The limit of bare libfabric: FI_EP_MSG ping-pong of 8 B, both ends asleep in fi_cq_sread.
//
//   limit_ofi serve [--provider tcp] [--address A] [--cpu N]
//       prints "port P"; serves one client, then ends
//   limit_ofi measure --host A --port P [--provider tcp] [--cpu N]
#include "ofi_end.hpp"

namespace {

using bench::check_ofi;

constexpr size_t message_bytes = 8;

class End {
 public:
  End(const std::string& provider, const std::string& host, const std::string& port,
      uint64_t flags)
      : end_({.queue = FI_WAIT_UNSPEC}, provider, host, port, flags, memory_, sizeof memory_) {}

  uint16_t listen() { return end_.listen(); }
  void accept() {
    end_.accept([this] { post_receive(); });
  }
  void connect() {
    end_.connect([this] { post_receive(); });
  }
  void post_receive() {
    check_ofi(fi_recv(end_.endpoint(), memory_ + 32, message_bytes, end_.descriptor(), 0,
                      &receive_context_),
              "fi_recv");
  }
  void send() {
    check_ofi(
        fi_send(end_.endpoint(), memory_, message_bytes, end_.descriptor(), 0, &send_context_),
        "fi_send");
  }

  // Sleeps until a message came; sends complete on the way. False when the peer has
  // left.
  bool wait_received() {
    for (;;) {
      fi_cq_entry entry{};
      const ssize_t got = fi_cq_sread(end_.queue(), &entry, 1, nullptr, 1000);
      if (got == -FI_EAGAIN) {
        if (end_.is_gone()) return false;
        continue;
      }
      if (got < 0) return false;  // the endpoint was shut down under the posted receive
      if (entry.op_context == &receive_context_) return true;
    }
  }

  void shut_down() { fi_shutdown(end_.endpoint(), 0); }

 private:
  char memory_[64] = {};
  bench::OfiEnd end_;
  fi_context receive_context_{};
  fi_context send_context_{};
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const std::string verb = argc > 1 ? argv[1] : "--help";
  if (verb != "serve" && verb != "measure") {
    std::puts(
        "limit_ofi serve [--provider tcp] [--address A] [--cpu N]\nlimit_ofi measure --host A "
        "--port P [--provider tcp] [--cpu N]");
    return verb == "--help" ? 0 : 2;
  }
  bench::pin(static_cast<int>(arguments.number("--cpu", -1)));
  const std::string provider = arguments.text("--provider", "tcp");
  if (verb == "serve") {
    End end(provider, arguments.text("--address", "0.0.0.0"), "0", FI_SOURCE);
    std::printf("port %u\n", end.listen());
    std::fflush(stdout);
    end.accept();
    while (end.wait_received()) {
      end.post_receive();
      end.send();
    }
    return 0;
  }
  End end(provider, arguments.text("--host", "127.0.0.1"), arguments.text("--port", "0"), 0);
  end.connect();
  bench::report("ofi_pingpong", bench::median_of_singles_ns([&] {
                                  end.send();
                                  if (!end.wait_received()) std::exit(2);
                                  end.post_receive();
                                }) / 1e3,
                "us");
  end.shut_down();
}
