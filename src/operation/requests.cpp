// Requests: a transfer's packed stream cut into messages, and read-modify-writes, locks.
#include <algorithm>
#include <cstring>

#include "memory/slots.hpp"
#include "operation/engine.hpp"

namespace skerry::operation {
namespace {

constexpr uint64_t inline_bytes = fabric::inline_payload_bytes;

constexpr uint64_t hold_below_bytes = 16 * 1024;

// Pieces named in one message: at most a quarter of its payload is their table.
uint64_t piece_limit(uint64_t payload_bytes) { return std::clamp<uint64_t>(payload_bytes / 4 / sizeof(Piece), 1, 1024); }

memory::Cursor cursor_of(const Side& side) {
  return side.form == Side::Form::strided ? memory::Cursor(*side.shape) : memory::Cursor(side.pieces);
}

// The part [from, from + bytes) of a pieces side, as a list of its own. `piece` and `within` are where `from` lies; they advance.
uint64_t cut_pieces(std::span<const Piece> pieces, size_t* piece, uint64_t* within, uint64_t bytes, uint64_t most, std::vector<Piece>* out) {
  uint64_t taken = 0;
  out->clear();
  while (taken < bytes && *piece < pieces.size() && out->size() < most) {
    const Piece& p = pieces[*piece];
    const uint64_t part = std::min(p.bytes - *within, bytes - taken);
    if (part > 0) out->push_back({p.offset + *within, part});
    taken += part;
    *within += part;
    if (*within == p.bytes) {
      ++*piece;
      *within = 0;
    }
  }
  return taken;
}

}  // namespace

wire::Request& Engine::begin(wire::Kind kind, const Target& target, Link& link) {
  wire::RequestHeader& h = request_.header;
  h = {};
  h.version = wire::version;
  h.kind = static_cast<uint8_t>(kind);
  h.origin_rank = static_cast<uint32_t>(config_.rank);
  h.incarnation = link.session.incarnation();
  h.target_rank = static_cast<uint32_t>(target.rank);
  h.results_received = link.session.results_received();
  h.acknowledged = link.session.applied();
  h.target_node = static_cast<uint32_t>(link.server.node);
  h.target_server = link.server.index;
  h.segment_owner = target.segment.owner;
  h.segment_generation = target.segment.generation;
  h.reply_node = static_cast<uint32_t>(config_.node);
  return request_;
}

bool Engine::send(Link& link, fabric::Bytes payload, uint64_t credit_bytes, bool more, bool with_reply, uint64_t* number) {
  request_.header.number = link.session.issued() + 1;
  (void)with_reply;
  std::byte buffer[wire::max_request_bytes];
  const uint32_t length = wire::encode(request_, std::span<std::byte, wire::max_request_bytes>(buffer));
  switch (fabric_->send(link.endpoint, fabric::Bytes(buffer, length), payload, more, request_.header.number)) {
    case fabric::SendResult::accepted: break;
    case fabric::SendResult::would_block:
      link.blocked = true;
      return false;
    case fabric::SendResult::closed:
      link.blocked = true;  // on_closed follows and fails the link; the waiter in wait_sendable then sees it
      return false;
  }
  *number = link.session.issue(credit_bytes);
  if (fabric_->capabilities().rma) link.last_message[static_cast<Rank>(request_.header.target_rank)] = *number;
  if (more) cork(link);
  return true;
}

Engine::Extent Engine::extent_of(const Target& target, const Side& side) {
  Extent extent{target, side.offset, side.offset + side.bytes};
  if (side.bytes == 0) return extent;
  switch (side.form) {
    case Side::Form::contiguous: break;
    case Side::Form::strided:
      extent.end = side.offset + side.shape->block_bytes;
      for (int32_t k = 0; k < side.shape->levels; ++k) {
        const int64_t reach = side.shape->stride[k] * static_cast<int64_t>(side.shape->count[k] - 1);
        if (reach < 0) extent.begin -= static_cast<uint64_t>(-reach);
        else extent.end += static_cast<uint64_t>(reach);
      }
      break;
    case Side::Form::pieces:
      extent.begin = UINT64_MAX;
      extent.end = 0;
      for (const Piece& piece : side.pieces) {
        extent.begin = std::min(extent.begin, piece.offset);
        extent.end = std::max(extent.end, piece.offset + piece.bytes);
      }
      break;
  }
  return extent;
}

bool Engine::is_being_read(const Link& link, const Extent& extent) const {
  if (link.long_gets == 0) [[likely]] return false;
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.op != nullptr && p.link == &link && p.from.overlaps(extent); });
}

