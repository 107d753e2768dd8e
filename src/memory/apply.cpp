// Put and get: contiguous and strided; and the cursor over a packed stream.
#include "memory/apply.hpp"

#include <algorithm>

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "memory/copy.hpp"
#include "memory/given.hpp"

namespace skerry::memory {
namespace {

template <Shared shared>
void copy_strided(std::byte* to, const Shape& to_shape, const std::byte* from,
                  const Shape& from_shape) {
  uint64_t total = 0;
  if (!stream_bytes(to_shape, &total) || total == 0) return;
  Shape a = to_shape;
  Shape b = from_shape;
  coalesce(&a, &b);
  if (a.levels == 0) return copy<shared>(to, from, a.block_bytes);
  Odometer odometer(1);
  int64_t at = 0, at_from = 0;
  do  // one row, that is all of level 0, at a time
    copy_blocks<shared>(to + at, a.stride[0], from + at_from, b.stride[0], a.block_bytes,
                        a.count[0]);
  while (odometer.step(a, &at, b, &at_from));
}

}  // namespace

void copy_in_steps(std::byte* to, const std::byte* from, uint64_t bytes) {
  // The first step ends where the target is aligned: then every store hits one cache line.
  uint64_t step = step_bytes - (reinterpret_cast<uintptr_t>(to) & 63);
  while (bytes > step) {
    std::memcpy(to, from, step);
    to += step;
    from += step;
    bytes -= step;
    step = step_bytes;
  }
  std::memcpy(to, from, bytes);
}

namespace {

// The quickest of some copies between two pages that are in the cache, in ns.
template <class Copy>
int64_t shortest_ns(Copy&& copy_pages) {
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const int64_t begin_ns = monotonic_ns();
    copy_pages();
    shortest = std::min(shortest, monotonic_ns() - begin_ns);
  }
  return shortest;
}

// Where it happens the string instruction takes 20 times as long, otherwise steps are a little
// slower: a factor of three tells one from the other. Some microseconds, once.
bool steps_are_faster() {
  constexpr uint64_t bytes = 2 * 4096, behind = 16;
  alignas(4096) static std::byte from[bytes], to[bytes + behind];  // one thread comes here, once
  const int64_t whole_ns = shortest_ns([&] {
    std::memcpy(to + behind, from, bytes);
    asm volatile("" : : : "memory");  // nobody reads it: it is made all the same
  });
  const int64_t steps_ns = shortest_ns([&] { copy_in_steps(to + behind, from, bytes); });
  return whole_ns > 3 * steps_ns;
}

}  // namespace

void copy_seemingly_overlapping(std::byte* to, const std::byte* from, uint64_t bytes) {
  static const bool in_steps = steps_are_faster();
  if (in_steps) copy_in_steps(to, from, bytes);
  else std::memcpy(to, from, bytes);
}

void put(std::byte* target, const void* origin, uint64_t bytes) {
  order_before_put();
  copy<Shared::to>(target, static_cast<const std::byte*>(origin), bytes);
}

void get(void* origin, const std::byte* target, uint64_t bytes) {
  copy<Shared::from>(static_cast<std::byte*>(origin), target, bytes);
  order_after_get();
}

bool Region::holds(uint64_t offset, uint64_t count) const {
  if (kind != Kind::given) return offset <= bytes && count <= bytes - offset;
  uint64_t address = 0;
  return given->find(offset, count, &address);
}

Status put(const Region& target, uint64_t offset, const void* origin, uint64_t bytes) {
  if (target.kind == Kind::given) return target.given->write(offset, origin, bytes);
  put(target.base + offset, origin, bytes);
  return {};
}

Status get(void* origin, const Region& target, uint64_t offset, uint64_t bytes) {
  if (target.kind == Kind::given) return target.given->read(origin, offset, bytes);
  get(origin, target.base + offset, bytes);
  return {};
}

void put_strided(std::byte* target, const Shape& target_shape, const std::byte* origin,
                 const Shape& origin_shape) {
  order_before_put();
  copy_strided<Shared::to>(target, target_shape, origin, origin_shape);
}

void get_strided(std::byte* origin, const Shape& origin_shape, const std::byte* target,
                 const Shape& target_shape) {
  copy_strided<Shared::from>(origin, origin_shape, target, target_shape);
  order_after_get();
}

Cursor::Cursor(const Shape& shape) : shape_(shape) {
  const bool valid = stream_bytes(shape, &total_bytes_);
  SKERRY_ASSERT(valid, "shapes are checked before they are used");
  coalesce(&shape_);
}

