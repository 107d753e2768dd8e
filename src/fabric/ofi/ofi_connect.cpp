// Connections of the ofi fabric: requests, answers, ends.
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/tcp/address.hpp"

namespace skerry::fabric::ofi {
namespace {

// Providers may pad connect data to a fixed length, so it carries its own: the length of the text,
// the number that parcels to us must carry (0: there will be none), the text.
struct ConnectData {
  static constexpr size_t before_text = 1 + sizeof(uint64_t);
  std::byte bytes[before_text + max_hello_bytes];
  size_t size;
  ConnectData(Bytes text, uint64_t number) : bytes{}, size(before_text + text.size()) {
    SKERRY_ASSERT(text.size() <= max_hello_bytes, "connect data");
    bytes[0] = static_cast<std::byte>(text.size());
    std::memcpy(bytes + 1, &number, sizeof number);
    std::ranges::copy(text, bytes + before_text);
  }
};
static_assert(sizeof(ConnectData::bytes) == 55, "what verbs leaves");

bool read_connect_data(Bytes data, Bytes* text, uint64_t* number) {
  if (data.size() < ConnectData::before_text) return false;
  const auto bytes = static_cast<size_t>(data[0]);
  if (bytes > std::min<size_t>(data.size() - ConnectData::before_text, max_hello_bytes))
    return false;
  std::memcpy(number, data.data() + 1, sizeof *number);
  *text = data.subspan(ConnectData::before_text, bytes);
  return true;
}

// A provider answers a request once: a peer that is to wait is refused with this word when it has
// waited for a while, and asks again (Fabric::hold).
constexpr std::string_view come_back = "wait";
constexpr int64_t longest_held_ns = 5'000'000'000;

constexpr size_t event_bytes = sizeof(fi_eq_cm_entry) + 256;  // connect data follows the entry

}  // namespace

Status OfiFabric::listen(std::vector<std::byte>* address) {
  fid_pep* listener = nullptr;
  if (const int result = fi_passive_ep(fabric_.get(), info_.get(), &listener, nullptr); result != 0)
    return failed("fi_passive_ep", result);
  listener_.reset(listener);
  if (const int result = fi_pep_bind(listener, &eq_->fid, 0); result != 0)
    return failed("fi_pep_bind", result);
  if (const int result = fi_listen(listener); result != 0) return failed("fi_listen", result);
  tcp::SocketAddress actual;
  size_t bytes = sizeof actual.storage;
  if (const int result = fi_getname(&listener->fid, &actual.storage, &bytes); result != 0)
    return failed("fi_getname", result);
  tcp::InterfaceAddress one;
  one.family = actual.storage.ss_family;
  uint16_t port = 0;
  if (one.family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&actual.storage);
    std::memcpy(one.address.data(), &v4->sin_addr, 4);
    one.loopback = one.address[0] == 127;
    port = ntohs(v4->sin_port);
  } else {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&actual.storage);
    std::memcpy(one.address.data(), &v6->sin6_addr, 16);
    one.loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    port = ntohs(v6->sin6_port);
  }
  *address = tcp::encode_address(tcp::host_identity(), port, {one});
  return {};
}

// Gives the connection its number: the slot, which finds it, under a part that is drawn by chance.
void OfiFabric::number(Endpoint& endpoint, EndpointId id) {
  uint32_t chance = 0;  // stays 0 where the system has none ready: the sequence still tells
  [[maybe_unused]] const ssize_t n = getrandom(&chance, sizeof chance, GRND_NONBLOCK);
  const auto slot = static_cast<uint32_t>(id);
  endpoint.number = (uint64_t{chance} | 1) << 32 | slot;
  if (by_slot_.size() <= slot) by_slot_.resize(slot + 1, no_endpoint);
  by_slot_[slot] = id;
}

// Null: not one of ours, or closed.
Endpoint* OfiFabric::find_numbered(uint64_t number) const {
  const auto slot = static_cast<uint32_t>(number);
  if (slot >= by_slot_.size()) return nullptr;
  Endpoint* const endpoint = endpoints_.find(by_slot_[slot]);
  return endpoint != nullptr && endpoint->number == number ? endpoint : nullptr;
}

