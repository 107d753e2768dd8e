// Groups, segments, mutexes and windows that come and go in random overlapping order, used by
// one-sided traffic in between. All ranks draw the same numbers, so each knows what every other one
// did, and what its memory must hold.
#include <skerry/window.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "ops/check.hpp"

namespace skerry::test {

namespace {

struct Team {
  std::vector<int> members;       // ranks, by position
  skerry_group* group = nullptr;  // null: this rank is no member
  int objects = 0;
};

// Memory with one counter in each member's first 8 bytes, or locks with nothing to count.
struct Object {
  Team* team = nullptr;
  std::vector<uint64_t> bytes;    // by position
  std::vector<int64_t> expected;  // likewise
  skerry_segment* segment = nullptr;
  skerry_window* window = nullptr;
  skerry_mutexes* mutexes = nullptr;
  enum class Kind : uint8_t { segment, window, mutexes } kind = Kind::segment;
  uint64_t total() const { return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}); }
};

class Makers {
 public:
  // `most_bytes`: of what lives, of all ranks together.
  Makers(Context& context, uint64_t most_bytes)
      : c_(context), random_(context.seed), most_bytes_(most_bytes) {
    auto world = std::make_unique<Team>();
    for (int r = 0; r < c_.size; ++r) world->members.push_back(r);
    world->group = c_.world();
    teams_.push_back(std::move(world));
  }

  void step() {
    const uint64_t what = below(random_, 100);
    if (what < 8) split();
    else if (what < 14) free_team();
    else if (what < 45) make();
    else if (what < 70) use();
    else free_object();
  }

  void end() {
    while (!objects_.empty()) free_object();
    while (teams_.size() > 1) free_team();
  }

 private:
  static constexpr size_t most_teams = 6, most_objects = 12;

  void split() {
    Team& parent = *teams_[below(random_, teams_.size())];
    // The same splits come again and again, and others between them.
    Random numbers(chance(random_, 70) ? below(random_, 3) : random_());
    std::vector<std::pair<int, int>> wishes;  // color, key: by position
    for (size_t i = 0; i < parent.members.size(); ++i)
      wishes.emplace_back(std::min(static_cast<int>(below(numbers, 4)) - 1, 1),
                          static_cast<int>(below(numbers, 3)));
    if (teams_.size() + 2 > most_teams) return;
    skerry_group* group = nullptr;
    int mine = -1;
    if (parent.group != nullptr) {
      mine = wishes[static_cast<size_t>(skerry_group_index(parent.group, c_.rank))].first;
      const int key = wishes[static_cast<size_t>(skerry_group_index(parent.group, c_.rank))].second;
      OK(skerry_group_split(parent.group, mine, key, &group));
    }
    for (int color = 0; color < 2; ++color) {
      std::vector<std::pair<int, int>> chosen;  // key, rank
      for (size_t i = 0; i < wishes.size(); ++i)
        if (wishes[i].first == color) chosen.emplace_back(wishes[i].second, parent.members[i]);
      if (chosen.empty()) continue;
      std::ranges::sort(chosen);
      auto team = std::make_unique<Team>();
      for (const auto& [key, rank] : chosen) team->members.push_back(rank);
      if (mine == color) team->group = group;
      if (team->group != nullptr)
        for (size_t i = 0; i < team->members.size(); ++i)
          EXPECT_IS(skerry_group_rank(team->group, static_cast<int>(i)), team->members[i]);
      teams_.push_back(std::move(team));
    }
  }

