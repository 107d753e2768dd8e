// RMA of the loop fabric: in order through the target's queue, or by itself at a moment drawn from
// the seed.
#include <atomic>
#include <cstring>

#include "core/pure/assert.hpp"
#include "fabric/loop/loop_fabric.hpp"

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
  std::atomic_ref<Word> source(*static_cast<Word*>(const_cast<void*>(from)));
  std::atomic_ref<Word>(*static_cast<Word*>(to))
      .store(source.load(std::memory_order_relaxed), std::memory_order_release);
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
  const auto found = registrations.find(rma.key.key);
  if (found == registrations.end() || rma.offset > found->second.bytes ||
      rma.bytes > found->second.bytes - rma.offset)
    return false;
  std::byte* const remote = found->second.base + rma.offset;
  if (rma.is_put) {
    copy_bytes(remote, rma.data.data(), rma.bytes);
  } else {
    copy_bytes(rma.local, remote, rma.bytes);
  }
  return true;
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
  network_->registrations.erase(registration);
}

SendResult LoopFabric::put(EndpointId endpoint, const void* local, RemoteKey key, uint64_t offset,
                           uint64_t bytes, uint64_t cookie) {
  Rma rma;
  rma.is_put = true;
  rma.data.resize(bytes);
  std::memcpy(rma.data.data(), local, bytes);
  rma.key = key;
  rma.offset = offset;
  rma.bytes = bytes;
  rma.cookie = cookie;
  return start_rma(endpoint, std::move(rma));
}

SendResult LoopFabric::get(EndpointId endpoint, void* local, RemoteKey key, uint64_t offset,
                           uint64_t bytes, uint64_t cookie) {
  Rma rma;
  rma.local = local;
  rma.key = key;
  rma.offset = offset;
  rma.bytes = bytes;
  rma.cookie = cookie;
  return start_rma(endpoint, std::move(rma));
}

SendResult LoopFabric::start_rma(EndpointId endpoint, Rma rma) {
  SKERRY_ASSERT(capabilities_.rma, "put or get on a fabric without RMA");
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
  ours.outstanding.emplace(rma.number, rma.cookie);
  (rma.is_put ? traffic_.bytes_sent : traffic_.bytes_received) += rma.bytes;
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
    finish(*reference, rma, network_->apply(rma));
  } else {
    delayed_.push_back({*reference, std::move(rma)});
    signal();  // wakes a thread that sleeps in poll
  }
  return SendResult::accepted;
}

void LoopFabric::finish(const Reference& from, const Rma& rma, bool ok) {
  End& origin = from.ours();
  if (origin.fabric == nullptr) return;
  origin.fabric->post({Event::Kind::rma_done, origin.id, rma.number, ok, CloseReason::by_peer, {}});
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
    // the same. Either way the origin cannot tell.
    bool ok = false;
    if (peer_open || (it->rma.is_put && !capabilities_.close_fences_rma))
      ok = network_->apply(it->rma) && peer_open;
    if (peer_open)
      finish(it->from, it->rma, ok);  // otherwise the end in our queue tells what is outstanding
    it = delayed_.erase(it);
  }
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
