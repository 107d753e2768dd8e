#include "server/server.hpp"

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/rule.hpp"

namespace skerry::server {
namespace {

// While a stripe keeps a session parked the server looks again this often: stripes are held for at
// most 4 KiB of work. A session that has been parked for many rounds waits for something slower (a
// stopped process, a free waiter's record). The server then looks less and less often, so that it
// does not burn the core.
// Requests for locks that are kept beside their sessions are looked at in the same rhythm.
constexpr int64_t stripe_retry_ns = 20'000;
constexpr int64_t longest_retry_ns = 2'000'000;
constexpr uint32_t quick_rounds = 64;
// Cookies of answers that the fabric does not copy. The payload is in the client's record, or lies
// in a segment.
constexpr uint64_t late_payload = 1, segment_payload = 2;

SegmentId segment_of(const wire::Request& request) {
  return {request.header.segment_owner, request.header.segment_generation};
}

}  // namespace

Server::Server(ServerConfig config, std::unique_ptr<fabric::Fabric> fabric, Directory& directory)
    : config_(std::move(config)),
      fabric_(std::move(fabric)),
      directory_(directory),
      quota_([&] {
        connection::Quota::Limits limits;
        limits.connections = config_.max_connections;
        return limits;
      }()),
      locks_(directory, *this),
      relay_(config_.key, config_.self.node, *fabric_) {
  scratch_.resize(fabric::inline_payload_bytes);
}

Server::~Server() {
  stop();
  for (Client* const client : clients_) delete client;
}

Status Server::listen(std::vector<std::byte>* address) { return fabric_->listen(address); }

Status Server::start(std::vector<std::byte>* address) {
  SKERRY_TRY(listen(address));
  thread_ = Thread("skerry-server", [this] { run(); });
  return {};
}

void Server::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  fabric_->wake();
  thread_.join();
#ifndef NDEBUG
  owner_.store(nullptr, std::memory_order_relaxed);
#endif
}

void Server::open(NodeView view) {
  call([&] {
    view_ = std::move(view);
    relay_.open(view_.map);
    if (view_.map != nullptr)
      locks_.open(view_.control, view_.member_index, *view_.map, config_.self.node);
    stripes_.emplace(view_.control.stripes(), view_.member_index, view_.control.watch(),
                     Sharing::node);
  });
}

void Server::call(const std::function<void()>& task) {
  if (!thread_.joinable()) return task();  // a test takes the turns: it is the server's thread
  Mutex mutex;
  Condition changed;
  bool ran = false;
  post([&] {
    task();
    const Lock lock(mutex);  // notified under it: `changed` goes as soon as the caller sees `ran`
    ran = true;
    changed.notify_one();
  });
  Lock lock(mutex);
  changed.wait(lock, [&] { return ran; });
}

Status Server::watch(int fd, std::function<void()> readable) {
  SKERRY_TRY(fabric_->watch(fd, 0));
  watched_[fd] = std::move(readable);
  return {};
}

void Server::unwatch(int fd) {
  fabric_->unwatch(fd);
  watched_.erase(fd);
}

void Server::post(std::function<void()> task) {
  {
    const Lock guard(posted_mutex_);
    posted_.push_back(std::move(task));
  }
  fabric_->wake();
}

void Server::run() {
  run_anywhere();  // the host rank may be bound to one core; the server serves others
  while (!stopping_.load(std::memory_order_acquire)) turn(-1);
}

void Server::assert_server_thread() const {
#ifndef NDEBUG
  static thread_local const char mark = 0;
  const void* owner = owner_.load(std::memory_order_relaxed);
  SKERRY_ASSERT(owner == nullptr || owner == &mark, "called beside the server's thread");
  if (owner == nullptr) owner_.store(&mark, std::memory_order_relaxed);
#endif
}

