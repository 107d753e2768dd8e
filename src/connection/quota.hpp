// Connection slots at a data server: which client gets one, which waits for one and keeps its turn,
// which is asked to leave, which is closed now. Pure: events in, one action at a time out, time an
// argument.
//
//   arrive            admit               heard             ask
//   ------> waiting --------> fresh ----------------> active ----> asked
//              |  ^             |                       |            |
//     request  |  | it comes    | idle for unused_ns    | idle for   | idle for idle_ns, or takes
//     ends     v  | back        |                       | idle_ns    | no answers for patience_ns,
//             away              |                       |            | or has had force_ns
//              | lapse_ns       v                       v            v
//              v              gone <--- said bye: leaving <----------+
//             gone
//
// A closed connection loses nothing: the session at its ends resumes (src/session). So every limit
// here is about cost, none about correctness, and every client with a slot can be made to leave.
//
// Rules. The longest waiting is admitted first. A fresh client is not asked to leave, so that it
// gets something done: otherwise two clients might evict each other for ever. It goes after
// `unused_ns` without use, or `force_ns` of being busy. Of several victims the one goes that was
// heard of longest ago. As many are asked as wait; one that was asked and does not leave within
// patience_ns no longer counts, so it keeps nobody else from being asked.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/pure/assert.hpp"

namespace skerry::connection {

class Quota {
 public:
  enum class State : uint8_t {
    none,     // no record: neither connected nor waiting
    waiting,  // its request is held here
    away,     // it waits, but its request has ended; it will ask again
    fresh,    // connected; nothing of it was served yet
    active,   // connected and served
    asked,    // connected; was asked to drain and say bye
    leaving,  // connected; has said bye
  };

  struct Limits {
    uint32_t connections = 0;     // at most so many clients; 0: no limit, then nothing is kept here
    uint32_t held = 1024;         // requests held at once; a later one is told to come back
    int64_t idle_ns = 1'000'000;  // silent for this long: it is busy with something
                                  // other and loses its slot without being asked
    int64_t unused_ns = 50'000'000;     // the same for one that has not said anything since it was
                                        // admitted
    int64_t patience_ns = 100'000'000;  // it was asked, or owes us a read, and nothing moves
    int64_t force_ns = 10'000'000'000;  // since it was asked: closed whatever it does
    int64_t lapse_ns = 5'000'000'000;   // an away client that does not come back loses its turn
    int64_t look_again_ns = 1'000'000;  // while somebody waits
  };

  // A client's record. 0: none. Valid until the client is gone; the caller keeps it.
  using Id = uint32_t;

  // What keeps a connected client from being closed without cost. Asked of the caller.
  struct Busy {
    enum class With : uint8_t {
      nothing,
      answers,    // it has not taken all that we owe it
      receiving,  // a long payload of it is on its way to us
    };
    With with = With::nothing;
    uint64_t unread_bytes = 0;  // answers: shrinks while it reads
  };

  struct Action {
    enum class Kind : uint8_t {
      none,     // nothing can be done now; look again after next_look_ns
      admit,    // a waiting client has a slot: accept its request
      ask,      // tell it: drain, and say bye
      dismiss,  // nothing is under way: tell it farewell and close it
      close,    // close it as it is: it said bye, or does not read, or has had its time
    };
    Kind kind = Kind::none;
    Id id = 0;
    uint32_t name = 0;
  };

  enum class Arrival : uint8_t {
    held,       // hold the request: it is this client's turn in its time
    come_back,  // too many are held: its turn is kept, its request is not
  };

  explicit Quota(Limits limits);

  bool is_limited() const { return limits_.connections != 0; }

  // ---- events ----
  // A client that has no connection asks for one; *id is its record, 0 if it has none yet. Who
  // waited already keeps its turn, whether it gave its earlier request up or not.
  Arrival arrive(uint32_t name, int64_t now_ns, Id* id);
  // Its request ended before it was admitted, or the accept failed.
  void request_ended(Id id, int64_t now_ns);
  // A message of it was taken.
  void heard(Id id, int64_t now_ns) {
    if (id == 0) return;
    Record& record = records_[id];
    SKERRY_ASSERT(is_connected(record.state), "a message of a client without a connection");
    if (record.state == State::fresh) record.state = State::active;
    if (record.state != State::asked) record.since_ns = now_ns;
    if (connected_list_.last != id) {
      remove(id);
      insert(connected_list_, id, connected_list_.last);
    }
  }
  // It has said bye: it closes as soon as our answer is read.
  void said_bye(Id id, int64_t now_ns);
  // Its connection ended. The record is gone.
  void closed(Id id);

