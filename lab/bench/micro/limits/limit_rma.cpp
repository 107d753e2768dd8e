// The limit of bare libfabric for one-sided work: an adapter's get, put, fetch-and-add and
// compare-and-swap of 8 B over a connection, each waited for by looking at the queue.
//
//   limit_rma [--provider verbs] [--address 192.168.77.1]
//
// A child process is the target: it registers a word and sleeps.
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../common.hpp"

namespace {

void check(long status, const char* what) {
  if (status >= 0) return;
  std::fprintf(stderr, "limit_rma: %s: %s\n", what, fi_strerror(static_cast<int>(-status)));
  std::exit(2);
}

// What the target tells.
struct Told {
  uint64_t address;
  uint64_t key;
  char port[8];
};

// One end; its objects live until the process ends.
class End {
 public:
  End(const std::string& provider, const std::string& host, const std::string& port,
      uint64_t flags) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
    hints->tx_attr->op_flags = FI_COMPLETION;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    hints->fabric_attr->prov_name = strdup(provider.c_str());
    check(fi_getinfo(FI_VERSION(1, 17), host.c_str(), port.c_str(), flags, hints, &info_),
          "fi_getinfo");
    check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr events{};
    events.wait_obj = FI_WAIT_UNSPEC;
    check(fi_eq_open(fabric_, &events, &eq_, nullptr), "fi_eq_open");
  }

  // The target: tells, accepts, and sleeps until it is ended.
  void serve(int to) {
    fid_pep* listener = nullptr;
    check(fi_passive_ep(fabric_, info_, &listener, nullptr), "fi_passive_ep");
    check(fi_pep_bind(listener, &eq_->fid, 0), "fi_pep_bind");
    check(fi_listen(listener), "fi_listen");
    sockaddr_in name{};
    size_t length = sizeof name;
    check(fi_getname(&listener->fid, &name, &length), "fi_getname");
    // Registered before a peer is there: the request's domain is that of our own information.
    open_domain(info_);
    Told told{reinterpret_cast<uint64_t>(words_), fi_mr_key(memory_), {}};
    std::snprintf(told.port, sizeof told.port, "%u", ntohs(name.sin_port));
    if (write(to, &told, sizeof told) != sizeof told) std::exit(2);
    fi_eq_cm_entry entry{};
    wait_event(FI_CONNREQ, &entry);
    open_endpoint(entry.info);
    check(fi_accept(endpoint_, nullptr, 0), "fi_accept");
    wait_event(FI_CONNECTED, &entry);
    for (;;) pause();
  }

  void connect(const Told& told) {
    told_ = told;
    open_domain(info_);
    open_endpoint(info_);
    check(fi_connect(endpoint_, info_->dest_addr, nullptr, 0), "fi_connect");
    fi_eq_cm_entry entry{};
    wait_event(FI_CONNECTED, &entry);
  }

  void get() {
    wait(fi_read(endpoint_, words_, 8, fi_mr_desc(memory_), 0, told_.address, told_.key, this));
  }
  void put() {
    wait(fi_write(endpoint_, words_, 8, fi_mr_desc(memory_), 0, told_.address, told_.key, this));
  }
  // Before 2.2 libfabric's verbs takes an operand's address for its value: any value will do here.
  void fetch_add() {
    void* const own = fi_mr_desc(memory_);
    wait(fi_fetch_atomic(endpoint_, words_ + 1, 1, own, words_ + 2, own, 0, told_.address,
                         told_.key, FI_UINT64, FI_SUM, this));
  }
  void compare_swap() {
    void* const own = fi_mr_desc(memory_);
    wait(fi_compare_atomic(endpoint_, words_ + 1, 1, own, words_ + 3, own, words_ + 2, own, 0,
                           told_.address, told_.key, FI_UINT64, FI_CSWAP, this));
  }

 private:
  void open_domain(fi_info* info) {
    check(fi_domain(fabric_, info, &domain_, nullptr), "fi_domain");
    check(fi_mr_reg(domain_, words_, sizeof words_,
                    FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &memory_,
                    nullptr),
          "fi_mr_reg");
  }
  void open_endpoint(fi_info* info) {
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.size = 64;
    check(fi_cq_open(domain_, &queue, &cq_, nullptr), "fi_cq_open");
    check(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    check(fi_ep_bind(endpoint_, &eq_->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(endpoint_, &cq_->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    check(fi_enable(endpoint_), "fi_enable");
  }
  void wait_event(uint32_t wanted, fi_eq_cm_entry* entry) {
    uint32_t event = 0;
    const ssize_t got = fi_eq_sread(eq_, &event, entry, sizeof *entry, 20'000, 0);
    check(got, "fi_eq_sread");
    if (event != wanted) check(-FI_EOTHER, "another event");
  }
  void wait(long posted) {
    check(posted, "an operation");
    fi_cq_entry entry{};
    ssize_t got = 0;
    while ((got = fi_cq_read(cq_, &entry, 1)) == -FI_EAGAIN) {
    }
    check(got, "fi_cq_read");
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mr* memory_ = nullptr;
  Told told_{};
  uint64_t words_[512] = {};
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const std::string provider = arguments.text("--provider", "verbs");
  const std::string host = arguments.text("--address", "192.168.77.1");
  int told_by[2];
  check(pipe(told_by) == 0 ? 0 : -FI_EOTHER, "pipe");
  const pid_t target = fork();
  if (target == 0) End(provider, host, "0", FI_SOURCE).serve(told_by[1]);
  close(told_by[1]);
  Told told{};
  if (read(told_by[0], &told, sizeof told) != sizeof told) check(-FI_EOTHER, "the target");
  End end(provider, host, told.port, 0);
  end.connect(told);
  bench::report("raw_get_8", bench::median_of_singles_ns([&] { end.get(); }, 500), "ns");
  bench::report("raw_put_8", bench::median_of_singles_ns([&] { end.put(); }, 500), "ns");
  bench::report("raw_fetch_add", bench::median_of_singles_ns([&] { end.fetch_add(); }, 500), "ns");
  bench::report("raw_compare_swap", bench::median_of_singles_ns([&] { end.compare_swap(); }, 500),
                "ns");
  kill(target, SIGKILL);
  waitpid(target, nullptr, 0);
  return 0;
}
