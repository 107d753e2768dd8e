#include "launcher/exchange.hpp"

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

Status Exchange::hello(uint32_t rank) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::absent) {
    return error(Code::network, "a second process of rank ", rank,
                 " tried to join while the first is ", to_string(mine.state),
                 "; only one process per rank may use Skerry at a time");
  }
  mine.state = RankState::joined;
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
  values_[{rank, std::string(key)}].assign(value.begin(), value.end());
  return {};
}

Status Exchange::fence(uint32_t rank) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::joined)
    return error(Code::network, "fence while ", to_string(mine.state));
  mine.state = RankState::fencing;
  return {};
}

Status Exchange::finish(uint32_t rank) {
  auto& mine = ranks_[rank];
  if (mine.state != RankState::joined)
    return error(Code::network, "finish while ", to_string(mine.state));
  mine.state = RankState::finishing;
  return {};
}

std::optional<std::span<const std::byte>> Exchange::get(uint32_t owner,
                                                        std::string_view key) const {
  const auto found = values_.find({owner, std::string(key)});
  if (found == values_.end()) return std::nullopt;
  return std::span<const std::byte>(found->second);
}

void Exchange::gone(uint32_t rank, bool tolerated) {
  ranks_[rank].gone = true;
  ranks_[rank].tolerated = tolerated;
}

Exchange::Event Exchange::advance() {
  uint32_t living = 0, fencing = 0, finishing = 0;
  for (const auto& rank : ranks_) {
    if (rank.tolerated) continue;
    ++living;
    fencing += rank.state == RankState::fencing;
    finishing += rank.state == RankState::finishing;
  }
  if (living == 0) return Event::none;
  if (fencing == living) {
    for (auto& rank : ranks_) {
      if (rank.state == RankState::fencing) rank.state = RankState::joined;
    }
    return Event::fence_done;
  }
  if (finishing == living) {
    for (auto& rank : ranks_) {
      rank.state = RankState::absent;
      rank.values = 0;
    }
    values_.clear();
    ++epoch_;
    return Event::finish_done;
  }
  return Event::none;
}

std::optional<Exchange::Stuck> Exchange::stuck() const {
  std::optional<uint32_t> waiting, missing;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto& one = ranks_[rank];
    if (!waiting && (one.state == RankState::fencing || one.state == RankState::finishing))
      waiting = rank;
    if (!missing && one.gone && !one.tolerated && one.state == RankState::absent) missing = rank;
  }
  if (!waiting || !missing) return std::nullopt;
  return Stuck{*waiting, *missing};
}

}  // namespace skerry::launcher
