// Life of a window, and questions about it.
#include "window.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace skerry::mpi {

constinit Registry<MPI_Win, Window> windows;

namespace {

thread_local Window* dying = nullptr;  // inside win_free

// What each rank tells the others before the window is made.
struct Told {
  int64_t size;
  int64_t unit;
  uint32_t misaligned;  // base modulo 16
  uint32_t why_not;     // a WhyNot; the highest of all counts
  uint32_t are_members_taken;
  uint32_t allows_gaps;  // between the ranks' parts of shared memory
};
static_assert(sizeof(Told) == 32, "raise adapter_version with each change of Told");
enum class WhyNot : uint32_t { nothing, no_job, not_one_node, bad_argument, no_carrier };

const char* to_string(WhyNot why) {
  switch (why) {
    case WhyNot::nothing: return "";
    case WhyNot::no_job: return "Skerry could not start";
    case WhyNot::not_one_node: return "its processes are not on one (virtual) node";
    case WhyNot::bad_argument: return "its size is below 0, or its displacement unit not above 0";
    case WhyNot::no_carrier: return "the MPI library has no more windows";
  }
  return "unknown";
}

const char* name_of(int flavor) {
  if (flavor == MPI_WIN_FLAVOR_ALLOCATE) return "MPI_Win_allocate";
  if (flavor == MPI_WIN_FLAVOR_SHARED) return "MPI_Win_allocate_shared";
  if (flavor == MPI_WIN_FLAVOR_DYNAMIC) return "MPI_Win_create_dynamic";
  return "MPI_Win_create";
}

struct Wanted {
  int flavor;
  void* base;
  MPI_Aint size;
  MPI_Aint unit;
  MPI_Info info;
};

void explain(const Communicator& over, const Wanted& wanted, const char* whose,
             const std::string& why, bool is_failure) {
  static const bool asked = is_set("SKERRY_MPI_EXPLAIN");
  if ((!asked && !is_failure) || over.rank != 0) return;
  std::fprintf(stderr, "skerry: %s of %lld bytes at rank 0 of %d: %s%s%s\n", name_of(wanted.flavor),
               static_cast<long long>(wanted.size), over.size, whose,
               why.empty() ? "" : ", because ", why.c_str());
}

// A window of the library over this process alone. Which call makes one everywhere was tried:
// OpenMPI 4.1 fails to create one over a single process but allocates it, MPICH 4 and 5 crash when
// allocated ones are too many but refuse to create too many.
bool make_carrier(const Wanted& wanted, MPI_Win* carrier) {
  static MPI_Comm alone = [] {
    MPI_Comm made = MPI_COMM_NULL;
    real().Comm_dup(MPI_COMM_SELF, &made);
    real().Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
  }();
#ifdef OPEN_MPI
  void* unused = nullptr;
  return real().Win_allocate(0, 1, wanted.info, alone, &unused, carrier) == MPI_SUCCESS;
#else
  const bool has_base = wanted.base != nullptr && wanted.size > 0;
  return real().Win_create(has_base ? wanted.base : nullptr, has_base ? wanted.size : 0,
                           static_cast<int>(wanted.unit), wanted.info, alone,
                           carrier) == MPI_SUCCESS;
#endif
}

template <class Number>
void keep_once_if_equal(std::vector<Number>& numbers) {
  if (std::all_of(numbers.begin(), numbers.end(),
                  [&](Number number) { return number == numbers[0]; }))
    numbers.resize(1);
}

bool says_true(MPI_Info info, const char* key) {
  char value[8] = {};
  int found = 0;
  if (info == MPI_INFO_NULL || real().Info_get == nullptr) return false;
  return real().Info_get(info, key, sizeof value - 1, value, &found) == MPI_SUCCESS && found != 0 &&
         std::strcmp(value, "true") == 0;
}

// A part of no bytes has an address, too: the end of the one before. MPI wants parts in a row, so
// programs compute addresses from it. With gaps there is nothing that it could say, so it is null.
char* shared_part(const Window& window, int rank) {
  const auto index = static_cast<size_t>(rank);
  if (window.has_gaps && window.bytes[index] == 0) return nullptr;
  auto* const all = static_cast<char*>(skerry_window_pointer(window.data, window.data_owner));
  return all != nullptr ? all + window.data_at[index] : nullptr;
}

constexpr uint64_t gap_align = 64;  // a cache line

// Where each rank's part of shared memory begins; returns the bytes of all, or more than there can
// be if they cannot be counted.
uint64_t lay_out(Window& made, const std::vector<Told>& told) {
  made.has_gaps = std::all_of(told.begin(), told.end(),
                              [](const Told& one) { return one.allows_gaps != 0; });
  constexpr uint64_t most = INT64_MAX;
  uint64_t total = 0;
  for (const Told& one : told) {
    made.data_at.push_back(total);
    made.bytes.push_back(static_cast<uint64_t>(one.size));
    const auto size = static_cast<uint64_t>(one.size);
    if (size > most - total) return most;
    total += size;
    if (made.has_gaps) total = (total + gap_align - 1) / gap_align * gap_align;
    if (total > most) return most;
  }
  return total;
}

// One piece of memory at the first rank, of which each has its part: MPI's shared windows lie in a
// row, unless the program allows gaps.
int make_shared(Window& made, const std::vector<Told>& told) {
  skerry_group* const members = made.members;
  const uint64_t total = lay_out(made, told);
  made.data_owner = made.over->job_rank(0);
  int status = skerry_window_allocate(members, 0, 1, &made.window);
  if (status != SKERRY_OK) return status;
  status = skerry_window_allocate(members, made.over->rank == 0 ? total : 0, 1, &made.data);
  if (status != SKERRY_OK) return status;
  status = skerry_window_lock_all(made.data, SKERRY_NO_CHECK);
  made.base = shared_part(made, made.over->rank);
  return status;
}

// Without threads, all windows of a communicator take turns with its group.
int find_group(Window& made, const std::vector<Told>& told) {
  Communicator& over = *made.over;
  const bool is_taken = std::any_of(told.begin(), told.end(),
                                    [](const Told& one) { return one.are_members_taken != 0; });
  if (over.job->is_multiple && is_taken) return make_group(over, &made.members);
  made.members = over.members;
  over.are_members_taken = over.job->is_multiple;
  return SKERRY_OK;
}

void give_back_group(Window& window) {
  if (window.members == window.over->members) window.over->are_members_taken = false;
  else if (window.members != nullptr) skerry_group_free(window.members);
  window.members = nullptr;
}

int make_ours(Window& made, const Wanted& wanted, const std::vector<Told>& told) {
  if (const int status = find_group(made, told); status != SKERRY_OK) return status;
  skerry_group* const members = made.members;
  const auto bytes = static_cast<uint64_t>(wanted.size);
  made.base = wanted.base;
  if (wanted.flavor == MPI_WIN_FLAVOR_SHARED) return make_shared(made, told);
  if (wanted.flavor == MPI_WIN_FLAVOR_DYNAMIC)
    return skerry_window_create_dynamic(members, &made.window);
  if (wanted.flavor == MPI_WIN_FLAVOR_CREATE)
    return skerry_window_create(members, wanted.base, bytes, 1, &made.window);
  const int status = skerry_window_allocate(members, bytes, 1, &made.window);
  if (status == SKERRY_OK) made.base = skerry_window_local(made.window);
  return status;
}

void describe(Window& made, const Wanted& wanted, const std::vector<Told>& told) {
  static std::atomic<int> serial{0};
  made.serial = ++serial;
  made.size = wanted.size;
  made.unit = static_cast<int>(wanted.unit);
  made.flavor = wanted.flavor;
  made.is_dynamic = wanted.flavor == MPI_WIN_FLAVOR_DYNAMIC;
  made.is_checked = is_set("SKERRY_CHECK");
  for (const Told& one : told) {
    made.units.push_back(static_cast<uint32_t>(one.unit));
    made.misaligned.push_back(static_cast<uint8_t>(one.misaligned));
  }
  keep_once_if_equal(made.units);
  if (std::all_of(made.misaligned.begin(), made.misaligned.end(), [](int k) { return k == 0; }))
    made.misaligned.clear();
}

WhyNot check(const Communicator& over, const Wanted& wanted) {
  if (over.job == nullptr) return WhyNot::no_job;
  if (wanted.size < 0 || wanted.unit <= 0 || wanted.unit > INT32_MAX) return WhyNot::bad_argument;
  if (wanted.flavor == MPI_WIN_FLAVOR_SHARED && !over.is_on_one_node) return WhyNot::not_one_node;
  return WhyNot::nothing;
}

std::optional<int> make(const Wanted& wanted, MPI_Comm comm, MPI_Win* win, void** base) {
  const std::shared_ptr<Communicator> over = communicator_of(comm);
  if (over == nullptr) return {};
  WhyNot why = check(*over, wanted);
  MPI_Win carrier = MPI_WIN_NULL;
  const bool carried = why == WhyNot::nothing && make_carrier(wanted, &carrier);
  if (why == WhyNot::nothing && !carried) why = WhyNot::no_carrier;
  const Told mine{wanted.size,
                  wanted.unit,
                  static_cast<uint32_t>(reinterpret_cast<uintptr_t>(wanted.base) % 16),
                  static_cast<uint32_t>(why),
                  over->are_members_taken,
                  carried && says_true(wanted.info, "alloc_shared_noncontig")};
  std::vector<Told> told(static_cast<size_t>(over->size));
  real().Allgather(&mine, sizeof mine, MPI_BYTE, told.data(), sizeof mine, MPI_BYTE, over->comm);
  for (const Told& one : told) why = std::max(why, static_cast<WhyNot>(one.why_not));
  auto made = std::make_unique<Window>();
  made->over = over;
  std::string reason = why == WhyNot::no_job ? over->why_not : to_string(why);
  const bool is_failure = why == WhyNot::nothing && make_ours(*made, wanted, told) != SKERRY_OK;
  if (is_failure) reason = skerry_last_error();
  if (!reason.empty()) {
    give_back_group(*made);
    if (carried) real().Win_free(&carrier);
    explain(*over, wanted, "the MPI library's", reason, is_failure);
    return {};
  }
  describe(*made, wanted, told);
  made->handle = carrier;
  explain(*over, wanted, "Skerry's", "", false);
  if (base != nullptr) *base = made->base;
  *win = carrier;
  windows.add(carrier, made.release());
  return MPI_SUCCESS;
}

}  // namespace

