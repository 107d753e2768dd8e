// skerry.hpp: skerry.h for C++20, with owners in place of handles, exceptions in place of statuses,
// and spans in place of pointers and sizes. Header only; it costs nothing beyond the C calls.
// Namespace sk. What a call does, whether it blocks, and how it fails: see the function of the same
// name in skerry.h.
//
//   sk::Job job;                                        // joins; leaves at the end of its scope
//   sk::Segment memory(job.world(), 1024);              // collective
//   memory.put(1, 0, std::span<const double>(values));  // rank 1 takes no part
//   job.world().sync();
//
// Owners. Segment, Mutexes and Counter free in their destructor, which is collective and waits for
// all members. While an exception unwinds they do not free, because the other members may never
// come; the end of the job frees what is left. A destructor that runs after the end of the job does
// nothing. Buffers belong to the caller: a blocking call keeps no pointer to them, a non-blocking
// one uses them until its Handle is done.
//
// Threads: by the level given to Job's constructor (skerry_thread_level). Errors: every call may
// throw sk::Error, and then has changed none of its outputs.
#ifndef SKERRY_SKERRY_HPP
#define SKERRY_SKERRY_HPP

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "skerry/skerry.h"

namespace sk {
inline namespace v0 {

// What went wrong (what(): values and remedy) and its skerry_status (code()).
class SKERRY_API Error : public std::runtime_error {
 public:
  Error(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const noexcept { return code_; }
  const char* code_name() const noexcept { return skerry_status_name(code_); }

 private:
  int code_;
};

// Throws if `status` is below zero, with the calling thread's last message.
inline int check(int status) {
  if (status < 0) [[unlikely]]
    throw Error(status, skerry_last_error());
  return status;
}

// ---- element types ----------------------------------------------------------------------------

enum class Type : int {
  int32 = SKERRY_INT32,
  int64 = SKERRY_INT64,
  float32 = SKERRY_FLOAT,
  float64 = SKERRY_DOUBLE,
  complex64 = SKERRY_COMPLEX_FLOAT,
  complex128 = SKERRY_COMPLEX_DOUBLE,
  int8 = SKERRY_INT8,
  uint8 = SKERRY_UINT8,
  int16 = SKERRY_INT16,
  uint16 = SKERRY_UINT16,
  uint32 = SKERRY_UINT32,
  uint64 = SKERRY_UINT64,
  boolean = 64  // one byte, 0 or 1; no skerry_type: arrays store it, nothing computes with it
};
inline const char* to_string(Type type) {
  switch (type) {
    case Type::int32: return "int32";
    case Type::int64: return "int64";
    case Type::float32: return "float32";
    case Type::float64: return "float64";
    case Type::complex64: return "complex64";
    case Type::complex128: return "complex128";
    case Type::int8: return "int8";
    case Type::uint8: return "uint8";
    case Type::int16: return "int16";
    case Type::uint16: return "uint16";
    case Type::uint32: return "uint32";
    case Type::uint64: return "uint64";
    case Type::boolean: return "bool";
  }
  return "unknown type";
}
inline std::uint64_t bytes_of(Type type) {
  return type == Type::boolean ? sizeof(bool) : skerry_type_bytes(static_cast<int>(type));
}

template <class T>
struct type_of;
template <>
struct type_of<bool> {
  static constexpr Type value = Type::boolean;
};
template <>
struct type_of<std::int8_t> {
  static constexpr Type value = Type::int8;
};
template <>
struct type_of<std::int16_t> {
  static constexpr Type value = Type::int16;
};
template <>
struct type_of<std::int32_t> {
  static constexpr Type value = Type::int32;
};
template <>
struct type_of<std::int64_t> {
  static constexpr Type value = Type::int64;
};
template <>
struct type_of<std::uint8_t> {
  static constexpr Type value = Type::uint8;
};
template <>
struct type_of<std::uint16_t> {
  static constexpr Type value = Type::uint16;
};
template <>
struct type_of<std::uint32_t> {
  static constexpr Type value = Type::uint32;
};
template <>
struct type_of<std::uint64_t> {
  static constexpr Type value = Type::uint64;
};
template <>
struct type_of<float> {
  static constexpr Type value = Type::float32;
};
template <>
struct type_of<double> {
  static constexpr Type value = Type::float64;
};
template <>
struct type_of<std::complex<float>> {
  static constexpr Type value = Type::complex64;
};
template <>
struct type_of<std::complex<double>> {
  static constexpr Type value = Type::complex128;
};
template <class T>
inline constexpr Type type_of_v = type_of<std::remove_cv_t<T>>::value;

// The skerry_type of any C++ type that updates take: also integers of 8 and 16 bits, unsigned ones
// and long double.
template <class T>
constexpr int element_type_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool>) {
    constexpr bool is_signed = std::is_signed_v<U>;
    if constexpr (sizeof(U) == 1) return is_signed ? SKERRY_INT8 : SKERRY_UINT8;
    else if constexpr (sizeof(U) == 2) return is_signed ? SKERRY_INT16 : SKERRY_UINT16;
    else if constexpr (sizeof(U) == 4) return is_signed ? SKERRY_INT32 : SKERRY_UINT32;
    else return is_signed ? SKERRY_INT64 : SKERRY_UINT64;
  } else if constexpr (std::is_same_v<U, long double>) {
    return SKERRY_LONG_DOUBLE;
  } else {
    return static_cast<int>(type_of_v<U>);
  }
}

// Of updates and, but for the last two, of reductions.
enum class Operation : int {
  sum = SKERRY_SUM,
  prod = SKERRY_PROD,
  min = SKERRY_MIN,
  max = SKERRY_MAX,
  logical_and = SKERRY_LAND,
  logical_or = SKERRY_LOR,
  logical_xor = SKERRY_LXOR,
  bit_and = SKERRY_BAND,
  bit_or = SKERRY_BOR,
  bit_xor = SKERRY_BXOR,
  replace = SKERRY_REPLACE,
  no_op = SKERRY_NO_OP
};
using Reduction = Operation;
enum class ThreadLevel : int {
  single = SKERRY_THREAD_SINGLE,
  serialized = SKERRY_THREAD_SERIALIZED,
  multiple = SKERRY_THREAD_MULTIPLE
};
enum class OnFailure : int {
  ends_job = SKERRY_FAILURE_ENDS_JOB,
  returns = SKERRY_FAILURE_RETURNS,
  continues = SKERRY_FAILURE_CONTINUES
};

namespace detail {
// Shared by a Job and all that was made from it, so that an owner can tell that its job has ended.
struct JobState {
  skerry_job* handle = nullptr;  // null once finalized
  std::shared_ptr<void>
      arrays;  // what the arrays of this job share (array.hpp); null before the first one
};
using JobRef = std::shared_ptr<JobState>;
}  // namespace detail

// ---- non-blocking operations ------------------------------------------------------------------

// One operation under way. The destructor waits for it. Do not touch the buffer before that.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  Handle(detail::JobRef job, skerry_handle handle) : job_(std::move(job)), handle_(handle) {}
  Handle(Handle&& other) noexcept
      : job_(std::move(other.job_)), handle_(std::exchange(other.handle_, 0)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(job_, other.job_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ && job_->handle) skerry_wait(job_->handle, &handle_);
  }
  void wait() {
    if (handle_ && job_->handle) check(skerry_wait(job_->handle, &handle_));
  }
  bool test() {  // never blocks
    int done = 1;
    if (handle_ && job_->handle) check(skerry_test(job_->handle, &handle_, &done));
    return done != 0;
  }

