#include "job/node_collectives.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/departure.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"
#include "memory/given.hpp"

namespace skerry::job {
namespace {

// What slices are cut at: whole elements, and whole cache lines if elements fill them.
uint64_t grain_of(uint64_t unit) { return 64 % unit == 0 ? 64 : unit; }

// The slice of a piece that a member combines. Of a piece of at most 2 k grains no slice has more
// than k, if there are two members or more.
struct Slice {
  uint64_t from, end;
  uint64_t bytes() const { return end - from; }
};
Slice slice_of(uint64_t bytes, uint64_t unit, uint32_t member, uint32_t members) {
  const uint64_t grain = grain_of(unit);
  const auto edge = [&](uint64_t m) {
    return m == members ? bytes : (bytes / grain * m + members - 1) / members * grain;
  };
  return {edge(member), edge(member + 1)};
}

}  // namespace

// ---- life -------------------------------------------------------------------------------------

void NodeCollectives::open(std::vector<Flags::Member> members, uint32_t own) {
  flags_.open(group_->job(), std::move(members), own);
  flags_.set_group(*group_);
}

Status NodeCollectives::close() {
  if (board_ == nullptr) return {};
  const Status status = board_->close();
  group_->job().objects().discard(std::exchange(board_, nullptr));
  return status;
}

Status NodeCollectives::prepare(bool again) {
  if (board_ != nullptr || (board_refused_ && !again)) return {};
  const Status made = Segment::alloc(*group_, board_bytes, purpose_group, &board_);
  if (made.code() == Code::no_memory) board_refused_ = true;
  else SKERRY_TRY(made);
  if (board_ != nullptr) group_->forget_segment();  // it is the group's own
  return {};
}

Status NodeCollectives::begin_long() {
  if (group_->is_on_one_node()) SKERRY_TRY(prepare());
  if (board_ != nullptr) return {};
  SKERRY_TRY(next());
  return meet();  // all have read what lies in the places
}

Status NodeCollectives::end_long() {
  if (board_ != nullptr) return {};
  SKERRY_TRY(next());
  return meet();  // all have read the results, which lie in the places
}

std::byte* NodeCollectives::board(uint32_t member) const {
  return board_ != nullptr ? board_->local(flags_.rank_of(member))->base
                           : flags_.all_places(member);
}

// ---- meetings ---------------------------------------------------------------------------------

Status NodeCollectives::check_together() const {
  if (leaver_ == none) return {};
  if (!died_.ok()) return died_;
  return departed(flags_.leaver(leaver_));
}

Status NodeCollectives::await(uint32_t member, bool* has_left) {
  Status status = flags_.await(member, has_left);
  if (!status.ok()) [[unlikely]]
    return fall(std::move(status));
  if (*has_left && is_ended(member)) [[unlikely]]
    return fall_with(member);
  return {};
}

Status NodeCollectives::await(uint32_t member) {
  bool has_left = false;
  SKERRY_TRY(await(member, &has_left));
  if (!has_left) [[likely]]
    return {};
  leaver_ = member;
  // Some may wait for this member alone. It may not have written what it gives to this step.
  flags_.leave(flags_.leaver(member), Flags::Gone::apart);
  return check_together();
}

// A wait for a member has failed. In a group of one node all members fail in the same call then:
// none gets past this member. In one of several nodes the group settles it.
Status NodeCollectives::fall(Status why) {
  const Job& job = group_->job();
  if (job.options().goes_on && group_->is_on_one_node() && job.check_abort().ok()) {
    if (Rank dead = no_rank; note_death(why, &dead)) flags_.leave(dead, Flags::Gone::died);
  }
  return why;
}

// False: it was noted before. *dead: who is told to have died.
bool NodeCollectives::note_death(const Status& why, Rank* dead) {
  if (!died_.ok()) return false;
  died_ = why;
  leaver_ = own();
  *dead = group_->survivors_.first_dead();
  if (*dead == no_rank) *dead = flags_.rank_of(own());
  return true;
}

bool NodeCollectives::is_ended(uint32_t member) const {
  return flags_.why_gone(member) == Flags::Gone::died || group_->survivors_.goes_on();
}

Status NodeCollectives::fall_with(uint32_t member) {
  leaver_ = none;
  const Rank who = flags_.leaver(member);
  if (flags_.why_gone(member) != Flags::Gone::died)
    SKERRY_TRY(group_->job().views_.await_end_of(who));
  return fall(group_->survivors_.death_told(who));
}

// A slower member may be in the last step still. It takes a line that this member left in that step
// for a failure of it, though this member has come out.
void NodeCollectives::give_up(const Status& why) {
  Rank dead = no_rank;
  if (note_death(why, &dead)) flags_.leave_from_next(dead, Flags::Gone::died);
}

Status NodeCollectives::await_all() {
  for (uint32_t m = 0; m < flags_.count(); ++m)
    if (m != own()) SKERRY_TRY(await(m));
  flags_.note_met();
  return {};
}

Status NodeCollectives::meet() {
  if (is_direct()) {
    flags_.post();
    return await_all();
  }
  if (own() == 0) {
    SKERRY_TRY(await_all());
    flags_.post();
    return {};
  }
  flags_.post();
  SKERRY_TRY(await(0));
  flags_.note_met();
  return {};
}

Status NodeCollectives::barrier() {
  SKERRY_TRY(next());
  return meet();
}

Status NodeCollectives::leave() {
  SKERRY_TRY(next());
  const Rank me = flags_.rank_of(own());
  bool apart = false;
  const auto look_at = [&](uint32_t member) -> Status {
    bool has_left = false;
    SKERRY_TRY(await(member, &has_left));
    apart = apart || !has_left || flags_.why_gone(member) != Flags::Gone::together;
    return {};
  };
  const bool waits_first = own() == 0 && !is_direct();
  const auto why = [&] { return apart ? Flags::Gone::apart : Flags::Gone::together; };
  if (!waits_first) flags_.leave(me, why());
  if (own() == 0 || is_direct()) {
    for (uint32_t m = 0; m < flags_.count(); ++m)
      if (m != own()) SKERRY_TRY(look_at(m));
  } else {
    SKERRY_TRY(look_at(0));
  }
  if (waits_first) flags_.leave(me, why());
  if (apart) leaver_ = own();
  return check_together();
}

void NodeCollectives::part_with(Rank leaver) {
  if (leaver_ != none) return;  // it was told
  flags_.leave_from_next(leaver, Flags::Gone::apart);
  leaver_ = own();
}

// ---- of two members, without boards -----------------------------------------------------------

void NodeCollectives::write_own(uint64_t word) {
  copy_bytes(flags_.data(own(), sizeof word), &word, sizeof word);
}

uint64_t NodeCollectives::read_other() const {
  uint64_t word = 0;
  copy_bytes(&word, flags_.data(other(), sizeof word), sizeof word);
  return word;
}

bool NodeCollectives::read_other(void* to, uint64_t bytes) const {
  const Job& job = group_->job();
  const auto index = static_cast<uint32_t>(job.member_of(rank_of(other())));
  return memory::read_process(job.control().member(index).pid, read_other(), to, bytes);
}

// A container may count its processes itself, and another one may have the number of a member: a
// token says whether it is the one.
Status NodeCollectives::try_direct() {
  uint64_t token = 0;
  if (getrandom(&token, sizeof token, 0) != sizeof token) token = 0;  // which nobody takes
  SKERRY_TRY(next());
  write_own(reinterpret_cast<uint64_t>(&token));
  SKERRY_TRY(meet());
  uint64_t seen = 0;
  bool could = !group_->job().is_crowded() && read_other(&seen, sizeof seen);
  SKERRY_TRY(next());
  write_own(seen);
  SKERRY_TRY(meet());
  could = could && token != 0 && read_other() == token;
  direct_ = Direct::yes;
  return end_direct(could, true, &could);
}

Status NodeCollectives::begin_direct(uint64_t bytes, bool* is_direct) {
  *is_direct = false;
  if (bytes < direct_bytes || flags_.count() != 2 || direct_ == Direct::no) return {};
  if (direct_ == Direct::untried) SKERRY_TRY(try_direct());
  *is_direct = direct_ == Direct::yes;
  return {};
}

Status NodeCollectives::end_direct(bool could, bool waits, bool* done) {
  SKERRY_TRY(next());
  write_own(could);
  flags_.post();
  if (waits) {
    SKERRY_TRY(await_all());
    could = could && read_other() != 0;
  }
  if (!could) direct_ = Direct::no;
  *done = could;
  return {};
}

Status NodeCollectives::broadcast_direct(std::byte* buffer, uint64_t bytes, uint32_t root,
                                         bool* done) {
  if (bytes > most_direct_broadcast) return {};
  SKERRY_TRY(begin_direct(bytes, done));
  if (!*done) return {};
  SKERRY_TRY(next());
  if (own() == root) {
    write_own(reinterpret_cast<uint64_t>(buffer));
    flags_.post();
    return end_direct(true, true, done);
  }
  flags_.post();
  SKERRY_TRY(await(root));
  return end_direct(read_other(buffer, bytes), false, done);
}

Status NodeCollectives::reduce_direct(const Reduction& how, std::byte* buffer, uint64_t bytes,
                                      uint32_t root, bool* done) {
  if (bytes > most_direct_reduce) return {};
  SKERRY_TRY(begin_direct(bytes, done));
  if (!*done) return {};
  SKERRY_TRY(next());
  if (own() != root) {
    write_own(reinterpret_cast<uint64_t>(buffer));
    flags_.post();
    return end_direct(true, true, done);
  }
  const std::unique_ptr<std::byte[]> room(new (std::nothrow) std::byte[bytes]);
  flags_.post();
  SKERRY_TRY(await(other()));
  const bool could = room != nullptr && read_other(room.get(), bytes);
  if (could && own() == 0) {
    how.combine(buffer, room.get(), bytes);
  } else if (could) {
    how.combine(room.get(), buffer, bytes);
    copy_bytes(buffer, room.get(), bytes);
  }
  return end_direct(could, false, done);
}

Status NodeCollectives::gather_direct(const std::byte* mine, uint64_t bytes, const Place& place,
                                      bool* done) {
  SKERRY_TRY(begin_direct(bytes, done));
  if (!*done) return {};
  SKERRY_TRY(next());
  write_own(reinterpret_cast<uint64_t>(mine));
  SKERRY_TRY(meet());
  std::memmove(place(own()), mine, bytes);
  return end_direct(read_other(place(other()), bytes), true, done);
}

// ---- broadcast --------------------------------------------------------------------------------

Status NodeCollectives::broadcast(std::byte* buffer, uint64_t bytes, uint32_t root) {
  if (bytes > short_bytes) {
    bool done = false;
    SKERRY_TRY(broadcast_direct(buffer, bytes, root, &done));
    return done ? Status() : broadcast_long(buffer, bytes, root);
  }
  SKERRY_TRY(next(bytes));
  if (own() == root) {
    copy_bytes(flags_.data(own(), bytes), buffer, bytes);
    flags_.post();
    return {};
  }
  flags_.post();
  SKERRY_TRY(await(root));
  copy_bytes(buffer, flags_.data(root, bytes), bytes);
  return {};
}

// The root is at most as many pieces ahead of the others as flags_.next() allows, and as many lie
// in the first part of its board.
Status NodeCollectives::broadcast_long(std::byte* buffer, uint64_t bytes, uint32_t root) {
  SKERRY_TRY(begin_long());
  const uint64_t room = 2 * half() / Flags::places;
  // Four pieces at least, so that the others read one while the root writes the next.
  const uint64_t piece = std::min(room, std::max<uint64_t>(4096, (bytes / 4 + 63) / 64 * 64));
  for (uint64_t from = 0; from < bytes; from += piece) {
    const uint64_t n = std::min(piece, bytes - from);
    SKERRY_TRY(next(short_bytes));  // as many lie on the board as in places
    std::byte* const there = board(root) + flags_.step() % Flags::places * room;
    if (own() == root) copy_bytes(there, buffer + from, n);
    flags_.post();
    if (own() == root) continue;
    SKERRY_TRY(await(root));
    copy_bytes(buffer + from, there, n);
  }
  // The root's board is free for its next collective when all have read the last piece.
  SKERRY_TRY(next());
  flags_.post();
  if (own() == root) SKERRY_TRY(await_all());
  return end_long();
}

// ---- reduce -----------------------------------------------------------------------------------

Status NodeCollectives::reduce(const Reduction& how, std::byte* buffer, uint64_t bytes,
                               const uint32_t* root) {
  if (flags_.count() == 1) {
    how.normalise(buffer, bytes);
    return barrier();
  }
  if (bytes <= short_bytes) return reduce_short(how, buffer, bytes, root);
  bool done = false;
  if (root != nullptr) SKERRY_TRY(reduce_direct(how, buffer, bytes, *root, &done));
  return done ? Status() : reduce_long(how, buffer, bytes, root);
}

// What all gave in this step, in the order of members; `mine` instead of what lies in the own
// place. `out` is none of these.
void NodeCollectives::combine_places(const Reduction& how, const std::byte* mine, std::byte* out,
                                     uint64_t bytes) const {
  const auto of = [&](uint32_t m) { return m == own() ? mine : flags_.data(m, bytes); };
  copy_bytes(out, of(0), bytes);
  for (uint32_t m = 1; m < flags_.count(); ++m) how.combine(out, of(m), bytes);
}

Status NodeCollectives::reduce_short(const Reduction& how, std::byte* buffer, uint64_t bytes,
                                     const uint32_t* root) {
  alignas(64) std::byte sum[short_bytes];
  SKERRY_TRY(next(bytes));
  const auto take_sum = [&] {
    combine_places(how, buffer, sum, bytes);
    copy_bytes(buffer, sum, bytes);
  };
  if (root != nullptr && own() == *root) {
    flags_.post();
    SKERRY_TRY(await_all());
    take_sum();
    return {};
  }
  if (root == nullptr && !is_direct() && own() == 0) {
    SKERRY_TRY(await_all());
    take_sum();
    copy_bytes(flags_.data(0, bytes), buffer, bytes);
    flags_.post();
    return {};
  }
  copy_bytes(flags_.data(own(), bytes), buffer, bytes);
  flags_.post();
  if (root != nullptr) return {};
  if (!is_direct()) {
    SKERRY_TRY(await(0));
    flags_.note_met();
    copy_bytes(buffer, flags_.data(0, bytes), bytes);
    return {};
  }
  SKERRY_TRY(await_all());
  take_sum();
  return {};
}

Status NodeCollectives::reduce_long(const Reduction& how, std::byte* buffer, uint64_t bytes,
                                    const uint32_t* root) {
  SKERRY_TRY(begin_long());
  const uint32_t members = flags_.count();
  const uint64_t unit = how.unit(), two_grains = 2 * grain_of(unit);
  const uint64_t most = half() / two_grains * two_grains;
  const uint64_t pieces = (bytes + most - 1) / most;
  const bool wanted = root == nullptr || own() == *root;
  const auto bytes_of = [&](uint64_t t) { return std::min(most, bytes - t * most); };
  const auto slice = [&](uint64_t t, uint32_t m) {
    return slice_of(bytes_of(t), unit, m, members);
  };
  for (uint64_t t = 0; t <= pieces; ++t) {
    std::byte* const here = buffer + t * most;  // of the piece
    SKERRY_TRY(next());
    if (t < pieces) {
      const Slice mine = slice(t, own());
      copy_bytes(given(own(), t), here, mine.from);
      copy_bytes(given(own(), t) + mine.end, here + mine.end, bytes_of(t) - mine.end);
    }
    SKERRY_TRY(meet());
    if (t < pieces) {
      const Slice mine = slice(t, own());
      const auto of = [&](uint32_t m) {
        return (m == own() ? here : given(m, t)) + mine.from;
      };
      std::byte* const sum = result(own(), t);
      how.combine(sum, of(0), of(1), mine.bytes());
      for (uint32_t m = 2; m < members; ++m) how.combine(sum, of(m), mine.bytes());
      if (wanted) copy_bytes(here + mine.from, sum, mine.bytes());
    }
    if (t > 0 && wanted)
      for (uint32_t i = 1; i < members; ++i) {
        const uint32_t m = (own() + i) % members;
        const Slice theirs = slice(t - 1, m);
        copy_bytes(here - most + theirs.from, result(m, t - 1), theirs.bytes());
      }
  }
  return end_long();
}

// ---- gather -----------------------------------------------------------------------------------

Status NodeCollectives::gather_to(const std::byte* mine, uint64_t bytes, const Place& place) {
  bool done = false;
  SKERRY_TRY(gather_direct(mine, bytes, place, &done));
  if (done) return {};
  return gather(mine, bytes,
                [&](uint32_t member, const std::byte* data, uint64_t from, uint64_t n) {
                  if (n != 0) std::memmove(place(member) + from, data, n);
                });
}

Status NodeCollectives::gather(const std::byte* mine, uint64_t bytes, const Take& take) {
  const auto take_all = [&](auto&& of, uint64_t from, uint64_t n) {
    for (uint32_t m = 0; m < flags_.count(); ++m)
      take(m, m == own() ? mine + from : of(m), from, n);
  };
  if (bytes <= short_bytes) {
    SKERRY_TRY(next(bytes));
    copy_bytes(flags_.data(own(), bytes), mine, bytes);
    SKERRY_TRY(meet());
    take_all([&](uint32_t m) { return flags_.data(m, bytes); }, 0, bytes);
    return {};
  }
  SKERRY_TRY(begin_long());
  uint64_t t = 0;
  for (uint64_t from = 0; from < bytes; from += half(), ++t) {
    const uint64_t n = std::min(half(), bytes - from);
    SKERRY_TRY(next());
    copy_bytes(given(own(), t), mine + from, n);
    SKERRY_TRY(meet());
    take_all([&](uint32_t m) { return given(m, t); }, from, n);
  }
  SKERRY_TRY(next());
  SKERRY_TRY(meet());  // all have read the last piece
  return end_long();
}

}  // namespace skerry::job
