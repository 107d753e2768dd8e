// Ranks of a PMIx launcher (OpenMPI's mpirun, prterun, srun --mpi=pmix).
//
// An MPI in the same process uses the same library, and versions differ in what they bear. With
// PMIx up to 4 the process is a client once, counted, and finalised when the process ends. OpenMPI
// 5 (PMIx 5) cannot start in a process where PMIx is initialised already (it skips PMIx_Init and
// then lacks its name), and PMIx 5 does not survive being finalised and initialised again: there a
// helper process speaks PMIx in our name and is gone after finish().
#include <cstdlib>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/foreign.hpp"
#include "job/bootstrap/pmix_helper.hpp"
#include "job/bootstrap/pmix_library.hpp"

namespace skerry::job {
namespace {

constexpr int helper_since_version = 5;

// The library's connection belongs to the process and outlives every job object: see leave_at_exit.
struct Process {
  PmixLibrary library;
  bool loaded = false;
  bool started = false;   // initialised in this process (never with a helper)
  bool finished = false;  // the job was left properly: the process's end is a normal one
};
Process& process() {
  static Process one;
  return one;
}

// A process that leaves its job without finish() is not finalised: the launcher then sees an
// abnormal end and ends the job.
void leave_at_exit() {
  auto& mine = process();
  if (mine.started && mine.finished) mine.library.finalize();
}

class PmixBootstrap : public ForeignBootstrap {
 public:
  using ForeignBootstrap::ForeignBootstrap;
  std::string_view name() const override { return "pmix"; }

  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    return do_put(full_key(key), value);
  }
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    SKERRY_TRY(check_key(key));
    return do_get(rank, full_key(key), value);
  }

 private:
  bool is_over() const override { return mpi_was_finalized(); }
  virtual Status do_put(const std::string& key, std::span<const std::byte> value) = 0;
  virtual Status do_get(int rank, const std::string& key, std::vector<std::byte>* value) = 0;

  std::string full_key(std::string_view key) const { return concat("skerry.", join_, ".", key); }
  const unsigned join_ = next_join();
};

class DirectPmix final : public PmixBootstrap {
 public:
  using PmixBootstrap::PmixBootstrap;
  Status finish() override {
    SKERRY_TRY(meet());
    process().finished = true;
    return {};
  }

 private:
  void end_job(int exit_status) override { process().library.abort(exit_status); }
  Status exchange_values() override { return process().library.fence(); }
  Status do_put(const std::string& key, std::span<const std::byte> value) override {
    return process().library.put(key, value);
  }
  Status do_get(int rank, const std::string& key, std::vector<std::byte>* value) override {
    return process().library.get(rank, key, value);
  }
};

class HelpedPmix final : public PmixBootstrap {
 public:
  HelpedPmix(PmixHelper helper, int rank, int size)
      : PmixBootstrap(rank, size), helper_(std::move(helper)) {}
  Status finish() override {
    SKERRY_TRY(meet());
    return helper_.finish();
  }

 private:
  void end_job(int exit_status) override { helper_.abort(exit_status); }
  Status exchange_values() override { return helper_.fence(); }
  Status do_put(const std::string& key, std::span<const std::byte> value) override {
    return helper_.put(key, value);
  }
  Status do_get(int rank, const std::string& key, std::vector<std::byte>* value) override {
    return helper_.get(rank, key, value);
  }

  PmixHelper helper_;
};

}  // namespace

Status join_pmix(std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (std::getenv("PMIX_RANK") == nullptr) return {};
  auto& mine = process();
  if (!mine.loaded) SKERRY_TRY(mine.library.load());
  mine.loaded = true;
  bool reachable = false;
  int rank = 0, size = 0;
  if (mine.library.major_version() >= helper_since_version) {
    PmixHelper helper;
    SKERRY_TRY(PmixHelper::start(&mine.library, &helper, &reachable, &rank, &size));
    if (reachable) *bootstrap = std::make_unique<HelpedPmix>(std::move(helper), rank, size);
    return {};
  }
  if (!mine.started) {
    SKERRY_TRY(mine.library.init(&reachable));
    if (!reachable) return {};  // the variables are left over from somebody else's launcher
    mine.started = true;
    (void)std::atexit(leave_at_exit);
  }
  mine.finished = false;
  SKERRY_TRY(mine.library.job_size(&size));
  *bootstrap = std::make_unique<DirectPmix>(mine.library.rank(), size);
  return {};
}

}  // namespace skerry::job
