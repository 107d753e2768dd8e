// Requests: a transfer's packed stream cut into messages, and read-modify-writes, locks.
#include <algorithm>
#include <cstring>

#include "memory/slots.hpp"
#include "operation/engine.hpp"

namespace skerry::operation {
namespace {

constexpr uint64_t inline_bytes = fabric::inline_payload_bytes;

constexpr uint64_t hold_below_bytes = 16 * 1024;

// A strided get whose bytes land in one place is sent from where they lie, if that is in runs of
// this many: shorter ones are cheaper to pack. Its messages are so long at most; together that
// bounds the runs in one.
constexpr uint64_t gather_run_bytes = 1024;
constexpr uint64_t gather_part_bytes = 1024 * 1024;

// Pieces named in one message: at most a quarter of its payload is their table.
uint64_t piece_limit(uint64_t payload_bytes) {
  return std::clamp<uint64_t>(payload_bytes / 4 / sizeof(Piece), 1, 1024);
}

memory::Cursor cursor_of(const Side& side) {
  return side.form == Side::Form::strided ? memory::Cursor(*side.shape)
                                          : memory::Cursor(side.pieces);
}

// No gaps and no other order, however it is described.
bool is_contiguous(const Side& side) {
  if (side.form != Side::Form::strided) return side.form == Side::Form::contiguous;
  Shape shape = *side.shape;
  coalesce(&shape);
  return shape.levels == 0;
}

// Of a strided side: bytes that lie in one place each. Others: 0.
uint64_t run_bytes(const Side& side) {
  if (side.form != Side::Form::strided) return 0;
  Shape shape = *side.shape;
  coalesce(&shape);
  return shape.block_bytes;
}

// The part [from, from + bytes) of a pieces side, as a list of its own. `piece` and `within` are
// where `from` lies; they advance.
uint64_t cut_pieces(std::span<const Piece> pieces, size_t* piece, uint64_t* within, uint64_t bytes,
                    uint64_t most, std::vector<Piece>* out) {
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

// Sends request_, or queues it while the link has no connection; takes its number, and notes it in
// the replay log. False: it would block; nothing was sent.
bool Engine::send(Link& link, fabric::Bytes payload, Payload where, uint64_t credit_bytes,
                  bool more, bool awaits_reply, uint64_t* number) {
  request_.header.number = link.session.issued() + 1;
  session::ReplayLog& log = log_of(link);
  std::byte* room = nullptr;
  uint64_t payload_room = 0;
  switch (where) {
    case Payload::copied:
      payload_room = payload.size();
      room = log.reserve(payload_room + wire::max_request_bytes);
      break;
    case Payload::packed:  // already reserved, header included
      payload_room = payload.size();
      room = const_cast<std::byte*>(payload.data());
      break;
    case Payload::referenced: room = log.reserve(wire::max_request_bytes); break;
  }
  std::byte* const header = room + payload_room;
  const uint32_t length = wire::encode(
      request_, std::span<std::byte, wire::max_request_bytes>(header, wire::max_request_bytes));
  const bool queued = queues_now(link);
  if (!queued)
    switch (fabric_->send(link.endpoint, fabric::Bytes(header, length), payload, more,
                          request_.header.number)) {
      case fabric::SendResult::accepted: break;
      case fabric::SendResult::would_block:
      case fabric::SendResult::closed:  // on_closed follows
        link.blocked = true;
        return false;
    }
  *number = link.session.issue(credit_bytes);
  switch (where) {
    case Payload::copied:
      if (payload.size() == 8) [[likely]]
        std::memcpy(room, payload.data(), 8);
      else if (!payload.empty()) std::memcpy(room, payload.data(), payload.size());
      log.commit(*number, payload.size(), length, awaits_reply);
      break;
    case Payload::packed: log.commit(*number, payload.size(), length, awaits_reply); break;
    case Payload::referenced: log.commit_reference(*number, payload, length, awaits_reply); break;
  }
  ++requests_sent_;
  if (trace_) [[unlikely]] {
    const bool is_get = request_.kind() == wire::Kind::get;
    trace_->request(link.server.node, is_get ? request_.extent_bytes : payload.size(),
                    awaits_reply || request_.kind() == wire::Kind::lock);
  }
  if (queued) {
    queue(link, where == Payload::referenced ? 0 : payload.size(), awaits_reply);
    return true;
  }
  link.sent = *number;
  if (!awaits_reply) watch_over();
  if (policy_) policy_->used(link.index);
  if (fabric_->capabilities().rma)
    link.last_message[static_cast<Rank>(request_.header.target_rank)] = *number;
  if (more) cork(link);
  return true;
}

// The target's side of request_: `done` bytes of the packed stream went before.
void Engine::describe_target(const Side& side, uint64_t done, size_t pieces) {
  wire::Request& r = request_;
  r.header.offset = side.offset;
  switch (side.form) {
    case Side::Form::contiguous: r.header.offset += done; break;
    case Side::Form::strided:
      r.header.flags |= wire::flag_strided;
      r.shape = {side.shape->block_bytes, done, static_cast<uint32_t>(side.shape->levels), 0};
      for (int32_t k = 0; k < side.shape->levels; ++k)
        r.level[k] = {side.shape->count[k], side.shape->stride[k]};
      break;
    case Side::Form::pieces:
      r.header.flags |= wire::flag_vector;
      r.header.piece_count = static_cast<uint32_t>(pieces);
      break;
  }
}

Engine::Extent Engine::extent_of(const Target& target, const Side& side) {
  Extent extent{target, side.offset, side.offset + side.bytes};
  if (side.bytes == 0) return extent;
  switch (side.form) {
    case Side::Form::contiguous: break;
    case Side::Form::strided:
      extent.end = side.offset + side.shape->block_bytes;
      for (int32_t k = 0; k < side.shape->levels; ++k) {
        const int64_t reach = side.shape->stride[k] *
                              static_cast<int64_t>(side.shape->count[k] - 1);
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
  if (link.gets_waiting == 0 || !SKERRY_RULE(gets_before_puts)) [[likely]]
    return false;
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& p) {
    return p.op != nullptr && p.link == &link && p.from.overlaps(extent);
  });
}

void Engine::cork(Link& link) {
  if (link.corked) return;
  link.corked = true;
  corked_.push_back(&link);
  call_helper(false);
}

// Sends the batch as one vector put. The link was found sendable and the mutex was held since.
// False: it would block.
bool Engine::send_batch(Link& link) {
  Batch& batch = *link.batch;
  wire::Request& r = begin(wire::Kind::put, batch.target, link);
  r.header.flags |= wire::flag_vector;
  r.header.piece_count = static_cast<uint32_t>(batch.pieces);
  const uint64_t pieces = batch.pieces, bytes = batch.bytes;
  const fabric::Bytes payload = batch.close();
  uint64_t number = 0;
  if (!send(link, payload, Payload::copied, bytes, false, false, &number)) {
    // Not taken: open the gap again, the batch may still grow.
    if (pieces < Batch::most_pieces)
      std::memmove(batch.payload + Batch::table_bytes, batch.payload + pieces * sizeof(Piece),
                   bytes);
    return false;
  }
  batch.pieces = batch.bytes = 0;
  if (batching_ == &batch) batching_ = nullptr;
  return true;
}

Status Engine::batch_put(Lock& lock, Link& link, const Target& target, uint64_t offset,
                         const std::byte* from, uint64_t bytes) {
  for (;;) {  // whoever waits gives up the mutex: the batch may be sent, and put away, meanwhile
    if (!link.batch) link.batch = std::make_unique<Batch>();
    if (link.batch->pieces == 0 || link.batch->takes(target, bytes)) break;
    SKERRY_TRY(wait_sendable(lock, link, link.batch->bytes, true));  // sends it
  }
  Batch& batch = *link.batch;
  if (batch.pieces == 0) batch.target = target;
  batch.add(offset, from, bytes);
  batching_ = &batch;
  cork(link);
  return {};
}

// put and accumulate.
Status Engine::send_stream(Lock& lock, Link& link, wire::Kind kind, const Target& target,
                           const Side& to, const Side& from, const Accumulate* what,
                           const Notify* notify, Mode mode, Op* op) {
  const uint64_t total = from.bytes;
  const bool contiguous = to.form == Side::Form::contiguous && from.form == Side::Form::contiguous;
  // Long contiguous puts travel by reference and land in place. Everything else goes in messages
  // whose payload the fabric copies.
  const bool by_reference = contiguous && kind == wire::Kind::put &&
                            fabric_->capabilities().landing && total > inline_bytes;
  // Longer contiguous ones of either kind are not copied for the case that they must be sent again:
  // source done is then acknowledged.
  const bool stays = contiguous && total > inline_bytes;
  // An accumulate is applied from the server's receive buffer: parts that are small against it are
  // seldom cut in two there and copied once more.
  const uint64_t message_bytes = kind == wire::Kind::accumulate ? inline_bytes / 2 : inline_bytes;
  // Whole elements of every type in each part, whatever a fabric's limit is.
  const uint64_t part_limit = by_reference ? landing_part_bytes
                                           : std::min(message_bytes,
                                                      fabric_->capabilities().max_payload_bytes) /
                                                 max_element_bytes * max_element_bytes;
  std::optional<memory::Cursor> pack;
  if (from.form != Side::Form::contiguous) pack.emplace(cursor_of(from));
  std::vector<Piece> pieces;
  size_t piece = 0;
  uint64_t within = 0;

  const Extent written = extent_of(target, to);
  const Extent counted = notify == nullptr
                             ? Extent{}
                             : Extent{target, notify->counter_offset, notify->counter_offset + 8};
  auto must_wait = [&] { return is_being_read(link, written) || is_being_read(link, counted); };
  const struct Underway {
    explicit Underway(uint32_t& transfers) : count(transfers) { ++count; }
    ~Underway() { --count; }
    uint32_t& count;
  } underway(link.transfers);
  uint64_t done = 0;
  do {
    uint64_t part = std::min(total - done, part_limit);
    std::span<const std::byte> table;
    if (to.form == Side::Form::pieces) {
      const uint64_t most = piece_limit(part_limit);
      part = cut_pieces(to.pieces, &piece, &within,
                        std::min(total - done, part_limit - most * sizeof(Piece)), most, &pieces);
      table = std::as_bytes(std::span(pieces));
    }
    for (;;) {
      // A notification is what somebody waits for.
      SKERRY_TRY(wait_sendable(lock, link, by_reference ? 0 : part, notify == nullptr));
      if (must_wait()) {
        if (link.has_queued()) want(link);
        SKERRY_TRY(wait_until(lock, [&] { return !must_wait(); }));
        continue;
      }
      // From here to the send the mutex stays with us: request_ and scratch_ are ours.
      wire::Request& r = begin(kind, target, link);
      describe_target(to, done, pieces.size());
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
      Payload where = stays ? Payload::referenced : Payload::copied;
      if (!pack && table.empty()) {
        payload = {from.base + done, part};
      } else {
        where = Payload::packed;
        std::byte* const packed = log_of(link).reserve(table.size() + part +
                                                       wire::max_request_bytes);
        std::copy(table.begin(), table.end(), packed);
        const std::span<std::byte> room(packed + table.size(), part);
        if (pack) {
          pack->seek(done);
          pack->pack(room, from.base);
        } else {
          std::memcpy(room.data(), from.base + done, part);
        }
        payload = {packed, table.size() + part};
      }
      // Small parts are held back and sent together; long ones go straight from the caller's
      // buffer.
      const bool more = !by_reference && part < hold_below_bytes &&
                        (!last || (mode != Mode::blocking && !link.session.drained()));
      if (!last && link.session.at_ease()) r.header.flags |= wire::flag_more;
      uint64_t number = 0;
      if (!send(link, payload, where, by_reference ? 0 : part, more, false, &number)) continue;
      if (stays && mode == Mode::implicit)
        link.implicit_number = number;  // wait_implicit looks at the links
      if (stays && op != nullptr) {
        op->link = &link;
        op->number = number;
      }
      if (notify == nullptr) push(link);
      else if (link.has_queued()) SKERRY_TRY(wait_connected(lock, link));
      break;
    }
    done += part;
  } while (done < total);
  // Blocking puts never wait for acknowledgements; look at those that piled up once in a while, so
  // that they do not fill the socket.
  if (mode == Mode::blocking && link.session.issued() - link.session.applied() > 512) poke(lock);
  return {};
}

// get: one reply per message.
Status Engine::request_stream(Lock& lock, Link& link, const Target& target, const Side& from,
                              const Side& to, Op* op) {
  const uint64_t total = to.bytes;
  const fabric::Capabilities& can = fabric_->capabilities();
  const bool lands = can.landing && is_contiguous(to);
  uint64_t part_limit = std::min(inline_bytes, can.max_payload_bytes);
  if (lands && from.form == Side::Form::contiguous) part_limit = landing_part_bytes;
  else if (lands && can.gather && run_bytes(from) >= gather_run_bytes)
    part_limit = gather_part_bytes;
  std::vector<Piece> table;
  size_t piece = 0;
  uint64_t within = 0;
  std::shared_ptr<const std::vector<Piece>> kept;
  if (to.form == Side::Form::pieces)
    kept = std::make_shared<const std::vector<Piece>>(to.pieces.begin(), to.pieces.end());

  const Extent read = extent_of(target, from);
  uint64_t done = 0;
  while (done < total) {
    uint64_t part = std::min(total - done, part_limit);
    if (from.form == Side::Form::pieces)
      part = cut_pieces(from.pieces, &piece, &within, part, piece_limit(part_limit), &table);
    for (;;) {
      SKERRY_TRY(wait_sendable(lock, link, 0, true));
      uint32_t index = 0;
      if (!take_slot(&index)) {
        SKERRY_TRY(wait_slot(lock, Wait::answered));
        continue;  // the link may have changed meanwhile
      }
      wire::Request& r = begin(wire::Kind::get, target, link);
      r.extent_bytes = part;
      describe_target(from, done, table.size());
      arm(index, op, &link);
      r.header.reply_slot = index + 1;
      r.header.reply_tag = memory::slot_generation(slot(index));
      Pending& p = pending_[index];
      p.bytes = part;
      p.from = from.form == Side::Form::contiguous
                   ? Extent{target, from.offset + done, from.offset + done + part}
                   : read;
      ++link.gets_waiting;
      if (lands || to.form == Side::Form::contiguous) {
        p.land = to.base + done;
      } else {
        p.base = to.base;
        p.pieces = kept;
        if (kept) p.cursor.emplace(std::span<const Piece>(*kept));
        else p.cursor.emplace(*to.shape);
        p.cursor->seek(done);
      }
      uint64_t number = 0;
      if (!send(link, std::as_bytes(std::span(table)), Payload::copied, 0, false, true, &number)) {
        release(index);
        continue;
      }
      p.number = number;
      push(link);
      break;
    }
    done += part;
  }
  return {};
}

// ---- the public calls -------------------------------------------------------------------------

Status Engine::finish_op(Lock& lock, Op* op, Mode mode, uint64_t bytes, Handle* handle) {
  if (mode == Mode::implicit) {
    if (op->waiting_replies > 0 && answers_come()) call_helper(bytes >= eager_help_bytes);
    return {};
  }
  if (mode == Mode::handle && !op_done(*op)) {
    op->open = true;
    *handle = handle_of(op);
    ++open_handles_;
    if (op->link == nullptr || !op->link->has_queued())
      call_helper(bytes >= eager_help_bytes);  // what is queued brings no answers yet
    return {};
  }
  if (!op_done(*op) && op->link != nullptr) SKERRY_TRY(wait_connected(lock, *op->link));
  const Link* only = nullptr;
  if (!op_done(*op) && config_.one_thread_at_a_time) {
    // Nothing but this operation's server matters if all outstanding replies come from there.
    const Link* link = op->link;
    for (const Pending& p : pending_)
      if (p.op == op) {
        link = p.link;
        break;
      }
    if (link != nullptr && link->waiting_replies == slots_in_use_) only = link;
  }
  Status status = wait_until(lock, [&] { return op_done(*op); }, only);
  if (!status.ok()) {
    // The wait was cut short (the job is ending): replies may still come for this operation. Its
    // record stays taken for ever.
    return status;
  }
  if (mode == Mode::handle) *handle = 0;
  status = op_status(*op);
  free_op(op);
  return status;
}

// A mutex may be waited for as long as its holder likes. The connection need not stay for that: it
// may be evicted, or its server may need the place; the grant then comes through this node's own
// data server, into the slot.
Status Engine::finish_lock(Lock& lock, Op* op, uint32_t index) {
  const Link& link = *pending_[index].link;
  memory::CompletionSlot& mine = slot(index);
  const uint32_t tag = memory::slot_generation(mine);
  const uint32_t waiting = memory::CompletionSlot::make_word(tag, memory::SlotState::waiting);
  const uint32_t filled = memory::CompletionSlot::make_word(tag, memory::SlotState::done);
  auto granted_here = [&] { return mine.word.load(std::memory_order_acquire) == filled; };
  // Nothing that others wait for is in our hands, and nothing can come from the network: sleep on
  // the slot alone.
  auto cut_off = [&] {
    return link.machine.state() == connection::State::idle && wanted_.empty() && corked_.empty() &&
           std::none_of(all_links_.begin(), all_links_.end(),
                        [&](const Link* l) { return unacknowledged(*l); });
  };
  // An unlock that is still in our hands must go out while we wait: its next holder may be who
  // makes us wait.
  const bool holds_back = std::any_of(all_links_.begin(), all_links_.end(), [&](const Link* other) {
    return other != &link && (other->corked || (other->endpoint != fabric::no_endpoint &&
                                                fabric_->unsent_bytes(other->endpoint) > 0));
  });
  open_queued();  // the same
  const bool alone = config_.one_thread_at_a_time && link.waiting_replies == slots_in_use_ &&
                     !holds_back;
  int64_t slice_ns = work_.call == nullptr ? wait_slice_ns : WaitingWork::first_pause_ns;
  while (!op_done(*op)) {
    const int64_t work_at_ns = work_.call == nullptr ? INT64_MAX : monotonic_ns() + slice_ns;
    SKERRY_TRY(wait_until(
        lock,
        [&] { return op_done(*op) || granted_here() || cut_off() || monotonic_ns() >= work_at_ns; },
        alone ? &link : nullptr, slice_ns));
    if (op_done(*op)) break;
    if (granted_here()) {
      complete(index, 0, {}, true, 0);
      break;
    }
    const bool sleeps = cut_off();
    const Waiting waits(trace_.get());
    lock.unlock();
    // The grant comes into the slot, through the data server of this node. In slices: another
    // thread may open the connection again, and the grant come over it while nobody looks.
    if (sleeps)
      (void)skerry::wait_until(
          &mine.word, [&](uint32_t word) { return word != waiting; }, deadline_after(slice_ns),
          config_.control.abort_flag(), Sharing::node);
    if (work_.call != nullptr) {
      if (mine.word.load(std::memory_order_acquire) == waiting) work_.call(work_.context);
      slice_ns = WaitingWork::next_pause_ns(slice_ns);
    }
    lock.lock();
  }
  Status status = op_status(*op);
  free_op(op);
  return status;
}

Status Engine::put(const Target& target, const Side& to, const Side& from, const Notify* notify,
                   Mode mode, Handle* handle) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node,
                                        placement::server_of(*config_.map, target.rank)));
  ++counters_.remote_operations;
  counters_.remote_bytes += from.bytes;
  if (notify == nullptr && use_rma(from.bytes, to, from)) {
    Op* op = mode == Mode::implicit ? &implicit_ : new_op();
    Status status = rma_stream(lock, link, target, to.offset, from.base, from.bytes, true, op);
    if (!status.ok() && op->waiting_replies == 0 && op != &implicit_) free_op(op);
    SKERRY_TRY(status);
    return finish_op(lock, op, mode, from.bytes, handle);
  }
  const bool small = from.bytes <= Batch::longest_put_bytes && to.form == Side::Form::contiguous &&
                     from.form == Side::Form::contiguous;
  const bool batches = fabric_->capabilities().max_payload_bytes >= sizeof(Batch::payload);
  // The first put after a pause goes at once; one that a get before it may still read goes the long
  // way, too.
  if (mode != Mode::blocking && notify == nullptr && small && batches && unacknowledged(link) &&
      link.gets_waiting == 0 && link.failure.ok()) {
    if (handle != nullptr) *handle = 0;
    return batch_put(lock, link, target, to.offset, from.base, from.bytes);
  }
  return send_all(lock, link, wire::Kind::put, target, to, from, nullptr, notify, mode, handle);
}

