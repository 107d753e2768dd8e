// Which way short blocking puts and gets go to one data server: as messages, which its thread
// answers, or by the adapter, past it. Both ways are timed as the program uses them; nothing is
// sent to find out. First come some messages, then some by the adapter, then the quicker way. The
// other one is tried again when a try costs little beside what was spent since. So a server that
// begins to answer slowly is noticed, and one that answers soon again.
//
// Only what goes alone is timed: nothing else is under way there. A put is done at the fence after
// it. One that is not alone between two fences goes as a message: messages travel together. What
// the adapter has no key to goes as a message, too.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace skerry::origin {

class Ways {
 public:
  enum class Way : uint8_t { message, adapter };
  enum class Kind : uint8_t { get, put };

  static constexpr uint32_t first_messages = 16, first_by_adapter = 4;
  // A try of the slower way may cost one part in so many.
  static constexpr uint64_t try_part = 64;
  // So many fences in a row with one put before each: the next one is likely to go alone, too.
  static constexpr uint32_t lone_fences = 2;

  Way next(Kind kind, uint64_t bytes) const {
    if (kind == Kind::put && (lone_ < lone_fences || puts_ > 0)) return Way::message;
    return times_of(kind, bytes).next();
  }
  void got(uint64_t bytes, Way way, int64_t ns) { times_of(Kind::get, bytes).took(way, ns); }
  // A put or update was issued. Not alone: something else was under way.
  void issued_put() { puts_ = std::min(puts_ + 1u, 2u); }
  // It was alone, and its call took this time.
  void put_alone(uint64_t bytes, Way way, int64_t ns) { last_ = {bytes, way, ns}; }
  // A fence waited for `ns`: all puts before it are remote done.
  void fenced(int64_t ns) {
    if (puts_ == 0) return;
    const bool is_lone = puts_ == 1 && last_.ns >= 0;
    if (is_lone) times_of(Kind::put, last_.bytes).took(last_.way, last_.ns + ns);
    lone_ = is_lone ? std::min(lone_ + 1u, lone_fences) : 0;
    puts_ = 0;
    last_.ns = -1;
  }

 private:
  // Of one kind and size. A time is the shortest one lately: longer ones raise it slowly, for one
  // of them may be chance.
  class Times {
   public:
    Way next() const {
      if (count_[0] < first_messages) return Way::message;
      if (count_[1] < first_by_adapter) return Way::adapter;
      const Way other = quicker_ == Way::adapter ? Way::message : Way::adapter;
      return spent_ns_ / try_part >= last_ns_[index(other)] ? other : quicker_;
    }
    void took(Way way, int64_t ns) {
      const size_t i = index(way);
      const auto now_ns = static_cast<uint64_t>(std::max<int64_t>(ns, 1));
      const bool is_first = count_[i] == 0;
      count_[i] = std::min(count_[i] + 1, first_messages);
      ns_[i] = is_first || now_ns < ns_[i] ? now_ns : ns_[i] + (now_ns - ns_[i]) / 8;
      last_ns_[i] = now_ns;
      spent_ns_ = way == quicker_ ? spent_ns_ + now_ns : 0;
      const Way before = quicker_;
      quicker_ = count_[1] > 0 && ns_[1] < ns_[0] ? Way::adapter : Way::message;
      if (quicker_ != before) spent_ns_ = 0;
    }

   private:
    static size_t index(Way way) { return static_cast<size_t>(way); }
    std::array<uint64_t, 2> ns_{}, last_ns_{};  // by way
    std::array<uint32_t, 2> count_{};           // no further than first_messages
    uint64_t spent_ns_ = 0;  // by the quicker way, since the other one was tried
    Way quicker_ = Way::message;
  };

  // Up to 64 bytes, up to 1 KiB, longer.
  static size_t size_class(uint64_t bytes) { return bytes <= 64 ? 0 : bytes <= 1024 ? 1 : 2; }
  Times& times_of(Kind kind, uint64_t bytes) {
    return times_[static_cast<size_t>(kind)][size_class(bytes)];
  }
  const Times& times_of(Kind kind, uint64_t bytes) const {
    return times_[static_cast<size_t>(kind)][size_class(bytes)];
  }

  struct Last {
    uint64_t bytes = 0;
    Way way = Way::message;
    int64_t ns = -1;  // negative: none
  };
  std::array<std::array<Times, 3>, 2> times_;
  Last last_;             // the put since the last fence, if it went alone
  uint32_t puts_ = 0;     // since then; 2: more than one
  uint32_t lone_ = 0;     // fences in a row with one put before each
};

}  // namespace skerry::origin
