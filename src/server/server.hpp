// The data server: one thread that applies the requests of other nodes to the memory of its own,
// and sleeps when there are none.
//
// It runs no user code, never waits for a user's thread and never blocks on sending: what cannot go
// on (a stripe is held, a peer takes no bytes, a mutex is taken) parks that session alone. Only its
// thread touches anything declared here, but for start, watch and stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "connection/core/admission.hpp"
#include "core/pure/ids.hpp"
#include "core/thread.hpp"
#include "fabric/fabric.h"
#include "memory/apply.hpp"
#include "memory/control.hpp"
#include "memory/stripes.hpp"
#include "placement/node_map.hpp"
#include "server/relay.hpp"
#include "session/session.hpp"
#include "wire/message.hpp"

namespace skerry::server {

enum class LockOutcome : uint8_t {
  granted,
  queued,
  busy,  // the mutex's guard is held, or there is no record for one more waiter: try again soon
};

// What the server asks of the memory of its node. Called by the server's thread only.
class Directory {
 public:
  virtual ~Directory() = default;
  // Where `rank`'s slice of the segment is mapped here. Errors: freed (no such segment: never
  // allocated here, or freed).
  virtual Status find(SegmentId segment, Rank rank, memory::Region* region) = 0;
  // A remote rank asks for mutex `index` of `rank`. Queued: whoever unlocks sees to its grant.
  virtual Status lock(SegmentId segment, Rank rank, uint64_t index, Rank origin, uint32_t slot,
                      uint32_t tag, uint64_t holder, LockOutcome* outcome) = 0;
  // Has a lock request that was queued been granted meanwhile? (Its origin lost its connection, and
  // with it perhaps the grant.)
  virtual Status holds(SegmentId segment, Rank rank, uint64_t index, uint64_t holder,
                       bool* granted) = 0;
  // Hands the mutex to the next waiter, through its slot or Server::grant. Outcome: granted
  // (released) or busy.
  virtual Status unlock(SegmentId segment, Rank rank, uint64_t index, Rank origin, uint64_t holder,
                        LockOutcome* outcome) = 0;
};

struct ServerConfig {
  placement::ServerRef self;
  connection::JobKey key{};
  int32_t ranks = 0;             // of the job
  uint32_t max_connections = 0;  // of origins; 0: no limit. Other data servers do not count
};

// What exists only once the node's control segment does.
struct NodeView {
  memory::Control control;
  uint32_t member_index = 0;  // of the rank that hosts the server: it signs stripes as that
  std::function<int32_t(Rank)> member_of;   // member index of a rank of this node, -1 for others
  const placement::NodeMap* map = nullptr;  // outlives the server
};

class Server final : private fabric::Sink {
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
  // Ends the thread. Connections are closed; nobody may need them any more.
  void stop();

  // Server's thread: the segment goes: what the fabric was told of it is taken back. Before it is
  // unmapped.
  void forget(SegmentId segment);
  // Server's thread: answers a parked lock request: over the origin's connection or, if it has
  // none, through its node's server.
  void grant(Rank origin, uint32_t slot, uint32_t tag);

  struct Counters {
    std::atomic<uint64_t> requests{0};
    std::atomic<uint64_t> bytes_sent{0};
    std::atomic<uint64_t> bytes_received{0};
    // Connections refused, in all and by reason: see Fabric::Strangers, and what it counts as
    // rejected:
    std::atomic<uint64_t> strangers{0}, strangers_silent{0}, strangers_left{0},
        strangers_crowded_out{0}, strangers_garbage{0};
    // no member of this job, or none that means this server in this role
    std::atomic<uint64_t> strangers_unproven{0};
    std::atomic<uint64_t> strangers_replayed{0};  // a hello of an older generation
    std::atomic<uint64_t> clients{0};
    std::atomic<uint64_t> clients_peak{0};  // most at one time
    // idle ones that made place for others under max_connections
    std::atomic<uint64_t> clients_dropped{0};
    // hellos of origins for which there was no place at once
    std::atomic<uint64_t> clients_waited{0};
    std::atomic<uint64_t> grants_relayed{0};  // through other servers, and taken by them
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
  // One open connection.
  struct Client {
    Rank rank = no_rank;
    fabric::EndpointId endpoint = fabric::no_endpoint;
    session::TargetSession* session = nullptr;
    bool acknowledge = false;  // requests were applied that no answer has told of yet; it is in
                               // acknowledge_
    uint64_t quiet_bytes = 0;  // applied since the last acknowledgement
    bool parked = false;       // its next message waits; it is in retry_ or in full_
    bool served = false;   // got something done since it was admitted: before that it is nobody's
                           // victim
    bool asked = false;    // to drain and say bye
    bool landing = false;  // a long payload of it is on its way
    bool answer_waits = false;  // the fabric did not take the answer to its bye yet
    bool leaving = false;       // its bye is answered: what is sent now may not be read any more
    uint64_t last_use = 0;      // by the server's count of messages
    int64_t since_ns = 0;  // with a limit only. When it was admitted or asked, or was last heard of
    struct Late {          // answers that the fabric did not take; sent first when it is writable
      wire::ReplyHeader header;
      std::vector<std::byte> payload;
    };
    std::vector<Late> late;
    std::deque<std::vector<std::byte>>
        sending;  // payloads of late answers that the fabric still reads from; oldest first
  };
  struct Known {  // what is kept of a rank between its connections
    explicit Known(uint32_t incarnation) : session(incarnation) {}
    session::TargetSession session;
    uint32_t generation = 0;  // of its newest connection; only grows
    fabric::EndpointId endpoint = fabric::no_endpoint;
  };
  static_assert(sizeof(Known) <= 48, "kept for every rank that ever connected");

