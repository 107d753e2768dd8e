#include "library.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace skerry::mpi {
namespace {

// Names of libraries with the ABI that this adapter is compiled for. Debian calls MPICH's libmpich.
#if defined(OPEN_MPI)
constexpr std::string_view beginnings[] = {"libmpi.so.40"};
#elif defined(SKERRY_MPI_STANDARD_ABI)
constexpr std::string_view beginnings[] = {"libmpi_abi.so."};
#else
constexpr std::string_view beginnings[] = {"libmpi.so.12", "libmpich.so.12"};
#endif

bool has_our_abi(std::string_view path) {
  const std::string_view base = path.substr(path.rfind('/') + 1);
  return std::ranges::any_of(beginnings,
                             [&](auto beginning) { return base.starts_with(beginning); });
}

// Python may load it by the link that compilers use, whose name says no version: libmpi.so.
int look(dl_phdr_info* info, size_t, void* found) {
  const std::string path = info->dlpi_name;
  std::error_code ignored;
  if (!has_our_abi(path) && (path.find("libmpi") == std::string::npos ||
                             !has_our_abi(std::filesystem::canonical(path, ignored).string())))
    return 0;
  *static_cast<std::string*>(found) = path;
  return 1;
}

void* library() {
  static void* const handle = [] {
    std::string path;
    dl_iterate_phdr(look, &path);
    return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  }();
  if (handle != nullptr) return handle;
  std::fprintf(stderr,
               "skerry: this process has loaded no %s*: preload libskerry_mpi.so, which chooses "
               "the adapter for its MPI\n",
               std::string(beginnings[0]).c_str());
  std::abort();
}

Real look_up() {
  Real found{};
#define SKERRY_MPI_LOOK_UP(name) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library(), "PMPI_" #name));
  SKERRY_MPI_FUNCTIONS(SKERRY_MPI_LOOK_UP)
  SKERRY_MPI_HELPERS(SKERRY_MPI_LOOK_UP)
  SKERRY_MPI_CONVERSIONS(SKERRY_MPI_LOOK_UP)
#ifdef SKERRY_MPI_LARGE
  SKERRY_MPI_LARGE_FUNCTIONS(SKERRY_MPI_LOOK_UP)
  SKERRY_MPI_LARGE_HELPERS(SKERRY_MPI_LOOK_UP)
#endif
#undef SKERRY_MPI_LOOK_UP
  return found;
}

}  // namespace

#ifdef OPEN_MPI
// As the loader would: a program that was linked with the library may hold the object itself (a
// copy relocation), and then that one counts.
void* object(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : dlsym(library(), name);
}
#endif

const Real& real() {
  static const Real found = look_up();
  return found;
}

bool is_up() {
  int initialized = 0, finalized = 0;
  real().Initialized(&initialized);
  if (initialized != 0) real().Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

}  // namespace skerry::mpi