// put and accumulate as messages. Short ones, and those that are packed on the way, are source done
// when this returns: no operation outlives the call.
Status Engine::send_all(Lock& lock, Link& link, wire::Kind kind, const Target& target,
                        const Side& to, const Side& from, const Accumulate* what,
                        const Notify* notify, Mode mode, Handle* handle) {
  if (handle != nullptr) *handle = 0;
  if (from.bytes <= inline_bytes || mode == Mode::implicit) {
    Op by_value;
    return send_stream(lock, link, kind, target, to, from, what, notify, mode,
                       mode == Mode::implicit ? nullptr : &by_value);
  }
  Op* op = new_op();
  if (Status status = send_stream(lock, link, kind, target, to, from, what, notify, mode, op);
      !status.ok()) {
    free_op(op);
    return status;
  }
  return finish_op(lock, op, mode, from.bytes, handle);
}

Status Engine::accumulate(const Target& target, const Side& to, const Side& from,
                          const Accumulate& what, Mode mode, Handle* handle) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node,
                                        placement::server_of(*config_.map, target.rank)));
  ++counters_.remote_operations;
  counters_.remote_bytes += from.bytes;
  return send_all(lock, link, wire::Kind::accumulate, target, to, from, &what, nullptr, mode,
                  handle);
}

