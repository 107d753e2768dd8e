/* skerry.h: one-sided communication between the processes of a parallel job (C11, callable from
 * C++).
 *
 * A job is a set of *ranks*, numbered 0..size-1. Ranks that share memory form a *node*. A *segment*
 * is memory that the members of a *group* allocate together; each member owns a *slice* of it. Any
 * member reads, writes, adds to and locks the slices of the others; their owners take no part.
 *
 * Completion. *Source done*: the origin may reuse its buffer. *Remote done*: the effect is visible
 * at the target. Put and accumulate return at source done, get and read-modify-write with the data,
 * a fence at remote done. Operations of one rank on one target rank take effect in the order in
 * which they were issued; operations on different targets have no order (docs/memory-model.md).
 *
 * Numbers. Ranks are job ranks in every call, also for groups with fewer members. Sizes and offsets
 * are bytes unless the name says otherwise, and 64 bits wide. Offsets count from the start of the
 * target's slice.
 *
 * Errors. A function that returns int returns SKERRY_OK, or a status below zero; then it has not
 * touched its outputs. Queries return their answer instead of SKERRY_OK. skerry_last_error() has
 * the message: what failed, with which values, and what to do. Every call may also return INVALID
 * for a null argument, FORKED in a forked child, and FREED for something that was freed. It may
 * return PEER_DEAD or NETWORK if it waits for another process.
 *
 * Waiting. Calls may block unless their comment says "Never blocks". A blocked call sleeps. It ends
 * with SKERRY_ERR_PEER_DEAD when a rank that it waits for has died. *Collective* calls are made by
 * all members of the group, in the same order, and wait for one another.
 *
 * Ownership. What a call allocates belongs to the caller until the matching free, or until
 * skerry_finalize, which frees what is left. Strings that calls return are never freed. A blocking
 * call keeps no pointer to its arguments after it has returned.
 *
 * Structs with a field `size` may grow: set it to the sizeof of the struct. A symbol or a number
 * never changes its meaning (src/capi/symbols.map).
 *
 * Threads: see skerry_thread_level.
 */
#ifndef SKERRY_SKERRY_H
#define SKERRY_SKERRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKERRY_VERSION_MAJOR 0
#define SKERRY_VERSION_MINOR 1
#define SKERRY_VERSION_PATCH 0

#if defined(__GNUC__)
#define SKERRY_API __attribute__((visibility("default")))
#else
#define SKERRY_API
#endif

/* ---- status -------------------------------------------------------------------------------- */

typedef enum skerry_status {
  SKERRY_OK = 0,
  SKERRY_ERR_INVALID = -1,     /* an argument is wrong: rank, offset, size, type, null pointer */
  SKERRY_ERR_RANGE = -2,       /* the bytes touched lie outside the target's slice */
  SKERRY_ERR_FREED = -3,       /* the segment, group or mutex set was freed */
  SKERRY_ERR_NO_MEMORY = -4,   /* too little memory on this machine or in its cgroup */
  SKERRY_ERR_PEER_DEAD = -5,   /* a rank or node needed for this call has died */
  SKERRY_ERR_TIMEOUT = -6,     /* the caller's time limit has passed */
  SKERRY_ERR_NETWORK = -7,     /* no usable interface, or a connection could not be made */
  SKERRY_ERR_CONFIG = -8,      /* a SKERRY_* variable or an option is wrong */
  SKERRY_ERR_UNSUPPORTED = -9, /* this build or fabric cannot do it */
  SKERRY_ERR_FORKED = -10,     /* called in a forked child: start a new program (fork and exec) */
  SKERRY_ERR_THREAD = -11,   /* called from a thread that the granted thread level does not allow */
  SKERRY_ERR_INTERNAL = -12, /* a broken invariant of Skerry itself: please report it */
  SKERRY_ERR_CONFLICT = -13, /* debug mode of windows: accesses to the same bytes in one epoch */
  SKERRY_ERR_OWNER_DIED = -14 /* the mutex is locked, but the rank that held it before has died */
} skerry_status;

/* The name of a status, such as "SKERRY_ERR_RANGE". Never null. Never blocks. */
SKERRY_API const char* skerry_status_name(int status);
/* What went wrong in the last failed call of this thread. Never null; valid until the next failed
 * call of this thread. Never blocks. */
SKERRY_API const char* skerry_last_error(void);
/* The version of the library, such as "0.1.0". Never blocks. */
SKERRY_API const char* skerry_version(void);

/* ---- job ----------------------------------------------------------------------------------- */

typedef struct skerry_job skerry_job;
typedef struct skerry_group skerry_group;
typedef struct skerry_segment skerry_segment;
typedef struct skerry_mutexes skerry_mutexes;
typedef struct skerry_protected skerry_protected;

typedef enum skerry_thread_level {
  SKERRY_THREAD_SINGLE = 0,     /* only the thread that called skerry_init calls Skerry */
  SKERRY_THREAD_SERIALIZED = 1, /* any thread, one at a time */
  SKERRY_THREAD_MULTIPLE = 2    /* any thread at any time */
} skerry_thread_level;

typedef enum skerry_on_failure {
  SKERRY_FAILURE_ENDS_JOB = 0, /* a dead rank ends the job, with one message (default) */
  SKERRY_FAILURE_RETURNS = 1,  /* from then on calls that wait return SKERRY_ERR_PEER_DEAD: the
                                  others can save and leave */
  SKERRY_FAILURE_CONTINUES = 2 /* only calls that need it return SKERRY_ERR_PEER_DEAD, and the
                                  others go on: docs/going-on.md. Under `skerry run`, also with
                                  --hosts, with this on all ranks */
} skerry_on_failure;