void Server::turn(int64_t longest_ns) {
  assert_server_thread();
  const bool retries = !retry_.empty() || locks_.keeps_any();
  const uint64_t requests = counters_.requests.load(std::memory_order_relaxed);
  parked_rounds_ = !retries || requests != requests_before_ ? 0 : parked_rounds_ + 1;
  requests_before_ = requests;
  const int64_t retry_ns = parked_rounds_ <= quick_rounds
                               ? stripe_retry_ns
                               : std::min(stripe_retry_ns * (parked_rounds_ / quick_rounds),
                                          longest_retry_ns);
  int64_t sleep_ns = longest_ns;
  for (const int64_t other_ns :
       {retries ? retry_ns : -1, quota_.next_look_ns(), relay_.advance(monotonic_ns())})
    if (other_ns >= 0) sleep_ns = sleep_ns < 0 ? other_ns : std::min(sleep_ns, other_ns);
  fabric_->poll(sleep_ns, fabric::no_endpoint);
  for (const fabric::EndpointId endpoint : retry_)
    if (Client* client = client_of(endpoint)) {
      SKERRY_ASSERT(client->state == Client::State::parked, "what is retried is parked");
      client->state = Client::State::serving;
      fabric_->unpark(endpoint);
    }
  retry_.clear();
  fabric_->dispatch(*this);
  retry_waiting_for_room();
  {
    const Lock guard(posted_mutex_);
    tasks_.swap(posted_);
  }
  for (auto& task : tasks_) task();
  tasks_.clear();
  if (locks_.keeps_any()) locks_.retry();
  send_acknowledgements();
  manage_slots();
  let_rest();
  store_traffic();
}

// ---- connections ------------------------------------------------------------------------------

Server::Client* Server::client_of(fabric::EndpointId endpoint) {
  if (last_client_ != nullptr && last_client_->endpoint == endpoint) return last_client_;
  Client* const client = clients_.find(endpoint);
  if (client != nullptr) last_client_ = client;
  return client;
}

// Forgets a connection that has ended, or is ended by the caller.
void Server::drop(Client& client) {
  assert_server_thread();
  quota_.closed(client.quota);
  const auto known = known_.find(client.rank);
  if (known != known_.end() && known->second.endpoint == client.endpoint) {
    known->second.endpoint = fabric::no_endpoint;
    known->second.quota = 0;
  }
  client.session->tidy();
  left_.push_back(client.rank);
  if (last_client_ == &client) last_client_ = nullptr;
  delete clients_.erase(client.endpoint);
  counters_.clients.store(clients_.size(), std::memory_order_relaxed);
}

// What is known of a rank, from wherever it is; a new rank: nothing yet.
Server::Known& Server::recall(Rank rank) {
  const auto [known, is_new] = known_.try_emplace(rank, uint32_t{1});
  session::Resting::Origin origin;
  if (is_new && resting_.take(rank, &origin)) {
    known_.erase(known);
    Known& back = known_.try_emplace(rank, origin.incarnation, origin.applied).first->second;
    back.generation = origin.generation;
    return back;
  }
  return known->second;
}

// Ranks that left in this turn, have no new connection and wait for nothing, not even for a slot.
void Server::let_rest() {
  for (const Rank rank : left_) {
    const auto known = known_.find(rank);
    if (known == known_.end() || known->second.quota != 0 ||
        known->second.endpoint != fabric::no_endpoint || !known->second.session.is_plain())
      continue;
    const session::TargetSession& session = known->second.session;
    resting_.put(rank, {session.applied(), session.incarnation(), known->second.generation});
    known_.erase(known);
  }
  left_.clear();
  // The table does not shrink by itself.
  if (known_.bucket_count() > 64 + 4 * known_.size()) known_.rehash(known_.size());
}

void Server::store_traffic() {
  const fabric::Fabric::Traffic traffic = fabric_->traffic();
  counters_.bytes_sent.store(traffic.bytes_sent, std::memory_order_relaxed);
  counters_.bytes_received.store(traffic.bytes_received, std::memory_order_relaxed);
  counters_.waits_found_late.store(traffic.waits_found_late, std::memory_order_relaxed);
  const fabric::Fabric::Unauthenticated& refused = traffic.unauthenticated;
  counters_.refused_connections.store(refused.all(), std::memory_order_relaxed);
  counters_.refused_silent.store(refused.silent, std::memory_order_relaxed);
  counters_.refused_left.store(refused.left, std::memory_order_relaxed);
  counters_.refused_crowded_out.store(refused.crowded_out, std::memory_order_relaxed);
  counters_.refused_malformed.store(refused.garbage, std::memory_order_relaxed);
  counters_.refused_unproven.store(unproven_, std::memory_order_relaxed);
  counters_.refused_replayed.store(replayed_, std::memory_order_relaxed);
}

