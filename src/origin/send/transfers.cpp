#include "origin/send/transfers.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::origin {
namespace {

constexpr uint64_t inline_bytes = fabric::inline_payload_bytes;

// Below, a message may wait for others to travel with.
constexpr uint64_t hold_below_bytes = 16 * 1024;
// Below, waking the helper costs more than it hides.
constexpr uint64_t eager_help_bytes = 32 * 1024;

// The server sends a strided get from where its bytes lie, if they go to one place and lie in runs
// of at least gather_run_bytes. Shorter runs are cheaper to pack. A message of such a get has
// gather_part_bytes at most. The two bound the runs in a message.
constexpr uint64_t gather_run_bytes = 1024;
constexpr uint64_t gather_part_bytes = 1024 * 1024;

// A blocking put looks at the acknowledgements when so many are missing.
constexpr uint64_t look_after_requests = 512;

// A part has whole elements of every type, whatever a fabric's limit is.
constexpr uint64_t whole_elements(uint64_t bytes) {
  return bytes / max_element_bytes * max_element_bytes;
}

// Pieces named in one message: at most a quarter of its payload is their table.
uint64_t piece_limit(uint64_t payload_bytes) {
  return std::clamp<uint64_t>(payload_bytes / 4 / sizeof(Piece), 1, 1024);
}

}  // namespace

// One access on its way: what does not change, and how far it has come.
class Transfers::Stream {
 public:
  Stream(Link& l, const Access& a, Op* o)
      : link(l), access(a), op(o), total(a.local.bytes), touched(extent_of(a.target, a.remote)) {
    if (a.kind != wire::Kind::get && a.local.form != Side::Form::contiguous)
      pack.emplace(cursor_of(a.local));
    if (a.returns_data() && a.filled().form == Side::Form::pieces)
      kept = std::make_shared<const std::vector<Piece>>(a.filled().pieces.begin(),
                                                        a.filled().pieces.end());
  }

  // The next part's bytes, `most` at most; of a target in pieces also its table, which takes room
  // from the same payload if `table_in_payload`.
  uint64_t cut(uint64_t most, bool table_in_payload) {
    const uint64_t left = total - done;
    if (access.remote.form != Side::Form::pieces) return part = std::min(left, most);
    const uint64_t pieces = piece_limit(most);
    return part = cut_pieces(
               std::min(left, table_in_payload ? most - pieces * sizeof(Piece) : most), pieces);
  }
  bool is_last() const { return done + part == total; }
  // What the present part of a get reads, or may.
  Extent read() const {
    if (access.remote.form != Side::Form::contiguous) return touched;
    const uint64_t begin = access.remote.offset + done;
    return {access.target, begin, begin + part};
  }
  // Where the answer to the present part goes.
  void receive_into(const Side& to, Pending* p) const {
    p->bytes = part;
    if (placed || to.form == Side::Form::contiguous) {
      p->direct = to.base + done;
      return;
    }
    p->base = to.base;
    p->pieces = kept;
    if (kept) p->cursor.emplace(std::span<const Piece>(*kept));
    else p->cursor.emplace(*to.shape);
    p->cursor->seek(done);
  }

  Link& link;
  const Access& access;
  Op* const op;  // null: nobody's own
  const uint64_t total;
  const Extent touched;       // at the target
  uint64_t part_limit = 0;    // bytes
  bool by_reference = false;  // put: long parts, placed directly at the target
  bool stays = false;   // put, accumulate: the caller's buffer is sent from if it comes to that
  bool placed = false;  // get: the answer is placed directly at the origin
  std::optional<memory::Cursor> pack;              // put, accumulate: the origin is not contiguous
  std::shared_ptr<const std::vector<Piece>> kept;  // of what receives an answer: its pieces
  uint64_t done = 0;
  uint64_t part = 0;         // of the present one
  std::vector<Piece> table;  // of the present one: where it goes at the target

 private:
  // The next part of a target in pieces, as a list of its own.
  uint64_t cut_pieces(uint64_t bytes, uint64_t most) {
    const std::span<const Piece> pieces = access.remote.pieces;
    uint64_t taken = 0;
    table.clear();
    while (taken < bytes && piece_ < pieces.size() && table.size() < most) {
      const Piece& p = pieces[piece_];
      const uint64_t bytes_of_it = std::min(p.bytes - within_, bytes - taken);
      if (bytes_of_it > 0) table.push_back({p.offset + within_, bytes_of_it});
      taken += bytes_of_it;
      within_ += bytes_of_it;
      if (within_ == p.bytes) {
        ++piece_;
        within_ = 0;
      }
    }
    return taken;
  }

