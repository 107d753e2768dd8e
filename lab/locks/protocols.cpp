#include "locks/protocols.hpp"

#include "core/pure/assert.hpp"
#include "locks/asymmetric.hpp"
#include "locks/cohort.hpp"
#include "locks/one_sided.hpp"
#include "locks/queue.hpp"
#include "locks/reader_writer.hpp"
#include "locks/two_sided.hpp"

namespace skerry::lock {

namespace machine {

// The protocol has no manager: asking it is a mistake.
class NoManager {
 public:
  Action step(const Event&, const Config&, Links) {
    SKERRY_ASSERT(false, "this protocol's clients ask nobody");
    return wait();
  }

 private:
  uint32_t unused_ = 0;
};

namespace {

constexpr Word holder[] = {{"holder", Place::home, Label::network}};
constexpr Word tail[] = {{"tail", Place::home, Label::network}};
constexpr Word node_tail[] = {{"tail", Place::node, Label::cpu}};
constexpr Word tails[] = {{"local tail", Place::home, Label::cpu},
                          {"remote tail", Place::home, Label::network},
                          {"victim", Place::home, Label::both}};
constexpr Word tickets[] = {{"tickets", Place::home, Label::network},
                            {"served", Place::home, Label::network}};

uint64_t zero(uint8_t, const Config&) { return 0; }
uint64_t nobody(uint8_t, const Config& config) { return config.requesters; }

constexpr Machines two_sided = machines_of<TwoSidedClient, TwoSidedManager>(
    {.id = 1, .has_readers = true, .initial_value = zero});
constexpr Machines one_sided = machines_of<OneSidedClient, NoManager>(
    {.id = 2, .words = holder, .initial_value = nobody});
constexpr Machines queue = machines_of<QueueClient, NoManager>(
    {.id = 3, .tells_directly = true, .words = tail, .initial_value = zero});
constexpr Machines cohort = machines_of<CohortClient, CohortManager>(
    {.id = 4, .tells_directly = true, .words = node_tail, .initial_value = zero});
constexpr Machines asymmetric = machines_of<AsymmetricClient, NoManager>(
    {.id = 5, .tells_directly = true, .words = tails, .initial_value = zero});
constexpr Machines reader_writer = machines_of<ReaderWriterClient, NoManager>(
    {.id = 6, .has_readers = true, .words = tickets, .initial_value = zero});

}  // namespace
}  // namespace machine

const machine::Machines& machines_of(ProtocolKind kind) {
  switch (kind) {
    case ProtocolKind::two_sided: return machine::two_sided;
    case ProtocolKind::one_sided: return machine::one_sided;
    case ProtocolKind::migrating: break;
    case ProtocolKind::queue: return machine::queue;
    case ProtocolKind::cohort: return machine::cohort;
    case ProtocolKind::asymmetric: return machine::asymmetric;
    case ProtocolKind::reader_writer: return machine::reader_writer;
  }
  return machine::migrating();
}

std::string_view to_string(ProtocolKind kind) {
  switch (kind) {
    case ProtocolKind::two_sided: return "two_sided";
    case ProtocolKind::one_sided: return "one_sided";
    case ProtocolKind::migrating: return "migrating";
    case ProtocolKind::queue: return "queue";
    case ProtocolKind::cohort: return "cohort";
    case ProtocolKind::asymmetric: return "asymmetric";
    case ProtocolKind::reader_writer: return "reader_writer";
  }
  return "unknown";
}

bool from_string(std::string_view name, ProtocolKind* kind) {
  for (uint8_t i = 0; i < protocol_kinds; ++i)
    if (const auto one = static_cast<ProtocolKind>(i); name == to_string(one))
      return *kind = one, true;
  return false;
}

namespace {

template <class Client>
bool stands_in_line(const machine::MachineBytes& client) {
  return std::launder(reinterpret_cast<const Client*>(client.bytes.data()))->in_line();
}

}  // namespace

bool in_line(ProtocolKind kind, const machine::MachineBytes& client) {
  switch (kind) {
    case ProtocolKind::two_sided: return stands_in_line<machine::TwoSidedClient>(client);
    case ProtocolKind::one_sided:
    case ProtocolKind::migrating: break;
    case ProtocolKind::queue: return stands_in_line<machine::QueueClient>(client);
    case ProtocolKind::cohort: return stands_in_line<machine::CohortClient>(client);
    case ProtocolKind::asymmetric: return stands_in_line<machine::AsymmetricClient>(client);
    case ProtocolKind::reader_writer: return stands_in_line<machine::ReaderWriterClient>(client);
  }
  return false;
}

bool is_fair(ProtocolKind kind) {
  return kind != ProtocolKind::one_sided && kind != ProtocolKind::migrating;
}

}  // namespace skerry::lock
