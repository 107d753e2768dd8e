#include "sim/storm/survivor.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::sim {

using origin::Mode;
using origin::Side;

// ---- what must hold ---------------------------------------------------------------------------

Ledger::Ledger(const StormConfig& config, Checker& checker)
    : config_(config), checker_(checker), dead_(config.ranks()) {}

void Ledger::die(Rank rank) {
  dead_[static_cast<size_t>(rank)] = true;
  for (auto& [name, lock] : locks_) {
    const bool held = lock.holder != nobody && rank_of(lock.holder) == rank;
    const bool perhaps = std::ranges::any_of(
        lock.asking, [&](uint32_t thread) { return rank_of(thread) == rank; });
    const bool releasing = lock.releasing != nobody && rank_of(lock.releasing) == rank;
    lock.must_tell = lock.must_tell || held;
    lock.may_tell = lock.may_tell || held || perhaps || releasing;
    lock.more += held ? 1 : 0;
    if (held) lock.holder = nobody;
  }
}

uint32_t Ledger::living() const {
  return static_cast<uint32_t>(std::ranges::count(dead_, false));
}

void Ledger::fenced(uint32_t thread, NodeId node) {
  for (uint32_t k = 0; k < config_.ranks_per_node; ++k) {
    Account& mine = account(
        thread, static_cast<Rank>(static_cast<uint32_t>(node) * config_.ranks_per_node + k));
    mine.mail_done = mine.mail_issued;
    mine.sum_done = mine.sum_issued;
  }
}

void Ledger::ticket(Rank target, uint64_t old) {
  if (!tickets_[target].insert(old).second)
    checker_.fail("two fetch-and-adds at rank ", target, " returned ", old);
}

void Ledger::asks(uint32_t thread, Rank target, uint32_t mutex) {
  Lock& one = lock(target, mutex);
  one.asking.insert(thread);
  one.may_tell = one.may_tell || is_dead(rank_of(thread));
}

void Ledger::granted(uint32_t thread, Rank target, uint32_t mutex, bool told) {
  Lock& one = lock(target, mutex);
  one.asking.erase(thread);
  one.releasing = nobody;
  if (one.holder != nobody)
    checker_.fail("thread ", thread, " was granted mutex ", mutex, " of rank ", target,
                  ", which thread ", one.holder, " holds");
  if (one.must_tell && !told)
    checker_.fail("thread ", thread, " was not told that the holder of mutex ", mutex, " of rank ",
                  target, " before it died");
  if (told && !one.may_tell)
    checker_.fail("thread ", thread, " was told that the holder of mutex ", mutex, " of rank ",
                  target, " died, and none did");
  one.must_tell = false;
  one.holder = thread;
}

void Ledger::releases(uint32_t thread, Rank target, uint32_t mutex) {
  Lock& one = lock(target, mutex);
  if (one.holder != thread)
    checker_.fail("thread ", thread, " lost mutex ", mutex, " of rank ", target);
  one.holder = nobody;
  one.releasing = thread;
}

// Each of the dead may have written one count more, or half of it.
void Ledger::counted(Rank target, uint32_t mutex, const Pair& found, bool told) {
  const uint64_t last = lock(target, mutex).count;
  const uint64_t most = last + (told ? lock(target, mutex).more : 0);
  const auto fits = [&](uint64_t word) { return word >= last && word <= most; };
  if (!fits(found[0]) || !fits(found[1]) || (!told && found[0] != found[1]))
    checker_.fail("under mutex ", mutex, " of rank ", target, " are ", found[0], " and ", found[1],
                  ", not from ", last, " to ", most);
}

