#include "silent.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "../text.hpp"

namespace skerry::mpi {
namespace {

using compat::text;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string of_process(int process, const char* what) {
  return read(text("/proc/", process, "/", what));
}

// By which a launcher tells a process its rank; null: none that we know.
const char* rank_variable(int own_rank) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* const value = std::getenv(name);
        value != nullptr && std::to_string(own_rank) == value)
      return name;
  return nullptr;
}

// `setting`: NAME= or NAME=VALUE. `name_only`: whatever the value.
bool has(const std::string& environment, const std::string& setting, bool name_only) {
  for (size_t at = 0; at < environment.size();) {
    const std::string_view one = environment.data() + at;  // each ends with a zero
    if (name_only ? one.starts_with(setting) : one == setting) return true;
    at += one.size() + 1;
  }
  return false;
}

int parent_of(int process) {
  const std::string told = of_process(process, "stat");
  const size_t behind_name = told.rfind(')');
  if (behind_name == std::string::npos || behind_name + 4 > told.size()) return 0;
  return std::atoi(told.c_str() + behind_name + 4);  // ") S PARENT"
}

// The nearest ancestor that has no rank itself: shells and wrappers between have their rank's.
int launcher_of(int process, const std::string& variable) {
  int found = parent_of(process);
  while (found > 1 && has(of_process(found, "environ"), variable, true)) found = parent_of(found);
  return found;
}

}  // namespace

Sight look_for(int own_rank, int rank) {
  const char* const name = rank_variable(own_rank);
  if (name == nullptr) return Sight::nowhere;
  const std::string variable = text(name, "=");
  const int launcher = launcher_of(getpid(), variable);
  Sight found = Sight::nowhere;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const int process = std::atoi(entry.path().filename().c_str());
    if (process <= 0 || !has(of_process(process, "environ"), text(variable, rank), false)) continue;
    if (launcher_of(process, variable) != launcher) continue;
    const std::string maps = of_process(process, "maps");
    if (maps.find("/libmpi") == std::string::npos) continue;  // a shell around it
    if (maps.find("/libskerry_mpi.so") != std::string::npos) return Sight::with;
    found = Sight::without;
  }
  return found;
}

}  // namespace skerry::mpi
