/* Datatypes of all constructors but one, nested, and where their elements lie. */
#include "random.h"

enum { farthest = 40 };
Type types[sorts][types_each], empty_types[sorts];

static void place(Type* made, const Type* of, int at) {
  const int lower = at + of->lower, upper = at + of->upper;
  if (made->count == 0 || lower < made->lower) made->lower = lower;
  if (made->count == 0 || upper > made->upper) made->upper = upper;
  for (int k = 0; k < of->count; ++k) {
    if (made->count < most_elements) made->at[made->count] = at + of->at[k];
    ++made->count;
  }
  made->is_marked |= of->is_marked;
}

static void place_block(Type* made, const Type* of, int at, int length) {
  for (int k = 0; k < length; ++k) place(made, of, at + k * (of->upper - of->lower));
}

static void contiguous(Stream* from, const Type* of, Type* made) {
  const int count = 1 + (int)draw(from, 3);
  MPI_Type_contiguous(count, of->type, &made->type);
  place_block(made, of, 0, count);
}

static void vector(Stream* from, const Type* of, int bytes, Type* made) {
  const int count = 1 + (int)draw(from, 4), length = 1 + (int)draw(from, 2);
  const int extent = of->upper - of->lower, in_bytes = (int)draw(from, 2);
  int stride = length + (int)draw(from, 4);
  if (draw(from, 4) == 0) stride = -stride;
  if (in_bytes)
    MPI_Type_create_hvector(count, length, stride * extent * bytes, of->type, &made->type);
  else MPI_Type_vector(count, length, stride, of->type, &made->type);
  for (int k = 0; k < count; ++k) place_block(made, of, k * stride * extent, length);
}

/* Blocks in any order, of equal or differing lengths, placed by elements or by bytes. */
static void indexed(Stream* from, const Type* of, int bytes, Type* made) {
  int lengths[4], at[4], next = 0;
  MPI_Aint addresses[4];
  const int count = 1 + (int)draw(from, 4), kind = (int)draw(from, 4);
  const int extent = of->upper - of->lower, equal = 1 + (int)draw(from, 2);
  for (int k = 0; k < count; ++k) {
    lengths[k] = kind < 2 ? equal : (int)draw(from, 4);
    at[k] = next + (int)draw(from, 3);
    next = at[k] + lengths[k];
  }
  for (int k = count - 1; k > 0; --k) {
    const int other = (int)draw(from, (uint32_t)k + 1), length = lengths[k], swapped = at[k];
    lengths[k] = lengths[other], lengths[other] = length;
    at[k] = at[other], at[other] = swapped;
  }
  for (int k = 0; k < count; ++k) {
    place_block(made, of, at[k] * extent, lengths[k]);
    addresses[k] = (MPI_Aint)at[k] * extent * bytes;
  }
  if (kind == 0) MPI_Type_create_indexed_block(count, equal, at, of->type, &made->type);
  else if (kind == 1)
    MPI_Type_create_hindexed_block(count, equal, addresses, of->type, &made->type);
  else if (kind == 2) MPI_Type_indexed(count, lengths, at, of->type, &made->type);
  else MPI_Type_create_hindexed(count, lengths, addresses, of->type, &made->type);
}

/* Bounds that were given count alone, so they are not mixed with others. */
static void structure(Stream* from, const Type* of, const Type* basic, int bytes, Type* made) {
  const Type* const last = of->is_marked ? of : basic;
  int lengths[2] = {1 + (int)draw(from, 2), 1 + (int)draw(from, 3)};
  const int gap = (int)draw(from, 3), at = lengths[0] * (of->upper - of->lower) + of->upper + gap;
  MPI_Aint addresses[2] = {0, (MPI_Aint)at * bytes};
  MPI_Datatype each[2] = {of->type, last->type};
  MPI_Type_create_struct(2, lengths, addresses, each, &made->type);
  place_block(made, of, 0, lengths[0]);
  place_block(made, last, at, lengths[1]);
}

static void subarray(Stream* from, const Type* of, Type* made) {
  const int is_fortran = (int)draw(from, 2), extent = of->upper - of->lower;
  int sizes[2], parts[2], starts[2];
  for (int k = 0; k < 2; ++k) {
    sizes[k] = 1 + (int)draw(from, 4);
    parts[k] = 1 + (int)draw(from, (uint32_t)sizes[k]);
    starts[k] = (int)draw(from, (uint32_t)(sizes[k] - parts[k]) + 1);
  }
  MPI_Type_create_subarray(2, sizes, parts, starts, is_fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C,
                           of->type, &made->type);
  const int slow = is_fortran ? 1 : 0, fast = 1 - slow;
  for (int k = 0; k < parts[slow]; ++k)
    place_block(made, of, ((starts[slow] + k) * sizes[fast] + starts[fast]) * extent, parts[fast]);
  made->lower = 0, made->upper = sizes[0] * sizes[1] * extent;
  made->is_marked = 1;
}

