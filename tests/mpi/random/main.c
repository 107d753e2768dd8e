/* random FIRST_SEED SEEDS EPOCHS [unshared]: random programs, and whether MPI does what they say
 * (random.h); unshared: none has windows of shared memory, which may be the MPI library's. Ends
 * with "random: N ranks, seeds A to B, ok"; otherwise it names the seed and what differs. */
#include "random.h"

enum { most_windows = 5, communicators = 5 };
static int world_rank, world_size, failures, is_unshared;
static MPI_Comm comms[communicators];
static Window windows[most_windows];
static int alive;

/* Says the first few differences only. */
#define DIFFERS(epoch, window, ...)                                                              \
  do {                                                                                           \
    if (++failures <= 5) {                                                                       \
      fprintf(stderr, "random: seed %llu, epoch %d, kind %d, mode %d, rank %d of %d (%d): ",     \
              (unsigned long long)(epoch)->seed, (epoch)->number, (window)->kind, (epoch)->mode, \
              (window)->me, (window)->size, world_rank);                                         \
      fprintf(stderr, __VA_ARGS__);                                                              \
      fputc('\n', stderr);                                                                       \
    }                                                                                            \
  } while (0)

/* ---- windows ---- */

static void complain(const char* wrong) {
  if (wrong == NULL || ++failures > 5) return;
  fprintf(stderr, "random: rank %d: attributes of windows: %s\n", world_rank, wrong);
}

static void allocate(Window* made, int bytes, int noncontiguous) {
  MPI_Info info;
  const MPI_Aint size = (MPI_Aint)made->elements[made->me] * bytes;
  const int unit = made->unit[made->me];
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", noncontiguous ? "true" : "false");
  if (made->kind == allocated)
    MPI_Win_allocate(size, unit, info, made->comm, &made->base, &made->win);
  else if (made->kind == shared)
    MPI_Win_allocate_shared(size, unit, info, made->comm, &made->base, &made->win);
  else made->base = malloc((size_t)size + 8);
  if (made->kind == created)
    MPI_Win_create(made->base, size, unit, MPI_INFO_NULL, made->comm, &made->win);
  if (made->kind == dynamic) {
    MPI_Win_create_dynamic(MPI_INFO_NULL, made->comm, &made->win);
    MPI_Win_attach(made->win, made->base, size); /* also of 0 bytes */
    MPI_Get_address(made->base, &made->address[made->me]);
  }
  MPI_Info_free(&info);
  if (size > 0) memset(made->base, 0, (size_t)size);
}

static void make_window(uint64_t seed, int number) {
  Stream from = stream_of(seed, 10, (uint64_t)number);
  Window* const made = &windows[alive++];
  memset(made, 0, sizeof *made);
  made->comm = comms[draw(&from, communicators)];
  made->kind = (enum Kind)draw(&from, kinds);
  made->sort = (enum Sort)draw(&from, sorts);
  if (is_unshared && made->kind == shared) made->kind = allocated;
  const int noncontiguous = (int)draw(&from, 2), bytes = element_bytes[made->sort];
  const int units[] = {bytes, 1, 2 * bytes, bytes > 1 ? bytes / 2 : 3};
  const int equal = (int)draw(&from, 2);
  if (made->comm == MPI_COMM_NULL) return;
  MPI_Comm_rank(made->comm, &made->me);
  MPI_Comm_size(made->comm, &made->size);
  for (int k = 0; k < made->size; ++k) {
    made->unit[k] = units[draw(&from, 4)];
    if (equal) made->unit[k] = made->unit[0];
    if (made->kind == dynamic) made->unit[k] = 1;
    made->elements[k] = common_elements + slice_elements * made->size + (int)draw(&from, 4) * k;
    if (draw(&from, 8) == 0) made->elements[k] = 0;
    made->model[k] = calloc((size_t)made->elements[k] + 1, (size_t)bytes);
  }
  allocate(made, bytes, noncontiguous);
  const MPI_Aint mine = made->address[made->me];
  MPI_Allgather(&mine, 1, MPI_AINT, made->address, 1, MPI_AINT, made->comm);
  complain(set_attribute(made, &from, bytes));
}

