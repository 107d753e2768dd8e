/* skerry/window.h: one-sided windows with passive and active synchronization (C11, callable from
 * C++).
 *
 * A *window* is memory of each member of a group that the others read, write and update between
 * two synchronization calls: an *access epoch*. The meaning is that of MPI's windows (MPI 4.1,
 * chapter 12), but nothing waits for the target: not lock, not unlock, not flush, whatever the
 * target does meanwhile. The memory is allocated by Skerry, or the program's own.
 *
 *   skerry_window_allocate(group, 8, 8, &window);
 *   skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, rank, 0);
 *   skerry_window_put(window, rank, 0, &value, 8);
 *   skerry_window_unlock(window, rank);
 *
 * Epochs. Three kinds begin an access epoch: lock or lock_all (ended by unlock), start (ended by
 * complete), fence (ended by the next fence). An access outside an epoch is an error. Locks belong
 * to the rank, not to a thread.
 *
 * Displacements count in units of the target: its `unit` bytes. In a dynamic window they are
 * addresses in the target's address space, in bytes (skerry_window_attach).
 *
 * Completion. Put, update and get may return before they are done, and their buffers must stay as
 * they are until flush_local, flush, unlock, complete or fence. The _nb forms give a handle for
 * skerry_wait (put and update: source done; get and fetch_update: with the data). Everything else
 * about errors, waiting, threads and ownership is as in skerry/skerry.h.
 *
 * Source: G. Santhanaraman, P. Balaji, K. Gopalakrishnan, R. Thakur, W. Gropp, D. K. Panda,
 * "Natively Supporting True One-sided Communication in MPI on Multi-core Systems with InfiniBand"
 * (CCGrid 2009), sections 2 to 4, and the MPI standard for the calls.
 */
#ifndef SKERRY_WINDOW_H
#define SKERRY_WINDOW_H

#include "skerry/skerry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct skerry_window skerry_window;

typedef enum skerry_lock_mode {
  SKERRY_LOCK_EXCLUSIVE = 0, /* nobody else holds it */
  SKERRY_LOCK_SHARED = 1     /* beside other shared holders */
} skerry_lock_mode;

/* What the caller promises, as a sum. A broken promise is the caller's error. */
#define SKERRY_NO_CHECK 1u   /* lock, lock_all: nobody locks in conflict. start, post: they match */
#define SKERRY_NO_STORE 2u   /* post, fence: no local stores since the last synchronization */
#define SKERRY_NO_PUT 4u     /* post, fence: nobody puts or updates until the next one */
#define SKERRY_NO_PRECEDE 8u /* fence: it ends no access epoch of any member */
#define SKERRY_NO_SUCCEED 16u /* fence: it begins no access epoch of any member */

/* ---- life ---------------------------------------------------------------------------------- */

/* Each member allocates `bytes` bytes, zeroed; 0 is allowed, and the numbers may differ. `unit` >=
 * 1: bytes of one displacement into this member's memory. Collective over the group. Errors:
 * INVALID, NO_MEMORY. */
SKERRY_API int skerry_window_allocate(skerry_group* group, uint64_t bytes, uint64_t unit,
                                      skerry_window** window);

/* The same over memory that the program owns: `bytes` bytes at `base`, any memory that this process
 * may write (heap, stack, static data). It stays where it is and must live until the window is
 * freed. Others reach it without this process's help. Collective. Errors: INVALID; UNSUPPORTED if
 * this system does not let the processes of a node reach each other's memory
 * (docs/errors.md). */
SKERRY_API int skerry_window_create(skerry_group* group, void* base, uint64_t bytes, uint64_t unit,
                                    skerry_window** window);

/* A window without memory: members attach and detach their own at any time. Collective. Errors: as
 * skerry_window_create. */
SKERRY_API int skerry_window_create_dynamic(skerry_group* group, skerry_window** window);

/* Makes `bytes` bytes at `base` accessible through a dynamic window. The others use their address
 * as displacement; one access may lie in several areas without a gap. Not collective. Errors:
 * INVALID (it overlaps attached memory, or the window is not dynamic), NO_MEMORY (1024 areas are
 * attached). An area of 0 bytes is nothing to access, and is detached like the others. */
