/* skerry.h: one-sided communication between the processes of a parallel job (C11, C++ callable).
 *
 * A job is a set of *ranks*, numbered 0..size-1. Ranks that share memory form a *node*. A *segment*
 * is memory that the members of a *group* allocate together; every member owns a slice of it. Any
 * member may read, write, add to and lock the memory of any other without that rank taking part.
 *
 * Completion. *Source done*: the origin may reuse its buffer. *Remote done*: the effect is visible
 * at the target. Blocking put and accumulate return at source done; get and read-modify-write
 * return with the data. A fence returns at remote done. Order: operations of one rank on one target
 * rank take effect in issue order; between different targets there is none (docs/memory-model.md).
 *
 * Ranks in every call are job ranks, also for segments and groups that have fewer members. Sizes
 * and offsets are bytes unless a name says otherwise, and 64 bits wide. Every function returns
 * SKERRY_OK or a status below zero and then leaves its outputs untouched; skerry_last_error() tells
 * the calling thread what went wrong, with values and remedy.
 *
 * Threads: see skerry_thread_level. All calls may block unless stated otherwise; a call that waits
 * sleeps, and returns SKERRY_ERR_PEER_DEAD when a rank it waits for has died.
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

/* ---- status
 * -------------------------------------------------------------------------------------------------
 */

typedef enum skerry_status {
  SKERRY_OK = 0,
  SKERRY_ERR_INVALID = -1,   /* an argument is wrong: rank, offset, size, type, null pointer */
  SKERRY_ERR_RANGE = -2,     /* the bytes touched lie outside the target's slice */
  SKERRY_ERR_FREED = -3,     /* the segment, group or mutex set was freed */
  SKERRY_ERR_NO_MEMORY = -4, /* not enough memory on this machine or within its cgroup; every member
                                gets the same answer */
  SKERRY_ERR_PEER_DEAD = -5, /* a rank or node needed for this call has died */
  SKERRY_ERR_TIMEOUT = -6,   /* the time given by the caller has passed */
  SKERRY_ERR_NETWORK = -7,   /* no usable interface, or a connection could not be made */
  SKERRY_ERR_CONFIG = -8,    /* a SKERRY_* variable or an option is wrong */
  SKERRY_ERR_UNSUPPORTED = -9, /* this build or fabric cannot do it */
  SKERRY_ERR_FORKED = -10, /* called in a forked child: start a new program instead (fork + exec) */
  SKERRY_ERR_THREAD = -11, /* called from a thread that the granted thread level does not allow */
  SKERRY_ERR_INTERNAL = -12 /* a broken invariant of Skerry itself: please report it */
} skerry_status;

/* The name of a status, e.g. "SKERRY_ERR_RANGE". Never null. */
SKERRY_API const char* skerry_status_name(int status);
/* What went wrong in the calling thread's last failed call. Never null; valid until that thread's
 * next failing call. */
SKERRY_API const char* skerry_last_error(void);
/* "0.1.0" */
SKERRY_API const char* skerry_version(void);

/* ---- job
 * -------------------------------------------------------------------------------------------------
 */

typedef struct skerry_job skerry_job;
typedef struct skerry_group skerry_group;
typedef struct skerry_segment skerry_segment;
typedef struct skerry_mutexes skerry_mutexes;

typedef enum skerry_thread_level {
  SKERRY_THREAD_SINGLE = 0,     /* only the thread that called skerry_init calls Skerry */
  SKERRY_THREAD_SERIALIZED = 1, /* any thread, one at a time */
  SKERRY_THREAD_MULTIPLE = 2    /* any thread at any time */
} skerry_thread_level;

typedef enum skerry_on_failure {
  SKERRY_FAILURE_ENDS_JOB = 0, /* a dead rank ends the job with one message (default) */
  SKERRY_FAILURE_RETURNS = 1   /* calls return SKERRY_ERR_PEER_DEAD instead */
} skerry_on_failure;

/* How processes that somebody else has connected (by an MPI communicator, say) reach each other
 * while Skerry does not connect them yet. Used only inside the call that it is given to. */
