// What stands on the wire of the tcp fabric, and nothing else: the frame prefix and the greeting.
//
//   frame:    | prefix 8 | header 1..512 | payload 0..max |
//             prefix = header bytes (low 16 bits), payload bytes (high 48 bits)
//
//   greeting: | magic 4 | version 2 | hello bytes 2 | hello 0..46 |
//             once from the connecting side, once back when accepted. If the acceptance has to
//             wait, an empty one with the magic "SKRH" comes back before it. A refusal is one with
//             the magic "SKRN" and one byte, the reason.
//
// All little endian. A peer of another byte order does not find its magic and is refused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabric/fabric.hpp"

namespace skerry::fabric::tcp {

static_assert(std::endian::native == std::endian::little, "the frames are written in native order");

constexpr uint32_t prefix_bytes = 8;
// Far beyond any memory: only a corrupt stream says more.
constexpr uint64_t max_payload_bytes = uint64_t{1} << 40;

struct Prefix {
  uint32_t header_bytes;
  uint64_t payload_bytes;
};

inline uint64_t encode_prefix(uint64_t header_bytes, uint64_t payload_bytes) {
  return header_bytes | payload_bytes << 16;
}

inline Prefix decode_prefix(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return Prefix{static_cast<uint32_t>(word & 0xffff), word >> 16};
}

// The check that keeps a corrupt or hostile prefix from being believed.
inline bool plausible(Prefix prefix) {
  return prefix.header_bytes - 1 < max_header_bytes && prefix.payload_bytes <= max_payload_bytes;
}

struct Greeting {
  uint32_t magic;
  uint16_t version;
  uint16_t hello_bytes;
};
static_assert(sizeof(Greeting) == 8 && offsetof(Greeting, version) == 4 &&
              offsetof(Greeting, hello_bytes) == 6);

constexpr uint32_t connect_magic = 0x59524b53;  // "SKRY"
constexpr uint32_t accept_magic = 0x41524b53;   // "SKRA"
constexpr uint32_t held_magic = 0x48524b53;     // "SKRH": wait your turn; its hello is empty, and
                                                // the accepting greeting follows it in time
constexpr uint32_t refused_magic = 0x4e524b53;  // "SKRN": no; its hello is a CloseReason
constexpr uint16_t greeting_version = 1;
constexpr uint32_t max_greeting_bytes = sizeof(Greeting) + max_hello_bytes;

enum class GreetingState { incomplete, complete, garbage, other_version };

// Looks at the first bytes of a connection; garbage is recognised at its first wrong byte.
// *hello_bytes is set when complete.
inline GreetingState inspect_greeting(const std::byte* data, uint64_t bytes, uint32_t magic,
                                      uint32_t* hello_bytes) {
  Greeting expected{magic, greeting_version, 0};
  const uint64_t magic_seen = bytes < 4 ? bytes : 4;
  if (std::memcmp(data, &expected, magic_seen) != 0) return GreetingState::garbage;
  if (bytes < sizeof(Greeting)) return GreetingState::incomplete;
  Greeting greeting;
  std::memcpy(&greeting, data, sizeof greeting);
  if (greeting.version != greeting_version) return GreetingState::other_version;
  if (greeting.hello_bytes > max_hello_bytes) return GreetingState::garbage;
  if (bytes < sizeof(Greeting) + greeting.hello_bytes) return GreetingState::incomplete;
  *hello_bytes = greeting.hello_bytes;
  return GreetingState::complete;
}

}  // namespace skerry::fabric::tcp
