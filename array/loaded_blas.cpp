// A BLAS found at run time, for wheels, which would grow tenfold with their own: the one that the
// process has loaded already, such as NumPy's, or else the system's.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "blas.hpp"
#include "skerry/skerry.hpp"

namespace sk {
inline namespace v0 {
namespace blas {
namespace {

// How the builds of a BLAS decorate names: Fortran's alone, with 64-bit integers, and both as in
// NumPy's wheels.
struct Names {
  const char* before;
  const char* after;
  bool wide;
};
constexpr std::array<Names, 4> all_names{
    {{"", "_", false}, {"", "_64_", true}, {"scipy_", "_", false}, {"scipy_", "_64_", true}}};

template <class Function>
bool find(void* handle, const std::string& name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(handle, name.c_str()));
  return *function != nullptr;
}

bool take(void* handle, Library* found) {
  for (const Names& names : all_names) {
    const auto name = [&names](const char* middle) {
      return std::string(names.before) + middle + names.after;
    };
    const bool both = names.wide ? find(handle, name("sgemm"), &found->wide_sgemm) &&
                                       find(handle, name("dgemm"), &found->wide_dgemm)
                                 : find(handle, name("sgemm"), &found->sgemm) &&
                                       find(handle, name("dgemm"), &found->dgemm);
    if (!both) {
      *found = Library();
      continue;
    }
    const std::string end = names.wide ? "64_" : "";
    if (!find(handle, names.before + ("openblas_set_num_threads" + end), &found->set_threads) ||
        !find(handle, names.before + ("openblas_get_num_threads" + end), &found->threads)) {
      found->set_threads = nullptr;
      found->threads = nullptr;
    }
    return true;
  }
  return false;
}

int note(dl_phdr_info* info, size_t, void* paths) {
  const char* name = std::strrchr(info->dlpi_name, '/');
  if (name != nullptr && (std::strstr(name, "blas") || std::strstr(name, "mkl_rt")))
    static_cast<std::vector<std::string>*>(paths)->push_back(info->dlpi_name);
  return 0;
}

Library search() {
  Library found;
  if (take(RTLD_DEFAULT, &found)) return found;
  std::vector<std::string> paths;
  dl_iterate_phdr(note, &paths);
  for (const char* name : {"libopenblas.so.0", "libblas.so.3"}) paths.emplace_back(name);
  for (const std::string& path : paths) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    if (take(handle, &found)) return found;  // it stays loaded, as `found` needs it
    dlclose(handle);
  }
  throw Error(SKERRY_ERR_UNSUPPORTED,
              "matmul needs a BLAS, and this process has none; import numpy first, or install "
              "libopenblas0");
}

}  // namespace

const Library& library() {
  static const Library loaded = search();
  return loaded;
}

}  // namespace blas
}  // namespace v0
}  // namespace sk
