#include "connection/core/quota.hpp"

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
  records_[id] = Record{};
  records_[id].after = free_;
  free_ = id;
}

void Quota::append(List& list, Id id) {
  records_[id].before = list.last;
  records_[id].after = 0;
  (list.last == 0 ? list.first : records_[list.last].after) = id;
  list.last = id;
}

// Clients that come back are few, and most belong near the end.
void Quota::insert_by_turn(Id id) {
  Id before = waiting_list_.last;
  while (before != 0 && records_[before].mark > records_[id].mark) before = records_[before].before;
  const Id after = before == 0 ? waiting_list_.first : records_[before].after;
  records_[id].before = before;
  records_[id].after = after;
  (before == 0 ? waiting_list_.first : records_[before].after) = id;
  (after == 0 ? waiting_list_.last : records_[after].before) = id;
}

void Quota::remove(List& list, Id id) {
  const Id before = records_[id].before, after = records_[id].after;
  (before == 0 ? list.first : records_[before].after) = after;
  (after == 0 ? list.last : records_[after].before) = before;
}

void Quota::touch(Id id) {
  remove(connected_list_, id);
  append(connected_list_, id);
  newest_ = id;
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
  Record& record = records_[*id];
  // Clients that are away have earlier turns than a newcomer, so it leaves them their room.
  if (held_ + (has_turn ? 0 : away_) < limits_.held) {
    if (has_turn) {
      remove(away_list_, *id);
      --away_;
    }
    record.state = State::waiting;
    insert_by_turn(*id);
    ++held_;
    return Arrival::held;
  }
  if (has_turn) remove(away_list_, *id);
  else ++away_;
  record.state = State::away;
  record.since_ns = now_ns;
  append(away_list_, *id);
  return Arrival::come_back;
}

void Quota::request_ended(Id id, int64_t now_ns) {
  if (id == 0) return;
  Record& record = records_[id];
  SKERRY_ASSERT(record.state == State::waiting || record.state == State::fresh,
                "no request of it is under way");
  if (record.state == State::waiting) {
    remove(waiting_list_, id);
    --held_;
  } else {  // admitted a moment ago: its turn is still its own
    remove(connected_list_, id);
    if (newest_ == id) newest_ = connected_list_.last;
    --connected_;
  }
  record.state = State::away;
  record.since_ns = now_ns;
  append(away_list_, id);
  ++away_;
}

void Quota::said_bye(Id id, int64_t now_ns) {
  if (id == 0) return;
  Record& record = records_[id];
  SKERRY_ASSERT(is_connected(record.state), "a bye of a client without a connection");
  record.state = State::leaving;
  record.since_ns = record.moved_ns = now_ns;
  record.mark = UINT64_MAX;
}

void Quota::closed(Id id) {
  if (id == 0) return;
  SKERRY_ASSERT(is_connected(records_[id].state), "it has no connection that could end");
  remove(connected_list_, id);
  if (newest_ == id) newest_ = connected_list_.last;
  --connected_;
  give_back(id);
}

// ---- decisions --------------------------------------------------------------------------------

void Quota::forget_lapsed(int64_t now_ns) {
  while (away_list_.first != 0 &&
         now_ns - records_[away_list_.first].since_ns >= limits_.lapse_ns) {
    const Id id = away_list_.first;
    remove(away_list_, id);
    --away_;
    give_back(id);
  }
}

void Quota::start_asking(Record& record, int64_t now_ns) {
  record.state = State::asked;
  record.since_ns = record.moved_ns = now_ns;
  record.mark = UINT64_MAX;
}

Quota::Action Quota::admit_first(int64_t now_ns) {
  const Id id = waiting_list_.first;
  SKERRY_ASSERT(id != 0, "held requests stand in the list");
  remove(waiting_list_, id);
  --held_;
  Record& record = records_[id];
  record.state = State::fresh;
  record.since_ns = now_ns;
  append(connected_list_, id);
  newest_ = id;
  ++connected_;
  SKERRY_ASSERT(connected_ <= limits_.connections, "more clients than slots");
  return {Action::Kind::admit, id, record.name};
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
