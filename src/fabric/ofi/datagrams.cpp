#include "fabric/ofi/datagrams.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/futex.hpp"
#include "core/pure/assert.hpp"

namespace skerry::fabric::ofi {

namespace {

// What peers pass to connect: this, the format, and the address as the provider has it.
constexpr std::array<char, 3> address_magic = {'S', 'K', 'D'};
constexpr size_t before_address = address_magic.size() + 1;

// A peer that is gone takes no farewell, and a parcel that went before one may be lost with it.
constexpr int64_t farewell_timeout_ns = 5'000'000'000;
// How often silent peers are looked for, at most.
constexpr int64_t look_after_ns = 1'000'000'000;
// Parts of the silence timeout. The first question follows so much silence, each later one twice
// the time of the last one, up to the longest.
constexpr int64_t first_question_part = 30;
constexpr int64_t longest_question_part = 3;
// What is still missing then is lost.
constexpr int64_t lost_part = 20;
// So many times the silence timeout a question may be under way to a peer that may be stopped.
constexpr int64_t patient_times = 10;
// Of a fabric that ends, for its farewells.
constexpr int64_t stop_timeout_ns = 200'000'000;

Control control_of(const Operation& parcel) {
  Control control;
  std::memcpy(&control, parcel.buffer.data, sizeof control);
  return control;
}

bool is_hello(const Operation& parcel) {
  return control_of(parcel).kind == static_cast<uint8_t>(ControlKind::hello);
}

// Its receiver may not know the sender, or not by a number.
bool carries_address(ControlKind kind, uint64_t number) {
  switch (kind) {
    case ControlKind::hello:
    case ControlKind::accept:
    case ControlKind::ask: return true;
    case ControlKind::farewell: return number == 0;
    case ControlKind::refuse:
    case ControlKind::held:
    case ControlKind::tell: return false;
  }
  return false;
}

}  // namespace

Status Datagrams::listen(std::vector<std::byte>* address) {
  SKERRY_TRY(peers_.own_address(&own_));
  const auto append = [&](const auto& text) {
    for (const char c : text) address->push_back(static_cast<std::byte>(c));
  };
  address->clear();
  append(address_magic);
  address->push_back(static_cast<std::byte>(domain_.info->addr_format));
  append(own_);
  listens_ = true;
  return {};
}

Status Datagrams::connect(Bytes address, Bytes hello, EndpointId* id) {
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  const std::string_view text(reinterpret_cast<const char*>(address.data()), address.size());
  if (!text.starts_with(std::string_view(address_magic.data(), address_magic.size())) ||
      text.size() <= before_address ||
      static_cast<uint8_t>(text[before_address - 1]) != domain_.info->addr_format)
    return error(Code::invalid, "this is no address of ", domain_.name, ": ", address.size(),
                 " bytes");
  std::shared_ptr<Peer> peer;
  if (own_.empty()) SKERRY_TRY(peers_.own_address(&own_));
  SKERRY_TRY(peers_.get(std::string(text.substr(before_address)), &peer));
  Endpoint& endpoint = endpoints_.add(State::connecting,
                                      monotonic_ns() + options_.connect_timeout_ns, id);
  SKERRY_TRY(endpoints_.open(endpoint, nullptr));
  endpoint.peer = peer;
  endpoint.is_ours = true;
  endpoint.said.assign(hello.begin(), hello.end());
  messages_.post_shared();
  opening_.push_back(*id);
  say(ControlKind::hello, peer, *id, {.from = endpoint.number, .text = hello});
  endpoints_.impatient.store(true, std::memory_order_relaxed);
  endpoints_.leave_work();
  return {};
}

Status Datagrams::accept(RequestId request, Bytes reply, EndpointId* out) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr) {
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  }
  SKERRY_TRY(endpoints_.open(*endpoint, nullptr));
  messages_.post_shared();
  endpoint->state = State::open;
  endpoint->said.assign(reply.begin(), reply.end());
  say_accept(*endpoint);
  *out = request;
  return {};
}

void Datagrams::say_accept(const Endpoint& endpoint) {
  say(ControlKind::accept, endpoint.peer, endpoint.own_id(),
      {.number = endpoint.peer_number, .from = endpoint.number, .text = endpoint.said});
}

