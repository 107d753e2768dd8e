#include "fabric/tcp/receive.hpp"

#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::tcp {
namespace {

constexpr uint32_t buffer_bytes = 128 * 1024;

// What one dispatch receives of one connection: all connections share the first figure, but none
// has less than the second or more than the third. Then it is the others' turn (epoll is level
// triggered: we come back). So a turn is bounded, and a peer that asks for little waits for a turn
// at most, however much the others send. Few connections get much at a time, which costs fewer
// calls.
struct Turn {
  uint64_t all_bytes, least_bytes, most_bytes;
  uint64_t share_bytes(uint64_t connections) const {
    return std::clamp(all_bytes / std::max<uint64_t>(connections, 1), least_bytes, most_bytes);
  }
};
constexpr Turn message_turn{1024 * 1024, 16 * 1024, 128 * 1024};
constexpr Turn direct_turn{4096 * 1024, 128 * 1024, 1024 * 1024};  // payloads placed directly
// An inline payload from this size on is placed where the sink says, if it is not here as a whole
// already.
constexpr uint64_t place_inline_from_bytes = 16 * 1024;
// Such payloads come one behind the other. What a read brings of the next one into the shared
// buffer is copied once more. So these many reads after one bring little of it. Not after long
// ones: a single one would then be waited for as a whole (SO_RCVLOWAT), and 256 KiB took 3 times as
// long.
constexpr uint8_t reads_after_part = 16;
constexpr uint64_t short_read_bytes = 4 * 1024;
// Also after a whole message of more than this: a read brings no two of those. Parts of an
// accumulate are shorter. They are applied where the read brought them.
constexpr uint64_t large_inline_bytes = 48 * 1024;

CloseReason close_reason_of(int error_number) {
  switch (error_number) {
    case ETIMEDOUT: return CloseReason::timed_out;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL: return CloseReason::unreachable;
    case EPIPE: return CloseReason::by_peer;
    default: return CloseReason::reset;
  }
}

// Does a message that is delivered with its header begin here, and is it all here?
bool whole_frame(Bytes data) {
  if (data.size() < prefix_bytes) return false;
  const Prefix prefix = decode_prefix(data.data());
  return plausible(prefix) && prefix.payload_bytes <= inline_payload_bytes &&
         data.size() >= prefix_bytes + prefix.header_bytes + prefix.payload_bytes;
}

}  // namespace

Receiver::Receiver(Endpoints& endpoints, Sender& sender, Marks& marks)
    : endpoints_(endpoints),
      sender_(sender),
      marks_(marks),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes)) {}

// One recv. With MSG_DONTWAIT it just looks; without, it sleeps in the kernel until data, the end,
// or SO_RCVTIMEO.
Receiver::Received Receiver::receive(Endpoint& endpoint, EndpointId id, int flags) {
  Received received;
  received.endpoint = id;
  endpoint.overdue = false;
  iovec parts[2];
  int count = 0;
  uint64_t direct_room = 0;
  bool with_buffer = true;
  const Receive* state = endpoint.receive.get();
  if (state != nullptr && state->destination != nullptr) {
    direct_room = state->payload_bytes - state->placed_bytes;
    if (const uint64_t share_bytes = direct_turn.share_bytes(turn_connections_);
        direct_room > share_bytes) {
      direct_room = share_bytes;
      with_buffer = false;
    }
    parts[count++] = {state->destination + state->placed_bytes, direct_room};
  } else if (state != nullptr && state->partial != nullptr) {
    if (state->partial_need != 0) {
      direct_room = state->partial_need - state->partial_have;
      parts[count++] = {state->partial.get() + state->partial_have, direct_room};
    } else {
      std::memcpy(buffer_.get(), state->partial.get(), state->partial_have);
      received.carried = state->partial_have;
    }
  }
  if (with_buffer) {
    static_assert(message_turn.most_bytes == buffer_bytes);
    static_assert(message_turn.least_bytes > max_greeting_bytes, "room behind what is carried");
    uint64_t most_bytes = message_turn.share_bytes(turn_connections_) - received.carried;
    if (endpoint.short_reads > 0) {
      --endpoint.short_reads;
      most_bytes = std::min(most_bytes, short_read_bytes);
    }
    parts[count++] = {buffer_.get() + received.carried, most_bytes};
  }
  if (count == 1) {
    received.bytes = recv(endpoint.fd, parts[0].iov_base, parts[0].iov_len, flags);
  } else {
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    received.bytes = recvmsg(endpoint.fd, &message, flags);
  }
  if (received.bytes < 0) {
    received.error_number = errno;
  } else {
    received.direct = std::min<uint64_t>(static_cast<uint64_t>(received.bytes), direct_room);
    count_bytes(static_cast<uint64_t>(received.bytes));
  }
  return received;
}

