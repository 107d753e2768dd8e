#include "job/address_index.hpp"

#include <algorithm>
#include <array>

namespace skerry::job {
namespace {

constexpr size_t remembered_ranks = 64;             // per thread, by the rank's lowest bits
constexpr uint64_t max_listed = uint64_t{1} << 20;  // slices in all lists: some 24 MiB

// The versions of all jobs of the process are different, as a thread may be in several jobs one
// after the other.
uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

AddressIndex::AddressIndex(std::mutex& mutex, Lister lister)
    : mutex_(mutex), lister_(std::move(lister)), version_(next_version()) {}

void AddressIndex::changed() {
  version_.store(next_version(), std::memory_order_release);
  lists_.clear();
  listed_ = 0;
}

std::shared_ptr<const AddressIndex::Slices> AddressIndex::slices_of(Rank rank) {
  const std::lock_guard guard(mutex_);
  if (const auto found = lists_.find(rank); found != lists_.end()) return found->second;
  auto made = std::make_shared<Slices>();
  made->version = version_.load(std::memory_order_relaxed);
  made->rank = rank;
  lister_(rank, &made->by_address);
  std::ranges::sort(made->by_address, {}, &Slice::address);
  if (listed_ + made->by_address.size() > max_listed) {
    lists_.clear();
    listed_ = 0;
  }
  listed_ += made->by_address.size();
  lists_[rank] = made;
  return made;
}

bool AddressIndex::find(Rank rank, uint64_t address, Slice* slice) {
  static thread_local std::array<std::shared_ptr<const Slices>, remembered_ranks> remembered;
  auto& mine = remembered[static_cast<uint32_t>(rank) % remembered_ranks];
  if (mine == nullptr || mine->rank != rank ||
      mine->version != version_.load(std::memory_order_acquire))
    mine = slices_of(rank);
  const auto& slices = mine->by_address;
  const auto after = std::ranges::upper_bound(slices, address, {}, &Slice::address);
  if (after == slices.begin()) return false;
  const Slice& candidate = *(after - 1);
  if (address - candidate.address >= candidate.bytes) return false;
  *slice = candidate;
  return true;
}

}  // namespace skerry::job
