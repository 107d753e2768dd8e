/* What `use skerry` calls: each Fortran procedure is a function here. It turns descriptors of
 * arrays (ISO_Fortran_binding.h, Fortran 2018, 18.5) into the addresses, sizes and strides of the C
 * interface, and settles errors: into `status` if the caller gave one, otherwise by ending the job.
 *
 * Arrays come as they lie in memory, sections too: nothing is copied but for collectives and
 * updates of sections. Threads: as the C interface; the only state is the job to abort, set by
 * init and cleared by finalize, and a message of this thread. */
#include <ISO_Fortran_binding.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skerry/skerry.h"
#include "skerry/window.h"

typedef const CFI_cdesc_t* Array;

static skerry_job* current;                 /* null: not joined */
static _Thread_local const char* own_error; /* null: the C interface has the message */

static void settle(int code, const char* call, int* status) {
  if (code >= 0 || status != NULL) {
    if (status != NULL) *status = code;
    return;
  }
  const char* why = own_error != NULL ? own_error : skerry_last_error();
  if (current != NULL) { /* says it, too */
    char reason[1024];
    snprintf(reason, sizeof reason, "%s: %s", call, why);
    skerry_abort(current, 1, reason);
  }
  fprintf(stderr, "skerry: %s: %s\n", call, why);
  exit(1);
}

/* A call of the C interface, or an error found here. */
#define SETTLE(call, code) (own_error = NULL, settle((code), (call), status))
static int refuse(const char* why) {
  own_error = why;
  return SKERRY_ERR_INVALID;
}
#define REFUSE(call, why) settle(refuse(why), (call), status)

/* ---- arrays -------------------------------------------------------------------------------- */

static uint64_t elements(Array a) {
  uint64_t count = 1;
  for (int i = 0; i < a->rank; ++i) count *= (uint64_t)a->dim[i].extent;
  return count;
}
static uint64_t bytes_of(Array a) { return elements(a) * a->elem_len; }

/* The memory of `a` as blocks; levels 0: one. The other side is packed. False: too many levels. */
static bool describe(Array a, skerry_strided* shape) {
  memset(shape, 0, sizeof *shape);
  shape->block_bytes = a->elem_len;
  uint64_t packed = a->elem_len;
  for (int i = 0; i < a->rank; ++i) {
    const uint64_t extent = (uint64_t)a->dim[i].extent;
    if (extent != 1) {
      if (shape->levels == 0 && a->dim[i].sm == (CFI_index_t)shape->block_bytes) {
        shape->block_bytes *= extent;
      } else {
        if (shape->levels == SKERRY_MAX_LEVELS) return false;
        shape->count[shape->levels] = extent;
        shape->origin_stride[shape->levels] = a->dim[i].sm;
        shape->target_stride[shape->levels] = (int64_t)packed;
        ++shape->levels;
      }
    }
    packed *= extent;
  }
  return true;
}
static bool is_contiguous(Array a) {
  skerry_strided shape;
  return bytes_of(a) == 0 || (describe(a, &shape) && shape.levels == 0);
}

/* Copies between a section and packed memory. */
static void copy_level(Array a, int level, char* at, char** packed, bool pack) {
  if (level < 0) {
    if (pack) memcpy(*packed, at, a->elem_len);
    else memcpy(at, *packed, a->elem_len);
    *packed += a->elem_len;
    return;
  }
  for (CFI_index_t i = 0; i < a->dim[level].extent; ++i)
    copy_level(a, level - 1, at + i * a->dim[level].sm, packed, pack);
}
/* The elements of `a` in one piece: `a` itself, or a copy that put_back frees. Null: no memory. */
static void* take_packed(Array a, bool with_contents) {
  if (is_contiguous(a)) return a->base_addr;
  char* const memory = malloc(bytes_of(a));
  char* at = memory;
  if (memory != NULL && with_contents) copy_level(a, a->rank - 1, a->base_addr, &at, true);
  return memory;
}
static void put_back(Array a, void* packed, bool changed) {
  if (packed == a->base_addr) return;
  char* at = packed;
  if (changed && packed != NULL) copy_level(a, a->rank - 1, a->base_addr, &at, false);
  free(packed);
}
static const char* const no_memory = "no memory for a packed copy of the array section";

/* A skerry_type, or -1. */
static int type_of(Array a) {
  switch (a->type) {
    case CFI_type_int8_t: return SKERRY_INT8;
    case CFI_type_int16_t: return SKERRY_INT16;
    case CFI_type_int32_t: return SKERRY_INT32;
    case CFI_type_int64_t: return SKERRY_INT64;
    case CFI_type_float: return SKERRY_FLOAT;
    case CFI_type_double: return SKERRY_DOUBLE;
    case CFI_type_float_Complex: return SKERRY_COMPLEX_FLOAT;
    case CFI_type_double_Complex: return SKERRY_COMPLEX_DOUBLE;
    default: return -1;
  }
}
static const char* const no_type =
    "the element type has no arithmetic here: use integer of 1 to 8 bytes, real or complex of "
    "single or double precision";

