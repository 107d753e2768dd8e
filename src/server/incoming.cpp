#include "server/incoming.hpp"

#include "lock/home.hpp"
#include "lock/mutex.hpp"

namespace skerry::server {

Status Incoming::check_mapped() const {
  const bool is_one_way = request.kind() == wire::Kind::put ||
                          request.kind() == wire::Kind::accumulate;
  if (region.kind == memory::Kind::lock_words &&
      (has(wire::flag_strided) || has(wire::flag_vector)))
    return error(Code::unsupported, "pieces of a lock, instead of one word at a time");
  if (region.kind != memory::Kind::given ||
      (!has(wire::flag_strided) && (is_one_way || !has(wire::flag_vector))))
    return {};
  return error(Code::unsupported, "a strided ", wire::to_string(request.kind()),
               " of memory that the program gave");
}

Status Incoming::check_range(uint64_t offset, uint64_t bytes) const {
  if (region.kind == memory::Kind::lock_words && bytes > 0) {
    lock::machine::Home home;
    SKERRY_TRY(lock::machine::Home::open(region.base, region.bytes, &home));
    if (!home.is_for_requesters(offset, bytes))
      return error(Code::invalid, "bytes [", offset, ", ", offset + bytes, ") of a lock of rank ",
                   request.target(), " are its manager's, or none");
  }
  if (region.holds(offset, bytes)) return {};
  if (region.kind == memory::Kind::given)  // `region` says how long its description is
    return error(Code::range, bytes, " bytes at offset or address ", offset,
                 " lie outside the memory that rank ", request.target(), " gave");
  return error(Code::range, "bytes [", offset, ", ", offset + bytes, ") lie outside the ",
               region.bytes, " bytes of rank ", request.target(), "'s slice");
}

Shape Incoming::shape() const {
  Shape shape{};
  shape.block_bytes = request.shape.block_bytes;
  shape.levels = static_cast<int32_t>(request.shape.levels);
  for (int32_t k = 0; k < shape.levels; ++k) {
    shape.count[k] = request.level[k].count;
    shape.stride[k] = request.level[k].stride;
  }
  return shape;
}

Status Incoming::check_shape(uint64_t bytes, std::string_view what, Shape* checked,
                             std::byte** at) const {
  *checked = shape();
  const uint64_t offset = request.header.offset, skip_bytes = request.shape.skip_bytes;
  uint64_t stream = 0;
  if (!stream_bytes(*checked, &stream) || !within(*checked, offset, region.bytes) ||
      skip_bytes > stream || bytes > stream - skip_bytes)
    return error(Code::range, "a strided ", what, " at offset ", offset, " leaves the ",
                 region.bytes, " bytes of rank ", request.target(), "'s slice");
  *at = region.base + (stream == 0 ? 0 : offset);  // one without bytes may be said to lie anywhere
  return {};
}

Status Incoming::check_table(uint64_t* table_bytes) const {
  *table_bytes = uint64_t{request.header.piece_count} * sizeof(Piece);
  if (*table_bytes <= payload.size()) return {};
  return error(Code::invalid, "a table of ", request.header.piece_count,
               " pieces does not fit a payload of ", payload.size(), " bytes");
}

Status Incoming::check_holder(lock::Holder holder) const {
  const bool plain = (holder & lock::queued_bit) == 0 &&
                     (!lock::joins(holder) || lock::shares(holder));
  if (lock::rank_of(holder) == client.rank && plain) return {};
  return error(Code::invalid, "rank ", client.rank, " asks for a lock as holder ", holder,
               ", which is not one of its threads");
}

}  // namespace skerry::server
