#include "fabric/tcp/send.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::tcp {
namespace {

// Room for a batch, or for the longest message that is copied.
constexpr uint64_t owned_bytes = prefix_bytes + max_header_bytes + inline_payload_bytes;
// Output held back by `more` is written out from this size on.
constexpr uint64_t batch_bytes = 64 * 1024;
static_assert(owned_bytes >= batch_bytes);
// Unsent output from which on send answers would_block.
constexpr uint64_t output_limit_bytes = 256 * 1024;
// Answers to messages that arrived together travel together, in one system call instead of many.
// They are at most about this much: the peer goes on while we work on the rest. Some 70 short ones.
constexpr uint64_t gather_bytes = 4 * 1024;
constexpr size_t spare_buffers_kept = 4;
constexpr size_t parts_at_once = 64;
// The send buffer of a near connection that sends long payloads. The kernel would let it grow to
// megabytes: every page then comes out of memory instead of the cache, at both ends (see
// docs/design/0033-small-send-buffers-nearby.md). 512 KiB a round trip of 40 us are 100 Gbit/s, so
// that no nearer peer waits for room. Farther ones keep what the kernel gives them.
constexpr int near_send_buffer_bytes = 512 * 1024;
constexpr uint32_t near_round_trip_us = 40;

bool would_block(int error_number) {
  // ENOBUFS and ENOMEM are the kernel's own shortage: it passes.
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == ENOBUFS ||
         error_number == ENOMEM || error_number == EINTR;
}

int64_t write_parts(int fd, iovec* parts, size_t count) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The shortest round trip that the kernel has seen; UINT32_MAX: not known.
uint32_t round_trip_us(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  const bool known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
                     bytes >= offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt;
  return known ? info.tcpi_min_rtt : UINT32_MAX;
}

}  // namespace

Output& Sender::output_of(Endpoint& endpoint) {
  if (endpoint.output == nullptr)
    endpoint.output = spare_output_ != nullptr ? std::move(spare_output_)
                                               : std::make_unique<Output>();
  return *endpoint.output;
}