void Datagrams::reject(RequestId request, CloseReason why) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr) return;
  if (!endpoint->held) ++endpoints_.traffic.unauthenticated.rejected;
  refuse(endpoint->peer, endpoint->peer_number, why, endpoint->held);
  endpoints_.release(*endpoint);
}

void Datagrams::refuse(const std::shared_ptr<Peer>& peer, uint64_t number, CloseReason why,
                       bool was_held) {
  SKERRY_ASSERT(is_refusal(why), "a peer is rejected for a reason that refuses");
  const std::byte reason{static_cast<uint8_t>(why)};
  say(ControlKind::refuse, peer, no_endpoint,
      {.number = number, .parcels = was_held, .text = {&reason, 1}});
}

void Datagrams::hold(RequestId request) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr || endpoint->held) return;
  endpoint->held = true;
  endpoint->deadline_ns = std::numeric_limits<int64_t>::max();
  say(ControlKind::held, endpoint->peer, no_endpoint, {.number = endpoint->peer_number});
}

void Datagrams::leave(Endpoint& endpoint) {
  switch (endpoint.state) {
    case State::asking:
    case State::accepting: return;
    case State::open:
      if (!endpoint.left_after)
        say(ControlKind::farewell, endpoint.peer, no_endpoint,
            {.number = endpoint.peer_number, .from = endpoint.number, .parcels = endpoint.sent});
      return;
    case State::connecting: break;
  }
  if (take_back_hello(endpoint.own_id())) return;
  withdrawn_[endpoint.number] = {endpoint.peer, monotonic_ns() + options_.connect_timeout_ns};
  say(ControlKind::farewell, endpoint.peer, no_endpoint, {.from = endpoint.number});
}

// What is unsent of a hello is needed no more. True: then the peer has heard of none.
bool Datagrams::take_back_hello(EndpointId id) {
  const auto hello = std::ranges::find(unsent_, id, &Operation::endpoint);
  if (hello == unsent_.end()) return false;
  const bool is_first = control_of(**hello).parcels == 0;
  pool_.give_back(*hello);
  unsent_.erase(hello);
  return is_first;
}

void Datagrams::stop() {
  listens_ = false;
  const int64_t deadline_ns = monotonic_ns() + stop_timeout_ns;
  while ((under_way_ > 0 || !unsent_.empty()) && monotonic_ns() < deadline_ns) {
    endpoints_.drain_completions();
    Completion completion;
    while (endpoints_.next_completion(&completion))
      if (completion.operation->kind == Operation::Kind::control) sent(completion);
    std::erase_if(unsent_, [&](Operation* one) { return try_to_send(one); });
  }
}

// --- control parcels ---------------------------------------------------------------------------

void Datagrams::say(ControlKind kind, const std::shared_ptr<Peer>& peer, EndpointId id,
                    const Parts& parts) {
  Operation* const operation = pool_.take(Operation::Kind::control, id, true);
  if (operation == nullptr) return;  // no memory: as if it had been lost; deadlines find out
  const std::string_view address = carries_address(kind, parts.number) ? own_ : std::string_view();
  Control control{{0, control_frames, control_magic, parts.number},
                  parts.from,
                  parts.parcels,
                  static_cast<uint8_t>(kind),
                  control_version,
                  static_cast<uint8_t>(parts.text.size()),
                  static_cast<uint8_t>(address.size())};
  std::byte* const to = operation->buffer.data;
  std::memcpy(to, &control, sizeof control);
  std::ranges::copy(parts.text, to + sizeof control);
  std::ranges::copy(std::as_bytes(std::span(address)),
                    to + sizeof control + parts.text.size());
  operation->bytes = sizeof control + parts.text.size() + address.size();
  operation->peer = peer;
  operation->at = static_cast<uint64_t>(
      monotonic_ns() +
      (kind == ControlKind::farewell ? farewell_timeout_ns : options_.connect_timeout_ns));
  if (try_to_send(operation)) return;
  unsent_.push_back(operation);
  endpoints_.impatient.store(true, std::memory_order_relaxed);
  endpoints_.leave_work();
}

// True: it is out of our hands.
bool Datagrams::try_to_send(Operation* operation) {
  if (is_hello(*operation) && operation->peer->puts > 0) return false;
  const int64_t result = fi_send(domain_.receives.get(), operation->buffer.data, operation->bytes,
                                 operation->buffer.descriptor, operation->peer->at,
                                 &operation->context);
  if (result == -FI_EAGAIN) return false;
  if (result != 0) {
    failed(operation, static_cast<int>(-result));
    return true;
  }
  ++under_way_;
  endpoints_.traffic.bytes_sent += operation->bytes;
  return true;
}

