// SKERRY_NODES beside jobs of a part of the processes, for libraries that start them.
#pragma once

#include <cstdlib>
#include <string>

namespace skerry::compat {

// SKERRY_NODES is meant for all processes that the user started. Where a job of a part of them has
// fewer ranks than that, each is a node. The environment is as before when this is destroyed.
class NodesOfPart {
 public:
  // `size` of the `all` processes. More nodes than those are a mistake, which the start of the job
  // says.
  NodesOfPart(int size, int all) {
    const char* const nodes = std::getenv("SKERRY_NODES");
    if (nodes == nullptr || std::atoi(nodes) <= size || std::atoi(nodes) > all) return;
    was_ = nodes;
    setenv("SKERRY_NODES", std::to_string(size).c_str(), 1);
  }
  ~NodesOfPart() {
    if (!was_.empty()) setenv("SKERRY_NODES", was_.c_str(), 1);
  }
  NodesOfPart(const NodesOfPart&) = delete;

 private:
  std::string was_;  // empty: left as it was
};

}  // namespace skerry::compat
