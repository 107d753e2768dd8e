// The litmus tests of windows (docs/memory-model.md, W1 to W3). Two ranks play, the others only
// lend their memory and sleep. Every way to complete an access, on every path: memory of the own
// node, of another one, and given by the program. Values only grow, so nothing is ever cleared.
#include <skerry/window.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

// What completes a put. The first two happen inside one long lock_all.
enum class Way { flush, flush_all, exclusive, shared, unchecked, all, all_unchecked };
constexpr Way all_ways[] = {Way::flush,     Way::flush_all, Way::exclusive,    Way::shared,
                            Way::unchecked, Way::all,       Way::all_unchecked};
const char* name_of(Way way) {
  switch (way) {
    case Way::flush: return "flush";
    case Way::flush_all: return "flush_all";
    case Way::exclusive: return "unlock of an exclusive lock";
    case Way::shared: return "unlock of a shared lock";
    case Way::unchecked: return "unlock without a lock";
    case Way::all: return "unlock_all";
    case Way::all_unchecked: return "unlock_all without locks";
  }
  return "";
}

// In each member's memory, in words. Variables lie in cache lines of their own.
constexpr uint64_t x_at = 0, y_at = 16, flag_at = 32, data_at = 64, data_words = 20'000,
                   slice_words = data_at + data_words;

class Field {
 public:
  Field(Context& c, bool given) : c_(c), turns_(static_cast<size_t>(c.size)) {
    if (given) {
      given_.resize(slice_words);
      OK(skerry_window_create(c.world(), given_.data(), slice_words * 8, 8, &window_));
    } else {
      OK(skerry_window_allocate(c.world(), slice_words * 8, 8, &window_));
    }
    OK(skerry_segment_alloc(c.world(), static_cast<uint64_t>(c.size + 1) * 8, &meeting_));
  }
  ~Field() {
    OK(skerry_window_free(window_));
    OK(skerry_segment_free(meeting_));
  }
  Field(const Field&) = delete;

  void begin(Way way) {
    way_ = way;
    if (stays_open()) OK(skerry_window_lock_all(window_, way == Way::flush ? 0 : SKERRY_NO_CHECK));
  }
  void end() {
    if (stays_open()) OK(skerry_window_unlock_all(window_));
  }
  // It is done at `host` on return.
  void put(int host, uint64_t at, const int64_t* words, uint64_t count) {
    access(host, [&] { OK(skerry_window_put(window_, host, at, words, count * 8)); });
  }
  void put(int host, uint64_t at, int64_t value) { put(host, at, &value, 1); }
  void get(int host, uint64_t at, int64_t* words, uint64_t count) {
    access(
        host,
        [&] {
          OK(skerry_window_get(window_, host, at, words, count * 8));
          // Completes here alone, so that nothing but the put's own completion orders the two.
          if (stays_open()) OK(skerry_window_flush_local(window_, host));
        },
        false);
  }
  int64_t get(int host, uint64_t at) {
    int64_t value = -1;
    get(host, at, &value, 1);
    return value;
  }

  // Both come here before either goes on.
  void meet(int partner) {
    const int64_t turn = ++turns_[static_cast<size_t>(partner)];
    OK(skerry_put(meeting_, partner, static_cast<uint64_t>(c_.rank) * 8, &turn, 8));
    const auto* const told = static_cast<const int64_t*>(skerry_segment_local(meeting_)) + partner;
    while (__atomic_load_n(told, __ATOMIC_ACQUIRE) < turn) pause();
  }
  // Sleeps for a moment: nobody notifies.
  void pause() {
    (void)skerry_notify_wait(meeting_, static_cast<uint64_t>(c_.size) * 8, 1, 20'000, nullptr);
  }

 private:
  bool stays_open() const { return way_ == Way::flush || way_ == Way::flush_all; }
  template <class Issue>
  void access(int host, Issue&& issue, bool completes = true) {
    switch (way_) {
      case Way::flush:
        issue();
        if (completes) OK(skerry_window_flush(window_, host));
        return;
      case Way::flush_all:
        issue();
        if (completes) OK(skerry_window_flush_all(window_));
        return;
      case Way::exclusive: return locked(host, SKERRY_LOCK_EXCLUSIVE, 0, issue);
      case Way::shared: return locked(host, SKERRY_LOCK_SHARED, 0, issue);
      case Way::unchecked: return locked(host, SKERRY_LOCK_SHARED, SKERRY_NO_CHECK, issue);
      case Way::all: return all_locked(0, issue);
      case Way::all_unchecked: return all_locked(SKERRY_NO_CHECK, issue);
    }
  }
  template <class Issue>
  void locked(int host, int mode, uint32_t promises, Issue& issue) {
    OK(skerry_window_lock(window_, mode, host, promises));
    issue();
    OK(skerry_window_unlock(window_, host));
  }
  template <class Issue>
  void all_locked(uint32_t promises, Issue& issue) {
    OK(skerry_window_lock_all(window_, promises));
    issue();
    OK(skerry_window_unlock_all(window_));
  }

  Context& c_;
  Way way_ = Way::flush;
  skerry_window* window_ = nullptr;
  skerry_segment* meeting_ = nullptr;  // word i: how often rank i has come to meet this one
  std::vector<int64_t> turns_;         // this rank's, by partner
  std::vector<int64_t> given_;
};

// One test: `first` and `second` play, for each of them at(host) memory. `round` grows for ever.
struct Play {
  Context& c;
  Field& field;
  Way way;
  int first, second;
  int64_t& round;

