// Datagrams of one of libfabric's providers as the worst adapter has them; EFA's own (fabric
// efa-direct) comes near. Completions come late and in any order, those of messages that arrived,
// too. Messages have at most 8 KiB, puts and gets 64 KiB. Puts and gets are not always taken at the
// first or second time. All memory must be registered.
#pragma once

#include <memory>
#include <string>

#include "fabric/fabric.hpp"

namespace skerry::fabric::test {

// Errors: as make_ofi_fabric. Repeatable by seed, as far as the provider is.
Status make_unordered_fabric(const Options& options, const std::string& provider, uint64_t seed,
                             std::unique_ptr<Fabric>* fabric);

}  // namespace skerry::fabric::test
