// Which live segment holds an address of a rank. Per rank asked for, the slices of that rank sorted
// by address: made when first needed, thrown away when a segment comes or goes. A thread keeps the
// lists it used last, so that it asks again without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/pure/ids.hpp"

namespace skerry::job {

class Segment;

class AddressIndex {
 public:
  struct Slice {
    uint64_t address;
    uint64_t bytes;
    Segment* segment;
  };
  // Appends the slices that a rank has in live segments. Called with the mutex held.
  using Lister = std::function<void(Rank, std::vector<Slice>*)>;

  // `mutex` guards what the lister reads; the caller holds it around changed().
  AddressIndex(std::mutex& mutex, Lister lister);

  // A segment has come, or is about to go.
  void changed();
  // The slice of `rank` that holds `address`. False: none does. O(log slices), without a lock if
  // this thread asked for the rank lately and no segment came or went.
  bool find(Rank rank, uint64_t address, Slice* slice);

 private:
  struct Slices {
    uint64_t version;  // of the index they were made for
    Rank rank;
    std::vector<Slice> by_address;
  };
  std::shared_ptr<const Slices> slices_of(Rank rank);

  std::mutex& mutex_;
  const Lister lister_;
  std::atomic<uint64_t> version_;  // differs between jobs and between states of one job
  std::unordered_map<Rank, std::shared_ptr<const Slices>> lists_;  // all of the present version
  uint64_t listed_ = 0;                                            // slices in lists_
};

}  // namespace skerry::job
