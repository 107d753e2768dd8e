// Collectives and messages. Collectives go over Skerry's groups, whose waits sleep; messages over
// an MPI communicator of their own.
#include <message.h>

#include <time.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "runtime.hpp"

namespace skerry::armci {
namespace {

Group& scope_of(const char* call, int scope) {
  need_start(call);
  Runtime& rt = runtime();
  switch (scope) {
    case SCOPE_ALL: return rt.world;
    case SCOPE_NODE: return rt.node;
    case SCOPE_MASTERS: break;
    default: die(call, text("scope ", scope, ": give an armci_scope_e, 0 to 2"));
  }
  if (rt.masters.group == nullptr)
    die(call,
        text("process ", rt.rank, " is not the first of its node: SCOPE_MASTERS is not for it"));
  return rt.masters;
}

int type_of(const char* call, int type) {
  switch (type) {
    case ARMCI_INT: return SKERRY_INT32;
    case ARMCI_LONG: return SKERRY_INT64;
    case ARMCI_LONG_LONG: return SKERRY_INT64;
    case ARMCI_FLOAT: return SKERRY_FLOAT;
    case ARMCI_DOUBLE: return SKERRY_DOUBLE;
    default: die(call, text("type ", type, ": give an armci_type_e, 0 to 4"));
  }
}

struct Operator {
  skerry_reduction reduction;
  bool absolute;  // of the elements' absolute values
};

// What of an operator can be shown: where it ends, nobody knows.
std::string shown(const char* op) {
  std::string out;
  while (out.size() < 6 && *op > ' ' && *op <= '~') out += *op++;
  return out;
}

// Does `op` begin with `name`? Reads no byte behind the first that differs.
bool begins_with(const char* op, std::string_view name) {
  for (const char letter : name)
    if (*op++ != letter) return false;
  return true;
}

// Operators end where the name ends: Global Arrays passes on what Fortran gave it, which has no
// terminator, and some of its C programs pass the address of one character. So, as in other ARMCIs,
// the first characters decide. Longer names come before those that they begin with.
Operator operator_of(const char* call, const char* op) {
  struct Name {
    std::string_view name;
    Operator means;
  };
  static constexpr Name names[] = {{"+", {SKERRY_SUM, false}},     {"*", {SKERRY_PROD, false}},
                                   {"max", {SKERRY_MAX, false}},   {"min", {SKERRY_MIN, false}},
                                   {"absmax", {SKERRY_MAX, true}}, {"absmin", {SKERRY_MIN, true}},
                                   {"or", {SKERRY_BOR, false}},    {"&&", {SKERRY_LAND, false}},
                                   {"land", {SKERRY_LAND, false}}, {"||", {SKERRY_LOR, false}},
                                   {"lor", {SKERRY_LOR, false}},   {"&", {SKERRY_BAND, false}},
                                   {"band", {SKERRY_BAND, false}}, {"|", {SKERRY_BOR, false}},
                                   {"bor", {SKERRY_BOR, false}}};
  if (op == nullptr) die(call, "the operator is null");
  for (const Name& name : names)
    if (begins_with(op, name.name)) return name.means;
  die(call, text("operator \"", shown(op),
                 "\": give + * max min absmax absmin or && land || lor & band | bor"));
}

template <class Number>
void make_absolute(void* x, int count) {
  auto* const numbers = static_cast<Number*>(x);
  for (int i = 0; i < count; ++i) numbers[i] = static_cast<Number>(std::abs(numbers[i]));
}

// root_rank < 0: the result goes everywhere.
void combine(const char* call, Group& group, void* x, int count, const char* op, int type,
             int root_rank) {
  if (count < 0 || (x == nullptr && count > 0)) die(call, text("no ", count, " elements there"));
  const int element = type_of(call, type);
  const Operator what = operator_of(call, op);
  if (what.absolute) {
    switch (static_cast<skerry_type>(element)) {
      case SKERRY_INT32: make_absolute<int32_t>(x, count); break;
      case SKERRY_INT64: make_absolute<int64_t>(x, count); break;
      case SKERRY_FLOAT: make_absolute<float>(x, count); break;
      case SKERRY_DOUBLE: make_absolute<double>(x, count); break;
      default: break;  // no armci_type_e
    }
  }
  const bool logical = what.reduction == SKERRY_LAND || what.reduction == SKERRY_LOR;
  if (count == 0 || (group.size == 1 && !logical)) return;  // logical ones become 0 or 1 alone too
  const auto elements = static_cast<uint64_t>(count);
  settle(call, root_rank < 0
                   ? skerry_allreduce(group.group, element, what.reduction, x, elements)
                   : skerry_reduce(group.group, element, what.reduction, x, elements, root_rank));
}

void broadcast(const char* call, Group& group, void* buffer, int bytes, int root) {
  if (bytes < 0 || (buffer == nullptr && bytes > 0)) die(call, text("no ", bytes, " bytes there"));
  if (bytes == 0) return;
  settle(call, skerry_broadcast(group.group, buffer, static_cast<uint64_t>(bytes), root));
}

// The group's scope: its own members, or those of them on this node. Only the whole group is
// common.
Group& scope_of_group(const char* call, int scope, ARMCI_Group* group) {
  Group& found = live(call, group);
  if (&found == &runtime().world) return scope_of(call, scope);
  if (scope != SCOPE_ALL) die(call, "groups other than the world have SCOPE_ALL only");
  return found;
}

}  // namespace

// ---- who, start, end --------------------------------------------------------------------------

extern "C" int armci_msg_me(void) {
  if (runtime().job != nullptr) return runtime().rank;
  int rank = 0;
  if (mpi_is_up()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
extern "C" int armci_msg_nproc(void) {
  if (runtime().job != nullptr) return runtime().size;
  int size = 1;
  if (mpi_is_up()) MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
extern "C" void armci_msg_abort(int code) { die("msg_abort", text("code ", code), code); }
extern "C" void armci_msg_init(int* argc, char*** argv) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) MPI_Init(argc, argv);
}
extern "C" void armci_msg_finalize(void) {
  if (mpi_is_up()) MPI_Finalize();
}
extern "C" double armci_timer(void) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// ---- messages ---------------------------------------------------------------------------------

namespace {

void check_message(const char* call, const void* buffer, int bytes, int proc) {
  need_start(call);
  if (!mpi_is_up()) die(call, "MPI has been finalised: it carries the messages");
  if (bytes < 0 || (buffer == nullptr && bytes > 0)) die(call, text("no ", bytes, " bytes there"));
  if (proc != MPI_ANY_SOURCE && !is_rank(proc)) die(call, text("there is no process ", proc));
}

int receive(const char* call, int tag, void* buffer, int capacity, int* received, int from) {
  check_message(call, buffer, capacity, from);
  MPI_Status status;
  if (MPI_Recv(buffer, capacity, MPI_BYTE, from, tag, runtime().messages, &status) != MPI_SUCCESS)
    die(call, "MPI_Recv failed");
  if (received != nullptr) MPI_Get_count(&status, MPI_BYTE, received);
  return status.MPI_SOURCE;
}

}  // namespace

extern "C" void armci_msg_snd(int tag, void* buffer, int bytes, int to) {
  check_message("msg_snd", buffer, bytes, to);
  if (MPI_Send(buffer, bytes, MPI_BYTE, to, tag, runtime().messages) != MPI_SUCCESS)
    die("msg_snd", "MPI_Send failed");
}
extern "C" void armci_msg_rcv(int tag, void* buffer, int capacity, int* received, int from) {
  receive("msg_rcv", tag, buffer, capacity, received, from);
}
extern "C" int armci_msg_rcvany(int tag, void* buffer, int capacity, int* received) {
  return receive("msg_rcvany", tag, buffer, capacity, received, MPI_ANY_SOURCE);
}

// ---- barriers, trees, broadcasts --------------------------------------------------------------

extern "C" void armci_msg_barrier(void) {
  need_start("msg_barrier");
  settle("msg_barrier", skerry_barrier(runtime().world.group));
}
extern "C" void parmci_msg_barrier(void) { armci_msg_barrier(); }
extern "C" void armci_msg_group_barrier(ARMCI_Group* group) {
  settle("msg_group_barrier", skerry_barrier(live("msg_group_barrier", group).group));
}
extern "C" void parmci_msg_group_barrier(ARMCI_Group* group) { armci_msg_group_barrier(group); }

extern "C" void armci_msg_bintree(int scope, int* root, int* up, int* left, int* right) {
  const Group& group = scope_of("msg_bintree", scope);
  const auto rank_at = [&](int place) {
    return place < 0 || place >= group.size ? -1 : skerry_group_rank(group.group, place);
  };
  *root = rank_at(0);
  *up = group.rank == 0 ? -1 : rank_at((group.rank - 1) / 2);
  *left = rank_at(2 * group.rank + 1);
  *right = rank_at(2 * group.rank + 2);
}

extern "C" void armci_msg_bcast_scope(int scope, void* buffer, int bytes, int root) {
  broadcast("msg_bcast_scope", scope_of("msg_bcast_scope", scope), buffer, bytes, root);
}
extern "C" void armci_msg_bcast(void* buffer, int bytes, int root) {
  armci_msg_bcast_scope(SCOPE_ALL, buffer, bytes, root);
}
extern "C" void armci_msg_brdcst(void* buffer, int bytes, int root) {
  armci_msg_bcast_scope(SCOPE_ALL, buffer, bytes, root);
}
extern "C" void armci_msg_group_bcast_scope(int scope, void* buffer, int bytes, int root,
                                            ARMCI_Group* group) {
  broadcast("msg_group_bcast_scope", scope_of_group("msg_group_bcast_scope", scope, group), buffer,
            bytes, root);
}
extern "C" void armci_msg_clus_brdcst(void* buffer, int bytes) {
  Group& node = scope_of("msg_clus_brdcst", SCOPE_NODE);
  broadcast("msg_clus_brdcst", node, buffer, bytes, skerry_group_rank(node.group, 0));
}

// ---- reductions -------------------------------------------------------------------------------

extern "C" void armci_msg_gop_scope(int scope, void* x, int count, char* op, int type) {
  combine("msg_gop_scope", scope_of("msg_gop_scope", scope), x, count, op, type, -1);
}
extern "C" void armci_msg_igop(int* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_ALL, x, count, op, ARMCI_INT);
}
extern "C" void armci_msg_lgop(long* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_ALL, x, count, op, ARMCI_LONG);
}
extern "C" void armci_msg_llgop(long long* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_ALL, x, count, op, ARMCI_LONG_LONG);
}
extern "C" void armci_msg_fgop(float* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_ALL, x, count, op, ARMCI_FLOAT);
}
extern "C" void armci_msg_dgop(double* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_ALL, x, count, op, ARMCI_DOUBLE);
}

