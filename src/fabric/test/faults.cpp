#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "fabric/test/forward.hpp"
#include "fabric/test/faults.hpp"

namespace skerry::fabric {
namespace {

// Drops are only marked where they happen, and performed at the next dispatch. close is no issue
// call, and must not pull an endpoint from under the fabric that is delivering to it. Until then
// messages on a doomed endpoint are swallowed, as a dying network does.
class Faulty final : public Forward {
 public:
  Faulty(std::unique_ptr<Fabric> inner, const FaultPlan& plan, std::shared_ptr<FaultLog> log)
      : Forward(std::move(inner)),
        plan_(plan),
        log_(std::move(log)),
        random_(plan.seed * 0x9e3779b97f4a7c15u + 1) {}

  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    if (is_doomed(endpoint)) return SendResult::accepted;
    return sent(endpoint, inner_->send(endpoint, header, payload, more, cookie));
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    if (is_doomed(endpoint)) return SendResult::accepted;
    return sent(endpoint, inner_->send_gathered(endpoint, header, parts, cookie));
  }
  SendResult flush(EndpointId endpoint) override {
    return is_doomed(endpoint) ? SendResult::accepted : inner_->flush(endpoint);
  }
  SendResult start_rma(EndpointId endpoint, const RmaCall& call) override {
    const SendResult result = is_doomed(endpoint) ? SendResult::accepted
                                                  : inner_->start_rma(endpoint, call);
    if (result == SendResult::accepted) state_[endpoint].rma.insert(call.cookie);
    return result;
  }
  void dispatch(Sink& sink) override {
    outer_ = &sink;
    perform_drops(sink);
    Forward::dispatch(sink);
    perform_drops(sink);
  }
  void close(EndpointId endpoint) override {
    state_.erase(endpoint);
    doomed_.erase(endpoint);
    inner_->close(endpoint);
  }

 private:
  struct State {
    uint32_t sent = 0, received = 0;
    std::unordered_multiset<uint64_t> rma;  // cookies of outstanding RMA: a drop must tell them
  };

  bool chance(uint32_t per_million) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return per_million != 0 && (random_ >> 32) % 1'000'000 < per_million;
  }
  bool breaks(uint32_t count, uint32_t after) {
    return log_->enabled.load(std::memory_order_relaxed) &&
           (count == after || chance(plan_.drop_per_million));
  }
  SendResult sent(EndpointId endpoint, SendResult result) {
    if (result == SendResult::accepted && breaks(++state_[endpoint].sent, plan_.drop_after_sent))
      doom(endpoint);
    return result;
  }
  void doom(EndpointId endpoint) {
    doomed_.insert(endpoint);
    inner_->wake();
  }
  void perform_drops(Sink& sink) {
    while (!doomed_.empty()) {
      const EndpointId endpoint = *doomed_.begin();
      doomed_.erase(doomed_.begin());
      State state = std::move(state_[endpoint]);
      state_.erase(endpoint);
      inner_->close(endpoint);
      log_->drops.fetch_add(1, std::memory_order_relaxed);
      tell_failed(endpoint, state, sink);
      sink.on_closed(endpoint, CloseReason::reset, "injected fault");
    }
  }
  static void tell_failed(EndpointId endpoint, const State& state, Sink& sink) {
    for (uint64_t cookie : state.rma) sink.on_rma_done(endpoint, cookie, false);
  }
  bool is_doomed(EndpointId endpoint) const { return doomed_.count(endpoint) != 0; }
  // Before delivery. True: it is lost, and the drop comes at the end of this dispatch.
  bool loses(EndpointId endpoint) {
    state_.try_emplace(endpoint);
    return is_doomed(endpoint);
  }
  Verdict delivered(EndpointId endpoint, Verdict verdict) {
    const auto found = state_.find(endpoint);  // the sink may have closed it
    if (verdict == Verdict::taken && found != state_.end() &&
        breaks(++found->second.received, plan_.drop_after_received))
      doom(endpoint);
    return verdict;
  }

  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override {
    if (loses(endpoint)) return Verdict::park;
    return delivered(endpoint, outer_->on_message(endpoint, header, payload));
  }
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    if (loses(endpoint)) return Verdict::park;
    return delivered(endpoint, outer_->on_placed(endpoint, header, payload_bytes));
  }
  void on_rma_done(EndpointId endpoint, uint64_t cookie, bool ok) override {
    std::unordered_multiset<uint64_t>& rma = state_[endpoint].rma;
    if (const auto found = rma.find(cookie); found != rma.end()) rma.erase(found);
    outer_->on_rma_done(endpoint, cookie, ok);
  }
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    State state = std::move(state_[endpoint]);
    state_.erase(endpoint);
    doomed_.erase(endpoint);
    tell_failed(endpoint, state, *outer_);  // those that were swallowed here
    outer_->on_closed(endpoint, reason, detail);
  }

  const FaultPlan plan_;
  const std::shared_ptr<FaultLog> log_;
  uint64_t random_;
  std::unordered_map<EndpointId, State> state_;
  std::unordered_set<EndpointId> doomed_;
};

}  // namespace

std::unique_ptr<Fabric> hook_faults(std::unique_ptr<Fabric> inner, const FaultPlan& plan,
                                    std::shared_ptr<FaultLog> log) {
  return std::make_unique<Faulty>(std::move(inner), plan, std::move(log));
}

Status add_faults(const Options& options, std::unique_ptr<Fabric>* fabric) {
  FaultPlan plan;
  for (std::string_view rest = options.faults; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const bool is_drop = item.starts_with("drop=");
    const std::string_view digits = item.substr(std::min<size_t>(item.size(), 5));
    uint64_t number = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(),
                                               number);
    if ((!is_drop && !item.starts_with("seed=")) || failed != std::errc() ||
        end != digits.data() + digits.size() || (is_drop && number > 1'000'000))
      return error(Code::config, "SKERRY_FAULTS: ", item,
                   " is neither drop=N, with N from 0 to 1000000, nor seed=N");
    if (is_drop) plan.drop_per_million = static_cast<uint32_t>(number);
    else plan.seed = number;
  }
  plan.seed = plan.seed * 1000 + options.faults_side;
  *fabric = hook_faults(std::move(*fabric), plan, std::make_shared<FaultLog>());
  return {};
}

}  // namespace skerry::fabric
