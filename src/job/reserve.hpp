// What a group keeps of its freed segments, so that most allocations need neither the node's broker
// nor new pages. A request to the broker costs a wake-up of a thread that shares the processors
// with ranks which compute. A page costs its zeroing and a fault in each process.
//
// Which segments are kept, and which one serves next, follows from what all members know: the sizes
// that were asked for, in the order of the group's collective calls. So every member has the same
// list and takes the same one of it, without asking. Whether the *pages* of a slice are still there
// is its owner's own affair (memory::SlicePages). The owner gives them back if it keeps too many,
// the broker if anybody on the machine needs them. The owner takes new ones before the next use.
//
// Decided in docs/design/0048-reserve.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

class Group;
class Job;
class Objects;
class Segment;

// Bounds the bytes of pages that a rank keeps in the reserves of all its groups. What the broker
// gave back is found missing when it is counted again. Any threads.
class KeptPages {
 public:
  explicit KeptPages(Objects& objects) : objects_(objects) {}
  void limit(uint64_t bytes) { limit_bytes_ = bytes; }
  // False: it would be too many.
  bool add(uint64_t bytes);
  void remove(uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  Objects& objects_;
  uint64_t limit_bytes_ = 0;
  // No less than is kept; more where the broker gave some back. A count that is made while another
  // thread adds or removes may be off by that until the next.
  std::atomic<uint64_t> bytes_{0};
};

class Reserve {
 public:
  explicit Reserve(Job& job);
  ~Reserve();
  Reserve(Reserve&&) noexcept;

  // How far apart the slices of a node lie if the largest has `bytes`. Segments of about the same
  // size fit the same memory. 0: each lies behind the one before, for one segment alone.
  static uint64_t room_for(uint64_t bytes, int32_t members);

  // All as all members do it, in the order of the group's collective calls.
  // Of those with this room: the one kept last, which stays here; null: none.
  Segment* find(uint64_t room) const;
  std::unique_ptr<Segment> take(Segment* segment);
  // The one kept first goes if there are too many.
  void keep(std::unique_ptr<Segment> segment);
  void clear();
  // The group has moved to where it stays.
  void set_group(Group& group) const;
  // Of this rank's pages. With the mutex of the job's objects held.
  uint64_t kept_bytes() const;

 private:
  Job* job_;
  static constexpr size_t most_kept = 128;
  // The one kept first comes first. Changed with the mutex of the job's objects held.
  std::vector<std::unique_ptr<Segment>> kept_;
};

}  // namespace skerry::job
