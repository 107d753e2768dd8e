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
// Those further down use those further up, seldom the other way round. Each reaches the others
// through Layers alone. Everything with the mutex held.
#pragma once

#include "origin/send/batches.hpp"
#include "origin/context.hpp"
#include "origin/link/links.hpp"
#include "origin/link/operations.hpp"
#include "origin/progress/progress.hpp"
#include "origin/link/resume.hpp"
#include "origin/send/rma.hpp"
#include "origin/send/sender.hpp"
#include "origin/link/slots.hpp"
#include "origin/send/transfers.hpp"

namespace skerry::origin {

struct Layers {
  Layers(Context& context, fabric::Sink& sink)
      : slots(context),
        links(context, *this),
        sender(context, *this),
        batches(context, *this),
        transfers(context, *this),
        rma(context, *this),
        resume(context, *this),
        progress(context, *this, sink) {}

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

}  // namespace skerry::origin
