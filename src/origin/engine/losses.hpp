// Nodes that died with their leader, in a job that goes on without its dead: what was under way to
// them fails, and nothing is sent or opened any more. A fence tells of a loss once, if it waited
// for anything there.
#pragma once

#include <cstddef>

#include "core/thread.hpp"
#include "origin/link/links.hpp"
#include "origin/progress/progress.hpp"

namespace skerry::origin {

class Losses {
 public:
  Losses(EngineContext& context, Progress& progress, Links& links)
      : context_(context), progress_(progress), links_(links) {}

  // What is under way to the node fails with `why`, and so does what is issued later. Returns when
  // it has. From a thread that does not use the engine otherwise, without the mutex.
  void lose(NodeId node, const Status& why);

  // ---- with the mutex held ----
  // While no thread is in the fabric: endpoints are closed. True: something was lost.
  bool advance();
  // What a fence of a lost link has to say: its failure, or nothing more.
  static Status tell(Link& link);
  // While it lasts a fence of the link waits. If the link is lost meanwhile, that fence tells.
  class Fence {
   public:
    explicit Fence(Link& link) : link_(link) {}
    ~Fence() {
      if (link_.connection.is_lost()) (void)tell(link_);
    }
    Fence(const Fence&) = delete;

   private:
    Link& link_;
  };

 private:
  EngineContext& context_;
  Progress& progress_;
  Links& links_;
  size_t done_ = 0;  // of EngineContext::lost, from its start
};

}  // namespace skerry::origin
