#include "server/answers.hpp"

#include <algorithm>

#include "core/thread.hpp"

namespace skerry::server {
namespace {

wire::ReplyHeader header_of(const Client& client, wire::AnswerKind kind, uint64_t number = 0,
                            int code = 0) {
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(kind);
  header.code = static_cast<int8_t>(code);
  header.incarnation = client.session->incarnation();
  header.applied = client.session->applied();
  header.number = number;
  return header;
}

wire::ReplyHeader reply_header(Client& client, const wire::Request& request, int code) {
  wire::ReplyHeader header = header_of(client, wire::AnswerKind::reply, request.header.number,
                                       code);
  header.slot = request.header.reply_slot;
  header.tag = request.header.reply_tag;
  client.acknowledge = false;  // the reply says `applied` as well
  client.quiet_notes = 0;
  return header;
}

template <class Header>
fabric::Bytes bytes_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1));
}

}  // namespace

bool Answers::has_room(Client& client) {
  const uint64_t unsent_bytes = fabric_.unsent_bytes(client.endpoint);
  // Behind one that the fabric still reads from, a long answer might have to be copied.
  if (client.late() == 0 &&
      (unsent_bytes == 0 ||
       (unsent_bytes < fabric::inline_payload_bytes * 2 && client.unsent == nullptr)))
    return true;
  if (fabric_.flush(client.endpoint) != fabric::SendResult::closed) return false;
  // What has ended takes no answers: what it sent before is served, for its end to come through.
  if (client.unsent) client.unsent->late.clear();
  return true;
}

void Answers::send(Client& client, const wire::ReplyHeader& header,
                   std::span<const fabric::Bytes> parts, SegmentId segment) {
  if (client.late() == 0) {
    const auto result = parts.size() == 1
                            ? fabric_.send(client.endpoint, bytes_of(header), parts[0], false, 0)
                            : fabric_.send_gathered(client.endpoint, bytes_of(header), parts, 0);
    switch (result) {
      case fabric::SendResult::accepted:
        // What is longer, as gathered answers are, the fabric does not copy.
        if (parts.size() > 1 || parts[0].size() > fabric::inline_payload_bytes)
          client.keep().sending.push_back({header, {}, segment});
        return;
      case fabric::SendResult::closed:
        return;  // on_closed follows; the session remembers what was applied
      case fabric::SendResult::would_block: break;
    }
  }
  Client::Answer& late = client.keep().late.emplace_back();
  late.header = header;
  late.payload.reserve(fabric::total_bytes(parts));
  for (const fabric::Bytes& part : parts)
    late.payload.insert(late.payload.end(), part.begin(), part.end());
}

void Answers::reply(Client& client, const wire::Request& request, fabric::Bytes payload, int code,
                    uint64_t result) {
  wire::ReplyHeader header = reply_header(client, request, code);
  header.result = result;
  send(client, header, payload, request.segment());
}

void Answers::reply_gathered(Client& client, const wire::Request& request,
                             std::span<const fabric::Bytes> parts) {
  send(client, reply_header(client, request, 0), parts, request.segment());
}

void Answers::reply_late(Client& client, const lock::Waiter& waiter, uint64_t number, int code,
                         std::string_view text) {
  wire::ReplyHeader header = header_of(client, wire::AnswerKind::reply, number, code);
  header.slot = lock::slot_of(waiter);
  header.tag = lock::tag_of(waiter);
  send(client, header, std::as_bytes(std::span(text)));
}

void Answers::grant(Client& client, const lock::Waiter& waiter, bool has_dead) {
  wire::ReplyHeader header = header_of(client, wire::AnswerKind::reply, 0, 0);
  header.slot = lock::slot_of(waiter);
  header.tag = lock::tag_of(waiter);
  header.result = has_dead ? 1 : 0;
  send(client, header, {});
}

void Answers::tell_failure(Client& client, uint64_t number, int code, std::string_view text) {
  send(client, header_of(client, wire::AnswerKind::failure, number, code),
       std::as_bytes(std::span(text)));
}

fabric::SendResult Answers::tell_close(const Client& client, wire::CloseKind kind) {
  const uint16_t asked_again = kind == wire::CloseKind::farewell ? client.asked_again : uint16_t{0};
  const wire::CloseHeader header{wire::version, static_cast<uint8_t>(kind), asked_again,
                                 client.session->incarnation(), client.session->applied()};
  return fabric_.send(client.endpoint, bytes_of(header), {}, false, 0);
}

void Answers::acknowledge_soon(Client& client) {
  client.quiet_bytes = 0;
  if (client.acknowledge) return;
  client.acknowledge = true;
  soon_.push_back(client.endpoint);
}

void Answers::acknowledge_later(Client& client) {
  if (client.acknowledge) return;
  if (client.quiet_notes == most_quiet) return acknowledge_soon(client);
  if (client.quiet_notes++ > 0) return;
  if (later_.empty()) due_ns_ = monotonic_ns() + longest_quiet_ns;
  later_.push_back(client.endpoint);
}

int64_t Answers::due_in_ns() const {
  return later_.empty() ? -1 : std::max<int64_t>(due_ns_ - monotonic_ns(), 0);
}

void Answers::acknowledge(Client& client) {
  client.acknowledge = false;
  client.quiet_notes = 0;
  send(client, header_of(client, wire::AnswerKind::acknowledge), {});
}

void Answers::acknowledge_all(Clients& clients) {
  for (const fabric::EndpointId endpoint : soon_) {
    Client* client = clients.find(endpoint);
    if (client != nullptr && client->acknowledge) acknowledge(*client);
  }
  soon_.clear();
  if (later_.empty() || due_in_ns() > 0) return;
  for (const fabric::EndpointId endpoint : later_) {
    Client* client = clients.find(endpoint);
    if (client != nullptr && client->quiet_notes > 0) acknowledge(*client);
  }
  later_.clear();
}

void Answers::on_writable(Client& client) {
  if (client.unsent) {
    auto& [late, sending] = *client.unsent;
    while (!late.empty()) {
      const Client::Answer& first = late.front();
      const fabric::SendResult result = fabric_.send(client.endpoint, bytes_of(first.header),
                                                     first.payload, false, 0);
      if (result == fabric::SendResult::would_block) break;
      if (result == fabric::SendResult::accepted &&
          first.payload.size() > fabric::inline_payload_bytes)
        sending.splice(sending.end(), late, late.begin());
      else late.pop_front();
    }
    client.tidy_unsent();
  }
  if (client.state == Client::State::owing && client.late() == 0 &&
      tell_close(client, wire::CloseKind::bye_answer) != fabric::SendResult::would_block)
    client.state = Client::State::leaving;
}

void Answers::on_sent(Client& client) {
  if (!client.unsent || client.unsent->sending.empty()) return;
  client.unsent->sending.pop_front();
  client.tidy_unsent();
}

}  // namespace skerry::server
