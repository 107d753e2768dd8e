// A lock of a machine protocol in memory: what lies in the slice of each member of a window, and
// the steps of a lock's manager on it. Drivers: src/window (ranks) and src/server (for ranks of
// other nodes).
//
// The slice of member m, in a group of P members:
//
//   words     home words of m's lock, each in a cache line of its own; the last counts sharers
//   record    what all requesters of m's lock agree on, and its manager
//   mail[P]   mail[i]: messages to m about the lock of member i, see below
//   tails[P]  protocols with a word on each node: tails[i]: the one of member i's lock. Used in the
//             slice of each node's lowest member alone
//   links[P]  protocols with a manager: its queue
//
// Words of 64 bits are changed by atomics of the processor: the ranks' or the data server's. In the
// domain `nic` those with the label `network` by the adapter's alone, and the count of sharers by
// the processor as ever.
//
// Mail. At most one message of each of two kinds is under way to a requester of a lock. They are an
// answer (granted, again) and the note of the one who stands behind it. So one word holds both, 0
// is empty, and sending is one addition: a notification, which wakes the recipient as well. Two
// senders cannot lose each other's. Bits 0 to 7: the answer's note; 8 to 31: its value; 32 to 63:
// the number + 1 of the one behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/pure/owner_word.hpp"
#include "core/pure/status.hpp"
#include "lock/machine.hpp"

namespace skerry::lock::machine {

constexpr uint32_t home_words = 4;
// How many hold the lock shared, where the protocol grants one requester at a time; behind the
// protocol's words. Label::cpu.
constexpr uint8_t sharers_word = 3;

// A message to a requester of a lock.
struct Tell {
  Requester to = 0;
  Note note = Note::none;
  uint32_t value = 0;
};

// How a run of the manager's steps ended.
struct Rest {
  enum class State : uint8_t {
    waits,    // for messages
    pauses,   // somebody lets it go on later, by Note::none
    not_yet,  // there is no room for one more message to a requester: the caller lets it go on
    network,  // domain nic: the caller performs `action` by the network and comes back with what it
              // found (Note::performed). Until then all other messages are to be sent again
    failed,   // domain nic: requester `action.value` could not perform what the manager wanted of
              // the network. Whether it took effect is not known, so the manager goes on no more
  };
  State state = State::waits;
  Action action{};    // network: on a home word
  bool taken = true;  // false: there was not even room to begin with the message; send it again
  size_t told = 0;    // messages
};

struct Record {
  OwnerWord guard;   // of manager, links and rest: member index of the lock's node
  uint8_t protocol;  // Machines::id
  Rest::State rest;  // guard's holder
  uint8_t reserved[2];
  uint32_t requesters;
  Requester failed;  // rest failed: who
  Config config;
  MachineBytes manager;  // guard's holder
};
static_assert(std::is_trivially_copyable_v<MachineBytes> && std::is_trivially_copyable_v<Config>);

// One member's slice as mapped by this process.
class Home {
 public:
  static uint64_t bytes(const Machines& machines, uint32_t requesters);
  static uint64_t word_at(uint8_t word) { return uint64_t{word} * line; }
  static uint64_t mail_at(uint32_t lock) { return mail_begin + uint64_t{lock} * 8; }

  Home() = default;
  explicit Home(std::byte* base) : base_(base) {}
  // Of a slice that a peer named. Errors: invalid (it is none, not whole, or of a protocol that
  // this process does not know).
  static Status open(std::byte* base, uint64_t bytes, Home* home);

  // Whether requesters of other nodes may change [offset, offset + bytes): words and mail, that is.
  bool is_for_requesters(uint64_t offset, uint64_t bytes) const;

  // By its owner, before anybody else uses it. The memory is zeroed.
  void make(const Machines& machines, const Config& config);

  Record& record() const { return *reinterpret_cast<Record*>(base_ + record_begin); }
  std::atomic<uint64_t>& word(uint8_t word) const { return at(word_at(word)); }
  std::atomic<uint64_t>& mail(uint32_t lock) const { return at(mail_at(lock)); }
  std::atomic<uint64_t>& tail(uint32_t lock) const {
    return at(mail_at(record().requesters + lock));
  }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  friend Rest run_manager(const Home&, const Event&, std::span<Tell>);
  static constexpr uint64_t line = 64, record_begin = home_words * line, mail_begin = 512;
  static_assert(record_begin + sizeof(Record) <= mail_begin);
  std::atomic<uint64_t>& at(uint64_t offset) const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(base_ + offset);
  }
  Links links(const Machines& machines) const;

  std::byte* base_ = nullptr;
};

// Performs a load, store, compare-and-swap, fetch-and-add or swap. Returns what was there before.
uint64_t perform(std::atomic<uint64_t>& word, const Action& action);

// What is added to a word of mail.
uint64_t mail_of(const Tell& tell, Requester from);
// Takes the next message out of what a word of mail held. False: none is left. The note of the one
// behind comes first: it may have been sent before an answer, and never after one that it caused.
bool take_note(uint64_t* mail, Event* told);

// The manager's steps for one message (Event::note; none: it goes on after a pause) until it rests,
// with the guard of the lock's record held. The caller sends the first Rest::told of `tells` now.
// As no requester is told twice before it asks again, tells of two runs may be sent in any order.
Rest run_manager(const Home& home, const Event& event, std::span<Tell> tells);

// May a requester send this to the manager? Asked of what came from another process.
bool is_sound(const Home& home, const Event& event);

}  // namespace skerry::lock::machine
