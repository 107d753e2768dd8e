// What servers answer, what the fabric tells, and what the engine's parts ask for. All upcalls run
// with the mutex held.
//
// What every message must do is done once, at the door (come_in). What the message acknowledges
// counts before anything else looks at it. When all is done come_in looks whether that was the last
// thing that kept the link. No branch in between returns past these.
#include "origin/engine/engine.hpp"

namespace skerry::origin {

fabric::Verdict Engine::on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                                   fabric::Bytes payload) {
  Link* link = links_.of(endpoint);
  if (link != nullptr) come_in(*link, header, payload, false);  // otherwise late: closed meanwhile
  return fabric::Verdict::taken;
}

fabric::Verdict Engine::on_placed(fabric::EndpointId endpoint, fabric::Bytes header, uint64_t) {
  Link* link = links_.of(endpoint);
  if (link != nullptr) come_in(*link, header, {}, true);
  return fabric::Verdict::taken;
}

void Engine::come_in(Link& link, fabric::Bytes header, fabric::Bytes payload, bool placed) {
  if (const Status status = take(link, header, payload, placed); !status.ok())
    return links_.fail_and_close(link,
                                        error(Code::internal, "node ", link.server.node,
                                              " does not speak our protocol: ", status.message()));
  if (link.requests.replay.running() && link.connection.has_room())
    resume_.go_on(link);  // it may have waited for this answer
  links_.maybe_drained(link);
}

Status Engine::take(Link& link, fabric::Bytes header, fabric::Bytes payload, bool placed) {
  if (wire::AnswerKind kind; wire::peek(header, &kind)) {
    wire::ReplyHeader answer;
    SKERRY_TRY(wire::decode(header, &answer));
    if (answer.incarnation != link.requests.session().incarnation())
      return {};  // late: of an earlier session
    // Refusals that a break lost come first. Any other message means that they have all arrived.
    if (kind != wire::AnswerKind::failure) link.requests.refusals_told();
    SKERRY_TRY(links_.acknowledge(link, answer.applied));
    if (kind == wire::AnswerKind::failure) take_failure(link, answer, payload);
    return kind == wire::AnswerKind::reply ? take_reply(answer, payload, placed) : Status();
  }
  wire::CloseKind kind;
  if (!wire::peek(header, &kind)) return wire::unexpected(header);
  wire::CloseHeader close;
  SKERRY_TRY(wire::decode(header, &close));
  switch (kind) {
    case wire::CloseKind::please_close: links_.please_close(link); return {};
    case wire::CloseKind::farewell: link.connection.note_farewell(close.asked_again); return {};
    case wire::CloseKind::bye_answer: links_.bye_answered(link); return {};
    case wire::CloseKind::bye: break;
  }
  return wire::unexpected(header);
}

Status Engine::take_reply(const wire::ReplyHeader& answer, fabric::Bytes payload, bool placed) {
  Pending* pending = nullptr;
  SKERRY_TRY(slots_.find(answer.slot, answer.tag, &pending));
  // Late, or a duplicate: a mutex whose grant came into the slot by another way first.
  if (pending == nullptr) return {};
  if (!placed && answer.code == 0 && pending->result == nullptr && payload.size() != pending->bytes)
    return error(Code::internal, to_string(answer), " has ", payload.size(), " bytes, its get ",
                 pending->bytes);
  // Gets that a break made us ask for again bring answers and acknowledge nothing new.
  links_.got_through(*pending->link);
  slots_.complete(slots_.index_of(*pending), answer.code, payload, placed,
                         answer.result);
  return {};
}

// A one-way request that the server refused. It is told again after a break: then we may have heard
// of it already.
void Engine::take_failure(Link& link, const wire::ReplyHeader& answer, fabric::Bytes text) {
  if (!link.requests.refused(answer.number)) return;
  link.requests.note_failure(
      Status(static_cast<Code>(answer.code),
             std::string(reinterpret_cast<const char*>(text.data()), text.size())));
  links_.list(link);  // until somebody has heard of it
}

std::byte* Engine::place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                                  uint64_t payload_bytes) {
  const Link* link = links_.of(endpoint);
  wire::AnswerKind kind;
  wire::ReplyHeader answer;
  Pending* pending = nullptr;
  const bool is_awaited = link != nullptr && wire::peek(header, &kind) &&
                          kind == wire::AnswerKind::reply && wire::decode(header, &answer).ok() &&
                          slots_.find(answer.slot, answer.tag, &pending).ok() &&
                          pending != nullptr && pending->bytes == payload_bytes;
  return is_awaited ? pending->direct : nullptr;
}

// A put or get of the fabric's own finished.
void Engine::on_rma_done(fabric::EndpointId, uint64_t cookie, bool ok) {
  Link* link = rma_log_.done(cookie, ok);
  if (link == nullptr) return;
  if (ok) links_.got_through(*link);
  links_.maybe_drained(*link);
}

// ---- what the parts ask for -------------------------------------------------------------------

Work::Need Engine::need(Chore also) {
  Need need;
  switch (also) {
    case Chore::none: break;
    case Chore::look_for_breaks: need.unacknowledged = links_.any_unacknowledged(); break;
    case Chore::open_queued:
      links_.open_queued();
      links_.restart_queue_clock();
      break;
    case Chore::tidy: links_.trim(); break;
  }
  need.held_back = batches_.any_corked();
  need.wants_connection = links_.anyone_waits();
  need.resumes = links_.any_resumes();
  need.answers_come = links_.answers_come(operations_.any_unwaited());
  need.has_cap = links_.queues();
  need.issued = sender_.issued();
  if (!links_.backlog().empty()) need.queued_since_ns = links_.backlog().since_ns();
  need.patience_ns = links_.patience_ns();
  return need;
}

bool Engine::advance(bool ending) {
  if (ending) {
    links_.abandon_transfers();
    return true;
  }
  const bool loses = losses.advance();
  if (!links_.anyone_waits()) return loses;
  links_.advance();
  return true;
}

void Engine::opened(Link& link, bool must_resume) {
  if (must_resume) resume_.all(link);
  else if (link.has_queued()) resume_.queued(link);
}

void Engine::broken(Link& link) {
  slots_.abandon(link, link.connection.failure());
  if (link.held.any() && context_.loss_of(link.server.node) != nullptr) batches_.clear(link);
  rma_log_.abandon(link, link.connection.failure());
}

void Engine::writable(Link& link) {
  if (link.connection.is_early()) resume_.send_early(link);
  resume_.go_on(link);
}

void Engine::drained(Link& link) {
  sender_.drain(link);
  RmaLog::forget_messages(link, true);
}

}  // namespace skerry::origin
