// The simulated machine room: nodes with their memory and data server, ranks with their engine. The
// servers, engines and shared connections are the product's; what is here is what src/job does
// around them, with heap memory in place of shared segments.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "memory/control.hpp"
#include "memory/stripes.hpp"
#include "origin/engine/engine.hpp"
#include "placement/node_map.hpp"
#include "lock/host/wait.hpp"
#include "server/server.hpp"
#include "share/share.hpp"
#include "sim/storm/checker.hpp"

namespace skerry::sim {

constexpr SegmentId data_segment{0, 2};
constexpr SegmentId mutex_segment{0, 3};

class Node final : public server::Directory {
 public:
  Node(NodeId id, const StormConfig& config, const Layout& layout);

  // On a fiber of the process that hosts the server.
  Status start(std::shared_ptr<SimulatedNetwork> network, const connection::JobKey& key);
  void open(std::span<const std::byte> map_block);
  void stop() {
    for (const auto& server : servers_) server->stop();  // they call each other
    servers_.clear();
  }
  // Its process died.
  void die();

  NodeId id() const { return id_; }
  // Of its servers.
  const std::vector<std::vector<std::byte>>& addresses() const { return addresses_; }
  const placement::NodeMap& map() const { return map_; }
  // The way of a rank or server of this lane to other servers; once open.
  share::Guide guide(uint32_t lane) const;
  const memory::Control& control() const { return control_; }
  const memory::Stripes& stripes(uint32_t member) const { return stripes_[member]; }
  const std::vector<std::unique_ptr<server::Server>>& servers() const { return servers_; }
  // Of each server; empty: routes are direct.
  const std::vector<std::shared_ptr<share::Counters>>& proxies() const { return proxies_; }
  memory::Region region(Rank rank) const;
  lock::Mutex& mutex(Rank rank, uint64_t index) const;
  uint32_t member_of(Rank rank) const { return static_cast<uint32_t>(rank) % members_; }
  // As a rank of this node asks for locks.
  lock::LockCaller caller_of(uint32_t member) const { return {control_, member, map_, id_}; }

  // server::Directory
  Status find(SegmentId segment, Rank rank, memory::Region* region) override;
  Status find_lock(SegmentId segment, Rank rank, uint64_t index, lock::Mutex** mutex) override;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(uint64_t bytes);
  Status start_server(uint16_t index, std::shared_ptr<SimulatedNetwork> network,
                      const connection::JobKey& key);

  const NodeId id_;
  const StormConfig& config_;
  const Layout& layout_;
  const uint32_t members_;
  Memory control_memory_;
  std::vector<Memory> slices_, mutexes_;
  memory::Control control_;
  std::vector<memory::Stripes> stripes_;
  placement::NodeMap map_;
  std::vector<SimulatedFabric*> fabrics_;  // of each server
  std::vector<std::shared_ptr<share::Counters>> proxies_;
  std::vector<std::unique_ptr<server::Server>> servers_;
  std::vector<std::vector<std::byte>> addresses_;
};

// A rank: what src/job keeps of one, and its operations, which go to the engine or, on its own
// node, to memory.
class RankProcess {
 public:
  RankProcess(Rank rank, const StormConfig& config, Node& node);

  void start(std::shared_ptr<SimulatedNetwork> network, const connection::JobKey& key);
  Status finish();  // closes all connections
  void stop();      // ends the helper, lets the engine go
  void die();
  void check(Checker& checker);  // its connections are within their limit
  Status limit(uint32_t connections);
  // The next lock of its node that it hands over to a neighbour, it does not tell of: it calls
  // `dies` in place of that, which does not return.
  void die_before_telling(std::function<void()> dies) { dies_ = std::move(dies); }

  Rank rank() const { return rank_; }
  Node& node() { return node_; }
  origin::Engine& engine() { return *engine_; }
  bool is_local(Rank target) const { return node_.map().node_of(target) == node_.id(); }
  const memory::Stripes& stripes() const { return node_.stripes(member_); }

  Status put(Rank target, const origin::Side& to, const origin::Side& from,
             const origin::Notify* notify, origin::Mode mode, origin::Handle* handle);
  Status get(Rank target, const origin::Side& from, const origin::Side& to,
             origin::Mode mode, origin::Handle* handle);
  Status accumulate(Rank target, const origin::Side& to, const origin::Side& from,
                    const origin::Accumulate& what, origin::Mode mode,
                    origin::Handle* handle);
  Status fetch_update(Rank target, const origin::Side& to, const origin::Side& from,
                      const origin::Side& result, const origin::Accumulate& what,
                      origin::Mode mode, origin::Handle* handle);
  Status read_modify_write(Rank target, uint64_t offset, wire::Rmw op, uint64_t operand,
                           uint64_t expected, uint64_t* old);
  Status lock(Rank target, uint64_t index, uint64_t holder);
  // *told: the holder before died.
  Status lock_or_inherit(Rank target, uint64_t index, uint64_t holder, bool* told);
  Status unlock(Rank target, uint64_t index, uint64_t holder);
  Status fence(NodeId node) { return engine_->fence_node(node); }
  // Sleeps until thread `from` of the job has notified this rank `count` times.
  Status wait_counter(uint64_t counter_offset, uint64_t count);

 private:
  Status lock_here(lock::Mutex& mutex, uint64_t holder);
  Status ended() const;

  const Rank rank_;
  const StormConfig& config_;
  Node& node_;
  const uint32_t member_;
  SimulatedFabric* fabric_ = nullptr;
  uint32_t allowed_ = 0;  // connections; 0: no limit
  std::function<void()> dies_;  // null: it does not
  std::unique_ptr<origin::Engine> engine_;
};

}  // namespace skerry::sim
