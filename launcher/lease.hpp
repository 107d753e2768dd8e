// Who may still be alive on a host that has fallen silent, in a job that goes on without its dead.
// Pure: the time is given.
//
// The agent of a host holds a lease for its ranks. It asks for the next one often (`beat`), and the
// launcher answers each question. An answer lets the lease last for its length from the moment at
// which the *question was sent*. The launcher counts from the moment at which the question arrived,
// which is later, and a quarter of the length more, in which the agent acts. So when it declares
// the host dead, the agent's lease has run out, however long messages take, and the agent has
// stopped the ranks (SIGSTOP): none of them goes on beside those who think it dead. What they sent
// before is refused by the servers (Views).
//
// Stopped ranks are not dead. The launcher itself may have stood still, and declares nobody dead
// whose questions have come meanwhile. Its answer lets them continue. A host that was declared dead
// gets none: its connection is closed, and the agent ends the ranks.
//
// A host whose processes were all stopped has no agent that could act in time. It does when it
// continues, and what its ranks send meanwhile is refused.
//
// The first lease counts from when the agent hears of it, which the launcher cannot know. So it
// declares nobody dead whom it has not heard of since.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>

namespace skerry::launcher {

using LeaseTime = std::chrono::steady_clock::time_point;
using LeaseLength = std::chrono::milliseconds;

// The agent's side.
class Lease {
 public:
  // Length 0: no lease, which always holds. The first one counts from here: the launcher waits for
  // twice the length.
  void begin(LeaseTime now, LeaseLength length) {
    length_ = length;
    until_ = now + length;
    asked_.clear();
  }
  bool holds(LeaseTime now) const { return length_.count() == 0 || now < until_; }
  bool is_held() const { return length_.count() != 0; }
  LeaseLength length() const { return length_; }
  // A question is sent now; its number. Of many without an answer the oldest are forgotten.
  uint32_t ask(LeaseTime now) {
    if (asked_.size() == most_asked) asked_.pop_front();
    asked_.push_back({++last_, now});
    return last_;
  }
  // The launcher has answered question `number`. Answers come in order, if at all; others than to
  // an open question are nothing.
  void answer(uint32_t number) {
    for (; !asked_.empty() && asked_.front().number <= number; asked_.pop_front())
      if (asked_.front().number == number) until_ = std::max(until_, asked_.front().at + length_);
  }
  // When to ask again, or to see that it has run out.
  LeaseLength pause(LeaseTime now) const {
    const auto longest = std::max(LeaseLength(1), length_ / 4);
    if (!holds(now)) return longest;
    return std::clamp(std::chrono::ceil<LeaseLength>(until_ - now), LeaseLength(1), longest);
  }

 private:
  static constexpr size_t most_asked = 64;
  struct Asked {
    uint32_t number;
    LeaseTime at;
  };
  LeaseLength length_{0};
  LeaseTime until_{};
  uint32_t last_ = 0;
  std::deque<Asked> asked_;  // without an answer, oldest first: a few
};

// The launcher's side: what it knows of one host's lease.
class Heard {
 public:
  void begin(LeaseTime now, LeaseLength length) {
    length_ = length;
    last_ = now + length;
    is_heard_ = false;
  }
  void end() { length_ = LeaseLength(0); }
  void beat(LeaseTime now) {
    last_ = std::max(last_, now);
    is_heard_ = true;
  }
  // Nothing could be heard until now, since the launcher itself did not run.
  void excuse(LeaseTime now) { last_ = std::max(last_, now); }
  // Since it began.
  bool is_heard() const { return is_heard_; }
  bool is_watched() const { return length_.count() != 0; }
  // No rank of the host goes on any more, if it was heard of.
  bool has_run_out(LeaseTime now) const {
    return is_watched() && now > last_ + length_ + length_ / 4;
  }

 private:
  LeaseLength length_{0};
  LeaseTime last_{};
  bool is_heard_ = false;
};

}  // namespace skerry::launcher