 private:
  detail::JobRef job_;
  skerry_handle handle_ = 0;  // 0: nothing outstanding
};

// ---- groups -----------------------------------------------------------------------------------

// The ranks that act together in collectives. Copies refer to the same group.
class Group {
 public:
  Group() = default;  // no group: what split returns for a negative color
  Group(detail::JobRef job, skerry_group* handle) : job_(std::move(job)), handle_(handle) {}

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  int size() const { return skerry_group_size(get()); }
  int index(int rank) const {
    return check(skerry_group_index(get(), rank));
  }  // position of a job rank
  int rank(int index) const {
    return check(skerry_group_rank(get(), index));
  }  // job rank at a position

  // Those members that live, in the same order (OnFailure::continues). Negative: no time limit.
  Group shrink(std::int64_t timeout_ns = -1) const {
    skerry_group* made = nullptr;
    check(skerry_group_shrink(get(), timeout_ns, &made));
    return Group(job_, made);
  }

  // The same with spares in the places of the dead; on a spare, of its world: see
  // skerry_group_refill.
  Group refill(std::int64_t timeout_ns = -1) const {
    skerry_group* made = nullptr;
    check(skerry_group_refill(get(), timeout_ns, &made));
    return Group(job_, made);
  }

  // That a refill would take in now: see skerry_group_spares.
  int spares() const { return skerry_group_spares(get()); }

