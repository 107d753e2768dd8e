#include "locks/queue.hpp"

#include "core/pure/assert.hpp"
#include "locks/lab_rule.hpp"
#include "locks/machine.hpp"

namespace skerry::lock::machine {

Action QueuePlace::join(const Where& where) {
  state_ = State::joining;
  next_ = guess_ = pass_ = 0;
  if (where.has_swap) return swap(where.unit, where.place, where.word, me_ + 1);
  return compare_and_swap(where.unit, where.place, where.word, 0, me_ + 1);
}

Action QueuePlace::leave(const Where& where, uint32_t pass) {
  SKERRY_ASSERT(state_ == State::front, "only the front leaves");
  pass_ = pass;
  untold_ = false;
  if (next_ != 0) return hand_over();
  state_ = State::leaving;
  return compare_and_swap(where.unit, where.place, where.word, me_ + 1, 0);
}

Action QueuePlace::leave_untold(const Where& where) {
  SKERRY_ASSERT(state_ == State::front, "only the front leaves");
  untold_ = true;
  if (next_ != 0) return hand_over();
  state_ = State::leaving;
  return compare_and_swap(where.unit, where.place, where.word, me_ + 1, 0);
}

Action QueuePlace::hand_over() {
  if (untold_) {
    state_ = State::out;
    return released();
  }
  state_ = State::handing_over;
  return tell(next_ - 1, Note::granted, pass_);
}

Action QueuePlace::on_joined(uint64_t before, const Where& where) {
  if (!where.has_swap && before != guess_) {
    // Somebody joined meanwhile. At once again: a pause would only make the guess older.
    guess_ = static_cast<uint32_t>(before);
    return compare_and_swap(where.unit, where.place, where.word, guess_, me_ + 1);
  }
  guess_ = 0;
  first_ = before == 0;
  state_ = first_ ? State::front : State::linking;
  return first_ ? granted() : tell(static_cast<Requester>(before - 1), Note::linked);
}

Action QueuePlace::step(const Event& event, const Where& where) {
  if (event.kind == Event::Kind::told && event.note == Note::linked) {
    next_ = event.from + 1;
    if (state_ == State::awaiting_link) return hand_over();
    return state_ == State::front ? granted() : wait();  // as before
  }
  switch (state_) {
    case State::out: break;
    case State::joining: return on_joined(event.value, where);
    case State::linking: state_ = State::waiting; return wait();
    case State::waiting:
      SKERRY_ASSERT(event.kind == Event::Kind::told && event.note == Note::granted,
                    "a waiter is told nothing else");
      pass_ = static_cast<uint32_t>(event.value);
      state_ = State::front;
      return granted();
    case State::front: return granted();
    case State::leaving:
      if (event.value == me_ + 1 || !SKERRY_LAB_RULE(await_link)) {
        state_ = State::out;
        return released();
      }
      state_ = State::awaiting_link;
      return wait();
    case State::awaiting_link: return wait();
    case State::handing_over: state_ = State::out; return released();
  }
  return refused();
}

Action QueueClient::step(const Event& event, const Config& config) {
  const QueuePlace::Where where = {network_unit(config, local_), Place::home, 0,
                                   has_swap(config, network_unit(config, local_))};
  switch (state_) {
    case State::idle:
      if (event.kind != Event::Kind::lock) return refused();
      state_ = State::locking;
      return place_.join(where);
    case State::locking: {
      const Action action = place_.step(event, where);
      if (action.kind == Action::Kind::granted) state_ = State::held;
      return action;
    }
    case State::held:
      if (event.kind == Event::Kind::told) return place_.step(event, where);
      if (event.kind != Event::Kind::unlock) return refused();
      state_ = State::unlocking;
      return place_.leave(where, 0);
    case State::unlocking: {
      const Action action = place_.step(event, where);
      if (action.kind == Action::Kind::released) state_ = State::idle;
      return action;
    }
  }
  return refused();
}

}  // namespace skerry::lock::machine
