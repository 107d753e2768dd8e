// RMA and atomics of the loop fabric: in order through the target's queue, or by itself at a moment
// drawn from the seed.
#include <atomic>
#include <cstring>

#include "core/pure/assert.hpp"
#include "fabric/test/loop/loop_fabric.hpp"

namespace skerry::fabric {

using loop::End;
using loop::Entry;
using loop::Event;
using loop::Reference;
using loop::Rma;

namespace {

constexpr uint32_t longest_delay_polls = 8;

template <class Word>
bool copy_word(void* to, const void* from) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(Word) != 0 ||
      reinterpret_cast<uintptr_t>(from) % sizeof(Word) != 0)
    return false;
  // Who has got the number of a lock's readers may then write what they have read: an adapter's put
  // comes after its get.
  std::atomic_ref<Word> source(*static_cast<Word*>(const_cast<void*>(from)));
  std::atomic_ref<Word>(*static_cast<Word*>(to))
      .store(source.load(std::memory_order_acquire), std::memory_order_release);
  return true;
}

// Aligned words of up to 8 bytes do not tear, as on every real fabric that we use.
void copy_bytes(void* to, const void* from, uint64_t bytes) {
  if (bytes == 8 && copy_word<uint64_t>(to, from)) return;
  if (bytes == 4 && copy_word<uint32_t>(to, from)) return;
  if (bytes == 2 && copy_word<uint16_t>(to, from)) return;
  std::memcpy(to, from, bytes);
}

}  // namespace

uint32_t LoopNetwork::random(uint32_t below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<uint32_t>((random_state >> 32) * below >> 32);
}

bool LoopNetwork::apply(Rma& rma) {
  const auto found = registrations.find(rma.call.key.key);
  if (found == registrations.end() || rma.call.offset > found->second.bytes ||
      rma.call.bytes > found->second.bytes - rma.call.offset)
    return false;
  std::byte* const remote = found->second.base + rma.call.offset;
  if (rma.call.is_put) {
    copy_bytes(remote, rma.data.data(), rma.call.bytes);
  } else {
    copy_bytes(rma.call.local, remote, rma.call.bytes);
  }
  return true;
}

uint64_t* LoopNetwork::word_of(const Rma& rma) {
  const auto found = registrations.find(rma.call.key.key);
  if (found == registrations.end() || found->second.bytes < sizeof(uint64_t) ||
      rma.call.offset > found->second.bytes - sizeof(uint64_t))
    return nullptr;
  std::byte* const at = found->second.base + rma.call.offset;
  if (reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t) != 0) return nullptr;
  return reinterpret_cast<uint64_t*>(at);
}

Status LoopFabric::register_memory(void* base, uint64_t bytes, RemoteKey* key,
                                   uint64_t* registration) {
  if (!capabilities_.rma) return error(Code::unsupported, "this loop fabric was made without RMA");
  std::lock_guard lock(network_->mutex);
  const uint64_t number = network_->next_number++;
  network_->registrations[number] = {static_cast<std::byte*>(base), bytes, this};
  *key = RemoteKey{number, 0};
  *registration = number;
  return {};
}

void LoopFabric::deregister_memory(uint64_t registration) {
  std::lock_guard lock(network_->mutex);
  network_->write_back(registration);
  network_->registrations.erase(registration);
}

SendResult LoopFabric::start(EndpointId endpoint, Rma rma) {
  SKERRY_ASSERT(capabilities_.rma, "put or get on a fabric without RMA");
  SKERRY_ASSERT(!rma.is_atomic() || network_->capabilities.atomics != Atomics::none,
                "an atomic on a fabric without");
  const RmaCall& call = rma.call;
  if (call.is_put) rma.data.assign(call.local, call.local + call.bytes);
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(endpoint);
  if (reference == nullptr || reference->theirs().fabric == nullptr) return SendResult::closed;
  End& ours = reference->ours();
  if (ours.state == End::State::connecting) {
    reference->theirs().peer_wants_room = true;
    return SendResult::would_block;
  }
  if (ours.state != End::State::open) return SendResult::closed;
  rma.number = network_->next_number++;
  ours.outstanding.emplace(rma.number, call.cookie);
  (call.is_put ? traffic_.bytes_sent : traffic_.bytes_received) += call.bytes;
  if (!network_->capabilities.rma_unordered) {
    release_held(*reference);
    Entry entry;
    entry.kind = Entry::Kind::rma;
    entry.rma = std::move(rma);
    push(*reference, std::move(entry));
    return SendResult::accepted;
  }
  // Half of them at once: they overtake every message that was not dispatched yet.
  rma.delay = static_cast<int>(
      network_->random(2) == 0 ? 0 : 1 + network_->random(longest_delay_polls));
  if (rma.delay == 0) {
    perform(*reference, std::move(rma));
  } else {
    delayed_.push_back({*reference, std::move(rma)});
    waiter_.wake();  // wakes a thread that sleeps in poll
  }
  return SendResult::accepted;
}