// Copies the three parts behind each other to the end of the output; together they are at most
// owned_bytes.
void Sender::append(Output& output, Bytes first, Bytes second, Bytes third) {
  const uint64_t bytes = first.size() + second.size() + third.size();
  SKERRY_INVARIANT(bytes <= owned_bytes, "what is copied fits in one buffer");
  Segment* last = output.first < output.segments.size() ? &output.segments.back() : nullptr;
  if (last == nullptr || last->owned == nullptr || last->capacity - last->bytes < bytes) {
    Segment segment;
    if (spare_buffers_.empty()) {
      segment.owned = std::make_unique_for_overwrite<std::byte[]>(owned_bytes);
    } else {
      segment.owned = std::move(spare_buffers_.back());
      spare_buffers_.pop_back();
    }
    segment.capacity = owned_bytes;
    segment.data = segment.owned.get();
    output.segments.push_back(std::move(segment));
    last = &output.segments.back();
  }
  std::byte* to = last->owned.get() + last->bytes;
  for (const Bytes& part : {first, second, third}) {
    if (part.empty()) continue;
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  last->bytes += bytes;
  output.bytes += bytes;
}

void Sender::refer(Output& output, Bytes part, uint64_t cookie, bool last) {
  Segment segment;
  segment.data = part.data();
  segment.bytes = part.size();
  segment.cookie = cookie;
  segment.last = last;
  output.segments.push_back(std::move(segment));
  output.bytes += part.size();
}

SendResult Sender::send(EndpointId id, Bytes header, Bytes payload, bool more, uint64_t cookie) {
  Endpoint* const found = endpoints_.find(id);
  if (found == nullptr || found->send_error != 0) return SendResult::closed;
  Endpoint& endpoint = *found;
  SKERRY_ASSERT(!header.empty() && header.size() <= max_header_bytes,
                "a message header has 1..512 bytes");
  switch (endpoint.state) {
    case State::open: break;
    case State::connecting:  // the greeting takes it along
    case State::awaiting_reply: more = true; break;
    case State::greeting:
    case State::asking: return SendResult::closed;  // a request is not an endpoint
  }
  const uint64_t prefix = encode_prefix(header.size(), payload.size());
  const Bytes prefix_part = std::as_bytes(std::span(&prefix, 1));
  const bool by_reference = payload.size() > inline_payload_bytes;
  Output* output = endpoint.output.get();
  if (id == delivering_ && more_follows_ && !more &&
      (output == nullptr ? 0 : output->bytes) + header.size() + payload.size() < gather_bytes)
    more = gathered_ = true;

  uint64_t written = 0;
  const bool is_open = endpoint.state == State::open;
  const bool direct = output == nullptr && is_open && (!more || by_reference);
  if (direct) {
    iovec parts[3] = {{const_cast<std::byte*>(prefix_part.data()), prefix_part.size()},
                      {const_cast<std::byte*>(header.data()), header.size()},
                      {const_cast<std::byte*>(payload.data()), payload.size()}};
    const int64_t n = write_parts(endpoint.fd, parts, payload.empty() ? 2 : 3);
    if (n < 0 && !would_block(errno)) return failed(endpoint, errno);
    written = n < 0 ? 0 : static_cast<uint64_t>(n);
    bytes_sent_ += written;
    if (written == prefix_bytes + header.size() + payload.size()) {
      if (by_reference) endpoints_.defer_sent(id, cookie);
      return SendResult::accepted;
    }
  } else if (output != nullptr && (output->blocked || !is_open) &&
             output->bytes >= output_limit_bytes) {
    output->writable_wanted = true;
    return SendResult::would_block;
  }

  output = &output_of(endpoint);
  auto rest = [&](Bytes part) {  // what the direct write left of it
    const uint64_t skip = std::min<uint64_t>(written, part.size());
    written -= skip;
    return part.subspan(skip);
  };
  const Bytes prefix_rest = rest(prefix_part), header_rest = rest(header),
              payload_rest = rest(payload);
  if (by_reference) {
    if (!prefix_rest.empty() || !header_rest.empty()) append(*output, prefix_rest, header_rest, {});
    refer(*output, payload_rest, cookie, true);
  } else {
    append(*output, prefix_rest, header_rest, payload_rest);
  }
  if (output->blocked) return SendResult::accepted;
  if (direct) {
    blocked(endpoint);  // the socket just told us that it is full
    return SendResult::accepted;
  }
  if (!is_open || (more && !by_reference && output->bytes < batch_bytes))
    return SendResult::accepted;
  return write_output(endpoint);
}

SendResult Sender::send_gathered(EndpointId id, Bytes header, std::span<const Bytes> parts,
                                 uint64_t cookie) {
  Endpoint* const found = endpoints_.find(id);
  if (found == nullptr || found->send_error != 0) return SendResult::closed;
  Endpoint& endpoint = *found;
  const uint64_t payload_bytes = total_bytes(parts);
  SKERRY_ASSERT(!header.empty() && header.size() <= max_header_bytes,
                "a message header has 1..512 bytes");
  SKERRY_ASSERT(payload_bytes > inline_payload_bytes,
                "short payloads are copied: pack them and use send");
  switch (endpoint.state) {
    case State::open: break;
    case State::connecting:
    case State::awaiting_reply:
      output_of(endpoint).writable_wanted = true;
      return SendResult::would_block;
    case State::greeting:
    case State::asking: return SendResult::closed;
  }
  Output& output = output_of(endpoint);
  if (output.blocked && output.bytes >= output_limit_bytes) {
    output.writable_wanted = true;
    return SendResult::would_block;
  }
  const uint64_t prefix = encode_prefix(header.size(), payload_bytes);
  append(output, std::as_bytes(std::span(&prefix, 1)), header, {});
  for (const Bytes& part : parts) {
    if (!part.empty()) refer(output, part, cookie, false);
  }
  output.segments.back().last = true;
  return output.blocked ? SendResult::accepted : write_output(endpoint);
}

SendResult Sender::flush(Endpoint& endpoint) {
  if (endpoint.send_error != 0) return SendResult::closed;
  if (endpoint.state != State::open || endpoint.output == nullptr || endpoint.output->blocked)
    return SendResult::accepted;
  return write_output(endpoint);
}

SendResult Sender::write_output(Endpoint& endpoint) {
  Output& output = *endpoint.output;
  const EndpointId id = endpoint.own_id();
  while (output.bytes != 0) {
    iovec parts[parts_at_once];
    size_t count = 0;
    uint64_t offered = 0;
    for (size_t i = output.first; i < output.segments.size() && count < parts_at_once; ++i) {
      const uint64_t skip = i == output.first ? output.first_done : 0;
      parts[count++] = {const_cast<std::byte*>(output.segments[i].data + skip),
                        output.segments[i].bytes - skip};
      offered += output.segments[i].bytes - skip;
    }
    const int64_t n = write_parts(endpoint.fd, parts, count);
    if (n < 0 && !would_block(errno)) return failed(endpoint, errno);
    const uint64_t taken = n < 0 ? 0 : static_cast<uint64_t>(n);
    pass(output, taken, id);
    if (output.writable_wanted && output.bytes <= output_limit_bytes / 2) {
      output.writable_wanted = false;
      endpoints_.defer_writable(id);
    }
    if (taken == offered) continue;
    // A short write means a full socket: no second call only to hear EAGAIN.
    if (output.first > 64) {  // a long-lived queue does not grow with what went through it
      output.segments.erase(output.segments.begin(),
                            output.segments.begin() + static_cast<std::ptrdiff_t>(output.first));
      output.first = 0;
    }
    blocked(endpoint);
    return SendResult::accepted;
  }
  drained(endpoint);
  return SendResult::accepted;
}

// The socket took so many bytes.
void Sender::pass(Output& output, uint64_t taken, EndpointId id) {
  SKERRY_INVARIANT(taken <= output.bytes, "no more was offered");
  output.bytes -= taken;
  bytes_sent_ += taken;
  while (taken != 0) {
    SKERRY_INVARIANT(output.first < output.segments.size(), "what is unsent lies in segments");
    Segment& segment = output.segments[output.first];
    const uint64_t step = std::min(taken, segment.bytes - output.first_done);
    taken -= step;
    output.first_done += step;
    if (output.first_done < segment.bytes) break;
    if (segment.owned == nullptr) {
      if (segment.last) endpoints_.defer_sent(id, segment.cookie);
    } else if (spare_buffers_.size() < spare_buffers_kept) {
      spare_buffers_.push_back(std::move(segment.owned));
    }
    segment.owned.reset();
    ++output.first;
    output.first_done = 0;
  }
}

bool Sender::send_greeting(Endpoint& endpoint, Bytes greeting, bool more) {
  if (::send(endpoint.fd, greeting.data(), greeting.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0)) !=
      static_cast<ssize_t>(greeting.size()))
    return false;
  bytes_sent_ += greeting.size();
  return true;
}

