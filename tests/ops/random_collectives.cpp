// Collectives of random kind, size, group and root, one after another, beside one-sided traffic.
// All ranks draw the same numbers, so each knows what every other gives, and looks at every
// element. Those that are begun are waited for some steps later. `--rounds` is how many (400 by
// default, fewer in threads).
#include <list>
#include <random>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

enum Kind {
  barrier,
  broadcast,
  reduce,
  allreduce,
  allreduce_by,
  allgather,
  reduce_scatter,
  alltoall,
  alltoallv,
  scan,
  exscan,
  barrier_nb,
  broadcast_nb,
  allreduce_nb,
  kinds
};

class RandomCalls {
 public:
  RandomCalls(Context& c, skerry_segment* counters) : c_(c), counters_(counters), draw_(c.seed) {
    groups_.push_back(c.world());
    split(c.rank % 2, -c.rank);                    // members not in order of ranks
    split(c.node_of(c.rank), c.rank);              // each on one node
    split(c.rank == 0 && c.size > 1 ? -1 : 0, 0);  // all but one
  }
  ~RandomCalls() {
    while (!begun_.empty()) finish(begun_.begin());
    for (size_t g = 1; g < groups_.size(); ++g)
      if (groups_[g] != nullptr) (void)skerry_group_free(groups_[g]);
  }

  void step(int number) {
    number_ = number;
    look_at_begun();
    skerry_group* const group = groups_[draw_() % groups_.size()];
    const auto kind = static_cast<Kind>(draw_() % kinds);
    const uint64_t count = count_of(draw_(), draw_()), root = draw_();
    const int reduction = static_cast<int>(draw_() % 3);
    // Traffic of its own, which no collective may lose or wait for.
    if (number % 3 == c_.rank % 3) {
      OK(skerry_fetch_add_i64(counters_, (c_.rank + number) % c_.size, 0, 1, nullptr));
      ++added_;
    }
    if (group == nullptr) return;
    members_ = skerry_group_size(group);
    me_ = skerry_group_index(group, c_.rank);
    run(group, kind, count, static_cast<int>(root % static_cast<uint64_t>(members_)), reduction);
  }
  int64_t added() const { return added_; }

 private:
  void split(int color, int key) {
    skerry_group* group = nullptr;
    OK(skerry_group_split(c_.world(), color, key, &group));
    groups_.push_back(group);
  }
  // Elements of 8 bytes: mostly few, around the bounds of the movements, seldom many.
  static uint64_t count_of(uint64_t which, uint64_t more) {
    constexpr uint64_t edges[] = {0,    1,    5,    6,    7,    32,   33,     128,   129,  511,
                                  512,  513,  1024, 1025, 8191, 8192, 8193, 16'383, 16'385};
    if (which % 16 == 0) return 16'384 + more % 60'000;
    if (which % 4 == 0) return more % 9000;
    return which % 4 == 1 ? more % 100 : edges[more % std::size(edges)];
  }
  int64_t value(int member, uint64_t i) const {
    return static_cast<int64_t>((i * 31 + static_cast<uint64_t>(member) * 17 +
                                 static_cast<uint64_t>(number_) * 7) %
                                1000) -
           300;
  }
  std::vector<int64_t> given(uint64_t count) const {
    std::vector<int64_t> values(count);
    for (uint64_t i = 0; i < count; ++i) values[i] = value(me_, i);
    return values;
  }
  // Of the members [0, end), in order; `reduction`: sum, minimum, maximum.
  int64_t combined(int reduction, int end, uint64_t i) const {
    int64_t result = value(0, i);
    for (int m = 1; m < end; ++m) {
      const int64_t x = value(m, i);
      result = reduction == 0 ? result + x : reduction == 1 ? std::min(result, x)
                                                            : std::max(result, x);
    }
    return result;
  }
  void expect(bool right, const char* what, uint64_t i) const {
    if (right) return;
    fail(__FILE__, __LINE__,
         "seed " + std::to_string(c_.seed) + ", step " + std::to_string(number_) + ", " + what +
             ", " + std::to_string(members_) + " members, element " + std::to_string(i) +
             " is wrong");
  }

