// put, get, transfers of shapes and pieces, read-modify-write, notification: argument checks and
// the shortest way to the bytes.
#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

using wire::Kind;

// The fast paths look at the handle once, and do without the registers and the stack that the
// general ways need. Null: nothing about this call is plain; its general way says what.
job::Segment* plain(skerry_segment* segment, const void* origin, uint64_t bytes) {
  if (segment == nullptr || (origin == nullptr && bytes > 0)) [[unlikely]]
    return nullptr;
  job::Segment* const found = of(segment);
  return found->is_alive() ? found : nullptr;
}

// Where the bytes of a transfer on this node are, if nothing else about it needs a look. `find`
// says which slice. Null: the general way finds out what does, and says so. Inline, and by in_table
// without a call, so that put and get save no registers.
template <const memory::Region* (job::Segment::*find)(Rank) const>
[[gnu::always_inline]] inline std::byte* here(skerry_segment* segment, int rank, uint64_t offset,
                                              const void* origin, uint64_t bytes,
                                              memory::SpanKind kind) {
  job::Segment* const found = plain(segment, origin, bytes);
  const memory::Region* const region = found == nullptr ? nullptr : (found->*find)(rank);
  // (An empty slice has no memory.)
  if (region == nullptr || region->base == nullptr || found->is_freed() || offset > region->bytes ||
      bytes > region->bytes - offset || found->job().spans().is_due(kind)) [[unlikely]]
    return nullptr;
  found->job().local_counters().add(bytes);
  return region->base + offset;
}

// put and get, the general way of one block.
[[gnu::noinline]] int move(Kind kind, skerry_segment* segment, int rank, uint64_t offset,
                           const void* origin, uint64_t bytes, Mode mode, Handle* handle) try {
  const bool is_put = kind == Kind::put;
  // Of a node whose ranks are too far apart for a table.
  if (std::byte* const at = here<&job::Segment::local>(
          segment, rank, offset, origin, bytes,
          is_put ? memory::SpanKind::put : memory::SpanKind::get)) {
    if (is_put) memory::put(at, origin, bytes);
    else memory::get(const_cast<void*>(origin), at, bytes);
    if (handle != nullptr) *handle = 0;
    return SKERRY_OK;
  }
  CHECK(check_live(segment));
  CHECK(check_origin(origin, bytes));
  if (Status status = of(segment)->check(rank, offset, bytes); !status.ok()) return fail(status);
  Access access;
  access.kind = kind;
  access.mode = mode;
  access.target = of(segment)->target(rank);
  access.remote = contiguous(nullptr, offset, bytes);
  access.local = contiguous(origin, 0, bytes);
  return done(of(segment)->issue(access, handle));
}
CAUGHT

int strided(const Asked& asked, skerry_segment* segment, int rank, uint64_t offset,
            const void* origin, const skerry_strided* shape, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  Access access;
  Strided s;
  Status status = asked.read(*of(segment), rank, mode, &access);
  if (status.ok()) status = s.read(*of(segment), rank, offset, origin, shape, &access);
  if (status.ok() && access.updates())
    status = check_elements(access.what.type, offset, shape->block_bytes);
  for (int k = 0; status.ok() && access.updates() && k < shape->levels; ++k)
    if (shape->count[k] > 1 &&
        shape->target_stride[k] % static_cast<int64_t>(part_bytes(access.what.type)) != 0)
      status = error(Code::invalid, "target_stride[", k, "] is ", shape->target_stride[k],
                     ", not a multiple of ", part_bytes(access.what.type));
  return done(status.ok() ? of(segment)->issue(access, handle) : status);
}
CAUGHT

int vector(const Asked& asked, skerry_segment* segment, int rank, const skerry_piece* pieces,
           uint64_t count, Mode mode, Handle* handle) try {
  CHECK(check_live(segment));
  Access access;
  Vector v;
  Status status = asked.read(*of(segment), rank, mode, &access);
  if (status.ok()) status = v.read(*of(segment), rank, pieces, count, &access);
  if (access.updates())
    for (const Piece& piece : v.target_pieces)
      if (status.ok()) status = check_elements(access.what.type, piece.offset, piece.bytes);
  return done(status.ok() ? of(segment)->issue(access, handle) : status);
}
CAUGHT

