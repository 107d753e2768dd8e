/* What an origin does in an epoch, such that MPI defines the outcome.
 *
 * A target's memory begins with common elements, then every origin has a slice there.
 * - In its slice an origin may do everything. Two accesses to the same element have a flush or
 *   fence between them, but for gets, and for updates with one operation (MPI orders those).
 * - Common elements are updated by all origins with one operation whose order does not matter. What
 *   fetching forms bring from there is not defined, and not compared. Under exclusive locks they
 *   are read, changed and written instead. */
#include "random.h"

const char* const call_names[calls] = {"MPI_Put",
                                       "MPI_Get",
                                       "MPI_Accumulate",
                                       "MPI_Get_accumulate",
                                       "MPI_Fetch_and_op",
                                       "MPI_Compare_and_swap",
                                       "get, change, put",
                                       "lock",
                                       "unlock",
                                       "flush",
                                       "flush_local",
                                       "flush_all",
                                       "fence"};

enum { elements_at_most = common_elements + slice_elements * most_ranks + 16 };
typedef struct {
  const Window* window;
  const Epoch* epoch;
  int origin;
  Stream stream;
  enum Operation common; /* of this epoch or segment */
  Op* ops;
  int count;
  unsigned char touched[most_ranks][elements_at_most]; /* since the last flush; 0: not */
} Draw;

static Op* add(Draw* made, enum Call call, int target) {
  Op* const op = &made->ops[made->count++];
  memset(op, 0, sizeof *op);
  op->call = call, op->target = target, op->request = MPI_REQUEST_NULL;
  return op;
}

static void forget(Draw* made, int target) {
  for (int k = 0; k < most_ranks; ++k)
    if (target < 0 || k == target) memset(made->touched[k], 0, sizeof made->touched[k]);
}

/* ---- one access ---- */

static void draw_call(Draw* made, int is_common, Op* op) {
  static const enum Call updates[] = {accumulate, accumulate, get_accumulate, fetch_and_op};
  Stream* const from = &made->stream;
  const enum Sort sort = made->window->sort;
  if (is_common) {
    op->call = updates[draw(from, 4)];
    op->operation = made->common;
    if (op->call != accumulate && draw(from, 4) == 0) op->operation = nothing;
    if (made->epoch->mode == exclusive_locks && sort != pair) op->call = add_exclusively;
    return;
  }
  op->call = (enum Call)draw(from, sort <= int64 ? 6 : 5);
  op->operation = draw(from, 3) == 0 ? replace : draw_commutative(from, sort);
  if ((op->call == get_accumulate || op->call == fetch_and_op) && draw(from, 4) == 0)
    op->operation = nothing;
}

static int repeats(const int* places, int count) {
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < k; ++i)
      if (places[i] == places[k]) return 1;
  return 0;
}

/* Where in elements [from, to) of the target; 0: it has no room there. */
static int draw_place(Draw* made, int low, int high, Op* op) {
  const Window* const window = made->window;
  int places[most_places], first = 0, last = 0;
  const int bytes = element_bytes[window->sort];
  const int count = places_of(op->target_type, op->target_count, places, &first, &last);
  if (count == 0 || repeats(places, count)) return 0;
  const int lowest = low - first > 0 ? low - first : 0, highest = high - 1 - last;
  if (highest < lowest) return 0;
  op->at = lowest + (int)draw(&made->stream, (uint32_t)(highest - lowest) + 1);
  while (op->at <= highest && op->at * bytes % window->unit[op->target] != 0) ++op->at;
  return op->at <= highest;
}

/* The origin's side: as many elements, of the same type or another. */
static void draw_origin(Draw* made, Op* op) {
  Stream* const from = &made->stream;
  int places[most_places], last = 0;
  const int bytes = element_bytes[made->window->sort];
  const int count = op->target_type->count * op->target_count;
  op->origin_type = &types[made->window->sort][0];
  op->origin_count = count;
  const Type* const other = &types[made->window->sort][draw(from, types_each)];
  const int is_simple = op->call == fetch_and_op || op->call == compare_and_swap ||
                        op->call == add_exclusively;
  if (!is_simple && count % other->count == 0) {
    const int n = places_of(other, count / other->count, places, &op->first, &last);
    if (!repeats(places, n)) op->origin_type = other, op->origin_count = count / other->count;
  }
  places_of(op->origin_type, op->origin_count, places, &op->first, &last);
  op->places = last - op->first + 1;
  const size_t size = (size_t)(op->places * bytes);
  op->origin = malloc(size);
  for (int k = 0; k < op->places; ++k)
    draw_element(from, made->window->sort, op->origin + k * bytes);
  const int brings = op->call != put && op->call != accumulate && op->call != add_exclusively;
  if (!brings) return;
  op->result = malloc(size), op->expected = malloc(size);
  memset(op->result, 0x5a, size), memset(op->expected, 0x5a, size);
}

static int class_of_op(const Op* op) {
  if (op->call == get) return 1;
  if (op->call == compare_and_swap) return 2;
  if (op->call == put || op->call == add_exclusively) return 3;
  return op->operation == nothing ? 4 : 5 + (int)op->operation;
}

static int may_meet(int one, int other) {
  if (one == 0 || other == 0 || (one == 1 && other == 1)) return 1;
  return one >= 4 && other >= 4 && (one == other || one == 4 || other == 4);
}

/* Marks the access's elements. 0: some may not be touched again before a flush. */
static int touch(Draw* made, const Op* op) {
  unsigned char* const touched = made->touched[op->target];
  int there[most_places], here[most_places];
  const int count = places_of_op(op, there, here), class = class_of_op(op);
  for (int k = 0; k < count; ++k)
    if (!may_meet(touched[there[k]], class)) return 0;
  for (int k = 0; k < count; ++k)
    if (touched[there[k]] <= 4) touched[there[k]] = (unsigned char)class;
  return 1;
}

