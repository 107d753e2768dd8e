/* Preloaded: this process's clocks jump while it runs. The wall clock goes a day back, then ten
 * years ahead, as an administrator or NTP may set it. All clocks then go an hour ahead at once, as
 * after a pause of a virtual machine. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
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
