// Windows: argument checks, and handles of freed windows.
#include <skerry/window.h>

#include <cstring>
#include <array>
#include <memory>

#include "capi/arguments.hpp"
#include "window/window.hpp"

using namespace skerry;
using namespace skerry::capi;
using window::Epochs;
using window::Flavor;
using window::Window;

namespace {

// The job's windows, made with the first one.
WindowShelf& shelf_of(job::Job& job) {
  if (job.objects().windows_ == nullptr) {
    auto made = std::make_shared<WindowShelf>();
    made->freed = std::make_unique<std::unique_ptr<Window>>(Window::stand_in(job));
    job.objects().windows_ = std::move(made);
  }
  return *static_cast<WindowShelf*>(job.objects().windows_.get());
}

[[gnu::noinline]] int not_live(const skerry_window* window) {
  if (window == nullptr) return null_argument("window");
  return of(window).job().is_alive() ? fail(Window::freed()) : forked();
}
inline int check_live(const skerry_window* window) {
  if (window == nullptr || !of(window).job().is_alive() || of(window).is_freed()) [[unlikely]]
    return not_live(window);
  return SKERRY_OK;
}

#define SITE __builtin_return_address(0)  // where the program called
// What every call does first; in the debug mode it remembers where the program called.
#define ENTER_FROM(site, window) \
  CHECK(check_live(window));     \
  of(window).called_at(site)
#define ENTER(window) ENTER_FROM(SITE, window)

int ended(skerry_window* window, Status status) {
  if (status.ok()) [[likely]]
    return SKERRY_OK;
  return fail(of(window).located(std::move(status)));
}

// A call that opens, closes or completes epochs, whose arguments need no look here.
template <class Call, class... Arguments>
int synchronize(const void* site, skerry_window* window, Call call, Arguments... arguments) try {
  CHECK(check_live(window));
  of(window).called_at(site);
  return ended(window, (of(window).epochs().*call)(arguments...));
}
CAUGHT

int check_buffer(const void* buffer, uint64_t bytes, const char* name) {
  return buffer == nullptr && bytes > 0 ? null_argument(name) : SKERRY_OK;
}

int make(skerry_group* group, skerry_window** window, Flavor flavor, void* base, uint64_t bytes,
         uint64_t unit) try {
  if (group == nullptr || window == nullptr) return null_argument("group or window");
  CHECK(capi::check_live(group));
  job::Job& job = of(group)->job();
  std::unique_ptr<Window> made;
  if (Status status = Window::make(*of(group), flavor, base, bytes, unit, &made); !status.ok())
    return fail(status);
  const std::lock_guard guard(job.objects().mutex());
  *window = static_cast<skerry_window*>(
      WindowShelf::handle_of(shelf_of(job).keep(std::move(made))));
  return SKERRY_OK;
}
CAUGHT

int check_ranks(const int* ranks, int count) {
  if (count < 0) return fail(error(Code::invalid, "count is ", count, ": give 0 or more"));
  return ranks == nullptr && count > 0 ? null_argument("ranks") : SKERRY_OK;
}

int put(skerry_window* window, int rank, uint64_t at, const void* origin, uint64_t bytes,
        origin::Handle* handle) {
  CHECK(check_buffer(origin, bytes, "origin"));
  return ended(window, of(window).accesses().put({rank, at, bytes}, origin, handle));
}

int get(skerry_window* window, int rank, uint64_t at, void* origin, uint64_t bytes,
        origin::Handle* handle) {
  CHECK(check_buffer(origin, bytes, "origin"));
  return ended(window, of(window).accesses().get({rank, at, bytes}, origin, handle));
}

// A type, an operation that it has, and a count that fits.
Status read_counted(int type, int operation, uint64_t count, memory::Update* what) {
  SKERRY_TRY(read_update(type, operation, what));
  if (count > (uint64_t{1} << 58)) return error(Code::invalid, count, " elements: at most 2^58");
  return {};
}

int update(skerry_window* window, int rank, uint64_t at, int type, int operation,
           const void* origin, uint64_t count, origin::Handle* handle) {
  if (operation != SKERRY_NO_OP) CHECK(check_buffer(origin, count, "origin"));
  memory::Update what;
  if (Status status = read_counted(type, operation, count, &what); !status.ok())
    return fail(status);
  return ended(window, of(window).accesses().update({rank, at, count * element_bytes(what.type)},
                                                    what, origin, handle));
}

int fetch_update(skerry_window* window, int rank, uint64_t at, int type, int operation,
                 const void* origin, void* result, uint64_t count, origin::Handle* handle) {
  if (operation != SKERRY_NO_OP) CHECK(check_buffer(origin, count, "origin"));
  CHECK(check_buffer(result, count, "result"));
  memory::Update what;
  Status status = read_counted(type, operation, count, &what);
  if (status.ok() && operation != SKERRY_NO_OP)
    status = check_apart(origin, result, count * element_bytes(what.type));
  if (!status.ok()) return fail(status);
  const window::Place place{rank, at, count * element_bytes(what.type)};
  return ended(window, of(window).accesses().fetch_update(place, what, origin, result, handle));
}

// The integer of `bytes` bytes at `from`; little endian (wire/message.hpp asserts it).
uint64_t integer_at(const void* from, uint64_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

// ---- the shortest ways -------------------------------------------------------------------------
// One block or element of this node's memory, inside an epoch, with arguments that are plain.
// Everything else goes the long way, which finds out what it is.

struct Quick {
  std::byte* memory = nullptr;  // null: the long way
  Quick(const skerry_window* window, int rank, uint64_t at, uint64_t bytes, const void* origin,
        memory::SpanKind kind) {
    if (window == nullptr || origin == nullptr || bytes == 0) [[unlikely]]
      return;
    uint64_t offset = 0;
    const memory::Region* const region = of(window).epochs().find_quickly({rank, at, bytes}, kind,
                                                                          &offset);
    if (region != nullptr) [[likely]]
      memory = region->base + offset;
  }
};

// By type and operation: can it go alone?
constexpr auto quick_updates = [] {
  std::array<std::array<bool, skerry::operations>, element_types> found{};
  for (int type = 0; type < element_types; ++type)
    for (int operation = 0; operation < skerry::operations; ++operation)
      found[static_cast<size_t>(type)]
           [static_cast<size_t>(operation)] = memory::goes_alone(static_cast<ElementType>(type)) &&
                                              has_operation(static_cast<ElementType>(type),
                                                            static_cast<Operation>(operation)) &&
                                              static_cast<Operation>(operation) != Operation::no_op;
  return found;
}();

// `result` may be null.
bool update_quickly(const skerry_window* window, int rank, uint64_t at, int type, int operation,
                    const void* origin, void* result) {
  if (window == nullptr || origin == nullptr || !is_element_type(type) ||
      !is_operation(operation) ||
      !quick_updates[static_cast<size_t>(type)][static_cast<size_t>(operation)]) [[unlikely]]
    return false;
  const auto element = static_cast<ElementType>(type);
  const uint64_t bytes = element_bytes(element);
  const auto a = reinterpret_cast<uintptr_t>(origin), b = reinterpret_cast<uintptr_t>(result);
  if ((a < b ? b - a : a - b) < bytes) [[unlikely]]
    return false;
  uint64_t offset = 0;
  const memory::Region* const region = of(window).epochs().find_quickly(
      {rank, at, bytes},
      result == nullptr ? memory::SpanKind::accumulate : memory::SpanKind::fetch_update, &offset);
  return region != nullptr && offset % bytes == 0 &&
         memory::update_one(*region, offset, origin, element, static_cast<Operation>(operation),
                            result, of(window).job().stripes()) == LockResult::locked;
}

bool swap_quickly(const skerry_window* window, int rank, uint64_t at, uint64_t bytes,
                  const void* expected, const void* desired, uint64_t* old) {
  uint64_t offset = 0;
  const memory::Region* const region = of(window).epochs().find_quickly(
      {rank, at, bytes}, memory::SpanKind::read_modify_write, &offset);
  if (region == nullptr || offset % bytes != 0) [[unlikely]]
    return false;
  const memory::Rmw what{memory::RmwOp::compare_swap, static_cast<uint8_t>(bytes),
                         integer_at(desired, bytes), integer_at(expected, bytes)};
  return memory::rmw(*region, offset, what, of(window).job().stripes(), memory::Patience::wait,
                     old) == LockResult::locked;
}

// ---- the long ways of calls that have a shorter one, which so saves no registers ----------------

[[gnu::noinline]] int lock_anyhow(const void* site, skerry_window* window, int mode, int rank,
                                  uint32_t promises) try {
  const lock::Holder as = mode == SKERRY_LOCK_SHARED ? lock::shared_bit : 0;
  const bool is_plain = promises == 0 &&
                        (mode == SKERRY_LOCK_EXCLUSIVE || mode == SKERRY_LOCK_SHARED);
  if (is_plain && window != nullptr && of(window).epochs().lock_quickly(as, rank)) [[likely]]
    return SKERRY_OK;
  ENTER_FROM(site, window);
  if (mode != SKERRY_LOCK_EXCLUSIVE && mode != SKERRY_LOCK_SHARED) [[unlikely]]
    return fail(error(Code::invalid, "mode ", mode,
                      ": give SKERRY_LOCK_EXCLUSIVE (0) or SKERRY_LOCK_SHARED (1)"));
  return ended(window, of(window).epochs().lock(as, rank, promises));
}
CAUGHT

[[gnu::noinline]] int unlock_anyhow(const void* site, skerry_window* window, int rank) try {
  if (window != nullptr && of(window).epochs().unlock_quickly(rank)) [[likely]]
    return SKERRY_OK;
  ENTER_FROM(site, window);
  return ended(window, of(window).epochs().unlock(rank));
}
CAUGHT

// Others wait for the lock, and it is open: it goes to and fro so for as long as they let it.
[[gnu::noinline]] int lock_open(const void* site, skerry_window* window, int rank) {
  if (of(window).epochs().pass_queue()) [[likely]]
    return SKERRY_OK;
  return lock_anyhow(site, window, SKERRY_LOCK_EXCLUSIVE, rank, 0);
}

[[gnu::noinline]] int unlock_open(const void* site, skerry_window* window, int rank) {
  if (of(window).epochs().leave_open()) [[likely]]
    return SKERRY_OK;
  return unlock_anyhow(site, window, rank);
}

[[gnu::noinline]] int put_anyhow(const void* site, skerry_window* window, int rank, uint64_t at,
                                 const void* origin, uint64_t bytes) try {
  ENTER_FROM(site, window);
  return put(window, rank, at, origin, bytes, nullptr);
}
CAUGHT

[[gnu::noinline]] int get_anyhow(const void* site, skerry_window* window, int rank, uint64_t at,
                                 void* origin, uint64_t bytes) try {
  ENTER_FROM(site, window);
  return get(window, rank, at, origin, bytes, nullptr);
}
CAUGHT

}  // namespace

extern "C" {

void skerry_window_caller(const void* address, int unchecked) {
  window::Check::stand_for(address, unchecked != 0);
}
int skerry_window_create(skerry_group* group, void* base, uint64_t bytes, uint64_t unit,
                         skerry_window** window) {
  return make(group, window, Flavor::created, base, bytes, unit);
}
int skerry_window_create_dynamic(skerry_group* group, skerry_window** window) {
  return make(group, window, Flavor::dynamic, nullptr, 0, 1);
}
int skerry_window_attach(skerry_window* window, void* base, uint64_t bytes) try {
  ENTER(window);
  return ended(window, of(window).memory().attach(base, bytes));
}
CAUGHT
int skerry_window_detach(skerry_window* window, void* base) try {
  ENTER(window);
  return ended(window, of(window).memory().detach(base));
}
CAUGHT
int skerry_window_update(skerry_window* window, int rank, uint64_t at, int type, int operation,
                         const void* origin, uint64_t count) try {
  if (count == 1 && update_quickly(window, rank, at, type, operation, origin, nullptr)) [[likely]]
    return SKERRY_OK;
  ENTER(window);
  return update(window, rank, at, type, operation, origin, count, nullptr);
}
CAUGHT
int skerry_window_fetch_update(skerry_window* window, int rank, uint64_t at, int type,
                               int operation, const void* origin, void* result,
                               uint64_t count) try {
  if (count == 1 && update_quickly(window, rank, at, type, operation, origin, result)) [[likely]]
    return SKERRY_OK;
  ENTER(window);
  return fetch_update(window, rank, at, type, operation, origin, result, count, nullptr);
}
CAUGHT
int skerry_window_update_nb(skerry_window* window, int rank, uint64_t at, int type, int operation,
                            const void* origin, uint64_t count, skerry_handle* handle) try {
  ENTER(window);
  if (handle == nullptr) return null_argument("handle");
  return update(window, rank, at, type, operation, origin, count, handle);
}
CAUGHT
int skerry_window_fetch_update_nb(skerry_window* window, int rank, uint64_t at, int type,
                                  int operation, const void* origin, void* result, uint64_t count,
                                  skerry_handle* handle) try {
  ENTER(window);
  if (handle == nullptr) return null_argument("handle");
  return fetch_update(window, rank, at, type, operation, origin, result, count, handle);
}
CAUGHT
int skerry_window_compare_swap(skerry_window* window, int rank, uint64_t at, int type,
                               const void* expected, const void* desired, void* result) try {
  ENTER(window);
  if (expected == nullptr || desired == nullptr || result == nullptr)
    return null_argument("expected, desired or result");
  if (!is_element_type(type) || !is_integer(static_cast<ElementType>(type)))
    return fail(
        error(Code::invalid, "type ", type, " of a compare-and-swap: give an integer type"));
  const uint64_t bytes = element_bytes(static_cast<ElementType>(type));
  uint64_t old = 0;
  if (swap_quickly(window, rank, at, bytes, expected, desired, &old)) [[likely]] {
    std::memcpy(result, &old, bytes);
    return SKERRY_OK;
  }
  if (Status status = of(window).accesses().compare_swap(
          {rank, at, bytes}, integer_at(expected, bytes), integer_at(desired, bytes), &old);
      !status.ok())
    return fail(status);
  std::memcpy(result, &old, bytes);
  return SKERRY_OK;
}
CAUGHT

int skerry_window_allocate(skerry_group* group, uint64_t bytes, uint64_t unit,
                           skerry_window** window) {
  return make(group, window, Flavor::allocated, nullptr, bytes, unit);
}

int skerry_window_free(skerry_window* window) try {
  ENTER(window);
  job::Job& job = of(window).job();
  job::Group* const group = &of(window).group();
  const Status status = of(window).free();
  if (of(window).is_freed()) {
    const std::lock_guard guard(job.objects().mutex());
    shelf_of(job).discard(WindowShelf::object_of(window));
  } else {
    return ended(window, status);
  }
  job.objects().discard_if_unused(group);
  return done(status);
}
CAUGHT

void* skerry_window_local(const skerry_window* window) {
  return of(window).is_freed() ? nullptr : of(window).memory().own();
}
void* skerry_window_pointer(const skerry_window* window, int rank) {
  return of(window).is_freed() ? nullptr : of(window).memory().pointer(rank);
}
uint64_t skerry_window_bytes(const skerry_window* window, int rank) {
  return of(window).is_freed() ? 0 : of(window).memory().bytes_of(rank);
}
uint64_t skerry_window_unit(const skerry_window* window, int rank) {
  return of(window).is_freed() ? 0 : of(window).memory().unit_of(rank);
}
skerry_group* skerry_window_group(const skerry_window* window) {
  return of(window).is_freed() ? nullptr : to(&of(window).group());
}

int skerry_window_lock(skerry_window* window, int mode, int rank, uint32_t promises) {
  if (window != nullptr && mode == SKERRY_LOCK_EXCLUSIVE && promises == 0) [[likely]] {
    const window::ShortWay locked = of(window).epochs().lock_if_free(rank);
    if (locked == window::ShortWay::done) [[likely]]
      return SKERRY_OK;
    if (locked == window::ShortWay::open) return lock_open(SITE, window, rank);
  }
  return lock_anyhow(SITE, window, mode, rank, promises);
}
int skerry_window_unlock(skerry_window* window, int rank) {
  if (window != nullptr) [[likely]] {
    const window::ShortWay unlocked = of(window).epochs().unlock_unasked(rank);
    if (unlocked == window::ShortWay::done) [[likely]]
      return SKERRY_OK;
    if (unlocked == window::ShortWay::open) return unlock_open(SITE, window, rank);
  }
  return unlock_anyhow(SITE, window, rank);
}
int skerry_window_lock_all(skerry_window* window, uint32_t promises) {
  return synchronize(SITE, window, &Epochs::lock_all, promises);
}
int skerry_window_unlock_all(skerry_window* window) {
  return synchronize(SITE, window, &Epochs::unlock_all);
}
int skerry_window_flush(skerry_window* window, int rank) try {
  if (window != nullptr && of(window).epochs().flush_quickly(rank)) [[likely]]
    return SKERRY_OK;
  ENTER(window);
  return ended(window, of(window).epochs().flush(rank, Epochs::Done::there));
}
CAUGHT
int skerry_window_flush_all(skerry_window* window) {
  return synchronize(SITE, window, &Epochs::flush_all, Epochs::Done::there);
}
int skerry_window_flush_local(skerry_window* window, int rank) {
  return synchronize(SITE, window, &Epochs::flush, rank, Epochs::Done::here);
}
int skerry_window_flush_local_all(skerry_window* window) {
  return synchronize(SITE, window, &Epochs::flush_all, Epochs::Done::here);
}
int skerry_window_sync(skerry_window* window) { return synchronize(SITE, window, &Epochs::sync); }

int skerry_window_fence(skerry_window* window, uint32_t promises) {
  return synchronize(SITE, window, &Epochs::fence, promises);
}
int skerry_window_post(skerry_window* window, const int* ranks, int count, uint32_t promises) try {
  ENTER(window);
  CHECK(check_ranks(ranks, count));
  return ended(window, of(window).epochs().post({ranks, static_cast<size_t>(count)}, promises));
}
CAUGHT
int skerry_window_start(skerry_window* window, const int* ranks, int count, uint32_t promises) try {
  ENTER(window);
  CHECK(check_ranks(ranks, count));
  return ended(window, of(window).epochs().start({ranks, static_cast<size_t>(count)}, promises));
}
CAUGHT
int skerry_window_complete(skerry_window* window) {
  return synchronize(SITE, window, &Epochs::complete);
}
int skerry_window_wait(skerry_window* window) { return synchronize(SITE, window, &Epochs::wait); }
int skerry_window_test(skerry_window* window, int* done_now) try {
  ENTER(window);
  if (done_now == nullptr) return null_argument("done");
  bool is_done = false;
  if (Status status = of(window).epochs().test(&is_done); !status.ok()) return fail(status);
  *done_now = is_done ? 1 : 0;
  return SKERRY_OK;
}
CAUGHT

int skerry_window_put(skerry_window* window, int rank, uint64_t at, const void* origin,
                      uint64_t bytes) {
  if (const Quick to(window, rank, at, bytes, origin, memory::SpanKind::put); to.memory != nullptr)
      [[likely]] {
    memory::put(to.memory, origin, bytes);
    return SKERRY_OK;
  }
  return put_anyhow(SITE, window, rank, at, origin, bytes);
}
int skerry_window_get(skerry_window* window, int rank, uint64_t at, void* origin, uint64_t bytes) {
  if (const Quick from(window, rank, at, bytes, origin, memory::SpanKind::get);
      from.memory != nullptr) [[likely]] {
    memory::get(origin, from.memory, bytes);
    return SKERRY_OK;
  }
  return get_anyhow(SITE, window, rank, at, origin, bytes);
}
int skerry_window_put_nb(skerry_window* window, int rank, uint64_t at, const void* origin,
                         uint64_t bytes, skerry_handle* handle) try {
  ENTER(window);
  if (handle == nullptr) return null_argument("handle");
  return put(window, rank, at, origin, bytes, handle);
}
CAUGHT
int skerry_window_get_nb(skerry_window* window, int rank, uint64_t at, void* origin, uint64_t bytes,
                         skerry_handle* handle) try {
  ENTER(window);
  if (handle == nullptr) return null_argument("handle");
  return get(window, rank, at, origin, bytes, handle);
}
CAUGHT

}  // extern "C"