std::string named(const Window& window) {
  char name[MPI_MAX_OBJECT_NAME + 1] = {};
  int length = 0;
  real().Win_get_name(window.handle, name, &length);
  const Communicator& over = *window.over;
  std::string told = text("window ", window.serial, length > 0 ? text(" '", name, "'") : "",
                          ", rank ", over.rank, " of ", over.size);
  constexpr size_t most = 8;
  if (over.ranks.empty()) return told;
  told += ", whose ranks are the job's";  // which the runtime's messages speak of
  for (size_t k = 0; k < std::min(over.ranks.size(), most); ++k)
    told += text(k > 0 ? ", " : " ", over.ranks[k]);
  return told + (over.ranks.size() > most ? ", ..." : "");
}

Window* find_dying(MPI_Win win) {
  return dying != nullptr && dying->handle == win ? dying : nullptr;
}

std::optional<int> win_create(void* base, MPI_Aint size, MPI_Aint unit, MPI_Info info,
                              MPI_Comm comm, MPI_Win* win) {
  return make({MPI_WIN_FLAVOR_CREATE, base, size, unit, info}, comm, win, nullptr);
}

std::optional<int> win_allocate(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                void* baseptr, MPI_Win* win) {
  return make({MPI_WIN_FLAVOR_ALLOCATE, nullptr, size, unit, info}, comm, win,
              static_cast<void**>(baseptr));
}

