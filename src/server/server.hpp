// The data server: one thread that applies the requests of other nodes to the memory of its own,
// and sleeps when there are none.
//
// It runs no user code, never waits for a user's thread and never blocks on sending: what cannot go
// on (a stripe is held, a peer takes no bytes) parks that session alone; a request that must wait
// for another one (a mutex is taken) is kept beside its session, which goes on. Only its thread
// touches anything declared here, but for start, watch and stop. A node may have several, each with
// its own share of the origins (docs/design/0035).
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "connection/core/doorkeeper.hpp"
#include "connection/core/quota.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/pointer_table.hpp"
#include "core/thread.hpp"
#include "fabric/fabric.h"
#include "lock/host/locks.hpp"
#include "memory/apply.hpp"
#include "memory/control.hpp"
#include "memory/stripes.hpp"
#include "placement/node_map.hpp"
#include "server/relay.hpp"
#include "session/resting.hpp"
#include "session/session.hpp"
#include "wire/message.hpp"

namespace skerry::server {

// What the servers of a node ask of its memory. Each calls it on a thread of its own.
class Directory : public lock::LockMemory {
 public:
  // Where `rank`'s slice of the segment is mapped here. Errors: freed (no such segment: never
  // allocated here, or freed).
  virtual Status find(SegmentId segment, Rank rank, memory::Region* region) = 0;
};

struct ServerConfig {
  placement::ServerRef self;
  connection::JobKey key{};
  int32_t ranks = 0;             // of the job
  uint32_t max_connections = 0;  // of origins; 0: no limit. Other data servers do not count
};

class Server;

// What exists only once the node's control segment does.
struct NodeView {
  memory::Control control;
  uint32_t member_index = 0;  // of the rank that hosts the server: it signs stripes as that
  std::function<int32_t(Rank)> member_of;   // member index of a rank of this node, -1 for others
  const placement::NodeMap* map = nullptr;  // outlives the server
  // All of this node, by index; they outlive each other's threads. Empty: it is the only one.
  std::vector<Server*> servers;
};

class Server final : private fabric::Sink, private lock::Locks::Outlet {
 public:
  Server(ServerConfig config, std::unique_ptr<fabric::Fabric> fabric, Directory& directory);
  ~Server() override;

  // Listens and starts the thread. *address is what others connect to. Errors: network.
  Status start(std::vector<std::byte>* address);
  // Must have happened before the first origin connects. Runs on the server's thread; returns when
  // it has.
  void open(NodeView view);
  // Before start, or from the server's thread: `readable` runs on the server's thread whenever fd
  // is readable.
  Status watch(int fd, std::function<void()> readable);
  void unwatch(int fd);
  // Runs `task` on the server's thread soon. Any thread.
  void post(std::function<void()> task);
  // The same, and returns when it has run. Not from the server's thread.
  void call(const std::function<void()>& task);
  // For tests, in place of start: listens, and the calling thread is the server's whenever it takes
  // a turn.
  Status listen(std::vector<std::byte>* address);
  // One round: sleeps until there is something to do, `longest_ns` at most (negative: no limit),
  // and does it.
  void turn(int64_t longest_ns);
  // Ends the thread. Connections are closed; nobody may need them any more.
  void stop();

  // Server's thread: the segment goes: what the fabric was told of it is taken back. Before it is
  // unmapped.
  void forget(SegmentId segment);
  struct Counters {
    std::atomic<uint64_t> requests{0};
    std::atomic<uint64_t> bytes_sent{0};
    std::atomic<uint64_t> bytes_received{0};
    // Connections refused, in all and by reason: see Fabric::Unauthenticated, and what it counts as
    // rejected:
    std::atomic<uint64_t> refused_connections{0}, refused_silent{0}, refused_left{0},
        refused_crowded_out{0}, refused_malformed{0};
    // no member of this job, or none that means this server in this role
    std::atomic<uint64_t> refused_unproven{0};
    std::atomic<uint64_t> refused_replayed{0};  // a hello of an older generation
    std::atomic<uint64_t> clients{0};
    std::atomic<uint64_t> clients_peak{0};  // most at one time
    // idle ones that made place for others under max_connections
    std::atomic<uint64_t> clients_dropped{0};
    // hellos of origins for which there was no place at once
    std::atomic<uint64_t> clients_waited{0};
    std::atomic<uint64_t> grants_relayed{0};    // through other servers, and taken by them
    std::atomic<uint64_t> waits_found_late{0};  // see Fabric::Traffic
  };
  const Counters& counters() const { return counters_; }