void Receiver::block(Endpoint& endpoint, EndpointId id, int64_t timeout_ns, IdleCoreSpin& spin) {
  Received early;
  const auto came = [&] { return !(early = receive(endpoint, id, MSG_DONTWAIT)).nothing_yet(); };
  if (spin.spin<looks_a_turn>(came, longest_spin_ns)) {
    received_ = early;
    return;
  }
  // SO_RCVTIMEO costs a system call, so time-outs are rounded down to powers of two (poll may
  // return early) and set only when they change.
  SKERRY_INVARIANT(timeout_ns > 0, "a wait for one endpoint ends");
  const auto rounded_ns = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(timeout_ns, 1'000'000))));
  if (rounded_ns != endpoint.receive_timeout_ns) {
    const timeval timeout{rounded_ns / 1'000'000'000, rounded_ns % 1'000'000'000 / 1000};
    setsockopt(endpoint.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    endpoint.receive_timeout_ns = rounded_ns;
  }
  const Received received = receive(endpoint, id, 0);
  if (!received.nothing_yet()) received_ = received;
}

void Receiver::receive_failed(Endpoint& endpoint, const Received& received, Sink& sink) {
  const bool waiting = endpoint.state == State::awaiting_reply;
  const int error_number = received.bytes < 0 ? received.error_number : endpoint.send_error;
  if (waiting && (error_number == 0 || error_number == ECONNRESET || error_number == EPIPE)) {
    endpoints_.fail(endpoint, CloseReason::refused,
                    "the peer closed the connection instead of accepting it", sink);
  } else if (error_number == 0) {
    endpoints_.fail(endpoint, CloseReason::by_peer, "the peer closed the connection", sink);
  } else {
    endpoints_.fail(endpoint, close_reason_of(error_number), error_text(error_number), sink);
  }
}

void Receiver::consume(const Received& received, Sink& sink) {
  const EndpointId id = received.endpoint;
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return;  // closed between poll and dispatch
  if (received.bytes <= 0) {
    if (!received.nothing_yet()) receive_failed(*endpoint, received, sink);
    return;
  }
  Bytes rest{buffer_.get(),
             received.carried + static_cast<uint64_t>(received.bytes) - received.direct};
  if (received.carried != 0) endpoint->receive->partial.reset();  // it stands in the buffer now
  if (received.direct != 0 && take_direct(*endpoint, received.direct, rest, sink) != Parsed::all)
    return;
  // The header that was cut announced a long payload, whose beginning came together with the
  // header's end.
  if (endpoint->receive != nullptr && endpoint->receive->destination != nullptr && !rest.empty()) {
    Receive& state = *endpoint->receive;
    const Bytes payload = rest.first(
        std::min<uint64_t>(rest.size(), state.payload_bytes - state.placed_bytes));
    std::memcpy(state.destination + state.placed_bytes, payload.data(), payload.size());
    rest = rest.subspan(payload.size());
    if (take_direct(*endpoint, payload.size(), rest, sink) != Parsed::all) return;
  }
  // More of a frame or payload is to come, and nothing behind it is here.
  if (rest.empty() && endpoint->receive != nullptr && !endpoint->receive->idle()) return;
  uint64_t consumed = 0;
  switch (parse(*endpoint, id, rest, &consumed, sink)) {
    case Parsed::gone: break;
    case Parsed::parked: keep_backlog(*endpoint, rest.subspan(consumed), {}); break;
    case Parsed::all:
      if (endpoint->receive != nullptr && endpoint->receive->idle()) endpoint->receive.reset();
      break;
  }
}

