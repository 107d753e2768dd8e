#include "origin/send/batches.hpp"

#include "core/pure/container_bytes.hpp"

namespace skerry::origin {

bool Batches::add(Link& link, const Access& access) {
  context_.assert_held();
  SKERRY_INVARIANT(access.is_contiguous() && !access.returns_data() && !access.notify &&
                       !access.guard && access.local.bytes <= Batch::longest_bytes,
                   "only what needs no answer of its own travels in a batch");
  if (link.index() >= by_link_.size()) by_link_.resize(link.index() + size_t{1});
  std::unique_ptr<Batch>& batch = by_link_[link.index()];
  if (!batch) batch = std::make_unique<Batch>();
  const Accumulate* const what = access.updates() ? &access.what : nullptr;
  const uint64_t bytes = access.local.bytes;
  if (batch->pieces == 0) batch->begin(access);
  else if (!batch->takes(access.target, what, bytes)) return false;
  batch->add(access.remote.offset, access.local.base, bytes);
  link.held.any_ = true;
  open_ = batch.get();
  open_node_ = link.server.node;
  return true;
}

void Batches::clear(Link& link) {
  Batch& batch = of(link);
  SKERRY_INVARIANT(link.held.any() && batch.pieces > 0, "an empty batch is not sent");
  batch.clear();
  link.held.any_ = false;
  if (open_ == &batch) open_ = nullptr;
}

void Batches::release(const Link& link) {
  if (link.index() < by_link_.size() && !link.held.any() && !link.held.is_corked())
    by_link_[link.index()].reset();
}

bool Batches::cork(Link& link) {
  if (link.held.is_corked()) return false;
  link.held.is_corked_ = true;
  corked_.push_back(&link);
  return true;
}

uint64_t Batches::memory_bytes() const {
  uint64_t bytes = vector_bytes(by_link_);
  for (const auto& batch : by_link_)
    if (batch) bytes += sizeof *batch;
  return bytes;
}

}  // namespace skerry::origin
