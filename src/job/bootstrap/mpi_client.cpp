// Ranks of an MPI program that has initialised MPI before Skerry: values travel in an allgather
// over its world.
#include <dlfcn.h>

#include <climits>

#include "job/bootstrap/exchange.hpp"

namespace skerry::job {
namespace {

// Two binary interfaces are in use: OpenMPI's handles are addresses of its objects, MPICH's (also
// Intel's, Cray's, MVAPICH's) are integers.
template <class Handle>
struct MpiCalls {
  Handle world{};
  Handle byte{};
  int (*finalized)(int*) = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*allgatherv)(const void*, int, Handle, void*, const int*, const int*, Handle,
                    Handle) = nullptr;
  int (*abort)(Handle, int) = nullptr;
};
constexpr int mpich_comm_world = 0x44000000;
constexpr int mpich_byte = 0x4c00010d;

// Of the program itself, or of an MPI that others brought into this process. A language binding
// loads its own without adding it to the global symbols, so that dlsym alone does not find it.
// Null: none.
void* find_symbol(const char* name) {
  if (void* found = dlsym(RTLD_DEFAULT, name)) return found;
  for (const auto& path : loaded_libraries("self", "libmpi")) {
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr) continue;
    void* found = dlsym(library, name);
    (void)dlclose(library);  // gives back our reference; its owner keeps it loaded
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <class Function>
bool find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(find_symbol(name));
  return *function != nullptr;
}

template <class Handle>
bool was_finalized(const MpiCalls<Handle>& mpi) {
  int finalized = 1;
  (void)mpi.finalized(&finalized);
  return finalized != 0;
}

template <class Handle>
Status gather(const MpiCalls<Handle>& mpi, size_t ranks, std::span<const std::byte> from_here,
              std::vector<std::byte>* all) {
  if (was_finalized(mpi))
    return error(Code::network, "MPI was finalised while Skerry was starting");
  const auto check = [](int result) {
    return result == 0 ? Status() : error(Code::network, "MPI failed while Skerry was starting");
  };
  const int mine = static_cast<int>(from_here.size());
  std::vector<int> counts(ranks), offsets(ranks);
  SKERRY_TRY(check(mpi.allgather(&mine, sizeof mine, mpi.byte, counts.data(), sizeof mine, mpi.byte,
                                 mpi.world)));
  int64_t total = 0;
  for (size_t i = 0; i < ranks; ++i) {
    offsets[i] = static_cast<int>(total);
    total += counts[i];
    if (total > INT_MAX)
      return error(Code::network, "the bootstrap values of ", ranks, " ranks exceed 2 GiB");
  }
  all->resize(static_cast<size_t>(total));
  return check(mpi.allgatherv(from_here.data(), mine, mpi.byte, all->data(), counts.data(),
                              offsets.data(), mpi.byte, mpi.world));
}

template <class Handle>
Status join(MpiCalls<Handle> calls, std::unique_ptr<Bootstrap>* bootstrap) {
  const bool complete = find("MPI_Finalized", &calls.finalized) &&
                        find("MPI_Comm_rank", &calls.comm_rank) &&
                        find("MPI_Comm_size", &calls.comm_size) &&
                        find("MPI_Allgather", &calls.allgather) &&
                        find("MPI_Allgatherv", &calls.allgatherv) &&
                        find("MPI_Abort", &calls.abort);
  if (!complete)
    return error(
        Code::config,
        "the MPI library of this process lacks functions that Skerry needs to join its job");
  if (was_finalized(calls)) return {};
  Exchange exchange;
  exchange.name = "mpi";
  exchange.launcher_ends_job = true;
  (void)calls.comm_rank(calls.world, &exchange.position);
  (void)calls.comm_size(calls.world, &exchange.count);
  exchange.gather = [calls, ranks = static_cast<size_t>(exchange.count)](
                        std::span<const std::byte> mine, std::vector<std::byte>* all) {
    return gather(calls, ranks, mine, all);
  };
  exchange.abort = [calls](int exit_status) {
    if (!was_finalized(calls)) (void)calls.abort(calls.world, exit_status);
  };
  *bootstrap = std::make_unique<ExchangeBootstrap>(std::move(exchange));
  return {};
}

}  // namespace

bool mpi_was_initialized() {
  int (*initialized)(int*) = nullptr;
  int yes = 0;
  return find("MPI_Initialized", &initialized) && initialized(&yes) == 0 && yes != 0;
}

Status join_mpi(std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (!mpi_was_initialized()) return {};
  if (void* world = find_symbol("ompi_mpi_comm_world")) {
    MpiCalls<void*> calls;
    calls.world = world;
    calls.byte = find_symbol("ompi_mpi_byte");
    if (calls.byte == nullptr) return error(Code::config, "OpenMPI's library lacks ompi_mpi_byte");
    return join(calls, bootstrap);
  }
  MpiCalls<int> calls;
  calls.world = mpich_comm_world;
  calls.byte = mpich_byte;
  return join(calls, bootstrap);
}

}  // namespace skerry::job
