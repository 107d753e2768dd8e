/* check.h: shared by the programs here. CHECK(condition, ...) counts a failure and says where; the
 * caller decides whether to go on. */
#ifndef ARMCI_TEST_CHECK_H
#define ARMCI_TEST_CHECK_H

#include <stdio.h>

static int failures;
static int checks;
static int my_rank = -1;

#define CHECK(condition, ...)                                                      \
  do {                                                                             \
    ++checks;                                                                      \
    if (!(condition) && ++failures <= 20) {                                        \
      fprintf(stderr, "%d: %s:%d: %s: ", my_rank, __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                                \
      fputc('\n', stderr);                                                         \
    }                                                                              \
  } while (0)

#endif