extern "C" void armci_msg_group_gop_scope(int scope, void* x, int count, char* op, int type,
                                          ARMCI_Group* group) {
  combine("msg_group_gop_scope", scope_of_group("msg_group_gop_scope", scope, group), x, count, op,
          type, -1);
}
extern "C" void armci_msg_group_igop(int* x, int count, char* op, ARMCI_Group* group) {
  armci_msg_group_gop_scope(SCOPE_ALL, x, count, op, ARMCI_INT, group);
}
extern "C" void armci_msg_group_lgop(long* x, int count, char* op, ARMCI_Group* group) {
  armci_msg_group_gop_scope(SCOPE_ALL, x, count, op, ARMCI_LONG, group);
}
extern "C" void armci_msg_group_llgop(long long* x, int count, char* op, ARMCI_Group* group) {
  armci_msg_group_gop_scope(SCOPE_ALL, x, count, op, ARMCI_LONG_LONG, group);
}
extern "C" void armci_msg_group_fgop(float* x, int count, char* op, ARMCI_Group* group) {
  armci_msg_group_gop_scope(SCOPE_ALL, x, count, op, ARMCI_FLOAT, group);
}
extern "C" void armci_msg_group_dgop(double* x, int count, char* op, ARMCI_Group* group) {
  armci_msg_group_gop_scope(SCOPE_ALL, x, count, op, ARMCI_DOUBLE, group);
}

