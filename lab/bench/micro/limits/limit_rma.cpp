// The limit of bare libfabric for one-sided work: an adapter's get, put, fetch-and-add and
// compare-and-swap of 8 B over a connection, each waited for by looking at the queue.
//
//   limit_rma [--provider verbs] [--address 192.168.77.1]
//
// A child process is the target: it registers a word and sleeps.
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "ofi_end.hpp"

namespace {

using bench::check_ofi;

// What the target tells.
struct Told {
  uint64_t address;
  uint64_t key;
  char port[8];
};

class End {
 public:
  End(const std::string& provider, const std::string& host, const std::string& port,
      uint64_t flags)
      : end_({.capabilities = FI_MSG | FI_RMA | FI_ATOMIC,
              .access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE},
             provider, host, port, flags, words_, sizeof words_) {}

  // The target: tells, accepts, and sleeps until it is ended.
  void serve(int to) {
    const uint16_t port = end_.listen();
    Told told{reinterpret_cast<uint64_t>(words_), end_.key(), {}};
    std::snprintf(told.port, sizeof told.port, "%u", port);
    if (write(to, &told, sizeof told) != sizeof told) std::exit(2);
    end_.accept([] {});
    for (;;) pause();
  }
  void connect(const Told& told) {
    told_ = told;
    end_.connect([] {});
  }

  void get() {
    wait(fi_read(end_.endpoint(), words_, 8, end_.descriptor(), 0, told_.address, told_.key,
                 &context_));
  }
  void put() {
    wait(fi_write(end_.endpoint(), words_, 8, end_.descriptor(), 0, told_.address, told_.key,
                  &context_));
  }
  // Before 2.2 libfabric's verbs takes an operand's address for its value: any value will do here.
  void fetch_add() {
    void* const own = end_.descriptor();
    wait(fi_fetch_atomic(end_.endpoint(), words_ + 1, 1, own, words_ + 2, own, 0, told_.address,
                         told_.key, FI_UINT64, FI_SUM, &context_));
  }
  void compare_swap() {
    void* const own = end_.descriptor();
    wait(fi_compare_atomic(end_.endpoint(), words_ + 1, 1, own, words_ + 3, own, words_ + 2, own, 0,
                           told_.address, told_.key, FI_UINT64, FI_CSWAP, &context_));
  }

 private:
  void wait(long posted) {
    check_ofi(posted, "an operation");
    fi_cq_entry entry{};
    ssize_t got = 0;
    while ((got = fi_cq_read(end_.queue(), &entry, 1)) == -FI_EAGAIN) {
    }
    check_ofi(got, "fi_cq_read");
  }

  uint64_t words_[512] = {};
  bench::OfiEnd end_;
  Told told_{};
  fi_context context_{};
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const std::string provider = arguments.text("--provider", "verbs");
  const std::string host = arguments.text("--address", "192.168.77.1");
  int told_by[2];
  check_ofi(pipe(told_by) == 0 ? 0 : -FI_EOTHER, "pipe");
  const pid_t target = fork();
  if (target == 0) End(provider, host, "0", FI_SOURCE).serve(told_by[1]);
  close(told_by[1]);
  Told told{};
  if (read(told_by[0], &told, sizeof told) != sizeof told) check_ofi(-FI_EOTHER, "the target");
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
