// longjmp between stacks is what this file is for: the check against it stays out.
#undef _FORTIFY_SOURCE

#include "sim/runtime/fiber.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/pure/assert.hpp"
#include "core/pure/status.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define SKERRY_FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define SKERRY_FIBER_TSAN 1
#endif

namespace skerry::sim {

// Stacks are kept from run to run: a seed takes a few milliseconds, and mapping is slow.
struct Stack {
  std::byte* base = nullptr;
  static constexpr size_t bytes = 256 * 1024;
  static constexpr size_t guard_bytes = 4096;
};

namespace {

Scheduler* current_scheduler = nullptr;

std::vector<Stack*>& spare_stacks() {
  static std::vector<Stack*> spare;
  return spare;
}

Stack* take_stack() {
  std::vector<Stack*>& spare = spare_stacks();
  if (!spare.empty()) {
    Stack* const stack = spare.back();
    spare.pop_back();
    return stack;
  }
  void* const memory = mmap(nullptr, Stack::bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SKERRY_ASSERT(memory != MAP_FAILED, "no memory for the stack of a fiber");
  mprotect(memory, Stack::guard_bytes, PROT_NONE);  // an overflow ends here and not in a neighbour
  return new Stack{static_cast<std::byte*>(memory)};
}

void unmap(Stack* stack) {
  munmap(stack->base, Stack::bytes);
  delete stack;
}

}  // namespace

Scheduler& Scheduler::current() {
  SKERRY_ASSERT(current_scheduler != nullptr, "outside of a simulated run");
  return *current_scheduler;
}

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options), random_(options.seed) {
  SKERRY_ASSERT(current_scheduler == nullptr, "one simulated run at a time");
  current_scheduler = this;
#ifdef SKERRY_FIBER_TSAN
  main_sanitizer_ = __tsan_get_current_fiber();
#endif
}

// Fibers that have not ended, as those of the dead, are given up as they stand: what they hold on
// the heap stays taken. Their stacks go: with their guards they would take all mappings that a
// process may have, in some 16,000 seeds with deaths.
Scheduler::~Scheduler() {
  for (const auto& fiber : fibers_) {
#ifdef SKERRY_FIBER_TSAN
    if (fiber->sanitizer != nullptr) __tsan_destroy_fiber(fiber->sanitizer);
#endif
    if (fiber->state == Fiber::State::done) spare_stacks().push_back(fiber->stack);
    else unmap(fiber->stack);
  }
  current_scheduler = nullptr;
}

Fiber* Scheduler::spawn(std::string name, std::function<void()> body) {
  return spawn(running_ != nullptr ? running_->process : 0, std::move(name), std::move(body));
}

Fiber* Scheduler::spawn(Process process, std::string name, std::function<void()> body) {
  if (process >= processes_.size()) processes_.resize(process + 1);
  auto fiber = std::make_unique<Fiber>();
  fiber->name = std::move(name);
  fiber->process = process;
  fiber->body = std::move(body);
  fiber->stack = take_stack();
#ifdef SKERRY_FIBER_TSAN
  fiber->sanitizer = __tsan_create_fiber(0);
#endif
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack->base + Stack::guard_bytes;
  fiber->context.uc_stack.ss_size = Stack::bytes - Stack::guard_bytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, &Scheduler::enter, 0);
  fibers_.push_back(std::move(fiber));
  return fibers_.back().get();
}

void Scheduler::at(int64_t time_ns, std::function<void()> event) {
  events_.schedule(time_ns, std::move(event));
}

// ---- switching --------------------------------------------------------------------------------
//
// A fiber is entered once by its ucontext; later switches are _setjmp and _longjmp, which make no
// system call as swapcontext does. Sanitizers follow swapcontext better.

#if defined(SKERRY_FIBER_ASAN) || defined(SKERRY_FIBER_TSAN)
constexpr bool by_context = true;
#else
constexpr bool by_context = false;
#endif

void Scheduler::begin_switch([[maybe_unused]] void** keep, [[maybe_unused]] const Fiber* to) {
#ifdef SKERRY_FIBER_ASAN
  if (to != nullptr)
    __sanitizer_start_switch_fiber(keep, to->stack->base + Stack::guard_bytes,
                                   Stack::bytes - Stack::guard_bytes);
  else __sanitizer_start_switch_fiber(keep, main_stack_, main_stack_bytes_);
#endif
#ifdef SKERRY_FIBER_TSAN
  __tsan_switch_to_fiber(to != nullptr ? to->sanitizer : main_sanitizer_, 0);
#endif
}