typedef struct skerry_exchange {
  size_t size;      /* sizeof(skerry_exchange) */
  int32_t position; /* of the caller among the participants, 0..count-1 */
  int32_t count;    /* participants */
  void* context;    /* handed to the functions */
  /* Collective over the participants: `bytes` bytes (equal everywhere) of participant i land at out
   * + i x bytes. Returns 0, or else the call in progress fails with SKERRY_ERR_NETWORK. */
  int (*allgather)(void* context, const void* in, uint64_t bytes, void* out);
  /* skerry_init only, may be null: ends all participants, or returns if it cannot any more. Unlike
   * allgather it may be called as long as the job lives, and from any thread. */
  void (*abort)(void* context, int exit_status);
} skerry_exchange;

/* Set `size` to sizeof(skerry_options) and zero the rest for defaults: SKERRY_OPTIONS_INIT does. */
typedef struct skerry_options {
  size_t size;                     /* of this struct, so that later versions may grow it */
  int32_t thread_level;            /* skerry_thread_level asked for; what is granted:
                                      skerry_thread_level_granted */
  int32_t on_failure;              /* skerry_on_failure */
  const skerry_exchange* exchange; /* the job is its participants, ranks are positions; null:
                                      whoever started the process says */
} skerry_options;
#define SKERRY_OPTIONS_INIT \
  {sizeof(skerry_options), SKERRY_THREAD_SINGLE, SKERRY_FAILURE_ENDS_JOB, NULL}

/* Joins the job. Collective over all ranks. Finds out who it is from options->exchange or else, in
 * this order: `skerry run`, an initialised MPI, PMIx, PMI-1; otherwise the job has one rank.
 * `options` may be null. Errors: CONFIG, NETWORK, NO_MEMORY. */
SKERRY_API int skerry_init(const skerry_options* options, skerry_job** job);
/* Leaves the job; completes all outstanding operations first. Collective. `job` is invalid
 * afterwards. Segments and groups still alive are freed. */
SKERRY_API int skerry_finalize(skerry_job* job);
/* Something to do for others while this rank waits, such as letting an MPI progress that does so
 * only when it is called: `work(context)` is called every 0.1 to 1 ms by calls that wait until
 * other ranks make a call too (collectives, skerry_lock, skerry_notify_wait), in the waiting
 * thread. It must not call Skerry. Null: nothing (default). To be set while no other thread of this
 * rank waits. Never blocks. */
SKERRY_API int skerry_while_waiting(skerry_job* job, void (*work)(void* context), void* context);
/* Ends the whole job at once with `exit_status` and a message that names this rank. Does not
 * return. */
SKERRY_API void skerry_abort(skerry_job* job, int exit_status, const char* reason);

SKERRY_API int skerry_rank(const skerry_job* job);  /* own rank, 0..size-1 */
SKERRY_API int skerry_size(const skerry_job* job);  /* number of ranks */
SKERRY_API int skerry_nodes(const skerry_job* job); /* number of nodes */
SKERRY_API int skerry_node_of(const skerry_job* job,
                              int rank); /* node of `rank`, 0..nodes-1, or ERR_INVALID */
SKERRY_API int skerry_node_size(const skerry_job* job,
                                int node); /* ranks on `node`, or ERR_INVALID */
SKERRY_API int skerry_node_rank(const skerry_job* job, int node,
                                int i); /* i-th rank (ascending) on `node`, or ERR_INVALID */
SKERRY_API int skerry_same_node(const skerry_job* job,
                                int rank); /* 1 if `rank` shares memory with the caller, else 0 */
SKERRY_API int skerry_thread_level_granted(const skerry_job* job);
SKERRY_API const char* skerry_fabric_name(const skerry_job* job); /* "tcp", "ofi:tcp", ... */

/* ---- groups and collectives ---------------------------------------------------------------- */

typedef enum skerry_type {
  SKERRY_INT32 = 0,
  SKERRY_INT64 = 1,
  SKERRY_FLOAT = 2,
  SKERRY_DOUBLE = 3,
  SKERRY_COMPLEX_FLOAT = 4, /* two floats: real, imaginary */
  SKERRY_COMPLEX_DOUBLE = 5 /* two doubles: real, imaginary */
} skerry_type;
SKERRY_API uint64_t skerry_type_bytes(int type); /* 4, 8, 4, 8, 8, 16; 0 if unknown */