// So many bytes arrived where they belong, of a payload that is being placed or of a started frame;
// `rest` behind it. All: that may be delivered.
Parsed Receiver::take_direct(Endpoint& endpoint, uint64_t bytes, Bytes rest, Sink& sink) {
  Receive& state = *endpoint.receive;
  if (state.destination != nullptr) {
    state.placed_bytes += bytes;
    SKERRY_INVARIANT(state.placed_bytes <= state.payload_bytes,
                     "a payload is as long as announced");
    if (state.placed_bytes < state.payload_bytes) {
      marks_.wake_for_rest(endpoint);
      return Parsed::all;
    }
    const Parsed parsed = finish_placing(endpoint, sink);
    if (parsed == Parsed::parked) keep_backlog(endpoint, rest, {});
    return parsed;
  }
  state.partial_have += static_cast<uint32_t>(bytes);
  SKERRY_INVARIANT(state.partial_have <= state.partial_need, "a frame is as long as announced");
  if (state.partial_have < state.partial_need) return Parsed::all;
  // Moved out: the sink may close the endpoint while it still looks at the message.
  const std::unique_ptr<std::byte[]> partial = std::move(state.partial);
  const Bytes frame(partial.get(), state.partial_need);
  uint64_t consumed = 0;
  const Parsed parsed = parse(endpoint, endpoint.own_id(), frame, &consumed, sink);
  if (parsed == Parsed::parked) keep_backlog(endpoint, frame.subspan(consumed), rest);
  return parsed;
}

// Delivers every whole message; what is left of a started one is kept. This loop is the server's
// hottest: small puts pass here.
Parsed Receiver::parse(Endpoint& endpoint, EndpointId id, Bytes data, uint64_t* consumed,
                       Sink& sink) {
  sender_.begin_delivery(id);
  const Parsed parsed = deliver(endpoint, id, data, consumed, sink);
  sender_.end_delivery(endpoint, parsed == Parsed::gone);
  return parsed;
}

Parsed Receiver::deliver(Endpoint& endpoint, EndpointId id, Bytes all, uint64_t* consumed,
                         Sink& sink) {
  const std::byte* const data = all.data();
  const uint64_t bytes = all.size();
  uint64_t at = 0;
  *consumed = 0;
  if (endpoint.state == State::awaiting_reply) [[unlikely]] {
    const Parsed parsed = take_reply(endpoint, all, &at, sink);
    if (parsed != Parsed::all) return parsed;
  }
  while (bytes - at >= prefix_bytes) {
    const Prefix prefix = decode_prefix(data + at);
    if (!plausible(prefix)) [[unlikely]] {
      endpoints_.fail(endpoint, CloseReason::protocol_error,
                      concat("frame of ", prefix.header_bytes, " header and ", prefix.payload_bytes,
                             " payload bytes: the stream is corrupt"),
                      sink);
      return Parsed::gone;
    }
    const uint64_t head_bytes = prefix_bytes + prefix.header_bytes;
    const Bytes header{data + at + prefix_bytes, prefix.header_bytes};
    if (prefix.payload_bytes <= inline_payload_bytes) [[likely]] {
      const uint64_t frame_bytes = head_bytes + prefix.payload_bytes;
      if (bytes - at < frame_bytes) {
        if (prefix.payload_bytes < place_inline_from_bytes || bytes - at < head_bytes) break;
        std::byte* const destination = sink.place_inline(id, header, prefix.payload_bytes);
        if (endpoint.is_gone(id)) return Parsed::gone;
        if (destination == nullptr) break;
        *consumed = bytes;
        return begin_placing(endpoint, header, {data + at + head_bytes, bytes - at - head_bytes},
                             prefix.payload_bytes, destination, sink);
      }
      sender_.next_follows(whole_frame(all.subspan(at + frame_bytes)));
      const Verdict verdict = sink.on_message(id, header,
                                              Bytes{data + at + head_bytes, prefix.payload_bytes});
      if (endpoint.is_gone(id)) return Parsed::gone;  // the sink closed it
      if (verdict == Verdict::park) {
        endpoint.started().parked = true;
        *consumed = at;
        return Parsed::parked;
      }
      at += frame_bytes;
      if (prefix.payload_bytes > large_inline_bytes) endpoint.short_reads = reads_after_part;
    } else {
      if (bytes - at < head_bytes) break;
      const Bytes available{data + at + head_bytes,
                            std::min(bytes - at - head_bytes, prefix.payload_bytes)};
      std::byte* const destination = place(endpoint, id, header, prefix.payload_bytes, sink);
      if (destination == nullptr) return Parsed::gone;
      const Parsed parsed = begin_placing(endpoint, header, available, prefix.payload_bytes,
                                          destination, sink);
      at += head_bytes + available.size();
      *consumed = at;
      if (parsed != Parsed::all) return parsed;
    }
  }
  if (at < bytes) keep_partial(endpoint, data + at, bytes - at, false);
  *consumed = bytes;
  return Parsed::all;
}