void Engine::cork(Link& link) {
  if (link.corked) return;
  link.corked = true;
  corked_.push_back(&link);
  call_helper(false);
}

// Sends the batch as one vector put. The link was found sendable and the mutex was held since. False: it would block.
bool Engine::send_batch(Link& link) {
  Batch& batch = *link.batch;
  wire::Request& r = begin(wire::Kind::put, batch.target, link);
  r.header.flags |= wire::flag_vector;
  r.header.piece_count = static_cast<uint32_t>(batch.pieces);
  const uint64_t pieces = batch.pieces, bytes = batch.bytes;
  const fabric::Bytes payload = batch.close();
  uint64_t number = 0;
  if (!send(link, payload, bytes, false, false, &number)) {
    // Not taken: open the gap again, the batch may still grow.
    if (pieces < Batch::most_pieces) std::memmove(batch.payload + Batch::table_bytes, batch.payload + pieces * sizeof(Piece), bytes);
    return false;
  }
  batch.pieces = batch.bytes = 0;
  if (batching_ == &batch) batching_ = nullptr;
  return true;
}

Status Engine::batch_put(Lock& lock, Link& link, const Target& target, uint64_t offset, const std::byte* from, uint64_t bytes) {
  if (!link.batch) link.batch = std::make_unique<Batch>();
  Batch& batch = *link.batch;
  while (batch.pieces > 0 && !batch.takes(target, bytes)) SKERRY_TRY(wait_sendable(lock, link, batch.bytes));  // sends it
  if (batch.pieces == 0) batch.target = target;
  batch.add(offset, from, bytes);
  batching_ = &batch;
  cork(link);
  return {};
}

