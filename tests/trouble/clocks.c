/* Preloaded: this process's clocks jump while it runs. The wall clock goes a day back, then ten
 * years ahead, as an administrator or NTP may set it. All clocks then go an hour ahead at once, as
 * after a pause of a virtual machine.
 *
 * The kernel's clocks do not jump. A moment that the process computed from its own clocks is told
 * to the kernel without the jump, or a wait of 5 ms would end an hour later. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static atomic_llong began_ms; /* 0: no clock was read yet */

static long long true_ms(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static time_t jump_s(clockid_t clock) {
  long long none = 0;
  const long long now_ms = true_ms();
  atomic_compare_exchange_strong(&began_ms, &none, now_ms);
  const long long age_ms = now_ms - atomic_load(&began_ms);
  const time_t pause_s = age_ms > 60 ? 3600 : 0;
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return pause_s;
  return pause_s + (age_ms > 40 ? 315360000 : age_ms > 20 ? -86400 : 0);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long failed = syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID)
    now->tv_sec += jump_s(clock);
  return (int)failed;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != NULL) *seconds = now.tv_sec;
  return now.tv_sec;
}

/* A moment of the kernel's clock. One from before the jump may become negative: it has passed. */
static struct timespec kernels(clockid_t clock, const struct timespec* moment) {
  struct timespec kernel = *moment;
  kernel.tv_sec -= jump_s(clock);
  if (kernel.tv_sec <= 0) kernel = (struct timespec){.tv_nsec = 1};
  return kernel;
}

int timerfd_settime(int fd, int flags, const struct itimerspec* when, struct itimerspec* before) {
  struct itimerspec kernel = *when;
  const int is_set = when->it_value.tv_sec != 0 || when->it_value.tv_nsec != 0;
  if (is_set && (flags & TFD_TIMER_ABSTIME) != 0)
    kernel.it_value = kernels(CLOCK_MONOTONIC, &when->it_value);
  return (int)syscall(SYS_timerfd_settime, fd, flags, &kernel, before);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  typedef int Wait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static _Atomic(Wait*) libc = NULL;
  if (libc == NULL) libc = (Wait*)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  const struct timespec kernel = kernels(clock, until);
  return libc(condition, mutex, clock, &kernel);
}
