// What ranks that go on without the dead settle through the launcher, which alone decides who
// lives. Pure.
//
// A *meeting* brings together those of some ranks that live: each comes with a few bytes, and all
// learn who came and with what. It ends when every living one has come. A death ends the waiting
// for that rank, and what it brought is dropped. If the time limit of the first that came passes,
// the meeting fails: all learn who is missing, those who come later too. So a meeting has one
// outcome, which all get.
//
// A *decision* is a value under a key that the first who asks proposes. All others get that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skerry::launcher {

class Meetings {
 public:
  explicit Meetings(uint32_t size) : dead_(size, false) {}

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
  // `rank` comes to the meeting of `members`, which all that come name alike. *is_first: nobody had
  // come before, so its limit counts from here.
  std::vector<Outcome> come(uint32_t rank, std::string_view key, std::span<const Run> members,
                            std::span<const std::byte> bytes, bool* is_first);
  // Meetings that this rank's death completes.
  std::vector<Outcome> died(uint32_t rank);
  // The limit has passed; nothing happens to a meeting that is over.
  std::vector<Outcome> expire(std::string_view key);

  uint8_t decide(std::string_view key, uint8_t proposal) {
    return decisions_.try_emplace(std::string(key), proposal).first->second;
  }
  bool is_dead(uint32_t rank) const { return dead_[rank]; }
  size_t open() const { return open_.size(); }
  // All have left the job: the next one begins anew.
  void forget();

 private:
  struct Meeting {
    std::vector<Run> members;
    std::map<uint32_t, std::vector<std::byte>> came;
  };
  using Open = std::map<std::string, Meeting, std::less<>>;
  template <class What>
  void for_living(const Meeting& meeting, What&& what) const {
    for (const Run& run : meeting.members)
      for (uint32_t rank = run.first; rank - run.first < run.count && rank < dead_.size(); ++rank)
        if (!dead_[rank]) what(rank);
  }
  bool is_complete(const Meeting& meeting) const;
  Outcome end(Open::iterator one);

  std::vector<bool> dead_;
  Open open_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> failed_;  // who was missing
  std::map<std::string, uint8_t, std::less<>> decisions_;
};

}  // namespace skerry::launcher