static void drop_window(int number) {
  Window* const window = &windows[number];
  if (window->comm != MPI_COMM_NULL) {
    if (window->kind == dynamic) MPI_Win_detach(window->win, window->base);
    complain(before_free(window));
    MPI_Win_free(&window->win);
    complain(after_free());
    if (window->kind == dynamic || window->kind == created) free(window->base);
    for (int k = 0; k < window->size; ++k) free(window->model[k]);
  }
  windows[number] = windows[--alive];
}

/* ---- operations ---- */

static void compare_result(const Epoch* epoch, const Window* window, Op* op) {
  const int bytes = element_bytes[window->sort];
  op->is_pending = 0;
  memset(op->origin, 0xa5, (size_t)(op->places * bytes)); /* the program may change it now */
  if (op->result == NULL || !op->is_defined) return;
  for (int k = 0; k < op->places; ++k)
    if (memcmp(op->result + k * bytes, op->expected + k * bytes, (size_t)bytes) != 0) {
      DIFFERS(epoch, window,
              "%s of %d bytes with operation %d at element %d of rank %d brings "
              "element %d of %d wrong (request %d, of types %ld and %ld)",
              call_names[op->call], bytes, op->operation, op->at, op->target, k, op->places,
              op->argument, (long)(op->origin_type - types[window->sort]),
              (long)(op->target_type - types[window->sort]));
      return;
    }
}

/* The access can be seen as done at the origin: all, or those of a target. */
static void settle(const Epoch* epoch, const Window* window, Op* ops, int count, int target) {
  for (int k = 0; k < count; ++k)
    if (ops[k].is_pending && (target < 0 || ops[k].target == target))
      compare_result(epoch, window, &ops[k]);
}

static void wait_for_requests(Op* ops, int count) {
  MPI_Request requests[most_ops];
  MPI_Status statuses[most_ops];
  int waiting = 0;
  for (int k = 0; k < count; ++k) {
    if (ops[k].request == MPI_REQUEST_NULL) continue;
    requests[waiting++] = ops[k].request;
    ops[k].request = MPI_REQUEST_NULL;
  }
  MPI_Waitall(waiting, requests, statuses);
}

static void add_by_hand(Window* window, Op* op, MPI_Aint at) {
  const int bytes = element_bytes[window->sort], count = op->places;
  char* const now = malloc((size_t)(count * bytes));
  MPI_Get(now, op->origin_count, op->origin_type->type, op->target, at, op->target_count,
          op->target_type->type, window->win);
  MPI_Win_flush(op->target, window->win);
  for (int k = 0; k < count; ++k)
    combine(window->sort, sum, op->origin + k * bytes, now + k * bytes);
  MPI_Put(now, op->origin_count, op->origin_type->type, op->target, at, op->target_count,
          op->target_type->type, window->win);
  MPI_Win_flush_local(op->target, window->win);
  free(now);
}

static void run_with_request(Window* window, Op* op, char* origin, char* result, MPI_Aint at) {
  const MPI_Datatype here = op->origin_type->type, there = op->target_type->type;
  const int n = op->origin_count, m = op->target_count, target = op->target;
  const MPI_Op operation = mpi_op(window->sort, op->operation);
  MPI_Request* const request = &op->request;
  if (op->call == put) MPI_Rput(origin, n, here, target, at, m, there, window->win, request);
  else if (op->call == get) MPI_Rget(result, n, here, target, at, m, there, window->win, request);
  else if (op->call == accumulate)
    MPI_Raccumulate(origin, n, here, target, at, m, there, operation, window->win, request);
  else
    MPI_Rget_accumulate(origin, n, here, result, n, here, target, at, m, there, operation,
                        window->win, request);
}

