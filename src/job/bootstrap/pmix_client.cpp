// Ranks of a PMIx launcher (OpenMPI's mpirun, prterun, srun --mpi=pmix). The library is found at run time: best the one that is already
// in this process (an MPI brought it), else the launcher's own, whose wire format certainly fits.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/foreign.hpp"
#include "job/bootstrap/loaded_library.hpp"

namespace skerry::job {
namespace {

// The part of the PMIx 3 to 6 binary interface that we use, as its standard fixes it.
struct PmixProc {
  char name_space[256];
  uint32_t rank;
};
struct PmixValue {
  uint16_t type;
  union {
    bool flag;
    uint32_t uint32;
    struct {
      char* bytes;
      size_t size;
    } object;
    struct {  // the largest member of the real union
      char* envar;
      char* value;
      char separator;
    } variable;
  } data;
};
struct PmixInfo {
  char key[512];
  uint32_t flags;
  PmixValue value;
};
static_assert(sizeof(PmixProc) == 260 && sizeof(PmixValue) == 32 && sizeof(PmixInfo) == 552);

constexpr uint16_t pmix_bool = 1, pmix_uint32 = 14, pmix_byte_object = 27;
constexpr uint8_t pmix_global = 3;
constexpr uint32_t pmix_rank_wildcard = UINT32_MAX - 1;
constexpr int pmix_success = 0, pmix_unreachable = -25;

struct PmixCalls {
  int (*init)(PmixProc*, PmixInfo*, size_t);
  int (*finalize)(const PmixInfo*, size_t);
  int (*put)(uint8_t scope, const char* key, PmixValue*);
  int (*commit)();
  int (*fence)(const PmixProc*, size_t, const PmixInfo*, size_t);
  int (*get)(const PmixProc*, const char* key, const PmixInfo*, size_t, PmixValue**);
  int (*abort)(int status, const char* message, PmixProc*, size_t);
  const char* (*error_string)(int);
};

// PMIx's connection belongs to the process and outlives every job object: see leave_at_exit.
struct Process {
  PmixCalls calls{};
  PmixProc self{};
  bool started = false;
  bool finished = false;  // the job was left properly: the process's end is a normal one
};
Process& process() {
  static Process one;
  return one;
}

// Finalised only when the process ends, because an MPI in it may still need PMIx and a program may join again. A process that leaves its
// job without finish() is not finalised: the launcher then sees an abnormal end and ends the job.
void leave_at_exit() {
  auto& mine = process();
  if (mine.started && mine.finished) (void)mine.calls.finalize(nullptr, 0);
}

// From where the launcher (an ancestor) loaded its library.
std::string launchers_library() {
  for (int pid = getppid(), depth = 0; pid > 1 && depth < 16; ++depth) {
    if (auto path = loaded_in_process(pid, "libpmix.so"); !path.empty()) return path;
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || std::sscanf(text.c_str() + name_end + 1, " %*c %d", &pid) != 1) break;
  }
  return {};
}

std::vector<std::string> library_candidates() {
  std::vector<std::string> paths = loaded_here("libpmix.so");
  if (auto path = launchers_library(); !path.empty()) paths.push_back(path);
  for (const char* hint : {"PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "PRTE_PREFIX", "OPAL_PREFIX"}) {
    if (const char* prefix = std::getenv(hint)) paths.push_back(concat(prefix, "/lib/libpmix.so.2"));
  }
  paths.emplace_back("libpmix.so.2");
  return paths;
}

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Status load(PmixCalls* calls) {
  std::string tried;
  for (const auto& path : library_candidates()) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded: its threads run until the process ends
    if (library == nullptr) {
      tried += concat(tried.empty() ? "" : "; ", path);
      continue;
    }
    if (find(library, "PMIx_Init", &calls->init) && find(library, "PMIx_Finalize", &calls->finalize) &&
        find(library, "PMIx_Put", &calls->put) && find(library, "PMIx_Commit", &calls->commit) &&
        find(library, "PMIx_Fence", &calls->fence) && find(library, "PMIx_Get", &calls->get) &&
        find(library, "PMIx_Abort", &calls->abort) && find(library, "PMIx_Error_string", &calls->error_string)) {
      return {};
    }
  }
  return error(Code::config, "a PMIx launcher started this process (PMIX_RANK is set), but no libpmix was found (tried ", tried,
               "); install libpmix2 or add the launcher's library directory to LD_LIBRARY_PATH");
}

class PmixBootstrap final : public Bootstrap {
 public:
  PmixBootstrap(int size, unsigned join) : size_(size), join_(join) {}
  std::string_view name() const override { return "pmix"; }
  int rank() const override { return static_cast<int>(pmix_.self.rank); }
  int size() const override { return size_; }

  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    PmixValue object{};
    object.type = pmix_byte_object;
    object.data.object.bytes = const_cast<char*>(reinterpret_cast<const char*>(value.data()));  // copied by the call
    object.data.object.size = value.size();
    return check(pmix_.calls.put(pmix_global, full_key(key).c_str(), &object), "put");
  }

  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    PmixProc owner = pmix_.self;
    owner.rank = static_cast<uint32_t>(rank);
    PmixValue* found = nullptr;
    SKERRY_TRY(check(pmix_.calls.get(&owner, full_key(key).c_str(), nullptr, 0, &found), concat("get of rank ", rank, "'s \"", key, "\"")));
    const bool good = found != nullptr && found->type == pmix_byte_object;
    if (good) {
      const auto* bytes = reinterpret_cast<const std::byte*>(found->data.object.bytes);
      value->assign(bytes, bytes + found->data.object.size);
      std::free(found->data.object.bytes);
    }
    std::free(found);
    return good ? Status() : error(Code::network, "PMIx returned something else for rank ", rank, "'s \"", key, "\"");
  }

  Status fence() override {
    SKERRY_TRY(check(pmix_.calls.commit(), "commit"));
    PmixInfo collect{};
    std::strcpy(collect.key, "pmix.collect");
    collect.value.type = pmix_bool;
    collect.value.data.flag = true;
    return check(pmix_.calls.fence(nullptr, 0, &collect, 1), "fence");
  }

  Status finish() override {
    pmix_.finished = true;
    return {};
  }

  void abort(int exit_status, std::string_view message) override {
    print_abort(rank(), message);
    (void)pmix_.calls.abort(exit_status, "", nullptr, 0);
    _exit(exit_status);
  }

 private:
  std::string full_key(std::string_view key) const { return concat("skerry.", join_, ".", key); }
  Status check(int result, std::string_view what) const {
    if (result == pmix_success) return {};
    return error(Code::network, "PMIx ", what, " failed: ", pmix_.calls.error_string(result), " (", result, ")");
  }

  Process& pmix_ = process();
  const int size_;
  const unsigned join_;
};

}  // namespace

Status join_pmix(std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (std::getenv("PMIX_RANK") == nullptr) return {};
  auto& mine = process();
  if (!mine.started) {
    SKERRY_TRY(load(&mine.calls));
    const int result = mine.calls.init(&mine.self, nullptr, 0);
    if (result == pmix_unreachable) return {};  // the variables are left over from somebody else's launcher
    if (result != pmix_success) {
      return error(Code::network, "PMIx_Init failed: ", mine.calls.error_string(result), " (", result, ")");
    }
    mine.started = true;
    (void)std::atexit(leave_at_exit);
  }
  mine.finished = false;
  PmixProc everyone = mine.self;
  everyone.rank = pmix_rank_wildcard;
  PmixValue* found = nullptr;
  const int result = mine.calls.get(&everyone, "pmix.job.size", nullptr, 0, &found);
  if (result != pmix_success || found == nullptr || found->type != pmix_uint32) {
    return error(Code::network, "PMIx does not tell the size of the job: ", mine.calls.error_string(result));
  }
  const auto size = static_cast<int>(found->data.uint32);
  std::free(found);
  *bootstrap = std::make_unique<PmixBootstrap>(size, next_join());
  return {};
}

}  // namespace skerry::job
