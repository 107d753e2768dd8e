#include "sim/storm/checker.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::sim {

Layout::Layout(const StormConfig& config) : area_bytes(config.area_bytes), sums(config.sums) {
  const uint64_t threads = config.all_threads();
  sums_at = threads * area_bytes;
  mailboxes_at = sums_at + threads * sums * 8;
  counters_at = mailboxes_at + threads * 8;
  guarded_at = counters_at + threads * 8;
  shared_sum = guarded_at + mutexes * 8;
  tickets = shared_sum + 8;
  swapped = tickets + 8;
  compared = swapped + 8;
  counted_at = (compared + 8 + 15) / 16 * 16;
  stamped_at = counted_at + mutexes * 16;
  registers_at = stamped_at + mutexes * 16;
  register_words = config.window_percent == 0 ? 0 : config.register_words;
  total_bytes = registers_at + threads * register_words * 8;
}

Checker::Checker(const StormConfig& config) : config_(config), layout_(config) {
  const uint32_t ranks = config.ranks(), threads = config.all_threads();
  memory_.resize(ranks);
  areas_.assign(ranks, std::vector<std::byte>(threads * layout_.area_bytes));
  sums_.assign(ranks, std::vector<int64_t>(threads * layout_.sums));
  shared_.resize(ranks);
  tickets_.resize(ranks);
  swaps_.resize(ranks);
  compares_.resize(ranks);
}

uint64_t Checker::word(Rank target, uint64_t offset) const {
  uint64_t value;
  std::memcpy(&value, memory_[static_cast<size_t>(target)] + offset, sizeof value);
  return value;
}

// ---- one thread's -----------------------------------------------------------------------------

void Checker::put(uint32_t thread, Rank target, std::span<const Piece> pieces,
                  const std::vector<std::byte>& stream) {
  std::byte* const area = areas_[static_cast<size_t>(target)].data() + layout_.area(thread);
  uint64_t at = 0;
  for (const Piece& piece : pieces) {
    std::memcpy(area + piece.offset, stream.data() + at, piece.bytes);
    at += piece.bytes;
  }
}

std::vector<std::byte> Checker::expected(uint32_t thread, Rank target,
                                         std::span<const Piece> pieces) const {
  const std::byte* const area = areas_[static_cast<size_t>(target)].data() + layout_.area(thread);
  std::vector<std::byte> stream;
  for (const Piece& piece : pieces)
    stream.insert(stream.end(), area + piece.offset, area + piece.offset + piece.bytes);
  return stream;
}

void Checker::add(uint32_t thread, Rank target, uint32_t index, int64_t value) {
  sums_[static_cast<size_t>(target)][thread * layout_.sums + index] += value;
}

int64_t Checker::update(uint32_t thread, Rank target, uint32_t index, Operation operation,
                        int64_t value) {
  int64_t& sum = sums_[static_cast<size_t>(target)][thread * layout_.sums + index];
  const int64_t before = sum;
  switch (operation) {
    case Operation::sum: sum += value; break;
    case Operation::min: sum = std::min(sum, value); break;
    case Operation::max: sum = std::max(sum, value); break;
    case Operation::bit_xor: sum ^= value; break;
    case Operation::replace: sum = value; break;
    case Operation::no_op: break;
    case Operation::product:
    case Operation::logical_and:
    case Operation::logical_or:
    case Operation::logical_xor:
    case Operation::bit_and:
    case Operation::bit_or: fail("no storm draws a ", to_string(operation)); break;
  }
  return before;
}

void Checker::applied(uint32_t thread, Rank target) {
  ++checks_;
  const size_t t = static_cast<size_t>(target);
  const std::byte* const mine = areas_[t].data() + layout_.area(thread);
  const std::byte* const theirs = memory_[t] + layout_.area(thread);
  if (std::memcmp(mine, theirs, layout_.area_bytes) != 0) {
    const auto [a, b] = std::mismatch(mine, mine + layout_.area_bytes, theirs);
    fail("thread ", thread, " fenced, and byte ", a - mine, " of its area in rank ", target, " is ",
         static_cast<int>(*b), ", not ", static_cast<int>(*a));
  }
  for (uint32_t i = 0; i < layout_.sums; ++i) {
    const auto found = static_cast<int64_t>(word(target, layout_.sum(thread, i)));
    if (const int64_t wanted = sums_[t][thread * layout_.sums + i]; found != wanted)
      return fail("thread ", thread, " fenced, and its sum ", i, " in rank ", target, " is ", found,
                  ", not ", wanted);
  }
}

