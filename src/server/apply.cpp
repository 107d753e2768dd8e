// How the server applies one request. Everything the wire says is checked here: segment, range,
// alignment, shape.
#include <algorithm>
#include <cstring>

#include "core/pure/rule.hpp"
#include "lock/home.hpp"
#include "lock/mutex.hpp"
#include "memory/doorbell.hpp"
#include "server/server.hpp"

namespace skerry::server {
namespace {

std::string_view rmw_name(wire::Rmw op) {
  switch (op) {
    case wire::Rmw::fetch_add_64:
    case wire::Rmw::fetch_add_32: return "fetch-and-add";
    case wire::Rmw::swap_64:
    case wire::Rmw::swap_32: return "swap";
    case wire::Rmw::compare_swap_64:
    case wire::Rmw::compare_swap_32:
    case wire::Rmw::compare_swap_16:
    case wire::Rmw::compare_swap_8: return "compare-and-swap";
  }
  return "unknown";
}

// Where a shape begins that was checked. One without bytes may be said to lie anywhere.
std::byte* target_of(const memory::Region& region, uint64_t offset, uint64_t shape_bytes) {
  return shape_bytes == 0 ? region.base : region.base + offset;
}

}  // namespace

Status Server::check_range(const memory::Region& region, uint64_t offset, uint64_t bytes) const {
  if (region.kind == memory::Kind::lock_words && bytes > 0) {
    lock::machine::Home home;
    SKERRY_TRY(lock::machine::Home::open(region.base, region.bytes, &home));
    if (!home.is_for_requesters(offset, bytes))
      return error(Code::invalid, "bytes [", offset, ", ", offset + bytes, ") of a lock of rank ",
                   request_.header.target_rank, " are its manager's, or none");
  }
  if (region.holds(offset, bytes)) return {};
  if (region.kind == memory::Kind::given)  // `region` says how long its description is
    return error(Code::range, bytes, " bytes at offset or address ", offset,
                 " lie outside the memory that rank ", request_.header.target_rank, " gave");
  return error(Code::range, "bytes [", offset, ", ", offset + bytes, ") lie outside the ",
               region.bytes, " bytes of rank ", request_.header.target_rank, "'s slice");
}

// Strided accesses go to mapped memory only; origins cut those of given memory into pieces. Batches
// of puts and accumulates go to both.
Status Server::check_mapped(const memory::Region& region) const {
  const bool is_one_way = request_.kind() == wire::Kind::put ||
                          request_.kind() == wire::Kind::accumulate;
  if (region.kind == memory::Kind::lock_words &&
      (request_.has(wire::flag_strided) || request_.has(wire::flag_vector)))
    return error(Code::unsupported, "pieces of a lock, instead of one word at a time");
  if (region.kind != memory::Kind::given ||
      (!request_.has(wire::flag_strided) && (is_one_way || !request_.has(wire::flag_vector))))
    return {};
  return error(Code::unsupported, "a strided ", wire::to_string(request_.kind()),
               " of memory that the program gave");
}

Status Server::read_shape(Shape* shape) const {
  *shape = Shape{};
  shape->block_bytes = request_.shape.block_bytes;
  shape->levels = static_cast<int32_t>(request_.shape.levels);
  for (int32_t k = 0; k < shape->levels; ++k) {
    shape->count[k] = request_.level[k].count;
    shape->stride[k] = request_.level[k].stride;
  }
  return {};
}

// The piece table at the payload's start, checked against the slice, into pieces_; *data is what
// follows it.
Status Server::read_pieces(const memory::Region& region, fabric::Bytes payload,
                           fabric::Bytes* data) {
  const uint64_t table_bytes = uint64_t{request_.header.piece_count} * sizeof(Piece);
  if (table_bytes > payload.size())
    return error(Code::invalid, "a table of ", request_.header.piece_count,
                 " pieces does not fit a payload of ", payload.size(), " bytes");
  pieces_.resize(request_.header.piece_count);
  std::memcpy(pieces_.data(), payload.data(), table_bytes);
  for (const Piece& piece : pieces_) SKERRY_TRY(check_range(region, piece.offset, piece.bytes));
  *data = payload.subspan(table_bytes);
  return {};
}

Server::Outcome Server::apply_put(Client& client, const memory::Region& region,
                                  fabric::Bytes payload, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  if (!client.session->notify_pending()) {
    if (request_.has(wire::flag_strided)) {
      Shape shape;
      *failure = read_shape(&shape);
      uint64_t stream = 0;
      if (failure->ok() &&
          (!stream_bytes(shape, &stream) || !within(shape, h.offset, region.bytes) ||
           request_.shape.skip_bytes > stream ||
           payload.size() > stream - request_.shape.skip_bytes))
        *failure = error(Code::range, "a strided put at offset ", h.offset, " leaves the ",
                         region.bytes, " bytes of rank ", h.target_rank, "'s slice");
      if (!failure->ok()) return Outcome::failed;
      memory::Cursor cursor(shape);
      cursor.seek(request_.shape.skip_bytes);
      cursor.unpack(target_of(region, h.offset, stream), payload);
    } else if (request_.has(wire::flag_vector)) {
      // Batched puts come here by the hundred thousand: one pass over the table, and nothing but
      // the bytes is touched. In order: puts of one origin may overlap, and the later one wins. A
      // malformed table is applied up to its first bad piece.
      const uint64_t table_bytes = uint64_t{h.piece_count} * sizeof(Piece);
      if (table_bytes > payload.size()) {
        *failure = error(Code::invalid, "a table of ", h.piece_count,
                         " pieces does not fit a payload of ", payload.size(), " bytes");
        return Outcome::failed;
      }
      const std::byte* table = payload.data();
      const std::byte* from = table + table_bytes;
      uint64_t left = payload.size() - table_bytes;
      for (uint32_t i = 0; i < h.piece_count; ++i, table += sizeof(Piece)) {
        Piece piece;
        std::memcpy(&piece, table, sizeof piece);
        if (!region.holds(piece.offset, piece.bytes) || piece.bytes > left) [[unlikely]] {
          *failure = piece.bytes > left
                         ? error(Code::invalid,
                                 "a vector put carries fewer bytes than its pieces name")
                         : check_range(region, piece.offset, piece.bytes);
          return Outcome::failed;
        }
        if (region.kind == memory::Kind::given) [[unlikely]] {
          *failure = memory::put(region, piece.offset, from, piece.bytes);
          if (!failure->ok()) return Outcome::failed;
        } else {
          memory::put(region.base + piece.offset, from, piece.bytes);
        }
        from += piece.bytes;
        left -= piece.bytes;
      }
      if (left != 0) {
        *failure = error(Code::invalid, "a vector put carries ", left,
                         " bytes more than its pieces name");
        return Outcome::failed;
      }
    } else {
      if (*failure = check_range(region, h.offset, payload.size()); !failure->ok())
        return Outcome::failed;
      *failure = memory::put(region, h.offset, payload.data(), payload.size());
      if (!failure->ok()) return Outcome::failed;
    }
  }
  return request_.has(wire::flag_notify) ? apply_notify(client, region, failure) : Outcome::done;
}

Server::Outcome Server::apply_notify(Client& client, const memory::Region& region,
                                     Status* failure) {
  const wire::Notify& n = request_.notify;
  if (*failure = check_range(region, n.counter_offset, 8); !failure->ok()) return Outcome::failed;
  if (n.counter_offset % 8 != 0) {
    *failure = error(Code::invalid, "counter offset ", n.counter_offset, " is not a multiple of 8");
    return Outcome::failed;
  }
  uint64_t old = 0;
  const memory::Rmw add{memory::RmwOp::fetch_add, 8, n.increment, 0};
  client.session->set_notify_pending();
  const LockResult result = memory::rmw(region, n.counter_offset, add, *stripes_,
                                        memory::Patience::try_once, &old);
  if (result == LockResult::busy) return Outcome::park;
  if (result != LockResult::locked) {
    *failure = stripes_->explain(result, memory::stripe_index(region.seed, n.counter_offset));
    return Outcome::failed;
  }
  const int32_t member = view_.member_of(static_cast<Rank>(request_.header.target_rank));
  if (member >= 0) memory::ring_doorbell(view_.control.member(static_cast<uint32_t>(member)));
  return Outcome::done;
}

// The bytes of a contiguous get, which are inside: where they lie, or a copy in scratch_.
Status Server::read_plain(const memory::Region& region, uint64_t bytes, fabric::Bytes* answer) {
  const uint64_t offset = request_.header.offset;
  const bool is_given = region.kind == memory::Kind::given;
  if (is_given && bytes > scratch_.size())
    return error(Code::invalid, "a get of ", bytes, " bytes of given memory, at most ",
                 scratch_.size(), " in one request");
  if (!is_given && bytes > 8) {
    *answer = {region.base + offset, bytes};
    return {};
  }
  *answer = {scratch_.data(), bytes};  // aligned words do not tear, also on their way out
  return memory::get(scratch_.data(), region, offset, bytes);
}

Server::Outcome Server::apply_get(Client& client, const memory::Region& region,
                                  fabric::Bytes payload, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  const uint64_t bytes = request_.extent_bytes;
  fabric::Bytes answer;
  if (const uint64_t most = fabric_->capabilities().max_payload_bytes; bytes > most) {
    *failure = error(Code::invalid, "a get of ", bytes, " bytes, at most ", most,
                     " in one request");
    return Outcome::failed;
  }
  if (request_.has(wire::flag_strided) || request_.has(wire::flag_vector)) {
    const bool gathers = bytes > scratch_.size() && request_.has(wire::flag_strided) &&
                         fabric_->capabilities().gather && fabric_->capabilities().direct_placement;
    if (bytes > scratch_.size() && !gathers) {
      *failure = error(Code::invalid, "a non-contiguous get of ", bytes, " bytes, at most ",
                       scratch_.size(), " in one request");
      return Outcome::failed;
    }
    const std::span<std::byte> room(scratch_.data(), std::min<uint64_t>(bytes, scratch_.size()));
    if (request_.has(wire::flag_strided)) {
      Shape shape;
      (void)read_shape(&shape);
      uint64_t stream = 0;
      if (!stream_bytes(shape, &stream) || !within(shape, h.offset, region.bytes) ||
          request_.shape.skip_bytes > stream || bytes > stream - request_.shape.skip_bytes) {
        *failure = error(Code::range, "a strided get at offset ", h.offset, " leaves the ",
                         region.bytes, " bytes of rank ", h.target_rank, "'s slice");
        return Outcome::failed;
      }
      memory::Cursor cursor(shape);
      cursor.seek(request_.shape.skip_bytes);
      if (gathers) {
        parts_.clear();
        if (!cursor.gather(target_of(region, h.offset, stream), bytes, most_parts, &parts_)) {
          *failure = error(Code::invalid, "a strided get of ", bytes, " bytes in more than ",
                           most_parts, " places in one request");
          return Outcome::failed;
        }
        if (!again_) client.session->applied_next();
        reply_gathered(client, parts_);
        return Outcome::answered;
      }
      cursor.pack(room, target_of(region, h.offset, stream));
    } else {
      fabric::Bytes rest;
      if (*failure = read_pieces(region, payload, &rest); !failure->ok()) return Outcome::failed;
      memory::Cursor cursor{std::span<const Piece>(pieces_)};
      if (cursor.total_bytes() != bytes) {
        *failure = error(Code::invalid, "a vector get of ", bytes, " bytes names ",
                         cursor.total_bytes());
        return Outcome::failed;
      }
      cursor.pack(room, region.base);
    }
    answer = room;
  } else {
    if (*failure = check_range(region, h.offset, bytes); !failure->ok()) return Outcome::failed;
    if (*failure = read_plain(region, bytes, &answer); !failure->ok()) return Outcome::failed;
  }
  if (!again_) client.session->applied_next();
  reply(client, 0, 0, answer);
  return Outcome::answered;
}

Server::Outcome Server::apply_rmw(Client& client, const memory::Region& region, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  if (!wire::is_rmw(h.type)) {
    *failure = error(Code::invalid, "read-modify-write ", int{h.type});
    return Outcome::failed;
  }
  const wire::Rmw op = static_cast<wire::Rmw>(h.type);
  const uint8_t word_bytes = wire::word_bytes_of(op);
  if (*failure = check_range(region, h.offset, word_bytes); !failure->ok()) return Outcome::failed;
  if (h.offset % word_bytes != 0) {
    *failure = error(Code::invalid, "offset ", h.offset, " of a ", rmw_name(op),
                     " is not a multiple of ", int{word_bytes});
    return Outcome::failed;
  }
  const memory::Rmw what{static_cast<memory::RmwOp>(wire::operation_of(op)), word_bytes,
                         request_.operands.first, request_.operands.second};
  uint64_t old = 0;
  const LockResult result = memory::rmw(region, h.offset, what, *stripes_,
                                        memory::Patience::try_once, &old, failure);
  if (result == LockResult::busy) return Outcome::park;
  if (result != LockResult::locked)
    *failure = stripes_->explain(result, memory::stripe_index(region.seed, h.offset));
  if (!failure->ok()) return Outcome::failed;
  client.session->applied_next();
  client.session->keep_result(h.number, old);
  reply(client, 0, old, {});
  return Outcome::answered;
}

// The fabric's key to a slice, registered when it is first asked for. Registrations end with their
// segment (forget).
Server::Outcome Server::apply_key(Client& client, const memory::Region& region, Status* failure) {
  const SegmentId segment{request_.header.segment_owner, request_.header.segment_generation};
  if (region.kind == memory::Kind::given) {
    *failure = error(Code::unsupported, "memory that the program gave has no key of the fabric's");
    return Outcome::failed;
  }
  Registration& known = registrations_[segment.packed()]
                                      [static_cast<Rank>(request_.header.target_rank)];
  if (known.handle == 0) {
    if (*failure = fabric_->register_memory(region.base, region.bytes, &known.key, &known.handle);
        !failure->ok())
      return Outcome::failed;
  }
  const wire::Key answer{known.key.key, known.key.base, 0};
  if (!again_) client.session->applied_next();
  reply(client, 0, 0, std::as_bytes(std::span(&answer, 1)));
  return Outcome::answered;
}

Server::Outcome Server::apply(Client& client, fabric::Bytes payload, Status* failure) {
  if (request_.kind() == wire::Kind::lock || request_.kind() == wire::Kind::unlock)
    return apply_lock(client, failure);
  if (request_.kind() == wire::Kind::lock_note) return apply_note(client, failure);
  if (request_.has(wire::flag_locked)) return apply_locked(client, payload, failure);
  return apply_access(client, payload, failure);
}

Server::Outcome Server::apply_access(Client& client, fabric::Bytes payload, Status* failure) {
  const wire::RequestHeader& h = request_.header;
  memory::Region region;
  if (*failure = directory_.find({h.segment_owner, h.segment_generation},
                                 static_cast<Rank>(h.target_rank), &region);
      !failure->ok())
    return Outcome::failed;
  if (*failure = check_mapped(region); !failure->ok()) return Outcome::failed;
  switch (request_.kind()) {
    case wire::Kind::put: return apply_put(client, region, payload, failure);
    case wire::Kind::accumulate: return apply_accumulate(client, region, payload, failure);
    case wire::Kind::get: return apply_get(client, region, payload, failure);
    case wire::Kind::read_modify_write: return apply_rmw(client, region, failure);
    case wire::Kind::fetch_update: return apply_fetch_update(client, region, payload, failure);
    case wire::Kind::key: return apply_key(client, region, failure);
    case wire::Kind::lock:
    case wire::Kind::unlock:
    case wire::Kind::lock_note: break;
  }
  *failure = error(Code::internal, "a request of kind ", wire::to_string(request_.kind()),
                   " reached apply");
  return Outcome::failed;
}

fabric::Verdict Server::finish(Client& client, Outcome outcome, const Status& failure) {
  switch (outcome) {
    case Outcome::park:
      client.state = Client::State::parked;
      retry_.push_back(client.endpoint);
      return fabric::Verdict::park;
    case Outcome::answered: break;
    case Outcome::done:
      client.session->applied_next();
      client.quiet_bytes += static_cast<uint32_t>(
          std::min(request_.extent_bytes, quiet_bytes_limit));
      if (!request_.has(wire::flag_more) || client.quiet_bytes >= quiet_bytes_limit)
        mark_acknowledge(client);
      break;
    case Outcome::failed: {
      const uint64_t number = request_.header.number;
      const int code = static_cast<int>(failure.code());
      const std::string text = failure.message().substr(0, longest_text);
      const bool one_way = request_.header.reply_slot == 0;
      client.session
          ->applied_next();  // it was dealt with: its origin is told, and what follows it goes on
      client.session->keep_failure(number, code, one_way, text);
      if (one_way) send_failure(client, number, code, text);
      else reply(client, code, 0, std::as_bytes(std::span(text)));
      break;
    }
  }
  client.session->confirm(request_.header.results_received);
  counters_.requests.fetch_add(1, std::memory_order_relaxed);
  return fabric::Verdict::taken;
}

// A request arrives again that was applied already: its connection broke before the origin had the
// answer. The server repeats the answer, not the effect.
void Server::answer_again(Client& client, fabric::Bytes payload) {
  const wire::RequestHeader& h = request_.header;
  if (const session::Kept* kept = client.session->kept(h.number)) {
    if (h.reply_slot != 0)
      reply(client, kept->code, kept->result, std::as_bytes(std::span(kept->payload)));
    return;
  }
  Status failure;
  const SegmentId segment{h.segment_owner, h.segment_generation};
  const Rank rank = static_cast<Rank>(h.target_rank);
  switch (request_.kind()) {
    case wire::Kind::get:  // read anew: any value since it was issued is right
    case wire::Kind::key: {
      memory::Region region;
      failure = directory_.find(segment, rank, &region);
      again_ = true;
      if (failure.ok() && request_.has(wire::flag_locked))
        (void)apply_locked(client, payload, &failure);
      else if (failure.ok())
        (void)(request_.kind() == wire::Kind::get ? apply_get(client, region, payload, &failure)
                                                  : apply_key(client, region, &failure));
      again_ = false;
      break;
    }
    case wire::Kind::lock: {  // it may be queued still: then its grant follows
      bool granted = false;
      ++client.asked_again;
      failure = locks_.holds(segment, rank, h.offset, request_.operands.first, &granted);
      if (granted) reply(client, 0, 0, {});
      break;
    }
    case wire::Kind::put:
    case wire::Kind::accumulate:
    case wire::Kind::read_modify_write:
    case wire::Kind::fetch_update:
    case wire::Kind::lock_note:
    case wire::Kind::unlock: mark_acknowledge(client); break;
  }
  if (!failure.ok())
    reply(client, static_cast<int>(failure.code()), 0, std::as_bytes(std::span(failure.message())));
}

// Nothing of the origin's is unacknowledged or unanswered, and it sends no more.
void Server::on_close(Client& client, wire::CloseKind kind, fabric::Bytes header) {
  wire::CloseHeader close;
  if (kind != wire::CloseKind::bye || !wire::decode(header, &close).ok() ||
      close.last_number != client.session->applied()) {
    protocol_error(client,
                   error(Code::invalid, "a bye that does not agree on the last request applied, ",
                         client.session->applied()));
    return;
  }
  client.session->confirm_bye();
  // The end of the connection says as much as an answer, but not that a lock was asked for again
  // before it: we might have closed for want of slots.
  if (client.asked_again == 0 && client.late() == 0 &&
      fabric_->unsent_bytes(client.endpoint) == 0) {
    end(client);
    return;
  }
  client.state = send_close(client, wire::CloseKind::bye_answer) == fabric::SendResult::would_block
                     ? Client::State::owing
                     : Client::State::leaving;
  quota_.said_bye(client.quota, monotonic_ns());
}

// Is the decoded request one of this connection's origin, for this server?
Status Server::check_addressee(const Client& client) const {
  const wire::RequestHeader& h = request_.header;
  if (h.origin_rank != static_cast<uint32_t>(client.rank) ||
      h.incarnation != client.session->incarnation())
    return error(Code::invalid, "a request of rank ", h.origin_rank, " and session ", h.incarnation,
                 " on rank ", client.rank, "'s connection");
  if (h.target_node != static_cast<uint32_t>(config_.self.node) ||
      h.target_server != config_.self.index)
    return error(Code::invalid, "a request for the server (", h.target_node, ", ", h.target_server,
                 ") reached (", config_.self.node, ", ", config_.self.index, ")");
  return {};
}

fabric::Verdict Server::on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                                   fabric::Bytes payload) {
  assert_server_thread();
  Client* client = client_of(endpoint);
  if (client == nullptr)
    return take_grant(endpoint, header) ? fabric::Verdict::taken : fabric::Verdict::park;
  if (client->said_bye()) {
    protocol_error(*client, error(Code::invalid, "a message behind a bye"));
    return fabric::Verdict::taken;
  }
  // Every message may need an answer, a bye too. So none is begun before there is room for an
  // answer and all earlier answers are sent.
  if (!has_room(*client)) {
    client->state = Client::State::parked;
    full_.push_back(endpoint);
    return fabric::Verdict::park;
  }
  used(*client);
  if (wire::CloseKind kind; wire::peek(header, &kind)) {
    on_close(*client, kind, header);
    return fabric::Verdict::taken;
  }
  Status status = wire::decode(header, &request_);
  if (status.ok()) status = check_addressee(*client);
  if (!status.ok()) {
    protocol_error(*client, status);
    return fabric::Verdict::taken;
  }
  const wire::RequestHeader& h = request_.header;
  switch (client->session->classify(h.number)) {
    case session::Order::apply: break;
    case session::Order::duplicate:
      if (!SKERRY_RULE(skip_duplicates)) break;
      if (!SKERRY_RULE(locked_once) && request_.has(wire::flag_locked)) break;
      answer_again(*client, payload);
      return fabric::Verdict::taken;
    case session::Order::gap:
      protocol_error(*client, error(Code::invalid, "request ", h.number, " follows request ",
                                    client->session->applied()));
      return fabric::Verdict::taken;
  }
  Status failure;
  if (request_.kind() != wire::Kind::get && request_.kind() != wire::Kind::fetch_update)
    request_.extent_bytes = payload.size();
  const Outcome outcome = apply(*client, payload, &failure);
  return finish(*client, outcome, failure);
}

