// A job of processes that the program itself has connected: it brings an allgather, and values
// travel in it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "job/bootstrap/foreign.hpp"

namespace skerry::job {

// Pure data: which participants there are, and how they reach each other.
struct Exchange {
  int position = 0;
  int count = 1;
  // Collective over the participants: `in` of participant i is stored at out + i x in.size().
  // Errors: network.
  std::function<Status(std::span<const std::byte> in, std::byte* out)> allgather;
  // Ends all participants, or returns if it cannot. Null: nobody but the caller can be ended.
  std::function<void(int exit_status)> abort;
};

// Values travel in an allgather.
class GatheredBootstrap : public ForeignBootstrap {
 public:
  using ForeignBootstrap::ForeignBootstrap;
  Status put(std::string_view key, std::span<const std::byte> value) override;
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override;
  void start_is_over() override {
    values_.clear();
    ForeignBootstrap::start_is_over();
  }

 private:
  Status exchange_values() final;
  // Collective: what all ranks give, one behind the other. Errors: network.
  virtual Status gather(std::span<const std::byte> mine, std::vector<std::byte>* all) = 0;

  std::vector<std::byte> fresh_;  // put since the last fence, as frames
  // Some 140 bytes a rank, until the start is over.
  std::map<std::pair<int, std::string>, std::vector<std::byte>> values_;
};

class ExchangeBootstrap final : public GatheredBootstrap {
 public:
  explicit ExchangeBootstrap(Exchange exchange)
      : GatheredBootstrap(exchange.position, exchange.count), exchange_(std::move(exchange)) {}

  std::string_view name() const override { return "exchange"; }
  // The program that provides the exchange may have left it by the time a rank dies.
  bool launcher_ends_job() const override { return false; }

 private:
  Status gather(std::span<const std::byte> mine, std::vector<std::byte>* all) override;
  void end_job(int exit_status) override {
    if (exchange_.abort) exchange_.abort(exit_status);
  }

  const Exchange exchange_;
};

// A job of one rank: nobody started us.
class AloneBootstrap final : public GatheredBootstrap {
 public:
  AloneBootstrap() : GatheredBootstrap(0, 1) {}
  std::string_view name() const override { return "alone"; }
  std::optional<int> node_hint() const override { return 0; }
  bool launcher_ends_job() const override { return false; }
  Status report_failures() override { return {}; }  // no other rank could die

 private:
  Status gather(std::span<const std::byte> mine, std::vector<std::byte>* all) override {
    all->assign(mine.begin(), mine.end());
    return {};
  }
  void end_job(int) override {}
};

}  // namespace skerry::job
