#include "fabric/ofi/connect.hpp"

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "fabric/tcp/address.hpp"

namespace skerry::fabric::ofi {
namespace {

// Providers may pad connect data to a fixed length, so it carries its own. It is the length of the
// text, the number that parcels to us must carry (0: there will be none), and the text.
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

// A refusal carries its reason, one byte (CloseReason). But a provider answers a request once: a
// peer that is to wait is refused with this word when it has waited for a while, and asks again
// (Fabric::hold).
constexpr std::string_view come_back = "wait";
constexpr int64_t longest_held_ns = 5'000'000'000;

constexpr size_t event_bytes = sizeof(fi_eq_cm_entry) + 256;  // connect data follows the entry

}  // namespace

// --- both kinds --------------------------------------------------------------------------------

Endpoint* Connector::find_asking(RequestId request) const {
  Endpoint* const endpoint = endpoints_.find(request);
  return endpoint != nullptr && endpoint->state == State::asking ? endpoint : nullptr;
}

bool Connector::is_crowded() const {
  const auto asking = std::ranges::count_if(opening_, [&](EndpointId one) {
    const Endpoint* endpoint = endpoints_.find(one);
    return endpoint != nullptr && endpoint->state == State::asking && !endpoint->held;
  });
  return static_cast<size_t>(asking) >= options_.max_unauthenticated;
}

Endpoint& Connector::add_asking(uint64_t peer_number, EndpointId* id) {
  Endpoint& endpoint = endpoints_.add(State::asking, monotonic_ns() + options_.hello_deadline_ns,
                                      id);
  endpoint.peer_number = peer_number;
  opening_.push_back(*id);
  return endpoint;
}

void Connector::run_deadlines(Sink& sink) {
  const int64_t now_ns = monotonic_ns();
  for (size_t left = opening_.size(); left > 0; --left) {
    const EndpointId id = opening_.front();
    opening_.pop_front();
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr ||
        (endpoint->state != State::connecting && endpoint->state != State::asking))
      continue;
    if (endpoint->deadline_ns > now_ns) {
      opening_.push_back(id);
    } else if (endpoint->state == State::asking) {
      reject(id, CloseReason::refused);
    } else {
      leave(*endpoint);
      endpoints_.release(*endpoint);
      // Datagrams do not tell that nobody is there.
      sink.on_closed(id,
                     domain_.is_datagram() ? CloseReason::unreachable : CloseReason::timed_out,
                     "no answer to connect");
    }
  }
}

// --- connected endpoints -----------------------------------------------------------------------

Status Connected::listen(std::vector<std::byte>* address) {
  fid_pep* listener = nullptr;
  if (const int result = fi_passive_ep(domain_.fabric.get(), domain_.info.get(), &listener,
                                       nullptr);
      result != 0)
    return domain_.failed("fi_passive_ep", result);
  listener_.reset(listener);
  if (const int result = fi_pep_bind(listener, &domain_.events->fid, 0); result != 0)
    return domain_.failed("fi_pep_bind", result);
  if (const int result = fi_listen(listener); result != 0)
    return domain_.failed("fi_listen", result);
  tcp::SocketAddress actual;
  size_t bytes = sizeof actual.storage;
  if (const int result = fi_getname(&listener->fid, &actual.storage, &bytes); result != 0)
    return domain_.failed("fi_getname", result);
  uint16_t port = 0;
  const tcp::InterfaceAddress one = tcp::interface_address(
      reinterpret_cast<const sockaddr*>(&actual.storage), &port);
  *address = tcp::encode_address(tcp::host_identity(), port, {one});
  return {};
}

Status Connected::connect(Bytes address, Bytes hello, EndpointId* id) {
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  std::vector<tcp::SocketAddress> candidates;
  SKERRY_TRY(tcp::decode_address(address, &candidates));
  const Info info(domain_.library->dupinfo(domain_.info.get()), FreeInfo{domain_.library});
  if (info == nullptr) return error(Code::no_memory, "no memory for a connection");
  std::free(info->dest_addr);
  info->dest_addr = std::malloc(candidates[0].bytes);
  if (info->dest_addr == nullptr) return error(Code::no_memory, "no memory for a connection");
  std::memcpy(info->dest_addr, &candidates[0].storage, candidates[0].bytes);
  info->dest_addrlen = candidates[0].bytes;
  Endpoint& endpoint = endpoints_.add(State::connecting,
                                      monotonic_ns() + options_.connect_timeout_ns, id);
  Status status = open(endpoint, info.get());
  if (status.ok()) {
    const ConnectData data(hello, endpoint.number);
    if (const int result = fi_connect(endpoint.ep, info->dest_addr, data.bytes, data.size);
        result != 0)
      status = domain_.failed("fi_connect", result);
  }
  if (!status.ok()) {
    endpoints_.release(endpoint);
    *id = no_endpoint;
    return status;
  }
  opening_.push_back(*id);
  endpoints_.impatient.store(true, std::memory_order_relaxed);
  endpoints_.leave_work();
  return {};
}

// Creates and enables libfabric's endpoint with its receive buffers posted: a peer may send from
// the moment that we answer.
Status Connected::open(Endpoint& endpoint, fi_info* info) {
  SKERRY_TRY(endpoints_.open(endpoint, info));
  return messages_.post_receives(endpoint);
}

Status Connected::accept(RequestId request, Bytes reply, EndpointId* out) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr) {
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  }
  const Info info = std::move(endpoint->info);
  Status status = open(*endpoint, info.get());
  if (status.ok()) {
    const ConnectData data(reply, endpoint->number);
    if (const int result = fi_accept(endpoint->ep, data.bytes, data.size); result != 0) {
      status = error(Code::peer_dead, "the peer went away while it was accepted: ",
                     domain_.library->strerror(-result));
    }
  } else {
    refuse(info->handle, CloseReason::crowded_out);
  }
  if (!status.ok()) {
    endpoints_.release(*endpoint);
    return status;
  }
  endpoint->state = State::accepting;
  *out = request;
  return {};
}

