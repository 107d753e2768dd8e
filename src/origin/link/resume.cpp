#include "origin/link/resume.hpp"

#include <cstddef>

#include "core/pure/rule.hpp"
#include "origin/engine/layers.hpp"

namespace skerry::origin {

using Scope = session::ReplayCursor::Scope;

namespace {

// More parts of its transfer follow: the server may acknowledge them together.
bool is_joined(fabric::Bytes header) {
  const std::byte flags = header[offsetof(wire::RequestHeader, flags)];
  return (flags & std::byte{wire::flag_more}) != std::byte{0};
}

}  // namespace

void Resume::all(Link& link) {
  const bool keeps_any = link.log && !link.log->empty();
  layers_.links.begin_resume(link, 1, Scope::all,
                             keeps_any ? link.log->first_number() : UINT64_MAX);
  go_on(link);
}

void Resume::queued(Link& link) {
  layers_.links.begin_resume(link, link.backlog.sent + 1, Scope::queued);
  go_on(link);
}

void Resume::go_on(Link& link) {
  context_.assert_held();
  if (!link.replay.running() || context_.is_ending()) return;
  const bool accepted = requests(link);
  if (accepted && link.replay.waits_for_answers(link.log.get())) {
    (void)context_.fabric->flush(link.endpoint);
    return;
  }
  if (!accepted || !transfers(link, UINT64_MAX) || !locks(link)) {
    // Refused: on_writable or on_closed follows.
    link.room = Link::Room::full;
    return;
  }
  layers_.links.end_resume(link);
  (void)context_.fabric->flush(link.endpoint);
}

bool Resume::requests(Link& link) {
  while (const uint64_t number = link.replay.next(link.log.get())) {
    if (!transfers(link, number)) return false;
    const session::ReplayLog::Request request = link.log->request(number);
    if (SKERRY_RULE(replay) && link.log->is_wanted(number)) {
      if (!send(link, request.header, request.payload, number)) return false;
      if (number <= link.backlog.sent) ++context_.counters.requests_replayed;
      else layers_.sender.note_sent(link, number);
    }
    link.replay.passed(number, is_joined(request.header));
  }
  return true;
}

// A put that a later message of ours is known to have followed is in place, and is not written
// again: somebody else may have written there since.
bool Resume::transfers(Link& link, uint64_t up_to) {
  if (link.rma.outstanding == 0) return true;
  Rma& rma = layers_.rma;
  for (auto next = rma.running_.begin(); next != rma.running_.end();) {
    const auto [cookie, lost] = *next++;
    if (lost.link != &link || lost.endpoint == link.endpoint || lost.after_number >= up_to)
      continue;
    if (!lost.is_get && context_.can().am_after_rma_ordered &&
        link.session.applied() > lost.after_number) {
      (void)rma.done(cookie, true);
      continue;
    }
    const uint64_t again = ++rma.last_cookie_;
    if (!rma.hand_over(lost, again)) return false;
    ++context_.counters.requests_replayed;
    auto running = rma.running_.extract(cookie);  // its new place is the last
    running.key() = again;
    running.mapped().endpoint = link.endpoint;
    rma.running_.insert(std::move(running));
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

}  // namespace skerry::origin