/* How processes that already belong together (the ranks of an MPI communicator, say) exchange
 * bytes before Skerry has connected them. The call that takes it uses it until it returns. */
typedef struct skerry_exchange {
  size_t size;      /* sizeof(skerry_exchange) */
  int32_t position; /* of the caller among the participants, 0..count-1 */
  int32_t count;    /* participants */
  void* context;    /* handed to the functions */
  /* Collective over the participants. Each gives `bytes` bytes, the same number everywhere; those
   * of participant i go to out + i * bytes. Returns 0, or another number on failure: then the call
   * in progress returns SKERRY_ERR_NETWORK. */
  int (*allgather)(void* context, const void* in, uint64_t bytes, void* out);
  /* For skerry_init only; may be null. Ends all participants, or returns if it cannot. Skerry may
   * call it as long as the job lives, from any thread. */
  void (*abort)(void* context, int exit_status);
} skerry_exchange;

/* Start from SKERRY_OPTIONS_INIT: the right `size`, and zeros, which mean the defaults. */
typedef struct skerry_options {
  size_t size;                     /* sizeof(skerry_options) */
  int32_t thread_level;            /* a skerry_thread_level: what the program needs */
  int32_t on_failure;              /* a skerry_on_failure */
  const skerry_exchange* exchange; /* the ranks are its positions; null: ask the launcher */
} skerry_options;
#define SKERRY_OPTIONS_INIT \
  {sizeof(skerry_options), SKERRY_THREAD_SINGLE, SKERRY_FAILURE_ENDS_JOB, NULL}

/* Joins the job. Collective over all ranks. The job comes from options->exchange or, if that is
 * null, from the first of these that is there: `skerry run`, an initialised MPI, PMIx, PMI-1.
 * Without any of them the job has one rank. `options` may be null; it is read during the call only.
 * The job ends with skerry_finalize. Errors: INVALID, CONFIG (a SKERRY_* variable), NETWORK,
 * NO_MEMORY, UNSUPPORTED (an option that this library does not know). */
SKERRY_API int skerry_init(const skerry_options* options, skerry_job** job);
/* Completes all operations, frees what is left of segments, groups and mutexes, and leaves the job.
 * Collective over all ranks. `job` is invalid afterwards, whatever the result. While one rank is in
 * it, collectives of others that need it fail: INVALID. (SKERRY_FAILURE_CONTINUES: the rank is
 * ended, and they answer as after any death.) */
SKERRY_API int skerry_finalize(skerry_job* job);
/* Calls that wait for other ranks to make a call (collectives, skerry_mutex_lock,
 * skerry_notify_wait) run `work(context)` every 0.1 to 1 ms, in the waiting thread. This lets an
 * MPI progress that does so only when it is called, for instance. `work` must not call Skerry.
 * Null: no work (default). Do not set it while another thread of this rank waits. Never blocks. */
SKERRY_API int skerry_while_waiting(skerry_job* job, void (*work)(void* context), void* context);
/* Ends the whole job at once, with `exit_status` and a message that names this rank and `reason`
 * (may be null). Does not return. */
SKERRY_API void skerry_abort(skerry_job* job, int exit_status, const char* reason);

/* Which ranks have died, as far as this one has heard, in a job that goes on without them
 * (SKERRY_FAILURE_CONTINUES). A rank that leads its node, the lowest there, takes its node along.
 * Writes the first `most` of them, ascending, to `ranks`, and how many there are to *count. Never
 * blocks. */
SKERRY_API int skerry_failed(skerry_job* job, int* ranks, int most, int* count);
/* Blocks until this rank has heard of every death that any rank had heard of when it was called.
 * So skerry_failed names the death that another rank has told of in a PEER_DEAD. Takes one question
 * to the launcher, in a job that goes on (SKERRY_FAILURE_CONTINUES); in others nothing. Not
 * collective.
 * Errors: PEER_DEAD (the job is ending). */
SKERRY_API int skerry_hear(skerry_job* job);

/* Who and where. `job` must be a live job. None of these blocks. */
SKERRY_API int skerry_rank(const skerry_job* job);       /* own rank, 0..size-1 */
SKERRY_API int skerry_is_spare(const skerry_job* job);   /* 1: see skerry_group_refill */
/* 1: `skerry drain` takes the caller's host out of the job (SKERRY_FAILURE_CONTINUES). The program
 * brings what only this rank has to others, and ends with exit(0), without skerry_finalize: then it
 * counts as dead, but not as failed. Never blocks. */
SKERRY_API int skerry_is_leaving(const skerry_job* job);
SKERRY_API int skerry_size(const skerry_job* job);       /* of skerry_world: without spares */
SKERRY_API int skerry_node_count(const skerry_job* job); /* number of nodes */
/* Node of `rank`, 0..node_count-1, or SKERRY_ERR_INVALID. */
SKERRY_API int skerry_node_of(const skerry_job* job, int rank);
/* Number of ranks on `node`, or SKERRY_ERR_INVALID. */
SKERRY_API int skerry_node_size(const skerry_job* job, int node);
/* The i-th rank on `node`, in ascending order, 0 <= i < node_size; or SKERRY_ERR_INVALID. */
SKERRY_API int skerry_node_rank(const skerry_job* job, int node, int i);
/* 1 if `rank` shares memory with the caller, 0 if not, or SKERRY_ERR_INVALID. */
SKERRY_API int skerry_same_node(const skerry_job* job, int rank);
/* The skerry_thread_level in force: at least what skerry_init was asked for. */
SKERRY_API int skerry_thread_level_granted(const skerry_job* job);
/* What carries bytes between nodes: "tcp", "ofi:tcp", ... Valid as long as the job. */
SKERRY_API const char* skerry_fabric_name(const skerry_job* job);

