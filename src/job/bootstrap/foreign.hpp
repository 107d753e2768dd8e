// Joining a job that somebody else's launcher started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/bootstrap/bootstrap.hpp"
#include "job/bootstrap/meeting.hpp"

namespace skerry::job {

// What all of these have in common. Ranks exchange values through the launcher while the job
// starts; its first fence also opens a meeting of our own. All later fences meet there: the program
// may have finalised its MPI by then, and for the launcher this rank has ended.
class ForeignBootstrap : public Bootstrap {
 public:
  using Bootstrap::Bootstrap;
  Status fence() final;
  void start_is_over() override { start_is_over_ = true; }
  Status finish() override { return meet(); }
  [[noreturn]] void abort(int exit_status, std::string_view message) final;

 protected:
  Status meet(std::chrono::milliseconds limit = Meeting::usual_limit) {
    return meeting_.ready() ? meeting_.meet(limit) : Status();
  }

 private:
  // Collective: makes what each rank has put known to all.
  virtual Status exchange_values() = 0;
  // Returns if nobody but the caller can be ended.
  virtual void end_job(int exit_status) = 0;

  bool start_is_over_ = false;
  Meeting meeting_;
};

// Each sets *bootstrap to null if that launcher did not start us. Errors: config, network (it did,
// but does not work).
Status join_mpi(std::unique_ptr<Bootstrap>*
                    bootstrap);  // MPI is initialised in this process and not yet finalised
Status join_pmix(std::unique_ptr<Bootstrap>* bootstrap);  // PMIX_RANK is set
Status join_pmi1(std::unique_ptr<Bootstrap>* bootstrap);  // PMI_FD is set

// True if MPI was initialised in this process, whether or not it was finalised since.
bool mpi_was_initialized();

// How often this process has joined through a launcher that forgets no key: part of every key, so
// that a process may leave and join again. The launcher's connection is the process's, not the
// job's: this is one of the few process-wide numbers.
unsigned next_join();

// Paths of the libraries in a process ("self", or a number) whose file name begins with `prefix`.
// None if the process may not be read.
std::vector<std::string> loaded_libraries(std::string_view process, std::string_view prefix);

}  // namespace skerry::job
