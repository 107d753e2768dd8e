/* armci.h: the public interface of ARMCI, the runtime of Global Arrays, as libarmci of Skerry
 * provides it (C11, C++ callable).
 *
 * A process is named by its rank in the communicator that ARMCI was started with (MPI_COMM_WORLD
 * unless told otherwise). Remote memory is named by address: what ARMCI_Malloc put into the
 * caller's pointer array for that process, plus an offset. The array's entries for processes of the
 * caller's own node are addresses that the caller may load and store through.
 *
 * Blocking puts and accumulates return when the source may be reused, gets with the data;
 * ARMCI_Fence waits until what was sent to a process is visible there. Operations of one process on
 * one target take effect in issue order.
 *
 * Functions that return int answer 0, or on a wrong argument (null pointer, negative count, unknown
 * type or rank) a number below zero, after a line on standard error. What cannot be answered for
 * ends the job with one line that says why: an address in no allocation, a process that has died.
 * Collective calls answer alike on all members. docs/armci.md of Skerry has more.
 *
 * Every ARMCI_Name exists as PARMCI_Name too: a tool may define ARMCI_Name itself and call the
 * other. */
#ifndef ARMCI_H
#define ARMCI_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ARMCI_API __attribute__((visibility("default")))
#else
#define ARMCI_API
#endif
#define ARMCI_CALL(type, name, arguments) \
  ARMCI_API type ARMCI_##name arguments;  \
  ARMCI_API type PARMCI_##name arguments

#define ARMCI_SKERRY 1 /* this is Skerry's */

typedef long armci_size_t;
#define ARMCI_MAX_STRIDE_LEVEL 8

/* ---- start and end
 * -------------------------------------------------------------------------------------------------
 */

/* Collective over MPI_COMM_WORLD. MPI is initialised first if the program has not done it; then the
 * end of the process finalises it, unless the program does. Calling it again counts: as many
 * ARMCI_Finalize end it. What goes wrong ends the job, with one line. */
ARMCI_CALL(int, Init, (void));
ARMCI_CALL(int, Init_args, (int* argc, char*** argv));
/* `required`: MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE. */
ARMCI_CALL(int, Init_thread, (int required));
/* Collective over `comm`, whose ranks become ARMCI's. */
ARMCI_CALL(int, Init_mpi_comm, (MPI_Comm comm));
ARMCI_CALL(int, Init_thread_comm, (int required, MPI_Comm comm));
ARMCI_CALL(int, Initialized, (void));
/* Collective. Frees what was not freed. Also after MPI_Finalize. */
ARMCI_CALL(int, Finalize, (void));
/* Before an abnormal end; nothing is left behind without it either. */
ARMCI_CALL(void, Cleanup, (void));
/* Ends the job; `code` becomes the exit status (1 if that would be 0). */
ARMCI_API void ARMCI_Error(const char* message, int code) __attribute__((noreturn));
ARMCI_API void PARMCI_Error(const char* message, int code) __attribute__((noreturn));

/* ---- groups
 * -------------------------------------------------------------------------------------------------
 */

/* A value: copies name the same group. Its size is that of other ARMCIs, so that objects compiled
 * against those fit. */
typedef struct {
  MPI_Comm comm; /* of the members, for the program's own use; MPI_COMM_NULL where the caller is no
                    member */
  MPI_Comm reserved_comm; /* MPI_COMM_NULL */
  void* group;            /* Skerry's; null where the caller is no member */
  void* reserved;         /* Skerry's, too */
  int rank;               /* of the caller in the group; -1: no member */
  int size;               /* members; 0 where the caller is none */
} ARMCI_Group;

/* Makes a group of `count` members of the default group, named by their ranks there, all different.
 * Collective over the members only; others may call it and get an empty group. */
ARMCI_CALL(void, Group_create, (int count, int* ranks, ARMCI_Group* group));
/* The same, of members of `parent`. */
ARMCI_CALL(void, Group_create_child,
           (int count, int* ranks, ARMCI_Group* group, ARMCI_Group* parent));
ARMCI_CALL(void, Group_free, (ARMCI_Group * group)); /* collective over the members */
ARMCI_CALL(int, Group_rank, (ARMCI_Group * group, int* rank));
ARMCI_CALL(void, Group_size, (ARMCI_Group * group, int* size));
ARMCI_CALL(void, Group_set_default, (ARMCI_Group * group));
ARMCI_CALL(void, Group_get_default, (ARMCI_Group * group));
ARMCI_CALL(void, Group_get_world, (ARMCI_Group * group));
/* The rank of a group's member in the world. */
ARMCI_CALL(int, Absolute_id, (ARMCI_Group * group, int rank));
ARMCI_API MPI_Comm armci_group_comm(ARMCI_Group* group);

