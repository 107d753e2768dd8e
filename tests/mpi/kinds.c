/* Windows of all kinds, what they tell about themselves, and communicators of all shapes. */
#include "mpi_check.h"

static void check_attribute(MPI_Win win, int keyval, long expected) {
  void* found = NULL;
  int flag = 0;
  TRY(MPI_Win_get_attr(win, keyval, &found, &flag));
  CHECK(flag, "keyval %d", keyval);
  if (!flag) return;
  const long value = keyval == MPI_WIN_SIZE ? (long)*(MPI_Aint*)found : *(int*)found;
  CHECK(value == expected, "keyval %d: %ld, not %ld", keyval, value, expected);
}

static int deleted, freed_flavor;
static int on_delete(MPI_Win win, int keyval, void* value, void* extra) {
  (void)keyval, (void)extra;
  int* flavor = NULL;
  int flag = 0;
  TRY(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
  CHECK(flag && *flavor == freed_flavor, "flavor %d in the callback", flag ? *flavor : -1);
  deleted += *(int*)value;
  return MPI_SUCCESS;
}

static void check_answers(MPI_Win win, MPI_Comm comm, void* base, long bytes, int unit,
                          int flavor) {
  void* found = NULL;
  int flag = 0, length = 0, result = MPI_UNEQUAL, keyval, value = 5;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Group group, expected;
  MPI_Info info;
  if (flavor != MPI_WIN_FLAVOR_DYNAMIC) {
    TRY(MPI_Win_get_attr(win, MPI_WIN_BASE, &found, &flag));
    CHECK(flag && (found == base || bytes == 0), "base %p, not %p", found, base);
    check_attribute(win, MPI_WIN_SIZE, bytes);
    check_attribute(win, MPI_WIN_DISP_UNIT, unit);
  }
  check_attribute(win, MPI_WIN_CREATE_FLAVOR, flavor);
  check_attribute(win, MPI_WIN_MODEL, MPI_WIN_UNIFIED);
  TRY(MPI_Win_get_group(win, &group));
  MPI_Comm_group(comm, &expected);
  MPI_Group_compare(group, expected, &result);
  CHECK(result == MPI_IDENT, "group compares as %d", result);
  MPI_Group_free(&group);
  MPI_Group_free(&expected);
  TRY(MPI_Win_set_name(win, "skerry"));
  TRY(MPI_Win_get_name(win, name, &length));
  CHECK(strcmp(name, "skerry") == 0, "name %s", name);
  TRY(MPI_Win_get_info(win, &info));
  MPI_Info_free(&info);
  MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &keyval, NULL);
  static int one = 1;
  TRY(MPI_Win_set_attr(win, keyval, &one));
  TRY(MPI_Win_get_attr(win, keyval, &found, &flag));
  CHECK(flag && found == &one, "own attribute");
  MPI_Win_free_keyval(&keyval);
  (void)value;
}

/* Every rank writes its number to its right neighbour, by a lock. */
static void pass_on(MPI_Win win, MPI_Comm comm, MPI_Aint at, long* mine) {
  int me, all;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  long value = 1000 + me, seen = -1;
  const int next = (me + 1) % all, previous = (me + all - 1) % all;
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win));
  TRY(MPI_Put(&value, 1, MPI_LONG, next, at, 1, MPI_LONG, win));
  TRY(MPI_Win_unlock(next, win));
  MPI_Barrier(comm);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
  CHECK(*mine == 1000 + previous, "%ld, not %d", *mine, 1000 + previous);
  TRY(MPI_Win_unlock(me, win));
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
  TRY(MPI_Get(&seen, 1, MPI_LONG, next, at, 1, MPI_LONG, win));
  TRY(MPI_Win_unlock(next, win));
  CHECK(seen == value, "%ld, not %ld", seen, value);
  MPI_Barrier(comm);
}

