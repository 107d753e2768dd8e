#include "server/server.hpp"

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/rule.hpp"

namespace skerry::server {
namespace {

// While a stripe keeps a session parked the server looks again this often: stripes are held for at
// most 4 KiB of work. Who has been kept for many rounds waits for something slower (a stopped
// process, a free waiter's record): then ever more seldom, so that it does not burn the core.
constexpr int64_t stripe_retry_ns = 20'000;
constexpr int64_t longest_retry_ns = 2'000'000;
constexpr uint32_t quick_rounds = 64;
// While somebody waits for a place the server looks this often whether one has become free that no
// message tells of.
constexpr int64_t waiting_retry_ns = 1'000'000;
// Cookie of an answer whose payload the client's record keeps; 0: it lies in a segment.
constexpr uint64_t late_payload = 1;

}  // namespace

Server::Server(ServerConfig config, std::unique_ptr<fabric::Fabric> fabric, Directory& directory)
    : config_(std::move(config)),
      fabric_(std::move(fabric)),
      directory_(directory),
      relay_(config_.key, config_.self.node, *fabric_) {
  scratch_.resize(fabric::inline_payload_bytes);
}

Server::~Server() { stop(); }

Status Server::start(std::vector<std::byte>* address) {
  SKERRY_TRY(fabric_->listen(address));
  thread_ = Thread("skerry-server", [this] { run(); });
  return {};
}

void Server::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  fabric_->wake();
  thread_.join();
}

void Server::open(NodeView view) {
  call([&] {
    view_ = std::move(view);
    relay_.open(view_.map);
    stripes_.emplace(view_.control.stripes(), view_.member_index, view_.control.watch(),
                     Sharing::node);
  });
}

void Server::call(const std::function<void()>& task) {
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

  std::vector<std::function<void()>> tasks;
  uint32_t parked_rounds = 0;  // in a row, without anything getting done
  uint64_t requests_before = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    const uint64_t requests = counters_.requests.load(std::memory_order_relaxed);
    parked_rounds = retry_.empty() || requests != requests_before ? 0 : parked_rounds + 1;
    requests_before = requests;
    const int64_t retry_ns = parked_rounds <= quick_rounds
                                 ? stripe_retry_ns
                                 : std::min(stripe_retry_ns * (parked_rounds / quick_rounds),
                                            longest_retry_ns);
    int64_t sleep_ns = retry_.empty() ? -1 : retry_ns;
    for (const int64_t other_ns :
         {waiting_.empty() ? -1 : waiting_retry_ns, relay_.advance(monotonic_ns())})
      if (other_ns >= 0) sleep_ns = sleep_ns < 0 ? other_ns : std::min(sleep_ns, other_ns);
    fabric_->poll(sleep_ns, fabric::no_endpoint);
    if (!retry_.empty()) {
      for (const fabric::EndpointId endpoint : retry_)
        if (Client* client = client_of(endpoint)) {
          client->parked = false;
          fabric_->unpark(endpoint);
        }
      retry_.clear();
    }
    fabric_->dispatch(*this);
    retry_waiting_for_room();
    {
      const Lock guard(posted_mutex_);
      tasks.swap(posted_);
    }
    for (auto& task : tasks) task();
    tasks.clear();
    send_acknowledgements();
    if (!waiting_.empty()) admit_waiting();
    const fabric::Fabric::Traffic traffic = fabric_->traffic();
    counters_.bytes_sent.store(traffic.bytes_sent, std::memory_order_relaxed);
    counters_.bytes_received.store(traffic.bytes_received, std::memory_order_relaxed);
    store_strangers(traffic.strangers);
  }
}

// ---- connections ------------------------------------------------------------------------------

Server::Client* Server::client_of(fabric::EndpointId endpoint) {
  if (last_client_ != nullptr && last_client_->endpoint == endpoint) return last_client_;
  const auto found = clients_.find(endpoint);
  if (found == clients_.end()) return nullptr;
  last_client_ = found->second.get();
  return last_client_;
}

void Server::drop(Client& client) {
  const auto known = known_.find(client.rank);
  if (known != known_.end() && known->second.endpoint == client.endpoint)
    known->second.endpoint = fabric::no_endpoint;
  if (last_client_ == &client) last_client_ = nullptr;
  clients_.erase(client.endpoint);
  counters_.clients.store(clients_.size(), std::memory_order_relaxed);
}

void Server::store_strangers(const fabric::Fabric::Strangers& strangers) {
  counters_.strangers.store(strangers.all(), std::memory_order_relaxed);
  counters_.strangers_silent.store(strangers.silent, std::memory_order_relaxed);
  counters_.strangers_left.store(strangers.left, std::memory_order_relaxed);
  counters_.strangers_crowded_out.store(strangers.crowded_out, std::memory_order_relaxed);
  counters_.strangers_garbage.store(strangers.garbage, std::memory_order_relaxed);
  counters_.strangers_unproven.store(strangers_unproven_, std::memory_order_relaxed);
  counters_.strangers_replayed.store(strangers_replayed_, std::memory_order_relaxed);
}