/* ---- groups and collectives ---------------------------------------------------------------- */

typedef enum skerry_type {
  SKERRY_INT32 = 0,
  SKERRY_INT64 = 1,
  SKERRY_FLOAT = 2,
  SKERRY_DOUBLE = 3,
  SKERRY_COMPLEX_FLOAT = 4,  /* two floats: real, imaginary */
  SKERRY_COMPLEX_DOUBLE = 5, /* two doubles: real, imaginary */
  SKERRY_INT8 = 6,
  SKERRY_UINT8 = 7,
  SKERRY_INT16 = 8,
  SKERRY_UINT16 = 9,
  SKERRY_UINT32 = 10,
  SKERRY_UINT64 = 11,
  SKERRY_LONG_DOUBLE = 12 /* C's long double, 16 bytes */
} skerry_type;
/* Bytes of an element; 0 if there is no such type. Never blocks. */
SKERRY_API uint64_t skerry_type_bytes(int type);

/* What becomes of an element when it meets an operand: of updates, and but for the last two of
 * reductions. Integers wrap around. */
typedef enum skerry_operation {
  SKERRY_SUM = 0,
  SKERRY_PROD = 1,
  SKERRY_MIN = 2, /* not for complex */
  SKERRY_MAX = 3, /* not for complex */
  SKERRY_LAND = 4,
  SKERRY_LOR = 5,
  SKERRY_LXOR = 6, /* integers: 0 is false, the result is 0 or 1 */
  SKERRY_BAND = 7,
  SKERRY_BOR = 8,
  SKERRY_BXOR = 9,     /* integers */
  SKERRY_REPLACE = 10, /* the operand; updates only */
  SKERRY_NO_OP = 11    /* the element as it is; updates only */
} skerry_operation;
typedef skerry_operation skerry_reduction;

/* The group of all ranks. Never null; belongs to the job and cannot be freed. Never blocks. */
SKERRY_API skerry_group* skerry_world(skerry_job* job);
/* Splits `parent`: members with the same `color` >= 0 form a new group, ordered by (key, rank). A
 * negative color joins no group and gets *group = NULL. Collective over `parent`. Errors:
 * NO_MEMORY. */
SKERRY_API int skerry_group_split(skerry_group* parent, int color, int key, skerry_group** group);
/* Makes a group of the exchange's participants: ranks[i], for 0 <= i < exchange->count, is the job
 * rank of the participant at position i. Collective over the participants; other ranks take no
 * part. All get the same answer. Errors: INVALID (a rank that does not exist or comes twice, or a
 * position that is not the caller's), NETWORK, NO_MEMORY. */
SKERRY_API int skerry_group_create(skerry_job* job, const int* ranks,
                                   const skerry_exchange* exchange, skerry_group** group);
/* Makes a group of those members of `group` that live, in the same order: everything works in it.
 * Members that die meanwhile are left out. `group` is of no use afterwards, but segments and
 * mutexes of it can be used one-sidedly. A member that has not come `timeout_ns` (negative: no
 * limit) after the first ends the call on all others with TIMEOUT, which names it. Collective over
 * the members that live. Completes all operations, as skerry_fence_all; what fails since its target
 * died is not reported. Errors: TIMEOUT, UNSUPPORTED (without SKERRY_FAILURE_CONTINUES), INVALID
 * (it was shrunk before), NO_MEMORY, and those of operations. */
SKERRY_API int skerry_group_shrink(skerry_group* group, int64_t timeout_ns, skerry_group** shrunk);
/* The same with spares (`skerry run --spares`) in the places of the dead, so that the group has its
 * old size again, or as many members as there are. Later refills of that group make up for what was
 * missing. A spare waits in skerry_init, and returns from it when it is taken in; its world is a
 * group of itself alone, and remains so. It calls this with that world, and joins the others in the
 * new group. If that fails, by the time limit, it may call again, and waits until it is taken in
 * again. One that is not needed ends in skerry_init, with exit(0). Errors: as skerry_group_shrink;
 * PEER_DEAD (a spare that was not needed again: the others finalize). */
SKERRY_API int skerry_group_refill(skerry_group* group, int64_t timeout_ns, skerry_group** full);
/* How many spares a refill of the group would take in now, in a job of `skerry run --elastic`, as
 * far as this rank has heard; 0 in other jobs. All members that live refill, or none. Never
 * blocks. */
SKERRY_API int skerry_group_spares(const skerry_group* group);
/* Frees a group. Free its segments and mutexes first. Collective over the group. Errors: INVALID
 * (the world). */
SKERRY_API int skerry_group_free(skerry_group* group);
/* Number of members. Never blocks. */
SKERRY_API int skerry_group_size(const skerry_group* group);
/* Position of a job rank in the group, or SKERRY_ERR_INVALID. Never blocks. */
SKERRY_API int skerry_group_index(const skerry_group* group, int rank);
/* Job rank at a position, 0 <= index < group_size, or SKERRY_ERR_INVALID. Never blocks. */
SKERRY_API int skerry_group_rank(const skerry_group* group, int index);

/* A barrier after which all earlier operations of every member on members are remote done.
 * Collective. */
SKERRY_API int skerry_sync(skerry_group* group);
/* Returns when every member has called it. Orders the ranks, not their operations. Collective. */
SKERRY_API int skerry_barrier(skerry_group* group);
/* Copies `bytes` bytes of `buffer` from `root_rank` to all members. No barrier: it may return at a
 * member before others have called it. Collective. */