  size_t piece_ = 0;     // of the target's
  uint64_t within_ = 0;  // bytes of it that are cut
};

// ---- put and accumulate -----------------------------------------------------------------------

Status Transfers::send(Lock& lock, Link& link, const Access& access, Op* op) {
  context_.assert_held();
  Stream stream(link, access, op);
  const fabric::Capabilities& can = context_.can();
  const bool contiguous = access.is_contiguous();
  // Long contiguous puts travel by reference and are placed directly. Everything else goes in
  // messages whose payload the fabric copies.
  stream.by_reference = contiguous && access.kind == wire::Kind::put && can.direct_placement &&
                        stream.total > inline_bytes;
  // Longer contiguous ones of either kind are not copied to the replay log, so they are source done
  // only when acknowledged.
  stream.stays = contiguous && (stream.total > inline_bytes || access.stays);
  // An accumulate is applied from the server's receive buffer: parts that are small against it are
  // seldom cut in two there and copied once more.
  const uint64_t message_bytes = access.kind == wire::Kind::accumulate ? inline_bytes / 2
                                                                       : inline_bytes;
  stream.part_limit = stream.by_reference
                          ? std::min(long_part_bytes, can.max_payload_bytes)
                          : whole_elements(std::min(message_bytes, can.max_payload_bytes));
  const struct Underway {
    Underway(Links& l, Link& to) : links(l), link(to) { link.connection.note_transfer(); }
    ~Underway() { links.transfer_ended(link); }
    Links& links;
    Link& link;
  } underway(links_, link);
  do {
    (void)stream.cut(stream.part_limit, true);
    SKERRY_TRY(send_part(lock, stream));
    stream.done += stream.part;
  } while (stream.done < stream.total);
  // Blocking puts never wait for acknowledgements; look at those that piled up once in a while, so
  // that they do not fill the socket.
  if (access.mode == Mode::blocking &&
      link.requests.issued() - link.requests.applied() > look_after_requests)
    progress_.look(lock);
  return {};
}

void Transfers::take_payload(Stream& s, Sender::Message* message) {
  const Side& from = s.access.local;
  if (!s.pack && s.table.empty()) {
    message->payload = {from.base + s.done, s.part};
    message->where = s.stays ? Sender::Payload::referenced : Sender::Payload::copied;
    return;
  }
  const auto table = std::as_bytes(std::span(s.table));
  std::byte* const packed = s.link.requests.reserve(table.size() + s.part +
                                                                  wire::max_request_bytes);
  std::copy(table.begin(), table.end(), packed);
  const std::span<std::byte> data(packed + table.size(), s.part);
  if (s.pack) {
    s.pack->seek(s.done);
    s.pack->pack(data, from.base);
  } else {
    std::memcpy(data.data(), from.base + s.done, s.part);
  }
  message->payload = {packed, table.size() + s.part};
  message->where = Sender::Payload::packed;
}

Status Transfers::send_part(Lock& lock, Stream& s) {
  Link& link = s.link;
  const Access& access = s.access;
  const std::optional<Notify>& notify = access.notify;
  const uint64_t counter = notify ? notify->counter_offset : 0;
  // A notification is what somebody waits for: it does not queue.
  const Sender::Room room = notify ? Sender::Room::connected : Sender::Room::or_queue;
  const bool last = s.is_last();
  for (;;) {
    SKERRY_TRY(sender_.wait_sendable(lock, link, s.by_reference ? 0 : s.part, room));
    bool waited = false;
    SKERRY_TRY(sender_.wait_unread(lock, link, s.touched, &waited));
    if (notify && !waited)
      SKERRY_TRY(sender_.wait_unread(lock, link, {access.target, counter, counter + 8}, &waited));
    if (waited) continue;
    // From here to the send the mutex stays with us.
    wire::Request& r = sender_.begin(access.kind, access.target, link);
    describe(r, access, s.done, s.table.size());
    if (notify && last) {
      r.header.flags |= wire::flag_notify;
      r.notify = *notify;
    }
    const bool is_quiet = last && !access.is_fenced && may_be_quiet();
    if ((!last || is_quiet) && link.requests.session().at_ease())
      r.header.flags |= wire::flag_more;
    Sender::Message message;
    message.credit_bytes = s.by_reference ? 0 : s.part;
    message.is_fenced = !is_quiet;
    // Small parts are held back and sent together; long ones go straight from the caller's buffer.
    message.more = !s.by_reference && s.part < hold_below_bytes &&
                   (!last || (access.mode != Mode::blocking && !link.requests.session().drained()));
    take_payload(s, &message);
    uint64_t number = 0;
    if (!sender_.send(link, message, &number)) continue;
    if (s.stays && access.mode == Mode::implicit)
      link.requests.set_implicit_number(number);  // wait_implicit looks at the links
    if (s.stays && s.op != nullptr) {
      s.op->link = &link;
      s.op->number = number;
    }
    if (!notify) sender_.push(link);
    else if (link.has_queued()) return sender_.wait_connected(lock, link);
    return {};
  }
}