void Sender::append_greeting(Endpoint& endpoint, Bytes greeting) {
  append(output_of(endpoint), greeting, {}, {});
}

void Sender::opened(Endpoint& endpoint) {
  if (endpoint.output != nullptr && endpoint.output->bytes > 0 && !endpoint.output->blocked)
    write_output(endpoint);  // sent after the greeting; an error shows when we read
  if (endpoint.output == nullptr || !endpoint.output->writable_wanted || endpoint.output->blocked)
    return;
  endpoint.output->writable_wanted = false;  // a send came too early
  if (endpoint.output->bytes == 0) drained(endpoint);
  endpoints_.defer_writable(endpoint.own_id());
}

void Sender::end_delivery(Endpoint& endpoint, bool is_gone) {
  delivering_ = no_endpoint;
  if (std::exchange(gathered_, false) && !is_gone) (void)flush(endpoint);
}

void Sender::before_close(EndpointId id) {
  if (id != delivering_ || !gathered_) return;
  if (Endpoint* const endpoint = endpoints_.find(id)) (void)flush(*endpoint);
}

// Asked whenever the socket is full in the middle of a long payload, until the answer is yes: a
// busy host can make the first round trips seem long.
void Sender::bound_send_buffer(Endpoint& endpoint) {
  if (endpoint.send_bounded || !bounds_buffers_ || round_trip_us(endpoint.fd) > near_round_trip_us)
    return;
  endpoint.send_bounded = true;
  const int bytes = near_send_buffer_bytes / 2;  // the kernel doubles it for its own overhead
  setsockopt(endpoint.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void Sender::blocked(Endpoint& endpoint) {
  Output& output = *endpoint.output;
  SKERRY_INVARIANT(output.bytes > 0 && output.first < output.segments.size(),
                   "only what is unsent waits for the socket");
  if (output.segments[output.first].owned == nullptr) bound_send_buffer(endpoint);
  output.blocked = true;
  endpoint.output_pending.store(true, std::memory_order_relaxed);
  endpoints_.set_output_interest(endpoint, true);
}

void Sender::drained(Endpoint& endpoint) {
  SKERRY_INVARIANT(endpoint.output->bytes == 0, "nothing is unsent");
  if (endpoint.output->blocked) {
    endpoint.output_pending.store(false, std::memory_order_relaxed);
    endpoints_.set_output_interest(endpoint, false);
  }
  std::unique_ptr<Output> output = std::move(endpoint.output);
  if (spare_output_ != nullptr) return;
  output->segments.clear();
  output->first = 0;
  output->first_done = 0;
  output->blocked = false;
  spare_output_ = std::move(output);
}

// The peer may have said something before it went: the receive side reads that first, finds the end
// behind it and reports it.
SendResult Sender::failed(Endpoint& endpoint, int error_number) {
  endpoint.send_error = error_number;
  endpoint.output.reset();
  endpoint.output_pending.store(false, std::memory_order_relaxed);
  shutdown(endpoint.fd, SHUT_RDWR);  // whatever the error was, recv will come to an end
  return SendResult::closed;
}

uint64_t Sender::heap_bytes() const {
  return spare_buffers_.size() * owned_bytes + (spare_output_ ? held_bytes(*spare_output_) : 0);
}

}  // namespace skerry::fabric::tcp
