// How the server applies accumulates and fetching updates.
#include "core/pure/rule.hpp"
#include "server/server.hpp"

namespace skerry::server {

// What an accumulate or a fetching update does with each element.
Status Server::read_update(memory::Update* what) const {
  const wire::RequestHeader& h = request_.header;
  if (!is_element_type(h.type)) return error(Code::invalid, "element type ", int{h.type});
  if (!is_operation(h.operation)) return error(Code::invalid, "operation ", int{h.operation});
  what->type = static_cast<ElementType>(h.type);
  what->operation = static_cast<Operation>(h.operation);
  if (request_.has(wire::flag_scaled)) {
    if (what->operation != Operation::sum)
      return error(Code::invalid, "a ", to_string(what->operation), " has no scale");
    what->scale = memory::Scale::of(what->type, request_.scale.value);
  }
  return check_operation(what->type, what->operation);
}

// Whole, aligned elements within the slice. A table of pieces has been read.
Status Server::check_change(const memory::Region& region, const Change& change) const {
  const wire::RequestHeader& h = request_.header;
  const ElementType type = change.what.type;
  const auto check_fit = [&](uint64_t bytes, uint64_t offset) -> Status {
    if (bytes % element_bytes(type) == 0 && offset % part_bytes(type) == 0) return {};
    return error(Code::invalid, "an accumulate of ", bytes, " bytes at offset ", offset,
                 " does not consist of whole, aligned elements of ", to_string(type));
  };
  if (request_.has(wire::flag_vector)) {
    uint64_t named = 0;
    for (const Piece& piece : pieces_) {
      SKERRY_TRY(check_fit(piece.bytes, piece.offset));
      named += piece.bytes;
    }
    if (named == change.bytes) return {};
    return error(Code::invalid, "a vector accumulate of ", named, " bytes carries ", change.bytes);
  }
  if (!request_.has(wire::flag_strided)) {
    SKERRY_TRY(check_range(region, h.offset, change.bytes));
    return check_fit(change.bytes, h.offset);
  }
  Shape shape;
  (void)read_shape(&shape);
  uint64_t stream = 0;
  if (!stream_bytes(shape, &stream) || !within(shape, h.offset, region.bytes) ||
      request_.shape.skip_bytes > stream || change.bytes > stream - request_.shape.skip_bytes)
    return error(Code::range, "a strided accumulate at offset ", h.offset, " leaves the ",
                 region.bytes, " bytes of rank ", h.target_rank, "'s slice");
  for (int32_t k = 0; k < shape.levels; ++k)
    if (shape.count[k] > 1)
      SKERRY_TRY(check_fit(change.bytes, static_cast<uint64_t>(shape.stride[k])));
  SKERRY_TRY(check_fit(shape.block_bytes, h.offset));
  SKERRY_TRY(check_fit(request_.shape.skip_bytes, 0));
  return check_fit(change.bytes, 0);
}

// Applies what follows the first `done` bytes of the elements.
memory::Applied Server::change_from(const memory::Region& region, const Change& change,
                                    uint64_t done) {
  const wire::RequestHeader& h = request_.header;
  const fabric::Bytes rest = change.operands.subspan(done);
  std::byte* const old = change.old == nullptr ? nullptr : change.old + done;
  const auto walk = [&](memory::Cursor cursor, uint64_t first, uint64_t skip_bytes) {
    cursor.seek(skip_bytes + done);
    return cursor.accumulate(region, first, rest, change.what, *stripes_,
                             memory::Patience::try_once, old);
  };
  if (request_.has(wire::flag_strided)) {
    Shape shape;
    (void)read_shape(&shape);
    return walk(memory::Cursor(shape), h.offset, request_.shape.skip_bytes);
  }
  if (request_.has(wire::flag_vector))
    return walk(memory::Cursor(std::span<const Piece>(pieces_)), 0, 0);
  return memory::accumulate(region, h.offset + done, rest.data(), rest.size(), change.what,
                            *stripes_, memory::Patience::try_once, old);
}

// Goes on where a busy stripe interrupted it. The request was checked.
Server::Outcome Server::change(Client& client, const memory::Region& region, const Change& change,
                               Status* failure) {
  const memory::Applied applied = change_from(region, change, client.session->progress_bytes());
  if (applied.ok()) return Outcome::done;
  if (applied.result == LockResult::busy) {
    client.session->add_progress(applied.bytes);
    return Outcome::park;
  }
  *failure = applied.explain(*stripes_);
  return Outcome::failed;
}

Server::Outcome Server::apply_accumulate(Client& client, const memory::Region& region,
                                         fabric::Bytes payload, Status* failure) {
  if (client.session->notify_pending())
    return apply_notify(client, region,
                        failure);  // its data is applied, its notification met a busy stripe
  Change it;
  it.operands = payload;
  *failure = read_update(&it.what);
  if (failure->ok() && request_.has(wire::flag_vector))
    *failure = read_pieces(region, payload, &it.operands);
  it.bytes = it.operands.size();
  if (failure->ok()) *failure = check_change(region, it);
  if (!failure->ok()) return Outcome::failed;
  const Outcome outcome = change(client, region, it, failure);
  return outcome == Outcome::done && request_.has(wire::flag_notify)
             ? apply_notify(client, region, failure)
             : outcome;
}

// An accumulate whose old elements are the answer. They are kept until the origin has them, so that
// a request that comes again is answered with the same, and does not change anything again.
Server::Outcome Server::apply_fetch_update(Client& client, const memory::Region& region,
                                           fabric::Bytes payload, Status* failure) {
  Change it;
  it.bytes = request_.extent_bytes;
  it.operands = payload;
  *failure = read_update(&it.what);
  if (failure->ok() && it.bytes > scratch_.size())
    *failure = error(Code::invalid, "a fetching update of ", it.bytes, " bytes, at most ",
                     scratch_.size(), " in one request");
  if (failure->ok() && request_.has(wire::flag_vector))
    *failure = read_pieces(region, payload, &it.operands);
  const bool is_read = it.what.operation == Operation::no_op;
  if (failure->ok() && it.operands.size() != (is_read ? 0 : it.bytes))
    *failure = error(Code::invalid, "a fetching update of ", it.bytes, " bytes carries ",
                     it.operands.size());
  if (failure->ok()) *failure = check_change(region, it);
  if (!failure->ok()) return Outcome::failed;
  if (is_read) it.operands = {scratch_.data(), it.bytes};
  it.old = client.session->fetched(it.bytes);
  const uint64_t number = request_.header.number;
  const Outcome outcome = change(client, region, it, failure);
  if (outcome == Outcome::failed) client.session->forget(number);
  if (outcome != Outcome::done) return outcome;
  client.session->applied_next();
  reply(client, 0, 0, {it.old, it.bytes});
  if (!SKERRY_RULE(keep_results)) client.session->forget(number);
  return Outcome::answered;
}

}  // namespace skerry::server