  void sync() const { check(skerry_sync(get())); }
  void barrier() const { check(skerry_barrier(get())); }
  template <class T>
  void broadcast(std::span<T> values, int root) const {
    static_assert(std::is_trivially_copyable_v<T>);
    check(skerry_broadcast(get(), values.data(), values.size_bytes(), root));
  }
  template <class T>
  void allreduce(std::span<T> values, Reduction reduction = Reduction::sum) const {
    check(skerry_allreduce(get(), static_cast<int>(type_of_v<T>), static_cast<int>(reduction),
                           values.data(), values.size()));
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  T allreduce(T value, Reduction reduction = Reduction::sum) const {
    allreduce(std::span<T>(&value, 1), reduction);
    return value;
  }
  template <class T>
  void reduce(std::span<T> values, Reduction reduction, int root) const {
    check(skerry_reduce(get(), static_cast<int>(type_of_v<T>), static_cast<int>(reduction),
                        values.data(), values.size(), root));
  }
  template <class T>
  std::vector<T> allgather(const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(size()));
    check(skerry_allgather(get(), &value, sizeof(T), all.data()));
    return all;
  }
  // `in`: out.size() elements for each member, by position.
  template <class T>
  void reduce_scatter(std::span<const T> in, std::span<T> out,
                      Reduction reduction = Reduction::sum) const {
    if (in.size() != out.size() * static_cast<std::size_t>(size()))
      throw std::invalid_argument("reduce_scatter: in has not out.size() elements a member");
    check(skerry_reduce_scatter(get(), static_cast<int>(type_of_v<T>), static_cast<int>(reduction),
                                in.data(), out.data(), out.size()));
  }
  // As many elements for each member, by position, in `in` and `out`, which do not overlap.
  template <class T>
  void alltoall(std::span<const T> in, std::span<T> out) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto members = static_cast<std::size_t>(size());
    if (in.size() != out.size() || in.size() % members != 0)
      throw std::invalid_argument("alltoall: in and out have not as many elements for each member");
    check(skerry_alltoall(get(), in.data(), in.size_bytes() / members, out.data()));
  }
  template <class T>
  void scan(std::span<T> values, Reduction reduction = Reduction::sum) const {
    check(skerry_scan(get(), static_cast<int>(type_of_v<T>), static_cast<int>(reduction),
                      values.data(), values.size()));
  }
  template <class T>
  void exscan(std::span<T> values, Reduction reduction = Reduction::sum) const {
    check(skerry_exscan(get(), static_cast<int>(type_of_v<T>), static_cast<int>(reduction),
                        values.data(), values.size()));
  }
  // combine(T& into, const T& from), associative and commutative, which does not throw.
  template <class T, class Combine>
  void allreduce_by(std::span<T> values, Combine combine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto each = [](void* context, void* into, const void* from, std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        T a, b;
        std::memcpy(&a, static_cast<char*>(into) + i * sizeof(T), sizeof(T));
        std::memcpy(&b, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
        (*static_cast<Combine*>(context))(a, b);
        std::memcpy(static_cast<char*>(into) + i * sizeof(T), &a, sizeof(T));
      }
    };
    check(skerry_allreduce_by(get(), sizeof(T), each, &combine, values.data(), values.size()));
  }
  // Begin the collective: see skerry.h. The Handle's wait() throws what the collective's own call
  // would.
  Handle barrier_nb() const {
    skerry_handle begun = 0;
    check(skerry_barrier_nb(get(), &begun));
    return {job_, begun};
  }
  template <class T>
  Handle broadcast_nb(std::span<T> values, int root) const {
    static_assert(std::is_trivially_copyable_v<T>);
    skerry_handle begun = 0;
    check(skerry_broadcast_nb(get(), values.data(), values.size_bytes(), root, &begun));
    return {job_, begun};
  }
  template <class T>
  Handle allreduce_nb(std::span<T> values, Reduction reduction = Reduction::sum) const {
    skerry_handle begun = 0;
    check(skerry_allreduce_nb(get(), static_cast<int>(type_of_v<T>), static_cast<int>(reduction),
                              values.data(), values.size(), &begun));
    return {job_, begun};
  }
  // Collective. Members with the same color form a group, ordered by (key, rank); a negative color
  // gets an empty Group.
  Group split(int color, int key = 0) const {
    skerry_group* made = nullptr;
    check(skerry_group_split(get(), color, key, &made));
    return Group(made ? job_ : nullptr, made);
  }
  void free() {  // collective over the group; copies of it must not be used afterwards
    check(skerry_group_free(get()));
    handle_ = nullptr;
  }

  // For calls to skerry.h. Throws if there is no group or its job has ended.
  skerry_group* get() const {
    if (!handle_ || !job_->handle) [[unlikely]]
      throw Error(SKERRY_ERR_FREED,
                  handle_
                      ? "this group's job has ended: use it before finalize"
                      : "this is no group: a negative color of split joins none, or it was freed");
    return handle_;
  }
  skerry_job* job() const {
    get();
    return job_->handle;
  }
  const detail::JobRef& job_ref() const noexcept { return job_; }

 private:
  detail::JobRef job_;              // null: no group
  skerry_group* handle_ = nullptr;  // null: no group
};

