// The completion slots of this rank, and what to do with the answer that comes for each.
//
//   take -> arm -> (the request is sent) -> complete: the answer is stored, the slot free again
//                                        -> abandon:  its server cannot be reached
//
// A slot lies in the node's control segment, where the node's data server may fill it too. The
// answer names the slot and its use (tag): one that is late, or comes twice, finds another tag.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/slots.hpp"
#include "origin/context.hpp"
#include "origin/description.hpp"
#include "origin/link/link.hpp"
#include "origin/link/op.hpp"

namespace skerry::origin {

// What to do with the answer for a slot.
struct Pending {
  Op* op = nullptr;  // null: the slot is not armed
  Link* link = nullptr;
  uint64_t number = 0;          // of the request; 0: not sent yet
  std::byte* direct = nullptr;  // contiguous origin: the data goes here ...
  uint64_t bytes = 0;
  uint64_t fetching_bytes = 0;           // fetching update: counted in Link::answers
  std::optional<memory::Cursor> cursor;  // ... otherwise it is unpacked here, relative to `base`
  std::byte* base = nullptr;
  std::shared_ptr<const std::vector<Piece>> pieces;  // what the cursor walks, if it walks pieces
  uint64_t* result = nullptr;  // read-modify-write: where the old value goes; null: nowhere
  Extent from;  // get: what it reads. A long one is sent from where it lies while the server
                // applies what follows, and any is read anew after a break
  std::unique_ptr<std::vector<std::byte>>
      lock_request;  // lock: encoded, to ask again whether it was granted. Null: no lock
};

class Slots {
 public:
  // Locks may wait for ever: the last slots are for requests that are always answered, among them
  // what the mutex's holder does.
  enum class Wait : uint8_t { answered, for_ever };

  explicit Slots(EngineContext& context);

  bool has(Wait wait) const { return free_.size() > (wait == Wait::for_ever ? kept : 0); }
  // False: none is free for this kind of wait.
  bool take(uint32_t* index, Wait wait = Wait::answered);
  // One that was taken and not armed.
  void give_back(uint32_t index);
  // The slot that came free last is one that another thread may be waiting for.
  bool may_be_awaited() const { return free_.size() == 1 || free_.size() == kept + 1; }

  // The slot waits for the answer to the request that is being built; the caller fills in the rest.
  void arm(uint32_t index, Op* op, Link& link, bool is_implicit);
  // The request went out (or is queued) with this number.
  void sent(uint32_t index, uint64_t number) { pending_[index].number = number; }
  void is_get(uint32_t index, const Extent& from);
  void is_fetch(uint32_t index, uint64_t bytes);
  void is_lock(uint32_t index, fabric::Bytes request);
  // It would block: nothing was sent, the slot is free again.
  void disarm(uint32_t index) { release(index); }

  // The armed slot that this answer is for; null: the use it names is over (late, or a duplicate).
  // Errors: internal (there is no such slot).
  Status find(uint32_t slot, uint32_t tag, Pending** pending);
  uint32_t index_of(const Pending& pending) const {
    return static_cast<uint32_t>(&pending - pending_.data());
  }
  // Stores the answer and frees the slot. `placed`: the data is where it belongs already.
  void complete(uint32_t index, int code, fabric::Bytes payload, bool placed, uint64_t result);
  // Frees all slots that wait for this link, their operations failed with `why`.
  void abandon(const Link& link, const Status& why);

  Pending& pending(uint32_t index) { return pending_[index]; }
  memory::CompletionSlot& shared(uint32_t index) const;
  uint32_t count() const { return static_cast<uint32_t>(pending_.size()); }
  uint64_t in_use() const { return pending_.size() - free_.size(); }
  // Locks whose request the server has taken: they wait for somebody's unlock, not for the network.
  uint32_t parked_locks(const Link& link) const;
  // A get that was issued earlier still reads these bytes: a write to them must not be sent yet, or
  // that get might see it.
  bool is_being_read(const Link& link, const Extent& extent) const;
  uint64_t memory_bytes() const;

 private:
  static constexpr size_t kept = 8;

  void release(uint32_t index);

  EngineContext& context_;
  std::vector<Pending> pending_;  // one per slot of this rank
  std::vector<uint32_t> free_;
};

}  // namespace skerry::origin
