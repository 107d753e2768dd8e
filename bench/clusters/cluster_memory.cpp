// What one data server takes for its clients: cluster_memory CLIENTS ROUTED
//
// The server runs in this process, on its own thread, with the product's code. Child processes
// stand for CLIENTS ranks: each proves itself, has one request answered and stays connected. With
// ROUTED = 0 a client connects directly; with 1 over a link, as where servers form clusters. Prints
// one line of JSON. `cluster_memory plan NODES RANKS_PER_NODE SIZE|sqrt|auto BUDGET` prints what
// the product's routes make of a job. The first: the server's own account, what VmRSS grew by, the
// sockets, and the queues in them. Linux only.
#include <sodium.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "connection/core/hello.hpp"
#include "server/server.hpp"
#include "share/message.hpp"
#include "share/share.hpp"

namespace {

using namespace skerry;

constexpr SegmentId segment{0, 1};
constexpr uint64_t slice_bytes = 4096;
constexpr uint32_t clients_of_a_process = 2500;  // each with its descriptors
const connection::JobKey key{};

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "cluster_memory: %s\n", what);
  std::exit(1);
}

// Two nodes: the server's, and one with all clients.
placement::Routes routes() { return {2, 2, false}; }

struct Directory final : server::Directory {
  Status find(SegmentId id, Rank rank, memory::Region* region) override {
    if (id != segment || rank != 0) return error(Code::freed, "no such segment");
    *region = {slice, slice_bytes, 7, memory::Kind::node_shared};
    return {};
  }
  Status find_lock(SegmentId, Rank, uint64_t, lock::Mutex**) override {
    return error(Code::freed, "no mutexes");
  }
  alignas(64) std::byte slice[slice_bytes]{};
};

// One rank's side, or that of many: connects, asks for one word, hears the answer.
class Clients final : public fabric::Sink {
 public:
  uint64_t answered = 0;

  void ask(fabric::Fabric& fabric, fabric::Bytes address, uint32_t rank) {
    fabric_ = &fabric;
    const connection::Peer peer{0, 0, wire::version, connection::Role::server};
    const auto hello = connection::make_hello(key, peer, rank, 1, 5);
    fabric::EndpointId endpoint = fabric::no_endpoint;
    check(fabric.connect(address, hello, &endpoint).ok(), "a client cannot connect");
    ranks_[endpoint] = rank;
  }
  void let_work(fabric::Fabric& fabric) {
    fabric_ = &fabric;
    fabric.poll(1'000'000, fabric::no_endpoint);
    fabric.dispatch(*this);
  }

 private:
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes) override {
    wire::Request request;
    request.header.version = wire::version;
    request.header.kind = static_cast<uint8_t>(wire::Kind::read_modify_write);
    request.header.origin_rank = ranks_[endpoint];
    request.header.incarnation = 1;
    request.header.number = 1;
    request.header.segment_owner = segment.owner;
    request.header.segment_generation = segment.generation;
    request.header.reply_node = 1;
    request.header.reply_slot = 1;
    request.header.reply_tag = 1;
    request.operands = {1, 0};
    std::byte header[wire::max_request_bytes];
    const uint32_t bytes = wire::encode(request, header);
    check(fabric_->send(endpoint, {header, bytes}, {}, false, 0) == fabric::SendResult::accepted,
          "a request is not taken");
  }
  fabric::Verdict on_message(fabric::EndpointId, fabric::Bytes header, fabric::Bytes) override {
    wire::ReplyHeader reply{};
    if (wire::decode(header, &reply).ok() &&
        reply.kind == static_cast<uint8_t>(wire::Kind::reply) && reply.code == 0)
      ++answered;
    return fabric::Verdict::taken;
  }
  void on_closed(fabric::EndpointId, fabric::CloseReason, std::string_view detail) override {
    std::fprintf(stderr, "cluster_memory: closed: %.*s\n", static_cast<int>(detail.size()),
                 detail.data());
    std::exit(1);
  }
  void on_connect_request(fabric::RequestId, fabric::Bytes, std::string_view) override {}
  std::byte* place_directly(fabric::EndpointId, fabric::Bytes, uint64_t) override {
    return nullptr;
  }
  fabric::Verdict on_placed(fabric::EndpointId, fabric::Bytes, uint64_t) override {
    return fabric::Verdict::taken;
  }
  void on_writable(fabric::EndpointId) override {}
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}
  void on_watched(int, uint64_t) override {}

  fabric::Fabric* fabric_ = nullptr;
  std::unordered_map<fabric::EndpointId, uint32_t> ranks_;
};

