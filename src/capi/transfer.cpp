// put, get, accumulate, read-modify-write, notification: argument checks and the shortest way to
// the bytes.
#include <cstring>
#include <vector>

#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

Status read_accumulate(int type, const void* scale, operation::Accumulate* what) {
  SKERRY_TRY(check_type(type));
  what->type = static_cast<ElementType>(type);
  if (scale != nullptr) what->scale = memory::Scale::of(what->type, scale);
  return {};
}

// The fast paths look at the handle once, and do without the registers and the stack that the
// general ways need. Null: nothing about this call is plain; its general way says what.
job::Segment* plain(skerry_segment* segment, const void* origin, uint64_t bytes) {
  if (segment == nullptr || (origin == nullptr && bytes > 0)) [[unlikely]]
    return nullptr;
  job::Segment* const found = of(segment);
  return found->is_alive() ? found : nullptr;
}

[[gnu::noinline]] int put(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                          uint64_t bytes, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  CHECK(check_origin(origin, bytes));
  if (Status status = of(segment)->check(rank, offset, bytes); !status.ok()) return fail(status);
  return done(of(segment)->put(rank, contiguous(nullptr, offset, bytes),
                               contiguous(origin, 0, bytes), nullptr, mode, handle));
}
CAUGHT

[[gnu::noinline]] int get(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                          uint64_t bytes, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  CHECK(check_origin(origin, bytes));
  if (Status status = of(segment)->check(rank, offset, bytes); !status.ok()) return fail(status);
  return done(of(segment)->get(rank, contiguous(nullptr, offset, bytes),
                               contiguous(origin, 0, bytes), mode, handle));
}
CAUGHT

int acc(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
        const void* origin, uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  CHECK(check_origin(origin, count));
  if (count == 1 && is_element_type(type) &&
      of(segment)->accumulate_here(rank, offset, static_cast<ElementType>(type), scale, origin))
      [[likely]] {
    if (handle != nullptr) *handle = 0;
    return SKERRY_OK;
  }
  operation::Accumulate what;
  Status status = read_accumulate(type, scale, &what);
  if (status.ok() && count > (uint64_t{1} << 58))
    status = error(Code::invalid, count, " elements: at most 2^58");
  const uint64_t bytes = count * element_bytes(what.type);
  if (status.ok() && joined(segment, rank, offset, what, origin, count, mode, handle))
    return SKERRY_OK;
  if (status.ok()) status = of(segment)->check(rank, offset, bytes);
  if (status.ok()) status = check_elements(what.type, offset, bytes);
  if (!status.ok()) return fail(status);
  return done(of(segment)->accumulate(rank, contiguous(nullptr, offset, bytes),
                                      contiguous(origin, 0, bytes), what, mode, handle));
}
CAUGHT

int put_strided(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                const skerry_strided* shape, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  Strided s;
  if (Status status = s.read(*of(segment), rank, offset, origin, shape); !status.ok())
    return fail(status);
  return done(of(segment)->put(rank, s.target, s.origin, nullptr, mode, handle));
}
CAUGHT

int get_strided(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                const skerry_strided* shape, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  Strided s;
  if (Status status = s.read(*of(segment), rank, offset, origin, shape); !status.ok())
    return fail(status);
  return done(of(segment)->get(rank, s.target, s.origin, mode, handle));
}
CAUGHT

int acc_strided(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
                const void* origin, const skerry_strided* shape, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  operation::Accumulate what;
  Strided s;
  Status status = read_accumulate(type, scale, &what);
  if (status.ok()) status = s.read(*of(segment), rank, offset, origin, shape);
  if (status.ok()) status = check_elements(what.type, offset, shape->block_bytes);
  for (int k = 0; status.ok() && k < shape->levels; ++k)
    if (shape->count[k] > 1 &&
        shape->target_stride[k] % static_cast<int64_t>(part_bytes(what.type)) != 0)
      status = error(Code::invalid, "target_stride[", k, "] is ", shape->target_stride[k],
                     ", not a multiple of ", part_bytes(what.type));
  if (!status.ok()) return fail(status);
  return done(of(segment)->accumulate(rank, s.target, s.origin, what, mode, handle));
}
CAUGHT

int put_vector(skerry_segment* segment, int rank, const skerry_piece* pieces, uint64_t count,
               Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  Vector v;
  if (Status status = v.read(*of(segment), rank, pieces, count); !status.ok()) return fail(status);
  return done(of(segment)->put(rank, v.target, v.origin, nullptr, mode, handle));
}
CAUGHT

int get_vector(skerry_segment* segment, int rank, const skerry_piece* pieces, uint64_t count,
               Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  Vector v;
  if (Status status = v.read(*of(segment), rank, pieces, count); !status.ok()) return fail(status);
  return done(of(segment)->get(rank, v.target, v.origin, mode, handle));
}
CAUGHT