// put and accumulate.
Status Engine::send_stream(Lock& lock, Link& link, wire::Kind kind, const Target& target, const Side& to, const Side& from, const Accumulate* what,
                           const Notify* notify, Mode mode, Op* op) {
  const uint64_t total = from.bytes;
  const bool contiguous = to.form == Side::Form::contiguous && from.form == Side::Form::contiguous;
  // Long contiguous puts travel by reference and land in place. Everything else goes in messages whose payload the fabric copies.
  const bool by_reference = contiguous && kind == wire::Kind::put && fabric_->capabilities().landing && total > inline_bytes;
  // An accumulate is applied from the server's receive buffer: parts that are small against it are seldom cut in two there and copied once more.
  const uint64_t message_bytes = kind == wire::Kind::accumulate ? inline_bytes / 2 : inline_bytes;
  // Whole elements of every type in each part, whatever a fabric's limit is.
  const uint64_t part_limit = by_reference ? landing_part_bytes : std::min(message_bytes, fabric_->capabilities().max_payload_bytes) / max_element_bytes * max_element_bytes;
  std::optional<memory::Cursor> pack;
  if (from.form != Side::Form::contiguous) pack.emplace(cursor_of(from));
  std::vector<Piece> pieces;
  size_t piece = 0;
  uint64_t within = 0;

  const Extent written = extent_of(target, to);
  const Extent counted = notify == nullptr ? Extent{} : Extent{target, notify->counter_offset, notify->counter_offset + 8};
  auto must_wait = [&] { return is_being_read(link, written) || is_being_read(link, counted); };
  uint64_t done = 0;
  do {
    uint64_t part = std::min(total - done, part_limit);
    std::span<const std::byte> table;
    if (to.form == Side::Form::pieces) {
      const uint64_t most = piece_limit(part_limit);
      part = cut_pieces(to.pieces, &piece, &within, std::min(total - done, part_limit - most * sizeof(Piece)), most, &pieces);
      table = std::as_bytes(std::span(pieces));
    }
    for (;;) {
      SKERRY_TRY(wait_sendable(lock, link, by_reference ? 0 : part));
      if (must_wait()) {
        SKERRY_TRY(wait_until(lock, [&] { return !must_wait(); }, fabric::no_endpoint));
        continue;
      }
      // From here to the send the mutex stays with us: request_ and scratch_ are ours.
      wire::Request& r = begin(kind, target, link);
      r.header.offset = to.offset;
      switch (to.form) {
        case Side::Form::contiguous: r.header.offset += done; break;
        case Side::Form::strided:
          r.header.flags |= wire::flag_strided;
          r.shape = {to.shape->block_bytes, done, static_cast<uint32_t>(to.shape->levels), 0};
          for (int32_t k = 0; k < to.shape->levels; ++k) r.level[k] = {to.shape->count[k], to.shape->stride[k]};
          break;
        case Side::Form::pieces:
          r.header.flags |= wire::flag_vector;
          r.header.piece_count = static_cast<uint32_t>(pieces.size());
          break;
      }
      if (what != nullptr) {
        r.header.type = static_cast<uint8_t>(what->type);
        if (!what->scale.is_one) {
          r.header.flags |= wire::flag_scaled;
          std::memcpy(r.scale.value, what->scale.value, sizeof r.scale.value);
        }
      }
      const bool last = done + part == total;
      if (notify != nullptr && last) {
        r.header.flags |= wire::flag_notify;
        r.notify = {notify->counter_offset, notify->increment};
      }
      fabric::Bytes payload;
      if (!pack && table.empty()) {
        payload = {from.base + done, part};
      } else {
        std::copy(table.begin(), table.end(), scratch_.begin());
        const std::span<std::byte> room(scratch_.data() + table.size(), part);
        if (pack) {
          pack->seek(done);
          pack->pack(room, from.base);
        } else {
          std::memcpy(room.data(), from.base + done, part);
        }
        payload = {scratch_.data(), table.size() + part};
      }
      // Small parts are held back and sent together; long ones go straight from the caller's buffer.
      const bool more = !by_reference && part < hold_below_bytes && (!last || (mode != Mode::blocking && !link.session.drained()));
      if (!last && link.session.at_ease()) r.header.flags |= wire::flag_more;
      uint64_t number = 0;
      if (!send(link, payload, by_reference ? 0 : part, more, false, &number)) continue;
      if (by_reference) {
        op->link = &link;
        op->number = number;
        if (mode == Mode::implicit) link.implicit_number = number;
      }
      break;
    }
    done += part;
  } while (done < total);
  // Blocking puts never wait for acknowledgements; look at those that piled up once in a while, so that they do not fill the socket.
  if (mode == Mode::blocking && link.session.issued() - link.session.applied() > 512) poke(lock);
  return {};
}

// get: one reply per message.
Status Engine::request_stream(Lock& lock, Link& link, const Target& target, const Side& from, const Side& to, Op* op) {
  const uint64_t total = to.bytes;
  const bool contiguous = to.form == Side::Form::contiguous && from.form == Side::Form::contiguous;
  const uint64_t part_limit =
      contiguous && fabric_->capabilities().landing ? landing_part_bytes : std::min(inline_bytes, fabric_->capabilities().max_payload_bytes);
  std::vector<Piece> table;
  size_t piece = 0;
  uint64_t within = 0;
  std::shared_ptr<const std::vector<Piece>> kept;
  if (to.form == Side::Form::pieces) kept = std::make_shared<const std::vector<Piece>>(to.pieces.begin(), to.pieces.end());

  uint64_t done = 0;
  while (done < total) {
    uint64_t part = std::min(total - done, part_limit);
    if (from.form == Side::Form::pieces) part = cut_pieces(from.pieces, &piece, &within, part, piece_limit(part_limit), &table);
    for (;;) {
      SKERRY_TRY(wait_sendable(lock, link, 0));
      uint32_t index = 0;
      if (!take_slot(&index)) {
        SKERRY_TRY(wait_until(lock, [&] { return !free_slots_.empty(); }, fabric::no_endpoint));
        continue;  // the link may have changed meanwhile
      }
      wire::Request& r = begin(wire::Kind::get, target, link);
      r.header.offset = from.offset;
      r.extent_bytes = part;
      switch (from.form) {
        case Side::Form::contiguous: r.header.offset += done; break;
        case Side::Form::strided:
          r.header.flags |= wire::flag_strided;
          r.shape = {from.shape->block_bytes, done, static_cast<uint32_t>(from.shape->levels), 0};
          for (int32_t k = 0; k < from.shape->levels; ++k) r.level[k] = {from.shape->count[k], from.shape->stride[k]};
          break;
        case Side::Form::pieces:
          r.header.flags |= wire::flag_vector;
          r.header.piece_count = static_cast<uint32_t>(table.size());
          break;
      }
      arm(index, op, &link);
      r.header.reply_slot = index + 1;
      r.header.reply_tag = memory::slot_generation(slot(index));
      Pending& p = pending_[index];
      p.bytes = part;
      if (to.form == Side::Form::contiguous) {
        p.land = to.base + done;
        if (from.form == Side::Form::contiguous && part > inline_bytes) {
          p.from = {target, from.offset + done, from.offset + done + part};
          ++link.long_gets;
        }
      } else {
        p.base = to.base;
        p.pieces = kept;
        if (kept) p.cursor.emplace(std::span<const Piece>(*kept));
        else p.cursor.emplace(*to.shape);
        p.cursor->seek(done);
      }
      uint64_t number = 0;
      if (!send(link, std::as_bytes(std::span(table)), 0, false, true, &number)) {
        release(index);
        continue;
      }
      p.number = number;
      break;
    }
    done += part;
  }
  return {};
}