Status Engine::get(const Target& target, const Side& from, const Side& to, Mode mode,
                   Handle* handle) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node,
                                        placement::server_of(*config_.map, target.rank)));
  ++counters_.remote_operations;
  counters_.remote_bytes += to.bytes;
  Op* op = mode == Mode::implicit ? &implicit_ : new_op();
  Status status = use_rma(to.bytes, from, to)
                      ? rma_stream(lock, link, target, from.offset, to.base, to.bytes, false, op)
                      : request_stream(lock, link, target, from, to, op);
  if (!status.ok() && op->waiting_replies == 0 && op != &implicit_) free_op(op);
  SKERRY_TRY(status);
  return finish_op(lock, op, mode, to.bytes, handle);
}

Status Engine::request_reply(const Target& target, uint64_t offset, wire::Kind kind, uint8_t type,
                             wire::Operands operands, uint64_t* result) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node,
                                        placement::server_of(*config_.map, target.rank)));
  if (kind == wire::Kind::read_modify_write) {
    ++counters_.remote_operations;
    counters_.remote_bytes += 8;
  }
  Op* op = new_op();
  for (;;) {
    Status status = wait_sendable(lock, link, 0, kind == wire::Kind::read_modify_write);
    const Extent word{target, offset, offset + 8};
    if (status.ok() && kind == wire::Kind::read_modify_write && is_being_read(link, word)) {
      if (link.has_queued()) want(link);
      status = wait_until(lock, [&] { return !is_being_read(link, word); });
      if (status.ok()) continue;
    }
    uint32_t index = 0;
    const Wait wait = kind == wire::Kind::lock ? Wait::for_ever : Wait::answered;
    if (status.ok() && !take_slot(&index, wait)) {
      status = wait_slot(lock, wait);
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
    const bool is_lock = kind == wire::Kind::lock;  // may wait for ever: the log does not keep it
                                                    // once it is applied, Pending does
    if (send(link, {}, Payload::copied, 0, false, !is_lock, &number)) {
      pending_[index].number = number;
      if (!is_lock) break;
      const fabric::Bytes header = link.log->request(number).header;
      pending_[index].lock_request = std::make_unique<std::vector<std::byte>>(header.begin(),
                                                                              header.end());
      ++link.lock_waits;
      return finish_lock(lock, op, index);
    }
    release(index);
  }
  return finish_op(lock, op, Mode::blocking, 0, nullptr);
}

