#include "launcher/look/job.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>

#include "job/segment.hpp"
#include "memory/segment.hpp"

namespace skerry::look {
namespace {

// What getpid says in the process: /proc may show it from another pid namespace.
int32_t own_name(pid_t pid) {
  std::ifstream status(concat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    std::istringstream words(line.substr(6));
    int32_t last = pid;
    for (int32_t each = 0; words >> each;) last = each;
    return last;
  }
  return pid;
}

uint64_t member_at(const memory::ControlLayout& layout, uint64_t control, uint32_t member) {
  return control + layout.members_offset + uint64_t{member} * sizeof(memory::Member);
}

struct Found {
  std::map<std::string, JobView> jobs;
  std::vector<std::string> remarks;
  std::vector<pid_t> other_versions;
};

// The ranks that this process hosts in the node of one control segment.
void add_ranks(const std::shared_ptr<Process>& process, uint64_t control, Found* found) {
  uint32_t version = 0;
  memory::ControlLayout layout{};
  if (!process->read(control + offsetof(memory::ControlHeader, version), &version)) return;
  const auto other = [&] { found->other_versions.push_back(process->pid()); };
  if (version != memory::control_version) return other();
  if (!process->read(control + offsetof(memory::ControlHeader, layout), &layout)) return;
  const int32_t own = own_name(process->pid());
  std::map<uint64_t, Mapped> segments;
  for (uint32_t k = 0; k < layout.members; ++k) {
    const uint64_t at = member_at(layout, control, k);
    int32_t pid = 0;
    uint64_t panel_at = 0, again = 0;
    if (!process->read(at + offsetof(memory::Member, pid), &pid) || pid != own) continue;
    if (!process->read(at + offsetof(memory::Member, panel), &panel_at) || panel_at == 0) continue;
    RankView rank;
    rank.member = k;
    rank.control = control;
    rank.entry = at;
    rank.panel_at = panel_at;
    rank.process = process;
    if (!process->read(at + offsetof(memory::Member, rank), &rank.rank) ||
        !process->read(panel_at, &rank.panel) ||
        !process->read(at + offsetof(memory::Member, panel), &again) || again != panel_at)
      continue;  // it is leaving
    if (rank.panel.magic != job::Panel::magic_number || rank.panel.layout != job::panel_layout())
      return other();
    if (segments.empty()) segments = process->segments();
    rank.segments = segments;
    rank.panel.job.back() = 0;
    JobView& job = found->jobs[rank.panel.job.data()];
    job.name = rank.panel.job.data();
    job.ranks.push_back(std::move(rank));
  }
}

void add_process(pid_t pid, Found* found) {
  auto process = std::make_shared<Process>();
  if (Status status = Process::open(pid, process.get()); !status.ok()) {
    found->remarks.push_back(status.message());
    return;
  }
  std::vector<Mapped> mapped;
  (void)process->find_mappings(&mapped);
  for (const Mapped& each : mapped) {
    uint64_t magic = 0;
    if (process->read(each.address, &magic) && magic == memory::control_magic)
      add_ranks(process, each.address, found);
  }
}

std::string list_of(const std::vector<JobView>& jobs) {
  std::string text;
  for (const JobView& job : jobs) text += concat(text.empty() ? "" : ", ", job.name);
  return text;
}

}  // namespace

const RankView* JobView::find(Rank rank) const {
  const auto found = std::ranges::lower_bound(ranks, rank, {}, &RankView::rank);
  return found != ranks.end() && found->rank == rank ? &*found : nullptr;
}

std::string JobView::program() const {
  std::ifstream file(concat("/proc/", ranks.front().process->pid(), "/cmdline"));
  std::string words;
  std::getline(file, words);
  while (!words.empty() && words.back() == 0) words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

std::vector<JobView> find_jobs(std::vector<std::string>* remarks) {
  Found found;
  for (const pid_t pid : candidates()) add_process(pid, &found);
  std::vector<JobView> jobs;
  for (auto& [name, job] : found.jobs) {
    std::ranges::sort(job.ranks, {}, &RankView::rank);
    jobs.push_back(std::move(job));
  }
  *remarks = std::move(found.remarks);
  if (!found.other_versions.empty())
    remarks->push_back(concat("process ", found.other_versions.front(), " and ",
                              found.other_versions.size() - 1,
                              " more run another version of Skerry: look at them with the "
                              "`skerry` of that version"));
  return jobs;
}

Status find_job(const std::string& word, JobView* job) {
  std::vector<std::string> remarks;
  std::vector<JobView> jobs = find_jobs(&remarks);
  const std::string all = list_of(jobs);
  const std::string there_are = jobs.empty() ? "no job of yours runs on this machine"
                                             : concat("jobs on this machine: ", all);
  const auto because = [&] {
    std::string text;
    for (const std::string& each : remarks) text += concat("; ", each);
    return text;
  };
  const bool is_number = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
  std::vector<JobView*> meant;
  for (JobView& each : jobs)
    if (each.name.rfind(word, 0) == 0) meant.push_back(&each);
  if (meant.empty() && is_number) {
    const pid_t pid = std::atoi(word.c_str());
    const std::vector<pid_t> family = with_children(pid);
    for (JobView& each : jobs)
      if (std::ranges::any_of(each.ranks, [&](const RankView& rank) {
            return std::ranges::find(family, rank.process->pid()) != family.end();
          }))
        meant.push_back(&each);
    Process unused;
    if (meant.empty()) SKERRY_TRY(Process::open(pid, &unused));
  }
  if (meant.size() == 1) {
    *job = std::move(*meant.front());
    return {};
  }
  if (meant.empty() && word.empty()) return error(Code::invalid, there_are, because());
  if (meant.empty()) return error(Code::invalid, "no job \"", word, "\": ", there_are, because());
  return error(Code::invalid, word.empty() ? "which job? " : concat("\"", word, "\" is not one: "),
               there_are);
}

memory::ControlLayout layout_of(const RankView& rank) {
  memory::ControlLayout layout{};
  (void)rank.process->read(rank.control + offsetof(memory::ControlHeader, layout), &layout);
  return layout;
}

bool has_left(const RankView& rank) {
  uint64_t panel_at = 0;
  return !rank.process->read(rank.entry + offsetof(memory::Member, panel), &panel_at) ||
         panel_at != rank.panel_at;
}

std::optional<Wait> wait_of(const RankView& rank) {
  const uint64_t at = rank.entry + offsetof(memory::Member, waits);
  struct {
    int64_t since_ns;
    uint64_t lock_segment, lock_place, reserved;
    char text[memory::WaitNote::text_bytes];
  } note{};
  static_assert(sizeof note == sizeof(memory::WaitNote));
  int64_t again = 0;
  for (int round = 0; round < 3; ++round) {
    if (!rank.process->read(at, &note) || note.since_ns == 0) return std::nullopt;
    if (!rank.process->read(at, &again) || again != note.since_ns) continue;
    Wait wait;
    wait.since_ns = note.since_ns;
    wait.text.assign(note.text, strnlen(note.text, sizeof note.text));
    if (note.lock_segment != 0)
      wait.lock = {SegmentId::unpacked(note.lock_segment), static_cast<Rank>(note.lock_place >> 32),
                   static_cast<uint32_t>(note.lock_place)};
    return wait;
  }
  return std::nullopt;
}

namespace {

std::vector<memory::SliceEntry> read_slices(const Process& process, const Mapped& segment,
                                            uint32_t* purpose) {
  uint32_t members = 0;
  constexpr uint64_t header = offsetof(memory::SegmentHeader, slices);
  if (!process.read(segment.address + offsetof(memory::SegmentHeader, members), &members) ||
      !process.read(segment.address + offsetof(memory::SegmentHeader, purpose), purpose) ||
      header + members * sizeof(memory::SliceEntry) > segment.bytes)
    return {};
  std::vector<memory::SliceEntry> slices(members);
  if (!process.read(segment.address + header, slices.data(), members * sizeof slices.front()))
    return {};
  return slices;
}

bool is_inside(const memory::SliceEntry& slice, const Mapped& segment) {
  return slice.published.load(std::memory_order_relaxed) == 1 && slice.offset <= segment.bytes &&
         slice.bytes <= segment.bytes - slice.offset;
}

}  // namespace

std::optional<Slice> slice_of(const JobView& job, uint64_t segment, Rank rank) {
  const RankView* const home = job.find(rank);
  if (home == nullptr) return std::nullopt;
  const auto found = home->segments.find(segment);
  if (found == home->segments.end()) return std::nullopt;
  uint32_t purpose = 0;
  for (const memory::SliceEntry& slice : read_slices(*home->process, found->second, &purpose))
    if (slice.rank == rank && is_inside(slice, found->second))
      return Slice{home, found->second.address + slice.offset, slice.bytes};
  return std::nullopt;
}

namespace {

// Of a lock on the node of `home`, from what its Mutex says.
Holders holders_from(const RankView& home, uint64_t lock_word, uint64_t name) {
  Holders out;
  out.is_known = true;
  out.word = lock_word;
  const Process& process = *home.process;
  const uint64_t word = out.word & ~lock::open_word;
  if (word == 0) return out;
  if (!lock::shares(word)) {
    out.ranks.push_back(lock::rank_of(word));
    return out;
  }
  out.unnamed = out.word & ~(lock::open_word | lock::shared_bit | lock::biased_bit);
  if (!lock::is_biased(out.word)) return out;
  const memory::ControlLayout layout = layout_of(home);
  for (uint32_t k = 0; k < layout.members; ++k) {
    const uint64_t line = home.control + layout.reader_lines_offset + k * sizeof(lock::ReaderLine) +
                          name % lock::ReaderLine::flags * 8;
    const uint64_t member = member_at(layout, home.control, k);
    uint64_t flag = 0;
    Rank rank = no_rank;
    if (process.read(line, &flag) && flag == name &&
        process.read(member + offsetof(memory::Member, rank), &rank))
      out.ranks.push_back(rank);
  }
  return out;
}

}  // namespace

Holders holders_of(const JobView& job, const memory::LockName& lock) {
  const auto slice = slice_of(job, lock.segment.packed(), lock.rank);
  if (!slice || lock.index >= slice->bytes / sizeof(lock::Mutex)) return {};
  const uint64_t at = slice->address + uint64_t{lock.index} * sizeof(lock::Mutex);
  uint64_t word = 0, name = 0;
  if (!slice->home->process->read(at + offsetof(lock::Mutex, word), &word) ||
      !slice->home->process->read(at + offsetof(lock::Mutex, name), &name))
    return {};
  return holders_from(*slice->home, word, name);
}

std::vector<LockSample> locks_held(const JobView& job) {
  constexpr uint64_t most_locks = 1 << 14;  // of a slice: a reader is not to read for seconds
  std::vector<LockSample> held;
  for (const RankView& rank : job.ranks) {
    if (rank.member != 0) continue;  // once a node
    for (const auto& [id, segment] : rank.segments) {
      uint32_t purpose = 0;
      const auto slices = read_slices(*rank.process, segment, &purpose);
      if (purpose != job::purpose_mutexes) continue;
      for (const memory::SliceEntry& slice : slices) {
        if (!is_inside(slice, segment)) continue;
        std::vector<std::byte> locks(std::min(slice.bytes, most_locks * sizeof(lock::Mutex)));
        if (!rank.process->read(segment.address + slice.offset, locks.data(), locks.size()))
          continue;
        for (uint32_t k = 0; (k + 1) * sizeof(lock::Mutex) <= locks.size(); ++k) {
          const std::byte* const at = locks.data() + k * sizeof(lock::Mutex);
          uint64_t word = 0, name = 0;
          std::memcpy(&word, at + offsetof(lock::Mutex, word), sizeof word);
          std::memcpy(&name, at + offsetof(lock::Mutex, name), sizeof name);
          if ((word & ~lock::open_word) != 0)
            held.push_back(
                {{SegmentId::unpacked(id), slice.rank, k}, holders_from(rank, word, name)});
        }
      }
    }
  }
  return held;
}

}  // namespace skerry::look
