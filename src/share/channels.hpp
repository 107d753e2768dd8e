// Channels that begin or end here: what the caller takes for endpoints.
//
// A channel ends in two steps. `hang_up` takes it off its trunk and tells the other end; `end`
// tells the caller, once that has taken what came before. A caller that closes it itself needs no
// telling.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "share/trunks.hpp"

namespace skerry::share {

// A message with a long payload on its way out, which waits for the window or for room on the
// trunk. Its parts are copied by the fabric beneath, so it may end at any time.
struct Outgoing {
  std::vector<std::byte> header;  // of `begin`, without the prefix; empty: that went
  std::vector<Bytes> places;      // the caller's payload
  size_t place = 0;               // the first that is not sent yet ...
  uint64_t within = 0;            // ... and how much of it is
  uint64_t left = 0;              // bytes in all
  uint64_t cookie = 0;
  bool is_copied = false;       // short enough for the caller to expect it: no on_sent
  std::vector<std::byte> copy;  // of what did not go at once, if so
};

// One on its way in.
struct Incoming {
  std::vector<std::byte> header;
  std::byte* destination = nullptr;
  uint64_t placed = 0, total = 0;  // bytes; equal: the caller answered park
  std::vector<std::byte> whole;    // a payload short enough for on_message; empty: a longer one
};

struct End : Place {  // keeps what its caller has not taken
  End() : Place(Of::end) {}
  enum class State : uint8_t {
    opening,  // begun here; the other end has not accepted yet
    asking,   // ends here; the caller has not accepted yet
    open,
    lost,  // it has no trunk; the caller is told when it has taken what came before
  };
  State state = State::opening;
  bool parked = false;
  bool answered = false;                // data came back
  bool writable_wanted = false;         // when it is open, or the other end has taken more
  uint32_t window = most_window_bytes;  // how far we, and the other end, may be ahead
  EndpointId id = no_endpoint;
  uint64_t sent = 0;       // cost of the messages that this end has sent
  uint64_t confirmed = 0;  // of these, cost of those that the other end has said it took
  uint64_t taken = 0;      // cost of the messages that this end has taken
  uint64_t told = 0;       // of these, cost of those that this end has said it took
  std::unique_ptr<Outgoing> outgoing;  // null: none
  std::unique_ptr<Incoming> incoming;  // null: none
  struct Rare {
    int64_t deadline_ns = INT64_MAX;  // opening: of the answer
    CloseReason reason = CloseReason::by_peer;
    std::string detail;  // lost: as the reason, told behind the last undelivered message
  };
  std::unique_ptr<Rare> rare;  // opening and lost only
};
static_assert(sizeof(End) <= 104, "a server has one for each session that comes over a trunk");

class Channels {
 public:
  Channels(MultiplexContext& context, Trunks& trunks) : context_(context), trunks_(trunks) {}
  ~Channels();

  // No slot of the fabrics beneath is that high.
  static constexpr uint64_t channel_bit = 1ull << 31;
  static bool is_channel(EndpointId id) { return (id & channel_bit) != 0; }

  // ---- the caller's: as in fabric.hpp -----------------------------------------------------------
  EndpointId connect(Trunk& trunk, Bytes address, Bytes hello);
  Status accept(RequestId request, Bytes reply);
  void reject(RequestId request, CloseReason why);
  void hold(RequestId request);
  SendResult send(EndpointId id, Bytes header, Bytes payload, bool more, uint64_t cookie);
  SendResult send_gathered(EndpointId id, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie);
  SendResult flush(EndpointId id);
  uint64_t unsent_bytes(EndpointId id) const;
  void unpark(EndpointId id) {
    context_.defer([this, id] { resume(id); });
  }
  void close(EndpointId id);

  // ---- what arrives on trunks ------------------------------------------------------------------
  // For a channel that ends here. Returns the request for the caller.
  RequestId ask(Trunk& trunk, uint32_t channel, uint64_t window);
  void take(End& end, const Prefix& prefix, Bytes rest, Bytes payload);
  // A part of a long payload is received where it belongs.
  std::byte* place_inline(Trunk& trunk, const Prefix& prefix, Bytes rest, uint64_t payload_bytes);
  void on_placed(Trunk& trunk, const Prefix& prefix, uint64_t rest_bytes, uint64_t payload_bytes);
  void on_turn(End& end);
  // Its connection is needed for another: as if the data server had asked for it.
  void leave_later(const End& end) {
    context_.defer([this, id = end.id] { ask_to_leave(id); });
  }

  // ---- ending ----------------------------------------------------------------------------------
  void end(EndpointId id, CloseReason reason, std::string_view detail);
  // The channel ends here and now, with what waits in it.
  void drop(End& end, CloseReason reason, std::string_view why);
  // Ends those whose answer did not come in time.
  void end_late(int64_t now_ns);

  size_t size() const { return ends_.size(); }
  size_t asking() const { return asking_; }
  uint64_t memory_bytes() const;
  uint64_t fixed_bytes() const { return part_.capacity(); }

 private:
  using State = End::State;
  struct IdOf {
    uint64_t operator()(const End* end) const { return end->id; }
  };

  End* find(EndpointId id) const { return ends_.find(id); }
  End* asking_end(RequestId request) const;
  End* open_end(EndpointId id) const;
  // Null: the channel does not end here.
  static End* end_at(const Trunk& trunk, uint32_t channel) {
    Place* const place = trunk.channels.find(channel);
    return place != nullptr && place->of == Place::Of::end ? static_cast<End*>(place) : nullptr;
  }
  End& add(Trunk& trunk, uint32_t channel, State state);
  void release(End& end);
  void hang_up(End& end, CloseReason reason, std::string_view why = {});
  void leave_trunk(End& end);

  bool fits(const End& end, uint64_t cost) const;
  SendResult send_long(End& end, Bytes header, std::span<const Bytes> places, uint64_t cookie);
  static bool takes_long(const End& end) {
    return end.state == State::open && !end.outgoing && !end.in_line;
  }
  static void copy_rest(Outgoing& outgoing);
  void send_parts(End& end);
  bool send_part(End& end);
  Bytes next_part(const Outgoing& outgoing, uint64_t bytes);
  void now_writable(End& end);

  void ask_to_leave(EndpointId id);
  void note_answer(End& end);
  void keep(End& end, const Prefix& prefix, Bytes header, Bytes payload);
  void deliver(End& end, const Prefix& prefix, Bytes header, Bytes payload);
  End* offer(End& end, const Prefix& prefix, Bytes header, Bytes* payload);
  Verdict hand_over(End& end, Kind kind, Bytes header, Bytes payload);
  bool begin_incoming(End& end, Bytes header, uint64_t payload_bytes);
  Verdict copy_part(End& end, Bytes payload);
  Verdict part_placed(End& end, uint64_t payload_bytes);
  void took(End& end, uint64_t cost);
  void take_confirmed(EndpointId id, uint64_t taken);
  void resume(EndpointId id);

  MultiplexContext& context_;
  Trunks& trunks_;
  PointerTable<End*, IdOf> ends_;  // owned
  uint64_t last_end_ = 0;
  uint64_t asking_ = 0;          // of ends_: those that nobody has accepted yet
  std::vector<std::byte> part_;  // of a payload that lies in many places; empty: not needed yet
};

}  // namespace skerry::share
