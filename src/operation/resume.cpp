#include "operation/resume.hpp"

#include "core/pure/rule.hpp"
#include "operation/layers.hpp"

namespace skerry::operation {

void Resume::go_on(Link& link) {
  context_.assert_held();
  if (!link.replay.running() || context_.is_ending()) return;
  if (!requests(link) || !layers_.rma.issue_again(link, UINT64_MAX) || !locks(link)) {
    // Refused: on_writable or on_closed follows.
    link.room = Link::Room::full;
    return;
  }
  link.replay.stop();
  (void)context_.fabric->flush(link.endpoint);
}

// False: the fabric is full.
bool Resume::requests(Link& link) {
  while (const uint64_t number = link.replay.next(link.log.get())) {
    if (!layers_.rma.issue_again(link, number)) return false;
    if (SKERRY_RULE(replay) && link.log->is_wanted(number)) {
      const session::ReplayLog::Request request = link.log->request(number);
      if (!send(link, request.header, request.payload, number)) return false;
      if (number <= link.backlog.sent) ++context_.counters.requests_replayed;
      else layers_.sender.note_sent(link, number);
    }
    link.replay.passed(number);
  }
  return true;
}

bool Resume::locks(Link& link) {
  for (uint32_t i = 0; (i = link.replay.next_slot(layers_.slots.count())) < layers_.slots.count();
       link.replay.passed_slot()) {
    const Pending& p = layers_.slots.pending(i);
    const bool parked = p.op != nullptr && p.link == &link && p.lock_request &&
                        p.number <= link.session.applied();
    if (!parked) continue;
    if (!send(link, *p.lock_request, {}, 0)) return false;
    ++link.asked_again;
    ++context_.counters.requests_replayed;
  }
  return true;
}

bool Resume::send(Link& link, fabric::Bytes header, fabric::Bytes payload, uint64_t number) {
  return context_.fabric->send(link.endpoint, header, payload, true, number) ==
         fabric::SendResult::accepted;
}

}  // namespace skerry::operation
