#include "connection/hello.hpp"

#include <sodium.h>

#include <cstring>

namespace skerry::connection {
namespace {

using Hash = std::array<std::byte, hash_bytes>;
static_assert(hash_bytes >= crypto_generichash_BYTES_MIN &&
              sizeof(JobKey) >= crypto_generichash_KEYBYTES_MIN);

// Everything the proof covers, in one flat record. `direction` keeps a hello from serving as its
// own answer.
struct Covered {
  char purpose[8];
  uint8_t direction;
  uint8_t wire_version;
  uint16_t server_index;
  uint32_t server_node;
  uint32_t rank;
  uint32_t reserved;  // 0
  uint64_t generation;
  uint64_t applied;  // of the answer; 0 in a hello
};
static_assert(sizeof(Covered) == 40, "no padding is hashed");

Hash hash(const JobKey& key, const Peer& peer, Role direction, const Hello& hello,
          uint64_t applied) {
  Covered covered{{'s', 'k', 'e', 'r', 'r', 'y', '0', '1'},
                  static_cast<uint8_t>(direction),
                  peer.wire_version,
                  peer.server_index,
                  peer.server_node,
                  hello.rank,
                  0,
                  hello.generation,
                  applied};
  Hash out;
  crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     reinterpret_cast<const unsigned char*>(&covered), sizeof covered,
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return out;
}

bool equal(const Hash& a, const std::byte* b) {
  return sodium_memcmp(a.data(), b, a.size()) == 0;
}  // constant time

}  // namespace

std::array<std::byte, hello_bytes> make_hello(const JobKey& key, const Peer& peer, uint32_t rank,
                                              uint64_t generation, Role from) {
  const Hello hello{rank, generation, {}};
  const Hash proof = hash(key, peer, from, hello, 0);
  std::array<std::byte, hello_bytes> out;
  std::memcpy(out.data(), &rank, 4);
  std::memcpy(out.data() + 4, &generation, 8);
  std::memcpy(out.data() + 12, proof.data(), proof.size());
  return out;
}

Status check_hello(const JobKey& key, const Peer& peer, std::span<const std::byte> bytes,
                   Hello* hello, Role from) {
  if (bytes.size() != hello_bytes)
    return error(Code::invalid, "hello of ", bytes.size(), " bytes, expected ", hello_bytes);
  Hello got{};
  std::memcpy(&got.rank, bytes.data(), 4);
  std::memcpy(&got.generation, bytes.data() + 4, 8);
  std::memcpy(got.proof.data(), bytes.data() + 12, hash_bytes);
  if (!equal(hash(key, peer, from, got, 0), bytes.data() + 12))
    return error(Code::config, "a peer that says it is rank ", got.rank,
                 " does not know this job's key, or means another server or version");
  *hello = got;
  return {};
}

// On the wire: the number, and in its top bit whether refusals follow.
constexpr uint64_t refusals_bit = uint64_t{1} << 63;

std::array<std::byte, answer_bytes> make_answer(const JobKey& key, const Peer& peer,
                                                const Hello& hello, uint64_t applied,
                                                bool refusals_follow) {
  const uint64_t word = applied | (refusals_follow ? refusals_bit : 0);
  const Hash proof = hash(key, peer, Role::server, hello, word);
  std::array<std::byte, answer_bytes> out;
  std::memcpy(out.data(), proof.data(), proof.size());
  std::memcpy(out.data() + proof.size(), &word, 8);
  return out;
}

Status check_answer(const JobKey& key, const Peer& peer, const Hello& hello,
                    std::span<const std::byte> bytes, uint64_t* applied, bool* refusals_follow) {
  uint64_t word = 0;
  if (bytes.size() == answer_bytes) std::memcpy(&word, bytes.data() + hash_bytes, 8);
  *applied = word & ~refusals_bit;
  if (refusals_follow != nullptr) *refusals_follow = (word & refusals_bit) != 0;
  if (bytes.size() != answer_bytes ||
      !equal(hash(key, peer, Role::server, hello, word), bytes.data()))
    return error(Code::config, "the peer that answers for the server of node ", peer.server_node,
                 " does not know this job's key");
  return {};
}

}  // namespace skerry::connection