void Connected::refuse(fid_t handle, CloseReason why) {
  SKERRY_ASSERT(is_refusal(why), "a peer is rejected for a reason that refuses");
  const std::byte reason{static_cast<uint8_t>(why)};
  const ConnectData data({&reason, 1}, 0);
  fi_reject(listener_.get(), handle, data.bytes, data.size);
}

void Connected::reject(RequestId request, CloseReason why) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr) return;
  if (endpoint->held) {
    const ConnectData data(std::as_bytes(std::span(come_back)), 0);
    fi_reject(listener_.get(), endpoint->info->handle, data.bytes, data.size);
  } else {
    refuse(endpoint->info->handle, why);
    ++endpoints_.traffic.unauthenticated.rejected;
  }
  endpoints_.release(*endpoint);
}

void Connected::hold(RequestId request) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr || endpoint->held) return;
  endpoint->held = true;
  endpoint->deadline_ns = monotonic_ns() +
                          std::min(longest_held_ns, options_.connect_timeout_ns / 2);
}

// --- events ------------------------------------------------------------------------------------

void Connected::read_events(Sink& sink) {
  for (;;) {
    alignas(fi_eq_cm_entry) std::byte buffer[event_bytes];
    uint32_t event = 0;
    const ssize_t n = fi_eq_read(domain_.events.get(), &event, buffer, sizeof buffer, 0);
    if (n == -FI_EAVAIL) {
      if (!handle_event_error(sink)) return;
      continue;
    }
    if (n < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) return;
    const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(buffer);
    const Bytes data{buffer + sizeof(fi_eq_cm_entry),
                     static_cast<size_t>(n) - sizeof(fi_eq_cm_entry)};
    if (event == FI_CONNREQ) {
      handle_request(entry->info, data, sink);
      continue;
    }
    Endpoint* const endpoint = endpoints_.find(entry->fid);
    if (endpoint == nullptr) continue;  // closed here while the event was under way
    if (event == FI_CONNECTED) handle_connected(*endpoint, data, sink);
    if (event == FI_SHUTDOWN)
      endpoints_.end_soon(*endpoint, CloseReason::by_peer, "the peer closed the connection");
  }
}

void Connected::handle_request(fi_info* info, Bytes data, Sink& sink) {
  Info owned(info, FreeInfo{domain_.library});
  Bytes hello;
  uint64_t number = 0;
  const bool is_crowd = is_crowded();
  if (!read_connect_data(data, &hello, &number) || is_crowd) {
    refuse(info->handle, is_crowd ? CloseReason::crowded_out : CloseReason::refused);
    Fabric::Unauthenticated& refused = endpoints_.traffic.unauthenticated;
    ++(is_crowd ? refused.crowded_out : refused.garbage);
    return;
  }
  std::string peer_name = "unknown";
  if (info->dest_addr != nullptr && info->dest_addrlen <= sizeof(sockaddr_storage)) {
    tcp::SocketAddress peer;
    std::memcpy(&peer.storage, info->dest_addr, info->dest_addrlen);
    peer_name = tcp::to_string(peer);
  }
  EndpointId id;
  add_asking(number, &id).info = std::move(owned);
  sink.on_connect_request(id, hello, peer_name);
}

void Connected::handle_connected(Endpoint& endpoint, Bytes data, Sink& sink) {
  const EndpointId id = endpoint.own_id();
  const bool ours = endpoint.state == State::connecting;
  endpoint.state = State::open;
  if (ours) {
    Bytes reply;
    uint64_t number = 0;
    if (!read_connect_data(data, &reply, &number))
      return endpoints_.end_soon(endpoint, CloseReason::protocol_error,
                                 "what answers there is not a Skerry server");
    endpoint.peer_number = number;
    sink.on_connected(id, reply);
  }
  if (endpoint.own_id() != id) return;
  messages_.after_progress(endpoint);
  messages_.deliver(id, sink);  // messages may have come before this event
}

bool Connected::handle_event_error(Sink& sink) {
  fi_eq_err_entry entry{};
  std::byte refusal[64];
  entry.err_data = refusal;
  entry.err_data_size = sizeof refusal;
  if (fi_eq_readerr(domain_.events.get(), &entry, 0) < 0) return false;
  Endpoint* const endpoint = endpoints_.find(entry.fid);
  if (endpoint == nullptr) return true;  // closed here while the event was under way
  CloseReason reason = CloseReason::reset;
  if (endpoint->state == State::connecting) {
    reason = entry.err == FI_ECONNREFUSED ? CloseReason::refused
             : entry.err == FI_ETIMEDOUT  ? CloseReason::timed_out
                                          : CloseReason::unreachable;
    Bytes word;
    uint64_t none = 0;
    if (entry.err_data != nullptr &&
        read_connect_data({static_cast<const std::byte*>(entry.err_data),
                           std::min(entry.err_data_size, sizeof refusal)},
                          &word, &none)) {
      if (word.size() == 1) reason = refusal_of(word[0]);
      if (std::ranges::equal(word, std::as_bytes(std::span(come_back)))) {
        const EndpointId id = endpoint->own_id();
        sink.on_held(id);
        if (endpoint->own_id() != id) return true;
      }
    }
  }
  endpoints_.end_soon(*endpoint, reason, domain_.library->strerror(entry.err));
  return true;
}

}  // namespace skerry::fabric::ofi
