// A job of processes that the program itself has connected: it brings an allgather, and values
// travel in it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "job/bootstrap/bootstrap.hpp"
#include "job/bootstrap/meeting.hpp"

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

class ExchangeBootstrap final : public Bootstrap {
 public:
  explicit ExchangeBootstrap(Exchange exchange) : exchange_(std::move(exchange)) {}

  std::string_view name() const override { return "exchange"; }
  int rank() const override { return exchange_.position; }
  int size() const override { return exchange_.count; }
  // The program that provides the exchange may have left it by the time a rank dies.
  bool launcher_ends_job() const override { return false; }

  Status put(std::string_view key, std::span<const std::byte> value) override;
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override;
  Status fence() override;
  void start_is_over() override {
    is_over_ = true;
    values_.clear();
  }
  Status finish() override { return meet(); }
  [[noreturn]] void abort(int exit_status, std::string_view message) override;

 private:
  Status gather();
  Status meet() { return meeting_.ready() ? meeting_.meet() : Status(); }

  const Exchange exchange_;
  Meeting meeting_;               // fences without the exchange
  bool is_over_ = false;          // the exchange is not to be used any more
  std::vector<std::byte> fresh_;  // put since the last fence, as frames
  // Some 140 bytes a rank, until the start is over.
  std::map<std::pair<int, std::string>, std::vector<std::byte>> values_;
};

}  // namespace skerry::job
