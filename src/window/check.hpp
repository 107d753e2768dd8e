// The debug mode of windows (SKERRY_CHECK): finds accesses that conflict, and buffers that are used
// too early. It keeps what this rank has accessed in the epoch and is not done yet.
//
//   conflicts     two accesses to the same bytes, not both reads, not both updates, without a flush
//                 (or, of the _nb forms, a wait) between them. With Level::mpi also two updates of
//                 different operations or types, which MPI leaves undefined (accumulate_ops) and
//                 Skerry does not; and only a flush comes between a put and what follows.
//   other ranks   the same between accesses of different ranks in one epoch of fence: the fence
//                 that ends it compares them all.
//   early reads   a get without a handle arrives in a place of its own. Its buffer holds `missing`
//                 bytes until the call that completes it: so a program that reads too early never
//                 finds the data by luck.
//   early writes  that call looks whether the program has changed the buffer of a get, put or
//                 update meanwhile.
//
// What it cannot find: conflicts of different ranks under shared locks, lock_all and start; loads
// and stores of the target itself; early use of the buffers of the _nb forms.
//
// Source: MPI 4.1, sections 12.7 (semantics and correctness) and 12.5 (epochs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "job/group.hpp"
#include "memory/apply.hpp"
#include "origin/engine/engine.hpp"

namespace skerry::window {

class Check {
 public:
  using Level = Config::Check;

  enum class Kind : uint8_t { put, get, update, compare_swap };
  // What an access does to bytes [begin, begin + bytes) of its target.
  struct Access {
    Kind kind = Kind::put;
    uint64_t begin = 0;
    uint64_t bytes = 0;
    memory::Update what;  // of an update
    bool operator==(const Access&) const = default;
  };
  static constexpr std::byte missing{0xDB};

  Check(Level level, Rank rank, std::string window, origin::Engine& engine)
      : level_(level), rank_(rank), window_(std::move(window)), engine_(engine) {}

  // Until the next call: messages about calls of this thread name `caller` (null: who called
  // Skerry), and its accesses go unchecked.
  static void stand_for(const void* caller, bool unchecked);
  // This thread's present call: where the program called Skerry, and what was issued before it. Of
  // what other threads issue meanwhile the call completes nothing.
  void enter(const void* address);
  static bool is_checking() { return !unchecked_; }  // accesses of this thread
  // One access at a time, from begin_access to issued or refused.
  std::unique_lock<std::mutex> access() { return std::unique_lock(accesses_); }
  // The error, with the window and the place of the call.
  Status located(const Status& status) const;

  // Errors: conflict; then nothing is kept.
  Status begin_access(Rank target, const Access& access);
  // Of the access that has begun just now. A buffer that stays as it is until it is done here:
  void reads(Rank target, const void* origin, uint64_t bytes);
  // A buffer that is filled when it is done here; returns where the data is to arrive.
  void* fills(Rank target, void* buffer, uint64_t bytes);
  // It was issued (handle null: it has none), or refused.
  void issued(Rank target, const origin::Handle* handle);
  void refused(Rank target);

  // Everything issued to `target` (no_rank: to all) before this thread's present call is done here,
  // or there, too. Errors: invalid (a buffer was used too early).
  Status done_here(Rank target);
  Status done_there(Rank target);
  // Everything that the members issued is done: were there conflicts between them? Collective. The
  // answer is the same on all. Before done_there.
  Status compare(job::Group& group);

 private:
  static constexpr uint64_t not_issued = UINT64_MAX;
  struct Record {
    Access access;
    const void* site = nullptr;
    uint64_t number = not_issued;                  // of the accesses issued: 1, 2, ...
    std::optional<origin::Handle> handle = {};  // 0: it was done at once
  };
  struct Buffer {
    std::byte* address = nullptr;
    uint64_t bytes = 0;
    size_t hash = 0;  // of what it held: put, update
    // What arrives, and until then what was in the buffer; empty: put, update.
    std::vector<std::byte> data;
    const void* site = nullptr;
    uint64_t number = not_issued;
  };
  struct Target {
    std::multimap<uint64_t, Record> records;  // by the first byte
    uint64_t longest = 0;                     // of the records, in bytes
    std::vector<Buffer> buffers;
    // The access that has begun and is not issued, if it is kept.
    std::optional<std::multimap<uint64_t, Record>::iterator> last;
    bool has_last_buffer = false;
  };
  // As members tell each other.
  struct Told {
    Access access;
    Rank origin = no_rank, target = no_rank;  // no_rank: nothing
    char site[160] = {};
  };

  bool conflict(const Access& a, const Access& b) const;
  bool is_over(const Record& record) const;
  Status finish(Target& target, Rank rank) const;
  Status explain(const Told& a, const Told& b) const;
  Told told(Rank target, const Record& record) const;

  static thread_local const void* site_;
  static thread_local const void* caller_;  // named instead of `site_`; null: none
  static thread_local bool unchecked_;
  static thread_local uint64_t before_;  // the last access issued before this thread's present call
  const Level level_;
  const Rank rank_;
  const std::string window_;  // as messages name it
  origin::Engine& engine_;
  std::mutex accesses_;  // held while an access is issued; before `mutex_`
  std::mutex mutex_;     // several threads may call
  uint64_t issued_ = 0;  // accesses
  std::map<Rank, Target> targets_;
};

// "function+0x12 in program" of a return address, as far as the system knows.
std::string describe_site(const void* address);

}  // namespace skerry::window
