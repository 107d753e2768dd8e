// What becomes of a message: of a request, also if it comes again after a break, of a bye, and of
// the header of a long put.
#include <algorithm>
#include <cstdio>

#include "core/pure/rule.hpp"
#include "server/server.hpp"

namespace skerry::server {

void Server::complain(const Client& client, const Status& why) const {
  std::fprintf(stderr, "skerry: data server of node %d closes its connection to rank %d: %s\n",
               config_.self.node, client.rank, why.message().c_str());
}

fabric::Verdict Server::protocol_error(Client& client, const Status& why) {
  complain(client, why);
  admission_.end(client);
  return fabric::Verdict::taken;
}

// Is the decoded request one of this connection's origin, for this server?
Status Server::check_addressee(const Client& client) const {
  const wire::RequestHeader& h = request_.header;
  if (h.origin_rank != static_cast<uint32_t>(client.rank) ||
      h.incarnation != client.session->incarnation())
    return error(Code::invalid, to_string(h), " came on the connection of rank ", client.rank,
                 ", session ", client.session->incarnation());
  if (h.target_node != static_cast<uint32_t>(config_.self.node) ||
      h.target_server != config_.self.index)
    return error(Code::invalid, to_string(h), " reached node ", config_.self.node, ", server ",
                 config_.self.index);
  return {};
}

// Nothing of the origin's is unacknowledged or unanswered, and it sends no more.
fabric::Verdict Server::on_close(Client& client, wire::CloseKind kind, fabric::Bytes header) {
  wire::CloseHeader close;
  if (kind != wire::CloseKind::bye || !wire::decode(header, &close).ok() ||
      close.last_number != client.session->applied())
    return protocol_error(
        client, error(Code::invalid, "a bye that does not agree on the last request applied, ",
                      client.session->applied()));
  SKERRY_INVARIANT(!client.said_bye(), "it says bye once");
  client.session->confirm_bye();
  // The end of the connection says as much as an answer, but not that a lock was asked for again
  // before it: we might have closed for want of slots.
  if (client.asked_again == 0 && client.late() == 0 &&
      fabric_->unsent_bytes(client.endpoint) == 0) {
    admission_.end(client);
    return fabric::Verdict::taken;
  }
  client.state = answers_.tell_close(client, wire::CloseKind::bye_answer) ==
                         fabric::SendResult::would_block
                     ? Client::State::owing
                     : Client::State::leaving;
  admission_.said_bye(client);
  return fabric::Verdict::taken;
}

fabric::Verdict Server::on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                                   fabric::Bytes payload) {
  assert_server_thread();
  Client* client = clients_.find(endpoint);
  if (client == nullptr) {  // another server's, or late
    if (relay_.on_message(endpoint, header)) return fabric::Verdict::taken;
    full_.push_back(endpoint);
    return fabric::Verdict::park;
  }
  if (client->said_bye())
    return protocol_error(*client, error(Code::invalid, "a message behind a bye"));
  // Every message may need an answer, a bye too. So none is begun before there is room for an
  // answer and all earlier answers are sent.
  if (!answers_.has_room(*client)) {
    client->state = Client::State::parked;
    full_.push_back(endpoint);
    return fabric::Verdict::park;
  }
  admission_.heard(*client);
  if (wire::CloseKind kind; wire::peek(header, &kind)) return on_close(*client, kind, header);
  Status status = wire::decode(header, &request_);
  if (status.ok()) status = check_addressee(*client);
  if (!status.ok()) return protocol_error(*client, status);
  const uint64_t number = request_.header.number;
  Incoming in{*client, request_, payload};
  switch (client->session->classify(number)) {
    case session::Order::apply: break;
    case session::Order::duplicate:
      if (!SKERRY_RULE(skip_duplicates)) break;
      if (!SKERRY_RULE(locked_once) && request_.has(wire::flag_locked)) break;
      applier_.answer_again(in);
      return fabric::Verdict::taken;
    case session::Order::gap:
      return protocol_error(*client,
                            error(Code::invalid, "request ", client->session->applied(),
                                  " is followed by ", to_string(request_.header)));
  }
  if (request_.kind() != wire::Kind::get && request_.kind() != wire::Kind::fetch_update)
    request_.extent_bytes = payload.size();
  Applier::Outcome outcome = Applier::Outcome::done;
  const Status refusal = applier_.apply(in, &outcome);
  return finish(*client, outcome, refusal);
}

