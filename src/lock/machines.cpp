#include "lock/machines.hpp"

#include "core/pure/assert.hpp"

namespace skerry::lock {

namespace {
constexpr ProtocolKind all_kinds[protocol_kinds] = {
    ProtocolKind::two_sided,    ProtocolKind::one_sided, ProtocolKind::migrating,
    ProtocolKind::queue,        ProtocolKind::cohort,    ProtocolKind::asymmetric,
    ProtocolKind::reader_writer};
}  // namespace

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
  for (const ProtocolKind one : all_kinds)
    if (name == to_string(one)) return *kind = one, true;
  return false;
}

bool has_readers(ProtocolKind kind) {
  switch (kind) {
    case ProtocolKind::two_sided:
    case ProtocolKind::reader_writer: return true;
    case ProtocolKind::one_sided:
    case ProtocolKind::migrating:
    case ProtocolKind::queue:
    case ProtocolKind::cohort:
    case ProtocolKind::asymmetric: return false;
  }
  return false;
}

bool is_fair(ProtocolKind kind) {
  switch (kind) {
    case ProtocolKind::two_sided:
    case ProtocolKind::queue:
    case ProtocolKind::cohort:
    case ProtocolKind::asymmetric:
    case ProtocolKind::reader_writer: return true;
    case ProtocolKind::one_sided:
    case ProtocolKind::migrating: return false;
  }
  return false;
}

namespace machine {

Action NoManager::step(const Event&, const Config&, Links) {
  SKERRY_ASSERT(false, "this protocol's clients ask nobody");
  return wait();
}

Client make_client(ProtocolKind kind, const Self& self) {
  switch (kind) {
    case ProtocolKind::two_sided: return TwoSidedClient(self);
    case ProtocolKind::one_sided: return OneSidedClient(self);
    case ProtocolKind::migrating: return MigratingClient(self);
    case ProtocolKind::queue: return QueueClient(self);
    case ProtocolKind::cohort: return CohortClient(self);
    case ProtocolKind::asymmetric: return AsymmetricClient(self);
    case ProtocolKind::reader_writer: return ReaderWriterClient(self);
  }
  return TwoSidedClient(self);
}

Manager make_manager(ProtocolKind kind) {
  switch (kind) {
    case ProtocolKind::two_sided: return TwoSidedManager();
    case ProtocolKind::migrating: return MigratingManager();
    case ProtocolKind::cohort: return CohortManager();
    case ProtocolKind::one_sided:
    case ProtocolKind::queue:
    case ProtocolKind::asymmetric:
    case ProtocolKind::reader_writer: return NoManager();
  }
  return NoManager();
}

std::span<const Word> words_of(ProtocolKind kind) {
  static constexpr Word one_sided[] = {{"holder", Place::home, Label::network}};
  static constexpr Word migrating[] = {{"network lock", Place::home, Label::network},
                                       {"mode", Place::home, Label::cpu},
                                       {"CPU lock", Place::home, Label::cpu}};
  static constexpr Word queue[] = {{"tail", Place::home, Label::network}};
  static constexpr Word cohort[] = {{"tail", Place::node, Label::cpu}};
  static constexpr Word asymmetric[] = {{"local tail", Place::home, Label::cpu},
                                        {"remote tail", Place::home, Label::network},
                                        {"victim", Place::home, Label::both}};
  static constexpr Word reader_writer[] = {{"tickets", Place::home, Label::network},
                                           {"served", Place::home, Label::network}};
  switch (kind) {
    case ProtocolKind::two_sided: return {};
    case ProtocolKind::one_sided: return one_sided;
    case ProtocolKind::migrating: return migrating;
    case ProtocolKind::queue: return queue;
    case ProtocolKind::cohort: return cohort;
    case ProtocolKind::asymmetric: return asymmetric;
    case ProtocolKind::reader_writer: return reader_writer;
  }
  return {};
}

uint64_t initial_value(ProtocolKind kind, uint8_t word, const Config& config) {
  switch (kind) {
    case ProtocolKind::two_sided:
    case ProtocolKind::queue:
    case ProtocolKind::cohort:
    case ProtocolKind::asymmetric:
    case ProtocolKind::reader_writer: return 0;
    case ProtocolKind::one_sided: return config.requesters;
    case ProtocolKind::migrating:
      if (word == migrating_words::network) return uint64_t{config.requesters} + 1;
      return word == migrating_words::cpu ? config.requesters : 0;
  }
  return 0;
}

}  // namespace machine
}  // namespace skerry::lock
