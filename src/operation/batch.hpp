// Small non-blocking puts in a row to one rank's slice travel as one vector put: a header, a number
// and a system call for all of them. The buffer is the payload: the table grows from its start, the
// data from its middle; a batch that is not full closes the gap.
#pragma once

#include <cstring>

#include "fabric/fabric.h"
#include "operation/description.hpp"

namespace skerry::operation {

struct Batch {
  static constexpr uint64_t most_pieces = 2048;
  static constexpr uint64_t table_bytes = most_pieces * sizeof(Piece);
  static constexpr uint64_t most_bytes = fabric::inline_payload_bytes - table_bytes;
  static constexpr uint64_t longest_put_bytes = 256;  // longer ones gain nothing

  static_assert(most_pieces <= UINT16_MAX, "as many as a request can announce");

  Target target;
  uint64_t pieces = 0;
  uint64_t bytes = 0;  // of data
  std::byte payload[table_bytes + most_bytes];

  bool takes(const Target& other, uint64_t put_bytes) const {
    return pieces < most_pieces && bytes + put_bytes <= most_bytes && target.rank == other.rank &&
           target.segment == other.segment;
  }
  void add(uint64_t offset, const std::byte* from, uint64_t put_bytes) {
    const Piece piece{offset, put_bytes};
    std::memcpy(payload + pieces++ * sizeof(Piece), &piece, sizeof piece);
    std::byte* const to = payload + table_bytes + bytes;
    if (put_bytes == 8) [[likely]]
      std::memcpy(to, from, 8);
    else if (put_bytes > 0)
      std::memcpy(to, from, put_bytes);  // `from` may be null when there is nothing to put
    bytes += put_bytes;
  }
  fabric::Bytes close() {
    if (pieces < most_pieces)
      std::memmove(payload + pieces * sizeof(Piece), payload + table_bytes, bytes);
    return {payload, pieces * sizeof(Piece) + bytes};
  }
  // It was closed and not sent: it may still grow.
  void reopen() {
    if (pieces < most_pieces)
      std::memmove(payload + table_bytes, payload + pieces * sizeof(Piece), bytes);
  }
  void clear() { pieces = bytes = 0; }
};

}  // namespace skerry::operation
