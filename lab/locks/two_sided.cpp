#include "locks/two_sided.hpp"

#include "core/pure/assert.hpp"
#include "locks/lab_rule.hpp"

namespace skerry::lock::machine {

Action TwoSidedClient::step(const Event& event, const Config&) {
  switch (state_) {
    case State::idle:
      if (event.kind != Event::Kind::lock) return refused();
      mode_ = event.mode;
      state_ = State::asking;
      return ask(Note::request, mode_);
    case State::asking: state_ = State::waiting; return wait();
    case State::waiting:
      SKERRY_ASSERT(event.kind == Event::Kind::told && event.note == Note::granted,
                    "a waiter is told nothing else");
      state_ = State::held;
      return granted();
    case State::held:
      if (event.kind != Event::Kind::unlock) return refused();
      state_ = State::releasing;
      return ask(Note::release, mode_);
    case State::releasing: state_ = State::idle; return released();
  }
  return refused();
}

Action TwoSidedManager::step(const Event& event, const Config&, Links links) {
  if (event.kind == Event::Kind::told && event.note == Note::request) {
    if (!SKERRY_LAB_RULE(manager_arrival_order) && event.mode == Mode::shared && shared_ &&
        holders_ != 0) {
      ++holders_;
      return tell(event.from, Note::granted);
    }
    queue_.push(event.from, event.mode, event.local, links);
  } else if (event.kind == Event::Kind::told) {
    SKERRY_ASSERT(holders_ > 0, "a holder gives it back");
    --holders_;
    if (event.note == Note::renew)
      queue_.push(static_cast<Requester>(event.value), event.mode, event.local, links);
    if (!SKERRY_LAB_RULE(manager_grants_next)) return wait();
  }
  return grant_next(links);
}

// Comes back here with the result of each grant, so that readers in a row are granted in a row.
Action TwoSidedManager::grant_next(Links links) {
  if (queue_.empty()) return wait();
  const Requester next = queue_.front();
  const bool shared = links[next].mode == Mode::shared;
  const bool excluded = holders_ != 0 && !(shared && shared_);
  if (excluded && SKERRY_LAB_RULE(manager_one_writer)) return wait();
  queue_.pop(links);
  ++holders_;
  shared_ = shared;
  return tell(next, Note::granted);
}

}  // namespace skerry::lock::machine
