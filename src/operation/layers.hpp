// The parts of an engine, put together (upward.hpp).
#pragma once

#include "operation/batches.hpp"
#include "operation/context.hpp"
#include "operation/links.hpp"
#include "operation/operations.hpp"
#include "operation/progress.hpp"
#include "operation/resume.hpp"
#include "operation/rma.hpp"
#include "operation/sender.hpp"
#include "operation/slots.hpp"
#include "operation/transfers.hpp"
#include "operation/upward.hpp"

namespace skerry::operation {

struct Layers final : Upward {
  Layers(Context& context, fabric::Sink& sink)
      : slots(context),
        links(context, *this, slots, progress),
        sender(context, *this, slots, links, progress),
        batches(context, links, sender, progress),
        transfers(context, {slots, operations, sender, batches, links, progress}),
        rma(context, {links, sender, transfers, operations, progress}),
        resume(context, slots, sender, rma),
        progress(context, sink, *this, slots, operations) {}

  bool is_held_back() const override { return batches.any_corked(); }
  void flush() override { batches.flush(); }
  bool anyone_waits() const override { return links.anyone_waits(); }
  void advance() override { links.advance(); }
  int64_t patience_ns() const override { return links.patience_ns(); }
  bool any_unacknowledged() override { return links.any_unacknowledged(); }
  void open_queued() override { links.open_queued(); }
  bool queues() const override { return links.queues(); }
  void release_unused() override { links.release_unused(); }
  bool send_batch(Link& link) override { return batches.send(link); }
  bool send_queued(Link& link) override { return sender.send_queued(link); }
  void resume_all(Link& link) override { resume.all(link); }
  void resume_queued(Link& link) override { resume.queued(link); }
  void go_on(Link& link) override { resume.go_on(link); }
  void abandon(Link& link, const Status& why) override { rma.abandon(link, why); }
  void cork(Link& link) override { batches.cork(link); }

  Slots slots;
  Operations operations;
  Links links;
  Sender sender;
  Batches batches;
  Transfers transfers;
  Rma rma;
  Resume resume;
  Progress progress;  // last: its thread uses all others
};

}  // namespace skerry::operation
