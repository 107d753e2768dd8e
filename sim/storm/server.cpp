#include "sim/storm/server.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::sim {
namespace {

template <class Header>
Bytes bytes_of(const Header& header) {
  Bytes bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

// ---- connections ------------------------------------------------------------------------------

void StormServer::on_connect_request(ConnectionId connection, std::span<const std::byte> bytes) {
  connection::Hello hello;
  if (!connection::check_hello(key_, self(), bytes, &hello).ok() || hello.rank >= config_.origins ||
      hello.generation <= known_[hello.rank].generation) {
    network_.reject(connection);
    return;
  }
  Known& known = known_[hello.rank];
  // A resuming origin takes the place of its own old connection; others wait for their turn under
  // the server's cap.
  const bool has_place = known.connection != no_connection;
  if (config_.server_cap == 0 || has_place || clients_.size() < config_.server_cap) {
    admit(connection, hello);
    return;
  }
  newcomers_.push_back({connection, hello});
  ask_somebody();
}

// The order of what follows is the rule (docs/protocol.md): the old connection ends and what was
// unread of it is discarded, and only then is the last applied number told. Else a request that was
// told as not applied, and is replayed, would be applied from the old connection as well.
void StormServer::admit(ConnectionId connection, const connection::Hello& hello) {
  Known& known = known_[hello.rank];
  std::deque<Frame> kept;
  if (known.connection != no_connection) {
    const ConnectionId old = known.connection;
    if (config_.mutation == Mutation::keep_old_frames) kept = std::move(clients_[old].unread);
    drop(old);
    network_.close(old, Side::server);
  }
  known.generation = hello.generation;
  known.connection = connection;
  const auto answer = connection::make_answer(key_, self(), hello, known.session.applied());
  network_.accept(connection, {answer.begin(), answer.end()});
  Client& client = clients_[connection];
  client.origin = hello.rank;
  client.last_heard = queue_.now();
  client.unread = std::move(kept);
  if (!client.unread.empty()) schedule_step(queue_.now());
  most_clients_ = std::max<uint64_t>(most_clients_, clients_.size());
  // The connection it replaces may have been asked to make room; this one was not.
  if (!newcomers_.empty())
    queue_.schedule(queue_.now(), [this] {
      if (!newcomers_.empty()) ask_somebody();
    });
}

void StormServer::admit_newcomers() {
  while (!newcomers_.empty() && (config_.server_cap == 0 || clients_.size() < config_.server_cap)) {
    const Newcomer next = newcomers_.front();
    newcomers_.pop_front();
    if (next.hello.generation <= known_[next.hello.rank].generation)
      network_.reject(next.connection);  // overtaken by its own successor
    else admit(next.connection, next.hello);
  }
  if (!newcomers_.empty()) ask_somebody();
}

void StormServer::ask_somebody() {
  // The one heard of longest ago among those not asked yet: the others are on their way.
  const Client* longest = nullptr;
  ConnectionId chosen = no_connection;
  for (auto& [connection, client] : clients_)
    if (!client.asked && (longest == nullptr || client.last_heard < longest->last_heard))
      longest = &client, chosen = connection;
  if (chosen == no_connection) return;
  // Its origin may be deep in computation: a server short of places drops an idle connection
  // without asking, which is a break like any other.
  if (longest->unread.empty() && random_.chance(0.3)) {
    const wire::CloseHeader farewell{wire::version, static_cast<uint8_t>(wire::Kind::farewell), 0,
                                     1, known_[longest->origin].session.applied()};
    network_.send(chosen, Side::server, {bytes_of(farewell), {}});
    drop(chosen);
    network_.close(chosen, Side::server);
    admit_newcomers();
  } else {
    ask_to_close(chosen);
  }
}

void StormServer::ask_to_close(ConnectionId connection) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return;
  found->second.asked = true;
  const wire::CloseHeader please{wire::version, static_cast<uint8_t>(wire::Kind::please_close), 0,
                                 1, 0};
  network_.send(connection, Side::server, {bytes_of(please), {}});
}

void StormServer::drop(ConnectionId connection) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return;
  Known& known = known_[found->second.origin];
  if (known.connection == connection) known.connection = no_connection;
  clients_.erase(found);
}

void StormServer::on_closed(ConnectionId connection) {
  std::erase_if(newcomers_, [&](const Newcomer& n) { return n.connection == connection; });
  drop(connection);
  admit_newcomers();
}

void StormServer::protocol_error(ConnectionId connection, const std::string& why) {
  // Nothing in a storm forges messages, so whatever does not fit is our own fault.
  checker_.fail("server ", index_, " closes a connection to origin ", clients_[connection].origin,
                ": ", why);
  drop(connection);
  network_.close(connection, Side::server);
}

// ---- requests ---------------------------------------------------------------------------------

void StormServer::on_message(ConnectionId connection, Frame frame) {
  const auto found = clients_.find(connection);
  if (found == clients_.end()) return;
  found->second.unread.push_back(std::move(frame));
  found->second.last_heard = queue_.now();
  schedule_step(queue_.now() + random_.between(0, config_.service_ns));
}

