// What one data server takes for its clients: cluster_memory [--fabric NAME] [--own-buffers]
// CLIENTS ROUTED [SERVERS THROUGH PASSING]
//
// The server runs in this process, on its own thread, with the product's code. Child processes
// stand for CLIENTS ranks: each proves itself, has one request answered and stays connected. With
// ROUTED = 0 a client connects directly; with 1 over a link, as where servers form clusters.
// SERVERS more children are the other servers of its cluster: THROUGH ranks talk to this server
// through them, and its own clients talk to them in PASSING channels. Prints one line of JSON: the
// server's own account, what VmRSS grew by, the sockets. `cluster_memory [--fabric NAME] plan NODES
// RANKS_PER_NODE SIZE|sqrt|auto BUDGET` prints what the product's routes make of a job. NAME: as in
// SKERRY_FABRIC (default: tcp); --own-buffers: as SKERRY_SHARED_RECEIVES=0. Linux only.
#include <sodium.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "connection/hello.hpp"
#include "fabric/fabric.hpp"
#include "placement/plan.hpp"
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

// Two clusters: nodes 0 (the server's) to `servers`, and as many more. All clients are on the first
// node of the second cluster, whose gate in the first one is the server.
placement::Routes routes(uint32_t servers) {
  const auto size = static_cast<NodeId>(servers + 1);
  return {2 * size, size, false};
}
NodeId clients_node(uint32_t servers) { return static_cast<NodeId>(servers + 1); }

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
    const auto hello = connection::make_hello(key, peer, rank, 1);
    fabric::EndpointId endpoint = fabric::no_endpoint;
    const Status status = fabric.connect(address, hello, &endpoint);
    check(status.ok(), status.message().c_str());
    asked_by_[{&fabric, endpoint}] = rank;
  }
  void ask_and_wait(fabric::Fabric& fabric, fabric::Bytes address, uint32_t rank) {
    const uint64_t before = answered;
    ask(fabric, address, rank);
    while (answered == before) let_work(fabric);
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
    request.header.origin_rank = asked_by_[{fabric_, endpoint}];
    request.header.incarnation = 1;
    request.header.number = 1;
    request.header.segment_owner = segment.owner;
    request.header.segment_generation = segment.generation;
    request.header.reply_slot = 1;
    request.header.reply_tag = 1;
    request.operands = {1, 0};
    std::byte header[wire::max_request_bytes];
    const uint32_t bytes = wire::encode(request, header);
    check(fabric_->send(endpoint, {header, bytes}, {}, false, 0) == fabric::SendResult::accepted,
          "a request is not taken");
  }
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes) override {
    wire::ReplyHeader reply{};
    if (wire::decode(header, &reply).ok() &&
        reply.kind == static_cast<uint8_t>(wire::AnswerKind::reply) && reply.code == 0)
      ++answered;
    else answer(endpoint);
    return fabric::Verdict::taken;
  }
  // As another server, to a request of a client that comes through the one that is measured.
  void answer(fabric::EndpointId endpoint) {
    wire::ReplyHeader reply{};
    reply.version = wire::version;
    reply.kind = static_cast<uint8_t>(wire::AnswerKind::reply);
    reply.number = reply.applied = 1;
    check(fabric_->send(endpoint, std::as_bytes(std::span(&reply, 1)), {}, false, 0) ==
              fabric::SendResult::accepted,
          "an answer is not taken");
  }
  void on_closed(fabric::EndpointId, fabric::CloseReason, std::string_view detail) override {
    std::fprintf(stderr, "cluster_memory: closed: %.*s\n", static_cast<int>(detail.size()),
                 detail.data());
    std::exit(1);
  }
  void on_connect_request(fabric::RequestId request, fabric::Bytes, std::string_view) override {
    fabric::EndpointId endpoint = fabric::no_endpoint;
    check(fabric_->accept(request, {}, &endpoint).ok(), "a channel is not accepted");
  }
  std::byte* place_directly(fabric::EndpointId, fabric::Bytes, uint64_t) override {
    return nullptr;
  }
  fabric::Verdict on_placed(fabric::EndpointId, fabric::Bytes, uint64_t) override {
    return fabric::Verdict::taken;
  }
  void on_writable(fabric::EndpointId) override {}
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}

  fabric::Fabric* fabric_ = nullptr;
  std::map<std::pair<const fabric::Fabric*, fabric::EndpointId>, uint32_t> asked_by_;
};

