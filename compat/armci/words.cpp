// Read-modify-write, mutexes and notification.
#include <cstring>
#include <unordered_map>

#include "memory.hpp"

namespace skerry::armci {
namespace {

skerry_mutexes* mutexes = nullptr;        // the one set that ARMCI has; null: none
skerry_segment* notifications = nullptr;  // in every process: a counter (8 bytes) of what each
                                          // process has sent it
// By process, of those that it has to do with: notifications sent to it; waits for it that have
// returned.
std::unordered_map<int, int64_t> sent, awaited;

// A word of the caller's own that is in no allocation.
template <class Word>
Word private_word(bool swap, void* word, Word operand) {
  auto* const at = static_cast<Word*>(word);
  return swap ? __atomic_exchange_n(at, operand, __ATOMIC_SEQ_CST)
              : __atomic_fetch_add(at, operand, __ATOMIC_SEQ_CST);
}

template <class Word, class Call>
int change(bool swap, void* local, void* remote, int value, int proc, Call call) {
  Word operand = value;
  if (swap) std::memcpy(&operand, local, sizeof operand);
  if (reinterpret_cast<uintptr_t>(remote) % sizeof(Word) != 0)
    return complain("Rmw", text("remote address ", static_cast<const void*>(remote),
                                " is not a multiple of ", sizeof(Word)));
  Word old{};
  const Place place = find(proc, remote);
  if (place.segment != nullptr)
    settle("Rmw", call(place.segment, proc, place.offset, operand, &old));
  else if (proc == runtime().rank) old = private_word<Word>(swap, remote, operand);
  else
    die("Rmw", text("address ", static_cast<const void*>(remote), " of process ", proc,
                    " lies in no live allocation of ARMCI_Malloc"));
  std::memcpy(local, &old, sizeof old);
  return 0;
}

// Mutexes: a caller that names one that is not there can be told by the end alone.
void check_mutex(const char* call, int mutex, int proc) {
  need_start(call);
  if (mutexes == nullptr) die(call, "there are no mutexes: call ARMCI_Create_mutexes first");
  if (!is_rank(proc))
    die(call, text("mutex ", mutex, " of process ", proc, ": this job has processes 0 to ",
                   runtime().size - 1));
  if (mutex < 0) die(call, text("mutex ", mutex));
}

}  // namespace

PROFILED(int, Rmw, (int operation, void* local, void* remote, int value, int proc)) {
  need_start("Rmw");
  if (!is_rank(proc))
    return complain("Rmw",
                    text("there is no process ", proc, ": this job has 0 to ", runtime().size - 1));
  if (local == nullptr || remote == nullptr) return complain("Rmw", "a null pointer");
  switch (operation) {
    case ARMCI_FETCH_AND_ADD:
      return change<int32_t>(false, local, remote, value, proc, skerry_fetch_add_i32);
    case ARMCI_FETCH_AND_ADD_LONG:
      return change<int64_t>(false, local, remote, value, proc, skerry_fetch_add_i64);
    case ARMCI_SWAP: return change<int32_t>(true, local, remote, value, proc, skerry_swap_i32);
    case ARMCI_SWAP_LONG: return change<int64_t>(true, local, remote, value, proc, skerry_swap_i64);
    default: return complain("Rmw", text("operation ", operation, ": give an ARMCI_Rmw_e, 0 to 3"));
  }
}

PROFILED(int, Create_mutexes, (int count)) {
  need_start("Create_mutexes");
  // All members must hear of one's mistake, or they would wait for it.
  int32_t wrong = count < 0 ? 1 : mutexes != nullptr ? 2 : 0;
  settle("Create_mutexes",
         skerry_allreduce(runtime().world.group, SKERRY_INT32, SKERRY_MAX, &wrong, 1));
  if (wrong == 1)
    return complain("Create_mutexes", count < 0 ? text(count, " mutexes")
                                                : "another process asked for a negative number");
  if (wrong == 2)
    return complain("Create_mutexes",
                    "there are mutexes already: call ARMCI_Destroy_mutexes first");
  if (const int status = skerry_mutexes_create(runtime().world.group, static_cast<uint32_t>(count),
                                               &mutexes);
      status != SKERRY_OK) {
    if (status == SKERRY_ERR_PEER_DEAD || status == SKERRY_ERR_NETWORK)
      die("Create_mutexes", skerry_last_error());
    return complain("Create_mutexes", skerry_last_error());
  }
  return 0;
}

PROFILED(int, Destroy_mutexes, (void)) {
  need_start("Destroy_mutexes");
  if (mutexes == nullptr) return complain("Destroy_mutexes", "there are no mutexes");
  skerry_mutexes* gone = mutexes;
  mutexes = nullptr;
  return settle("Destroy_mutexes", skerry_mutexes_free(gone));
}

PROFILED(void, Lock, (int mutex, int proc)) {
  check_mutex("Lock", mutex, proc);
  settle("Lock", skerry_mutex_lock(mutexes, proc, static_cast<uint32_t>(mutex)));
}

PROFILED(void, Unlock, (int mutex, int proc)) {
  check_mutex("Unlock", mutex, proc);
  settle("Unlock", skerry_mutex_unlock(mutexes, proc, static_cast<uint32_t>(mutex)));
}

// ---- notification -----------------------------------------------------------------------------

int start_notifications() {
  const auto size = static_cast<size_t>(runtime().size);
  mutexes = nullptr;
  sent.clear();
  awaited.clear();
  return skerry_segment_alloc(runtime().world.group, 8 * size, &notifications);
}

extern "C" int armci_notify(int proc) {
  need_start("notify");
  if (!is_rank(proc)) return complain("notify", text("there is no process ", proc));
  settle("notify", skerry_put_notify(notifications, proc, 0, nullptr, 0,
                                     8 * static_cast<uint64_t>(runtime().rank), 1));
  const Guard guard;
  return static_cast<int>(++sent[proc]);
}

extern "C" int armci_notify_wait(int proc, int* count) {
  need_start("notify_wait");
  if (!is_rank(proc)) return complain("notify_wait", text("there is no process ", proc));
  int64_t number = 0;
  {
    const Guard guard;
    number = ++awaited[proc];
  }
  settle("notify_wait", skerry_notify_wait(notifications, 8 * static_cast<uint64_t>(proc),
                                           static_cast<uint64_t>(number), -1, nullptr));
  if (count != nullptr) *count = static_cast<int>(number);
  return 0;
}

}  // namespace skerry::armci