SKERRY_API int skerry_window_attach(skerry_window* window, void* base, uint64_t bytes);

/* Takes back what was attached at `base`. Not collective. Errors: INVALID (nothing is). */
SKERRY_API int skerry_window_detach(skerry_window* window, void* base);

/* Completes the operations and frees the window, and its memory if Skerry allocated it. Collective
 * over its group. Errors: INVALID (an epoch of the caller is open). */
SKERRY_API int skerry_window_free(skerry_window* window);

/* The own memory: allocated or given; null if it has 0 bytes or the window is dynamic. */
SKERRY_API void* skerry_window_local(const skerry_window* window);

/* The memory of a member on the own node, for loads and stores; null if it is on another node or
 * was not allocated by Skerry. */
SKERRY_API void* skerry_window_pointer(const skerry_window* window, int rank);

/* Bytes, and unit of displacement, of a member's memory; 0 if `rank` is no member. */
SKERRY_API uint64_t skerry_window_bytes(const skerry_window* window, int rank);
SKERRY_API uint64_t skerry_window_unit(const skerry_window* window, int rank);

/* The window's group; belongs to its own owner. */
SKERRY_API skerry_group* skerry_window_group(const skerry_window* window);

/* ---- passive target ------------------------------------------------------------------------ */

/* Begins an access epoch at `rank`'s memory. May return before the lock is held: then the first
 * access waits for it. A lock of a rank on the own node is held on return. `promises`: 0 or
 * SKERRY_NO_CHECK. Errors: INVALID (locked already, or another epoch is open). */
SKERRY_API int skerry_window_lock(skerry_window* window, int mode, int rank, uint32_t promises);

/* Ends it: everything issued to `rank` in it is done there and here. Errors: INVALID (not locked),
 * and what the target refused of it. */
SKERRY_API int skerry_window_unlock(skerry_window* window, int rank);

/* Shared locks of all members; each is taken when it is first used. Not collective. */
SKERRY_API int skerry_window_lock_all(skerry_window* window, uint32_t promises);
SKERRY_API int skerry_window_unlock_all(skerry_window* window);

/* Everything issued to `rank` (to all) is done there and here: every rank sees it, before any
 * access that this rank makes next. The epoch goes on. Errors: INVALID outside epochs of lock and
 * lock_all; so do the local forms. */
SKERRY_API int skerry_window_flush(skerry_window* window, int rank);
SKERRY_API int skerry_window_flush_all(skerry_window* window);

/* Everything issued to `rank` (to all) is done here: buffers may be used again. Others may not see
 * it yet. */
SKERRY_API int skerry_window_flush_local(skerry_window* window, int rank);
SKERRY_API int skerry_window_flush_local_all(skerry_window* window);

/* Orders the caller's own loads and stores of window memory with others' accesses. Never blocks. */
SKERRY_API int skerry_window_sync(skerry_window* window);

/* ---- active target ------------------------------------------------------------------------- */

/* Ends the epochs of the last fence and begins new ones: everything that any member issued before
 * is done. Collective over the window's group. Errors: INVALID (a lock or start epoch is open). */
SKERRY_API int skerry_window_fence(skerry_window* window, uint32_t promises);

/* Exposes the own memory to the `count` members in `ranks`, which call start. Never blocks. Errors:
 * INVALID (a rank twice among them, or no member). */
SKERRY_API int skerry_window_post(skerry_window* window, const int* ranks, int count,
                                  uint32_t promises);

/* Begins an access epoch at the memory of the `count` members in `ranks`; waits for their post. */
SKERRY_API int skerry_window_start(skerry_window* window, const int* ranks, int count,
                                   uint32_t promises);

/* Ends the access epoch of start: what was issued in it is done here. */
SKERRY_API int skerry_window_complete(skerry_window* window);

/* Ends the exposure epoch of post: waits until all members of it called complete. What they issued
 * is done. `test` sets *done to 1 if that is so already, otherwise to 0. */
SKERRY_API int skerry_window_wait(skerry_window* window);
SKERRY_API int skerry_window_test(skerry_window* window, int* done);

/* ---- access -------------------------------------------------------------------------------- */

/* Copies `bytes` bytes to displacement `at` of `rank`'s memory, or from there. 0 bytes touch
 * nothing, and are no error where a dynamic window has no memory. Errors: RANGE; INVALID (no
 * epoch). */
