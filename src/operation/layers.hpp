// The parts of an engine, put together. They are layers:
//
//   Slots, Operations   answers that are waited for, and what waits for them
//   Progress            the thread that sends and receives
//   Links               connections to data servers
//   Sender              requests on their way out
//   Batches             puts held back to be sent together
//   Transfers           accesses, cut into requests
//   Rma                 the fabric's own puts and gets
//   Resume              after a break
//
// Each has those before it that it calls as members, and reaches those behind it through Layers
// alone. Everything with the mutex held.
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

namespace skerry::operation {

struct Layers {
  Layers(Context& context, fabric::Sink& sink)
      : slots(context),
        links(context, *this, slots, progress),
        sender(context, *this, slots, links, progress),
        batches(context, links, sender, progress),
        transfers(context, {slots, operations, sender, batches, links, progress}),
        rma(context, {links, sender, transfers, operations, progress}),
        resume(context, slots, sender, rma),
        progress(context, sink, *this, slots, operations) {}

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