static void free_window(MPI_Win* win) {
  int *flavor = NULL, flag = 0;
  deleted = 0;
  TRY(MPI_Win_get_attr(*win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
  freed_flavor = flag ? *flavor : -1;
  TRY(MPI_Win_free(win));
  CHECK(*win == MPI_WIN_NULL, "still a window");
  CHECK(deleted == 1, "the attribute was deleted %d times", deleted);
}

static void check_created(MPI_Comm comm) {
  long* memory = calloc(16, sizeof(long));
  MPI_Win win;
  TRY(MPI_Win_create(memory, 16 * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &win));
  check_answers(win, comm, memory, 16 * sizeof(long), sizeof(long), MPI_WIN_FLAVOR_CREATE);
  pass_on(win, comm, 3, memory + 3);
  free_window(&win);
  free(memory);
}

static void check_allocated(MPI_Comm comm) {
  long* memory = NULL;
  MPI_Win win;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "no_locks", "false");
  TRY(MPI_Win_allocate(16 * sizeof(long), sizeof(long), info, comm, &memory, &win));
  MPI_Info_free(&info);
  check_answers(win, comm, memory, 16 * sizeof(long), sizeof(long), MPI_WIN_FLAVOR_ALLOCATE);
  pass_on(win, comm, 3, memory + 3);
  free_window(&win);
}

/* Units differ between ranks. */
static void check_units(void) {
  char* memory = NULL;
  MPI_Win win;
  const int unit = rank % 2 == 0 ? 1 : 8, there = right % 2 == 0 ? 1 : 8;
  TRY(MPI_Win_allocate(128, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  int value = rank;
  TRY(MPI_Win_fence(0, win));
  TRY(MPI_Put(&value, 1, MPI_INT, right, 64 / there, 1, MPI_INT, win));
  TRY(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  CHECK(*(int*)(memory + 64) == left, "%d, not %d", *(int*)(memory + 64), left);
  TRY(MPI_Win_free(&win));
}

/* Shared memory lies in a row, also with sizes that are no multiple of a page. */
static void check_shared(void) {
  MPI_Comm node;
  MPI_Win win;
  int me, all, unit = 0;
  long* memory = NULL;
  MPI_Aint bytes = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &me);
  MPI_Comm_size(node, &all);
  const MPI_Aint mine = (MPI_Aint)(5 + me) * (MPI_Aint)sizeof(long);
  TRY(MPI_Win_allocate_shared(mine, sizeof(long), MPI_INFO_NULL, node, &memory, &win));
  check_answers(win, node, memory, mine, sizeof(long), MPI_WIN_FLAVOR_SHARED);
  TRY(MPI_Win_lock_all(0, win));
  for (int k = 0; k < 5 + me; ++k) memory[k] = 100 * me + k;
  TRY(MPI_Win_sync(win));
  MPI_Barrier(node);
  TRY(MPI_Win_sync(win));
  long *first = NULL, *of_rank = NULL, got = -1;
  TRY(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
  CHECK(bytes == 5 * (MPI_Aint)sizeof(long) && unit == sizeof(long), "%ld bytes", (long)bytes);
  long* expected = first;
  for (int k = 0; k < all; ++k) {
    TRY(MPI_Win_shared_query(win, k, &bytes, &unit, &of_rank));
    CHECK(of_rank == expected, "rank %d's memory does not follow its neighbour's", k);
    CHECK(bytes == (5 + k) * (MPI_Aint)sizeof(long), "%ld bytes of rank %d", (long)bytes, k);
    CHECK(of_rank[4] == 100 * k + 4, "%ld", of_rank[4]);
    TRY(MPI_Get(&got, 1, MPI_LONG, k, 4, 1, MPI_LONG, win));
    TRY(MPI_Win_flush(k, win));
    CHECK(got == 100 * k + 4, "got %ld from rank %d", got, k);
    expected = of_rank + 5 + k;
  }
  TRY(MPI_Win_unlock_all(win));
  MPI_Barrier(node);
  pass_on(win, node, 2, memory + 2);
  free_window(&win);
  MPI_Comm_free(&node);
}

/* Every other rank, from the first, has no memory. In a row, its address is still that which
 * follows its left neighbour's memory; with gaps it has none. MPI libraries differ here, so this is
 * for windows of Skerry's: on one node. */
static void check_shared_holes(int gaps) {
  const char* const nodes = getenv("SKERRY_NODES");
  if (getenv("SKERRY_USER_CHECKS") == NULL || (nodes != NULL && strcmp(nodes, "1") != 0)) return;
  MPI_Comm node;
  MPI_Win win;
  MPI_Info info;
  int me, all, unit = 0;
  char *memory = NULL, *of_rank = NULL, *end = NULL;
  MPI_Aint bytes = -1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &me);
  MPI_Comm_size(node, &all);
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", gaps ? "true" : "false");
  TRY(MPI_Win_allocate_shared(me % 2 == 0 ? 0 : 24, 8, info, node, &memory, &win));
  MPI_Info_free(&info);
  for (int k = 0; k < all; ++k) {
    TRY(MPI_Win_shared_query(win, k, &bytes, &unit, &of_rank));
    CHECK(bytes == (k % 2 == 0 ? 0 : 24) && unit == 8, "%ld bytes of rank %d", (long)bytes, k);
    CHECK(k != me || of_rank == memory, "%p, not %p", (void*)of_rank, (void*)memory);
    if (gaps) CHECK((of_rank == NULL) == (k % 2 == 0), "%p of rank %d", (void*)of_rank, k);
    else if (k > 0 && all > 1) CHECK(end == of_rank, "a gap before rank %d", k);
    end = of_rank + bytes;
  }
  TRY(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &of_rank));
  if (all > 1) { /* rank 1 is the lowest with memory */
    CHECK(bytes == 24, "%ld", (long)bytes);
    TRY(MPI_Win_shared_query(win, 1, &bytes, &unit, &end));
    CHECK(end == of_rank, "not rank 1's memory");
  }
  long value = 7 + me, seen = 0;
  const int odd = me / 2 * 2 + 1;
  TRY(MPI_Win_lock_all(0, win));
  if (odd < all) {
    TRY(MPI_Put(&value, 1, MPI_LONG, odd, me % 2, 1, MPI_LONG, win));
    TRY(MPI_Win_flush(odd, win));
    TRY(MPI_Get(&seen, 1, MPI_LONG, odd, me % 2, 1, MPI_LONG, win));
  }
  TRY(MPI_Win_unlock_all(win));
  CHECK(odd >= all || seen == value, "%ld, not %ld", seen, value);
  TRY(MPI_Win_free(&win));
  MPI_Comm_free(&node);
}

/* Types whose first piece is not the lowest, at both ends of a rank's part of shared memory: inside
 * all of it may be used, outside nothing. */
static void check_shared_ends(void) {
  const char* const nodes = getenv("SKERRY_NODES");
  if (getenv("SKERRY_USER_CHECKS") == NULL || (nodes != NULL && strcmp(nodes, "1") != 0)) return;
  MPI_Win win;
  MPI_Comm node;
  MPI_Datatype falling;
  int all;
  long *memory = NULL, back[3];
  const long values[3] = {1, 2, 3};
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &all);
  MPI_Type_create_hvector(3, 1, -(MPI_Aint)sizeof(long), MPI_LONG, &falling);
  MPI_Type_commit(&falling);
  TRY(MPI_Win_allocate_shared(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, node, &memory, &win));
  TRY(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, all - 1, 0, win));
  TRY(MPI_Put(values, 3, MPI_LONG, all - 1, 3, 1, falling, win));
  TRY(MPI_Win_flush(all - 1, win));
  TRY(MPI_Accumulate(values, 3, MPI_LONG, all - 1, 3, 1, falling, MPI_SUM, win));
  TRY(MPI_Win_flush(all - 1, win));
  TRY(MPI_Get(back, 3, MPI_LONG, all - 1, 1, 3, MPI_LONG, win));
  TRY(MPI_Win_flush(all - 1, win));
  CHECK(back[0] == 6 && back[1] == 4 && back[2] == 2, "%ld %ld %ld", back[0], back[1], back[2]);
  for (int at = 1; at < 5; at += 3) {
    CHECK(class_of(MPI_Put(values, 3, MPI_LONG, all - 1, at, 1, falling, win)) == MPI_ERR_RMA_RANGE,
          "put at %d", at);
    CHECK(class_of(MPI_Accumulate(values, 3, MPI_LONG, all - 1, at, 1, falling, MPI_SUM, win)) ==
              MPI_ERR_RMA_RANGE,
          "accumulate at %d", at);
  }
  TRY(MPI_Win_unlock(all - 1, win));
  MPI_Type_free(&falling);
  TRY(MPI_Win_free(&win));
  MPI_Comm_free(&node);
}

