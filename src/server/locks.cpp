// What this server does for locks of its node, for ranks of other nodes. Who gets a lock is decided
// in src/lock; the way of a grant: lock/protocol.hpp.
#include <cstring>

#include "core/owner_lock.hpp"
#include "lock/home.hpp"
#include "server/server.hpp"

namespace skerry::server {

// ---- requests, from which a grant may come at once or later -----------------------------------

// A grant goes to the rank that the holder names, so no rank may ask in the name of another.
Status Server::check_holder(const Client& client, lock::Holder holder) const {
  const bool plain = (holder & lock::queued_bit) == 0 &&
                     (!lock::joins(holder) || lock::shares(holder));
  if (lock::rank_of(holder) == client.rank && plain) return {};
  return error(Code::invalid, "rank ", client.rank, " asks for a lock as holder ", holder,
               ", which is not one of its threads");
}

// A lock request never stops its session, whatever it has to wait for: the request that ends the
// wait may be the next of the session.
Server::Outcome Server::apply_lock(Client& client, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  const SegmentId segment{h.segment_owner, h.segment_generation};
  const Rank rank = static_cast<Rank>(h.target_rank);
  const lock::Holder holder = request_.operands.first;
  if (*failure = check_holder(client, holder); !failure->ok()) return Outcome::failed;
  if (request_.kind() == wire::Kind::unlock) {
    bool busy = false;
    *failure = locks_.release(segment, rank, h.offset, holder, &busy);
    if (!failure->ok()) return Outcome::failed;
    return busy ? Outcome::park : Outcome::done;  // the guard is held for a few instructions
  }
  const lock::Locks::Answer answer = locks_.request(
      {segment, rank, h.offset, lock::make_waiter(holder, client.rank, h.reply_slot, h.reply_tag),
       h.number},
      failure);
  switch (answer) {
    case lock::Locks::Answer::refused: return Outcome::failed;
    case lock::Locks::Answer::granted:
      client.session->applied_next();
      reply(client, 0, 0, {});
      return Outcome::answered;
    case lock::Locks::Answer::waits:
      client.session->applied_next();
      mark_acknowledge(client);
      return Outcome::answered;
  }
  return Outcome::failed;
}

// One whole access epoch: lock, access, unlock. Never waits for the lock: its origin then queues up
// for it with a request of its own.
Server::Outcome Server::apply_locked(Client& client, fabric::Bytes payload, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  const wire::Guard& g = request_.guard;
  const SegmentId locks{g.segment_owner, g.segment_generation};
  const Rank rank = static_cast<Rank>(h.target_rank);
  if (*failure = check_holder(client, g.holder); !failure->ok()) return Outcome::failed;
  // That a lock is taken is said of the session's next request, not of one that comes again.
  if (again_ || !client.session->lock_taken()) {
    switch (locks_.try_request(locks, rank, g.index, g.holder, failure)) {
      case lock::Locks::Answer::granted: break;
      case lock::Locks::Answer::refused: return Outcome::failed;
      case lock::Locks::Answer::waits:
        if (!again_) {
          client.session->applied_next();
          client.session->keep_failure(h.number, static_cast<int>(Code::contended), false, {});
        }
        reply(client, static_cast<int>(Code::contended), 0, {});
        return Outcome::answered;
    }
  }
  const uint64_t number = h.number;
  const Outcome outcome = apply_access(client, payload, failure);
  if (outcome == Outcome::park) {  // a stripe is busy: the lock stays taken until it is free
    if (SKERRY_RULE(keep_lock)) client.session->set_lock_taken();
    return outcome;
  }
  locks_.release_soon(locks, rank, g.index, g.holder);
  if (outcome != Outcome::done) return outcome;
  client.session->applied_next();
  client.session->keep_result(number, 0);
  reply(client, 0, 0, {});
  return Outcome::answered;
}

// ---- grants that come later --------------------------------------------------------------------

// Answers a lock request that waited: over the origin's connection or, if it has none, through its
// node's server. The server whose client the origin is does so.
void Server::grant(const lock::Waiter& waiter) {
  assert_server_thread();
  const Rank origin = lock::rank_of(waiter.holder);
  if (view_.map->node_of(origin) == no_node) return;  // a lock's memory was written over
  if (view_.servers.size() > 1) {
    const uint16_t index = placement::server_on(*view_.map, config_.self.node, origin).index;
    Server* const other = view_.servers[index];
    if (other != this) return other->post([other, waiter] { other->grant(waiter); });
  }
  const uint32_t slot = lock::slot_of(waiter), tag = lock::tag_of(waiter);
  const auto known = known_.find(origin);
  Client* client = known == known_.end() ? nullptr : client_of(known->second.endpoint);
  if (client == nullptr || client->said_bye()) {
    if (SKERRY_RULE(relay_grants)) relay_grant(origin, slot, tag);
    return;
  }
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::AnswerKind::reply);
  header.incarnation = client->session->incarnation();
  header.applied = client->session->applied();
  header.slot = slot;
  header.tag = tag;
  send_reply(*client, header, {});
}

// One server of a node talks to those of other nodes: generations of its connections grow.
void Server::relay_grant(Rank origin, uint32_t slot, uint32_t tag) {
  if (config_.self.index == 0) return relay_.send(origin, slot, tag);
  Server* const first = view_.servers.front();
  first->post([=] { first->relay_.send(origin, slot, tag); });
}

// A lock request that was kept for a while cannot be served. A rank that asks for it again is told
// as well.
void Server::refuse(const lock::Locks::Asked& request, const Status& why) {
  assert_server_thread();
  Known& known = recall(lock::rank_of(request.waiter.holder));
  const int code = static_cast<int>(why.code());
  const std::string text = why.message().substr(0, longest_text);
  session::TargetSession& session = known.session;
  session.keep_failure(request.number, code, false, text);
  Client* client = client_of(known.endpoint);
  if (client == nullptr || client->said_bye()) return;
  wire::ReplyHeader header{};
  header.version = wire::version;
  header.kind = static_cast<uint8_t>(wire::AnswerKind::reply);
  header.code = static_cast<int8_t>(code);
  header.incarnation = session.incarnation();
  header.applied = session.applied();
  header.number = request.number;
  header.slot = lock::slot_of(request.waiter);
  header.tag = lock::tag_of(request.waiter);
  send_reply(*client, header, std::as_bytes(std::span(text)));
}

// ---- messages to the managers of locks ---------------------------------------------------------

// What a manager does is decided in src/lock; this runs its steps, and the origin sends the
// messages that come of them.
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