// Does the decoded header begin a payload that this connection may send now?
Status Server::check_direct(const Client& client, uint64_t payload_bytes) const {
  const wire::RequestHeader& h = request_.header;
  if (request_.kind() != wire::Kind::put ||
      (h.flags & ~(wire::flag_notify | wire::flag_more)) != 0 || client.said_bye() ||
      client.session->classify(h.number) != session::Order::apply)
    return error(Code::invalid, "a payload of ", payload_bytes, " bytes with a ",
                 wire::to_string(request_.kind()), " that may not carry one");
  return check_addressee(client);
}

// A long put: its header was checked like any other before its payload may be placed. Earlier
// requests of the session are applied already.
std::byte* Server::place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                                  uint64_t payload_bytes) {
  Client* client = client_of(endpoint);
  if (client == nullptr) return nullptr;
  Status status = wire::decode(header, &request_);
  if (status.ok()) status = check_direct(*client, payload_bytes);
  if (!status.ok()) {  // not our protocol: the fabric closes the connection
    std::fprintf(stderr, "skerry: data server of node %d refuses a payload of rank %d: %s\n",
                 config_.self.node, client->rank, status.message().c_str());
    return nullptr;
  }
  const wire::RequestHeader& h = request_.header;
  memory::Region region;
  status = directory_.find({h.segment_owner, h.segment_generation},
                           static_cast<Rank>(h.target_rank), &region);
  if (status.ok() && region.kind == memory::Kind::given)
    status = error(Code::unsupported, "a long put to memory that the program gave, in one request");
  if (status.ok()) status = check_range(region, h.offset, payload_bytes);
  if (!status.ok()) return refuse_direct(*client, payload_bytes, std::move(status));
  client->state = Client::State::receiving;
  client->receives_into = {h.segment_owner, h.segment_generation};
  return region.base + h.offset;
}

