#include "launcher/exchange.hpp"

#include <algorithm>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::launcher {
namespace {
constexpr uint32_t max_values_per_rank = 4096;
}

const char* to_string(RankState state) {
  switch (state) {
    case RankState::absent: return "absent";
    case RankState::joined: return "joined";
    case RankState::fencing: return "fencing";
    case RankState::finishing: return "finishing";
  }
  return "unknown";
}

Exchange::Exchange(uint32_t size, uint32_t late) : ranks_(size), living_(size - late) {
  for (uint32_t rank = size - late; rank < size; ++rank) ranks_[rank].tolerated = true;
}

void Exchange::admit(uint32_t first, uint32_t count) {
  for (uint32_t rank = first; rank < first + count; ++rank)
    ranks_[rank].starts_with = {first, count};
}

void Exchange::settle(uint32_t rank) {
  const Run together = ranks_[rank].starts_with;
  for (Rank& one : std::span(ranks_).subspan(together.first, together.count)) {
    one.starts_with = {};
    if (one.gone) continue;
    one.tolerated = false;
    ++living_;
    count(one, 1);
  }
}

std::vector<uint32_t> Exchange::advance_starting(uint32_t rank) {
  const Run together = ranks_[rank].starts_with;
  const auto starting = std::span(ranks_).subspan(together.first, together.count);
  std::vector<uint32_t> released;
  if (!std::ranges::all_of(starting, [](const Rank& one) {
        return one.state == RankState::fencing;
      }))
    return released;
  for (uint32_t k = 0; k < together.count; ++k) {
    enter(starting[k], RankState::joined);
    released.push_back(together.first + k);
  }
  return released;
}

// `difference` is 1 or, to take the rank out, UINT32_MAX (unsigned arithmetic wraps).
void Exchange::count(const Rank& rank, uint32_t difference) {
  if (rank.tolerated) return;
  fencing_ += rank.state == RankState::fencing ? difference : 0;
  finishing_ += rank.state == RankState::finishing ? difference : 0;
}

void Exchange::enter(Rank& rank, RankState state) {
  count(rank, UINT32_MAX);
  rank.state = state;
  count(rank, 1);
  const auto number = static_cast<uint32_t>(&rank - ranks_.data());
  if (rank.gone && !rank.tolerated && state == RankState::absent) {
    missing_.insert(number);
  } else {
    missing_.erase(number);
  }
}

Status Exchange::hello(uint32_t rank) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::absent) {
    return error(Code::network, "a second process of rank ", rank,
                 " tried to join while the first is ", to_string(mine.state),
                 "; only one process per rank may use Skerry at a time");
  }
  enter(mine, RankState::joined);
  return {};
}

Status Exchange::put(uint32_t rank, std::string_view key, std::span<const std::byte> value) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::joined)
    return error(Code::network, "put while ", to_string(mine.state));
  SKERRY_TRY(job::check_key(key));
  SKERRY_TRY(job::check_value(value));
  if (++mine.values > max_values_per_rank)
    return error(Code::network, "more than ", max_values_per_rank, " bootstrap values");
  auto found = values_.find(key);
  if (found == values_.end()) found = values_.emplace(key, Values{}).first;
  found->second.by_rank[rank].assign(value.begin(), value.end());
  found->second.frames.clear();
  const auto [entry, is_new] = lowest_.try_emplace(index_of(key, value), rank);
  entry->second = std::min(entry->second, rank);
  return {};
}

Status Exchange::fence(uint32_t rank) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::joined)
    return error(Code::network, "fence while ", to_string(mine.state));
  enter(mine, RankState::fencing);
  return {};
}

Status Exchange::finish(uint32_t rank) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::joined)
    return error(Code::network, "finish while ", to_string(mine.state));
  enter(mine, RankState::finishing);
  return {};
}

std::optional<std::span<const std::byte>> Exchange::get(uint32_t owner,
                                                        std::string_view key) const {
  const auto values = values_.find(key);
  if (values == values_.end()) return std::nullopt;
  const auto found = values->second.by_rank.find(owner);
  if (found == values->second.by_rank.end()) return std::nullopt;
  return std::span<const std::byte>(found->second);
}

const std::vector<Exchange::Payload>& Exchange::get_all(std::string_view key) {
  static const std::vector<Payload> none{std::make_shared<std::vector<std::byte>>(1, std::byte{1})};
  const auto found = values_.find(key);
  if (found == values_.end()) return none;
  auto& frames = found->second.frames;
  if (!frames.empty()) return frames;
  std::vector<std::byte> frame{std::byte{0}};
  const auto add = [&frame](const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    frame.insert(frame.end(), from, from + bytes);
  };
  const auto& all = found->second.by_rank;
  for (auto first = all.begin(); first != all.end();) {
    if (frame.size() >= job::values_frame_bytes) {
      frames.push_back(std::make_shared<std::vector<std::byte>>(std::move(frame)));
      frame.assign(1, std::byte{0});
    }
    // The ranks of a node mostly say the same, and stand in a row.
    uint32_t ranks = 1;
    auto next = std::next(first);
    for (;
         next != all.end() && next->first == first->first + ranks && next->second == first->second;
         ++next)
      ++ranks;
    const uint32_t head[3] = {first->first, ranks, static_cast<uint32_t>(first->second.size())};
    add(head, sizeof head);
    add(first->second.data(), first->second.size());
    first = next;
  }
  frame.front() = std::byte{1};
  frames.push_back(std::make_shared<std::vector<std::byte>>(std::move(frame)));
  return frames;
}

std::string Exchange::index_of(std::string_view key, std::span<const std::byte> value) {
  std::string index(key);
  index += '\0';  // no key holds one
  return index.append(reinterpret_cast<const char*>(value.data()), value.size());
}

std::optional<uint32_t> Exchange::lowest(std::string_view key,
                                         std::span<const std::byte> value) const {
  const auto found = lowest_.find(index_of(key, value));
  return found == lowest_.end() ? std::nullopt : std::optional(found->second);
}

void Exchange::gone(uint32_t rank, bool tolerated) {
  auto& mine = ranks_[rank];
  count(mine, UINT32_MAX);
  if (tolerated && !mine.tolerated) --living_;
  mine.gone = true;
  mine.tolerated = mine.tolerated || tolerated;
  count(mine, 1);
  enter(mine, mine.state);
}

Exchange::Event Exchange::advance() {
  if (living_ == 0) return Event::none;
  if (fencing_ == living_) {
    for (auto& rank : ranks_) {
      if (rank.state == RankState::fencing && !rank.tolerated) enter(rank, RankState::joined);
    }
    return Event::fence_done;
  }
  if (finishing_ == living_) {
    for (auto& rank : ranks_) {
      enter(rank, RankState::absent);
      rank.values = 0;
    }
    values_.clear();
    lowest_.clear();
    ++epoch_;
    return Event::finish_done;
  }
  return Event::none;
}

std::optional<Exchange::Stuck> Exchange::stuck() const {
  if (missing_.empty() || fencing_ + finishing_ == 0) return std::nullopt;
  const auto waiting = std::ranges::find_if(ranks_, [](const Rank& rank) {
    return !rank.tolerated &&
           (rank.state == RankState::fencing || rank.state == RankState::finishing);
  });
  return Stuck{static_cast<uint32_t>(waiting - ranks_.begin()), *missing_.begin()};
}

}  // namespace skerry::launcher