int acc_vector(skerry_segment* segment, int rank, int type, const void* scale,
               const skerry_piece* pieces, uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  operation::Accumulate what;
  Vector v;
  Status status = read_accumulate(type, scale, &what);
  if (status.ok()) status = v.read(*of(segment), rank, pieces, count);
  for (const Piece& piece : v.target_pieces)
    if (status.ok()) status = check_elements(what.type, piece.offset, piece.bytes);
  if (!status.ok()) return fail(status);
  return done(of(segment)->accumulate(rank, v.target, v.origin, what, mode, handle));
}
CAUGHT

[[gnu::noinline]] int rmw_anywhere(skerry_segment* segment, int rank, uint64_t offset, wire::Rmw op,
                                   uint64_t word_bytes, uint64_t operand, uint64_t expected,
                                   uint64_t* old) try {
  CHECK(check_live(segment));
  Status status = of(segment)->check(rank, offset, word_bytes);
  if (status.ok() && offset % word_bytes != 0)
    status = error(Code::invalid, "offset ", offset, " is not a multiple of ", word_bytes);
  if (!status.ok()) return fail(status);
  return done(of(segment)->read_modify_write(rank, offset, op, operand, expected, old));
}
CAUGHT

int rmw(skerry_segment* segment, int rank, uint64_t offset, wire::Rmw op, uint64_t word_bytes,
        uint64_t operand, uint64_t expected, uint64_t* old) {
  job::Segment* const here = plain(segment, nullptr, 0);
  if (here != nullptr && here->read_modify_write_here(rank, offset, op, operand, expected, old))
      [[likely]]
    return SKERRY_OK;
  return rmw_anywhere(segment, rank, offset, op, word_bytes, operand, expected, old);
}

int rmw64(skerry_segment* segment, int rank, uint64_t offset, wire::Rmw op, int64_t operand,
          int64_t expected, int64_t* result) {
  uint64_t old = 0;
  CHECK(rmw(segment, rank, offset, op, 8, static_cast<uint64_t>(operand),
            static_cast<uint64_t>(expected), &old));
  if (result != nullptr) *result = static_cast<int64_t>(old);
  return SKERRY_OK;
}

int rmw32(skerry_segment* segment, int rank, uint64_t offset, wire::Rmw op, int32_t operand,
          int32_t expected, int32_t* result) {
  uint64_t old = 0;
  CHECK(rmw(segment, rank, offset, op, 4, static_cast<uint32_t>(operand),
            static_cast<uint32_t>(expected), &old));
  if (result != nullptr) *result = static_cast<int32_t>(static_cast<uint32_t>(old));
  return SKERRY_OK;
}

}  // namespace

extern "C" {

int skerry_put(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
               uint64_t bytes) {
  job::Segment* const here = plain(segment, origin, bytes);
  if (here != nullptr && here->put_here(rank, offset, origin, bytes)) [[likely]]
    return SKERRY_OK;
  return put(segment, rank, offset, origin, bytes, Mode::blocking, nullptr);
}
int skerry_get(skerry_segment* segment, int rank, uint64_t offset, void* origin, uint64_t bytes) {
  job::Segment* const here = plain(segment, origin, bytes);
  if (here != nullptr && here->get_here(rank, offset, origin, bytes)) [[likely]]
    return SKERRY_OK;
  return get(segment, rank, offset, origin, bytes, Mode::blocking, nullptr);
}
int skerry_acc(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
               const void* origin, uint64_t count) {
  return acc(segment, rank, offset, type, scale, origin, count, Mode::blocking, nullptr);
}
int skerry_put_strided(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                       const skerry_strided* shape) {
  return put_strided(segment, rank, offset, origin, shape, Mode::blocking, nullptr);
}
int skerry_get_strided(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                       const skerry_strided* shape) {
  return get_strided(segment, rank, offset, origin, shape, Mode::blocking, nullptr);
}
int skerry_acc_strided(skerry_segment* segment, int rank, uint64_t offset, int type,
                       const void* scale, const void* origin, const skerry_strided* shape) {
  return acc_strided(segment, rank, offset, type, scale, origin, shape, Mode::blocking, nullptr);
}
int skerry_put_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                      uint64_t count) {
  return put_vector(segment, rank, pieces, count, Mode::blocking, nullptr);
}
int skerry_get_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                      uint64_t count) {
  return get_vector(segment, rank, pieces, count, Mode::blocking, nullptr);
}
int skerry_acc_vector(skerry_segment* segment, int rank, int type, const void* scale,
                      const skerry_piece* pieces, uint64_t count) {
  return acc_vector(segment, rank, type, scale, pieces, count, Mode::blocking, nullptr);
}

