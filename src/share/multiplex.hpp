// Multiplex: the fabric on both sides of routes through servers. A rank's has links, to the first
// servers of its routes. A proxy's has trunks to the next servers, those of other proxies, and the
// links of ranks, and passes the channels of these on.
//
// Threads: as fabric.h says. All state is touched by issue calls and dispatch alone; poll looks at
// atomics.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "connection/core/cap.hpp"
#include "core/pure/pointer_table.hpp"
#include "fabric/hooks/forward.hpp"
#include "share/message.hpp"
#include "share/pool.hpp"
#include "share/share.hpp"

namespace skerry::share {

class Multiplex final : public fabric::Forward {
 public:
  struct Options {
    connection::JobKey key{};
    bool is_proxy = false;  // otherwise a rank
    uint32_t name = 0;      // rank, or name_of a proxy: what our hellos say
    NodeId node = 0;        // our own
    Guide guide;
    uint32_t max_trunks = 0;      // of outgoing ones, or links
    uint32_t max_passing = 0;     // a proxy's: channels that pass through; 0: no limit
    uint64_t pool_bytes = 0;      // a proxy's: of each of its pools; 0: no limit
    std::string victim = "lru";   // policy
    int64_t unused_trunk_ns = 0;  // a proxy's
    uint64_t openings_before = 0;
    int64_t connect_timeout_ns = 0;
    std::shared_ptr<Counters> counters;
  };
  Multiplex(std::unique_ptr<fabric::Fabric> inner, Options options);
  // What a proxy's hellos call it. Two servers of a node may have trunks to the same server of a
  // node that has fewer: without the index each would end the other's as its own earlier one.
  static constexpr uint32_t index_shift = 28;
  static uint32_t name_of(uint32_t node, uint16_t index) {
    return node | uint32_t{index} << index_shift;
  }
  static NodeId node_named(uint32_t name) {
    return static_cast<NodeId>(name & ((1u << index_shift) - 1));
  }
  ~Multiplex() override;

  const fabric::Capabilities& capabilities() const override { return capabilities_; }
  Status listen(std::vector<std::byte>* address) override;
  Status connect(fabric::Bytes address, fabric::Bytes hello, fabric::EndpointId* endpoint) override;
  Status accept(fabric::RequestId request, fabric::Bytes reply,
                fabric::EndpointId* endpoint) override;
  void reject(fabric::RequestId request) override;
  void hold(fabric::RequestId request)
      override {  // a channel's request waits for its answer as long as its rank does
    if (!is_channel(request)) return inner_->hold(request);
    End* const end = end_of(request);
    if (end != nullptr && end->trunk != nullptr && end->state == State::asking)
      control(*end->trunk, Kind::held, end->channel, {}, {});
  }
  fabric::SendResult send(fabric::EndpointId endpoint, fabric::Bytes header, fabric::Bytes payload,
                          bool more, uint64_t cookie) override;
  fabric::SendResult send_gathered(fabric::EndpointId endpoint, fabric::Bytes header,
                                   std::span<const fabric::Bytes> parts, uint64_t cookie) override;
  fabric::SendResult flush(fabric::EndpointId endpoint) override;
  uint64_t unsent_bytes(fabric::EndpointId endpoint) const override;
  void unpark(fabric::EndpointId endpoint) override;
  Status register_memory(void* base, uint64_t bytes, fabric::RemoteKey* key,
                         uint64_t* registration) override;
  void deregister_memory(uint64_t) override {}
  fabric::SendResult put(fabric::EndpointId, const void*, fabric::RemoteKey, uint64_t, uint64_t,
                         uint64_t) override {
    return fabric::SendResult::closed;
  }
  fabric::SendResult get(fabric::EndpointId, void*, fabric::RemoteKey, uint64_t, uint64_t,
                         uint64_t) override {
    return fabric::SendResult::closed;
  }
  void poll(int64_t timeout_ns, fabric::EndpointId only) override;
  int dispatch(fabric::Sink& sink) override;
  void close(fabric::EndpointId endpoint) override;
  Traffic traffic() const override;
  Memory memory() const override;
  bool limits_connections() const override { return !is_proxy() && has_several_links_; }
  Status limit_connections(uint32_t limit) override;
  bool has_room_for(fabric::Bytes address) const override;
  Connections connections() const override;

