// Accumulate, get_accumulate, fetch_and_op and compare_and_swap.
//
// Elements that the runtime can update itself go there. The others (pairs, complex long double,
// 16-byte integers, addresses that are not aligned) are read, changed and written back under a lock
// of the target. Which way an element goes depends on its type and address alone, so that all
// updates of it meet on the same one.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "caller.hpp"
#include "types.hpp"

namespace skerry::mpi {
namespace {

// ---- operations ---------------------------------------------------------------------------------

constexpr uint32_t bit(Sort sort) { return 1u << static_cast<uint32_t>(sort); }
constexpr uint32_t any_sort = ~0u;
constexpr uint32_t numbers = bit(Sort::integer) | bit(Sort::real);

struct Op {
  MPI_Op op;
  int code;        // a skerry_operation; below 0: the runtime does not have it
  uint32_t sorts;  // that have it (MPI 4.1, section 6.9.2)
  const char* name;
};

const Op* find_op(MPI_Op op) {
  static const std::array<Op, 14> ops = {{
      {MPI_SUM, SKERRY_SUM, numbers | bit(Sort::complex), "MPI_SUM"},
      {MPI_REPLACE, SKERRY_REPLACE, any_sort, "MPI_REPLACE"},
      {MPI_NO_OP, SKERRY_NO_OP, any_sort, "MPI_NO_OP"},
      {MPI_MIN, SKERRY_MIN, numbers, "MPI_MIN"},
      {MPI_MAX, SKERRY_MAX, numbers, "MPI_MAX"},
      {MPI_PROD, SKERRY_PROD, numbers | bit(Sort::complex), "MPI_PROD"},
      {MPI_LAND, SKERRY_LAND, bit(Sort::integer) | bit(Sort::logical), "MPI_LAND"},
      {MPI_LOR, SKERRY_LOR, bit(Sort::integer) | bit(Sort::logical), "MPI_LOR"},
      {MPI_LXOR, SKERRY_LXOR, bit(Sort::integer) | bit(Sort::logical), "MPI_LXOR"},
      {MPI_BAND, SKERRY_BAND, bit(Sort::integer) | bit(Sort::byte), "MPI_BAND"},
      {MPI_BOR, SKERRY_BOR, bit(Sort::integer) | bit(Sort::byte), "MPI_BOR"},
      {MPI_BXOR, SKERRY_BXOR, bit(Sort::integer) | bit(Sort::byte), "MPI_BXOR"},
      {MPI_MINLOC, -1, bit(Sort::pair), "MPI_MINLOC"},
      {MPI_MAXLOC, -1, bit(Sort::pair), "MPI_MAXLOC"},
  }};
  for (const Op& one : ops)
    if (one.op == op) return &one;
  fail(MPI_ERR_OP, "the operation is none that updates take: they take predefined ones");
  return nullptr;
}

const Op* find_op(MPI_Op op, const Type& type) {
  const Op* const found = find_op(op);
  if (found == nullptr) return nullptr;
  if (type.basic == nullptr) {
    fail(MPI_ERR_TYPE, "the datatype is made of several predefined ones: updates take one");
    return nullptr;
  }
  if ((found->sorts & bit(type.basic->sort)) != 0) return found;
  fail(MPI_ERR_OP, found->name, " is not defined for this datatype");
  return nullptr;
}

// ---- one run of elements ------------------------------------------------------------------------

struct Run {
  Window* window;
  int rank;  // of the window
  Place place;
  const Basic* basic;
  const Op* op;
};

bool goes_to_runtime(const Run& run, uint64_t offset) {
  if (run.basic->skerry_type < 0) return false;
  if (offset % run.basic->align != 0) [[unlikely]]
    return false;
  if (run.window->misaligned.empty()) [[likely]]
    return true;
  return run.window->misaligned[static_cast<size_t>(run.rank)] % run.basic->align == 0;
}

int done_now(const Run& run, int status, skerry_handle* handle) {
  if (status != SKERRY_OK) return status;
  return skerry_wait(run.window->over->job->job, handle);
}

int read_now(const Run& run, uint64_t offset, void* to, uint64_t bytes) {
  skerry_handle handle = 0;
  return done_now(
      run, skerry_window_get_nb(run.place.window, run.place.rank, offset, to, bytes, &handle),
      &handle);
}

int write_now(const Run& run, uint64_t offset, const void* from, uint64_t bytes) {
  skerry_handle handle = 0;
  return done_now(
      run, skerry_window_put_nb(run.place.window, run.place.rank, offset, from, bytes, &handle),
      &handle);
}

constexpr uint64_t block_bytes = 4096;  // under one lock at a time

// change(elements) -> whether to write them back. What a holder of the lock has written is there
// before the next one gets it.
template <class Change>
int under_lock(const Run& run, uint64_t offset, uint64_t bytes, Change&& change) {
  alignas(16) std::array<char, 2 * block_bytes> elements;
  const Unchecked reads_and_writes(*run.window);
  skerry_mutexes* const mutexes = run.window->over->job->mutexes;
  const auto index = static_cast<uint32_t>(offset / block_bytes % update_mutexes);
  int status = skerry_mutex_lock(mutexes, run.place.rank, index);
  if (status != SKERRY_OK) return settle(status);
  status = read_now(run, offset, elements.data(), bytes);
  if (status == SKERRY_OK && change(elements.data()))
    status = write_now(run, offset, elements.data(), bytes);
  const int unlocked = skerry_mutex_unlock(mutexes, run.place.rank, index);
  return settle(status != SKERRY_OK ? status : unlocked);
}

void combine(const Run& run, const void* origin, char* elements, uint64_t count) {
  if (run.op->code == SKERRY_REPLACE) std::memcpy(elements, origin, count * run.basic->bytes);
  else real().Reduce_local(origin, elements, static_cast<int>(count), run.basic->type, run.op->op);
}

// `result` may be null.
int update_under_lock(const Run& run, uint64_t offset, const char* origin, char* result,
                      uint64_t count) {
  const uint64_t size = run.basic->bytes;
  while (count > 0) {
    const uint64_t rest = block_bytes - offset % block_bytes;
    const uint64_t now = std::min(count, (rest + size - 1) / size);  // that begin in this block
    const int failed = under_lock(run, offset, now * size, [&](char* elements) {
      if (result != nullptr) std::memcpy(result, elements, now * size);
      if (run.op->code == SKERRY_NO_OP) return false;
      combine(run, origin, elements, now);
      return true;
    });
    if (failed != MPI_SUCCESS) return failed;
    offset += now * size;
    if (origin != nullptr) origin += now * size;
    if (result != nullptr) result += now * size;
    count -= now;
  }
  return MPI_SUCCESS;
}

int update_run(const Run& run, uint64_t offset, const char* origin, uint64_t bytes) {
  const uint64_t count = bytes / run.basic->bytes;
  if (!goes_to_runtime(run, offset)) return update_under_lock(run, offset, origin, nullptr, count);
  return settle(skerry_window_update(run.place.window, run.place.rank, offset,
                                     run.basic->skerry_type, run.op->code, origin, count));
}

// `now`: with the data on return.
int fetch_run(const Run& run, uint64_t offset, const char* origin, char* result, uint64_t bytes,
              bool now) {
  const uint64_t count = bytes / run.basic->bytes;
  if (!goes_to_runtime(run, offset)) return update_under_lock(run, offset, origin, result, count);
  const int type = run.basic->skerry_type, code = run.op->code;
  if (!now)
    return settle(skerry_window_fetch_update(run.place.window, run.place.rank, offset, type, code,
                                             origin, result, count));
  skerry_handle handle = 0;
  const int status = skerry_window_fetch_update_nb(run.place.window, run.place.rank, offset, type,
                                                   code, origin, result, count, &handle);
  return settle(done_now(run, status, &handle));
}

// ---- all elements -------------------------------------------------------------------------------

struct Elements {
  const Type* type = nullptr;
  MPI_Count count = 0;
  uint64_t bytes() const { return type->run_bytes * static_cast<uint64_t>(count); }
  bool is_one_run() const {
    return type->runs().count <= 1 &&
           (count <= 1 || type->run_bytes == static_cast<uint64_t>(type->extent));
  }
  int64_t first() const { return type->runs().first; }
  // Elements in a row are one part, not one each.
  Cursor cursor() const {
    return is_one_run() ? Cursor(Piece{first(), bytes()}) : Cursor(type->runs(), type->extent);
  }
};

int describe(MPI_Datatype type, MPI_Count count, const char* whose, Elements* elements) {
  *elements = {find_type(type), count};
  return elements->type != nullptr ? check_length(*elements->type, count, whose) : MPI_ERR_TYPE;
}

int check_fit(const Elements& origin, const Elements& target, const char* whose) {
  if (origin.bytes() == 0) return MPI_SUCCESS;
  if (!are_same(origin.type->basic, target.type->basic))
    return fail(MPI_ERR_TYPE, "the datatypes of ", whose, " and target do not match");
  if (origin.bytes() <= target.bytes()) return MPI_SUCCESS;
  return fail(MPI_ERR_TRUNCATE, origin.bytes(), " bytes of ", whose, " for ", target.bytes(),
              " bytes of the target");
}

// Ready for the first element at the target. *nothing: there is nothing to do.
int prepare(Window& window, int rank, MPI_Aint at, const Elements& target, MPI_Op op, Run* run,
            bool* nothing) {
  if (const int failed = check_rank(window, rank, nothing); failed != MPI_SUCCESS) return failed;
  if (*nothing) return MPI_SUCCESS;
  *nothing = target.bytes() == 0;
  if (*nothing) return MPI_SUCCESS;
  *run = {&window, rank, {}, target.type->basic, find_op(op, *target.type)};
  if (run->op == nullptr) return target.type->basic == nullptr ? MPI_ERR_TYPE : MPI_ERR_OP;
  const Span span = span_of(*target.type, target.type->run_highest, target.count);
  return locate(window, rank, at, span.first, span.bytes, &run->place);
}

// Between elements in a row and where they belong.
void pack(const Elements& from, const char* base, char* to) {
  Cursor cursor = from.cursor();
  for (uint64_t left = from.bytes(); left > 0;) {
    const uint64_t part = std::min(left, cursor.rest());
    std::memcpy(to, base + cursor.at(), part);
    to += part;
    left -= part;
    if (left > 0) cursor.advance(part);
  }
}

void unpack(const char* from, const Elements& to, char* base, uint64_t bytes) {
  Cursor cursor = to.cursor();
  while (bytes > 0) {
    const uint64_t part = std::min(bytes, cursor.rest());
    std::memcpy(base + cursor.at(), from, part);
    from += part;
    bytes -= part;
    if (bytes > 0) cursor.advance(part);
  }
}

// The elements that the runtime updates travel together, the others go one by one.
int update_parts(const Run& run, const Elements& from, const Elements& to, const char* base) {
  constexpr size_t most = 1024;
  std::vector<skerry_piece> parts;
  const auto flush = [&] {
    const int status = skerry_window_update_vector(run.place.window, run.place.rank,
                                                   run.basic->skerry_type, run.op->code,
                                                   parts.data(), parts.size());
    parts.clear();
    return settle(status);
  };
  const int failed = for_each_part(
      from.cursor(), to.cursor(), from.bytes(), [&](int64_t here, int64_t there, uint64_t part) {
        const uint64_t offset = run.place.offset + static_cast<uint64_t>(there);
        if (!goes_to_runtime(run, offset)) return update_run(run, offset, base + here, part);
        parts.push_back({const_cast<char*>(base) + here, offset, part});
        return parts.size() < most ? MPI_SUCCESS : flush();
      });
  return failed != MPI_SUCCESS || parts.empty() ? failed : flush();
}

// One element that the runtime updates, and nothing about it is unusual: the shortest way. Null:
// the long one.
const Type* plain_element(const Window& window, MPI_Datatype type, int rank, MPI_Aint at,
                          uint64_t* offset) {
  const Type* const known = known_types.find(type);
  if (known == nullptr || known->basic == nullptr || known->basic->skerry_type < 0 ||
      known->run_bytes != known->basic->bytes || known->first != 0 || window.data != nullptr ||
      window.is_dynamic || !window.misaligned.empty() || rank < 0 || rank >= window.over->size ||
      at < 0) [[unlikely]]
    return nullptr;
  return offset_of(window, rank, at, offset) && (*offset & (known->basic->align - 1)) == 0
             ? known
             : nullptr;
}

// This rank's memory holds `result` at byte `offset`. A program that waits by looking there again
// and again keeps a processor from those it waits for, such as its node's data server: every so
// often it offers it to them.
void look_again(uint64_t offset, const void* result, uint64_t bytes) {
  struct Look {
    uint64_t offset, value;
    bool operator==(const Look&) const = default;
  };
  constexpr uint32_t looks_between = 16;
  static thread_local Look last = {};
  static thread_local uint32_t times = 0;
  Look now{offset, 0};
  std::memcpy(&now.value, result, std::min<uint64_t>(bytes, sizeof now.value));
  times = now == last ? times + 1 : 0;
  last = now;
  if (times % looks_between == looks_between - 1) sched_yield();
}

}  // namespace

int accumulate(Window& window, const void* origin, MPI_Count origin_count, MPI_Datatype origin_type,
               int rank, MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type, MPI_Op op) {
  uint64_t offset = 0;
  if (origin_count == 1 && target_count == 1 && origin_type == target_type)
    if (const Type* const one = plain_element(window, target_type, rank, at, &offset))
      if (const Op* const known = find_op(op, *one)) [[likely]]
        return settle(skerry_window_update(window.window, window.over->job_rank(rank), offset,
                                           one->basic->skerry_type, known->code, origin, 1));
  Elements from, to;
  if (const int failed = describe(origin_type, origin_count, "origin", &from); failed != 0)
    return failed;
  if (const int failed = describe(target_type, target_count, "target", &to); failed != 0)
    return failed;
  Run run;
  bool nothing = false;
  if (const int failed = prepare(window, rank, at, to, op, &run, &nothing); failed != 0)
    return failed;
  if (nothing || run.op->code == SKERRY_NO_OP || from.bytes() == 0) return MPI_SUCCESS;
  if (const int failed = check_fit(from, to, "origin"); failed != 0) return failed;
  const auto* const base = static_cast<const char*>(origin);
  if (from.is_one_run() && to.is_one_run()) [[likely]]
    return update_run(run, run.place.offset + static_cast<uint64_t>(to.first()),
                      base + from.first(), from.bytes());
  return update_parts(run, from, to, base);
}

int get_accumulate(Window& window, const void* origin, MPI_Count origin_count,
                   MPI_Datatype origin_type, void* result, MPI_Count result_count,
                   MPI_Datatype result_type, int rank, MPI_Aint at, MPI_Count target_count,
                   MPI_Datatype target_type, MPI_Op op) {
  Elements from, into, to;
  if (const int failed = describe(target_type, target_count, "target", &to); failed != 0)
    return failed;
  if (const int failed = describe(result_type, result_count, "result", &into); failed != 0)
    return failed;
  Run run;
  bool nothing = false;
  if (const int failed = prepare(window, rank, at, to, op, &run, &nothing); failed != 0)
    return failed;
  if (nothing) return MPI_SUCCESS;
  const bool reads = run.op->code != SKERRY_NO_OP;  // otherwise the origin is nothing at all
  if (reads) {
    if (const int failed = describe(origin_type, origin_count, "origin", &from); failed != 0)
      return failed;
    if (const int failed = check_fit(from, to, "origin"); failed != 0) return failed;
  }
  if (const int failed = check_fit(into, to, "result"); failed != 0) return failed;
  const uint64_t bytes = into.bytes();
  if (bytes == 0) return MPI_SUCCESS;
  if (reads && from.bytes() != bytes)
    return fail(MPI_ERR_TRUNCATE, from.bytes(), " bytes of origin for ", bytes, " bytes of result");
  const auto* const origin_at = static_cast<const char*>(origin);
  auto* const result_at = static_cast<char*>(result);
  const uint64_t first = run.place.offset + static_cast<uint64_t>(to.first());
  if ((!reads || from.is_one_run()) && into.is_one_run() && to.is_one_run())
    return fetch_run(run, first, reads ? origin_at + from.first() : nullptr,
                     result_at + into.first(), bytes, false);
  std::vector<char> operands(reads ? bytes : 0), before(bytes);
  if (reads) pack(from, origin_at, operands.data());
  const int failed = for_each_part(
      Cursor(Piece{0, bytes}), to.cursor(), bytes, [&](int64_t here, int64_t there, uint64_t part) {
        return fetch_run(run, run.place.offset + static_cast<uint64_t>(there),
                         reads ? operands.data() + here : nullptr, before.data() + here, part,
                         true);
      });
  if (failed == MPI_SUCCESS) unpack(before.data(), into, result_at, bytes);
  return failed;
}

int fetch_and_op(Window& window, const void* origin, void* result, MPI_Datatype type, int rank,
                 MPI_Aint at, MPI_Op op) {
  uint64_t offset = 0;
  if (const Type* const plain = plain_element(window, type, rank, at, &offset)) [[likely]]
    if (const Op* const known = find_op(op, *plain)) [[likely]] {
      const int status = skerry_window_fetch_update(window.window, window.over->job_rank(rank),
                                                    offset, plain->basic->skerry_type, known->code,
                                                    origin, result, 1);
      if (known->code == SKERRY_NO_OP && rank == window.over->rank && status == SKERRY_OK)
        look_again(offset, result, plain->basic->bytes);
      return settle(status);
    }
  Elements one;
  if (const int failed = describe(type, 1, "target", &one); failed != 0) return failed;
  Run run;
  bool nothing = false;
  if (const int failed = prepare(window, rank, at, one, op, &run, &nothing); failed != 0)
    return failed;
  if (nothing) return MPI_SUCCESS;
  if (one.type->run_bytes != run.basic->bytes)
    return fail(MPI_ERR_TYPE, "fetch_and_op takes a predefined datatype");
  return fetch_run(run, run.place.offset, static_cast<const char*>(origin),
                   static_cast<char*>(result), run.basic->bytes, false);
}

int compare_and_swap(Window& window, const void* origin, const void* compare, void* result,
                     MPI_Datatype type, int rank, MPI_Aint at) {
  constexpr uint32_t allowed = bit(Sort::integer) | bit(Sort::logical) | bit(Sort::byte);
  uint64_t offset = 0;
  if (const Type* const plain = plain_element(window, type, rank, at, &offset);
      plain != nullptr && (bit(plain->basic->sort) & allowed) != 0) [[likely]]
    return settle(skerry_window_compare_swap(window.window, window.over->job_rank(rank), offset,
                                             plain->basic->skerry_type, compare, origin, result));
  Elements one;
  if (const int failed = describe(type, 1, "target", &one); failed != 0) return failed;
  Run run;
  bool nothing = false;
  if (const int failed = prepare(window, rank, at, one, MPI_REPLACE, &run, &nothing); failed != 0)
    return failed;
  if (nothing) return MPI_SUCCESS;
  const Basic& basic = *run.basic;
  if (one.type->run_bytes != basic.bytes || (bit(basic.sort) & allowed) == 0)
    return fail(MPI_ERR_TYPE, "compare_and_swap takes integers, logicals and MPI_BYTE");
  if (goes_to_runtime(run, run.place.offset))
    return settle(skerry_window_compare_swap(run.place.window, run.place.rank, run.place.offset,
                                             basic.skerry_type, compare, origin, result));
  return under_lock(run, run.place.offset, basic.bytes, [&](char* element) {
    std::memcpy(result, element, basic.bytes);
    if (std::memcmp(element, compare, basic.bytes) != 0) return false;
    std::memcpy(element, origin, basic.bytes);
    return true;
  });
}

}  // namespace skerry::mpi