// ---- shared words -----------------------------------------------------------------------------

void Checker::ticket(Rank target, uint64_t old, uint64_t increment) {
  if (!tickets_[static_cast<size_t>(target)].emplace(old, increment).second)
    fail("two fetch-and-adds at rank ", target, " returned ", old);
}

void Checker::swapped(Rank target, uint64_t old, uint64_t value) {
  swaps_[static_cast<size_t>(target)].emplace(old, value);
}

void Checker::finish_shared(Rank target) {
  const size_t t = static_cast<size_t>(target);
  const auto sum = static_cast<int64_t>(word(target, layout_.shared_sum));
  if (sum != shared_[t]) fail("the shared sum in rank ", target, " is ", sum, ", not ", shared_[t]);
  uint64_t next = 0;
  for (const auto& [old, increment] : tickets_[t]) {
    if (old != next)
      fail("a fetch-and-add at rank ", target, " returned ", old, " where ", next, " was due");
    next = old + increment;
  }
  if (const uint64_t last = word(target, layout_.tickets); last != next)
    fail("the counter in rank ", target, " is ", last, ", not ", next);
  finish_chain(target, "swap", swaps_[t], word(target, layout_.swapped));
  finish_chain(target, "compare-and-swap", compares_[t], word(target, layout_.compared));
}

// Every value but the last was taken out once: a chain from 0 to what is there now.
void Checker::finish_chain(Rank target, const char* what, Chain& chain, uint64_t last) {
  uint64_t at = 0;
  while (!chain.empty()) {
    const auto found = chain.find(at);
    if (found == chain.end()) return fail("no ", what, " at rank ", target, " was given ", at);
    at = found->second;
    chain.erase(found);
  }
  if (last != at) fail("the ", what, " word in rank ", target, " is ", last, ", not ", at);
}

// ---- mutexes ----------------------------------------------------------------------------------

// Those that have a record, in their order.
std::vector<lock::Waiter> Checker::waiting(Rank target, uint32_t mutex) {
  HostedLocks& here = locks_.at(target);
  std::vector<lock::Waiter> all;
  for (uint32_t record = here.locks[mutex].first; record != 0; record = here.pool.next_of(record))
    all.push_back(here.pool.at(record).waiter);
  return all;
}

Checker::Asked Checker::asks(Rank target, uint32_t mutex, uint32_t thread, lock::Holder holder,
                             bool shares) {
  Asked asked;
  asked.target = target;
  asked.mutex = mutex;
  asked.thread = thread;
  asked.holder = holder;
  asked.shares = shares;
  const uint64_t key = lock_key(target, mutex);
  for (const lock::Waiter& waiter : waiting(target, mutex))
    asked.before.emplace_back(waiter.holder, grants_[{key, waiter.holder}]);
  asked.at = ++clock_;
  asked.counted = pairs_[key].ended;
  return asked;
}

// Who waited in the queue when this one asked has had its turn. So a waiter waits for those before
// it and for one batch of sharers, with two exceptions. Sharers that hold other locks join that
// batch. Each waiter, while it is first, may be passed by `most_passes` newcomers: the n-th in the
// queue by n times as many.
void Checker::check_turn(const Asked& asked) {
  ++checks_;
  if (asked.joins) return;
  const uint64_t key = lock_key(asked.target, asked.mutex);
  for (const lock::Waiter& now : waiting(asked.target, asked.mutex)) {
    const uint64_t grants = grants_[{key, now.holder}];
    const auto before = std::find(asked.before.begin(), asked.before.end(),
                                  std::pair(now.holder, grants));
    if (before == asked.before.end()) continue;
    // Where it stood when this one asked. A grant from another node is heard of late, when those
    // that it passed may have moved up.
    const auto place = static_cast<uint64_t>(before - asked.before.begin()) + 1;
    Wait& wait = waits_[{key, now.holder}];
    if (wait.grants != grants) wait = {grants, 0, 0};
    wait.most = std::max(wait.most, place * lock::most_passes);
    if (asked.shares || ++wait.passed > wait.most)
      return fail("thread ", asked.thread, " overtook thread ", lock::thread_of(now.holder),
                  " of rank ", lock::rank_of(now.holder), ", which waited for mutex ", asked.mutex,
                  " of rank ", asked.target, " before it asked",
                  asked.shares ? "" : " and was passed too often: ", wait.passed);
  }
}