 private:
  struct Transit;
  struct End;
  // Where a channel of a trunk leads, in one word: to an End, or to the half of a Transit that is
  // on this trunk. Zero: nowhere.
  class Route {
   public:
    Route() = default;
    explicit Route(End* end) : word_(reinterpret_cast<uintptr_t>(end)) {}
    Route(Transit* transit, int side)
        : word_(reinterpret_cast<uintptr_t>(transit) | 2u | static_cast<uintptr_t>(side)) {}
    End* end() const { return (word_ & 2) == 0 ? reinterpret_cast<End*>(word_) : nullptr; }
    Transit* transit() const {
      return (word_ & 2) == 0 ? nullptr : reinterpret_cast<Transit*>(word_ & ~uintptr_t{3});
    }
    int side() const { return static_cast<int>(word_ & 1); }  // 0 of an End
    bool operator==(const Route&) const = default;

   private:
    uintptr_t word_ = 0;
  };
  struct ChannelOf {
    uint64_t operator()(Route route) const {
      return route.end() != nullptr ? route.end()->channel
                                    : route.transit()->half[route.side()].channel;
    }
  };
  struct Waiter {  // for room on a trunk: one of the two
    fabric::EndpointId end = fabric::no_endpoint;
    Transit* transit = nullptr;
    int side = 0;
  };
  enum class Use : uint8_t {
    outgoing,  // opened by us, as a proxy
    link,      // opened by us, as a rank
    incoming,  // by another proxy
    client,    // by a rank of ours
  };
  enum class Phase : uint8_t {
    waiting,  // for its slot: it has no endpoint
    opening,  // it connects
    open,
    leaving,  // open still, but another takes its slot: no new channels
  };

  // A connection of the fabric beneath.
  struct Trunk {
    fabric::EndpointId id = fabric::no_endpoint;  // none: it waits for its slot
    Use use = Use::outgoing;
    Phase phase = Phase::waiting;
    bool blocked = false;  // until on_writable
    bool dirty = false;    // something is held back until the end of dispatch
    fabric::EndpointId placing = fabric::no_endpoint;  // the end whose payload is being received
                                                       // where it belongs; none: no such
    uint32_t unanswered = 0;       // ours: channels on which no data came back yet
    uint32_t name = 0;             // incoming, client: whose
    uint32_t newest_channel = 0;   // opened by us
    uint64_t generation = 0;       // opened by us: in our hello; grows with each opening
    connection::Cap::Claim claim;  // ours: to a slot
    int64_t quiet_since_ns = 0;  // leaving: when data came back last; without channels: since when
    std::string address;         // opened by us: whose
    PointerTable<Route, ChannelOf> channels;
    Kept control;                     // ours; they go before all else
    std::list<Waiter> line;           // for room
    std::list<Trunk>::iterator self;  // in trunks_
    bool is_ours() const { return use == Use::outgoing || use == Use::link; }
    bool is_connected() const { return phase == Phase::open || phase == Phase::leaving; }
    // Ours without channels: it stays for the next one. A link until its slot is needed, another
    // trunk for a while.
    bool is_kept() const { return phase == Phase::open; }
  };

