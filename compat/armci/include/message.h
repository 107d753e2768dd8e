/* message.h: ARMCI's collectives and messages, over the processes that ARMCI was started with.
 *
 * A scope is all processes, those of the caller's node, or the first process of every node (only
 * these call it then).
 *
 * Operators are "+", "*", "max", "min", "absmax" and "absmin" (of absolute values); for integers
 * also "&&" or "land", "||" or "lor" (the result is 0 or 1), and of bits "&" or "band", "|" or
 * "bor" or "or". Only the characters of the name are read: what follows need not be a terminator.
 */
#ifndef ARMCI_MESSAGE_H
#define ARMCI_MESSAGE_H

#include <armci.h>

#ifdef __cplusplus
extern "C" {
#endif

enum armci_scope_e { SCOPE_ALL, SCOPE_NODE, SCOPE_MASTERS };
enum armci_type_e { ARMCI_INT, ARMCI_LONG, ARMCI_LONG_LONG, ARMCI_FLOAT, ARMCI_DOUBLE };

ARMCI_API int armci_msg_me(void);
ARMCI_API int armci_msg_nproc(void);
ARMCI_API void armci_msg_abort(int code) __attribute__((noreturn));
ARMCI_API void armci_msg_init(int* argc, char*** argv); /* MPI_Init, unless done */
ARMCI_API void armci_msg_finalize(void);                /* MPI_Finalize, unless done */
ARMCI_API double armci_timer(void);                     /* seconds since some time in the past */

/* Tags are 0 or more. `received`, if not null, is the number of bytes that came. */
ARMCI_API void armci_msg_snd(int tag, void* buffer, int bytes, int to);
ARMCI_API void armci_msg_rcv(int tag, void* buffer, int capacity, int* received, int from);
ARMCI_API int armci_msg_rcvany(int tag, void* buffer, int capacity,
                               int* received); /* answers who sent */

ARMCI_API void armci_msg_barrier(void);
ARMCI_API void parmci_msg_barrier(void);
ARMCI_API void armci_msg_group_barrier(ARMCI_Group* group);
ARMCI_API void parmci_msg_group_barrier(ARMCI_Group* group);
/* The caller's place in a binary tree over the scope; ranks, -1: nobody. */
ARMCI_API void armci_msg_bintree(int scope, int* root, int* up, int* left, int* right);

/* `root` is a rank of the world, also for groups. */
ARMCI_API void armci_msg_bcast(void* buffer, int bytes, int root);
ARMCI_API void armci_msg_brdcst(void* buffer, int bytes, int root);
ARMCI_API void armci_msg_bcast_scope(int scope, void* buffer, int bytes, int root);
ARMCI_API void armci_msg_group_bcast_scope(int scope, void* buffer, int bytes, int root,
                                           ARMCI_Group* group);

/* In place, `count` elements, the result everywhere... */
ARMCI_API void armci_msg_gop_scope(int scope, void* x, int count, char* op, int type);
ARMCI_API void armci_msg_igop(int* x, int count, char* op);
ARMCI_API void armci_msg_lgop(long* x, int count, char* op);
ARMCI_API void armci_msg_llgop(long long* x, int count, char* op);
ARMCI_API void armci_msg_fgop(float* x, int count, char* op);
ARMCI_API void armci_msg_dgop(double* x, int count, char* op);
ARMCI_API void armci_msg_group_gop_scope(int scope, void* x, int count, char* op, int type,
                                         ARMCI_Group* group);
ARMCI_API void armci_msg_group_igop(int* x, int count, char* op, ARMCI_Group* group);
ARMCI_API void armci_msg_group_lgop(long* x, int count, char* op, ARMCI_Group* group);
ARMCI_API void armci_msg_group_llgop(long long* x, int count, char* op, ARMCI_Group* group);
ARMCI_API void armci_msg_group_fgop(float* x, int count, char* op, ARMCI_Group* group);
ARMCI_API void armci_msg_group_dgop(double* x, int count, char* op, ARMCI_Group* group);
/* ...at the scope's first process... */
ARMCI_API void armci_msg_reduce(void* x, int count, char* op, int type);
ARMCI_API void armci_msg_reduce_scope(int scope, void* x, int count, char* op, int type);
/* ...or on the caller's node. */
ARMCI_API void armci_msg_clus_brdcst(void* buffer, int bytes); /* from the node's first process */
ARMCI_API void armci_msg_clus_igop(int* x, int count, char* op);
ARMCI_API void armci_msg_clus_lgop(long* x, int count, char* op);
ARMCI_API void armci_msg_clus_llgop(long long* x, int count, char* op);
ARMCI_API void armci_msg_clus_fgop(float* x, int count, char* op);
ARMCI_API void armci_msg_clus_dgop(double* x, int count, char* op);

/* Everybody gets the `bytes` bytes at x of the process, among those with contribute != 0, whose
 * first element (of `type`) is the "min" or "max"; of equal ones, of the lowest rank. */
ARMCI_API void armci_msg_sel(void* x, int bytes, char* op, int type, int contribute);
ARMCI_API void armci_msg_sel_scope(int scope, void* x, int bytes, char* op, int type,
                                   int contribute);

/* pointers[i] becomes what process (or member) i holds there. */
ARMCI_API void armci_exchange_address(void* pointers[], int count);
ARMCI_API void armci_exchange_address_grp(void* pointers[], int count, ARMCI_Group* group);

#ifdef __cplusplus
}
#endif

#endif /* ARMCI_MESSAGE_H */
