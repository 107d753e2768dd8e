// The product's library once more, to be preloaded: it writes down which nodes a process talks to,
// for `skerry-sim --trace` (docs/simulator.md). CMakeLists.txt compiles src/capi/job.cpp so that it
// makes fabrics and starts jobs here: a hook sees what goes to the fabric.
//
// Requests through shared connections are not recorded. Nor are those before skerry_init returns,
// which are no program's.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "core/futex.hpp"
#include "fabric/fabric.hpp"
#include "fabric/test/forward.hpp"
#include "skerry/skerry.h"
#include "wire/message.hpp"

extern "C" int skerry_init_unrecorded(const skerry_options* options, skerry_job** job);

namespace skerry::fabric {

Status make_recorded_fabric(std::string_view name, const Options& options,
                            std::unique_ptr<Fabric>* fabric);

namespace {

// Of this process, which has one job. The engine sends with its mutex held.
class Trace {
 public:
  Status open(const skerry_job* job) {
    const char* const prefix = std::getenv("SKERRY_USER_TRACE");
    if (prefix == nullptr) return {};
    rank_ = skerry_rank(job);
    const std::string path = concat(prefix, ".", rank_);
    std::FILE* const file = std::fopen(path.c_str(), "we");
    if (file == nullptr)
      return error(Code::config, "SKERRY_USER_TRACE=", prefix, ": cannot write ", path, ": ",
                   std::strerror(errno));
    std::fprintf(file, "# skerry trace: %d ranks on %d nodes\n# rank node bytes r|w think_ns\n",
                 skerry_size(job), skerry_node_count(job));
    restart_clock();
    file_.store(file, std::memory_order_release);
    return {};
  }
  ~Trace() {
    std::FILE* const file = file_.exchange(nullptr);
    if (file != nullptr && std::fclose(file) != 0)
      std::fprintf(stderr, "skerry: rank %d: its trace of requests is not complete: %s\n", rank_,
                   std::strerror(errno));
  }
  bool is_open() const { return file_.load(std::memory_order_acquire) != nullptr; }
  void request(uint32_t node, uint64_t bytes, bool awaits_reply) {
    const int64_t think_ns = monotonic_ns() - last_ns_ - waited_ns_.load();
    std::fprintf(file_.load(), "%d %u %llu %c %lld\n", rank_, node,
                 static_cast<unsigned long long>(std::min<uint64_t>(bytes, UINT32_MAX)),
                 awaits_reply ? 'r' : 'w',
                 static_cast<long long>(std::clamp<int64_t>(think_ns, 0, UINT32_MAX)));
    restart_clock();
  }
  // So much of the time until the next request is no computing.
  void waited(int64_t ns) { waited_ns_ += ns; }

 private:
  void restart_clock() {
    last_ns_ = monotonic_ns();
    waited_ns_ = 0;
  }

  std::atomic<std::FILE*> file_{nullptr};  // null: nothing is recorded
  int rank_ = -1;
  int64_t last_ns_ = 0;                // time of the newest request
  std::atomic<int64_t> waited_ns_{0};  // since then
};
Trace trace;

class Recorder final : public Forward {
 public:
  using Forward::Forward;

  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    const SendResult result = Forward::send(endpoint, header, payload, more, cookie);
    if (result == SendResult::accepted && trace.is_open()) note(endpoint, header, payload.size());
    return result;
  }
  SendResult start_rma(EndpointId endpoint, const RmaCall& call) override {
    const SendResult result = Forward::start_rma(endpoint, call);
    const auto node = node_.find(endpoint);
    if (result == SendResult::accepted && trace.is_open() && node != node_.end())
      trace.request(node->second, call.bytes, !call.is_put);
    return result;
  }
  void poll(int64_t timeout_ns, EndpointId only) override {
    const int64_t begin_ns = monotonic_ns();
    Forward::poll(timeout_ns, only);
    trace.waited(monotonic_ns() - begin_ns);
  }

 private:
  // A request, or an answer: servers send those.
  void note(EndpointId endpoint, Bytes header, uint64_t payload_bytes) {
    wire::Request request;
    if (header.size() < sizeof(wire::RequestHeader) || !wire::decode(header, &request).ok()) return;
    node_[endpoint] = request.header.target_node;
    const wire::Kind kind = request.kind();
    const bool brings = kind == wire::Kind::get || kind == wire::Kind::fetch_update;
    trace.request(request.header.target_node, brings ? request.extent_bytes : payload_bytes,
                  request.header.reply_slot != 0);
  }

  std::unordered_map<EndpointId, uint32_t> node_;  // of the endpoints on which requests went
};

}  // namespace

Status make_recorded_fabric(std::string_view name, const Options& options,
                            std::unique_ptr<Fabric>* fabric) {
  SKERRY_TRY(make_fabric(name, options, fabric));
  *fabric = std::make_unique<Recorder>(std::move(*fabric));
  return {};
}

}  // namespace skerry::fabric

int skerry_init(const skerry_options* options, skerry_job** job) {
  const int result = skerry_init_unrecorded(options, job);
  if (result != SKERRY_OK) return result;
  const skerry::Status opened = skerry::fabric::trace.open(*job);
  if (!opened.ok()) skerry_abort(*job, 1, opened.message().c_str());
  return result;
}
