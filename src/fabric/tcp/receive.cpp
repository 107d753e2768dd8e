// From the socket to the sink: recv into the one shared buffer (or straight into a started frame or
// a payload that is placed directly), then parse in place.
//
// receive() touches the progress side only, so poll may call it without the issue lock; everything
// that calls up is part of dispatch.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fabric/tcp/tcp_fabric.hpp"

namespace skerry::fabric::tcp {
namespace {
// What one dispatch receives of one connection: all connections share the first figure, but none
// has less than the second or more than the third. Then it is the others' turn (epoll is level
// triggered: we come back). So a turn is bounded, and whoever asks for little waits for a turn at
// most, however much the others send. Few connections get much at a time, which costs fewer calls.
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

// Does a message that is delivered with its header begin here, and is it all here?
bool whole_frame(Bytes data) {
  if (data.size() < prefix_bytes) return false;
  const Prefix prefix = decode_prefix(data.data());
  return plausible(prefix) && prefix.payload_bytes <= inline_payload_bytes &&
         data.size() >= prefix_bytes + prefix.header_bytes + prefix.payload_bytes;
}

}  // namespace

Receive& TcpFabric::receive_state(Endpoint& endpoint) {
  if (endpoint.receive == nullptr) endpoint.receive = std::make_unique<Receive>();
  return *endpoint.receive;
}

// One recv. With MSG_DONTWAIT it just looks; without, it sleeps in the kernel until data, the end,
// or SO_RCVTIMEO.
TcpFabric::Received TcpFabric::receive(Endpoint& endpoint, EndpointId id, int flags) {
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
    if (const uint64_t share_bytes = direct_turn.share_bytes(ready_count_);
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
    uint64_t most_bytes = message_turn.share_bytes(ready_count_) - received.carried;
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
    bytes_received_.store(
        bytes_received_.load(std::memory_order_relaxed) + static_cast<uint64_t>(received.bytes),
        std::memory_order_relaxed);
  }
  return received;
}

void TcpFabric::block_in_receive(Endpoint& endpoint, EndpointId id, int64_t timeout_ns) {
  Received early;
  const auto came = [&] { return !(early = receive(endpoint, id, MSG_DONTWAIT)).nothing_yet(); };
  if (idle_core_spin_.spin<looks_a_turn>(came, longest_spin_ns)) {
    received_ = early;
    return;
  }
  // SO_RCVTIMEO costs a system call, so time-outs are rounded down to powers of two (poll may
  // return early) and set only when they change.
  const int64_t rounded_ns = timeout_ns < 0
                                 ? 0
                                 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(
                                       std::max<int64_t>(timeout_ns, 1'000'000))));
  if (rounded_ns != endpoint.receive_timeout_ns) {
    const timeval timeout{rounded_ns / 1'000'000'000, rounded_ns % 1'000'000'000 / 1000};
    setsockopt(endpoint.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    endpoint.receive_timeout_ns = rounded_ns;
  }
  const Received received = receive(endpoint, id, 0);
  if (!received.nothing_yet()) received_ = received;
}

void TcpFabric::receive_failed(Endpoint& endpoint, const Received& received, Sink& sink) {
  const bool waiting = endpoint.state == State::awaiting_reply;
  const int error_number = received.bytes < 0 ? received.error_number : endpoint.send_error;
  if (waiting && (error_number == 0 || error_number == ECONNRESET || error_number == EPIPE)) {
    fail(endpoint, CloseReason::refused, "the peer closed the connection instead of accepting it",
         sink);
  } else if (error_number == 0) {
    fail(endpoint, CloseReason::by_peer, "the peer closed the connection", sink);
  } else {
    fail(endpoint, close_reason_of(error_number), error_text(error_number), sink);
  }
}