Status Engine::read_modify_write(const Target& target, uint64_t offset, wire::Rmw op,
                                 uint64_t operand, uint64_t expected, uint64_t* old) {
  return request_reply(target, offset, wire::Kind::read_modify_write, static_cast<uint8_t>(op),
                       {operand, expected}, old);
}

Status Engine::lock(const Target& target, uint64_t index, uint64_t holder) {
  return request_reply(target, index, wire::Kind::lock, 0, {holder, 0}, nullptr);
}

// Unlock carries no reply: it is acknowledged like a put, and being numbered it takes effect after
// everything issued before it. Gets may be read from memory while they are sent, or anew after a
// break: they must be here, or they might see what the next holder writes.
Status Engine::unlock(const Target& target, uint64_t index, uint64_t holder) {
  Lock lock(mutex_);
  Link& link = link_to(placement::route(*config_.map, config_.node,
                                        placement::server_of(*config_.map, target.rank)));
  for (;;) {
    SKERRY_TRY(wait_sendable(lock, link, 0));
    if (link.gets_waiting > 0) {
      if (link.has_queued()) want(link);
      SKERRY_TRY(wait_until(lock, [&] { return link.gets_waiting == 0; }));
      continue;
    }
    wire::Request& r = begin(wire::Kind::unlock, target, link);
    r.header.offset = index;
    r.operands = {holder, 0};
    uint64_t number = 0;
    if (send(link, {}, Payload::copied, 0, false, false, &number)) return {};
  }
}

}  // namespace skerry::operation