/* ---- job ----------------------------------------------------------------------------------- */

void skerryf_init(skerry_job** job, const int* thread_level, const int* on_failure, int* status) {
  skerry_options options = SKERRY_OPTIONS_INIT;
  if (thread_level != NULL) options.thread_level = *thread_level;
  if (on_failure != NULL) options.on_failure = *on_failure;
  const int code = skerry_init(&options, job);
  if (code == SKERRY_OK) current = *job;
  SETTLE("skerry_init", code);
}
void skerryf_finalize(skerry_job** job, int* status) {
  const int code = skerry_finalize(*job);
  *job = current = NULL;
  SETTLE("skerry_finalize", code);
}
const char* skerryf_last_error(void) { return own_error != NULL ? own_error : skerry_last_error(); }

#define OF_GROUP(name)                                     \
  void skerryf_##name(skerry_group** group, int* status) { \
    SETTLE("skerry_" #name, skerry_##name(*group));        \
  }
OF_GROUP(sync)
OF_GROUP(barrier)
void skerryf_group_free(skerry_group** group, int* status) {
  const int code = skerry_group_free(*group);
  if (code == SKERRY_OK) *group = NULL;
  SETTLE("skerry_group_free", code);
}
void skerryf_group_split(skerry_group** parent, int color, int key, skerry_group** group,
                         int* status) {
  SETTLE("skerry_group_split", skerry_group_split(*parent, color, key, group));
}

void skerryf_group_shrink(skerry_group** group, int64_t timeout_ns, skerry_group** shrunk,
                          int* status) {
  SETTLE("skerry_group_shrink", skerry_group_shrink(*group, timeout_ns, shrunk));
}

void skerryf_hear(skerry_job** job, int* status) { SETTLE("skerry_hear", skerry_hear(*job)); }

void skerryf_group_refill(skerry_group** group, int64_t timeout_ns, skerry_group** full,
                          int* status) {
  SETTLE("skerry_group_refill", skerry_group_refill(*group, timeout_ns, full));
}

/* ---- collectives --------------------------------------------------------------------------- */

void skerryf_broadcast(skerry_group** group, Array buffer, int root, int* status) {
  void* const packed = take_packed(buffer, true);
  if (packed == NULL && bytes_of(buffer) != 0) {
    REFUSE("skerry_broadcast", no_memory);
    return;
  }
  const int code = skerry_broadcast(*group, packed, bytes_of(buffer), root);
  put_back(buffer, packed, code == SKERRY_OK);
  SETTLE("skerry_broadcast", code);
}
typedef int (*InPlace)(skerry_group*, int type, int reduction, void* buffer, uint64_t count,
                       int root);
static int all_of(skerry_group* group, int type, int reduction, void* buffer, uint64_t count,
                  int root) {
  (void)root;
  return skerry_allreduce(group, type, reduction, buffer, count);
}
static int up_to(skerry_group* group, int type, int reduction, void* buffer, uint64_t count,
                 int root) {
  (void)root;
  return skerry_scan(group, type, reduction, buffer, count);
}
static int before(skerry_group* group, int type, int reduction, void* buffer, uint64_t count,
                  int root) {
  (void)root;
  return skerry_exscan(group, type, reduction, buffer, count);
}
static void reduce(const char* call, InPlace function, skerry_group** group, int reduction,
                   Array buffer, int root, int* status) {
  const int type = type_of(buffer);
  if (type < 0) {
    REFUSE(call, no_type);
    return;
  }
  void* const packed = take_packed(buffer, true);
  if (packed == NULL && bytes_of(buffer) != 0) {
    REFUSE(call, no_memory);
    return;
  }
  const int code = function(*group, type, reduction, packed, elements(buffer), root);
  put_back(buffer, packed, code == SKERRY_OK);
  SETTLE(call, code);
}
void skerryf_reduce(skerry_group** group, int reduction, Array buffer, int root, int* status) {
  reduce("skerry_reduce", skerry_reduce, group, reduction, buffer, root, status);
}
void skerryf_allreduce(skerry_group** group, int reduction, Array buffer, int* status) {
  reduce("skerry_allreduce", all_of, group, reduction, buffer, 0, status);
}
void skerryf_scan(skerry_group** group, int reduction, Array buffer, int* status) {
  reduce("skerry_scan", up_to, group, reduction, buffer, 0, status);
}
void skerryf_exscan(skerry_group** group, int reduction, Array buffer, int* status) {
  reduce("skerry_exscan", before, group, reduction, buffer, 0, status);
}

typedef int (*Between)(skerry_group*, int type, int reduction, const void* in, uint64_t in_bytes,
                       void* out, uint64_t out_count);
