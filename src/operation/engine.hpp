// The engine of a process: everything that leaves the node starts here and completes here. It owns
// the origin side of the fabric, one Link (connection machine + session) per data server it talks
// to, the completion slots of its rank, and the progress role.
//
// Files: links.cpp opens, evicts and resumes; requests.cpp builds and sends; rma.cpp the fabric's
// own puts and gets; completion.cpp is what servers answer; progress.cpp the helper thread;
// engine.cpp waits, fences, operations and slots.
//
// Threads. One mutex guards all state; public calls take it. Progress is a *role* that at most one
// thread holds: the holder sleeps in Fabric::poll without the mutex, then dispatches with it. A
// thread that waits takes the role if it is free, else sleeps on `changed_`; whoever gives the role
// back wakes the sleepers, who look whether they are done and, if not, one takes the role. No
// wake-up is lost: the predicate, the role flag and the condition variable are all under the mutex.
#pragma once

#include <algorithm>
#include <cstring>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "connection/core/admission.hpp"
#include "connection/core/machine.hpp"
#include "connection/core/victim.hpp"
#include "core/futex.hpp"
#include "core/thread.hpp"
#include "core/pure/element.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/rule.hpp"
#include "core/pure/shape.hpp"
#include "core/pure/status.hpp"
#include "fabric/fabric.h"
#include "memory/apply.hpp"
#include "memory/control.hpp"
#include "operation/trace.hpp"
#include "placement/node_map.hpp"
#include "session/replay_log.hpp"
#include "session/session.hpp"
#include "wire/message.hpp"

namespace skerry::operation {

// Whose memory, and which segment.
struct Target {
  Rank rank = no_rank;
  SegmentId segment;
};

// One side of a transfer. Origin: `base` is the buffer's address. Target: `offset` lies in the
// slice. Exactly one of the three forms.
struct Side {
  enum class Form : uint8_t { contiguous, strided, pieces };
  Form form = Form::contiguous;
  std::byte* base = nullptr;      // origin only
  uint64_t offset = 0;            // target only
  uint64_t bytes = 0;             // of the packed stream
  const Shape* shape = nullptr;   // strided
  std::span<const Piece> pieces;  // pieces; origin: offsets relative to base
};

struct Accumulate {
  ElementType type = ElementType::float64;
  memory::Scale scale = memory::Scale::one();
};
struct Notify {
  uint64_t counter_offset = 0;
  uint64_t increment = 0;
};

using Handle = uint64_t;  // 0: nothing outstanding

// What an origin takes in this process, beyond the operating system's.
struct EngineMemory {
  uint64_t connections = 0;       // open or being opened, now
  uint64_t connection_bytes = 0;  // their endpoints, replay logs and batches
  uint64_t servers_known = 0;     // data servers that it has talked to
  uint64_t known_bytes = 0;       // what is kept of them, with or without a connection
  uint64_t fixed_bytes = 0;  // whatever the number of either: shared buffers, slots, the victim
                             // policy's tables
};

// What a thread that waits for other ranks' calls does meanwhile (skerry_while_waiting), after a
// pause that grows: often at first, when whoever needs the work is likely to be near; a rank that
// waits long costs a fraction of a per cent of a core.
struct WaitingWork {
  static constexpr int64_t first_pause_ns = 100'000;
  static int64_t next_pause_ns(int64_t pause_ns) {
    return std::min<int64_t>(pause_ns + pause_ns / 8, 1'000'000);
  }

