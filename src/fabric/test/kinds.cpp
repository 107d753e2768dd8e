#include "fabric/test/side.hpp"

namespace skerry::fabric::test {

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  all.push_back({"tcp", [] { return [](const Options& options, std::unique_ptr<Fabric>* fabric) { return make_tcp_fabric(options, fabric); }; }});
  return all;
}

}  // namespace skerry::fabric::test
