// All protocols' machines behind one type each, for drivers that choose the protocol at run time.
// The words and machines of a protocol: its own header.
#pragma once

#include <span>
#include <variant>

#include "lock/asymmetric.hpp"
#include "lock/cohort.hpp"
#include "lock/migrating.hpp"
#include "lock/machine.hpp"
#include "lock/one_sided.hpp"
#include "lock/protocol_kind.hpp"
#include "lock/queue.hpp"
#include "lock/reader_writer.hpp"
#include "lock/two_sided.hpp"

namespace skerry::lock::machine {

// The protocol has no manager: asking it is a mistake.
class NoManager {
 public:
  Action step(const Event& event, const Config& config, Links links);

 private:
  uint32_t unused_ = 0;
};

using Client = std::variant<TwoSidedClient, OneSidedClient, MigratingClient, QueueClient, CohortClient,
                            AsymmetricClient, ReaderWriterClient>;
using Manager = std::variant<NoManager, TwoSidedManager, MigratingManager>;

Client make_client(ProtocolKind kind, const Self& self);
Manager make_manager(ProtocolKind kind);

inline Action step(Client& client, const Event& event, const Config& config) {
  return std::visit([&](auto& machine) { return machine.step(event, config); }, client);
}
inline Action step(Manager& manager, const Event& event, const Config& config, Links links) {
  return std::visit([&](auto& machine) { return machine.step(event, config, links); }, manager);
}
inline bool in_line(const Client& client) {
  return std::visit([](const auto& machine) { return machine.in_line(); }, client);
}

// The words of a protocol's lock, in the order of Action::word; those of each place are counted
// together. And what a new lock has in them.
std::span<const Word> words_of(ProtocolKind kind);
uint64_t initial_value(ProtocolKind kind, uint8_t word, const Config& config);

}  // namespace skerry::lock::machine