void Checker::granted(const Asked& asked) {
  check_turn(asked);
  const uint64_t key = lock_key(asked.target, asked.mutex);
  ++grants_[{key, asked.holder | (asked.shares ? lock::shared_bit : 0) |
                      (asked.joins ? lock::joins_bit : 0)}];
  std::vector<Hold>& holds = holders_[key];
  for (const Hold& hold : holds)
    if (!asked.shares || !hold.shares)
      return fail("thread ", asked.thread, " was granted mutex ", asked.mutex, " of rank ",
                  asked.target, asked.shares ? " to share" : "", ", which thread ", hold.thread,
                  hold.shares ? " shares" : " holds");
  holds.push_back({asked.thread, asked.shares, ++clock_});
}

void Checker::released(const Asked& asked) {
  std::vector<Hold>& holds = holders_[lock_key(asked.target, asked.mutex)];
  if (std::erase_if(holds, [&](const Hold& h) { return h.thread == asked.thread; }) != 1)
    fail("thread ", asked.thread, " lost mutex ", asked.mutex, " of rank ", asked.target);
}

void Checker::had(const Asked& asked) {
  check_turn(asked);
  for (const Hold& hold : holders_[lock_key(asked.target, asked.mutex)])
    if (hold.since < asked.at && (!asked.shares || !hold.shares))
      return fail("thread ", asked.thread, " had mutex ", asked.mutex, " of rank ", asked.target,
                  ", while thread ", hold.thread, hold.shares ? " shared" : " held", " it");
}

// ---- pairs ------------------------------------------------------------------------------------

void Checker::check_pair(const Asked& asked, const char* what, const Pair& found) {
  ++checks_;
  if (found[0] != found[1])
    fail("thread ", asked.thread, " found half a ", what, " under mutex ", asked.mutex, " of rank ",
         asked.target, ": ", found[0], " and ", found[1]);
}

void Checker::count_begins(const Asked& asked, uint64_t more) {
  pairs_[lock_key(asked.target, asked.mutex)].begun += more;
}

void Checker::count_ended(const Asked& asked, uint64_t more, const std::optional<Pair>& old) {
  Pairs& pairs = pairs_[lock_key(asked.target, asked.mutex)];
  pairs.ended += more;
  if (!old) return;
  check_pair(asked, "count", *old);
  if ((*old)[0] + more > pairs.begun || !pairs.olds.insert((*old)[0]).second)
    fail("thread ", asked.thread, " added ", more, " to ", (*old)[0], " under mutex ", asked.mutex,
         " of rank ", asked.target,
         (*old)[0] + more > pairs.begun ? ": more than was ever added" : ", as another did");
}

void Checker::count_read(const Asked& asked, const Pair& found) {
  const Pairs& pairs = pairs_[lock_key(asked.target, asked.mutex)];
  check_pair(asked, "count", found);
  if (found[0] < asked.counted || found[0] > pairs.begun)
    fail("thread ", asked.thread, " read ", found[0], " under mutex ", asked.mutex, " of rank ",
         asked.target, ", which is not from ", asked.counted, " to ", pairs.begun);
}

void Checker::stamp_begins(const Asked& asked, uint64_t stamp) {
  pairs_[lock_key(asked.target, asked.mutex)].stamps.push_back({stamp, ++clock_, 0});
}

void Checker::stamp_ended(const Asked& asked, uint64_t stamp) {
  for (Stamp& one : pairs_[lock_key(asked.target, asked.mutex)].stamps)
    if (one.value == stamp) one.ended = ++clock_;
}

// A stamp is gone when another one began after it ended, and has ended, too.
void Checker::stamp_read(const Asked& asked, const Pair& found) {
  check_pair(asked, "stamp", found);
  const std::vector<Stamp>& stamps = pairs_[lock_key(asked.target, asked.mutex)].stamps;
  uint64_t newest = 0;  // of those that had ended when this one asked
  for (const Stamp& one : stamps)
    if (one.ended != 0 && one.ended < asked.at) newest = std::max(newest, one.began);
  const auto known = std::find_if(stamps.begin(), stamps.end(),
                                  [&](const Stamp& one) { return one.value == found[0]; });
  const bool is_first = found[0] == 0 && newest == 0;
  if (!is_first && (known == stamps.end() || (known->ended != 0 && known->ended < newest)))
    fail("thread ", asked.thread, " read stamp ", found[0], " under mutex ", asked.mutex,
         " of rank ", asked.target,
         known == stamps.end() ? ", which is none" : ", which another had followed");
}