void Scheduler::end_switch([[maybe_unused]] void* kept) {
#ifdef SKERRY_FIBER_ASAN
  if (running_ != nullptr) __sanitizer_finish_switch_fiber(kept, &main_stack_, &main_stack_bytes_);
  else __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

void Scheduler::enter() {
  Scheduler& scheduler = *current_scheduler;
  scheduler.end_switch(nullptr);
  Fiber& fiber = *scheduler.running_;
  fiber.body();
  fiber.body = nullptr;
  fiber.state = Fiber::State::done;
  scheduler.wake(&fiber);
  scheduler.suspend();
}

void Scheduler::resume(Fiber& fiber) {
  running_ = &fiber;
  void* kept = nullptr;
  begin_switch(&kept, &fiber);
  if (by_context) {
    swapcontext(&main_context_, &fiber.context);
  } else if (_setjmp(main_resume_) == 0) {
    if (fiber.started) _longjmp(fiber.resume, 1);
    fiber.started = true;
    setcontext(&fiber.context);
  }
  running_ = nullptr;
  end_switch(kept);
}

// Back to run().
void Scheduler::suspend() {
  Fiber& fiber = *running_;
  void* kept = nullptr;
  begin_switch(fiber.state == Fiber::State::done ? nullptr : &kept, nullptr);
  if (by_context) swapcontext(&fiber.context, &main_context_);
  else if (_setjmp(fiber.resume) == 0) _longjmp(main_resume_, 1);
  end_switch(kept);
}

// ---- which fiber runs -------------------------------------------------------------------------

bool Scheduler::may_run(const Fiber& fiber) const {
  const ProcessState& process = processes_[fiber.process];
  return fiber.state == Fiber::State::runnable && !process.dead &&
         process.paused_until_ns <= now_ns_;
}

int64_t Scheduler::runs_from_ns(const Fiber& fiber) const {
  const ProcessState& process = processes_[fiber.process];
  if (process.dead || fiber.state == Fiber::State::done) return never_ns;
  const int64_t from_ns = fiber.state == Fiber::State::runnable ? now_ns_ : fiber.until_ns;
  return std::max(from_ns, process.paused_until_ns);
}

bool Scheduler::run_events() {
  bool any = false;
  while (!events_.empty() && events_.next_time() <= now_ns_) {
    events_.pop()();
    any = true;
  }
  return any;
}

void Scheduler::expire_timers() {
  if (now_ns_ < next_timer_ns_) return;
  next_timer_ns_ = never_ns;
  for (const auto& fiber : fibers_) {
    if (fiber->state != Fiber::State::waiting) continue;
    if (fiber->until_ns <= now_ns_) fiber->state = Fiber::State::runnable;
    else next_timer_ns_ = std::min(next_timer_ns_, fiber->until_ns);
  }
}

Fiber* Scheduler::pick() {
  candidates_.clear();
  for (const auto& fiber : fibers_)
    if (may_run(*fiber)) candidates_.push_back(fiber.get());
  if (candidates_.empty()) return nullptr;
  return candidates_[random_.below(static_cast<uint32_t>(candidates_.size()))];
}

// Nobody can run now: on to when somebody can. False: that never happens, or is beyond `until_ns`.
bool Scheduler::jump(int64_t until_ns) {
  int64_t next_ns = events_.empty() ? never_ns : events_.next_time();
  for (const auto& fiber : fibers_) next_ns = std::min(next_ns, runs_from_ns(*fiber));
  if (next_ns == never_ns || next_ns > until_ns) return false;
  now_ns_ = std::max(now_ns_, next_ns);
  return true;
}

void Scheduler::run(int64_t until_ns, uint64_t most_steps) {
  const uint64_t end = steps_ + most_steps;
  while (!stopping_ && now_ns_ <= until_ns && steps_ < end) {
    run_events();
    expire_timers();
    Fiber* const next = pick();
    if (next == nullptr) {
      if (!jump(until_ns)) return;
      continue;
    }
    ++steps_;
    now_ns_ += 1 + static_cast<int64_t>(random_.below(static_cast<uint32_t>(2 * options_.step_ns)));
    resume(*next);
  }
}

void Scheduler::yield() {
  if (running_ != nullptr) suspend();
}

void Scheduler::give_way() {
  if (running_ != nullptr && random_.below(256) < options_.give_way) suspend();
}

bool Scheduler::wait(const char* what, const void* address, int64_t until_ns) {
  SKERRY_ASSERT(running_ != nullptr, "an event of the simulator must not wait");
  Fiber& fiber = *running_;
  fiber.state = Fiber::State::waiting;
  fiber.waits_for = what;
  fiber.address = address;
  fiber.until_ns = until_ns;
  fiber.woken = false;
  next_timer_ns_ = std::min(next_timer_ns_, until_ns);
  suspend();
  fiber.address = nullptr;
  fiber.waits_for = "";
  return fiber.woken;
}

void Scheduler::wake(const void* address, int32_t count) {
  candidates_.clear();
  for (const auto& fiber : fibers_)
    if (fiber->state == Fiber::State::waiting && fiber->address == address)
      candidates_.push_back(fiber.get());
  for (; count > 0 && !candidates_.empty(); --count) {
    const uint32_t chosen = random_.below(static_cast<uint32_t>(candidates_.size()));
    candidates_[chosen]->state = Fiber::State::runnable;
    candidates_[chosen]->woken = true;
    candidates_.erase(candidates_.begin() + chosen);
  }
}

// ---- faults -----------------------------------------------------------------------------------

void Scheduler::pause(Process process, int64_t until_ns) {
  ProcessState& state = processes_[process];
  state.paused_until_ns = std::max(state.paused_until_ns, until_ns);
}

void Scheduler::kill(Process process) { processes_[process].dead = true; }

bool Scheduler::is_dead(Process process) const {
  return process < processes_.size() && processes_[process].dead;
}

std::string Scheduler::describe() const {
  std::string text;
  for (const auto& fiber : fibers_) {
    if (fiber->state == Fiber::State::done) continue;
    text += concat("  ", fiber->name, ": ");
    if (processes_[fiber->process].dead) text += "its process is dead; ";
    else if (processes_[fiber->process].paused_until_ns > now_ns_) text += "stopped; ";
    if (fiber.get() == running_) text += "runs";
    else if (fiber->state == Fiber::State::runnable) text += "can run";
    else text += concat("waits for ", fiber->waits_for);
    if (fiber->state == Fiber::State::waiting && fiber->until_ns != never_ns)
      text += concat(", ", (fiber->until_ns - now_ns_) / 1000, " us at most");
    text += '\n';
  }
  return text;
}

}  // namespace skerry::sim

// For debuggers: `call skerry_fibers()` prints what every fiber does.
extern "C" void skerry_fibers();
extern "C" __attribute__((used, noinline)) void skerry_fibers() {
  if (skerry::sim::current_scheduler == nullptr) return;
  std::fputs(skerry::sim::current_scheduler->describe().c_str(), stderr);
}