  // ---- decisions ----

  // The next thing to do, which the caller does before it asks again. Admitted clients are counted
  // at once (request_ended, if the accept fails); dismissed and closed ones are gone.
  template <class BusyOf>
  Action next(int64_t now_ns, BusyOf&& busy_of) {
    if (held() == 0) return {};
    if (connected() < limits_.connections) return admit_first(now_ns);
    return make_room(now_ns, busy_of);
  }
  // Negative: only an event changes anything.
  int64_t next_look_ns() const { return held() == 0 ? -1 : limits_.look_again_ns; }

  State state(Id id) const { return id == 0 ? State::none : records_[id].state; }
  uint32_t connected() const { return connected_list_.size; }
  uint32_t held() const { return waiting_list_.size; }
  uint32_t away() const { return away_list_.size; }
  uint64_t memory_bytes() const { return records_.capacity() * sizeof(Record); }

 private:
  struct Record {
    State state = State::none;
    uint32_t name = 0;
    Id before = 0, after = 0;  // in its list: connected (least recently heard first), waiting (by
                               // turn), away (longest first); after: next free record
    int64_t since_ns = 0;      // waiting: unused. away: since when. fresh: admitted. active: last
                               // heard of. asked, leaving: asked or said bye
    int64_t moved_ns = 0;      // asked, leaving: when it was seen to read last
    uint64_t mark = 0;  // waiting, away: its turn. asked, leaving: unread bytes when last looked at
  };
  struct List {
    Id first = 0, last = 0;
    uint32_t size = 0;
  };
  static bool is_connected(State state) {
    return state == State::fresh || state == State::active || state == State::asked ||
           state == State::leaving;
  }
  enum class Fate : uint8_t { stays, dismissed, closed };

  Id take_record();
  void give_back(Id id);
  List& list_of(State state);
  // From the list of its state, if it has one, to that of the new one.
  void move(Id id, State to, int64_t now_ns);
  void insert(List& list, Id id, Id before);
  void remove(Id id);
  void forget_lapsed(int64_t now_ns);
  // It was asked to leave, or says that it does.
  static void begin_to_leave(Record& record, State state, int64_t now_ns) {
    record.state = state;
    record.since_ns = record.moved_ns = now_ns;
    record.mark = UINT64_MAX;
  }
  Action admit_first(int64_t now_ns);
  Action let_go(Id id, Action::Kind kind);
  Fate fate_of(Record& record, const Busy& busy, int64_t now_ns) const;
  bool is_overdue(const Record& record, int64_t now_ns) const {
    return now_ns - record.moved_ns >= limits_.patience_ns;
  }

  template <class BusyOf>
  Action make_room(int64_t now_ns, BusyOf&& busy_of) {
    Id to_ask = 0, overdue = 0, victim = 0;
    Fate fate = Fate::stays;
    uint32_t expected = 0;  // slots that come free by themselves
    for (Id id = connected_list_.first; id != 0; id = records_[id].after) {
      Record& record = records_[id];
      const Fate its = fate_of(record, busy_of(record.name, id), now_ns);
      // A client that said bye goes first, however recently it was heard: it needs its slot no
      // more.
      if (its != Fate::stays && (victim == 0 || record.state == State::leaving)) {
        victim = id;
        fate = its;
        if (record.state == State::leaving) break;
      }
      if (record.state == State::active && to_ask == 0) to_ask = id;
      if (record.state != State::asked && record.state != State::leaving) continue;
      if (!is_overdue(record, now_ns)) ++expected;
      else if (record.state == State::asked && overdue == 0) overdue = id;
    }
    if (victim != 0)
      return let_go(victim, fate == Fate::dismissed ? Action::Kind::dismiss : Action::Kind::close);
    if (expected >= held()) return {};
    if (to_ask != 0) {
      begin_to_leave(records_[to_ask], State::asked, now_ns);
      return {Action::Kind::ask, to_ask, records_[to_ask].name};
    }
    // All were asked. It may have missed it in the middle of a transfer: once more.
    if (overdue != 0) {
      records_[overdue].moved_ns = now_ns;
      return {Action::Kind::ask, overdue, records_[overdue].name};
    }
    return {};
  }

  Limits limits_;
  std::vector<Record> records_;  // 0 is nobody's. Grows when more wait or connect than ever before
  Id free_ = 0;
  List connected_list_, waiting_list_, away_list_;
  uint64_t turns_ = 0;  // given out
};

}  // namespace skerry::connection
