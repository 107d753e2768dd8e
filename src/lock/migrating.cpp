#include "lock/migrating.hpp"

#include <bit>

#include "core/pure/assert.hpp"
#include "core/pure/rule.hpp"

namespace skerry::lock::machine {

bool shall_migrate(const Config& config, History history) {
  const bool remote = (history & 1) != 0;
  // The requests of the newest one's kind as ones.
  const History same = remote ? history : static_cast<History>(~history);
  switch (config.migration) {
    case Migration::always: return true;
    case Migration::hysteresis: return std::countr_one(same) >= config.in_a_row;
    case Migration::history: return std::popcount(same) > static_cast<int>(history_length / 2);
  }
  return true;
}

namespace {

constexpr uint64_t network_mode_bit = 1;
constexpr bool is_network_mode(uint64_t mode) { return (mode & network_mode_bit) != 0; }
constexpr History history_of(uint64_t mode) { return static_cast<History>(mode >> 1); }
constexpr uint64_t mode_word(bool network_mode, History history) {
  return static_cast<uint64_t>(history) << 1 | (network_mode ? network_mode_bit : 0);
}
// Of the processor's lock, and of the network's without sharers.
uint64_t free_value(const Config& config) { return free_alone(config); }
uint64_t cpu_mode_value(const Config& config) { return uint64_t{config.requesters} + 1; }
uint64_t manager_value(const Config& config) { return uint64_t{config.requesters} + 1; }

Action exchange(Unit unit, uint8_t word, uint64_t expected, uint64_t value) {
  return compare_and_swap(unit, Place::home, word, expected, value);
}
Action cpu_load(uint8_t word) { return load(Unit::cpu, Place::home, word); }
Action cpu_store(uint8_t word, uint64_t value) {
  return store(Unit::cpu, Place::home, word, value);
}

// How a free network lock reads. Sharers are counted in beside the lock, by its holder alone. So
// the word can say whether there may be any:
//   - Who has counted itself in gives the lock back as `free_shared`. In CPU mode the word says
//     neither, and who is granted a lock that changes sides, or is kept, looks at the count.
//   - Who holds it for itself alone has seen the count at 0, or took it where the word said so. So
//     it is 0 until the next holder, and the word becomes `free_alone`.
// Hence who finds `free_alone` need not look at the count, which would take as long as the lock. A
// count that went back to 0 leaves `free_shared`, until the next exclusive holder has looked.
class FreeWord {
 public:
  uint64_t expected(const Config& config) const {
    return may_be_shared_ ? free_shared(config) : free_alone(config);
  }
  void note(bool may_be_shared) { may_be_shared_ = may_be_shared; }
  // The word was `found`. Is it free as the other one? Then that is expected from now on.
  bool is_the_other(uint64_t found, const Config& config) {
    if (!is_free(config, found) || found == expected(config)) return false;
    may_be_shared_ = !may_be_shared_;
    return true;
  }

 private:
  bool may_be_shared_ = false;  // as it was last seen or left
};

class MigratingClient {
 public:
  explicit MigratingClient(const Self& self) : me_(self.me), local_(self.local) {}
  Action step(const Event& event, const Config& config) {
    switch (state_) {
      case State::idle:
        if (event.kind != Event::Kind::lock) return refused();
        attempt_ = 0;
        return begin(config);
      case State::looking: return on_mode(event, config);
      case State::taking_cpu:
        if (event.value != free_value(config)) return try_later(Unit::cpu, config);
        state_ = State::looking_again;
        return cpu_load(migrating_words::mode);
      case State::looking_again:
        if (is_network_mode(event.value) && SKERRY_LOCK_RULE(mode_again)) {
          state_ = State::giving_cpu_back;
          return cpu_store(migrating_words::cpu, free_value(config));
        }
        return record(event.value, State::held_cpu, config);
      case State::recording: state_ = held_, held_ = State::idle; return granted(is_alone_);
      case State::giving_cpu_back:
      case State::pausing: return begin(config);
      case State::taking_network: return on_network(event, config);
      case State::looking_at_history: return record(event.value, State::held_network, config);
      case State::asking: state_ = State::waiting; return wait();
      case State::waiting: return on_told(event, config);
      case State::held_cpu:
      case State::held_network:
      case State::held_manager: return release(event, config);
      case State::releasing: state_ = State::idle; return released();
    }
    return refused();
  }

 private:
  enum class State : uint8_t {
    idle,
    looking,          // local: at the mode
    taking_cpu,       // local
    looking_again,    // local, with the CPU lock: at the mode
    recording,        // local, with the lock: writes the history
    giving_cpu_back,  // local: it migrated meanwhile
    taking_network,
    looking_at_history,  // local, with the network lock: for the history
    asking,
    waiting,
    pausing,
    held_cpu,  // local
    held_network,
    held_manager,  // remote: the manager holds the CPU lock in our name
    releasing,
  };

  Action begin(const Config& config) {
    is_alone_ = false;
    if (!local_) return take_network(config);  // step 1
    state_ = State::looking;
    return cpu_load(migrating_words::mode);
  }

