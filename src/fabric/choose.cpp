#include "fabric/choose.hpp"

#include <algorithm>

#include "fabric/ofi/ofi.hpp"

namespace skerry::fabric {

Status make_fabric(std::string_view name, const Options& options, std::unique_ptr<Fabric>* fabric) {
  if (name == "tcp") return make_tcp_fabric(options, fabric);
  if (name == "ofi" || name.starts_with("ofi:"))
    return make_ofi_fabric(options, std::string(name.substr(std::min<size_t>(name.size(), 4))),
                           fabric);
  return error(Code::unsupported, "fabric ", name, " is not known: give tcp, ofi or ofi:PROVIDER");
}

}  // namespace skerry::fabric