  struct Waiting {  // an origin whose hello is proven, for which there is no place
    fabric::RequestId request;
    connection::Hello hello;
  };
  struct Neighbour {          // another data server that brings grants
    uint32_t generation = 0;  // of its newest connection; only grows
    fabric::EndpointId endpoint = fabric::no_endpoint;
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
  enum class Outcome : uint8_t { done, park, failed, answered };

  void run();
  Client* client_of(fabric::EndpointId endpoint);
  void drop(Client& client);
  void refuse_unproven(fabric::RequestId request);
  void refuse_replayed(fabric::RequestId request);
  bool has_place() const {
    return config_.max_connections == 0 || clients_.size() < config_.max_connections;
  }
  void admit(fabric::RequestId request, const connection::Hello& hello);
  void admit_waiting();
  bool make_place();
  void used(Client& client);
  bool may_drop(const Client& client, int64_t now_ns) const;
  void admit_neighbour(fabric::RequestId request, const connection::Hello& hello);
  bool take_grant(fabric::EndpointId endpoint, fabric::Bytes header);
  void store_strangers(const fabric::Fabric::Strangers& strangers);
  void protocol_error(Client& client, const Status& why);

  Outcome apply(Client& client, fabric::Bytes payload, Status* failure);
  Outcome apply_put(Client& client, const memory::Region& region, fabric::Bytes payload,
                    Status* failure);
  Outcome apply_accumulate(Client& client, const memory::Region& region, fabric::Bytes payload,
                           Status* failure);
  Outcome apply_notify(Client& client, const memory::Region& region, Status* failure);
  Outcome apply_get(Client& client, const memory::Region& region, fabric::Bytes payload,
                    Status* failure);
  Outcome apply_key(Client& client, const memory::Region& region, Status* failure);
  Outcome apply_rmw(Client& client, const memory::Region& region, Status* failure);
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
  void send_failure(Client& client, uint64_t number, int code, std::string_view text);
  fabric::SendResult send_close(const Client& client, wire::Kind kind);
  void answer_again(Client& client, fabric::Bytes payload);
  void mark_acknowledge(Client& client);
  void send_acknowledgement(Client& client);
  void send_acknowledgements();
  bool has_room(const Client& client) const;
  void retry_waiting_for_room();

  // fabric::Sink
  void on_connect_request(fabric::RequestId request, fabric::Bytes hello,
                          std::string_view peer) override;
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) override;
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* on_landing(fabric::EndpointId endpoint, fabric::Bytes header,
                        uint64_t payload_bytes) override;
  fabric::Verdict on_landed(fabric::EndpointId endpoint, fabric::Bytes header,
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
  std::unordered_map<fabric::EndpointId, std::unique_ptr<Client>> clients_;
  std::unordered_map<Rank, Known> known_;
  std::deque<Waiting> waiting_;  // longest waiting first; at most max_waiting, one for a rank
  std::unordered_map<NodeId, Neighbour> neighbours_;
  Relay relay_;
  uint64_t messages_ = 0;  // counts uses, for the least recent one
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
  uint64_t strangers_unproven_ = 0;
  uint64_t strangers_replayed_ = 0;
  Thread thread_;
  std::atomic<bool> stopping_{false};
  Mutex posted_mutex_;  // guards posted_ alone
  std::vector<std::function<void()>> posted_;
};

}  // namespace skerry::server
