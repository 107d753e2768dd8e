// `skerry mpi`: starts an MPI program, usually through its launcher, with its windows on Skerry's.
#pragma once

#include <string>
#include <vector>

namespace skerry::launcher {

// The words of a command that starts processes through OpenMPI's launcher, which hands no variables
// to other hosts but those that it is told to: with "-x NAME" for each name. Pure.
std::vector<std::string> told_variables(const std::vector<std::string>& command,
                                        const std::vector<std::string>& names);

// Becomes the command. Returns only if that fails, with the exit status.
int mpi_main(const std::vector<std::string>& words);

}  // namespace skerry::launcher
