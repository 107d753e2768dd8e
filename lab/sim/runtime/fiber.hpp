// Fibers: the threads of a simulated run. One runs at a time, until it waits or gives way; the seed
// decides which is next. Time is virtual: a step costs a little of it, and when no fiber can run it
// jumps to the next timer.
//
// One Scheduler at a time in a process: the product's Mutex, Condition, Thread, futex_wait and
// monotonic_ns (core/thread.hpp, core/futex.hpp) find it by Scheduler::current().
#pragma once

#include <csetjmp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <ucontext.h>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/random.hpp"

namespace skerry::sim {

constexpr int64_t never_ns = INT64_MAX;

struct Stack;

// A process of the simulated job: its fibers stop and die together.
using Process = uint32_t;

struct Fiber {
  enum class State : uint8_t { runnable, waiting, done };

  std::string name;
  Process process = 0;
  State state = State::runnable;
  // While waiting: what for, in words and as the address that wake() names, and how long.
  const char* waits_for = "";
  const void* address = nullptr;
  int64_t until_ns = never_ns;
  bool woken = false;

  std::function<void()> body;
  Stack* stack = nullptr;
  ucontext_t context;
  std::jmp_buf resume;
  bool started = false;
  void* sanitizer = nullptr;  // what a sanitizer keeps of it
};

struct SchedulerOptions {
  uint64_t seed = 1;
  // Of 256: how often a call at which others might run gives way to them.
  uint32_t give_way = 64;
  // Virtual time that a step takes, drawn anew for each: 1 .. 2 * step_ns.
  int64_t step_ns = 300;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  static Scheduler& current();

  int64_t now_ns() const { return now_ns_; }
  uint64_t steps() const { return steps_; }
  Random& random() { return random_; }

  // Belongs to the process of the fiber that calls, or to `process`.
  Fiber* spawn(std::string name, std::function<void()> body);
  Fiber* spawn(Process process, std::string name, std::function<void()> body);
  // At that time, between two steps, not on a fiber: `event` must not wait.
  void at(int64_t time_ns, std::function<void()> event);
  // Runs fibers and events until stop(), until the time is `until_ns`, or until nothing can happen
  // any more.
  void run(int64_t until_ns, uint64_t most_steps);
  void stop() { stopping_ = true; }

  // --- by a fiber ---
  Fiber* self() const { return running_; }
  // Others may run now; whether they do is the seed's choice.
  void give_way();
  void yield();
  // Until wake(address), or `until_ns`. False: the time came first.
  bool wait(const char* what, const void* address, int64_t until_ns = never_ns);
  void sleep(int64_t duration_ns) { (void)wait("sleep", nullptr, now_ns_ + duration_ns); }
  // --- by a fiber or an event ---
  void wake(const void* address, int32_t count = INT32_MAX);

  // Faults: the fibers of a process do not run until then; or never again.
  void pause(Process process, int64_t until_ns);
  void kill(Process process);
  bool is_dead(Process process) const;

  // What every fiber does, a line each. To be called in a debugger as well: skerry_fibers().
  std::string describe() const;

 private:
  struct ProcessState {
    int64_t paused_until_ns = 0;
    bool dead = false;
  };
  bool may_run(const Fiber& fiber) const;
  int64_t runs_from_ns(const Fiber& fiber) const;
  bool run_events();
  void expire_timers();
  Fiber* pick();
  bool jump(int64_t until_ns);
  void resume(Fiber& fiber);
  void suspend();
  static void enter();
  void begin_switch(void** keep, const Fiber* to);
  void end_switch(void* kept);

  SchedulerOptions options_;
  Random random_;
  int64_t now_ns_ = 1'000'000'000;
  int64_t next_timer_ns_ = never_ns;  // no fiber's timer is due before
  uint64_t steps_ = 0;
  bool stopping_ = false;
  Fiber* running_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> candidates_;  // of pick, kept for its memory
  std::vector<ProcessState> processes_;
  EventQueue<std::function<void()>> events_;
  ucontext_t main_context_;
  std::jmp_buf main_resume_;
  void* main_sanitizer_ = nullptr;
  const void* main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
};

}  // namespace skerry::sim