// The beginning of the stream of a connection that we began. All: what is left of it is frames.
Parsed Receiver::take_reply(Endpoint& endpoint, Bytes data, uint64_t* consumed, Sink& sink) {
  const EndpointId id = endpoint.own_id();
  uint32_t hello_bytes = 0;
  *consumed = 0;
  GreetingState held;
  // The peer has us wait: its answer comes when it comes.
  while ((held = inspect_greeting(data.data(), data.size(), held_magic, &hello_bytes)) ==
         GreetingState::complete) {
    endpoints_.hold(endpoint);
    sink.on_held(id);
    if (endpoint.is_gone(id)) return Parsed::gone;
    const uint64_t bytes = sizeof(Greeting) + hello_bytes;
    *consumed += bytes;
    data = data.subspan(bytes);
    if (data.empty()) return Parsed::all;
  }
  const GreetingState refused = inspect_greeting(data.data(), data.size(), refused_magic,
                                                 &hello_bytes);
  if (refused == GreetingState::complete) {
    endpoints_.fail(endpoint,
                    hello_bytes == 0 ? CloseReason::refused : refusal_of(data[sizeof(Greeting)]),
                    {}, sink);
    return Parsed::gone;
  }
  GreetingState seen = inspect_greeting(data.data(), data.size(), accept_magic, &hello_bytes);
  if (seen == GreetingState::garbage && held != GreetingState::garbage) seen = held;
  if (seen == GreetingState::garbage) seen = refused;
  const char* wrong = "what answers there is not a Skerry server";
  switch (seen) {
    case GreetingState::incomplete:
      keep_partial(endpoint, data.data(), data.size(), true);
      *consumed += data.size();
      return Parsed::all;
    case GreetingState::other_version:
      wrong = "the peer speaks another version of the protocol: all ranks must run the same Skerry";
      [[fallthrough]];
    case GreetingState::garbage:
      endpoints_.fail(endpoint, CloseReason::protocol_error, wrong, sink);
      return Parsed::gone;
    case GreetingState::complete: break;
  }
  *consumed += sizeof(Greeting) + hello_bytes;
  endpoints_.opened(endpoint);
  sink.on_connected(id, data.subspan(sizeof(Greeting), hello_bytes));
  if (endpoint.is_gone(id)) return Parsed::gone;
  sender_.opened(endpoint);
  return Parsed::all;
}

// Where the sink wants a long payload; null: the endpoint is gone.
std::byte* Receiver::place(Endpoint& endpoint, EndpointId id, Bytes header, uint64_t payload_bytes,
                           Sink& sink) {
  std::byte* const destination = sink.place_directly(id, header, payload_bytes);
  if (endpoint.is_gone(id)) return nullptr;
  if (destination == nullptr)
    endpoints_.fail(endpoint, CloseReason::protocol_error,
                    concat("a message of ", payload_bytes, " bytes had no destination"), sink);
  return destination;
}

Parsed Receiver::begin_placing(Endpoint& endpoint, Bytes header, Bytes available,
                               uint64_t payload_bytes, std::byte* destination, Sink& sink) {
  if (!available.empty()) std::memcpy(destination, available.data(), available.size());
  if (payload_bytes <= inline_payload_bytes) endpoint.short_reads = reads_after_part;
  Receive& state = endpoint.started();
  SKERRY_INVARIANT(state.destination == nullptr && available.size() <= payload_bytes,
                   "one payload is placed at a time");
  state.header.assign(header.begin(), header.end());
  state.destination = destination;
  state.placed_bytes = available.size();
  state.payload_bytes = payload_bytes;
  if (available.size() == payload_bytes) return finish_placing(endpoint, sink);
  marks_.wake_for_rest(endpoint);
  return Parsed::all;
}