int TcpFabric::consume(const Received& received, Sink& sink) {
  Endpoint* const endpoint = endpoints_.find(received.endpoint);
  if (endpoint == nullptr) return 0;  // closed between poll and dispatch
  const EndpointId id = received.endpoint;
  if (received.bytes <= 0) {
    if (received.nothing_yet()) return 0;
    receive_failed(*endpoint, received, sink);
    return 1;
  }
  const int before = upcalls_;
  Bytes rest{buffer_.get(),
             received.carried + static_cast<uint64_t>(received.bytes) - received.direct};
  if (received.carried != 0) endpoint->receive->partial.reset();  // it stands in the buffer now
  if (received.direct != 0) {
    Receive& state = *endpoint->receive;
    Parsed parsed = Parsed::all;
    if (state.destination != nullptr) {
      state.placed_bytes += received.direct;
      if (state.placed_bytes < state.payload_bytes) {
        wake_for_rest(*endpoint, id);
        return 0;
      }
      parsed = finish_direct(*endpoint, id, sink);
      if (parsed == Parsed::parked) keep_backlog(*endpoint, rest, {});
    } else {
      state.partial_have += static_cast<uint32_t>(received.direct);
      if (state.partial_have < state.partial_need) return 0;
      // Moved out: the sink may close the endpoint while it still looks at the message.
      const std::unique_ptr<std::byte[]> frame = std::move(state.partial);
      const uint64_t bytes = state.partial_need;
      uint64_t consumed = 0;
      parsed = parse(*endpoint, id, frame.get(), bytes, &consumed, sink);
      if (parsed == Parsed::parked)
        keep_backlog(*endpoint, {frame.get() + consumed, bytes - consumed}, rest);
    }
    if (parsed != Parsed::all) return upcalls_ - before;
  }
  // The header that was cut announced a long payload, whose beginning came together with the
  // header's end.
  if (endpoint->receive != nullptr && endpoint->receive->destination != nullptr && !rest.empty()) {
    Receive& state = *endpoint->receive;
    const Bytes payload = rest.first(
        std::min<uint64_t>(rest.size(), state.payload_bytes - state.placed_bytes));
    std::memcpy(state.destination + state.placed_bytes, payload.data(), payload.size());
    state.placed_bytes += payload.size();
    rest = rest.subspan(payload.size());
    if (state.placed_bytes < state.payload_bytes) {
      wake_for_rest(*endpoint, id);
      return upcalls_ - before;
    }
    const Parsed parsed = finish_direct(*endpoint, id, sink);
    if (parsed == Parsed::parked) keep_backlog(*endpoint, rest, {});
    if (parsed != Parsed::all) return upcalls_ - before;
  }
  uint64_t consumed = 0;
  switch (parse(*endpoint, id, rest.data(), rest.size(), &consumed, sink)) {
    case Parsed::gone: break;
    case Parsed::parked: keep_backlog(*endpoint, rest.subspan(consumed), {}); break;
    case Parsed::all:
      if (endpoint->receive != nullptr && endpoint->receive->idle()) endpoint->receive.reset();
      break;
  }
  return upcalls_ - before;
}

// Delivers every whole message; what is left of a started one is kept. This loop is the server's
// hottest: small puts pass here.
TcpFabric::Parsed TcpFabric::parse(Endpoint& endpoint, EndpointId id, const std::byte* data,
                                   uint64_t bytes, uint64_t* consumed, Sink& sink) {
  delivering_ = id;
  const Parsed parsed = deliver(endpoint, id, data, bytes, consumed, sink);
  delivering_ = no_endpoint;
  if (std::exchange(gathered_, false) && parsed != Parsed::gone) (void)flush(id);
  return parsed;
}

TcpFabric::Parsed TcpFabric::deliver(Endpoint& endpoint, EndpointId id, const std::byte* data,
                                     uint64_t bytes, uint64_t* consumed, Sink& sink) {
  uint64_t at = 0;
  *consumed = 0;
  if (endpoint.state == State::awaiting_reply) [[unlikely]] {
    const Parsed parsed = take_reply(endpoint, id, data, bytes, &at, sink);
    if (parsed != Parsed::all) return parsed;
  }
  while (bytes - at >= prefix_bytes) {
    const Prefix prefix = decode_prefix(data + at);
    if (!plausible(prefix)) [[unlikely]] {
      fail(endpoint, CloseReason::protocol_error,
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
        if (endpoint.id.load(std::memory_order_relaxed) != id) return Parsed::gone;
        if (destination == nullptr) break;
        *consumed = bytes;
        return begin_placing(endpoint, id, header,
                             {data + at + head_bytes, bytes - at - head_bytes},
                             prefix.payload_bytes, destination, sink);
      }
      ++upcalls_;
      more_follows_ = whole_frame({data + at + frame_bytes, bytes - at - frame_bytes});
      const Verdict verdict = sink.on_message(id, header,
                                              Bytes{data + at + head_bytes, prefix.payload_bytes});
      if (endpoint.id.load(std::memory_order_relaxed) != id)
        return Parsed::gone;  // the sink closed it
      if (verdict == Verdict::park) {
        receive_state(endpoint).parked = true;
        *consumed = at;
        return Parsed::parked;
      }
      at += frame_bytes;
    } else {
      if (bytes - at < head_bytes) break;
      const Bytes available{data + at + head_bytes,
                            std::min(bytes - at - head_bytes, prefix.payload_bytes)};
      const Parsed parsed = begin_direct(endpoint, id, header, available, prefix.payload_bytes,
                                         sink);
      at += head_bytes + available.size();
      *consumed = at;
      if (parsed != Parsed::all) return parsed;
    }
  }
  if (at < bytes) keep_partial(endpoint, data + at, bytes - at, false);
  *consumed = bytes;
  return Parsed::all;
}

TcpFabric::Parsed TcpFabric::begin_direct(Endpoint& endpoint, EndpointId id, Bytes header,
                                          Bytes available, uint64_t payload_bytes, Sink& sink) {
  ++upcalls_;
  std::byte* const destination = sink.place_directly(id, header, payload_bytes);
  if (endpoint.id.load(std::memory_order_relaxed) != id) return Parsed::gone;
  if (destination == nullptr) {
    fail(endpoint, CloseReason::protocol_error,
         concat("a message of ", payload_bytes, " bytes had no destination"), sink);
    return Parsed::gone;
  }
  return begin_placing(endpoint, id, header, available, payload_bytes, destination, sink);
}

