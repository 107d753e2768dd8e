#include "launcher/mpi_main.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

extern char** environ;

namespace skerry::launcher {
namespace {

constexpr const char* help =
    "usage: skerry mpi [OPTION ...] [--] COMMAND ...\n\n"
    "Runs an MPI program with its windows (MPI_Put, MPI_Win_lock, ...) on Skerry's, unmodified:\n"
    "  skerry mpi mpirun -n 4 ./program\n\n"
    "  --explain   say of each window whether it is Skerry's, and why not\n"
    "  --check     find mistakes in the use of windows (SKERRY_CHECK=mpi)\n"
    "  --complete-at-once\n"
    "              every put, get and update is complete when its call returns\n"
    "              (SKERRY_COMPLETE_AT_ONCE=1): slower, for programs that do not wait\n"
    "  --library   print the path of the library to preload, and end\n";

constexpr const char* library_name = "libskerry_mpi.so";

// Beside this program in the build tree, or where libraries are installed. Empty: not there.
std::string library() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return "";
  const std::filesystem::path prefix = self.parent_path().parent_path();
  for (const char* directory : {"lib", SKERRY_LIBRARY_DIRECTORY}) {
    const std::filesystem::path path = prefix / directory / library_name;
    if (access(path.c_str(), R_OK) == 0) return path.string();
  }
  return "";
}

// Is the program a launcher of OpenMPI's? It says so itself.
bool is_openmpi(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename();
  if (name.rfind("mpirun", 0) != 0 && name.rfind("mpiexec", 0) != 0 && name != "orterun" &&
      name != "prterun")
    return false;
  if (program.find('\'') != std::string::npos) return false;
  FILE* const told = popen(("'" + program + "' --version 2>/dev/null").c_str(), "r");
  if (told == nullptr) return false;
  char line[200] = {};
  const bool read = std::fgets(line, sizeof line, told) != nullptr;
  while (std::fgetc(told) != EOF) continue;
  pclose(told);
  return read && (std::strstr(line, "Open MPI") != nullptr ||
                  std::strstr(line, "OpenRTE") != nullptr || std::strstr(line, "PRTE") != nullptr);
}

std::vector<std::string> names_to_tell() {
  std::vector<std::string> names{"LD_PRELOAD"};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "SKERRY_", 7) == 0)
      names.emplace_back(*entry, std::strchr(*entry, '='));
  return names;
}

int become(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "skerry mpi: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  return 127;
}

}  // namespace

std::vector<std::string> told_variables(const std::vector<std::string>& command,
                                        const std::vector<std::string>& names) {
  std::vector<std::string> told{command.front()};
  for (const std::string& name : names) {
    told.emplace_back("-x");
    told.push_back(name);
  }
  told.insert(told.end(), command.begin() + 1, command.end());
  return told;
}

int mpi_main(const std::vector<std::string>& words) {
  size_t at = 0;
  const std::string preload = library();
  for (; at < words.size() && words[at][0] == '-'; ++at) {
    if (words[at] == "--help" || words[at] == "-h") return std::fputs(help, stdout), 0;
    if (words[at] == "--library") return std::printf("%s\n", preload.c_str()), preload.empty();
    if (words[at] == "--") {
      ++at;
      break;
    }
    if (words[at] == "--explain") setenv("SKERRY_MPI_EXPLAIN", "1", 1);
    else if (words[at] == "--check") setenv("SKERRY_CHECK", "mpi", 1);
    else if (words[at] == "--complete-at-once") setenv("SKERRY_COMPLETE_AT_ONCE", "1", 1);
    else {
      std::fprintf(stderr, "skerry mpi: unknown option %s\n\n%s", words[at].c_str(), help);
      return 2;
    }
  }
  std::vector<std::string> command(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  if (command.empty()) return std::fputs(help, stderr), 2;
  if (preload.empty()) {
    std::fprintf(stderr, "skerry mpi: %s is not installed: build with an MPI's headers there\n",
                 library_name);
    return 1;
  }
  const bool tells = is_openmpi(command[0]);
  const char* const before = std::getenv("LD_PRELOAD");
  const bool has_others = before != nullptr && *before != '\0';
  setenv("LD_PRELOAD", has_others ? (preload + ":" + before).c_str() : preload.c_str(), 1);
  if (tells) command = told_variables(command, names_to_tell());
  return become(command);
}

}  // namespace skerry::launcher
