// Writes down which nodes a process talks to, for `skerry-sim --trace`: lines "rank node bytes r|w
// think_ns" (docs/simulator.md). Not thread safe: the engine's mutex guards it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "core/futex.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::operation {

class RequestTrace {
 public:
  // Writes `prefix`.`rank`. Errors: config (the file cannot be written).
  static Status open(const std::string& prefix, Rank rank, Rank ranks, NodeId nodes,
                     std::unique_ptr<RequestTrace>* trace);
  ~RequestTrace();
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;

  void request(NodeId node, uint64_t bytes, bool awaits_reply);
  // This much of the time until the next request is no computing.
  void waited(int64_t ns) { waited_ns_ += ns; }

 private:
  RequestTrace(std::FILE* file, Rank rank) : file_(file), rank_(rank), last_ns_(monotonic_ns()) {}

  std::FILE* file_;
  Rank rank_;
  int64_t last_ns_;        // monotonic time of the newest request
  int64_t waited_ns_ = 0;  // since then
};

// For as long as it lives its thread waits. Null: nothing is traced, and this costs a comparison.
class Waiting {
 public:
  explicit Waiting(RequestTrace* trace)
      : trace_(trace), begin_ns_(trace != nullptr ? monotonic_ns() : 0) {}
  ~Waiting() {
    if (trace_ != nullptr) trace_->waited(monotonic_ns() - begin_ns_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  RequestTrace* const trace_;
  const int64_t begin_ns_;
};

}  // namespace skerry::operation
