// What ranks that go on without the dead settle through the launcher, which alone decides who
// lives. Pure.
//
// A *meeting* brings together those of some ranks that live: each comes with a few bytes, and all
// learn who came and with what. It ends when every living one has come. A death ends the waiting
// for that rank, and what it brought is dropped. If the time limit of the first that came passes,
// the meeting fails: all learn who is missing, those who come later too. So a meeting has one
// outcome, which all get.
//
// A *spare* waits until a meeting takes it in: one whose members want to be of a certain size
// again. Then it is among those who came, and learns of the meeting as they do, and with what the
// first of them brought. A meeting that wants more than wait waits for those that are still on
// their way, at most to its limit. A spare is told that it is not needed when a meeting waits for
// spares alone: the end of the job.
//
// Who comes to the last meeting, the end of the job, and is waited for at another one can never
// come to that: the launcher ends it.
//
// A *decision* is a value under a key that the first who asks proposes. All others get that one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skerry::launcher {

class Meetings {
 public:
  // The last `spares` of all ranks are on their way to wait as spares. The last `late` of these are
  // not there: they are as dead until they arrive.
  explicit Meetings(uint32_t size, uint32_t spares = 0, uint32_t late = 0)
      : dead_(size, false), living_(size - late), last_(spares) {
    std::fill_n(dead_.rbegin(), late, true);
    forget();
  }

  // Ranks first to first + count - 1.
  struct Run {
    uint32_t first, count;
  };
  struct Outcome {
    std::string key;
    std::vector<uint32_t> tell;  // who is to be told, ascending
    // Who came, ascending, and with what; empty if some are missing.
    std::vector<std::pair<uint32_t, std::vector<std::byte>>> came;
    std::vector<uint32_t> missing;  // who lives and had not come when the limit passed
  };
  // The `met` frames that tell of it, alike for all: of ten thousand nodes each has sixteen ranks,
  // most of which gave the same. At least one.
  using Payload = std::shared_ptr<const std::vector<std::byte>>;
  static std::vector<Payload> payloads_of(const Outcome& outcome);
  // `rank` comes to the meeting of `members`, which all that come name alike. *is_first: nobody had
  // come before, so its limit counts from here.
  std::vector<Outcome> come(uint32_t rank, std::string_view key, std::span<const Run> members,
                            std::span<const std::byte> bytes, bool* is_first,
                            uint32_t size = 0);
  // `rank` is a spare from now on, and waits under `key`.
  std::vector<Outcome> wait_as_spare(uint32_t rank, std::string_view key);
  // `rank` waits as a spare, and is not taken in any more: its host is drained.
  void leaves(uint32_t rank) { leaving_.insert(rank); }
  // A late spare is there now, and on its way. What all that live wait for waits for it, too.
  void arrives(uint32_t rank);
  // Meetings that this rank's death completes.
  std::vector<Outcome> died(uint32_t rank);
  // The limit has passed; nothing happens to a meeting that is over.
  std::vector<Outcome> expire(std::string_view key);

  // `rank` has just come to `key`, and was the first. Who has come to `last`, and is waited for at
  // another meeting because of that; ascending.
  std::vector<uint32_t> wanted_elsewhere(std::string_view last, std::string_view key,
                                         uint32_t rank, bool is_first) const;
  // Whether a meeting but `last` waits for this rank.
  bool is_wanted(std::string_view last, uint32_t rank) const;

  uint8_t decide(std::string_view key, uint8_t proposal) {
    return decisions_.try_emplace(std::string(key), proposal).first->second;
  }
  bool is_dead(uint32_t rank) const { return dead_[rank]; }
  bool is_spare(uint32_t rank) const { return spares_.contains(rank); }  // and waits
  size_t waiting_spares() const;  // those that may be taken in
  // Ranks that live and are no spares, nor on their way to be.
  size_t living_at_work() const { return living_ - spares_.size() - coming_.size(); }
  size_t open() const { return open_.size(); }
  // All have left the job: the next one begins anew.
  void forget();

 private:
  struct Meeting {
    std::vector<Run> members;  // ascending, apart from each other
    std::map<uint32_t, std::vector<std::byte>> came;
    size_t waiting = 0;  // members that live and have not come
    uint32_t size = 0;  // as large as this with spares; 0: it wants none
  };
  using Open = std::map<std::string, Meeting, std::less<>>;
  template <class What>
  void for_living(const Meeting& meeting, What&& what) const {
    for (const Run& run : meeting.members)
      for (uint32_t rank = run.first; rank - run.first < run.count && rank < dead_.size(); ++rank)
        if (!dead_[rank]) what(rank);
  }
  static bool is_member(const Meeting& meeting, uint32_t rank);
  static bool misses(const Meeting& meeting, uint32_t rank);  // is a member, and has not come
  bool is_over(const Meeting& meeting) const;
  std::vector<Outcome> end(Open::iterator one);
  std::vector<Outcome> end_those_over();
  Outcome outcome_of(Open::iterator one);
  bool waits_for_spares_alone(const Meeting& meeting) const;
  std::vector<Outcome> dismiss_spares();

  std::vector<bool> dead_;
  size_t living_;
  uint32_t last_;              // how many of all ranks begin as spares
  std::set<uint32_t> coming_;  // of these, those that live and have not waited yet
  std::map<uint32_t, std::string> spares_;  // those that wait, and under which key
  std::set<uint32_t> leaving_;              // of those that have ever waited
  Open open_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> failed_;  // who was missing
  std::map<std::string, uint8_t, std::less<>> decisions_;
};

}  // namespace skerry::launcher
