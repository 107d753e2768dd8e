// Layout of a node's part of a segment: one header page or more, then the local members' slices,
// each on its own pages.
//
//   | SegmentHeader | SliceEntry[members] | pad to 4096 | slice 0 | pad | slice 1 | pad | ...
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "memory/apply.hpp"
#include "memory/control.hpp"

namespace skerry::memory {

// Who may do what with the pages of a slice.
enum class SlicePages : uint32_t {
  used = 0,     // the owner alone: a segment is there, or comes
  kept = 1,     // no segment is there. The owner makes them used, the broker leaving
  leaving = 2,  // the broker alone: it gives them back to the system
  gone = 3,     // there are none. The owner makes them used, and takes new ones
};

struct SliceEntry {
  std::atomic<uint32_t> published;  // owner: 1 when the rest is valid; 0 also between two segments
  int32_t rank;                     // owner: job rank
  uint64_t offset;                  // owner: of the slice from the segment's base
  uint64_t bytes;                   // owner: of the slice; may be 0
  uint64_t owner_address;           // owner: where it maps the slice itself; 0 if it has no bytes
  std::atomic<uint32_t> pages;      // owner and broker: SlicePages, which says who
  uint32_t reserved;
  uint64_t kept_bytes;  // owner, before pages become kept: of them, from the slice's offset
};
static_assert(sizeof(SliceEntry) == 48);

struct SegmentHeader {
  std::atomic<uint32_t> members;  // every member, the same value: entries that follow
  std::atomic<uint32_t> purpose;  // every member, the same value: 0 memory; otherwise its owner's
                                  // meaning (job: mutexes)
  std::atomic<uint64_t> id;       // every member, the same value: SegmentId::packed of the segment
                                  // that is here now; 0: none
  SliceEntry slices[1];           // `members` of them, ascending by rank
};

// Where the first slice lies in a segment of so many local members.
constexpr uint64_t first_slice_offset(uint32_t members) {
  return round_up(offsetof(SegmentHeader, slices) + uint64_t{members} * sizeof(SliceEntry),
                  page_bytes);
}

struct SegmentPlan {
  std::vector<uint64_t> offsets;  // of each local member's slice
  uint64_t total_bytes = 0;
};
// `slice_bytes`: of the local members, ascending by rank. False: the sum does not fit into 62 bits.
[[nodiscard]] bool plan_segment(std::span<const uint64_t> slice_bytes, SegmentPlan* plan);

// A view on a mapped segment; owns nothing. Null base: none.
class LocalSegment {
 public:
  LocalSegment() = default;
  LocalSegment(std::byte* base, SegmentId id) : base_(base), id_(id) {}

  explicit operator bool() const { return base_ != nullptr; }
  SegmentId id() const { return id_; }
  std::byte* base() const { return base_; }
  uint32_t members() const { return header().members.load(std::memory_order_acquire); }

  // Member `index` of `members` describes its own slice, right after attaching, or when the memory
  // serves the next segment. Others may ask for it after a barrier.
  void publish(uint32_t index, uint32_t members, Rank rank, uint64_t offset, uint64_t bytes) const;
  // The opposite: no segment is here any more, or not yet.
  void withdraw(uint32_t index) const;
  // The memory holds the segment of this view, not an earlier or later one.
  bool is_here() const { return header().id.load(std::memory_order_acquire) == id_.packed(); }

  // ---- pages between two segments (SlicePages) ----
  // Owner, after withdraw: `bytes` of its slice are kept until its next segment, or until the
  // broker needs them; 0: there are none.
  void keep_pages(uint32_t index, uint64_t bytes) const;
  // Owner, before publish: how many bytes of pages are still there, now its own again. Waits while
  // the broker gives them back. Errors: peer_dead (*abort is set).
  Status take_pages(uint32_t index, const std::atomic<uint32_t>* abort, uint64_t* bytes) const;
  // Of pages that are kept; 0: none are.
  uint64_t kept_bytes(uint32_t index) const {
    const SliceEntry& slice = header().slices[index];
    const bool are_kept = slice.pages.load(std::memory_order_acquire) ==
                          static_cast<uint32_t>(SlicePages::kept);
    return are_kept ? slice.kept_bytes : 0;
  }
  // Broker: gives back what any member keeps, by discard_or_clear of mapping.hpp, which this file
  // cannot name: a simulated node has no broker, and no such pages. Returns the bytes.
  using Discard = void (*)(std::byte* base, uint64_t offset, uint64_t bytes);
  uint64_t give_back_pages(Discard discard) const;

  void set_purpose(uint32_t purpose) const {
    header().purpose.store(purpose, std::memory_order_release);
  }
  uint32_t purpose() const { return header().purpose.load(std::memory_order_acquire); }

  // The slice of a local member; false if `rank` is none or has not published.
  bool find(Rank rank, Region* region) const;
  // By position (ascending rank). Null if out of range or not published.
  const SliceEntry* entry(uint32_t index) const;
  Region region(const SliceEntry& entry) const;

 private:
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }

  std::byte* base_ = nullptr;
  SegmentId id_{};
};

}  // namespace skerry::memory
