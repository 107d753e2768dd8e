// What the data server sees of its node's memory: the broker's segments, and the mutexes in them.
// Server's thread only.
#pragma once

#include "memory/broker.hpp"
#include "memory/control.hpp"
#include "placement/node_map.hpp"
#include "server/server.hpp"

namespace skerry::job {

class NodeDirectory final : public server::Directory {
 public:
  explicit NodeDirectory(memory::Broker& broker) : broker_(broker) {}
  // Before the first request arrives.
  void open(const memory::Control& control, uint32_t member_index, const placement::NodeMap& map,
            NodeId node, server::Server& server);

  Status find(SegmentId segment, Rank rank, memory::Region* region) override;
  Status lock(SegmentId segment, Rank rank, uint64_t index, Rank origin, uint32_t slot,
              uint32_t tag, uint64_t holder, server::LockOutcome* outcome) override;
  Status holds(SegmentId segment, Rank rank, uint64_t index, uint64_t holder,
               bool* granted) override;
  Status unlock(SegmentId segment, Rank rank, uint64_t index, Rank origin, uint64_t holder,
                server::LockOutcome* outcome) override;

 private:
  memory::Broker& broker_;
  memory::Control control_;
  uint32_t member_index_ = 0;
  const placement::NodeMap* map_ = nullptr;
  NodeId node_ = no_node;
  server::Server* server_ = nullptr;
};

}  // namespace skerry::job