SKERRY_API int skerry_broadcast(skerry_group* group, void* buffer, uint64_t bytes, int root_rank);
/* Combines `count` elements of every member, element by element. In place: `buffer` holds the
 * caller's elements and then the result, at `root_rank` (reduce; elsewhere it is undefined) or
 * everywhere (allreduce). All members get the same bits. reduce is no barrier: it may return at
 * others than the root before all have called it. Collective. Errors: INVALID (a reduction
 * that the type does not have). */
SKERRY_API int skerry_reduce(skerry_group* group, int type, int reduction, void* buffer,
                             uint64_t count, int root_rank);
SKERRY_API int skerry_allreduce(skerry_group* group, int type, int reduction, void* buffer,
                                uint64_t count);
/* Every member gives `bytes` bytes, the same number everywhere. `out` has room for group_size *
 * bytes; those of the member at position i go to out + i * bytes. Collective. */
SKERRY_API int skerry_allgather(skerry_group* group, const void* in, uint64_t bytes, void* out);
/* allreduce with a function of the program: into[i] = into[i] (op) from[i] for `count` elements of
 * `element_bytes` bytes, 1 to 1024. It must be associative and commutative, and may not call
 * Skerry. Collective. */
typedef void (*skerry_combine)(void* context, void* into, const void* from, uint64_t count);
SKERRY_API int skerry_allreduce_by(skerry_group* group, uint64_t element_bytes,
                                   skerry_combine combine, void* context, void* buffer,
                                   uint64_t count);
/* `in` holds `count` elements for every member, by position; those for this member, combined over
 * all members, go to `out`. Otherwise as allreduce. Collective. */
SKERRY_API int skerry_reduce_scatter(skerry_group* group, int type, int reduction, const void* in,
                                     void* out, uint64_t count);
/* In place: what the members at positions up to this one's gave, combined in the order of
 * positions; exscan leaves this one's out, and `buffer` as it was at position 0. Collective. */
SKERRY_API int skerry_scan(skerry_group* group, int type, int reduction, void* buffer,
                           uint64_t count);
SKERRY_API int skerry_exscan(skerry_group* group, int type, int reduction, void* buffer,
                             uint64_t count);
/* Every member has `bytes` bytes for every other one, at `in` + position * bytes, and gets as many
 * from it, at `out` + position * bytes. alltoallv: unequal numbers at offsets in bytes; what the
 * member at position j has for this one (its in_bytes[i]) is this one's out_bytes[j]. `in` and
 * `out` do not overlap. Collective. Errors: NO_MEMORY (no memory for 384 KiB on every member, made
 * by the first call), UNSUPPORTED (more than 49,152 members). */
SKERRY_API int skerry_alltoall(skerry_group* group, const void* in, uint64_t bytes, void* out);
SKERRY_API int skerry_alltoallv(skerry_group* group, const void* in, const uint64_t* in_bytes,
                                const uint64_t* in_offsets, void* out, const uint64_t* out_bytes,
                                const uint64_t* out_offsets);

/* A non-blocking operation; 0 if none is under way. Wait for each handle exactly once, with
 * skerry_wait or skerry_test, in any order. */
typedef uint64_t skerry_handle;
/* Non-blocking forms: they begin the collective and set *handle, which may not be null. Do not
 * touch the buffer until the handle is done. A thread of the library goes on with it while the
 * program computes. All members begin those of a group in the same order; other collectives of the
 * group may come in between. The first one of a group also makes what these need, and waits for all
 * members. Collective. Errors: NO_MEMORY (no thread, or no memory for another group); those of the
 * collective itself come from skerry_wait and skerry_test. */
SKERRY_API int skerry_barrier_nb(skerry_group* group, skerry_handle* handle);
SKERRY_API int skerry_broadcast_nb(skerry_group* group, void* buffer, uint64_t bytes, int root_rank,
                                   skerry_handle* handle);
SKERRY_API int skerry_allreduce_nb(skerry_group* group, int type, int reduction, void* buffer,
                                   uint64_t count, skerry_handle* handle);

/* ---- segments ------------------------------------------------------------------------------ */

/* Allocates `bytes` bytes in each member, zeroed; the number may differ between members and may be
 * 0. Collective over the group; all members get the same answer. Errors: NO_MEMORY, whose message
 * tells what was asked for, what is free, and which limit was met. */
SKERRY_API int skerry_segment_alloc(skerry_group* group, uint64_t bytes, skerry_segment** segment);
/* The same, but a page takes memory only when it is first touched; until then it reads as zeros.
 * Where the machine then has none left, the process that touches it is killed by SIGBUS. */
SKERRY_API int skerry_segment_alloc_sparse(skerry_group* group, uint64_t bytes,
                                           skerry_segment** segment);
/* Completes the operations on the segment, then frees it and all its slices. Collective over its
 * group. */
SKERRY_API int skerry_segment_free(skerry_segment* segment);
/* Bytes of a member's slice; 0 if `rank` is no member. Never blocks. */
SKERRY_API uint64_t skerry_segment_bytes(const skerry_segment* segment, int rank);
/* The own slice, aligned to 4096 bytes; null if it has 0 bytes. Valid until the segment is freed.
 * Never blocks. */
SKERRY_API void* skerry_segment_local(const skerry_segment* segment);
/* The slice of a member on the own node, for direct loads and stores; null if `rank` is on another
 * node or no member. Valid until the segment is freed. Never blocks. */
SKERRY_API void* skerry_segment_pointer(const skerry_segment* segment, int rank);
/* Names the caller's slice for tools that look at the running job from outside (sk.attach), until
 * the segment is freed; an empty name takes it away. `text` says what is in the slice; null or
 * empty: bytes. Local: not collective. At most 63 and 447 bytes. */
