// The first members of the nodes of a group that lies on several: a node has its first member's
// *place*.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pure/ids.hpp"

namespace skerry::job {

struct Leaders {
  std::vector<Rank> at;           // by place
  std::vector<int32_t> place_of;  // by node; -1: it has no members
};

}  // namespace skerry::job
