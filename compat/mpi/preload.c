/* libskerry_mpi.so: what is preloaded. Its functions of MPI lead to the adapter for the ABI of the
 * MPI library that this process has loaded, or to that library itself if there is no adapter for
 * it. Nothing happens before the first call of one of them: a process that is no MPI program only
 * carries the file.
 *
 * Each entry hands its arguments on as they are. All are integers or pointers, so one declaration
 * per number of arguments serves every ABI: on the processors that Skerry runs on, each takes a
 * register or a stack slot of 8 bytes, whatever its type.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uintptr_t W;
_Static_assert(sizeof(W) == 8, "an argument takes 8 bytes");

#define STUB(name, types, values) AT_##name,
enum {
#include "stubs.inc"
  ENTRIES
};
#undef STUB
#define STUB(name, types, values) "PMPI_" #name,
static const char* const names[ENTRIES] = {
#include "stubs.inc"
};
#undef STUB

/* Null: not looked up yet. */
static void* targets[ENTRIES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The libraries of an ABI begin so. Debian calls MPICH's libmpich. */
static const struct {
  const char* begins;
  const char* adapter;
} abis[] = {
    {"libmpi.so.40", "libskerry_mpi_openmpi.so"},
    {"libmpi.so.12", "libskerry_mpi_mpich.so"},
    {"libmpich.so.12", "libskerry_mpi_mpich.so"},
    {"libmpi_abi.so.", "libskerry_mpi_abi.so"},
};

struct found {
  char path[4096]; /* empty: no MPI library */
  const char* adapter;
};

static const char* adapter_of(const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const base = slash != NULL ? slash + 1 : path;
  for (size_t k = 0; k < sizeof abis / sizeof abis[0]; ++k)
    if (strncmp(base, abis[k].begins, strlen(abis[k].begins)) == 0) return abis[k].adapter;
  return NULL;
}

static int look(struct dl_phdr_info* info, size_t size, void* context) {
  (void)size;
  struct found* const found = context;
  if (strlen(info->dlpi_name) >= sizeof found->path) return 0;
  found->adapter = adapter_of(info->dlpi_name);
  /* Python may load it by the link that compilers use, whose name says no version: libmpi.so. */
  char real[PATH_MAX];
  if (found->adapter == NULL && strstr(info->dlpi_name, "libmpi") != NULL &&
      realpath(info->dlpi_name, real) != NULL)
    found->adapter = adapter_of(real);
  if (found->adapter == NULL) return 0;
  strcpy(found->path, info->dlpi_name);
  return 1;
}

/* Null: there is none, or no function on windows was called. */
static void* opened;

static void* open_adapter(const char* name) {
  Dl_info own;
  char path[4200];
  if (dladdr((void*)&once, &own) == 0 || own.dli_fname == NULL) return NULL;
  const char* const slash = strrchr(own.dli_fname, '/');
  const int directory = slash != NULL ? (int)(slash - own.dli_fname) : 1;
  snprintf(path, sizeof path, "%.*s/%s", directory, slash != NULL ? own.dli_fname : ".", name);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void resolve(void) {
  struct found found = {"", NULL};
  dl_iterate_phdr(look, &found);
  void* const library = found.adapter == NULL ? NULL : dlopen(found.path, RTLD_NOW | RTLD_NOLOAD);
  void* const adapter = library == NULL ? NULL : open_adapter(found.adapter);
  if (library != NULL && adapter == NULL)
    fprintf(stderr, "skerry: %s cannot be used, so windows stay with %s: %s\n", found.adapter,
            found.path, dlerror());
  for (int k = 0; k < ENTRIES; ++k) {
    void* target = adapter != NULL ? dlsym(adapter, names[k]) : NULL;
    /* Other MPIs: whatever comes next in the order of loading. */
    if (target == NULL) target = dlsym(library != NULL ? library : RTLD_NEXT, names[k]);
    __atomic_store_n(&targets[k], target, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&opened, adapter, __ATOMIC_RELEASE);
}

static void* find(int entry) {
  pthread_once(&once, resolve);
  if (targets[entry] != NULL) return targets[entry];
  fprintf(stderr, "skerry: this program calls %s, which its MPI library does not have\n",
          names[entry] + 1);
  abort();
}

static inline void* target_of(int entry) {
  void* const target = __atomic_load_n(&targets[entry], __ATOMIC_ACQUIRE);
  return __builtin_expect(target != NULL, 1) ? target : find(entry);
}

#define PUBLIC __attribute__((visibility("default")))
#define STUB(name, types, values)                                                     \
  PUBLIC int PMPI_##name types { return ((int(*) types)target_of(AT_##name))values; } \
  PUBLIC int MPI_##name types __attribute__((alias("PMPI_" #name)));
#include "stubs.inc"

/* ---- attributes in Fortran ---------------------------------------------------------------------
 *
 * The one question about windows that Fortran's libraries answer without C's functions. OpenMPI's
 * read the window; f08 through pmpi_win_get_attr_, with integers for handles. MPICH's ask
 * MPII_Win_get_attr, whatever the interface. Handles of MPICH are integers in C, too. */

typedef int (*attribute_t)(int window, int keyval, intptr_t* value);

/* 1: it is a window of ours and the attribute is MPI's own. */
static int answered(int window, int keyval, intptr_t* value) {
  static attribute_t ask;
  static int looked;
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
    struct found found = {"", NULL};
    dl_iterate_phdr(look, &found);
    void* const adapter = found.adapter == NULL ? NULL : open_adapter(found.adapter);
    ask = adapter == NULL ? NULL : (attribute_t)dlsym(adapter, "skerry_mpi_attribute");
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
  }
  return ask != NULL && ask(window, keyval, value);
}

/* In what was loaded after us, or in a library that the program keeps to itself: Python does. */
static void* next_of(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) {
    struct found mpi = {"", NULL};
    dl_iterate_phdr(look, &mpi);
    void* const library = mpi.adapter == NULL ? NULL : dlopen(mpi.path, RTLD_NOW | RTLD_NOLOAD);
    found = library == NULL ? NULL : dlsym(library, name);
  }
  if (found != NULL) return found;
  fprintf(stderr, "skerry: no library has %s\n", name);
  abort();
}

PUBLIC void pmpi_win_get_attr_(int* window, int* keyval, intptr_t* value, int* flag, int* error) {
  if (answered(*window, *keyval, value)) {
    *flag = 1;
    if (error != NULL) *error = 0;
    return;
  }
  static void (*next)(int*, int*, intptr_t*, int*, int*);
  if (next == NULL) *(void**)&next = next_of("pmpi_win_get_attr_");
  next(window, keyval, value, flag, error);
}
#define SAME(name)                                                                   \
  PUBLIC void name(int* window, int* keyval, intptr_t* value, int* flag, int* error) \
      __attribute__((alias("pmpi_win_get_attr_")));
SAME(pmpi_win_get_attr)
SAME(pmpi_win_get_attr__)
SAME(PMPI_WIN_GET_ATTR)
SAME(mpi_win_get_attr)
SAME(mpi_win_get_attr_)
SAME(mpi_win_get_attr__)
SAME(MPI_WIN_GET_ATTR)

/* MPICH's own C functions call it, too. */
PUBLIC int MPII_Win_get_attr(int window, int keyval, void* value, int* flag, int type) {
  static const int as_address = 1; /* MPICH's MPIR_ATTR_AINT: what Fortran asks for */
  if (type == as_address && answered(window, keyval, value)) return *flag = 1, 0;
  static int (*next)(int, int, void*, int*, int);
  if (next == NULL) *(void**)&next = next_of("MPII_Win_get_attr");
  return next(window, keyval, value, flag, type);
}

/* ---- the end -----------------------------------------------------------------------------------
 *
 * Callbacks of MPI_COMM_SELF's attributes may free windows, also behind ours: the jobs of Skerry
 * end when MPI_Finalize is over. Tools define either name, so each leads to the next of the same.
 */

static int finalize_by(const char* name, int (**next)(void)) {
  static int depth;
  void* const adapter = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
  void (*around)(int) = NULL;
  if (adapter != NULL) *(void**)&around = dlsym(adapter, "skerry_mpi_finalize");
  if (*next == NULL) *(void**)next = next_of(name);
  if (around != NULL && depth++ == 0) around(0);
  const int answer = (*next)();
  if (around != NULL && --depth == 0) around(1);
  return answer;
}

PUBLIC int MPI_Finalize(void) {
  static int (*next)(void);
  return finalize_by("MPI_Finalize", &next);
}

PUBLIC int PMPI_Finalize(void) {
  static int (*next)(void);
  return finalize_by("PMPI_Finalize", &next);
}