SKERRY_API int skerry_segment_label(skerry_segment* segment, const char* name, const char* text);
/* The address of `rank`'s slice as `rank` itself sees it: what skerry_segment_local returns there.
 * 0 if it has no slice. Never blocks. */
SKERRY_API uint64_t skerry_segment_address(const skerry_segment* segment, int rank);
/* Finds the live segment, and the offset in it, of `address` in the address space of `rank`. The
 * group that allocated the segment still owns it. Never blocks. Errors: RANGE (there is none). */
SKERRY_API int skerry_segment_find(skerry_job* job, int rank, uint64_t address,
                                   skerry_segment** segment, uint64_t* offset);
/* The group that allocated the segment; belongs to its own owner. Never blocks. */
SKERRY_API skerry_group* skerry_segment_group(const skerry_segment* segment);

/* For views that outlive their segment. While the memory at `address` is held, this process can
 * read and write it, though the segment or window is freed or the job has ended. Others no longer
 * see that. `address` is what skerry_segment_local or _pointer, or skerry_window_local or _pointer
 * returned. The own slice keeps its contents. Call skerry_memory_unhold once for each hold, at any
 * time. Never blocks. Errors: INVALID (no segment's memory is there). */
SKERRY_API int skerry_memory_hold(const void* address);
SKERRY_API void skerry_memory_unhold(const void* address);

/* Private memory of this process that suits transfers (page aligned), until skerry_buffer_free. Any
 * other memory may serve as an origin buffer, too. Never blocks. Errors: NO_MEMORY. */
SKERRY_API int skerry_buffer_alloc(skerry_job* job, uint64_t bytes, void** memory);
/* `memory` may be null. Never blocks. */
SKERRY_API int skerry_buffer_free(skerry_job* job, void* memory);

/* ---- put, get, accumulate ------------------------------------------------------------------ */

#define SKERRY_MAX_LEVELS 8

/* A strided transfer: count[0] * ... * count[levels-1] blocks of `block_bytes` bytes each. One step
 * of index k moves the origin address by origin_stride[k] bytes and the target offset by
 * target_stride[k] bytes. With levels 0 it is one contiguous block. */
typedef struct skerry_strided {
  uint64_t block_bytes;
  int32_t levels;   /* 0..SKERRY_MAX_LEVELS */
  int32_t reserved; /* must be 0 */
  uint64_t count[SKERRY_MAX_LEVELS];
  int64_t origin_stride[SKERRY_MAX_LEVELS];
  int64_t target_stride[SKERRY_MAX_LEVELS];
} skerry_strided;

/* One piece of a vector transfer. */
typedef struct skerry_piece {
  void* origin;    /* origin buffer (read by put and accumulate, written by get) */
  uint64_t offset; /* in the target's slice */
  uint64_t bytes;
} skerry_piece;

/* Given as `handle`: the operation joins the implicit set, for skerry_wait_implicit. */
#define SKERRY_IMPLICIT ((skerry_handle*)0)

/* Copies `bytes` bytes from `origin` to `offset` of `rank`'s slice. Returns at source done. Errors:
 * RANGE. */
SKERRY_API int skerry_put(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                          uint64_t bytes);
/* Copies `bytes` bytes from `offset` of `rank`'s slice to `origin`. Returns with the data. Errors:
 * RANGE. */
SKERRY_API int skerry_get(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                          uint64_t bytes);
/* target[i] += scale * origin[i] for `count` elements. Each element is atomic with every other
 * accumulate and read-modify-write. `scale` points to one element of `type`; null means 1. `offset`
 * is a multiple of the element's size (complex: of its part's). Returns at source done. Errors:
 * RANGE, INVALID. */
SKERRY_API int skerry_acc(skerry_segment* segment, int rank, uint64_t offset, int type,
                          const void* scale, const void* origin, uint64_t count);

/* The same for strided memory. `origin` and `offset` are where the first block starts; blocks of
 * accumulates are whole elements. */
SKERRY_API int skerry_put_strided(skerry_segment* segment, int rank, uint64_t offset,
                                  const void* origin, const skerry_strided* shape);
SKERRY_API int skerry_get_strided(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                                  const skerry_strided* shape);
SKERRY_API int skerry_acc_strided(skerry_segment* segment, int rank, uint64_t offset, int type,
                                  const void* scale, const void* origin,
                                  const skerry_strided* shape);

/* The same for `piece_count` pieces anywhere in one slice. Pieces of accumulates are whole
 * elements. Which piece wins where pieces of one put overlap is undefined. */
SKERRY_API int skerry_put_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                                 uint64_t piece_count);
SKERRY_API int skerry_get_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                                 uint64_t piece_count);
SKERRY_API int skerry_acc_vector(skerry_segment* segment, int rank, int type, const void* scale,
                                 const skerry_piece* pieces, uint64_t piece_count);

/* Non-blocking forms: they start the operation and set *handle. Do not touch the origin buffers
 * until the handle is done: at source done for put and accumulate, with the data for get.
 * Descriptors (shape, pieces, scale) are copied. Any number may be under way. A call may block
 * while too many requests to one server are unanswered (docs/tuning.md). */
SKERRY_API int skerry_put_nb(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                             uint64_t bytes, skerry_handle* handle);
SKERRY_API int skerry_get_nb(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                             uint64_t bytes, skerry_handle* handle);
SKERRY_API int skerry_acc_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                             const void* scale, const void* origin, uint64_t count,
                             skerry_handle* handle);
SKERRY_API int skerry_put_strided_nb(skerry_segment* segment, int rank, uint64_t offset,
                                     const void* origin, const skerry_strided* shape,
                                     skerry_handle* handle);
