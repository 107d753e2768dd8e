// What one data server sees of its node's memory: the broker's segments, and the mutexes in them.
// Its server's thread only: each data server of a node has one.
#pragma once

#include <array>

#include "memory/broker.hpp"
#include "server/server.hpp"

namespace skerry::job {

class NodeDirectory final : public server::Directory {
 public:
  NodeDirectory(const memory::Broker& broker, NodeId node) : broker_(broker), node_(node) {}
  Status find(SegmentId segment, Rank rank, memory::Region* region) override;
  Status find_lock(SegmentId segment, Rank rank, uint64_t index, lock::Mutex** mutex) override;

 private:
  memory::LocalSegment look_up(SegmentId segment);
  Status find_in(const memory::LocalSegment& local, SegmentId segment, Rank rank,
                 memory::Region* region) const;

  const memory::Broker& broker_;
  NodeId node_;
  // What the broker found lately, so that a request takes no mutex that other servers take.
  std::array<memory::LocalSegment, 8> found_;  // by hash of their ids; none: not asked for yet
  uint64_t releases_ = 0;                      // the broker's, when found_ was empty
};

}  // namespace skerry::job