static int gather(skerry_group* group, int type, int reduction, const void* in, uint64_t in_bytes,
                  void* out, uint64_t out_count) {
  (void)type, (void)reduction, (void)out_count;
  return skerry_allgather(group, in, in_bytes, out);
}
static int swap_all(skerry_group* group, int type, int reduction, const void* in,
                    uint64_t in_bytes, void* out, uint64_t out_count) {
  (void)type, (void)reduction, (void)out_count;
  return skerry_alltoall(group, in, in_bytes / (uint64_t)skerry_group_size(group), out);
}
static int scatter(skerry_group* group, int type, int reduction, const void* in, uint64_t in_bytes,
                   void* out, uint64_t out_count) {
  (void)in_bytes;
  return skerry_reduce_scatter(group, type, reduction, in, out, out_count);
}
static void between(const char* call, Between function, skerry_group** group, int reduction,
                    Array in, Array out, int* status) {
  void* const from = take_packed(in, true);
  void* const to = take_packed(out, false);
  if ((bytes_of(in) != 0 && from == NULL) || (bytes_of(out) != 0 && to == NULL)) {
    put_back(in, from, false);
    put_back(out, to, false);
    REFUSE(call, no_memory);
    return;
  }
  const int code = function(*group, type_of(out), reduction, from, bytes_of(in), to,
                            elements(out));
  put_back(in, from, false);
  put_back(out, to, code == SKERRY_OK);
  SETTLE(call, code);
}
static uint64_t members_of(skerry_group** group) { return (uint64_t)skerry_group_size(*group); }

void skerryf_allgather(skerry_group** group, Array in, Array out, int* status) {
  if (bytes_of(out) != members_of(group) * bytes_of(in))
    REFUSE("skerry_allgather", "`out` must have the elements of `in` once for each member");
  else between("skerry_allgather", gather, group, 0, in, out, status);
}
void skerryf_alltoall(skerry_group** group, Array in, Array out, int* status) {
  if (bytes_of(out) != bytes_of(in) || bytes_of(in) % members_of(group) != 0)
    REFUSE("skerry_alltoall", "`in` and `out` must have as many elements for each member");
  else between("skerry_alltoall", swap_all, group, 0, in, out, status);
}
/* Counts of elements become bytes and their offsets: 2 * members numbers. Null: `why` says. */
static uint64_t* in_bytes(Array counts, Array data, uint64_t members, const char** why) {
  const bool is_wide = counts->type == CFI_type_int64_t;
  if (elements(counts) != members || (!is_wide && counts->type != CFI_type_int32_t)) {
    *why = "counts are integers of 4 or 8 bytes, one for each member";
    return NULL;
  }
  void* const packed = take_packed(counts, true);
  uint64_t* const sizes = malloc(2 * members * sizeof *sizes);
  if (packed == NULL || sizes == NULL) *why = no_memory;
  uint64_t total = 0;
  for (uint64_t i = 0; packed != NULL && sizes != NULL && i < members; ++i) {
    const int64_t count = is_wide ? ((int64_t*)packed)[i] : ((int32_t*)packed)[i];
    if (count < 0) *why = "a count is negative";
    sizes[i] = (uint64_t)count * data->elem_len;
    sizes[members + i] = total;
    total += sizes[i];
  }
  if (packed != NULL) put_back(counts, packed, false);
  if (*why == NULL && total > bytes_of(data)) *why = "the counts are more than the array has";
  if (*why == NULL) return sizes;
  free(sizes);
  return NULL;
}
void skerryf_alltoallv(skerry_group** group, Array in, Array in_counts, Array out,
                       Array out_counts, int* status) {
  const uint64_t members = members_of(group);
  const char* why = NULL;
  uint64_t* const ins = in_bytes(in_counts, in, members, &why);
  uint64_t* const outs = ins == NULL ? NULL : in_bytes(out_counts, out, members, &why);
  void* const from = outs == NULL ? NULL : take_packed(in, true);
  void* const to = outs == NULL ? NULL : take_packed(out, true);
  if (outs != NULL && ((from == NULL && bytes_of(in) != 0) || (to == NULL && bytes_of(out) != 0)))
    why = no_memory;
  int code = SKERRY_ERR_INVALID;
  if (why == NULL)
    code = skerry_alltoallv(*group, from, ins, ins + members, to, outs, outs + members);
  if (from != NULL) put_back(in, from, false);
  if (to != NULL) put_back(out, to, code == SKERRY_OK);
  free(ins);
  free(outs);
  if (why != NULL) REFUSE("skerry_alltoallv", why);
  else SETTLE("skerry_alltoallv", code);
}
void skerryf_allreduce_by(skerry_group** group, skerry_combine combine, Array buffer,
                          int* status) {
  void* const packed = take_packed(buffer, true);
  if (packed == NULL && bytes_of(buffer) != 0) {
    REFUSE("skerry_allreduce_by", no_memory);
    return;
  }
  const int code = skerry_allreduce_by(*group, buffer->elem_len, combine, NULL, packed,
                                       elements(buffer));
  put_back(buffer, packed, code == SKERRY_OK);
  SETTLE("skerry_allreduce_by", code);
}