SKERRY_API int skerry_get_strided_nb(skerry_segment* segment, int rank, uint64_t offset,
                                     void* origin, const skerry_strided* shape,
                                     skerry_handle* handle);
SKERRY_API int skerry_acc_strided_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                                     const void* scale, const void* origin,
                                     const skerry_strided* shape, skerry_handle* handle);
SKERRY_API int skerry_put_vector_nb(skerry_segment* segment, int rank, const skerry_piece* pieces,
                                    uint64_t piece_count, skerry_handle* handle);
SKERRY_API int skerry_get_vector_nb(skerry_segment* segment, int rank, const skerry_piece* pieces,
                                    uint64_t piece_count, skerry_handle* handle);
SKERRY_API int skerry_acc_vector_nb(skerry_segment* segment, int rank, int type, const void* scale,
                                    const skerry_piece* pieces, uint64_t piece_count,
                                    skerry_handle* handle);

/* Waits for one operation and sets *handle to 0. Returns at once if it is 0. Errors: INVALID (not
 * an operation under way). */
SKERRY_API int skerry_wait(skerry_job* job, skerry_handle* handle);
/* Sets *done to 1 and *handle to 0 if the operation is done, otherwise *done to 0. Makes progress.
 * Never blocks. */
SKERRY_API int skerry_test(skerry_job* job, skerry_handle* handle, int* done);
/* Waits for the implicit set: all operations of this rank that were started with SKERRY_IMPLICIT.
 * Operations with a handle of their own are not waited for. */
SKERRY_API int skerry_wait_implicit(skerry_job* job);

/* Returns when everything that this rank issued to `rank`, to the ranks of `node`, or to all ranks
 * is remote done, non-blocking operations included. Errors: also what the target refused of earlier
 * puts, accumulates and unlocks. */
SKERRY_API int skerry_fence(skerry_job* job, int rank);
SKERRY_API int skerry_fence_node(skerry_job* job, int node);
SKERRY_API int skerry_fence_all(skerry_job* job);

/* ---- read-modify-write --------------------------------------------------------------------- */

/* Change one word of `rank`'s slice, atomically with every other read-modify-write and accumulate.
 * `offset` is a multiple of the word's size, 8 or 4 bytes. *result, if not null, is the old value.
 * Remote done on return. Errors: RANGE, INVALID. */
SKERRY_API int skerry_fetch_add_i64(skerry_segment* segment, int rank, uint64_t offset,
                                    int64_t value, int64_t* result);
SKERRY_API int skerry_fetch_add_i32(skerry_segment* segment, int rank, uint64_t offset,
                                    int32_t value, int32_t* result);
SKERRY_API int skerry_swap_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t value,
                               int64_t* result);
SKERRY_API int skerry_swap_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t value,
                               int32_t* result);
/* Stores `desired` if the word is `expected`; it was if *result equals `expected`. */
SKERRY_API int skerry_compare_swap_i64(skerry_segment* segment, int rank, uint64_t offset,
                                       int64_t expected, int64_t desired, int64_t* result);
SKERRY_API int skerry_compare_swap_i32(skerry_segment* segment, int rank, uint64_t offset,
                                       int32_t expected, int32_t desired, int32_t* result);

/* ---- update -------------------------------------------------------------------------------- */

/* target[i] = target[i] (operation) origin[i] for `count` elements of `rank`'s slice, from `offset`
 * on. Each element is changed atomically with every other update, accumulate and read-modify-write;
 * the update as a whole is not. `offset` is a multiple of the element's size (complex: of its
 * part's). With SKERRY_NO_OP `origin` is not read and may be null. Returns at source done. Errors:
 * RANGE, INVALID (also an operation that the type does not have).
 * Source: MPI_Accumulate, MPI 4.1, section 12.3.4. */
SKERRY_API int skerry_update(skerry_segment* segment, int rank, uint64_t offset, int type,
                             int operation, const void* origin, uint64_t count);
/* The same; result[i] is what target[i] was before. With SKERRY_NO_OP it reads, each element at
 * once. `result` has room for `count` elements and does not overlap `origin`. Returns with the
 * data; the update is remote done then. Source: MPI_Get_accumulate, as above. */
SKERRY_API int skerry_fetch_update(skerry_segment* segment, int rank, uint64_t offset, int type,
                                   int operation, const void* origin, void* result, uint64_t count);
/* Non-blocking forms. Do not touch the buffers until the handle is done: at source done, and with
 * the data. */
SKERRY_API int skerry_update_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                                int operation, const void* origin, uint64_t count,
                                skerry_handle* handle);
SKERRY_API int skerry_fetch_update_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                                      int operation, const void* origin, void* result,
                                      uint64_t count, skerry_handle* handle);

/* ---- notification -------------------------------------------------------------------------- */

/* Puts `bytes` bytes (may be 0), then adds `increment` to the 64-bit counter at `counter_offset` of
 * the same slice, a multiple of 8. A reader that sees the counter's new value sees the data.
 * Returns at source done. Errors: RANGE, INVALID. */
SKERRY_API int skerry_put_notify(skerry_segment* segment, int rank, uint64_t offset,
                                 const void* origin, uint64_t bytes, uint64_t counter_offset,
                                 uint64_t increment);
/* Sleeps until the counter at `counter_offset` of the own slice is at least `at_least` (unsigned).
 * timeout_ns < 0: no time limit. *value, if not null, is the counter. skerry_put_notify wakes the
 * sleeper; it notices a plain put or fetch-and-add on the counter within 0.2 s. Errors: TIMEOUT. */
SKERRY_API int skerry_notify_wait(skerry_segment* segment, uint64_t counter_offset,
                                  uint64_t at_least, int64_t timeout_ns, uint64_t* value);

