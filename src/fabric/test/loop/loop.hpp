// loop: a fabric inside one process, for tests. Its capabilities can be as bad as any real
// fabric's, so that the core can be run over the worst.
//
// Thread-safe; sleeps when there is nothing to do. With all sides driven by one thread a run is a
// function of the seed.
#pragma once

#include <memory>

#include "fabric/fabric.hpp"

namespace skerry::fabric {

// How atomics of an adapter on a peer's memory see those of the processors there.
enum class Atomics : uint8_t {
  none,
  incoherent,  // atomic towards each other alone: a word belongs to the processors or to the
               // adapter. Either may load it. A store or put by the other side may be lost
  coherent,    // atomic towards the processors' as well
};

struct LoopCapabilities {
  bool rma = true;
  // RMA takes effect by itself, at a moment drawn from the seed. At once it overtakes messages sent
  // before it; late it comes after messages sent behind it. It is always before on_rma_done. Off:
  // RMA and messages of an endpoint take effect in issue order (in the target's dispatch).
  bool rma_unordered = false;
  // Only with rma_unordered. Off: puts in flight when an endpoint is closed, by either side, may
  // still be placed any time later.
  bool close_fences_rma = true;
  bool direct_placement = true;  // off: max_payload_bytes is at most inline_payload_bytes
  uint64_t max_payload_bytes = uint64_t{1} << 40;
  uint64_t rma_from_bytes = 64 * 1024 + 1;  // what capabilities() recommends
  // Needs rma. Incoherent: an adapter that works on its own copy of a word. It reads the word,
  // keeps the copy for a number of polls drawn from the seed, and performs all atomics of the
  // fabric on it meanwhile. It writes the copy back even if it did not change, and tells only then.
  // What processors and puts did to the word meanwhile is lost.
  Atomics atomics = Atomics::coherent;
  uint64_t seed = 1;

  static LoopCapabilities worst(uint64_t seed) {
    LoopCapabilities worst;
    worst.rma_unordered = true;
    worst.close_fences_rma = false;
    worst.direct_placement = false;
    worst.max_payload_bytes = 8 * 1024;
    worst.rma_from_bytes = 1024;
    worst.atomics = Atomics::incoherent;
    worst.seed = seed;
    return worst;
  }
};

class LoopNetwork;  // what the fabrics made from it can reach: each other
std::shared_ptr<LoopNetwork> make_loop_network(const LoopCapabilities& capabilities);
// From now on incoherent adapters keep their copies; with `false` they write all of them back and
// go on by themselves. So a test can do what it likes between the read and the write.
void hold_adapters(LoopNetwork& network, bool hold);
// Words of which an adapter has a copy at the moment.
size_t words_in_adapters(LoopNetwork& network);
Status make_loop_fabric(const std::shared_ptr<LoopNetwork>& network, const Options& options,
                        std::unique_ptr<Fabric>* fabric);

}  // namespace skerry::fabric
