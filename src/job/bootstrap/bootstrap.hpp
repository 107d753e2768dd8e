// Bootstrap: how the ranks of a job find each other before Skerry's own wire exists. Three verbs
// {put, get, fence} are enough, so that every launcher can provide them: our own, MPI, PMIx, PMI-1,
// or nobody (a job of one).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::job {

using JobKey = std::array<std::byte, 32>;

struct DeadRank {
  int rank;
  std::string cause;  // e.g. "was killed by signal 9 (SIGKILL)"
  uint32_t view = 0;  // the job's that begins with this death, from 1; 0: the job has no views
};

// What the launcher says unasked, or in answer to meet and decide.
struct News {
  struct Met {
    std::string key;
    // Who came, ascending, and with what; empty if some are missing.
    std::vector<std::pair<int, std::vector<std::byte>>> came;
    std::vector<int> missing;  // who lives and has not come in time
  };
  struct Decided {
    std::string key;
    uint8_t value;
  };
  struct LatePut {  // what a late spare has put: Bootstrap::late
    int rank;
    std::string key;
    std::vector<std::byte> value;
  };
  std::vector<DeadRank> dead;
  std::vector<LatePut> late;
  std::optional<uint32_t> spares_wait;  // so many from now on
  std::vector<Met> met;
  std::vector<Decided> decided;
  bool leave = false;  // this rank's host is taken out of the job
};

// Calls come from one thread at a time.
class Bootstrap {
 public:
  Bootstrap(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Bootstrap() = default;

  // "skerry run", "mpi", "pmix", "pmi1", "exchange", "threads", "alone"
  virtual std::string_view name() const = 0;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Ranks with equal numbers may share memory as far as the launcher knows or was told (`--nodes`);
  // nullopt: it does not say.
  virtual std::optional<int> node_hint() const { return std::nullopt; }
  // The last so many ranks wait until they take the place of dead ones.
  virtual int spares() const { return 0; }
  // The last so many spares are of hosts that may be added while the job runs, `per_node` on each
  // node. Until then nobody is there. They start by themselves: their fences are among the ranks of
  // their host, and what they put is news to the others.
  struct Late {
    int ranks = 0, per_node = 1;
  };
  virtual Late late() const { return {}; }
  bool is_late(int rank) const { return rank >= size() - late().ranks; }
  // True if the launcher itself ends the job, with a message, when a process of it dies.
  virtual bool launcher_ends_job() const { return true; }
  // The job key if the launcher drew one and handed it over in private; nullopt: see job_key().
  virtual std::optional<JobKey> launcher_key() const { return std::nullopt; }

  // Binary values up to 4096 bytes, any key of [a-z0-9/._-] up to 64 bytes; a put is visible to
  // every rank's get after the next fence. Each key is put at most once per rank. Errors: invalid,
  // network.
  virtual Status put(std::string_view key, std::span<const std::byte> value) = 0;
  // Blocks at most until the launcher answers. Errors: invalid, network (unknown key, launcher
  // gone).
  virtual Status get(int rank, std::string_view key, std::vector<std::byte>* value) = 0;
  // What `ranks` have put under `key`; `ranks` ascend, none: all that are not late. In order of
  // ranks, each(first, count, value): `first` and the count - 1 ranks behind it have put the same;
  // more than one only of all ranks. One request where the launcher has one for it, and nothing is
  // kept for each rank where it lists equal values once. Ends at the first error of `each`. Blocks
  // at most until the launcher answers. Errors: invalid, network, those of `each`.
  using EachRun = std::function<Status(int first, int count, std::span<const std::byte> value)>;
  virtual Status get_runs(std::span<const int> ranks, std::string_view key, const EachRun& each);
  // The lowest rank up to this one that has put exactly `value` under `key`. This rank has put it.
  // Blocks at most until the launcher answers. Errors: invalid, network.
  virtual Status lowest_with(std::string_view key, std::span<const std::byte> value, int* lowest);
  // Collective over all ranks. Blocks (sleeping) until all have called it.
  virtual Status fence() = 0;

  // No put or get follows: later fences only wait, and values may be forgotten. The exchange that
  // brought the job up may be gone from here on; a program may have finalised its MPI.
  virtual void start_is_over() {}

  // Collective, once, after the last fence and before the process ends; tells the launcher that
  // what follows is a normal end. Blocks until all have called it.
  virtual Status finish() = 0;
  // Ends the whole job: the launcher prints `message` (or we do) and kills the other ranks. Does
  // not return.
  [[noreturn]] virtual void abort(int exit_status, std::string_view message) = 0;

  // Asks to be told of dead ranks. A death ends the job as long as one rank has not asked.
  // `goes_on`: also that the launcher keeps views, meetings and decisions for those that live.
  // Errors: unsupported (foreign launchers end the job whatever we want).
  virtual Status report_failures(bool goes_on = false);
  // Becomes readable when the launcher has news: a dead rank, or its own end. -1: this launcher
  // brings none.
  virtual int events_fd() const { return -1; }
  // The news so far, without blocking. Errors: network (the launcher has gone).
  virtual Status take_events(std::vector<DeadRank>* dead);

  // ---- of a job that goes on without its dead; see launcher/meetings.hpp ----
  // Ranks first to first + count - 1.
  struct Run {
    int first, count;
  };
  static constexpr size_t most_runs = 400, most_meeting_bytes = 640;
  // Comes to the meeting `key` of `members`, which all that come name alike. A rank that has not
  // come `limit_ms` (negative: no limit) after the first is missing. The answer is among the news.
  // Any thread, one at a time. Errors: network, invalid, unsupported.
  // `size`: with spares those who come become so many, if there are enough; 0: no spare is wanted.
  // Without members: this rank is a spare, and waits to be taken in by such a meeting.
  virtual Status meet_living(std::string_view key, int64_t limit_ms, std::span<const Run> members,
                             std::span<const std::byte> bytes, int size = 0);
  // Likewise; the first proposal under a key becomes everybody's.
  virtual Status decide(std::string_view key, uint8_t proposal);
  // All that take_events takes, and the answers to meet and decide, without blocking. One thread.
  // Errors: network (the launcher has gone), unsupported.
  virtual Status take_news(News* news);

 protected:
  int rank_;
  int size_;
};

// For get(): network, the rank has put no such value.
Status nothing_put(int rank, std::string_view key);

// The node of `rank` when `size` ranks are split into `nodes` contiguous blocks whose sizes differ
// by at most one.
constexpr int block_node(int rank, int size, int nodes) {
  return static_cast<int>(static_cast<int64_t>(rank) * nodes / size);
}

// Finds what started this process, in this order: SKERRY_CONTROL_FD (own launcher), MPI already
// initialised in this process, PMIx (PMIX_RANK), PMI-1 (PMI_FD); otherwise a job of one rank.
// Errors: config, network.
Status discover(std::unique_ptr<Bootstrap>* bootstrap);

// The secret that admits connections: the launcher's, or drawn by rank 0 and spread through put,
// fence, get. Collective, once per job. Errors: network.
Status job_key(Bootstrap& bootstrap, JobKey* key);

// 32 bytes from the kernel's random numbers. Errors: internal.
Status draw_job_key(JobKey* key);

std::string to_hex(std::span<const std::byte> bytes);

}  // namespace skerry::job