void Datagrams::sent(const Completion& completion) {
  --under_way_;
  // Only questions and hellos name an endpoint.
  if (Endpoint* const asked = endpoints_.find(completion.operation->endpoint)) asked->asked_ns = 0;
  if (completion.error_number != 0) failed(completion.operation, completion.error_number);
  else pool_.give_back(completion.operation);
}

void Datagrams::failed(Operation* operation, int error_number) {
  Endpoint* const endpoint = endpoints_.find(operation->endpoint);
  const bool connects = endpoint != nullptr && endpoint->state == State::connecting;
  if (endpoint != nullptr && connects == is_hello(*operation))  // else it was answered meanwhile
    endpoints_.end_soon(*endpoint, connects ? CloseReason::unreachable : CloseReason::reset,
                        domain_.library->strerror(error_number));
  pool_.give_back(operation);
}

void Datagrams::read_events(Sink&) {
  const int64_t now_ns = monotonic_ns();
  for (size_t left = unsent_.size(); left > 0; --left) {
    Operation* const operation = unsent_.front();
    unsent_.pop_front();
    if (try_to_send(operation)) continue;
    if (static_cast<int64_t>(operation->at) > now_ns) unsent_.push_back(operation);
    else failed(operation, FI_ETIMEDOUT);
  }
  if (now_ns - looked_ns_ < look_after_ns) return;
  looked_ns_ = now_ns;
  endpoints_.for_each([&](Endpoint& one) {
    if (one.ending) return;
    if (one.state == State::open && !one.left_after) look_after(one, now_ns);
    if (one.state == State::connecting) say_hello_again(one, now_ns);
  });
}

// Silence is counted from now on.
void Datagrams::begin_silence(Endpoint& endpoint, int64_t now_ns) {
  endpoint.heard_ns = now_ns;
  endpoint.ask_after_ns = options_.silence_timeout_ns / first_question_part;
}

// True: a question is due. The next one is so after twice the time.
bool Datagrams::is_silent_for_long(Endpoint& endpoint, int64_t now_ns) {
  if (now_ns - endpoint.heard_ns < endpoint.ask_after_ns) return false;
  endpoint.heard_ns = now_ns;
  endpoint.ask_after_ns = std::min(2 * endpoint.ask_after_ns,
                                   options_.silence_timeout_ns / longest_question_part);
  return true;
}

// It, or its answer, may be lost.
void Datagrams::say_hello_again(Endpoint& endpoint, int64_t now_ns) {
  const EndpointId id = endpoint.own_id();
  const bool is_unsent = std::ranges::find(unsent_, id, &Operation::endpoint) != unsent_.end();
  if (endpoint.heard_ns == 0 || is_unsent) return begin_silence(endpoint, now_ns);
  if (!is_silent_for_long(endpoint, now_ns)) return;
  say(ControlKind::hello, endpoint.peer, id,
      {.from = endpoint.number, .parcels = 1, .text = endpoint.said});
}

// No event tells that a peer has died: only what is sent to it finds out. A connection that waits
// for something of a silent peer asks. If the question cannot be sent the connection ends. Some
// providers (udp;ofi_rxd) try for ever; then it ends when the question has not arrived for long.
void Datagrams::look_after(Endpoint& endpoint, int64_t now_ns) {
  if (endpoint.heard != endpoint.received || endpoint.heard_ns == 0) {
    endpoint.heard = endpoint.received;
    if (endpoint.received != 0) endpoint.said = {};
    return begin_silence(endpoint, now_ns);
  }
  if (endpoint.asked_ns != 0) {
    if (now_ns - endpoint.asked_ns >= longest_question_ns())
      endpoints_.end_soon(endpoint, CloseReason::reset, "the peer takes nothing that is sent");
    return;
  }
  const bool waits = endpoint.is_ours || endpoint.due || !endpoint.rma_waiting.empty() ||
                     endpoint.owed >= window / 2;
  if (!waits || !is_silent_for_long(endpoint, now_ns)) return;
  endpoint.asked_ns = now_ns;
  say(ControlKind::ask, endpoint.peer, endpoint.own_id(),
      {.number = endpoint.peer_number, .from = endpoint.number, .parcels = endpoint.sent});
}