  // A message with a long payload on its way out, which waits for the window or for room on the
  // trunk. Its parts are copied by the fabric beneath, so it may end at any time.
  struct Outgoing {
    std::vector<std::byte> header;      // of `begin`, without the prefix; empty: that went
    std::vector<fabric::Bytes> places;  // the caller's payload
    size_t place = 0;                   // the first that is not sent yet ...
    uint64_t within = 0;                // ... and how much of it is
    uint64_t left = 0;                  // bytes in all
    uint64_t cookie = 0;
    bool is_copied = false;          // short enough for the caller to expect it: no on_sent
    std::vector<std::byte> copy;     // of what did not go at once, if so
    std::unique_ptr<Outgoing> next;  // taken when little of this one was left; null: none
  };
  static uint64_t held_bytes(const Outgoing& o) {
    return sizeof o + o.header.capacity() + o.places.capacity() * sizeof(fabric::Bytes) +
           o.copy.capacity() + (o.next ? held_bytes(*o.next) : 0);
  }
  // One on its way in.
  struct Incoming {
    std::vector<std::byte> header;
    std::byte* destination = nullptr;
    uint64_t placed = 0, total = 0;  // bytes; equal: the caller answered park
    std::vector<std::byte> whole;    // a payload short enough for on_message; empty: a longer one
  };
  static uint64_t held_bytes(const Incoming& i) {
    return sizeof i + i.header.capacity() + i.whole.capacity();
  }

  enum class State : uint8_t { opening, asking, open, lost };
  // A channel that begins or ends here: what the caller takes for an endpoint.
  struct End {
    fabric::EndpointId id = fabric::no_endpoint;
    Trunk* trunk = nullptr;  // null: lost
    uint32_t channel = 0;
    State state = State::opening;
    bool parked = false;
    bool answered = false;                // data came back
    bool in_line = false;                 // for room on the trunk
    bool writable_wanted = false;         // when it is open, or the other end has taken more
    uint32_t window = most_window_bytes;  // how far we, and the other end, may be ahead
    uint64_t sent = 0, confirmed = 0;     // cost of what we sent, and of that what was taken
    uint64_t taken = 0, told = 0;  // cost of what we took, and of that what the other end knows
    Kept undelivered;
    std::unique_ptr<Outgoing> outgoing;  // null: none
    std::unique_ptr<Incoming> incoming;  // null: none
    // What is kept here until its last part comes, or the caller takes it, counts against the
    // window.
    bool gathers() const { return incoming && !incoming->whole.empty(); }
    struct Rare {
      int64_t deadline_ns = INT64_MAX;                            // opening: of the answer
      fabric::CloseReason reason = fabric::CloseReason::by_peer;  // lost: told when the last
                                                                  // undelivered message was taken
      std::string detail;
    };
    std::unique_ptr<Rare> rare;  // opening and lost only
  };
  static_assert(sizeof(End) <= 104, "a server has one for each session that comes over a trunk");
  struct IdOf {
    uint64_t operator()(const End* end) const { return end->id; }
    uint64_t operator()(const Trunk* trunk) const { return trunk->id; }
  };
  // A channel that passes through.
  struct Half {
    Trunk* trunk = nullptr;  // null: closed on this side
    uint32_t channel = 0;
    bool in_line = false;
    Kept waiting;  // to be sent on it
  };
  struct Transit {
    Half half[2];           // where it came from, where it leads
    uint32_t place = 0;     // in transits_
    bool answered = false;  // data came back
    bool used = false;      // something passed since rest_some looked at it
    bool asked = false;     // to leave, by rest_some
  };
  static_assert(sizeof(Transit) <= 72, "a gate has one for each channel that passes");
  struct Deferred {
    enum class What : uint8_t { resume, fail, leave, sent, serve } what;
    fabric::EndpointId end;  // serve: a trunk
    fabric::CloseReason reason = fabric::CloseReason::by_us;
    std::string detail;
    uint64_t cookie = 0;  // sent only
  };

  // A trunk is no victim for this long while a channel on it has no answer. Otherwise, on a slow
  // machine, nobody might ever get one. Short at first, because proxies may wait for each other in
  // a circle: each holds the slot that another needs before it can answer.
  static constexpr connection::Cap::Patience patience{4'000'000, 100'000'000};
  // Bounds the tables of the victim policy; no job has so many nodes.
  static constexpr uint32_t most_partners = 1u << 16;
  static constexpr uint64_t channel_bit = 1ull
                                          << 31;  // no slot of the fabrics beneath is that high
  static bool is_channel(fabric::EndpointId id) { return (id & channel_bit) != 0; }
  bool is_proxy() const { return options_.is_proxy; }
  connection::Peer peer_of(std::string_view address) const;

