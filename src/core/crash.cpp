#include "core/crash.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

namespace skerry {
namespace {

// Read by a handler: no locks, and nothing that allocates.
std::atomic<int32_t> crash_rank{-1};
std::atomic<bool> with_backtrace{false}, with_freeze{false}, is_reporting{false};
char host[256];  // written before the first handler is installed
// For a thread whose own stack has overflowed: the one that started the job.
alignas(16) char spare_stack[64 << 10];

void say(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

void say_number(int64_t number) {
  char text[24];
  (void)!write(STDERR_FILENO, text,
               static_cast<size_t>(std::to_chars(text, text + sizeof text, number).ptr - text));
}

void say_who() {
  say("skerry: rank ");
  say_number(crash_rank);
  say(" (host ");
  say(host);
  say(", process ");
  say_number(getpid());
  say(")");
}

const char* name_of(int number) {
  switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    default: return "SIGABRT";
  }
}

void on_signal(int number) {
  const int before = errno;
  report_crash(name_of(number));
  errno = before;
  (void)std::signal(number, SIG_DFL);
  (void)raise(number);  // its core and its status are as without us
}

}  // namespace

void report_crash(const char* why) {
  const bool frozen = with_freeze.load(), traced = with_backtrace.load();
  if (!frozen && !traced) return;
  if (is_reporting.exchange(true)) {  // another thread does, or this one while it did
    if (!frozen) return;
    for (;;) pause();
  }
  say_who();
  say(": ");
  say(why);
  say("\n");
  if (traced) {
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  }
  if (frozen) {
    say_who();
    say(" is frozen: gdb -p ");
    say_number(getpid());
    say("; end it by kill -9\n");
    for (;;) pause();
  }
  is_reporting.store(false);
}

void watch_crashes(int32_t rank, const CrashActions& actions) {
  if (!actions.backtrace && !actions.freeze) return;
  crash_rank.store(rank);
  if (with_backtrace.exchange(actions.backtrace) | with_freeze.exchange(actions.freeze)) return;
  (void)gethostname(host, sizeof host - 1);
  void* first[1];
  (void)backtrace(first, 1);  // its library is loaded now, not in a handler
  const stack_t spare{spare_stack, 0, sizeof spare_stack};
  stack_t present{};
  if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) != 0)
    (void)sigaltstack(&spare, nullptr);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_ONSTACK;
    (void)sigaction(number, &ours, nullptr);
  }
}

}  // namespace skerry
