// What is held back to be sent together: batches of small puts or accumulates (batch.hpp), and
// messages that the fabric keeps until flush (*corked* links). Nothing stays held back while
// anybody waits.
#pragma once

#include <cstdint>
#include <vector>

#include "origin/send/batch.hpp"
#include "origin/context.hpp"
#include "origin/link/link.hpp"

namespace skerry::origin {

class Batches : Part {
 public:
  using Part::Part;

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
  // Adds a short contiguous put or accumulate to the link's batch; sends the one before if this
  // does not fit it.
  Status add(Lock& lock, Link& link, const Access& access);
  // Sends the batch as one vector put or accumulate. The link was found sendable, or its requests
  // queue, and the mutex was held since. False: it would block.
  bool send(Link& link);
  // Sends or queues the batch if that can be done at once. False: it is still there.
  bool send_now(Link& link);
  // Messages of this link are held back by the fabric.
  void cork(Link& link);
  // Sends what is held back. Never waits: a batch for which there is no credit now stays.
  void flush() {
    context_.assert_held();
    if (any_corked()) flush_corked();
  }
  bool any_corked() const { return !corked_.empty(); }

 private:
  void flush_corked();

  NodeId open_node_ = no_node;
  Batch* open_ = nullptr;  // a batch that still grows, of a corked link; null: none
  std::vector<Link*> corked_;
  int64_t last_blocking_ns_ = INT64_MIN / 2;  // when the last blocking accumulate returned
};

}  // namespace skerry::origin
