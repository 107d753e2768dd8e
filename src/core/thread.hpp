// Mutex, condition variable, thread, randomness and warnings of the code that the simulator runs
// unchanged: the engine, the data server and shared connections. They take these from nowhere else,
// and the time from monotonic_ns().
//
// Compiled with SKERRY_SIMULATED the same interface is the simulator's. Its threads are fibers of
// one thread: they run one at a time until they wait, in an order that the seed decides. Those
// definitions are in lab/sim/runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#ifndef SKERRY_SIMULATED
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>
#endif

#include "core/pure/assert.hpp"

namespace skerry {

// Random bytes that nobody else can guess (libsodium's); in the simulator, of the seed.
void random_bytes(void* to, size_t bytes);

#ifdef SKERRY_SIMULATED

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  void unlock();
  void assert_held() const;

 private:
  friend class Condition;
  // The fiber that holds it; null: nobody. Those that wait for it are known by its address.
  void* owner_ = nullptr;
};

#else

// A mutex that knows its holder in builds with assertions (debug and sanitizers), so that functions
// which need it held can say so in code.
class Mutex {
 public:
  void lock() {
    mutex_.lock();
#ifndef NDEBUG
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
#endif
  }
  void unlock() {
#ifndef NDEBUG
    owner_.store({}, std::memory_order_relaxed);
#endif
    mutex_.unlock();
  }
  // The calling thread holds it. Costs nothing in release builds.
  void assert_held() const {
#ifndef NDEBUG
    // Relaxed is enough: only our own store can make this equal to our id.
    SKERRY_ASSERT(owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(),
                  "called without the mutex that guards what it touches");
#endif
  }

 private:
  friend class Condition;
  std::mutex mutex_;
#ifndef NDEBUG
  std::atomic<std::thread::id> owner_{};
#endif
};

#endif

// Holds a mutex until its end; may give it up in between.
using Lock = std::unique_lock<Mutex>;

// A condition variable for Mutex.
class Condition {
 public:
#ifdef SKERRY_SIMULATED
  Condition() = default;
  Condition(const Condition&) = delete;
  void notify_one();
  void notify_all();
  void wait(Lock& lock);
  // Returns when notified, after `timeout_ns`, or for no reason.
  void wait_for(Lock& lock, int64_t timeout_ns);
#else
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }
  void wait(Lock& lock) {
    Unowned held(lock);
    condition_.wait(held.guard);
  }
  void wait_for(Lock& lock, int64_t timeout_ns) {
    Unowned held(lock);
    condition_.wait_for(held.guard, std::chrono::nanoseconds(timeout_ns));
  }

 private:
  // The standard's condition variable wants its own lock: lent for the wait.
  struct Unowned {
    Lock& lock;
    std::unique_lock<std::mutex> guard;
    explicit Unowned(Lock& l) : lock(l), guard(l.mutex()->mutex_, std::adopt_lock) {}
    ~Unowned() {
#ifndef NDEBUG  // others held it meanwhile
      lock.mutex()->owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
#endif
      (void)guard.release();
    }
  };
  std::condition_variable condition_;
#endif

 public:
  template <class Predicate>
  void wait(Lock& lock, Predicate&& reached) {
    while (!reached()) wait(lock);
  }
  // True: reached. Waits `timeout_ns` at most, from now on.
  template <class Predicate>
  bool wait_for(Lock& lock, int64_t timeout_ns, Predicate&& reached);
};

// A thread of ours. It blocks all signals: they are the program's business.
class Thread {
 public:
  Thread() = default;
  // `name`: at most 15 characters, as debuggers and top show it.
  Thread(const char* name, std::function<void()> body);
  ~Thread();
  Thread& operator=(Thread&&) noexcept;
  bool joinable() const;
  void join();

 private:
#ifdef SKERRY_SIMULATED
  void* fiber_ = nullptr;
#else
  std::thread thread_;
#endif
};

// The calling thread may run on any processor, whatever its creator was bound to.
void run_anywhere();

int64_t monotonic_ns();

// Tells people by a line on standard error, behind "skerry: "; an empty one says nothing. For what
// may happen without a defect of ours. In the simulator it goes nowhere: a storm provokes it by the
// thousand.
void warn(std::string_view line);

template <class Predicate>
bool Condition::wait_for(Lock& lock, int64_t timeout_ns, Predicate&& reached) {
  const int64_t until_ns = monotonic_ns() + timeout_ns;
  while (!reached()) {
    const int64_t left_ns = until_ns - monotonic_ns();
    if (left_ns <= 0) return reached();
    wait_for(lock, left_ns);
  }
  return true;
}

}  // namespace skerry