  // trunks
  Trunk* trunk_of(fabric::EndpointId id);
  Status trunk_to(std::string address, Trunk** trunk);
  void name_partner(Trunk& trunk);
  Status begin(Trunk& trunk);
  void admit(fabric::RequestId request, Use use, const connection::Hello& hello);
  std::string with_way(const Trunk& trunk, std::string_view what) const;
  void lose(Trunk& trunk, fabric::CloseReason reason, std::string_view what);
  void remove(Trunk& trunk);
  void remove_if_unused(Trunk& trunk);
  void leave_line(Trunk& trunk, const Waiter& waiter);
  // While it connects, messages go right behind its hello if the fabric beneath can do that.
  bool takes_messages(const Trunk& trunk) const {
    return trunk.is_connected() || (trunk.phase == Phase::opening && capabilities_.early_messages);
  }
  bool may_send(const Trunk& trunk) const {
    return takes_messages(trunk) && !trunk.blocked && trunk.control.empty();
  }
  bool try_send(Trunk& trunk, fabric::Bytes header, fabric::Bytes payload, bool more);
  void control(Trunk& trunk, Kind kind, uint32_t channel, fabric::Bytes rest, fabric::Bytes payload,
               uint64_t taken = 0);
  void serve(fabric::EndpointId id);
  void count_trunks();

  // slots
  void give_slots();
  bool take_slot();
  void end_unused_trunk();
  void begin_failed(Trunk& trunk, Status status);
  void evict(Trunk& trunk);
  void note_answer(Trunk& trunk) {  // the first on one of its channels
    if (--trunk.unanswered == 0) cap_.proven(trunk.claim);
  }
  void run_deadlines();
  void end_trunks(int64_t now_ns);
  void note_deadline(int64_t deadline_ns);

  // channels
  Status next_server(std::string_view target, uint32_t servers, std::string* address) const;
  Status next_hop(std::string_view target, std::string* address) const;
  void note_link(fabric::EndpointId channel, fabric::EndpointId link);
  fabric::EndpointId link_of(fabric::EndpointId channel) const;
  End* end_of(fabric::EndpointId id) const;
  End& new_end(Trunk& trunk, uint32_t channel, State state);
  uint32_t begin_channel(Trunk& trunk);  // its number
  void release(End& end);
  void take_open(Trunk& trunk, const Prefix& prefix, fabric::Bytes hello, fabric::Bytes address);
  void ask_to_leave(fabric::EndpointId id);
  void detach(End& end);
  void take(fabric::EndpointId id, const Prefix& prefix, fabric::Bytes rest, fabric::Bytes payload);
  fabric::SendResult send_long(End& end, fabric::Bytes header,
                               std::span<const fabric::Bytes> places, uint64_t cookie);
  bool takes_long(const End& end) const;
  static void copy_rest(Outgoing& outgoing);
  void send_parts(End& end);
  bool send_part(End& end);
  fabric::Bytes next_part(const Outgoing& outgoing, uint64_t bytes);
  bool fits(const End& end, uint64_t cost) const {
    const bool may_go = end.state == State::open ||
                        (end.state == State::opening && capabilities_.early_messages);
    const uint64_t window = end.state == State::open ? end.window : early_window_bytes;
    return may_go && end.sent - end.confirmed + cost <= window;
  }
  void now_writable(End& end);
  void keep(End& end, const Prefix& prefix, fabric::Bytes header, fabric::Bytes payload);
  void deliver(End& end, const Prefix& prefix, fabric::Bytes header, fabric::Bytes payload);
  fabric::Verdict hand_over(End& end, Kind kind, fabric::Bytes header, fabric::Bytes payload);
  bool begin_incoming(End& end, fabric::Bytes header, uint64_t payload_bytes);
  fabric::Verdict copy_part(End& end, fabric::Bytes payload);
  fabric::Verdict part_placed(End& end, uint64_t payload_bytes);
  void took(End& end, uint64_t cost);
  void resume(fabric::EndpointId id);
  void fail(fabric::EndpointId id, fabric::CloseReason reason, std::string_view detail);
  bool pass(Transit& transit, int to, Prefix prefix, fabric::Bytes rest, fabric::Bytes payload);
  void leave_transit(Transit& transit, int side, fabric::CloseReason reason,
                     std::string_view detail);
  void detach(Transit& transit, int side);
  void finish(Transit& transit);
  void rest_some();
  void drop(Transit& transit, std::string_view why);
  void drop(End& end, fabric::CloseReason reason, std::string_view why);
  Pool& pool_of(Use from) { return from == Use::client ? from_ranks_ : from_servers_; }
  uint64_t own_window(const Trunk& from, uint64_t wish);
  bool relieve(const Pool& pool);
  void count_kept();
  void defer(Deferred upcall);
  void want_dispatch();
  void run_deferred();

