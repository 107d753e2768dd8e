// What one storm is like. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/random.hpp"

namespace skerry::sim {

// Rules left out on purpose: the checkers must find each of them, else they check nothing.
enum class Mutation : uint8_t {
  none,
  execute_duplicates,  // a replayed request is applied again
  forget_results,      // results of read-modify-writes are not kept
  keep_old_frames,     // unread frames of the connection before a resume are applied after it
  replay_nothing,      // after a break the origin goes on with new requests
  ignore_cap,          // connections open without evicting
  early_fence,         // a fence returns when the requests are sent
  bye_undrained,       // a victim says bye with requests unacknowledged
  confirm_grants,      // a lock's grant counts as a result received, though it may overtake a reply
  grant_twice,         // a mutex is granted to the next waiter before its holder let go
};
std::string_view to_string(Mutation mutation);
constexpr uint8_t mutations = 10;

struct StormConfig {
  uint64_t seed = 0;
  uint32_t origins = 3;
  uint32_t servers = 3;
  uint32_t threads = 1;      // of each origin's program
  uint32_t operations = 60;  // of each thread
  uint32_t window = 4;       // non-blocking operations of a thread under way
  uint32_t words = 16;       // of each server's memory
  uint32_t cap = 2;          // connections of an origin; 0: no limit
  uint32_t server_cap = 0;   // of a server; 0: no limit
  std::string policy = "lru";
  uint32_t credit_requests = 8;
  uint64_t credit_bytes = 256;
  int64_t latency_ns = 5'000;
  int64_t jitter_ns = 5'000;
  int64_t service_ns = 1'000;
  int64_t fault_interval_ns = 0;  // mean time between faults while they last; 0: none
  int64_t faults_end_ns = 3'000'000;
  Mutation mutation = Mutation::none;

  // Drawn from the seed, so that a thousand seeds are a thousand different jobs.
  static StormConfig of_seed(uint64_t seed);
  std::string describe() const;
};

}  // namespace skerry::sim
