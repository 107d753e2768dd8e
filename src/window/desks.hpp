// Locks and signals for the windows of a group, several at a time, so that a window is made by one
// exchange of its members. At most one desk without windows stays.
//
// All calls are collective or depend on what all members know: every member has the same desks and
// takes the same place.
#pragma once

#include <cstdint>
#include <vector>

#include "job/group.hpp"
#include "job/mutexes.hpp"
#include "job/segment.hpp"

namespace skerry::window {

// Gives back a segment that nobody accesses any more, as all members know. `keeps`: the group may
// keep its memory.
void close_segment(job::Segment* segment, bool keeps = true);

// One lock for each member, and each member's signals: one place of a desk.
struct Desk {
  job::Mutexes* locks = nullptr;
  job::Segment* signals = nullptr;
  uint32_t place = 0;       // index of the lock
  uint64_t signals_at = 0;  // offset in the members' slices
};

class Desks final : public job::Group::Kept {
 public:
  static Desks& of(job::Group& group);

  // A free place that there is already, its signals cleared; the caller's next collective makes it
  // usable. False: there is none.
  bool take(Desk* desk);
  // Collective: more places, and one of them. Its segments are mapped by all on return.
  Status make(Desk* desk);
  // After a collective behind the last use.
  void give_back(const Desk& desk);

  explicit Desks(job::Group& group);
  void group_freed() override;

 private:
  struct Shared {
    job::Mutexes* locks = nullptr;
    job::Segment* signals = nullptr;
    uint32_t taken = 0;  // bit: place
  };
  Desk desk_at(Shared& shared, uint32_t place) const;
  void close(Shared& shared);

  job::Group* group_;
  uint64_t place_bytes_;  // of one window's signals
  uint32_t places_;       // of a desk
  std::vector<Shared> desks_;
};

}  // namespace skerry::window
