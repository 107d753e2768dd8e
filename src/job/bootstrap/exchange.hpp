// A job of processes that somebody else has connected: its MPI or the program, which brings an
// exchange; or of one process alone. Values travel in the exchange.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "job/bootstrap/foreign.hpp"

namespace skerry::job {

// Pure data: which participants there are, and how they reach each other.
struct Exchange {
  std::string_view name = "exchange";
  // False: who provides the exchange may have left it by the time a rank dies.
  bool launcher_ends_job = false;
  int position = 0;
  int count = 1;
  // Collective: what all participants give, one behind the other, each as much as it likes. Errors:
  // network.
  using Gather = std::function<Status(std::span<const std::byte> mine,
                                      std::vector<std::byte>* all)>;
  Gather gather;
  // Ends all participants, or returns if it cannot. Null: nobody but the caller can be ended.
  std::function<void(int exit_status)> abort;
};

// Of `count` participants whose allgather stores `in` of participant i at out + i x in.size(). It
// takes as much memory as if all gave as many bytes as the one that gives most.
using Allgather = std::function<Status(std::span<const std::byte> in, std::byte* out)>;
Exchange::Gather gather_by(Allgather allgather, int count);

class ExchangeBootstrap final : public ForeignBootstrap {
 public:
  explicit ExchangeBootstrap(Exchange exchange)
      : ForeignBootstrap(exchange.position, exchange.count), exchange_(std::move(exchange)) {}

  std::string_view name() const override { return exchange_.name; }
  std::optional<int> node_hint() const override {
    return size() == 1 ? std::optional(0) : std::nullopt;
  }
  bool launcher_ends_job() const override { return exchange_.launcher_ends_job; }
  Status put(std::string_view key, std::span<const std::byte> value) override;
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override;
  void start_is_over() override {
    values_.clear();
    ForeignBootstrap::start_is_over();
  }
  Status report_failures(bool goes_on) override {  // of one rank no other could die
    return size() == 1 ? Status() : ForeignBootstrap::report_failures(goes_on);
  }

 private:
  Status exchange_values() override;
  void end_job(int exit_status) override {
    if (exchange_.abort) exchange_.abort(exit_status);
  }

  const Exchange exchange_;
  std::vector<std::byte> fresh_;  // put since the last fence, as frames
  // Some 140 bytes a rank, until the start is over.
  std::map<std::pair<int, std::string>, std::vector<std::byte>> values_;
};

// A job of one rank: nobody started us.
std::unique_ptr<Bootstrap> make_alone();

}  // namespace skerry::job
