#include "lock/machines.hpp"

#include <algorithm>

#include "lock/migrating.hpp"

namespace skerry::lock::machine {

bool has_node_word(const Machines& machines) {
  return std::ranges::any_of(machines.words,
                             [](const Word& word) { return word.place == Place::node; });
}

const Machines& migrating() {
  static constexpr Word words[] = {{"network lock", Place::home, Label::network},
                                   {"mode", Place::home, Label::cpu},
                                   {"CPU lock", Place::home, Label::cpu}};
  static constexpr Machines machines = machines_of<MigratingClient, MigratingManager>({
      .name = "migrating",
      .manager_pauses = true,
      .words = words,
      .initial_value =
          [](uint8_t word, const Config& config) {
            if (word == migrating_words::network) return uint64_t{config.requesters} + 1;
            return uint64_t{word == migrating_words::cpu ? config.requesters : 0};
          },
  });
  return machines;
}

}  // namespace skerry::lock::machine