// Also after unpark: payload_bytes and header are still there then.
Parsed Receiver::finish_placing(Endpoint& endpoint, Sink& sink) {
  const EndpointId id = endpoint.own_id();
  Receive& state = *endpoint.receive;
  SKERRY_INVARIANT(state.placed_bytes == state.payload_bytes, "it is whole");
  state.destination = nullptr;
  state.nowhere = {};
  marks_.lower(endpoint);
  std::vector<std::byte> header = std::move(
      state.header);  // moved out: the sink may close the endpoint
  const Verdict verdict = sink.on_placed(id, header, state.payload_bytes);
  if (endpoint.is_gone(id)) return Parsed::gone;
  if (verdict == Verdict::taken) return Parsed::all;
  state.header = std::move(header);
  state.placed_parked = true;
  state.parked = true;
  return Parsed::parked;
}

void Receiver::divert(EndpointId id) {
  const Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->receive == nullptr ||
      endpoint->receive->destination == nullptr)
    return;
  Receive& state = *endpoint->receive;
  state.nowhere.resize(state.payload_bytes);
  state.destination = state.nowhere.data();
}

void Receiver::unpark(EndpointId id) {
  unparked_.push_back(id);
  endpoints_.leave_work();
}

void Receiver::run_unparked(Sink& sink) {
  std::vector<EndpointId> unparked;
  unparked.swap(unparked_);
  for (const EndpointId id : unparked) resume(id, sink);
}

void Receiver::resume(EndpointId id, Sink& sink) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->state != State::open || !endpoint->is_parked())
    return;  // closed, or unparked twice
  Receive& state = *endpoint->receive;
  state.parked = false;
  if (std::exchange(state.placed_parked, false) && finish_placing(*endpoint, sink) != Parsed::all)
    return;
  // Moved out: the sink may close the endpoint.
  std::vector<std::byte> backlog = std::exchange(state.backlog, {});
  const uint64_t done = state.backlog_done;
  uint64_t consumed = 0;
  const Parsed parsed = parse(*endpoint, id, Bytes(backlog).subspan(done), &consumed, sink);
  if (parsed == Parsed::gone) return;
  if (parsed == Parsed::parked) {
    state.backlog = std::move(backlog);
    state.backlog_done = done + consumed;
    return;
  }
  if (state.idle()) endpoint->receive.reset();
  if (!endpoint->registered || (endpoint->interest & EPOLLIN) == 0)
    endpoints_.set_interest(*endpoint, endpoint->interest | EPOLLIN);
}

void Receiver::keep_partial(Endpoint& endpoint, const std::byte* data, uint64_t bytes,
                            bool greeting) {
  Receive& state = endpoint.started();
  state.partial_need = 0;
  if (!greeting && bytes >= prefix_bytes) {
    const Prefix prefix = decode_prefix(data);
    const uint64_t payload_bytes = prefix.payload_bytes <= inline_payload_bytes
                                       ? prefix.payload_bytes
                                       : 0;  // a long one is placed elsewhere
    state.partial_need = static_cast<uint32_t>(prefix_bytes + prefix.header_bytes + payload_bytes);
  }
  const uint64_t room_bytes = state.partial_need != 0 ? state.partial_need : max_greeting_bytes;
  SKERRY_ASSERT(bytes <= room_bytes, "what has begun is shorter than the whole");
  state.partial = std::make_unique_for_overwrite<std::byte[]>(room_bytes);
  state.partial_have = static_cast<uint32_t>(bytes);
  std::memcpy(state.partial.get(), data, bytes);
}

void Receiver::keep_backlog(Endpoint& endpoint, Bytes first, Bytes second) {
  Receive& state = endpoint.started();
  SKERRY_INVARIANT(state.parked && state.backlog.empty(), "a parked connection is not read");
  state.backlog.assign(first.begin(), first.end());
  state.backlog.insert(state.backlog.end(), second.begin(), second.end());
  state.backlog_done = 0;
}

uint64_t Receiver::heap_bytes() const { return buffer_bytes + vector_bytes(unparked_); }

}  // namespace skerry::fabric::tcp