/* ---- memory
 * -------------------------------------------------------------------------------------------------
 */

/* Collective: `bytes` (may differ, may be 0: a null pointer) in every member, zeroed, page aligned;
 * pointers[i] is member i's. Nonzero on all members if one of them has not enough memory. */
ARMCI_CALL(int, Malloc, (void** pointers, armci_size_t bytes));
ARMCI_CALL(int, Malloc_group, (void** pointers, armci_size_t bytes, ARMCI_Group* group));
/* Collective over who allocated it; own pointer, or null where 0 bytes were asked for. */
ARMCI_CALL(int, Free, (void* pointer));
ARMCI_CALL(int, Free_group, (void* pointer, ARMCI_Group* group));
/* `device` is not looked at: all memory is the node's. */
ARMCI_CALL(int, Malloc_memdev, (void** pointers, armci_size_t bytes, const char* device));
ARMCI_CALL(int, Malloc_group_memdev,
           (void** pointers, armci_size_t bytes, ARMCI_Group* group, const char* device));
ARMCI_CALL(int, Free_memdev, (void* pointer));
/* Private memory, suited to be a local buffer of transfers (any memory may be). */
ARMCI_CALL(void*, Malloc_local, (armci_size_t bytes));
ARMCI_CALL(int, Free_local, (void* pointer));
ARMCI_CALL(void, Access_begin,
           (void* pointer)); /* nothing to do: loads and stores to own memory are always allowed */
ARMCI_CALL(void, Access_end, (void* pointer));
ARMCI_CALL(int, Uses_shm, (void));                    /* 1 */
ARMCI_CALL(int, Uses_shm_grp, (ARMCI_Group * group)); /* 1 */
ARMCI_CALL(void, Set_shm_limit,
           (unsigned long kilobytes)); /* nothing to do: a node's memory is the limit */

/* ---- transfers
 * -------------------------------------------------------------------------------------------------
 */

enum ARMCI_Acc_e {
  ARMCI_ACC_INT,
  ARMCI_ACC_LNG,
  ARMCI_ACC_FLT,
  ARMCI_ACC_DBL,
  ARMCI_ACC_CPL,
  ARMCI_ACC_DCP
};

/* A non-blocking operation, or several if aggregating. Initialise before first use; all zero is
 * initialised too. */
typedef struct armci_hdl_s {
  int request; /* 0: nothing outstanding */
  int generation;
} armci_hdl_t;

/* `count` pieces of equal size; the transfer's other side is at the same position of the other
 * array. */
typedef struct {
  void** src_ptr_array;
  void** dst_ptr_array;
  int bytes;         /* of each piece */
  int ptr_array_len; /* pieces */
} armci_giov_t;

ARMCI_CALL(int, Put, (void* src, void* dst, int bytes, int proc));
ARMCI_CALL(int, Get, (void* src, void* dst, int bytes, int proc));
/* dst[i] += scale * src[i] on elements of `datatype` (ARMCI_Acc_e), each atomic with all others; at
 * any address, but slow where that is no multiple of the element (of complex ones: of a part). */
ARMCI_CALL(int, Acc, (int datatype, void* scale, void* src, void* dst, int bytes, int proc));
/* Strided: count[0] bytes, repeated count[1] x ... x count[levels] times; stride[k] bytes lie
 * between repetitions of level k+1. */
ARMCI_CALL(int, PutS,
           (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
            int proc));
ARMCI_CALL(int, GetS,
           (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
            int proc));
ARMCI_CALL(int, AccS,
           (int datatype, void* scale, void* src, int* src_stride, void* dst, int* dst_stride,
            int* count, int levels, int proc));
ARMCI_CALL(int, PutV, (armci_giov_t * pieces, int length, int proc));
ARMCI_CALL(int, GetV, (armci_giov_t * pieces, int length, int proc));
ARMCI_CALL(int, AccV, (int datatype, void* scale, armci_giov_t* pieces, int length, int proc));
/* Puts, then stores `value` to the int at `flag` of the target: who sees the value sees the data.
 */
ARMCI_CALL(int, Put_flag, (void* src, void* dst, int bytes, int* flag, int value, int proc));
ARMCI_CALL(int, PutS_flag,
           (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
            int* flag, int value, int proc));

ARMCI_CALL(int, PutValueInt, (int value, void* dst, int proc));
ARMCI_CALL(int, PutValueLong, (long value, void* dst, int proc));
ARMCI_CALL(int, PutValueFloat, (float value, void* dst, int proc));
ARMCI_CALL(int, PutValueDouble, (double value, void* dst, int proc));
ARMCI_CALL(int, GetValueInt, (void* src, int proc));
ARMCI_CALL(long, GetValueLong, (void* src, int proc));
ARMCI_CALL(float, GetValueFloat, (void* src, int proc));
ARMCI_CALL(double, GetValueDouble, (void* src, int proc));

