// Loops that go on by themselves after a death, in jobs with OnFailure::continues:
//
//   std::vector<double> mine(1000);
//   sk::Steps loop(job, 100, 5);       // 100 steps; before each fifth all is protected
//   loop.protect(std::span(mine));
//   loop.run([&](std::uint64_t step, const sk::Group& group) { ... });
//
// What each member has protected is kept in the memory of its node and in that of a partner, a
// member on another node. After a death the body runs again from the last protected step, in a
// group of those that live, with spares in the places of the dead (`skerry run --spares`).
// docs/going-on.md describes it.
#pragma once

#include <skerry/skerry.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sk {
inline namespace v0 {

// What was protected cannot be brought back.
class LostError : public Error {
 public:
  explicit LostError(const std::string& why) : Error(SKERRY_ERR_PEER_DEAD, why) {}
};

// Bytes of each member of a group, which outlive deaths. Not of several threads at once.
class Protected {
 public:
  // `distance`: partners are on the node so much further in the group; 0: none, then what a node
  // has outlives all its ranks but the leader. On a spare `group` is its world, and it begins with
  // recover(). Not collective.
  explicit Protected(const Job& job, Group group, int distance = 1)
      : job_(&job), group_(std::move(group)), distance_(distance) {}

  const Group& group() const { return group_; }
  // Of the last state; -1: there is none.
  std::int64_t step() const { return step_; }
  // How many members the group had that saved it.
  int places() const { return places_; }
  std::uint64_t bytes() const { return bytes_; }  // of each of them

  // Makes `data`, the same number of bytes on every member, the state to go back to: on all members
  // or, with an error, on none. Only tiles of 4 KiB that changed since the state before the last
  // are sent. Ranks whose host is drained end in it (Job::is_leaving). Collective. Errors:
  // PEER_DEAD, INVALID (different sizes, or no partner), NO_MEMORY.
  void save(std::int64_t step, std::span<const std::byte> data) {
    const std::uint64_t length = data.size();
    for (const std::uint64_t other : group_.allgather(length))
      if (other != length)
        throw Error(SKERRY_ERR_INVALID, "the members protect different numbers of bytes");
    if (!copies_ || copies_->bytes != length) copies_ = std::make_shared<Copies>(*this, length);
    Copies& copies = *copies_;
    const int slot = state_ == copies_ ? 1 - copies.slot : 0;
    agree([&] {
      copies.write(slot, data, std::exchange(copies.is_torn, true));
      job_->fence();
    });
    copies.is_torn = false;
    copies.slot = slot;
    step_ = step;
    ++number_;
    bytes_ = length;
    places_ = group_.size();
    state_ = copies_;
    held_ = {};
    leave_if_drained();
  }

  // After a PEER_DEAD, and on a spare at first: group() is that of those that live, with spares in
  // the places of the dead, and read() has the last state. `timeout_ns` as of Group::refill.
  // Collective over those that live. Errors: LostError, TIMEOUT, NO_MEMORY.
  void recover(std::int64_t timeout_ns = -1) {
    for (;;) {
      group_ = group_.refill(timeout_ns);
      // Of a group in which somebody died: they stay in memory until the job ends.
      for (const auto& each : {copies_, state_})
        if (each) each->is_abandoned = true;
      held_.release();
      copies_.reset();
      try {
        return bring_back();
      } catch (const LostError&) {
        throw;
      } catch (const Error& error) {  // another death
        if (error.code() != SKERRY_ERR_PEER_DEAD) throw;
      }
    }
  }

  // What the member at position `place` of that group had saved. Not collective. Errors: INVALID,
  // PEER_DEAD.
  void read(int place, std::uint64_t offset, std::span<std::byte> to) const {
    if (place < 0 || place >= places_ || offset + to.size() > bytes_)
      throw Error(SKERRY_ERR_INVALID, "no such part of the protected state");
    if (!held_) {
      const Place& own = state_->sources[static_cast<std::size_t>(place)].own;
      return state_->segment.get(own.rank, own.offset + state_->begin() + offset, to);
    }
    const int members = group_.size();
    held_.get(group_.rank(place % members),
              static_cast<std::uint64_t>(place / members) * bytes_ + offset, to);
  }

 private:
  static constexpr std::uint64_t tile = 4096, piece = 1 << 20;

  struct Place {
    int rank = -1;
    std::uint64_t offset = 0;
  };
  struct Source {
    Place own, partner;  // rank -1: there is none
  };

  // Two copies of each member's bytes, in its own slice and in its partner's.
  struct Copies {
    Copies(const Protected& of, std::uint64_t length) : bytes(length) {
      const Group& group = of.group_;
      const auto members = static_cast<std::size_t>(group.size());
      room = (length + 63) / 64 * 64;
      const std::vector<int> partners = of.partners();
      std::vector<std::uint64_t> used(members, 2 * room);
      sources.resize(members);
      for (std::size_t m = 0; m < members; ++m) {
        sources[m].own = {group.rank(static_cast<int>(m)), 0};
        if (partners[m] < 0) continue;
        auto& there = used[static_cast<std::size_t>(partners[m])];
        sources[m].partner = {group.rank(partners[m]), there};
        there += 2 * room;
      }
      me = static_cast<std::size_t>(group.index(of.job_->rank()));
      segment = Segment(group, used[me]);
    }
    Copies(const Copies&) = delete;
    ~Copies() {
      if (is_abandoned) segment.release();
    }
    std::uint64_t begin() const { return static_cast<std::uint64_t>(slot) * room; }
    // Tiles that differ from the copy before the last. Ends before they have arrived.
    void write(int into, std::span<const std::byte> data, bool everything) {
      const std::uint64_t at = static_cast<std::uint64_t>(into) * room;
      std::byte* const mine = segment.local() + at;
      const Place& partner = sources[me].partner;
      for (std::uint64_t from = 0; from < data.size(); from += tile) {
        const std::uint64_t n = std::min<std::uint64_t>(tile, data.size() - from);
        // A state that was broken off may have changed the copy here and not there.
        if (!everything && std::memcmp(mine + from, data.data() + from, n) == 0) continue;
        std::memcpy(mine + from, data.data() + from, n);
        if (partner.rank >= 0)
          segment.put(partner.rank, partner.offset + at + from,
                      std::span<const std::byte>(mine + from, n));
      }
    }
    std::uint64_t bytes, room = 0;
    std::size_t me = 0;
    std::vector<Source> sources;  // of each member
    Segment segment;
    int slot = 0;          // of the last state
    bool is_torn = false;  // the other slot is neither of the states before
    bool is_abandoned = false;
  };

  std::vector<int> partners() const {
    const int members = group_.size();
    std::map<int, std::vector<int>> by_node;
    for (int m = 0; m < members; ++m) by_node[job_->node_of(group_.rank(m))].push_back(m);
    std::vector<int> found(static_cast<std::size_t>(members), -1);
    if (distance_ == 0) return found;
    if (by_node.size() == 1) {
      if (job_->failed().empty())
        throw Error(SKERRY_ERR_INVALID,
                    "no partner: the group is on one node. With distance 0 copies stay on it");
      return found;
    }
    std::vector<const std::vector<int>*> nodes;
    for (const auto& [node, there] : by_node) nodes.push_back(&there);
    const std::size_t step = static_cast<std::size_t>(distance_ - 1) % (nodes.size() - 1) + 1;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      const std::vector<int>& there = *nodes[(at + step) % nodes.size()];
      for (std::size_t i = 0; i < nodes[at]->size(); ++i)
        found[static_cast<std::size_t>((*nodes[at])[i])] = there[i % there.size()];
    }
    return found;
  }

  // work(), and one answer for all. An error of one member is one of all, which wait for it.
  template <class Work>
  void agree(Work&& work) {
    struct Mark {
      std::int64_t status, leaves;
    };
    std::int64_t status = SKERRY_OK;
    std::string text;
    try {
      work();
    } catch (const Error& error) {
      status = error.code();
      text = error.what();
    }
    const std::vector<Mark> marks =
        group_.allgather(Mark{status, static_cast<std::int64_t>(job_->is_leaving())});
    if (status != SKERRY_OK) throw Error(static_cast<int>(status), text);
    leaving_.clear();
    for (std::size_t m = 0; m < marks.size(); ++m) {
      const int rank = group_.rank(static_cast<int>(m));
      if (marks[m].leaves != 0) leaving_.push_back(rank);
      if (marks[m].status == SKERRY_OK) continue;
      throw Error(static_cast<int>(marks[m].status),
                  "rank " + std::to_string(rank) + " refused its part: see its message");
    }
  }

  // Not if all copies of some member would go with the nodes that are left by their leaders. All
  // members find the same.
  void leave_if_drained() {
    if (leaving_.empty() || distance_ == 0 || std::ssize(leaving_) == group_.size()) return;
    const auto goes = [&](const Place& place) {
      return place.rank < 0 || std::ranges::count(leaving_, leader_of(place)) != 0;
    };
    if (std::ranges::any_of(state_->sources, [&](const Source& each) {
          return goes(each.own) && goes(each.partner);
        }))
      return;
    if (std::ranges::count(leaving_, job_->rank()) != 0) {
      std::fflush(nullptr);
      _exit(0);
    }
    throw Error(SKERRY_ERR_PEER_DEAD, "ranks leave, since their host is drained");
  }

  // With whom its memory goes.
  int leader_of(const Place& place) const {
    return job_->node_rank(job_->node_of(place.rank), 0);
  }

  // Nodes that a member knows to be lost, ascending: the same on all. Collective.
  std::vector<int> lost_nodes() const {
    std::vector<std::int32_t> is_lost(static_cast<std::size_t>(job_->nodes()));
    for (const int rank : job_->failed()) {
      const int node = job_->node_of(rank);
      if (job_->node_rank(node, 0) == rank) is_lost[static_cast<std::size_t>(node)] = 1;
    }
    group_.allreduce(std::span(is_lost), Reduction::max);
    std::vector<int> nodes;
    for (std::size_t n = 0; n < is_lost.size(); ++n)
      if (is_lost[n] != 0) nodes.push_back(static_cast<int>(n));
    return nodes;
  }

  // The copy of a place that outlived the lost nodes; rank -1: none did.
  Place living(const Source& source, const std::vector<int>& lost) const {
    const auto lives = [&](const Place& place) {
      return place.rank >= 0 && !std::ranges::binary_search(lost, job_->node_of(place.rank));
    };
    if (lives(source.own)) return source.own;
    return lives(source.partner) ? source.partner : Place();
  }

  void bring_back() {
    struct Has {
      std::int64_t number, step;
      std::uint64_t bytes;
      std::int64_t places;
    };
    const bool has_it = state_ != nullptr;
    const std::vector<Has> all =
        group_.allgather(Has{has_it ? number_ : 0, step_, bytes_, places_});
    const auto last = std::ranges::max_element(all, {}, &Has::number);
    if (last->number == 0) return;  // nothing was saved yet
    std::vector<int> holders;
    for (std::size_t m = 0; m < all.size(); ++m)
      if (all[m].number == last->number) holders.push_back(group_.rank(static_cast<int>(m)));
    const auto members = static_cast<std::int64_t>(all.size());
    const auto rounds = static_cast<std::uint64_t>((last->places + members - 1) / members);
    held_ = Segment(group_, rounds * last->bytes);
    const std::vector<int> lost_of_all = lost_nodes();
    int lost = -1;
    agree([&] {
      if (has_it) lost = give(holders, lost_of_all, *last);
      job_->fence();
    });
    const std::int64_t worst = group_.allreduce<std::int64_t>(lost, Reduction::max);
    if (worst >= 0)
      throw LostError("what the member at position " + std::to_string(worst) +
                      " had protected is lost: its node and its partner's are");
    number_ = last->number;
    step_ = last->step;
    bytes_ = last->bytes;
    places_ = static_cast<int>(last->places);
  }

  // Puts what this rank is to bring to where read() finds it. Returns a place that is lost, or -1.
  template <class Has>
  int give(const std::vector<int>& holders, const std::vector<int>& lost, const Has& last) {
    std::vector<std::byte> buffer(std::min<std::uint64_t>(piece, last.bytes));
    const int members = group_.size();
    for (int place = 0; place < last.places; ++place) {
      const Place from = living(state_->sources[static_cast<std::size_t>(place)], lost);
      if (from.rank < 0) return place;
      const bool holds = std::ranges::count(holders, from.rank) != 0;
      const int giver =
          holds ? from.rank : holders[static_cast<std::size_t>(place) % holders.size()];
      if (giver != job_->rank()) continue;
      const std::uint64_t begin = from.offset + state_->begin();
      const std::uint64_t to = static_cast<std::uint64_t>(place / members) * last.bytes;
      for (std::uint64_t at = 0; at < last.bytes; at += piece) {
        const std::span part(buffer.data(), std::min(piece, last.bytes - at));
        state_->segment.get(from.rank, begin + at, part);
        held_.put(group_.rank(place % members), to + at, std::span<const std::byte>(part));
      }
    }
    return -1;
  }

  const Job* job_;
  Group group_;
  int distance_;
  std::int64_t step_ = -1, number_ = 0;  // of the last state; how many there were
  std::uint64_t bytes_ = 0;
  int places_ = 0;
  std::shared_ptr<Copies> copies_;  // over group_; null: not made yet
  std::shared_ptr<Copies> state_;   // that has the last state; null: this rank has no part in it
  Segment held_;  // the state over group_, as recover() has brought it; none: not since
  std::vector<int> leaving_;  // as of the last agreement
};

