// The table of a server's connections, against std::map.
#include "core/pure/pointer_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

namespace skerry {
namespace {

struct Named {
  uint64_t key;
};
struct KeyOf {
  uint64_t operator()(const Named* named) const { return named->key; }
};
using Table = PointerTable<Named*, KeyOf>;

TEST(PointerTable, IsTheMapThatItReplacesWhateverComesAndGoes) {
  std::mt19937_64 random(1);
  // Few keys that collide, keys that count up, and any keys.
  for (const uint64_t most : {uint64_t{20}, uint64_t{5000}, UINT64_MAX}) {
    Table table;
    std::map<uint64_t, std::unique_ptr<Named>> expected;
    for (int step = 0; step < 20'000; ++step) {
      const bool grows = step / 4000 % 2 == 0;
      const uint64_t key = most == UINT64_MAX && !expected.empty() && random() % 2 == 0
                               ? expected.begin()->first
                               : random() % most;
      const auto known = expected.find(key);
      ASSERT_EQ(table.find(key), known == expected.end() ? nullptr : known->second.get());
      if (known == expected.end() && (grows || random() % 4 == 0)) {
        Named* const named = (expected[key] = std::make_unique<Named>(key)).get();
        table.insert(named);
      } else if (known != expected.end() && (!grows || random() % 4 == 0)) {
        ASSERT_EQ(table.erase(key), known->second.get());
        expected.erase(known);
      } else if (known == expected.end()) {
        ASSERT_EQ(table.erase(key), nullptr);
      }
      ASSERT_EQ(table.size(), expected.size());
    }
    size_t seen = 0;
    for (Named* const named : table) {
      ++seen;
      ASSERT_EQ(expected.at(named->key).get(), named);
    }
    EXPECT_EQ(seen, expected.size());
    for (const auto& [key, named] : expected) ASSERT_EQ(table.find(key), named.get());
  }
}

TEST(PointerTable, TakesFewBytesOfEachAndGivesThemBack) {
  Table table;
  EXPECT_EQ(table.memory_bytes(), 0u);
  EXPECT_EQ(table.find(1), nullptr);
  std::vector<Named> all;
  for (uint64_t key = 1; key <= 10'000; ++key) all.push_back({key << 7});
  for (Named& named : all) {
    table.insert(&named);
    EXPECT_LE(table.memory_bytes(), 16 * table.size() + 64);
  }
  for (Named& named : all) table.erase(named.key);
  EXPECT_LE(table.memory_bytes(), 16 * sizeof(void*));
  EXPECT_EQ(table.begin(), table.end());
}

}  // namespace
}  // namespace skerry
