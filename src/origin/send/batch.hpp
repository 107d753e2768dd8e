// Small puts, or small accumulates, in a row to one rank's slice travel as one vector put or vector
// accumulate. All of them take one header, number and system call
// (docs/design/0014-batched-puts.md). The buffer is the payload: the table grows from its start,
// the data from its middle; a batch that is not full closes the gap.
#pragma once

#include <cstring>

#include "fabric/fabric.hpp"
#include "origin/description.hpp"

namespace skerry::origin {

struct Batch {
  static constexpr uint64_t most_pieces = 2048;
  static constexpr uint64_t table_bytes = most_pieces * sizeof(Piece);
  static constexpr uint64_t most_bytes = fabric::inline_payload_bytes - table_bytes;
  static constexpr uint64_t longest_bytes = 256;  // of a piece; longer ones gain nothing
  // To memory that a program gave, each piece may cost the server two system calls, and other
  // origins wait meanwhile.
  static constexpr uint64_t most_given_pieces = 256;

  static_assert(most_pieces <= UINT16_MAX, "as many as a request can announce");

  Access access;  // what all of it is: a put or an accumulate of pieces, these not named
  uint64_t pieces = 0;
  uint64_t bytes = 0;  // of data
  std::byte payload[table_bytes + most_bytes];

  void begin(const Access& first) {
    access = Access();
    access.kind = first.kind;
    access.target = first.target;
    access.remote.form = Side::Form::pieces;
    access.what = first.what;
  }
  // `as`: null for a put.
  bool takes(const Target& other, const Accumulate* as, uint64_t piece_bytes) const {
    return pieces < (access.target.by_message ? most_given_pieces : most_pieces) &&
           bytes + piece_bytes <= most_bytes && access.target.rank == other.rank &&
           access.target.segment == other.segment && does(as);
  }
  void add(uint64_t offset, const std::byte* from, uint64_t piece_bytes) {
    const Piece piece{offset, piece_bytes};
    std::memcpy(payload + pieces++ * sizeof(Piece), &piece, sizeof piece);
    std::byte* const to = payload + table_bytes + bytes;
    if (piece_bytes == 8) [[likely]]
      std::memcpy(to, from, 8);
    else if (piece_bytes > 0)
      std::memcpy(to, from, piece_bytes);  // `from` may be null when there is nothing to move
    bytes += piece_bytes;
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

 private:
  // Is this what happens to its pieces? A put and an accumulate never share a batch.
  bool does(const Accumulate* as) const {
    const bool puts = access.kind == wire::Kind::put;
    return as == nullptr || puts ? as == nullptr && puts : access.what == *as;
  }
};

}  // namespace skerry::origin