TcpFabric::Parsed TcpFabric::begin_placing(Endpoint& endpoint, EndpointId id, Bytes header,
                                           Bytes available, uint64_t payload_bytes,
                                           std::byte* destination, Sink& sink) {
  if (!available.empty()) std::memcpy(destination, available.data(), available.size());
  if (payload_bytes <= inline_payload_bytes) endpoint.short_reads = reads_after_part;
  Receive& state = receive_state(endpoint);
  state.header.assign(header.begin(), header.end());
  state.destination = destination;
  state.placed_bytes = available.size();
  state.payload_bytes = payload_bytes;
  if (available.size() == payload_bytes) return finish_direct(endpoint, id, sink);
  wake_for_rest(endpoint, id);
  return Parsed::all;
}

// Also after unpark: payload_bytes and header are still there then.
TcpFabric::Parsed TcpFabric::finish_direct(Endpoint& endpoint, EndpointId id, Sink& sink) {
  Receive& state = *endpoint.receive;
  state.destination = nullptr;
  state.nowhere = {};
  lower_mark(endpoint);
  std::vector<std::byte> header = std::move(
      state.header);  // moved out: the sink may close the endpoint
  ++upcalls_;
  const Verdict verdict = sink.on_placed(id, header, state.payload_bytes);
  if (endpoint.id.load(std::memory_order_relaxed) != id) return Parsed::gone;
  if (verdict == Verdict::taken) return Parsed::all;
  state.header = std::move(header);
  state.placed_parked = true;
  state.parked = true;
  return Parsed::parked;
}

void TcpFabric::divert(EndpointId id) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->receive == nullptr ||
      endpoint->receive->destination == nullptr)
    return;
  Receive& state = *endpoint->receive;
  state.nowhere.resize(state.payload_bytes);
  state.destination = state.nowhere.data();
}

void TcpFabric::keep_partial(Endpoint& endpoint, const std::byte* data, uint64_t bytes,
                             bool greeting) {
  Receive& state = receive_state(endpoint);
  state.partial_need = 0;
  if (!greeting && bytes >= prefix_bytes) {
    const Prefix prefix = decode_prefix(data);  // parse found it plausible
    const uint64_t payload_bytes = prefix.payload_bytes <= inline_payload_bytes
                                       ? prefix.payload_bytes
                                       : 0;  // a long one is placed elsewhere
    state.partial_need = static_cast<uint32_t>(prefix_bytes + prefix.header_bytes + payload_bytes);
  }
  state.partial = std::make_unique_for_overwrite<std::byte[]>(
      state.partial_need != 0 ? state.partial_need : max_greeting_bytes);
  state.partial_have = static_cast<uint32_t>(bytes);
  std::memcpy(state.partial.get(), data, bytes);
}

void TcpFabric::keep_backlog(Endpoint& endpoint, Bytes first, Bytes second) {
  Receive& state = receive_state(endpoint);
  state.backlog.assign(first.begin(), first.end());
  state.backlog.insert(state.backlog.end(), second.begin(), second.end());
  state.backlog_done = 0;
}

void TcpFabric::unpark(EndpointId id) {
  ready_.push_back(id);
  if (dispatching_) return;  // the end of dispatch looks
  work_pending_.store(true, std::memory_order_seq_cst);
  if (polling_.load(std::memory_order_seq_cst)) wake();
}

int TcpFabric::resume(EndpointId id, Sink& sink) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->receive == nullptr || !endpoint->receive->parked)
    return 0;  // closed, or unparked twice
  const int before = upcalls_;
  Receive& state = *endpoint->receive;
  state.parked = false;
  if (state.placed_parked) {
    state.placed_parked = false;
    if (finish_direct(*endpoint, id, sink) != Parsed::all) return upcalls_ - before;
  }
  std::vector<std::byte> backlog = std::move(
      state.backlog);  // moved out: the sink may close the endpoint
  state.backlog.clear();
  const uint64_t done = state.backlog_done;
  uint64_t consumed = 0;
  const Parsed parsed = parse(*endpoint, id, backlog.data() + done, backlog.size() - done,
                              &consumed, sink);
  if (parsed == Parsed::gone) return upcalls_ - before;
  if (parsed == Parsed::parked) {
    state.backlog = std::move(backlog);
    state.backlog_done = done + consumed;
    return upcalls_ - before;
  }
  if (state.idle()) endpoint->receive.reset();
  if (!endpoint->registered || (endpoint->interest & EPOLLIN) == 0)
    set_interest(*endpoint, id, endpoint->interest | EPOLLIN);
  return upcalls_ - before;
}

}  // namespace skerry::fabric::tcp
