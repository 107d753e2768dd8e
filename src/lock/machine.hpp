// What a lock protocol is made of: two pure machines. A *client* is one requester. The *manager*
// acts for the lock on the lock's node (in the product: its data server). Both take one event and
// answer with one action; the driver performs it and comes back with its result. Nothing here
// waits, wakes, sends, allocates or looks at a clock, so the product, the simulator and an
// exhaustive test drive the same code.
//
//   driver -> client:  lock                  unlock
//   client -> driver:  atomic, ask, tell, pause, wait ... granted | released | refused
//   driver -> client:  result (of an atomic, ask or tell), elapsed (of a pause), told (a message)
//
// Messages: a machine takes them (`told`) when it rests: a client that is idle, holds the lock or
// answered `wait`; a manager that answered `wait` or `pause`. The driver keeps them until then.
// Messages from one machine to another must arrive in the order in which they were sent, each once.
//
// Memory: a lock is a handful of 64-bit words. Each carries a label that says which unit may change
// it, because in the domain `nic` the atomics of processor and network are not atomic towards each
// other. Machines ask for the unit that the label allows; a driver may check it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/pure/status.hpp"

namespace skerry::lock::machine {

// One requester of a lock: 0 .. Config::requesters - 1. The driver numbers them, a thread each.
using Requester = uint32_t;

// How atomics of the processor and of the network see each other.
enum class Domain : uint8_t {
  server,  // the data server performs the network's atomics with its processor: all are coherent
  nic,     // the network adapter performs them: not coherent with the processor's
};

enum class Unit : uint8_t { cpu, network };

// Where a word lies.
enum class Place : uint8_t {
  home,  // in the memory of the lock's node
  node,  // in the memory of the requester's node, one copy on each
};

// Which unit may change a word in the domain `nic`. Either may load it: a load of 8 aligned bytes
// is never torn.
enum class Label : uint8_t {
  cpu,      // the processor, in every way
  network,  // the network, in every way
  both,     // both, by stores alone; no read-modify-write
};

struct Word {
  const char* name;
  Place place;
  Label label;
};

enum class Mode : uint8_t { exclusive, shared };

// What a message says.
enum class Note : uint8_t {
  none,
  request,  // client to manager: I want the lock (Event::mode)
  release,  // client to manager: I give it back
  renew,    // client to manager: I give it back, and requester number `value` asks for it
  granted,  // manager or client to client: it is yours
  granted_by_manager,  // the same, and the manager holds it in your name: give it back to the
                       // manager
  again,               // manager to client: the mode changed meanwhile, try again
  linked,              // client to client: I stand behind you
  performed,  // driver to manager: what its atomic of the network found is `value` (home.hpp)
  not_performed,  // driver to manager: nobody knows whether it took effect (home.hpp)
};

struct Action {
  enum class Kind : uint8_t {
    load,              // -> result: the value. First of the atomics, swap is the last (is_atomic)
    store,             // value -> result
    compare_and_swap,  // expected, value -> result: what was there before
    fetch_and_add,     // value -> result: what was there before
    swap,              // value -> result: what was there before
    ask,               // note, mode, value: a message to the manager -> result
    tell,              // note, value, to: a message to a requester -> result
    pause,             // unit, value (pause_ns) -> elapsed; for a manager a message ends it too
    wait,              // rests until a message comes -> told
    granted,           // client: the lock is held. The next event is unlock, or a message.
                       // value: 1: no requester that was counted in shares it (see Event::mode)
    released,          // client: it is given back, the client is idle again
    refused,  // client: lock while it holds or unlock while it does not; nothing was changed
  };
  Kind kind = Kind::wait;
  Unit unit = Unit::cpu;
  Place place = Place::home;
  uint8_t word = 0;  // of the protocol's words
  Note note = Note::none;
  Mode mode = Mode::exclusive;
  Requester to = 0;
  uint64_t expected = 0;
  uint64_t value = 0;
};

constexpr bool is_atomic(Action::Kind kind) { return kind <= Action::Kind::swap; }

struct Event {
  enum class Kind : uint8_t { lock, unlock, result, elapsed, told };
  Kind kind = Kind::result;
  Note note = Note::none;       // told
  // lock; told of a request; unlock: `shared`: sharers may have been counted in while it was held,
  // which a later grant then does not deny. `exclusive`: none are counted in.
  Mode mode = Mode::exclusive;
  bool local = false;           // told to a manager: the sender is of the lock's node
  Requester from = 0;           // told
  uint64_t value = 0;           // result; told
};

// How long a machine's pause is: doubling from `first_ns`, at most `doublings` times.
struct Pauses {
  int64_t first_ns = 500;
  uint8_t doublings = 8;
};

// When a migrating lock migrates (migrating.hpp).
enum class Migration : uint8_t {
  always,      // every request that finds the other mode (the paper's)
  hysteresis,  // after several such requests in a row
  history,     // when most of the last requests were of the other kind
};
std::string_view to_string(Migration policy);
bool from_string(std::string_view name, Migration* policy);

// What all machines of a lock agree on.
struct Config {
  uint32_t requesters = 0;
  Domain domain = Domain::server;
  Migration migration = Migration::always;
  uint8_t in_a_row = 3;    // hysteresis: requests of the other kind before it migrates (1 to 16)
  uint8_t hand_overs = 8;  // cohorts: at most so many in a row inside a cohort
  // nic: can the adapter exchange a value? All compare and swap, and add; with a mask of zero
  // compared bits (extended atomics) some exchange. The others do it by a loop.
  bool network_swap = false;
  Pauses cpu_pauses = {.first_ns = 100, .doublings = 10};      // before it asks the processor again
  Pauses network_pauses = {.first_ns = 2000, .doublings = 8};  // before it asks the network again
  int64_t turn_ns = 4000;  // what a pause that knows its place reckons for each turn before it
};

constexpr const Pauses& pauses_of(const Config& config, Unit unit) {
  return unit == Unit::cpu ? config.cpu_pauses : config.network_pauses;
}

// The length of a pause: between half of and the whole of Action::value, so that two requesters
// that failed together do not fail together again. `random`: a fresh random number, larger than
// pauses are long.
int64_t pause_ns(const Action& pause, uint64_t random);

// One requester as its machine sees it.
struct Self {
  Requester me = 0;
  bool local = false;  // its node is the lock's
};

// The unit that a requester uses for a word with the label `network`: where all atomics are
// coherent a local one needs no network.
constexpr Unit network_unit(const Config& config, bool local) {
  return local && config.domain != Domain::nic ? Unit::cpu : Unit::network;
}

// A manager's queue of requesters: links by requester's number, given by the driver (a manager
// itself stays small and allocates nothing).
struct Link {
  Requester next;
  Mode mode;
  bool local;
  uint8_t unused[2];
};
using Links = std::span<Link>;  // one for each requester; contents need no initial value

class RequesterQueue {
 public:
  bool empty() const { return count_ == 0; }
  uint32_t size() const { return count_; }
  Requester front() const { return first_; }
  void push(Requester who, Mode mode, bool local, Links links);
  void pop(Links links);