void Checker::finish_pairs(Rank target, uint32_t mutex) {
  const Pairs& pairs = pairs_[lock_key(target, mutex)];
  const uint64_t at = layout_.counted(mutex);
  if (const uint64_t a = word(target, at), b = word(target, at + 8);
      a != pairs.begun || b != pairs.begun)
    fail("what was counted under mutex ", mutex, " of rank ", target, " is ", a, " and ", b,
         ", not ", pairs.begun);
  const uint64_t stamp = layout_.stamped(mutex);
  stamp_read(asks(target, mutex, 0, 0, false), {word(target, stamp), word(target, stamp + 8)});
}

// ---- registers --------------------------------------------------------------------------------

uint64_t Checker::read_begins(uint32_t reader, uint32_t writer, Rank target) {
  Register& r = registers_[key(writer, target)];
  return std::max(r.ended, r.seen[reader]);
}

void Checker::read_ended(uint32_t reader, uint32_t writer, Rank target, uint64_t oldest,
                         std::span<const uint64_t> found) {
  ++checks_;
  Register& r = registers_[key(writer, target)];
  for (const uint64_t value : found)
    if (value < oldest || value > r.begun)
      return fail("thread ", reader, " read ", value, " in the register of thread ", writer,
                  " at rank ", target,
                  value < oldest ? ", older than what was done or seen before: "
                                 : ", which is not written yet: the newest is ",
                  value < oldest ? oldest : r.begun);
  r.seen[reader] = std::max(r.seen[reader], *std::ranges::min_element(found));
}

// ---- refusals ---------------------------------------------------------------------------------

uint64_t Checker::refused_begins(Rank rank, NodeId node) {
  Refusals& r = refusals_[{rank, node}];
  ++r.all;
  r.calls.push_back(++clock_);
  return clock_;
}

void Checker::refused_sent(Rank rank, NodeId node, uint64_t call) {
  Refusals& r = refusals_[{rank, node}];
  if (std::erase(r.calls, call) != 0) r.sent.push_back(++clock_);
}

uint64_t Checker::fence_began(Rank rank, NodeId node) {
  ++refusals_[{rank, node}].fences;
  return ++clock_;
}

// A fence that told of a refusal may have told of any that was sent by then. One that told of none
// has nothing to tell: what was sent before it began was told by another, perhaps by one that is
// about to return.
void Checker::fence_ended(Rank rank, NodeId node, uint64_t began, bool told) {
  Refusals& r = refusals_[{rank, node}];
  --r.fences;
  if (told) {
    if (++r.told > r.all)
      fail("a fence of rank ", rank, " told of a refusal that node ", node, " never made");
    r.sent.clear();
    r.calls.clear();
    return;
  }
  if (r.fences > 0) return;
  for (const uint64_t at : r.sent)
    if (at < began)
      return fail("rank ", rank, " fenced node ", node,
                  " and was not told that its unlock before that was refused");
}

void Checker::finish() {
  for (Rank target = 0; target < static_cast<Rank>(memory_.size()); ++target) {
    for (uint32_t thread = 0; thread < config_.all_threads(); ++thread) {
      applied(thread, target);
      if (const uint64_t count = word(target, layout_.counter(thread));
          count != notified(thread, target))
        fail("rank ", target, " was notified ", count, " times by thread ", thread, ", not ",
             notified(thread, target));
    }
    for (uint32_t thread = 0; thread < config_.all_threads(); ++thread)
      for (uint64_t i = 0; i < layout_.register_words; ++i)
        if (const uint64_t last = word(target, layout_.registers(thread) + i * 8);
            last != registers_[key(thread, target)].begun)
          return fail("word ", i, " of the register of thread ", thread, " at rank ", target,
                      " is ", last, ", not ", registers_[key(thread, target)].begun);
    finish_shared(target);
    for (uint32_t m = 0; m < Layout::mutexes; ++m)
      if (const uint64_t count = word(target, layout_.guarded(m)); count != guarded(target, m))
        fail("the word that mutex ", m, " of rank ", target, " guards is ", count, ", not ",
             guarded(target, m));
    for (uint32_t m = 0; m < Layout::mutexes; ++m) finish_pairs(target, m);
  }
  for (const auto& [mutex, holds] : holders_)
    if (!holds.empty()) return fail("a mutex is held at the end");
  for (const auto& [target, locks] : locks_)
    for (uint32_t m = 0; m < Layout::mutexes; ++m)
      if (const uint64_t left = locks.locks[m].word;
          left != 0 && left != (lock::shared_bit | lock::biased_bit))
        return fail("mutex ", m, " of rank ", target, " is not free at the end: ", left);
}

}  // namespace skerry::sim
