// What a group keeps for the windows made in it, so that most of them are made without asking the
// node's broker for memory: each request costs a wake-up of a thread that shares the processors
// with ranks which compute.
//
//   desks  locks and signals for several windows at a time; at most one without windows stays
//   data   segments of freed windows, for the next windows of the same shape
//
// All calls are collective or depend on what all members know: every member has the same reserve
// and takes the same piece of it.
#pragma once

#include <cstdint>
#include <vector>

#include "job/group.hpp"
#include "job/mutexes.hpp"
#include "job/segment.hpp"
#include "window/target.hpp"

namespace skerry::window {

// Gives back a segment that nobody accesses any more, as all members know.
void close_segment(job::Segment* segment);

// One lock for each member, and each member's signals: one place of a desk.
struct Desk {
  job::Mutexes* locks = nullptr;
  job::Segment* signals = nullptr;
  uint32_t place = 0;       // index of the lock
  uint64_t signals_at = 0;  // offset in the members' slices
};

class Reserve final : public job::Group::Kept {
 public:
  static Reserve& of(job::Group& group);

  // A free place that there is already, its signals cleared; the caller's next collective makes it
  // usable. False: there is none.
  bool take_desk(Desk* desk);
  // Collective: more places, and one of them. Its segments are mapped by all on return.
  Status make_desk(Desk* desk);
  // After a collective behind the last use.
  void give_back(const Desk& desk);

  // Null: there is none. It stays here, or is the caller's.
  job::Segment* find_data(Flavor flavor, const PerMember& bytes) const;
  job::Segment* take_data(Flavor flavor, const PerMember& bytes);
  // Segments of this kind whose memory a view of a freed window still holds, one bit each. Before
  // the members compare what they have; all give up the same, with the bits of all.
  uint16_t held(Flavor flavor);
  void give_up_held(Flavor flavor, uint16_t held);
  // After a collective behind the last use. False: it is not kept.
  bool keep_data(Flavor flavor, const PerMember& bytes, job::Segment* segment, bool is_zero);

  explicit Reserve(job::Group& group);
  void group_freed() override;

 private:
  struct Shared {
    job::Mutexes* locks = nullptr;
    job::Segment* signals = nullptr;
    uint32_t taken = 0;  // bit: place
  };
  struct Data {
    Flavor flavor;
    PerMember bytes;
    job::Segment* segment;
    bool is_zero;  // the own slice, as the next window needs it
  };
  Desk desk_at(Shared& shared, uint32_t place) const;
  void close(Shared& shared);

  job::Group* group_;
  uint64_t place_bytes_;  // of one window's signals
  uint32_t places_;       // of a desk
  std::vector<Shared> desks_;
  std::vector<Data> data_;
};

}  // namespace skerry::window