// ---- the fabric's own puts and gets ----------------------------------------------------------------------------------------------------

bool Engine::use_rma(uint64_t bytes, const Side& a, const Side& b) const {
  const fabric::Capabilities& can = fabric_->capabilities();
  return can.rma && can.rma_from_bytes > 0 && bytes >= can.rma_from_bytes && a.form == Side::Form::contiguous && b.form == Side::Form::contiguous;
}

Status Engine::key_of(Lock& lock, Link& link, const Target& target, SegmentKey* key) {
  auto& of_segment = keys_[target.segment.packed()];
  if (const auto found = of_segment.find(target.rank); found != of_segment.end()) {
    *key = found->second;
    return {};
  }
  wire::Key answer{};
  Op* op = new_op();
  uint32_t index = 0;
  for (;;) {
    Status status = wait_sendable(lock, link, 0);
    if (status.ok() && !take_slot(&index)) {
      status = wait_until(lock, [&] { return !free_slots_.empty(); }, fabric::no_endpoint);
      if (status.ok()) continue;
    }
    if (!status.ok()) {
      free_op(op);
      return status;
    }
    wire::Request& r = begin(wire::Kind::key, target, link);
    arm(index, op, &link);
    r.header.reply_slot = index + 1;
    r.header.reply_tag = memory::slot_generation(slot(index));
    pending_[index].land = reinterpret_cast<std::byte*>(&answer);
    pending_[index].bytes = sizeof answer;
    uint64_t number = 0;
    if (send(link, {}, 0, false, true, &number)) {
      pending_[index].number = number;
      break;
    }
    release(index);
  }
  SKERRY_TRY(finish_op(lock, op, Mode::blocking, 0, nullptr));
  key->key = {answer.key, answer.base};
  key->offset = answer.offset;
  if (++keys_count_ > max_keys) {
    keys_.clear();
    keys_count_ = 1;
  }
  keys_[target.segment.packed()][target.rank] = *key;
  return {};
}

// Order. Messages and RMA of one connection overtake each other. So an RMA waits until the last message to the same target rank is
// acknowledged; a get also waits for our puts (they might be read too early), a put for our gets and puts (it might be overtaken by, or
// overtake, one to the same place). What follows an RMA waits in wait_sendable.
Status Engine::rma_stream(Lock& lock, Link& link, const Target& target, uint64_t offset, std::byte* local, uint64_t bytes, bool is_put, Op* op) {
  SegmentKey key;
  SKERRY_TRY(key_of(lock, link, target, &key));
  auto clear = [&] {
    if (!link.failure.ok()) return true;
    if (link.rma_outstanding > 0) return false;
    const auto last = link.last_message.find(target.rank);
    return last == link.last_message.end() || last->second <= link.session.applied();
  };
  // Small puts that are still held back were issued before this; wait_sendable sends them.
  while (link.has_batch()) SKERRY_TRY(wait_sendable(lock, link, 0));
  SKERRY_TRY(wait_until(lock, clear, fabric::no_endpoint));
  if (link.session.drained()) link.last_message.clear();
  for (uint64_t done = 0; done < bytes;) {
    SKERRY_TRY(wait_open(lock, link));
    const uint64_t part = std::min(bytes - done, landing_part_bytes);
    const uint64_t cookie = ++next_cookie_;
    const uint64_t at = key.offset + offset + done;
    const fabric::SendResult sent = is_put ? fabric_->put(link.endpoint, local + done, key.key, at, part, cookie)
                                           : fabric_->get(link.endpoint, local + done, key.key, at, part, cookie);
    if (sent != fabric::SendResult::accepted) {
      link.blocked = true;
      continue;
    }
    rma_[cookie] = {op, &link, !is_put};
    ++link.rma_outstanding;
    if (!is_put) ++link.rma_gets_outstanding;
    ++op->waiting_replies;
    done += part;
  }
  return {};
}

