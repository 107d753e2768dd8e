// How a request of each kind is checked and applied; those of locks: apply_locks.cpp.
#include <cstring>

#include "core/pure/container_bytes.hpp"
#include "core/pure/rule.hpp"
#include "lock/home.hpp"
#include "lock/mutex.hpp"
#include "memory/doorbell.hpp"
#include "server/applier.hpp"

namespace skerry::server {
namespace {

// A strided get is answered from the segment itself if its blocks are few enough: origins ask so
// (Engine) for blocks of a KiB and more.
constexpr size_t most_parts = 2048;

// By wire::operation_of.
constexpr std::string_view rmw_names[] = {"fetch-and-add", "swap", "compare-and-swap"};

// Batched puts come here by the hundred thousand: one pass over the table, and nothing but the
// bytes is touched. In order: puts of one origin may overlap, and the later one wins. A malformed
// table is applied up to its first bad piece.
Status put_pieces(const Incoming& in) {
  uint64_t table_bytes = 0;
  SKERRY_TRY(in.check_table(&table_bytes));
  const memory::Region& region = in.region;
  const std::byte* table = in.payload.data();
  const std::byte* from = table + table_bytes;
  uint64_t left = in.payload.size() - table_bytes;
  for (uint32_t i = 0; i < in.request.header.piece_count; ++i, table += sizeof(Piece)) {
    Piece piece;
    std::memcpy(&piece, table, sizeof piece);
    if (piece.bytes > left) [[unlikely]]
      return error(Code::invalid, "a vector put carries fewer bytes than its pieces name");
    if (!region.holds(piece.offset, piece.bytes)) [[unlikely]]
      return in.check_range(piece.offset, piece.bytes);
    if (region.kind == memory::Kind::given) [[unlikely]]
      SKERRY_TRY(memory::put(region, piece.offset, from, piece.bytes));
    else memory::put(region.base + piece.offset, from, piece.bytes);
    from += piece.bytes;
    left -= piece.bytes;
  }
  if (left == 0) return {};
  return error(Code::invalid, "a vector put carries ", left, " bytes more than its pieces name");
}

Status put_strided(const Incoming& in) {
  Shape shape;
  std::byte* at = nullptr;
  SKERRY_TRY(in.check_shape(in.payload.size(), "put", &shape, &at));
  memory::Cursor cursor(shape);
  cursor.seek(in.request.shape.skip_bytes);
  cursor.unpack(at, in.payload);
  return {};
}

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

// ---- checks -----------------------------------------------------------------------------------

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

// ---- requests ---------------------------------------------------------------------------------

Applier::Applier(const NodeView& view, fabric::Fabric& fabric, Directory& directory,
                 lock::LockRequests& locks, Answers& answers)
    : view_(view),
      fabric_(fabric),
      directory_(directory),
      locks_(locks),
      answers_(answers),
      scratch_(fabric::inline_payload_bytes) {}

void Applier::open() {
  stripes_.emplace(view_.control.stripes(), view_.member_index, view_.control.stripe_watch());
}

Status Applier::apply(Incoming& in, Outcome* outcome) {
  const wire::Kind kind = in.request.kind();
  if (kind == wire::Kind::lock || kind == wire::Kind::unlock) return lock_or_unlock(in, outcome);
  if (kind == wire::Kind::lock_note) return note(in, outcome);
  if (kind == wire::Kind::read_modify_write &&
      in.request.header.type == static_cast<uint8_t>(wire::Rmw::take_death))
    return take_death(in, outcome);
  return in.has(wire::flag_locked) ? locked(in, outcome) : access(in, outcome);
}

Status Applier::find(Incoming& in) {
  return directory_.find(in.request.segment(), in.request.target(), &in.region);
}

Status Applier::access(Incoming& in, Outcome* outcome) {
  SKERRY_TRY(find(in));
  SKERRY_TRY(in.check_mapped());
  switch (in.request.kind()) {
    case wire::Kind::put: return put(in, outcome);
    case wire::Kind::accumulate: return accumulate(in, outcome);
    case wire::Kind::get: return get(in, outcome);
    case wire::Kind::read_modify_write: return read_modify_write(in, outcome);
    case wire::Kind::fetch_update: return fetch_update(in, outcome);
    case wire::Kind::key: return key(in, outcome);
    case wire::Kind::lock:
    case wire::Kind::unlock:
    case wire::Kind::lock_note: break;
  }
  return error(Code::internal, to_string(in.request.header), " reached apply");
}

Applier::Outcome Applier::answer(const Incoming& in, fabric::Bytes payload, uint64_t result) {
  if (!in.again) in.session().applied_next();
  answers_.reply(in.client, in.request, payload, 0, result);
  return Outcome::answered;
}

// ---- puts -------------------------------------------------------------------------------------

Status Applier::put(const Incoming& in, Outcome* outcome) {
  const bool is_applied = in.session().notify_pending();  // its notification met a busy stripe
  if (is_applied) return notify(in, outcome);
  if (in.has(wire::flag_strided)) {
    SKERRY_TRY(put_strided(in));
  } else if (in.has(wire::flag_vector)) {
    SKERRY_TRY(put_pieces(in));
  } else {
    const uint64_t offset = in.request.header.offset;
    const uint64_t bytes = in.payload.size();
    SKERRY_TRY(in.check_range(offset, bytes));
    if (std::byte* const to = landing(in, bytes)) memory::put(to, in.payload.data(), bytes);
    else SKERRY_TRY(memory::put(in.region, offset, in.payload.data(), bytes));
  }
  return notify(in, outcome);
}

// Where the payload of a put is wanted instead of in its segment; null: nowhere.
std::byte* Applier::landing(const Incoming& in, uint64_t bytes) const {
  // One that comes again for its notification alone is where it was put before.
  if (view_.landings == nullptr || !in.has(wire::flag_notify) || in.session().notify_pending())
    return nullptr;
  return view_.landings->begin(
      {in.request.segment(), in.request.target(), in.request.header.offset}, in.client.rank,
      bytes);
}

// If the request says so.
Status Applier::notify(const Incoming& in, Outcome* outcome) {
  if (!in.has(wire::flag_notify)) return {};
  const wire::Notify& n = in.request.notify;
  SKERRY_TRY(in.check_range(n.counter_offset, 8));
  if (n.counter_offset % 8 != 0)
    return error(Code::invalid, "counter offset ", n.counter_offset, " is not a multiple of 8");
  uint64_t old = 0;
  Status failure;  // of given memory
  const memory::Rmw add{memory::RmwOp::fetch_add, 8, n.increment, 0};
  in.session().set_notify_pending();
  const LockResult result = memory::rmw(in.region, n.counter_offset, add, *stripes_,
                                        memory::Patience::try_once, &old, &failure);
  if (result == LockResult::busy) {
    *outcome = Outcome::park;
    return {};
  }
  if (result != LockResult::locked)
    return stripes_->explain(result, memory::stripe_index(in.region.seed, n.counter_offset));
  SKERRY_TRY(failure);
  const int32_t member = view_.member_of(in.request.target());
  if (member >= 0) memory::ring_doorbell(view_.control.member(static_cast<uint32_t>(member)));
  return {};
}

// Its header is checked like any other before its payload may be placed. Earlier requests of the
// session are applied already.
Status Applier::place(Incoming& in, uint64_t bytes, std::byte** to) {
  SKERRY_TRY(find(in));
  if (in.region.kind == memory::Kind::given)
    return error(Code::unsupported, "a long put to memory that the program gave, in one request");
  SKERRY_TRY(in.check_range(in.request.header.offset, bytes));
  *to = landing(in, bytes);
  if (*to == nullptr) *to = in.region.base + in.request.header.offset;
  return {};
}

Status Applier::placed(Incoming& in, Outcome* outcome) {
  if (!in.has(wire::flag_notify)) return {};
  SKERRY_TRY(find(in));
  return notify(in, outcome);
}

// ---- gets -------------------------------------------------------------------------------------

// The bytes of a contiguous get, which are inside: where they lie, or a copy in scratch_.
Status Applier::read_plain(const Incoming& in, uint64_t bytes, fabric::Bytes* answer) {
  const uint64_t offset = in.request.header.offset;
  SKERRY_TRY(in.check_range(offset, bytes));
  const bool is_given = in.region.kind == memory::Kind::given;
  if (is_given && bytes > scratch_.size())
    return error(Code::invalid, "a get of ", bytes, " bytes of given memory, at most ",
                 scratch_.size(), " in one request");
  if (!is_given && bytes > 8) {
    *answer = {in.region.base + offset, bytes};
    return {};
  }
  *answer = {scratch_.data(), bytes};  // aligned words do not tear, also on their way out
  return memory::get(scratch_.data(), in.region, offset, bytes);
}

// The piece table at the payload's start, checked against the slice, into pieces_; *data is what
// follows it.
Status Applier::read_pieces(const Incoming& in, fabric::Bytes* data) {
  uint64_t table_bytes = 0;
  SKERRY_TRY(in.check_table(&table_bytes));
  pieces_.resize(in.request.header.piece_count);
  std::memcpy(pieces_.data(), in.payload.data(), table_bytes);
  for (const Piece& piece : pieces_) SKERRY_TRY(in.check_range(piece.offset, piece.bytes));
  *data = in.payload.subspan(table_bytes);
  return {};
}

Status Applier::get(const Incoming& in, Outcome* outcome) {
  const uint64_t bytes = in.request.extent_bytes;
  const fabric::Capabilities& can = fabric_.capabilities();
  if (bytes > can.max_payload_bytes)
    return error(Code::invalid, "a get of ", bytes, " bytes, at most ", can.max_payload_bytes,
                 " in one request");
  const bool is_strided = in.has(wire::flag_strided);
  fabric::Bytes found;
  if (!is_strided && !in.has(wire::flag_vector)) {
    SKERRY_TRY(read_plain(in, bytes, &found));
    *outcome = answer(in, found);
    return {};
  }
  const bool fits = bytes <= scratch_.size();
  if (!fits && !(is_strided && can.direct_placement))
    return error(Code::invalid, "a non-contiguous get of ", bytes, " bytes, at most ",
                 scratch_.size(), " in one request");
  const std::span<std::byte> room(scratch_.data(), fits ? bytes : 0);
  if (is_strided) {
    Shape shape;
    std::byte* at = nullptr;
    SKERRY_TRY(in.check_shape(bytes, "get", &shape, &at));
    memory::Cursor cursor(shape);
    cursor.seek(in.request.shape.skip_bytes);
    if (!fits) {
      parts_.clear();
      if (!cursor.gather(at, bytes, most_parts, &parts_))
        return error(Code::invalid, "a strided get of ", bytes, " bytes in more than ", most_parts,
                     " places in one request");
      if (!in.again) in.session().applied_next();
      answers_.reply_gathered(in.client, in.request, parts_);
      *outcome = Outcome::answered;
      return {};
    }
    cursor.pack(room, at);
  } else {
    SKERRY_TRY(read_pieces(in, &found));
    memory::Cursor cursor{std::span<const Piece>(pieces_)};
    if (cursor.total_bytes() != bytes)
      return error(Code::invalid, "a vector get of ", bytes, " bytes names ", cursor.total_bytes());
    cursor.pack(room, in.region.base);
  }
  *outcome = answer(in, room);
  return {};
}

// ---- accumulates and fetching updates ----------------------------------------------------------

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

// ---- words and keys ---------------------------------------------------------------------------

Status Applier::read_modify_write(const Incoming& in, Outcome* outcome) {
  const wire::RequestHeader& h = in.request.header;
  if (!wire::is_rmw(h.type)) return error(Code::invalid, "read-modify-write ", int{h.type});
  const wire::Rmw op = static_cast<wire::Rmw>(h.type);
  const uint8_t word_bytes = wire::word_bytes_of(op);
  SKERRY_TRY(in.check_range(h.offset, word_bytes));
  if (h.offset % word_bytes != 0)
    return error(Code::invalid, "offset ", h.offset, " of a ", rmw_names[wire::operation_of(op)],
                 " is not a multiple of ", int{word_bytes});
  const memory::Rmw what{static_cast<memory::RmwOp>(wire::operation_of(op)), word_bytes,
                         in.request.operands.first, in.request.operands.second};
  uint64_t old = 0;
  Status status;
  const LockResult result = memory::rmw(in.region, h.offset, what, *stripes_,
                                        memory::Patience::try_once, &old, &status);
  if (result == LockResult::busy) {
    *outcome = Outcome::park;
    return {};
  }
  if (result != LockResult::locked)
    return stripes_->explain(result, memory::stripe_index(in.region.seed, h.offset));
  if (!status.ok()) return status;
  in.session().keep_result(h.number, old);
  *outcome = answer(in, {}, old);
  return {};
}

// The fabric's key to a slice, registered when it is first asked for. Registrations end with their
// segment's memory (forget), or when the next segment in it asks for one.
Status Applier::key(const Incoming& in, Outcome* outcome) {
  if (in.region.kind == memory::Kind::given)
    return error(Code::unsupported, "memory that the program gave has no key of the fabric's");
  const SegmentId id = in.request.segment();
  const uint64_t memory = id.first_life().packed();
  if (const auto found = registrations_.find(memory);
      found != registrations_.end() && found->second.life != id.life())
    forget(id);  // an earlier segment's in the same memory, which was freed
  Registrations& here = registrations_[memory];
  here.life = id.life();
  Registration& known = here.of[in.request.target()];
  const uint64_t most_bytes = in.request.header.offset;
  if (known.handle == 0) {
    if (most_bytes != 0 && in.region.bytes > most_bytes)
      return error(Code::unsupported, "a key to the ", in.region.bytes, " bytes of rank ",
                   in.request.target(), "'s slice, for accesses to short ones");
    SKERRY_TRY(fabric_.register_memory(in.region.base, in.region.bytes, &known.key, &known.handle));
  }
  const wire::Key found{known.key.key, known.key.base, 0};
  *outcome = answer(in, std::as_bytes(std::span(&found, 1)));
  return {};
}

void Applier::forget(SegmentId segment) {
  const auto found = registrations_.extract(segment.first_life().packed());
  if (found.empty()) return;
  for (const auto& [rank, registration] : found.mapped().of)
    if (registration.handle != 0) fabric_.deregister_memory(registration.handle);
}

uint64_t Applier::memory_bytes() const {
  uint64_t bytes = table_bytes(registrations_) + vector_bytes(pieces_) + vector_bytes(scratch_) +
                   vector_bytes(parts_);
  for (const auto& [segment, here] : registrations_) bytes += table_bytes(here.of);
  return bytes;
}

}  // namespace skerry::server
