#include "locks/one_sided.hpp"

#include "core/pure/assert.hpp"
#include "locks/lab_rule.hpp"

namespace skerry::lock::machine {
namespace {

constexpr uint8_t lock_word = 0;

Unit unit(const Config& config, bool local) {
  return SKERRY_LAB_RULE(network_word_unit) || !local ? network_unit(config, local) : Unit::cpu;
}

}  // namespace

Action OneSidedClient::attempt(const Config& config) {
  state_ = State::trying;
  return compare_and_swap(unit(config, local_), Place::home, lock_word, config.requesters, me_);
}

Action OneSidedClient::step(const Event& event, const Config& config) {
  const uint64_t free = config.requesters;
  switch (state_) {
    case State::idle:
      if (event.kind != Event::Kind::lock) return refused();
      attempt_ = 0;
      return attempt(config);
    case State::trying:
      if (event.value == free || !SKERRY_LAB_RULE(compare_holds)) {
        state_ = State::held;
        return granted();
      }
      state_ = State::pausing;
      attempt_ = next_attempt(config, unit(config, local_), attempt_);
      return pause(config, unit(config, local_), attempt_);
    case State::pausing: return attempt(config);
    case State::held:
      if (event.kind != Event::Kind::unlock) return refused();
      state_ = State::releasing;
      // A store would do in memory. Adapters order a store against atomics only if both are
      // atomics.
      return compare_and_swap(unit(config, local_), Place::home, lock_word, me_, free);
    case State::releasing:
      SKERRY_INVARIANT(event.value == me_ || !SKERRY_LAB_RULE(compare_holds),
                       "the holder's number was in the word");
      state_ = State::idle;
      return released();
  }
  return refused();
}

}  // namespace skerry::lock::machine
