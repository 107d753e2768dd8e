#include "launcher/meetings.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::launcher {

namespace {

// One `met` frame after the other.
class MetFrames {
 public:
  MetFrames(std::string_view key, bool failed) : key_(key), failed_(failed) { begin(); }
  void add(std::span<const uint32_t> numbers, std::span<const std::byte> bytes = {}) {
    if (frame_.size() >= job::values_frame_bytes) {
      close(false);
      begin();
    }
    append(std::as_bytes(numbers));
    append(bytes);
  }
  std::vector<Meetings::Payload> finish() && {
    close(true);
    return std::move(frames_);
  }

 private:
  void append(std::span<const std::byte> bytes) {
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
  }
  void begin() {
    const auto length = static_cast<uint32_t>(key_.size());
    append(std::as_bytes(std::span(&length, 1)));
    append(std::as_bytes(std::span(key_)));
    frame_.insert(frame_.end(), {std::byte{0}, std::byte{failed_}});
  }
  void close(bool is_last) {
    frame_[sizeof(uint32_t) + key_.size()] = std::byte{is_last};
    frames_.push_back(std::make_shared<const std::vector<std::byte>>(std::move(frame_)));
    frame_.clear();
  }

  std::string_view key_;
  bool failed_;
  std::vector<std::byte> frame_;
  std::vector<Meetings::Payload> frames_;
};

// The same ranks, in runs that ascend and do not touch each other.
std::vector<Meetings::Run> in_order(std::span<const Meetings::Run> members) {
  std::vector<Meetings::Run> runs(members.begin(), members.end());
  std::erase_if(runs, [](const Meetings::Run& run) { return run.count == 0; });
  std::ranges::sort(runs, {}, &Meetings::Run::first);
  std::vector<Meetings::Run> joined;
  for (const Meetings::Run& run : runs) {
    const uint64_t end = uint64_t{run.first} + run.count;
    if (joined.empty() || run.first > uint64_t{joined.back().first} + joined.back().count)
      joined.push_back(run);
    else if (const uint64_t count = end - joined.back().first; count > joined.back().count)
      joined.back().count = static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
  }
  return joined;
}

}  // namespace

bool Meetings::is_member(const Meeting& meeting, uint32_t rank) {
  const auto behind = std::ranges::upper_bound(meeting.members, rank, {}, &Run::first);
  if (behind == meeting.members.begin()) return false;
  const Run& run = *std::prev(behind);
  return rank - run.first < run.count;
}

bool Meetings::misses(const Meeting& meeting, uint32_t rank) {
  return is_member(meeting, rank) && !meeting.came.contains(rank);
}

// It has the spares that it wants, or no more are on their way.
bool Meetings::is_over(const Meeting& meeting) const {
  if (meeting.waiting != 0) return false;
  return coming_.empty() || meeting.came.size() + waiting_spares() >= meeting.size;
}

size_t Meetings::waiting_spares() const {
  return static_cast<size_t>(std::ranges::count_if(
      spares_, [this](const auto& spare) { return !leaving_.contains(spare.first); }));
}

std::vector<Meetings::Payload> Meetings::payloads_of(const Outcome& outcome) {
  MetFrames frames(outcome.key, !outcome.missing.empty());
  for (const uint32_t rank : outcome.missing) frames.add(std::span(&rank, 1));
  const auto& came = outcome.came;
  for (size_t first = 0, behind = 0; outcome.missing.empty() && first < came.size();
       first = behind) {
    const auto& [rank, gave] = came[first];
    for (behind = first + 1; behind < came.size() &&
                             came[behind].first == rank + (behind - first) &&
                             came[behind].second == gave;)
      ++behind;
    frames.add(std::array{rank, static_cast<uint32_t>(behind - first),
                          static_cast<uint32_t>(gave.size())},
               gave);
  }
  return std::move(frames).finish();
}

Meetings::Outcome Meetings::outcome_of(Open::iterator one) {
  Outcome outcome;
  outcome.key = one->first;
  for (auto& [rank, bytes] : one->second.came) {
    outcome.tell.push_back(rank);
    outcome.came.emplace_back(rank, std::move(bytes));
  }
  open_.erase(one);
  return outcome;
}

std::vector<Meetings::Outcome> Meetings::end(Open::iterator one) {
  const uint32_t size = one->second.size;
  Outcome outcome = outcome_of(one);
  if (size == 0) return {std::move(outcome)};
  // What they brought is for the spares: one copy, with the first.
  for (size_t i = 1; i < outcome.came.size(); ++i) outcome.came[i].second.clear();
  std::vector<Outcome> outcomes;
  for (auto next = spares_.begin(); outcome.came.size() < size && next != spares_.end();) {
    const auto spare = next++;
    if (leaving_.contains(spare->first)) continue;
    outcome.came.emplace_back(spare->first, std::vector<std::byte>());
    outcomes.push_back({std::move(spare->second), {spare->first}, {}, {}});
    spares_.erase(spare);
  }
  for (Outcome& told : outcomes) told.came = outcome.came;
  std::ranges::sort(outcome.came);
  outcomes.push_back(std::move(outcome));
  return outcomes;
}

