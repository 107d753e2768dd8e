// Groups: made by their members over an MPI communicator of their own, which the program gets as
// well.
#include <algorithm>
#include <vector>

#include "runtime.hpp"

namespace skerry::armci {
namespace {

constexpr int creation_tag = 7;  // of MPI_Comm_create_group; concurrent creations of one process
                                 // are ordered by the program

ARMCI_Group value_of(Group& group) {
  ARMCI_Group value{};
  value.comm = group.comm;
  value.reserved_comm = MPI_COMM_NULL;
  value.group = &group;
  value.reserved = reinterpret_cast<void*>(group.number);
  value.rank = group.rank;
  value.size = group.size;
  return value;
}

ARMCI_Group nobody() {
  ARMCI_Group value{};
  value.comm = value.reserved_comm = MPI_COMM_NULL;
  value.rank = -1;
  return value;
}

void fill(Group& group, skerry_group* of) {
  group.group = of;
  if (of == nullptr) return;
  group.rank = skerry_group_index(of, runtime().rank);
  group.size = skerry_group_size(of);
}

void create(const char* call, int count, const int* ranks, ARMCI_Group* out, Group& parent) {
  need_start(call);
  if (out == nullptr) die(call, "the group to be filled in is null");
  *out = nobody();
  if (count < 0 || (ranks == nullptr && count > 0))
    die(call, text("a group of ", count, " members needs their list"));
  bool is_member = false;
  std::vector<int> world(static_cast<size_t>(count));
  std::vector<bool> seen(static_cast<size_t>(parent.size));
  for (int i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= parent.size)
      die(call, text("member ", i, " is rank ", ranks[i], ": the parent group has ranks 0 to ",
                     parent.size - 1));
    if (seen[static_cast<size_t>(ranks[i])])
      die(call, text("rank ", ranks[i], " is in the list twice"));
    seen[static_cast<size_t>(ranks[i])] = true;
    world[static_cast<size_t>(i)] = skerry_group_rank(parent.group, ranks[i]);
    is_member = is_member || ranks[i] == parent.rank;
  }
  if (!is_member) return;
  if (!mpi_is_up()) die(call, "MPI has been finalised: groups are made over its communicators");

  auto made = std::make_unique<Group>();
  MPI_Group all, members;
  MPI_Comm_group(parent.comm, &all);
  MPI_Group_incl(all, count, ranks, &members);
  if (MPI_Comm_create_group(parent.comm, members, creation_tag, &made->comm) != MPI_SUCCESS)
    die(call, "MPI_Comm_create_group failed");
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  const skerry_exchange exchange = exchange_over(&made->comm);
  skerry_group* group = nullptr;
  settle(call, skerry_group_create(runtime().job, world.data(), &exchange, &group));
  fill(*made, group);
  const Guard guard;
  made->number = ++runtime().groups_made;
  *out = value_of(*made);
  runtime().groups.push_back(std::move(made));
}

}  // namespace

Group& live(const char* call, const ARMCI_Group* group) {
  need_start(call);
  Runtime& rt = runtime();
  if (group == nullptr) die(call, "the group is null");
  if (group->group == &rt.world) return rt.world;
  {
    const Guard guard;
    for (const auto& candidate : rt.groups)
      // The number too: a group made later may lie where a freed one did.
      if (candidate.get() == group->group &&
          candidate->number == reinterpret_cast<uintptr_t>(group->reserved))
        return *candidate;
  }
  die(call, group->group == nullptr ? "the caller is no member of the group"
                                    : "there is no such group: never made, or freed");
}

void start_groups() {
  Runtime& rt = runtime();
  fill(rt.world, skerry_world(rt.job));
  rt.default_group = &rt.world;
  const int node = skerry_node_of(rt.job, rt.rank);
  skerry_group* group = nullptr;
  settle("Init", skerry_group_split(rt.world.group, node, rt.rank, &group));
  fill(rt.node, group);
  const int first = skerry_node_rank(rt.job, node, 0);
  rt.near_from = first;
  while (rt.near_count < rt.node.size &&
         skerry_node_rank(rt.job, node, rt.near_count) == first + rt.near_count)
    ++rt.near_count;
  settle("Init",
         skerry_group_split(rt.world.group, skerry_node_rank(rt.job, node, 0) == rt.rank ? 0 : -1,
                            rt.rank, &group));
  fill(rt.masters, group);
}

void end_groups() {
  Runtime& rt = runtime();
  const bool up = mpi_is_up();
  for (const auto& group : rt.groups)
    if (up && group->comm != MPI_COMM_NULL) MPI_Comm_free(&group->comm);
  rt.groups.clear();
  if (up) MPI_Comm_free(&rt.world.comm);
  rt.world = rt.node = rt.masters = Group{};
  rt.default_group = nullptr;
  rt.near_count = 0;
}

PROFILED(void, Group_create, (int count, int* ranks, ARMCI_Group* group)) {
  need_start("Group_create");
  create("Group_create", count, ranks, group, *runtime().default_group);
}

PROFILED(void, Group_create_child,
         (int count, int* ranks, ARMCI_Group* group, ARMCI_Group* parent)) {
  create("Group_create_child", count, ranks, group, live("Group_create_child", parent));
}

PROFILED(void, Group_free, (ARMCI_Group * group)) {
  need_start("Group_free");
  if (group == nullptr) die("Group_free", "the group is null");
  if (group->group == nullptr) return;  // the caller is no member
  Group& gone = live("Group_free", group);
  Runtime& rt = runtime();
  if (&gone == &rt.world) die("Group_free", "the world cannot be freed");
  settle("Group_free", skerry_group_free(gone.group));
  if (mpi_is_up()) MPI_Comm_free(&gone.comm);
  forget_group(&gone);
  *group = nobody();
  if (rt.default_group == &gone) rt.default_group = &rt.world;
  const Guard guard;
  std::erase_if(rt.groups, [&](const auto& candidate) { return candidate.get() == &gone; });
}

PROFILED(int, Group_rank, (ARMCI_Group * group, int* rank)) {
  if (group == nullptr || rank == nullptr) return complain("Group_rank", "a null pointer");
  *rank = group->rank;
  return group->rank >= 0 ? 0 : -1;
}

PROFILED(void, Group_size, (ARMCI_Group * group, int* size)) {
  if (group == nullptr || size == nullptr) die("Group_size", "a null pointer");
  *size = group->size;
}

PROFILED(void, Group_set_default, (ARMCI_Group * group)) {
  runtime().default_group = &live("Group_set_default", group);
}

PROFILED(void, Group_get_default, (ARMCI_Group * group)) {
  need_start("Group_get_default");
  if (group == nullptr) die("Group_get_default", "the group to be filled in is null");
  *group = value_of(*runtime().default_group);
}

PROFILED(void, Group_get_world, (ARMCI_Group * group)) {
  need_start("Group_get_world");
  if (group == nullptr) die("Group_get_world", "the group to be filled in is null");
  *group = value_of(runtime().world);
}

PROFILED(int, Absolute_id, (ARMCI_Group * group, int rank)) {
  Group& of = live("Absolute_id", group);
  if (rank < 0 || rank >= of.size)
    die("Absolute_id", text("rank ", rank, " in a group of ", of.size));
  return skerry_group_rank(of.group, rank);
}

extern "C" MPI_Comm armci_group_comm(ARMCI_Group* group) {
  return group == nullptr ? MPI_COMM_NULL : group->comm;
}

}  // namespace skerry::armci
