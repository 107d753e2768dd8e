// Every message between an origin and a data server: layout, encoding and bounded decoding. Little
// endian, fixed width, no padding that is not named. Pure: spans in, values out. The protocol
// around them is in docs/protocol.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::wire {

static_assert(std::endian::native == std::endian::little,
              "messages are little endian and encoded by copying");

using Bytes = std::span<const std::byte>;

constexpr uint8_t version = 5;
constexpr int max_levels = 8;

// origin -> server: requests, numbered by their session.
enum class Kind : uint8_t {
  put = 1,
  get = 2,
  accumulate = 3,
  read_modify_write = 4,
  lock = 5,
  unlock = 6,
  key = 7,  // asks for the fabric's key to a slice; the reply's payload is a Key. `offset`: a slice
            // that is longer, and has none yet, gets none (refused); 0: each gets one
  fetch_update = 8,  // an accumulate whose reply carries the elements before it
  lock_note = 9,     // a message to a lock's manager; the reply's payload is a NoteAnswer
};
std::string_view to_string(Kind kind);

// server -> origin: what became of requests.
enum class AnswerKind : uint8_t {
  acknowledge = 32,  // everything up to `applied` is remote done
  reply = 33,        // the answer to one request, for its completion slot
  failure = 34,      // a request without a reply could not be applied; its text is the payload
};

// Either way, about the connection itself.
enum class CloseKind : uint8_t {
  please_close = 48,  // server -> origin: drain, then bye
  bye = 49,           // origin -> server: nothing of mine is unacknowledged; I send no more on this
                      // connection
  bye_answer = 50,    // server -> origin: nor do I; close it
  farewell = 51,  // server -> origin: I need the slot and close now; no request of yours is under
                  // way here
};

// server -> server, and its answer.
enum class GrantKind : uint8_t {
  grant = 64,  // a mutex was granted to a rank of yours that has no connection to me: fill its
               // completion slot
  grant_taken = 65,  // done, or too late to matter; the sender may discard the grant
};

// Request flags.
constexpr uint8_t flag_strided = 2;  // a Shape follows
constexpr uint8_t flag_vector = 4;   // the payload begins with `piece_count` Piece records
constexpr uint8_t flag_notify = 8;   // a Notify follows: add to a counter after the data
constexpr uint8_t flag_scaled = 16;  // a Scale follows
constexpr uint8_t
    flag_more = 32;  // more parts of this transfer follow: its acknowledgement may wait
constexpr uint8_t flag_locked = 64;  // a Guard follows: only if its lock is free now, and under it
constexpr uint8_t flag_all = 126;

enum class Rmw : uint8_t {
  fetch_add_64 = 0,
  fetch_add_32 = 1,
  swap_64 = 2,
  swap_32 = 3,
  compare_swap_64 = 4,
  compare_swap_32 = 5,
  compare_swap_16 = 6,
  compare_swap_8 = 7,
  take_death = 8  // of a mutex that the caller holds, whose index is the offset: 1 + the rank that
                  // died as its holder before, once; 0: none did
};
constexpr bool is_rmw(uint8_t type) { return type <= static_cast<uint8_t>(Rmw::compare_swap_8); }
// 0: fetch-and-add, 1: swap, 2: compare-and-swap.
constexpr uint8_t operation_of(Rmw op) {
  const auto code = static_cast<uint8_t>(op);
  return code > 5 ? 2 : code / 2;
}
constexpr uint8_t word_bytes_of(Rmw op) {
  switch (op) {
    case Rmw::compare_swap_16: return 2;
    case Rmw::compare_swap_8: return 1;
    default: return static_cast<uint8_t>(op) % 2 == 0 ? 8 : 4;
  }
}