static void check_dynamic(void) {
  MPI_Win win;
  long memory[8] = {0}, more[4] = {0};
  MPI_Aint address = 0;
  TRY(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  check_answers(win, MPI_COMM_WORLD, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
  TRY(MPI_Win_attach(win, memory, sizeof memory));
  MPI_Get_address(&memory[3], &address);
  MPI_Aint there = 0;
  MPI_Sendrecv(&address, 1, MPI_AINT, left, 0, &there, 1, MPI_AINT, right, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  long value = 10 + rank;
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  TRY(MPI_Put(&value, 1, MPI_LONG, right, there, 1, MPI_LONG, win));
  TRY(MPI_Accumulate(&value, 1, MPI_LONG, right, there + 8, 1, MPI_LONG, MPI_SUM, win));
  TRY(MPI_Win_unlock(right, win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  CHECK(memory[3] == 10 + left && memory[4] == 10 + left, "%ld %ld", memory[3], memory[4]);
  TRY(MPI_Win_unlock(rank, win));
  TRY(MPI_Win_attach(win, more, sizeof more));
  TRY(MPI_Win_detach(win, memory));
  TRY(MPI_Win_detach(win, more));
  MPI_Barrier(MPI_COMM_WORLD);
  /* Attached in two parts without a gap: one put and one update may lie in both. */
  TRY(MPI_Win_attach(win, memory + 4, 32));
  TRY(MPI_Win_attach(win, memory, 32));
  MPI_Barrier(MPI_COMM_WORLD);
  const long two[2] = {20 + rank, 30 + rank};
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  TRY(MPI_Put(two, 2, MPI_LONG, right, there, 2, MPI_LONG, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Accumulate(two, 2, MPI_LONG, right, there, 2, MPI_LONG, MPI_SUM, win));
  TRY(MPI_Win_unlock(right, win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  CHECK(memory[3] == 40 + 2 * left && memory[4] == 60 + 2 * left, "%ld %ld", memory[3], memory[4]);
  TRY(MPI_Win_unlock(rank, win));
  TRY(MPI_Win_detach(win, memory));
  TRY(MPI_Win_detach(win, memory + 4));
  MPI_Barrier(MPI_COMM_WORLD);
  free_window(&win);
}

/* No memory at some ranks, or at all. */
static void check_empty(void) {
  long* memory = NULL;
  MPI_Win win;
  TRY(MPI_Win_allocate(rank == 0 ? 64 : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  long one = 1, before = -1;
  TRY(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
  TRY(MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 2, MPI_SUM, win));
  TRY(MPI_Win_flush(0, win));
  CHECK(before >= 0 && before < size, "%ld", before);
  TRY(MPI_Win_unlock_all(win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_free(&win));
  TRY(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  TRY(MPI_Win_fence(0, win));
  TRY(MPI_Win_fence(0, win));
  TRY(MPI_Win_free(&win));
}

void check_kinds(void) {
  MPI_Comm reversed, half, copy;
  /* First a window over this process alone, and over a part: not all jobs begin with the world. */
  check_allocated(MPI_COMM_SELF);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  check_allocated(half);
  check_allocated(MPI_COMM_WORLD);
  check_created(MPI_COMM_WORLD);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  check_allocated(reversed);
  check_created(reversed);
  check_created(half);
  check_created(MPI_COMM_SELF);
  /* A communicator that is freed before its window. */
  MPI_Win win;
  long* memory = NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  TRY(MPI_Win_allocate(64, 8, MPI_INFO_NULL, copy, &memory, &win));
  MPI_Comm_free(&copy);
  pass_on(win, MPI_COMM_WORLD, 1, memory + 1);
  TRY(MPI_Win_free(&win));
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&half);
  check_units();
  check_shared();
  check_shared_holes(0);
  check_shared_holes(1);
  check_shared_ends();
  check_dynamic();
  check_empty();
}