void Applier::answer_again(Incoming& in) {
  const wire::RequestHeader& h = in.request.header;
  if (const session::Kept* kept = in.session().kept(h.number)) {
    if (h.reply_slot != 0)
      answers_.reply(in.client, in.request, std::as_bytes(std::span(kept->payload)), kept->code,
                     kept->result);
    return;
  }
  in.again = true;
  Status status;
  Outcome outcome = Outcome::done;
  switch (in.request.kind()) {
    case wire::Kind::get:  // read anew: any value since it was issued is right
    case wire::Kind::key:
      status = find(in);
      if (status.ok()) status = apply(in, &outcome);
      break;
    case wire::Kind::lock: {  // it may be queued still: then its grant follows
      bool granted = false;
      ++in.client.asked_again;
      const lock::Asked asked{
          in.request.segment(), in.request.target(), h.offset, {in.request.operands.first, {}}, 0};
      status = locks_.holds(asked, &granted);
      if (granted) answer(in, {}, view_.has_dead ? 1 : 0);
      break;
    }
    case wire::Kind::put:
    case wire::Kind::accumulate:
    case wire::Kind::read_modify_write:
    case wire::Kind::fetch_update:
    case wire::Kind::lock_note:
    case wire::Kind::unlock: answers_.acknowledge_soon(in.client); break;
  }
  if (!status.ok())
    answers_.reply(in.client, in.request, std::as_bytes(std::span(status.message())),
                   static_cast<int>(status.code()));
}

// On a new connection: requests without a reply that were refused. What is acknowledged says that
// those were all.
void Answers::refuse_again(Client& client) {
  for (const session::Kept& kept : client.session->kept())
    if (kept.one_way) tell_failure(client, kept.number, kept.code, kept.payload);
  acknowledge(client);
}

// The request is parked, or counts as applied from here on: its origin sends it once more only if
// its answer is lost.
fabric::Verdict Server::finish(Client& client, Applier::Outcome outcome, const Status& refusal) {
  if (!refusal.ok()) {
    refuse_request(client, refusal);
  } else if (outcome == Applier::Outcome::park) {
    client.state = Client::State::parked;
    retry_.push_back(client.endpoint);
    return fabric::Verdict::park;
  } else if (outcome == Applier::Outcome::done) {
    client.session->applied_next();
    client.quiet_bytes += static_cast<uint32_t>(std::min(request_.extent_bytes, quiet_bytes_limit));
    if (!request_.has(wire::flag_more) || client.quiet_bytes >= quiet_bytes_limit)
      answers_.acknowledge_soon(client);
    else if (request_.has(wire::flag_notify)) answers_.acknowledge_later(client);
  }
  client.session->confirm(request_.header.results_received);
  count(counters_.requests);
  return fabric::Verdict::taken;
}

// It was dealt with: its origin is told, and what follows it goes on.
void Server::refuse_request(Client& client, const Status& why) {
  const uint64_t number = request_.header.number;
  const int code = static_cast<int>(why.code());
  const bool one_way = request_.header.reply_slot == 0;
  // A fence tells of a request without a reply, long after its call: it is named.
  const std::string what = one_way ? concat("; it was ", to_string(request_.header)) : "";
  const std::string text = concat(why.message(), what).substr(0, longest_text);
  client.session->applied_next();
  client.session->keep_failure(number, code, one_way, text);
  if (one_way) answers_.tell_failure(client, number, code, text);
  else answers_.reply(client, request_, std::as_bytes(std::span(text)), code);
}

// ---- long puts --------------------------------------------------------------------------------

