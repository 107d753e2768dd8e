// How accumulates and fetching updates are applied.
#include "core/pure/rule.hpp"
#include "server/applier.hpp"

namespace skerry::server {
namespace {

// What an accumulate or a fetching update does with each element.
Status read_update(const wire::Request& request, memory::Update* what) {
  const wire::RequestHeader& h = request.header;
  if (!is_element_type(h.type)) return error(Code::invalid, "element type ", int{h.type});
  if (!is_operation(h.operation)) return error(Code::invalid, "operation ", int{h.operation});
  what->type = static_cast<ElementType>(h.type);
  what->operation = static_cast<Operation>(h.operation);
  if (request.has(wire::flag_scaled)) {
    if (what->operation != Operation::sum)
      return error(Code::invalid, "a ", to_string(what->operation), " has no scale");
    what->scale = memory::Scale::of(what->type, request.scale.value);
  }
  return check_operation(what->type, what->operation);
}

}  // namespace

// Whole, aligned elements within the slice. A table of pieces has been read.
Status Applier::check_change(const Incoming& in, const Change& change) const {
  const wire::RequestHeader& h = in.request.header;
  const ElementType type = change.what.type;
  const auto check_fit = [&](uint64_t bytes, uint64_t offset) -> Status {
    if (bytes % element_bytes(type) == 0 && offset % part_bytes(type) == 0) return {};
    return error(Code::invalid, "an accumulate of ", bytes, " bytes at offset ", offset,
                 " does not consist of whole, aligned elements of ", to_string(type));
  };
  if (in.has(wire::flag_vector)) {
    uint64_t named = 0;
    for (const Piece& piece : pieces_) {
      SKERRY_TRY(check_fit(piece.bytes, piece.offset));
      named += piece.bytes;
    }
    if (named == change.bytes) return {};
    return error(Code::invalid, "a vector accumulate of ", named, " bytes carries ", change.bytes);
  }
  if (!in.has(wire::flag_strided)) {
    SKERRY_TRY(in.check_range(h.offset, change.bytes));
    return check_fit(change.bytes, h.offset);
  }
  Shape shape;
  std::byte* at = nullptr;
  SKERRY_TRY(in.check_shape(change.bytes, "accumulate", &shape, &at));
  for (int32_t k = 0; k < shape.levels; ++k)
    if (shape.count[k] > 1)
      SKERRY_TRY(check_fit(change.bytes, static_cast<uint64_t>(shape.stride[k])));
  SKERRY_TRY(check_fit(shape.block_bytes, h.offset));
  SKERRY_TRY(check_fit(in.request.shape.skip_bytes, 0));
  return check_fit(change.bytes, 0);
}

// Applies what follows the first `done` bytes of the elements.
memory::Applied Applier::change_from(const Incoming& in, const Change& change,
                                     uint64_t done) const {
  const wire::RequestHeader& h = in.request.header;
  const fabric::Bytes rest = change.operands.subspan(done);
  std::byte* const old = change.old == nullptr ? nullptr : change.old + done;
  const auto walk = [&](memory::Cursor cursor, uint64_t first, uint64_t skip_bytes) {
    cursor.seek(skip_bytes + done);
    return cursor.accumulate(in.region, first, rest, change.what, *stripes_,
                             memory::Patience::try_once, old);
  };
  if (in.has(wire::flag_strided))
    return walk(memory::Cursor(in.shape()), h.offset, in.request.shape.skip_bytes);
  if (in.has(wire::flag_vector)) return walk(memory::Cursor(std::span<const Piece>(pieces_)), 0, 0);
  return memory::accumulate(in.region, h.offset + done, rest.data(), rest.size(), change.what,
                            *stripes_, memory::Patience::try_once, old);
}

// Goes on where a busy stripe interrupted it. The request was checked.
Status Applier::apply_change(const Incoming& in, const Change& change, Outcome* outcome) const {
  const memory::Applied applied = change_from(in, change, in.session().progress_bytes());
  if (applied.ok()) return {};
  if (applied.result != LockResult::busy) return applied.explain(*stripes_);
  in.session().add_progress(applied.bytes);
  *outcome = Outcome::park;
  return {};
}

Status Applier::accumulate(const Incoming& in, Outcome* outcome) {
  const bool is_applied = in.session().notify_pending();  // its notification met a busy stripe
  if (is_applied) return notify(in, outcome);
  Change it;
  it.operands = in.payload;
  SKERRY_TRY(read_update(in.request, &it.what));
  if (in.has(wire::flag_vector)) SKERRY_TRY(read_pieces(in, &it.operands));
  it.bytes = it.operands.size();
  SKERRY_TRY(check_change(in, it));
  SKERRY_TRY(apply_change(in, it, outcome));
  return *outcome == Outcome::done ? notify(in, outcome) : Status();
}

// An accumulate whose old elements are the answer. They are kept until the origin has them, so that
// a request that comes again is answered with the same, and does not change anything again.
Status Applier::fetch_update(const Incoming& in, Outcome* outcome) {
  Change it;
  it.bytes = in.request.extent_bytes;
  it.operands = in.payload;
  SKERRY_TRY(read_update(in.request, &it.what));
  if (it.bytes > scratch_.size())
    return error(Code::invalid, "a fetching update of ", it.bytes, " bytes, at most ",
                 scratch_.size(), " in one request");
  if (in.has(wire::flag_vector)) SKERRY_TRY(read_pieces(in, &it.operands));
  const bool is_read = it.what.operation == Operation::no_op;
  if (it.operands.size() != (is_read ? 0 : it.bytes))
    return error(Code::invalid, "a fetching update of ", it.bytes, " bytes carries ",
                 it.operands.size());
  SKERRY_TRY(check_change(in, it));
  if (is_read) it.operands = {scratch_.data(), it.bytes};
  session::TargetSession& session = in.session();
  const uint64_t number = in.request.header.number;
  it.old = session.fetched(it.bytes);
  Status status = apply_change(in, it, outcome);
  if (!status.ok()) session.forget(number);
  if (!status.ok() || *outcome != Outcome::done) return status;
  *outcome = answer(in, {it.old, it.bytes});
  if (!SKERRY_RULE(keep_results)) session.forget(number);
  return {};
}

}  // namespace skerry::server