void Ledger::finish(const std::vector<const std::byte*>& memory, const Layout& layout) {
  for (Rank target = 0; target < static_cast<Rank>(config_.ranks()); ++target) {
    if (is_lost(static_cast<NodeId>(static_cast<uint32_t>(target) / config_.ranks_per_node)))
      continue;
    const auto word = [&](uint64_t offset) {
      uint64_t value = 0;
      std::memcpy(&value, memory[static_cast<size_t>(target)] + offset, sizeof value);
      return value;
    };
    uint64_t least = 0, most = 0, open_tickets = 0;
    for (uint32_t thread = 0; thread < config_.all_threads(); ++thread) {
      const Account& one = account(thread, target);
      const uint64_t mail = word(layout.mailbox(thread));
      if (mail < one.mail_done || mail > one.mail_issued)
        checker_.fail("thread ", thread, "'s word in rank ", target, " is ", mail, ", not from ",
                      one.mail_done, " to ", one.mail_issued);
      least += one.sum_done;
      most += one.sum_issued;
      open_tickets += one.takes_ticket ? 1 : 0;
    }
    if (const uint64_t sum = word(layout.shared_sum); sum < least || sum > most)
      checker_.fail("the sum in rank ", target, " is ", sum, ", not from ", least, " to ", most);
    const uint64_t taken = word(layout.tickets), told = tickets_[target].size();
    if (taken < told || taken > told + open_tickets)
      checker_.fail("the counter in rank ", target, " is ", taken, ": ", told,
                    " calls returned, and ", open_tickets, " of the dead had not");
    for (const uint64_t old : tickets_[target])
      if (old >= taken)
        checker_.fail("a fetch-and-add at rank ", target, " returned ", old, " of ", taken);
  }
}

// ---- what a program does ----------------------------------------------------------------------

Survivor::Survivor(uint32_t thread, const StormConfig& config, RankProcess& process,
                   Checker& checker, Ledger& ledger)
    : thread_(thread),
      config_(config),
      process_(process),
      checker_(checker),
      ledger_(ledger),
      holder_(lock::make_holder(process.rank(), 1 + thread % config.threads)),
      random_(Random(config.seed * 1000 + thread).next()) {}

std::string Survivor::describe() const {
  return concat("thread ", thread_, " of rank ", process_.rank(), ": operation ", operations_, ", ",
                at_, " at node ", at_node_);
}