// ---- get and fetching update ------------------------------------------------------------------

Status Transfers::request(Lock& lock, Link& link, const Access& access, Op* op) {
  context_.assert_held();
  Stream stream(link, access, op);
  const fabric::Capabilities& can = context_.can();
  const Side& from = access.remote;
  if (access.updates()) {
    stream.part_limit = whole_elements(std::min(inline_bytes / 2, can.max_payload_bytes));
  } else {
    stream.placed = can.direct_placement && run_bytes(access.local) == access.local.bytes;
    stream.part_limit = inline_bytes;
    if (stream.placed && from.form == Side::Form::contiguous) stream.part_limit = long_part_bytes;
    else if (stream.placed && run_bytes(from) >= gather_run_bytes)
      stream.part_limit = gather_part_bytes;
    stream.part_limit = std::min(stream.part_limit, can.max_payload_bytes);
  }
  for (; stream.done < stream.total; stream.done += stream.part) {
    (void)stream.cut(stream.part_limit, access.updates());
    SKERRY_TRY(request_part(lock, stream));
  }
  return {};
}

// A fetching update waits as a put does, and for room at the server.
Status Transfers::wait_updatable(Lock& lock, Link& link, const Stream& s, bool* waited) {
  SKERRY_TRY(sender_.wait_unread(lock, link, s.touched, waited));
  if (*waited) return {};
  const auto has_room = [&] {
    const uint64_t bytes = link.answers.fetching_bytes();
    return bytes == 0 || bytes + s.part <= most_fetching_bytes;
  };
  return sender_.wait_for(lock, link, has_room, waited);
}

Status Transfers::request_part(Lock& lock, Stream& s) {
  Link& link = s.link;
  const Access& access = s.access;
  const uint64_t sent_bytes = access.carries_data() ? s.part : 0;
  for (;;) {
    SKERRY_TRY(sender_.wait_sendable(lock, link, sent_bytes, Sender::Room::or_queue));
    bool waited = false;
    if (access.updates()) SKERRY_TRY(wait_updatable(lock, link, s, &waited));
    if (waited) continue;
    wire::Request* r = nullptr;
    uint32_t index = 0;
    SKERRY_TRY(
        arm(lock, link, access.kind, access.target, s.op, Slots::Wait::answered, &r, &index));
    if (r == nullptr) continue;
    // From here to the send the mutex stays with us.
    r->extent_bytes = s.part;
    describe(*r, access, s.done, s.table.size());
    s.receive_into(access.filled(), &slots_.pending(index));
    if (access.updates()) slots_.is_fetch(index, s.part);
    else slots_.is_get(index, s.read());
    Sender::Message message;
    message.awaits_reply = true;
    message.credit_bytes = sent_bytes;
    if (access.carries_data()) take_payload(s, &message);
    else message.payload = std::as_bytes(std::span(s.table));
    if (!send_armed(link, message, index)) continue;
    sender_.push(link);
    return {};
  }
}

Status Transfers::arm(Lock& lock, Link& link, wire::Kind kind, const Target& target, Op* op,
                      Slots::Wait wait, wire::Request** request, uint32_t* index) {
  *request = nullptr;
  bool taken = false;
  SKERRY_TRY(sender_.take_slot(lock, wait, index, &taken));
  if (!taken) return {};  // the link may have changed meanwhile
  wire::Request& r = sender_.begin(kind, target, link);
  slots_.arm(*index, op, link, operations_.is_implicit(op));
  r.header.reply_slot = *index + 1;
  r.header.reply_tag = memory::slot_generation(slots_.shared(*index));
  *request = &r;
  return {};
}

uint64_t Transfers::send_armed(Link& link, const Sender::Message& message, uint32_t index) {
  uint64_t number = 0;
  if (sender_.send(link, message, &number)) slots_.sent(index, number);
  else slots_.disarm(index);
  return number;
}

// ---- the end of an operation ------------------------------------------------------------------

// Nothing but this link's server matters to a thread that waits for it: all outstanding answers
// come from there.
bool Transfers::only_this_matters(const Link& link) const {
  return context_.config.one_thread_at_a_time && link.answers.waiting() == slots_.in_use();
}

