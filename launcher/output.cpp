#include "launcher/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "core/pure/status.hpp"

namespace skerry::launcher {
namespace {

constexpr size_t max_line_bytes = 64 * 1024;
constexpr size_t room_bytes = 1 << 20;  // queued output beyond which the ranks are made to wait
// An unfinished line (a prompt, a progress bar) appears after this time.
constexpr std::chrono::milliseconds partial_delay{100};

}  // namespace

void LineCutter::emit(std::string_view line, std::string* out) {
  if (!mid_line_) *out += prefix_;
  *out += line;
  mid_line_ = line.back() != '\n';
}

void LineCutter::add(std::string_view text, std::string* out) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      partial_ += text;
      if (partial_.size() >= max_line_bytes) flush(out);
      return;
    }
    const auto line = text.substr(0, end + 1);
    if (partial_.empty()) {
      emit(line, out);
    } else {
      partial_ += line;
      flush(out);
    }
    text.remove_prefix(line.size());
  }
}

void LineCutter::flush(std::string* out) {
  if (partial_.empty()) return;
  emit(partial_, out);
  partial_.clear();
}

Output::Output(EventLoop& loop, bool prefix, std::function<void()> broken,
               std::function<void()> drained)
    : loop_(loop), prefix_(prefix), broken_(std::move(broken)), drained_(std::move(drained)) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    auto& sink = sinks_[static_cast<size_t>(fd - 1)];
    struct stat status;
    if (fstat(fd, &status) != 0) continue;  // our parent closed it: nobody wants it
    sink.fd = fd;
    // What epoll can watch and what might block are the same files; /dev/null and the like take
    // everything at once.
    sink.pollable = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd) == 1;
  }
}

Output::~Output() {
  for (auto& sink : sinks_) {
    if (sink.watching) loop_.forget(sink.fd);
  }
}

LineCutter& Output::cutter(uint32_t rank, int stream) {
  const auto found = cutters_.find({rank, stream});
  if (found != cutters_.end()) return found->second;
  return cutters_
      .emplace(std::pair(rank, stream), LineCutter(prefix_ ? concat("[", rank, "] ") : ""))
      .first->second;
}

void Output::add(uint32_t rank, int stream, std::string_view text) {
  auto& lines = cutter(rank, stream);
  std::string out;
  lines.add(text, &out);
  enqueue(sinks_[static_cast<size_t>(stream - 1)], rank, out, lines.mid_line());
  if (lines.has_partial()) arm_partial_timer();
}

void Output::flush(uint32_t rank) {
  for (const int stream : {1, 2}) {
    auto& lines = cutter(rank, stream);
    std::string out;
    lines.flush(&out);
    enqueue(sinks_[static_cast<size_t>(stream - 1)], rank, out, lines.mid_line());
  }
}

void Output::say(std::string_view line) {
  auto& sink = sinks_[1];
  if (sink.mid_line) break_line(sink);
  enqueue(sink, sink.last_rank, concat("skerry: ", line, "\n"), false);
}

// What follows of it later is a line of its own, with the rank's prefix.
void Output::break_line(Sink& sink) {
  cutter(sink.last_rank, &sink == sinks_.data() ? 1 : 2).break_line();
  sink.queue += '\n';
  sink.mid_line = false;
}

void Output::enqueue(Sink& sink, uint32_t rank, std::string_view text, bool mid_line) {
  if (text.empty() || sink.fd < 0) return;
  // With prefixes a line belongs to one rank, also when a prompt was shown before its end. Without,
  // bytes pass unchanged.
  if (prefix_ && sink.mid_line && sink.last_rank != rank) break_line(sink);
  sink.mid_line = mid_line;
  sink.last_rank = rank;
  sink.queue += text;
  write_some(sink);
}

void Output::write_some(Sink& sink) {
  while (sink.fd >= 0 && sink.written < sink.queue.size()) {
    size_t bytes = sink.queue.size() - sink.written;
    if (sink.pollable) {
      // The file description is shared with our parent, so it must not become non-blocking. A pipe
      // that polls writable takes PIPE_BUF bytes without blocking.
      pollfd ready{sink.fd, POLLOUT, 0};
      if (poll(&ready, 1, 0) <= 0) {
        if (!sink.watching)
          sink.watching = loop_.watch(sink.fd, EPOLLOUT,
                                      [this, &sink](uint32_t) { write_some(sink); });
        return;
      }
      bytes = std::min<size_t>(bytes, PIPE_BUF);
    }
    const ssize_t got = write(sink.fd, sink.queue.data() + sink.written, bytes);
    if (got >= 0) {
      sink.written += static_cast<size_t>(got);
    } else if (errno != EINTR && errno != EAGAIN) {
      if (sink.watching) loop_.forget(sink.fd);
      sink = Sink{};
      return broken_();
    }
  }
  sink.queue.clear();
  sink.written = 0;
  if (sink.watching) {
    loop_.forget(sink.fd);
    sink.watching = false;
    drained_();
  }
}

bool Output::idle() const {
  return std::all_of(sinks_.begin(), sinks_.end(),
                     [](const Sink& sink) { return sink.queue.empty(); });
}

bool Output::has_room() const {
  return std::all_of(sinks_.begin(), sinks_.end(),
                     [](const Sink& sink) { return sink.queue.size() < room_bytes; });
}

void Output::arm_partial_timer() {
  if (partial_timer_ == 0) partial_timer_ = loop_.after(partial_delay, [this] { flush_all(); });
}

void Output::flush_all() {
  loop_.cancel(partial_timer_);
  partial_timer_ = 0;
  for (auto& [source, lines] : cutters_) {
    std::string out;
    lines.flush(&out);
    enqueue(sinks_[static_cast<size_t>(source.second - 1)], source.first, out, lines.mid_line());
  }
}

}  // namespace skerry::launcher