std::string fabric_name = "tcp";
bool shared_receives = true;

std::unique_ptr<fabric::Fabric> new_fabric() {
  fabric::Options options;
  options.loopback_only = true;
  options.max_unauthenticated = 4096;
  options.shared_receives = shared_receives;
  std::unique_ptr<fabric::Fabric> made;
  const Status status = fabric::make_fabric(fabric_name, options, &made);
  check(status.ok(), status.message().c_str());
  return made;
}

using Address = std::vector<std::byte>;

void say(int pipe, const Address& address) {
  check(write(pipe, address.data(), address.size()) == static_cast<ssize_t>(address.size()),
        "a process went away");
}

// Blocks. Ends the process if the one that it waits for went away.
Address hear(int pipe) {
  Address address(256);
  const ssize_t bytes = read(pipe, address.data(), address.size());
  if (bytes <= 0) std::_Exit(1);
  address.resize(static_cast<size_t>(bytes));
  return address;
}

// A child process, and how this one talks to it.
class Child {
 public:
  // Before this process has threads. The child runs `body(hears, says)`: ends of pipes.
  template <class Body>
  explicit Child(Body body) {
    int down[2], up[2];
    check(pipe(down) == 0 && pipe(up) == 0, "no pipe");
    pid_ = fork();
    check(pid_ >= 0, "no process");
    if (pid_ == 0) {
      close(down[1]);
      close(up[0]);
      body(down[0], up[1]);
      std::_Exit(0);
    }
    close(down[0]);
    close(up[1]);
    to_ = down[1];
    from_ = up[0];
  }
  void tell(const Address& address) const { say(to_, address); }
  Address ask() const { return hear(from_); }
  void end() const {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

// What the children are asked for.
struct Load {
  uint32_t clients = 0;
  bool routed = false;
  uint32_t servers = 0;  // others of the cluster
  uint32_t through = 0;  // ranks that come through them
  uint32_t passing = 0;  // channels of clients to them
  uint32_t ranks() const { return clients + through + 1; }
};

// A process that stands for ranks first .. first + count - 1: hears the addresses of the server and
// of the others, opens its share of the channels that pass, and says so when all were answered.
void stand_for(uint32_t first, uint32_t count, const Load& load, int hears, int says) {
  const Address server = hear(hears);
  std::vector<Address> others;
  for (uint32_t s = 0; s < load.servers; ++s) {
    say(says, {std::byte{'?'}});
    others.push_back(hear(hears));
  }
  std::vector<std::unique_ptr<fabric::Fabric>> fabrics;
  Clients clients;
  for (uint32_t i = 0; i < count; ++i) {
    if (load.routed) {
      share::Options options;
      options.key = key;
      options.rank = first + i;
      options.node = static_cast<uint32_t>(clients_node(load.servers));
      options.guide.routes = load.servers == 0 ? placement::Routes(2, 1, false)
                                               : routes(load.servers);
      options.guide.address_of = [&](NodeId node) -> fabric::Bytes {
        return node == 0 ? fabric::Bytes(server) : fabric::Bytes{};
      };
      std::unique_ptr<fabric::Fabric> made;
      check(share::make_proxy_client(new_fabric(), options, &made).ok(), "no link");
      fabrics.push_back(std::move(made));
    } else if (i == 0 || fabric_name != "tcp") {
      fabrics.push_back(new_fabric());  // over datagrams all connections of one are one peer
    }
    clients.ask_and_wait(*fabrics.back(), server, first + i);
  }
  // Channel number n of all belongs to client n modulo clients, and goes to each server in turn.
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t n = first + i - 1; n < load.passing; n += load.clients)
      clients.ask_and_wait(*fabrics[i], others[(n / load.clients + n) % load.servers], first + i);
  say(says, {std::byte{'!'}});
  pause();
}

// Another server of the cluster: `count` ranks from `first` on go through it to the one that is
// measured, and it answers whatever comes.
void stand_for_server(NodeId node, uint32_t first, uint32_t count, const Load& load, int hears,
                      int says) {
  share::Options options;
  options.key = key;
  options.node = static_cast<uint32_t>(node);
  options.guide.routes = routes(load.servers);
  options.pool_bytes = placement::usual_pool_bytes;
  std::unique_ptr<fabric::Fabric> proxy = new_fabric();
  check(share::make_proxy(std::move(proxy), options, &proxy).ok(), "no proxy");
  Address own;
  check(proxy->listen(&own).ok(), "no address");
  say(says, own);
  const Address server = hear(hears);
  Clients clients;
  for (uint32_t i = 0; i < count; ++i) clients.ask_and_wait(*proxy, server, first + i);
  say(says, {std::byte{'!'}});
  for (;;) clients.let_work(*proxy);
}

// All child processes. They start before this process has threads, and wait for the server.
class Children {
 public:
  Children(const Load& load, uint32_t descriptors) : load_(load) {
    uint32_t rank = load.clients + 1;
    for (uint32_t s = 0; s < load.servers; ++s) {
      const uint32_t count = load.through / load.servers + (s < load.through % load.servers);
      servers_.emplace_back([&](int hears, int says) {
        stand_for_server(static_cast<NodeId>(s + 1), rank, count, load_, hears, says);
      });
      rank += count;
    }
    const uint32_t at_once = load.routed ? clients_of_a_process : descriptors;
    for (uint32_t first = 1; first <= load.clients; first += at_once)
      clients_.emplace_back([&](int hears, int says) {
        stand_for(first, std::min(at_once, load.clients - first + 1), load_, hears, says);
      });
  }
  // Returns when all ranks are connected and answered.
  void connect(const Address& address) {
    std::vector<Address> others;
    for (const Child& child : servers_) others.push_back(child.ask());
    for (const Child& child : servers_) child.tell(address);
    for (const Child& child : servers_) child.ask();
    for (const Child& child : clients_) child.tell(address);
    for (const Child& child : clients_)
      for (const Address& other : others) {
        child.ask();
        child.tell(other);
      }
    for (const Child& child : clients_) child.ask();
  }
  void end() {
    for (const Child& child : servers_) child.end();
    for (const Child& child : clients_) child.end();
  }

