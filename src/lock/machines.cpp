#include "lock/machines.hpp"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "core/pure/assert.hpp"
#include "lock/migrating.hpp"

namespace skerry::lock::machine {

const Machines& migrating() {
  static constexpr Word words[] = {{"network lock", Place::home, Label::network},
                                   {"mode", Place::home, Label::cpu},
                                   {"CPU lock", Place::home, Label::cpu}};
  static constexpr Machines machines = machines_of<MigratingClient, MigratingManager>({
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

namespace {
// Written once for each protocol, by the thread that chooses it; read by data servers.
std::atomic<const Machines*> known[most_protocols];
}  // namespace

const Machines* protocol_of(uint8_t id) {
  if (id == 0) return &migrating();
  return id < most_protocols ? known[id].load(std::memory_order_acquire) : nullptr;
}

void make_known(const Machines& machines) {
  SKERRY_ASSERT(machines.id < most_protocols, "its number has a place");
  known[machines.id].store(&machines, std::memory_order_release);
}

}  // namespace skerry::lock::machine

namespace skerry::lock {

namespace {

Status open_library(const std::string& file, const std::string& name,
                    const machine::Machines** machines) {
  using Find = const machine::Machines* (*)(const char*);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return error(Code::config, "SKERRY_LOCK=", file, ":", name, ": ", why ? why : "cannot open it");
  }
  const auto find = reinterpret_cast<Find>(dlsym(library, "skerry_lock_machines"));
  *machines = find == nullptr ? nullptr : find(name.c_str());
  if (*machines == nullptr || (*machines)->id == 0 || (*machines)->id >= machine::most_protocols)
    return error(Code::config, "SKERRY_LOCK=", file, ":", name, ": ", file,
                 " has no lock protocol of this name");
  return {};
}

}  // namespace

Status choose(std::string_view text, Choice* choice) {
  constexpr std::string_view policy = "migrating:", library = ".so:";
  Choice chosen;
  const size_t file = text.rfind(library);
  if (file != std::string_view::npos) {
    const std::string name(text.substr(file + library.size()));
    SKERRY_TRY(open_library(std::string(text.substr(0, file + 3)), name, &chosen.machines));
    machine::make_known(*chosen.machines);
  } else if (text != "fair") {
    chosen.machines = &machine::migrating();
    if (text != "migrating" &&
        !(text.starts_with(policy) &&
          machine::from_string(text.substr(policy.size()), &chosen.migration)))
      return error(Code::config, "SKERRY_LOCK=", text,
                   ": give fair, migrating[:always|hysteresis|history], or LIBRARY.so:NAME");
  }
  *choice = chosen;
  return {};
}

}  // namespace skerry::lock
