/* Elements, and operations on the model of memory. */
#include "random.h"

const int element_bytes[sorts] = {1, 2, 4, 8, 8, 8};

Stream stream_of(uint64_t seed, uint64_t what, uint64_t who) {
  const Stream made = {seed * 0x9e3779b97f4a7c15ull ^ what * 0xc2b2ae3d27d4eb4full ^
                       who * 0x165667b19e3779f9ull};
  return made;
}

uint32_t draw(Stream* stream, uint32_t below) { /* splitmix64 */
  uint64_t z = stream->state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return (uint32_t)((z ^ z >> 31) >> 32) % below;
}

static MPI_Datatype plain_of(enum Sort sort) {
  switch (sort) {
    case int8: return MPI_INT8_T;
    case int16: return MPI_INT16_T;
    case int32: return MPI_INT32_T;
    case int64: return MPI_INT64_T;
    case real64: return MPI_DOUBLE;
    case pair: return MPI_2INT;
    case sorts: break;
  }
  return MPI_DATATYPE_NULL;
}

static MPI_Datatype f90_of(enum Sort sort) {
  static const int digits[] = {2, 4, 9, 18};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  int bytes = 0;
  if (sort == real64) MPI_Type_create_f90_real(15, 300, &made);
  else if (sort <= int64) MPI_Type_create_f90_integer(digits[sort], &made);
  if (made != MPI_DATATYPE_NULL) MPI_Type_size(made, &bytes);
  return bytes == element_bytes[sort] ? made : plain_of(sort);
}

static MPI_Datatype basics[sorts];
void choose_basics(uint64_t seed) {
  for (int sort = 0; sort < sorts; ++sort) {
    Stream from = stream_of(seed, 900, (uint64_t)sort);
    basics[sort] = draw(&from, 3) == 0 ? f90_of((enum Sort)sort) : plain_of((enum Sort)sort);
  }
}
MPI_Datatype basic_of(enum Sort sort) { return basics[sort]; }

MPI_Op mpi_op(enum Sort sort, enum Operation operation) {
  switch (operation) {
    case sum: return MPI_SUM;
    case exclusive_or: return MPI_BXOR;
    case bit_and: return MPI_BAND;
    case smaller: return sort == pair ? MPI_MINLOC : MPI_MIN;
    case larger: return sort == pair ? MPI_MAXLOC : MPI_MAX;
    case replace: return MPI_REPLACE;
    case nothing: return MPI_NO_OP;
    case operations: break;
  }
  return MPI_OP_NULL;
}

enum Operation draw_commutative(Stream* stream, enum Sort sort) {
  static const enum Operation all[] = {smaller, larger, sum, exclusive_or, bit_and};
  return all[draw(stream, sort == pair ? 2 : sort == real64 ? 3 : 5)];
}

/* Sums of reals are exact: they are small whole numbers. */
void draw_element(Stream* stream, enum Sort sort, char* element) {
  const int64_t whole = (int64_t)draw(stream, 2001) - 1000;
  const int64_t wide = (int64_t)((uint64_t)draw(stream, UINT32_MAX) << 32 ^
                                 (uint64_t)draw(stream, UINT32_MAX));
  const double real = (double)whole;
  const int two[2] = {(int)draw(stream, 50), (int)draw(stream, 1000)};
  if (sort == real64) memcpy(element, &real, 8);
  else if (sort == pair) memcpy(element, two, 8);
  else memcpy(element, &wide, (size_t)element_bytes[sort]); /* the low bytes */
}

static int64_t whole_of(const char* element, int bytes) {
  uint64_t found = 0;
  memcpy(&found, element, (size_t)bytes);
  const int unused = 64 - 8 * bytes;
  return (int64_t)(found << unused) >> unused;
}

static int64_t combine_whole(enum Operation operation, int64_t a, int64_t b) {
  switch (operation) {
    case sum: return (int64_t)((uint64_t)a + (uint64_t)b);
    case exclusive_or: return a ^ b;
    case bit_and: return a & b;
    case smaller: return a < b ? a : b;
    case larger: return a > b ? a : b;
    case replace: return a;
    case nothing:
    case operations: break;
  }
  return b;
}

static double combine_real(enum Operation operation, double a, double b) {
  if (operation == sum) return a + b;
  if (operation == smaller) return a < b ? a : b;
  if (operation == larger) return a > b ? a : b;
  return operation == replace ? a : b;
}

/* Of equal values the smaller index (MPI 4.1, section 6.9.4). */
static int is_pair_taken(enum Operation operation, const int* a, const int* b) {
  if (operation == replace) return 1;
  if (operation == nothing) return 0;
  if (a[0] == b[0]) return a[1] < b[1];
  return operation == smaller ? a[0] < b[0] : a[0] > b[0];
}

void combine(enum Sort sort, enum Operation operation, const char* origin, char* target) {
  const int bytes = element_bytes[sort];
  if (sort == pair) {
    int a[2], b[2];
    memcpy(a, origin, 8), memcpy(b, target, 8);
    if (is_pair_taken(operation, a, b)) memcpy(target, a, 8);
  } else if (sort == real64) {
    double a, b;
    memcpy(&a, origin, 8), memcpy(&b, target, 8);
    b = combine_real(operation, a, b);
    memcpy(target, &b, 8);
  } else {
    const int64_t made = combine_whole(operation, whole_of(origin, bytes), whole_of(target, bytes));
    memcpy(target, &made, (size_t)bytes);
  }
}

int places_of_op(const Op* op, int* there, int* here) {
  int first = 0, last = 0;
  const int count = places_of(op->target_type, op->target_count, there, &first, &last);
  places_of(op->origin_type, op->origin_count, here, &first, &last);
  for (int k = 0; k < count; ++k) there[k] += op->at, here[k] -= first;
  return count;
}

static void run_one(Window* window, Op* op) {
  const int bytes = element_bytes[window->sort];
  int there[most_places], here[most_places];
  const int count = places_of_op(op, there, here);
  for (int k = 0; k < count; ++k) {
    char* const memory = window->model[op->target] + there[k] * bytes;
    const char* const origin = op->origin + here[k] * bytes;
    if (op->call == compare_and_swap) {
      if (op->is_hit) memcpy(op->compare, memory, (size_t)bytes);
      else draw_element(&(Stream){(uint64_t)op->at}, window->sort, op->compare);
    }
    if (op->expected != NULL) memcpy(op->expected + here[k] * bytes, memory, (size_t)bytes);
    if (op->call == put) memcpy(memory, origin, (size_t)bytes);
    else if (op->call == compare_and_swap) {
      if (memcmp(op->compare, memory, (size_t)bytes) == 0) memcpy(memory, origin, (size_t)bytes);
    } else if (op->call == add_exclusively) combine(window->sort, sum, origin, memory);
    else if (op->call != get) combine(window->sort, op->operation, origin, memory);
  }
}

int run_on_model(Window* window, Op* ops, int count, int next) {
  for (; next < count && ops[next].call != fence; ++next)
    if (ops[next].call <= add_exclusively) run_one(window, &ops[next]);
  return next + 1;
}
