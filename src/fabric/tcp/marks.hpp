// Marks: how many bytes a socket wakes us for, and the looks that do not rely on being woken.
//
// A low-water mark (SO_RCVLOWAT) lets a socket wake us less often while a long payload comes. Linux
// calls a socket readable below its mark when its receive window is closed. It reads that window
// while another core moves it, so the one look of a level-triggered epoll can miss it. Then both
// ends sleep for ever (seen: 95,232 bytes unread below a mark of 112,788; lab/kernel). So:
//
// 1. A mark is one that the window reaches: then bytes alone make the socket readable.
// 2. What epoll should have told is looked at with poll(2) now and then: first 20 ms after a mark
//    was raised or a sleep was in vain, at last once a second. Without either there is no look, and
//    an idle server sleeps for ever.
//
// What a look finds ready may be told the next moment. It counts as found late only if it is still
// ready at the next look and no event came in between.
#pragma once

#include <functional>

#include "fabric/tcp/endpoints.hpp"

namespace skerry::fabric::tcp {

// Progress side only.
class Marks {
 public:
  explicit Marks(Endpoints& endpoints) : endpoints_(endpoints) {}
  // The rest of a payload that is being placed is worth one wake-up, if it is a long one.
  void wake_for_rest(Endpoint& endpoint);
  void lower(Endpoint& endpoint);

  // How long poll sleeps: until the next look at most, if a mark is raised.
  int64_t until_look_ns(int64_t timeout_ns) const;
  // At the end of dispatch, after all that epoll told. After a sleep in vain it looks at all
  // endpoints, else at those with raised marks, and hands over those that are late.
  void look(bool slept_in_vain, const std::function<void(const epoll_event&)>& handle);
  bool any_raised() const { return !endpoints_.raised.empty(); }
  uint64_t found_late() const { return found_late_; }

 private:
  Endpoints& endpoints_;
  int64_t look_at_ns_ = 0;     // when the next look is due
  int64_t look_pause_ns_ = 0;  // from the last look to it
  uint64_t found_late_ = 0;    // endpoints that a look found ready and no event had told of
};

}  // namespace skerry::fabric::tcp
