#include "sharing.hpp"

#include "core/pure/assert.hpp"

namespace skerry::lock::machine {

Action SharingClient::count(int64_t change, const Config& config) const {
  return fetch_and_add(network_unit(config, local_), Place::home, sharers_word,
                       static_cast<uint64_t>(change));
}

Action SharingClient::look(const Config& config) {
  state_ = State::looking;
  return load(network_unit(config, local_), Place::home, sharers_word);
}

// The inner lock is ours.
Action SharingClient::locked(bool has_no_sharers, const Config& config) {
  if (!shared_ && has_no_sharers) {
    state_ = State::held;
    return granted();
  }
  if (!shared_) return look(config);
  state_ = State::counting_in;
  return count(1, config);
}

Action SharingClient::inner_unlock(State state, const Config& config) {
  state_ = state;
  Event unlock;
  unlock.kind = Event::Kind::unlock;
  unlock.mode = shared_ ? Mode::shared : Mode::exclusive;
  return follow(inner_.step(unlock, config), config);
}

// What the inner machine answered while it is taken or given back.
Action SharingClient::follow(const Action& action, const Config& config) {
  if (state_ == State::locking && action.kind == Action::Kind::granted)
    return locked(action.value != 0, config);
  if (action.kind != Action::Kind::released) return action;
  if (state_ == State::unlocking) {
    state_ = State::idle;
    return released();
  }
  SKERRY_ASSERT(state_ == State::passing, "the inner lock was being given back");
  state_ = State::held_by_count;
  return granted();
}

Action SharingClient::step(const Event& event, const Config& config) {
  if (passes_) return inner_.step(event, config);
  switch (state_) {
    case State::idle: {
      if (event.kind != Event::Kind::lock) return refused();
      shared_ = event.mode == Mode::shared;
      attempt_ = 0;
      state_ = State::locking;
      Event exclusive = event;
      exclusive.mode = Mode::exclusive;
      return follow(inner_.step(exclusive, config), config);
    }
    case State::locking:
    case State::unlocking:
    case State::passing: return follow(inner_.step(event, config), config);
    case State::looking:
      if (event.value == 0) {
        state_ = State::held;
        return granted();
      }
      state_ = State::pausing;
      attempt_ = next_attempt(config, network_unit(config, local_), attempt_);
      return pause(config, network_unit(config, local_), attempt_);
    case State::pausing: return look(config);
    case State::held:
      if (event.kind == Event::Kind::told) return inner_.step(event, config);
      if (event.kind != Event::Kind::unlock) return refused();
      return inner_unlock(State::unlocking, config);
    case State::counting_in: return inner_unlock(State::passing, config);
    case State::held_by_count:
      if (event.kind != Event::Kind::unlock) return refused();
      state_ = State::counting_out;
      return count(-1, config);
    case State::counting_out: state_ = State::idle; return released();
  }
  return refused();
}

}  // namespace skerry::lock::machine
