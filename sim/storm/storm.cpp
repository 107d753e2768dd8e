#include "sim/storm/storm.hpp"

#include <memory>

#include "sim/storm/checker.hpp"
#include "sim/storm/network.hpp"
#include "sim/storm/origin.hpp"
#include "sim/storm/server.hpp"

namespace skerry::sim {
namespace {

class Storm {
 public:
  explicit Storm(const StormConfig& config)
      : config_(config),
        random_(config.seed ^ 0x5eed),
        network_(queue_, random_, config.latency_ns, config.jitter_ns),
        checker_(config.origins, config.servers, config.words) {
    for (size_t i = 0; i < key_.size(); ++i) key_[i] = static_cast<std::byte>(random_.next());
    std::vector<OriginSink*> origins;
    std::vector<ServerSink*> servers;
    for (uint32_t s = 0; s < config.servers; ++s) {
      servers_.push_back(
          std::make_unique<StormServer>(s, config_, key_, queue_, random_, network_, checker_));
      servers.push_back(servers_.back().get());
    }
    for (uint32_t o = 0; o < config.origins; ++o) {
      origins_.push_back(
          std::make_unique<StormOrigin>(o, config_, key_, queue_, random_, network_, checker_));
      origins.push_back(origins_.back().get());
    }
    network_.attach(std::move(origins), std::move(servers));
  }

  StormResult run() {
    for (const auto& origin : origins_)
      queue_.schedule(random_.between(0, 1000), [o = origin.get()] { o->pump(); });
    if (config_.fault_interval_ns > 0) schedule_fault();
    // Far beyond what a storm needs: whoever is still at it then goes round in circles.
    const uint64_t most_events = 4000 * uint64_t{config_.origins} * config_.threads *
                                     config_.operations +
                                 2'000'000;
    while (!queue_.empty() && !checker_.failed()) {
      queue_.pop()();
      for (const auto& origin : origins_) origin->check();
      if (queue_.processed() % 32 == 0)
        for (const auto& server : servers_) server->check();
      if (queue_.processed() > most_events)
        checker_.fail("no end after ", queue_.processed(), " events; ", describe());
    }
    if (!checker_.failed()) finish();
    StormResult result;
    result.failure = checker_.failure();
    result.events = queue_.processed();
    result.applied = checker_.applied();
    for (const auto& server : servers_) result.duplicates += server->duplicates();
    result.cuts = network_.cuts();
    for (const auto& origin : origins_) {
      result.resumes += origin->resumes();
      result.evictions += origin->evictions();
      result.most_log_bytes = std::max(result.most_log_bytes, origin->most_log_bytes());
    }
    result.simulated_ns = queue_.now();
    return result;
  }

 private:
  // Nothing happens any more: then everything must have happened.
  void finish() {
    for (const auto& origin : origins_)
      if (!origin->finished())
        return checker_.fail("nothing happens any more and a program has not ended; ", describe());
    for (const auto& origin : origins_)
      if (!origin->closed())
        return checker_.fail("nothing happens any more and connections are not closed; ",
                             describe());
    for (const auto& server : servers_) {
      if (server->clients() != 0 || server->newcomers() != 0)
        checker_.fail("a server keeps ", server->clients(), " clients and ", server->newcomers(),
                      " newcomers at the end");
      checker_.finish(static_cast<uint32_t>(&server - servers_.data()), server->memory());
    }
    if (network_.open_ends() != 0)
      checker_.fail(network_.open_ends(), " ends of connections are open at the end");
  }

  std::string describe() const {
    std::string text;
    for (const auto& origin : origins_) text += origin->describe() + "; ";
    return text;
  }

  void schedule_fault() {
    const Time at = queue_.now() + random_.between(1, 2 * config_.fault_interval_ns);
    if (at > config_.faults_end_ns)
      return;  // the faults stop: from now on everything must converge
    queue_.schedule(at, [this] {
      fault();
      schedule_fault();
    });
  }

  void fault() {
    const uint32_t dice = random_.below(10);
    StormServer& server = *servers_[random_.below(config_.servers)];
    if (dice < 6) {
      if (const ConnectionId connection = network_.random_connection(); connection != no_connection)
        network_.cut(connection);
    } else if (dice < 7) {
      server.pause(random_.between(0, 20 * (config_.latency_ns + config_.jitter_ns)));
    } else if (dice < 8) {
      network_.replay_hello();
    } else {
      server.ask_somebody();
    }
  }

  StormConfig config_;
  Random random_;
  Queue queue_;
  Network network_;
  Checker checker_;
  connection::JobKey key_{};
  std::vector<std::unique_ptr<StormServer>> servers_;
  std::vector<std::unique_ptr<StormOrigin>> origins_;
};

}  // namespace

StormResult run_storm(const StormConfig& config) { return Storm(config).run(); }

}  // namespace skerry::sim
