#include "job/bootstrap/pmix_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>

#include "job/bootstrap/foreign.hpp"

namespace skerry::job {
namespace {

constexpr uint16_t pmix_bool = 1, pmix_uint32 = 14, pmix_byte_object = 27;
constexpr uint8_t pmix_global = 3;
constexpr uint32_t pmix_rank_wildcard = UINT32_MAX - 1;
constexpr int pmix_success = 0, pmix_unreachable = -25;

// From where the launcher (an ancestor) loaded its library.
std::string launchers_library() {
  for (int pid = getppid(), depth = 0; pid > 1 && depth < 16; ++depth) {
    if (const auto paths = loaded_libraries(std::to_string(pid), "libpmix.so"); !paths.empty())
      return paths.front();
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos ||
        std::sscanf(text.c_str() + name_end + 1, " %*c %d", &pid) != 1)
      break;
  }
  return {};
}

std::vector<std::string> library_candidates() {
  std::vector<std::string> paths = loaded_libraries("self", "libpmix.so");
  if (auto path = launchers_library(); !path.empty()) paths.push_back(path);
  for (const char* hint : {"PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "PRTE_PREFIX", "OPAL_PREFIX"}) {
    if (const char* prefix = std::getenv(hint))
      paths.push_back(concat(prefix, "/lib/libpmix.so.2"));
  }
  paths.emplace_back("libpmix.so.2");
  return paths;
}

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Status PmixLibrary::load() {
  std::string tried;
  for (const auto& path : library_candidates()) {
    void* library = dlopen(
        path.c_str(),
        RTLD_NOW | RTLD_LOCAL);  // stays loaded: its threads run until the process ends
    if (library == nullptr) {
      tried += concat(tried.empty() ? "" : "; ", path);
      continue;
    }
    if (find(library, "PMIx_Init", &init_) && find(library, "PMIx_Finalize", &finalize_) &&
        find(library, "PMIx_Put", &put_) && find(library, "PMIx_Commit", &commit_) &&
        find(library, "PMIx_Fence", &fence_) && find(library, "PMIx_Get", &get_) &&
        find(library, "PMIx_Abort", &abort_) &&
        find(library, "PMIx_Error_string", &error_string_) &&
        find(library, "PMIx_Get_version", &get_version_)) {
      return {};
    }
  }
  return error(
      Code::config,
      "a PMIx launcher started this process (PMIX_RANK is set), but no libpmix was found (tried ",
      tried, "); install libpmix2 or add the launcher's library directory to LD_LIBRARY_PATH");
}

// From "OpenPMIx 4.2.2, repo rev: ..." or the like; 0 if it does not say.
int PmixLibrary::major_version() const {
  const char* digit = std::strpbrk(get_version_(), "0123456789");
  return digit != nullptr ? std::atoi(digit) : 0;
}

Status PmixLibrary::check(int result, std::string_view what) const {
  if (result == pmix_success) return {};
  return error(Code::network, "PMIx ", what, " failed: ", error_string_(result), " (", result, ")");
}

Status PmixLibrary::init(PmixPlace* place) {
  const int result = init_(&self_, nullptr, 0);
  *place = {result != pmix_unreachable, static_cast<int32_t>(self_.rank), 0};
  if (result == pmix_unreachable) return {};
  SKERRY_TRY(check(result, "init"));
  PmixProc everyone = self_;
  everyone.rank = pmix_rank_wildcard;
  PmixValue* found = nullptr;
  SKERRY_TRY(check(get_(&everyone, "pmix.job.size", nullptr, 0, &found), "get of the job's size"));
  const bool good = found != nullptr && found->type == pmix_uint32 && found->data.uint32 > 0;
  if (good) place->size = static_cast<int32_t>(found->data.uint32);
  std::free(found);
  return good ? Status() : error(Code::network, "PMIx does not tell the size of the job");
}

Status PmixLibrary::put(const std::string& key, std::span<const std::byte> value) {
  PmixValue object{};
  object.type = pmix_byte_object;
  object.data.object.bytes = const_cast<char*>(
      reinterpret_cast<const char*>(value.data()));  // copied by the call
  object.data.object.size = value.size();
  return check(put_(pmix_global, key.c_str(), &object), "put");
}

Status PmixLibrary::get(int rank, const std::string& key, std::vector<std::byte>* value) {
  PmixProc owner = self_;
  owner.rank = static_cast<uint32_t>(rank);
  PmixValue* found = nullptr;
  SKERRY_TRY(check(get_(&owner, key.c_str(), nullptr, 0, &found),
                   concat("get of rank ", rank, "'s \"", key, "\"")));
  const bool good = found != nullptr && found->type == pmix_byte_object;
  if (good) {
    const auto* bytes = reinterpret_cast<const std::byte*>(found->data.object.bytes);
    value->assign(bytes, bytes + found->data.object.size);
    std::free(found->data.object.bytes);
  }
  std::free(found);
  return good ? Status()
              : error(Code::network, "PMIx returned something else for rank ", rank, "'s \"", key,
                      "\"");
}

Status PmixLibrary::fence() {
  SKERRY_TRY(check(commit_(), "commit"));
  PmixInfo collect{};
  std::strcpy(collect.key, "pmix.collect");
  collect.value.type = pmix_bool;
  collect.value.data.flag = true;
  return check(fence_(nullptr, 0, &collect, 1), "fence");
}

}  // namespace skerry::job
