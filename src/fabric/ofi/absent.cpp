// Stands in for the ofi fabric where Skerry was built without libfabric's headers.
#include "fabric/ofi/ofi.hpp"

namespace skerry::fabric {

Status make_ofi_fabric(const Options&, const std::string&, std::unique_ptr<Fabric>*) {
  return error(Code::unsupported,
               "this Skerry was built without libfabric; install libfabric-dev and build again, or "
               "set SKERRY_FABRIC=tcp");
}

}  // namespace skerry::fabric
