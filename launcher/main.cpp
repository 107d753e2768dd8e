// The `skerry` program: starts jobs and describes the machine. Needs nothing else of Skerry to be
// installed.
#include <cstdio>
#include <string>
#include <vector>

#include "core/pure/nearest.hpp"
#include "launcher/agent.hpp"
#include "launcher/helper_program.hpp"
#include "launcher/info.hpp"
#include "launcher/job.hpp"
#include "launcher/mpi_main.hpp"

namespace {

constexpr const char* help =
    "usage: skerry COMMAND ...\n\n"
    "  run -n P program ...  start P processes of one job (skerry run --help)\n"
    "  mpi -- mpirun ...     runs an MPI program with its windows on Skerry's (skerry mpi --help)\n"
    "  stacks [JOB]          what each rank of a running job waits for, and deadlocks\n"
    "  top [JOB]             what its ranks and nodes do, live\n"
    "  matrix [JOB]          who talked to whom\n"
    "  trace [JOB]           what its ranks wait for over some seconds, for Perfetto\n"
    "  drain [JOB] HOST      takes a host out of a job that goes on without the dead\n"
    "  info                  what this machine offers: cores, memory, huge pages, networks\n"
    "  info --connections    and what a connection takes, measured\n"
    "  info --nodes N ...    what a job on N nodes would cost each (skerry info --nodes 2 --help)\n"
    "  --version             the version of this program\n"
    "  --help                this\n";

}  // namespace

int main(int count, char** arguments) {
  using namespace skerry::launcher;
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const std::string command = words.empty() ? "" : words[0];
  const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (command == "run") return run_main(rest);
  if (command == "mpi") return mpi_main(rest);
  if (command == "agent") return agent_main();
  if (command == "info") return info_main(rest);
  if (command == "stacks" || command == "top" || command == "matrix" || command == "trace" ||
      command == "drain")
    return look_main(command, rest);
  if (command == "--version" || command == "version") {
    std::printf("skerry %s\n", SKERRY_PROGRAM_VERSION);
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(help, stdout);
    return 0;
  }
  if (!command.empty()) {
    constexpr std::string_view known[] = {"run",   "mpi",  "stacks",    "top",   "matrix",
                                          "trace", "drain", "info", "--version", "--help"};
    const std::string near(skerry::nearest(command, known));
    std::fprintf(stderr, "skerry: unknown command \"%s\"%s\n\n", command.c_str(),
                 near.empty() ? command[0] == '-' ? "; programs are started by `skerry run`" : ""
                              : (", did you mean " + near + "?").c_str());
  }
  std::fputs(help, stderr);
  return 2;
}
