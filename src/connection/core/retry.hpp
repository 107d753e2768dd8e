// Attempts at something that fails, such as opening a connection: how long to pause before the next
// one, and when to give up. Pure: the time and the random number are arguments.
//
//   failed() -> again, due_ns()      after a pause that doubles from 1 ms to 1 s, less up to a half
//   failed() -> give_up              it has failed for longer than the caller's limit
//   succeeded()                      something got through: the next failure is a first one again
//   was_open()                       the same, if it was open for long
//   server_is_stopped()              before failed(): the clock of the limit starts anew
#pragma once

#include <cstdint>

namespace skerry::connection {

class Retry {
 public:
  static constexpr int64_t first_pause_ns = 1'000'000;
  static constexpr int64_t longest_pause_ns = 1'000'000'000;
  static constexpr int64_t longest_brief_pause_ns = 64'000'000;
  static constexpr int64_t no_limit_ns = INT64_MAX;

  enum class Verdict : uint8_t {
    again,    // at due_ns()
    give_up,  // it has failed for the whole limit; nothing was scheduled
  };
  enum class Pause : uint8_t {
    growing,  // twice the last one
    brief,    // the same up to 64 ms: the server is there, for the connection had opened
    none,     // the first attempt after a connection broke: most breaks are over at once
  };

  // An attempt failed at now_ns (monotonic). `random`: uniform over all values. It takes up to a
  // half off the pause, so that origins that lost the same server do not come back all at once.
  Verdict failed(int64_t now_ns, int64_t limit_ns, uint32_t random, Pause pause = Pause::growing);
  // Something got through.
  void succeeded() { *this = Retry(); }
  // The connection that just broke had been open for so long. The longest pause counts as if
  // something had got through: where only a mutex is waited for, nothing does.
  void was_open(int64_t for_ns) {
    if (for_ns >= longest_pause_ns) succeeded();
  }
  // Nobody needs it any more. Its next failure starts the clock of the limit anew; pauses go on
  // growing, for nothing has got through.
  void nobody_waits() { failing_since_ns_ = 0; }
  // The attempt that failed found that the server lives and does not run, as under a debugger: time
  // in which it is stopped does not count.
  void server_is_stopped() { failing_since_ns_ = 0; }
  // The attempt is being made: nothing is due until it fails.
  void attempt() { due_ns_ = 0; }

  // When the next attempt is due; 0: at once, or none has failed.
  int64_t due_ns() const { return due_ns_; }
  bool is_due(int64_t now_ns) const { return due_ns_ <= now_ns; }
  // Failures since something got through.
  uint32_t failures() const { return failures_; }
  int64_t failing_for_ns(int64_t now_ns) const {
    return failing_since_ns_ == 0 ? 0 : now_ns - failing_since_ns_;
  }

 private:
  int64_t failing_since_ns_ = 0;  // time of the first failure since something got through; 0: none
  int64_t due_ns_ = 0;
  uint32_t failures_ = 0;
};

}  // namespace skerry::connection