void StormServer::schedule_step(Time at) {
  if (step_scheduled_) return;
  step_scheduled_ = true;
  queue_.schedule(std::max(at, paused_until_), [this] {
    step_scheduled_ = false;
    if (queue_.now() < paused_until_) schedule_step(paused_until_);
    else step();
  });
}

// One round: a few messages of each connection that is not parked, then one acknowledgement for
// each that had something applied.
void StormServer::step() {
  std::vector<ConnectionId> round;
  for (const auto& [connection, client] : clients_) round.push_back(connection);
  Time next = 0;
  for (const ConnectionId connection : round) {
    for (uint32_t budget = 1 + random_.below(4); budget > 0; --budget) {
      const auto found = clients_.find(connection);
      if (found == clients_.end() || found->second.unread.empty() ||
          found->second.parked_until > queue_.now())
        break;
      if (random_.chance(0.05)) {  // a busy stripe
        found->second.parked_until = queue_.now() + random_.between(1, 20 * config_.service_ns);
        break;
      }
      const Frame frame = std::move(found->second.unread.front());
      found->second.unread.pop_front();
      if (!handle(connection, found->second, frame)) break;
    }
  }
  for (auto& [connection, client] : clients_) {
    if (client.acknowledge) send_applied(connection, client);
    if (client.unread.empty()) continue;
    const Time at = std::max(client.parked_until, queue_.now() + config_.service_ns);
    next = next == 0 ? at : std::min(next, at);
  }
  if (next != 0) schedule_step(next);
}

void StormServer::send_applied(ConnectionId connection, Client& client) {
  client.acknowledge = false;
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::Kind::acknowledge);
  header.incarnation = 1;
  header.applied = known_[client.origin].session.applied();
  network_.send(connection, Side::server, {bytes_of(header), {}});
}

void StormServer::reply(Client& client, ConnectionId connection, const wire::Request& request,
                        uint64_t result, Bytes payload) {
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::Kind::reply);
  header.incarnation = 1;
  header.applied = known_[client.origin].session.applied();
  header.number = request.header.number;
  header.slot = request.header.reply_slot;
  header.tag = request.header.reply_tag;
  header.result = result;
  client.acknowledge = false;
  network_.send(connection, Side::server, {bytes_of(header), std::move(payload)});
}

bool StormServer::handle(ConnectionId connection, Client& client, const Frame& frame) {
  wire::Kind kind;
  if (!wire::peek(frame.header, &kind).ok())
    return protocol_error(connection, "a message of no kind"), false;
  session::TargetSession& session = known_[client.origin].session;
  if (kind == wire::Kind::bye) {
    wire::CloseHeader bye;
    if (!wire::decode(frame.header, &bye).ok())
      return protocol_error(connection, "a bye that does not decode"), false;
    if (bye.last_number != session.applied())
      return protocol_error(connection, concat("bye says ", bye.last_number, ", applied are ",
                                               session.applied())),
             false;
    if (!client.unread.empty()) return protocol_error(connection, "something follows a bye"), false;
    const wire::CloseHeader answer{wire::version, static_cast<uint8_t>(wire::Kind::bye_answer), 0,
                                   1, session.applied()};
    network_.send(connection, Side::server, {bytes_of(answer), {}});
    // The origin closes when it has the answer, so what would follow it is lost: from now on grants
    // travel through the origin's own node.
    Known& known = known_[client.origin];
    if (known.connection == connection) known.connection = no_connection;
    return true;
  }
  wire::Request request;
  if (Status status = wire::decode(frame.header, &request); !status.ok())
    return protocol_error(connection, status.message()), false;
  const uint64_t number = request.header.number;
  session.confirm(request.header.results_received);
  current_ = connection;
  switch (session.classify(number)) {
    case session::Order::gap:
      return protocol_error(connection, concat("request ", number, " after ", session.applied())),
             false;
    case session::Order::apply: execute(client, request, frame, true); break;
    case session::Order::duplicate:
      ++duplicates_;
      if (config_.mutation == Mutation::execute_duplicates)
        checker_.apply(client.origin, index_, number);
      execute(client, request, frame, false);
      break;
  }
  return true;
}