  bool plays() const { return c.rank == first || c.rank == second; }
  int partner() const { return c.rank == first ? second : first; }
  [[noreturn]] void wrong(const char* test, int x_host, int y_host, int64_t at) const {
    fail(__FILE__, __LINE__,
         concat(std::string("litmus ") + test + ", " + name_of(way) + ", ranks", first, second) +
             concat(", memory of", x_host, y_host) + ": in round " + std::to_string(at));
  }
  static std::string concat(std::string text, int a, int b) {
    return text + " " + std::to_string(a) + " and " + std::to_string(b);
  }
  // Some ns, so that the two meet in every way.
  static void dawdle(int looks) {
    for (int i = 0; i < looks; ++i) __asm__ volatile("");
  }
  // Both ranks' results of each round, to all ranks.
  std::array<std::vector<int64_t>, 2> exchange(const std::vector<int64_t>& seen) const {
    std::vector<int64_t> all(seen.size() * static_cast<size_t>(c.size));
    OK(skerry_allgather(c.world(), seen.data(), seen.size() * 8, all.data()));
    const auto of = [&](int rank) {
      const auto begin = all.begin() + static_cast<ptrdiff_t>(seen.size()) * rank;
      return std::vector<int64_t>(begin, begin + static_cast<ptrdiff_t>(seen.size()));
    };
    return {of(first), of(second)};
  }

  // W1: each puts its variable, completes that, and gets the other's. Not both see old values.
  // Who is ahead looks a few times more: so both stay in the same round.
  void store_buffer(int rounds, int most_looks, int x_host, int y_host) const {
    std::vector<int64_t> seen(static_cast<size_t>(rounds));
    const bool is_first = c.rank == first;
    if (plays()) field.begin(way);
    if (plays()) field.meet(partner());
    for (int i = 0; i < rounds && plays(); ++i) {
      const auto look = [&] {
        return is_first ? field.get(y_host, y_at) : field.get(x_host, x_at);
      };
      dawdle(is_first ? i % 200 : 100);
      field.put(is_first ? x_host : y_host, is_first ? x_at : y_at, round + i);
      int64_t value = seen[static_cast<size_t>(i)] = look();
      for (int looks = 0; looks < most_looks && value < round + i; ++looks) value = look();
    }
    if (plays()) field.end();
    const auto [a, b] = exchange(seen);
    for (size_t i = 0; i < seen.size(); ++i)
      if (const int64_t now = round + static_cast<int64_t>(i); a[i] < now && b[i] < now)
        wrong("W1 store buffering", x_host, y_host, now);
    round += rounds;
  }

  // W2: the first puts data, completes that, and puts a flag. The second gets the flag until it
  // sees it, and then the data.
  void message_passing(int rounds, int data_host, int flag_host, uint64_t words) const {
    if (plays()) field.begin(way);
    for (int i = 0; i < rounds && plays(); ++i, ++round) {
      field.meet(partner());
      std::vector<int64_t> data(words, round);
      if (c.rank == first) {
        field.put(data_host, data_at, data.data(), words);
        field.put(flag_host, flag_at, round);
        continue;
      }
      std::ranges::fill(data, -1);
      while (field.get(flag_host, flag_at) < round) field.pause();  // some locks are not fair
      field.get(data_host, data_at, data.data(), words);
      for (const int64_t value : data)
        if (value != round) wrong("W2 message passing", data_host, flag_host, round);
    }
    if (plays()) field.end();
    OK(skerry_allreduce(c.world(), SKERRY_INT64, SKERRY_MAX, &round, 1));
  }

  // W3: each gets the other's variable and then puts its own. Not both see the new values.
  void load_buffer(int rounds, int x_host, int y_host) const {
    std::vector<int64_t> seen(static_cast<size_t>(rounds));
    const bool is_first = c.rank == first;
    if (plays()) field.begin(way);
    for (int i = 0; i < rounds && plays(); ++i) {
      field.meet(partner());
      seen[static_cast<size_t>(i)] = is_first ? field.get(y_host, y_at) : field.get(x_host, x_at);
      field.put(is_first ? x_host : y_host, is_first ? x_at : y_at, round + i);
    }
    if (plays()) field.end();
    const auto [a, b] = exchange(seen);
    for (size_t i = 0; i < seen.size(); ++i)
      if (const int64_t now = round + static_cast<int64_t>(i); a[i] >= now && b[i] >= now)
        wrong("W3 load buffering", x_host, y_host, now);
    round += rounds;
  }
};

void play_all(Context& c, bool given) {
  Field field(c, given);
  const int most_rounds = given ? 500 : 10'000;
  int64_t round = 1;
  const int last = c.size - 1;
  std::vector<std::array<int, 2>> pairs{{0, 1}};
  if (last > 1) pairs.push_back({0, last});
  for (const auto& [first, second] : pairs)
    for (const Way way : all_ways) {
      const Play play{c, field, way, first, second, round};
      // Where a variable of each lies: both in one memory, or in the other's.
      const std::array<int, 2> places[] = {{0, 0}, {last, last}, {second, first}};
      for (const auto& [x_host, y_host] : places) {
        const int node = c.node_of(first);
        const bool one_node = node == c.node_of(second) && node == c.node_of(x_host) &&
                              node == c.node_of(y_host);
        // Only processors that share memory are so fast that it takes many rounds.
        const int few = c.as_threads ? 2 : 5;
        play.store_buffer(one_node && !c.as_threads ? most_rounds : few, one_node ? 50 : 1, x_host,
                          y_host);
        play.load_buffer(few, x_host, y_host);
        play.message_passing(few, x_host, y_host, 1);
        play.message_passing(2, x_host, y_host, 500);
        play.message_passing(1, x_host, y_host, data_words);
      }
    }
  OK(skerry_sync(c.world()));
}

}  // namespace

void run_window_litmus(Context& c) {
  if (c.size == 1) return;
  play_all(c, false);
  play_all(c, true);
}

}  // namespace skerry::test
