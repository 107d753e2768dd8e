// When is what this rank issued done? Of members elsewhere: when the engine says so. Of this
// node's: at once, but for stores that other cores do not see yet.
#pragma once

#include <utility>

#include "core/pure/ordering.hpp"
#include "window/context.hpp"
#include "window/target.hpp"

namespace skerry::window {

class Completion {
 public:
  explicit Completion(const Context& context)
      : engine_(context.job.engine()), multiple_(context.multiple) {}

  // A put to memory of this node is a plain store. Updates complete by themselves
  // (memory/stripes.hpp).
  void will_store() {
    if (!multiple_) has_stored_ = true;
  }
  // What this rank put to memory of its node is visible to all before this thread loads again.
  // Where several threads call, any of them may have put: then this always fences.
  void complete_stores() {
    if (!multiple_ && !std::exchange(has_stored_, false)) return;
    full_fence();
  }
  // The same right behind an atomic read-modify-write. Below thread level multiple alone.
  void complete_stores_after_rmw() {
    full_fence_after_rmw();
    has_stored_ = false;
  }
  // Everything that this rank issued is done here, with handles or without.
  Status wait_issued() const {
    const Status implicit = engine_.wait_implicit();
    const Status named = engine_.wait_named();
    return implicit.ok() ? named : implicit;
  }
  // Everything issued to this member is done there.
  Status finish(const Target& target) {
    if (target.region != nullptr) {
      complete_stores();
      return {};
    }
    const Status waited = wait_issued();
    const Status fenced = engine_.fence_node(target.node);
    return waited.ok() ? fenced : waited;
  }

 private:
  operation::Engine& engine_;
  const bool multiple_;
  bool has_stored_ = false;  // put to memory of this node since the last full fence; below thread
                             // level multiple
};

}  // namespace skerry::window