// Then a question that is under way will not arrive. Where the kernel tells of a peer's death, one
// that takes nothing is mostly stopped, and its socket full: to give it up would cost more than to
// wait.
int64_t Datagrams::longest_question_ns() const {
  return domain_.kernel_tells_of_death() ? options_.silence_timeout_ns * patient_times
                                         : options_.silence_timeout_ns * 2 / 3;
}

// The peer sent so many. Some providers lose parcels that they have said are sent: tcp;ofi_rxm does
// where the connection beneath breaks. What is missing twice, and did not come in between, is lost.
void Datagrams::count_parcels(Endpoint& endpoint, uint32_t sent) {
  const bool misses = static_cast<int32_t>(sent - endpoint.received) > 0;
  const int64_t now_ns = monotonic_ns();
  if (!misses) {
    endpoint.missed_ns = 0;
  } else if (endpoint.missed_ns == 0 || endpoint.missed_after != endpoint.received) {
    endpoint.missed_ns = now_ns;
    endpoint.missed_after = endpoint.received;
  } else if (now_ns - endpoint.missed_ns >= options_.silence_timeout_ns / lost_part) {
    endpoints_.end_soon(endpoint, CloseReason::reset, "parcels of the peer are lost");
  }
}

void Datagrams::take(Operation* parcel, Sink& sink) {
  Control control;
  const bool has_head = parcel->bytes >= sizeof control;
  if (has_head) std::memcpy(&control, parcel->buffer.data, sizeof control);
  const bool is_ours = has_head && control.head.sequence == control_magic &&
                       control.version == control_version &&
                       control.text_bytes <= max_hello_bytes &&
                       parcel->bytes == sizeof control + control.text_bytes + control.address_bytes;
  if (!is_ours) {
    ++endpoints_.traffic.unauthenticated.garbage;
    return pool_.give_back(parcel);
  }
  const Bytes text(parcel->buffer.data + sizeof control, control.text_bytes);
  const std::string address(reinterpret_cast<const char*>(text.data() + text.size()),
                            control.address_bytes);
  switch (static_cast<ControlKind>(control.kind)) {
    case ControlKind::hello: handle_hello(control, text, address, sink); break;
    case ControlKind::accept: handle_accept(control, text, address, sink); break;
    case ControlKind::refuse:
    case ControlKind::held: handle_answer(control, text, sink); break;
    case ControlKind::farewell: handle_farewell(control, address); break;
    case ControlKind::ask:
    case ControlKind::tell: handle_ask(control, address); break;
    default: ++endpoints_.traffic.unauthenticated.garbage; break;
  }
  pool_.give_back(parcel);
}

void Datagrams::handle_hello(const Control& control, Bytes text, const std::string& address,
                             Sink& sink) {
  std::shared_ptr<Peer> peer;
  if (control.from == 0 || !peers_.get(address, &peer).ok()) {
    ++endpoints_.traffic.unauthenticated.garbage;
    return;
  }
  if (control.parcels != 0 && was_heard(control.from, *peer)) return;
  if (!listens_ || is_crowded()) {
    if (listens_) ++endpoints_.traffic.unauthenticated.crowded_out;
    return refuse(peer, control.from, listens_ ? CloseReason::crowded_out : CloseReason::refused,
                  false);
  }
  EndpointId id = no_endpoint;
  add_asking(control.from, &id).peer = peer;
  sink.on_connect_request(id, text, peers_.name_of(*peer));
}

// Is the sender of a hello that was said again known? Then what may have been lost is said again.
bool Datagrams::was_heard(uint64_t number, const Peer& peer) {
  const Endpoint* const known = endpoints_.find_if([&](const Endpoint& one) {
    return !one.is_ours && one.peer.get() == &peer && one.peer_number == number;
  });
  if (known == nullptr) return false;
  if (known->state == State::open && known->received == 0) say_accept(*known);
  if (known->state == State::asking && known->held)
    say(ControlKind::held, known->peer, no_endpoint, {.number = number});
  return true;
}