static void resized(Stream* from, const Type* of, int bytes, Type* made) {
  const int extent = 1 + (int)draw(from, (uint32_t)(of->upper - of->lower) + 2);
  MPI_Type_create_resized(of->type, (MPI_Aint)of->lower * bytes, (MPI_Aint)extent * bytes,
                          &made->type);
  place(made, of, 0);
  made->upper = of->lower + extent;
  made->is_marked = 1;
}

/* OpenMPI gives a vector of bytes with stride -1 the bounds of one with stride 1. */
static int has_bounds(const Type* type, int bytes) {
  static int is_told = 0;
  MPI_Aint lower = 0, extent = 0;
  MPI_Type_get_extent(type->type, &lower, &extent);
  if (lower == (MPI_Aint)type->lower * bytes &&
      extent == (MPI_Aint)(type->upper - type->lower) * bytes)
    return 1;
  if (!is_told)
    fprintf(stderr,
            "random: a datatype with bounds %d and %d has %ld and %ld in this MPI library: "
            "such types are left out\n",
            type->lower * bytes, type->upper * bytes, (long)lower, (long)(lower + extent));
  is_told = 1;
  return 0;
}

static int is_usable(const Type* type, int bytes) {
  if (type->count < 1 || type->count > most_elements || type->upper <= type->lower) return 0;
  if (!has_bounds(type, bytes)) return 0;
  for (int k = 0; k < type->count; ++k) {
    if (type->at[k] < -farthest || type->at[k] >= farthest) return 0;
    for (int i = 0; i < k; ++i)
      if (type->at[i] == type->at[k]) return 0;
  }
  return 1;
}

static Type basic_type(enum Sort sort) {
  const Type found = {.type = basic_of(sort), .count = 1, .at = {0}, .lower = 0, .upper = 1};
  return found;
}

/* Around another one, which is freed at once: the new one keeps what it needs. */
static int wrap(Stream* from, enum Sort sort, Type* type) {
  const Type basic = basic_type(sort), of = *type;
  const int bytes = element_bytes[sort], kind = (int)draw(from, 7);
  Type made = {.type = MPI_DATATYPE_NULL};
  if (kind == 0) contiguous(from, &of, &made);
  else if (kind == 1) vector(from, &of, bytes, &made);
  else if (kind == 2) indexed(from, &of, bytes, &made);
  else if (kind == 3) structure(from, &of, &basic, bytes, &made);
  else if (kind == 4 && of.lower == 0) subarray(from, &of, &made);
  else if (kind == 5) resized(from, &of, bytes, &made);
  else MPI_Type_dup(of.type, &made.type), place(&made, &of, 0);
  if (!is_usable(&made, bytes)) {
    MPI_Type_free(&made.type);
    return 0;
  }
  if (of.type != basic.type) MPI_Type_free(&type->type);
  *type = made;
  return 1;
}

void make_types(uint64_t seed) {
  choose_basics(seed);
  for (int sort = 0; sort < sorts; ++sort) {
    MPI_Type_contiguous(0, basic_of((enum Sort)sort), &empty_types[sort].type);
    MPI_Type_commit(&empty_types[sort].type);
    for (int k = 0; k < types_each; ++k) {
      Stream from = stream_of(seed, 1000 + (uint64_t)sort, (uint64_t)k);
      Type made = basic_type((enum Sort)sort);
      for (int depth = k == 0 ? 0 : 1 + (int)draw(&from, 3); depth > 0; --depth)
        wrap(&from, (enum Sort)sort, &made);
      if (made.type == basic_of((enum Sort)sort) && k > 0) MPI_Type_dup(made.type, &made.type);
      if (k > 0) MPI_Type_commit(&made.type);
      types[sort][k] = made;
    }
  }
}

void free_types(void) {
  for (int sort = 0; sort < sorts; ++sort) {
    for (int k = 1; k < types_each; ++k) MPI_Type_free(&types[sort][k].type);
    MPI_Type_free(&empty_types[sort].type);
  }
}

int places_of(const Type* type, int count, int* places, int* first, int* last) {
  int found = 0;
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < type->count && found < most_places; ++i) {
      const int at = k * (type->upper - type->lower) + type->at[i];
      if (found == 0 || at < *first) *first = at;
      if (found == 0 || at > *last) *last = at;
      places[found++] = at;
    }
  return found;
}