  // What it takes in this process, beyond the operating system's. Asks the server's thread and
  // waits for it: not from there, not after stop.
  struct Memory {
    uint64_t connections = 0;       // now
    uint64_t connection_bytes = 0;  // their endpoints, and answers that wait for room
    uint64_t ranks_known = 0;       // that ever connected
    uint64_t known_bytes = 0;       // what is kept of them, with or without a connection
    uint64_t fixed_bytes = 0;       // whatever the number of either
  };
  Memory memory();

 private:
  // One open connection of an origin.
  struct Client {
    enum class State : uint8_t {
      serving,
      receiving,  // a long payload of it is on its way
      parked,     // its next message waits: the endpoint is in retry_ or in full_
      owing,      // it said bye, and the fabric did not take our answer yet
      leaving,    // its bye is answered: what is sent now may not be read any more
    };
    fabric::EndpointId endpoint = fabric::no_endpoint;
    session::TargetSession* session = nullptr;
    Rank rank = no_rank;
    connection::Quota::Id quota = 0;  // 0: without a limit
    State state = State::serving;
    bool acknowledge = false;  // requests were applied that no answer has told of yet; it is in
                               // acknowledge_
    uint16_t asked_again = 0;  // lock requests that came once more, after a break
    uint32_t quiet_bytes = 0;  // applied since the last acknowledgement; below twice
                               // quiet_bytes_limit
    struct Late {  // answers that the fabric did not take; sent first when it is writable
      wire::ReplyHeader header;
      std::vector<std::byte> payload;
    };
    struct Answers {
      std::vector<Late> late;
      std::list<std::vector<std::byte>>
          sending;  // payloads of late answers that the fabric still reads from; oldest first
      // Of answers that the fabric still reads from a segment, which one; oldest first.
      std::vector<SegmentId> segments;
    };
    std::unique_ptr<Answers> answers;  // null: there are none, as mostly
    struct Refused {  // a long put, refused when its header came: where its payload goes
      Status why;
      std::vector<std::byte> payload;
    };
    std::unique_ptr<Refused> refused;  // null: what it receives goes into a segment
    SegmentId receives_into;           // receiving, and not refused: that segment

    bool said_bye() const { return state == State::owing || state == State::leaving; }
    size_t late() const { return answers ? answers->late.size() : 0; }
    bool is_sending() const { return answers && !answers->sending.empty(); }
    void add_late(Late one) {
      if (!answers) answers = std::make_unique<Answers>();
      answers->late.push_back(std::move(one));
    }
    void add_segment(SegmentId segment) {
      if (!answers) answers = std::make_unique<Answers>();
      answers->segments.push_back(segment);
    }
    bool sends_from(SegmentId segment) const {
      return answers && std::ranges::find(answers->segments, segment) != answers->segments.end();
    }
    void tidy_answers() {
      if (answers && answers->late.empty() && answers->sending.empty() && answers->segments.empty())
        answers.reset();
    }
  };
  static_assert(sizeof(Client) <= 56, "there is one for each connected rank");
  struct EndpointOf {
    uint64_t operator()(const Client* client) const { return client->endpoint; }
  };
  struct Known : connection::Visitor {  // what is kept of a rank between its connections
    explicit Known(uint32_t incarnation, uint64_t applied = 0) : session(incarnation, applied) {}
    session::TargetSession session;
    connection::Quota::Id quota = 0;  // 0, unless it is connected or waits, under a limit
  };
  static_assert(sizeof(Known) <= 48);