typedef enum skerry_reduction {
  SKERRY_SUM = 0,
  SKERRY_PROD = 1,
  SKERRY_MIN = 2, /* not for complex */
  SKERRY_MAX = 3, /* not for complex */
  SKERRY_LAND = 4,
  SKERRY_LOR = 5,
  SKERRY_LXOR = 6, /* integers: 0 is false, the result is 0 or 1 */
  SKERRY_BAND = 7,
  SKERRY_BOR = 8,
  SKERRY_BXOR = 9 /* integers */
} skerry_reduction;

/* The group of all ranks. Never null; owned by the job. */
SKERRY_API skerry_group* skerry_world(skerry_job* job);
/* Splits `parent`: members that give the same `color` >= 0 form a new group, ordered by (key,
 * rank); a negative color joins none and gets *group = NULL. Collective over `parent`. */
SKERRY_API int skerry_group_split(skerry_group* parent, int color, int key, skerry_group** group);
/* Makes a group of the exchange's participants; ranks[i] is the job rank of the one at position i.
 * Collective over the participants only: nobody else takes part. All of them get the same answer.
 * Errors: INVALID (a rank that does not exist or is there twice, a position that is not the
 * caller's), NETWORK, NO_MEMORY. */
SKERRY_API int skerry_group_create(skerry_job* job, const int* ranks,
                                   const skerry_exchange* exchange, skerry_group** group);
/* Collective over the group. The world cannot be freed. */
SKERRY_API int skerry_group_free(skerry_group* group);
SKERRY_API int skerry_group_size(const skerry_group* group);
SKERRY_API int skerry_group_index(
    const skerry_group* group, int rank); /* position of a job rank in the group, or ERR_INVALID */
SKERRY_API int skerry_group_rank(const skerry_group* group,
                                 int index); /* job rank at a position, or ERR_INVALID */

/* Collective over the group; all operations of every member on members of the group are remote done
 * afterwards. */
SKERRY_API int skerry_sync(skerry_group* group);
/* Collective; orders nothing but the ranks themselves. */
SKERRY_API int skerry_barrier(skerry_group* group);
SKERRY_API int skerry_broadcast(skerry_group* group, void* buffer, uint64_t bytes, int root_rank);
/* In place: `buffer` holds the contribution and, at `root_rank` (reduce) or everywhere (allreduce),
 * the result. Sums of floating point numbers are the same on every member of one call. */
SKERRY_API int skerry_reduce(skerry_group* group, int type, int reduction, void* buffer,
                             uint64_t count, int root_rank);
SKERRY_API int skerry_allreduce(skerry_group* group, int type, int reduction, void* buffer,
                                uint64_t count);
/* `out` has room for group size x `bytes`; member i's bytes land at i x `bytes`. */
SKERRY_API int skerry_allgather(skerry_group* group, const void* in, uint64_t bytes, void* out);

/* ---- segments
 * -------------------------------------------------------------------------------------------------
 */

/* Allocates `bytes` (may differ between members, may be 0) in each member, zeroed. Collective over
 * the group; all members get the same answer. Errors: NO_MEMORY names what was asked for, what is
 * there, and the limit that was met. */
SKERRY_API int skerry_segment_alloc(skerry_group* group, uint64_t bytes, skerry_segment** segment);
/* Completes outstanding operations on it, then frees. Collective over its group. */
SKERRY_API int skerry_segment_free(skerry_segment* segment);
SKERRY_API uint64_t skerry_segment_bytes(
    const skerry_segment* segment, int rank); /* size of a member's slice; 0 if not a member */
/* Own slice. Null if it has 0 bytes. Aligned to 4096. */
SKERRY_API void* skerry_segment_local(const skerry_segment* segment);
/* A same-node member's slice as mapped by the caller, for direct loads and stores; null if it is on
 * another node or no member. */
SKERRY_API void* skerry_segment_pointer(const skerry_segment* segment, int rank);
/* The address of `rank`'s slice in the address space of `rank` itself (what that rank's
 * skerry_segment_local returns). */
