#include "window/machine_locks.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/owner_lock.hpp"
#include "core/thread.hpp"
#include "job/job.hpp"
#include "lock/network_swap.hpp"
#include "memory/doorbell.hpp"

namespace skerry::window {

using lock::machine::Asking;
using lock::machine::Home;
using lock::machine::Note;
using lock::machine::Rest;
using lock::machine::Tell;
using lock::machine::Unit;

namespace {

// To sleep and wake up takes some 50 us: shorter pauses give the processor away, and come back.
constexpr int64_t shortest_sleep_ns = 20'000;

Home home_of(const job::Segment& segment, Rank rank) {
  const memory::Region* region = segment.local(rank);
  return region == nullptr ? Home() : Home(region->base);
}

}  // namespace

// ---- the locks --------------------------------------------------------------------------------

Status MachineLocks::create(job::Group& group, const lock::Choice& choice,
                            std::unique_ptr<MachineLocks>* locks) {
  auto made = std::make_unique<MachineLocks>();
  made->job = &group.job();
  made->group = &group;
  made->machines = choice.machines;
  made->config.requesters = static_cast<uint32_t>(group.size());
  made->config.migration = choice.migration;
  // Inside a node the processor is faster. Of the protocols only this one keeps words apart.
  if (choice.machines == &lock::machine::migrating() && !group.is_on_one_node()) {
    uint64_t all_have = made->job->engine().has_atomics ? 1 : 0;
    SKERRY_TRY(group.combine(&all_have, [](uint64_t* into, uint64_t one) { *into &= one; }));
    if (all_have != 0) made->config.domain = lock::machine::Domain::nic;
  }
  SKERRY_TRY(job::Segment::alloc(group, Home::bytes(*choice.machines, made->config.requesters),
                                 job::purpose_homes, &made->segment));
  const job::Job& job = group.job();
  Rank lowest = job.rank();
  for (int32_t i = 0; i < group.size(); ++i)
    if (job.map().node_of(group.rank_of(i)) == job.node())
      lowest = std::min(lowest, group.rank_of(i));
  made->mine = home_of(*made->segment, job.rank());
  made->on_node = home_of(*made->segment, lowest);
  made->mine.make(*choice.machines, made->config);
  SKERRY_TRY(group.barrier());  // servers and requesters look at it: it must be there before
  *locks = std::move(made);
  return {};
}

// ---- one lock ---------------------------------------------------------------------------------

MachineLock::MachineLock(const MachineLocks& locks, Rank rank)
    : locks_(locks),
      rank_(rank),
      index_(static_cast<uint32_t>(locks.group->index_of(rank))),
      me_(static_cast<uint32_t>(locks.group->index())),
      home_(home_of(*locks.segment, rank)) {
  locks.machines->make_client(&client_, {me_, static_cast<bool>(home_)});
  uint32_t seed = 0;
  random_bytes(&seed, sizeof seed);
  random_.seed(seed);
}

Status MachineLock::lock(bool shared) {
  SKERRY_TRY(broken_);
  return broken_ = take(shared);
}

Status MachineLock::unlock() {
  SKERRY_TRY(broken_);
  return broken_ = give_back();
}

Status MachineLock::take(bool shared) {
  const bool counts = !locks_.machines->has_readers;
  Event lock{.kind = Event::Kind::lock};
  if (shared && !counts) lock.mode = lock::machine::Mode::shared;
  SKERRY_TRY(drive(lock));
  if (!counts) return {};
  uint64_t sharers = 0;
  if (shared) {
    SKERRY_TRY(count_sharers(1, &sharers));
    SKERRY_INVARIANT(!counted_, "a sharer counts itself in once");
    counted_ = true;
    return drive({.kind = Event::Kind::unlock, .mode = lock::machine::Mode::shared});
  }
  if (has_no_sharers_) return {};
  for (attempt_ = 0;;) {
    SKERRY_TRY(count_sharers(0, &sharers));
    if (sharers == 0) return {};
    SKERRY_TRY(pause(longer_pause()));
  }
}

Status MachineLock::give_back() {
  uint64_t sharers = 0;
  if (std::exchange(counted_, false)) {
    const Status status = count_sharers(UINT64_MAX, &sharers);
    SKERRY_INVARIANT(!status.ok() || sharers > 0, "a sharer was counted in");
    return status;
  }
  // Who stands behind us has written by now, mostly: known before, it costs no atomic to find out.
  for (Event note; take_mail(&note);)
    (void)locks_.machines->step_client(&client_, note, locks_.config);
  return drive({.kind = Event::Kind::unlock});
}

// Until the lock is held or given back.
Status MachineLock::drive(Event event) {
  attempt_ = 0;
  for (;;) {
    const Action action = locks_.machines->step_client(&client_, event, locks_.config);
    event = Event{};
    Status status;
    switch (action.kind) {
      case Action::Kind::load:
      case Action::Kind::store:
      case Action::Kind::compare_and_swap:
      case Action::Kind::fetch_and_add:
      case Action::Kind::swap: status = perform(action, &event.value); break;
      case Action::Kind::ask: status = ask(action); break;
      case Action::Kind::tell:
        status = tell({action.to, action.note, static_cast<uint32_t>(action.value)});
        break;
      case Action::Kind::pause:
        event.kind = Event::Kind::elapsed;
        status = pause(action);
        break;
      case Action::Kind::wait: status = await(&event); break;
      case Action::Kind::granted:
        has_no_sharers_ = action.value != 0;
        return {};
      case Action::Kind::released: return {};
      case Action::Kind::refused:
        return error(Code::internal, "the lock of rank ", rank_,
                     " is asked for while it is held, or given back while it is not");
    }
    SKERRY_TRY(status);
  }
}

Status MachineLock::count_sharers(uint64_t change, uint64_t* before) {
  using lock::machine::sharers_word;
  return perform(change == 0
                     ? lock::machine::load(Unit::cpu, lock::machine::Place::home, sharers_word)
                     : lock::machine::fetch_and_add(Unit::cpu, lock::machine::Place::home,
                                                    sharers_word, change),
                 before);
}

Status MachineLock::perform(const Action& action, uint64_t* before) {
  if (action.place == lock::machine::Place::node) {
    *before = lock::machine::perform(locks_.on_node.tail(index_), action);
    return {};
  }
  if (is_of_adapter() && action.unit == Unit::network) return perform_by_adapter(action, before);
  if (home_) [[likely]] {
    *before = lock::machine::perform(home_.word(action.word), action);
    return {};
  }
  if (is_of_adapter() && action.kind == Action::Kind::load)
    return load_by_adapter(action.word, before);
  wire::Rmw op = wire::Rmw::fetch_add_64;  // of nothing: a load
  uint64_t operand = action.value;
  if (action.kind == Action::Kind::load) operand = 0;
  else if (action.kind == Action::Kind::compare_and_swap) op = wire::Rmw::compare_swap_64;
  else if (action.kind != Action::Kind::fetch_and_add) op = wire::Rmw::swap_64;
  return locks_.job->engine().read_modify_write({rank_, locks_.segment->id()},
                                                Home::word_at(action.word), op, operand,
                                                action.expected, before);
}

Status MachineLock::perform_by_adapter(const Action& action, uint64_t* before) {
  SKERRY_INVARIANT(action.kind == Action::Kind::compare_and_swap,
                   "the network's word is changed by nothing else");
  lock::machine::NetworkSwap swap(action, locks_.config);
  for (;;) {
    origin::RmaLog::Atomic atomic{.kind = fabric::AtomicCall::Kind::compare_swap,
                                  .value = action.value,
                                  .expected = action.expected};
    SKERRY_TRY(locks_.job->engine().atomic({rank_, locks_.segment->id()},
                                           Home::word_at(action.word), &atomic));
    if (!atomic.is_unknown) {
      *before = swap.before(atomic.before);
      return {};
    }
    if (!swap.may_repeat())
      return error(Code::network, "the lock of rank ", rank_,
                   ": the connection broke under each of ",
                   lock::machine::NetworkSwap::most_broken,
                   " compare-and-swaps of the adapter; set SKERRY_LOCK=fair to do without them");
    SKERRY_TRY(pause(longer_pause()));
  }
}

// Either unit may load a word.
Status MachineLock::load_by_adapter(uint8_t word, uint64_t* value) {
  origin::Side there, here;
  there.offset = Home::word_at(word);
  here.base = reinterpret_cast<std::byte*>(value);
  there.bytes = here.bytes = sizeof *value;
  origin::Access access = origin::Access::get({rank_, locks_.segment->id()}, there, here,
                                              origin::Mode::blocking);
  access.by_adapter = true;
  return locks_.job->engine().issue(access);
}

// ---- messages to requesters -------------------------------------------------------------------

Status MachineLock::tell(const Tell& tell) {
  const uint64_t mail = lock::machine::mail_of(tell, me_);
  if (tell.to == me_) {
    mail_ += mail;
    return {};
  }
  const Rank to = locks_.group->rank_of(static_cast<int32_t>(tell.to));
  if (const Home there = home_of(*locks_.segment, to)) {
    there.mail(index_).fetch_add(mail);
    const auto member = static_cast<uint32_t>(locks_.job->member_of(to));
    memory::ring_doorbell(locks_.job->control().member(member));
    return {};
  }
  static constexpr std::byte nothing{};
  return locks_.segment->put_notify(to, 0, {&nothing, 0}, {Home::mail_at(index_), mail});
}

bool MachineLock::take_mail(Event* event) {
  std::atomic<uint64_t>& mail = locks_.mine.mail(index_);
  if (mail.load() != 0) mail_ += mail.exchange(0);
  return lock::machine::take_note(&mail_, event);
}

// ---- the manager ------------------------------------------------------------------------------

Status MachineLock::ask(const Action& action) {
  Asking asking({.kind = Event::Kind::told,
                 .note = action.note,
                 .mode = action.mode,
                 .local = static_cast<bool>(home_),
                 .from = me_,
                 .value = action.value});
  for (;;) {
    Rest rest;
    SKERRY_TRY(send(asking.message(), &rest));
    switch (asking.heard(rest)) {
      case Asking::Next::done: return {};
      case Asking::Next::send: break;
      case Asking::Next::pause: SKERRY_TRY(pause(longer_pause())); break;
      case Asking::Next::perform: SKERRY_TRY(perform_for_manager(rest.action, &asking)); break;
      case Asking::Next::failed:
        return error(Code::peer_dead, "the lock of rank ", rank_, ": rank ",
                     locks_.group->rank_of(static_cast<int32_t>(rest.action.value)),
                     " failed at an atomic of the adapter for its manager");
    }
  }
}

// One that fails tells the manager: all who wait for it would otherwise wait for ever.
Status MachineLock::perform_for_manager(const Action& action, Asking* asking) {
  uint64_t before = 0;
  Status failure = perform_by_adapter(action, &before);
  if (failure.ok()) {
    asking->performed(before);
    return {};
  }
  asking->not_performed();
  Rest rest;
  (void)send(asking->message(), &rest);  // the first failure is told
  return failure;
}

Status MachineLock::send(const Event& event, Rest* rest) {
  return home_ ? ask_here(event, rest) : ask_there(event, rest);
}

Status MachineLock::ask_here(const Event& event, Rest* rest) {
  const memory::Control& control = locks_.job->control();
  SKERRY_INVARIANT(static_cast<bool>(home_), "a manager runs on its lock's node");
  OwnerWord& guard = home_.record().guard;
  if (lock_word(guard, locks_.job->member_index(), control.watch()) != LockResult::locked) {
    SKERRY_TRY(locks_.job->check_abort());
    return error(Code::peer_dead, "the lock of rank ", rank_,
                 ": a rank died while running its manager");
  }
  Tell tells[32];
  *rest = lock::machine::run_manager(home_, event, tells);
  unlock_word(guard);
  SKERRY_ASSERT(rest->told <= std::size(tells), "a manager tells no more than there is room for");
  for (size_t i = 0; i < rest->told; ++i) SKERRY_TRY(tell(tells[i]));
  return {};
}

Status MachineLock::ask_there(const Event& event, Rest* rest) {
  const wire::NoteWord note{static_cast<uint8_t>(event.note),
                            event.mode == lock::machine::Mode::shared, me_};
  wire::NoteAnswer answer{};
  SKERRY_TRY(
      locks_.job->engine().lock_note({rank_, locks_.segment->id()}, note, event.value, &answer));
  rest->state = static_cast<Rest::State>(answer.rest);
  rest->taken = answer.taken != 0;
  rest->action = lock::machine::compare_and_swap(Unit::network, lock::machine::Place::home,
                                                 answer.word, answer.expected, answer.value);
  for (uint32_t i = 0; i < answer.tells && i < wire::most_note_tells; ++i) {
    const wire::NoteTell& one = answer.tell[i];
    SKERRY_TRY(tell({one.to, static_cast<Note>(one.note), one.value}));
  }
  return {};
}

// ---- waiting ----------------------------------------------------------------------------------

// Until this word of mail is at least `mail`, or the time is over (negative: no limit).
Status MachineLock::sleep(uint64_t mail, int64_t longest_ns) {
  const Status status = locks_.segment->wait_counter(Home::mail_at(index_), mail, longest_ns,
                                                     nullptr);
  return status.code() == Code::timeout ? Status() : status;
}

lock::machine::Action MachineLock::longer_pause() {
  const Unit unit = lock::machine::network_unit(locks_.config, static_cast<bool>(home_));
  attempt_ = lock::machine::next_attempt(locks_.config, unit, attempt_);
  return lock::machine::pause(locks_.config, unit, attempt_);
}

Status MachineLock::await(Event* event) {
  while (!take_mail(event)) {
    if (!locks_.machines->manager_pauses) {
      SKERRY_TRY(sleep(1, -1));
      continue;
    }
    // Its manager may pause for us, or for the one before us.
    SKERRY_TRY(sleep(1, lock::machine::pause_ns(longer_pause(), random_())));
    if (take_mail(event)) return {};
    SKERRY_TRY(ask(lock::machine::ask(Note::none)));
  }
  return {};
}

Status MachineLock::pause(const Action& action) {
  const int64_t ns = lock::machine::pause_ns(action, random_());
  const int64_t end_ns = monotonic_ns() + ns;
  if (ns < shortest_sleep_ns) {
    do {
      for (int i = 0; i < 16; ++i) spin_pause();
      sched_yield();
    } while (monotonic_ns() < end_ns);
    return locks_.job->check_abort();
  }
  // No mail ends a pause: the machine would take it only afterwards.
  for (;;) {
    const int64_t left_ns = end_ns - monotonic_ns();
    if (left_ns <= 0) return {};
    SKERRY_TRY(sleep(UINT64_MAX, left_ns));
  }
}

}  // namespace skerry::window
