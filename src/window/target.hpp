// What a window keeps of its members: sizes of all of them, and of those accessed the epoch and the
// lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/mutex.hpp"
#include "memory/apply.hpp"
#include "origin/description.hpp"
#include "window/machine_locks.hpp"

namespace skerry::window {

enum class Flavor : uint8_t {
  allocated,  // by Skerry, in the node's shared memory
  created,    // given by the program: private to its process
  dynamic,    // given later, piece by piece
};
std::string_view to_string(Flavor flavor);

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
  origin::Access access;
  std::vector<std::byte> data;  // a copy of what it reads at the origin

  explicit Deferred(const origin::Access& as) : access(as) {
    // What has no copy stays the program's until it is done.
    access.mode = as.returns_data() ? origin::Mode::implicit : origin::Mode::blocking;
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
  // Of this node: offsets [plain_from, plain->bytes) are reached by loads and stores alone. Null:
  // none are.
  const memory::Region* plain = nullptr;
  uint64_t plain_from = 0;
  // What they point to if the program gave the memory; `moved`: of what lies in shared memory
  // since.
  memory::Region given, moved;
  const memory::Region& region_of(uint64_t offset, uint64_t count) const {
    if (plain == region || plain == nullptr) return *region;
    const bool inside = offset >= plain_from && offset < plain->bytes &&
                        count <= plain->bytes - offset;
    return inside ? *plain : *region;
  }
  lock::Mutex* mutex = nullptr;          // on this node: its lock; null: elsewhere, or a machine
  std::unique_ptr<MachineLock> machine;  // its lock if it is a machine protocol's; null: it is not
  // Held for ourselves alone by a lock of the adapter. Accesses go by it, too, however short:
  // nobody else changes this memory meanwhile.
  bool goes_by_adapter() const {
    return hold == Hold::held && !shared && region == nullptr && machine != nullptr &&
           machine->is_of_adapter();
  }
  uint32_t updates_by_adapter = 0;  // since the lock was taken
  // Null: none. Only while `hold` is wanted, in an epoch of lock, at a member elsewhere.
  std::unique_ptr<Deferred> deferred;
};

// One number of each member of a group, by its position. Equal ones are kept once.
class PerMember {
 public:
  void assign(std::vector<uint64_t> values) {
    values_ = std::move(values);
    if (!values_.empty() && std::ranges::count(values_, values_[0]) == std::ssize(values_))
      values_ = std::vector<uint64_t>(1, values_[0]);  // and gives the rest back
  }
  uint64_t of(int32_t index) const {
    return values_.empty() ? 0 : values_[values_.size() == 1 ? 0 : static_cast<size_t>(index)];
  }

 private:
  std::vector<uint64_t> values_;  // one if all are equal
};

}  // namespace skerry::window
