// Joining a job that somebody else's launcher started.
#pragma once

#include <string>

#include "job/bootstrap/bootstrap.hpp"

namespace skerry::job {

// Each sets *bootstrap to null if that launcher did not start us. Errors: config, network (it did,
// but does not work).
Status join_mpi(std::unique_ptr<Bootstrap>*
                    bootstrap);  // MPI is initialised in this process and not yet finalised
Status join_pmix(std::unique_ptr<Bootstrap>* bootstrap);  // PMIX_RANK is set
Status join_pmi1(std::unique_ptr<Bootstrap>* bootstrap);  // PMI_FD is set

// True if MPI was initialised in this process, whether or not it was finalised since.
bool mpi_was_initialized();
bool mpi_was_finalized();

// How often this process has joined through a launcher that forgets no key: part of every key, so
// that a process may leave and join again. The launcher's connection is the process's, not the
// job's: this is one of the few process-wide numbers.
unsigned next_join();

// A short key for a launcher with short keys: the join, the rank, and a hash of the name.
std::string short_key(unsigned join, int rank, std::string_view name);

// Prints why, as our own launcher would.
void print_abort(int rank, std::string_view message);

}  // namespace skerry::job