Cursor::Cursor(std::span<const Piece> pieces) : pieces_(pieces) {
  for (const Piece& piece : pieces) {
    const bool overflow = __builtin_add_overflow(total_bytes_, piece.bytes, &total_bytes_);
    SKERRY_ASSERT(!overflow, "pieces are checked before they are used");
  }
  seek(0);
}

void Cursor::seek(uint64_t position) {
  SKERRY_ASSERT(position <= total_bytes_, "a cursor stays within its stream");
  position_ = position;
  offset_ = 0;
  if (!pieces_.empty()) {
    piece_ = 0;
    while (piece_ + 1 < pieces_.size() && position >= pieces_[piece_].bytes)
      position -= pieces_[piece_++].bytes;
    shape_ = Shape::contiguous(pieces_[piece_].bytes);
    offset_ = static_cast<int64_t>(pieces_[piece_].offset);
    in_block_ = position;
    return;
  }
  if (total_bytes_ == 0) return;
  if (shape_.levels == 0) {
    in_block_ = position;
    return;
  }
  in_block_ = position % shape_.block_bytes;
  uint64_t block = position / shape_.block_bytes;
  for (int32_t k = 0; k < shape_.levels; ++k) {
    const bool top = k + 1 == shape_.levels;
    index_[k] = top ? block : block % shape_.count[k];
    block /= shape_.count[k];
    offset_ += static_cast<int64_t>(index_[k]) * shape_.stride[k];
  }
}

void Cursor::advance_row(uint64_t blocks) {
  index_[0] += blocks;
  offset_ += static_cast<int64_t>(blocks) * shape_.stride[0];
  for (int32_t k = 0; k + 1 < shape_.levels && index_[k] == shape_.count[k]; ++k) {
    offset_ -= static_cast<int64_t>(shape_.count[k]) * shape_.stride[k];
    index_[k] = 0;
    ++index_[k + 1];
    offset_ += shape_.stride[k + 1];
  }
}

// limit_bytes > 0 and not at the end. Moves the cursor behind the run that it returns.
Cursor::Run Cursor::next_run(uint64_t limit_bytes) {
  while (in_block_ == shape_.block_bytes &&
         piece_ + 1 < pieces_.size()) {  // to the next piece that has bytes
    ++piece_;
    shape_.block_bytes = pieces_[piece_].bytes;
    offset_ = static_cast<int64_t>(pieces_[piece_].offset);
    in_block_ = 0;
  }
  const uint64_t block_bytes = shape_.block_bytes;
  Run run{};
  if (shape_.levels == 0 || in_block_ != 0 || limit_bytes < block_bytes) {
    run = Run{offset_ + static_cast<int64_t>(in_block_), 0,
              std::min(limit_bytes, block_bytes - in_block_), 1};
    in_block_ += run.block_bytes;
    if (shape_.levels != 0 && in_block_ == block_bytes) {
      in_block_ = 0;
      advance_row(1);
    }
  } else {
    run = Run{offset_, shape_.stride[0], block_bytes,
              std::min(limit_bytes / block_bytes, shape_.count[0] - index_[0])};
    advance_row(run.blocks);
  }
  position_ += run.block_bytes * run.blocks;
  return run;
}

void Cursor::pack(std::span<std::byte> stream, const std::byte* memory) {
  std::byte* to = stream.data();
  for (uint64_t left = stream.size(); left > 0;) {
    const Run run = next_run(left);
    copy_blocks<Shared::from>(to, static_cast<int64_t>(run.block_bytes), memory + run.offset,
                              run.stride, run.block_bytes, run.blocks);
    to += run.block_bytes * run.blocks;
    left -= run.block_bytes * run.blocks;
  }
  order_after_get();
}

bool Cursor::gather(const std::byte* memory, uint64_t bytes, size_t most,
                    std::vector<std::span<const std::byte>>* parts) {
  while (bytes > 0) {
    const Run run = next_run(bytes);
    if (parts->size() + run.blocks > most) return false;
    for (uint64_t i = 0; i < run.blocks; ++i)
      parts->push_back(
          {memory + run.offset + static_cast<int64_t>(i) * run.stride, run.block_bytes});
    bytes -= run.block_bytes * run.blocks;
  }
  return true;
}

void Cursor::unpack(std::byte* memory, std::span<const std::byte> stream) {
  order_before_put();
  const std::byte* from = stream.data();
  for (uint64_t left = stream.size(); left > 0;) {
    const Run run = next_run(left);
    copy_blocks<Shared::to>(memory + run.offset, run.stride, from,
                            static_cast<int64_t>(run.block_bytes), run.block_bytes, run.blocks);
    from += run.block_bytes * run.blocks;
    left -= run.block_bytes * run.blocks;
  }
}

}  // namespace skerry::memory
