#include "operation/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace skerry::operation {

Status RequestTrace::open(const std::string& prefix, Rank rank, Rank ranks, NodeId nodes,
                          std::unique_ptr<RequestTrace>* trace) {
  const std::string path = concat(prefix, ".", rank);
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return error(Code::config, "SKERRY_TRACE_REQUESTS=", prefix, ": cannot write ", path, ": ",
                 std::strerror(errno));
  (void)std::setvbuf(file, nullptr, _IOFBF, 1 << 16);
  std::fprintf(file, "# skerry trace: %d ranks on %d nodes\n# rank node bytes r|w think_ns\n",
               ranks, nodes);
  trace->reset(new RequestTrace(file, rank));
  return {};
}

RequestTrace::~RequestTrace() {
  if (std::fclose(file_) != 0)
    std::fprintf(stderr, "skerry: rank %d: its trace of requests is not complete: %s\n", rank_,
                 std::strerror(errno));
}

void RequestTrace::request(NodeId node, uint64_t bytes, bool awaits_reply) {
  const int64_t now = monotonic_ns();
  const int64_t think = std::clamp<int64_t>(now - last_ns_ - waited_ns_, 0, UINT32_MAX);
  std::fprintf(file_, "%d %d %llu %c %lld\n", rank_, node,
               static_cast<unsigned long long>(std::min<uint64_t>(bytes, UINT32_MAX)),
               awaits_reply ? 'r' : 'w', static_cast<long long>(think));
  last_ns_ = monotonic_ns();
  waited_ns_ = 0;
}

}  // namespace skerry::operation