 private:
  Load load_;
  std::vector<Child> servers_, clients_;
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

uint64_t bytes_of(const fabric::ConnectionsMemory& memory) {
  return memory.connection_bytes + memory.known_bytes + memory.fixed_bytes;
}

void print(const Load& load, uint64_t account_bytes, uint64_t resident) {
  // Each client's, one from each other server, and one to each with passing channels.
  const uint64_t sockets = uint64_t{load.clients} + (load.through != 0 ? load.servers : 0) +
                           (load.passing != 0 ? load.servers : 0);
  std::printf(
      "{\"clients\": %u, \"routed\": %s, \"servers\": %u, \"through\": %u, \"passing\": %u, "
      "\"account_bytes\": %llu, \"resident_bytes\": %llu, \"sockets\": %llu, \"socket_bytes\": "
      "%llu}\n",
      load.clients, load.routed ? "true" : "false", load.servers, load.through, load.passing,
      static_cast<unsigned long long>(account_bytes), static_cast<unsigned long long>(resident),
      static_cast<unsigned long long>(sockets),
      static_cast<unsigned long long>(socket_object_bytes()));
}

// What the product plans for a job: its cluster size, and what connects to a server that has most.
int plan(NodeId nodes, uint32_t per_node, std::string_view size, uint64_t budget_bytes) {
  const uint64_t idle_bytes = new_fabric()->capabilities().connection_bytes;
  placement::Settings settings{placement::Settings::auto_cluster, false, budget_bytes};
  if (size == "sqrt") settings.cluster_size = placement::Settings::sqrt_cluster;
  else if (size != "auto")
    settings.cluster_size = static_cast<NodeId>(
        std::strtol(std::string(size).c_str(), nullptr, 10));
  const placement::Plan planned = placement::plan({nodes, per_node, 1}, settings, idle_bytes);
  const placement::Routes& routes = planned.routes;
  const placement::Neighbours most = routes.most_neighbours(per_node);
  const uint64_t others = static_cast<uint64_t>(nodes - 1) * per_node;
  const placement::Budget& budget = planned.budget;
  const auto within = [&](uint32_t limit, uint64_t wanted) {
    return limit == 0 || routes.is_direct() ? wanted : std::min<uint64_t>(wanted, limit);
  };
  // All ranks talk to all: each client of a gate to all others of its cluster.
  const auto others_of_cluster = static_cast<uint64_t>(routes.size_of(0) - 1);
  std::printf(
      "{\"size\": %d, \"clients\": %llu, \"trunks\": %llu, \"sessions\": %llu, \"passing\": %llu, "
      "\"servers_on_the_way\": %u}\n",
      planned.cluster_size, static_cast<unsigned long long>(most.ranks),
      static_cast<unsigned long long>(most.servers),
      static_cast<unsigned long long>(within(budget.sessions, others)),
      static_cast<unsigned long long>(within(budget.passing, most.ranks * others_of_cluster)),
      routes.most_servers());
  return 0;
}

// As many as the machine gives, at least what the load takes.
uint32_t descriptors(const Load& load) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  check(files.rlim_cur > load.clients + load.servers * 2 + 64,
        "too few descriptors: raise ulimit -Hn");
  return static_cast<uint32_t>(files.rlim_cur);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "--fabric") == 0) {
    fabric_name = argv[2];
    argc -= 2;
    argv += 2;
  }
  if (argc > 1 && std::strcmp(argv[1], "--own-buffers") == 0) {
    shared_receives = false;
    --argc;
    ++argv;
  }
  if (argc == 6 && std::strcmp(argv[1], "plan") == 0)
    return plan(static_cast<NodeId>(std::strtol(argv[2], nullptr, 10)),
                static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)), argv[4],
                std::strtoull(argv[5], nullptr, 10));
  if (argc != 3 && argc != 6)
    return std::fprintf(stderr, "cluster_memory: see the head of its source\n"), 2;
  const auto number = [&](int i) {
    return i < argc ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : 0;
  };
  const Load load{number(1), number(2) == 1, number(3), number(4), number(5)};
  check(load.servers != 0 ? load.routed && load.clients != 0 : load.through + load.passing == 0,
        "ranks come through other servers, or talk to them, where there are clusters alone");
  check(sodium_init() >= 0, "no libsodium");
  Children children(load, descriptors(load) - 64);

  std::vector<NodeId> rank_node(load.ranks(), 1);
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
  std::unique_ptr<fabric::Fabric> side = new_fabric();
  if (load.routed) {
    share::Options options;
    options.key = key;
    options.guide.routes = routes(load.servers);
    options.pool_bytes = placement::usual_pool_bytes;
    check(share::make_proxy(std::move(side), options, &side).ok(), "no proxy");
  }
  // With a turn for each session, as under a budget.
  const uint32_t sessions = load.servers == 0 ? 0 : load.ranks();
  server::Server server({{0, 0}, key, static_cast<int32_t>(load.ranks()), sessions},
                        std::move(side), directory);
  std::vector<std::byte> address;
  check(server.start(&address).ok(), "the server does not start");
  server.open({control, 0, [](Rank r) { return r == 0 ? 0 : -1; }, &map, {}});
  const fabric::ConnectionsMemory account_before = server.memory();
  const uint64_t resident_before = resident_bytes();
  children.connect(address);
  const fabric::ConnectionsMemory account = server.memory();
  const uint64_t resident = resident_bytes() - resident_before;
  uint64_t word = 0;
  std::memcpy(&word, directory.slice, sizeof word);
  check(word == load.clients + load.through, "the clients' sum is wrong");
  print(load, bytes_of(account) - bytes_of(account_before), resident);
  std::fflush(stdout);
  children.end();
  std::_Exit(0);
}