std::unique_ptr<fabric::Fabric> tcp() {
  fabric::Options options;
  options.loopback_only = true;
  options.max_unauthenticated = 4096;
  std::unique_ptr<fabric::Fabric> made;
  check(fabric::make_tcp_fabric(options, &made).ok(), "no tcp");
  return made;
}

// A process that stands for ranks first .. first + count - 1. Says so when all have been answered.
void stand_for(uint32_t first, uint32_t count, bool routed, const std::vector<std::byte>& address,
               int ready) {
  std::vector<std::unique_ptr<fabric::Fabric>> fabrics;
  Clients clients;
  for (uint32_t i = 0; i < count; ++i) {
    if (routed) {
      share::ProxyClientOptions options;
      options.key = key;
      options.rank = first + i;
      options.node = 1;
      options.guide.routes = placement::Routes(2, 1, false);  // it sends to its gate, the target
      std::unique_ptr<fabric::Fabric> made;
      check(share::make_proxy_client(tcp(), options, &made).ok(), "no link");
      fabrics.push_back(std::move(made));
    } else if (i == 0) {
      fabrics.push_back(tcp());
    }
    clients.ask(*fabrics.back(), address, first + i);
    while (clients.answered < i + 1) clients.let_work(*fabrics.back());
  }
  check(write(ready, "!", 1) == 1, "nobody listens");
  pause();
}

// The processes that stand for ranks 1 .. count.
class Children {
 public:
  // They start before this process has threads, and wait for the server's address.
  Children(uint32_t count, bool routed, uint32_t descriptors) {
    check(pipe(ready_) == 0, "no pipe");
    const uint32_t at_once = routed ? clients_of_a_process : descriptors;
    for (uint32_t first = 1; first <= count; first += at_once) {
      int ends[2];
      check(pipe(ends) == 0, "no pipe");
      const pid_t child = fork();
      if (child == 0) {
        std::vector<std::byte> address(256);
        close(ends[1]);
        const ssize_t bytes = read(ends[0], address.data(), address.size());
        if (bytes <= 0) std::_Exit(1);  // the server did not start
        address.resize(static_cast<size_t>(bytes));
        stand_for(first, std::min(at_once, count - first + 1), routed, address, ready_[1]);
        std::_Exit(0);
      }
      close(ends[0]);
      children_.push_back(child);
      tell_.push_back(ends[1]);
    }
  }
  // Returns when all ranks are connected and answered.
  void connect(const std::vector<std::byte>& address) {
    for (const int end : tell_)
      check(write(end, address.data(), address.size()) == static_cast<ssize_t>(address.size()),
            "a child went away");
    char all[64];
    for (size_t done = 0; done < children_.size();) {
      const ssize_t more = read(ready_[0], all, sizeof all);
      check(more > 0, "a child went away");
      done += static_cast<size_t>(more);
    }
  }
  void end() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  int ready_[2] = {-1, -1};
  std::vector<pid_t> children_;
  std::vector<int> tell_;
};

uint64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

// What a socket takes of the kernel, by the sizes of its objects; 0 where they may not be read.
uint64_t socket_object_bytes() {
  std::ifstream table("/proc/slabinfo");
  uint64_t bytes = 0;
  for (std::string line; std::getline(table, line);)
    for (const char* name :
         {"TCP ", "sock_inode_cache ", "dentry ", "filp ", "eventpoll_epi ", "eventpoll_pwq "})
      if (line.starts_with(name)) {
        unsigned long active = 0, all = 0, size = 0;
        if (std::sscanf(line.c_str() + std::strlen(name), "%lu %lu %lu", &active, &all, &size) == 3)
          bytes += size;
      }
  return bytes;
}