  void (*call)(void* context) = nullptr;  // null: nothing, it only sleeps
  void* context = nullptr;
};

enum class Mode : uint8_t {
  blocking,  // returns at source done (put, accumulate) or with the data (get)
  handle,    // returns after issuing; completion through the handle
  implicit,  // the same; completion through wait_implicit
};

struct EngineConfig {
  Rank rank = no_rank;
  NodeId node = no_node;
  uint32_t incarnation = 1;
  connection::JobKey key{};
  const placement::NodeMap* map = nullptr;
  memory::Control control;
  uint32_t member_index = 0;
  bool one_thread_at_a_time = true;  // thread level below multiple
  bool helper = true;          // a thread moves non-blocking transfers while the program computes
  std::string victim = "lru";  // policy that chooses whose connection goes at the limit, see
                               // limit_connections
  bool servers_drop = false;   // data servers have a limit of their own, and close idle connections
  int64_t
      reconnect_limit_ns = 60'000'000'000;  // a server that cannot be reached for so long is lost
};

struct EngineCounters {
  uint64_t remote_operations = 0;
  uint64_t remote_bytes = 0;
  uint64_t connections_opened = 0;
  uint64_t connections_closed = 0;
  uint64_t connections_evicted = 0;  // closed to make place for another
  uint64_t connections_broken = 0;   // lost with requests outstanding ...
  uint64_t connections_resumed = 0;  // ... and opened again
  uint64_t connections_dropped = 0;  // closed by a server that needed the place, with nothing
                                     // outstanding
  uint64_t connections_now = 0;
  uint64_t connections_peak = 0;  // opening, open and leaving ones
  uint64_t requests_replayed = 0;
  uint64_t teardown_ns = 0;          // from each eviction to its end, summed
  uint64_t teardown_exposed_ns = 0;  // of that, what somebody waited for: choosing, saying bye, and
                                     // a place that was not free yet
  uint64_t teardowns_hidden = 0;     // evictions that kept nobody waiting
  uint64_t setup_ns = 0;             // from each connect to its answer, summed
  uint64_t setup_exposed_ns = 0;     // of that, what somebody waited for
  uint64_t link_bytes = 0;           // what links take now, replay logs and batches included
  uint64_t links = 0;                // servers this process has talked to
  uint64_t fences = 0;
};

class Engine final : private fabric::Sink {
 public:
  Engine(EngineConfig config, std::unique_ptr<fabric::Fabric> fabric);
  ~Engine() override;

  Status put(const Target& target, const Side& to, const Side& from, const Notify* notify,
             Mode mode, Handle* handle);
  // The fast path of small non-blocking contiguous puts: true if it joined the batch that is being
  // collected for this very target.
  bool join_batch(const Target& target, uint64_t offset, const void* from, uint64_t bytes) {
    const Lock lock(mutex_);
    if (batching_ == nullptr || !batching_->takes(target, bytes) ||
        bytes > Batch::longest_put_bytes)
      return false;
    batching_->add(offset, static_cast<const std::byte*>(from), bytes);
    ++counters_.remote_operations;
    counters_.remote_bytes += bytes;
    return true;
  }
  Status get(const Target& target, const Side& from, const Side& to, Mode mode, Handle* handle);
  Status accumulate(const Target& target, const Side& to, const Side& from, const Accumulate& what,
                    Mode mode, Handle* handle);
  Status read_modify_write(const Target& target, uint64_t offset, wire::Rmw op, uint64_t operand,
                           uint64_t expected, uint64_t* old);
  // Blocks until granted. `holder` distinguishes threads of this rank.
  Status lock(const Target& target, uint64_t index, uint64_t holder);
  Status unlock(const Target& target, uint64_t index, uint64_t holder);

  Status wait(Handle* handle);
  Status test(Handle* handle, bool* done);
  Status wait_implicit();
  Status fence(placement::ServerRef server);
  Status fence_all();
  // A completion slot for a wait within the node (a mutex); given back when free again. May block
  // while replies to others are outstanding.
  Status borrow_slot(uint32_t* slot);
  void return_slot(uint32_t slot);
  // Before sleeping on something else than the fabric: nothing issued so far may depend on this
  // thread coming back.
  Status push_out();
  // The helper thread looks at the control segment: it must have ended before that is unmapped. For
  // good.
  void stop_helper();
  // All connections closed in order. Nothing may be issued afterwards.
  Status close_all();

  // For lock, called without the mutex. Set while no thread waits.
  void while_waiting(WaitingWork work) { work_ = work; }

  EngineCounters counters();
  EngineMemory memory();
  fabric::Fabric::Traffic traffic();
  // From now on at most so many connections (0: no limit). Those beyond leave as their places are
  // needed.
  Status limit_connections(uint32_t max_connections);
  // Before the first request: writes down each of them in `prefix`.`rank`.
  Status trace_requests(const std::string& prefix);

