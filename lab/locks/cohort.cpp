#include "locks/cohort.hpp"

#include "core/pure/assert.hpp"
#include "locks/lab_rule.hpp"

namespace skerry::lock::machine {
namespace {
constexpr QueuePlace::Where node_queue = {Unit::cpu, Place::node, 0, true};
}

// In front of the node's queue.
Action CohortClient::on_front(const Config& config) {
  if (place_.was_first()) {
    state_ = State::asking;
    return ask(Note::request);
  }
  left_ = place_.passed() != 0 ? place_.passed() - 1 : config.hand_overs;
  state_ = State::held;
  return granted();
}

Action CohortClient::unlock(const Config& config) {
  if (!SKERRY_LAB_RULE(bounded_hand_over)) left_ = config.hand_overs;
  state_ = State::leaving;
  return on_leaving(left_ > 0 ? place_.leave(node_queue, left_) : place_.leave_untold(node_queue));
}

// When the node's queue is left the next in line, if there is one, was told, or the manager is to
// grant it the lock in its turn.
Action CohortClient::on_leaving(const Action& action) {
  if (action.kind != Action::Kind::released) return action;
  const bool is_followed = place_.next() != 0;
  if (is_followed && left_ > 0) {
    state_ = State::idle;
    return released();
  }
  state_ = State::giving_back;
  return is_followed && SKERRY_LAB_RULE(renew)
             ? ask(Note::renew, Mode::exclusive, place_.next() - 1)
             : ask(Note::release);
}

Action CohortClient::step(const Event& event, const Config& config) {
  switch (state_) {
    case State::idle:
      if (event.kind != Event::Kind::lock) return refused();
      state_ = State::joining;
      return place_.join(node_queue);
    case State::joining: {
      const Action action = place_.step(event, node_queue);
      return action.kind == Action::Kind::granted ? on_front(config) : action;
    }
    case State::asking: state_ = State::waiting; return wait();
    case State::waiting:
      if (event.note == Note::linked) {
        (void)place_.step(event, node_queue);
        return wait();
      }
      SKERRY_ASSERT(event.note == Note::granted, "the manager grants");
      left_ = config.hand_overs;
      state_ = State::held;
      return granted();
    case State::held:
      if (event.kind == Event::Kind::told) return place_.step(event, node_queue);
      return event.kind == Event::Kind::unlock ? unlock(config) : refused();
    case State::leaving: return on_leaving(place_.step(event, node_queue));
    case State::giving_back: state_ = State::idle; return released();
  }
  return refused();
}

}  // namespace skerry::lock::machine