// ---- counters ---------------------------------------------------------------------------------

// How values of several processes, or of two moments, belong together.
enum class CounterKind : int {
  total = SKERRY_COUNTER_TOTAL,  // only grows: differences and sums make sense
  now = SKERRY_COUNTER_NOW,      // the present value
  peak = SKERRY_COUNTER_PEAK     // the highest value so far: only the maximum makes sense
};
inline const char* to_string(CounterKind kind) {
  switch (kind) {
    case CounterKind::total: return "total";
    case CounterKind::now: return "now";
    case CounterKind::peak: return "peak";
  }
  return "unknown kind";
}

struct CounterValue {
  const char* name;         // a literal, as the other texts
  const char* unit;         // "bytes", "ns", ...
  const char* description;  // one line
  CounterKind kind;
  std::uint64_t value;
};

// All counters of one moment, in the order of their list.
class Counters {
 public:
  // Throws INVALID if there is no counter of this name.
  std::uint64_t operator[](std::string_view name) const {
    for (const CounterValue& each : values_)
      if (name == each.name) return each.value;
    throw Error(SKERRY_ERR_INVALID,
                "no counter \"" + std::string(name) + "\": docs/counters.md lists them");
  }
  auto begin() const noexcept { return values_.begin(); }
  auto end() const noexcept { return values_.end(); }
  std::size_t size() const noexcept { return values_.size(); }
  void add(const CounterValue& value) { values_.push_back(value); }

 private:
  std::vector<CounterValue> values_;
};

// ---- job --------------------------------------------------------------------------------------