[[gnu::noinline]] int rmw_anywhere(skerry_segment* segment, int rank, uint64_t offset, wire::Rmw op,
                                   uint64_t word_bytes, uint64_t operand, uint64_t expected,
                                   uint64_t* old) try {
  CHECK(check_live(segment));
  Status status = of(segment)->check(rank, offset, word_bytes);
  if (status.ok() && offset % word_bytes != 0)
    status = error(Code::invalid, "offset ", as_written(offset), " is not a multiple of ",
                   word_bytes);
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

template <class Int>
int rmw_of(skerry_segment* segment, int rank, uint64_t offset, wire::Rmw op, Int operand,
           Int expected, Int* result) {
  using Word = std::make_unsigned_t<Int>;
  uint64_t old = 0;
  CHECK(rmw(segment, rank, offset, op, sizeof(Int), static_cast<Word>(operand),
            static_cast<Word>(expected), &old));
  if (result != nullptr) *result = static_cast<Int>(static_cast<Word>(old));
  return SKERRY_OK;
}

}  // namespace

extern "C" {

int skerry_put(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
               uint64_t bytes) {
  if (std::byte* const at = here<&job::Segment::in_table>(segment, rank, offset, origin, bytes,
                                                          memory::SpanKind::put)) [[likely]] {
    memory::put(at, origin, bytes);
    return SKERRY_OK;
  }
  return move(Kind::put, segment, rank, offset, origin, bytes, Mode::blocking, nullptr);
}
int skerry_get(skerry_segment* segment, int rank, uint64_t offset, void* origin, uint64_t bytes) {
  if (std::byte* const at = here<&job::Segment::in_table>(segment, rank, offset, origin, bytes,
                                                          memory::SpanKind::get)) [[likely]] {
    memory::get(origin, at, bytes);
    return SKERRY_OK;
  }
  return move(Kind::get, segment, rank, offset, origin, bytes, Mode::blocking, nullptr);
}
int skerry_put_strided(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                       const skerry_strided* shape) {
  return strided({Kind::put}, segment, rank, offset, origin, shape, Mode::blocking, nullptr);
}
int skerry_get_strided(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                       const skerry_strided* shape) {
  return strided({Kind::get}, segment, rank, offset, origin, shape, Mode::blocking, nullptr);
}
int skerry_acc_strided(skerry_segment* segment, int rank, uint64_t offset, int type,
                       const void* scale, const void* origin, const skerry_strided* shape) {
  return strided({Kind::accumulate, type, scale}, segment, rank, offset, origin, shape,
                 Mode::blocking, nullptr);
}
int skerry_put_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                      uint64_t count) {
  return vector({Kind::put}, segment, rank, pieces, count, Mode::blocking, nullptr);
}
int skerry_get_vector(skerry_segment* segment, int rank, const skerry_piece* pieces,
                      uint64_t count) {
  return vector({Kind::get}, segment, rank, pieces, count, Mode::blocking, nullptr);
}
int skerry_acc_vector(skerry_segment* segment, int rank, int type, const void* scale,
                      const skerry_piece* pieces, uint64_t count) {
  return vector({Kind::accumulate, type, scale}, segment, rank, pieces, count, Mode::blocking,
                nullptr);
}