std::vector<Meetings::Outcome> Meetings::wait_as_spare(uint32_t rank, std::string_view key) {
  if (dead_[rank]) return {};
  coming_.erase(rank);
  spares_.insert_or_assign(rank, std::string(key));
  return end_those_over();
}

bool Meetings::waits_for_spares_alone(const Meeting& meeting) const {
  if (meeting.waiting == 0 || meeting.waiting > spares_.size()) return false;
  const auto wanted = std::ranges::count_if(spares_, [&](const auto& spare) {
    return misses(meeting, spare.first);
  });
  return static_cast<size_t>(wanted) == meeting.waiting;
}

std::vector<Meetings::Outcome> Meetings::dismiss_spares() {
  std::vector<Outcome> outcomes;
  if (spares_.empty()) return outcomes;
  const bool waits = std::ranges::any_of(
      open_, [&](const auto& one) { return waits_for_spares_alone(one.second); });
  if (!waits && living_at_work() > 0) return outcomes;
  for (auto& [rank, key] : spares_) outcomes.push_back({std::move(key), {rank}, {}, {}});
  spares_.clear();
  return outcomes;
}

std::vector<Meetings::Outcome> Meetings::come(uint32_t rank, std::string_view key,
                                              std::span<const Run> members,
                                              std::span<const std::byte> bytes, bool* is_first,
                                              uint32_t size) {
  *is_first = false;
  if (dead_[rank]) return {};  // its last words
  if (const auto failed = failed_.find(key); failed != failed_.end())
    return {Outcome{std::string(key), {rank}, {}, failed->second}};
  auto [meeting, is_new] = open_.try_emplace(std::string(key));
  *is_first = is_new;
  if (is_new) {
    meeting->second.members = in_order(members);
    meeting->second.size = size;
    for_living(meeting->second, [&](uint32_t) { ++meeting->second.waiting; });
  }
  const auto [mine, comes_now] = meeting->second.came.try_emplace(rank);
  mine->second.assign(bytes.begin(), bytes.end());
  if (comes_now && is_member(meeting->second, rank)) --meeting->second.waiting;
  return is_over(meeting->second) ? end(meeting) : dismiss_spares();
}

void Meetings::arrives(uint32_t rank) {
  if (!dead_[rank]) return;
  dead_[rank] = false;
  ++living_;
  coming_.insert(rank);
  for (auto& [key, meeting] : open_)
    if (is_member(meeting, rank)) ++meeting.waiting;
}

std::vector<Meetings::Outcome> Meetings::died(uint32_t rank) {
  if (dead_[rank]) return {};
  dead_[rank] = true;
  --living_;
  coming_.erase(rank);
  spares_.erase(rank);
  for (auto& [key, meeting] : open_)
    if (meeting.came.erase(rank) == 0 && is_member(meeting, rank)) --meeting.waiting;
  // The next that comes is the first.
  std::erase_if(open_, [](const auto& one) { return one.second.came.empty(); });
  return end_those_over();
}

std::vector<Meetings::Outcome> Meetings::end_those_over() {
  std::vector<Outcome> outcomes;
  const auto add = [&](std::vector<Outcome> more) {
    std::ranges::move(more, std::back_inserter(outcomes));
  };
  for (auto next = open_.begin(); next != open_.end();) {
    const auto one = next++;
    if (is_over(one->second)) add(end(one));
  }
  add(dismiss_spares());
  return outcomes;
}

std::vector<Meetings::Outcome> Meetings::expire(std::string_view key) {
  const auto meeting = open_.find(key);
  if (meeting == open_.end()) return {};
  if (meeting->second.waiting == 0) return end(meeting);  // without the spares on their way
  std::vector<uint32_t> missing;
  for_living(meeting->second, [&](uint32_t rank) {
    if (!meeting->second.came.contains(rank)) missing.push_back(rank);
  });
  Outcome outcome = outcome_of(meeting);
  outcome.came.clear();
  outcome.missing = failed_[outcome.key] = std::move(missing);
  return {std::move(outcome)};
}

// Its members are those that the first named: no later one makes more of them wanted.
std::vector<uint32_t> Meetings::wanted_elsewhere(std::string_view last, std::string_view key,
                                                 uint32_t rank, bool is_first) const {
  const auto here = open_.find(last), there = open_.find(key);
  std::vector<uint32_t> wanted;
  if (here == open_.end() || there == open_.end()) return wanted;
  if (key == last) {
    if (is_wanted(last, rank)) wanted.push_back(rank);
  } else if (is_first) {
    for (const auto& [one, gave] : here->second.came)
      if (misses(there->second, one)) wanted.push_back(one);
  }
  return wanted;
}

bool Meetings::is_wanted(std::string_view last, uint32_t rank) const {
  return std::ranges::any_of(
      open_, [&](const auto& one) { return one.first != last && misses(one.second, rank); });
}

void Meetings::forget() {
  open_.clear();
  failed_.clear();
  decisions_.clear();
  spares_.clear();
  leaving_.clear();
  coming_.clear();
  const auto size = static_cast<uint32_t>(dead_.size());
  for (uint32_t rank = size - last_; rank < size; ++rank)
    if (!dead_[rank]) coming_.insert(rank);
}

}  // namespace skerry::launcher
