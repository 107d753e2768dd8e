#include "job/survivors.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/futex.hpp"
#include "job/bootstrap/control_protocol.hpp"
#include "job/group.hpp"
#include "job/job.hpp"

namespace skerry::job {

// ---- who lives --------------------------------------------------------------------------------

// Of several threads each may write the same.
bool Survivors::look() const {
  const uint64_t deaths = group_->job().views_.deaths();
  if (deaths == 0) [[likely]]
    return false;
  const uint64_t looked = __atomic_load_n(&looked_, __ATOMIC_RELAXED);
  if (looked >> 1 == deaths) return (looked & 1) != 0;
  const bool hurt = first_dead() != no_rank;
  __atomic_store_n(&looked_, deaths << 1 | (hurt ? 1 : 0), __ATOMIC_RELAXED);
  return hurt;
}

bool Survivors::is_broken() const { return !broken_.ok() || group_->node_.has_died(); }

Rank Survivors::first_dead() const {
  return group_->job().views_.first_dead(
      [this](Rank rank) { return group_->index_of(rank) >= 0; });
}

Status Survivors::death() const { return group_->job().views_.death_of(first_dead()); }

Status Survivors::death_told(Rank who) const {
  const Views& views = group_->job().views_;
  if (views.is_dead(who)) return views.death_of(who);
  return error(Code::peer_dead, "rank ", who,
               " died, or has given up a group since a member of it died");
}

bool Survivors::ends_wait_for(Rank member) const {
  if (!goes_on_) return false;
  return group_->is_on_one_node() ? group_->job().views_.is_dead(member) : is_hurt();
}

// ---- one answer for all -----------------------------------------------------------------------

Status Survivors::rooted(Status status) {
  if (!goes_on_ || !status.ok()) return status;
  return group_->node_.barrier();
}

void Survivors::say(const Said& said) const {
  auto* const words = reinterpret_cast<uint64_t*>(group_->area_->own() + Group::said_at);
  __atomic_store_n(&words[1], said.failed, __ATOMIC_RELEASE);
  __atomic_store_n(&words[0], said.entered, __ATOMIC_RELEASE);
}

Status Survivors::read(Rank member, Said* said) const {
  static_assert(sizeof(Said) == 16);
  Segment& area = *group_->area_;
  if (const memory::Region* const here = area.local(member); here != nullptr) {
    const auto* const words = reinterpret_cast<const uint64_t*>(here->base + Group::said_at);
    said->entered = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
    said->failed = __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
    return {};
  }
  origin::Side there, here;
  there.offset = Group::said_at;
  here.base = reinterpret_cast<std::byte*>(said);
  there.bytes = here.bytes = sizeof *said;
  return area.issue(
      origin::Access::get(area.target(member), there, here, origin::Mode::blocking));
}

Status Survivors::give_up(uint64_t call) {
  if (broken_.ok()) {
    broken_ = death();
    say({entered_, call});
  }
  return broken_;
}

Status Survivors::settle_all(Call kind, const std::function<Status()>& once) {
  if (!broken_.ok()) return broken_;
  const uint64_t call = ++calls_;
  // Nobody has come out of this call: this member has not entered it.
  if (is_hurt()) return give_up(call);
  Status first;
  if (kind == Call::brings_data) {
    first = once();
    if (!first.ok()) return is_hurt() && group_->job().check_abort().ok() ? give_up(call) : first;
  }
  entered_ = call;
  say({call, 0});
  Group::Sweep barrier;
  barrier.is_half = true;
  Status met = kind == Call::barrier ? once() : group_->sweep(barrier);
  if (met.ok()) return first;
  SKERRY_TRY(group_->job().check_abort());
  return is_hurt() ? arbitrate(call) : met;
}

namespace {

constexpr uint8_t succeeded = 0, failed = 1;

}  // namespace

// *missing: who has not come yet, unless somebody has given up.
uint8_t Survivors::ask_all(uint64_t call, std::vector<Rank>* missing) const {
  missing->clear();
  for (int32_t i = 0; i < group_->size(); ++i) {
    const Rank member = group_->rank_of(i);
    if (i == group_->index() || group_->job().views_.is_dead(member)) continue;
    Said said{};
    if (const Status done = read(member, &said); !done.ok()) {
      // Its node is being lost. Or it has freed the group's memory: then it came out of this.
      if (done.code() != Code::freed && done.code() != Code::invalid) missing->push_back(member);
      continue;
    }
    if (said.entered >= call) continue;
    if (said.failed != 0 && said.failed <= call) return failed;
    missing->push_back(member);
  }
  return succeeded;
}

// The member had not entered the call. It has not, and never does, if it leaves the job and has not
// said so by then.
Status Survivors::end_if_it_leaves(Rank member, uint64_t call) const {
  Rank leaver = no_rank;
  Said said{};
  // What fails is of a node that is being lost, or of one that has freed the group.
  if (!group_->departure_->look_at(member, true, &leaver).ok() || leaver == no_rank) return {};
  if (!read(member, &said).ok() || said.entered >= call) return {};
  if (said.failed != 0 && said.failed <= call) return {};
  return group_->job().views_.await_end_of(leaver);
}

// This member has entered the call, and does not know whether all did.
Status Survivors::arbitrate(uint64_t call) {
  constexpr int64_t pause_ns = 500'000;
  constexpr uint64_t look_every = 200;
  Job& job = group_->job();
  std::atomic<uint32_t> nobody_wakes{0};
  uint8_t answer = succeeded;
  for (uint64_t round = 1;; ++round) {
    SKERRY_TRY(job.check_abort());
    std::vector<Rank> missing;
    answer = ask_all(call, &missing);
    if (answer == failed || missing.empty()) break;
    (void)futex_wait(&nobody_wakes, 0, pause_ns);
    if (round % look_every == 0)
      for (const Rank member : missing) SKERRY_TRY(end_if_it_leaves(member, call));
  }
  const SegmentId id = group_->area_->id();
  const std::string key = concat("call.", id.owner, ".", id.generation, ".", call);
  SKERRY_TRY(job.views_.decide(key, &answer));
  return answer == succeeded ? Status() : give_up(call);
}

// ---- shrink -----------------------------------------------------------------------------------

namespace {

// `ranks` ascend.
std::vector<Bootstrap::Run> runs_of(std::span<const Rank> ranks) {
  std::vector<Bootstrap::Run> runs;
  for (const Rank rank : ranks) {
    if (!runs.empty() && rank == runs.back().first + runs.back().count) ++runs.back().count;
    else runs.push_back({rank, 1});
  }
  return runs;
}

std::vector<Rank> ranks_of(const News::Met& met) {
  std::vector<Rank> ranks;
  for (const auto& [rank, gave] : met.came) ranks.push_back(rank);
  return ranks;
}

}  // namespace

std::vector<std::byte> Survivors::encode(const Round& round) {
  constexpr size_t head = 3;  // how many runs there are, the meetings, and the size
  std::vector<uint32_t> words = {0, static_cast<uint32_t>(round.meetings), round.wanted};
  for (const Rank rank : round.in_order) {  // runs, in which ranks ascend
    const auto number = static_cast<uint32_t>(rank);
    if (words.size() > head && number == words[words.size() - 2] + words.back()) ++words.back();
    else words.insert(words.end(), {number, 1});
  }
  words[0] = static_cast<uint32_t>((words.size() - head) / 2);
  const auto runs = std::as_bytes(std::span(words)), key = std::as_bytes(std::span(round.key));
  if (runs.size() + key.size() > Bootstrap::most_meeting_bytes) return {};
  std::vector<std::byte> bytes(runs.begin(), runs.end());
  bytes.insert(bytes.end(), key.begin(), key.end());
  return bytes;
}

Status Survivors::decode(std::span<const std::byte> bytes, Round* round) {
  const auto damaged = [] {
    return error(Code::network, "what this spare was told of its group makes no sense");
  };
  FrameReader reader(Frame{.payload = bytes});
  const uint32_t runs = reader.u32();
  round->meetings = reader.u32();
  round->wanted = reader.u32();
  for (uint32_t i = 0; i < runs && reader.ok(); ++i) {
    const uint32_t first = reader.u32(), count = reader.u32();
    for (uint32_t k = 0; k < count; ++k) {
      if (round->in_order.size() > INT32_MAX / 2) return damaged();
      round->in_order.push_back(static_cast<Rank>(first + k));
    }
  }
  const auto key = reader.rest();
  if (!reader.ok()) return damaged();
  round->key.assign(reinterpret_cast<const char*>(key.data()), key.size());
  round->refills = true;
  return {};
}

namespace {

// Those who came: they live. Spares among them take the first places of the dead, others of these
// go. More spares than places come last: an earlier refill had found too few.
void take_in(Survivors::Round* round, const News::Met& met) {
  const std::vector<Rank> living = ranks_of(met);
  std::vector<Rank> before = round->in_order, fresh;
  std::ranges::sort(before);
  std::ranges::set_difference(living, before, std::back_inserter(fresh));
  auto next = fresh.begin();
  for (Rank& place : round->in_order)
    if (!std::ranges::binary_search(living, place)) place = next == fresh.end() ? no_rank : *next++;
  std::erase(round->in_order, no_rank);
  round->in_order.insert(round->in_order.end(), next, fresh.end());
  round->members = living;
}

// Until a group of those that live is there. has_met: this rank knows already who came.
//
// After the meeting that settles who lives, each member waits until nothing of the dead arrives at
// its node any more. One that waits longer than the limit does not come to the gathers that follow.
// So it has the error timeout, and so have the others, which miss it there. No such wait follows
// the last gather, in which a member could fail alone. Who dies after the first meeting is a member
// of this round. A gather that lacks it begins the next one, or it died in the group that is made.
Status make_rounds(Job& job, Survivors::Round round, bool has_met, int64_t timeout_ns,
                   Views& views, Group** made) {
  const auto size = static_cast<int>(round.wanted);
  const auto meet = [&](std::span<const std::byte> mine, int wanted, News::Met* met) {
    const std::string key = concat(round.key, ++round.meetings);
    return views.meet(key, timeout_ns, runs_of(round.members), mine, met, wanted);
  };
  for (;;) {
    // Of one that was told who came, any death may have come after that.
    const uint32_t deaths = has_met ? UINT32_MAX : views.deaths();
    if (!std::exchange(has_met, false)) {
      std::vector<std::byte> told;
      if (round.refills) {
        Survivors::Round next = round;
        ++next.meetings;  // this one
        told = Survivors::encode(next);
        if (told.empty())
          return error(Code::unsupported, "the members of the group are in too many runs of ranks "
                                          "for a spare to be told of them: use shrink");
      }
      News::Met met;
      SKERRY_TRY(meet(told, round.refills ? size : 0, &met));
      take_in(&round, met);
    }
    SKERRY_TRY(views.await_burials(deadline_after(timeout_ns)));
    const std::vector<Rank>& in_order = round.in_order;
    Exchange exchange;
    exchange.position = static_cast<int>(std::ranges::find(in_order, job.rank()) -
                                         in_order.begin());
    exchange.count = static_cast<int>(in_order.size());
    if (exchange.position == exchange.count)
      return error(Code::peer_dead, "this rank was declared dead");
    exchange.gather = [&](std::span<const std::byte> mine, std::vector<std::byte>* all) -> Status {
      News::Met gathered;
      SKERRY_TRY(meet(mine, 0, &gathered));
      // The same answer for all who came.
      if (ranks_of(gathered) != round.members)
        return error(Code::peer_dead, "a member died while the group was made of those that live");
      all->clear();
      for (const Rank rank : in_order) {
        const auto at = static_cast<size_t>(std::ranges::lower_bound(round.members, rank) -
                                            round.members.begin());
        const std::vector<std::byte>& gave = gathered.came[at].second;
        all->insert(all->end(), gave.begin(), gave.end());
      }
      return {};
    };
    const Status status = Group::create(job, in_order, exchange, made);
    if (status.ok()) return {};
    SKERRY_TRY(job.check_abort());
    if (status.code() != Code::peer_dead || views.deaths() == deaths) return status;
    // More have died meanwhile: it goes round again.
  }
}

}  // namespace

int32_t Survivors::spares() const {
  const Views& views = group_->job().views_;
  const auto waiting = static_cast<int32_t>(views.waiting_spares());
  if (waiting == 0 || shrunk_) return 0;
  int32_t places = std::max(static_cast<int32_t>(wanted_), group_->size()) - group_->size();
  for (int32_t i = 0; i < group_->size(); ++i) places += views.is_dead(group_->rank_of(i)) ? 1 : 0;
  return std::min(places, waiting);
}

Status Survivors::open(Job& job, Rank first, int32_t count, Group** group) {
  Round round;
  round.key = concat("world.", first, ".");
  for (Rank rank = first; rank < first + count; ++rank) round.in_order.push_back(rank);
  round.members = round.in_order;
  return make_rounds(job, std::move(round), false, -1, job.views_, group);
}

Status Survivors::make(int64_t timeout_ns, bool refills, Group** made) {
  if (!goes_on_)
    return error(Code::unsupported,
                 "groups shrink in a job that goes on without its dead alone: give skerry_init "
                 "on_failure SKERRY_FAILURE_CONTINUES");
  if (shrunk_)
    return error(Code::invalid, "the group was shrunk already: use the group that came of it");
  Job& job = group_->job();
  // What was on its way to the dead fails here. In a fence of the new group its caller would take
  // that for a death there, and the others would wait for it.
  const Status late = job.engine().fence_all();
  Round round;
  bool has_met = false;
  if (group_ == &job.world() && job.spares_.is_one()) {
    if (!refills)
      return error(Code::invalid,
                   "this rank is a spare, and the group is of itself alone: refill it, to join the "
                   "group that has taken it in");
    if (meetings_ != 0) SKERRY_TRY(job.spares_.wait(job));  // what took it in has failed
    const News::Met& met = job.spares_.taken_in();
    if (met.came.empty())
      return error(Code::peer_dead, "the job is over, and this spare was not needed again");
    SKERRY_TRY(decode(met.came.front().second, &round));
    News::Met living = met;
    std::ranges::sort(living.came);
    take_in(&round, living);
    has_met = true;
  } else {
    // Members that still wait in calls of this group need not wait for this one. (If nobody died,
    // it stays as it is until all have come here.)
    if (is_hurt()) {
      if (group_->is_on_one_node()) group_->node_.give_up(death());
      else (void)give_up(entered_ + 1);
    }
    const SegmentId id = group_->area_->id();
    round.key = concat("shrink.", id.owner, ".", id.generation, ".");
    round.meetings = meetings_;
    round.refills = refills;
    for (int32_t i = 0; i < group_->size(); ++i) round.in_order.push_back(group_->rank_of(i));
    round.members = round.in_order;
    std::ranges::sort(round.members);
    round.wanted = std::max(wanted_, static_cast<uint32_t>(group_->size()));
  }
  // A member whose servers need longer than the limit does not come, so that none goes on without
  // it. The others have a try that failed, and the member has not: it asks under their key when it
  // calls again, and gets their answer. Then all count as many tries.
  if (timeout_ns >= 0) {
    const int64_t until_ns = deadline_after(timeout_ns);
    SKERRY_TRY(job.views_.hear());
    SKERRY_TRY(job.views_.await_burials(until_ns));
  }
  constexpr uint64_t meetings_of_a_try = 1'000'000;  // a later try names its meetings otherwise
  meetings_ += meetings_of_a_try;
  const uint32_t wanted = round.wanted;
  SKERRY_TRY(make_rounds(job, std::move(round), has_met, timeout_ns, job.views_, made));
  shrunk_ = true;
  if (refills) (*made)->survivors_.wanted_ = wanted;
  if (!has_met) {  // that of a spare is of itself alone, and its program may still be at the start
    broken_ = error(Code::invalid, "the group was shrunk: use the group that came of it");
    group_->node_.end(broken_);
  }
  return late.code() == Code::peer_dead ? Status() : late;
}

}  // namespace skerry::job
