// From a name to a fabric, and what a build may leave out.
#include <algorithm>

#include "fabric/survey.hpp"
#ifdef SKERRY_HAS_FAULTS
#include "fabric/test/faults.hpp"
#endif

namespace skerry::fabric {

#ifndef SKERRY_HAS_OFI
static Status without_libfabric() {
  return error(Code::unsupported,
               "this Skerry was built without libfabric; install libfabric-dev and build again, or "
               "set SKERRY_FABRIC=tcp");
}
Status make_ofi_fabric(const Options&, const std::string&, std::unique_ptr<Fabric>*) {
  return without_libfabric();
}
Status survey_ofi(const Options&, std::vector<ProviderFacts>*) { return without_libfabric(); }
#endif
#ifndef SKERRY_HAS_FAULTS
static Status add_faults(const Options& options, std::unique_ptr<Fabric>*) {
  return error(Code::config, "SKERRY_FAULTS=", options.faults,
               " is for tests, and this Skerry was built without them: unset it, or build with "
               "-DSKERRY_TESTS=ON");
}
#endif

Status make_fabric(std::string_view name, const Options& options, std::unique_ptr<Fabric>* fabric) {
  if (name == "tcp") {
    SKERRY_TRY(make_tcp_fabric(options, fabric));
  } else if (name == "ofi" || name.starts_with("ofi:")) {
    SKERRY_TRY(make_ofi_fabric(options, std::string(name.substr(std::min<size_t>(name.size(), 4))),
                               fabric));
  } else {
    return error(Code::unsupported, "fabric ", name,
                 " is not known: give tcp, ofi or ofi:PROVIDER");
  }
  return options.faults.empty() ? Status() : add_faults(options, fabric);
}

}  // namespace skerry::fabric
