#include <charconv>
#include <cstdlib>
#include <cstring>

#include "job/bootstrap/alone.hpp"
#include "job/bootstrap/foreign.hpp"
#include "job/bootstrap/run_client.hpp"

namespace skerry::job {

Status discover(std::unique_ptr<Bootstrap>* bootstrap) {
  if (const char* text = std::getenv("SKERRY_CONTROL_FD")) {
    int fd = -1;
    const char* end = text + std::strlen(text);
    if (const auto [stop, problem] = std::from_chars(text, end, fd);
        problem != std::errc() || stop != end || fd < 0) {
      return error(Code::config, "SKERRY_CONTROL_FD=\"", text,
                   "\" is not a descriptor number; only `skerry run` sets it");
    }
    return RunBootstrap::connect(fd, bootstrap);
  }
  for (const auto join : {join_mpi, join_pmix, join_pmi1}) {
    SKERRY_TRY(join(bootstrap));
    if (*bootstrap) return {};
  }
  *bootstrap = std::make_unique<AloneBootstrap>();
  return {};
}

}  // namespace skerry::job
