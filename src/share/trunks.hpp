// Trunks: the connections beneath, to other servers and from ranks and servers. Which there are,
// which makes way for another, and what waits for room on them. It knows nothing of the channels
// but their numbers. A trunk ends in one way, `end`: its endpoint closes, it is forgotten, and its
// user hears of every channel that was on it.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "connection/cap.hpp"
#include "connection/dialer.hpp"
#include "connection/doorkeeper.hpp"
#include "core/pure/pointer_table.hpp"
#include "share/context.hpp"

namespace skerry::share {

struct Trunk;

// A channel's place on a trunk, with the messages that wait there: what begins or ends here (End),
// or either half of what passes through (Transit).
struct Place : Kept {
  enum class Of : uint8_t { end, transit_in, transit_out };
  explicit Place(Of part_of) : of(part_of) {}
  Trunk* trunk = nullptr;  // null: none any more
  uint32_t channel = 0;
  bool in_line = false;  // for room on the trunk
  const Of of;
};
struct ChannelOf {
  uint64_t operator()(const Place* place) const { return place->channel; }
};
using Places = PointerTable<Place*, ChannelOf>;

// A connection of the fabric beneath.
struct Trunk {
  enum class State : uint8_t {
    waiting,  // for its slot: it has no endpoint
    opening,  // it connects
    open,
    leaving,  // open still, but another takes its slot: no new channels
  };
  EndpointId id = no_endpoint;  // none: it waits for its slot, or was closed
  State state = State::waiting;
  bool blocked = false;                   // until on_writable
  bool dirty = false;                     // something is held back until the end of dispatch
  bool of_rank = false;                   // opened by a rank of ours, and by no other proxy
  uint32_t name = 0;                      // of who opened it
  connection::Visitor* opener = nullptr;  // null: we opened it
  EndpointId placing = no_endpoint;       // the end whose payload is being received where it
                                          // belongs; none: no such
  uint32_t unanswered = 0;                // ours: channels on which no data came back yet
  uint32_t newest_channel = 0;            // opened by us
  connection::Dialer dialer;              // opened by us
  connection::Cap::Claim claim;           // ours: to a slot
  int64_t quiet_since_ns = 0;  // leaving: when data came back last; without channels: since when
  std::string_view address;    // opened by us: whose, as Trunks::partners_ has it
  Places channels;
  Kept control;                     // messages of ours; they go before all else
  std::list<Place*> line;           // for room
  std::list<Trunk>::iterator self;  // in the list of all

  bool is_ours() const { return opener == nullptr; }
  bool is_connected() const { return state == State::open || state == State::leaving; }
  // Data came, or was taken.
  void note_moved() {
    if (state == State::leaving) quiet_since_ns = monotonic_ns();
  }
};

class Trunks {
 public:
  // The channels, as trunks see them.
  class User {
   public:
    virtual ~User() = default;
    // The trunk of these is gone, and they know it. `later`: tell callers in dispatch, for we may
    // be inside a call.
    virtual void on_trunk_end(const Places& channels, CloseReason reason, std::string_view detail,
                              bool later) = 0;
    // The slot of its trunk is needed: the channel should drain and close.
    virtual void on_trunk_leaves(Place& place) = 0;
    // There is room on the trunk, and the first in line has left the line. Returns false if it
    // could not send: it is put back in front.
    virtual bool on_turn(Place& place) = 0;
  };
  Trunks(MultiplexContext& context, User& user);

  // ---- opening ---------------------------------------------------------------------------------
  Trunk* of(EndpointId id) const { return by_id_.find(id); }
  // The trunk to a server, which opens if there is none. Errors: those of the fabric's connect.
  Status to(std::string address, Trunk** trunk);
  // A peer's hello. Returns false if it is none of a proxy or a proxy's rank.
  bool admit(RequestId request, Bytes hello);
  void on_connected(Trunk& trunk, Bytes reply);

  // ---- channels on a trunk ---------------------------------------------------------------------
  static void join(Trunk& trunk, Place& place, uint32_t channel);
  static uint32_t next_number(Trunk& trunk) {  // for a channel of ours
    return trunk.newest_channel = next_channel(trunk.newest_channel, [&](uint32_t number) {
             return trunk.channels.contains(number);
           });
  }
  // A channel leaves; rest() follows when it has sent its last. `answered`: data had come back.
  static void leave(Place& place, bool answered);
  // The first data came back on one of its channels.
  void answered(Trunk& trunk) {
    SKERRY_INVARIANT(!trunk.is_ours() || trunk.unanswered > 0, "it was counted as unanswered");
    if (trunk.is_ours() && --trunk.unanswered == 0) cap_.proven(trunk.claim);
  }
  void used(const Trunk& trunk) {
    if (trunk.is_ours() && trunk.state != Trunk::State::leaving) cap_.used(trunk.claim);
  }
  // A channel left. The trunk without one waits for the next, a rank's until its slot is needed,
  // another for a while; or it ends.
  void rest(Trunk& trunk);
  // It will end: its end says all that its last channel could say.
  static bool ends_now(const Trunk& trunk) {
    return trunk.is_ours() && trunk.channels.empty() && trunk.state != Trunk::State::open;
  }
  Pool& pool_of(const Trunk& from) {
    return from.of_rank ? context_.from_ranks : context_.from_servers;
  }