class Job {
 public:
  // Joins the job of the launcher; without a launcher, a job of one rank. Collective over all
  // ranks.
  explicit Job(ThreadLevel level = ThreadLevel::single, OnFailure on_failure = OnFailure::ends_job)
      : state_(std::make_shared<detail::JobState>()), exceptions_(std::uncaught_exceptions()) {
    skerry_options options = SKERRY_OPTIONS_INIT;
    options.thread_level = static_cast<int>(level);
    options.on_failure = static_cast<int>(on_failure);
    check(skerry_init(&options, &state_->handle));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  // Leaves the job. While an exception unwinds it does not, so that this process ends, and the job
  // with it, instead of waiting for the other ranks.
  ~Job() {
    if (state_->handle && std::uncaught_exceptions() == exceptions_) {
      skerry_finalize(state_->handle);
      state_->handle = nullptr;
      state_->arrays.reset();
    }
  }
  void finalize() {
    skerry_job* ended = get();
    state_->handle = nullptr;
    state_->arrays.reset();
    check(skerry_finalize(ended));
  }
  [[noreturn]] void abort(int exit_status, const std::string& reason) {
    skerry_abort(get(), exit_status, reason.c_str());
    std::terminate();  // not reached: skerry_abort does not return
  }

  int rank() const { return skerry_rank(get()); }
  int size() const { return skerry_size(get()); }
  int nodes() const { return skerry_node_count(get()); }
  int node() const { return node_of(rank()); }
  int node_of(int rank) const { return check(skerry_node_of(get(), rank)); }
  int node_size(int node) const { return check(skerry_node_size(get(), node)); }
  int node_rank(int node, int i) const { return check(skerry_node_rank(get(), node, i)); }
  bool same_node(int rank) const { return check(skerry_same_node(get(), rank)) == 1; }
  ThreadLevel thread_level() const {
    return static_cast<ThreadLevel>(check(skerry_thread_level_granted(get())));
  }
  const char* fabric() const { return skerry_fabric_name(get()); }
  Group world() const { return Group(state_, skerry_world(get())); }
  bool is_leaving() const { return skerry_is_leaving(get()) != 0; }
  bool is_spare() const { return skerry_is_spare(get()) != 0; }  // see Group::refill
  // Until failed() names every death that any rank has heard of.
  void hear() const { check(skerry_hear(get())); }
  // Ranks that have died, ascending, in a job that goes on without them (OnFailure::continues).
  std::vector<int> failed() const {
    std::vector<int> ranks;
    int count = 0;
    do {  // another may die in between
      ranks.resize(static_cast<std::size_t>(count));
      check(skerry_failed(get(), ranks.data(), count, &count));
    } while (static_cast<std::size_t>(count) > ranks.size());
    return ranks;
  }

  void fence(int rank) const {
    check(skerry_fence(get(), rank));
  }  // remote done for all issued to `rank`
  void fence_node(int node) const { check(skerry_fence_node(get(), node)); }
  void fence() const { check(skerry_fence_all(get())); }
  void wait_implicit() const {
    check(skerry_wait_implicit(get()));
  }  // all implicit non-blocking operations
  // From now on this process keeps at most so many connections to data servers; 0: no limit.
  void limit_connections(uint32_t max_connections) {
    check(skerry_connections_limit(get(), max_connections));
  }
  skerry_memory memory() const {
    skerry_memory values{};
    values.size = sizeof values;
    check(skerry_memory_read(get(), &values));
    return values;
  }
  // What this process has done since it joined: docs/counters.md lists the names.
  Counters counters() const {
    std::vector<std::uint64_t> values(static_cast<std::size_t>(skerry_counter_count()));
    check(skerry_counter_values(get(), skerry_counter_count(), values.data()));
    Counters all;
    for (int i = 0; i < skerry_counter_count(); ++i)
      all.add({skerry_counter_name(i), skerry_counter_unit(i), skerry_counter_description(i),
               static_cast<CounterKind>(skerry_counter_kind(i)),
               values[static_cast<std::size_t>(i)]});
    return all;
  }

  skerry_job* get() const {
    if (!state_->handle) [[unlikely]]
      throw Error(SKERRY_ERR_FREED, "the job has ended: use it before finalize");
    return state_->handle;
  }

 private:
  detail::JobRef state_;
  int exceptions_;  // under way when the job was joined
};

// ---- owners -----------------------------------------------------------------------------------

namespace detail {
// A collective owner's life: frees in the destructor unless unwinding or the job has ended.
template <class Raw, int (*Free)(Raw*)>
class Owner {
 public:
  Owner() = default;
  Owner(JobRef job, Raw* raw)
      : job_(std::move(job)), raw_(raw), exceptions_(std::uncaught_exceptions()) {}
  Owner(Owner&& other) noexcept
      : job_(std::move(other.job_)),
        raw_(std::exchange(other.raw_, nullptr)),
        exceptions_(other.exceptions_) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(job_, other.job_);
    std::swap(raw_, other.raw_);
    std::swap(exceptions_, other.exceptions_);
    return *this;
  }
  ~Owner() {
    if (raw_ && job_->handle && std::uncaught_exceptions() == exceptions_) Free(raw_);
  }
  void free() {
    Raw* freed = get();
    raw_ = nullptr;
    check(Free(freed));
  }
  // Gives up ownership without freeing: the end of the job frees it.
  void release() noexcept { raw_ = nullptr; }
  explicit operator bool() const noexcept { return raw_ && job_->handle; }
  Raw* get() const {
    if (!raw_ || !job_->handle) [[unlikely]]
      throw Error(SKERRY_ERR_FREED,
                  "it was freed, or its job has ended: nothing can use it any more");
    return raw_;
  }
  const JobRef& job_ref() const noexcept { return job_; }

