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
// the epoch. So does a single value given to put or update. Forms that return a value wait for it.
// The _nb forms use their spans until their Handle is done.
//
// Displacements count in units of the target: elements, if the window was made with a type.
#ifndef SKERRY_WINDOW_HPP
#define SKERRY_WINDOW_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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
  // Takes over what window.h made over `group`.
  Window(const Group& group, skerry_window* made) : owner_(group.job_ref(), made) {}

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

  // Over memory of the program, which stays where it is until the window is freed. One displacement
  // is one T.
  template <class T>
  static Window create(const Group& group, std::span<T> memory) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
    skerry_window* made = nullptr;
    check(skerry_window_create(group.get(), memory.data(), memory.size_bytes(), sizeof(T), &made));
    return Window(group, made);
  }
  // Without memory: members attach theirs. Displacements are addresses there (address_of).
  static Window create_dynamic(const Group& group) {
    skerry_window* made = nullptr;
    check(skerry_window_create_dynamic(group.get(), &made));
    return Window(group, made);
  }
  template <class T>
  void attach(std::span<T> memory) const {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
    check(skerry_window_attach(get(), memory.data(), memory.size_bytes()));
  }
  void detach(void* memory) const { check(skerry_window_detach(get(), memory)); }
  // What the others give as displacement of attached memory of this rank.
  static std::uint64_t address_of(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory);
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

  // target[i] = target[i] OPERATION values[i], each element atomically with all other updates.
  template <class T>
  void update(int rank, std::uint64_t at, std::span<const T> values, Operation operation) const {
    check(skerry_window_update(get(), rank, at, element_type_of<T>(), static_cast<int>(operation),
                               values.data(), values.size()));
  }
  template <class T>
  void update(int rank, std::uint64_t at, const T& value, Operation operation) const {
    update(rank, at, std::span<const T>(&value, 1), operation);
  }
  template <class T>
    requires(!std::is_lvalue_reference_v<T>)
  void update(int rank, std::uint64_t at, T&& value, Operation operation) const = delete;
  // The same; result[i] is what target[i] was before. It does not overlap `values`, which may be
  // empty for Operation::no_op: then the result's size counts.
  template <class T>
  void fetch_update(int rank, std::uint64_t at, std::span<const T> values, std::span<T> result,
                    Operation operation) const {
    fetch_update_nb(rank, at, values, result, operation).wait();
  }
  // Waits for the old value.
  template <class T>
  T fetch_update(int rank, std::uint64_t at, T value, Operation operation) const {
    T result;
    fetch_update(rank, at, std::span<const T>(&value, 1), std::span<T>(&result, 1), operation);
    return result;
  }
  template <class T>
  Handle update_nb(int rank, std::uint64_t at, std::span<const T> values,
                   Operation operation) const {
    skerry_handle handle = 0;
    check(skerry_window_update_nb(get(), rank, at, element_type_of<T>(),
                                  static_cast<int>(operation), values.data(), values.size(),
                                  &handle));
    return {owner_.job_ref(), handle};
  }
  // Throws INVALID if the sizes differ.
  template <class T>
  Handle fetch_update_nb(int rank, std::uint64_t at, std::span<const T> values, std::span<T> result,
                         Operation operation) const {
    if (values.size() != result.size() && operation != Operation::no_op)
      throw Error(SKERRY_ERR_INVALID, "fetch_update of " + std::to_string(values.size()) +
                                          " values into " + std::to_string(result.size()) +
                                          ": give one place for each");
    skerry_handle handle = 0;
    check(skerry_window_fetch_update_nb(get(), rank, at, element_type_of<T>(),
                                        static_cast<int>(operation), values.data(), result.data(),
                                        result.size(), &handle));
    return {owner_.job_ref(), handle};
  }
  // Stores `desired` if the element is `expected`. Returns what it was before; waits for it.
  template <class T>
  T compare_swap(int rank, std::uint64_t at, T expected, T desired) const {
    static_assert(std::is_integral_v<T>);
    T result;
    check(skerry_window_compare_swap(get(), rank, at, element_type_of<T>(), &expected, &desired,
                                     &result));
    return result;
  }

 private:
  static std::uint32_t bits(Promise promises) { return static_cast<std::uint32_t>(promises); }

  detail::Owner<skerry_window, skerry_window_free> owner_;
};

}  // namespace v0
}  // namespace sk
#endif  // SKERRY_WINDOW_HPP
