// The protocol of `skerry run`: frames between a rank and its launcher (over SKERRY_CONTROL_FD, a
// UNIX stream socket) and between the launcher and its agents. docs/launchers.md describes it.
// Pure: bytes in, bytes out; every decoder is bounded.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

inline constexpr uint16_t control_version = 7;
inline constexpr size_t max_value_bytes = 4096;
inline constexpr size_t max_key_bytes = 64;
inline constexpr size_t job_key_bytes = 32;
// Payload limits: a rank's frame carries one key and one value, or a message that the launcher cuts
// at 1 KiB; a link's frame may carry a program's whole environment.
inline constexpr size_t max_control_payload = max_value_bytes + max_key_bytes + 64;
inline constexpr size_t max_link_payload = size_t{16} << 20;
// A `values` frame is closed once it holds this many bytes; one more value may still follow.
inline constexpr size_t values_frame_bytes = size_t{64} << 10;
inline constexpr size_t max_values_payload = values_frame_bytes + max_value_bytes + 64;

enum class FrameType : uint16_t {
  // rank -> launcher
  hello = 1,            // u32 process id, u64 PID namespace in which it has that (0: unknown)
  put = 2,              // string key, rest value
  get = 3,              // u32 rank, string key
  fence = 4,            // -
  finish = 5,           // -; answered when every living rank has sent it
  abort = 6,            // i32 exit status, string message
  report_failures = 7,  // u8 1: goes on without the dead; dead ranks are reported to this rank. The
                        // job does not end with them only if every rank asks for it
  get_all = 8,          // string key; answered by `values`
  lowest = 9,           // string key, rest value; answered by `lowest_is`
  meet = 10,    // string key, u32 time limit in ms (all_ranks: none), u32 size (0: no spares), u32
                // runs of ranks (0: a spare waits). Each: u32 the first, u32 how many. Then bytes
                // for them. Answered by `met`
  decide = 11,  // string key, u8 proposal; answered by `decided`

  // launcher -> rank
  welcome = 16,      // u32 rank, u32 size, u32 node, u32 spares, u32 late spares: the last of
                     // them; u32 how many of those make a node, 32 bytes job key
  value = 17,        // u8 found, rest value
  fence_done = 18,   // -
  finish_done = 19,  // -
  rank_died = 20,    // u32 rank, string cause, u32 the job's view that begins with it, from 1; may
                     // come at any time after report_failures
  values = 21,  // u8 last, then for ranks in a row that put the same under the key, ascending: u32
                // the first rank, u32 how many, u32 bytes, the value. Several frames, of which
                // one is the last
  lowest_is = 22,  // u32: the lowest rank that put this value under this key, or all_ranks: none
  met = 23,      // string key, u8 last, u8 1: somebody is missing. Then for those in a row that
                 // came with the same: u32 the first rank, u32 how many, u32 bytes, what each
                 // gave. Or u32 each rank that is missing. Several frames, of which one is the
                 // last. On a link, header rank all_ranks: for every rank of the agent
  decided = 24,  // string key, u8 value: the first proposal
  leave = 25,    // -: the rank's host is taken out of the job; at any time after report_failures
  late_put = 26,  // u32 late rank, string key, rest value, which it has put; any time after
                  // report_failures
  spares_wait = 27,  // u32 how many spares wait now, of a job to which hosts may be added; any time
                     // after report_failures

  // launcher -> agent
  plan = 32,         // see launcher/plan.hpp
  signal_rank = 33,  // u32 signal; header rank all_ranks: every rank of the agent
  input = 34,        // bytes for rank 0's standard input; empty: end of input
  output_ack = 35,   // u32 bytes written out, so that many more may be sent
  stop = 36,         // -: kill what is left, drain the output, answer `stopped` and end
  look = 37,         // u32 agent, u32 its request: somebody there looks at the job; answered by
                     // `report`
  looked = 38,       // u32 request, u32 how many such frames answer it, string host, rest its
                     // report; passed on to the reader
  lease = 39,        // u32 ms: from now on the agent holds a lease (launcher/lease.hpp); 0: none
  beat_back = 40,    // u32 number of the `beat` that it answers
  drain_told = 41,   // u32 request, rest what came of a `drain`: text; passed on to the reader