  struct Held {  // request of an origin that is proven and waits for a connection slot
    fabric::RequestId request;
    connection::Hello hello;
  };

  struct Registration {
    fabric::RemoteKey key;
    uint64_t handle = 0;  // 0: not registered
  };
  // A strided get is answered from the segment itself if its blocks are few enough: origins ask so
  // (Engine) for blocks of a KiB and more.
  static constexpr size_t most_parts = 2048;
  // Parts of a long transfer are acknowledged together, but before the origin runs out of credits.
  static constexpr uint64_t quiet_bytes_limit = 512 * 1024;
  static constexpr size_t longest_text = 1024;  // of a refusal
  // The payload of a long put that is refused is read and dropped, if it is as long as origins cut
  // them (Engine); a longer one costs its connection.
  static constexpr uint64_t longest_dropped_bytes = 8u << 20;
  enum class Outcome : uint8_t { done, park, failed, answered };

  void run();
  Client* client_of(fabric::EndpointId endpoint);
  void drop(Client& client);
  Known& recall(Rank rank);
  void let_rest();
  void assert_server_thread() const;
  connection::Doorkeeper door() const;
  connection::Visitor* visitor_of(connection::Role role, uint32_t name);
  bool let_in(fabric::RequestId request, const connection::Hello& hello,
              connection::Visitor& visitor, uint64_t applied, bool refusals_follow);
  bool admit(fabric::RequestId request, const connection::Hello& hello);
  void wait_for_slot(fabric::RequestId request, const connection::Hello& hello);
  void manage_slots();
  void end(Client& client);
  void used(Client& client);
  connection::Quota::Busy busy_with(Rank rank);
  bool take_grant(fabric::EndpointId endpoint, fabric::Bytes header);
  void store_traffic();
  void protocol_error(Client& client, const Status& why);

  Outcome apply(Client& client, fabric::Bytes payload, Status* failure);
  Outcome apply_put(Client& client, const memory::Region& region, fabric::Bytes payload,
                    Status* failure);
  Outcome apply_accumulate(Client& client, const memory::Region& region, fabric::Bytes payload,
                           Status* failure);
  Outcome apply_fetch_update(Client& client, const memory::Region& region, fabric::Bytes payload,
                             Status* failure);
  // The elements of an accumulate or a fetching update, and where they go.
  struct Change {
    memory::Update what;
    uint64_t bytes = 0;        // of the elements
    fabric::Bytes operands;    // as many; of a no-op anything
    std::byte* old = nullptr;  // where the elements before it go; null: nowhere
  };
  Status read_update(memory::Update* what) const;
  Outcome change(Client& client, const memory::Region& region, const Change& change,
                 Status* failure);
  memory::Applied change_from(const memory::Region& region, const Change& change, uint64_t done);
  Status check_change(const memory::Region& region, const Change& change) const;
  Outcome apply_notify(Client& client, const memory::Region& region, Status* failure);
  Outcome apply_get(Client& client, const memory::Region& region, fabric::Bytes payload,
                    Status* failure);
  Outcome apply_key(Client& client, const memory::Region& region, Status* failure);
  Outcome apply_rmw(Client& client, const memory::Region& region, Status* failure);
  Outcome apply_locked(Client& client, fabric::Bytes payload, Status* failure);
  Outcome apply_access(Client& client, fabric::Bytes payload, Status* failure);
  Status check_holder(const Client& client, lock::Holder holder) const;
  Outcome apply_lock(Client& client, Status* failure);
  Outcome apply_note(Client& client, Status* failure);
  Status check_mapped(const memory::Region& region) const;
  Status read_plain(const memory::Region& region, uint64_t bytes, fabric::Bytes* answer);
  Status read_shape(Shape* shape) const;
  Status read_pieces(const memory::Region& region, fabric::Bytes payload, fabric::Bytes* data);
  Status check_range(const memory::Region& region, uint64_t offset, uint64_t bytes) const;