bool Survivor::worked(const Status& status) {
  // Declared dead with its leader: what came of it counts no more, and its end is near.
  if (ledger_.is_dead(process_.rank())) Scheduler::current().sleep(1'000'000'000);
  if (status.ok()) return true;
  if (status.code() != Code::peer_dead || !ledger_.is_lost(at_node_))
    checker_.fail(describe(), " failed: ", status.message());
  return false;
}

Status Survivor::move(Rank target, uint64_t offset, uint64_t* word, bool is_get, Mode mode) {
  Side there, here;
  there.bytes = here.bytes = sizeof *word;
  there.offset = offset;
  here.base = reinterpret_cast<std::byte*>(word);
  return is_get ? process_.get(target, there, here, mode, nullptr)
                : process_.put(target, there, here, nullptr, mode, nullptr);
}

void Survivor::run() {
  for (uint32_t i = 0; i < config_.operations && !checker_.failed(); ++i) {
    ++operations_;
    step();
    process_.check(checker_);
  }
  for (NodeId node = 0; node < static_cast<NodeId>(config_.nodes); ++node) fence(node);
  at_ = "ended";
  ended_ = true;
}

void Survivor::step() {
  const uint32_t dice = random_.below(100);
  if (dice < config_.lock_percent) return section();
  switch (random_.below(8)) {
    case 0:
    case 1: return put();
    case 2:
    case 3: return add();
    case 4: return take_ticket();
    case 5: return read_back();
    case 6: return fence(static_cast<NodeId>(random_.below(config_.nodes)));
    default:
      at_ = "compute";
      Scheduler::current().sleep(random_.below(random_.below(8) == 0 ? 4'000'000 : 40'000));
  }
}

void Survivor::put() {
  const auto target = static_cast<Rank>(random_.below(config_.ranks()));
  at_ = "put";
  at_node_ = process_.node().map().node_of(target);
  Ledger::Account& mine = ledger_.account(thread_, target);
  const uint64_t value = ++mine.mail_issued;
  sent_.push_back(std::make_unique<uint64_t>(value));
  (void)worked(move(target, checker_.layout().mailbox(thread_), sent_.back().get(), false,
                    random_.below(2) == 0 ? Mode::implicit : Mode::blocking));
}

void Survivor::add() {
  const auto target = static_cast<Rank>(random_.below(config_.ranks()));
  at_ = "accumulate";
  at_node_ = process_.node().map().node_of(target);
  const uint64_t value = 1 + random_.below(1000);
  ledger_.account(thread_, target).sum_issued += value;
  sent_.push_back(std::make_unique<uint64_t>(value));
  Side to, from;
  to.bytes = from.bytes = sizeof value;
  to.offset = checker_.layout().shared_sum;
  from.base = reinterpret_cast<std::byte*>(sent_.back().get());
  (void)worked(process_.accumulate(target, to, from,
                                   {ElementType::uint64, memory::Scale::one(), Operation::sum},
                                   random_.below(2) == 0 ? Mode::implicit : Mode::blocking,
                                   nullptr));
}

void Survivor::take_ticket() {
  const auto target = static_cast<Rank>(random_.below(config_.ranks()));
  at_ = "fetch-and-add";
  at_node_ = process_.node().map().node_of(target);
  Ledger::Account& mine = ledger_.account(thread_, target);
  mine.takes_ticket = true;
  uint64_t old = 0;
  if (!worked(process_.read_modify_write(target, checker_.layout().tickets,
                                         wire::Rmw::fetch_add_64, 1, 0, &old)))
    return;
  mine.takes_ticket = false;
  ledger_.ticket(target, old);
}

// What this thread last put, also in the memory of a dead rank.
void Survivor::read_back() {
  const auto target = static_cast<Rank>(random_.below(config_.ranks()));
  at_ = "get";
  at_node_ = process_.node().map().node_of(target);
  uint64_t found = 0;
  if (!worked(move(target, checker_.layout().mailbox(thread_), &found, true, Mode::blocking)))
    return;
  if (const uint64_t put = ledger_.account(thread_, target).mail_issued; found != put)
    checker_.fail(describe(), ": its word in rank ", target, " is ", found, ", not ", put);
}

void Survivor::section() {
  const auto target = static_cast<Rank>(config_.hot_lock ? 0 : random_.below(config_.ranks()));
  const uint32_t mutex = random_.below(Layout::mutexes);
  at_ = "lock";
  at_node_ = process_.node().map().node_of(target);
  ledger_.asks(thread_, target, mutex);
  bool told = false;
  if (!worked(process_.lock_or_inherit(target, mutex, holder_, &told))) return;
  ledger_.granted(thread_, target, mutex, told);
  count_inside(target, mutex, told);
  at_ = "unlock";
  ledger_.releases(thread_, target, mutex);
  (void)worked(process_.unlock(target, mutex, holder_));
}

// Adds one to a count, word by word. A holder that inherits writes both.
void Survivor::count_inside(Rank target, uint32_t mutex, bool told) {
  const uint64_t at = checker_.layout().counted(mutex);
  at_ = "count under a lock";
  Pair found{};
  for (uint32_t i = 0; i < 2; ++i)
    if (!worked(move(target, at + 8 * i, &found[i], true, Mode::blocking))) return;
  ledger_.counted(target, mutex, found, told);
  const uint64_t next = std::max(found[0], found[1]) + 1;
  for (uint32_t i = 0; i < 2; ++i) {
    uint64_t word = next;
    if (!worked(move(target, at + 8 * i, &word, false, Mode::blocking))) return;
    if (random_.below(2) == 0) Scheduler::current().sleep(random_.below(60'000));
  }
  if (told) Scheduler::current().sleep(random_.below(3'000'000));  // for what comes late
  for (uint32_t i = 0; i < 2; ++i)
    if (!worked(move(target, at + 8 * i, &found[i], true, Mode::blocking))) return;
  if (found[0] != next || found[1] != next)
    checker_.fail(describe(), ": somebody else wrote under its lock: ", found[0], " and ", found[1],
                  ", not ", next);
  ledger_.counts(target, mutex, next);
}

// A fence may say again what a call has said.
void Survivor::fence(NodeId node) {
  at_ = "fence";
  at_node_ = node;
  if (worked(process_.fence(node))) ledger_.fenced(thread_, node);
}

}  // namespace skerry::sim
