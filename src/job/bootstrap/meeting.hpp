// A fence without a launcher: for the end of a job whose launcher's exchange may have ended before
// Skerry (MPI was finalised). Rank 0 listens; the others come, and are let go when all have come.
// No thread: rank 0 serves while it waits itself.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

class Meeting {
 public:
  Meeting() = default;
  ~Meeting();
  Meeting(const Meeting&) = delete;

  // On rank 0: opens the port and makes the invitation that the others need. Errors: network.
  Status open(int size, std::vector<std::byte>* invitation);
  // On every other rank. Errors: network (an invitation that makes no sense).
  Status accept_invitation(int rank, std::span<const std::byte> invitation);
  bool ready() const { return size_ > 0 || rank_ > 0; }

  // Collective. Blocks until all have come. Errors: network (rank 0 has gone, or somebody did not
  // come within a minute: a dead rank is the launcher's to end the job for).
  Status meet();

 private:
  struct Visitor;
  Status host_meeting();
  Status visit(const std::string& address);

  using Token = std::array<std::byte, 16>;
  int size_ = 0;       // on rank 0; 0: not open
  int rank_ = 0;       // on the others; 0: not invited
  int listener_ = -1;  // on rank 0
  uint16_t port_ = 0;
  Token visitor_token_{};  // known only to the job: proves that a visitor belongs to it...
  Token host_token_{};     // ...and that the host does
  std::vector<std::string> addresses_;  // numeric, loopback last
  uint32_t number_ = 0;                 // meetings so far
  std::map<uint32_t, std::vector<int>>
      waiting_;  // on rank 0: by meeting, the sockets of recognised visitors
};

}  // namespace skerry::job
