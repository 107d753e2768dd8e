// What is held back to be sent together: batches of small puts or accumulates (batch.hpp), and
// links whose messages the fabric keeps until flush (*corked* links). Sender sends them. Nothing
// stays held back while anybody waits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "origin/context.hpp"
#include "origin/link/link.hpp"
#include "origin/send/batch.hpp"

namespace skerry::origin {

class Batches {
 public:
  explicit Batches(const EngineContext& context) : context_(context) {}

  // The fast path: true if it joined the batch that is being collected for this very target. `what`
  // null: a put.
  bool join(const Target& target, const Accumulate* what, uint64_t offset, const void* from,
            uint64_t bytes) {
    if (open_ == nullptr || bytes > Batch::longest_bytes || !open_->takes(target, what, bytes))
      return false;
    open_->add(offset, static_cast<const std::byte*>(from), bytes);
    return true;
  }
  bool any_open() const { return open_ != nullptr; }
  NodeId open_node() const { return open_node_; }  // of any_open()
  // Blocking accumulates join only in a stream of them: those that follow one another so soon that
  // more are likely to come (docs/design/0014-batched-puts.md). Others go at once, for somebody may
  // wait for them.
  bool in_stream(int64_t now_ns) const {
    return context_.has_helper() && now_ns - last_blocking_ns_ < context_.config.stream_gap_ns;
  }
  // A blocking accumulate has returned, or is about to.
  void note_blocking(int64_t now_ns) { last_blocking_ns_ = now_ns; }

  // Adds a short contiguous put or accumulate to the link's batch. Returns false if that holds what
  // this may not follow: it is to be sent first.
  bool add(Link& link, const Access& access);
  // Of Link::held.any().
  Batch& of(const Link& link) { return *by_link_[link.index()]; }
  uint64_t bytes_of(const Link& link) const { return by_link_[link.index()]->bytes; }
  // It was sent.
  void clear(Link& link);
  // The memory of a batch that is empty and not about to grow goes.
  void release(const Link& link);

  // Messages of this link are held back by the fabric. False: they were before.
  bool cork(Link& link);
  bool any_corked() const { return !corked_.empty(); }
  // uncork(link) for each: does it stay corked?
  template <class Uncork>
  void uncork(Uncork&& stays) {
    std::erase_if(corked_, [&](Link* link) { return !(link->held.is_corked_ = stays(link)); });
  }

  uint64_t memory_bytes() const;

 private:
  const EngineContext& context_;
  std::vector<std::unique_ptr<Batch>> by_link_;  // null: none lately
  NodeId open_node_ = no_node;
  Batch* open_ = nullptr;  // a batch that still grows, of a corked link; null: none
  std::vector<Link*> corked_;
  int64_t last_blocking_ns_ = INT64_MIN / 2;  // when the last blocking accumulate returned
};

}  // namespace skerry::origin
