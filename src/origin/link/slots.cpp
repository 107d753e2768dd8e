#include "origin/link/slots.hpp"

#include <algorithm>
#include <cstring>

#include "core/pure/rule.hpp"
#include "core/futex.hpp"
#include "core/pure/container_bytes.hpp"

namespace skerry::origin {

Slots::Slots(EngineContext& context) : context_(context) {
  const uint32_t slots = context.config.control.layout().slots_per_member;
  pending_.resize(slots);
  free_.reserve(slots);
  for (uint32_t i = slots; i > 0; --i) free_.push_back(i - 1);
}

memory::CompletionSlot& Slots::shared(uint32_t index) const {
  const memory::Control& control = context_.config.control;
  return control.slot(context_.config.member_index * control.layout().slots_per_member + index);
}

bool Slots::take(uint32_t* index, Wait wait) {
  context_.assert_held();
  if (!has(wait)) return false;
  *index = free_.back();
  free_.pop_back();
  SKERRY_INVARIANT(pending_[*index].op == nullptr, "a free slot waits for nothing");
  return true;
}

void Slots::give_back(uint32_t index) {
  context_.assert_held();
  SKERRY_ASSERT(free_.size() < pending_.size(), "a slot is given back once");
  free_.push_back(index);
}

void Slots::arm(uint32_t index, Op* op, Link& link, bool is_implicit) {
  Pending& p = pending_[index];
  SKERRY_ASSERT(p.op == nullptr, "a slot waits for one answer");
  p.op = op;
  p.link = &link;
  if (!is_implicit) op->link = &link;
  memory::arm_slot(shared(index));
  ++op->waiting_replies;
  ++link.answers.waiting_;
}

void Slots::is_get(uint32_t index, const Extent& from) {
  Pending& p = pending_[index];
  p.from = from;
  if (!from.is_empty()) ++p.link->answers.gets_;
}

void Slots::is_fetch(uint32_t index, uint64_t bytes) {
  Pending& p = pending_[index];
  p.fetching_bytes = bytes;
  p.link->answers.fetching_bytes_ += bytes;
}

void Slots::is_lock(uint32_t index, fabric::Bytes request) {
  Pending& p = pending_[index];
  p.lock_request = std::make_unique<std::vector<std::byte>>(request.begin(), request.end());
  ++p.link->answers.locks_;
}

void Slots::release(uint32_t index) {
  context_.assert_held();
  Pending& p = pending_[index];
  Link& link = *p.link;
  Answers& answers = link.answers;
  SKERRY_INVARIANT(p.op->waiting_replies > 0 && answers.waiting() > 0,
                   "armed slots are counted");
  const bool was_lock = p.lock_request != nullptr;
  if (p.number != 0) link.requests.answered(p.number);
  --p.op->waiting_replies;
  --answers.waiting_;
  if (!p.from.is_empty()) --answers.gets_;
  if (was_lock) --answers.locks_;
  answers.fetching_bytes_ -= p.fetching_bytes;
  SKERRY_INVARIANT(answers.waiting() >= answers.gets() + answers.locks(),
                   "gets and locks are among the answers that are waited for");
  p = Pending{};
  memory::free_slot(shared(index));
  if (was_lock) futex_wake(&shared(index).word, 1);  // wait_granted may sleep on it
  give_back(index);
}

Status Slots::find(uint32_t slot, uint32_t tag, Pending** pending) {
  const uint32_t index = slot - 1;
  *pending = nullptr;
  if (index >= pending_.size())
    return error(Code::internal, "reply for slot ", slot, " of ", pending_.size());
  Pending& p = pending_[index];
  if (p.op != nullptr && memory::slot_generation(shared(index)) == tag) *pending = &p;
  return {};
}

void Slots::complete(uint32_t index, int code, fabric::Bytes payload, bool placed,
                     uint64_t result) {
  Pending& p = pending_[index];
  SKERRY_ASSERT(p.op != nullptr, "an answer completes a slot that waits for it");
  if (code != 0) {
    Status status(static_cast<Code>(code),
                  std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
    if (p.op->status.ok()) p.op->status = std::move(status);
  } else if (!placed) {
    if (p.result != nullptr) *p.result = result;
    if (p.direct != nullptr) std::memcpy(p.direct, payload.data(), payload.size());
    else if (p.cursor) p.cursor->unpack(p.base, payload);
  }
  // Not of a mutex: its grant may overtake the lost answers of earlier requests, which the server
  // must go on keeping.
  if (!p.lock_request) p.link->requests.result_received(p.number);
  release(index);
}

void Slots::abandon(const Link& link, const Status& why) {
  for (uint32_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].op == nullptr || pending_[i].link != &link) continue;
    Op* const op = pending_[i].op;
    if (op->status.ok()) op->status = why;
    release(i);
  }
  SKERRY_INVARIANT(link.answers.waiting() == 0, "nothing waits for a server that is lost");
}

uint32_t Slots::parked_locks(const Link& link) const {
  if (link.answers.locks() == 0) [[likely]]
    return 0;
  return static_cast<uint32_t>(
      std::count_if(pending_.begin(), pending_.end(), [&](const Pending& p) {
        return p.op != nullptr && p.link == &link && p.lock_request && p.number != 0 &&
               p.number <= link.requests.applied();
      }));
}

bool Slots::is_being_read(const Link& link, const Extent& extent) const {
  if (link.answers.gets() == 0 || !SKERRY_RULE(gets_before_puts)) [[likely]]
    return false;
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& p) {
    return p.op != nullptr && p.link == &link && p.from.overlaps(extent);
  });
}

uint64_t Slots::memory_bytes() const { return vector_bytes(pending_) + vector_bytes(free_); }

}  // namespace skerry::origin
