// Arrays and mirrors that Python no longer has. None is freed when collected, since only this rank
// knows when that happens. free() frees one at once. The next array to be made frees those that all
// members have dropped. The end of the job frees the rest.
#pragma once

#include <variant>
#include <vector>

#include "binding.hpp"

namespace skpy {

// Those over all ranks that live, in the order in which all ranks made them; so position i is the
// same one everywhere. Guarded by the interpreter lock.
class Dropped {
 public:
  using Left = std::variant<sk::AnyArray, sk::Mirror>;
  void add(const void* owner) { live_.push_back({owner, {}}); }
  void forget(const void* owner);  // freed by free()
  void drop(const void* owner, Left&& left);
  // Collective over all ranks: frees those of the oldest 63 that every rank has dropped.
  void free_common(const sk::Group& world);
  void end();  // the job has ended, and all memory with it

 private:
  struct Entry {
    const void* owner;  // the Python object; null: dropped
    Left left;          // what it held, once dropped
  };
  std::vector<Entry> live_;
};
Dropped& dropped();

}  // namespace skpy