static const char* const not_contiguous =
    "what a collective is begun with must be contiguous: it is used until the handle is done";
void skerryf_barrier_nb(skerry_group** group, skerry_handle* handle, int* status) {
  SETTLE("skerry_barrier_nb", skerry_barrier_nb(*group, handle));
}
void skerryf_broadcast_nb(skerry_group** group, Array buffer, int root, skerry_handle* handle,
                          int* status) {
  if (!is_contiguous(buffer)) REFUSE("skerry_broadcast_nb", not_contiguous);
  else SETTLE("skerry_broadcast_nb", skerry_broadcast_nb(*group, buffer->base_addr,
                                                         bytes_of(buffer), root, handle));
}
void skerryf_allreduce_nb(skerry_group** group, int reduction, Array buffer,
                          skerry_handle* handle, int* status) {
  const int type = type_of(buffer);
  if (type < 0) REFUSE("skerry_allreduce_nb", no_type);
  else if (!is_contiguous(buffer)) REFUSE("skerry_allreduce_nb", not_contiguous);
  else SETTLE("skerry_allreduce_nb", skerry_allreduce_nb(*group, type, reduction,
                                                         buffer->base_addr, elements(buffer),
                                                         handle));
}

void skerryf_reduce_scatter(skerry_group** group, int reduction, Array in, Array out,
                            int* status) {
  if (type_of(out) < 0 || type_of(out) != type_of(in))
    REFUSE("skerry_reduce_scatter", no_type);
  else if (bytes_of(in) != members_of(group) * bytes_of(out))
    REFUSE("skerry_reduce_scatter", "`in` must have the elements of `out` once for each member");
  else between("skerry_reduce_scatter", scatter, group, reduction, in, out, status);
}

/* ---- segments ------------------------------------------------------------------------------ */

void skerryf_segment_alloc_8(skerry_group** group, int64_t bytes, skerry_segment** segment,
                             int* status) {
  if (bytes < 0) REFUSE("skerry_segment_alloc", "a number of bytes below 0");
  else SETTLE("skerry_segment_alloc", skerry_segment_alloc(*group, (uint64_t)bytes, segment));
}
void skerryf_segment_free(skerry_segment** segment, int* status) {
  const int code = skerry_segment_free(*segment);
  if (code == SKERRY_OK) *segment = NULL;
  SETTLE("skerry_segment_free", code);
}

/* Bytes of the caller's own memory. */
int64_t skerryf_segment_own_bytes(skerry_segment** segment) {
  return (int64_t)skerry_segment_bytes(*segment, skerry_rank(current));
}
int64_t skerryf_window_own_bytes(skerry_window** window) {
  return (int64_t)skerry_window_bytes(*window, skerry_rank(current));
}

/* ---- put, get, accumulate ------------------------------------------------------------------ */

enum Kind { put, get, acc };

static int move(enum Kind kind, skerry_segment* segment, int rank, uint64_t offset, Array origin,
                const void* scale, skerry_handle* handle, bool blocking) {
  skerry_strided shape;
  if (kind == acc && type_of(origin) < 0) return refuse(no_type);
  if (bytes_of(origin) == 0) {
    if (!blocking && handle != NULL) *handle = 0;
    return SKERRY_OK;
  }
  if (!describe(origin, &shape)) return refuse("the section has more than 8 strided dimensions");
  void* const base = origin->base_addr;
  switch (kind) {
    case put:
      return blocking ? skerry_put_strided(segment, rank, offset, base, &shape)
                      : skerry_put_strided_nb(segment, rank, offset, base, &shape, handle);
    case get:
      return blocking ? skerry_get_strided(segment, rank, offset, base, &shape)
                      : skerry_get_strided_nb(segment, rank, offset, base, &shape, handle);
    case acc: break;
  }
  const int type = type_of(origin);
  return blocking ? skerry_acc_strided(segment, rank, offset, type, scale, base, &shape)
                  : skerry_acc_strided_nb(segment, rank, offset, type, scale, base, &shape, handle);
}

static bool scale_fits(Array origin, Array scale) {
  return scale == NULL || (scale->type == origin->type && elements(scale) == 1);
}
static const char* const bad_scale = "`scale` must be one element of the array's type";