// ---- the public calls ---------------------------------------------------------------------------------------------------------------

Status Engine::finish_op(Lock& lock, Op* op, Mode mode, uint64_t bytes, Handle* handle, bool needs_others) {
  if (mode == Mode::implicit) {
    if (op->waiting_replies > 0) call_helper(bytes >= eager_help_bytes);
    return {};
  }
  if (mode == Mode::handle && !op_done(*op)) {
    op->open = true;
    *handle = handle_of(op);
    ++open_handles_;
    call_helper(bytes >= eager_help_bytes);
    return {};
  }
  fabric::EndpointId only = fabric::no_endpoint;
  if (!op_done(*op) && config_.one_thread_at_a_time) {
    // Nothing but this operation's server matters if all outstanding replies come from there.
    Link* link = op->link;
    for (const Pending& p : pending_)
      if (p.op == op) {
        link = p.link;
        break;
      }
    if (link != nullptr && link->waiting_replies == slots_in_use_) only = link->endpoint;
    // An unlock that is still in our hands must go out while we wait: its next holder may be who makes us wait.
    auto holds_back = [&](const Link* other) { return other != link && (other->corked || fabric_->unsent_bytes(other->endpoint) > 0); };
    if (needs_others && std::any_of(all_links_.begin(), all_links_.end(), holds_back)) only = fabric::no_endpoint;
  }
  Status status = wait_until(lock, [&] { return op_done(*op); }, only);
  if (!status.ok()) {
    // The wait was cut short (the job is ending): replies may still come for this operation. Its record stays taken for ever.
    return status;
  }
  if (mode == Mode::handle) *handle = 0;
  status = op_status(*op);
  free_op(op);
  return status;
}

Status Engine::put(const Target& target, const Side& to, const Side& from, const Notify* notify, Mode mode, Handle* handle) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node, placement::server_of(*config_.map, target.rank)));
  ++counters_.remote_operations;
  counters_.remote_bytes += from.bytes;
  if (notify == nullptr && use_rma(from.bytes, to, from)) {
    Op* op = mode == Mode::implicit ? &implicit_ : new_op();
    Status status = rma_stream(lock, link, target, to.offset, from.base, from.bytes, true, op);
    if (!status.ok() && op->waiting_replies == 0 && op != &implicit_) free_op(op);
    SKERRY_TRY(status);
    return finish_op(lock, op, mode, from.bytes, handle);
  }
  const bool small = from.bytes <= Batch::longest_put_bytes && to.form == Side::Form::contiguous && from.form == Side::Form::contiguous;
  const bool batches = fabric_->capabilities().max_payload_bytes >= sizeof(Batch::payload);
  // The first put after a pause goes at once; one that a long get before it may still read goes the long way, too.
  if (mode != Mode::blocking && notify == nullptr && small && batches && link.unacknowledged() && link.long_gets == 0 && link.failure.ok()) {
    if (handle != nullptr) *handle = 0;
    return batch_put(lock, link, target, to.offset, from.base, from.bytes);
  }
  Op by_value;  // small puts are source done when this returns: no operation outlives the call
  const bool long_put = from.bytes > fabric::inline_payload_bytes;
  Op* op = !long_put ? &by_value : mode == Mode::implicit ? &implicit_ : new_op();
  Status status = send_stream(lock, link, wire::Kind::put, target, to, from, nullptr, notify, mode, op);
  if (op == &implicit_) implicit_.number = 0;  // wait_implicit looks at the links
  if (!long_put || mode == Mode::implicit) {
    if (handle != nullptr && mode == Mode::handle) *handle = 0;
    return status;
  }
  if (!status.ok()) {
    free_op(op);
    return status;
  }
  return finish_op(lock, op, mode, from.bytes, handle);
}