// Does the decoded header begin a payload that this connection may send now?
bool Server::is_direct(const Client& client) const {
  const wire::RequestHeader& h = request_.header;
  return request_.kind() == wire::Kind::put &&
         (h.flags & ~(wire::flag_notify | wire::flag_more)) == 0 && !client.said_bye() &&
         client.session->classify(h.number) == session::Order::apply;
}

Status Server::check_direct(const Client& client, uint64_t payload_bytes) const {
  const wire::RequestHeader& h = request_.header;
  if (!is_direct(client))
    return error(Code::invalid, "a payload of ", payload_bytes, " bytes with ", to_string(h),
                 ", which may not carry one");
  return check_addressee(client);
}

std::byte* Server::place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                                  uint64_t payload_bytes) {
  Client* client = clients_.find(endpoint);
  if (client == nullptr) return nullptr;
  Status status = wire::decode(header, &request_);
  if (status.ok()) status = check_direct(*client, payload_bytes);
  if (!status.ok()) {
    complain(*client, status);
    return nullptr;  // the fabric closes it
  }
  Incoming in{*client, request_, {}};
  std::byte* to = nullptr;
  status = applier_.place(in, payload_bytes, &to);
  if (!status.ok()) {
    // It counts as applied, and its origin is told on its next connection: this one ends, with the
    // payload on its way.
    (void)finish(*client, Applier::Outcome::done, status);
    return nullptr;
  }
  return receive(*client, to);
}

// Part of an access that is longer, or a message of a collective call. From its place it is not
// copied again. All that is not plain comes by on_message, which says what is wrong.
std::byte* Server::place_inline(fabric::EndpointId endpoint, fabric::Bytes header,
                                uint64_t payload_bytes) {
  assert_server_thread();
  Client* const client = clients_.find(endpoint);
  if (client == nullptr || client->state != Client::State::serving || !answers_.has_room(*client))
    return nullptr;
  if (!wire::decode(header, &request_).ok() || !is_direct(*client) ||
      !check_addressee(*client).ok())
    return nullptr;
  Incoming in{*client, request_, {}};
  std::byte* to = nullptr;
  if (!applier_.place(in, payload_bytes, &to).ok() ||
      in.region.kind != memory::Kind::node_shared)
    return nullptr;
  return receive(*client, to);
}

// Its payload, which begins, goes there.
std::byte* Server::receive(Client& client, std::byte* to) {
  SKERRY_INVARIANT(
      client.state == Client::State::serving || client.state == Client::State::parked,
      "one payload at a time, and none behind a bye");
  client.state = Client::State::receiving;
  client.receives_into = request_.segment();
  return to;
}

fabric::Verdict Server::on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                                  uint64_t payload_bytes) {
  Client* client = clients_.find(endpoint);
  if (client == nullptr) return fabric::Verdict::taken;
  SKERRY_INVARIANT(client->state == Client::State::receiving || client->session->notify_pending(),
                   "what is placed was on its way, or its notification met a busy stripe");
  client->state = Client::State::serving;
  admission_.heard(*client);
  (void)wire::decode(header, &request_);  // place_directly accepted it
  request_.extent_bytes = payload_bytes;
  Incoming in{*client, request_, {}};
  Applier::Outcome outcome = Applier::Outcome::done;
  const Status refusal = applier_.placed(in, &outcome);
  return finish(*client, outcome, refusal);
}

// ---- connections ------------------------------------------------------------------------------

void Server::on_connect_request(fabric::RequestId request, fabric::Bytes hello, std::string_view) {
  assert_server_thread();
  admission_.on_connect_request(request, hello);
}

void Server::on_writable(fabric::EndpointId endpoint) {
  if (Client* client = clients_.find(endpoint)) return answers_.on_writable(*client);
  if (std::erase(full_, endpoint) > 0) fabric_->unpark(endpoint);
  relay_.on_writable(endpoint);
}

void Server::on_closed(fabric::EndpointId endpoint, fabric::CloseReason, std::string_view) {
  assert_server_thread();
  if (Client* client = clients_.find(endpoint)) return admission_.drop(*client);
  relay_.on_closed(endpoint);
}

}  // namespace skerry::server
