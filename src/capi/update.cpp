// update and fetch_update: argument checks and the shortest way to one element.
#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

// The target's side of a contiguous update. Errors: as the calls'.
Status read_target(const job::Segment& segment, int rank, uint64_t offset, ElementType type,
                   uint64_t count, Side* to) {
  if (count > (uint64_t{1} << 58)) return error(Code::invalid, count, " elements: at most 2^58");
  *to = contiguous(nullptr, offset, count * element_bytes(type));
  SKERRY_TRY(segment.check(rank, offset, to->bytes));
  return check_elements(type, offset, to->bytes);
}

// One element on this node; false, with nothing done, if anything about it is not plain.
bool update_here(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                 const void* origin, void* result) {
  if (!is_element_type(type) || !is_operation(operation)) return false;
  const auto element = static_cast<ElementType>(type);
  const auto what = static_cast<Operation>(operation);
  return has_operation(element, what) &&
         of(segment)->update_here(rank, offset, element, what, origin, result);
}

int update(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
           const void* origin, uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  const bool reads = operation != SKERRY_NO_OP;
  if (reads) CHECK(check_origin(origin, count));
  if (count == 1 && update_here(segment, rank, offset, type, operation, origin, nullptr))
      [[likely]] {
    if (handle != nullptr) *handle = 0;
    return SKERRY_OK;
  }
  operation::Accumulate what;
  Side to;
  Status status = read_update(type, operation, &what);
  if (status.ok() && reads && joined(segment, rank, offset, what, origin, count, mode, handle))
    return SKERRY_OK;
  if (status.ok()) status = read_target(*of(segment), rank, offset, what.type, count, &to);
  if (!status.ok()) return fail(status);
  if (!reads) {  // nothing changes, and nobody can tell when
    if (handle != nullptr) *handle = 0;
    return SKERRY_OK;
  }
  return done(
      of(segment)->accumulate(rank, to, contiguous(origin, 0, to.bytes), what, mode, handle));
}
CAUGHT

int fetch_update(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                 const void* origin, void* result, uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  const bool reads = operation != SKERRY_NO_OP;
  if (reads) CHECK(check_origin(origin, count));
  if (result == nullptr && count > 0) return null_argument("result");
  if (count == 1 && origin != result &&
      update_here(segment, rank, offset, type, operation, origin, result)) [[likely]] {
    if (handle != nullptr) *handle = 0;
    return SKERRY_OK;
  }
  operation::Accumulate what;
  Side to;
  Status status = read_update(type, operation, &what);
  if (status.ok()) status = read_target(*of(segment), rank, offset, what.type, count, &to);
  if (status.ok() && reads) status = check_apart(origin, result, to.bytes);
  if (!status.ok()) return fail(status);
  const Side old = contiguous(result, 0, to.bytes);
  const Side from = reads ? contiguous(origin, 0, to.bytes) : old;
  return done(of(segment)->fetch_update(rank, to, from, old, what, mode, handle));
}
CAUGHT

}  // namespace

extern "C" {

int skerry_update(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                  const void* origin, uint64_t count) {
  return update(segment, rank, offset, type, operation, origin, count, Mode::blocking, nullptr);
}
int skerry_fetch_update(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                        const void* origin, void* result, uint64_t count) {
  return fetch_update(segment, rank, offset, type, operation, origin, result, count, Mode::blocking,
                      nullptr);
}
int skerry_update_nb(skerry_segment* segment, int rank, uint64_t offset, int type, int operation,
                     const void* origin, uint64_t count, skerry_handle* handle) {
  return update(segment, rank, offset, type, operation, origin, count, mode_of(handle), handle);
}
int skerry_fetch_update_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                           int operation, const void* origin, void* result, uint64_t count,
                           skerry_handle* handle) {
  return fetch_update(segment, rank, offset, type, operation, origin, result, count,
                      mode_of(handle), handle);
}

}  // extern "C"