void StormServer::execute(Client& client, const wire::Request& request, const Frame& frame,
                          bool first) {
  const wire::RequestHeader& h = request.header;
  session::TargetSession& session = known_[client.origin].session;
  client.acknowledge = true;
  const ConnectionId connection = current_;
  Op* op = first ? checker_.apply(client.origin, index_, h.number)
                 : checker_.again(client.origin, index_, h.number);
  if (first && op == nullptr) return;
  const uint64_t word = h.offset / 8;
  switch (request.kind()) {
    case wire::Kind::put:
    case wire::Kind::accumulate:
      if (!first) return;
      for (size_t i = 0; i < frame.payload.size() / 8; ++i) {
        uint64_t value;
        std::memcpy(&value, frame.payload.data() + 8 * i, 8);
        if (word + i >= memory_.size())
          return checker_.fail("a request leaves the memory of server ", index_);
        memory_[word + i] = request.kind() == wire::Kind::put ? value : memory_[word + i] + value;
      }
      session.applied_next();
      return checker_.executed(*op, memory_, std::nullopt);
    case wire::Kind::get: {
      if (first) session.applied_next();
      if (op == nullptr)
        return reply(client, connection, request, 0,
                     Bytes(request.extent_bytes));  // nobody waits for it any more
      Bytes answer(request.extent_bytes);
      std::memcpy(answer.data(), memory_.data() + word, answer.size());
      checker_.executed(*op, memory_, std::nullopt);
      return reply(client, connection, request, 0, std::move(answer));
    }
    case wire::Kind::read_modify_write: {
      if (!first) {
        const session::Kept* kept = session.kept(h.number);
        if (kept == nullptr) {
          if (op != nullptr && !op->done)
            checker_.fail("server ", index_, " has forgotten the result of request ", h.number,
                          " of origin ", client.origin, ", which still waits for it");
          return;
        }
        return reply(client, connection, request, kept->result, {});
      }
      const uint64_t old = memory_[word];
      switch (static_cast<wire::Rmw>(h.type)) {
        case wire::Rmw::fetch_add_64: memory_[word] += request.operands.first; break;
        case wire::Rmw::swap_64: memory_[word] = request.operands.first; break;
        case wire::Rmw::compare_swap_64:
          if (old == request.operands.second) memory_[word] = request.operands.first;
          break;
        case wire::Rmw::fetch_add_32:
        case wire::Rmw::swap_32:
        case wire::Rmw::compare_swap_32:
          return checker_.fail("a read-modify-write of 32 bits, which no program asked for");
      }
      session.applied_next();
      if (config_.mutation != Mutation::forget_results) session.keep_result(h.number, old);
      checker_.executed(*op, memory_, old);
      return reply(client, connection, request, old, {});
    }
    case wire::Kind::lock: {
      Mutex& mutex = mutexes_[static_cast<uint32_t>(h.offset)];
      const Waiter waiter{client.origin, h.reply_slot, h.reply_tag, request.operands.first,
                          h.number};
      if (!first) {
        // Replayed: its grant may have been lost on the way; if it still waits in the queue the
        // grant is yet to come.
        if (mutex.held && mutex.holder.origin == waiter.origin &&
            mutex.holder.number == waiter.number)
          send_grant(mutex.holder);
        return;
      }
      session.applied_next();
      mutex.queue.push_back(waiter);
      if (!mutex.held || config_.mutation == Mutation::grant_twice)
        grant_next(static_cast<uint32_t>(h.offset));
      return;
    }
    case wire::Kind::unlock: {
      if (!first) return;
      session.applied_next();
      Mutex& mutex = mutexes_[static_cast<uint32_t>(h.offset)];
      checker_.released(index_, static_cast<uint32_t>(h.offset), request.operands.first);
      mutex.held = false;
      return grant_next(static_cast<uint32_t>(h.offset));
    }
    case wire::Kind::key:
    case wire::Kind::acknowledge:
    case wire::Kind::reply:
    case wire::Kind::failure:
    case wire::Kind::please_close:
    case wire::Kind::bye:
    case wire::Kind::bye_answer:
    case wire::Kind::farewell:
    case wire::Kind::grant:
    case wire::Kind::grant_taken:
      return checker_.fail("server ", index_, " got a ", wire::to_string(request.kind()));
  }
}

void StormServer::grant_next(uint32_t index) {
  Mutex& mutex = mutexes_[index];
  if (mutex.queue.empty()) return;
  mutex.holder = mutex.queue.front();
  mutex.queue.pop_front();
  mutex.held = true;
  checker_.granted(index_, index, mutex.holder.holder);
  send_grant(mutex.holder);
}

// Over the connection if there is one, else through the server of the waiter's own node: a parked
// lock request keeps no connection open.
void StormServer::send_grant(const Waiter& waiter) {
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::Kind::reply);
  header.incarnation = 1;
  header.applied = known_[waiter.origin].session.applied();
  header.number = waiter.number;
  header.slot = waiter.slot;
  header.tag = waiter.tag;
  const ConnectionId connection = known_[waiter.origin].connection;
  if (connection != no_connection) network_.send(connection, Side::server, {bytes_of(header), {}});
  else network_.send_to_slot(waiter.origin, {bytes_of(header), {}});
}

void StormServer::check() {
  if (config_.server_cap != 0 && clients_.size() > config_.server_cap)
    checker_.fail("server ", index_, " has ", clients_.size(), " connections, its cap is ",
                  config_.server_cap);
  uint64_t kept = 0;
  for (const auto& [origin, known] : known_) kept += known.session.kept().size();
  // Those under way and those whose replies were lost: each of them has a slot at its origin.
  if (kept > uint64_t{config_.origins} *
                 (config_.credit_requests + config_.threads * (config_.window + 1)))
    checker_.fail("server ", index_, " keeps ", kept, " results");
}

}  // namespace skerry::sim
