#include "locks/reader_writer.hpp"

#include "locks/lab_rule.hpp"
#include "locks/machine.hpp"

namespace skerry::lock::machine {
namespace {

constexpr uint8_t tickets_word = 0;
constexpr uint8_t served_word = 1;
constexpr uint64_t one_of(Mode mode) { return mode == Mode::shared ? 1 : uint64_t{1} << 32; }

struct Line {
  uint32_t writers;
  int32_t readers;  // below 0: so many of the readers behind have come and gone already
};
// Who of those before `ticket` are not gone yet.
Line before(uint64_t ticket, uint64_t served) {
  const uint64_t difference = ticket - served;
  const int32_t readers = static_cast<int32_t>(difference);
  // The nearest multiple of 2^32: the readers' part may be below 0.
  return {static_cast<uint32_t>((difference - static_cast<uint64_t>(int64_t{readers})) >> 32),
          readers};
}

}  // namespace

Action ReaderWriterClient::look(const Config& config) {
  state_ = State::looking;
  return load(network_unit(config, local_), Place::home, served_word);
}

Action ReaderWriterClient::on_served(uint64_t served, const Config& config) {
  const Line line = before(ticket_, served);
  const bool readers_matter = mode_ == Mode::exclusive && SKERRY_LAB_RULE(writers_wait_for_readers);
  const bool writers_matter = mode_ == Mode::exclusive || SKERRY_LAB_RULE(readers_wait_for_writers);
  const uint32_t ahead = (writers_matter ? line.writers : 0) +
                         (readers_matter && line.readers > 0 ? static_cast<uint32_t>(line.readers)
                                                             : 0);
  if (ahead == 0) {
    state_ = State::held;
    return granted();
  }
  state_ = State::pausing;
  return pause_for_turns(config, network_unit(config, local_), ahead);
}

Action ReaderWriterClient::step(const Event& event, const Config& config) {
  const Unit unit = network_unit(config, local_);
  switch (state_) {
    case State::idle:
      if (event.kind != Event::Kind::lock) return refused();
      mode_ = event.mode;
      state_ = State::taking_ticket;
      return fetch_and_add(unit, Place::home, tickets_word, one_of(mode_));
    case State::taking_ticket: ticket_ = event.value; return look(config);
    case State::looking: return on_served(event.value, config);
    case State::pausing: return look(config);
    case State::held:
      if (event.kind != Event::Kind::unlock) return refused();
      state_ = State::leaving;
      return fetch_and_add(unit, Place::home, served_word, one_of(mode_));
    case State::leaving:
      ticket_ = 0;
      state_ = State::idle;
      return released();
  }
  return refused();
}

}  // namespace skerry::lock::machine
