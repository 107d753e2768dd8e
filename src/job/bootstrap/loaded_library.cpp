#include "job/bootstrap/loaded_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <fstream>

namespace skerry::job {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::string> loaded_here(std::string_view prefix) {
  struct Search {
    std::string_view prefix;
    std::vector<std::string> found;
  } search{prefix, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* out = static_cast<Search*>(data);
        if (file_name(info->dlpi_name).rfind(out->prefix, 0) == 0)
          out->found.emplace_back(info->dlpi_name);
        return 0;
      },
      &search);
  return search.found;
}

void* find_loaded_symbol(std::string_view prefix, const char* symbol) {
  if (void* found = dlsym(RTLD_DEFAULT, symbol)) return found;
  for (const auto& path : loaded_here(prefix)) {
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    void* found = library != nullptr ? dlsym(library, symbol) : nullptr;
    if (library != nullptr)
      (void)dlclose(library);  // gives back our reference; its owner keeps it loaded
    if (found != nullptr) return found;
  }
  return nullptr;
}

std::string loaded_in_process(int pid, std::string_view prefix) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    if (file_name(std::string_view(line).substr(path)).rfind(prefix, 0) == 0)
      return line.substr(path);
  }
  return {};
}

}  // namespace skerry::job
