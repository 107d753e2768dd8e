// Admission: which peers may connect to a data server. One flight of 32 bytes from the origin, 28
// back, both keyed hashes over everything that must not be forged. Unauthenticated peers on the
// network are kept out; data is not encrypted (docs/security.md). Pure: the hash is BLAKE2b of
// libsodium (crypto_generichash), a function of its arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/pure/status.hpp"

namespace skerry::connection {

using JobKey = std::array<std::byte, 32>;
constexpr uint32_t hash_bytes = 20;

// What a proof stands for: an origin's hello, a server's answer, a data server's hello to another
// (not `server`: that hello could then be sent back as its own answer). Trunks and links: see
// src/share.
enum class Role : uint8_t { origin = 1, server = 2, relay = 3, trunk = 4, proxy_client = 5 };

struct Hello {
  // Of the origin process; Role::relay: the node of the server that connects.
  uint32_t rank;
  // Of this connection: grows with each attempt, so that a recorded hello is worth nothing, and an
  // answer proves the job key anew. 32 bits would be used up in 5 days of 10,000 a second.
  uint64_t generation;
  std::array<std::byte, hash_bytes> proof;
};
constexpr uint32_t hello_bytes = 4 + 8 + hash_bytes;
static_assert(hello_bytes == 32 && hello_bytes <= 46, "verbs leaves 55 bytes of connect data");

struct Peer {  // what both sides know without being told, and what the proof binds the hello to
  uint32_t server_node;
  uint16_t server_index;
  uint8_t wire_version;
  Role role;
};

std::array<std::byte, hello_bytes> make_hello(const JobKey& key, const Peer& peer, uint32_t rank,
                                              uint64_t generation, Role from = Role::origin);
// Errors: invalid (length), config (proof wrong: another job, another server, another version, or
// forged).
Status check_hello(const JobKey& key, const Peer& peer, std::span<const std::byte> bytes,
                   Hello* hello, Role from = Role::origin);
// The answer says how far the session had come, so that the origin knows what to send again. The
// server has discarded before what an earlier connection still carries: none of it is applied
// afterwards. `refusals_follow`: the server refused some one-way requests, and the origin has not
// confirmed that it knows. The next messages tell it again, before any other.
constexpr uint32_t answer_bytes = hash_bytes + 8;
std::array<std::byte, answer_bytes> make_answer(const JobKey& key, const Peer& peer,
                                                const Hello& hello, uint64_t applied,
                                                bool refusals_follow = false);
// Errors: config (the peer that answers does not know the key).
Status check_answer(const JobKey& key, const Peer& peer, const Hello& hello,
                    std::span<const std::byte> bytes, uint64_t* applied,
                    bool* refusals_follow = nullptr);

}  // namespace skerry::connection