void skerryf_put_8(skerry_segment** segment, int rank, int64_t offset, Array origin, int* status) {
  SETTLE("skerry_put",
         is_contiguous(origin)
             ? skerry_put(*segment, rank, (uint64_t)offset, origin->base_addr, bytes_of(origin))
             : move(put, *segment, rank, (uint64_t)offset, origin, NULL, NULL, true));
}
void skerryf_get_8(skerry_segment** segment, int rank, int64_t offset, Array origin, int* status) {
  SETTLE("skerry_get",
         is_contiguous(origin)
             ? skerry_get(*segment, rank, (uint64_t)offset, origin->base_addr, bytes_of(origin))
             : move(get, *segment, rank, (uint64_t)offset, origin, NULL, NULL, true));
}
void skerryf_acc_8(skerry_segment** segment, int rank, int64_t offset, Array origin, Array scale,
                   int* status) {
  SETTLE("skerry_acc", scale_fits(origin, scale)
                           ? move(acc, *segment, rank, (uint64_t)offset, origin,
                                  scale != NULL ? scale->base_addr : NULL, NULL, true)
                           : refuse(bad_scale));
}
/* Without a handle the operation joins the implicit set. */
void skerryf_put_nb_8(skerry_segment** segment, int rank, int64_t offset, Array origin,
                      skerry_handle* handle, int* status) {
  SETTLE("skerry_put_nb", move(put, *segment, rank, (uint64_t)offset, origin, NULL, handle, false));
}
void skerryf_get_nb_8(skerry_segment** segment, int rank, int64_t offset, Array origin,
                      skerry_handle* handle, int* status) {
  SETTLE("skerry_get_nb", move(get, *segment, rank, (uint64_t)offset, origin, NULL, handle, false));
}
void skerryf_acc_nb_8(skerry_segment** segment, int rank, int64_t offset, Array origin, Array scale,
                      skerry_handle* handle, int* status) {
  SETTLE("skerry_acc_nb", scale_fits(origin, scale)
                              ? move(acc, *segment, rank, (uint64_t)offset, origin,
                                     scale != NULL ? scale->base_addr : NULL, handle, false)
                              : refuse(bad_scale));
}
void skerryf_wait(skerry_job** job, skerry_handle* handle, int* status) {
  SETTLE("skerry_wait", skerry_wait(*job, handle));
}
void skerryf_test(skerry_job** job, skerry_handle* handle, int* done, int* status) {
  SETTLE("skerry_test", skerry_test(*job, handle, done));
}
void skerryf_wait_implicit(skerry_job** job, int* status) {
  SETTLE("skerry_wait_implicit", skerry_wait_implicit(*job));
}
void skerryf_fence(skerry_job** job, int rank, int* status) {
  SETTLE("skerry_fence", skerry_fence(*job, rank));
}
void skerryf_fence_node(skerry_job** job, int node, int* status) {
  SETTLE("skerry_fence_node", skerry_fence_node(*job, node));
}
void skerryf_fence_all(skerry_job** job, int* status) {
  SETTLE("skerry_fence_all", skerry_fence_all(*job));
}

/* ---- words, updates, notifications --------------------------------------------------------- */

#define WORDS(suffix, type)                                                                        \
  void skerryf_fetch_add_##suffix##_8(skerry_segment** segment, int rank, int64_t offset,          \
                                      type value, type* result, int* status) {                     \
    SETTLE("skerry_fetch_add",                                                                     \
           skerry_fetch_add_##suffix(*segment, rank, (uint64_t)offset, value, result));            \
  }                                                                                                \
  void skerryf_swap_##suffix##_8(skerry_segment** segment, int rank, int64_t offset, type value,   \
                                 type* result, int* status) {                                      \
    SETTLE("skerry_swap", skerry_swap_##suffix(*segment, rank, (uint64_t)offset, value, result));  \
  }                                                                                                \
  void skerryf_compare_swap_##suffix##_8(skerry_segment** segment, int rank, int64_t offset,       \
                                         type expected, type desired, type* result, int* status) { \
    SETTLE("skerry_compare_swap", skerry_compare_swap_##suffix(*segment, rank, (uint64_t)offset,   \
                                                               expected, desired, result));        \
  }
WORDS(i32, int32_t)
WORDS(i64, int64_t)