// Fixed part of every request. A new field needs a new version.
struct RequestHeader {
  uint8_t version;       //  0
  uint8_t kind;          //  1  Kind
  uint8_t flags;         //  2
  uint8_t type;          //  3  element type (accumulate, fetch_update) or Rmw; else 0
  uint32_t origin_rank;  //  4
  uint32_t incarnation;  //  8  of the session: a drained origin that starts anew takes the next;
                         //  never reused
  uint32_t target_rank;  // 12  whose memory
  uint64_t number;       // 16  of the request within its session: 1, 2, 3, ...
  uint64_t results_received;    // 24  all results up to this number have reached the origin: the
                                // server may discard them
  uint64_t acknowledged;        // 32  highest `applied` the origin has seen
  uint32_t target_node;         // 40  where the request is applied: node ...
  uint16_t target_server;       // 44  ... and which server of it
  uint16_t body_bytes;          // 46  what follows this header within the message's header part
  uint32_t segment_owner;       // 48  segment (or mutex set) id: lowest member's rank ...
  uint32_t segment_generation;  // 52  ... and that rank's counter
  uint32_t reply_slot;          // 56  0: no reply wanted, the cumulative acknowledgement is enough
  uint32_t reply_tag;           // 60  distinguishes uses of one slot
  uint16_t piece_count;         // 64  with flag_vector; else 0
  uint8_t operation;            // 66  Operation (accumulate, fetch_update); else 0
  uint8_t reserved[5];          // 67  0
  uint64_t offset;              // 72  first target byte in the slice (mutex: its index)
};
static_assert(sizeof(RequestHeader) == 80 && offsetof(RequestHeader, number) == 16 &&
              offsetof(RequestHeader, target_node) == 40 &&
              offsetof(RequestHeader, segment_owner) == 48 &&
              offsetof(RequestHeader, reply_slot) == 56 &&
              offsetof(RequestHeader, operation) == 66 && offsetof(RequestHeader, offset) == 72);

// Optional parts, in this order: Scale, Notify, Guard, Operands (read_modify_write, lock, unlock,
// lock_note), Extent (get, fetch_update), Shape.
struct Scale {
  std::byte value[16];
};
struct Notify {
  uint64_t counter_offset;
  uint64_t increment;
};
// The request is one whole access epoch: the server takes this lock, applies the request and
// releases the lock, or answers `contended` and does nothing.
struct Guard {
  uint32_t segment_owner;  // of the set of locks
  uint32_t segment_generation;
  uint64_t index;   // of the lock, among those of the target rank
  uint64_t holder;  // as in a lock request
};
struct Operands {
  uint64_t first;
  uint64_t second;
};  // rmw: operand, expected value; lock and unlock: holder token, 0; lock_note: see note_word, and
    // the note's value
struct Extent {
  uint64_t bytes;
};  // get, fetch_update: how many bytes of the packed stream the reply carries. A fetch_update's
    // payload has as many beside its table of pieces, or with a no-op none
struct ShapeHead {
  uint64_t block_bytes;
  uint64_t
      skip_bytes;  // of the packed stream: this message covers [skip, skip + payload or extent)
  uint32_t levels;
  uint32_t reserved;  // 0
};
struct ShapeLevel {
  uint64_t count;
  int64_t stride;
};
struct Piece {
  uint64_t offset;
  uint64_t bytes;
};
struct Key {
  uint64_t key;
  uint64_t base;
  uint64_t offset;
};  // payload of the reply to `key`: offset of the slice within what the key names

// First operand of a lock_note: what is said, by which requester of the lock, who wants to share it
// or not.
struct NoteWord {
  uint8_t note;  // lock::machine::Note; 0: none, the manager goes on
  uint8_t shared;
  uint32_t requester;
};
constexpr uint64_t note_word(const NoteWord& w) {
  return uint64_t{w.requester} << 32 | uint64_t{w.shared} << 8 | w.note;
}
constexpr NoteWord note_word(uint64_t word) {
  return {static_cast<uint8_t>(word), static_cast<uint8_t>(word >> 8 & 1),
          static_cast<uint32_t>(word >> 32)};
}
// What came of it: messages of the manager to requesters, which the origin now sends, and how the
// manager rests. It may rest for a compare-and-swap, which the origin's adapter now performs; or
// for good, since requester `value` could not do so.
// Payload of the reply to a lock_note.
struct NoteTell {
  uint32_t to;     // requester
  uint32_t value;  // of the note
  uint32_t note;
  uint32_t reserved;  // 0
};
constexpr uint32_t most_note_tells = 6;
struct NoteAnswer {
  uint8_t rest;   //  0  lock::machine::Rest::State
  uint8_t taken;  //  1  0: send the note again
  uint8_t tells;  //  2  how many of `tell` there are
  uint8_t word;   //  3  of the lock, to compare and swap
  uint8_t reserved[4];
  uint64_t expected, value;        //  8
  NoteTell tell[most_note_tells];  // 24
};
static_assert(sizeof(NoteTell) == 16 && sizeof(NoteAnswer) == 120 &&
              offsetof(NoteAnswer, tell) == 24);