extern "C" void armci_msg_reduce_scope(int scope, void* x, int count, char* op, int type) {
  Group& group = scope_of("msg_reduce_scope", scope);
  combine("msg_reduce_scope", group, x, count, op, type, skerry_group_rank(group.group, 0));
}
extern "C" void armci_msg_reduce(void* x, int count, char* op, int type) {
  armci_msg_reduce_scope(SCOPE_ALL, x, count, op, type);
}

extern "C" void armci_msg_clus_igop(int* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_NODE, x, count, op, ARMCI_INT);
}
extern "C" void armci_msg_clus_lgop(long* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_NODE, x, count, op, ARMCI_LONG);
}
extern "C" void armci_msg_clus_llgop(long long* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_NODE, x, count, op, ARMCI_LONG_LONG);
}
extern "C" void armci_msg_clus_fgop(float* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_NODE, x, count, op, ARMCI_FLOAT);
}
extern "C" void armci_msg_clus_dgop(double* x, int count, char* op) {
  armci_msg_gop_scope(SCOPE_NODE, x, count, op, ARMCI_DOUBLE);
}

// ---- selection --------------------------------------------------------------------------------

namespace {

// Is a better than b, by their first elements?
template <class Number>
bool precedes(const void* a, const void* b, bool smallest) {
  Number x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return smallest ? x < y : y < x;
}

bool precedes(int type, const void* a, const void* b, bool smallest) {
  switch (static_cast<skerry_type>(type)) {
    case SKERRY_INT32: return precedes<int32_t>(a, b, smallest);
    case SKERRY_INT64: return precedes<int64_t>(a, b, smallest);
    case SKERRY_FLOAT: return precedes<float>(a, b, smallest);
    case SKERRY_DOUBLE: return precedes<double>(a, b, smallest);
    default: break;  // no armci_type_e
  }
  return false;
}

}  // namespace

