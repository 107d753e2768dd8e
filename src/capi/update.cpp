// Elements in a row: accumulate, update and fetching update. Argument checks and the shortest way
// to one element.
#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

using wire::Kind;

// One element on this node; false, with nothing done, if anything about it is not plain.
bool update_here(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                 const void* origin, void* result) {
  if (!is_element_type(type) || !is_operation(operation)) return false;
  const auto element = static_cast<ElementType>(type);
  const auto what = static_cast<Operation>(operation);
  return has_operation(element, what) &&
         of(segment)->update_here(rank, offset, element, what, origin, result);
}

int nothing_outstanding(Handle* handle) {
  if (handle != nullptr) *handle = 0;
  return SKERRY_OK;
}

// The general way. `result`: of a fetching update. Apart from what comes before it, since an Access
// is large, and elements that join others need none.
[[gnu::noinline]] int issue_alone(Kind kind, const origin::Accumulate& what,
                                  skerry_segment* segment, int rank, uint64_t offset,
                                  const void* origin, void* result, uint64_t count, Mode mode,
                                  Handle* handle) {
  Access access;
  access.kind = kind;
  access.mode = mode;
  access.target = of(segment)->target(rank);
  access.what = what;
  const bool reads = access.carries_data();
  if (count > (uint64_t{1} << 58))
    return fail(error(Code::invalid, count, " elements: at most 2^58"));
  const uint64_t bytes = count * element_bytes(what.type);
  Status status = of(segment)->check(rank, offset, bytes);
  if (status.ok()) status = check_elements(what.type, offset, bytes);
  if (status.ok() && reads && access.returns_data()) status = check_apart(origin, result, bytes);
  if (!status.ok()) return fail(status);
  // An update that changes nothing: nobody can tell when.
  if (!reads && !access.returns_data()) return nothing_outstanding(handle);
  access.remote = contiguous(nullptr, offset, bytes);
  access.local = contiguous(reads ? origin : result, 0, bytes);
  if (access.returns_data()) access.result = contiguous(result, 0, bytes);
  return done(of(segment)->issue(access, handle));
}

int issue(Kind kind, const origin::Accumulate& what, skerry_segment* segment, int rank,
          uint64_t offset, const void* origin, void* result, uint64_t count, Mode mode,
          Handle* handle) {
  // A few elements to another node may join others.
  if (kind == Kind::accumulate && what.operation != Operation::no_op &&
      count <= origin::Batch::longest_bytes && offset % part_bytes(what.type) == 0 &&
      of(segment)->join_batch(rank, &what, offset, origin, count * element_bytes(what.type), mode))
    return nothing_outstanding(handle);
  return issue_alone(kind, what, segment, rank, offset, origin, result, count, mode, handle);
}

int acc(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
        const void* origin, uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  CHECK(check_origin(origin, count));
  if (count == 1 && is_element_type(type) &&
      of(segment)->accumulate_here(rank, offset, static_cast<ElementType>(type), scale, origin))
      [[likely]]
    return nothing_outstanding(handle);
  origin::Accumulate what;
  if (Status status = read_accumulate(type, scale, &what); !status.ok()) return fail(status);
  return issue(Kind::accumulate, what, segment, rank, offset, origin, nullptr, count, mode, handle);
}
CAUGHT

// `kind`: accumulate or, for the elements before the change, fetch_update.
int update(Kind kind, skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
           const void* origin, void* result, uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  if (operation != SKERRY_NO_OP) CHECK(check_origin(origin, count));
  if (kind == Kind::fetch_update && result == nullptr && count > 0) return null_argument("result");
  if (count == 1 && origin != result &&
      update_here(segment, rank, offset, type, operation, origin, result)) [[likely]]
    return nothing_outstanding(handle);
  origin::Accumulate what;
  if (Status status = read_update(type, operation, &what); !status.ok()) return fail(status);
  return issue(kind, what, segment, rank, offset, origin, result, count, mode, handle);
}
CAUGHT

}  // namespace

extern "C" {

int skerry_acc(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
               const void* origin, uint64_t count) {
  return acc(segment, rank, offset, type, scale, origin, count, Mode::blocking, nullptr);
}
int skerry_acc_nb(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
                  const void* origin, uint64_t count, skerry_handle* handle) {
  return acc(segment, rank, offset, type, scale, origin, count, mode_of(handle), handle);
}
int skerry_update(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                  const void* origin, uint64_t count) {
  return update(Kind::accumulate, segment, rank, offset, type, operation, origin, nullptr, count,
                Mode::blocking, nullptr);
}
int skerry_fetch_update(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                        const void* origin, void* result, uint64_t count) {
  return update(Kind::fetch_update, segment, rank, offset, type, operation, origin, result, count,
                Mode::blocking, nullptr);
}
int skerry_update_nb(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                     const void* origin, uint64_t count, skerry_handle* handle) {
  return update(Kind::accumulate, segment, rank, offset, type, operation, origin, nullptr, count,
                mode_of(handle), handle);
}
int skerry_fetch_update_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                           int operation, const void* origin, void* result, uint64_t count,
                           skerry_handle* handle) {
  return update(Kind::fetch_update, segment, rank, offset, type, operation, origin, result, count,
                mode_of(handle), handle);
}

}  // extern "C"
