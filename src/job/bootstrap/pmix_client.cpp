// Ranks of a PMIx launcher (OpenMPI's mpirun, prterun, srun --mpi=pmix).
//
// An MPI in the same process uses the same library, and versions differ in what they bear. With
// PMIx up to 4 the process is a client once, counted, and finalised when the process ends. OpenMPI
// 5 (PMIx 5) cannot start in a process where PMIx is initialised already (it skips PMIx_Init and
// then lacks its name), and PMIx 5 does not survive being finalised and initialised again: there a
// helper process speaks PMIx in our name and is gone after finish().
#include <unistd.h>

#include <cstdlib>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/foreign.hpp"
#include "job/bootstrap/meeting.hpp"
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

class PmixBootstrap : public Bootstrap {
 public:
  PmixBootstrap(int rank, int size) : rank_(rank), size_(size), join_(next_join()) {}
  std::string_view name() const override { return "pmix"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    return do_put(full_key(key), value);
  }
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    SKERRY_TRY(check_key(key));
    return do_get(rank, full_key(key), value);
  }
  Status fence() override {
    if (mpi_was_finalized()) return meet();  // for the launcher, this rank has ended then
    const bool first = !meeting_.ready() && size_ > 1;
    std::vector<std::byte> invitation;
    if (first) SKERRY_TRY(meeting_.open(rank_, size_, &invitation));
    if (!invitation.empty()) SKERRY_TRY(put(Meeting::invitation_key, invitation));
    SKERRY_TRY(do_fence());
    if (!first || rank_ == 0) return {};
    SKERRY_TRY(get(Meeting::parent_of(rank_), Meeting::invitation_key, &invitation));
    return meeting_.accept_invitation(invitation);
  }

 protected:
  Status meet() { return meeting_.ready() ? meeting_.meet() : Status(); }
  virtual Status do_fence() = 0;
  virtual Status do_put(const std::string& key, std::span<const std::byte> value) = 0;
  virtual Status do_get(int rank, const std::string& key, std::vector<std::byte>* value) = 0;

 private:
  std::string full_key(std::string_view key) const { return concat("skerry.", join_, ".", key); }
  const int rank_;
  const int size_;
  const unsigned join_;
  Meeting meeting_;
};

class DirectPmix final : public PmixBootstrap {
 public:
  using PmixBootstrap::PmixBootstrap;
  Status finish() override {
    SKERRY_TRY(meet());
    process().finished = true;
    return {};
  }
  void abort(int exit_status, std::string_view message) override {
    print_abort(rank(), message);
    process().library.abort(exit_status);
    _exit(exit_status);
  }

 protected:
  Status do_fence() override { return process().library.fence(); }
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
  void abort(int exit_status, std::string_view message) override {
    print_abort(rank(), message);
    helper_.abort(exit_status);
    _exit(exit_status);
  }

 protected:
  Status do_fence() override { return helper_.fence(); }
  Status do_put(const std::string& key, std::span<const std::byte> value) override {
    return helper_.put(key, value);
  }
  Status do_get(int rank, const std::string& key, std::vector<std::byte>* value) override {
    return helper_.get(rank, key, value);
  }

 private:
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
