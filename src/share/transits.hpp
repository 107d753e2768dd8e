// Channels that pass through this server, from the trunk they came on to the next one. If one side
// ends such a channel, or loses its trunk, `pass_end` tells the other side after what waits for it.
// By `end` this server ends it, and says so on both sides.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "share/trunks.hpp"

namespace skerry::share {

struct Transit {
  enum class State : uint8_t {
    unanswered,  // no data came back yet: nobody's victim
    open,
    asked,  // to leave, as many pass
  };
  // Where it came from, where it leads: each keeps what is to be sent there.
  Place half[2] = {Place(Place::Of::transit_in), Place(Place::Of::transit_out)};
  uint32_t index = 0;  // in the list of all
  State state = State::unanswered;
  bool used = false;  // something passed since make_some_leave looked at it

  static int side_of(const Place& place) { return place.of == Place::Of::transit_out ? 1 : 0; }
  static Transit& of(Place& place) { return *reinterpret_cast<Transit*>(&place - side_of(place)); }
};
static_assert(sizeof(Transit) <= 72, "a gate has one for each channel that passes");

class Transits {
 public:
  Transits(MultiplexContext& context, Trunks& trunks) : context_(context), trunks_(trunks) {}

  // A channel that came on `from` goes on over `to`, with a window of so much.
  void open(Trunk& from, Trunk& to, Prefix prefix, uint64_t window, Bytes hello, Bytes address);
  // A message came on this side.
  void take(Place& from, const Prefix& prefix, Bytes rest, Bytes payload);
  // Returns false if the trunk did not take what waits first.
  bool on_turn(Place& place);
  // The rank should drain and close it.
  void ask_to_leave(Transit& transit) { (void)pass(transit, 0, prefix_of(Kind::leave), {}, {}); }

  // Its trunk on this side is gone: the other side is told, after what it has not got yet.
  void pass_end(Place& from, CloseReason reason, std::string_view detail);
  // This server ends the channel: both sides are told.
  void end(Transit& transit, std::string_view why);

  size_t size() const { return all_.size(); }
  uint64_t memory_bytes() const;

 private:
  using State = Transit::State;

  void make_some_leave();
  bool pass(Transit& transit, int to, Prefix prefix, Bytes rest, Bytes payload);
  void leave(Transit& transit, int side);
  void release(Transit& transit);

  MultiplexContext& context_;
  Trunks& trunks_;
  std::vector<std::unique_ptr<Transit>> all_;
  size_t hand_ = 0;  // in all_: where make_some_leave looks next
};

}  // namespace skerry::share
