// Long payloads on channels that begin or end here: they go in parts, and each is placed where it
// belongs (docs/design/0032).
#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "share/channels.hpp"

namespace skerry::share {

// ---- on their way out -------------------------------------------------------------------------

SendResult Channels::send_long(End& end, Bytes header, std::span<const Bytes> places,
                               uint64_t cookie) {
  const uint64_t total = fabric::total_bytes(places);
  SKERRY_ASSERT(total > part_bytes, "short payloads go with their header");
  // While one waits it is sent from the caller's memory, and does no harm. Not while a short
  // message that was refused waits in line: its caller is told when it is its turn.
  if (!takes_long(end)) {
    end.writable_wanted = true;
    trunks_.flush(*end.trunk);
    return SendResult::would_block;
  }
  end.outgoing = std::make_unique<Outgoing>();
  Outgoing& made = *end.outgoing;
  made.header.resize(sizeof total + header.size());
  std::memcpy(made.header.data(), &total, sizeof total);
  std::memcpy(made.header.data() + sizeof total, header.data(), header.size());
  made.places.assign(places.begin(), places.end());
  made.left = total;
  made.cookie = cookie;
  made.is_copied = total <= fabric::inline_payload_bytes;
  context_.note_link(end.id, end.trunk->id);
  send_parts(end);
  if (end.outgoing && end.outgoing->is_copied) copy_rest(*end.outgoing);
  return SendResult::accepted;
}

// The caller may use its memory for something else when send returns.
void Channels::copy_rest(Outgoing& outgoing) {
  std::vector<std::byte> copy;
  copy.reserve(outgoing.left);
  for (size_t i = outgoing.place; i < outgoing.places.size(); ++i) {
    const Bytes from = outgoing.places[i].subspan(i == outgoing.place ? outgoing.within : 0);
    copy.insert(copy.end(), from.begin(), from.end());
  }
  outgoing.copy = std::move(copy);
  outgoing.places.assign(1, outgoing.copy);
  outgoing.place = outgoing.within = 0;
}

// As many parts as there is room for. `taken` brings more room at the other end, and the line more
// on the trunk.
void Channels::send_parts(End& end) {
  trunks_.used(*end.trunk);
  while (end.outgoing && send_part(end)) {
    if (end.outgoing->left > 0) continue;
    if (!end.outgoing->is_copied)
      context_.defer([this, id = end.id, cookie = end.outgoing->cookie] {
        if (find(id) != nullptr) context_.outer->on_sent(id, cookie);
      });
    end.outgoing.reset();
  }
}

// False: there is no room for it.
bool Channels::send_part(End& end) {
  Trunk& trunk = *end.trunk;
  Outgoing& outgoing = *end.outgoing;
  const Bytes header = outgoing.header;
  const uint64_t bytes = std::min(outgoing.left, part_bytes);
  const uint64_t cost = cost_of(header.size(), bytes);
  if (end.in_line || !fits(end, cost)) return false;
  const Prefix prefix = prefix_of(header.empty() ? Kind::part : Kind::begin, end.channel,
                                  end.taken);
  if (!trunks_.may_send(trunk) ||
      !trunks_.try_send(trunk, Header(prefix, header).get(), next_part(outgoing, bytes), false)) {
    trunks_.wait(end);
    return false;
  }
  end.sent += cost;
  end.told = end.taken;
  outgoing.header.clear();
  SKERRY_INVARIANT(bytes <= outgoing.left, "a part is of what is left");
  outgoing.left -= bytes;
  outgoing.within += bytes;
  while (outgoing.place < outgoing.places.size() &&
         outgoing.within >= outgoing.places[outgoing.place].size())
    outgoing.within -= outgoing.places[outgoing.place++].size();
  SKERRY_INVARIANT(outgoing.place < outgoing.places.size() || outgoing.left == 0,
                   "what is left lies somewhere");
  return true;
}

// The next so many bytes, together.
Bytes Channels::next_part(const Outgoing& outgoing, uint64_t bytes) {
  const Bytes first = outgoing.places[outgoing.place].subspan(outgoing.within);
  if (first.size() >= bytes) return first.first(bytes);
  part_.resize(part_bytes);
  uint64_t have = 0;
  for (size_t i = outgoing.place; have < bytes; ++i) {
    const Bytes from = i == outgoing.place ? first : outgoing.places[i];
    const uint64_t step = std::min(from.size(), bytes - have);
    copy_bytes(part_.data() + have, from.data(), step);
    have += step;
  }
  return Bytes(part_).first(bytes);
}

// There may be room again, on the trunk or at the other end. Behind a long payload that is through
// the next one is taken at once, so that the trunk does not run dry.
void Channels::now_writable(End& end) {
  const bool was_long = end.outgoing != nullptr;
  if (was_long) send_parts(end);
  if (!end.writable_wanted || !takes_long(end)) return;
  if (!was_long && end.sent - end.confirmed > end.window / 2) return;
  end.writable_wanted = false;
  context_.outer->on_writable(end.id);
}

void Channels::on_turn(End& end) {
  if (end.outgoing) now_writable(end);
  else context_.outer->on_writable(end.id);
}

// ---- on their way in --------------------------------------------------------------------------

std::byte* Channels::place_inline(Trunk& trunk, const Prefix& prefix, Bytes rest,
                                  uint64_t payload_bytes) {
  const auto kind = static_cast<Kind>(prefix.kind);
  if (kind != Kind::begin && kind != Kind::part) return nullptr;
  End* const end = end_at(trunk, prefix.channel);
  // Otherwise on_message takes it, or refuses it.
  if (end == nullptr || end->state != State::open || end->parked || !end->empty() ||
      (end->incoming != nullptr) != (kind == Kind::part))
    return nullptr;
  if (kind == Kind::begin && !begin_incoming(*end, rest, payload_bytes)) return nullptr;
  if (payload_bytes > end->incoming->total - end->incoming->placed) return nullptr;
  trunk.placing = end->id;
  return end->incoming->destination + end->incoming->placed;
}

void Channels::on_placed(Trunk& trunk, const Prefix& prefix, uint64_t rest_bytes,
                         uint64_t payload_bytes) {
  End* const found = end_at(trunk, prefix.channel);
  if (found == nullptr) return;
  trunk.note_moved();
  note_answer(*found);
  const EndpointId id = found->id;
  const Verdict verdict = part_placed(*found, payload_bytes);
  End* const still = find(id);
  if (still == nullptr) return;
  still->parked = verdict == Verdict::park;
  if (still->parked) still->push(Header(prefix, {}).get(), {});
  took(*still, still->parked ? payload_bytes : cost_of(rest_bytes, payload_bytes));
  take_confirmed(id, prefix.taken);
}

// `payload_bytes` of it come with the header. False: the end is gone.
bool Channels::begin_incoming(End& end, Bytes header, uint64_t payload_bytes) {
  SKERRY_INVARIANT(end.incoming == nullptr, "one long payload at a time");
  uint64_t total = 0;
  if (header.size() > sizeof total) std::memcpy(&total, header.data(), sizeof total);
  if (total <= part_bytes || total > most_payload_bytes || payload_bytes >= total) {
    drop(end, CloseReason::protocol_error, "a long payload came whose length cannot be");
    return false;
  }
  const EndpointId id = end.id;
  header = header.subspan(sizeof total);
  auto made = std::make_unique<Incoming>();
  made->header.assign(header.begin(), header.end());
  made->total = total;
  if (total <= fabric::inline_payload_bytes) {  // delivered with its header, as any fabric does
    made->whole.resize(total);
    made->destination = made->whole.data();
  } else {
    made->destination = context_.outer->place_directly(id, header, total);
  }
  End* const still = find(id);
  if (still == nullptr) return false;
  if (made->destination == nullptr) {
    drop(*still, CloseReason::protocol_error,
         concat("a message of ", total, " bytes had no destination"));
    return false;
  }
  still->incoming = std::move(made);
  return true;
}

Verdict Channels::copy_part(End& end, Bytes payload) {
  const Incoming& incoming = *end.incoming;
  if (payload.size() > incoming.total - incoming.placed) {
    drop(end, CloseReason::protocol_error, "more came of a long payload than its length");
    return Verdict::taken;
  }
  if (!payload.empty())
    std::memcpy(incoming.destination + incoming.placed, payload.data(), payload.size());
  return part_placed(end, payload.size());
}

// Once more, with no bytes, for the last part if on_placed answered park.
Verdict Channels::part_placed(End& end, uint64_t payload_bytes) {
  end.incoming->placed += payload_bytes;
  SKERRY_INVARIANT(end.incoming->placed <= end.incoming->total, "no more comes than its length");
  if (end.incoming->placed < end.incoming->total) return Verdict::taken;
  const EndpointId id = end.id;
  // Moved out: the caller may close the end.
  std::unique_ptr<Incoming> whole = std::move(end.incoming);
  const Verdict verdict = whole->whole.empty()
                              ? context_.outer->on_placed(id, whole->header, whole->total)
                              : context_.outer->on_message(id, whole->header, whole->whole);
  if (End* const still = find(id); still != nullptr && verdict == Verdict::park)
    still->incoming = std::move(whole);
  return verdict;
}

}  // namespace skerry::share
