// The SKERRY_* variables of a job, looked at before anything starts: one message instead of one
// from every rank. Ranks check them all the same, since other launchers do not.
#pragma once

#include <span>
#include <string>

#include "core/config.hpp"
#include "core/pure/status.hpp"

namespace skerry::launcher {

// What the ranks will find: `environment` (NAME=value, ended by null), with `given` on top, as
// RunOptions::environment has them. Errors: config, those that each rank would report.
Status read_variables(const char* const* environment, std::span<const std::string> given,
                      Config* config);

// What `skerry run` says beside the job: a variable that is right and has no effect under it; empty
// if there is none. `nodes`: of the job.
std::string idle_variable(const Config& config, int nodes);

// What all variables mean, with their defaults, for `skerry info --variables`.
std::string variables_help();

}  // namespace skerry::launcher
