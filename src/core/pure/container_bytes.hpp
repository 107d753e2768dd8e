// Heap bytes of containers, for accounts of memory: as libstdc++ builds them, without the
// allocator's own few bytes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace skerry {

// A vector or string of trivial elements. The caller adds what the elements point to.
template <class Vector>
uint64_t vector_bytes(const Vector& vector) {
  return uint64_t{vector.capacity()} * sizeof(typename Vector::value_type);
}
// An unordered map or set: one node for each element, one pointer for each bucket.
template <class Table>
uint64_t table_bytes(const Table& table) {
  return uint64_t{table.size()} * (sizeof(typename Table::value_type) + sizeof(void*)) +
         uint64_t{table.bucket_count()} * sizeof(void*);
}
// A map or set: one node for each element, with three pointers and a colour.
template <class Tree>
uint64_t tree_bytes(const Tree& tree) {
  return uint64_t{tree.size()} * (sizeof(typename Tree::value_type) + 4 * sizeof(void*));
}
// A deque: blocks of 512 bytes (one at least), and a pointer to each.
template <class Deque>
uint64_t deque_bytes(const Deque& deque) {
  constexpr uint64_t block = 512, element = sizeof(typename Deque::value_type);
  constexpr uint64_t in_block = element < block ? block / element : 1;
  const uint64_t blocks = uint64_t{deque.size()} / in_block + 1;
  return blocks * in_block * element + std::max<uint64_t>(8, blocks + 2) * sizeof(void*);
}

// One element of a list.
template <class Element>
constexpr uint64_t list_node_bytes() {
  return sizeof(Element) + 2 * sizeof(void*);
}

}  // namespace skerry
