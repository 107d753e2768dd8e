#include "locks/asymmetric.hpp"

#include "locks/lab_rule.hpp"
#include "locks/machine.hpp"

namespace skerry::lock::machine {
namespace {
constexpr uint8_t local_tail = 0;
constexpr uint8_t remote_tail = 1;
constexpr uint8_t victim_word = 2;
}  // namespace

QueuePlace::Where AsymmetricClient::where(const Config& config) const {
  const Unit unit = local_ ? Unit::cpu : Unit::network;
  return {unit, Place::home, local_ ? local_tail : remote_tail, has_swap(config, unit)};
}

// In front of the own queue.
Action AsymmetricClient::on_front(const Config& config) {
  if (!place_.was_first() && place_.passed() != 0) {
    left_ = place_.passed();
    state_ = State::held;
    return granted();
  }
  left_ = config.hand_overs + 1u;
  attempt_ = 0;
  if (!SKERRY_LAB_RULE(victim)) return look();
  state_ = State::stepping_back;
  return store(local_ ? Unit::cpu : Unit::network, Place::home, victim_word, local_ ? 0 : 1);
}

Action AsymmetricClient::look() {
  state_ = State::looking_at_tail;
  return load(local_ ? Unit::cpu : Unit::network, Place::home, local_ ? remote_tail : local_tail);
}

Action AsymmetricClient::try_later(const Config& config) {
  state_ = State::pausing;
  const Unit unit = local_ ? Unit::cpu : Unit::network;
  attempt_ = next_attempt(config, unit, attempt_);
  return pause(config, unit, attempt_);
}

Action AsymmetricClient::step(const Event& event, const Config& config) {
  if (event.kind == Event::Kind::told && event.note == Note::linked && state_ != State::leaving &&
      state_ != State::joining) {
    return place_.step(event, where(config));  // held: as before
  }
  switch (state_) {
    case State::idle:
      if (event.kind != Event::Kind::lock) return refused();
      state_ = State::joining;
      return place_.join(where(config));
    case State::joining: {
      const Action action = place_.step(event, where(config));
      return action.kind == Action::Kind::granted ? on_front(config) : action;
    }
    case State::pausing:
    case State::stepping_back: return look();
    case State::looking_at_tail:
      if (event.value == 0) {
        state_ = State::held;
        return granted();
      }
      state_ = State::looking_at_victim;
      return load(local_ ? Unit::cpu : Unit::network, Place::home, victim_word);
    case State::looking_at_victim:
      if (event.value == (local_ ? 0u : 1u)) return try_later(config);
      state_ = State::held;
      return granted();
    case State::held:
      if (event.kind != Event::Kind::unlock) return refused();
      state_ = State::leaving;
      return place_.leave(where(config), SKERRY_LAB_RULE(bounded_hand_over) ? left_ - 1 : left_);
    case State::leaving: {
      const Action action = place_.step(event, where(config));
      if (action.kind == Action::Kind::released) state_ = State::idle;
      return action;
    }
  }
  return refused();
}

}  // namespace skerry::lock::machine