// The request is counted and its origin told, as for one whose payload came with it. Otherwise the
// origin would send it again on every next connection.
std::byte* Server::refuse_direct(Client& client, uint64_t payload_bytes, Status why) {
  if (payload_bytes > longest_dropped_bytes) {
    (void)finish(client, Outcome::failed, why);  // told on the next connection
    return nullptr;
  }
  client.state = Client::State::receiving;
  client.refused = std::make_unique<Client::Refused>(
      Client::Refused{std::move(why), std::vector<std::byte>(payload_bytes)});
  return client.refused->payload.data();
}

fabric::Verdict Server::on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                                  uint64_t payload_bytes) {
  Client* client = client_of(endpoint);
  if (client == nullptr) return fabric::Verdict::taken;
  client->state = Client::State::serving;
  used(*client);
  (void)wire::decode(header, &request_);  // place_directly accepted it
  request_.extent_bytes = payload_bytes;
  if (client->refused) {
    const std::unique_ptr<Client::Refused> refused = std::move(client->refused);
    return finish(*client, Outcome::failed, refused->why);
  }
  Status failure;
  Outcome outcome = Outcome::done;
  if (request_.has(wire::flag_notify)) {
    memory::Region region;
    failure = directory_.find({request_.header.segment_owner, request_.header.segment_generation},
                              static_cast<Rank>(request_.header.target_rank), &region);
    outcome = failure.ok() ? apply_notify(*client, region, &failure) : Outcome::failed;
  }
  return finish(*client, outcome, failure);
}

}  // namespace skerry::server
