// A window of ours, behind a window of the MPI library: its *carrier*. The carrier is a window over
// this process alone, and never accessed. Its handle is what the program holds: names, attributes,
// info, error handlers and the conversion of handles stay with the library.
#pragma once

#include <skerry/window.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator.hpp"
#include "errors.hpp"
#include "registry.hpp"

namespace skerry::mpi {

struct Window {
  MPI_Win handle = MPI_WIN_NULL;    // the carrier
  skerry_window* window = nullptr;  // synchronization, and the data but for `data`
  // Of allocate_shared with memory in one piece: all of it belongs to `data_owner`, and this window
  // is open for everybody all the time. Null: the data are in `window`.
  skerry_window* data = nullptr;
  int data_owner = -1;            // rank of the job
  std::vector<uint64_t> data_at;  // by rank; with `data` only
  std::vector<uint64_t> bytes;    // by rank; with `data` only
  bool has_gaps = false;          // between the ranks' parts of `data`: the program allows them
  std::shared_ptr<Communicator> over;
  skerry_group* members = nullptr;  // which it synchronizes over
  std::vector<uint32_t> units;      // displacement units by rank; one if all are equal
  std::vector<uint8_t> misaligned;  // base address modulo 16, by rank; empty: 0 everywhere
  bool is_dynamic = false;
  bool is_checked = false;   // in the debug mode
  std::vector<int> started;  // ranks of the job, between start and complete
  int serial = 0;            // number of the window over `over`
  // What attributes point to.
  void* base = nullptr;
  MPI_Aint size = 0;
  int unit = 1;
  int flavor = 0;
  int model = MPI_WIN_UNIFIED;

  uint64_t unit_of(int rank) const {
    return units[units.size() == 1 ? 0 : static_cast<size_t>(rank)];
  }
};

extern Registry<MPI_Win, Window> windows;

// The window that this thread is freeing, if it is this one; otherwise null.
Window* find_dying(MPI_Win win);
// Null: it is the library's.
inline Window* find_window(MPI_Win win) {
  Window* const found = windows.find(win);
  return found != nullptr ? found : find_dying(win);
}

// The window of the last call, if a call on it needs nothing beside it; null: find_window, and all.
inline Window* find_plain(MPI_Win win) {
  Window* const found = windows.find_recent(win);
  return found != nullptr && !found->is_checked ? found : nullptr;
}

// As messages name it: number and name of the window, and the caller's rank.
[[gnu::cold]] std::string named(const Window& window);

inline int answer(Window& window, const char* call, int error_class) {
  if (error_class == MPI_SUCCESS) [[likely]]
    return MPI_SUCCESS;
  return raise(window.handle, call, error_class, named(window));
}

// Is `rank` one of the window's group? Sets `*is_nobody` for MPI_PROC_NULL, which every call takes
// and does nothing for.
inline int check_rank(const Window& window, int rank, bool* is_nobody) {
  *is_nobody = rank == MPI_PROC_NULL;
  if (*is_nobody || (rank >= 0 && rank < window.over->size)) [[likely]]
    return MPI_SUCCESS;
  return fail(MPI_ERR_RANK, "rank ", rank, ": the window has ranks 0 to ", window.over->size - 1);
}

// ---- life (window.cpp). Empty: the window is the library's. -----------------------------------
std::optional<int> win_create(void* base, MPI_Aint size, MPI_Aint unit, MPI_Info info,
                              MPI_Comm comm, MPI_Win* win);
std::optional<int> win_allocate(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                void* baseptr, MPI_Win* win);
std::optional<int> win_allocate_shared(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                       void* baseptr, MPI_Win* win);
std::optional<int> win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win);
int win_free(Window& window, MPI_Win* win);