SKERRY_API uint64_t skerry_segment_address(const skerry_segment* segment, int rank);
/* Which live segment and offset contain `address` of `rank`'s own address space. Errors: RANGE. */
SKERRY_API int skerry_find(skerry_job* job, int rank, uint64_t address, skerry_segment** segment,
                           uint64_t* offset);
SKERRY_API skerry_group* skerry_segment_group(const skerry_segment* segment);

/* Private memory that suits transfers (page aligned). Any memory may be an origin buffer; this is
 * never slower. */
SKERRY_API int skerry_alloc_local(skerry_job* job, uint64_t bytes, void** memory);
SKERRY_API int skerry_free_local(skerry_job* job, void* memory);

/* ---- put, get, accumulate
 * ------------------------------------------------------------------------------------------------
 */

#define SKERRY_MAX_LEVELS 8

/* A strided transfer: blocks of `block_bytes` repeated count[0] x ... x count[levels-1] times; the
 * k-th index steps the origin address by origin_stride[k] bytes and the target offset by
 * target_stride[k] bytes. levels 0 is contiguous. */
typedef struct skerry_strided {
  uint64_t block_bytes;
  int32_t levels;   /* 0..SKERRY_MAX_LEVELS */
  int32_t reserved; /* 0 */
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

/* A non-blocking operation. Zero: nothing outstanding. Explicit handles are waited for in any
 * order, exactly once. */
typedef uint64_t skerry_handle;
/* Pass as `handle` to count towards the job's implicit set (skerry_wait_all). */
#define SKERRY_IMPLICIT ((skerry_handle*)0)

SKERRY_API int skerry_put(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                          uint64_t bytes);
SKERRY_API int skerry_get(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                          uint64_t bytes);
/* target[i] += scale * origin[i] for `count` elements, each element atomically with every other
 * accumulate and read-modify-write. `scale` points to one element of `type`; null means one.
 * `offset` must be a multiple of the element's size (complex: of its part). */
SKERRY_API int skerry_acc(skerry_segment* segment, int rank, uint64_t offset, int type,
                          const void* scale, const void* origin, uint64_t count);

SKERRY_API int skerry_put_strided(skerry_segment* segment, int rank, uint64_t offset,
                                  const void* origin, const skerry_strided* shape);
SKERRY_API int skerry_get_strided(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                                  const skerry_strided* shape);
/* block_bytes must be a multiple of the element size. */
SKERRY_API int skerry_acc_strided(skerry_segment* segment, int rank, uint64_t offset, int type,
                                  const void* scale, const void* origin,
                                  const skerry_strided* shape);

SKERRY_API int skerry_put_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                                 uint64_t piece_count);
SKERRY_API int skerry_get_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                                 uint64_t piece_count);
SKERRY_API int skerry_acc_vector(skerry_segment* segment, int rank, int type, const void* scale,
                                 const skerry_piece* pieces, uint64_t piece_count);

/* Non-blocking forms: the origin buffer (and pieces' buffers; the descriptors themselves are
 * copied) must stay untouched until the handle is done: source done for put and accumulate, data
 * there for get. There is no limit on their number. */
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

/* Waits for one handle and sets it to 0. A handle of 0 returns at once. */
SKERRY_API int skerry_wait(skerry_job* job, skerry_handle* handle);
/* *done = 1 (and *handle = 0) or 0; never blocks; makes progress. */
SKERRY_API int skerry_test(skerry_job* job, skerry_handle* handle, int* done);
/* Waits for all implicit non-blocking operations of this rank. */
SKERRY_API int skerry_wait_all(skerry_job* job);

/* Remote done for everything this rank issued to `rank`, to the ranks of `node`, or to all.
 * Includes non-blocking operations. */
SKERRY_API int skerry_fence(skerry_job* job, int rank);
SKERRY_API int skerry_fence_node(skerry_job* job, int node);
SKERRY_API int skerry_fence_all(skerry_job* job);

/* ---- read-modify-write
 * -------------------------------------------------------------------------------------------------
 */

/* Atomic with every other read-modify-write and accumulate. `offset` is a multiple of the word's
 * size. *result is the old value. Blocking: the operation is remote done on return. */
