/* libseen.so, preloaded before libskerry_mpi.so: prints each of MPI's window functions that arrives
 * there, and hands it on. coverage.py makes stubs.inc and compiles it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef uintptr_t W;

static void* next(const char* name) {
  char line[100];
  const int length = snprintf(line, sizeof line, "seen %s\n", name);
  if (write(STDERR_FILENO, line, (size_t)length) != length) abort();
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

#define ONE(name, types, values) \
  int name types { return ((int(*) types)next(#name))values; }
#define STUB(name, types, values) ONE(MPI_##name, types, values) ONE(PMPI_##name, types, values)
#include "stubs.inc"

/* What does not pass through C: Fortran's only exceptions. */
#define ATTRIBUTE(name)                                                        \
  void name(void* a, void* b, void* c, void* d, void* e) {                     \
    ((void (*)(void*, void*, void*, void*, void*))next(#name))(a, b, c, d, e); \
  }
ATTRIBUTE(mpi_win_get_attr_)
ATTRIBUTE(pmpi_win_get_attr_)
int MPII_Win_get_attr(W a, int b, void* c, int* d, int e) {
  return ((int (*)(W, int, void*, int*, int))next("MPII_Win_get_attr"))(a, b, c, d, e);
}