 private:
  // Small non-blocking puts in a row to one rank's slice travel as one vector put: a header, a
  // number and a system call for all of them. The buffer is the payload: the table grows from its
  // start, the data from its middle; a batch that is not full closes the gap.
  struct Batch {
    static constexpr uint64_t most_pieces = 2048;
    static constexpr uint64_t table_bytes = most_pieces * sizeof(Piece);
    static constexpr uint64_t most_bytes = fabric::inline_payload_bytes - table_bytes;
    static constexpr uint64_t longest_put_bytes = 256;  // longer ones gain nothing

    Target target;
    uint64_t pieces = 0;
    uint64_t bytes = 0;  // of data
    std::byte payload[table_bytes + most_bytes];

    bool takes(const Target& other, uint64_t put_bytes) const {
      return pieces < most_pieces && bytes + put_bytes <= most_bytes && target.rank == other.rank &&
             target.segment == other.segment;
    }
    void add(uint64_t offset, const std::byte* from, uint64_t put_bytes) {
      const Piece piece{offset, put_bytes};
      std::memcpy(payload + pieces++ * sizeof(Piece), &piece, sizeof piece);
      std::byte* const to = payload + table_bytes + bytes;
      if (put_bytes == 8) [[likely]]
        std::memcpy(to, from, 8);
      else if (put_bytes > 0)
        std::memcpy(to, from, put_bytes);  // `from` may be null when there is nothing to put
      bytes += put_bytes;
    }
    fabric::Bytes close() {
      if (pieces < most_pieces)
        std::memmove(payload + pieces * sizeof(Piece), payload + table_bytes, bytes);
      return {payload, pieces * sizeof(Piece) + bytes};
    }
  };

  struct Link {
    placement::ServerRef server;
    uint32_t index;  // in all_links_: the server's name for the victim policy
    connection::Machine machine;
    session::OriginSession session;
    fabric::EndpointId endpoint = fabric::no_endpoint;
    uint64_t nonce = 0;      // of the current opening, to check the answer
    Status failure;          // not ok: the server cannot be reached any more
    Status request_failure;  // first one-way request that the server refused; reported by the next
                             // fence or wait
    uint64_t failure_number = 0;              // newest request of whose refusal we heard
    std::unique_ptr<session::ReplayLog> log;  // null: nothing is outstanding
    std::unique_ptr<Batch> batch;  // null: none lately. Its puts come before whatever is sent next
    std::unordered_map<Rank, uint64_t> last_message;  // to each target rank since the session was
                                                      // last drained; only on fabrics with RMA
    uint64_t sent = 0;  // newest request that was handed to the fabric, on this connection or an
                        // earlier one. Those beyond it are queued in the log
    uint64_t queued_bytes = 0;     // copied payload of these
    uint32_t queued_replies = 0;   // of waiting_replies: of requests that are queued
    uint64_t implicit_number = 0;  // implicit by-reference puts are done when this request is
                                   // acknowledged
    uint64_t replay_next = 0;  // the next request to look at for sending again; 0: not replaying
    uint32_t replay_slot = 0;  // the next slot to look at for a lock to be asked for again
    uint32_t waiting_replies = 0;
    uint32_t lock_waits = 0;            // of these, requests for mutexes
    uint32_t rma_outstanding = 0;       // puts and gets of the fabric's own that are not done
    uint32_t rma_gets_outstanding = 0;  // of these the gets: whatever is sent before they are done
                                        // might change what they read
    uint32_t gets_waiting = 0;          // of waiting_replies: gets, see Pending::from
    uint32_t waiters = 0;               // threads in wait_open
    uint32_t retries = 0;               // attempts since something last got through
    bool blocked = false;               // send said would_block; on_writable clears it
    bool bye_waits = false;             // likewise, of a bye
    bool corked = false;                // the fabric holds back messages of ours until flush
    bool wanted = false;                // it is in wanted_
    bool fresh = false;  // nothing was acknowledged since it was opened: not evicted from under a
                         // thread that waits for it, or two would evict each other for ever
    uint32_t transfers = 0;  // sent in parts by threads that are at it: the server acknowledges the
                             // parts together, so none is left half sent
    bool early = false;      // requests were sent right behind the hello of the current opening
    bool dropped = false;    // the server said that it needs the place
    int64_t trouble_since_ns = 0;  // 0: none. Monotonic time of the first failure since something
                                   // last got through
    int64_t retry_at_ns = 0;       // not to be opened before
    int64_t since_ns = 0;          // while opening, draining or closing: since when