std::optional<int> win_allocate_shared(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                       void* baseptr, MPI_Win* win) {
  return make({MPI_WIN_FLAVOR_SHARED, nullptr, size, unit, info}, comm, win,
              static_cast<void**>(baseptr));
}

std::optional<int> win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return make({MPI_WIN_FLAVOR_DYNAMIC, nullptr, 0, 1, info}, comm, win, nullptr);
}

namespace {

// An error class. The job may have ended: MPI_Finalize can call what frees windows.
int free_ours(Window& window) {
  if (window.over->job->job == nullptr) return MPI_SUCCESS;
  if (window.data != nullptr) {
    skerry_window_unlock_all(window.data);
    if (const int failed = settle(skerry_window_free(window.data)); failed != MPI_SUCCESS)
      return failed;
    window.data = nullptr;
  }
  if (const int failed = settle(skerry_window_free(window.window)); failed != MPI_SUCCESS)
    return failed;
  give_back_group(window);
  return MPI_SUCCESS;
}

}  // namespace

int win_free(Window& window, MPI_Win* win) {
  if (const int failed = free_ours(window); failed != MPI_SUCCESS)
    return answer(window, "MPI_Win_free", failed);
  // Another thread may get the same handle for a new window as soon as this one is free. Until then
  // the callbacks of attributes, in this thread, see a window that still answers.
  dying = &window;
  windows.remove(window.handle);
  const int answer = real().Win_free(win);
  dying = nullptr;
  delete &window;
  return answer;
}

