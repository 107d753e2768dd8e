// Messages that libfabric lost after it had said that they are sent, without Skerry.
//
//   lost_messages [--provider NAME] [--messages N] [--breaks N]
//
// One process sends numbered messages to another, on a reliable endpoint (FI_EP_RDM), and waits for
// each to complete. Now and then the kernel resets the TCP connections beneath (`ss -K`; root, and
// a network of its own: unshare --net). An end that says "failed" is right; one that says "sent"
// promises that the message arrives, or that its endpoint reports an error later.
#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t message_bytes = 3000;
constexpr size_t address_bytes = 64;

void check(long result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "lost_messages: %s: %s\n", what, fi_strerror(static_cast<int>(-result)));
  std::exit(2);
}

// One side. Its objects live until the process ends.
struct End {
  fid_ep* endpoint = nullptr;
  fid_av* peers = nullptr;
  fid_cq* completions = nullptr;

  explicit End(const std::string& provider) {
    fi_info *hints = fi_allocinfo(), *info = nullptr;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->fabric_attr->prov_name = strdup(provider.c_str());
    check(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &info),
          "fi_getinfo");
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    check(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    fi_av_attr table{};
    check(fi_av_open(domain, &table, &peers, nullptr), "fi_av_open");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    check(fi_cq_open(domain, &queue, &completions, nullptr), "fi_cq_open");
    check(fi_endpoint(domain, info, &endpoint, nullptr), "fi_endpoint");
    check(fi_ep_bind(endpoint, &peers->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(endpoint), "fi_enable");
  }
  // 1: completed, -1: failed, 0: nothing yet. *context: whose.
  int look(void** context) {
    fi_cq_entry entry{};
    const ssize_t n = fi_cq_read(completions, &entry, 1);
    if (n == 1) {
      *context = entry.op_context;
      return 1;
    }
    if (n != -FI_EAVAIL) return 0;
    fi_cq_err_entry failure{};
    if (fi_cq_readerr(completions, &failure, 0) != 1) return 0;
    *context = failure.op_context;
    return -1;
  }
};

void receive(const std::string& provider, int address_to, int stop_from, int result_to,
             uint32_t messages) {
  End end(provider);
  char address[address_bytes] = {};
  size_t bytes = sizeof address;
  check(fi_getname(&end.endpoint->fid, address, &bytes), "fi_getname");
  if (write(address_to, address, sizeof address) != sizeof address) std::exit(2);
  std::vector<std::vector<char>> rooms(64, std::vector<char>(message_bytes));
  const auto post = [&](void* room) {
    fi_addr_t any = FI_ADDR_UNSPEC;
    check(fi_recv(end.endpoint, room, message_bytes, nullptr, any, room), "fi_recv");
  };
  for (std::vector<char>& room : rooms) post(room.data());
  std::vector<char> came(messages);
  uint32_t failures = 0;
  // Until the sender is done, and a moment more.
  for (int quiet = 0; quiet < 3000;) {
    void* room = nullptr;
    const int found = end.look(&room);
    if (found == 1) {
      uint32_t number = 0;
      std::memcpy(&number, room, sizeof number);
      if (number < messages) came[number] = 1;
    }
    failures += found < 0;
    if (found != 0) {
      if (room != nullptr) post(room);
      continue;
    }
    char word = 0;
    static bool stops = false;
    if (!stops && read(stop_from, &word, 1) >= 0) stops = true;  // does not block
    if (stops) ++quiet;
    std::this_thread::sleep_for(std::chrono::microseconds(stops ? 1000 : 50));
  }
  if (write(result_to, &failures, sizeof failures) != sizeof failures ||
      write(result_to, came.data(), came.size()) != static_cast<ssize_t>(came.size()))
    std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  std::string provider = "tcp;ofi_rxm";
  uint32_t messages = 20'000, breaks = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--provider") provider = argv[i + 1];
    if (word == "--messages") messages = static_cast<uint32_t>(std::atoi(argv[i + 1]));
    if (word == "--breaks") breaks = static_cast<uint32_t>(std::atoi(argv[i + 1]));
  }
  int to_us[2], stop[2], result[2];
  check(pipe(to_us), "pipe");
  check(pipe2(stop, O_NONBLOCK), "pipe");
  check(pipe(result), "pipe");
  const pid_t receiver = fork();
  if (receiver == 0) {
    receive(provider, to_us[1], stop[0], result[1], messages);
    _exit(0);
  }
  End end(provider);
  char address[address_bytes];
  if (read(to_us[0], address, sizeof address) != sizeof address) return 2;
  fi_addr_t to = FI_ADDR_UNSPEC;
  if (fi_av_insert(end.peers, address, 1, &to, 0, nullptr) != 1) return 2;
  std::vector<char> text(message_bytes, 'x'), said_sent(messages);
  uint32_t failed = 0;
  for (uint32_t number = 0; number < messages; ++number) {
    if (breaks > 0 && number % (messages / breaks) == messages / breaks / 2)
      if (std::system("ss -tnHK state established > /dev/null 2>&1 &") != 0) return 2;
    std::memcpy(text.data(), &number, sizeof number);
    void* context = nullptr;
    int found = 0;
    long posted = 0;
    while ((posted = fi_send(end.endpoint, text.data(), text.size(), nullptr, to, text.data())) ==
           -FI_EAGAIN)
      end.look(&context);
    while (posted == 0 && (found = end.look(&context)) == 0) {
    }
    if (posted == 0 && found == 1) said_sent[number] = 1;
    else ++failed;
  }
  if (write(stop[1], "", 1) != 1) return 2;
  std::vector<char> came(messages);
  uint32_t failures = 0;  // that the receiver was told
  if (read(result[0], &failures, sizeof failures) != sizeof failures) return 2;
  for (size_t at = 0; at < came.size();) {
    const ssize_t n = read(result[0], came.data() + at, came.size() - at);
    if (n <= 0) return 2;
    at += static_cast<size_t>(n);
  }
  waitpid(receiver, nullptr, 0);
  uint32_t sent = 0, lost = 0;
  for (uint32_t number = 0; number < messages; ++number) {
    sent += said_sent[number] != 0;
    lost += said_sent[number] != 0 && came[number] == 0;
  }
  const uint32_t version = fi_version();
  std::printf("%s of libfabric %u.%u: %u messages, %u resets: %u said to be sent, %u failed; of "
              "the former %u never arrived, and the receiver heard of %u\n",
              provider.c_str(), FI_MAJOR(version), FI_MINOR(version), messages, breaks, sent,
              failed, lost, failures);
  return 0;
}