Status Transfers::finish(Lock& lock, Op* op, Mode mode, uint64_t bytes, Handle* handle) {
  context_.assert_held();
  if (mode == Mode::implicit) {
    if (op->waiting_replies > 0 && links_.answers_come(operations_.any_unwaited()))
      progress_.call_helper(bytes >= eager_help_bytes);
    return {};
  }
  if (mode == Mode::handle && !Operations::is_done(*op)) {
    *handle = operations_.name(op);
    if (op->link == nullptr || !op->link->has_queued())  // what is queued brings no answers yet
      progress_.call_helper(bytes >= eager_help_bytes);
    return {};
  }
  if (!Operations::is_done(*op)) {
    if (op->link != nullptr) SKERRY_TRY(sender_.wait_connected(lock, *op->link));
    const Link* const link = op->link;
    const bool alone = link != nullptr && only_this_matters(*link);
    // Cut short (the job is ending), answers may still come for this operation: its record stays
    // taken for ever.
    Until until;
    if (link != nullptr) {
      until.node = link->server.node;
      until.requests = &link->requests;
    }
    if (alone) until.only = &link->connection.endpoint();
    SKERRY_TRY(progress_.wait_until(lock, [&] { return Operations::is_done(*op); }, until));
  }
  if (mode == Mode::handle) *handle = 0;
  return operations_.take_back(op);
}

// ---- words ------------------------------------------------------------------------------------

Status Transfers::ask(Lock& lock, Link& link, const Word& word, const WaitingWork& work) {
  context_.assert_held();
  Op* op = operations_.make();
  uint32_t index = 0;
  for (bool asked = false; !asked;)
    if (Status status = ask_once(lock, link, word, op, &index, &asked); !status.ok()) {
      operations_.free(op);
      return status;
    }
  if (word.kind == wire::Kind::lock)
    return wait_granted(lock, op, index,
                        {word.target.segment, word.target.rank, static_cast<uint32_t>(word.offset)},
                        work);
  return finish(lock, op, Mode::blocking, 0, nullptr);
}

Status Transfers::ask_guarded(Lock& lock, Link& link, const Access& access) {
  SKERRY_INVARIANT(access.guard && access.is_contiguous() && !access.notify &&
                       access.bytes() <= Guard::longest_bytes,
                   "an access under a lock is one short block");
  Word word{access.target, access.kind, 0, access.remote.offset};
  word.access = &access;
  if (access.returns_data()) {
    word.into = access.filled().base;
    word.bytes = access.filled().bytes;
  }
  return ask(lock, link, word, {});
}

// *asked: it went out, or is queued. Otherwise try again: the mutex was given up in between.
Status Transfers::ask_once(Lock& lock, Link& link, const Word& word, Op* op, uint32_t* index,
                           bool* asked) {
  // A lock may wait for ever: the log does not keep it once it is applied, Pending does.
  const bool is_lock = word.kind == wire::Kind::lock;
  const bool is_rmw = word.kind == wire::Kind::read_modify_write;
  const Access* const access = word.access;
  const fabric::Bytes payload = access != nullptr && access->carries_data()
                                    ? fabric::Bytes(access->local.base, access->local.bytes)
                                    : fabric::Bytes();
  const Sender::Room room = is_rmw ? Sender::Room::or_queue : Sender::Room::connected;
  SKERRY_TRY(sender_.wait_sendable(lock, link, payload.size(), room));
  if (!is_lock && word.kind != wire::Kind::get) {
    const uint64_t bytes = is_rmw ? 8 : payload.size();
    bool waited = false;
    const Extent written{word.target, word.offset, word.offset + bytes};
    SKERRY_TRY(sender_.wait_unread(lock, link, written, &waited));
    if (waited) return {};
  }
  wire::Request* r = nullptr;
  SKERRY_TRY(arm(lock, link, word.kind, word.target, op,
                 is_lock ? Slots::Wait::for_ever : Slots::Wait::answered, &r, index));
  if (r == nullptr) return {};
  r->header.type = word.type;
  r->header.offset = word.offset;
  r->operands = word.operands;
  if (access != nullptr) {
    describe(*r, *access, 0, 0);
    r->extent_bytes = word.bytes;
  }
  Pending& p = slots_.pending(*index);
  p.result = word.result;
  p.direct = word.into;
  p.bytes = word.bytes;
  Sender::Message message;
  message.payload = payload;
  message.awaits_reply = !is_lock;
  const uint64_t number = send_armed(link, message, *index);
  *asked = number != 0;
  if (*asked && is_lock) slots_.is_lock(*index, link.requests.log()->request(number).header);
  return {};
}

