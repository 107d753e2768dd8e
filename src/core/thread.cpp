#include "core/thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace skerry {

void random_bytes(void* to, size_t bytes) { randombytes_buf(to, bytes); }

Thread::Thread(const char* name, std::function<void()> body) {
  struct Blocked {  // also if there can be no thread
    sigset_t before;
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      // A fault of this thread itself. Blocked, no handler would see it (crash.hpp).
      for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, own);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } blocked;
  thread_ = std::thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    try {
      body();
    } catch (const std::bad_alloc&) {  // nobody can be told by a status, and others wait for it
      std::fprintf(stderr,
                   "skerry: thread %s of process %d has no memory left: raise its limit (ulimit "
                   "-v, the cgroup's), or use less\n",
                   name, static_cast<int>(getpid()));
      std::abort();
    }
  });
}
Thread::~Thread() = default;
Thread& Thread::operator=(Thread&&) noexcept = default;
bool Thread::joinable() const { return thread_.joinable(); }
void Thread::join() { thread_.join(); }

void warn(std::string_view line) {
  if (!line.empty())
    std::fprintf(stderr, "skerry: %.*s\n", static_cast<int>(line.size()), line.data());
}

void run_anywhere() {
  cpu_set_t everywhere;
  CPU_ZERO(&everywhere);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &everywhere);
  sched_setaffinity(0, sizeof everywhere, &everywhere);
}

}  // namespace skerry