Status Engine::accumulate(const Target& target, const Side& to, const Side& from, const Accumulate& what, Mode mode, Handle* handle) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node, placement::server_of(*config_.map, target.rank)));
  ++counters_.remote_operations;
  counters_.remote_bytes += from.bytes;
  Op by_value;
  Status status = send_stream(lock, link, wire::Kind::accumulate, target, to, from, &what, nullptr, mode, &by_value);
  if (handle != nullptr && mode == Mode::handle) *handle = 0;
  return status;
}

Status Engine::get(const Target& target, const Side& from, const Side& to, Mode mode, Handle* handle) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node, placement::server_of(*config_.map, target.rank)));
  ++counters_.remote_operations;
  counters_.remote_bytes += to.bytes;
  Op* op = mode == Mode::implicit ? &implicit_ : new_op();
  Status status = use_rma(to.bytes, from, to) ? rma_stream(lock, link, target, from.offset, to.base, to.bytes, false, op)
                                              : request_stream(lock, link, target, from, to, op);
  if (!status.ok() && op->waiting_replies == 0 && op != &implicit_) free_op(op);
  SKERRY_TRY(status);
  return finish_op(lock, op, mode, to.bytes, handle);
}

Status Engine::request_reply(const Target& target, uint64_t offset, wire::Kind kind, uint8_t type, wire::Operands operands, uint64_t* result) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node, placement::server_of(*config_.map, target.rank)));
  if (kind == wire::Kind::read_modify_write) {
    ++counters_.remote_operations;
    counters_.remote_bytes += 8;
  }
  Op* op = new_op();
  for (;;) {
    Status status = wait_sendable(lock, link, 0);
    const Extent word{target, offset, offset + 8};
    if (status.ok() && kind == wire::Kind::read_modify_write && is_being_read(link, word)) {
      status = wait_until(lock, [&] { return !is_being_read(link, word); }, fabric::no_endpoint);
      if (status.ok()) continue;
    }
    uint32_t index = 0;
    const Wait wait = kind == wire::Kind::lock ? Wait::for_ever : Wait::answered;
    if (status.ok() && !take_slot(&index, wait)) {
      status = wait_until(lock, [&] { return has_slot(wait); }, fabric::no_endpoint);
      if (status.ok()) continue;
    }
    if (!status.ok()) {
      free_op(op);
      return status;
    }
    wire::Request& r = begin(kind, target, link);
    r.header.type = type;
    r.header.offset = offset;
    r.operands = operands;
    arm(index, op, &link);
    r.header.reply_slot = index + 1;
    r.header.reply_tag = memory::slot_generation(slot(index));
    pending_[index].result = result;
    uint64_t number = 0;
    if (send(link, {}, 0, false, true, &number)) {
      pending_[index].number = number;
      break;
    }
    release(index);
  }
  return finish_op(lock, op, Mode::blocking, 0, nullptr, kind == wire::Kind::lock);
}

Status Engine::read_modify_write(const Target& target, uint64_t offset, wire::Rmw op, uint64_t operand, uint64_t expected, uint64_t* old) {
  return request_reply(target, offset, wire::Kind::read_modify_write, static_cast<uint8_t>(op), {operand, expected}, old);
}

Status Engine::lock(const Target& target, uint64_t index, uint64_t holder) {
  return request_reply(target, index, wire::Kind::lock, 0, {holder, 0}, nullptr);
}

// Unlock carries no reply: it is acknowledged like a put, and being numbered it takes effect after everything issued before it. Long gets are
// read from memory while they are sent: they must be here, or they might see what the next holder writes.
Status Engine::unlock(const Target& target, uint64_t index, uint64_t holder) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node, placement::server_of(*config_.map, target.rank)));
  for (;;) {
    SKERRY_TRY(wait_sendable(lock, link, 0));
    if (link.long_gets > 0) {
      SKERRY_TRY(wait_until(lock, [&] { return link.long_gets == 0; }, fabric::no_endpoint));
      continue;
    }
    wire::Request& r = begin(wire::Kind::unlock, target, link);
    r.header.offset = index;
    r.operands = {holder, 0};
    uint64_t number = 0;
    if (send(link, {}, 0, false, false, &number)) return {};
  }
}

}  // namespace skerry::operation