    Link(placement::ServerRef s, uint32_t i, uint32_t incarnation)
        : server(s), index(i), session(incarnation, session::Credits{}) {}
    bool has_batch() const { return batch && batch->pieces > 0; }
    bool is_ready() const {
      return machine.state() == connection::State::open && !blocked && replay_next == 0;
    }
    bool may_send() const {
      return machine.sendable() && !blocked && replay_next == 0 && !has_queued();
    }
    bool has_queued() const { return sent < session.issued(); }
  };

  // What a process keeps for a data server it has talked to, for the rest of the job, beside a map
  // entry; nothing for those it has not.
  static_assert(sizeof(Link) <= 480);

  // A non-blocking (or blocking) operation that is under way.
  struct Op {
    uint32_t index = 0;       // in ops_
    uint32_t generation = 1;  // of the handle: a handle that was waited for already is recognised
    uint32_t waiting_replies = 0;
    Link* link = nullptr;
    uint64_t number = 0;  // 0, or: done when the session acknowledged this request (payloads sent
                          // by reference)
    Status status;
    bool used = false;
    bool open = false;  // the caller has its handle
  };

  // Bytes of somebody's slice.
  struct Extent {
    Target target;
    uint64_t begin = 0;
    uint64_t end = 0;  // equal to begin: none
    bool overlaps(const Extent& other) const {
      return begin < other.end && other.begin < end && target.rank == other.target.rank &&
             target.segment == other.target.segment;
    }
  };

  // What to do with the reply for a slot.
  struct Pending {
    Op* op = nullptr;  // null: slot is free
    Link* link = nullptr;
    uint64_t number = 0;
    std::byte* land = nullptr;  // contiguous origin: here
    uint64_t bytes = 0;
    std::optional<memory::Cursor> cursor;  // else: unpack at this cursor relative to `base`
    std::byte* base = nullptr;
    std::shared_ptr<const std::vector<Piece>> pieces;  // what the cursor walks, if it walks pieces
    uint64_t* result = nullptr;  // read-modify-write: where the old value goes
    Extent from;  // get: what it reads. A long one is sent from where it lies while the server
                  // applies what follows, and any is read anew after a break
    std::unique_ptr<std::vector<std::byte>>
        lock_request;  // lock: encoded, to ask again whether it was granted. Null: no lock
  };

  // A put or get of the fabric's own that is under way. It has no number of its own: it takes its
  // place in the session by waiting for the messages before it and by making those after it wait
  // (docs/design/0003-rma-order.md).
  struct Rma {
    Op* op;
    Link* link;
    bool is_get;
    std::byte* local;
    fabric::RemoteKey key;
    uint64_t at;  // offset in what the key names
    uint64_t bytes;
    uint64_t after_number;        // the newest request when it was issued
    fabric::EndpointId endpoint;  // on which
  };
  struct SegmentKey {  // of a target's slice
    fabric::RemoteKey key;
    uint64_t offset = 0;
  };
  static constexpr size_t max_keys = 1024;

  // What may be queued at links without a connection (docs/design/0018-lazy-opening.md), of all
  // links together.
  static constexpr uint64_t max_queued_requests = 4096;
  static constexpr uint64_t max_queued_bytes = 4u << 20;

  static constexpr uint64_t
      eager_help_bytes = 32 * 1024;  // below, waking the helper costs more than it hides
  static constexpr uint64_t landing_part_bytes = 8u << 20;  // long transfers are cut, so that no
                                                            // message occupies a server for long

  // account
  EngineMemory account() const;
  // Locks may wait for ever: the last slots are for requests that are always answered, among them
  // what the mutex's holder does.
  enum class Wait : uint8_t { answered, for_ever };