void Server::protocol_error(Client& client, const Status& why) {
  std::fprintf(stderr, "skerry: data server of node %d closes its connection to rank %d: %s\n",
               config_.self.node, client.rank, why.message().c_str());
  const fabric::EndpointId endpoint = client.endpoint;
  drop(client);
  fabric_->close(endpoint);
}

void Server::on_watched(int fd, uint64_t) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  const auto readable = found->second;  // a copy: it may unwatch itself
  readable();
}

// ---- answers ----------------------------------------------------------------------------------

bool Server::has_room(const Client& client) const {
  return client.late.empty() &&
         fabric_->unsent_bytes(client.endpoint) < fabric::inline_payload_bytes * 2;
}

void Server::send_reply(Client& client, const wire::ReplyHeader& header, fabric::Bytes payload) {
  if (client.late.empty()) {
    switch (
        fabric_->send(client.endpoint, std::as_bytes(std::span(&header, 1)), payload, false, 0)) {
      case fabric::SendResult::accepted: return;
      case fabric::SendResult::closed:
        return;  // on_closed follows; the session remembers what was applied
      case fabric::SendResult::would_block: break;
    }
  }
  client.late.push_back({header, {payload.begin(), payload.end()}});
}

wire::ReplyHeader Server::reply_header(Client& client, int code, uint64_t result) {
  const wire::RequestHeader& h = request_.header;
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::Kind::reply);
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
  if (client.late.empty() &&
      fabric_->send_gathered(client.endpoint, std::as_bytes(std::span(&header, 1)), parts, 0) !=
          fabric::SendResult::would_block)
    return;
  Client::Late late{header, {}};
  late.payload.reserve(fabric::total_bytes(parts));
  for (const fabric::Bytes& part : parts)
    late.payload.insert(late.payload.end(), part.begin(), part.end());
  client.late.push_back(std::move(late));
}

void Server::send_failure(Client& client, uint64_t number, int code, std::string_view text) {
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::Kind::failure);
  header.code = static_cast<int8_t>(code);
  header.incarnation = client.session->incarnation();
  header.applied = client.session->applied();
  header.number = number;
  send_reply(client, header, std::as_bytes(std::span(text)));
}

// please_close, farewell or bye_answer.
fabric::SendResult Server::send_close(const Client& client, wire::Kind kind) {
  const wire::CloseHeader header{wire::version, static_cast<uint8_t>(kind), 0,
                                 client.session->incarnation(), client.session->applied()};
  return fabric_->send(client.endpoint, std::as_bytes(std::span(&header, 1)), {}, false, 0);
}

void Server::grant(Rank origin, uint32_t slot, uint32_t tag) {
  const auto known = known_.find(origin);
  Client* client = known == known_.end() ? nullptr : client_of(known->second.endpoint);
  if (client == nullptr || client->leaving) {
    if (SKERRY_RULE(relay_grants)) relay_.send(origin, slot, tag);
    return;
  }
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::Kind::reply);
  header.incarnation = client->session->incarnation();
  header.applied = client->session->applied();
  header.slot = slot;
  header.tag = tag;
  send_reply(*client, header, {});
}

void Server::forget(SegmentId segment) {
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

void Server::send_acknowledgements() {
  for (const fabric::EndpointId endpoint : acknowledge_) {
    Client* client = client_of(endpoint);
    if (client == nullptr || !client->acknowledge) continue;
    client->acknowledge = false;
    wire::ReplyHeader header{};
    header.version = wire::version;
    header.kind = static_cast<uint8_t>(wire::Kind::acknowledge);
    header.incarnation = client->session->incarnation();
    header.applied = client->session->applied();
    send_reply(*client, header, {});
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
      if (client != nullptr)
        client->late.clear();  // what has ended takes no answers: it is unparked for its end to
                               // come through
    }
    if (client != nullptr) client->parked = false;
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
  size_t sent = 0;
  for (; sent < client->late.size(); ++sent) {
    Client::Late& late = client->late[sent];
    const bool by_reference = late.payload.size() > fabric::inline_payload_bytes;
    const fabric::SendResult result = fabric_->send(
        endpoint, std::as_bytes(std::span(&late.header, 1)), late.payload, false,
        by_reference ? late_payload : 0);
    if (result == fabric::SendResult::would_block) break;
    if (by_reference && result == fabric::SendResult::accepted)
      client->sending.push_back(std::move(late.payload));
  }
  client->late.erase(client->late.begin(),
                     client->late.begin() + static_cast<std::ptrdiff_t>(sent));
  if (client->answer_waits && client->late.empty())
    client->answer_waits = send_close(*client, wire::Kind::bye_answer) ==
                           fabric::SendResult::would_block;
}

void Server::on_sent(fabric::EndpointId endpoint, uint64_t cookie) {
  Client* client = client_of(endpoint);
  if (client != nullptr && cookie == late_payload && !client->sending.empty())
    client->sending.pop_front();
}

}  // namespace skerry::server
