#include "window/machine_locks.hpp"

#include <sched.h>

#include "core/owner_lock.hpp"
#include "core/thread.hpp"
#include "job/job.hpp"
#include "memory/doorbell.hpp"

namespace skerry::window {

using lock::machine::Domain;
using lock::machine::Home;
using lock::machine::Mail;
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
  made->job_ = &group.job();
  made->group_ = &group;
  made->machines_ = choice.machines;
  made->config_.requesters = static_cast<uint32_t>(group.size());
  made->config_.migration = choice.migration;
  const job::Job& job = group.job();
  Rank lowest = job.rank();
  bool one_node = true;
  for (int32_t i = 0; i < group.size(); ++i) {
    const Rank rank = group.rank_of(i);
    if (job.map().node_of(rank) != job.node()) one_node = false;
    else if (rank < lowest) lowest = rank;
  }
  made->config_.domain = one_node ? Domain::cpu : Domain::server;
  SKERRY_TRY(job::Segment::alloc(group, Home::bytes(*choice.machines, made->config_.requesters),
                                 job::purpose_homes, &made->segment_));
  made->mine_ = home_of(*made->segment_, job.rank());
  made->on_node_ = home_of(*made->segment_, lowest);
  made->mine_.make(*choice.machines, made->config_);
  SKERRY_TRY(group.barrier());  // servers and requesters look at it: it must be there before
  *locks = std::move(made);
  return {};
}

std::unique_ptr<MachineLock> MachineLocks::requester_of(Rank rank) const {
  return std::make_unique<MachineLock>(*this, rank);
}

// ---- one lock ---------------------------------------------------------------------------------

MachineLock::MachineLock(const MachineLocks& locks, Rank rank)
    : locks_(locks),
      rank_(rank),
      index_(static_cast<uint32_t>(locks.group_->index_of(rank))),
      me_(static_cast<uint32_t>(locks.group_->index())),
      home_(home_of(*locks.segment_, rank)),
      client_(*locks.machines_, {me_, static_cast<bool>(home_)}) {
  random_bytes(&random_, sizeof random_);
}

uint64_t MachineLock::random() {  // splitmix64
  uint64_t z = random_ += 0x9e37'79b9'7f4a'7c15;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

bool MachineLock::tells_directly() const { return locks_.machines_->tells_directly; }

Status MachineLock::lock(bool shared) {
  Event event;
  event.kind = Event::Kind::lock;
  event.mode = shared ? lock::machine::Mode::shared : lock::machine::Mode::exclusive;
  return drive(event);
}

Status MachineLock::unlock() {
  SKERRY_TRY(broken_);
  // Who stands behind us has written by now, mostly: known before, it costs no atomic to find out.
  for (Event note; take_mail(&note);) (void)client_.step(note, locks_.config_);
  Event event;
  event.kind = Event::Kind::unlock;
  return drive(event);
}

// Until the lock is held or given back.
Status MachineLock::drive(Event event) {
  SKERRY_TRY(broken_);
  attempt_ = 0;
  for (;;) {
    const Action action = client_.step(event, locks_.config_);
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
      case Action::Kind::released: return {};
      case Action::Kind::refused:
        return error(Code::internal, "the lock of rank ", rank_,
                     " is asked for while it is held, or given back while it is not");
    }
    if (!status.ok()) return broken_ = status;
  }
}

Status MachineLock::perform(const Action& action, uint64_t* before) {
  if (action.place == lock::machine::Place::node) {
    *before = lock::machine::perform(locks_.on_node_.tail(index_), action);
    return {};
  }
  if (home_) [[likely]] {
    *before = lock::machine::perform(home_.word(action.word), action);
    return {};
  }
  wire::Rmw op = wire::Rmw::fetch_add_64;  // of nothing: a load
  uint64_t operand = action.value;
  if (action.kind == Action::Kind::load) operand = 0;
  else if (action.kind == Action::Kind::compare_and_swap) op = wire::Rmw::compare_swap_64;
  else if (action.kind != Action::Kind::fetch_and_add) op = wire::Rmw::swap_64;
  return locks_.job_->engine().read_modify_write({rank_, locks_.segment_->id()},
                                                 Home::word_at(action.word), op, operand,
                                                 action.expected, before);
}

// ---- messages to requesters -------------------------------------------------------------------

Status MachineLock::tell(const Tell& tell) {
  const uint64_t mail = lock::machine::mail_of(tell, me_);
  if (tell.to == me_) {
    const Mail own = lock::machine::read_mail(mail);
    mail_.answer = own.answer;
    mail_.value = own.value;
    return {};
  }
  const Rank to = locks_.group_->rank_of(static_cast<int32_t>(tell.to));
  if (const Home there = home_of(*locks_.segment_, to)) {
    there.mail(index_).fetch_add(mail);
    const auto member = static_cast<uint32_t>(locks_.job_->member_of(to));
    memory::ring_doorbell(locks_.job_->control().member(member));
    return {};
  }
  static constexpr std::byte nothing{};
  return locks_.segment_->put_notify(to, 0, {&nothing, 0}, {Home::mail_at(index_), mail});
}

