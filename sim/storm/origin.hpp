// A simulated origin process: threads of a program, and a small driver around the product's
// connection machine, victim policy, origin session, replay log and wire format. The driver plays
// the part of src/operation, without its threads.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "connection/core/admission.hpp"
#include "connection/core/machine.hpp"
#include "connection/core/victim.hpp"
#include "session/replay_log.hpp"
#include "session/session.hpp"
#include "sim/storm/checker.hpp"
#include "sim/storm/config.hpp"
#include "sim/storm/network.hpp"
#include "wire/message.hpp"

namespace skerry::sim {

class StormOrigin final : public OriginSink {
 public:
  StormOrigin(uint32_t index, const StormConfig& config, const connection::JobKey& key,
              Queue& queue, Random& random, Network& network, Checker& checker);

  void on_connected(ConnectionId connection, std::span<const std::byte> answer) override;
  void on_message(ConnectionId connection, const Frame& frame) override;
  void on_closed(ConnectionId connection) override;
  void on_slot(const Frame& frame) override;

  // Lets the threads go on as far as they can, and connections with them.
  void pump();
  bool finished() const;
  // All threads have ended and everything is closed.
  bool closed() const;
  std::string describe() const;
  void check();

  uint64_t evictions() const { return evictions_; }
  uint64_t resumes() const { return resumes_; }
  uint64_t most_log_bytes() const { return most_log_bytes_; }

 private:
  struct Link {
    uint32_t server = 0;
    connection::Machine machine;
    session::OriginSession session;
    session::ReplayLog log;
    ConnectionId connection = no_connection;
    connection::Hello hello{};
    bool ready = false;   // open, and the server told what it has applied: new requests may go
    bool fresh = false;   // no request has completed on this connection yet: not a victim
    uint32_t wanted = 0;  // threads that want to issue to it now
    uint32_t waiting_replies = 0;  // without locks, whose grants need no connection
    uint32_t parked_locks = 0;
    bool must_resume = false;  // it broke with something outstanding
    Time retry_at = 0;
    explicit Link(const session::Credits& credits) : session(1, credits) {}
    bool unacknowledged() const { return !session.drained() || waiting_replies > 0; }
  };
  struct Slot {
    std::shared_ptr<Op> op;  // null: free
    Link* link = nullptr;
    uint32_t tag = 0;
  };
  // What a thread does next. A thread that cannot go on stays at its step.
  struct Step {
    enum class Kind : uint8_t { issue, fence, compute } kind = Kind::issue;
    std::shared_ptr<Op> op;      // issue
    bool blocking = false;       // issue: and wait until it is done
    bool from_last_get = false;  // the put's value is one more than the last get's result
    uint32_t server = 0;         // fence
    int64_t for_ns = 0;          // compute
  };
  struct Thread {
    uint32_t index = 0;
    uint32_t left = 0;  // operations still to be drawn
    std::deque<Step> steps;
    std::vector<std::shared_ptr<Op>> under_way;  // non-blocking ones
    std::shared_ptr<Op> waits_for;               // null: for nothing
    std::shared_ptr<Op> last_get;
    std::optional<uint64_t> fence_number;  // of the fence under way
    Time computes_until = 0;
    Link* wants = nullptr;  // counted in its `wanted`
  };

  void draw(Thread& thread);
  bool advance(Thread& thread);  // false: it has to wait
  bool issue(Thread& thread, const std::shared_ptr<Op>& op);
  void want(Thread& thread, Link* link);
  void send(Link& link, uint64_t number);
  void resume(Link& link);
  bool try_open(Link& link);
  void drive(Link& link, connection::Event event, uint32_t generation);
  void maybe_drained(Link& link);
  void complete(const wire::ReplyHeader& header, const Bytes& payload, Link* link);
  void wake(Time at);
  Link* link_of(ConnectionId connection);
  uint32_t counted() const;  // opening and open
  uint32_t leaving() const;  // draining and closing
  connection::Peer peer(const Link& link) const {
    return {link.server, 0, wire::version, connection::Role::server};
  }

  uint32_t index_;
  const StormConfig& config_;
  const connection::JobKey& key_;
  Queue& queue_;
  Random& random_;
  Network& network_;
  Checker& checker_;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<ConnectionId, Link*> by_connection_;
  std::unique_ptr<connection::VictimPolicy> policy_;  // null: no cap
  std::vector<Thread> threads_;
  std::vector<Slot> slots_;
  bool closing_all_ = false;
  bool pumping_ = false;
  Time wake_at_ = -1;
  uint64_t evictions_ = 0;
  uint64_t resumes_ = 0;
  uint64_t most_log_bytes_ = 0;
};

}  // namespace skerry::sim
