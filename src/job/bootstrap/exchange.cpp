#include "job/bootstrap/exchange.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/foreign.hpp"

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

Status ExchangeBootstrap::fence() {
  if (is_over_) return meet();
  const bool first = !meeting_.ready() && size() > 1;
  std::vector<std::byte> invitation;
  if (first) SKERRY_TRY(meeting_.open(rank(), size(), &invitation));
  if (!invitation.empty()) SKERRY_TRY(put(Meeting::invitation_key, invitation));
  SKERRY_TRY(gather());
  if (!first || rank() == 0) return {};
  SKERRY_TRY(get(Meeting::parent_of(rank()), Meeting::invitation_key, &invitation));
  return meeting_.accept_invitation(invitation);
}

Status ExchangeBootstrap::gather() {
  const uint64_t mine = fresh_.size();
  const auto count = static_cast<size_t>(size());
  std::vector<uint64_t> lengths(count);
  SKERRY_TRY(exchange_.allgather(std::as_bytes(std::span(&mine, 1)),
                                 reinterpret_cast<std::byte*>(lengths.data())));
  const uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest == 0) return {};  // the lengths were fence enough
  fresh_.resize(longest);
  std::vector<std::byte> all(longest * count);
  SKERRY_TRY(exchange_.allgather(fresh_, all.data()));
  fresh_.clear();
  for (size_t r = 0; r < count; ++r) {
    FrameBuffer frames(max_control_payload);
    frames.append(std::span(all).subspan(r * longest, std::min(longest, lengths[r])));
    for (std::optional<Frame> frame; true;) {
      SKERRY_TRY(frames.next(&frame));
      if (!frame) break;
      FrameReader reader(*frame);
      const auto key = reader.string();
      const auto value = reader.rest();
      values_[{static_cast<int>(r), std::string(key)}].assign(value.begin(), value.end());
    }
  }
  return {};
}

void ExchangeBootstrap::abort(int exit_status, std::string_view message) {
  print_abort(rank(), message);
  if (exchange_.abort) exchange_.abort(exit_status);
  _exit(exit_status);
}

}  // namespace skerry::job