// Creates and enables the endpoint with its receive buffers posted: a peer may send from the moment
// that we answer.
Status OfiFabric::open_endpoint(Endpoint& endpoint, EndpointId id, fi_info* info) {
  if (const int result = fi_endpoint(domain_.get(), info, &endpoint.ep, nullptr); result != 0)
    return failed("fi_endpoint", result);
  by_fid_[&endpoint.ep->fid] = id;
  ++opened_;
  number(endpoint, id);
  if (const int result = fi_ep_bind(endpoint.ep, &eq_->fid, 0); result != 0)
    return failed("fi_ep_bind", result);
  if (const int result = fi_ep_bind(endpoint.ep, &cq_->fid, FI_TRANSMIT | FI_RECV); result != 0)
    return failed("fi_ep_bind", result);
  if (receives_ != nullptr) {
    if (const int result = fi_ep_bind(endpoint.ep, &receives_->fid, 0); result != 0)
      return failed("fi_ep_bind", result);
  }
  if (const int result = fi_enable(endpoint.ep); result != 0) return failed("fi_enable", result);
  if (receives_ != nullptr) {
    post_shared();
    return shared_posted_ != 0 ? Status()
                               : error(Code::no_memory, "cannot post receive buffers of ",
                                       buffer_bytes, " bytes on ", name_);
  }
  for (uint32_t i = 0; i < window + 2; ++i) {
    Operation* operation = take_operation(Operation::Kind::receive, id, true);
    if (operation == nullptr)
      return error(Code::no_memory, "no memory for receive buffers of ", buffer_bytes, " bytes");
    if (!post_receive(endpoint, operation))
      return error(Code::network, "cannot post receive buffers on ", name_);
  }
  return {};
}

Status OfiFabric::connect(Bytes address, Bytes hello, EndpointId* out) {
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  std::vector<tcp::SocketAddress> candidates;
  SKERRY_TRY(tcp::decode_address(address, &candidates));
  const Info info(library_->dupinfo(info_.get()), FreeInfo{library_});
  if (info == nullptr) return error(Code::no_memory, "no memory for a connection");
  std::free(info->dest_addr);
  info->dest_addr = std::malloc(candidates[0].bytes);
  if (info->dest_addr == nullptr) return error(Code::no_memory, "no memory for a connection");
  std::memcpy(info->dest_addr, &candidates[0].storage, candidates[0].bytes);
  info->dest_addrlen = candidates[0].bytes;
  EndpointId id;
  Endpoint& endpoint = *endpoints_.allocate(&id);
  endpoint.state = State::connecting;
  endpoint.deadline_ns = now_ns() + options_.connect_timeout_ns;
  Slots<Endpoint>::publish(&endpoint, id);
  Status status = open_endpoint(endpoint, id, info.get());
  if (status.ok()) {
    const ConnectData data(hello, endpoint.number);
    if (const int result = fi_connect(endpoint.ep, info->dest_addr, data.bytes, data.size);
        result != 0)
      status = failed("fi_connect", result);
  }
  if (!status.ok()) {
    release(endpoint);
    return status;
  }
  opening_.push_back(id);
  impatient_.store(true, std::memory_order_relaxed);
  want_dispatch();
  *out = id;
  return {};
}

Status OfiFabric::accept(RequestId request, Bytes reply, EndpointId* out) {
  Endpoint* const endpoint = endpoints_.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking) {
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  }
  const Info info = std::move(endpoint->info);
  Status status = open_endpoint(*endpoint, request, info.get());
  if (status.ok()) {
    const ConnectData data(reply, endpoint->number);
    if (const int result = fi_accept(endpoint->ep, data.bytes, data.size); result != 0) {
      status = error(Code::peer_dead,
                     "the peer went away while it was accepted: ", library_->strerror(-result));
    }
  } else {
    fi_reject(listener_.get(), info->handle, nullptr, 0);
  }
  if (!status.ok()) {
    release(*endpoint);
    return status;
  }
  endpoint->state = State::accepting;
  *out = request;
  return {};
}

void OfiFabric::reject(RequestId request) {
  Endpoint* const endpoint = endpoints_.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking) return;
  if (endpoint->held) {
    const ConnectData data(std::as_bytes(std::span(come_back)), 0);
    fi_reject(listener_.get(), endpoint->info->handle, data.bytes, data.size);
  } else {
    fi_reject(listener_.get(), endpoint->info->handle, nullptr, 0);
    ++traffic_.unauthenticated.rejected;
  }
  release(*endpoint);
}