 private:
  Requester first_ = 0;  // meaningful if count_ is not 0
  Requester last_ = 0;   // the same
  uint32_t count_ = 0;
};

// ---- what machines answer with ----
constexpr Action load(Unit unit, Place place, uint8_t word) {
  return {.kind = Action::Kind::load, .unit = unit, .place = place, .word = word};
}
constexpr Action store(Unit unit, Place place, uint8_t word, uint64_t value) {
  return {.kind = Action::Kind::store, .unit = unit, .place = place, .word = word, .value = value};
}
constexpr Action compare_and_swap(Unit unit, Place place, uint8_t word, uint64_t expected,
                                  uint64_t value) {
  Action action = store(unit, place, word, value);
  action.kind = Action::Kind::compare_and_swap;
  action.expected = expected;
  return action;
}
constexpr Action fetch_and_add(Unit unit, Place place, uint8_t word, uint64_t value) {
  Action action = store(unit, place, word, value);
  action.kind = Action::Kind::fetch_and_add;
  return action;
}
constexpr Action ask(Note note, Mode mode = Mode::exclusive, uint64_t value = 0) {
  return {.kind = Action::Kind::ask, .note = note, .mode = mode, .value = value};
}
constexpr Action tell(Requester to, Note note, uint64_t value = 0) {
  return {.kind = Action::Kind::tell, .note = note, .to = to, .value = value};
}
// Before `unit` is asked again, for the `attempt`-th time.
constexpr Action pause(const Config& config, Unit unit, uint8_t attempt) {
  const Pauses& pauses = pauses_of(config, unit);
  const int64_t longest_ns = pauses.first_ns << std::min(attempt, pauses.doublings);
  return {.kind = Action::Kind::pause, .unit = unit, .value = static_cast<uint64_t>(longest_ns)};
}
constexpr Action wait() { return {.kind = Action::Kind::wait}; }
constexpr Action granted(bool has_no_sharers = false) {
  return {.kind = Action::Kind::granted, .value = has_no_sharers ? uint64_t{1} : 0};
}
constexpr Action released() { return {.kind = Action::Kind::released}; }
constexpr Action refused() { return {.kind = Action::Kind::refused}; }

// The next attempt's number, bounded.
constexpr uint8_t next_attempt(const Config& config, Unit unit, uint8_t attempt) {
  return attempt < pauses_of(config, unit).doublings ? static_cast<uint8_t>(attempt + 1) : attempt;
}

// ---- any protocol behind one table -------------------------------------------------------------
// For drivers that learn at run time which it is. The product has one protocol with machines,
// `migrating`. A shared library may bring others: it has a function `skerry_lock_machines(name)`,
// and SKERRY_LOCK=LIBRARY.so:NAME asks it.

// A client or manager of any protocol. Without pointers: a manager may lie in shared memory.
struct MachineBytes {
  alignas(8) std::array<std::byte, 40> bytes = {};
};

struct Machines {
  // What a lock's record in memory says (home.hpp): 0 `migrating`; below `most_protocols`.
  uint8_t id = 0;
  bool has_readers = false;     // shared requests are granted together; otherwise one by one
  bool has_manager = false;     // otherwise asking it is a mistake
  bool manager_pauses = false;  // those that wait let it go on
  bool tells_directly = false;  // to give the lock back may be a message to its next holder
  // In the order of Action::word; those of each place are counted together.
  std::span<const Word> words = {};
  uint64_t (*initial_value)(uint8_t word, const Config& config) = nullptr;
  void (*make_client)(MachineBytes* client, const Self& self) = nullptr;
  Action (*step_client)(MachineBytes* client, const Event& event, const Config& config) = nullptr;
  void (*make_manager)(MachineBytes* manager) = nullptr;
  Action (*step_manager)(MachineBytes* manager, const Event& event, const Config& config,
                         Links links) = nullptr;
};
constexpr uint8_t most_protocols = 16;

class NoManager;  // of a protocol whose clients ask nobody

// Fills in the functions of a table.
template <class Client, class Manager>
constexpr Machines machines_of(Machines table) {
  static_assert(sizeof(Client) <= sizeof(MachineBytes) && sizeof(Manager) <= sizeof(MachineBytes));
  static_assert(alignof(Client) <= 8 && alignof(Manager) <= 8);
  static_assert(std::is_trivially_copyable_v<Client> && std::is_trivially_copyable_v<Manager>);
  table.has_manager = !std::is_same_v<Manager, NoManager>;
  table.make_client = [](MachineBytes* client, const Self& self) {
    new (client->bytes.data()) Client(self);
  };
  table.step_client = [](MachineBytes* client, const Event& event, const Config& config) {
    return std::launder(reinterpret_cast<Client*>(client->bytes.data()))->step(event, config);
  };
  table.make_manager = [](MachineBytes* manager) { new (manager->bytes.data()) Manager(); };
  table.step_manager = [](MachineBytes* manager, const Event& event, const Config& config,
                          Links links) {
    return std::launder(reinterpret_cast<Manager*>(manager->bytes.data()))
        ->step(event, config, links);
  };
  return table;
}

const Machines& migrating();
// Its network word, of a lock that is free: nobody is counted in as a sharer, or somebody may be.
// Between them is the word of a lock that the processor gives.
constexpr uint64_t free_alone(const Config& config) { return config.requesters; }
constexpr uint64_t free_shared(const Config& config) { return uint64_t{config.requesters} + 2; }
constexpr bool is_free(const Config& config, uint64_t word) {
  return word == free_alone(config) || word == free_shared(config);
}

// The protocol that a lock's record names; null: this process does not know it. Any thread.
const Machines* protocol_of(uint8_t id);
// From now on it does. (choose does it.)
void make_known(const Machines& machines);

}  // namespace skerry::lock::machine

namespace skerry::lock {

// What SKERRY_LOCK says: `auto`, `fair`, `migrating`, `migrating:POLICY`, or LIBRARY.so:NAME.
struct Choice {
  bool is_open = false;  // `auto`: the fair queue, or `migrating` where a window finds that it pays
  const machine::Machines* machines = nullptr;  // null: the fair queue (mutex.hpp)
  machine::Migration migration = machine::Migration::always;
};
// Opens the library, which stays, so that this process's data server knows the protocol as well.
// Errors: config, with the values that work.
Status choose(std::string_view text, Choice* choice);

}  // namespace skerry::lock
