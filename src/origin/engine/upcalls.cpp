// What servers answer, and what the fabric tells. All upcalls run with the mutex held.
//
// Whatever every message must do is done once, at the door (come_in): what it acknowledges counts
// before anything else looks at it, and when all is done the link is looked at, whether that was
// the last thing that kept it. No branch in between returns past these.
#include "origin/engine/engine.hpp"

namespace skerry::origin {

fabric::Verdict Engine::on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                                   fabric::Bytes payload) {
  Link* link = layers_.links.of(endpoint);
  if (link != nullptr) come_in(*link, header, payload, false);  // otherwise late: closed meanwhile
  return fabric::Verdict::taken;
}

fabric::Verdict Engine::on_placed(fabric::EndpointId endpoint, fabric::Bytes header, uint64_t) {
  Link* link = layers_.links.of(endpoint);
  if (link != nullptr) come_in(*link, header, {}, true);
  return fabric::Verdict::taken;
}

void Engine::come_in(Link& link, fabric::Bytes header, fabric::Bytes payload, bool placed) {
  if (const Status status = take(link, header, payload, placed); !status.ok())
    return layers_.links.fail_and_close(link,
                                        error(Code::internal, "node ", link.server.node,
                                              " does not speak our protocol: ", status.message()));
  if (link.replay.running() && link.room == Link::Room::free)
    layers_.resume.go_on(link);  // it may have waited for this answer
  layers_.links.maybe_drained(link);
}

Status Engine::take(Link& link, fabric::Bytes header, fabric::Bytes payload, bool placed) {
  if (wire::AnswerKind kind; wire::peek(header, &kind)) {
    wire::ReplyHeader answer;
    SKERRY_TRY(wire::decode(header, &answer));
    if (answer.incarnation != link.session.incarnation()) return {};  // late: of an earlier session
    // Refusals that a break lost come first. Any other message means that they have all arrived.
    if (kind != wire::AnswerKind::failure) link.session.refusal_told();
    SKERRY_TRY(layers_.links.acknowledge(link, answer.applied));
    if (kind == wire::AnswerKind::failure) take_failure(link, answer, payload);
    return kind == wire::AnswerKind::reply ? take_reply(answer, payload, placed) : Status();
  }
  wire::CloseKind kind;
  if (!wire::peek(header, &kind)) return wire::unexpected(header);
  wire::CloseHeader close;
  SKERRY_TRY(wire::decode(header, &close));
  switch (kind) {
    case wire::CloseKind::please_close: layers_.links.please_close(link); return {};
    case wire::CloseKind::farewell:  // the end of the connection follows; what crosses it is sent
                                     // again
      link.trust = Link::Trust::farewell;
      if (close.asked_again == link.asked_again) link.asked_again = 0;
      return {};
    case wire::CloseKind::bye_answer: layers_.links.bye_answered(link); return {};
    case wire::CloseKind::bye: break;
  }
  return wire::unexpected(header);
}

Status Engine::take_reply(const wire::ReplyHeader& answer, fabric::Bytes payload, bool placed) {
  Pending* pending = nullptr;
  SKERRY_TRY(layers_.slots.find(answer.slot, answer.tag, &pending));
  // Late, or a duplicate: a mutex whose grant came into the slot by another way first.
  if (pending == nullptr) return {};
  if (!placed && answer.code == 0 && pending->result == nullptr && payload.size() != pending->bytes)
    return error(Code::internal, "reply of ", payload.size(), " bytes to a get of ",
                 pending->bytes);
  // Gets that a break made us ask for again bring answers and acknowledge nothing new.
  layers_.links.got_through(*pending->link);
  layers_.slots.complete(layers_.slots.index_of(*pending), answer.code, payload, placed,
                         answer.result);
  return {};
}

// A one-way request that the server refused. It is told again after a break: then we may have heard
// of it already.
void Engine::take_failure(Link& link, const wire::ReplyHeader& answer, fabric::Bytes text) {
  link.session.result_received(answer.number);
  if (answer.number <= link.failure_number) return;
  link.failure_number = answer.number;
  if (!link.request_failure.ok()) return;
  link.request_failure = Status(
      static_cast<Code>(answer.code),
      std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  layers_.links.list(link);  // until somebody has heard of it
}

std::byte* Engine::place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                                  uint64_t payload_bytes) {
  const Link* link = layers_.links.of(endpoint);
  wire::AnswerKind kind;
  wire::ReplyHeader answer;
  Pending* pending = nullptr;
  const bool is_awaited = link != nullptr && wire::peek(header, &kind) &&
                          kind == wire::AnswerKind::reply && wire::decode(header, &answer).ok() &&
                          layers_.slots.find(answer.slot, answer.tag, &pending).ok() &&
                          pending != nullptr && pending->bytes == payload_bytes;
  return is_awaited ? pending->direct : nullptr;
}

// A put or get of the fabric's own finished.
void Engine::on_rma_done(fabric::EndpointId, uint64_t cookie, bool ok) {
  Link* link = layers_.rma.done(cookie, ok);
  if (link == nullptr) return;
  if (ok) layers_.links.got_through(*link);
  layers_.links.maybe_drained(*link);
}

}  // namespace skerry::origin