Status Transfers::ask_key(Lock& lock, Link& link, const Target& target, uint64_t most_bytes,
                          wire::Key* key) {
  Word word{target, wire::Kind::key, 0, most_bytes};
  word.into = reinterpret_cast<std::byte*>(key);
  word.bytes = sizeof *key;
  return ask(lock, link, word, {});
}

// A mutex may be waited for as long as its holder likes. The connection need not stay for that: it
// may be evicted, or its server may need the slot. The grant then comes through this node's own
// data server, into the completion slot.
Status Transfers::wait_granted(Lock& lock, Op* op, uint32_t index, const memory::LockName& name,
                               const WaitingWork& work) {
  Link& link = *slots_.pending(index).link;
  memory::CompletionSlot& mine = slots_.shared(index);
  const uint32_t tag = memory::slot_generation(mine);
  const uint32_t waiting = memory::CompletionSlot::make_word(tag, memory::SlotState::waiting);
  const uint32_t filled = memory::CompletionSlot::make_word(tag, memory::SlotState::done);
  auto granted_here = [&] { return mine.word.load(std::memory_order_acquire) == filled; };
  // We hold back nothing that other ranks wait for, and nothing can come from the network: sleep
  // on the slot alone.
  auto cut_off = [&] {
    return link.connection.state() == connection::State::idle && !links_.anyone_waits() &&
           !batches_.any_corked() &&
           std::none_of(links_.listed().begin(), links_.listed().end(),
                        [&](const Link* l) { return links_.unacknowledged(*l); });
  };
  // An unlock of ours that is not sent yet must go out while we wait: we may be waiting for its
  // next holder.
  links_.open_queued();
  const auto& listed = links_.listed();
  const bool holds_back = std::any_of(listed.begin(), listed.end(), [&](const Link* other) {
    return other != &link &&
           (other->held.is_corked() || other->connection.state() == connection::State::opening ||
            links_.has_unsent(*other));
  });
  const bool alone = only_this_matters(link) && !holds_back;
  memory::NoteWait note(context_.wait_note());
  const memory::WaitSpan span(context_.config.spans, [&] { return memory::text_of(name); }, name);
  int64_t slice_ns = work.call == nullptr ? wait_slice_ns : WaitingWork::first_pause_ns;
  while (!Operations::is_done(*op)) {
    const int64_t work_at_ns = work.call == nullptr ? no_deadline : monotonic_ns() + slice_ns;
    SKERRY_TRY(progress_.wait_until(
        lock, [&] { return Operations::is_done(*op) || granted_here() || cut_off(); },
        {work_at_ns, slice_ns, link.server.node, note.has_told() ? memory::LockName() : name,
         alone ? &link.connection.endpoint() : nullptr}));
    if (Operations::is_done(*op)) break;
    if (granted_here()) {
      slots_.complete(index, 0, {}, true, 0);
      links_.maybe_drained(link);
      if (slots_.may_be_awaited()) progress_.wake_waiters();
      break;
    }
    // Where nothing can come from the network the wait above does not look for the job's end.
    if (context_.is_ending()) return context_.abort_status();
    note.tell(monotonic_ns(), name);
    const bool sleeps = cut_off();
    lock.unlock();
    // The grant comes into the slot, through the data server of this node. In slices: another
    // thread may open the connection again, and the grant come over it while nobody looks.
    if (sleeps)
      (void)skerry::wait_until(
          &mine.word, [&](uint32_t word) { return word != waiting; }, deadline_after(slice_ns),
          context_.config.control.abort_flag());
    if (work.call != nullptr) {
      if (mine.word.load(std::memory_order_acquire) == waiting) work.call(work.context);
      slice_ns = WaitingWork::next_pause_ns(slice_ns);
    }
    lock.lock();
  }
  return operations_.take_back(op);
}

// Unlock carries no reply: it is acknowledged like a put, and being numbered it takes effect after
// everything issued before it. Gets may be read from memory while they are sent, or anew after a
// break: they must be here, or they might see what the next holder writes.
Status Transfers::unlock(Lock& lock, Link& link, const Target& target, uint64_t index,
                         uint64_t holder) {
  for (;;) {
    SKERRY_TRY(sender_.wait_sendable(lock, link, 0));
    bool waited = false;
    SKERRY_TRY(sender_.wait_for(lock, link, [&] { return link.answers.gets() == 0; }, &waited));
    if (waited) continue;
    wire::Request& r = sender_.begin(wire::Kind::unlock, target, link);
    r.header.offset = index;
    r.operands = {holder, 0};
    uint64_t number = 0;
    if (sender_.send(link, {}, &number)) return {};
  }
}

}  // namespace skerry::origin
