// The product's mutexes, condition variables, threads, futexes, clock, randomness and warnings, by
// fibers: the other half of core/thread.hpp and core/futex.hpp with SKERRY_SIMULATED.
#include <cstring>

#include "core/futex.hpp"
#include "core/thread.hpp"
#include "sim/runtime/fiber.hpp"

namespace skerry {

using sim::Fiber;
using sim::Scheduler;

int64_t monotonic_ns() { return Scheduler::current().now_ns(); }
uint32_t spin_limit() { return 0; }  // the fiber that is waited for cannot run meanwhile

void random_bytes(void* to, size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const uint64_t value = Scheduler::current().random().next();
    const size_t part = bytes < sizeof value ? bytes : sizeof value;
    std::memcpy(out, &value, part);
    out += part;
    bytes -= part;
  }
}

// ---- mutex and condition ----------------------------------------------------------------------

void Mutex::lock() {
  Scheduler& scheduler = Scheduler::current();
  scheduler.give_way();
  while (owner_ != nullptr) {
    SKERRY_ASSERT(owner_ != scheduler.self(), "a fiber waits for a mutex that it holds");
    (void)scheduler.wait("a mutex", this);
  }
  owner_ = scheduler.self();
}

void Mutex::unlock() {
  Scheduler& scheduler = Scheduler::current();
  SKERRY_ASSERT(owner_ == scheduler.self(), "a mutex is unlocked by a fiber that does not hold it");
  owner_ = nullptr;
  scheduler.wake(this);
  scheduler.give_way();
}

void Mutex::assert_held() const {
  SKERRY_ASSERT(owner_ == Scheduler::current().self(),
                "called without the mutex that guards what it touches");
}

void Condition::notify_one() { Scheduler::current().wake(this, 1); }
void Condition::notify_all() { Scheduler::current().wake(this); }

// No notification is lost: nothing runs between the unlocking and the wait.
void Condition::wait(Lock& lock) { wait_for(lock, -1); }

void Condition::wait_for(Lock& lock, int64_t timeout_ns) {
  Scheduler& scheduler = Scheduler::current();
  Mutex& mutex = *lock.mutex();
  SKERRY_ASSERT(mutex.owner_ == scheduler.self(), "a condition is waited for with its mutex held");
  mutex.owner_ = nullptr;
  scheduler.wake(&mutex);
  (void)scheduler.wait("a condition", this,
                       timeout_ns < 0 ? sim::never_ns : scheduler.now_ns() + timeout_ns);
  mutex.lock();
}

// ---- threads ----------------------------------------------------------------------------------

Thread::Thread(const char* name, std::function<void()> body)
    : fiber_(Scheduler::current().spawn(name, std::move(body))) {}
Thread::~Thread() { SKERRY_ASSERT(fiber_ == nullptr, "a thread goes that was not joined"); }
Thread& Thread::operator=(Thread&& other) noexcept {
  fiber_ = std::exchange(other.fiber_, nullptr);
  return *this;
}
bool Thread::joinable() const { return fiber_ != nullptr; }

void Thread::join() {
  auto* const fiber = static_cast<Fiber*>(std::exchange(fiber_, nullptr));
  while (fiber->state != Fiber::State::done)
    (void)Scheduler::current().wait("the end of a thread", fiber);
}

void run_anywhere() {}
void warn(std::string_view) {}

// ---- futexes ----------------------------------------------------------------------------------

bool futex_wait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.give_way();
  if (word->load(std::memory_order_acquire) != expected) return false;
  return !scheduler.wait("a futex", word,
                         timeout_ns < 0 ? sim::never_ns : scheduler.now_ns() + timeout_ns);
}

void futex_wake(const std::atomic<uint32_t>* word, int32_t count) {
  Scheduler::current().wake(word, count);
  Scheduler::current().give_way();
}

}  // namespace skerry