SKERRY_API int skerry_fetch_add_i64(skerry_segment* segment, int rank, uint64_t offset,
                                    int64_t value, int64_t* result);
SKERRY_API int skerry_fetch_add_i32(skerry_segment* segment, int rank, uint64_t offset,
                                    int32_t value, int32_t* result);
SKERRY_API int skerry_swap_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t value,
                               int64_t* result);
SKERRY_API int skerry_swap_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t value,
                               int32_t* result);
/* Stores `desired` if the word equals `expected`. */
SKERRY_API int skerry_compare_swap_i64(skerry_segment* segment, int rank, uint64_t offset,
                                       int64_t expected, int64_t desired, int64_t* result);
SKERRY_API int skerry_compare_swap_i32(skerry_segment* segment, int rank, uint64_t offset,
                                       int32_t expected, int32_t desired, int32_t* result);

/* ---- notification
 * -------------------------------------------------------------------------------------------------
 */

/* Puts `bytes` (may be 0), then adds `increment` to the 64-bit counter at `counter_offset`
 * (multiple of 8) of the target's slice; who sees the counter sees the data. Returns at source
 * done. */
SKERRY_API int skerry_put_notify(skerry_segment* segment, int rank, uint64_t offset,
                                 const void* origin, uint64_t bytes, uint64_t counter_offset,
                                 uint64_t increment);
/* Sleeps until the counter at `counter_offset` of the caller's own slice is at least `at_least`
 * (unsigned). timeout_ns < 0: no limit. Only put_notify wakes the sleeper; a plain put or
 * fetch-and-add on the counter is noticed within 0.2 s. *value, if not null, is the counter.
 * Errors: TIMEOUT. */
SKERRY_API int skerry_notify_wait(skerry_segment* segment, uint64_t counter_offset,
                                  uint64_t at_least, int64_t timeout_ns, uint64_t* value);

/* ---- mutexes
 * -------------------------------------------------------------------------------------------------
 */

/* Each member of the group hosts `count` mutexes (may differ, may be 0). Collective. Mutexes are
 * fair (first come, first served), and waiters sleep. */
SKERRY_API int skerry_mutexes_create(skerry_group* group, uint32_t count, skerry_mutexes** mutexes);
SKERRY_API int skerry_mutexes_free(skerry_mutexes* mutexes);
SKERRY_API int skerry_lock(skerry_mutexes* mutexes, int rank, uint32_t index);
/* Operations issued to `rank`'s node before the unlock are remote done before the next holder is
 * granted the mutex. */
SKERRY_API int skerry_unlock(skerry_mutexes* mutexes, int rank, uint32_t index);

/* ---- counters
 * -------------------------------------------------------------------------------------------------
 */

