// A rank of `skerry run`: the client of the launcher behind SKERRY_CONTROL_FD.
#pragma once

#include "job/bootstrap/bootstrap.hpp"
#include "job/bootstrap/frame_socket.hpp"

namespace skerry::job {

class RunBootstrap final : public Bootstrap {
 public:
  // Says hello over `fd` and blocks until the launcher's welcome. The descriptor stays open until
  // the process ends (a program may leave the job and join again) and is closed on exec. Errors:
  // config (not a socket of ours), network.
  static Status connect(int fd, std::unique_ptr<Bootstrap>* bootstrap);

  std::string_view name() const override { return "skerry run"; }
  std::optional<int> node_hint() const override { return node_; }
  std::optional<JobKey> launcher_key() const override { return key_; }

  Status put(std::string_view key, std::span<const std::byte> value) override;
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override;
  Status get_runs(std::span<const int> ranks, std::string_view key, const EachRun& each) override;
  Status lowest_with(std::string_view key, std::span<const std::byte> value, int* lowest) override;
  Status fence() override;
  Status finish() override;
  [[noreturn]] void abort(int exit_status, std::string_view message) override;
  Status report_failures(bool goes_on) override;
  int events_fd() const override { return socket_.fd(); }
  Status take_events(std::vector<DeadRank>* dead) override;
  int spares() const override { return spares_; }
  Late late() const override { return late_; }
  Status meet_living(std::string_view key, int64_t limit_ms, std::span<const Run> members,
                     std::span<const std::byte> bytes, int size) override;
  Status decide(std::string_view key, uint8_t proposal) override;
  Status take_news(News* news) override;

 private:
  // Of one rank until hello() knows better.
  explicit RunBootstrap(int fd)
      : Bootstrap(0, 1), socket_(fd, "the launcher", max_values_payload) {}
  Status hello();
  // Blocks until a frame of type `wanted` comes; deaths reported meanwhile are kept for
  // take_events.
  Status expect(FrameType wanted, Frame* frame);
  Status ask(const std::vector<std::byte>& question, FrameType wanted, Frame* answer);
  Status note_death(const Frame& frame);
  Status note_late(const Frame& frame);
  // Whether it is one of those that come at any time; then it is noted.
  Status note(const Frame& frame, bool* is_news);
  Status note_met(const Frame& frame, News* news);

  FrameSocket socket_;
  int node_ = 0;
  int spares_ = 0;
  Late late_;
  JobKey key_{};
  // Reported, not yet taken:
  std::vector<DeadRank> dead_;
  std::vector<News::LatePut> puts_;
  std::optional<uint32_t> spares_wait_;
  bool leave_ = false;
  News::Met met_;  // of several frames, of which the last has not come; no key: none
};

}  // namespace skerry::job
