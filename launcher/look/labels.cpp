// Slices that the program has named, for sk.attach.
#include <cstdio>
#include <cstring>

#include "launcher/look/commands.hpp"

namespace skerry::look {
namespace {

constexpr const char* labels_usage =
    "usage: skerry-look labels [JOB]\n\n"
    "JSON of the named slices of a job's ranks on this machine. For sk.attach of Python.\n";

// One record; false: it is free, or being changed.
bool read_label(const Process& process, uint64_t at, job::Label* label) {
  uint64_t again = 0;
  if (!process.read(at, label) || !process.read(at + offsetof(job::Label, segment), &again) ||
      again == 0 || again != label->segment.load(std::memory_order_relaxed))
    return false;
  label->name[sizeof label->name - 1] = label->text[sizeof label->text - 1] = 0;
  return true;
}

std::string labels_of(const JobView& job, const RankView& rank) {
  const Process& process = *rank.process;
  std::string out;
  uint64_t at = 0;
  (void)process.read(reinterpret_cast<uint64_t>(rank.panel.labels), &at);
  constexpr int most = 100'000;  // a list that changes into a circle would be damaged memory
  for (int count = 0; at != 0 && count < most; ++count) {
    job::Label label;
    if (read_label(process, at, &label)) {
      const uint64_t segment = label.segment.load(std::memory_order_relaxed);
      if (const auto slice = slice_of(job, segment, rank.rank))
        out += concat(", {\"rank\": ", rank.rank, ", \"node\": ", rank.panel.node,
                      ", \"pid\": ", process.pid(), ", \"segment\": ", segment,
                      ", \"record\": ", at, ", \"address\": ", slice->address,
                      ", \"bytes\": ", slice->bytes, ", \"name\": ", quoted(label.name),
                      ", \"text\": ", quoted(label.text), "}");
    }
    if (!process.read(at + offsetof(job::Label, next), &at)) break;
  }
  return out;
}

}  // namespace

int labels_main(const std::vector<std::string>& words) {
  Words read;
  int status = 0;
  if (!read_words(words, "attach", labels_usage, {}, {}, &read, &status)) return status;
  JobView job;
  if (!open_job("attach", read.job, &job)) return 1;
  std::string slices;
  for (const RankView& rank : job.ranks) slices += labels_of(job, rank);
  std::printf("{\"job\": %s, \"slices\": [%s]}\n", quoted(job.name).c_str(),
              slices.empty() ? "" : slices.c_str() + 2);
  return 0;
}

}  // namespace skerry::look