 private:
  JobRef job_;
  Raw* raw_ = nullptr;  // null: freed, released or moved from
  int exceptions_ = 0;  // under way when it was made
};
}  // namespace detail

// ---- segments ---------------------------------------------------------------------------------

// Memory that the members of a group allocate together. Offsets are bytes into a member's slice;
// ranks are job ranks. Errors: RANGE for bytes beyond the slice.
class Segment {
 public:
  Segment() = default;
  // Collective. `bytes` may differ between members; zeroed.
  Segment(const Group& group, std::uint64_t bytes) {
    skerry_segment* made = nullptr;
    check(skerry_segment_alloc(group.get(), bytes, &made));
    owner_ = {group.job_ref(), made};
  }
  // The same, of pages that take memory when they are first touched.
  static Segment sparse(const Group& group, std::uint64_t bytes) {
    Segment made;
    skerry_segment* raw = nullptr;
    check(skerry_segment_alloc_sparse(group.get(), bytes, &raw));
    made.owner_ = {group.job_ref(), raw};
    return made;
  }
  explicit operator bool() const noexcept { return static_cast<bool>(owner_); }
  void free() { owner_.free(); }  // collective
  void release() noexcept { owner_.release(); }
  skerry_segment* get() const { return owner_.get(); }

  std::uint64_t bytes(int rank) const { return skerry_segment_bytes(get(), rank); }
  template <class T = std::byte>
  T* local() const {
    return static_cast<T*>(skerry_segment_local(get()));
  }  // null if 0 bytes
  template <class T = std::byte>
  T* pointer(int rank) const {
    return static_cast<T*>(skerry_segment_pointer(get(), rank));
  }  // null if on another node

