// What a connection is worth, by policy. Cap::ask (cap.hpp) asks VictimPolicy::choose for a victim.
#include "connection/core/victim.hpp"

#include <algorithm>
#include <bit>

#include "core/pure/assert.hpp"

namespace skerry::connection {
namespace {

// What an open connection is worth at a logical time.
using Rule = VictimPolicy::Worth (*)(const VictimPolicy::Entry&, uint64_t now);

// The least recently used one goes.
VictimPolicy::Worth lru(const VictimPolicy::Entry& entry, uint64_t) { return {entry.last_used, 0}; }

// The paper's LRU-M: one LRU queue per number of teardowns, the victim is the tail of the lowest
// queue that is not empty. The queues are kept as an order, by teardowns and then by last use:
// using a connection stays one store, and choosing looks at every open one.
VictimPolicy::Worth lru_m(const VictimPolicy::Entry& entry, uint64_t) {
  return {entry.teardowns, entry.last_used};
}

// Evicts the connection whose next use is expected to be farthest away, judged by the interval
// between its last two uses. One idle for less than that interval is expected back when the
// interval is over. One idle for longer has broken its rhythm and is expected to stay away for as
// long again. This recognises partners that come round in a circle wider than the cap (neighbours,
// blocks in order), where least recently used always evicts the wrong one, and a counter that is
// asked regularly.
VictimPolicy::Worth reuse(const VictimPolicy::Entry& entry, uint64_t now) {
  constexpr uint64_t unknown = uint64_t{1} << 40;  // used once: farther away than anything known,
                                                   // the one used longest ago first
  const uint64_t age = now - entry.last_used;
  if (entry.used_before == 0) return {~(unknown + age), entry.last_used};
  const uint64_t interval = entry.last_used - entry.used_before;
  return {~(age < interval ? interval - age : age), entry.last_used};
}

constexpr Rule rules[] = {lru, lru_m, reuse};

class ByRule final : public VictimPolicy {
 public:
  ByRule(uint32_t capacity, Rule rule) : VictimPolicy(capacity), rule_(rule) {}

 private:
  Worth worth(const Entry& entry) const override { return rule_(entry, now()); }

  const Rule rule_;
};

// No policy is best for every program, and a program changes. This one runs the others beside it on
// the same uses, as bookkeeping without connections, counts how often each would have had to open
// one lately, and chooses as the best of them would among what is really open.
class Adaptive final : public VictimPolicy {
 public:
  explicit Adaptive(uint32_t capacity) : VictimPolicy(capacity) {
    for (int i = 0; i < shadows; ++i) shadow_[i] = std::make_unique<ByRule>(capacity, rules[i]);
  }
  uint64_t bytes() const override {
    uint64_t sum = VictimPolicy::bytes() + sizeof(Adaptive) - sizeof(VictimPolicy);
    for (const auto& shadow : shadow_) sum += shadow->bytes();
    return sum;
  }

 private:
  static constexpr int shadows = std::size(rules);
  static constexpr uint64_t fade = 512;  // uses after which an old miss counts about a third

  Worth worth(const Entry& entry) const override { return rules[best_](entry, now()); }
  void at_cap() override {
    cap_ = size();
    best_ = 0;
    for (int i = 1; i < shadows; ++i)
      if (misses_[i] < misses_[best_]) best_ = i;
  }
  void noticed(Partner server) override {
    for (int i = 0; i < shadows; ++i) {
      misses_[i] -= misses_[i] / fade;
      VictimPolicy& shadow = *shadow_[i];
      if (!shadow.is_open(server)) {
        misses_[i] += fade;
        while (shadow.size() >= cap_)
          shadow.closed(*shadow.choose([](Partner) { return false; }), true);
      }
      shadow.opened(server);
    }
  }

