// Private memory of a program that is moved into the node's shared memory, where the program finds
// it at the same address. Other processes of the node then reach it by loads and stores.
//
// Only whole pages move, and only plain ones: private, anonymous, readable and writable. Not those
// of the stack, huge ones of hugetlbfs, locked ones, or those registered with a device (such memory
// is kept from children: MADV_DONTFORK). The rest of the memory stays where it is.
//
// While it is moved, a forked child shares it with its parent instead of getting a copy. Stores of
// other threads during move_in or move_out may be lost.
//
// Decided in docs/design/0029-moved-memory.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry::memory {

struct Pages {
  std::byte* begin = nullptr;
  uint64_t bytes = 0;  // 0: none
};

// The whole pages of [base, base + bytes), if all of them may be moved.
Pages movable_pages(void* base, uint64_t bytes);

class Moved {
 public:
  Moved() = default;
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

  // Copies the pages to `shared`, in memory that processes share, and maps that at their address.
  // False: everything is as before.
  [[nodiscard]] bool move_in(const Pages& pages, std::byte* shared);
  // They are private again, with what they hold now. Does nothing if nothing is moved, and leaves
  // alone what the program has unmapped meanwhile. Call it before `shared` is discarded. Errors:
  // no_memory (the system took the room that move_in reserved); the contents are lost.
  Status move_out();
  bool is_moved() const { return shared_ != nullptr; }

 private:
  bool is_mapped() const;

  Pages pages_;
  std::byte* shared_ = nullptr;  // null: nothing is moved
  std::byte* room_ = nullptr;    // address space for the copy that moves out
};

}  // namespace skerry::memory
