/* What the parts of mpi_check share. Every check is MPI's own meaning: the program passes on an MPI
 * library alone, as far as that library is right. */
#ifndef MPI_CHECK_H
#define MPI_CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, size, right, left; /* of MPI_COMM_WORLD */
extern int failures;

#define CHECK(condition, ...)                                                                   \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      ++failures;                                                                               \
      fprintf(stderr, "mpi_check: rank %d, %s:%d: %s: ", rank, __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                                             \
      fputc('\n', stderr);                                                                      \
    }                                                                                           \
  } while (0)
#define TRY(call)                                        \
  do {                                                   \
    const int answer_ = (call);                          \
    CHECK(answer_ == MPI_SUCCESS, "answer %d", answer_); \
  } while (0)

/* The class of an error code. */
static inline int class_of(int code) {
  int found = -1;
  MPI_Error_class(code, &found);
  return found;
}

void check_kinds(void);
void check_epochs(void);
void check_types(void);
void check_updates(void);
void check_requests(void);
void check_errors(void);
void check_many(void);

#endif