  // links
  static uint64_t link_key(placement::ServerRef server) {
    return uint64_t{static_cast<uint32_t>(server.node)} << 16 | server.index;
  }
  Link& link_to(placement::ServerRef server);
  Link* link_of(fabric::EndpointId endpoint);
  // Anything that is not done, be it queued: a fence waits for it.
  bool unacknowledged(const Link& link) const {
    return !link.session.drained() || link.waiting_replies > parked_locks(link) ||
           link.rma_outstanding > 0 || link.has_batch();
  }
  // Anything that must be done before the connection may go: acknowledged, answered. What is queued
  // waits for the next one. A mutex that is waited for keeps no connection: the server finds
  // another way to tell of its grant.
  bool in_flight(const Link& link) const {
    return link.session.applied() < link.sent ||
           link.waiting_replies - link.queued_replies > parked_locks(link) ||
           link.rma_outstanding > 0 || (link.has_batch() && !queues());
  }
  uint32_t parked_locks(const Link& link) const;
  // Do requests that nobody waits for yet queue while their server has no connection? Only under a
  // cap: else opening early costs nothing. Without the helper nobody would see to those of a
  // program that stops calling us; and the fabric's own transfers take no place in the log.
  bool queues() const {
    return max_connections_ != 0 && config_.helper && !fabric_->capabilities().rma;
  }
  // Whoever sends nevertheless has seen to it that the link is ready.
  bool queues_now(const Link& link) const {
    return link.has_queued() || (queues() && !link.is_ready());
  }
  bool may_queue(const Link& link, uint64_t copied_bytes) const;
  void queue(Link& link, uint64_t copied_bytes, bool awaits_reply);
  void note_sent(Link& link, uint64_t number);
  bool send_queued(Link& link);
  void push(Link& link);
  void open_queued();
  Status wait_connected(Lock& lock, Link& link);
  void forget_queued(Link& link);
  void resume(Link& link, uint64_t from);
  Status wait_slot(Lock& lock, Wait wait);
  bool at_limit() const {
    return SKERRY_RULE(connection_limit) && max_connections_ != 0 && occupied_ >= max_connections_;
  }
  connection::Action step(Link& link, connection::Event event);
  void drive(Link& link, connection::Event event);
  void send_bye(Link& link, bool more);
  void connect(Link& link);
  void disconnect(Link& link, bool drained = false);
  void want(Link& link);
  void unwant(Link& link);
  void advance_links();
  bool advance(Link& link, int64_t now_ns);
  bool make_place();
  bool leave_now();
  void replay(Link& link);
  bool replay_rma(Link& link, uint64_t up_to);
  void trouble(Link& link, std::string_view what, bool at_once);
  Status acknowledge(Link& link, uint64_t applied);
  Status wait_open(Lock& lock, Link& link);
  Status wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes, bool may_wait = false);
  void fail(Link& link, Status status);
  // Fails the link and closes its endpoint: whatever is under way on it neither lands nor is read
  // from our buffers any more.
  void cut(Link& link, Status status);
  void maybe_drained(Link& link);
  void tidy(Link& link);

  // requests
  static Extent extent_of(const Target& target, const Side& side);
  // True if a get that was issued earlier still reads these bytes: a write to them must not be sent
  // yet, else it might be seen by that get.
  bool is_being_read(const Link& link, const Extent& extent) const;
  wire::Request& begin(wire::Kind kind, const Target& target, Link& link);
  // Encodes request_ and sends it; takes its number. Answers false if it would block (nothing was
  // sent).
  bool send_batch(Link& link);
  Status batch_put(Lock& lock, Link& link, const Target& target, uint64_t offset,
                   const std::byte* from, uint64_t bytes);
  void cork(Link& link);
  // Where the payload lies until the request is acknowledged, should it have to be sent again.
  enum class Payload : uint8_t {
    copied,      // send copies it into the replay log
    packed,      // it lies at the front of the room that was just reserved there
    referenced,  // in the caller's buffer, which waits for the acknowledgement
  };
  session::ReplayLog& log_of(Link& link) {
    if (!link.log) link.log = std::make_unique<session::ReplayLog>();
    return *link.log;
  }
  bool send(Link& link, fabric::Bytes payload, Payload where, uint64_t credit_bytes, bool more,
            bool awaits_reply, uint64_t* number);
  Status send_stream(Lock& lock, Link& link, wire::Kind kind, const Target& target, const Side& to,
                     const Side& from, const Accumulate* what, const Notify* notify, Mode mode,
                     Op* op);
  Status send_all(Lock& lock, Link& link, wire::Kind kind, const Target& target, const Side& to,
                  const Side& from, const Accumulate* what, const Notify* notify, Mode mode,
                  Handle* handle);
  void describe_target(const Side& side, uint64_t done, size_t pieces);
  Status request_stream(Lock& lock, Link& link, const Target& target, const Side& from,
                        const Side& to, Op* op);
  Status rma_stream(Lock& lock, Link& link, const Target& target, uint64_t offset, std::byte* local,
                    uint64_t bytes, bool is_put, Op* op);
  Status key_of(Lock& lock, Link& link, const Target& target, SegmentKey* key);
  bool use_rma(uint64_t bytes, const Side& a, const Side& b) const;
  Status request_reply(const Target& target, uint64_t offset, wire::Kind kind, uint8_t type,
                       wire::Operands operands, uint64_t* result);