static void free_op(Op* op) { free(op->origin), free(op->result), free(op->expected); }

/* Of no bytes: by the counts, or by types of none. It touches nothing, also where nothing is. */
static void draw_empty(Draw* made, int target) {
  static const enum Call simple[] = {put, get, accumulate, get_accumulate};
  const Window* const window = made->window;
  Stream* const from = &made->stream;
  const int by_type = (int)draw(from, 2);
  const Type* const empty = &empty_types[window->sort];
  Op op = {.target = target, .request = MPI_REQUEST_NULL, .is_defined = 1};
  op.call = simple[draw(from, 4)];
  op.operation = draw_commutative(from, window->sort);
  op.origin_type = by_type ? empty : &types[window->sort][draw(from, types_each)];
  op.target_type = by_type ? empty : &types[window->sort][draw(from, types_each)];
  op.origin_count = op.target_count = by_type ? (int)draw(from, 3) : 0;
  op.origin = malloc(1), op.result = malloc(1), op.expected = malloc(1);
  made->ops[made->count++] = op;
}

static void draw_access(Draw* made, int target) {
  const Window* const window = made->window;
  const int is_passive = made->epoch->mode != fences && made->epoch->mode != signals;
  const int is_common = draw(&made->stream, 3) == 0;
  const int low = is_common ? 0 : common_elements + slice_elements * made->origin;
  Op op = {.target = target, .request = MPI_REQUEST_NULL, .is_defined = !is_common};
  if (made->count > most_ops - 8) return;
  if (draw(&made->stream, 16) == 0) return draw_empty(made, target);
  if (window->elements[target] == 0) return;
  draw_call(made, is_common, &op);
  const int is_single = op.call == fetch_and_op || op.call == compare_and_swap;
  op.target_type = &types[window->sort][is_single ? 0 : draw(&made->stream, types_each)];
  op.target_count = is_single ? 1 : 1 + (int)draw(&made->stream, 4);
  if (!draw_place(made, low, low + (is_common ? common_elements : slice_elements), &op)) return;
  op.is_hit = (int)draw(&made->stream, 2);
  if (is_passive && op.call <= get_accumulate) op.argument = (int)draw(&made->stream, 3);
  draw_origin(made, &op);
  if (!touch(made, &op)) {
    if (!is_passive) {
      free_op(&op);
      return;
    }
    const int all = draw(&made->stream, 3) == 0;
    add(made, all ? flush_all : flush, target);
    forget(made, all ? -1 : target);
    touch(made, &op);
  }
  made->ops[made->count++] = op;
  if (op.call == add_exclusively) forget(made, target); /* it flushes */
  if (op.call == add_exclusively) touch(made, &op);
  if (is_passive && draw(&made->stream, 5) == 0) add(made, flush_local, target);
}

/* ---- an epoch ---- */

static void draw_locks(Draw* made) {
  const int locks = 1 + (int)draw(&made->stream, 5);
  const int type = made->epoch->mode == exclusive_locks ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
  for (int k = 0; k < locks; ++k) {
    const int target = (int)draw(&made->stream, (uint32_t)made->window->size);
    add(made, lock, target)->argument = type;
    for (int left = 1 + (int)draw(&made->stream, 4); left > 0; --left) draw_access(made, target);
    add(made, unlock, target);
    forget(made, target);
  }
}

static void draw_all_locked(Draw* made) {
  add(made, lock, -1);
  for (int left = 2 + (int)draw(&made->stream, 14); left > 0; --left)
    draw_access(made, (int)draw(&made->stream, (uint32_t)made->window->size));
  add(made, unlock, -1);
}

static void draw_segments(Draw* made) {
  for (int k = 0; k < made->epoch->segments; ++k) {
    Stream all = stream_of(made->epoch->seed, 3 + (uint64_t)k, (uint64_t)made->epoch->number);
    made->common = draw_commutative(&all, made->window->sort);
    for (int left = (int)draw(&made->stream, 6); left > 0; --left)
      draw_access(made, (int)draw(&made->stream, (uint32_t)made->window->size));
    add(made, fence, -1);
    forget(made, -1);
  }
}

int targets_of(const Window* window, const Epoch* epoch, int origin, int* targets) {
  if (!epoch->is_ring || window->size < 3) {
    for (int k = 0; k < window->size; ++k) targets[k] = k;
    return window->size;
  }
  targets[0] = (origin + 1) % window->size;
  targets[1] = (origin + window->size - 1) % window->size;
  return 2;
}

int draw_ops(const Window* window, const Epoch* epoch, int origin, Op* ops) {
  static Draw made;
  memset(&made, 0, sizeof made);
  made.window = window, made.epoch = epoch, made.origin = origin, made.ops = ops;
  made.stream = stream_of(epoch->seed, 100 + (uint64_t)epoch->number, 1 + (uint64_t)origin);
  Stream all = stream_of(epoch->seed, 2, (uint64_t)epoch->number);
  made.common = draw_commutative(&all, window->sort);
  if (epoch->mode == fences) draw_segments(&made);
  else if (epoch->mode == all_locked) draw_all_locked(&made);
  else if (epoch->mode == signals) {
    int targets[most_ranks];
    const int count = targets_of(window, epoch, origin, targets);
    for (int left = (int)draw(&made.stream, 8); left > 0; --left)
      draw_access(&made, targets[draw(&made.stream, (uint32_t)count)]);
  } else draw_locks(&made);
  return made.count;
}

void free_ops(Op* ops, int count) {
  for (int k = 0; k < count; ++k) free_op(&ops[k]);
}