/* Non-blocking: the local buffer must stay untouched until the handle, or with a null handle
 * ARMCI_WaitAll, says so. There is no limit on their number. */
ARMCI_CALL(int, NbPut, (void* src, void* dst, int bytes, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbGet, (void* src, void* dst, int bytes, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbAcc,
           (int datatype, void* scale, void* src, void* dst, int bytes, int proc,
            armci_hdl_t* handle));
ARMCI_CALL(int, NbPutS,
           (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
            int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbGetS,
           (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
            int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbAccS,
           (int datatype, void* scale, void* src, int* src_stride, void* dst, int* dst_stride,
            int* count, int levels, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbPutV, (armci_giov_t * pieces, int length, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbGetV, (armci_giov_t * pieces, int length, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbAccV,
           (int datatype, void* scale, armci_giov_t* pieces, int length, int proc,
            armci_hdl_t* handle));
ARMCI_CALL(int, NbPutValueInt, (int value, void* dst, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbPutValueLong, (long value, void* dst, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbPutValueFloat, (float value, void* dst, int proc, armci_hdl_t* handle));
ARMCI_CALL(int, NbPutValueDouble, (double value, void* dst, int proc, armci_hdl_t* handle));

ARMCI_CALL(void, INIT_HANDLE, (armci_hdl_t * handle));
/* Until it is unset, operations given this handle are added to those it stands for; without, a
 * handle in use is waited for first. */
ARMCI_CALL(void, SET_AGGREGATE_HANDLE, (armci_hdl_t * handle));
ARMCI_CALL(void, UNSET_AGGREGATE_HANDLE, (armci_hdl_t * handle));
ARMCI_CALL(int, Wait, (armci_hdl_t * handle));
ARMCI_CALL(int, Test, (armci_hdl_t * handle)); /* 0: complete; 1: not yet */
ARMCI_CALL(int, WaitProc, (int proc));
ARMCI_CALL(int, WaitAll, (void));

ARMCI_CALL(void, Fence, (int proc));
ARMCI_CALL(void, AllFence, (void));
ARMCI_CALL(void, Barrier, (void));                         /* AllFence, then a barrier of all */
ARMCI_CALL(void, Copy, (void* src, void* dst, int bytes)); /* of local memory */

/* Local memory to and from a packed buffer. */
ARMCI_API void armci_write_strided(void* pointer, int levels, int stride[], int count[],
                                   char* packed);
ARMCI_API void armci_read_strided(void* pointer, int levels, int stride[], int count[],
                                  char* packed);

/* ---- atomics, mutexes, notification -------------------------------------------------------- */

enum ARMCI_Rmw_e { ARMCI_FETCH_AND_ADD, ARMCI_FETCH_AND_ADD_LONG, ARMCI_SWAP, ARMCI_SWAP_LONG };

/* `local` receives the old value of `remote`; a swap stores what `local` held before. `value` is
 * what fetch-and-add adds. */
ARMCI_CALL(int, Rmw, (int operation, void* local, void* remote, int value, int proc));

/* Collective over the world: each process hosts `count` (may differ). One set at a time. Fair;
 * waiting sleeps. */
ARMCI_CALL(int, Create_mutexes, (int count));
ARMCI_CALL(int, Destroy_mutexes, (void));
ARMCI_CALL(void, Lock, (int mutex, int proc));
ARMCI_CALL(void, Unlock, (int mutex, int proc));

/* What the caller sent to `proc` before is visible there when the notification is. Answers how many
 * the caller has sent to `proc`. */
ARMCI_API int armci_notify(int proc);
/* Sleeps until one more notification of `proc` has come than waits for it have returned; *count, if
 * not null, is how many have been waited for. */
ARMCI_API int armci_notify_wait(int proc, int* count);

/* ---- where processes are
 * -------------------------------------------------------------------------------------------------
 */

enum armci_domain_e { ARMCI_DOMAIN_SMP };
typedef int armci_domain_t;

/* A domain is a node: processes that share memory. */
ARMCI_API int armci_domain_count(armci_domain_t domain);
ARMCI_API int armci_domain_my_id(armci_domain_t domain);
ARMCI_API int armci_domain_id(armci_domain_t domain, int proc);
ARMCI_API int armci_domain_nprocs(armci_domain_t domain, int id); /* id < 0: the caller's */
ARMCI_API int armci_domain_glob_proc_id(armci_domain_t domain, int id, int local);
ARMCI_API int armci_domain_same_id(armci_domain_t domain, int proc);
ARMCI_CALL(int, Same_node, (int proc));

#ifdef __cplusplus
}
#endif

#include <message.h>

#endif /* ARMCI_H */
