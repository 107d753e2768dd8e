// A storm of epochs on windows, whose values are checked:
//   window_storm [--seed N] [--epochs N] [--operations N] [--largest BYTES] [--multiple 0|1]
// Each rank locks, accesses, flushes and unlocks at random, with payloads of one word to `largest`
// bytes, in memory that Skerry allocated and in its own. What must hold:
//   sums, tickets and counts under locks are exact;
//   what a rank put it gets back; a long block is never half an old one;
//   who sees a flag sees the data that were completed before it, and nothing older later.
// Exclusive locks are held alone, shared ones in ascending order: no two ranks wait for each other.
// --multiple 1: the thread level at which a lock is taken at once.
#include <skerry/window.h>

#include <array>
#include <map>
#include <utility>

#include "ops/check.hpp"

using namespace skerry::test;

namespace {

// In words of each member's memory. `own`: of each origin, which no other writes.
constexpr uint64_t sums = 400, ticket_at = 400, cas_at = 408, counted_at = 416, own_at = 512,
                   own_words = 128, data_at = 0, flag_at = 8, ring_at = 16, block_at = 24,
                   block_words = own_words - block_at;

struct Totals {
  std::array<int64_t, sums> added{};
  int64_t tickets = 0, ticket_sum = 0, ticket_squares = 0, counted = 0, cas_won = 0;
};
static_assert(sizeof(Totals) % 8 == 0);

class WindowStorm {
 public:
  WindowStorm(skerry_job* job, uint64_t seed, uint64_t largest)
      : job_(job),
        rank_(skerry_rank(job)),
        size_(skerry_size(job)),
        random_(seed * 1000 + static_cast<uint64_t>(rank_)),
        long_words_(largest / 8),
        long_at_(own_at + own_words * static_cast<uint64_t>(size_)),
        slice_bytes_((long_at_ + 2 + long_words_) * 8) {
    given_.resize(slice_bytes_ / 8);
    OK(skerry_window_allocate(world(), slice_bytes_, 8, &windows_[0]));
    OK(skerry_window_create(world(), given_.data(), slice_bytes_, 8, &windows_[1]));
    for (auto& totals : totals_) totals.resize(static_cast<size_t>(size_));
  }
  ~WindowStorm() {
    for (skerry_window* window : windows_) OK(skerry_window_free(window));
  }
  WindowStorm(const WindowStorm&) = delete;

  void epoch(uint64_t operations) {
    for (uint64_t i = 0; i < operations; ++i) one();
    OK(skerry_barrier(world()));
    for (size_t w = 0; w < windows_.size(); ++w) {
      fences(w);
      posts(w);
      verify(w);
    }
  }

 private:
  skerry_group* world() const { return skerry_world(job_); }
  uint64_t draw(uint64_t below_this) { return below(random_, below_this); }
  uint64_t own(int rank) const { return own_at + own_words * static_cast<uint64_t>(rank); }
  Totals& totals(int target) { return totals_[at_][static_cast<size_t>(target)]; }

  void one() {
    at_ = draw(2);
    w_ = windows_[at_];
    const int target = static_cast<int>(draw(static_cast<uint64_t>(size_)));
    switch (draw(13)) {
      case 0: return add(target);
      case 1: return count(target);
      case 2: return ticket(target);
      case 3: return compare_swap(target);
      case 4: return block(target);
      case 5: return write_long(target);
      case 6: return read_long(target);
      case 7: return all_members();
      case 8: return publish();
      case 9:
      case 10: return observe(target);
      case 11: return with_handles(target);
      case 12: return two_members(target);
    }
  }

  // ---- epochs ----
  // One epoch that reaches `target`, of a kind drawn, in which issue() accesses it.
  template <class Issue>
  void epoch_of(int target, Issue&& issue) {
    switch (draw(5)) {
      case 0: OK(skerry_window_lock(w_, SKERRY_LOCK_EXCLUSIVE, target, 0)); break;
      case 1: OK(skerry_window_lock(w_, SKERRY_LOCK_SHARED, target, SKERRY_NO_CHECK)); break;
      case 2:
      case 3: OK(skerry_window_lock(w_, SKERRY_LOCK_SHARED, target, 0)); break;
      case 4:
        OK(skerry_window_lock_all(w_, draw(2) == 0 ? 0 : SKERRY_NO_CHECK));
        issue();
        OK(skerry_window_unlock_all(w_));
        return;
    }
    issue();
    OK(skerry_window_unlock(w_, target));
  }
  // Inside an epoch: done there.
  void flush(int target) {
    OK(draw(2) == 0 ? skerry_window_flush(w_, target) : skerry_window_flush_all(w_));
  }
  // Inside an epoch: the data are here.
  void arrive(int target) {
    switch (draw(4)) {
      case 0: OK(skerry_window_flush_local(w_, target)); return;
      case 1: OK(skerry_window_flush_local_all(w_)); return;
      default: return flush(target);
    }
  }

