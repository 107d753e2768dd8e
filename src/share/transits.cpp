#include "share/transits.hpp"

#include <algorithm>

#include "core/pure/container_bytes.hpp"

namespace skerry::share {

void Transits::open(Trunk& from, Trunk& to, Prefix prefix, uint64_t window, Bytes hello,
                    Bytes address) {
  Transit& transit = *all_.emplace_back(std::make_unique<Transit>());
  transit.index = static_cast<uint32_t>(all_.size() - 1);
  SKERRY_INVARIANT(&Transit::of(transit.half[1]) == &transit, "its halves come first");
  transit.half[0].charge(&trunks_.pool_of(to));
  transit.half[1].charge(&trunks_.pool_of(from));
  trunks_.join(from, transit.half[0], prefix.channel);
  trunks_.join(to, transit.half[1], trunks_.next_number(to));
  context_.counters().channels.fetch_add(1, std::memory_order_relaxed);
  const uint32_t channel = prefix.channel;
  ++prefix.servers;
  prefix.taken = window;
  (void)pass(transit, 1, prefix, hello, address);
  if (to.state == Trunk::State::waiting) trunks_.control(from, Kind::held, channel);
  make_some_leave();
}

void Transits::take(Place& from, const Prefix& prefix, Bytes rest, Bytes payload) {
  Transit& transit = Transit::of(from);
  Trunk& trunk = *from.trunk;
  transit.used = true;
  const int to = 1 - Transit::side_of(from);
  const auto kind = static_cast<Kind>(prefix.kind);
  if (carries_data(kind)) {
    if (to == 0 && transit.state == State::unanswered) {
      transit.state = State::open;
      trunks_.answered(trunk);
    }
    const Trunk* const next = transit.half[to].trunk;
    if (to == 1 && next != nullptr) trunks_.used(*next);
  }
  if (transit.half[to].bytes() > most_waiting_bytes) return end(transit, beyond_window);
  const bool is_last = kind == Kind::closed;
  if (is_last) leave(transit, 1 - to);
  const bool sent = pass(transit, to, prefix, rest, payload);
  if (!is_last) return;
  if (sent) release(transit);
  trunks_.rest(trunk);
}

bool Transits::on_turn(Place& place) {
  Transit& transit = Transit::of(place);
  const int side = Transit::side_of(place);
  SKERRY_INVARIANT(!place.empty() && place.trunk != nullptr, "who stands in line has something");
  const Message& message = place.front();
  if (!trunks_.try_send(*place.trunk, message.header, message.payload, true)) return false;
  place.pop();
  if (!place.empty()) trunks_.wait(place);
  else if (transit.half[1 - side].trunk == nullptr) release(transit);
  return true;
}

// Above the limit those make way that carried nothing since the last look (docs/design/0038). Looks
// at a few with each new channel, as a clock's hand, and lets two go in its place: the number falls
// while there are idle ones.
void Transits::make_some_leave() {
  const size_t limit = context_.options.max_passing;
  if (limit == 0 || all_.size() <= limit) return;
  uint32_t may_ask = 2, may_close = all_.size() > limit + limit / 4 ? 2 : 0;
  for (size_t looks = std::min<size_t>(all_.size(), 64); looks > 0 && may_ask + may_close > 0;
       --looks) {
    if (hand_ >= all_.size()) hand_ = 0;
    Transit& transit = *all_[hand_++];
    if (std::exchange(transit.used, false)) continue;
    switch (transit.state) {
      case State::unanswered: break;
      case State::open:
        if (may_ask == 0) break;
        --may_ask;
        transit.state = State::asked;
        context_.counters().channels_asked.fetch_add(1, std::memory_order_relaxed);
        ask_to_leave(transit);
        break;
      case State::asked:
        if (may_close == 0) break;
        --may_close;
        context_.counters().channels_closed.fetch_add(1, std::memory_order_relaxed);
        end(transit, "a data server passes as many channels as it may, and this one was idle");
        break;
    }
  }
}

// Sends it on, or keeps it until there is room. True: nothing waits.
bool Transits::pass(Transit& transit, int to, Prefix prefix, Bytes rest, Bytes payload) {
  Place& half = transit.half[to];
  if (half.trunk == nullptr) return true;  // nobody is there any more
  Trunk& trunk = *half.trunk;
  prefix.channel = half.channel;
  const Header header(prefix, rest);
  context_.counters().messages.fetch_add(1, std::memory_order_relaxed);
  context_.counters().bytes.fetch_add(header.size + payload.size(), std::memory_order_relaxed);
  // A short message waits for the end of the round, to travel with others.
  const bool hold = context_.dispatching && payload.size() < 8 * 1024;
  if (half.empty() && trunks_.try_send(trunk, header.get(), payload, hold)) {
    if (hold) trunks_.flush_later(trunk);
    return true;
  }
  half.push(header.get(), payload);
  trunks_.wait(half);
  return false;
}

// ---- ending -----------------------------------------------------------------------------------

void Transits::leave(Transit& transit, int side) {
  Place& half = transit.half[side];
  if (half.trunk == nullptr) return;
  half.clear();
  trunks_.leave(half, transit.state != State::unanswered);
}

void Transits::pass_end(Place& from, CloseReason reason, std::string_view detail) {
  SKERRY_INVARIANT(from.trunk == nullptr, "its trunk is gone");
  Transit& transit = Transit::of(from);
  from.clear();
  if (pass(transit, 1 - Transit::side_of(from), prefix_of(Kind::closed),
           bytes_of(closed_text(reason, detail)), {}))
    release(transit);
}

void Transits::end(Transit& transit, std::string_view why) {
  for (const Place& half : transit.half)
    if (half.trunk != nullptr)
      trunks_.say_closed(*half.trunk, half.channel, CloseReason::reset, why);
  release(transit);
}

// Nothing is left to pass.
void Transits::release(Transit& transit) {
  Trunk* const trunks[2] = {transit.half[0].trunk, transit.half[1].trunk};
  leave(transit, 0);
  leave(transit, 1);
  SKERRY_INVARIANT(all_[transit.index].get() == &transit, "each knows its place");
  std::swap(all_[transit.index], all_.back());
  all_[transit.index]->index = transit.index;
  all_.pop_back();
  context_.counters().channels.fetch_sub(1, std::memory_order_relaxed);
  for (Trunk* trunk : trunks)
    if (trunk != nullptr) trunks_.rest(*trunk);
}

// ---- what they take ---------------------------------------------------------------------------

uint64_t Transits::memory_bytes() const {
  uint64_t bytes = vector_bytes(all_);
  for (const auto& one : all_)
    bytes += sizeof(Transit) + one->half[0].bytes() + one->half[1].bytes();
  return bytes;
}

}  // namespace skerry::share