  void free_team() {
    const size_t chosen = below(random_, teams_.size());
    if (chosen == 0 || teams_[chosen]->objects > 0) return;
    if (teams_[chosen]->group != nullptr) OK(skerry_group_free(teams_[chosen]->group));
    teams_.erase(teams_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }

  uint64_t some_bytes() {
    constexpr uint64_t usual[] = {8, 64, 1000, 4096, 10'000, 70'000, 1 << 20, 3'000'000};
    return chance(random_, 80) ? usual[below(random_, std::size(usual))]
                               : 8 + below(random_, 200'000);
  }

  void make() {
    Object made;
    Team& team = *teams_[below(random_, teams_.size())];
    made.team = &team;
    made.kind = static_cast<Object::Kind>(below(random_, 3));
    const uint64_t bytes = some_bytes();
    const bool is_odd = made.kind != Object::Kind::mutexes && chance(random_, 30);
    for (size_t i = 0; i < team.members.size(); ++i)
      made.bytes.push_back(!is_odd ? bytes : chance(random_, 50) ? 8 : some_bytes());
    if (made.kind == Object::Kind::mutexes) std::ranges::fill(made.bytes, 1 + below(random_, 10));
    made.expected.assign(team.members.size(), 0);
    uint64_t live = made.total();
    for (const Object& object : objects_) live += object.total();
    if (objects_.size() == most_objects || live > most_bytes_) return;
    if (team.group != nullptr) allocate(made);
    ++team.objects;
    objects_.push_back(std::move(made));
  }

  void allocate(Object& made) {
    skerry_group* const group = made.team->group;
    const auto me = static_cast<size_t>(skerry_group_index(group, c_.rank));
    const uint64_t bytes = made.bytes[me];
    void* own = nullptr;
    switch (made.kind) {
      case Object::Kind::mutexes:
        OK(skerry_mutexes_create(group, static_cast<uint32_t>(bytes), &made.mutexes));
        return;
      case Object::Kind::segment:
        OK(skerry_segment_alloc(group, bytes, &made.segment));
        own = skerry_segment_local(made.segment);
        for (size_t i = 0; i < made.bytes.size(); ++i)
          EXPECT_IS(skerry_segment_bytes(made.segment, made.team->members[i]), made.bytes[i]);
        break;
      case Object::Kind::window:
        OK(skerry_window_allocate(group, bytes, 1, &made.window));
        own = skerry_window_local(made.window);
        break;
    }
    // Whatever was here before, it is zero now; what follows is for the next one to find, if it is
    // not. The first 8 bytes are the others', who may be using them.
    const auto* const memory = static_cast<unsigned char*>(own);
    for (uint64_t at = 8; at < bytes; at += 997) EXPECT(memory[at] == 0);
    if (bytes > 8) std::memset(static_cast<unsigned char*>(own) + 8, 0xee, bytes - 8);
  }

  // Every member adds to the counter of one of them, or locks and unlocks there.
  void use() {
    if (objects_.empty()) return;
    Object& object = objects_[below(random_, objects_.size())];
    const size_t target = below(random_, object.team->members.size());
    const auto value = static_cast<int64_t>(below(random_, 1000));
    object.expected[target] += value * static_cast<int64_t>(object.team->members.size());
    if (object.team->group == nullptr) return;
    const int rank = object.team->members[target];
    switch (object.kind) {
      case Object::Kind::mutexes:
        OK(skerry_mutex_lock(object.mutexes, rank, 0));
        OK(skerry_mutex_unlock(object.mutexes, rank, 0));
        return;
      case Object::Kind::segment:
        if (value % 2 == 0) OK(skerry_fetch_add_i64(object.segment, rank, 0, value, nullptr));
        else OK(skerry_acc(object.segment, rank, 0, SKERRY_INT64, nullptr, &value, 1));
        return;
      case Object::Kind::window:
        OK(skerry_window_lock(object.window, SKERRY_LOCK_SHARED, rank, 0));
        OK(skerry_window_update(object.window, rank, 0, SKERRY_INT64, SKERRY_SUM, &value, 1));
        OK(skerry_window_unlock(object.window, rank));
        return;
    }
  }

  void free_object() {
    if (objects_.empty()) return;
    const size_t chosen = below(random_, objects_.size());
    Object& object = objects_[chosen];
    if (object.team->group != nullptr) give_back(object);
    --object.team->objects;
    objects_.erase(objects_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }

  void give_back(Object& object) {
    skerry_group* const group = object.team->group;
    const auto me = static_cast<size_t>(skerry_group_index(group, c_.rank));
    OK(skerry_sync(group));
    int64_t found = 0;
    if (object.kind == Object::Kind::segment)
      std::memcpy(&found, skerry_segment_local(object.segment), sizeof found);
    if (object.kind == Object::Kind::window)
      std::memcpy(&found, skerry_window_local(object.window), sizeof found);
    if (object.kind != Object::Kind::mutexes) EXPECT_IS(found, object.expected[me]);
    switch (object.kind) {
      case Object::Kind::mutexes: OK(skerry_mutexes_free(object.mutexes)); return;
      case Object::Kind::segment: OK(skerry_segment_free(object.segment)); return;
      case Object::Kind::window: OK(skerry_window_free(object.window)); return;
    }
  }

  Context& c_;
  Random random_;
  const uint64_t most_bytes_;
  std::vector<std::unique_ptr<Team>> teams_;  // the world comes first
  std::vector<Object> objects_;
};

}  // namespace

void run_makers(Context& c) {
  constexpr uint64_t most_bytes = uint64_t{48} << 20;
  const int steps = c.rounds > 0 ? c.rounds : c.as_threads ? 150 : 600;
  Makers makers(c, most_bytes);
  for (int i = 0; i < steps; ++i) makers.step();
  makers.end();
  OK(skerry_sync(c.world()));
  const Counted counted(c.job);
  if (steps >= 500) EXPECT(counted["segments_revived"] > 0);
}

}  // namespace skerry::test