/* `result` may be null: a plain update. */
static int update(skerry_segment* segment, skerry_window* window, int rank, uint64_t at,
                  int operation, Array origin, Array result) {
  const int type = type_of(origin);
  if (type < 0) return refuse(no_type);
  if (result != NULL && (result->type != origin->type || elements(result) != elements(origin)))
    return refuse("`result` must have the type and the number of elements of `origin`");
  const uint64_t count = elements(origin);
  void* const from = take_packed(origin, true);
  void* const to = result != NULL ? take_packed(result, false) : NULL;
  int code;
  if (count != 0 && (from == NULL || (result != NULL && to == NULL))) code = refuse(no_memory);
  else if (window != NULL)
    code = result == NULL
               ? skerry_window_update(window, rank, at, type, operation, from, count)
               : skerry_window_fetch_update(window, rank, at, type, operation, from, to, count);
  else
    code = result == NULL
               ? skerry_update(segment, rank, at, type, operation, from, count)
               : skerry_fetch_update(segment, rank, at, type, operation, from, to, count);
  put_back(origin, from, false);
  if (result != NULL) put_back(result, to, code == SKERRY_OK);
  return code;
}
void skerryf_update_8(skerry_segment** segment, int rank, int64_t offset, int operation,
                      Array origin, int* status) {
  SETTLE("skerry_update", update(*segment, NULL, rank, (uint64_t)offset, operation, origin, NULL));
}
void skerryf_fetch_update_8(skerry_segment** segment, int rank, int64_t offset, int operation,
                            Array origin, Array result, int* status) {
  SETTLE("skerry_fetch_update",
         update(*segment, NULL, rank, (uint64_t)offset, operation, origin, result));
}
void skerryf_put_notify_8(skerry_segment** segment, int rank, int64_t offset, Array origin,
                          int64_t counter_offset, int64_t increment, int* status) {
  if (!is_contiguous(origin)) {
    REFUSE("skerry_put_notify", "the array must lie in one piece");
    return;
  }
  SETTLE("skerry_put_notify",
         skerry_put_notify(*segment, rank, (uint64_t)offset, origin->base_addr, bytes_of(origin),
                           (uint64_t)counter_offset, (uint64_t)increment));
}
void skerryf_notify_wait_8(skerry_segment** segment, int64_t counter_offset, int64_t at_least,
                           const int64_t* timeout_ns, int64_t* value, int* status) {
  uint64_t found = 0;
  const int code = skerry_notify_wait(*segment, (uint64_t)counter_offset, (uint64_t)at_least,
                                      timeout_ns != NULL ? *timeout_ns : -1, &found);
  if (code == SKERRY_OK && value != NULL) *value = (int64_t)found;
  SETTLE("skerry_notify_wait", code);
}

/* ---- mutexes ------------------------------------------------------------------------------- */

void skerryf_mutexes_create(skerry_group** group, int count, skerry_mutexes** mutexes,
                            int* status) {
  if (count < 0) REFUSE("skerry_mutexes_create", "a number of mutexes below 0");
  else SETTLE("skerry_mutexes_create", skerry_mutexes_create(*group, (uint32_t)count, mutexes));
}
void skerryf_mutexes_free(skerry_mutexes** mutexes, int* status) {
  const int code = skerry_mutexes_free(*mutexes);
  if (code == SKERRY_OK) *mutexes = NULL;
  SETTLE("skerry_mutexes_free", code);
}
void skerryf_mutex_lock(skerry_mutexes** mutexes, int rank, int index, int* status) {
  SETTLE("skerry_mutex_lock", skerry_mutex_lock(*mutexes, rank, (uint32_t)index));
}
void skerryf_mutex_unlock(skerry_mutexes** mutexes, int rank, int index, int* status) {
  SETTLE("skerry_mutex_unlock", skerry_mutex_unlock(*mutexes, rank, (uint32_t)index));
}

/* ---- protected memory ---------------------------------------------------------------------- */

void skerryf_protected_create(skerry_group** group, int distance, skerry_protected** kept,
                              int* status) {
  SETTLE("skerry_protected_create", skerry_protected_create(*group, distance, kept));
}
void skerryf_protected_free(skerry_protected** kept, int* status) {
  const int code = skerry_protected_free(*kept);
  *kept = NULL;
  SETTLE("skerry_protected_free", code);
}
void skerryf_protected_add(skerry_protected** kept, Array memory, int* status) {
  if (!is_contiguous(memory)) REFUSE("skerry_protected_add", "the array must lie in one piece");
  else
    SETTLE("skerry_protected_add",
           skerry_protected_add(*kept, memory->base_addr, bytes_of(memory)));
}
void skerryf_protected_forget(skerry_protected** kept, int* status) {
  SETTLE("skerry_protected_forget", skerry_protected_forget(*kept));
}
void skerryf_protected_next_8(skerry_protected** kept, int64_t steps, int64_t every, int outcome,
                              int64_t* step, skerry_group** group, int* status) {
  uint64_t found = 0;
  if (steps < 0 || every < 0) {
    REFUSE("skerry_protected_next", "steps or every below 0");
    return;
  }
  const int code = skerry_protected_next(*kept, (uint64_t)steps, (uint64_t)every, outcome, &found,
                                         group);
  if (code == SKERRY_OK) *step = (int64_t)found;
  SETTLE("skerry_protected_next", code);
}
void skerryf_protected_divide(skerry_protected** kept, skerry_divide divide, int* status) {
  SETTLE("skerry_protected_divide", skerry_protected_divide(*kept, divide, NULL));
}
void skerryf_protected_save(skerry_protected** kept, int64_t step, int* status) {
  SETTLE("skerry_protected_save", skerry_protected_save(*kept, step));
}
void skerryf_protected_recover(skerry_protected** kept, const int64_t* timeout_ns, int* status) {
  SETTLE("skerry_protected_recover",
         skerry_protected_recover(*kept, timeout_ns != NULL ? *timeout_ns : -1));
}
void skerryf_protected_read_8(skerry_protected** kept, int place, int64_t offset, Array to,
                              int* status) {
  void* const packed = take_packed(to, false);
  if (packed == NULL && bytes_of(to) != 0) {
    REFUSE("skerry_protected_read", no_memory);
    return;
  }
  const int code = skerry_protected_read(*kept, place, (uint64_t)offset, packed, bytes_of(to));
  put_back(to, packed, code == SKERRY_OK);
  SETTLE("skerry_protected_read", code);
}

