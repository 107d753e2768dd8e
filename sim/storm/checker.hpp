// What must hold, checked while a storm runs. It knows what the programs asked for and believes
// nothing of what travelled.
//
// Every operation that an origin issues is registered under its session number. The server says
// which number it applies; the reference applies the registered operation to its own memory and
// compares. So a request that is lost, applied twice, out of order, or with other bytes than the
// program's is found at the step where it happens.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::sim {

enum class OpKind : uint8_t { put, get, accumulate, fetch_add, swap, compare_swap, lock, unlock };
std::string_view to_string(OpKind kind);

// One operation of a program. Written by its origin until it is issued, `seen` and `applied` by the
// checker, `done` and `result` by the origin.
struct Op {
  OpKind kind = OpKind::put;
  uint32_t origin = 0;
  uint32_t server = 0;
  uint32_t word = 0;             // first word; lock and unlock: the mutex
  std::vector<uint64_t> values;  // put, accumulate: one per word; get: as many as it reads;
                                 // read-modify-write: operand, expected
  uint64_t holder = 0;           // lock, unlock
  uint64_t number = 0;           // in its session; 0: not issued
  bool applied = false;
  bool done = false;
  std::vector<uint64_t> result;             // get: words; read-modify-write: the old value
  std::vector<std::vector<uint64_t>> seen;  // what the reference held at each execution
};

class Checker {
 public:
  Checker(uint32_t origins, uint32_t servers, uint32_t words);

  // The first broken rule; empty: none.
  const std::string& failure() const { return failure_; }
  bool failed() const { return !failure_.empty(); }
  template <class... Parts>
  void fail(const Parts&... parts) {
    if (failure_.empty()) failure_ = concat(parts...);
  }

  void issued(const std::shared_ptr<Op>& op);
  // The server is about to execute request `number` of the origin for the first time. Null: a rule
  // is broken.
  Op* apply(uint32_t origin, uint32_t server, uint64_t number);
  // A replayed get or read-modify-write is executed or answered again.
  Op* again(uint32_t origin, uint32_t server, uint64_t number);
  // After an execution: the words it touched at the server, and the old value it answered.
  void executed(Op& op, const std::vector<uint64_t>& memory, std::optional<uint64_t> answer);
  // The program has its result.
  void completed(const Op& op);
  // A fence to `server` returned: everything the origin issued to it up to `number` must be
  // applied.
  void fenced(uint32_t origin, uint32_t server, uint64_t number);
  void granted(uint32_t server, uint32_t mutex, uint64_t holder);
  void released(uint32_t server, uint32_t mutex, uint64_t holder);
  // All programs have ended: nothing is missing, memories are equal.
  void finish(uint32_t server, const std::vector<uint64_t>& memory);

  uint64_t applied() const { return applied_count_; }

 private:
  struct Session {
    std::map<uint64_t, std::shared_ptr<Op>> ops;  // issued and not both applied and done
    uint64_t issued = 0;
    uint64_t applied = 0;
  };
  Session& session(uint32_t origin, uint32_t server) {
    return sessions_[origin * servers_ + server];
  }
  std::string name(const Op& op) const;

  uint32_t servers_;
  std::vector<Session> sessions_;
  std::vector<std::vector<uint64_t>> memory_;                  // of each server, the reference's
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> holders_;  // of each mutex that is held
  std::string failure_;
  uint64_t applied_count_ = 0;
};

}  // namespace skerry::sim