SKERRY_API int skerry_window_put(skerry_window* window, int rank, uint64_t at, const void* origin,
                                 uint64_t bytes);
SKERRY_API int skerry_window_get(skerry_window* window, int rank, uint64_t at, void* origin,
                                 uint64_t bytes);

/* target[i] = target[i] OPERATION origin[i] for `count` elements (skerry_update). The fetching form
 * also copies the old elements to `result`; with SKERRY_NO_OP `origin` may be null,
 * otherwise the two must not overlap. Each element is
 * atomic with all other updates of the window, and so are 64 bytes or less as a whole. Updates of
 * one rank of the same location are done in order. Errors: RANGE; INVALID (no epoch; the type does
 * not have the operation; the address at the target is not aligned to the element). */
SKERRY_API int skerry_window_update(skerry_window* window, int rank, uint64_t at, int type,
                                    int operation, const void* origin, uint64_t count);
SKERRY_API int skerry_window_fetch_update(skerry_window* window, int rank, uint64_t at, int type,
                                          int operation, const void* origin, void* result,
                                          uint64_t count);

/* Stores *desired if the element equals *expected; *result is the old element. Integer types of 1,
 * 2, 4 or 8 bytes. Atomic with all updates of the window. Returns with the result. */
SKERRY_API int skerry_window_compare_swap(skerry_window* window, int rank, uint64_t at, int type,
                                          const void* expected, const void* desired, void* result);

/* The same for `count` pieces anywhere in `rank`'s memory. Their offsets are bytes from its start,
 * whatever the unit is; addresses in a dynamic window. The pieces themselves may change after the
 * call, what they point to as for one. Those of updates are whole elements. Which piece wins where
 * pieces of one put overlap is undefined. If one piece is wrong, none is accessed
 * (but for addresses in a dynamic window). */
SKERRY_API int skerry_window_put_vector(skerry_window* window, int rank, const skerry_piece* pieces,
                                        uint64_t count);
SKERRY_API int skerry_window_get_vector(skerry_window* window, int rank, const skerry_piece* pieces,
                                        uint64_t count);
SKERRY_API int skerry_window_update_vector(skerry_window* window, int rank, int type, int operation,
                                           const skerry_piece* pieces, uint64_t count);

/* The same for blocks at equal distances, on both sides. The first block starts at `origin`, and at
 * `offset`, which counts bytes as above. Errors: RANGE; INVALID (no epoch; a malformed shape). */
SKERRY_API int skerry_window_put_strided(skerry_window* window, int rank, uint64_t offset,
                                         const void* origin, const skerry_strided* shape);
SKERRY_API int skerry_window_get_strided(skerry_window* window, int rank, uint64_t offset,
                                         void* origin, const skerry_strided* shape);

/* Request-based forms: wait for *handle with skerry_wait or skerry_test, inside the epoch. */
SKERRY_API int skerry_window_put_nb(skerry_window* window, int rank, uint64_t at,
                                    const void* origin, uint64_t bytes, skerry_handle* handle);
SKERRY_API int skerry_window_get_nb(skerry_window* window, int rank, uint64_t at, void* origin,
                                    uint64_t bytes, skerry_handle* handle);
SKERRY_API int skerry_window_update_nb(skerry_window* window, int rank, uint64_t at, int type,
                                       int operation, const void* origin, uint64_t count,
                                       skerry_handle* handle);
SKERRY_API int skerry_window_fetch_update_nb(skerry_window* window, int rank, uint64_t at, int type,
                                             int operation, const void* origin, void* result,
                                             uint64_t count, skerry_handle* handle);

/* ---- debug mode (SKERRY_CHECK) -------------------------------------------------------------- */

/* For libraries that put windows behind calls of their own. Until the next call of this function,
 * messages about calls of this thread name `address`, a return address in the program, as the place
 * of the call. Null: the place that called Skerry (default). `unchecked` other than 0: accesses of
 * this thread are neither checked nor remembered. Never blocks. */
SKERRY_API void skerry_window_caller(const void* address, int unchecked);

#ifdef __cplusplus
}
#endif
#endif /* SKERRY_WINDOW_H */
