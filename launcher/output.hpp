// The ranks' output on the launcher's own: whole lines of different ranks are not mixed, nothing
// blocks on a slow reader.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "launcher/event_loop.hpp"

namespace skerry::launcher {

// Cuts one stream of one rank into lines. Pure.
class LineCutter {
 public:
  // `prefix` goes before every line; empty: bytes pass unchanged.
  explicit LineCutter(std::string prefix) : prefix_(std::move(prefix)) {}
  // Appends to *out what is complete. An overlong line counts as complete.
  void add(std::string_view text, std::string* out);
  // Appends the unfinished line.
  void flush(std::string* out);
  bool has_partial() const { return !partial_.empty(); }
  // The last line handed out lacks its end.
  bool mid_line() const { return mid_line_; }
  // Another rank's line has ended it: the rest is a line of its own.
  void break_line() { mid_line_ = false; }

 private:
  void emit(std::string_view line, std::string* out);
  std::string prefix_;
  std::string partial_;    // begun, not handed out
  bool mid_line_ = false;  // what was handed out last did not end a line
};

class Output {
 public:
  // `broken` is called when a reader of ours has gone; `drained` when a queue that had to wait has
  // been written.
  Output(EventLoop& loop, bool prefix, std::function<void()> broken, std::function<void()> drained);
  ~Output();
  Output(const Output&) = delete;

  void add(uint32_t rank, int stream, std::string_view text);  // stream 1 or 2
  void flush(uint32_t rank);        // unfinished lines of a rank that has ended
  void say(std::string_view line);  // the launcher's own message, to standard error
  bool has_room() const;
  void flush_all();   // every unfinished line
  bool idle() const;  // nothing is left to write

 private:
  struct Sink {
    int fd = -1;            // -1: gone, text is dropped
    bool pollable = true;   // false: a regular file, always ready
    bool watching = false;  // in the loop, waiting for room
    std::string queue;      // to write, of which the first `written` bytes have gone
    size_t written = 0;
    bool mid_line = false;   // the last text queued did not end a line...
    uint32_t last_rank = 0;  // ...and was this rank's
  };
  LineCutter& cutter(uint32_t rank, int stream);
  void break_line(Sink& sink);
  void enqueue(Sink& sink, uint32_t rank, std::string_view text, bool mid_line);
  void write_some(Sink& sink);
  void arm_partial_timer();

  EventLoop& loop_;
  const bool prefix_;
  std::function<void()> broken_;
  std::function<void()> drained_;
  std::array<Sink, 2> sinks_;
  std::map<std::pair<uint32_t, int>, LineCutter> cutters_;
  EventLoop::TimerId partial_timer_ = 0;  // 0: no unfinished line waits
};

}  // namespace skerry::launcher
