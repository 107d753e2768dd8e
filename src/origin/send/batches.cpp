#include "origin/send/batches.hpp"

#include "origin/engine/layers.hpp"

namespace skerry::origin {

Status Batches::add(Lock& lock, Link& link, const Access& access) {
  context_.assert_held();
  SKERRY_INVARIANT(access.is_contiguous() && !access.returns_data() && !access.notify &&
                       !access.guard && access.local.bytes <= Batch::longest_bytes,
                   "only what needs no answer of its own travels in a batch");
  const Accumulate* const what = access.updates() ? &access.what : nullptr;
  const uint64_t bytes = access.local.bytes;
  for (;;) {  // a wait gives up the mutex: the batch may be sent and put away meanwhile
    if (!link.batch) link.batch = std::make_unique<Batch>();
    if (link.batch->pieces == 0 || link.batch->takes(access.target, what, bytes)) break;
    SKERRY_TRY(layers_.sender.wait_sendable(lock, link, link.batch->bytes, Sender::Room::or_queue));
  }
  Batch& batch = *link.batch;
  if (batch.pieces == 0) batch.begin(access);
  batch.add(access.remote.offset, access.local.base, bytes);
  open_ = &batch;
  open_node_ = link.server.node;
  layers_.links.list(link);
  cork(link);
  return {};
}

bool Batches::send(Link& link) {
  context_.assert_held();
  SKERRY_INVARIANT(link.has_batch(), "an empty batch is not sent");
  Batch& batch = *link.batch;
  wire::Request& r = layers_.sender.begin(batch.access.kind, batch.access.target, link);
  describe(r, batch.access, 0, batch.pieces);
  uint64_t number = 0;
  if (!layers_.sender.send(link, {batch.close(), Sender::Payload::copied, batch.bytes}, &number)) {
    batch.reopen();
    return false;
  }
  batch.clear();
  if (open_ == &batch) open_ = nullptr;
  return true;
}

bool Batches::send_now(Link& link) {
  const bool sendable = layers_.sender.may_queue(link, link.batch->bytes) || link.may_send_batch();
  return sendable && send(link);
}

void Batches::cork(Link& link) {
  if (link.corked) return;
  link.corked = true;
  corked_.push_back(&link);
  layers_.progress.call_helper(false);
}

void Batches::flush_corked() {
  if (context_.is_ending()) return;
  std::vector<Link*> lost;  // closed with a batch that nobody has sent: opened for it
  std::erase_if(corked_, [&](Link* link) {
    if (link->has_batch() && link->failure.ok()) {
      if (!send_now(*link)) {
        if (link->machine.state() == connection::State::idle && !link->claim.waits)
          lost.push_back(link);
        return false;
      }
    }
    link->corked = false;
    if (link->endpoint != fabric::no_endpoint) (void)context_.fabric->flush(link->endpoint);
    return true;
  });
  for (Link* link : lost) layers_.links.open(*link);
  layers_.sender.push_oldest();
}

}  // namespace skerry::origin