// ---- questions ----------------------------------------------------------------------------------

int win_attach(Window& window, void* base, MPI_Aint size) {
  if (size < 0) return fail(MPI_ERR_SIZE, "size is ", size);
  return settle(skerry_window_attach(window.window, base, static_cast<uint64_t>(size)),
                MPI_ERR_RMA_ATTACH);
}

int win_detach(Window& window, const void* base) {
  return settle(skerry_window_detach(window.window, const_cast<void*>(base)), MPI_ERR_RMA_ATTACH);
}

int query_shared(Window& window, int rank, MPI_Aint* size, MPI_Aint* unit, void* baseptr) {
  bool is_nobody = false;
  if (const int failed = check_rank(window, rank, &is_nobody); failed != MPI_SUCCESS) return failed;
  const auto bytes_of = [&](int of) {
    return window.data != nullptr ? window.bytes[static_cast<size_t>(of)]
                                  : skerry_window_bytes(window.window, window.over->job_rank(of));
  };
  if (is_nobody) {  // the lowest rank that has memory
    rank = 0;
    while (rank < window.over->size - 1 && bytes_of(rank) == 0) ++rank;
  }
  const int job_rank = window.over->job_rank(rank);
  char* base = nullptr;
  if (window.data != nullptr) {
    base = shared_part(window, rank);
  } else if (window.flavor == MPI_WIN_FLAVOR_CREATE && rank == window.over->rank) {
    base = static_cast<char*>(window.base);
  } else {
    base = static_cast<char*>(skerry_window_pointer(window.window, job_rank));
  }
  if (window.flavor == MPI_WIN_FLAVOR_DYNAMIC)
    return fail(MPI_ERR_RMA_FLAVOR, "a dynamic window has no memory of its own to share");
  *size = base != nullptr ? static_cast<MPI_Aint>(bytes_of(rank)) : 0;
  *unit = static_cast<MPI_Aint>(window.unit_of(rank));
  std::memcpy(baseptr, &base, sizeof base);
  return MPI_SUCCESS;
}

int win_get_attr(Window& window, int keyval, void* value, int* flag) {
  void* found = nullptr;
  if (keyval == MPI_WIN_BASE) found = window.base;
  else if (keyval == MPI_WIN_SIZE) found = &window.size;
  else if (keyval == MPI_WIN_DISP_UNIT) found = &window.unit;
  else if (keyval == MPI_WIN_CREATE_FLAVOR) found = &window.flavor;
  else if (keyval == MPI_WIN_MODEL) found = &window.model;
  else return real().Win_get_attr(window.handle, keyval, value, flag);
  std::memcpy(value, &found, sizeof found);
  *flag = 1;
  return MPI_SUCCESS;
}

// For Fortran, whose libraries do not ask win_get_attr (preload.c): the value itself.
extern "C" __attribute__((visibility("default"))) int skerry_mpi_attribute(int handle, int keyval,
                                                                           intptr_t* value) {
#if defined(OPEN_MPI)
  Window* const window = find_window(real().Win_f2c(handle));
#elif defined(SKERRY_MPI_STANDARD_ABI)
  Window* const window = find_window(real().Win_fromint(handle));
#else
  Window* const window = find_window(handle);
  if (keyval % 2 == 0) --keyval;  // MPICH's predefined ones are odd in C, and one more in Fortran
#endif
  if (window == nullptr) return 0;
  if (keyval == MPI_WIN_BASE) *value = reinterpret_cast<intptr_t>(window->base);
  else if (keyval == MPI_WIN_SIZE) *value = window->size;
  else if (keyval == MPI_WIN_DISP_UNIT) *value = window->unit;
  else if (keyval == MPI_WIN_CREATE_FLAVOR) *value = window->flavor;
  else if (keyval == MPI_WIN_MODEL) *value = window->model;
  else return 0;
  return 1;
}

int win_get_group(Window& window, MPI_Group* group) {
  return real().Comm_group(window.over->comm, group);
}

}  // namespace skerry::mpi
