// Messages of other nodes' ranks to the managers of locks hosted here. What a manager does is
// decided in src/lock; this runs its steps, and its origin sends the messages that come of them.
#include <cstring>

#include "core/owner_lock.hpp"
#include "lock/home.hpp"
#include "server/server.hpp"

namespace skerry::server {

static_assert(sizeof(lock::machine::Rest::State) == 1);

Server::Outcome Server::apply_note(Client& client, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  memory::Region region;
  if (*failure = directory_.find({h.segment_owner, h.segment_generation},
                                 static_cast<Rank>(h.target_rank), &region);
      !failure->ok())
    return Outcome::failed;
  lock::machine::Home home;
  *failure = region.kind == memory::Kind::lock_words
                 ? lock::machine::Home::open(region.base, region.bytes, &home)
                 : error(Code::invalid, "segment (", h.segment_owner, ", ", h.segment_generation,
                         ") holds no lock with a manager");
  if (!failure->ok()) return Outcome::failed;
  const wire::NoteWord said = wire::note_word(request_.operands.first);
  lock::machine::Event event;
  event.kind = lock::machine::Event::Kind::told;
  event.note = static_cast<lock::machine::Note>(said.note);
  event.mode = said.shared != 0 ? lock::machine::Mode::shared : lock::machine::Mode::exclusive;
  event.from = said.requester;
  event.value = request_.operands.second;
  if (!lock::machine::is_sound(home, event)) {
    *failure = error(Code::invalid, "rank ", client.rank, " as requester ", said.requester,
                     " sends note ", int{said.note}, " to the lock of rank ", h.target_rank);
    return Outcome::failed;
  }
  OwnerWord& guard = home.record().guard;
  switch (try_lock_word(guard, view_.member_index, view_.control.watch())) {
    case LockResult::locked: break;
    case LockResult::busy: return Outcome::park;  // held for a few dozen instructions
    case LockResult::aborted:
    case LockResult::owner_dead:
      *failure = error(Code::peer_dead, "the lock of rank ", h.target_rank,
                       ": a rank died while running its manager");
      return Outcome::failed;
  }
  lock::machine::Tell tells[wire::most_note_tells];
  size_t told = 0;
  const lock::machine::Rest rest = lock::machine::run_manager(home, event, tells, &told);
  unlock_word(guard, Sharing::node);
  wire::NoteAnswer answer{};
  answer.rest = static_cast<uint8_t>(rest.state);
  answer.taken = rest.taken ? 1 : 0;
  answer.tells = static_cast<uint8_t>(told);
  for (size_t i = 0; i < told; ++i)
    answer.tell[i] = {tells[i].to, tells[i].value, static_cast<uint32_t>(tells[i].note), 0};
  client.session->applied_next();
  const fabric::Bytes payload = std::as_bytes(std::span(&answer, 1));
  client.session->keep_answer(
      h.number, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  reply(client, 0, 0, payload);
  return Outcome::answered;
}

}  // namespace skerry::server
