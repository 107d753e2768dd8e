/* Random MPI programs and the memory that they must leave.
 *
 * All ranks draw the same program from a seed: windows, epochs, and every rank's operations. Each
 * runs its own operations by MPI, and those of all ranks one after the other on a model of the
 * windows' memory (model.c). Programs have one outcome by MPI's rules (draw.c), so both must agree,
 * with whatever MPI library: after each epoch all memory is compared, and each result as soon as
 * MPI says that it is there. */
#ifndef RANDOM_H
#define RANDOM_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers ---- */
typedef struct {
  uint64_t state;
} Stream;
Stream stream_of(uint64_t seed, uint64_t what, uint64_t who);
uint32_t draw(Stream* stream, uint32_t below);

/* ---- elements: each window has one sort of them ---- */
enum Sort { int8, int16, int32, int64, real64, pair, sorts };
enum Operation { sum, exclusive_or, bit_and, smaller, larger, replace, nothing, operations };
extern const int element_bytes[sorts];
/* Of this seed: the C type, or the one of MPI_Type_create_f90_* that is the same. */
MPI_Datatype basic_of(enum Sort sort);
void choose_basics(uint64_t seed);
MPI_Op mpi_op(enum Sort sort, enum Operation operation);
/* One that every order of updates gives the same outcome with. */
enum Operation draw_commutative(Stream* stream, enum Sort sort);
void draw_element(Stream* stream, enum Sort sort, char* element);
void combine(enum Sort sort, enum Operation operation, const char* origin, char* target);

/* ---- datatypes (types.c) ---- */
enum { most_elements = 24, types_each = 10 };
typedef struct {
  MPI_Datatype type;
  int count;             /* of elements */
  int at[most_elements]; /* where each lies, in elements, in the order of the type map */
  int lower, upper;      /* bounds, in elements */
  int is_marked;         /* bounds were given, by MPI_Type_create_resized or a subarray */
} Type;
extern Type types[sorts][types_each]; /* the first is the predefined one */
extern Type empty_types[sorts];       /* of no elements */
void make_types(uint64_t seed);
void free_types(void);
/* The elements of several, in order; returns how many. Sets the first and the last place. */
int places_of(const Type* type, int count, int* places, int* first, int* last);

/* ---- windows ---- */
enum { common_elements = 48, slice_elements = 64, most_ranks = 8, most_places = 128 };
enum Kind { allocated, created, shared, dynamic, kinds };
typedef struct {
  MPI_Win win;
  MPI_Comm comm; /* MPI_COMM_NULL: this rank is no member */
  int me, size;
  enum Kind kind;
  enum Sort sort;
  int unit[most_ranks];     /* displacement units in bytes, by rank */
  int elements[most_ranks]; /* 0: the rank has no memory */
  MPI_Aint address[most_ranks];
  char* base;
  char* model[most_ranks];
  intptr_t value; /* of its attribute; 0: it has none */
} Window;

/* ---- attributes of windows (attributes.c); each returns what is wrong, or null ---- */
const char* set_attribute(Window* window, Stream* from, int bytes);
const char* before_free(Window* window);
const char* after_free(void);

/* ---- operations (draw.c) ---- */
enum Call {
  put,
  get,
  accumulate,
  get_accumulate,
  fetch_and_op,
  compare_and_swap,
  add_exclusively,
  lock,
  unlock,
  flush,
  flush_local,
  flush_all,
  fence,
  calls
};
extern const char* const call_names[calls];
typedef struct {
  enum Call call;
  int target;
  int argument; /* lock: its type. Accesses: 0: no request, 1: waited for at once, 2: later */
  enum Operation operation;
  const Type *origin_type, *target_type;
  int origin_count, target_count;
  int at;         /* displacement, in elements */
  int is_defined; /* its result */
  int is_hit;     /* compare_and_swap: the comparison holds */
  /* Of the access's places, from the first to the last; `first` is that of the origin's. */
  int first, places;
  char *origin, *result, *expected, compare[8];
  int is_pending;
  MPI_Request request;
} Op;
enum { most_ops = 400 };
enum Mode { fences, exclusive_locks, shared_locks, all_locked, signals, modes };
typedef struct {
  uint64_t seed;
  int number;
  enum Mode mode;
  int segments; /* of fences */
  int is_ring;  /* signals: neighbours only */
} Epoch;
/* The operations of one origin; returns how many. */
int draw_ops(const Window* window, const Epoch* epoch, int origin, Op* ops);
int targets_of(const Window* window, const Epoch* epoch, int origin, int* targets);
void free_ops(Op* ops, int count);

/* ---- the model (model.c) ---- */
/* From operation `next` to a fence or the end; returns the one after it. */
int run_on_model(Window* window, Op* ops, int count, int next);
/* The access's elements at the target, and at the origin from `first`. Returns how many. */
int places_of_op(const Op* op, int* there, int* here);

#endif
