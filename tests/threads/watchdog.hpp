// Tests that do not end say where they stand: after the limit the stacks of all threads are printed
// by addr2line, and the process ends with status 3. (ctest ends what is late without a word.)
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>

namespace skerry::test {

class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit) {
    void* frame;
    (void)backtrace(&frame, 1);  // loads what it needs, here and not in a signal handler
    std::signal(SIGUSR2, [](int) {
      count = backtrace(frames, most_frames);
      answered.release();
    });
    thread_ = std::thread([this, limit] {
      std::unique_lock lock(mutex_);
      if (!ended_.wait_for(lock, limit, [this] { return over_; })) say();
    });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;

 private:
  [[noreturn]] static void say() {
    DIR* const tasks = opendir("/proc/self/task");
    while (const dirent* const task = tasks == nullptr ? nullptr : readdir(tasks)) {
      const long id = std::atol(task->d_name);
      if (id == 0 || id == syscall(SYS_gettid)) continue;
      count = 0;
      (void)syscall(SYS_tgkill, getpid(), id, SIGUSR2);
      (void)answered.try_acquire_for(std::chrono::seconds(1));  // one may block all signals
      print(id, count);
    }
    _exit(3);
  }

  static void print(long id, int found) {
    Dl_info program{};
    (void)dladdr(reinterpret_cast<void*>(&Watchdog::print), &program);
    std::string command = "addr2line -C -f -p -e /proc/" + std::to_string(getpid()) + "/exe";
    for (int i = 0; i < found; ++i) {
      Dl_info where{};
      if (dladdr(frames[i], &where) == 0 || where.dli_fbase != program.dli_fbase) continue;
      char offset[32];
      std::snprintf(offset, sizeof offset, " 0x%zx",
                    static_cast<size_t>(static_cast<char*>(frames[i]) -
                                        static_cast<char*>(where.dli_fbase)));
      command += offset;
    }
    std::printf("thread %ld, %d frames\n", id, found);
    std::fflush(stdout);
    (void)!std::system(command.c_str());
  }

  static constexpr int most_frames = 40;
  static inline void* frames[most_frames];  // of the thread that was asked last
  static inline std::atomic<int> count = 0;
  static inline std::counting_semaphore<> answered{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace skerry::test