  void run(skerry_group* group, Kind kind, uint64_t count, int root, int reduction) {
    static constexpr int operations[] = {SKERRY_SUM, SKERRY_MIN, SKERRY_MAX};
    const int operation = operations[reduction], root_rank = skerry_group_rank(group, root);
    const auto all = static_cast<uint64_t>(members_);
    std::vector<int64_t> mine = given(count);
    switch (kind) {
      case barrier: OK(skerry_barrier(group)); break;
      case broadcast:
        OK(skerry_broadcast(group, mine.data(), 8 * count, root_rank));
        for (uint64_t i = 0; i < count; ++i) expect(mine[i] == value(root, i), "broadcast", i);
        break;
      case reduce:
        OK(skerry_reduce(group, SKERRY_INT64, operation, mine.data(), count, root_rank));
        for (uint64_t i = 0; i < count; ++i)
          expect(mine[i] == (me_ == root ? combined(reduction, members_, i) : value(me_, i)),
                 "reduce", i);
        break;
      case allreduce:
        OK(skerry_allreduce(group, SKERRY_INT64, operation, mine.data(), count));
        for (uint64_t i = 0; i < count; ++i)
          expect(mine[i] == combined(reduction, members_, i), "allreduce", i);
        break;
      case allreduce_by: by_function(group, std::move(mine)); break;
      case allgather: {
        count = std::min(count, 100'000 / all);
        std::vector<int64_t> out(count * all);
        OK(skerry_allgather(group, mine.data(), 8 * count, out.data()));
        for (uint64_t i = 0; i < out.size(); ++i)
          expect(out[i] == value(static_cast<int>(i / count), i % count), "allgather", i);
        break;
      }
      case reduce_scatter: {
        count = std::min(count, 100'000 / all);
        mine = given(count * all);
        std::vector<int64_t> out(count);
        OK(skerry_reduce_scatter(group, SKERRY_INT64, operation, mine.data(), out.data(), count));
        const uint64_t first = count * static_cast<uint64_t>(me_);
        for (uint64_t i = 0; i < count; ++i)
          expect(out[i] == combined(reduction, members_, first + i), "reduce_scatter", i);
        break;
      }
      case alltoall: {
        count = std::min(count, 100'000 / all);
        mine = given(count * all);
        std::vector<int64_t> out(count * all);
        OK(skerry_alltoall(group, mine.data(), 8 * count, out.data()));
        const uint64_t first = count * static_cast<uint64_t>(me_);
        for (uint64_t i = 0; i < out.size(); ++i)
          expect(out[i] == value(static_cast<int>(i / count), first + i % count), "alltoall", i);
        break;
      }
      case alltoallv: unequal(group, std::min(count, 100'000 / all)); break;
      case scan:
        OK(skerry_scan(group, SKERRY_INT64, operation, mine.data(), count));
        for (uint64_t i = 0; i < count; ++i)
          expect(mine[i] == combined(reduction, me_ + 1, i), "scan", i);
        break;
      case exscan:
        OK(skerry_exscan(group, SKERRY_INT64, operation, mine.data(), count));
        for (uint64_t i = 0; i < count; ++i)
          expect(mine[i] == (me_ == 0 ? value(0, i) : combined(reduction, me_, i)), "exscan", i);
        break;
      case barrier_nb:
      case broadcast_nb:
      case allreduce_nb: begin(group, kind, std::move(mine), root, reduction); break;
      case kinds: break;
    }
  }

  struct Begun {
    skerry_handle handle = 0;
    int number = 0;
    std::vector<int64_t> values, expected;
  };
  void begin(skerry_group* group, Kind kind, std::vector<int64_t> mine, int root, int reduction) {
    static constexpr int operations[] = {SKERRY_SUM, SKERRY_MIN, SKERRY_MAX};
    Begun& one = begun_.emplace_back();
    one.number = number_;
    if (kind == barrier_nb) {
      OK(skerry_barrier_nb(group, &one.handle));
      return;
    }
    one.values = std::move(mine);
    for (uint64_t i = 0; i < one.values.size(); ++i)
      one.expected.push_back(kind == broadcast_nb ? value(root, i)
                                                  : combined(reduction, members_, i));
    if (kind == broadcast_nb)
      OK(skerry_broadcast_nb(group, one.values.data(), 8 * one.values.size(),
                             skerry_group_rank(group, root), &one.handle));
    else
      OK(skerry_allreduce_nb(group, SKERRY_INT64, operations[reduction], one.values.data(),
                             one.values.size(), &one.handle));
  }
  void finish(std::list<Begun>::iterator one) {
    OK(skerry_wait(c_.job, &one->handle));
    check_and_forget(one);
  }
  void check_and_forget(std::list<Begun>::iterator one) {
    for (uint64_t i = 0; i < one->values.size(); ++i)
      expect(one->values[i] == one->expected[i], "what was begun", i);
    begun_.erase(one);
  }
  // Each rank waits at moments of its own, and not in order.
  void look_at_begun() {
    for (auto one = begun_.begin(); one != begun_.end();) {
      const auto next = std::next(one);
      int done = 0;
      if (number_ - one->number > 5 + c_.rank) finish(one);
      else if ((number_ + c_.rank) % 2 == 0) {
        OK(skerry_test(c_.job, &one->handle, &done));
        if (done != 0) check_and_forget(one);
      }
      one = next;
    }
  }

  // Elements of three words: 24 bytes, which fill no cache line.
  void by_function(skerry_group* group, std::vector<int64_t> values) {
    values.resize(values.size() / 3 * 3);
    const auto sum = [](void*, void* into, const void* from, uint64_t elements) {
      for (uint64_t i = 0; i < 3 * elements; ++i)
        static_cast<int64_t*>(into)[i] += static_cast<const int64_t*>(from)[i];
    };
    OK(skerry_allreduce_by(group, 24, sum, nullptr, values.data(), values.size() / 3));
    for (uint64_t i = 0; i < values.size(); ++i)
      expect(values[i] == combined(0, members_, i), "allreduce_by", i);
  }

  // Member a has count x ((a + 2 b) modulo 3) elements for member b.
  void unequal(skerry_group* group, uint64_t count) {
    const auto between = [&](int a, int b) {
      return count * static_cast<uint64_t>((a + 2 * b) % 3);
    };
    const auto all = static_cast<size_t>(members_);
    std::vector<uint64_t> in_bytes(all), in_at(all), out_bytes(all), out_at(all);
    uint64_t in_end = 0, out_end = 0;
    for (int m = 0; m < members_; ++m) {
      const auto k = static_cast<size_t>(m);
      in_at[k] = 8 * in_end;
      out_at[k] = 8 * out_end;
      in_bytes[k] = 8 * between(me_, m);
      out_bytes[k] = 8 * between(m, me_);
      in_end += between(me_, m);
      out_end += between(m, me_);
    }
    std::vector<int64_t> in(in_end), out(out_end);
    for (int m = 0; m < members_; ++m)
      for (uint64_t i = 0; i < between(me_, m); ++i)
        in[in_at[static_cast<size_t>(m)] / 8 + i] = value(me_, i) + m;
    OK(skerry_alltoallv(group, in.data(), in_bytes.data(), in_at.data(), out.data(),
                        out_bytes.data(), out_at.data()));
    for (int m = 0; m < members_; ++m)
      for (uint64_t i = 0; i < between(m, me_); ++i)
        expect(out[out_at[static_cast<size_t>(m)] / 8 + i] == value(m, i) + me_, "alltoallv", i);
  }

  Context& c_;
  skerry_segment* counters_;
  std::mt19937_64 draw_;
  std::vector<skerry_group*> groups_;  // null: this rank is no member
  std::list<Begun> begun_;
  int number_ = 0, members_ = 0, me_ = 0;
  int64_t added_ = 0;
};

}  // namespace

void run_random_collectives(Context& c) {
  skerry_segment* counters = nullptr;
  OK(skerry_segment_alloc(c.world(), 64, &counters));
  int64_t added = 0;
  {
    RandomCalls calls(c, counters);
    const int steps = c.rounds > 0 ? c.rounds : c.as_threads ? 100 : 400;
    for (int i = 0; i < steps; ++i) calls.step(i);
    added = calls.added();
    OK(skerry_sync(c.world()));
  }
  int64_t there = *static_cast<int64_t*>(skerry_segment_local(counters));
  int64_t sums[2] = {added, there};
  OK(skerry_allreduce(c.world(), SKERRY_INT64, SKERRY_SUM, sums, 2));
  EXPECT_IS(sums[0], sums[1]);
  OK(skerry_segment_free(counters));
}

}  // namespace skerry::test
