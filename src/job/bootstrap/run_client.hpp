// A rank of `skerry run`: the client of the launcher behind SKERRY_CONTROL_FD.
#pragma once

#include "job/bootstrap/bootstrap.hpp"
#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {

class RunBootstrap final : public Bootstrap {
 public:
  // Says hello over `fd` and blocks until the launcher's welcome. The descriptor stays open until
  // the process ends (a program may leave the job and join again) and is closed on exec. Errors:
  // config (not a socket of ours), network.
  static Status connect(int fd, std::unique_ptr<Bootstrap>* bootstrap);

  std::string_view name() const override { return "skerry run"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::optional<int> node_hint() const override { return node_; }
  std::optional<JobKey> launcher_key() const override { return key_; }

  Status put(std::string_view key, std::span<const std::byte> value) override;
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override;
  Status get_many(std::span<const int> ranks, std::string_view key,
                  std::vector<std::vector<std::byte>>* values) override;
  Status get_runs(std::string_view key, const EachRun& each) override;
  Status lowest_with(std::string_view key, std::span<const std::byte> value, int* lowest) override;
  Status fence() override;
  Status finish() override;
  [[noreturn]] void abort(int exit_status, std::string_view message) override;
  Status report_failures() override;
  int events_fd() const override { return fd_; }
  Status take_events(std::vector<DeadRank>* dead) override;

 private:
  explicit RunBootstrap(int fd) : fd_(fd), buffer_(max_values_payload) {}
  Status hello();
  Status send(std::vector<std::byte> frame);
  // Blocks until a frame of type `wanted` comes; deaths reported meanwhile are kept for
  // take_events.
  Status expect(FrameType wanted, Frame* frame);
  // Reads what the socket holds; blocks for the first byte if `wait`.
  Status receive(bool wait);
  // Asks for all values under `key`, and calls each(first, count, value) of those in a row.
  Status list_values(std::string_view key, const EachRun& each);
  Status note_death(const Frame& frame);

  const int fd_;
  int rank_ = -1;  // -1 until the welcome
  int size_ = 0;
  int node_ = 0;
  JobKey key_{};
  FrameBuffer buffer_;
  std::vector<DeadRank> dead_;  // reported, not yet taken
};

}  // namespace skerry::job