/* ---- windows ------------------------------------------------------------------------------- */

void skerryf_window_allocate(skerry_group** group, int64_t bytes, int64_t unit,
                             skerry_window** window, int* status) {
  if (bytes < 0 || unit < 1) REFUSE("skerry_window_allocate", "bytes below 0 or a unit below 1");
  else
    SETTLE("skerry_window_allocate",
           skerry_window_allocate(*group, (uint64_t)bytes, (uint64_t)unit, window));
}
void skerryf_window_create(skerry_group** group, Array base, skerry_window** window, int* status) {
  if (!is_contiguous(base)) REFUSE("skerry_window_create", "the array must lie in one piece");
  else
    SETTLE("skerry_window_create",
           skerry_window_create(*group, base->base_addr, bytes_of(base), base->elem_len, window));
}
void skerryf_window_free(skerry_window** window, int* status) {
  const int code = skerry_window_free(*window);
  if (code == SKERRY_OK) *window = NULL;
  SETTLE("skerry_window_free", code);
}
void skerryf_window_lock(skerry_window** window, int mode, int rank, const int* promises,
                         int* status) {
  SETTLE("skerry_window_lock",
         skerry_window_lock(*window, mode, rank, promises != NULL ? (uint32_t)*promises : 0));
}
void skerryf_window_lock_all(skerry_window** window, const int* promises, int* status) {
  SETTLE("skerry_window_lock_all",
         skerry_window_lock_all(*window, promises != NULL ? (uint32_t)*promises : 0));
}
void skerryf_window_fence(skerry_window** window, const int* promises, int* status) {
  SETTLE("skerry_window_fence",
         skerry_window_fence(*window, promises != NULL ? (uint32_t)*promises : 0));
}
#define OF_WINDOW(name)                                             \
  void skerryf_window_##name(skerry_window** window, int* status) { \
    SETTLE("skerry_window_" #name, skerry_window_##name(*window));  \
  }
OF_WINDOW(unlock_all)
OF_WINDOW(flush_all)
OF_WINDOW(flush_local_all)
OF_WINDOW(sync)
#define OF_WINDOW_AND_RANK(name)                                              \
  void skerryf_window_##name(skerry_window** window, int rank, int* status) { \
    SETTLE("skerry_window_" #name, skerry_window_##name(*window, rank));      \
  }
OF_WINDOW_AND_RANK(unlock)
OF_WINDOW_AND_RANK(flush)
OF_WINDOW_AND_RANK(flush_local)

/* `at` counts in the target's unit; strided calls count in bytes. */
static int move_window(enum Kind kind, skerry_window* window, int rank, uint64_t at, Array origin) {
  void* const base = origin->base_addr;
  if (is_contiguous(origin))
    return kind == put ? skerry_window_put(window, rank, at, base, bytes_of(origin))
                       : skerry_window_get(window, rank, at, base, bytes_of(origin));
  skerry_strided shape;
  if (!describe(origin, &shape)) return refuse("the section has more than 8 strided dimensions");
  const uint64_t offset = at * skerry_window_unit(window, rank);
  return kind == put ? skerry_window_put_strided(window, rank, offset, base, &shape)
                     : skerry_window_get_strided(window, rank, offset, base, &shape);
}
void skerryf_window_put_8(skerry_window** window, int rank, int64_t at, Array origin, int* status) {
  SETTLE("skerry_window_put", move_window(put, *window, rank, (uint64_t)at, origin));
}
void skerryf_window_get_8(skerry_window** window, int rank, int64_t at, Array origin, int* status) {
  SETTLE("skerry_window_get", move_window(get, *window, rank, (uint64_t)at, origin));
}
void skerryf_window_update_8(skerry_window** window, int rank, int64_t at, int operation,
                             Array origin, int* status) {
  SETTLE("skerry_window_update",
         update(NULL, *window, rank, (uint64_t)at, operation, origin, NULL));
}
void skerryf_window_fetch_update_8(skerry_window** window, int rank, int64_t at, int operation,
                                   Array origin, Array result, int* status) {
  SETTLE("skerry_window_fetch_update",
         update(NULL, *window, rank, (uint64_t)at, operation, origin, result));
}

/* ---- counters and limits ------------------------------------------------------------------- */

int64_t skerryf_counter(skerry_job** job, const char* name) {
  uint64_t value = 0;
  const int index = skerry_counter_find(name);
  return index >= 0 && skerry_counter_value(*job, index, &value) == SKERRY_OK ? (int64_t)value : -1;
}
void skerryf_connections_limit(skerry_job** job, int limit, int* status) {
  if (limit < 0) REFUSE("skerry_connections_limit", "a limit below 0");
  else SETTLE("skerry_connections_limit", skerry_connections_limit(*job, (uint32_t)limit));
}