void Datagrams::handle_accept(const Control& control, Bytes reply, const std::string& address,
                              Sink& sink) {
  Endpoint* endpoint = endpoints_.find_numbered(control.head.number);
  if (endpoint == nullptr || endpoint->state != State::connecting) {
    // Accepted while our withdrawal was under way, or once more for a hello that was said again.
    withdrawn_.erase(control.head.number);
    if (endpoint != nullptr && endpoint->peer_number == control.from) return;
    std::shared_ptr<Peer> peer;
    if (!peers_.get(address, &peer).ok()) return;
    say(ControlKind::farewell, peer, no_endpoint,
        {.number = control.from, .from = control.head.number});
    return;
  }
  const EndpointId id = endpoint->own_id();
  (void)take_back_hello(id);
  endpoint->state = State::open;
  endpoint->peer_number = control.from;
  endpoint->heard_ns = 0;
  endpoint->said = {};
  sink.on_connected(id, reply);
  endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return;
  messages_.after_progress(*endpoint);
  messages_.deliver(id, sink);  // messages may have overtaken this
  endpoint = endpoints_.find(id);
  if (endpoint != nullptr) messages_.end_if_left(*endpoint);
}

// No yes. A refusal says whether the peer was held before: it may overtake that word.
void Datagrams::handle_answer(const Control& control, Bytes reason, Sink& sink) {
  const bool is_refusal = control.kind == static_cast<uint8_t>(ControlKind::refuse);
  if (is_refusal) withdrawn_.erase(control.head.number);
  Endpoint* endpoint = endpoints_.find_numbered(control.head.number);
  if (endpoint == nullptr || endpoint->state != State::connecting) return;
  const EndpointId id = endpoint->own_id();
  if ((!is_refusal || control.parcels != 0) && !endpoint->held) {
    endpoint->held = true;
    endpoint->deadline_ns = std::numeric_limits<int64_t>::max();
    sink.on_held(id);
  }
  endpoint = endpoints_.find(id);
  if (is_refusal && endpoint != nullptr)
    endpoints_.end_soon(*endpoint,
                        reason.size() == 1 ? refusal_of(reason[0]) : CloseReason::refused, "");
}

void Datagrams::handle_farewell(const Control& control, const std::string& address) {
  if (control.head.number == 0) {  // withdrawn before it had our number
    Endpoint* const withdrawn = endpoints_.find_if([&](const Endpoint& one) {
      return one.peer != nullptr && one.peer_number == control.from && one.peer->address == address;
    });
    if (withdrawn == nullptr) return;  // it overtook its hello: our answer to that finds nothing
    if (withdrawn->state == State::asking) {
      ++endpoints_.traffic.unauthenticated.left;
      return endpoints_.release(*withdrawn);
    }
    withdrawn->left_after = withdrawn->received;
    return messages_.end_if_left(*withdrawn);
  }
  Endpoint* const endpoint = endpoints_.find_numbered(control.head.number);
  if (endpoint == nullptr) return;  // both left at once
  endpoint->left_after = control.parcels;
  messages_.end_if_left(*endpoint);
  if (endpoint->ending) return;
  endpoint->deadline_ns = monotonic_ns() + farewell_timeout_ns;
  leaving_.push_back(endpoint->own_id());
}

void Datagrams::handle_ask(const Control& control, const std::string& address) {
  const bool is_question = control.kind == static_cast<uint8_t>(ControlKind::ask);
  if (Endpoint* const one = endpoints_.find_numbered(control.head.number)) {
    if (one->state != State::open || one->ending) return;
    count_parcels(*one, control.parcels);
    if (is_question)
      say(ControlKind::tell, one->peer, no_endpoint,
          {.number = one->peer_number, .from = one->number, .parcels = one->sent});
    return;
  }
  std::shared_ptr<Peer> peer;
  if (!is_question) return;
  if (!peers_.get(address, &peer).ok()) return;
  say(ControlKind::farewell, peer, no_endpoint,
      {.number = control.from, .from = control.head.number});
}

void Datagrams::run_deadlines(Sink& sink) {
  Connector::run_deadlines(sink);
  const int64_t now_ns = monotonic_ns();
  std::erase_if(withdrawn_, [&](const auto& one) { return one.second.deadline_ns <= now_ns; });
  std::erase_if(leaving_, [&](EndpointId id) {
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr || endpoint->ending) return true;
    if (endpoint->deadline_ns > now_ns) return false;
    endpoints_.end_soon(*endpoint, CloseReason::by_peer,
                        "the peer left, and parcels of it are lost");
    return true;
  });
}

}  // namespace skerry::fabric::ofi