void Server::protocol_error(Client& client, const Status& why) {
  std::fprintf(stderr, "skerry: data server of node %d closes its connection to rank %d: %s\n",
               config_.self.node, client.rank, why.message().c_str());
  end(client);
}

void Server::on_watched(int fd, uint64_t) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  const auto readable = found->second;  // a copy: it may unwatch itself
  readable();
}

// ---- answers ----------------------------------------------------------------------------------

bool Server::has_room(const Client& client) const {
  return client.late() == 0 &&
         fabric_->unsent_bytes(client.endpoint) < fabric::inline_payload_bytes * 2;
}

void Server::send_reply(Client& client, const wire::ReplyHeader& header, fabric::Bytes payload) {
  if (client.late() == 0) {
    // Long ones are what gets read, and lie in their segment.
    const bool from_segment = payload.size() > fabric::inline_payload_bytes;
    switch (fabric_->send(client.endpoint, std::as_bytes(std::span(&header, 1)), payload, false,
                          from_segment ? segment_payload : 0)) {
      case fabric::SendResult::accepted:
        if (from_segment) client.add_segment(segment_of(request_));
        return;
      case fabric::SendResult::closed:
        return;  // on_closed follows; the session remembers what was applied
      case fabric::SendResult::would_block: break;
    }
  }
  client.add_late({header, {payload.begin(), payload.end()}});
}

wire::ReplyHeader Server::reply_header(Client& client, int code, uint64_t result) {
  const wire::RequestHeader& h = request_.header;
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::AnswerKind::reply);
  header.code = static_cast<int8_t>(code);
  header.incarnation = client.session->incarnation();
  header.applied = client.session->applied();
  header.number = h.number;
  header.slot = h.reply_slot;
  header.tag = h.reply_tag;
  header.result = result;
  client.acknowledge = false;  // the reply says `applied` as well
  return header;
}

void Server::reply(Client& client, int code, uint64_t result, fabric::Bytes payload) {
  send_reply(client, reply_header(client, code, result), payload);
}

void Server::reply_gathered(Client& client, std::span<const fabric::Bytes> parts) {
  const wire::ReplyHeader header = reply_header(client, 0, 0);
  if (client.late() == 0) {
    switch (fabric_->send_gathered(client.endpoint, std::as_bytes(std::span(&header, 1)), parts,
                                   segment_payload)) {
      case fabric::SendResult::accepted: client.add_segment(segment_of(request_)); return;
      case fabric::SendResult::closed: return;
      case fabric::SendResult::would_block: break;
    }
  }
  Client::Late late{header, {}};
  late.payload.reserve(fabric::total_bytes(parts));
  for (const fabric::Bytes& part : parts)
    late.payload.insert(late.payload.end(), part.begin(), part.end());
  client.add_late(std::move(late));
}

void Server::send_failure(Client& client, uint64_t number, int code, std::string_view text) {
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::AnswerKind::failure);
  header.code = static_cast<int8_t>(code);
  header.incarnation = client.session->incarnation();
  header.applied = client.session->applied();
  header.number = number;
  send_reply(client, header, std::as_bytes(std::span(text)));
}

// please_close, farewell or bye_answer.
fabric::SendResult Server::send_close(const Client& client, wire::CloseKind kind) {
  const uint16_t asked_again = kind == wire::CloseKind::farewell ? client.asked_again : uint16_t{0};
  const wire::CloseHeader header{wire::version, static_cast<uint8_t>(kind), asked_again,
                                 client.session->incarnation(), client.session->applied()};
  return fabric_->send(client.endpoint, std::as_bytes(std::span(&header, 1)), {}, false, 0);
}

