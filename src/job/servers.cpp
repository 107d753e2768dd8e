#include "job/servers.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "job/segment.hpp"

namespace skerry::job {
namespace {

// Addresses of one node's data servers, each behind its length in two bytes.
void append_address(std::span<const std::byte> address, std::vector<std::byte>* all) {
  const auto bytes = static_cast<uint16_t>(address.size());
  const auto length = std::as_bytes(std::span(&bytes, 1));
  all->insert(all->end(), length.begin(), length.end());
  all->insert(all->end(), address.begin(), address.end());
}

Status read_addresses(std::span<const std::byte> all, Rank leader,
                      std::vector<std::vector<std::byte>>* addresses) {
  while (!all.empty()) {
    uint16_t bytes = 0;
    if (all.size() >= sizeof bytes) std::memcpy(&bytes, all.data(), sizeof bytes);
    if (all.size() < sizeof bytes + bytes)
      return error(Code::internal, "rank ", leader, " tells addresses of data servers that end ",
                   "too early");
    addresses->emplace_back(all.begin() + sizeof bytes, all.begin() + sizeof bytes + bytes);
    all = all.subspan(sizeof bytes + bytes);
  }
  return {};
}

constexpr std::string_view address_key = "address";

}  // namespace

void hear_late(const News::LatePut& put, const placement::NodeMap& map, LateServers* servers) {
  if (put.key != address_key) return;
  std::vector<std::vector<std::byte>> addresses;
  // A wrong one is as none: that node cannot be reached.
  if (read_addresses(put.value, put.rank, &addresses).ok())
    servers->add(map.node_of(put.rank), std::move(addresses));
}

placement::Settings settings_of(const Config& config) {
  return {config.cluster_size, config.share, config.server_budget_bytes};
}

share::Guide guide(const placement::Routes& routes, const placement::NodeMap& map, uint32_t lane) {
  return {routes, [&map, lane](NodeId node) {
            return map.server_address(placement::server_in_lane(map, node, lane));
          }};
}

// The fabric of one data server, within its budget.
Status NodeServers::make_side(const placement::Shape& shape, uint16_t index,
                              std::unique_ptr<fabric::Fabric>* side) {
  // What a connection takes is the fabric's to say, and what its buffers may take follows from how
  // many there are.
  fabric::Options options = setup_.fabric;
  SKERRY_TRY(setup_.make_fabric(options, side));
  const uint64_t idle_bytes = (*side)->capabilities().connection_bytes;
  const placement::Plan plan = placement::plan(shape, settings_of(setup_.config), idle_bytes);
  share::Guide way = guide(plan.routes, setup_.map, index);
  const placement::Budget& budget = plan.budget;
  options.socket_buffer_bytes = budget.socket_buffer_bytes;
  if (!way.routes.is_direct()) {  // trunks break, too
    options.faults = setup_.config.faults;
    options.faults_side = static_cast<uint64_t>(setup_.node) + 100 * index;
  }
  if (options.socket_buffer_bytes != 0 || !options.faults.empty())
    SKERRY_TRY(setup_.make_fabric(options, side));
  max_sessions_ = setup_.config.server_max_connections;
  if (way.routes.is_direct()) return {};
  // Sessions are one for each rank of the job that talks to this server: the budget bounds those
  // that are connected.
  if (max_sessions_ == 0) max_sessions_ = budget.sessions;
  return forward(std::move(way), budget, index, side);
}

// Routes lead through other servers: this node's pass on what is not for them.
Status NodeServers::forward(share::Guide way, const placement::Budget& budget, uint16_t index,
                            std::unique_ptr<fabric::Fabric>* side) {
  const Config& config = setup_.config;
  share::Options hub;
  hub.key = setup_.key;
  hub.node = static_cast<uint32_t>(setup_.node);
  hub.index = index;
  hub.guide = std::move(way);
  hub.pool_bytes = budget.pool_bytes;
  hub.max_passing = budget.passing;
  hub.max_trunks = config.node_max_connections;
  hub.victim = config.victim;
  hub.connect_timeout_ns = config.connect_timeout_ns;
  hub.counters = share_counters_.emplace_back(std::make_shared<share::Counters>());
  return share::make_proxy(std::move(*side), std::move(hub), side);
}

Status NodeServers::start(Setup setup, const memory::Broker::Options& broker,
                          const NodeLayout& layout, Bootstrap& bootstrap,
                          std::unique_ptr<NodeServers>* made, std::vector<std::byte>* map_block) {
  std::unique_ptr<NodeServers> servers(new NodeServers(std::move(setup)));
  SKERRY_TRY(memory::Broker::create(broker, &servers->broker_));
  SKERRY_TRY(servers->start_all(layout, bootstrap));
  *made = std::move(servers);
  std::vector<std::vector<std::vector<std::byte>>> addresses;  // by node, then by server
  const auto there = std::span(layout.leaders).first(layout.leaders.size() - layout.late_nodes);
  SKERRY_TRY(bootstrap.get_runs(there, address_key,
                                [&](Rank leader, int, std::span<const std::byte> value) {
                                  return read_addresses(value, leader, &addresses.emplace_back());
                                }));
  // Of those that come later no leader puts the address into a table: all ranks hear of it.
  addresses.resize(layout.leaders.size(),
                   std::vector<std::vector<std::byte>>(layout.late_servers));
  *map_block = placement::build_node_map(layout.rank_node, addresses);
  return {};
}

Status NodeServers::start_all(const NodeLayout& layout, Bootstrap& bootstrap) {
  for (uint16_t i = 0; i < layout.shape.servers; ++i) {
    std::unique_ptr<fabric::Fabric> side;
    SKERRY_TRY(make_side(layout.shape, i, &side));
    const placement::ServerRef self{setup_.node, i};
    servers_.push_back(std::make_unique<server::Server>(
        server::ServerConfig{self, setup_.key, static_cast<int32_t>(layout.rank_node.size()),
                             max_sessions_},
        std::move(side),
        *directories_.emplace_back(std::make_unique<NodeDirectory>(*broker_, setup_.node))));
  }
  // The broker runs on the first one's thread: the others stop using the segment there and then.
  broker_->on_release([this](SegmentId segment) {
    first().forget(segment);
    for (size_t i = 1; i < servers_.size(); ++i)
      servers_[i]->call([&, i] { servers_[i]->forget(segment); });
  });
  SKERRY_TRY(first().watch(broker_->fd(), [this] { broker_->on_readable_owner(); }));
  std::vector<std::byte> addresses;  // for read_addresses
  for (const auto& server : servers_) {
    std::vector<std::byte> address;
    SKERRY_TRY(server->start(&address));
    append_address(address, &addresses);
  }
  SKERRY_TRY(bootstrap.put(address_key, addresses));
  return bootstrap.fence();
}

void NodeServers::open(const memory::Control& control, uint32_t member,
                       const std::function<int32_t(Rank)>& member_of) {
  std::vector<server::Server*> all;
  for (const auto& server : servers_) all.push_back(server.get());
  for (server::Server* server : all)
    server->open({control, member, member_of, &setup_.map, all, &landings_, false,
                  std::bind_front(&LateServers::address_of, &setup_.late)});
}

// A payload on its way is given up with its connection, and comes again on the next one.
void NodeServers::withdraw_landings(SegmentId segment) {
  if (!landings_.withdraw(segment)) return;
  for (const auto& server : servers_) server->call([&] { server->forget(segment); });
}

void NodeServers::pass_on_locks(const std::unordered_set<Rank>& buried) {
  broker_->for_each_owner([&](const memory::LocalSegment& segment) {
    if (segment.purpose() != purpose_mutexes) return;
    for (uint32_t k = 0; k < segment.members(); ++k) {
      const memory::SliceEntry* const entry = segment.entry(k);
      if (entry == nullptr) continue;
      const memory::Region slice = segment.region(*entry);
      auto* const mutexes = reinterpret_cast<lock::Mutex*>(slice.base);
      for (uint64_t i = 0; i < slice.bytes / sizeof(lock::Mutex); ++i)
        first().pass_on(mutexes[i], buried);
    }
  });
}

void NodeServers::stop() {
  for (const auto& server : servers_) server->stop();  // the first one first: it calls the others
  servers_.clear();
  directories_.clear();
}

}  // namespace skerry::job