  std::unique_ptr<VictimPolicy> shadow_[shadows];
  uint64_t misses_[shadows] = {};
  uint32_t cap_ = capacity();  // open connections when one last had to go; before that nothing has
                               // to be learned
  int best_ = 0;
};

constexpr std::string_view all_names[] = {"lru", "lru_m", "reuse", "adaptive"};

}  // namespace

std::span<const std::string_view> VictimPolicy::names() { return all_names; }

Status VictimPolicy::check_name(std::string_view name) {
  std::string known;
  for (const std::string_view one : names()) {
    if (one == name) return {};
    known += concat(known.empty() ? "" : ", ", one);
  }
  return error(Code::config, "SKERRY_VICTIM=", name,
               ": there is no policy of that name; give one of ", known);
}

std::unique_ptr<VictimPolicy> VictimPolicy::make(std::string_view name, uint32_t capacity) {
  if (name == "adaptive") return std::make_unique<Adaptive>(capacity);
  for (size_t i = 0; i < std::size(rules); ++i)  // named in the same order
    if (name == all_names[i]) return std::make_unique<ByRule>(capacity, rules[i]);
  return nullptr;
}

VictimPolicy::VictimPolicy(uint32_t capacity) : capacity_(capacity) {
  SKERRY_ASSERT(capacity >= 1 && capacity <= (1u << 24), "a cap of connections is at least one");
  entries_.resize(capacity);
  const uint32_t places = std::bit_ceil(std::max(8u, 2 * capacity));
  table_.assign(places, none);
  table_mask_ = places - 1;
  shift_ = static_cast<uint32_t>(32 - std::countr_zero(places));
  const uint32_t past = std::bit_ceil(std::max(least_remembered, remembered_per_place * capacity));
  past_.resize(past);
  set_mask_ = past / ways - 1;
}

uint64_t VictimPolicy::bytes() const {
  return sizeof(*this) + entries_.size() * sizeof(Entry) + table_.size() * sizeof(uint32_t) +
         past_.size() * sizeof(Past);
}

uint32_t VictimPolicy::find(Partner server) const {
  for (uint32_t at = home(server);; at = (at + 1) & table_mask_) {
    const uint32_t index = table_[at];
    if (index == none || entries_[index].server == server) return index;
  }
}

void VictimPolicy::insert(uint32_t index) {
  uint32_t at = home(entries_[index].server);
  while (table_[at] != none) at = (at + 1) & table_mask_;
  table_[at] = index;
}

// Later members of the probe sequence move up, so that no gap hides them: without it searches would
// have to pass tombstones for ever.
void VictimPolicy::erase(Partner server) {
  uint32_t at = home(server);
  while (entries_[table_[at]].server != server) at = (at + 1) & table_mask_;
  for (uint32_t next = (at + 1) & table_mask_; table_[next] != none;
       next = (next + 1) & table_mask_) {
    const uint32_t wants = home(entries_[table_[next]].server);
    if (((next - wants) & table_mask_) < ((next - at) & table_mask_))
      continue;  // its home lies behind the gap: it may stay
    table_[at] = table_[next];
    at = next;
  }
  table_[at] = none;
}

void VictimPolicy::opened(Partner server) {
  SKERRY_ASSERT(server != no_server, "not a server");
  if (is_open(server)) return used(server);
  SKERRY_ASSERT(size_ < capacity_, "more connections open than the victim policy was made for");
  Entry& entry = entries_[size_];
  entry = {server, 0, ++now_, 0};
  for (const Past& past : set_of(server))
    if (past.server == server) {
      entry.teardowns = past.teardowns;
      entry.used_before = past.last_used;
    }
  insert(size_);
  newest_ = size_++;
  noticed(server);
}

void VictimPolicy::use_other(Partner server) {
  const uint32_t index = find(server);
  if (index == none) return;
  Entry& entry = entries_[index];
  entry.used_before = entry.last_used;
  entry.last_used = ++now_;
  newest_ = index;
  noticed(server);
}

void VictimPolicy::closed(Partner server, bool evicted) {
  const uint32_t index = find(server);
  if (index == none) return;
  Entry entry = entries_[index];
  erase(server);
  // The last one takes the free place.
  if (index != --size_) {
    const Partner moved = entries_[size_].server;
    erase(moved);
    entries_[index] = entries_[size_];
    insert(index);
  }
  newest_ = none;
  if (evicted) ++entry.teardowns;
  remember(entry);
  if (entry.teardowns >= most_teardowns) age();
}

void VictimPolicy::remember(const Entry& entry) {
  Past* place = nullptr;
  for (Past& past : set_of(entry.server)) {
    if (past.server == entry.server || past.server == no_server) {
      place = &past;
      break;
    }
    if (!place || past.teardowns < place->teardowns ||
        (past.teardowns == place->teardowns && past.last_used < place->last_used))
      place = &past;
  }
  *place = {entry.server, entry.teardowns, entry.last_used};
}

void VictimPolicy::age() {
  for (uint32_t i = 0; i < size_; ++i) entries_[i].teardowns /= 2;
  for (Past& past : past_) past.teardowns /= 2;
}

}  // namespace skerry::connection