// The rest answer MPI_SUCCESS or an error class (fail).
int win_attach(Window& window, void* base, MPI_Aint size);
int win_detach(Window& window, const void* base);
int query_shared(Window& window, int rank, MPI_Aint* size, MPI_Aint* unit, void* baseptr);
template <class Unit>
int win_shared_query(Window& window, int rank, MPI_Aint* size, Unit* disp_unit, void* baseptr) {
  MPI_Aint unit = 0;
  const int failed = query_shared(window, rank, size, &unit, baseptr);
  if (failed == MPI_SUCCESS) *disp_unit = static_cast<Unit>(unit);
  return failed;
}
int win_get_attr(Window& window, int keyval, void* value, int* flag);
int win_get_group(Window& window, MPI_Group* group);

// ---- synchronization (sync.cpp) ---------------------------------------------------------------
int win_fence(Window& window, int assertion);
int win_post(Window& window, MPI_Group group, int assertion);
int win_start(Window& window, MPI_Group group, int assertion);
int win_complete(Window& window);
int win_wait(Window& window);
int win_test(Window& window, int* flag);
int win_lock(Window& window, int lock_type, int rank, int assertion);
int win_unlock(Window& window, int rank);
int win_lock_all(Window& window, int assertion);
int win_unlock_all(Window& window);
int win_flush(Window& window, int rank);
int win_flush_all(Window& window);
int win_flush_local(Window& window, int rank);
int win_flush_local_all(Window& window);
int win_sync(Window& window);

// ---- access (access.cpp, update.cpp) ----------------------------------------------------------
// An operation's side at the target.
struct Place {
  skerry_window* window;
  int rank;         // of the job
  uint64_t offset;  // of displacement 0 of the first element
};
// Where displacement `at` of a rank lies, and that bytes [first, first + bytes) from there are
// inside.
int locate(Window& window, int rank, MPI_Aint at, int64_t first, uint64_t bytes, Place* place);
// The same for the shortest ways: the byte of displacement `at`. False: no memory is as large.
inline bool offset_of(const Window& window, int rank, MPI_Aint at, uint64_t* offset) {
  const auto unit = static_cast<int64_t>(window.unit_of(rank));
  int64_t found = 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(at), unit, &found)) [[unlikely]]
    return false;
  *offset = static_cast<uint64_t>(found);
  return true;
}

int put(Window& window, const void* origin, MPI_Count origin_count, MPI_Datatype origin_type,
        int rank, MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type);
int get(Window& window, void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,
        MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type);
int accumulate(Window& window, const void* origin, MPI_Count origin_count, MPI_Datatype origin_type,
               int rank, MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type, MPI_Op op);
int get_accumulate(Window& window, const void* origin, MPI_Count origin_count,
                   MPI_Datatype origin_type, void* result, MPI_Count result_count,
                   MPI_Datatype result_type, int rank, MPI_Aint at, MPI_Count target_count,
                   MPI_Datatype target_type, MPI_Op op);
int fetch_and_op(Window& window, const void* origin, void* result, MPI_Datatype type, int rank,
                 MPI_Aint at, MPI_Op op);
int compare_and_swap(Window& window, const void* origin, const void* compare, void* result,
                     MPI_Datatype type, int rank, MPI_Aint at);

// The request-based forms are done when they return: only then may a request that nobody moves on
// be waited for.
int rput(Window& window, const void* origin, MPI_Count origin_count, MPI_Datatype origin_type,
         int rank, MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type,
         MPI_Request* request);
int rget(Window& window, void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,
         MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type, MPI_Request* request);
int raccumulate(Window& window, const void* origin, MPI_Count origin_count,
                MPI_Datatype origin_type, int rank, MPI_Aint at, MPI_Count target_count,
                MPI_Datatype target_type, MPI_Op op, MPI_Request* request);
int rget_accumulate(Window& window, const void* origin, MPI_Count origin_count,
                    MPI_Datatype origin_type, void* result, MPI_Count result_count,
                    MPI_Datatype result_type, int rank, MPI_Aint at, MPI_Count target_count,
                    MPI_Datatype target_type, MPI_Op op, MPI_Request* request);

}  // namespace skerry::mpi