  Action take_network(const Config& config) {
    state_ = State::taking_network;
    return exchange(network_unit(config, local_), migrating_words::network,
                    free_word_.expected(config), me_);
  }

  Action try_later(Unit unit, const Config& config) {
    state_ = State::pausing;
    attempt_ = next_attempt(config, unit, attempt_);
    return pause(config, unit, attempt_);
  }

  // With the lock held: nobody else writes the mode's word.
  Action record(uint64_t mode, State held, const Config& config) {
    const uint64_t now = mode_word(is_network_mode(mode), seen(history_of(mode), false));
    if (!needs_history(config.migration) || now == mode) {
      state_ = held;
      return granted(is_alone_);
    }
    state_ = State::recording;
    held_ = held;
    return cpu_store(migrating_words::mode, now);
  }

  Action on_mode(const Event& event, const Config& config) {
    if (!is_network_mode(event.value)) {
      state_ = State::taking_cpu;
      return exchange(Unit::cpu, migrating_words::cpu, free_value(config), me_);
    }
    if (!shall_migrate(config, seen(history_of(event.value), false))) return take_network(config);
    state_ = State::asking;
    return ask(Note::request);
  }

  Action on_network(const Event& event, const Config& config) {
    if (free_word_.is_the_other(event.value, config)) return take_network(config);
    if (event.value == free_word_.expected(config)) {
      is_alone_ = event.value == free_alone(config);
      if (local_ && needs_history(config.migration)) {
        state_ = State::looking_at_history;
        return cpu_load(migrating_words::mode);
      }
      state_ = State::held_network;
      return granted(is_alone_);
    }
    if (event.value != cpu_mode_value(config))
      return try_later(network_unit(config, local_), config);  // held
    if (local_) return begin(config);                          // it migrated to our side meanwhile
    state_ = State::asking;                                    // step 2
    return ask(Note::request);
  }

  Action on_told(const Event& event, const Config& config) {
    SKERRY_ASSERT(event.kind == Event::Kind::told, "a waiter is told");
    if (event.note == Note::again) return begin(config);
    const bool by_manager = event.note == Note::granted_by_manager;
    // Step 5. In a local one's name the manager took the CPU lock, in a remote one's the network's.
    state_ = local_                                           ? State::held_cpu
             : by_manager && SKERRY_LOCK_RULE(unlock_by_kind) ? State::held_manager
                                                              : State::held_network;
    return granted();
  }

  Action release(const Event& event, const Config& config) {
    if (event.kind != Event::Kind::unlock) return refused();
    const State held = state_;
    state_ = State::releasing;
    if (held == State::held_cpu) return cpu_store(migrating_words::cpu, free_value(config));
    if (held == State::held_manager) return ask(Note::release);
    free_word_.note(event.mode == Mode::shared && SKERRY_LOCK_RULE(tells_sharers));
    return exchange(network_unit(config, local_), migrating_words::network, me_,
                    free_word_.expected(config));
  }

  Requester me_;
  State state_ = State::idle;
  bool local_;
  uint8_t attempt_ = 0;       // failed ones of this request, bounded
  State held_ = State::idle;  // recording: how it will be held
  FreeWord free_word_;
  bool is_alone_ = false;  // taken where the word said that there are no sharers
};

class MigratingManager {
 public:
  Action step(const Event& event, const Config& config, Links links) {
    if (event.kind == Event::Kind::told) return on_told(event, config, links);
    switch (state_) {
      case State::idle:
      case State::holding: return wait();  // the grant is on its way
      case State::giving_cpu_back:
      case State::answering: attempt_ = 0; return next(config, links);
      case State::cpu_busy:
      case State::network_busy: return next(config, links);
      case State::taking_cpu: return took_cpu(event.value, config);
      case State::reading_history: return decide(event.value, config);
      case State::writing_network_mode: return grant_network_lock(config);
      case State::granting_network_lock:
        SKERRY_INVARIANT(event.value == cpu_mode_value(config), "nobody takes it in CPU mode");
        return free_cpu_lock(State::freeing_cpu, config);
      case State::freeing_cpu: return answer(Note::granted, links);                 // step 5
      case State::writing_history: return answer(Note::granted_by_manager, links);  // figure 4
      case State::taking_network:
        if (free_word_.is_the_other(event.value, config)) return take_network(config);
        if (event.value != free_word_.expected(config))
          return pause_as(State::network_busy, config);
        return grant_cpu_lock(config);
      case State::cpu_busy_too: return grant_cpu_lock(config);
      case State::granting_cpu_lock: return granted_cpu_lock(event.value, config);
      case State::reading_mode: return write_cpu_mode(event.value);
      case State::writing_cpu_mode: return answer(Note::granted, links);
    }
    return wait();
  }