/* ---- mutexes ------------------------------------------------------------------------------- */

/* Each member hosts `count` mutexes; the number may differ between members and may be 0. Mutexes
 * are fair over windows of time: first come, first served. But ranks that run may take a mutex of
 * their own node past one that sleeps, for about 1 ms at most. Waiters sleep. Collective over the
 * group. Errors: NO_MEMORY. */
SKERRY_API int skerry_mutexes_create(skerry_group* group, uint32_t count, skerry_mutexes** mutexes);
/* Frees them; none may be held. Collective over the group. */
SKERRY_API int skerry_mutexes_free(skerry_mutexes* mutexes);
/* OWNER_DIED (with SKERRY_FAILURE_CONTINUES): the mutex is the caller's, but the rank that held it
 * before died with it, and what it guards may be half changed. Unlock it as usual.
 * Locks mutex `index` of `rank`, 0 <= index < count of that rank. Errors: RANGE; INVALID if the
 * caller holds it already. At thread level multiple the holder is a thread, otherwise the rank. */
SKERRY_API int skerry_mutex_lock(skerry_mutexes* mutexes, int rank, uint32_t index);
/* Unlocks it. What the holder issued to `rank`'s node before is remote done before the next holder
 * gets the mutex. Errors: INVALID if the caller does not hold it; if `rank` is on another node the
 * next fence or sync tells that. */
SKERRY_API int skerry_mutex_unlock(skerry_mutexes* mutexes, int rank, uint32_t index);

/* ---- protected memory ---------------------------------------------------------------------- */

/* Memory of the program that outlives deaths, in a job that goes on (SKERRY_FAILURE_CONTINUES,
 * docs/going-on.md). Three calls make a loop that goes on by itself:
 *
 *   skerry_protected_create(skerry_world(job), 1, &kept);
 *   skerry_protected_add(kept, mine, bytes);
 *   while ((status = skerry_protected_next(kept, 100, 5, status, &step, &group)) == SKERRY_OK &&
 *          step < 100)
 *     status = work(step, group);
 *
 * What the members have added is saved before each fifth step: it is the *state* to go back to. A
 * member keeps two copies of it in the memory of its node, and two in that of its *partner*, a
 * member on another node. After a death all go on from the last state, in a group of those that
 * live, with spares in the places of the dead. Not of several threads at once. */

/* Of the members of `group`; a spare gives its world. Partners are on the node that is `distance`
 * nodes further in the group, 1 or more. 0: there are none, and what a node has outlives all its
 * ranks but the leader. A state is lost if a member's node and its partner's die before the next
 * one is complete. Not collective. Errors: INVALID (a distance below 0). */
SKERRY_API int skerry_protected_create(skerry_group* group, int distance,
                                       skerry_protected** kept);
/* Frees the copies, whatever the result; not the program's memory. Where a member has died, copies
 * stay in memory until the job ends. Collective over skerry_protected_group, those that live; not
 * collective if that group has been freed. */
SKERRY_API int skerry_protected_free(skerry_protected* kept);
/* Adds `bytes` bytes of the program, which stay where they are until they are forgotten. In all as
 * many on every member. What is added within a loop has a part in the states from the next one on:
 * all members add it in the same step. A death before that state ends the loop with INVALID,
 * unless a skerry_divide takes the last one. Not collective. */
SKERRY_API int skerry_protected_add(skerry_protected* kept, void* memory,
                                    uint64_t bytes);
/* Forgets all that was added, as the program has it elsewhere now. Not collective. */
SKERRY_API int skerry_protected_forget(skerry_protected* kept);

/* The loop. Sets *step to the step that is to be done now, from 0 on, and to `steps` at the end;
 * *group to the group to do it in. Before each `every`-th step, and at the end, it saves what was
 * added. `status` is what the work on the last step has returned, and SKERRY_OK at first. After
 * SKERRY_ERR_PEER_DEAD the step goes back to the last state, and every member has what the member
 * at its position had. If fewer live, see skerry_protected_divide. Any other error ends the loop
 * and is returned; skerry_last_error has its message as before. It ends it on this member alone:
 * the others wait for it. The call after the loop's end begins it again, at step 0. On a spare the
 * first loop begins where the others are, whichever of theirs it is.
 * `steps` (0: it saves once, and ends) and `every` (1 or more) are the same on all members and in
 * all calls of a loop. Collective. Errors: PEER_DEAD (what cannot be mended: a state is lost, or
 * there was none yet), INVALID (`every` is 0; they differ), and those of save and recover. */
SKERRY_API int skerry_protected_next(skerry_protected* kept, uint64_t steps,
                                     uint64_t every, int status, uint64_t* step,
                                     skerry_group** group);
/* Given to skerry_protected_next: takes what this member needs of the state by
 * skerry_protected_read, for a group of another size. It may forget and add memory. Returns
 * SKERRY_OK, or the status of a call that failed. */
typedef int (*skerry_divide)(void* context, skerry_protected* kept);
/* Null: fewer members are an error (default). Not collective. */
SKERRY_API int skerry_protected_divide(skerry_protected* kept, skerry_divide divide,
                                       void* context);

/* Without the loop. save makes what was added the state, which belongs to `step`, from 0 on: on all
 * members or, with an error, on none. Only tiles of 4 KiB that changed since the state before the
 * last are sent. Ranks whose host is drained end in it, with exit status 0 (skerry_is_leaving); the
 * others get PEER_DEAD, and have saved. Collective. Errors: PEER_DEAD, INVALID (members give
 * different steps or numbers of bytes; no partner: one node), NO_MEMORY. */
