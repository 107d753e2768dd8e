// The keyed hashes by which an agent on another host and its launcher recognise each other. The key
// travels only through the agent's standard input (i.e. inside ssh) or a fork, never over the
// launcher's own connection.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::launcher {

using Key = std::array<std::byte, job::job_key_bytes>;
using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

Key random_key();
Nonce random_nonce();
// What proves that `side` ("agent" or "launcher") of agent number `agent` holds the key, for these
// nonces only.
Proof prove(const Key& key, std::string_view side, uint32_t agent, const Nonce& launcher_nonce,
            const Nonce& agent_nonce);
// In constant time.
bool same(std::span<const std::byte> a, std::span<const std::byte> b);
// The key that ranks of generation `epoch` of the job get: a program that joins again must not
// admit leftovers of the first.
Key epoch_key(const Key& key, uint32_t epoch);

}  // namespace skerry::launcher
