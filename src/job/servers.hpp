// The data servers of a node, with the broker of its memory: what the leader of a node has beside
// its own rank. Others only learn where those of all nodes are.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/config.hpp"
#include "job/bootstrap/bootstrap.hpp"
#include "job/directory.hpp"
#include "job/late_servers.hpp"
#include "memory/broker.hpp"
#include "placement/node_map.hpp"
#include "placement/plan.hpp"
#include "server/server.hpp"
#include "share/share.hpp"

namespace skerry::job {

// Makes the fabric of one side; tests pass their own.
using FabricMaker = std::function<Status(const fabric::Options&, std::unique_ptr<fabric::Fabric>*)>;

// What leaders know of all nodes from the host cards, before any data server runs.
struct NodeLayout {
  std::vector<NodeId> rank_node;  // of each rank
  std::vector<Rank> leaders;      // of each node: its lowest rank
  size_t late_nodes = 0;          // the last ones, of which nobody may be there yet
  size_t late_servers = 0;        // of each of these
  placement::Shape shape;         // as this node's servers see it
};

class NodeServers {
 public:
  struct Setup {
    const Config& config;
    JobKey key{};
    NodeId node = no_node;
    const placement::NodeMap& map;  // may be filled after the servers have started
    const LateServers& late;        // outlives them
    FabricMaker make_fabric;
    fabric::Options fabric;  // but for what the budget says
  };
  // Starts the broker and the servers, publishes their addresses, and makes the node map with those
  // of all nodes. Fences in between.
  static Status start(Setup setup, const memory::Broker::Options& broker, const NodeLayout& layout,
                      Bootstrap& bootstrap, std::unique_ptr<NodeServers>* made,
                      std::vector<std::byte>* map_block);
  ~NodeServers() { stop(); }

  void open(const memory::Control& control, uint32_t member,
            const std::function<int32_t(Rank)>& member_of);
  void stop();
  // On the first server's thread: the mutexes of those that all servers have buried go on.
  void pass_on_locks(const std::unordered_set<Rank>& buried);

  const memory::Broker& broker() const { return *broker_; }
  server::Landings& landings() { return landings_; }
  // Nothing that was announced for this segment is written to any more.
  void withdraw_landings(SegmentId segment);
  server::Server& first() { return *servers_.front(); }  // it also runs the broker
  const std::vector<std::unique_ptr<server::Server>>& all() const { return servers_; }
  // Of each of them; none unless they forward.
  const std::vector<std::shared_ptr<share::Counters>>& share_counters() const {
    return share_counters_;
  }

 private:
  explicit NodeServers(Setup setup) : setup_(std::move(setup)) {}
  Status start_all(const NodeLayout& layout, Bootstrap& bootstrap);
  Status make_side(const placement::Shape& shape, uint16_t index,
                   std::unique_ptr<fabric::Fabric>* side);
  Status forward(share::Guide way, const placement::Budget& budget, uint16_t index,
                 std::unique_ptr<fabric::Fabric>* side);

  const Setup setup_;
  uint32_t max_sessions_ = 0;  // of each of them; 0: no limit
  server::Landings landings_;
  std::unique_ptr<memory::Broker> broker_;
  std::vector<std::unique_ptr<NodeDirectory>> directories_;  // one for each server
  std::vector<std::unique_ptr<server::Server>> servers_;
  std::vector<std::shared_ptr<share::Counters>> share_counters_;
};

// What a late leader has put for its servers; other news is let pass.
void hear_late(const News::LatePut& put, const placement::NodeMap& map, LateServers* servers);

placement::Settings settings_of(const Config& config);
// `lane`: of the rank, or of the server, which is its index. `map` is read when routes are asked.
share::Guide guide(const placement::Routes& routes, const placement::NodeMap& map, uint32_t lane);

}  // namespace skerry::job