SKERRY_API int skerry_protected_save(skerry_protected* kept, int64_t step);
/* After a PEER_DEAD, and on a spare at first: skerry_protected_group is that of those that live,
 * with spares in the places of the dead, and skerry_protected_read has the last state. The
 * program's memory stays as it is. `timeout_ns` as of skerry_group_refill. Collective over those
 * that live. Errors: PEER_DEAD (a member's copies are lost with its node and its partner's; or a
 * spare was not needed), TIMEOUT, NO_MEMORY. */
SKERRY_API int skerry_protected_recover(skerry_protected* kept, int64_t timeout_ns);
/* Copies `bytes` bytes at `offset` of what the member at position `place` had saved. Not
 * collective. Errors: INVALID (there are no such bytes), PEER_DEAD. */
SKERRY_API int skerry_protected_read(skerry_protected* kept, int place, uint64_t offset,
                                     void* to, uint64_t bytes);

/* Never block. The group that lives, as far as the calls above have told. After
 * skerry_protected_free the answers are NULL, -1 and 0. */
SKERRY_API skerry_group* skerry_protected_group(const skerry_protected* kept);
/* Of the last state: its step (-1: there is none yet), the members that had a part in it, and the
 * bytes of each. */
SKERRY_API int64_t skerry_protected_step(const skerry_protected* kept);
SKERRY_API int skerry_protected_places(const skerry_protected* kept);
SKERRY_API uint64_t skerry_protected_bytes(const skerry_protected* kept);
/* How often skerry_protected_next has brought the state back. */
SKERRY_API int skerry_protected_recoveries(const skerry_protected* kept);

/* ---- counters ------------------------------------------------------------------------------ */

/* What this process has done since skerry_init, as a list: docs/counters.md shows it. A counter is
 * known by its name. Its index (0..count-1) is good for one version of the library only, and later
 * versions may have more counters. */

/* How values of several processes, or of two moments, belong together. */
typedef enum skerry_kind {
  SKERRY_COUNTER_TOTAL = 0, /* only grows: differences and sums make sense */
  SKERRY_COUNTER_NOW = 1,   /* the present value: sums make sense */
  SKERRY_COUNTER_PEAK = 2   /* the highest value so far: only the maximum makes sense */
} skerry_kind;

/* Number of counters. None of these blocks for other processes. */
SKERRY_API int skerry_counter_count(void);
/* Index of the counter with this name, or SKERRY_ERR_INVALID. */
SKERRY_API int skerry_counter_find(const char* name);
/* Name, unit ("bytes", "ns", ...) and description (one line) of a counter. Literals, never freed;
 * null if there is no such index. */
SKERRY_API const char* skerry_counter_name(int index);
SKERRY_API const char* skerry_counter_unit(int index);
SKERRY_API const char* skerry_counter_description(int index);
/* A skerry_kind, or SKERRY_ERR_INVALID if there is no such index. */
SKERRY_API int skerry_counter_kind(int index);
/* One counter's value. Errors: INVALID. */
SKERRY_API int skerry_counter_value(const skerry_job* job, int index, uint64_t* value);
/* values[i] is counter i for 0 <= i < count, all read at one moment; 0 where there is no counter i.
 * Errors: INVALID. */
SKERRY_API int skerry_counter_values(const skerry_job* job, int count, uint64_t* values);

/* Memory that communication takes in this process now, in bytes, without what the operating system
 * and a provider's library keep. `skerry info --connections` measures the operating system's part.
 * Set `size` before the call; no more than that is written. */
typedef struct skerry_memory {
  size_t size;                 /* sizeof(skerry_memory) */
  uint64_t connections;        /* of this process to data servers */
  uint64_t connection_bytes;   /* memory of these connections */
  uint64_t servers_known;      /* data servers that this process has talked to */
  uint64_t known_bytes;        /* memory kept for those, connected or not */
  uint64_t fixed_bytes;        /* memory that does not depend on their number */
  uint64_t server_connections; /* of ranks to the data server in this process; this field and the
                                  next four are 0 in a process without one */
  uint64_t server_connection_bytes;
  uint64_t server_ranks_known; /* ranks that ever connected to it */
  uint64_t server_known_bytes; /* memory it keeps for those, connected or not */
  uint64_t server_fixed_bytes;
  uint64_t
      node_table_bytes;  /* the table of nodes and addresses, once for all processes of a node */
  uint64_t waiter_bytes; /* records of those that wait for mutexes of the node, once for a node */
  uint64_t group_bytes;  /* which ranks the groups of this process have */
  uint64_t segment_table_bytes; /* where the slices of live segments are, if not all alike; once for
                                   a node */
} skerry_memory;
/* In the process of a data server it waits for the server's thread: do not call it in inner
 * loops. */
SKERRY_API int skerry_memory_read(const skerry_job* job, skerry_memory* memory);

/* ---- connections ---------------------------------------------------------------------------- */

/* From now on this process keeps at most `max_connections` connections to data servers, as
 * SKERRY_MAX_CONN sets it at the start; 0: no limit. At the limit a new partner takes the place of
 * an old one that SKERRY_VICTIM chooses. The operations of the old connection are completed, then
 * it closes while the new one opens, so that there is one more for a moment. Connections in excess
 * close as their places are needed. Not collective. Errors: INVALID (more than 2^24). Source: A.
 * Vishnu, M. Krishnan, P. Balaji, "Dynamic Time-Variant Connection Management for PGAS Models on
 * InfiniBand", section IV. */
SKERRY_API int skerry_connections_limit(skerry_job* job, uint32_t max_connections);

#ifdef __cplusplus
}
#endif
#endif /* SKERRY_SKERRY_H */
