// What a window keeps of its members: sizes of all of them, and of those accessed the epoch and the
// lock.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lock/mutex.hpp"
#include "memory/apply.hpp"
#include "operation/description.hpp"
#include "window/machine_locks.hpp"

namespace skerry::window {

// How this rank may access a member now.
enum class Hold : uint8_t {
  none,
  wanted,  // in a lock epoch whose lock was not needed yet: only of members on other nodes, or of
           // lock_all
  busy,    // a thread takes or gives back its lock right now, and the others wait for that: at
           // thread level multiple alone
  held,    // its lock is held
  free,    // without a lock: promised not to be needed, or an epoch of start
};

// The first access of an epoch whose lock is not taken yet: the end of the epoch may send both in
// one message.
struct Deferred {
  operation::Access access;
  std::vector<std::byte> data;  // a copy of what it reads at the origin

  explicit Deferred(const operation::Access& as) : access(as) {
    // What has no copy stays the program's until it is done.
    access.mode = as.returns_data() ? operation::Mode::implicit : operation::Mode::blocking;
    if (!as.carries_data()) return;
    data.assign(as.local.base, as.local.base + as.local.bytes);
    access.local.base = data.data();
  }
  Deferred(const Deferred&) = delete;
};

struct Target {
  Rank rank = no_rank;
  NodeId node = no_node;
  Hold hold = Hold::none;
  bool own_epoch = false;  // of lock; otherwise it belongs to lock_all, start or fence
  bool shared = false;     // the lock is, or will be
  uint64_t unit = 1;
  uint64_t bytes = 0;
  const memory::Region* region = nullptr;  // on this node: its memory; null: elsewhere
  memory::Region given;                    // what `region` points to if the program gave it
  // Of given memory on this node, bytes [moved_from, moved.bytes) lie in shared memory: offsets are
  // those of `region`. No bytes: none do.
  memory::Region moved;
  uint64_t moved_from = 0;
  // Of this node: offsets [plain_from, plain->bytes) are reached by loads and stores alone. Null:
  // none are.
  const memory::Region* plain = nullptr;
  uint64_t plain_from = 0;
  const memory::Region& region_of(uint64_t offset, uint64_t count) const {
    const bool inside = offset >= moved_from && offset < moved.bytes &&
                        count <= moved.bytes - offset;
    return inside ? moved : *region;
  }
  lock::Mutex* mutex = nullptr;          // on this node: its lock; null: elsewhere, or a machine
  std::unique_ptr<MachineLock> machine;  // its lock if it is a machine protocol's; null: it is not
  // Null: none. Only while `hold` is wanted, in an epoch of lock, at a member elsewhere.
  std::unique_ptr<Deferred> deferred;
  bool has_deferred_answer() const {
    return deferred != nullptr && deferred->access.returns_data();
  }
};

// One number of each member of a group, by its position. Equal ones are kept once.
class PerMember {
 public:
  void assign(std::vector<uint64_t> values) {
    bool equal = true;
    for (uint64_t value : values) equal = equal && value == values.front();
    if (equal && !values.empty()) {
      values_ = {values.front()};
    } else {
      values_ = std::move(values);
    }
  }
  friend bool operator==(const PerMember&, const PerMember&) = default;
  uint64_t of(int32_t index) const {
    return values_.empty() ? 0 : values_[values_.size() == 1 ? 0 : static_cast<size_t>(index)];
  }

 private:
  std::vector<uint64_t> values_;  // one if all are equal
};

}  // namespace skerry::window