  // ---- numbers ----
  void update(int target, std::vector<int64_t>& values) {
    const uint64_t count = values.size(), first = draw(sums - count + 1);
    for (uint64_t i = 0; i < count; ++i) {
      values[i] = static_cast<int64_t>(draw(2001)) - 1000;
      totals(target).added[first + i] += values[i];
    }
    OK(skerry_window_update(w_, target, first, SKERRY_INT64, SKERRY_SUM, values.data(), count));
  }
  void add(int target) {
    std::vector<int64_t> values(draw(5) == 0 ? sums : 1 + draw(8)), more(1 + draw(4));
    epoch_of(target, [&] {
      update(target, values);
      if (draw(3) == 0) flush(target);
      if (draw(3) == 0) update(target, more);
    });
  }

  // Read and written apart: only the lock keeps it right.
  void count(int target) {
    int64_t value = 0;
    OK(skerry_window_lock(w_, SKERRY_LOCK_EXCLUSIVE, target, 0));
    OK(skerry_window_get(w_, target, counted_at, &value, 8));
    arrive(target);
    ++value;
    OK(skerry_window_put(w_, target, counted_at, &value, 8));
    OK(skerry_window_unlock(w_, target));
    ++totals(target).counted;
  }

  // 0, 1, 2, ... are drawn, each once: their sum and the sum of their squares say so.
  void ticket(int target) {
    const int64_t one = 1;
    int64_t drawn = -1;
    epoch_of(target, [&] {
      OK(skerry_window_fetch_update(w_, target, ticket_at, SKERRY_INT64, SKERRY_SUM, &one, &drawn,
                                    1));
    });
    Totals& t = totals(target);
    ++t.tickets;
    t.ticket_sum += drawn;
    t.ticket_squares += drawn * drawn;
  }

  void compare_swap(int target) {
    int64_t now = 0, old = 0;
    epoch_of(target, [&] {
      OK(skerry_window_fetch_update(w_, target, cas_at, SKERRY_INT64, SKERRY_NO_OP, nullptr, &now,
                                    1));
      arrive(target);
      const int64_t next = now + 1;
      OK(skerry_window_compare_swap(w_, target, cas_at, SKERRY_INT64, &now, &next, &old));
    });
    totals(target).cas_won += old == now;
  }

  // ---- blocks ----
  std::vector<int64_t>& shadow(int target) { return shadows_[at_][target]; }

  // A part of this rank's own block, put in one epoch and got back in the same or the next.
  void block(int target) {
    std::vector<int64_t>& known = shadow(target);
    known.resize(block_words);
    const uint64_t words = 1 + draw(block_words), first = draw(block_words - words + 1);
    for (uint64_t i = 0; i < words; ++i) known[first + i] = static_cast<int64_t>(random_());
    std::vector<int64_t> seen(block_words, -1);
    const uint64_t base = own(rank_) + block_at;
    const auto look = [&] {
      OK(skerry_window_get(w_, target, base, seen.data(), block_words * 8));
    };
    const bool at_once = draw(2) == 0;
    epoch_of(target, [&] {
      OK(skerry_window_put(w_, target, base + first, known.data() + first, words * 8));
      if (!at_once) return;
      flush(target);
      look();
    });
    if (!at_once) epoch_of(target, look);
    if (seen != known) wrong("got other words than it put", target);
  }

