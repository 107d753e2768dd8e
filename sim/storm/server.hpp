// A simulated data server: TargetSession, admission and wire are the product's; memory, mutexes and
// the loop around them are small ones.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "connection/core/admission.hpp"
#include "session/session.hpp"
#include "sim/storm/checker.hpp"
#include "sim/storm/config.hpp"
#include "sim/storm/network.hpp"
#include "wire/message.hpp"

namespace skerry::sim {

class StormServer final : public ServerSink {
 public:
  StormServer(uint32_t index, const StormConfig& config, const connection::JobKey& key,
              Queue& queue, Random& random, Network& network, Checker& checker)
      : index_(index),
        config_(config),
        key_(key),
        queue_(queue),
        random_(random),
        network_(network),
        checker_(checker),
        memory_(config.words) {}

  void on_connect_request(ConnectionId connection, std::span<const std::byte> hello) override;
  void on_message(ConnectionId connection, Frame frame) override;
  void on_closed(ConnectionId connection) override;

  // The server wants to be rid of an idle connection (its cap, or chance).
  void ask_to_close(ConnectionId connection);
  void ask_somebody();
  void pause(int64_t for_ns) { paused_until_ = queue_.now() + for_ns; }

  const std::vector<uint64_t>& memory() const { return memory_; }
  size_t clients() const { return clients_.size(); }
  size_t newcomers() const { return newcomers_.size(); }
  uint64_t most_clients() const { return most_clients_; }
  uint64_t duplicates() const { return duplicates_; }
  // Rules that hold after every step.
  void check();

 private:
  struct Client {
    uint32_t origin = 0;
    std::deque<Frame> unread;
    Time parked_until = 0;
    Time last_heard = 0;
    bool acknowledge = false;
    bool asked = false;  // please_close was sent
  };
  struct Known {
    session::TargetSession session{1};
    uint32_t generation = 0;
    ConnectionId connection = no_connection;
  };
  struct Waiter {
    uint32_t origin;
    uint32_t slot;
    uint32_t tag;
    uint64_t holder;
    uint64_t number;
  };
  struct Mutex {
    std::deque<Waiter> queue;
    bool held = false;
    Waiter holder{};  // while held
  };

  void admit(ConnectionId connection, const connection::Hello& hello);
  void admit_newcomers();
  void drop(ConnectionId connection);
  void schedule_step(Time at);
  void step();
  bool handle(ConnectionId connection, Client& client,
              const Frame& frame);  // false: the connection is gone
  void execute(Client& client, const wire::Request& request, const Frame& frame, bool first);
  void grant_next(uint32_t mutex);
  void send_grant(const Waiter& waiter);
  void reply(Client& client, ConnectionId connection, const wire::Request& request, uint64_t result,
             Bytes payload);
  void send_applied(ConnectionId connection, Client& client);
  void protocol_error(ConnectionId connection, const std::string& why);
  connection::Peer self() const { return {index_, 0, wire::version, connection::Role::server}; }

  uint32_t index_;
  const StormConfig& config_;
  const connection::JobKey& key_;
  Queue& queue_;
  Random& random_;
  Network& network_;
  Checker& checker_;
  std::vector<uint64_t> memory_;
  std::map<ConnectionId, Client> clients_;
  std::map<uint32_t, Known> known_;
  std::map<uint32_t, Mutex> mutexes_;
  struct Newcomer {
    ConnectionId connection;
    connection::Hello hello;
  };
  std::deque<Newcomer> newcomers_;  // proved who they are and wait for their turn
  Time paused_until_ = 0;
  bool step_scheduled_ = false;
  ConnectionId current_ = no_connection;
  uint64_t most_clients_ = 0;
  uint64_t duplicates_ = 0;
};

}  // namespace skerry::sim