  // slots and operations
  Op* new_op();
  void free_op(Op* op);
  Op* find_op(Handle handle);
  Handle handle_of(const Op* op) const;
  bool op_done(const Op& op) const {
    return op.waiting_replies == 0 &&
           (op.number == 0 || op.link->session.applied() >= op.number || !op.link->failure.ok());
  }
  Status op_status(Op& op);
  static constexpr size_t slots_kept = 8;
  bool has_slot(Wait wait) const {
    return free_slots_.size() > (wait == Wait::for_ever ? slots_kept : 0);
  }
  bool take_slot(uint32_t* index, Wait wait = Wait::answered);
  void arm(uint32_t index, Op* op, Link* link);
  void release(uint32_t index);
  memory::CompletionSlot& slot(uint32_t index) const;
  Status finish_op(Lock& lock, Op* op, Mode mode, uint64_t bytes, Handle* handle);
  Status finish_lock(Lock& lock, Op* op, uint32_t index);

  // progress
  template <class Done>
  Status wait_until(Lock& lock, Done&& done, const Link* only = nullptr,
                    int64_t slice_ns = wait_slice_ns);
  int64_t patience_ns() const;
  void poke(Lock& lock);
  void flush_corked();
  Status abort_status() const;
  // The job is ending: waits are cut short and their callers take their buffers back, so that
  // nothing may land there or be sent from there any more. Looked at with the mutex held before
  // every dispatch and flush: who saw the end has the mutex before who would touch its buffer.
  bool is_ending() const { return config_.control && config_.control.is_aborted(); }
  void dispatch() {
    if (!is_ending()) fabric_->dispatch(*this);
  }
  void call_helper(bool eager);
  void help();
  void keep_watch(Lock& lock);
  void watch_over() {
    if (!helper_watches_ && !helper_awake_) call_helper(false);
  }
  // Do answers come that a program which computes leaves to the helper?
  bool answers_come() const {
    return (implicit_.waiting_replies > 0 || open_handles_ > 0) &&
           (queued_.empty() || slots_in_use_ > queued_replies_);
  }
  bool help_is_needed() const { return answers_come() || !corked_.empty() || !wanted_.empty(); }

