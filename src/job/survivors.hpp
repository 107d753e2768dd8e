// Collectives of a group whose members die, in a job that goes on without its dead: the same answer
// on all members that live. docs/design/0058-going-on-without-the-dead.md has the reasons.
//
// On one node shared memory decides. A member that died has posted a step or never will, and all
// who wait for it see the same (flags.hpp). Nothing here is needed, but that calls in which only
// some wait for all end in a barrier (rooted).
//
// Between nodes a call has two halves. In the first, data goes where it belongs; any member that
// hears of a death meanwhile gives the call up, and says so in its area. The second is a barrier
// that a member enters, and says so, when it has all of the first. Who comes out of it knows that
// all have their data: the call has succeeded. Who hears of a death inside cannot know whether
// others came out. So it reads what all members that live have said. If all have entered, nobody
// gave up, and the call has succeeded. If one gave up, nobody came out, and it has failed. Members
// that ask at different moments may see different members alive. The launcher keeps the first
// answer for all (Views::decide).
//
// A job that does not go on asks goes_on() and no more.
#pragma once

#include <cstdint>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

class Group;
class Job;

class Survivors {
 public:
  Survivors(Group& group, bool goes_on) : group_(&group), goes_on_(goes_on) {}
  void set_group(Group& group) { group_ = &group; }  // that has moved to where it stays
  bool goes_on() const { return goes_on_; }

  // A member has died, as far as this rank has heard. Any thread.
  bool is_hurt() const { return goes_on_ && look(); }
  // A collective has told this member so, or the group was shrunk: no call works any more.
  bool is_broken() const;
  Rank first_dead() const;  // no_rank: none
  // peer_dead, naming a member and its end. Of a group that is hurt.
  Status death() const;
  // The same of a member that another one says died, or has given the group up.
  Status death_told(Rank who) const;
  // Will the member of this node never post what it has not posted yet?
  bool ends_wait_for(Rank member) const;
  // After a failure of this rank's own requests, do the others wait for it in vain?
  bool ends_before(const Status& own) const {
    return !goes_on_ && (own.code() == Code::peer_dead || own.code() == Code::network);
  }
  // The same when the collective is over, whose answer may be in `status`.
  bool ends_after(const Status& status) const {
    return ends_before(status) || (!status.ok() && is_broken());
  }

  enum class Call : uint8_t { barrier, brings_data };
  // Of a group on several nodes: once(), and the same answer of it on all members that live.
  template <class Once>
  Status settle(Call call, Once&& once) {
    return goes_on_ ? settle_all(call, once) : once();
  }
  // Of a group on one node: a call in which only some wait for all becomes one in which all do.
  Status rooted(Status status);
  // A group of the members that live. Collective over those: others that die meanwhile are left
  // out. The old group is of no use afterwards. Errors: unsupported (the job does not go on),
  // timeout (names who has not come), no_memory.
  Status shrink(int64_t timeout_ns, Group** shrunk) { return make(timeout_ns, false, shrunk); }
  // The same with spares in the places of the dead, as long as there are any. If there were too few
  // in an earlier refill, later ones take those places, too. On a spare, of its world: it joins the
  // group that has taken it in.
  Status refill(int64_t timeout_ns, Group** full) { return make(timeout_ns, true, full); }
  // How many spares a refill would take in now, as far as this rank has heard, in a job to which
  // hosts may be added.
  int32_t spares() const;
  // The group of ranks first to first + count - 1, which meet at the launcher. Collective over
  // them.
  static Status open(Job& job, Rank first, int32_t count, Group** group);

  // How far those that live have come with a group that is made of them. Alike on all.
  struct Round {
    std::string key;             // of meetings: this, and a number
    uint64_t meetings = 0;       // so far
    std::vector<Rank> in_order;  // the members to be; of those that have died, the places
    std::vector<Rank> members;   // who meets; ascending
    bool refills = false;
    uint32_t wanted = 0;  // if it refills: members that it has with enough spares
  };
  // As a spare is told of it; empty: too long.
  static std::vector<std::byte> encode(const Round& round);
  static Status decode(std::span<const std::byte> bytes, Round* round);

  // What a member has said of its calls, in its area.
  struct Said {
    uint64_t entered;  // the last call all of whose results it has, or needs none
    uint64_t failed;   // the call in which it gave up; 0: it has not
  };

 private:
  bool look() const;
  Status make(int64_t timeout_ns, bool refills, Group** made);
  Status settle_all(Call call, const std::function<Status()>& once);
  Status give_up(uint64_t call);
  Status arbitrate(uint64_t call);
  Status end_if_it_leaves(Rank member, uint64_t call) const;
  uint8_t ask_all(uint64_t call, std::vector<Rank>* missing) const;
  Status read(Rank member, Said* said) const;
  void say(const Said& said) const;

  Group* group_;
  bool goes_on_;
  bool shrunk_ = false;
  uint32_t wanted_ = 0;          // of the refill that made the group; 0: another call did
  uint64_t calls_ = 0;           // counted alike on all members
  uint64_t entered_ = 0;         // as of Said
  uint64_t meetings_ = 0;        // of shrink, so far
  mutable uint64_t looked_ = 0;  // deaths of the job that were looked at << 1 | is hurt
  Status broken_;                // not ok: what every later collective answers
};

}  // namespace skerry::job