  template <class T>
  void put(int rank, std::uint64_t offset, std::span<const T> values) const {
    check(skerry_put(get(), rank, offset, values.data(), values.size_bytes()));
  }
  template <class T>
  void put(int rank, std::uint64_t offset, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    check(skerry_put(get(), rank, offset, &value, sizeof(T)));
  }
  template <class T>
  void get(int rank, std::uint64_t offset, std::span<T> values) const {
    check(skerry_get(get(), rank, offset, values.data(), values.size_bytes()));
  }
  template <class T>
  T get(int rank, std::uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    check(skerry_get(get(), rank, offset, &value, sizeof(T)));
    return value;
  }
  // target += scale * values, atomic per element.
  template <class T>
  void acc(int rank, std::uint64_t offset, std::span<const T> values,
           std::type_identity_t<T> scale = T(1)) const {
    check(skerry_acc(get(), rank, offset, static_cast<int>(type_of_v<T>), &scale, values.data(),
                     values.size()));
  }
  template <class T>
  Handle put_nb(int rank, std::uint64_t offset, std::span<const T> values) const {
    skerry_handle handle = 0;
    check(skerry_put_nb(get(), rank, offset, values.data(), values.size_bytes(), &handle));
    return {owner_.job_ref(), handle};
  }
  template <class T>
  Handle get_nb(int rank, std::uint64_t offset, std::span<T> values) const {
    skerry_handle handle = 0;
    check(skerry_get_nb(get(), rank, offset, values.data(), values.size_bytes(), &handle));
    return {owner_.job_ref(), handle};
  }
  template <class T>
  Handle acc_nb(int rank, std::uint64_t offset, std::span<const T> values,
                std::type_identity_t<T> scale = T(1)) const {
    skerry_handle handle = 0;
    check(skerry_acc_nb(get(), rank, offset, static_cast<int>(type_of_v<T>), &scale, values.data(),
                        values.size(), &handle));
    return {owner_.job_ref(), handle};
  }
  void put(int rank, std::uint64_t offset, const void* origin, const skerry_strided& shape) const {
    check(skerry_put_strided(get(), rank, offset, origin, &shape));
  }
  void get(int rank, std::uint64_t offset, void* origin, const skerry_strided& shape) const {
    check(skerry_get_strided(get(), rank, offset, origin, &shape));
  }

  // target = target (operation) values, atomic per element; any element_type_of. INVALID for an
  // operation that the type does not have.
  template <class T>
  void update(int rank, std::uint64_t offset, std::span<const T> values,
              Operation operation) const {
    check(skerry_update(get(), rank, offset, element_type_of<T>(), static_cast<int>(operation),
                        values.data(), values.size()));
  }
  // The same; old[i] is what the target's element was before. `values` has as many elements, or
  // none with Operation::no_op, and does not overlap `old`.
  template <class T>
  void fetch_update(int rank, std::uint64_t offset, std::span<const std::type_identity_t<T>> values,
                    std::span<T> old, Operation operation) const {
    check_operands(values.size(), old.size(), operation);
    check(skerry_fetch_update(get(), rank, offset, element_type_of<T>(),
                              static_cast<int>(operation), values.data(), old.data(), old.size()));
  }
  template <class T>
  T fetch_update(int rank, std::uint64_t offset, T value, Operation operation) const {
    T old;
    check(skerry_fetch_update(get(), rank, offset, element_type_of<T>(),
                              static_cast<int>(operation), &value, &old, 1));
    return old;
  }
  template <class T>
  Handle update_nb(int rank, std::uint64_t offset, std::span<const T> values,
                   Operation operation) const {
    skerry_handle handle = 0;
    check(skerry_update_nb(get(), rank, offset, element_type_of<T>(), static_cast<int>(operation),
                           values.data(), values.size(), &handle));
    return {owner_.job_ref(), handle};
  }
  template <class T>
  Handle fetch_update_nb(int rank, std::uint64_t offset,
                         std::span<const std::type_identity_t<T>> values, std::span<T> old,
                         Operation operation) const {
    check_operands(values.size(), old.size(), operation);
    skerry_handle handle = 0;
    check(skerry_fetch_update_nb(get(), rank, offset, element_type_of<T>(),
                                 static_cast<int>(operation), values.data(), old.data(), old.size(),
                                 &handle));
    return {owner_.job_ref(), handle};
  }

  // Read-modify-write on std::int32_t or std::int64_t; each returns the old value.
  template <class T>
  T fetch_add(int rank, std::uint64_t offset, T value) const {
    T old = 0;
    if constexpr (sizeof(T) == 8) check(skerry_fetch_add_i64(get(), rank, offset, value, &old));
    else check(skerry_fetch_add_i32(get(), rank, offset, value, &old));
    return old;
  }
  template <class T>
  T swap(int rank, std::uint64_t offset, T value) const {
    T old = 0;
    if constexpr (sizeof(T) == 8) check(skerry_swap_i64(get(), rank, offset, value, &old));
    else check(skerry_swap_i32(get(), rank, offset, value, &old));
    return old;
  }
  template <class T>
  T compare_swap(int rank, std::uint64_t offset, T expected, T desired) const {
    T old = 0;
    if constexpr (sizeof(T) == 8)
      check(skerry_compare_swap_i64(get(), rank, offset, expected, desired, &old));
    else check(skerry_compare_swap_i32(get(), rank, offset, expected, desired, &old));
    return old;
  }