static void run_access(const Epoch* epoch, Window* window, Op* op) {
  const int bytes = element_bytes[window->sort], target = op->target;
  const MPI_Datatype here = op->origin_type->type, there = op->target_type->type;
  const MPI_Datatype basic = basic_of(window->sort);
  const int n = op->origin_count, m = op->target_count;
  const MPI_Op operation = mpi_op(window->sort, op->operation);
  const MPI_Win win = window->win;
  char* const origin = op->origin - op->first * bytes;
  char* const result = op->result != NULL ? op->result - op->first * bytes : NULL;
  MPI_Aint at = (MPI_Aint)op->at * bytes / window->unit[target];
  if (window->kind == dynamic) at += window->address[target];
  op->is_pending = 1;
  if (op->argument > 0) run_with_request(window, op, origin, result, at);
  else if (op->call == put) MPI_Put(origin, n, here, target, at, m, there, win);
  else if (op->call == get) MPI_Get(result, n, here, target, at, m, there, win);
  else if (op->call == accumulate)
    MPI_Accumulate(origin, n, here, target, at, m, there, operation, win);
  else if (op->call == get_accumulate)
    MPI_Get_accumulate(origin, n, here, result, n, here, target, at, m, there, operation, win);
  else if (op->call == fetch_and_op)
    MPI_Fetch_and_op(origin, result, basic, target, at, operation, win);
  else if (op->call == compare_and_swap)
    MPI_Compare_and_swap(origin, op->compare, result, basic, target, at, win);
  else add_by_hand(window, op, at);
  if (op->argument != 1) return;
  MPI_Wait(&op->request, MPI_STATUS_IGNORE);
  compare_result(epoch, window, op);
}

static void run_sync(const Epoch* epoch, Window* window, const Op* op) {
  const int target = op->target;
  if (op->call == lock && target < 0) MPI_Win_lock_all(0, window->win);
  else if (op->call == lock) MPI_Win_lock(op->argument, target, 0, window->win);
  else if (op->call == unlock && target < 0) MPI_Win_unlock_all(window->win);
  else if (op->call == unlock) MPI_Win_unlock(target, window->win);
  else if (op->call == flush) MPI_Win_flush(target, window->win);
  else if (op->call == flush_local) MPI_Win_flush_local(target, window->win);
  else if (op->call == flush_all) MPI_Win_flush_all(window->win);
  else MPI_Win_fence(0, window->win);
  (void)epoch;
}

static void run_ops(const Epoch* epoch, Window* window, Op* ops, int count) {
  for (int k = 0; k < count; ++k) {
    Op* const op = &ops[k];
    if (op->call <= add_exclusively) {
      run_access(epoch, window, op);
    } else {
      wait_for_requests(ops, k);
      run_sync(epoch, window, op);
      if (op->call != lock) settle(epoch, window, ops, k, op->call == flush_all ? -1 : op->target);
    }
  }
}

/* ---- epochs ---- */

static void run_signals(const Epoch* epoch, Window* window, Op* ops, int count) {
  int targets[most_ranks], done = 0;
  MPI_Group all, some;
  const int several = targets_of(window, epoch, window->me, targets);
  MPI_Win_get_group(window->win, &all);
  MPI_Group_incl(all, several, targets, &some);
  MPI_Win_post(some, 0, window->win);
  MPI_Win_start(some, 0, window->win);
  run_ops(epoch, window, ops, count);
  MPI_Win_complete(window->win);
  settle(epoch, window, ops, count, -1);
  if (epoch->number % 2 == 0) MPI_Win_wait(window->win);
  else
    while (!done) MPI_Win_test(window->win, &done);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
}

static void compare_memory(const Epoch* epoch, Window* window) {
  const int bytes = element_bytes[window->sort];
  MPI_Barrier(window->comm);
  MPI_Win_lock(MPI_LOCK_SHARED, window->me, 0, window->win);
  for (int k = 0; k < window->elements[window->me]; ++k)
    if (memcmp(window->base + k * bytes, window->model[window->me] + k * bytes, (size_t)bytes) !=
        0) {
      DIFFERS(epoch, window, "element %d (of %d bytes; slices begin at %d) differs", k, bytes,
              common_elements);
      break;
    }
  MPI_Win_unlock(window->me, window->win);
  MPI_Barrier(window->comm);
}

/* Stores of the program's own, by every rank into its own memory. */
static void store(const Epoch* epoch, Window* window) {
  const int bytes = element_bytes[window->sort];
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, window->me, 0, window->win);
  for (int rank = 0; rank < window->size; ++rank) {
    Stream from = stream_of(epoch->seed, 50 + (uint64_t)rank, (uint64_t)epoch->number);
    for (int left = window->elements[rank] / 8; left > 0; --left) {
      const int at = (int)draw(&from, (uint32_t)window->elements[rank]);
      char* const element = window->model[rank] + at * bytes;
      draw_element(&from, window->sort, element);
      if (rank == window->me) memcpy(window->base + at * bytes, element, (size_t)bytes);
    }
  }
  MPI_Win_unlock(window->me, window->win);
}

