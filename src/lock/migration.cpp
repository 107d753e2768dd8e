#include "lock/migration.hpp"

#include <bit>

namespace skerry::lock::machine {

bool shall_migrate(const Config& config, History history) {
  const bool remote = (history & 1) != 0;
  // The requests of the newest one's kind as ones.
  const History same = remote ? history : static_cast<History>(~history);
  switch (config.migration) {
    case Migration::always: return true;
    case Migration::hysteresis: return std::countr_one(same) >= config.in_a_row;
    case Migration::history: return std::popcount(same) > static_cast<int>(history_length / 2);
  }
  return true;
}

}  // namespace skerry::lock::machine