/* ---- the same with offsets of 4 bytes -------------------------------------------------------- */

void skerryf_segment_alloc_4(skerry_group** group, int32_t bytes, skerry_segment** segment,
                             int* status) {
  skerryf_segment_alloc_8(group, bytes, segment, status);
}
void skerryf_put_4(skerry_segment** segment, int rank, int32_t offset, Array origin, int* status) {
  skerryf_put_8(segment, rank, offset, origin, status);
}
void skerryf_get_4(skerry_segment** segment, int rank, int32_t offset, Array origin, int* status) {
  skerryf_get_8(segment, rank, offset, origin, status);
}
void skerryf_acc_4(skerry_segment** segment, int rank, int32_t offset, Array origin, Array scale,
                   int* status) {
  skerryf_acc_8(segment, rank, offset, origin, scale, status);
}
void skerryf_put_nb_4(skerry_segment** segment, int rank, int32_t offset, Array origin,
                      skerry_handle* handle, int* status) {
  skerryf_put_nb_8(segment, rank, offset, origin, handle, status);
}
void skerryf_get_nb_4(skerry_segment** segment, int rank, int32_t offset, Array origin,
                      skerry_handle* handle, int* status) {
  skerryf_get_nb_8(segment, rank, offset, origin, handle, status);
}
void skerryf_acc_nb_4(skerry_segment** segment, int rank, int32_t offset, Array origin, Array scale,
                      skerry_handle* handle, int* status) {
  skerryf_acc_nb_8(segment, rank, offset, origin, scale, handle, status);
}
void skerryf_update_4(skerry_segment** segment, int rank, int32_t offset, int operation,
                      Array origin, int* status) {
  skerryf_update_8(segment, rank, offset, operation, origin, status);
}
void skerryf_fetch_update_4(skerry_segment** segment, int rank, int32_t offset, int operation,
                            Array origin, Array result, int* status) {
  skerryf_fetch_update_8(segment, rank, offset, operation, origin, result, status);
}
void skerryf_put_notify_4(skerry_segment** segment, int rank, int32_t offset, Array origin,
                          int32_t counter_offset, int32_t increment, int* status) {
  skerryf_put_notify_8(segment, rank, offset, origin, counter_offset, increment, status);
}
void skerryf_notify_wait_4(skerry_segment** segment, int32_t counter_offset, int32_t at_least,
                           const int64_t* timeout_ns, int64_t* value, int* status) {
  skerryf_notify_wait_8(segment, counter_offset, at_least, timeout_ns, value, status);
}
void skerryf_protected_next_4(skerry_protected** kept, int32_t steps, int32_t every, int outcome,
                              int32_t* step, skerry_group** group, int* status) {
  int64_t found = 0;
  skerryf_protected_next_8(kept, steps, every, outcome, &found, group, status);
  *step = (int32_t)found;
}
void skerryf_protected_read_4(skerry_protected** kept, int place, int32_t offset, Array to,
                              int* status) {
  skerryf_protected_read_8(kept, place, offset, to, status);
}
void skerryf_window_put_4(skerry_window** window, int rank, int32_t at, Array origin, int* status) {
  skerryf_window_put_8(window, rank, at, origin, status);
}
void skerryf_window_get_4(skerry_window** window, int rank, int32_t at, Array origin, int* status) {
  skerryf_window_get_8(window, rank, at, origin, status);
}
void skerryf_window_update_4(skerry_window** window, int rank, int32_t at, int operation,
                             Array origin, int* status) {
  skerryf_window_update_8(window, rank, at, operation, origin, status);
}
void skerryf_window_fetch_update_4(skerry_window** window, int rank, int32_t at, int operation,
                                   Array origin, Array result, int* status) {
  skerryf_window_fetch_update_8(window, rank, at, operation, origin, result, status);
}
#define WORDS_4(suffix, type)                                                                      \
  void skerryf_fetch_add_##suffix##_4(skerry_segment** segment, int rank, int32_t offset,          \
                                      type value, type* result, int* status) {                     \
    skerryf_fetch_add_##suffix##_8(segment, rank, offset, value, result, status);                  \
  }                                                                                                \
  void skerryf_swap_##suffix##_4(skerry_segment** segment, int rank, int32_t offset, type value,   \
                                 type* result, int* status) {                                      \
    skerryf_swap_##suffix##_8(segment, rank, offset, value, result, status);                       \
  }                                                                                                \
  void skerryf_compare_swap_##suffix##_4(skerry_segment** segment, int rank, int32_t offset,       \
                                         type expected, type desired, type* result, int* status) { \
    skerryf_compare_swap_##suffix##_8(segment, rank, offset, expected, desired, result, status);   \
  }
WORDS_4(i32, int32_t)
WORDS_4(i64, int64_t)
