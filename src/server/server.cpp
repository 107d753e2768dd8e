#include "server/server.hpp"

#include <algorithm>

#include "core/pure/container_bytes.hpp"

namespace skerry::server {
namespace {

// While a stripe keeps a session parked, or a lock request is kept, the server looks again this
// often: stripes are held for at most 4 KiB of work. What has waited for many rounds waits for
// something slower (a stopped process, a free waiter's record). The server then looks less and less
// often, so that it does not burn the core.
constexpr int64_t stripe_retry_ns = 20'000;
constexpr int64_t longest_retry_ns = 2'000'000;
constexpr uint32_t quick_rounds = 64;

#ifndef NDEBUG
thread_local const char thread_mark = 0;
#endif

}  // namespace

Server::Server(ServerConfig config, std::unique_ptr<fabric::Fabric> fabric, Directory& directory)
    : config_(std::move(config)),
      fabric_(std::move(fabric)),
      clients_(counters_),
      answers_(*fabric_),
      relay_(config_, view_, *fabric_, counters_),
      admission_(config_, *fabric_, clients_, answers_, relay_, counters_),
      locks_(directory, *this),
      applier_(view_, *fabric_, directory, locks_, answers_) {}

Server::~Server() { stop(); }

Status Server::listen(std::vector<std::byte>* address) { return fabric_->listen(address); }

Status Server::start(std::vector<std::byte>* address) {
  SKERRY_TRY(listen(address));
  may_be_lent_ = fabric_->open_await();
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
    if (view_.map != nullptr)
      locks_.open(view_.control, view_.member_index, *view_.map, config_.self.node);
    applier_.open();
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
  SKERRY_TRY(fabric_->watch(fd));
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

// A thread that sleeps without the role pays for that with a system call or two a turn. So it does
// only while the server is lent now and then. After `settle_after` turns of its own in a row it
// sleeps with the role, and the next borrower has to wake it. Of settled_ and loans_ each side
// writes its own, then reads the other's.
void Server::run() {
  run_anywhere();  // the host rank may be bound to one core; the server serves others
  constexpr uint32_t settle_after = 32;
  uint32_t own_turns = settle_after;
  uint64_t loans_before = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    settled_.store(own_turns >= settle_after, std::memory_order_seq_cst);
    if (const uint64_t loans = loans_.load(std::memory_order_seq_cst); loans != loans_before) {
      loans_before = loans;
      own_turns = 0;
      settled_.store(false, std::memory_order_relaxed);
    }
    if (own_turns >= settle_after) {
      turn(-1);
      continue;
    }
    fabric_->await(next_sleep_ns());
    if (lent_.load(std::memory_order_relaxed)) continue;
    turn(0);
    ++own_turns;
  }
}

// A borrower looks after deadlines itself, and may sleep with the role.
int64_t Server::next_sleep_ns() {
  if (lent_.load(std::memory_order_relaxed)) return -1;
  const Lock role(role_);
  return time_to_sleep_ns(-1);
}

bool Server::borrow() {
  // Before the role: another borrower may sleep with it.
  if (!may_be_lent_ || lent_.exchange(true, std::memory_order_relaxed)) return false;
  loans_.fetch_add(1, std::memory_order_seq_cst);
  if (settled_.load(std::memory_order_seq_cst)) fabric_->wake();
  const Lock role(role_);
  fabric_->blind_await();
  return true;
}

// The server's thread fell asleep before the borrower's turns, and knows nothing of what they left
// for later.
void Server::give_back() {
  const Lock role(role_);
  SKERRY_INVARIANT(lent_.load(std::memory_order_relaxed), "what is given back was lent");
  lent_.store(false, std::memory_order_relaxed);
  const int64_t sleep_ns = time_to_sleep_ns(-1);
  fabric_->end_blindness(sleep_ns < 0 ? -1 : monotonic_ns() + sleep_ns);
}

void Server::assert_server_thread() const {
#ifndef NDEBUG
  const void* owner = owner_.load(std::memory_order_relaxed);
  SKERRY_ASSERT(owner == nullptr || owner == &thread_mark, "called without the server's role");
#endif
}

void Server::count_parked_rounds() {
  const bool retries = !retry_.empty() || locks_.keeps_any();
  const uint64_t requests = counters_.requests.load(std::memory_order_relaxed);
  parked_rounds_ = !retries || requests != requests_before_ ? 0 : parked_rounds_ + 1;
  requests_before_ = requests;
}

int64_t Server::time_to_sleep_ns(int64_t longest_ns) {
  const bool retries = !retry_.empty() || locks_.keeps_any();
  const int64_t retry_ns = parked_rounds_ <= quick_rounds
                               ? stripe_retry_ns
                               : std::min(stripe_retry_ns * (parked_rounds_ / quick_rounds),
                                          longest_retry_ns);
  int64_t sleep_ns = longest_ns;
  for (const int64_t other_ns :
       {retries ? retry_ns : -1, admission_.next_look_ns(), answers_.due_in_ns(),
        relay_.advance(monotonic_ns())})
    if (other_ns >= 0) sleep_ns = sleep_ns < 0 ? other_ns : std::min(sleep_ns, other_ns);
  return sleep_ns;
}

void Server::turn(int64_t longest_ns) {
  const Lock role(role_);
#ifndef NDEBUG
  owner_.store(&thread_mark, std::memory_order_relaxed);
#endif
  take_turn(longest_ns);
}

void Server::take_turn(int64_t longest_ns) {
  count_parked_rounds();
  fabric_->poll(time_to_sleep_ns(longest_ns), fabric::no_endpoint);
  retry_parked();
  fabric_->dispatch(*this);
  retry_waiting_for_room();
  {
    const Lock guard(posted_mutex_);
    tasks_.swap(posted_);
  }
  for (auto& task : tasks_) task();
  tasks_.clear();
  if (locks_.keeps_any()) locks_.retry();
  answers_.acknowledge_all(clients_);
  admission_.manage_slots();
  clients_.let_rest();
  store_traffic();
}

void Server::retry_parked() {
  for (const fabric::EndpointId endpoint : retry_)
    if (Client* client = clients_.find(endpoint)) {
      SKERRY_ASSERT(client->state == Client::State::parked, "what is retried is parked");
      client->state = Client::State::serving;
      fabric_->unpark(endpoint);
    }
  retry_.clear();
}

// The fabric calls on_writable only after it refused a message; a client may be parked without
// that, because much is unsent already.
void Server::retry_waiting_for_room() {
  std::erase_if(full_, [&](fabric::EndpointId endpoint) {
    Client* client = clients_.find(endpoint);
    const bool has_room = client != nullptr  // null: another server, or gone
                              ? answers_.has_room(*client)
                              : fabric_->flush(endpoint) == fabric::SendResult::closed;
    if (!has_room) return false;
    if (client != nullptr && client->state == Client::State::parked)
      client->state = Client::State::serving;
    fabric_->unpark(endpoint);
    return true;
  });
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
}

void Server::on_watched(int fd) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  const auto readable = found->second;  // a copy: it may unwatch itself
  readable();
}

void Server::forget(SegmentId segment) {
  assert_server_thread();
  // Its program frees the segment while it uses it. The request comes again on the next connection,
  // and is refused.
  std::vector<Client*> users;
  for (Client* const client : clients_)
    if (client->uses(segment)) users.push_back(client);
  for (Client* const client : users) admission_.end(*client);
  applier_.forget(segment);
}

fabric::ConnectionsMemory Server::memory() {
  fabric::ConnectionsMemory out;
  if (stopping_.load(std::memory_order_acquire)) return out;
  call([&] {
    const fabric::Fabric::Memory fabric = fabric_->memory();
    out.connections = clients_.size();
    out.connection_bytes = fabric.endpoint_bytes + clients_.connection_bytes();
    out.known = clients_.ranks_known();
    out.known_bytes = clients_.known_bytes();
    out.fixed_bytes = fabric.fixed_bytes + sizeof *this + clients_.memory_bytes() +
                      answers_.memory_bytes() + relay_.memory_bytes() + admission_.memory_bytes() +
                      locks_.memory_bytes() + applier_.memory_bytes() + vector_bytes(retry_) +
                      vector_bytes(full_) + table_bytes(watched_);
  });
  return out;
}

}  // namespace skerry::server