int skerry_put_nb(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                  uint64_t bytes, skerry_handle* handle) try {
  std::byte* const at = here<&job::Segment::in_table>(segment, rank, offset, origin, bytes,
                                                      memory::SpanKind::put);
  if (at != nullptr) memory::put(at, origin, bytes);
  job::Segment* const found = plain(segment, origin, bytes);
  if (at != nullptr || (found != nullptr && found->join_batch(rank, nullptr, offset, origin, bytes,
                                                              Mode::implicit))) [[likely]] {
    if (handle != SKERRY_IMPLICIT) *handle = 0;
    return SKERRY_OK;
  }
  return move(Kind::put, segment, rank, offset, origin, bytes, mode_of(handle), handle);
}
CAUGHT
int skerry_get_nb(skerry_segment* segment, int rank, uint64_t offset, void* origin, uint64_t bytes,
                  skerry_handle* handle) {
  if (std::byte* const at = here<&job::Segment::in_table>(segment, rank, offset, origin, bytes,
                                                          memory::SpanKind::get)) [[likely]] {
    memory::get(origin, at, bytes);
    if (handle != SKERRY_IMPLICIT) *handle = 0;
    return SKERRY_OK;
  }
  return move(Kind::get, segment, rank, offset, origin, bytes, mode_of(handle), handle);
}
int skerry_put_strided_nb(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                          const skerry_strided* shape, skerry_handle* handle) {
  return strided({Kind::put}, segment, rank, offset, origin, shape, mode_of(handle), handle);
}
int skerry_get_strided_nb(skerry_segment* segment, int rank, uint64_t offset, void* origin,
                          const skerry_strided* shape, skerry_handle* handle) {
  return strided({Kind::get}, segment, rank, offset, origin, shape, mode_of(handle), handle);
}
int skerry_acc_strided_nb(skerry_segment* segment, int rank, uint64_t offset, int type,
                          const void* scale, const void* origin, const skerry_strided* shape,
                          skerry_handle* handle) {
  return strided({Kind::accumulate, type, scale}, segment, rank, offset, origin, shape,
                 mode_of(handle), handle);
}
int skerry_put_vector_nb(skerry_segment* segment, int rank, const skerry_piece* pieces,
                         uint64_t count, skerry_handle* handle) {
  return vector({Kind::put}, segment, rank, pieces, count, mode_of(handle), handle);
}
int skerry_get_vector_nb(skerry_segment* segment, int rank, const skerry_piece* pieces,
                         uint64_t count, skerry_handle* handle) {
  return vector({Kind::get}, segment, rank, pieces, count, mode_of(handle), handle);
}
int skerry_acc_vector_nb(skerry_segment* segment, int rank, int type, const void* scale,
                         const skerry_piece* pieces, uint64_t count, skerry_handle* handle) {
  return vector({Kind::accumulate, type, scale}, segment, rank, pieces, count, mode_of(handle),
                handle);
}

int skerry_fetch_add_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t value,
                         int64_t* result) {
  return rmw_of<int64_t>(segment, rank, offset, wire::Rmw::fetch_add_64, value, 0, result);
}
int skerry_fetch_add_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t value,
                         int32_t* result) {
  return rmw_of<int32_t>(segment, rank, offset, wire::Rmw::fetch_add_32, value, 0, result);
}
int skerry_swap_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t value,
                    int64_t* result) {
  return rmw_of<int64_t>(segment, rank, offset, wire::Rmw::swap_64, value, 0, result);
}
int skerry_swap_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t value,
                    int32_t* result) {
  return rmw_of<int32_t>(segment, rank, offset, wire::Rmw::swap_32, value, 0, result);
}
int skerry_compare_swap_i64(skerry_segment* segment, int rank, uint64_t offset, int64_t expected,
                            int64_t desired, int64_t* result) {
  return rmw_of<int64_t>(segment, rank, offset, wire::Rmw::compare_swap_64, desired, expected,
                         result);
}
int skerry_compare_swap_i32(skerry_segment* segment, int rank, uint64_t offset, int32_t expected,
                            int32_t desired, int32_t* result) {
  return rmw_of<int32_t>(segment, rank, offset, wire::Rmw::compare_swap_32, desired, expected,
                         result);
}

int skerry_put_notify(skerry_segment* segment, int rank, uint64_t offset, const void* origin,
                      uint64_t bytes, uint64_t counter_offset, uint64_t increment) try {
  CHECK(check_live(segment));
  CHECK(check_origin(origin, bytes));
  Status status = of(segment)->check(rank, offset, bytes);
  if (status.ok()) status = of(segment)->check(rank, counter_offset, 8);
  if (status.ok() && counter_offset % 8 != 0)
    status = error(Code::invalid, "counter_offset ", as_written(counter_offset),
                   " is not a multiple of 8");
  if (!status.ok()) return fail(status);
  return done(of(segment)->put_notify(rank, offset, {bytes_at(origin), bytes},
                                      {counter_offset, increment}));
}
CAUGHT

int skerry_notify_wait(skerry_segment* segment, uint64_t counter_offset, uint64_t at_least,
                       int64_t timeout_ns, uint64_t* value) try {
  CHECK(check_live(segment));
  Status status = of(segment)->check(of(segment)->job().rank(), counter_offset, 8);
  if (status.ok() && counter_offset % 8 != 0)
    status = error(Code::invalid, "counter_offset ", as_written(counter_offset),
                   " is not a multiple of 8");
  if (!status.ok()) return fail(status);
  return done(of(segment)->wait_counter(counter_offset, at_least, timeout_ns, value));
}
CAUGHT

}  // extern "C"
