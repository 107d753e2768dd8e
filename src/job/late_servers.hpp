// Where data servers of late hosts listen (Bootstrap::late): the node's table lacks them. What such
// a host puts is news to all ranks. It comes before the news of a meeting with its ranks: all that
// have a reason to connect know where. A server that learns it later tries until then.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/thread.hpp"
#include "placement/node_map.hpp"

namespace skerry::job {

// Any thread: one hears of addresses, others connect. What has been found stays where it is, for
// nothing is ever taken out.
class LateServers {
 public:
  // By index on the node. What is said again changes nothing.
  void add(NodeId node, std::vector<std::vector<std::byte>> addresses) {
    const Lock lock(mutex_);
    by_node_.try_emplace(node, std::move(addresses));
  }
  // Empty: not known yet, or there is no such server.
  std::span<const std::byte> address_of(placement::ServerRef server) const {
    const Lock lock(mutex_);
    const auto found = by_node_.find(server.node);
    if (found == by_node_.end() || server.index >= found->second.size()) return {};
    return found->second[server.index];
  }

 private:
  mutable Mutex mutex_;  // guards by_node_
  std::map<NodeId, std::vector<std::vector<std::byte>>> by_node_;
};

}  // namespace skerry::job