// What the product plans for a job: its cluster size, and what connects to a server that has most.
int plan(NodeId nodes, uint32_t per_node, std::string_view size, uint64_t budget_bytes) {
  const uint64_t idle_bytes = tcp()->capabilities().connection_bytes;
  NodeId chosen = 1;
  if (size == "sqrt") chosen = placement::square_root_cluster(nodes);
  else if (size == "auto")
    chosen = placement::cluster_within(budget_bytes / 4, idle_bytes, nodes, per_node, false);
  else chosen = static_cast<NodeId>(std::strtol(std::string(size).c_str(), nullptr, 10));
  const placement::Routes routes(nodes, chosen, false);
  const placement::Neighbours most = routes.most_neighbours(per_node);
  const uint64_t others = static_cast<uint64_t>(nodes - 1) * per_node;
  const placement::Budget budget = placement::spend(budget_bytes, most.ranks + most.servers,
                                                    idle_bytes);
  const uint64_t sessions = budget.sessions == 0 || routes.is_direct()
                                ? others
                                : std::min<uint64_t>(others, budget.sessions);
  std::printf(
      "{\"size\": %d, \"clients\": %llu, \"trunks\": %llu, \"sessions\": %llu, "
      "\"servers_on_the_way\": %u}\n",
      chosen, static_cast<unsigned long long>(most.ranks),
      static_cast<unsigned long long>(most.servers), static_cast<unsigned long long>(sessions),
      routes.most_servers());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::strcmp(argv[1], "plan") == 0)
    return plan(static_cast<NodeId>(std::strtol(argv[2], nullptr, 10)),
                static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)), argv[4],
                std::strtoull(argv[5], nullptr, 10));
  if (argc != 3)
    return std::fprintf(stderr, "cluster_memory: give CLIENTS ROUTED, or plan and a job\n"), 2;
  const auto count = static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const bool routed = std::strcmp(argv[2], "1") == 0;
  check(sodium_init() >= 0, "no libsodium");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  check(files.rlim_cur > count + 64, "too few descriptors: raise ulimit -Hn");

  Children children(count, routed, static_cast<uint32_t>(files.rlim_cur - 64));

  std::vector<NodeId> rank_node(count + 1, 1);
  rank_node[0] = 0;
  const std::vector<std::byte> block = placement::build_node_map(rank_node, {});
  placement::NodeMap map;
  check(placement::NodeMap::view(block, &map).ok(), "no map");
  const memory::ControlLayout layout = memory::control_layout({});
  auto* const memory_ = static_cast<std::byte*>(
      std::aligned_alloc(memory::page_bytes, layout.total_bytes));
  std::memset(memory_, 0, layout.total_bytes);
  memory::Control control(memory_, layout);
  control.initialise();
  Directory directory;
  std::unique_ptr<fabric::Fabric> side = tcp();
  if (routed) {
    share::ProxyOptions options;
    options.key = key;
    options.guide.routes = routes();
    options.pool_bytes = placement::usual_pool_bytes;
    check(share::make_proxy(std::move(side), options, &side).ok(), "no proxy");
  }
  server::Server server({{0, 0}, key, static_cast<int32_t>(count + 1), 0}, std::move(side),
                        directory);
  std::vector<std::byte> address;
  check(server.start(&address).ok(), "the server does not start");
  server.open({control, 0, [](Rank r) { return r == 0 ? 0 : -1; }, &map});
  const server::Server::Memory account_before = server.memory();
  const uint64_t resident_before = resident_bytes();
  children.connect(address);
  const server::Server::Memory account = server.memory();
  const uint64_t resident = resident_bytes() - resident_before;
  uint64_t word = 0;
  std::memcpy(&word, directory.slice, sizeof word);
  check(word == count, "the clients' sum is wrong");
  const auto bytes_of = [](const server::Server::Memory& m) {
    return m.connection_bytes + m.known_bytes + m.fixed_bytes;
  };
  std::printf(
      "{\"clients\": %u, \"routed\": %s, \"account_bytes\": %llu, \"resident_bytes\": %llu, "
      "\"sockets\": %u, \"socket_bytes\": %llu}\n",
      count, routed ? "true" : "false",
      static_cast<unsigned long long>(bytes_of(account) - bytes_of(account_before)),
      static_cast<unsigned long long>(resident), count,
      static_cast<unsigned long long>(socket_object_bytes()));
  std::fflush(stdout);
  children.end();
  std::_Exit(0);
}