  // fabric::Sink
  void on_connect_request(fabric::RequestId, fabric::Bytes, std::string_view) override {}
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes reply) override;
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* on_landing(fabric::EndpointId endpoint, fabric::Bytes header,
                        uint64_t payload_bytes) override;
  fabric::Verdict on_landed(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  void on_writable(fabric::EndpointId endpoint) override;
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId endpoint, uint64_t cookie, bool ok) override;
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                 std::string_view detail) override;
  void on_watched(int, uint64_t) override {}
  void complete(uint32_t index, int code, fabric::Bytes payload, bool landed, uint64_t result);

  EngineConfig config_;
  WaitingWork work_;
  std::unique_ptr<fabric::Fabric> fabric_;
  Mutex mutex_;
  Condition changed_;
  bool role_taken_ = false;
  bool helper_has_role_ = false;
  bool helper_awake_ = false;
  bool helper_watches_ = false;  // it looks by itself now and then: nobody need wake it for
                                 // requests that no thread waits for
  uint64_t requests_sent_ = 0;
  bool helper_stop_ = false;
  bool helper_eager_ = false;  // a long transfer was issued: the helper takes the role at once if
                               // it is free
  uint64_t user_rounds_ = 0;   // times a thread of the program took the role
  uint32_t open_handles_ = 0;  // non-blocking operations that were not done when they were issued
                               // and not waited for yet
  Condition helper_call_;
  Thread helper_;  // started with the first non-blocking operation that leaves something to do
  uint32_t sleepers_ = 0;                                      // threads in changed_
  std::unordered_map<uint64_t, std::unique_ptr<Link>> links_;  // by node << 16 | index
  std::vector<Link*>
      all_links_;  // the same, to walk while the mutex is given up now and then: it only grows
  std::unordered_map<fabric::EndpointId, Link*> by_endpoint_;
  Batch* batching_ = nullptr;  // a batch that is open and corked; null: none
  Link* last_link_ = nullptr;  // cache of the last look-up
  std::vector<Link*> corked_;
  std::vector<Link*> wanted_;     // to be opened, in the order of asking
  std::vector<Link*> queued_;     // have queued requests; oldest first
  uint64_t queued_requests_ = 0;  // of all links
  uint64_t queued_bytes_ = 0;
  uint64_t queued_replies_ = 0;
  int64_t queued_since_ns_ = 0;   // since when there are any
  int64_t next_retry_ns_ = 0;     // earliest retry_at_ns of these; 0: none waits for its time
  uint32_t max_connections_ = 0;  // 0: no limit
  uint32_t occupied_ = 0;         // links opening or open
  uint32_t leaving_ = 0;          // links draining or closing
  bool making_place_ = false;
  fabric::EndpointId
      held_bye_ = fabric::no_endpoint;  // a bye that goes out when the newcomer's connect has
  int64_t denied_since_ns_ = 0;  // since when somebody waits for a link that is leaving; 0: nobody
  bool leave_waited_ = false;    // somebody waits for who is leaving
  std::unique_ptr<connection::VictimPolicy> policy_;  // null: no limit
  std::unordered_map<uint64_t, Rma> rma_;             // by cookie
  uint64_t next_cookie_ = 0;
  std::unordered_map<uint64_t, std::unordered_map<Rank, SegmentKey>>
      keys_;  // by packed segment id; emptied when it grows beyond max_keys
  size_t keys_count_ = 0;
  std::vector<Pending> pending_;  // one per completion slot of this rank
  std::vector<uint32_t> free_slots_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<uint32_t> free_ops_;
  Op implicit_;            // all implicit gets
  wire::Request request_;  // the request being built, likewise
  EngineCounters counters_;
  uint64_t slots_in_use_ = 0;
  std::unique_ptr<RequestTrace> trace_;  // null: none is written
};

// Sleeps until done() or the end of the job. `only`: nothing but this link's endpoint can make it
// done (see Fabric::poll). Asks done() every `slice_ns` at least.
template <class Done>
Status Engine::wait_until(Lock& lock, Done&& done, const Link* only, int64_t slice_ns) {
  const Waiting waiting(trace_.get());
  while (!done()) {
    if (is_ending()) return abort_status();
    if (role_taken_) {
      if (!corked_.empty())
        flush_corked();  // what we wait for may be held back itself, and who has the role sleeps in
                         // the fabric
      ++sleepers_;
      if (helper_has_role_)
        fabric_
            ->wake();  // a thread that waits is closer to its data than the helper: it takes over
      changed_.wait_for(lock, slice_ns);
      --sleepers_;
      continue;
    }
    if (!wanted_.empty()) {
      advance_links();
      if (done()) break;  // a link may have failed
    }
    role_taken_ = true;
    ++user_rounds_;
    if (!corked_.empty()) flush_corked();
    const fabric::EndpointId endpoint = only != nullptr && wanted_.empty() ? only->endpoint
                                                                           : fabric::no_endpoint;
    const int64_t timeout_ns = std::min(patience_ns(), slice_ns);
    lock.unlock();
    fabric_->poll(timeout_ns, endpoint);
    lock.lock();
    dispatch();
    role_taken_ = false;
    if (sleepers_ > 0) changed_.notify_all();
  }
  return {};
}

}  // namespace skerry::operation