static_assert(sizeof(Scale) == 16 && sizeof(Notify) == 16 && sizeof(Guard) == 24 &&
              sizeof(Operands) == 16 && sizeof(Extent) == 8 && sizeof(ShapeHead) == 24 &&
              sizeof(ShapeLevel) == 16 && sizeof(Piece) == 16);

constexpr uint32_t max_request_bytes = sizeof(RequestHeader) + sizeof(Scale) + sizeof(Notify) +
                                       sizeof(Guard) + sizeof(Operands) + sizeof(Extent) +
                                       sizeof(ShapeHead) + max_levels * sizeof(ShapeLevel);
static_assert(max_request_bytes <= 512, "every fabric carries headers of 512 bytes");

// A request in host form. What the header's flags and kind do not announce is left at its default.
struct Request {
  RequestHeader header{};
  Scale scale{};
  Notify notify{};
  Guard guard{};
  Operands operands{};
  uint64_t extent_bytes = 0;
  ShapeHead shape{};
  ShapeLevel level[max_levels]{};

  Kind kind() const { return static_cast<Kind>(header.kind); }
  bool has(uint8_t flag) const { return (header.flags & flag) != 0; }
  SegmentId segment() const { return {header.segment_owner, header.segment_generation}; }
  Rank target() const { return static_cast<Rank>(header.target_rank); }
};

// Writes the request, whose header.body_bytes it sets, into out; returns its length.
uint32_t encode(const Request& request, std::span<std::byte, max_request_bytes> out);
// Errors: invalid, with the field that is wrong. Never reads beyond `in`. Does not check ranks,
// offsets or segments; the server does.
Status decode(Bytes in, Request* request);

// Server -> origin. `reply` carries a get's data, or a fetch_update's old elements, as payload;
// `failure` and failed replies carry the error's text as payload.
struct ReplyHeader {
  uint8_t version;       //  0
  uint8_t kind;          //  1  acknowledge, reply or failure
  int8_t code;           //  2  0 or a skerry_status below zero
  uint8_t reserved;      //  3  0
  uint32_t incarnation;  //  4
  uint64_t applied;      //  8  every request of the session up to this number is remote done
  uint64_t number;       // 16  the request answered; acknowledge: 0
  uint32_t slot;         // 24  completion slot and ...
  uint32_t tag;          // 28  ... its use; acknowledge: 0
  uint64_t result;       // 32  read_modify_write: old value; else 0 (fetch_update: see payload)
};
static_assert(sizeof(ReplyHeader) == 40 && offsetof(ReplyHeader, applied) == 8 &&
              offsetof(ReplyHeader, result) == 32);

Status decode(Bytes in, ReplyHeader* reply);

// In words, for errors and traces: what it is, whose, and for which memory.
std::string to_string(const RequestHeader& request);
std::string to_string(const ReplyHeader& reply);

// please_close, bye, bye_answer, farewell.
struct CloseHeader {
  uint8_t version;
  uint8_t kind;
  uint16_t asked_again;  // farewell: how many lock requests were asked again on this connection and
                         // looked at; otherwise 0
  uint32_t incarnation;  // of the session
  uint64_t last_number;  // bye: last number used; bye_answer and farewell: last number applied.
                         // They must agree.
};
static_assert(sizeof(CloseHeader) == 16);
Status decode(Bytes in, CloseHeader* close);

// grant and grant_taken. A grant is sent again after a break: the tag makes the second one
// harmless.
struct GrantHeader {
  uint8_t version;
  uint8_t kind;
  uint16_t reserved;  // 0
  uint32_t rank;      // whose slot; of the receiving node. grant_taken: 0, as are slot and tag
  uint32_t slot;      // as in the lock request: never 0
  uint32_t tag;
  uint64_t
      sequence;  // 1, 2, 3, ... from one server to another; grant_taken: this one and all before it
};
static_assert(sizeof(GrantHeader) == 24 && offsetof(GrantHeader, sequence) == 16);
Status decode(Bytes in, GrantHeader* grant);

// Is this message one of these kinds, in our version? The receiver's switch before it decodes.
bool peek(Bytes in, AnswerKind* kind);
bool peek(Bytes in, CloseKind* kind);
// Why it is none that the receiver takes: too short, another version, or its kind.
Status unexpected(Bytes in);

}  // namespace skerry::wire
