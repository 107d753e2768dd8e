/* A rank whose process is stopped in its first window call, longer than the others wait for a word
 * of a process without the library: it has the library, and goes on when it is continued.
 *
 * Where it stops: where it asks whether it wants windows, with the duplicate of its communicator
 * made. A child continues it. */
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { stopped_s = 13 };
static int rank = -1, is_armed;

/* The system's letter for the process's state. */
static int state_of(pid_t process) {
  char path[64], line[512] = {0};
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  FILE* const file = fopen(path, "r");
  if (file == NULL) return 0;
  const size_t bytes = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  const char* const behind_name = bytes > 0 ? strrchr(line, ')') : NULL;
  return behind_name != NULL ? behind_name[2] : 0;
}

static void stop(void) {
  const pid_t self = getpid();
  if (fork() == 0) {
    while (state_of(self) != 'T') usleep(1000);
    sleep(stopped_s);
    kill(self, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

char* getenv(const char* name) {
  static char* (*next)(const char*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "getenv");
  if (is_armed && rank == 1 && strcmp(name, "SKERRY_MPI") == 0) {
    is_armed = 0;
    stop();
  }
  return next(name);
}

int main(int count, char** words) {
  long *memory = NULL, value = 7, seen = 0;
  int size = 0;
  MPI_Win win;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  is_armed = 1;
  MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
  MPI_Accumulate(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_unlock(1, win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
  MPI_Get(&seen, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
  MPI_Win_unlock(1, win);
  if (rank == 0 && seen == 7 * size && !(rank == 1 && is_armed))
    printf("silent: %d ranks, ok\n", size);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
