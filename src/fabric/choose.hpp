// From the name in SKERRY_FABRIC to a fabric.
#pragma once

#include <memory>
#include <string_view>

#include "fabric/fabric.h"

namespace skerry::fabric {

// name: "tcp", "ofi" or "ofi:PROVIDER". Errors: unsupported (not built, or its library is not
// installed), network.
Status make_fabric(std::string_view name, const Options& options, std::unique_ptr<Fabric>* fabric);

}  // namespace skerry::fabric