void Server::forget(SegmentId segment) {
  assert_server_thread();
  // A payload is still being received into memory that is about to be unmapped, or an answer sent
  // from it: its program frees the segment while it uses it. The request comes again on the next
  // connection, and is refused.
  std::vector<Client*> users;
  for (Client* const client : clients_)
    if ((client->state == Client::State::receiving && !client->refused &&
         client->receives_into == segment) ||
        client->sends_from(segment))
      users.push_back(client);
  for (Client* client : users) {
    const fabric::EndpointId endpoint = client->endpoint;
    drop(*client);
    fabric_->close(endpoint);
  }
  const auto found = registrations_.find(segment.packed());
  if (found == registrations_.end()) return;
  for (const auto& [rank, registration] : found->second)
    if (registration.handle != 0) fabric_->deregister_memory(registration.handle);
  registrations_.erase(found);
}

void Server::mark_acknowledge(Client& client) {
  client.quiet_bytes = 0;
  if (client.acknowledge) return;
  client.acknowledge = true;
  acknowledge_.push_back(client.endpoint);
}

void Server::send_acknowledgement(Client& client) {
  client.acknowledge = false;
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::AnswerKind::acknowledge);
  header.incarnation = client.session->incarnation();
  header.applied = client.session->applied();
  send_reply(client, header, {});
}

void Server::send_acknowledgements() {
  for (const fabric::EndpointId endpoint : acknowledge_) {
    Client* client = client_of(endpoint);
    if (client != nullptr && client->acknowledge) send_acknowledgement(*client);
  }
  acknowledge_.clear();
}

// The fabric calls on_writable only after it refused a message; a client may be parked without
// that, because much is unsent already.
void Server::retry_waiting_for_room() {
  std::erase_if(full_, [&](fabric::EndpointId endpoint) {
    Client* client = client_of(endpoint);
    if (client == nullptr || !has_room(*client)) {  // null: another server, or gone
      if (fabric_->flush(endpoint) != fabric::SendResult::closed) return false;
      if (client != nullptr && client->answers)
        client->answers->late.clear();  // what has ended takes no answers: it is unparked for its
                                        // end to come through
    }
    if (client != nullptr && client->state == Client::State::parked)
      client->state = Client::State::serving;
    fabric_->unpark(endpoint);
    return true;
  });
}

void Server::on_writable(fabric::EndpointId endpoint) {
  Client* client = client_of(endpoint);
  if (client == nullptr) {
    if (std::erase(full_, endpoint) > 0) fabric_->unpark(endpoint);
    relay_.on_writable(endpoint);
    return;
  }
  if (client->answers) send_late(*client);
  if (client->state == Client::State::owing && client->late() == 0 &&
      send_close(*client, wire::CloseKind::bye_answer) != fabric::SendResult::would_block)
    client->state = Client::State::leaving;
}

void Server::send_late(Client& client) {
  std::vector<Client::Late>& all = client.answers->late;
  size_t sent = 0;
  for (; sent < all.size(); ++sent) {
    Client::Late& late = all[sent];
    const bool by_reference = late.payload.size() > fabric::inline_payload_bytes;
    const fabric::SendResult result = fabric_->send(
        client.endpoint, std::as_bytes(std::span(&late.header, 1)), late.payload, false,
        by_reference ? late_payload : 0);
    if (result == fabric::SendResult::would_block) break;
    if (by_reference && result == fabric::SendResult::accepted)
      client.answers->sending.push_back(std::move(late.payload));
  }
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(sent));
  client.tidy_answers();
}

void Server::on_sent(fabric::EndpointId endpoint, uint64_t cookie) {
  Client* client = client_of(endpoint);
  if (client == nullptr || !client->answers) return;
  Client::Answers& answers = *client->answers;
  if (cookie == late_payload && !answers.sending.empty()) answers.sending.pop_front();
  else if (cookie == segment_payload && !answers.segments.empty())
    answers.segments.erase(answers.segments.begin());
  client->tidy_answers();
}

}  // namespace skerry::server
