#include "connection/quota.hpp"

#include <algorithm>

namespace skerry::connection {

Quota::Quota(Limits limits) : limits_(limits) {
  if (is_limited())
    records_.reserve(1 + size_t{limits_.connections} + std::min(limits_.held, 1024u));
  records_.emplace_back();
}

// ---- records and lists ------------------------------------------------------------------------

Quota::Id Quota::take_record() {
  if (free_ == 0) {
    records_.emplace_back();
    return static_cast<Id>(records_.size() - 1);
  }
  const Id id = free_;
  free_ = records_[id].after;
  records_[id] = Record{};
  return id;
}

void Quota::give_back(Id id) {
  remove(id);
  records_[id] = Record{};
  records_[id].after = free_;
  free_ = id;
}

Quota::List& Quota::list_of(State state) {
  if (state == State::waiting) return waiting_list_;
  return state == State::away ? away_list_ : connected_list_;
}

void Quota::move(Id id, State to, int64_t now_ns) {
  if (state(id) != State::none) remove(id);
  records_[id].state = to;
  records_[id].since_ns = now_ns;
  List& list = list_of(to);
  Id before = list.last;
  // Clients that come back are few, and most belong near the end.
  if (to == State::waiting)
    while (before != 0 && records_[before].mark > records_[id].mark)
      before = records_[before].before;
  insert(list, id, before);
}

void Quota::insert(List& list, Id id, Id before) {
  const Id after = before == 0 ? list.first : records_[before].after;
  records_[id].before = before;
  records_[id].after = after;
  (before == 0 ? list.first : records_[before].after) = id;
  (after == 0 ? list.last : records_[after].before) = id;
  ++list.size;
}

void Quota::remove(Id id) {
  List& list = list_of(state(id));
  const Id before = records_[id].before, after = records_[id].after;
  (before == 0 ? list.first : records_[before].after) = after;
  (after == 0 ? list.last : records_[after].before) = before;
  --list.size;
}

// ---- events -----------------------------------------------------------------------------------

Quota::Arrival Quota::arrive(uint32_t name, int64_t now_ns, Id* id) {
  SKERRY_ASSERT(is_limited(), "without a limit nobody waits");
  forget_lapsed(now_ns);
  // It may have lapsed just now: the record is another's then, or nobody's.
  if (*id != 0 && (records_[*id].state == State::none || records_[*id].name != name)) *id = 0;
  if (*id != 0 && records_[*id].state == State::waiting) return Arrival::held;
  SKERRY_ASSERT(*id == 0 || records_[*id].state == State::away,
                "a client with a connection asks for another: end the first");
  const bool has_turn = *id != 0;
  if (!has_turn) {
    *id = take_record();
    records_[*id].name = name;
    records_[*id].mark = ++turns_;
  }
  // Clients that are away have earlier turns than a newcomer, so it leaves them their room.
  const bool is_held = held() + (has_turn ? 0 : away()) < limits_.held;
  move(*id, is_held ? State::waiting : State::away, now_ns);
  return is_held ? Arrival::held : Arrival::come_back;
}

// One that was admitted a moment ago has its turn still.
void Quota::request_ended(Id id, int64_t now_ns) {
  if (id == 0) return;
  SKERRY_ASSERT(state(id) == State::waiting || state(id) == State::fresh,
                "no request of it is under way");
  move(id, State::away, now_ns);
}

void Quota::said_bye(Id id, int64_t now_ns) {
  if (id == 0) return;
  SKERRY_ASSERT(is_connected(state(id)), "a bye of a client without a connection");
  begin_to_leave(records_[id], State::leaving, now_ns);
}

void Quota::closed(Id id) {
  if (id == 0) return;
  SKERRY_ASSERT(is_connected(state(id)), "it has no connection that could end");
  give_back(id);
}

// ---- decisions --------------------------------------------------------------------------------

void Quota::forget_lapsed(int64_t now_ns) {
  while (away() != 0 && now_ns - records_[away_list_.first].since_ns >= limits_.lapse_ns)
    give_back(away_list_.first);
}

Quota::Action Quota::admit_first(int64_t now_ns) {
  const Id id = waiting_list_.first;
  SKERRY_ASSERT(id != 0, "held requests stand in the list");
  move(id, State::fresh, now_ns);
  SKERRY_ASSERT(connected() <= limits_.connections, "more clients than slots");
  return {Action::Kind::admit, id, records_[id].name};
}

Quota::Action Quota::let_go(Id id, Action::Kind kind) {
  const Action action{kind, id, records_[id].name};
  closed(id);
  return action;
}

Quota::Fate Quota::fate_of(Record& record, const Busy& busy, int64_t now_ns) const {
  const bool is_free = busy.with == Busy::With::nothing;
  const int64_t since_ns = now_ns - record.since_ns;
  switch (record.state) {
    case State::fresh:
      if (is_free) return since_ns >= limits_.unused_ns ? Fate::dismissed : Fate::stays;
      return since_ns >= limits_.force_ns ? Fate::closed : Fate::stays;
    case State::active:
      return is_free && since_ns >= limits_.idle_ns ? Fate::dismissed : Fate::stays;
    case State::asked:
    case State::leaving: {
      if (busy.unread_bytes < record.mark && record.mark != UINT64_MAX) record.moved_ns = now_ns;
      record.mark = busy.unread_bytes;
      if (record.state == State::leaving && is_free) return Fate::closed;
      if (is_free) return since_ns >= limits_.idle_ns ? Fate::dismissed : Fate::stays;
      if (since_ns >= limits_.force_ns) return Fate::closed;
      // It has had time to read what we owe it. (A long payload takes what it takes.)
      return busy.with == Busy::With::answers && is_overdue(record, now_ns) ? Fate::closed
                                                                            : Fate::stays;
    }
    case State::none:
    case State::waiting:
    case State::away: break;
  }
  SKERRY_ASSERT(false, "without a connection it has no slot to lose");
  return Fate::stays;
}

}  // namespace skerry::connection
