// The limit of bare libfabric: FI_EP_MSG ping-pong of 8 B, both ends asleep in fi_cq_sread.
//
//   limit_ofi serve [--provider tcp] [--address A] [--cpu N]
//       prints "port P"; serves one client, then ends
//   limit_ofi measure --host A --port P [--provider tcp] [--cpu N]
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <arpa/inet.h>

#include "../common.hpp"

namespace {

constexpr size_t message_bytes = 8;

void check(long status, const char* what) {
  if (status >= 0) return;
  std::fprintf(stderr, "%s: %s\n", what, fi_strerror(static_cast<int>(-status)));
  std::exit(2);
}

// Everything of one end. Objects live until the process ends.
class End {
 public:
  End(const std::string& provider, const std::string& host, const std::string& port,
      uint64_t flags) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    hints->fabric_attr->prov_name = strdup(provider.c_str());
    check(fi_getinfo(FI_VERSION(1, 17), host.empty() ? nullptr : host.c_str(), port.c_str(), flags,
                     hints, &info_),
          "fi_getinfo");
    fi_freeinfo(hints);
    check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr events{};
    events.wait_obj = FI_WAIT_UNSPEC;
    check(fi_eq_open(fabric_, &events, &eq_, nullptr), "fi_eq_open");
  }

  uint16_t listen() {
    check(fi_passive_ep(fabric_, info_, &listener_, nullptr), "fi_passive_ep");
    check(fi_pep_bind(listener_, &eq_->fid, 0), "fi_pep_bind");
    check(fi_listen(listener_), "fi_listen");
    sockaddr_in name{};
    size_t length = sizeof name;
    check(fi_getname(&listener_->fid, &name, &length), "fi_getname");
    return ntohs(name.sin_port);
  }

  void accept() {
    fi_eq_cm_entry entry{};
    wait_event(FI_CONNREQ, &entry);
    open_endpoint(entry.info);
    check(fi_accept(endpoint_, nullptr, 0), "fi_accept");
    wait_event(FI_CONNECTED, &entry);
  }

  void connect() {
    fi_eq_cm_entry entry{};
    open_endpoint(info_);
    check(fi_connect(endpoint_, info_->dest_addr, nullptr, 0), "fi_connect");
    wait_event(FI_CONNECTED, &entry);
  }

  void post_receive() {
    check(fi_recv(endpoint_, receive_, message_bytes, fi_mr_desc(memory_), 0, &receive_context_),
          "fi_recv");
  }
  void send() {
    check(fi_send(endpoint_, send_, message_bytes, fi_mr_desc(memory_), 0, &send_context_),
          "fi_send");
  }

  // Sleeps for `count` receive completions; sends complete on the way. False when the peer has
  // left.
  bool wait_received() {
    for (;;) {
      fi_cq_entry entry{};
      const ssize_t got = fi_cq_sread(cq_, &entry, 1, nullptr, 1000);
      if (got == -FI_EAGAIN) {
        if (gone()) return false;
        continue;
      }
      if (got < 0) return false;  // the endpoint was shut down under the posted receive
      if (entry.op_context == &receive_context_) return true;
    }
  }

  bool gone() {
    fi_eq_cm_entry entry{};
    uint32_t event = 0;
    return fi_eq_read(eq_, &event, &entry, sizeof entry, 0) > 0 && event == FI_SHUTDOWN;
  }

  void shut_down() { fi_shutdown(endpoint_, 0); }

 private:
  void open_endpoint(fi_info* info) {
    check(fi_domain(fabric_, info, &domain_, nullptr), "fi_domain");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.wait_obj = FI_WAIT_UNSPEC;
    queue.size = 16;
    check(fi_cq_open(domain_, &queue, &cq_, nullptr), "fi_cq_open");
    check(fi_mr_reg(domain_, memory_block_, sizeof memory_block_, FI_SEND | FI_RECV, 0, 1, 0,
                    &memory_, nullptr),
          "fi_mr_reg");
    check(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    check(fi_ep_bind(endpoint_, &eq_->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(endpoint_, &cq_->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    check(fi_enable(endpoint_), "fi_enable");
    post_receive();
  }

  void wait_event(uint32_t wanted, fi_eq_cm_entry* entry) {
    uint32_t event = 0;
    const ssize_t got = fi_eq_sread(eq_, &event, entry, sizeof *entry, 20'000, 0);
    if (got < 0 || event != wanted) {
      std::fprintf(stderr, "expected connection event %u, got %u (%s)\n", wanted, event,
                   got < 0 ? fi_strerror(static_cast<int>(-got)) : "no error");
      std::exit(2);
    }
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_pep* listener_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mr* memory_ = nullptr;
  fi_context receive_context_{};
  fi_context send_context_{};
  char memory_block_[64] = {};
  char* send_ = memory_block_;
  char* receive_ = memory_block_ + 32;
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