// The note of the one behind comes first: it may have been sent before an answer, and never after
// one that it caused.
bool MachineLock::take_mail(Event* event) {
  if (!mail_.is_followed || mail_.answer == Note::none) {
    const uint64_t word = locks_.mine_.mail(index_).load() == 0
                              ? 0
                              : locks_.mine_.mail(index_).exchange(0);
    const Mail more = lock::machine::read_mail(word);
    if (more.is_followed) {
      mail_.is_followed = true;
      mail_.follower = more.follower;
    }
    if (more.answer != Note::none) {
      mail_.answer = more.answer;
      mail_.value = more.value;
    }
  }
  *event = Event{};
  event->kind = Event::Kind::told;
  if (mail_.is_followed) {
    mail_.is_followed = false;
    event->note = Note::linked;
    event->from = mail_.follower;
    return true;
  }
  if (mail_.answer == Note::none) return false;
  event->note = mail_.answer;
  event->value = mail_.value;
  mail_.answer = Note::none;
  return true;
}

// ---- the manager ------------------------------------------------------------------------------

Status MachineLock::ask(const Action& action) {
  Event event;
  event.kind = Event::Kind::told;
  event.note = action.note;
  event.mode = action.mode;
  event.from = me_;
  event.value = action.value;
  event.local = static_cast<bool>(home_);
  for (;;) {
    Rest rest;
    SKERRY_TRY(home_ ? ask_here(event, &rest) : ask_there(event, &rest));
    if (rest.taken) event.note = Note::none;
    if (rest.taken && rest.state != Rest::State::not_yet) return {};
  }
}

Status MachineLock::ask_here(const Event& event, Rest* rest) {
  const memory::Control& control = locks_.job_->control();
  OwnerWord& guard = home_.record().guard;
  switch (lock_word(guard, locks_.job_->member_index(), control.watch())) {
    case LockResult::locked: break;
    case LockResult::busy:
    case LockResult::aborted:
    case LockResult::owner_dead:
      SKERRY_TRY(locks_.job_->check_abort());
      return error(Code::peer_dead, "the lock of rank ", rank_,
                   ": a rank died while running its manager");
  }
  Tell tells[32];
  size_t told = 0;
  *rest = lock::machine::run_manager(home_, event, tells, &told);
  unlock_word(guard);
  for (size_t i = 0; i < told; ++i) SKERRY_TRY(tell(tells[i]));
  return {};
}

Status MachineLock::ask_there(const Event& event, Rest* rest) {
  const wire::NoteWord note{static_cast<uint8_t>(event.note),
                            event.mode == lock::machine::Mode::shared, me_};
  wire::NoteAnswer answer{};
  SKERRY_TRY(
      locks_.job_->engine().lock_note({rank_, locks_.segment_->id()}, note, event.value, &answer));
  rest->state = static_cast<Rest::State>(answer.rest);
  rest->taken = answer.taken != 0;
  for (uint32_t i = 0; i < answer.tells && i < wire::most_note_tells; ++i) {
    const wire::NoteTell& one = answer.tell[i];
    SKERRY_TRY(tell({one.to, static_cast<Note>(one.note), one.value}));
  }
  return {};
}

// ---- waiting ----------------------------------------------------------------------------------

// Until there is mail, or so long (negative: no limit).
Status MachineLock::sleep(int64_t longest_ns) {
  const Status status = locks_.segment_->wait_counter(Home::mail_at(index_), 1, longest_ns,
                                                      nullptr);
  return status.code() == Code::timeout ? Status() : status;
}

Status MachineLock::await(Event* event) {
  while (!take_mail(event)) {
    if (!locks_.machines_->manager_pauses) {
      SKERRY_TRY(sleep(-1));
      continue;
    }
    // Its manager may pause for us, or for the one before us.
    const Unit unit = lock::machine::network_unit(locks_.config_, static_cast<bool>(home_));
    attempt_ = lock::machine::next_attempt(locks_.config_, unit, attempt_);
    const Action look = lock::machine::pause(unit, attempt_);
    SKERRY_TRY(sleep(lock::machine::pause_ns(locks_.config_, look, random())));
    if (take_mail(event)) return {};
    SKERRY_TRY(ask(lock::machine::ask(Note::none)));
  }
  return {};
}

Status MachineLock::pause(const Action& action) {
  const int64_t ns = lock::machine::pause_ns(locks_.config_, action, random());
  const int64_t end_ns = monotonic_ns() + ns;
  if (ns < shortest_sleep_ns) {
    do {
      for (int i = 0; i < 16; ++i) spin_pause();
      sched_yield();
    } while (monotonic_ns() < end_ns);
    return locks_.job_->control().is_aborted() ? locks_.job_->check_abort() : Status();
  }
  // No mail ends a pause: the machine would take it only afterwards.
  for (;;) {
    const int64_t left_ns = end_ns - monotonic_ns();
    if (left_ns <= 0) return {};
    const Status status = locks_.segment_->wait_counter(Home::mail_at(index_), UINT64_MAX, left_ns,
                                                        nullptr);
    if (status.code() != Code::timeout) SKERRY_TRY(status);
  }
}

}  // namespace skerry::window
