#include "lock/machine.hpp"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "core/pure/assert.hpp"

namespace skerry::lock::machine {

std::string_view to_string(Migration policy) {
  switch (policy) {
    case Migration::always: return "always";
    case Migration::hysteresis: return "hysteresis";
    case Migration::history: return "history";
  }
  return "unknown";
}

bool from_string(std::string_view name, Migration* policy) {
  for (const Migration m : {Migration::always, Migration::hysteresis, Migration::history})
    if (name == to_string(m)) return *policy = m, true;
  return false;
}

int64_t pause_ns(const Action& pause, uint64_t random) {
  return static_cast<int64_t>(pause.value - random % (pause.value / 2 + 1));
}

void RequesterQueue::push(Requester who, Mode mode, bool local, Links links) {
  SKERRY_ASSERT(who < links.size(), "a link for each requester");
  links[who] = {who, mode, local, {}};
  if (count_++ == 0) first_ = who;
  else links[last_].next = who;
  last_ = who;
}

void RequesterQueue::pop(Links links) {
  SKERRY_ASSERT(count_ > 0, "a requester waits");
  const Requester gone = first_;
  first_ = --count_ == 0 ? 0 : links[gone].next;
  if (count_ == 0) last_ = 0;
  links[gone] = {};
}

// ---- any protocol behind one table -------------------------------------------------------------

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
  } else if (text == "auto") {
    chosen.is_open = true;
  } else if (text != "fair") {
    chosen.machines = &machine::migrating();
    if (text != "migrating" &&
        !(text.starts_with(policy) &&
          machine::from_string(text.substr(policy.size()), &chosen.migration)))
      return error(Code::config, "SKERRY_LOCK=", text,
                   ": give auto, fair, migrating[:always|hysteresis|history], or LIBRARY.so:NAME");
  }
  *choice = chosen;
  return {};
}

}  // namespace skerry::lock