  // fabric::Sink
  void on_connect_request(fabric::RequestId request, fabric::Bytes hello,
                          std::string_view peer_name) override;
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes reply) override;
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  std::byte* place_inline(fabric::EndpointId endpoint, fabric::Bytes header,
                          uint64_t payload_bytes) override;
  fabric::Verdict on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  void on_writable(fabric::EndpointId endpoint) override;
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                 std::string_view detail) override;

  Options options_;
  fabric::Capabilities capabilities_;
  const bool has_several_links_;  // a rank's: routes lead to more than one first server
  std::string own_address_;       // with the node's number before it; empty: not listening
  // What waits here, by where it came from. Before what is charged to them.
  Pool from_ranks_, from_servers_;
  std::list<Trunk> trunks_;
  PointerTable<Trunk*, IdOf> by_id_;
  std::unordered_map<std::string, Trunk*> by_address_;  // opened by us, and not leaving
  struct Opener {                                       // a peer that connected to us
    uint64_t newest = 0;                                // of its openings
    Trunk* trunk = nullptr;                             // null: it is closed
  };
  static uint64_t opener_key(Use use, uint32_t name) {
    return static_cast<uint64_t>(use) << 32 | name;
  }
  std::unordered_map<uint64_t, Opener> openers_;
  std::unordered_map<std::string, connection::Partner>
      partners_;                       // by address; if there is a limit, or may be
  std::vector<Trunk*> partner_trunk_;  // by partner: the one that is not leaving; null: none
  connection::Cap cap_;                // of outgoing ones
  Status begin_failure_;               // of the last that could not even begin to connect
  uint64_t openings_ = 0;              // trunks that we opened so far
  PointerTable<End*, IdOf> ends_;      // owned
  uint64_t last_end_ = 0;
  uint64_t asking_ = 0;  // of ends_: those that nobody has accepted yet
  std::vector<std::unique_ptr<Transit>> transits_;
  size_t hand_ = 0;              // in transits_: where rest_some looks next
  std::vector<std::byte> part_;  // of a payload that lies in many places; empty: not needed yet
  std::vector<Deferred> deferred_;
  std::vector<fabric::EndpointId> dirty_;
  bool dispatching_ = false;
  int upcalls_ = 0;  // in this dispatch
  std::atomic<bool> polling_{false};
  // deferred_ is not empty, or a slot may be free for a waiter
  std::atomic<bool> work_pending_{false};
  std::atomic<int64_t> deadline_ns_{INT64_MAX};  // the earliest; it may have become needless
  // A rank's: the channel it sent on last, and the link of that; poll blocks on the link alone if
  // nothing but that channel matters. Channel 0: changing.
  std::atomic<fabric::EndpointId> last_channel_{fabric::no_endpoint};
  std::atomic<fabric::EndpointId> last_link_{fabric::no_endpoint};
};

}  // namespace skerry::share
