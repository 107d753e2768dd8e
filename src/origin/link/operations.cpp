#include "origin/link/operations.hpp"

#include <algorithm>
#include <utility>

#include "core/pure/assert.hpp"
#include "origin/link/link.hpp"

namespace skerry::origin {

Op* Operations::make() {
  if (free_.empty()) {
    records_.push_back(std::make_unique<Op>());
    records_.back()->index = static_cast<uint32_t>(records_.size() - 1);
    free_.push_back(records_.back()->index);
  }
  Op* op = records_[free_.back()].get();
  free_.pop_back();
  SKERRY_ASSERT(op->state == Op::State::free, "what is given out was free");
  op->state = Op::State::issuing;
  op->waiting_replies = 0;
  op->number = 0;
  op->link = nullptr;
  return op;
}

void Operations::free(Op* op) {
  SKERRY_ASSERT(op->state != Op::State::free && op != &implicit_, "freed once");
  SKERRY_INVARIANT(op->waiting_replies == 0, "no answer may come for a record that is free");
  op->state = Op::State::free;
  ++op->generation;
  free_.push_back(op->index);
}

Handle Operations::name(Op* op) {
  SKERRY_ASSERT(op->state == Op::State::issuing, "a handle is given out once");
  op->state = Op::State::named;
  ++named_;
  return Handle{op->generation} << 32 | (op->index + 1);
}

Op* Operations::find(Handle handle) const {
  const uint64_t index = (handle & 0xffffffff) - 1;
  if (index >= records_.size()) return nullptr;
  Op* op = records_[index].get();
  return op->state == Op::State::named && op->generation == handle >> 32 ? op : nullptr;
}

Status Operations::take_back(Op* op) {
  SKERRY_ASSERT(op->state != Op::State::named || named_ > 0, "handles are counted");
  if (op->state == Op::State::named) --named_;
  Status status = take_status(*op);
  free(op);
  return status;
}

bool Operations::is_done(const Op& op) {
  return op.waiting_replies == 0 &&
         (op.number == 0 || op.link->requests.applied() >= op.number ||
          op.link->connection.has_failed());
}

Status Operations::take_status(Op& op) {
  Status status = std::exchange(op.status, Status());
  if (status.ok() && op.number != 0 && op.link->requests.applied() < op.number)
    status = op.link->connection.failure();
  return status;
}

bool Operations::all_named_done() const {
  return named_ == 0 || std::none_of(records_.begin(), records_.end(), [](const auto& op) {
           return op->state == Op::State::named && !is_done(*op);
         });
}

bool Operations::all_named_answered() const {
  if (!any_unwaited()) return true;
  return implicit_.waiting_replies == 0 &&
         std::none_of(records_.begin(), records_.end(), [](const auto& op) {
           return op->state == Op::State::named && op->waiting_replies > 0;
         });
}

}  // namespace skerry::origin
