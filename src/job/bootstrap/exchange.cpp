#include "job/bootstrap/exchange.hpp"

#include <algorithm>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {

Status ExchangeBootstrap::put(std::string_view key, std::span<const std::byte> value) {
  SKERRY_TRY(check_key(key));
  SKERRY_TRY(check_value(value));
  // A frame is as good a container as any.
  const auto frame = FrameWriter(FrameType::put, static_cast<uint32_t>(rank()))
                         .string(key)
                         .bytes(value)
                         .finish();
  fresh_.insert(fresh_.end(), frame.begin(), frame.end());
  return {};
}

Status ExchangeBootstrap::get(int rank, std::string_view key, std::vector<std::byte>* value) {
  const auto found = values_.find({rank, std::string(key)});
  if (found == values_.end()) return nothing_put(rank, key);
  *value = found->second;
  return {};
}

Status ExchangeBootstrap::exchange_values() {
  std::vector<std::byte> all;
  SKERRY_TRY(exchange_.gather(fresh_, &all));
  fresh_.clear();
  FrameBuffer frames(max_control_payload);
  frames.append(all);
  for (std::optional<Frame> frame; true;) {
    SKERRY_TRY(frames.next(&frame));
    if (!frame) return {};
    FrameReader reader(*frame);
    const auto key = reader.string();
    const auto value = reader.rest();
    values_[{static_cast<int>(frame->rank), std::string(key)}].assign(value.begin(), value.end());
  }
}

Exchange::Gather gather_by(Allgather allgather, int count) {
  return [allgather = std::move(allgather), count](std::span<const std::byte> mine,
                                                   std::vector<std::byte>* all) -> Status {
    const uint64_t length = mine.size();
    std::vector<uint64_t> lengths(static_cast<size_t>(count));
    SKERRY_TRY(allgather(std::as_bytes(std::span(&length, 1)),
                         reinterpret_cast<std::byte*>(lengths.data())));
    all->clear();
    const uint64_t longest = *std::ranges::max_element(lengths);
    if (longest == 0) return {};  // the lengths were fence enough
    std::vector<std::byte> padded(mine.begin(), mine.end());
    padded.resize(longest);
    std::vector<std::byte> parts(longest * lengths.size());
    SKERRY_TRY(allgather(padded, parts.data()));
    for (size_t r = 0; r < lengths.size(); ++r) {
      const auto part = std::span(parts).subspan(r * longest, std::min(longest, lengths[r]));
      all->insert(all->end(), part.begin(), part.end());
    }
    return {};
  };
}

std::unique_ptr<Bootstrap> make_alone() {
  Exchange alone;
  alone.name = "alone";
  alone.gather = [](std::span<const std::byte> mine, std::vector<std::byte>* all) {
    all->assign(mine.begin(), mine.end());
    return Status();
  };
  return std::make_unique<ExchangeBootstrap>(std::move(alone));
}

}  // namespace skerry::job
