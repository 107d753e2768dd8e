#include "origin/link/resume.hpp"

#include <cstddef>

#include "core/pure/rule.hpp"
#include "wire/message.hpp"

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
  const Requests& requests = link.requests;
  links_.begin_resume(link, 1, Scope::all,
                      requests.is_logged() ? requests.log()->first_number() : UINT64_MAX);
  go_on(link);
}

void Resume::queued(Link& link) {
  links_.begin_resume(link, link.requests.backlog.sent + 1, Scope::queued);
  go_on(link);
}

void Resume::go_on(Link& link) {
  context_.assert_held();
  const session::ReplayCursor& replay = link.requests.replay;
  if (!replay.running() || context_.is_ending()) return;
  const bool accepted = requests(link);
  if (!accepted || !replay.waits_for_answers(link.requests.log())) {
    if (!accepted || !rma_.again(link, UINT64_MAX) || !locks(link))
      return link.connection.note_full();
    links_.end_resume(link);
  }
  (void)context_.fabric->flush(link.connection.endpoint());
}

bool Resume::requests(Link& link) {
  session::ReplayCursor& replay = link.requests.replay;
  const session::ReplayLog* const log = link.requests.log();
  while (const uint64_t number = replay.next(log)) {
    if (!rma_.again(link, number)) return false;
    const session::ReplayLog::Request request = log->request(number);
    if (SKERRY_RULE(replay) && log->is_wanted(number)) {
      if (!send(link, request.header, request.payload, number)) return false;
      if (number <= link.requests.backlog.sent) ++context_.counters.requests_replayed;
      else links_.queued_sent(link, number);
    }
    replay.passed(number, is_joined(request.header));
  }
  return true;
}

void Resume::send_early(Link& link) {
  context_.assert_held();
  while (link.has_queued()) {
    const uint64_t number = link.requests.backlog.sent + 1;
    const session::ReplayLog::Request request = link.requests.log()->request(number);
    if (!send(link, request.header, request.payload, number)) return;
    links_.queued_sent(link, number);
  }
}

bool Resume::locks(Link& link) {
  session::ReplayCursor& replay = link.requests.replay;
  for (uint32_t i = 0; (i = replay.next_slot(slots_.count())) < slots_.count();
       replay.passed_slot()) {
    const Pending& p = slots_.pending(i);
    const bool parked = p.op != nullptr && p.link == &link && p.lock_request &&
                        p.number <= link.requests.applied();
    if (!parked) continue;
    if (!send(link, *p.lock_request, {}, 0)) return false;
    link.connection.note_asked_again();
    ++context_.counters.requests_replayed;
  }
  return true;
}

bool Resume::send(Link& link, fabric::Bytes header, fabric::Bytes payload, uint64_t number) {
  return context_.fabric->send(link.connection.endpoint(), header, payload, true, number) ==
         fabric::SendResult::accepted;
}

}  // namespace skerry::origin
