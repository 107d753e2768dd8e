#include "connection/machine.hpp"

namespace skerry::connection {

Action Machine::on(Event event, bool unacknowledged) {
  switch (event) {
    case Event::want:
      switch (state_) {
        case State::idle: state_ = State::opening; return Action::connect;
        case State::draining:  // bye is not said yet, so the connection is as good as open: keep it
          state_ = State::open;
          return Action::send_queued;
        case State::closing:  // crossing: wanted again after bye; nothing may follow a bye, so it
                              // is for the driver to ask again when idle
        case State::opening:
        case State::open: return Action::none;
      }
      break;
    case Event::connected:
      if (state_ != State::opening) return Action::none;
      state_ = State::open;
      return Action::send_queued;
    case Event::evict:
    case Event::please_close:
      // Crossing: please_close may arrive while we drain or close by ourselves already: then it is
      // on its way.
      if (state_ != State::open) return Action::none;
      if (!unacknowledged) {
        state_ = State::closing;
        return Action::send_bye;
      }
      state_ = State::draining;
      return Action::none;
    case Event::drained:
      if (state_ != State::draining || unacknowledged)
        return Action::none;  // crossing: reused (want) before it had drained
      state_ = State::closing;
      return Action::send_bye;
    case Event::bye_answer:
      if (state_ != State::closing) return Action::none;
      state_ = State::idle;
      return Action::close_endpoint;
    case Event::closed:
      switch (state_) {
        case State::idle: return Action::none;
        case State::opening:  // refused
        case State::closing:  // the server closed on our bye before its answer reached us, or the
                              // network did: same end
          state_ = State::idle;
          return Action::none;
        case State::open:
        case State::draining:
          state_ = State::idle;
          return unacknowledged
                     ? Action::broken
                     : Action::none;  // with nothing outstanding a break is an unplanned teardown
      }
      break;
  }
  return Action::none;
}

}  // namespace skerry::connection
