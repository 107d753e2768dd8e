// Operations that are under way, blocking or not, and the handles that name them. The owner's mutex
// guards it (context.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "origin/description.hpp"
#include "origin/link/op.hpp"

namespace skerry::origin {

class Operations {
 public:
  Operations() { implicit_.state = Op::State::issuing; }

  // Never null. Given back with free() or, if its call hands out a handle, name() and take_back().
  Op* make();
  void free(Op* op);
  Handle name(Op* op);
  // Of a handle: null if it is not outstanding.
  Op* find(Handle handle) const;
  // The caller has waited for it: its failure, and its record is free.
  Status take_back(Op* op);
  // All implicit gets together.
  Op& implicit() { return implicit_; }
  bool is_implicit(const Op* op) const { return op == &implicit_; }

  static bool is_done(const Op& op);
  // Its first failure, which it forgets.
  static Status take_status(Op& op);
  // Somebody will come back for answers: handles were given out, or implicit gets are under way.
  bool any_unwaited() const { return implicit_.waiting_replies > 0 || named_ > 0; }
  // Of the operations whose handles the program has, all are done.
  bool all_named_done() const;
  // Answers that no thread waits for are missing.
  bool all_named_answered() const;
  uint64_t memory_bytes() const { return records_.size() * (sizeof(Op) + sizeof(void*)); }

 private:
  std::vector<std::unique_ptr<Op>> records_;
  std::vector<uint32_t> free_;
  uint32_t named_ = 0;
  Op implicit_;
};

}  // namespace skerry::origin