  // agent -> launcher
  started = 48,      // u32 process id of the header's rank
  not_started = 49,  // u8 the program is missing, string reason
  output = 50,       // u8 stream (1 or 2), rest bytes
  exited = 51,       // u32 wait status, as waitpid reports it
  lost = 52,       // string cause: the process that said hello has gone or hung up while the rank's
                   // first process lives on
  input_ack = 53,  // u32 bytes that rank 0 has taken
  stopped = 54,    // -: no process of the agent is left, all output was sent
  look_wanted = 55,  // u32 request: a reader on this host wants the other hosts' reports
  report = 56,       // u32 agent, u32 request, rest what skerry-look printed; empty: it failed
  beat = 57,         // u32 number: the agent asks for its lease to go on
  drain = 58,        // u32 request, string host to take out; a reader's, which the agent numbers

  // handshake of an agent on another host
  challenge = 64,      // 16 bytes nonce, launcher -> agent
  agent_hello = 65,    // u32 agent, 16 bytes nonce, 32 bytes keyed hash
  agent_welcome = 66,  // 32 bytes keyed hash
  invitation = 67      // u32 agent, 32 bytes job key, u32 port, u32 count, that many strings: the
                       // launcher's numeric addresses; only
                       // through the agent's standard input
};
// Null for a number that is no frame type.
const char* to_string(FrameType type);

inline constexpr uint32_t all_ranks = UINT32_MAX;

// The key of the meeting of all ranks that leave a job which goes on without its dead. Who has come
// to it comes to no other. The launcher ends one that others wait for at another.
inline constexpr std::string_view leave_meeting = "finalize";

// Before every payload. Little endian, like everything here.
struct FrameHeader {
  uint32_t payload_bytes;
  uint16_t type;     // FrameType
  uint16_t version;  // control_version
  uint32_t rank;     // on a link: the rank meant, or all_ranks; between a rank and its launcher: 0,
                     // the connection identifies the sender
};
static_assert(sizeof(FrameHeader) == 12 && offsetof(FrameHeader, type) == 4 &&
              offsetof(FrameHeader, version) == 6 && offsetof(FrameHeader, rank) == 8);
static_assert(std::endian::native == std::endian::little,
              "the frames are written as they lie in memory");

// The header of a frame, as it is sent.
std::array<std::byte, sizeof(FrameHeader)> header_of(FrameType type, uint32_t rank,
                                                     size_t payload_bytes);

// One frame's payload being written. Strings carry a u32 length.
class FrameWriter {
 public:
  explicit FrameWriter(FrameType type, uint32_t rank = 0);
  FrameWriter& u8(uint8_t value) { return raw(&value, sizeof value); }
  FrameWriter& u32(uint32_t value) { return raw(&value, sizeof value); }
  FrameWriter& u64(uint64_t value) { return raw(&value, sizeof value); }
  FrameWriter& string(std::string_view text);
  FrameWriter& bytes(std::span<const std::byte> data) { return raw(data.data(), data.size()); }
  // Header and payload, ready to send.
  std::vector<std::byte> finish();

 private:
  FrameWriter& raw(const void* data, size_t bytes);
  std::vector<std::byte> out_;  // starts with the header; its length is filled in by finish()
};

// A received frame; `payload` points into the FrameBuffer until its next call.
struct Frame {
  FrameType type{};
  uint32_t rank = 0;
  std::span<const std::byte> payload;
};

// Reads a payload's fields in order. After a field that does not fit every further one is zero or
// empty and ok() is false.
class FrameReader {
 public:
  explicit FrameReader(const Frame& frame) : rest_(frame.payload) {}
  uint8_t u8() { return number<uint8_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  std::string_view string();
  std::span<const std::byte> bytes(size_t count);
  std::span<const std::byte> rest();
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  template <class Number>
  Number number() {
    Number value{};
    if (auto data = bytes(sizeof value); ok_) std::memcpy(&value, data.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// Collects a byte stream and hands out whole frames. Errors (network): a version, type or length
// that cannot be; nothing can be read from the stream after that.
class FrameBuffer {
 public:
  explicit FrameBuffer(size_t max_payload) : max_payload_(max_payload) {}
  void append(std::span<const std::byte> data);
  // *frame is nullopt when more bytes are needed.
  Status next(std::optional<Frame>* frame);
  size_t buffered() const { return data_.size() - begin_; }

 private:
  size_t max_payload_;
  size_t begin_ = 0;  // first byte of data_ not yet handed out
  std::vector<std::byte> data_;
};

// Keys are [a-z0-9/._-], 1 to 64 characters; values at most 4096 bytes. Errors: invalid.
Status check_key(std::string_view key);
Status check_value(std::span<const std::byte> value);

}  // namespace skerry::job