int skerry_put_nb(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                  uint64_t bytes, skerry_handle* handle) try {
  if (job::Segment* const found = plain(segment, origin, bytes); found != nullptr) [[likely]]
    if (found->put_here(rank, offset, origin, bytes) ||
        found->join_batch(rank, nullptr, offset, origin, bytes, Mode::implicit)) [[likely]] {
      if (handle != SKERRY_IMPLICIT) *handle = 0;
      return SKERRY_OK;
    }
  return put(segment, rank, offset, origin, bytes, mode_of(handle), handle);
}
CAUGHT
int skerry_get_nb(skerry_segment* segment, int rank, uint64_t offset, void* origin, uint64_t bytes,
                  skerry_handle* handle) {
  job::Segment* const here = plain(segment, origin, bytes);
  if (here != nullptr && here->get_here(rank, offset, origin, bytes)) [[likely]] {
    if (handle != SKERRY_IMPLICIT) *handle = 0;
    return SKERRY_OK;
  }
  return get(segment, rank, offset, origin, bytes, mode_of(handle), handle);
}
int skerry_acc_nb(skerry_segment* segment, int rank, uint64_t offset, int type, const void* scale,
                  const void* origin, uint64_t count, skerry_handle* handle) {
  return acc(segment, rank, offset, type, scale, origin, count, mode_of(handle), handle);
}
int skerry_put_strided_nb(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                          const skerry_strided* shape, skerry_handle* handle) {
  return put_strided(segment, rank, offset, origin, shape, mode_of(handle), handle);
}
int skerry_get_strided_nb(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                          const skerry_strided* shape, skerry_handle* handle) {
  return get_strided(segment, rank, offset, origin, shape, mode_of(handle), handle);
}
int skerry_acc_strided_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                          const void* scale, const void* origin, const skerry_strided* shape,
                          skerry_handle* handle) {
  return acc_strided(segment, rank, offset, type, scale, origin, shape, mode_of(handle), handle);
}
int skerry_put_vector_nb(skerry_segment* segment, int rank, const skerry_piece* pieces,
                         uint64_t count, skerry_handle* handle) {
  return put_vector(segment, rank, pieces, count, mode_of(handle), handle);
}
int skerry_get_vector_nb(skerry_segment* segment, int rank, const skerry_piece* pieces,
                         uint64_t count, skerry_handle* handle) {
  return get_vector(segment, rank, pieces, count, mode_of(handle), handle);
}
int skerry_acc_vector_nb(skerry_segment* segment, int rank, int type, const void* scale,
                         const skerry_piece* pieces, uint64_t count, skerry_handle* handle) {
  return acc_vector(segment, rank, type, scale, pieces, count, mode_of(handle), handle);
}

int skerry_fetch_add_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t value,
                         int64_t* result) {
  return rmw64(segment, rank, offset, wire::Rmw::fetch_add_64, value, 0, result);
}
int skerry_fetch_add_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t value,
                         int32_t* result) {
  return rmw32(segment, rank, offset, wire::Rmw::fetch_add_32, value, 0, result);
}
int skerry_swap_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t value,
                    int64_t* result) {
  return rmw64(segment, rank, offset, wire::Rmw::swap_64, value, 0, result);
}
int skerry_swap_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t value,
                    int32_t* result) {
  return rmw32(segment, rank, offset, wire::Rmw::swap_32, value, 0, result);
}
int skerry_compare_swap_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t expected,
                            int64_t desired, int64_t* result) {
  return rmw64(segment, rank, offset, wire::Rmw::compare_swap_64, desired, expected, result);
}
int skerry_compare_swap_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t expected,
                            int32_t desired, int32_t* result) {
  return rmw32(segment, rank, offset, wire::Rmw::compare_swap_32, desired, expected, result);
}

int skerry_put_notify(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                      uint64_t bytes, uint64_t counter_offset, uint64_t increment) try {
  CHECK(check_live(segment));
  CHECK(check_origin(origin, bytes));
  Status status = of(segment)->check(rank, offset, bytes);
  if (status.ok()) status = of(segment)->check(rank, counter_offset, 8);
  if (status.ok() && counter_offset % 8 != 0)
    status = error(Code::invalid, "counter_offset ", counter_offset, " is not a multiple of 8");
  if (!status.ok()) return fail(status);
  const operation::Notify notify{counter_offset, increment};
  return done(of(segment)->put(rank, contiguous(nullptr, offset, bytes),
                               contiguous(origin, 0, bytes), &notify, Mode::blocking, nullptr));
}
CAUGHT

int skerry_notify_wait(skerry_segment* segment, uint64_t counter_offset, uint64_t at_least,
                       int64_t timeout_ns, uint64_t* value) try {
  CHECK(check_live(segment));
  Status status = of(segment)->check(of(segment)->job().rank(), counter_offset, 8);
  if (status.ok() && counter_offset % 8 != 0)
    status = error(Code::invalid, "counter_offset ", counter_offset, " is not a multiple of 8");
  if (!status.ok()) return fail(status);
  return done(of(segment)->wait_counter(counter_offset, at_least, timeout_ns, value));
}
CAUGHT

}  // extern "C"
