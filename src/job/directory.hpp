// What the data servers see of their node's memory: the broker's segments, and the mutexes in them.
// Any of their threads.
#pragma once

#include "memory/broker.hpp"
#include "server/server.hpp"

namespace skerry::job {

class NodeDirectory final : public server::Directory {
 public:
  NodeDirectory(memory::Broker& broker, NodeId node) : broker_(broker), node_(node) {}

  Status find(SegmentId segment, Rank rank, memory::Region* region) override;
  Status find_lock(SegmentId segment, Rank rank, uint64_t index, lock::Mutex** mutex) override;

 private:
  memory::Broker& broker_;
  NodeId node_;  // for error texts
};

}  // namespace skerry::job
