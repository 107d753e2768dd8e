// `skerry trace`: what ranks waited for over some seconds, for the Perfetto and Chrome viewers.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/futex.hpp"
#include "launcher/look/commands.hpp"

namespace skerry::look {
namespace {

constexpr const char* usage =
    "usage: skerry trace [JOB] [--seconds S] [--every-ms M] [--output FILE]\n\n"
    "Writes what the ranks of a running job wait for, as spans, and their operations and bytes a\n"
    "second, as a file that ui.perfetto.dev and chrome://tracing open. Looks at the job's memory\n"
    "again and again and asks nothing of it: a wait that begins and ends between two looks is not\n"
    "seen, and one that was seen ends at the look that no longer found it. A span begins when the\n"
    "wait did. Also ends with the job.\n\n"
    "  JOB            its name, or the process of a rank or of `skerry run`; without: the only "
    "job\n"
    "                 of this user on this machine (skerry stacks lists several)\n"
    "  --seconds S    for so long, 0.1 to 3600; 5\n"
    "  --every-ms M   between two looks, 0.1 to 1000; 1\n"
    "  --output FILE  skerry-trace.json\n";

// What is known of one rank since the last look.
struct Track {
  const RankView* rank = nullptr;
  std::optional<Wait> wait;
  std::string holder;  // of the lock that it waits for, when it was first seen
  uint64_t operations = 0, bytes = 0;
};

class Trace {
 public:
  Trace(std::FILE* file, const JobView& job) : file_(file), job_(job), begin_ns_(monotonic_ns()) {
    std::fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", file_);
    for (const RankView& rank : job.ranks) {
      Track& track = tracks_.emplace_back();
      track.rank = &rank;
      (void)count(&track);
      event(concat("\"ph\": \"M\", \"name\": \"thread_name\", ", place(rank),
                   ", \"args\": {\"name\": \"rank ", rank.rank, "\"}"));
      if (rank.member == 0)
        event(concat("\"ph\": \"M\", \"name\": \"process_name\", ", place(rank),
                     ", \"args\": {\"name\": \"node ", rank.panel.node, "\"}"));
    }
  }
  ~Trace() {
    const int64_t now_ns = monotonic_ns();
    for (Track& track : tracks_) end_wait(&track, now_ns);
    std::fputs("\n]}\n", file_);
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void look_at_waits() {
    const int64_t now_ns = monotonic_ns();
    for (Track& track : tracks_) {
      std::optional<Wait> wait = wait_of(*track.rank);
      if (wait && track.wait && wait->since_ns == track.wait->since_ns) continue;
      end_wait(&track, now_ns);
      track.wait = std::move(wait);
      track.holder.clear();
      if (!track.wait || !track.wait->lock) continue;
      for (const Rank holder : holders_of(job_, track.wait->lock).ranks)
        track.holder += concat(track.holder.empty() ? "rank " : ", rank ", holder);
    }
  }
  // Of the time since the last call. False: the job has ended.
  bool look_at_counters() {
    const int64_t now_ns = monotonic_ns();
    const auto over_s = static_cast<double>(now_ns - counted_ns_) / 1e9;
    bool lives = false;
    for (Track& track : tracks_) {
      const uint64_t operations = track.operations, bytes = track.bytes;
      if (!count(&track)) continue;
      lives = true;
      const auto show = [&](const char* name, uint64_t now, uint64_t before) {
        event(concat("\"ph\": \"C\", \"name\": \"rank ", track.rank->rank, " ", name, "\", ",
                     place(*track.rank), ", \"ts\": ", microseconds(now_ns),
                     ", \"args\": {\"value\": ",
                     static_cast<uint64_t>(static_cast<double>(now - before) / over_s), "}"));
      };
      show("operations/s", track.operations, operations);
      show("bytes/s", track.bytes, bytes);
    }
    counted_ns_ = now_ns;
    return lives;
  }
  uint64_t waits() const { return waits_; }

 private:
  static std::string place(const RankView& rank) {
    return concat("\"pid\": ", rank.panel.node, ", \"tid\": ", rank.rank);
  }
  std::string microseconds(int64_t at_ns) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(at_ns - begin_ns_) / 1e3);
    return text;
  }
  static bool count(Track* track) {
    job::LocalCounters local;
    operation::EngineCounters engine;
    if (!track->rank->process->read(track->rank->panel.local, &local) ||
        !track->rank->process->read(track->rank->panel.engine, &engine))
      return false;
    track->operations = local.operations + engine.remote_operations;
    track->bytes = local.bytes + engine.remote_bytes;
    return true;
  }
  void end_wait(Track* track, int64_t now_ns) {
    if (!track->wait) return;
    const int64_t since_ns = std::max(track->wait->since_ns, begin_ns_);
    ++waits_;
    event(concat("\"ph\": \"X\", \"name\": ", quoted(track->wait->text), ", ", place(*track->rank),
                 ", \"ts\": ", microseconds(since_ns),
                 ", \"dur\": ", microseconds(begin_ns_ + std::max<int64_t>(now_ns - since_ns, 0)),
                 ", \"args\": {\"held by\": ", quoted(track->holder), "}"));
    track->wait.reset();
  }
  void event(const std::string& fields) {
    std::fprintf(file_, "%s{%s}", is_first_ ? "" : ",\n", fields.c_str());
    is_first_ = false;
  }

  std::FILE* const file_;
  const JobView& job_;
  const int64_t begin_ns_;
  int64_t counted_ns_ = monotonic_ns();
  std::vector<Track> tracks_;
  uint64_t waits_ = 0;
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

}  // namespace

int trace_main(const std::vector<std::string>& words) {
  Words read;
  int status = 0;
  double seconds = 0, every_ms = 0;
  if (!read_words(words, "trace", usage, {}, {"--seconds", "--every-ms", "--output"}, &read,
                  &status))
    return status;
  if (!read_number(read, "--seconds", "5", 0.1, 3600, &seconds) ||
      !read_number(read, "--every-ms", "1", 0.1, 1000, &every_ms))
    return 2;
  JobView job;
  if (!open_job("trace", read.job, &job)) return 1;
  const std::string path = read.value("--output", "skerry-trace.json");
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    std::fprintf(stderr, "skerry trace: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return 1;
  }
  uint64_t waits = 0;
  {
    Trace trace(file, job);
    const int64_t end_ns = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
    int64_t count_ns = monotonic_ns();
    constexpr int64_t count_every_ns = 20'000'000;
    for (bool lives = true; lives && monotonic_ns() < end_ns;) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(every_ms));
      trace.look_at_waits();
      if (monotonic_ns() - count_ns < count_every_ns) continue;
      count_ns = monotonic_ns();
      lives = trace.look_at_counters();
    }
    waits = trace.waits();
  }
  if (std::fclose(file) != 0) {
    std::fprintf(stderr, "skerry trace: %s is not complete: %s\n", path.c_str(),
                 std::strerror(errno));
    return 1;
  }
  std::printf("%s: %llu waits of %zu ranks\n%s", path.c_str(),
              static_cast<unsigned long long>(waits), job.ranks.size(),
              elsewhere(job, "trace").c_str());
  return 0;
}

}  // namespace skerry::look