  // Puts, then adds to the target's 64-bit counter: a reader that sees the counter sees the data.
  template <class T>
  void put_notify(int rank, std::uint64_t offset, std::span<const T> values,
                  std::uint64_t counter_offset, std::uint64_t increment = 1) const {
    check(skerry_put_notify(get(), rank, offset, values.data(), values.size_bytes(), counter_offset,
                            increment));
  }
  // Sleeps until the own counter is at least `at_least`; returns it. timeout_ns < 0: no limit.
  std::uint64_t notify_wait(std::uint64_t counter_offset, std::uint64_t at_least,
                            std::int64_t timeout_ns = -1) const {
    std::uint64_t value = 0;
    check(skerry_notify_wait(get(), counter_offset, at_least, timeout_ns, &value));
    return value;
  }

 private:
  static void check_operands(std::size_t values, std::size_t old, Operation operation) {
    if (values != old && operation != Operation::no_op)
      throw Error(SKERRY_ERR_INVALID, std::to_string(values) + " operands for " +
                                          std::to_string(old) + " elements: give one for each");
  }

  detail::Owner<skerry_segment, skerry_segment_free> owner_;
};

// ---- mutexes and the shared counter -----------------------------------------------------------

// Fair mutexes, `count` hosted by each member. Collective to make and free.
class Mutexes {
 public:
  Mutexes(const Group& group, std::uint32_t count) {
    skerry_mutexes* made = nullptr;
    check(skerry_mutexes_create(group.get(), count, &made));
    owner_ = {group.job_ref(), made};
  }
  // Returns true, unless the rank that held it before died meanwhile, in a job that goes on
  // (OnFailure::continues). Then what it guards may be half changed. Locked in either case.
  bool lock(int rank, std::uint32_t index = 0) const {
    const int status = skerry_mutex_lock(owner_.get(), rank, index);
    if (status != SKERRY_ERR_OWNER_DIED) check(status);
    return status == SKERRY_OK;
  }
  // What the holder issued to `rank`'s node is visible to the next holder.
  void unlock(int rank, std::uint32_t index = 0) const {
    check(skerry_mutex_unlock(owner_.get(), rank, index));
  }
  void free() { owner_.free(); }
  void release() noexcept { owner_.release(); }

 private:
  detail::Owner<skerry_mutexes, skerry_mutexes_free> owner_;
};

// Hands out work: every next(n) gets its own n numbers. Collective to make, reset and free.
class Counter {
 public:
  // `host_index`: the member of the group that owns the counter.
  explicit Counter(const Group& group, std::int64_t start = 0, int host_index = 0)
      : group_(group), host_(group.rank(host_index)) {
    own_ = skerry_rank(group.job()) == host_;
    memory_ = Segment(group, own_ ? sizeof(std::int64_t) : 0);
    reset(start);
  }
  // Adds n and returns the old value.
  std::int64_t next(std::int64_t n = 1) const {
    return memory_.fetch_add<std::int64_t>(host_, 0, n);
  }
  void reset(std::int64_t value = 0) const {
    group_.sync();
    if (own_) memory_.swap<std::int64_t>(host_, 0, value);
    group_.barrier();
  }
  void free() { memory_.free(); }
  void release() noexcept { memory_.release(); }

 private:
  Group group_;
  Segment memory_;
  int host_;          // job rank whose slice holds the number
  bool own_ = false;  // host_ is this rank
};

}  // namespace v0
}  // namespace sk
#endif  // SKERRY_SKERRY_HPP