extern "C" void armci_msg_sel_scope(int scope, void* x, int bytes, char* op, int type,
                                    int contribute) {
  const char* const call = "msg_sel_scope";
  const Group& group = scope_of(call, scope);
  const int element = type_of(call, type);
  const Operator what = operator_of(call, op);
  if (what.absolute || (what.reduction != SKERRY_MIN && what.reduction != SKERRY_MAX))
    die(call, text("operator \"", shown(op), "\": give min or max"));
  const uint64_t each = static_cast<uint64_t>(bytes) + 8;
  if (bytes < 0 || static_cast<uint64_t>(bytes) < skerry_type_bytes(element) || x == nullptr)
    die(call, text("no element in ", bytes, " bytes"));
  std::vector<char> mine(each), all(each * static_cast<uint64_t>(group.size));
  mine[0] = contribute != 0 ? 1 : 0;
  std::memcpy(mine.data() + 8, x, static_cast<size_t>(bytes));
  settle(call, skerry_allgather(group.group, mine.data(), each, all.data()));
  const char* best = nullptr;
  for (int i = 0; i < group.size; ++i) {
    const char* const theirs = all.data() + each * static_cast<uint64_t>(i);
    if (theirs[0] == 0) continue;
    if (best == nullptr || precedes(element, theirs + 8, best + 8, what.reduction == SKERRY_MIN))
      best = theirs;
  }
  if (best != nullptr) std::memcpy(x, best + 8, static_cast<size_t>(bytes));
}
extern "C" void armci_msg_sel(void* x, int bytes, char* op, int type, int contribute) {
  armci_msg_sel_scope(SCOPE_ALL, x, bytes, op, type, contribute);
}

namespace {

void exchange_pointers(const char* call, void** pointers, int count, Group& group) {
  if (count != group.size || pointers == nullptr)
    die(call, text(count, " pointers for ", group.size, " members"));
  void* const mine = pointers[group.rank];
  settle(call, skerry_allgather(group.group, &mine, sizeof mine, pointers));
}

}  // namespace

extern "C" void armci_exchange_address(void* pointers[], int count) {
  need_start("exchange_address");
  exchange_pointers("exchange_address", pointers, count, runtime().world);
}
extern "C" void armci_exchange_address_grp(void* pointers[], int count, ARMCI_Group* group) {
  exchange_pointers("exchange_address_grp", pointers, count, live("exchange_address_grp", group));
}

}  // namespace skerry::armci