void LoopFabric::finish(const Reference& from, const Rma& rma, bool ok) {
  End& origin = from.ours();
  if (origin.fabric == nullptr) return;
  if (ok && rma.is_atomic()) *rma.atomic.before = rma.atomic.value;
  origin.fabric->post({Event::Kind::rma_done, origin.id, rma.number, ok, CloseReason::by_peer, {}});
}

// Takes effect now; an incoherent adapter tells later.
void LoopFabric::perform(const Reference& from, Rma rma) {
  if (!rma.is_atomic()) return finish(from, rma, network_->apply(rma));
  uint64_t* const word = network_->word_of(rma);
  if (word == nullptr) return finish(from, rma, false);
  if (network_->capabilities.atomics == Atomics::coherent) {
    std::atomic_ref<uint64_t> shared(*word);
    uint64_t before = rma.atomic.expected;
    switch (rma.atomic.kind) {
      case AtomicCall::Kind::fetch_add: before = shared.fetch_add(rma.atomic.value); break;
      case AtomicCall::Kind::swap: before = shared.exchange(rma.atomic.value); break;
      case AtomicCall::Kind::compare_swap:
        shared.compare_exchange_strong(before, rma.atomic.value);
        break;
    }
    rma.atomic.value = before;
    return finish(from, rma, true);
  }
  const auto [found, is_new] = network_->adapter_words.try_emplace(word);
  loop::AdapterWord& adapter = found->second;
  if (is_new) {
    adapter.registration = rma.call.key.key;
    adapter.copy = std::atomic_ref<uint64_t>(*word).load();
    adapter.delay = static_cast<int>(1 + network_->random(longest_delay_polls));
  }
  const uint64_t before = adapter.copy;
  if (rma.atomic.kind == AtomicCall::Kind::fetch_add) adapter.copy += rma.atomic.value;
  else if (rma.atomic.kind == AtomicCall::Kind::swap || before == rma.atomic.expected)
    adapter.copy = rma.atomic.value;
  rma.atomic.value = before;
  adapter.ended.push_back({from, std::move(rma)});
  if (from.ours().fabric != nullptr)
    from.ours().fabric->waiter_.wake();  // a poll there lets time pass
}

namespace {
void write_back_one(uint64_t* word, const loop::AdapterWord& adapter) {
  std::atomic_ref<uint64_t>(*word).store(adapter.copy);
  for (const loop::Delayed& one : adapter.ended) LoopFabric::finish(one.from, one.rma, true);
}
}  // namespace

void LoopNetwork::write_back(uint64_t registration) {
  std::erase_if(adapter_words, [&](const auto& one) {
    if (one.second.registration != registration) return false;
    write_back_one(one.first, one.second);
    return true;
  });
}

void LoopNetwork::write_back_all() {
  for (const auto& [word, adapter] : adapter_words) write_back_one(word, adapter);
  adapter_words.clear();
}

void LoopNetwork::write_back_due(bool before_sleep) {
  if (hold_adapters) return;
  if (before_sleep) return write_back_all();
  for (auto it = adapter_words.begin(); it != adapter_words.end();) {
    if (--it->second.delay > 0) {
      ++it;
      continue;
    }
    write_back_one(it->first, it->second);
    it = adapter_words.erase(it);
  }
}

void hold_adapters(LoopNetwork& network, bool hold) {
  std::lock_guard lock(network.mutex);
  network.hold_adapters = hold;
  if (!hold) network.write_back_all();
}

size_t words_in_adapters(LoopNetwork& network) {
  std::lock_guard lock(network.mutex);
  return network.adapter_words.size();
}

// Time passes by polls. Before a sleep everything that is due late becomes due. Otherwise it
// would wait for another poll, which may not come.
void LoopFabric::run_delayed(bool before_sleep) {
  for (auto it = delayed_.begin(); it != delayed_.end();) {
    if (!before_sleep && --it->rma.delay > 0) {
      ++it;
      continue;
    }
    const bool peer_open = it->from.theirs().fabric != nullptr;
    // The passive side closed: a fabric that fences drops it, the other kind places it all
    // the same. Either way the origin cannot tell: the end in our queue tells what is outstanding.
    if (peer_open) perform(it->from, std::move(it->rma));
    else if (it->rma.call.is_put && !capabilities_.close_fences_rma) network_->apply(it->rma);
    it = delayed_.erase(it);
  }
  network_->write_back_due(before_sleep);
  for (auto it = network_->strays.begin(); it != network_->strays.end();) {
    if (--it->delay > 0) {
      ++it;
      continue;
    }
    network_->apply(*it);
    it = network_->strays.erase(it);
  }
}

}  // namespace skerry::fabric