 private:
  enum class State : uint8_t {
    idle,
    // from CPU to network mode, for the remote requester at the queue's front
    taking_cpu,
    cpu_busy,  // pausing
    reading_history,
    writing_network_mode,
    granting_network_lock,
    freeing_cpu,
    // kept in CPU mode, for the same
    writing_history,
    holding,  // the CPU lock, for `served_`
    giving_cpu_back,
    // from network to CPU mode, for the local requester at the queue's front
    taking_network,
    network_busy,  // pausing
    granting_cpu_lock,
    cpu_busy_too,  // pausing, with the network lock
    reading_mode,
    writing_cpu_mode,
    answering,  // the last message of one request is on its way
  };

  Action answer(Note note, Links links) {
    served_ = queue_.front();
    queue_.pop(links);
    state_ = note == Note::granted_by_manager ? State::holding : State::answering;
    return tell(served_, note);
  }

  // The unit of the lock that it finds held.
  Unit busy_unit(const Config& config) const {
    return state_ == State::network_busy ? network_unit(config, true) : Unit::cpu;
  }

  Action pause_as(State busy, const Config& config) {
    state_ = busy;
    attempt_ = next_attempt(config, busy_unit(config), attempt_);
    return pause(config, busy_unit(config), attempt_);
  }

  // The request at the queue's front.
  Action next(const Config& config, Links links) {
    served_ = 0;
    if (queue_.empty()) {
      state_ = State::idle;
      return wait();
    }
    const bool wants_network = !links[queue_.front()].local;
    if (wants_network == network_mode_) return answer(Note::again, links);
    if (!wants_network) return take_network(config);
    // Step 3. The network lock is ours already: it says "CPU mode", and only this machine changes
    // that.
    state_ = State::taking_cpu;
    if (!SKERRY_LOCK_RULE(both_locks)) return cpu_load(migrating_words::cpu);
    return exchange(Unit::cpu, migrating_words::cpu, free_value(config), manager_value(config));
  }

  Action take_network(const Config& config) {
    state_ = State::taking_network;
    return exchange(network_unit(config, true), migrating_words::network,
                    free_word_.expected(config), cpu_mode_value(config));
  }

  Action took_cpu(uint64_t before, const Config& config) {
    if (before != free_value(config) && SKERRY_LOCK_RULE(both_locks))
      return pause_as(State::cpu_busy, config);
    state_ = State::reading_history;
    return cpu_load(migrating_words::mode);
  }

  Action decide(uint64_t mode, const Config& config) {
    const History history = seen(history_of(mode), true);
    network_mode_ = shall_migrate(config, history);
    state_ = network_mode_ ? State::writing_network_mode : State::writing_history;
    // Step 4.
    return cpu_store(migrating_words::mode,
                     mode_word(network_mode_ && SKERRY_LOCK_RULE(network_mode), history));
  }

  Action grant_network_lock(const Config& config) {
    state_ = State::granting_network_lock;
    return exchange(network_unit(config, true), migrating_words::network, cpu_mode_value(config),
                    queue_.front());
  }

  Action grant_cpu_lock(const Config& config) {
    state_ = State::granting_cpu_lock;
    return exchange(Unit::cpu, migrating_words::cpu, free_value(config), queue_.front());
  }

  Action granted_cpu_lock(uint64_t before, const Config& config) {
    // Held for a moment by a local requester that has not seen the mode yet.
    if (before != free_value(config)) return pause_as(State::cpu_busy_too, config);
    state_ = State::reading_mode;
    return cpu_load(migrating_words::mode);
  }

  Action write_cpu_mode(uint64_t mode) {
    state_ = State::writing_cpu_mode;
    network_mode_ = false;
    return cpu_store(migrating_words::mode, mode_word(false, seen(history_of(mode), false)));
  }

  Action free_cpu_lock(State state, const Config& config) {
    state_ = state;
    return cpu_store(migrating_words::cpu, free_value(config));
  }

  // A message: a request, or the release of what it holds for a client.
  Action on_told(const Event& event, const Config& config, Links links) {
    if (event.note == Note::release) {
      SKERRY_ASSERT(state_ == State::holding && event.from == served_, "the holder gives it back");
      return free_cpu_lock(State::giving_cpu_back, config);
    }
    queue_.push(event.from, event.mode, event.local, links);
    if (state_ == State::idle) return next(config, links);
    return state_ == State::holding ? wait() : pause(config, busy_unit(config), attempt_);
  }

  RequesterQueue queue_;  // its front is served
  Requester served_ = 0;  // holding: the holder
  State state_ = State::idle;
  bool network_mode_ = false;  // only this machine changes it
  uint8_t attempt_ = 0;
  FreeWord free_word_;
};

}  // namespace

const Machines& migrating() {
  static constexpr Word words[] = {{"network lock", Place::home, Label::network},
                                   {"mode", Place::home, Label::cpu},
                                   {"CPU lock", Place::home, Label::cpu}};
  static constexpr Machines machines = machines_of<MigratingClient, MigratingManager>({
      .manager_pauses = true,
      .words = words,
      .initial_value =
          [](uint8_t word, const Config& config) {
            if (word == migrating_words::network) return uint64_t{config.requesters} + 1;
            return uint64_t{word == migrating_words::cpu ? config.requesters : 0};
          },
  });
  return machines;
}

}  // namespace skerry::lock::machine
