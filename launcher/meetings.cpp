#include "launcher/meetings.hpp"

#include <algorithm>
#include <iterator>

namespace skerry::launcher {

bool Meetings::is_complete(const Meeting& meeting) const {
  bool complete = true;
  for_living(meeting, [&](uint32_t rank) { complete = complete && meeting.came.contains(rank); });
  return complete;
}

// It has the spares that it wants, or no more are on their way.
bool Meetings::is_over(const Meeting& meeting) const {
  if (!is_complete(meeting)) return false;
  const auto fit = std::ranges::count_if(
      spares_, [this](const auto& spare) { return !leaving_.contains(spare.first); });
  return coming_.empty() || meeting.came.size() + static_cast<size_t>(fit) >= meeting.size;
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

size_t Meetings::living_at_work() const {
  return static_cast<size_t>(std::ranges::count(dead_, false)) - spares_.size();
}

bool Meetings::waits_for_spares_alone(const Meeting& meeting) const {
  bool alone = !is_complete(meeting);
  for_living(meeting, [&](uint32_t rank) {
    alone = alone && (meeting.came.contains(rank) || spares_.contains(rank));
  });
  return alone;
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
    meeting->second.members.assign(members.begin(), members.end());
    meeting->second.size = size;
  }
  meeting->second.came[rank].assign(bytes.begin(), bytes.end());
  return is_over(meeting->second) ? end(meeting) : dismiss_spares();
}

std::vector<Meetings::Outcome> Meetings::died(uint32_t rank) {
  dead_[rank] = true;
  coming_.erase(rank);
  spares_.erase(rank);
  for (auto& [key, meeting] : open_) meeting.came.erase(rank);
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
  if (is_complete(meeting->second)) return end(meeting);  // without the spares on their way
  std::vector<uint32_t> missing;
  for_living(meeting->second, [&](uint32_t rank) {
    if (!meeting->second.came.contains(rank)) missing.push_back(rank);
  });
  Outcome outcome = outcome_of(meeting);
  outcome.came.clear();
  outcome.missing = failed_[outcome.key] = std::move(missing);
  return {std::move(outcome)};
}

std::vector<uint32_t> Meetings::wanted_elsewhere(std::string_view key) const {
  const auto here = open_.find(key);
  if (here == open_.end()) return {};
  std::set<uint32_t> wanted;
  for (const auto& [other, meeting] : open_)
    if (other != key)
      for_living(meeting, [&](uint32_t rank) {
        if (here->second.came.contains(rank) && !meeting.came.contains(rank)) wanted.insert(rank);
      });
  return {wanted.begin(), wanted.end()};
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