  // The long block of a member: a stamp, a length, and so many words that are the stamp.
  void write_long(int target) {
    const uint64_t words = 1 + draw(draw(3) == 0 ? long_words_
                                                 : std::min<uint64_t>(long_words_, 40'000));
    const auto stamp = static_cast<int64_t>(random_());
    std::vector<int64_t> block(words + 2, stamp);
    block[1] = static_cast<int64_t>(words);
    OK(skerry_window_lock(w_, SKERRY_LOCK_EXCLUSIVE, target, 0));
    OK(skerry_window_put(w_, target, long_at_, block.data(), block.size() * 8));
    if (draw(2) == 0) {
      flush(target);
      std::vector<int64_t> seen(block.size());
      OK(skerry_window_get(w_, target, long_at_, seen.data(), seen.size() * 8));
      arrive(target);
      if (seen != block) wrong("got another long block than it put", target);
    }
    OK(skerry_window_unlock(w_, target));
  }
  void read_long(int target) {
    std::array<int64_t, 2> head{};
    OK(skerry_window_lock(w_, SKERRY_LOCK_SHARED, target, 0));
    OK(skerry_window_get(w_, target, long_at_, head.data(), 16));
    arrive(target);
    std::vector<int64_t> seen(static_cast<uint64_t>(head[1]), head[0] + 1);
    if (!seen.empty())
      OK(skerry_window_get(w_, target, long_at_ + 2, seen.data(), seen.size() * 8));
    OK(skerry_window_unlock(w_, target));
    for (const int64_t word : seen)
      if (word != head[0]) return wrong("read half a long block", target);
  }

  // ---- several members ----
  void all_members() {
    std::vector<std::vector<int64_t>> values(static_cast<size_t>(size_));
    OK(skerry_window_lock_all(w_, draw(2) == 0 ? 0 : SKERRY_NO_CHECK));
    for (int target = 0; target < size_; ++target) {
      if (draw(3) == 0) continue;
      auto& mine = values[static_cast<size_t>(target)];
      mine.resize(1 + draw(16));
      update(target, mine);
      if (draw(4) == 0) flush(target);
    }
    if (draw(2) == 0) OK(skerry_window_flush_all(w_));
    OK(skerry_window_unlock_all(w_));
  }
  void two_members(int first) {
    std::vector<int64_t> a(1 + draw(8)), b(1 + draw(8));
    const int second = first + 1;
    OK(skerry_window_lock(w_, SKERRY_LOCK_SHARED, first, 0));
    if (draw(2) == 0) update(first, a);
    else a.clear();
    if (second < size_) {
      OK(skerry_window_lock(w_, SKERRY_LOCK_SHARED, second, 0));
      update(second, b);
      OK(skerry_window_unlock(w_, second));
    }
    if (a.empty()) {
      a.resize(2);
      update(first, a);
    }
    OK(skerry_window_unlock(w_, first));
  }

  void with_handles(int target) {
    constexpr size_t most = 6;
    std::array<skerry_handle, most> handles{};
    std::array<std::array<int64_t, block_words>, most> read;
    const std::vector<int64_t> known = shadow(target);
    const size_t count = 1 + draw(most);
    epoch_of(target, [&] {
      for (size_t i = 0; i < count; ++i)
        OK(skerry_window_get_nb(w_, target, own(rank_) + block_at, read[i].data(), block_words * 8,
                                &handles[i]));
      for (size_t i = count; i-- > 0;) OK(skerry_wait(job_, &handles[i]));
    });
    for (size_t i = 0; i < count && !known.empty(); ++i)
      if (std::memcmp(read[i].data(), known.data(), block_words * 8) != 0)
        wrong("got other words than it put, by a handle", target);
  }

  // ---- message passing ----
  // Each writer's data lie at one rank, its flag at another, and grow.
  int data_host(int writer) const { return (writer + 1) % size_; }
  int flag_host(int writer) const { return (writer + 2) % size_; }

  void publish() {
    const int64_t value = ++published_[at_];
    const int data = data_host(rank_), flag = flag_host(rank_);
    epoch_of(data, [&] {
      OK(skerry_window_put(w_, data, own(rank_) + data_at, &value, 8));
      if (draw(2) == 0) flush(data);
    });
    epoch_of(flag, [&] { OK(skerry_window_put(w_, flag, own(rank_) + flag_at, &value, 8)); });
  }
  int64_t look(int host, uint64_t at) {
    int64_t value = -1;
    epoch_of(host, [&] { OK(skerry_window_get(w_, host, at, &value, 8)); });
    return value;
  }
  void observe(int writer) {
    auto& [last_flag, last_data] = observed_[at_][writer];
    const int64_t flag = look(flag_host(writer), own(writer) + flag_at);
    const int64_t data = look(data_host(writer), own(writer) + data_at);
    if (flag < last_flag || data < last_data) wrong("saw a value older than before, of", writer);
    if (data < flag) wrong("saw a flag, and not the data before it, of", writer);
    last_flag = flag;
    last_data = data;
  }

  // ---- with all ----
  int right() const { return (rank_ + 1) % size_; }
  int left() const { return (rank_ + size_ - 1) % size_; }
  int64_t ring_value(int rank) const { return 1000 * rounds_ + rank; }
  void expect_ring(size_t w) {
    const auto* const mine = static_cast<const int64_t*>(skerry_window_local(windows_[w]));
    EXPECT_IS(mine[own(left()) + ring_at], ring_value(left()));
  }
  void fences(size_t w) {
    skerry_window* const window = windows_[w];
    ++rounds_;
    const int64_t value = ring_value(rank_);
    OK(skerry_window_fence(window, SKERRY_NO_PRECEDE));
    OK(skerry_window_put(window, right(), own(rank_) + ring_at, &value, 8));
    OK(skerry_window_fence(window, SKERRY_NO_SUCCEED));
    expect_ring(w);
    OK(skerry_barrier(world()));
  }
  void posts(size_t w) {
    skerry_window* const window = windows_[w];
    ++rounds_;
    const int64_t value = ring_value(rank_);
    const int from = left(), to = right();
    OK(skerry_window_post(window, &from, 1, 0));
    OK(skerry_window_start(window, &to, 1, 0));
    OK(skerry_window_put(window, to, own(rank_) + ring_at, &value, 8));
    OK(skerry_window_complete(window));
    OK(skerry_window_wait(window));
    expect_ring(w);
  }
  void verify(size_t w) {
    Totals mine{};
    for (int target = 0; target < size_; ++target) {
      Totals all = totals_[w][static_cast<size_t>(target)];
      OK(skerry_allreduce(world(), SKERRY_INT64, SKERRY_SUM, &all, sizeof(Totals) / 8));
      if (target == rank_) mine = all;
    }
    const auto* const words = static_cast<const int64_t*>(skerry_window_local(windows_[w]));
    for (uint64_t i = 0; i < sums; ++i) EXPECT_IS(words[i], mine.added[i]);
    const int64_t n = mine.tickets;
    EXPECT_IS(words[ticket_at], n);
    EXPECT_IS(mine.ticket_sum, n * (n - 1) / 2);
    EXPECT_IS(mine.ticket_squares, (n - 1) * n * (2 * n - 1) / 6);
    EXPECT_IS(words[cas_at], mine.cas_won);
    EXPECT_IS(words[counted_at], mine.counted);
    OK(skerry_barrier(world()));  // no rank goes on writing while another still checks
  }

  void wrong(const char* what, int target) const {
    fail(__FILE__, __LINE__,
         "rank " + std::to_string(rank_) + " " + what + " rank " + std::to_string(target) +
             (at_ == 0 ? ", allocated memory" : ", given memory"));
  }

  skerry_job* const job_;
  const int rank_, size_;
  Random random_;
  const uint64_t long_words_, long_at_, slice_bytes_;
  std::vector<int64_t> given_;
  std::array<skerry_window*, 2> windows_{};
  std::array<std::vector<Totals>, 2> totals_;
  std::array<std::map<int, std::vector<int64_t>>, 2> shadows_;  // of the own blocks, by target
  std::array<std::map<int, std::pair<int64_t, int64_t>>, 2> observed_;  // by writer: flag, data
  std::array<int64_t, 2> published_{};
  int64_t rounds_ = 0;
  size_t at_ = 0;               // of w_ in windows_
  skerry_window* w_ = nullptr;  // of the present operation
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1, epochs = 2, operations = 300, largest = 1 << 20, multiple = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 0);
    if (word == "--seed") seed = value;
    else if (word == "--epochs") epochs = value;
    else if (word == "--operations") operations = value;
    else if (word == "--largest") largest = value;
    else if (word == "--multiple") multiple = value;
  }
  skerry_job* job = nullptr;
  skerry_options options{};
  options.size = sizeof options;
  options.thread_level = multiple != 0 ? SKERRY_THREAD_MULTIPLE : SKERRY_THREAD_SINGLE;
  OK(skerry_init(&options, &job));
  const int rank = skerry_rank(job);
  {
    WindowStorm storm(job, seed, largest);
    for (uint64_t done = 0; done < epochs; ++done) storm.epoch(operations);
  }
  OK(skerry_finalize(job));
  if (rank == 0) std::printf("window storm: every value right\n");
  return 0;
}
