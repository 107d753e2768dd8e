#include "launcher/auth.hpp"

#include <sodium.h>

#include "core/pure/assert.hpp"

namespace skerry::launcher {
namespace {

void start_sodium() { SKERRY_ASSERT(sodium_init() >= 0, "libsodium starts"); }

void absorb(crypto_generichash_state* state, const void* data, size_t bytes) {
  crypto_generichash_update(state, static_cast<const unsigned char*>(data), bytes);
}

Key keyed_hash(const Key& key, std::string_view purpose, uint32_t number,
               std::span<const std::byte> a, std::span<const std::byte> b) {
  static_assert(sizeof(Key) == crypto_generichash_BYTES &&
                sizeof(Key) == crypto_generichash_KEYBYTES);
  start_sodium();
  crypto_generichash_state state;
  crypto_generichash_init(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size(),
                          sizeof(Key));
  // The length keeps purpose and what follows apart.
  const auto length = static_cast<uint32_t>(purpose.size());
  absorb(&state, &length, sizeof length);
  absorb(&state, purpose.data(), purpose.size());
  absorb(&state, &number, sizeof number);
  absorb(&state, a.data(), a.size());
  absorb(&state, b.data(), b.size());
  Key out;
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(out.data()), out.size());
  return out;
}

}  // namespace

Key random_key() {
  start_sodium();
  Key key;
  randombytes_buf(key.data(), key.size());
  return key;
}

Nonce random_nonce() {
  start_sodium();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Proof prove(const Key& key, std::string_view side, uint32_t agent, const Nonce& launcher_nonce,
            const Nonce& agent_nonce) {
  return keyed_hash(key, side, agent, launcher_nonce, agent_nonce);
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Key epoch_key(const Key& key, uint32_t epoch) { return keyed_hash(key, "epoch", epoch, {}, {}); }

}  // namespace skerry::launcher
