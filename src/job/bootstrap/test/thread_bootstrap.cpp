#include "job/bootstrap/test/thread_bootstrap.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "core/pure/assert.hpp"
#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {
namespace {

// What the launcher would be: shared by the threads, guarded by `mutex`.
struct Exchange {
  explicit Exchange(int ranks) : size(ranks) {}
  const int size;
  JobKey key{};  // set once before the threads start
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, std::string>, std::vector<std::byte>> values;
  int waiting = 0;      // threads in the present fence
  uint64_t fences = 0;  // fences completed
  int left_early = -1;  // first rank whose bootstrap went away unfinished; -1: none
};

class ThreadBootstrap final : public Bootstrap {
 public:
  ThreadBootstrap(std::shared_ptr<Exchange> exchange, int rank, int node)
      : Bootstrap(rank, exchange->size), exchange_(std::move(exchange)), node_(node) {}
  ~ThreadBootstrap() override {
    std::lock_guard lock(exchange_->mutex);
    if (finished_ || exchange_->left_early >= 0) return;
    exchange_->left_early = rank_;
    exchange_->changed.notify_all();
  }

  std::string_view name() const override { return "threads"; }
  std::optional<int> node_hint() const override { return node_; }
  bool launcher_ends_job() const override { return false; }
  std::optional<JobKey> launcher_key() const override { return exchange_->key; }

  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    std::lock_guard lock(exchange_->mutex);
    exchange_->values[{rank_, std::string(key)}].assign(value.begin(), value.end());
    return {};
  }

  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    SKERRY_TRY(check_key(key));
    std::lock_guard lock(exchange_->mutex);
    const auto found = exchange_->values.find({rank, std::string(key)});
    if (found == exchange_->values.end()) {
      return nothing_put(rank, key);
    }
    *value = found->second;
    return {};
  }

  Status fence() override {
    std::unique_lock lock(exchange_->mutex);
    const uint64_t mine = exchange_->fences;
    if (++exchange_->waiting == exchange_->size) {
      exchange_->waiting = 0;
      ++exchange_->fences;
      exchange_->changed.notify_all();
      return {};
    }
    exchange_->changed.wait(
        lock, [&] { return exchange_->fences != mine || exchange_->left_early >= 0; });
    if (exchange_->fences != mine) return {};
    return error(Code::network, "rank ", exchange_->left_early, " left without finishing");
  }

  Status finish() override {
    SKERRY_TRY(fence());
    finished_ = true;
    return {};
  }

  void abort(int exit_status, std::string_view message) override {
    std::fprintf(stderr, "skerry: rank %d ended the job: %.*s\n", rank_,
                 static_cast<int>(message.size()), message.data());
    std::fflush(nullptr);
    _exit(exit_status);
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const int node_;
  bool finished_ = false;  // written by the rank's own thread
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int size, int nodes) {
  SKERRY_ASSERT(size >= 1 && nodes >= 1 && nodes <= size,
                "ranks as threads need 1 <= nodes <= size");
  auto exchange = std::make_shared<Exchange>(size);
  SKERRY_ASSERT(draw_job_key(&exchange->key).ok(), "the kernel gives random numbers");
  std::vector<std::unique_ptr<Bootstrap>> bootstraps;
  for (int rank = 0; rank < size; ++rank) {
    bootstraps.push_back(
        std::make_unique<ThreadBootstrap>(exchange, rank, block_node(rank, size, nodes)));
  }
  return bootstraps;
}

}  // namespace skerry::job
