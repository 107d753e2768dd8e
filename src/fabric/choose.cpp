#include "fabric/choose.hpp"

namespace skerry::fabric {

Status make_fabric(std::string_view name, const Options& options, std::unique_ptr<Fabric>* fabric) {
  if (name == "tcp") return make_tcp_fabric(options, fabric);
  return error(Code::unsupported, "fabric ", name, " is not part of this build: give tcp");
}

}  // namespace skerry::fabric