// After fi_close nothing new completes; what completed before stands in the queue and names our
// operations, so it is read first.
void OfiFabric::release(Endpoint& endpoint) {
  const EndpointId id = endpoint.id.load(std::memory_order_relaxed);
  if (endpoint.ep != nullptr) {
    --opened_;
    by_fid_.erase(&endpoint.ep->fid);
    fi_shutdown(endpoint.ep, 0);
    fi_close(&endpoint.ep->fid);
    drain_completions();
    std::erase_if(completions_,
                  [&](const Completion& one) { return one.operation->endpoint == id; });
  }
  for (Operation* operation : endpoint.operations) give_back(operation);
  for (Operation* operation : endpoint.inbox) give_back(operation);
  if (endpoint.filling != nullptr) give_back(endpoint.filling);
  endpoint.state = State::connecting;
  endpoint.ep = nullptr;
  endpoint.info.reset();
  endpoint.deadline_ns = 0;
  endpoint.held = false;
  endpoint.operations.clear();
  endpoint.inbox.clear();
  endpoint.rma_waiting.clear();
  endpoint.filling = nullptr;
  endpoint.due = endpoint.parked = endpoint.writable_wanted = endpoint.ending = false;
  endpoint.end_detail.clear();
  endpoint.number = endpoint.peer_number = 0;
  endpoint.sent = endpoint.received = 0;
  endpoint.credits = window;
  endpoint.owed = 0;
  endpoint.rma_outstanding = 0;
  endpoint.in_flight_bytes = 0;
  endpoints_.release(&endpoint);
}

void OfiFabric::close(EndpointId id) {
  if (Endpoint* endpoint = endpoints_.find(id)) release(*endpoint);
}

// --- events ------------------------------------------------------------------------------------

int OfiFabric::read_events(Sink& sink) {
  int upcalls = 0;
  for (;;) {
    alignas(fi_eq_cm_entry) std::byte buffer[event_bytes];
    uint32_t event = 0;
    const ssize_t n = fi_eq_read(eq_.get(), &event, buffer, sizeof buffer, 0);
    if (n == -FI_EAVAIL) {
      if (!handle_event_error(sink)) return upcalls;
      continue;
    }
    if (n < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) return upcalls;
    const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(buffer);
    const Bytes data{buffer + sizeof(fi_eq_cm_entry),
                     static_cast<size_t>(n) - sizeof(fi_eq_cm_entry)};
    if (event == FI_CONNREQ) {
      upcalls += handle_request(entry->info, data, sink);
      continue;
    }
    const auto found = by_fid_.find(entry->fid);
    if (found == by_fid_.end()) continue;  // closed here while the event was under way
    const EndpointId id = found->second;
    if (event == FI_CONNECTED) upcalls += handle_connected(id, data, sink);
    if (event == FI_SHUTDOWN)
      end_soon(*endpoints_.find(id), CloseReason::by_peer, "the peer closed the connection");
  }
}

int OfiFabric::handle_request(fi_info* info, Bytes data, Sink& sink) {
  Info owned(info, FreeInfo{library_});
  Bytes hello;
  uint64_t number = 0;
  // At most so many unanswered: beyond that the newcomer is refused (the library keeps its own
  // unauthenticated peers; it cannot be told to drop the oldest).
  const auto asking = static_cast<size_t>(
      std::count_if(opening_.begin(), opening_.end(), [&](EndpointId one) {
        const Endpoint* endpoint = endpoints_.find(one);
        return endpoint != nullptr && endpoint->state == State::asking && !endpoint->held;
      }));
  if (!read_connect_data(data, &hello, &number) || asking >= options_.max_unauthenticated) {
    fi_reject(listener_.get(), info->handle, nullptr, 0);
    ++(asking >= options_.max_unauthenticated ? traffic_.unauthenticated.crowded_out
                                              : traffic_.unauthenticated.garbage);
    return 0;
  }
  std::string peer_name = "unknown";
  if (info->dest_addr != nullptr && info->dest_addrlen <= sizeof(sockaddr_storage)) {
    tcp::SocketAddress peer;
    std::memcpy(&peer.storage, info->dest_addr, info->dest_addrlen);
    peer_name = tcp::to_string(peer);
  }
  EndpointId id;
  Endpoint& endpoint = *endpoints_.allocate(&id);
  endpoint.state = State::asking;
  endpoint.info = std::move(owned);
  endpoint.peer_number = number;
  endpoint.deadline_ns = now_ns() + options_.hello_deadline_ns;
  Slots<Endpoint>::publish(&endpoint, id);
  opening_.push_back(id);
  sink.on_connect_request(id, hello, peer_name);
  return 1;
}

