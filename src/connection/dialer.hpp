// Attempts to connect to one peer: the hello of each, whose answer proves the peer; how long to
// pause after one that failed, and when to give up. Pure: the caller connects, the time and the
// random number are arguments. Links and relays dial until it says otherwise; a trunk dials once,
// for the ranks that use it try again.
//
//   failed() -> true, due_ns()     after a pause that doubles from 1 ms to 1 s, less up to a half;
//                                  of an open connection: at once the first time, then up to 64 ms
//   failed() -> false              it has failed for longer than the caller's limit
//   succeeded()                    something got through: the next failure is a first one again
//   was_open()                     the same, if it was open for long
//   restart_clock()                before failed(): the clock of the limit starts anew
#pragma once

#include <algorithm>

#include "connection/hello.hpp"
#include "core/pure/assert.hpp"

namespace skerry::connection {

// Who dials: the same for all peers.
struct Caller {
  JobKey key;
  uint32_t name;  // rank, or node
  Role role = Role::origin;
};

class Dialer {
 public:
  static constexpr int64_t first_pause_ns = 1'000'000;
  static constexpr int64_t longest_pause_ns = 1'000'000'000;
  static constexpr int64_t longest_brief_pause_ns = 64'000'000;
  static constexpr int64_t no_limit_ns = INT64_MAX;

  enum class Failure : uint8_t {
    attempt,  // no connection: the next pause is twice the last one
    broken,  // an open one was lost. The first time no pause, as most breaks are over at once; then
             // one of at most 64 ms, for the peer is there
  };

  Dialer() = default;
  // Hellos of an earlier dialler to this peer had generations up to this one.
  explicit Dialer(uint64_t generation) : generation_(generation) {}

  // The hello of the next attempt, which is being made: nothing is due until it fails.
  std::array<std::byte, hello_bytes> dial(const Caller& caller, const Peer& peer) {
    due_ns_ = 0;
    return make_hello(caller.key, peer, caller.name, ++generation_, caller.role);
  }
  // As check_answer, for the newest attempt.
  Status check(const Caller& caller, const Peer& peer, std::span<const std::byte> answer,
               uint64_t* applied, bool* refusals_follow = nullptr) const {
    return check_answer(caller.key, peer, {caller.name, generation_, {}}, answer, applied,
                        refusals_follow);
  }

  // An attempt failed, or its connection, at now_ns (monotonic). Returns whether there is another,
  // at due_ns(); not if they have failed for the whole limit. `random`: uniform over all values. It
  // takes up to a half off the pause, so that origins that lost the same server do not come back
  // all at once.
  bool failed(int64_t now_ns, int64_t limit_ns, uint32_t random, Failure what = Failure::attempt) {
    SKERRY_INVARIANT(now_ns > 0, "0 says that nothing has failed");
    if (failing_since_ns_ == 0) failing_since_ns_ = now_ns;
    if (now_ns - failing_since_ns_ >= limit_ns) return false;
    const bool was_open = what == Failure::broken;
    const int64_t longest_ns = was_open ? longest_brief_pause_ns : longest_pause_ns;
    const int64_t pause_ns = std::min(first_pause_ns << std::min(failures_, 10u), longest_ns);
    const auto half_ns = static_cast<uint64_t>(pause_ns / 2);
    const auto spread_ns = static_cast<int64_t>(half_ns * random >> 32);
    due_ns_ = was_open && failures_ == 0 ? 0 : now_ns + pause_ns / 2 + spread_ns;
    if (failures_ < UINT32_MAX) ++failures_;
    return true;
  }
  // Something got through.
  void succeeded() {
    failing_since_ns_ = due_ns_ = 0;
    failures_ = 0;
  }
  // The connection that just broke had been open for `for_ns`. From longest_pause_ns on that counts
  // as if something had got through: where only a mutex is waited for, nothing does.
  void was_open(int64_t for_ns) {
    if (for_ns >= longest_pause_ns) succeeded();
  }
  // The time so far does not count: nobody needed it, or its server lives and does not run, as
  // under a debugger. Pauses go on growing, for nothing has got through.
  void restart_clock() { failing_since_ns_ = 0; }

  // When the next attempt is due; 0: at once, or none has failed.
  int64_t due_ns() const { return due_ns_; }
  bool is_due(int64_t now_ns) const { return due_ns_ <= now_ns; }
  // Failures since something got through.
  uint32_t failures() const { return failures_; }
  int64_t failing_for_ns(int64_t now_ns) const {
    return failing_since_ns_ == 0 ? 0 : now_ns - failing_since_ns_;
  }

 private:
  uint64_t generation_ = 0;       // of the newest attempt
  int64_t failing_since_ns_ = 0;  // time of the first failure since something got through; 0: none
  int64_t due_ns_ = 0;
  uint32_t failures_ = 0;
};

}  // namespace skerry::connection
