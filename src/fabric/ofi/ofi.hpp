// ofi: libfabric's connected endpoints (FI_EP_MSG), for InfiniBand and RoCE (provider "verbs") and,
// to compare with, "tcp".
#pragma once

#include <memory>
#include <string>

#include "fabric/fabric.h"

namespace skerry::fabric {

// provider: a libfabric provider with connected endpoints; empty: verbs if there is a device, else
// tcp. Errors: unsupported (not built, libfabric.so.1 is not installed, or the provider has nothing
// here), network.
Status make_ofi_fabric(const Options& options, const std::string& provider,
                       std::unique_ptr<Fabric>* fabric);

}  // namespace skerry::fabric
