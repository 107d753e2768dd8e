// window.hpp: window.h for C++20, as skerry.hpp is skerry.h: owners, exceptions and spans. Header
// only. What a call does, whether it blocks, and how it fails: see the function of the same name in
// window.h.
//
//   sk::Window counts = sk::Window::allocate<std::int64_t>(job.world(), 100);  // collective
//   {
//     const sk::Lock locked = counts.lock(1, sk::LockMode::exclusive);
//     const auto value = counts.get<std::int64_t>(1, 7) + 1;
//     counts.put(1, 7, value);
//   }                                                      // unlocked: rank 1 has the new value
//
// Buffers. A span given to put, update or get stays as it is until flush_local, flush or the end of
// the epoch; so does a single value given to put or update. Forms that return a value wait for it.
// The _nb forms use their spans until their Handle is done.
//
// Displacements count in units of the target: elements, if the window was made with a type.
#ifndef SKERRY_WINDOW_HPP
#define SKERRY_WINDOW_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "skerry/skerry.hpp"
#include "skerry/window.h"

namespace sk {
inline namespace v0 {

enum class LockMode : int { exclusive = SKERRY_LOCK_EXCLUSIVE, shared = SKERRY_LOCK_SHARED };
inline const char* to_string(LockMode mode) {
  switch (mode) {
    case LockMode::exclusive: return "exclusive";
    case LockMode::shared: return "shared";
  }
  return "unknown mode";
}

// What the caller promises; combined with |. A broken promise is the caller's error.
enum class Promise : std::uint32_t {
  none = 0,
  no_check = SKERRY_NO_CHECK,
  no_store = SKERRY_NO_STORE,
  no_put = SKERRY_NO_PUT,
  no_precede = SKERRY_NO_PRECEDE,
  no_succeed = SKERRY_NO_SUCCEED
};
constexpr Promise operator|(Promise a, Promise b) noexcept {
  return static_cast<Promise>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

// An access epoch of lock or lock_all. The destructor ends it, also while an exception unwinds:
// nobody else takes part, and others wait for the lock. It hides an error of the target; call
// unlock() to see it. Must not outlive its window.
class [[nodiscard]] Lock {
 public:
  static constexpr int all = -1;  // as `rank`: of lock_all
  Lock() = default;
  Lock(detail::JobRef job, skerry_window* window, int rank)
      : job_(std::move(job)), window_(window), rank_(rank) {}
  Lock(Lock&& other) noexcept
      : job_(std::move(other.job_)),
        window_(std::exchange(other.window_, nullptr)),
        rank_(other.rank_) {}
  Lock& operator=(Lock&& other) noexcept {
    std::swap(job_, other.job_);
    std::swap(window_, other.window_);
    std::swap(rank_, other.rank_);
    return *this;
  }
  ~Lock() {
    if (window_ && job_->handle) end(std::exchange(window_, nullptr));
  }
  // Ends the epoch now; does nothing if it has ended.
  void unlock() {
    if (window_ && job_->handle) check(end(std::exchange(window_, nullptr)));
  }
  bool owns_lock() const noexcept { return window_ != nullptr; }
  int rank() const noexcept { return rank_; }

 private:
  int end(skerry_window* window) const {
    return rank_ == all ? skerry_window_unlock_all(window) : skerry_window_unlock(window, rank_);
  }
  detail::JobRef job_;
  skerry_window* window_ = nullptr;  // null: ended or moved from
  int rank_ = all;
};

// Memory of the members of a group that the others access between two synchronization calls.
// Ranks are job ranks. Errors of accesses: RANGE; INVALID outside an epoch.
class Window {
 public:
  Window() = default;

  // Collective, as all ways to make one. The sizes may differ between members; zeroed.
  static Window allocate(const Group& group, std::uint64_t bytes, std::uint64_t unit) {
    skerry_window* made = nullptr;
    check(skerry_window_allocate(group.get(), bytes, unit, &made));
    return Window(group, made);
  }
  // The same in elements: one displacement is one T.
  template <class T>
  static Window allocate(const Group& group, std::uint64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return allocate(group, count * sizeof(T), sizeof(T));
  }

  explicit operator bool() const noexcept { return static_cast<bool>(owner_); }
  // Collective. Throws INVALID, and frees nothing, while an epoch of the caller is open.
  void free() {
    check(skerry_window_free(get()));
    owner_.release();
  }
  void release() noexcept { owner_.release(); }
  skerry_window* get() const { return owner_.get(); }

  std::uint64_t bytes(int rank) const { return skerry_window_bytes(get(), rank); }
  std::uint64_t unit(int rank) const { return skerry_window_unit(get(), rank); }
  template <class T = std::byte>
  T* local() const {
    return static_cast<T*>(skerry_window_local(get()));
  }  // null if 0 bytes
  template <class T = std::byte>
  T* pointer(int rank) const {
    return static_cast<T*>(skerry_window_pointer(get(), rank));
  }  // null if on another node

  // ---- epochs ----
  Lock lock(int rank, LockMode mode, Promise promises = Promise::none) const {
    check(skerry_window_lock(get(), static_cast<int>(mode), rank, bits(promises)));
    return {owner_.job_ref(), get(), rank};
  }
  Lock lock_all(Promise promises = Promise::none) const {
    check(skerry_window_lock_all(get(), bits(promises)));
    return {owner_.job_ref(), get(), Lock::all};
  }
  void flush(int rank) const { check(skerry_window_flush(get(), rank)); }
  void flush() const { check(skerry_window_flush_all(get())); }
  void flush_local(int rank) const { check(skerry_window_flush_local(get(), rank)); }
  void flush_local() const { check(skerry_window_flush_local_all(get())); }
  void sync() const { check(skerry_window_sync(get())); }

  void fence(Promise promises = Promise::none) const {
    check(skerry_window_fence(get(), bits(promises)));
  }
  void post(std::span<const int> ranks, Promise promises = Promise::none) const {
    check(skerry_window_post(get(), ranks.data(), static_cast<int>(ranks.size()), bits(promises)));
  }
  void start(std::span<const int> ranks, Promise promises = Promise::none) const {
    check(skerry_window_start(get(), ranks.data(), static_cast<int>(ranks.size()), bits(promises)));
  }
  void complete() const { check(skerry_window_complete(get())); }
  void wait() const { check(skerry_window_wait(get())); }
  bool test() const {
    int done = 0;
    check(skerry_window_test(get(), &done));
    return done != 0;
  }

  // ---- access ----
  template <class T>
  void put(int rank, std::uint64_t at, std::span<const T> values) const {
    check(skerry_window_put(get(), rank, at, values.data(), values.size_bytes()));
  }
  template <class T>
  void put(int rank, std::uint64_t at, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    check(skerry_window_put(get(), rank, at, &value, sizeof(T)));
  }
  // A temporary would be gone before the put is done.
  template <class T>
    requires(!std::is_lvalue_reference_v<T>)
  void put(int rank, std::uint64_t at, T&& value) const = delete;
  template <class T>
  void get(int rank, std::uint64_t at, std::span<T> values) const {
    check(skerry_window_get(get(), rank, at, values.data(), values.size_bytes()));
  }
  // Waits for the value.
  template <class T>
  T get(int rank, std::uint64_t at) const {
    T value;
    get_nb(rank, at, std::span<T>(&value, 1)).wait();
    return value;
  }
  template <class T>
  Handle put_nb(int rank, std::uint64_t at, std::span<const T> values) const {
    skerry_handle handle = 0;
    check(skerry_window_put_nb(get(), rank, at, values.data(), values.size_bytes(), &handle));
    return {owner_.job_ref(), handle};
  }
  template <class T>
  Handle get_nb(int rank, std::uint64_t at, std::span<T> values) const {
    skerry_handle handle = 0;
    check(skerry_window_get_nb(get(), rank, at, values.data(), values.size_bytes(), &handle));
    return {owner_.job_ref(), handle};
  }

 private:
  Window(const Group& group, skerry_window* made) : owner_(group.job_ref(), made) {}
  static std::uint32_t bits(Promise promises) { return static_cast<std::uint32_t>(promises); }

  detail::Owner<skerry_window, skerry_window_free> owner_;
};

}  // namespace v0
}  // namespace sk
#endif  // SKERRY_WINDOW_HPP