/* Origin after origin, in an order that is not that of the ranks; between fences all of them. */
static void run_all_on_model(Window* window, Op (*ops)[most_ops], const int* counts) {
  int next[most_ranks] = {0};
  for (int is_done = 0; !is_done;) {
    is_done = 1;
    for (int origin = window->size - 1; origin >= 0; --origin) {
      next[origin] = run_on_model(window, ops[origin], counts[origin], next[origin]);
      is_done &= next[origin] > counts[origin];
    }
  }
}

static void run_epoch(uint64_t seed, int number) {
  static Op ops[most_ranks][most_ops];
  int counts[most_ranks];
  Stream from = stream_of(seed, 1, (uint64_t)number);
  Window* const window = &windows[draw(&from, (uint32_t)alive)];
  const Epoch epoch = {seed, number, (enum Mode)draw(&from, modes), 1 + (int)draw(&from, 4),
                       (int)draw(&from, 2)};
  if (window->comm == MPI_COMM_NULL) return;
  for (int k = 0; k < window->size; ++k) counts[k] = draw_ops(window, &epoch, k, ops[k]);
  run_all_on_model(window, ops, counts);
  if (epoch.mode == fences) MPI_Win_fence(number % 2 ? MPI_MODE_NOPRECEDE : 0, window->win);
  if (epoch.mode == signals) run_signals(&epoch, window, ops[window->me], counts[window->me]);
  else run_ops(&epoch, window, ops[window->me], counts[window->me]);
  for (int k = 0; k < window->size; ++k) free_ops(ops[k], counts[k]);
  compare_memory(&epoch, window);
  if (draw(&from, 2) == 0) {
    store(&epoch, window);
    compare_memory(&epoch, window);
  }
}

/* ---- programs ---- */

static void make_communicators(void) {
  const int half = world_rank < (world_size + 1) / 2 ? 0 : MPI_UNDEFINED;
  comms[0] = MPI_COMM_WORLD;
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comms[2]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[3]);
  MPI_Comm_split(MPI_COMM_WORLD, half, -world_rank, &comms[4]);
}

/* Called in MPI_Finalize, behind all that was set later: windows are still to be used there. */
static int free_left(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)value, (void)state;
  while (alive > 0) drop_window(0);
  free_types();
  if (failures > 0) exit(1);
  return MPI_SUCCESS;
}

static void run_program(uint64_t seed, int epochs, int is_last) {
  Stream from = stream_of(seed, 0, 0);
  make_types(seed);
  int failed = 0; /* on any rank: all leave together */
  for (int k = 0; k < epochs && failed == 0; ++k) {
    const uint32_t what = draw(&from, 10);
    if (alive == 0 || (what == 0 && alive < most_windows)) make_window(seed, k);
    else if (what == 1) drop_window((int)draw(&from, (uint32_t)alive));
    if (alive > 0) run_epoch(seed, k);
    if (k % 8 == 7) MPI_Allreduce(&failures, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (is_last) return; /* what is left is freed in MPI_Finalize */
  while (alive > 0) drop_window(0);
  free_types();
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  is_unshared = count == 5 && strcmp(arguments[4], "unshared") == 0;
  if ((count != 4 && !is_unshared) || world_size > most_ranks) {
    fprintf(stderr, "usage: random FIRST_SEED SEEDS EPOCHS [unshared], on 1 to %d ranks\n",
            most_ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const uint64_t first = strtoull(arguments[1], NULL, 0), seeds = strtoull(arguments[2], NULL, 0);
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_left, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  make_communicators();
  for (uint64_t seed = first; seed < first + seeds && failures == 0; ++seed) {
    run_program(seed, atoi(arguments[3]), seed + 1 == first + seeds);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  for (int k = 1; k < communicators; ++k)
    if (comms[k] != MPI_COMM_NULL) MPI_Comm_free(&comms[k]);
  if (world_rank == 0 && failures == 0)
    printf("random: %d ranks, seeds %llu to %llu, ok\n", world_size, (unsigned long long)first,
           (unsigned long long)(first + seeds - 1));
  MPI_Finalize();
  return failures != 0;
}
