// A fence without a launcher: for the end of a job whose launcher's exchange may have ended before
// Skerry (MPI was finalised). The ranks form a tree: rank r comes to rank (r - 1) / fan_in and is
// let go when all ranks have come. So no rank needs more than fan_in + 2 descriptors, however large
// the job is. No thread: a rank serves its children while it waits itself.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

class Meeting {
 public:
  static constexpr int fan_in = 4;
  static constexpr std::chrono::milliseconds usual_limit{60'000};
  // Under which invitations are exchanged.
  static constexpr std::string_view invitation_key = "skerry/meeting";

  // `limit`: how long one meeting may take.
  explicit Meeting(std::chrono::milliseconds limit = usual_limit) : limit_(limit) {}
  ~Meeting();
  Meeting(const Meeting&) = delete;

  // The rank that `rank` comes to. Rank 0 comes to none.
  static int parent_of(int rank) { return (rank - 1) / fan_in; }

  // First on every rank. With children, opens the port to which they come and makes the invitation
  // that they need; otherwise *invitation stays empty. Errors: network.
  Status open(int rank, int size, std::vector<std::byte>* invitation);
  // Then on every rank but 0: what its parent's open() made. Errors: network (an invitation that
  // makes no sense).
  Status accept_invitation(std::span<const std::byte> invitation);
  bool ready() const { return size_ > 0; }

  // Collective. Blocks (sleeping) until all ranks have come. Errors: network (the parent has gone,
  // some rank did not come within the limit, or this process may open no further file). For a dead
  // rank the launcher ends the job. `limit`: instead of the constructor's.
  Status meet() { return meet(limit_); }
  Status meet(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  using Token = std::array<std::byte, 16>;
  struct Secrets {  // known only to the job: one proves that a child belongs to it, one its parent
    Token child, parent;
  };
  enum class Visit { met, not_there, busy, left };

  int children() const;
  Status gather(std::chrono::milliseconds limit);
  bool accept_all();
  bool recognise(int socket);
  void drop_children();
  Status go_to_parent();
  Visit visit(const std::string& address, std::string* why) const;

  const std::chrono::milliseconds limit_;
  int rank_ = 0;
  int size_ = 0;      // 0: not open
  uint32_t met_ = 0;  // meetings before this one
  Clock::time_point deadline_;

  // This rank as a parent.
  int listener_ = -1;                                // -1: no children
  Secrets secrets_{};                                // made by this rank
  std::array<int, fan_in> present_{-1, -1, -1, -1};  // sockets of the children that have come; -1
  std::vector<int> unauthenticated_;                 // connected, token not seen yet; oldest first

  // Its own parent.
  uint16_t port_ = 0;
  Secrets parents_secrets_{};
  std::vector<std::string> addresses_;  // numeric, loopback last
};

}  // namespace skerry::job