  fabric::Verdict finish(Client& client, Outcome outcome, const Status& failure);
  void reply(Client& client, int code, uint64_t result, fabric::Bytes payload);
  // The same for a payload that lies in several places of a segment, longer than
  // inline_payload_bytes in all.
  void reply_gathered(Client& client, std::span<const fabric::Bytes> parts);
  wire::ReplyHeader reply_header(Client& client, int code, uint64_t result);
  void send_reply(Client& client, const wire::ReplyHeader& header, fabric::Bytes payload);
  void send_late(Client& client);
  void send_failure(Client& client, uint64_t number, int code, std::string_view text);
  fabric::SendResult send_close(const Client& client, wire::CloseKind kind);
  void answer_again(Client& client, fabric::Bytes payload);
  void mark_acknowledge(Client& client);
  void send_acknowledgement(Client& client);
  void send_acknowledgements();
  bool has_room(const Client& client) const;
  void retry_waiting_for_room();

  Status check_direct(const Client& client, uint64_t payload_bytes) const;
  std::byte* refuse_direct(Client& client, uint64_t payload_bytes, Status why);
  void on_close(Client& client, wire::CloseKind kind, fabric::Bytes header);
  Status check_addressee(const Client& client) const;

  // lock::Locks::Outlet
  void grant(const lock::Waiter& waiter) override;
  void relay_grant(Rank origin, uint32_t slot, uint32_t tag);
  void refuse(const lock::Locks::Asked& request, const Status& why) override;

  // fabric::Sink
  void on_connect_request(fabric::RequestId request, fabric::Bytes hello,
                          std::string_view peer) override;
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) override;
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  fabric::Verdict on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  void on_writable(fabric::EndpointId endpoint) override;
  void on_sent(fabric::EndpointId endpoint, uint64_t cookie) override;
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                 std::string_view detail) override;
  void on_watched(int fd, uint64_t cookie) override;

  ServerConfig config_;
  std::unique_ptr<fabric::Fabric> fabric_;
  Directory& directory_;
  NodeView view_;
  std::optional<memory::Stripes> stripes_;
  PointerTable<Client*, EndpointOf> clients_;  // owned
  // Every rank that ever connected is in one of these: those that are connected, wait for something
  // or have left an answer; and all others.
  std::unordered_map<Rank, Known> known_;
  session::Resting resting_;
  std::vector<Rank> left_;  // in this turn
  connection::Quota quota_;
  std::unordered_map<Rank, Held> held_;  // at most Quota::Limits::held, one for a rank
  lock::Locks locks_;
  std::unordered_map<NodeId, connection::Visitor> neighbours_;  // other servers that bring grants
  Relay relay_;
  std::unordered_map<uint64_t, std::unordered_map<Rank, Registration>>
      registrations_;              // by packed segment id; fabrics with RMA only
  Client* last_client_ = nullptr;  // cache of the last look-up
  std::vector<fabric::EndpointId> acknowledge_;
  std::vector<fabric::EndpointId> retry_;  // parked by a busy stripe
  std::vector<fabric::EndpointId> full_;   // parked until there is room for their answers
  std::unordered_map<int, std::function<void()>> watched_;
  wire::Request request_;  // the one being applied
  bool again_ = false;     // it was applied before: its answer is wanted once more, not its effect
  std::vector<Piece> pieces_;         // of the vector request being applied
  std::vector<std::byte> scratch_;    // packs the reply to a non-contiguous get
  std::vector<fabric::Bytes> parts_;  // of the strided get being answered from where its bytes lie
  Counters counters_;
  uint64_t unproven_ = 0;       // refused requests of peers that proved nothing
  uint64_t replayed_ = 0;       // and of those whose hello was used before
  uint32_t parked_rounds_ = 0;  // in a row, without anything getting done
  uint64_t requests_before_ = 0;
  std::vector<std::function<void()>> tasks_;  // being run
  Thread thread_;
#ifndef NDEBUG
  mutable std::atomic<const void*> owner_{nullptr};  // names the thread that took the last turn
#endif
  std::atomic<bool> stopping_{false};
  Mutex posted_mutex_;  // guards posted_ alone
  std::vector<std::function<void()>> posted_;
};

}  // namespace skerry::server