/* What this process has done since skerry_init; monotone. Set `size` before the call. */
typedef struct skerry_counters {
  size_t size;                /* sizeof(skerry_counters) */
  uint64_t local_operations;  /* put, get, accumulate, read-modify-write on ranks of the own node */
  uint64_t local_bytes;       /* user bytes they moved */
  uint64_t remote_operations; /* operations on ranks of other nodes */
  uint64_t remote_bytes;      /* user bytes they moved, either way */
  uint64_t wire_bytes_sent;   /* bytes handed to the fabric by this process, headers included (its
                                 node's data server: see server_*) */
  uint64_t wire_bytes_received;
  uint64_t connections_opened;
  uint64_t connections_closed;
  uint64_t connections_open; /* now */
  uint64_t server_requests;  /* requests applied by the data server that this process hosts; 0 if it
                                hosts none */
  uint64_t server_wire_bytes_sent;
  uint64_t server_wire_bytes_received;
  uint64_t strangers_refused;     /* connections that this data server refused, in all; of these: */
  uint64_t strangers_silent;      /*   did not say a whole hello in time */
  uint64_t strangers_left;        /*   went before they had */
  uint64_t strangers_crowded_out; /* made way for newer ones, or no descriptor was left */
  uint64_t strangers_garbage;     /*   did not speak our protocol, or another version of it */
  uint64_t strangers_unproven; /*   did not know this job's key, or meant another server or role */
  uint64_t strangers_replayed; /*   sent a recorded or overtaken hello */
  uint64_t fences;
  uint64_t collectives;
  uint64_t connections_evicted; /* closed to make place for another, see skerry_limit_connections */
  uint64_t connections_dropped; /* closed by a data server that needed the place */
  uint64_t
      connections_broken; /* lost with operations under way; they are resumed, each applied once */
  uint64_t connections_resumed;
  uint64_t connections_peak;    /* most at one time, opening and closing ones included */
  uint64_t requests_replayed;   /* sent again after a break */
  uint64_t teardown_ns;         /* from each eviction to its end, summed ... */
  uint64_t teardown_exposed_ns; /* ... and what of it somebody waited for */
  uint64_t teardowns_hidden;    /* evictions that kept nobody waiting */
  uint64_t setup_ns;            /* from each connect to its answer, summed ... */
  uint64_t setup_exposed_ns;    /* ... and what of it somebody waited for */
  uint64_t servers_known;       /* data servers this process has talked to */
  uint64_t connection_bytes;    /* memory that these take in this process now, beyond the operating
                                   system's */
  uint64_t server_connections;  /* of ranks to the data server that this process hosts, now */
  uint64_t server_connections_peak;    /* most at one time */
  uint64_t server_connections_dropped; /* closed without asking, to make place under
                                          SKERRY_SERVER_MAX_CONN */
  uint64_t server_origins_waited;      /* connections that had to wait for a place */
  uint64_t grants_relayed; /* mutexes granted to ranks that had no connection then, through the data
                              server of their node */
  uint64_t shared_open;    /* SKERRY_SHARE: connections that this process, hosting its node's data
                              server, keeps to other nodes' for all of its node */
  uint64_t shared_peak;    /*   most at one time */
  uint64_t shared_opened;  /*   so far */
  uint64_t shared_evicted; /*   closed to make place for another */
  uint64_t shared_users;   /*   connections of the node's processes that use them now */
  uint64_t shared_messages; /*   passed on, either way */
} skerry_counters;
SKERRY_API int skerry_counters_read(const skerry_job* job, skerry_counters* counters);

/* What communication takes in this process now, in bytes, beyond what the operating system and a
 * provider's library keep for it. Set `size` before the call. `skerry info --connections` measures
 * the operating system's part beside it. */
typedef struct skerry_memory {
  size_t size;                 /* sizeof(skerry_memory) */
  uint64_t connections;        /* of this process to data servers */
  uint64_t connection_bytes;   /* what they take */
  uint64_t servers_known;      /* data servers that it has talked to */
  uint64_t known_bytes;        /* what it keeps of these, connected or not */
  uint64_t fixed_bytes;        /* whatever the number of either */
  uint64_t server_connections; /* of origins to the data server that this process hosts; this and
                                  what follows: 0 if it hosts none */
  uint64_t server_connection_bytes;
  uint64_t server_ranks_known; /* origins that ever connected */
  uint64_t server_known_bytes; /* what the server keeps of these, connected or not */
  uint64_t server_fixed_bytes;
  uint64_t node_table_bytes; /* the job's table of nodes and addresses, once for all processes of a
                              * node: all that a node costs that was never talked to */
} skerry_memory;
/* Asks the data server's thread, if this process hosts one: not for every iteration. */
SKERRY_API int skerry_memory_read(const skerry_job* job, skerry_memory* memory);

/* ---- connections
 * -------------------------------------------------------------------------------------------------
 */

/* From now on this process keeps at most `max_connections` connections to data servers (0: no
 * limit), as SKERRY_MAX_CONN does from the start. At the limit a new partner takes the place of the
 * one that SKERRY_VICTIM chooses: its operations are completed, then it closes while the new one
 * opens (one more connection exists meanwhile). Those that are too many leave as their places are
 * needed. Not collective. A. Vishnu, M. Krishnan, P. Balaji, "Dynamic Time-Variant Connection
 * Management for PGAS Models on InfiniBand", section IV. */
SKERRY_API int skerry_limit_connections(skerry_job* job, uint32_t max_connections);

#ifdef __cplusplus
}
#endif
#endif /* SKERRY_SKERRY_H */
