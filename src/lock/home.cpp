#include "lock/home.hpp"

#include <algorithm>
#include <new>

#include "core/pure/assert.hpp"

namespace skerry::lock::machine {

namespace {

// Of a record that this process made, or looked at (Home::open).
const Machines& protocol(const Record& record) {
  const Machines* const machines = protocol_of(record.protocol);
  SKERRY_ASSERT(machines != nullptr, "a lock's protocol is known where it is used");
  return *machines;
}

// 2: beside mail, the tails of a protocol with a word on each node.
uint64_t mail_words(const Machines& machines) {
  const bool has_tails = std::ranges::any_of(
      machines.words, [](const Word& word) { return word.place == Place::node; });
  return has_tails ? 2 : 1;
}

}  // namespace

// ---- the slice --------------------------------------------------------------------------------

uint64_t Home::bytes(const Machines& machines, uint32_t requesters) {
  const uint64_t links = machines.has_manager ? sizeof(Link) : 0;
  return mail_begin + requesters * (mail_words(machines) * 8 + links);
}

Links Home::links(const Machines& machines) const {
  if (!machines.has_manager) return {};
  const uint64_t count = record().requesters;
  return {reinterpret_cast<Link*>(base_ + mail_begin + count * mail_words(machines) * 8), count};
}

Status Home::open(std::byte* base, uint64_t bytes, Home* home) {
  if (base == nullptr || bytes < mail_begin)
    return error(Code::invalid, "a slice of ", bytes, " bytes holds no lock");
  const Home found(base);
  const Record& r = found.record();
  const Machines* const machines = protocol_of(r.protocol);
  if (machines == nullptr || Home::bytes(*machines, r.requesters) > bytes)
    return error(Code::invalid, "a lock's record names protocol ", int(r.protocol), " and ",
                 r.requesters, " requesters, in ", bytes, " bytes");
  *home = found;
  return {};
}

bool Home::is_for_requesters(uint64_t offset, uint64_t bytes) const {
  const Record& r = record();
  const uint64_t mail_bytes = r.requesters * mail_words(protocol(r)) * 8;
  if (offset < record_begin) return bytes <= record_begin - offset;
  return offset >= mail_begin && offset - mail_begin <= mail_bytes &&
         bytes <= mail_bytes - (offset - mail_begin);
}

void Home::make(const Machines& machines, const Config& config) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  for (uint8_t i = 0; i < machines.words.size(); ++i)
    if (machines.words[i].place == Place::home) word(i).store(machines.initial_value(i, config));
  Record& r = *new (base_ + record_begin) Record{};
  r.protocol = machines.id;
  r.requesters = config.requesters;
  r.config = config;
  machines.make_manager(&r.manager);
}

uint64_t perform(std::atomic<uint64_t>& word, const Action& action) {
  uint64_t before = action.expected;
  switch (action.kind) {
    case Action::Kind::load: return word.load();
    case Action::Kind::store: word.store(action.value); return 0;
    case Action::Kind::compare_and_swap:
      (void)word.compare_exchange_strong(before, action.value);
      return before;
    case Action::Kind::fetch_and_add: return word.fetch_add(action.value);
    case Action::Kind::swap: return word.exchange(action.value);
    case Action::Kind::ask:
    case Action::Kind::tell:
    case Action::Kind::pause:
    case Action::Kind::wait:
    case Action::Kind::granted:
    case Action::Kind::released:
    case Action::Kind::refused: break;
  }
  SKERRY_ASSERT(false, "no atomic");
  return 0;
}

// ---- mail -------------------------------------------------------------------------------------

uint64_t mail_of(const Tell& tell, Requester from) {
  if (tell.note == Note::linked) return (uint64_t{from} + 1) << 32;
  SKERRY_ASSERT(tell.value < 1u << 24, "the value has 24 bits");
  return uint64_t{tell.value} << 8 | static_cast<uint8_t>(tell.note);
}

bool take_note(uint64_t* mail, Event* told) {
  if (*mail == 0) return false;
  *told = Event{.kind = Event::Kind::told};
  if (*mail >> 32 != 0) {
    told->note = Note::linked;
    told->from = static_cast<Requester>((*mail >> 32) - 1);
    *mail &= 0xffff'ffff;
  } else {
    told->note = static_cast<Note>(*mail & 0xff);
    told->value = *mail >> 8;
    *mail = 0;
  }
  return true;
}

// ---- the manager ------------------------------------------------------------------------------

bool is_sound(const Home& home, const Event& event) {
  const Record& r = home.record();
  if (!protocol(r).has_manager || event.from >= r.requesters) return false;
  if (event.note == Note::renew) return event.value < r.requesters;
  return event.note == Note::none || event.note == Note::request || event.note == Note::release ||
         event.note == Note::performed || event.note == Note::not_performed;
}

namespace {

// From one event until the manager rests or there is no room for one more message.
Rest::State follow(const Home& home, Event event, Links links, std::span<Tell> tells, Rest* rest) {
  Record& r = home.record();
  const Machines& machines = protocol(r);
  for (;;) {
    const Action action = machines.step_manager(&r.manager, event, r.config, links);
    event = Event{};
    if (is_atomic(action.kind)) {
      if (action.unit == Unit::network && r.config.domain == Domain::nic) {
        rest->action = action;
        return Rest::State::network;
      }
      event.value = perform(home.word(action.word), action);
    } else if (action.kind == Action::Kind::tell) {
      tells[rest->told++] = {action.to, action.note, static_cast<uint32_t>(action.value)};
      if (rest->told == tells.size()) return Rest::State::not_yet;
    } else {
      const bool waits = action.kind == Action::Kind::wait;
      SKERRY_ASSERT(waits || action.kind == Action::Kind::pause, "no answer of a manager");
      return waits ? Rest::State::waits : Rest::State::pauses;
    }
  }
}

}  // namespace

Rest run_manager(const Home& home, const Event& event, std::span<Tell> tells) {
  Record& r = home.record();
  const Links links = home.links(protocol(r));
  const bool has_news = event.note != Note::none;
  Rest rest;
  const auto go_on = [&](const Event& with) { r.rest = follow(home, with, links, tells, &rest); };
  if (event.note == Note::not_performed && r.rest == Rest::State::network) {
    r.rest = Rest::State::failed;
    r.failed = event.from;
  }
  if (r.rest == Rest::State::failed) {
    rest.state = Rest::State::failed;
    rest.action.value = r.failed;
    return rest;
  }
  if (event.note == Note::not_performed) return rest;  // of nothing
  if (event.note == Note::performed || r.rest == Rest::State::network) {
    // The caller that got the action performs it. Others come back later.
    const bool performed = event.note == Note::performed;
    rest.taken = performed || !has_news;
    if (performed && r.rest == Rest::State::network)
      go_on({.kind = Event::Kind::result, .value = event.value});
    rest.state = performed ? r.rest : Rest::State::waits;
    return rest;
  }
  if (r.rest == Rest::State::not_yet) go_on({});  // its last message was sent
  else if (r.rest == Rest::State::pauses && !has_news) go_on({.kind = Event::Kind::elapsed});
  const bool has_room = r.rest != Rest::State::not_yet && r.rest != Rest::State::network;
  if (has_news && has_room) go_on(event);
  rest.state = r.rest;
  rest.taken = !has_news || has_room;
  return rest;
}

}  // namespace skerry::lock::machine