// The loop. See above.
class Steps {
 public:
  // On a spare, too. Before each `every`-th step, and after the last, what protect() was given is
  // saved. Not collective; run() is.
  Steps(const Job& job, std::uint64_t steps, std::uint64_t every = 1, int distance = 1)
      : job_(&job), steps_(steps), every_(every), state_(job, job.world(), distance) {}

  // Memory that goes back with the steps. Together as many bytes on every member.
  template <class T>
  Steps& protect(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    parts_.push_back(std::as_writable_bytes(values));
    return *this;
  }
  // For a `divide` of run(): the memory is elsewhere now.
  void protect_nothing() { parts_.clear(); }

  const Protected& state() const { return state_; }
  int recovered() const { return recovered_; }  // how often, so far

  // body(step, group) for each step. A PEER_DEAD in it is not raised. After a death every member
  // has what the member at its position had. If fewer live, divide(state) takes what it needs by
  // state.read(place, ...), for a group of another size; without it that is a LostError.
  template <class Body>
  void run(Body&& body, const std::function<void(const Protected&)>& divide = {}) {
    bool has_died = job_->is_spare() && !has_joined_;
    for (std::uint64_t step = 0;;) {
      try {
        if (has_died) {
          state_.recover();
          has_joined_ = true;
          ++recovered_;
          has_died = false;
          if (state_.step() < 0) throw LostError("a rank died before the first state was complete");
          step = static_cast<std::uint64_t>(state_.step());
          take(divide);
          save(step);  // with partners of the new group
        } else if ((step % every_ == 0 || step == steps_) &&
                   state_.step() != static_cast<std::int64_t>(step)) {
          save(step);
        }
        if (step == steps_) return;
        body(step, state_.group());
        ++step;
      } catch (const LostError&) {
        throw;
      } catch (const Error& error) {
        if (error.code() != SKERRY_ERR_PEER_DEAD) throw;
        has_died = true;
      }
    }
  }

 private:
  void save(std::uint64_t step) {
    packed_.clear();
    for (const auto& part : parts_) packed_.insert(packed_.end(), part.begin(), part.end());
    state_.save(static_cast<std::int64_t>(step), packed_);
  }
  void take(const std::function<void(const Protected&)>& divide) {
    const Group& group = state_.group();
    if (group.size() != state_.places()) {
      if (!divide)
        throw LostError("fewer members live than have protected: give run() a function that "
                        "divides the state among them, or start the job with --spares");
      return divide(state_);
    }
    std::uint64_t at = 0;
    for (const auto& part : parts_) {
      state_.read(group.index(job_->rank()), at, part);
      at += part.size();
    }
  }

  const Job* job_;
  std::uint64_t steps_, every_;
  Protected state_;
  std::vector<std::span<std::byte>> parts_;
  std::vector<std::byte> packed_;  // what is saved, in one piece
  int recovered_ = 0;
  bool has_joined_ = false;  // of a spare: the others, in an earlier run() perhaps
};

}  // namespace v0
}  // namespace sk
