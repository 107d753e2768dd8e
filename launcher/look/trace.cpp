// `skerry trace`: what ranks did and waited for over some seconds, for the Perfetto and Chrome
// viewers.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstddef>
#include <cstring>
#include <map>
#include <thread>

#include "core/futex.hpp"
#include "launcher/look/commands.hpp"

namespace skerry::look {
namespace {

constexpr const char* trace_usage =
    "usage: skerry trace [JOB] [--seconds S] [--every-ms M] [--output FILE]\n\n"
    "Switches recording on in the ranks of a running job that are on this machine, and writes "
    "what\n"
    "they record: single operations, fences, collectives and locks with their beginning and end,\n"
    "and what they waited for in between, as a file that ui.perfetto.dev and chrome://tracing\n"
    "open. Of very short operations one in so many is recorded (\"of\"). Off again after S "
    "seconds,\n"
    "also if this program is killed. Also ends with the job.\n\n"
    "  JOB            its name, or the process of a rank or of `skerry run`; without: the only "
    "job\n"
    "                 of this user on this machine (skerry stacks lists several)\n"
    "  --seconds S    how long, 0.1 to 3600; 5\n"
    "  --every-ms M   between two looks at the records, 0.1 to 1000; 10\n"
    "  --output FILE  skerry-trace.json\n";

constexpr int64_t lease_ns = 2'000'000'000;  // a rank records for this time after a look

// What is known of one rank.
struct Track {
  const RankView* rank = nullptr;
  std::optional<Wait> wait;  // that goes on
  uint64_t operations = 0, bytes = 0;
  uint64_t spans = 0;    // where its memory::SpanSwitch is; 0: they cannot be switched on
  int64_t until_ns = 0;  // what we wrote there last
  uint64_t taken = 0;    // number of the newest record that was taken
  std::map<uint32_t, size_t> threads;  // in the order of their first record
};

class Trace {
 public:
  Trace(std::FILE* file, const JobView& job) : file_(file), job_(job), begin_ns_(monotonic_ns()) {
    std::fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", file_);
    for (const RankView& rank : job.ranks) {
      Track& track = tracks_.emplace_back();
      track.rank = &rank;
      (void)count(&track);
      track.spans = reinterpret_cast<uint64_t>(rank.panel.spans);
      read_newest(track, &track.taken);
      if (rank.member == 0)
        event(concat("\"ph\": \"M\", \"name\": \"process_name\", \"pid\": ", rank.panel.node,
                     ", \"args\": {\"name\": \"node ", rank.panel.node, "\"}"));
      (void)place(track, no_thread);
    }
    keep_on();
  }
  // Nothing may be called afterwards but what counts.
  void finish() {
    for (Track& track : tracks_) {
      switch_off(track);
      take_records(&track);
      if (track.wait) still_waits(track);
    }
    show_kept();
    std::fputs("\n]}\n", file_);
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Who holds the locks that ranks wait for now, and what was recorded since the last call.
  void look() {
    for (Track& track : tracks_) {
      track.wait = wait_of(*track.rank);
      if (track.wait && track.wait->lock) note_holders(track.wait->lock);
      take_records(&track);
    }
  }
  // Of the time since the last call. False: the job has ended.
  bool look_at_counters() {
    keep_on();
    const int64_t now_ns = monotonic_ns();
    const auto over_s = static_cast<double>(now_ns - counted_ns_) / 1e9;
    bool lives = false;
    for (Track& track : tracks_) {
      const uint64_t operations = track.operations, bytes = track.bytes;
      if (!count(&track)) continue;
      lives = true;
      const auto show = [&](const char* name, uint64_t now, uint64_t before) {
        event(concat("\"ph\": \"C\", \"name\": \"rank ", track.rank->rank, " ", name, "\", ",
                     place(track, no_thread), ", \"ts\": ", microseconds(now_ns),
                     ", \"args\": {\"value\": ",
                     static_cast<uint64_t>(static_cast<double>(now - before) / over_s), "}"));
      };
      show("operations/s", track.operations, operations);
      show("bytes/s", track.bytes, bytes);
    }
    counted_ns_ = now_ns;
    return lives;
  }
  uint64_t recorded() const { return recorded_; }
  uint64_t lost() const { return lost_; }
  bool is_refused() const {
    return std::ranges::any_of(tracks_, [](const Track& track) { return track.spans == 0; });
  }

 private:
  static constexpr uint32_t no_thread = UINT32_MAX;
  static constexpr size_t most_kept = size_t{1} << 20;  // 128 MiB

  void keep_on() {
    const int64_t until_ns = monotonic_ns() + lease_ns;
    for (Track& track : tracks_) {
      if (track.spans == 0) continue;
      // (Should it leave just now: the memory of an ended job is only used for another job.)
      const uint64_t at = track.spans + offsetof(memory::SpanSwitch, until_ns);
      if (!has_left(*track.rank) && track.rank->process->write(at, until_ns))
        track.until_ns = until_ns;
      else track.spans = 0;
    }
  }
  // Unless another reader has set it meanwhile.
  static void switch_off(const Track& track) {
    const uint64_t at = track.spans + offsetof(memory::SpanSwitch, until_ns);
    int64_t now_ns = 0;
    if (track.spans != 0 && !has_left(*track.rank) && track.rank->process->read(at, &now_ns) &&
        now_ns == track.until_ns)
      (void)track.rank->process->write(at, int64_t{0});
  }
  // Of the records; 0: there is none.
  static uint64_t read_newest(const Track& track, uint64_t* newest) {
    uint64_t ring = 0;
    if (track.spans == 0 ||
        !track.rank->process->read(track.spans + offsetof(memory::SpanSwitch, ring), &ring) ||
        ring == 0 || !track.rank->process->read(ring + offsetof(memory::SpanRing, last), newest))
      return 0;
    return ring;
  }
  void take_records(Track* track) {
    uint64_t newest = 0, after = 0;
    const uint64_t ring = read_newest(*track, &newest);
    if (ring == 0 || newest <= track->taken) return;
    constexpr uint64_t size = memory::SpanRing::size;
    if (newest - track->taken > size / 2) {  // the older half is written soon
      lost_ += newest - size / 2 - track->taken;
      track->taken = newest - size / 2;
    }
    const uint64_t first = track->taken + 1, count = newest - track->taken;
    std::vector<memory::Span> spans(count);
    const uint64_t at = ring + offsetof(memory::SpanRing, spans);
    const uint64_t before_end = std::min(count, size - first % size);
    if (!track->rank->process->read(at + first % size * sizeof(memory::Span), spans.data(),
                                    before_end * sizeof(memory::Span)) ||
        !track->rank->process->read(at, spans.data() + before_end,
                                    (count - before_end) * sizeof(memory::Span)) ||
        read_newest(*track, &after) == 0 || after < newest)
      return;  // the rank has left: this was no ring any more
    for (uint64_t i = 0; i < count; ++i) {
      memory::Span& span = spans[i];
      const uint64_t number = first + i;
      const bool is_whole = span.number.load(std::memory_order_relaxed) == number;
      const bool is_lost = after >= number + size || (!is_whole && newest - number > size / 4);
      if (!is_lost && !is_whole) break;  // being written: next time
      track->taken = number;
      lost_ += is_lost;
      // Who holds a lock is known now.
      const bool is_lock = span.kind == memory::SpanKind::waited && span.lock_segment != 0;
      if (!is_lost && is_lock) show(track, span);
      if (is_lost || is_lock) span.number.store(0, std::memory_order_relaxed);
    }
    for (uint64_t i = track->taken + 1 - first; i < count; ++i)
      spans[i].number.store(0, std::memory_order_relaxed);
    kept_count_ += count;
    kept_.emplace_back(track, std::move(spans));
    if (kept_count_ > most_kept) show_kept();
  }
  // What is written out while it is recorded would take processors from the job.
  void show_kept() {
    for (const auto& [track, spans] : kept_)
      for (const memory::Span& span : spans)
        if (span.number.load(std::memory_order_relaxed) != 0) show(track, span);
    kept_.clear();
    kept_count_ = 0;
  }
  void show(Track* track, const memory::Span& span) {
    if (span.begin_ns < begin_ns_) return;
    ++recorded_;
    std::string name(memory::to_string(span.kind)), arguments;
    if (span.kind == memory::SpanKind::waited) {
      const char* const end = std::find(span.text, span.text + sizeof span.text, 0);
      name.assign(span.text, end);
      const auto holder = holders_.find({span.lock_segment, span.lock_place});
      if (span.lock_segment != 0 && holder != holders_.end() &&
          holder->second.seen_ns >= span.begin_ns && holder->second.seen_ns <= span.end_ns)
        arguments = concat("\"held by\": ", quoted(holder->second.text));
    } else {
      if (span.target != no_rank)
        arguments = concat("\"target\": ", span.target, ", \"bytes\": ", span.bytes);
      if (span.of > 1) arguments += concat(arguments.empty() ? "" : ", ", "\"of\": ", span.of);
    }
    event(concat("\"ph\": \"X\", \"name\": ", quoted(name), ", ", place(*track, span.thread),
                 ", \"ts\": ", microseconds(span.begin_ns),
                 ", \"dur\": ", microseconds(begin_ns_ + span.end_ns - span.begin_ns),
                 ", \"args\": {", arguments, "}"));
  }
  void still_waits(Track& track) {
    const int64_t since_ns = std::max(track.wait->since_ns, begin_ns_);
    std::string holder;
    if (track.wait->lock) holder = note_holders(track.wait->lock);
    ++recorded_;
    event(concat(
        "\"ph\": \"X\", \"name\": ", quoted(track.wait->text), ", ", place(track, no_thread),
        ", \"ts\": ", microseconds(since_ns),
        ", \"dur\": ", microseconds(begin_ns_ + std::max<int64_t>(monotonic_ns() - since_ns, 0)),
        ", \"args\": {\"goes on\": true",
        holder.empty() ? "" : ", \"held by\": ", holder.empty() ? "" : quoted(holder), "}"));
  }
  std::string note_holders(const memory::LockName& lock) {
    std::string text;
    for (const Rank holder : holders_of(job_, lock).ranks)
      text += concat(text.empty() ? "rank " : ", rank ", holder);
    holders_[{lock.segment.packed(), lock.place()}] = {monotonic_ns(), text};
    return text;
  }
  // A row of the viewer for each thread; the rank's first one, and no_thread, have its number.
  std::string place(Track& track, uint32_t thread) {
    constexpr int64_t between_threads = 1'000'000;
    if (thread == no_thread && track.threads.empty()) name_row(track, track.rank->rank, "");
    const bool is_new = thread != no_thread && !track.threads.contains(thread);
    const size_t row = thread == no_thread
                           ? 0
                           : track.threads.try_emplace(thread, track.threads.size()).first->second;
    const int64_t id = track.rank->rank + static_cast<int64_t>(row) * between_threads;
    if (is_new && row > 0) name_row(track, id, concat(", thread ", row));
    return concat("\"pid\": ", track.rank->panel.node, ", \"tid\": ", id);
  }
  void name_row(const Track& track, int64_t id, const std::string& more) {
    event(concat("\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": ", track.rank->panel.node,
                 ", \"tid\": ", id, ", \"args\": {\"name\": \"rank ", track.rank->rank, more,
                 "\"}"));
  }
  std::string microseconds(int64_t at_ns) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(at_ns - begin_ns_) / 1e3);
    return text;
  }
  static bool count(Track* track) {
    job::LocalCounters local;
    origin::EngineCounters engine;
    if (!track->rank->process->read(track->rank->panel.local, &local) ||
        !track->rank->process->read(track->rank->panel.engine, &engine))
      return false;
    track->operations = local.operations + engine.remote_operations;
    track->bytes = local.bytes + engine.remote_bytes;
    return true;
  }
  void event(const std::string& fields) {
    std::fprintf(file_, "%s{%s}", is_first_ ? "" : ",\n", fields.c_str());
    is_first_ = false;
  }

