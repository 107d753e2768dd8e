// What this server does for locks of its node, for ranks of other nodes. Who gets a lock is decided
// in src/lock; the way of a grant: lock/mutex.hpp.
#include "core/owner_lock.hpp"
#include "core/pure/rule.hpp"
#include "lock/home.hpp"
#include "server/server.hpp"

namespace skerry::server {

// ---- requests, from which a grant may come at once or later -----------------------------------

// A lock request never stops its session, whatever it has to wait for: the request that ends the
// wait may be the next of the session.
Status Applier::lock_or_unlock(const Incoming& in, Outcome* outcome) {
  const wire::RequestHeader& h = in.request.header;
  const lock::Holder holder = in.request.operands.first;
  SKERRY_TRY(in.check_holder(holder));
  const lock::Waiter waiter = lock::make_waiter(holder, in.client.rank, h.reply_slot, h.reply_tag);
  const lock::Asked asked{in.request.segment(), in.request.target(), h.offset, waiter, h.number};
  if (in.request.kind() == wire::Kind::unlock) {
    bool busy = false;
    SKERRY_TRY(locks_.release(asked, &busy));
    if (busy) *outcome = Outcome::park;  // the guard is held for a few instructions
    return {};
  }
  bool granted = false;
  SKERRY_TRY(locks_.request(asked, &granted));
  *outcome = Outcome::answered;
  if (granted) {
    *outcome = answer(in, {}, view_.has_dead ? 1 : 0);
  } else {
    in.session().applied_next();
    answers_.acknowledge_soon(in.client);
  }
  return {};
}

// One whole access epoch: lock, access, unlock. Never waits for the lock: its origin then queues up
// for it with a request of its own.
Status Applier::locked(Incoming& in, Outcome* outcome) {
  const uint64_t number = in.request.header.number;
  const wire::Guard& g = in.request.guard;
  const Rank rank = in.request.target();
  const lock::Asked asked{
      {g.segment_owner, g.segment_generation}, rank, g.index, {g.holder, {}}, 0};
  session::TargetSession& session = in.session();
  SKERRY_TRY(in.check_holder(g.holder));
  // That a lock is taken is said of the session's next request, not of one that comes again.
  if (in.again || !session.lock_taken()) {
    constexpr int contended = static_cast<int>(Code::contended);
    bool granted = false;
    SKERRY_TRY(locks_.try_request(asked, &granted));
    if (!granted) {
      if (!in.again) {
        session.applied_next();
        session.keep_failure(number, contended, false, {});
      }
      answers_.reply(in.client, in.request, {}, contended);
      *outcome = Outcome::answered;
      return {};
    }
  }
  Status status = access(in, outcome);
  if (status.ok() && *outcome == Outcome::park) {
    // A stripe is busy: the lock stays taken until it is free.
    if (SKERRY_RULE(keep_lock)) session.set_lock_taken();
    return {};
  }
  locks_.release_soon(asked);
  if (!status.ok() || *outcome != Outcome::done) return status;
  session.keep_result(number, 0);
  *outcome = answer(in, {});
  return {};
}

// A mutex's holder asks whether the one before it died. The answer is given once, so it is kept
// until the origin has it.
Status Applier::take_death(const Incoming& in, Outcome* outcome) {
  const wire::RequestHeader& h = in.request.header;
  const lock::Holder holder = in.request.operands.first;
  SKERRY_TRY(in.check_holder(holder));
  Rank died = no_rank;
  SKERRY_TRY(locks_.take_death(
      {in.request.segment(), in.request.target(), h.offset, {holder, {}}, h.number}, &died));
  const auto result = static_cast<uint64_t>(died + 1);
  in.session().keep_result(h.number, result);
  *outcome = answer(in, {}, result);
  return {};
}

// ---- messages to the managers of locks ---------------------------------------------------------

// What a manager does is decided in src/lock; this runs its steps, and the origin sends the
// messages that come of them.
static_assert(sizeof(lock::machine::Rest::State) == 1);

Status Applier::note(Incoming& in, Outcome* outcome) {
  const wire::RequestHeader& h = in.request.header;
  SKERRY_TRY(find(in));
  if (in.region.kind != memory::Kind::lock_words)
    return error(Code::invalid, "segment (", h.segment_owner, ", ", h.segment_generation,
                 ") holds no lock with a manager");
  lock::machine::Home home;
  SKERRY_TRY(lock::machine::Home::open(in.region.base, in.region.bytes, &home));
  const wire::NoteWord said = wire::note_word(in.request.operands.first);
  lock::machine::Event event;
  event.kind = lock::machine::Event::Kind::told;
  event.note = static_cast<lock::machine::Note>(said.note);
  event.mode = said.shared != 0 ? lock::machine::Mode::shared : lock::machine::Mode::exclusive;
  event.from = said.requester;
  event.value = in.request.operands.second;
  if (!lock::machine::is_sound(home, event))
    return error(Code::invalid, "rank ", in.client.rank, " as requester ", said.requester,
                 " sends note ", int{said.note}, " to the lock of rank ", h.target_rank);
  OwnerWord& guard = home.record().guard;
  switch (try_lock_word(guard, view_.member_index, view_.control.watch())) {
    case LockResult::locked: break;
    case LockResult::busy:  // held for a few dozen instructions
      *outcome = Outcome::park;
      return {};
    case LockResult::aborted:
    case LockResult::owner_dead:
      return error(Code::peer_dead, "the lock of rank ", h.target_rank,
                   ": a rank died while running its manager");
  }
  lock::machine::Tell tells[wire::most_note_tells];
  const lock::machine::Rest rest = lock::machine::run_manager(home, event, tells);
  unlock_word(guard);
  wire::NoteAnswer said_back{};
  said_back.rest = static_cast<uint8_t>(rest.state);
  said_back.taken = rest.taken ? 1 : 0;
  said_back.tells = static_cast<uint8_t>(rest.told);
  if (rest.state == lock::machine::Rest::State::network) {
    SKERRY_INVARIANT(rest.action.kind == lock::machine::Action::Kind::compare_and_swap,
                     "managers do nothing else by the network");
    said_back.word = rest.action.word;
    said_back.expected = rest.action.expected;
  }
  said_back.value = rest.action.value;
  for (size_t i = 0; i < rest.told; ++i)
    said_back.tell[i] = {tells[i].to, tells[i].value, static_cast<uint32_t>(tells[i].note), 0};
  const fabric::Bytes payload = std::as_bytes(std::span(&said_back, 1));
  in.session().keep_answer(
      h.number, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  *outcome = answer(in, payload);
  return {};
}

// ---- grants that come later --------------------------------------------------------------------

// Answers a lock request that waited: over the origin's connection or, if it has none, through its
// node's server. The server whose client the origin is does so.
void Server::grant(const lock::Waiter& waiter) {
  assert_server_thread();
  const Rank origin = lock::rank_of(waiter.holder);
  if (view_.map->node_of(origin) == no_node) return;  // a lock's memory was written over
  if (admission_.is_dead(origin)) return;             // the lock goes on to the next (bury)
  if (view_.servers.size() > 1) {
    const uint16_t index = placement::server_on(*view_.map, config_.self.node, origin).index;
    Server* const other = view_.servers[index];
    if (other != this) return other->post([other, waiter] { other->grant(waiter); });
  }
  Client* const client = clients_.of(origin);
  if (client != nullptr && !client->said_bye())
    return answers_.grant(*client, waiter, view_.has_dead);
  if (!SKERRY_RULE(relay_grants)) return;
  // One server of a node talks to those of other nodes: generations of its connections grow.
  const uint32_t slot = lock::slot_of(waiter), tag = lock::tag_of(waiter);
  if (config_.self.index == 0) return relay_.send(origin, slot, tag);
  Server* const first = view_.servers.front();
  first->post([=] { first->relay_.send(origin, slot, tag); });
}

// ---- after a death -----------------------------------------------------------------------------

void Server::bury(std::span<const Rank> dead) {
  assert_server_thread();
  view_.has_dead = true;
  for (const Rank rank : dead) {
    if (SKERRY_RULE(refuse_the_dead)) admission_.bury(rank);
    locks_.forget(rank);
    relay_.forget(rank);
  }
}

void Server::pass_on(lock::Mutex& mutex, const std::unordered_set<Rank>& buried) {
  assert_server_thread();
  struct Dead {
    const std::unordered_set<Rank>& by_all;
    const Admission& by_this;
  } const dead{buried, admission_};
  const auto is_buried = [](const void* context, Rank rank) {
    const auto* const of = static_cast<const Dead*>(context);
    return of->by_all.contains(rank) && of->by_this.is_dead(rank);
  };
  locks_.bury(mutex, is_buried, &dead);
}

// A lock request that was kept for a while cannot be served. A rank that asks for it again is told
// as well.
void Server::refuse(const lock::Asked& request, const Status& why) {
  assert_server_thread();
  const Rank origin = lock::rank_of(request.waiter.holder);
  const int code = static_cast<int>(why.code());
  const std::string text = why.message().substr(0, longest_text);
  clients_.recall(origin).session.keep_failure(request.number, code, false, text);
  Client* const client = clients_.of(origin);
  if (client != nullptr && !client->said_bye())
    answers_.reply_late(*client, request.waiter, request.number, code, text);
}

}  // namespace skerry::server
