// What an agent is to start on its host. Sent as the frame `plan`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::launcher {

enum class Input : uint8_t {
  none,
  inherit,
  piped
};  // rank 0's standard input: /dev/null, the agent's own, or `input` frames
enum class Bind : uint8_t {
  none,
  core
};  // core: rank i of the host on the i-th core that the agent may use

struct PlannedRank {
  uint32_t rank;
  uint32_t node;
};

struct Plan {
  uint32_t size = 0;   // ranks of the whole job
  uint32_t nodes = 0;  // nodes of the whole job
  Input input = Input::none;
  Bind bind = Bind::none;
  std::string directory;                 // to run in; empty: the agent's
  std::vector<std::string> command;      // program and arguments, at least one
  std::vector<std::string> environment;  // "NAME=VALUE", over the agent's own
  std::vector<PlannedRank> ranks;        // this host's
};

std::vector<std::byte> encode(const Plan& plan);
// Errors: network (a plan that makes no sense).
Status decode(const job::Frame& frame, Plan* plan);

}  // namespace skerry::launcher