  // ---- sending ---------------------------------------------------------------------------------
  // While it connects, messages go right behind its hello if the fabric beneath can do that.
  bool takes_messages(const Trunk& trunk) const {
    return trunk.is_connected() ||
           (trunk.state == Trunk::State::opening && context_.capabilities.early_messages);
  }
  bool may_send(const Trunk& trunk) const {
    return takes_messages(trunk) && !trunk.blocked && trunk.control.empty();
  }
  // Returns false if nothing was taken: on_writable or on_connected follows.
  bool try_send(Trunk& trunk, Bytes header, Bytes payload, bool more);
  // What is held back to go along with more goes now. A broken trunk's on_closed follows.
  void flush(const Trunk& trunk) {
    if (takes_messages(trunk)) (void)context_.inner.flush(trunk.id);
  }
  // ... at the end of dispatch.
  void flush_later(Trunk& trunk) {
    if (!std::exchange(trunk.dirty, true)) dirty_.push_back(trunk.id);
  }
  void flush_held();
  // Takes a place in the line for room.
  static void wait(Place& place) {
    if (!std::exchange(place.in_line, true)) place.trunk->line.push_back(&place);
  }
  // A message of our own, which goes before all that waits.
  void control(Trunk& trunk, Kind kind, uint32_t channel, Bytes rest = {}, Bytes payload = {},
               uint64_t taken = 0);
  void say_closed(Trunk& trunk, uint32_t channel, CloseReason reason, std::string_view why = {}) {
    control(trunk, Kind::closed, channel, bytes_of(closed_text(reason, why)));
  }
  // Sends what waits for room, a message of each channel in turn.
  void serve(EndpointId id);

  // ---- slots -----------------------------------------------------------------------------------
  Status limit(uint32_t connections);
  bool has_room_for(const std::string& address) const;
  bool anyone_waits() const { return cap_.anyone_waits(); }
  // Gives slots in the order of asking. Called when one is asked for and at the end of each
  // dispatch, not in between. A newcomer that fails at once takes its channels with it, which may
  // be just those that `end` or on_message is about to tell.
  void give_slots();
  fabric::Fabric::Connections connections() const {
    return {cap_.occupied() + cap_.leaving(), cap_.counters().peak, cap_.counters().evicted};
  }

  // ---- ending ----------------------------------------------------------------------------------
  void end(Trunk& trunk, CloseReason reason, std::string_view what, bool later = false);
  void on_closed(Trunk& trunk, CloseReason reason, std::string_view detail);
  // Ends those that make way and have no time left, and those that nobody has used for a while.
  void end_overdue(int64_t now_ns);

  size_t size() const { return by_id_.size(); }  // of those that have an endpoint
  uint64_t memory_bytes() const;
  uint64_t fixed_bytes() const;

 private:
  using State = Trunk::State;
  struct IdOf {
    uint64_t operator()(const Trunk* trunk) const { return trunk->id; }
  };

  static connection::Peer peer_of(std::string_view address);
  Trunk& add() {
    Trunk& trunk = all_.emplace_back();
    trunk.self = std::prev(all_.end());
    return trunk;
  }
  Status begin(Trunk& trunk);
  connection::Caller caller() const;
  bool take_slot();
  bool put(Trunk& trunk, Bytes header, Bytes payload, bool more);
  void evict(Trunk& trunk);
  bool is_unused(const Trunk& trunk) const {  // a proxy's, without channels
    return context_.is_proxy && trunk.is_ours() && trunk.state == State::open &&
           trunk.channels.empty();
  }
  void forget_endpoint(Trunk& trunk);
  std::string with_way(const Trunk& trunk, std::string_view what) const;
  void count_trunks();

  MultiplexContext& context_;
  User& user_;
  std::list<Trunk> all_;
  PointerTable<Trunk*, IdOf> by_id_;
  std::unordered_map<uint64_t, connection::Visitor> openers_;  // by role and name
  // Servers that we opened trunks to, by address: the victim policy's names of them.
  std::unordered_map<std::string, connection::Partner> partners_;
  std::vector<Trunk*> partner_trunk_;  // by partner: the one that is not leaving; null: none
  connection::Cap cap_;                // of outgoing ones
  Status begin_failure_;               // of the last that could not even begin to connect
  uint64_t openings_;                  // trunks that we opened so far
  std::vector<EndpointId> dirty_;
  connection::RefusalLog refusals_;
};

}  // namespace skerry::share