int OfiFabric::handle_connected(EndpointId id, Bytes data, Sink& sink) {
  Endpoint& endpoint = *endpoints_.find(id);
  const bool ours = endpoint.state == State::connecting;
  endpoint.state = State::open;
  int upcalls = 0;
  if (ours) {
    Bytes reply;
    uint64_t number = 0;
    if (!read_connect_data(data, &reply, &number)) {
      end_soon(endpoint, CloseReason::protocol_error, "what answers there is not a Skerry server");
      return 0;
    }
    endpoint.peer_number = number;
    sink.on_connected(id, reply);
    ++upcalls;
  }
  if (endpoints_.find(id) != &endpoint) return upcalls;
  after_progress(endpoint, id);
  return upcalls + deliver(id, sink);  // messages may have come before this event
}

bool OfiFabric::handle_event_error(Sink& sink) {
  fi_eq_err_entry entry{};
  std::byte refusal[64];
  entry.err_data = refusal;
  entry.err_data_size = sizeof refusal;
  if (fi_eq_readerr(eq_.get(), &entry, 0) < 0) return false;
  const auto found = by_fid_.find(entry.fid);
  if (found == by_fid_.end()) return true;  // closed here while the event was under way
  Endpoint& endpoint = *endpoints_.find(found->second);
  std::string detail = library_->strerror(entry.err);
  CloseReason reason = CloseReason::reset;
  switch (endpoint.state) {
    case State::connecting:
      reason = entry.err == FI_ECONNREFUSED ? CloseReason::refused
               : entry.err == FI_ETIMEDOUT  ? CloseReason::timed_out
                                            : CloseReason::unreachable;
      break;
    case State::asking:
    case State::accepting:
    case State::open: break;
  }
  Bytes word;
  uint64_t none = 0;
  if (endpoint.state == State::connecting && entry.err_data != nullptr &&
      read_connect_data({static_cast<const std::byte*>(entry.err_data),
                         std::min(entry.err_data_size, sizeof refusal)},
                        &word, &none) &&
      std::ranges::equal(word, std::as_bytes(std::span(come_back)))) {
    const EndpointId id = found->second;
    sink.on_held(id);
    if (endpoints_.find(id) != &endpoint) return true;
  }
  end_soon(endpoint, reason, std::move(detail));
  return true;
}

void OfiFabric::end_soon(Endpoint& endpoint, CloseReason reason, std::string detail) {
  if (endpoint.ending) return;  // the first reason is the true one
  endpoint.ending = true;
  endpoint.end_reason = reason;
  endpoint.end_detail = std::move(detail);
  ending_.push_back(endpoint.id.load(std::memory_order_relaxed));
}

// What arrived before the end is delivered before it.
int OfiFabric::run_endings(Sink& sink) {
  drain_completions();
  int upcalls = run_completions(sink);
  std::vector<EndpointId> ending;
  ending.swap(ending_);
  for (EndpointId id : ending) {
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr) continue;
    if (endpoint->parked) continue;  // deliver comes back to it after unpark
    std::vector<uint64_t> cookies, atomics;
    for (const Operation* operation : endpoint->operations) {
      if (operation->kind == Operation::Kind::put || operation->kind == Operation::Kind::get)
        cookies.push_back(operation->cookie);
      if (operation->is_atomic()) atomics.push_back(operation->cookie);
    }
    const CloseReason reason = endpoint->end_reason;
    const std::string detail = endpoint->end_detail;
    release(*endpoint);
    for (uint64_t cookie : cookies) sink.on_rma_done(id, cookie, false);
    for (uint64_t cookie : atomics) sink.on_atomic_done(id, cookie, false, 0);
    sink.on_closed(id, reason, detail);
    upcalls += 1 + static_cast<int>(cookies.size() + atomics.size());
  }
  return upcalls;
}

void OfiFabric::hold(RequestId request) {
  Endpoint* const endpoint = endpoints_.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking || endpoint->held) return;
  endpoint->held = true;
  endpoint->deadline_ns = now_ns() + std::min(longest_held_ns, options_.connect_timeout_ns / 2);
}

int OfiFabric::run_deadlines(Sink& sink) {
  const int64_t now = now_ns();
  int upcalls = 0;
  const size_t count = opening_.size();
  for (size_t i = 0; i < count; ++i) {
    const EndpointId id = opening_.front();
    opening_.pop_front();
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr ||
        (endpoint->state != State::connecting && endpoint->state != State::asking))
      continue;
    if (endpoint->deadline_ns > now) {
      opening_.push_back(id);
      continue;
    }
    if (endpoint->state == State::asking) {
      reject(id);
    } else {
      release(*endpoint);
      sink.on_closed(id, CloseReason::timed_out, "no answer to connect");
      ++upcalls;
    }
  }
  return upcalls;
}

}  // namespace skerry::fabric::ofi
