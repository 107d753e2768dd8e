// NodeMemory: how the processes of a node come to map the same memory. A memfd per segment, made by
// the node's *broker* and passed over a UNIX socket; descriptors are closed after mapping, so open
// files grow neither with allocations nor with processes.
//
// Members in the broker's process (ranks as threads in tests; the leader and its data server) get
// the broker's own mapping. So one byte has one address, which ThreadSanitizer needs, and page
// tables exist only once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::memory {

constexpr uint64_t huge_page_bytes = uint64_t{2} << 20;

// Where a node's broker listens: a name in the abstract socket namespace (nothing to clean up) and
// a secret that requests must carry.
struct BrokerAddress {
  std::string name;  // without the leading zero byte
  std::array<std::byte, 16> token{};
};

struct AttachRequest {
  SegmentId id;
  uint64_t total_bytes = 0;  // of the whole on this node; a multiple of 4096, not 0; equal on all
                             // members
  uint32_t members = 0;      // local processes that will attach; equal on all members
  // The caller's own part, multiples of 4096: its pages are given back by the caller. Empty is
  // fine.
  uint64_t own_offset = 0;
  uint64_t own_bytes = 0;
  // Of its first bytes the pages are reserved now (and so placed and charged), all others each when
  // it is touched. A multiple of 4096; UINT64_MAX: of all.
  uint64_t reserved_bytes = UINT64_MAX;
  // Where all processes should map it; 0: anywhere. A process where something else is there maps
  // it elsewhere. A multiple of huge_page_bytes if the segment is that large, otherwise of 4096.
  uint64_t address = 0;
  // Others may still read the own part when this member detaches: its pages go with the last one.
  bool others_read_on = false;
};

class NodeMemory {
 public:
  virtual ~NodeMemory() = default;
  // The first member to call creates the memory, zeroed; all map it. Blocks until the broker
  // answers (its thread must be running), at most timeout_ns (negative: no limit), or until the
  // abort flag is set. On failure nothing stays attached. Errors: no_memory, peer_dead (broker gone
  // or job ending), timeout, invalid (members disagree, or attached already).
  virtual Status attach(const AttachRequest& request, int64_t timeout_ns, std::byte** base) = 0;
  // Unmaps; the last member to leave releases the memory. Call after a barrier that says no rank
  // uses it any more (unless others_read_on). When the last member's call returns, the broker has
  // discarded the id. Errors: freed (not attached), peer_dead.
  virtual Status detach(SegmentId id) = 0;
  // Reserves the pages of [offset, offset + bytes) of the own part of a segment, multiples of 4096,
  // none of which exist. On failure none do. Errors: no_memory, peer_dead (job ending).
  virtual Status reserve(std::byte* base, uint64_t offset, uint64_t bytes) = 0;
  // The opposite: what they held is zero from here on. Not what is held (hold).
  virtual void give_back(std::byte* base, uint64_t offset, uint64_t bytes) = 0;
  // Asks the broker to give back all pages that members of the node keep for their next segments
  // (LocalSegment::keep_pages). It asks the brokers of the job's other nodes on this machine too:
  // `others` are their addresses, and one that is not there is left out. Errors: as attach, of the
  // own broker.
  virtual Status give_back_kept(std::span<const BrokerAddress> others) = 0;
  // From now on waits end when *abort is not 0 (usually the control segment's flag, itself attached
  // through this object). Null: no flag.
  virtual void watch_abort(const std::atomic<uint32_t>* abort) = 0;
};

// A program's view of a segment's memory may outlive the segment. While the memory around `address`
// is held, its mapping stays, and the pages of this process keep their contents, though the segment
// is detached and the job gone. Any thread. False: no segment is mapped there.
bool hold(const void* address);
void unhold(const void* address);
bool is_held(const void* address);

// huge_pages: try to back slices of 2 MiB and more by huge pages.
std::unique_ptr<NodeMemory> make_node_memory(const BrokerAddress& broker, bool huge_pages);

}  // namespace skerry::memory
