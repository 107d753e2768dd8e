#include "launcher/meetings.hpp"

namespace skerry::launcher {

bool Meetings::is_complete(const Meeting& meeting) const {
  bool complete = true;
  for_living(meeting, [&](uint32_t rank) { complete = complete && meeting.came.contains(rank); });
  return complete;
}

Meetings::Outcome Meetings::end(Open::iterator one) {
  Outcome outcome;
  outcome.key = one->first;
  for (auto& [rank, bytes] : one->second.came) {
    outcome.tell.push_back(rank);
    outcome.came.emplace_back(rank, std::move(bytes));
  }
  open_.erase(one);
  return outcome;
}

std::vector<Meetings::Outcome> Meetings::come(uint32_t rank, std::string_view key,
                                              std::span<const Run> members,
                                              std::span<const std::byte> bytes, bool* is_first) {
  *is_first = false;
  if (dead_[rank]) return {};  // its last words
  if (const auto failed = failed_.find(key); failed != failed_.end())
    return {Outcome{std::string(key), {rank}, {}, failed->second}};
  auto [meeting, is_new] = open_.try_emplace(std::string(key));
  *is_first = is_new;
  if (is_new) meeting->second.members.assign(members.begin(), members.end());
  meeting->second.came[rank].assign(bytes.begin(), bytes.end());
  if (!is_complete(meeting->second)) return {};
  return {end(meeting)};
}

std::vector<Meetings::Outcome> Meetings::died(uint32_t rank) {
  dead_[rank] = true;
  std::vector<Outcome> outcomes;
  for (auto next = open_.begin(); next != open_.end();) {
    const auto one = next++;
    one->second.came.erase(rank);
    if (one->second.came.empty()) open_.erase(one);  // the next that comes is the first
    else if (is_complete(one->second)) outcomes.push_back(end(one));
  }
  return outcomes;
}

std::vector<Meetings::Outcome> Meetings::expire(std::string_view key) {
  const auto meeting = open_.find(key);
  if (meeting == open_.end()) return {};
  std::vector<uint32_t> missing;
  for_living(meeting->second, [&](uint32_t rank) {
    if (!meeting->second.came.contains(rank)) missing.push_back(rank);
  });
  Outcome outcome = end(meeting);
  outcome.came.clear();
  outcome.missing = failed_[outcome.key] = std::move(missing);
  return {std::move(outcome)};
}

void Meetings::forget() {
  open_.clear();
  failed_.clear();
  decisions_.clear();
}

}  // namespace skerry::launcher