  struct Seen {
    int64_t seen_ns = 0;
    std::string text;
  };
  std::FILE* const file_;
  const JobView& job_;
  const int64_t begin_ns_;
  int64_t counted_ns_ = monotonic_ns();
  std::vector<Track> tracks_;
  std::map<std::pair<uint64_t, uint64_t>, Seen> holders_;  // by segment and place of a lock
  std::vector<std::pair<Track*, std::vector<memory::Span>>> kept_;  // to be shown
  size_t kept_count_ = 0;
  uint64_t recorded_ = 0, lost_ = 0;
  bool is_first_ = true;
};

bool read_number(const Words& words, const char* option, const char* otherwise, double low,
                 double high, double* number) {
  const std::string given = words.value(option, otherwise);
  char* end = nullptr;
  *number = std::strtod(given.c_str(), &end);
  if (*end == 0 && *number >= low && *number <= high) return true;
  std::fprintf(stderr, "skerry trace: %s %s: give %g to %g\n", option, given.c_str(), low, high);
  return false;
}

volatile std::sig_atomic_t is_told_to_end = 0;  // by a signal

}  // namespace

int trace_main(const std::vector<std::string>& words) {
  Words read;
  int status = 0;
  double seconds = 0, every_ms = 0;
  if (!read_words(words, "trace", trace_usage, {}, {"--seconds", "--every-ms", "--output"}, &read,
                  &status))
    return status;
  if (!read_number(read, "--seconds", "5", 0.1, 3600, &seconds) ||
      !read_number(read, "--every-ms", "10", 0.1, 1000, &every_ms))
    return 2;
  JobView job;
  if (!open_job("trace", read.job, &job)) return 1;
  const std::string path = read.value("--output", "skerry-trace.json");
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    std::fprintf(stderr, "skerry trace: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return 1;
  }
  for (const int signal : {SIGINT, SIGTERM})
    (void)std::signal(signal, [](int) { is_told_to_end = 1; });
  Trace trace(file, job);
  const int64_t end_ns = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
  int64_t count_ns = monotonic_ns();
  constexpr int64_t count_every_ns = 20'000'000;
  for (bool lives = true; lives && is_told_to_end == 0 && monotonic_ns() < end_ns;) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(every_ms));
    trace.look();
    if (monotonic_ns() - count_ns < count_every_ns) continue;
    count_ns = monotonic_ns();
    lives = trace.look_at_counters();
  }
  const bool is_refused = trace.is_refused();
  trace.finish();
  if (std::fclose(file) != 0) {
    std::fprintf(stderr, "skerry trace: %s is not complete: %s\n", path.c_str(),
                 std::strerror(errno));
    return 1;
  }
  std::printf("%s: %llu spans of %zu ranks\n", path.c_str(),
              static_cast<unsigned long long>(trace.recorded()), job.ranks.size());
  if (trace.lost() > 0)
    std::printf("%llu more were written over before they were read: give a smaller --every-ms\n",
                static_cast<unsigned long long>(trace.lost()));
  if (is_refused)
    std::printf("some ranks have ended, or the kernel forbids to switch their recording on\n");
  if (static_cast<int32_t>(job.ranks.size()) < job.all_ranks())
    std::printf("%zu of %d ranks are on this machine; on the others: skerry trace %s\n",
                job.ranks.size(), job.all_ranks(), job.name.c_str());
  return 0;
}

}  // namespace skerry::look
