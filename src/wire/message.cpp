#include "wire/message.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::wire {
namespace {

// Reads consecutive parts of a bounded span; once short, stays short.
class Reader {
 public:
  explicit Reader(Bytes in) : in_(in) {}
  template <class Part>
  bool take(Part* part) {
    if (in_.size() < sizeof(Part)) return false;
    std::memcpy(part, in_.data(), sizeof(Part));
    in_ = in_.subspan(sizeof(Part));
    return true;
  }
  bool empty() const { return in_.empty(); }

 private:
  Bytes in_;
};

class Writer {
 public:
  explicit Writer(std::byte* out) : begin_(out), out_(out) {}
  template <class Part>
  void add(const Part& part) {
    std::memcpy(out_, &part, sizeof(Part));
    out_ += sizeof(Part);
  }
  uint32_t length() const { return static_cast<uint32_t>(out_ - begin_); }

 private:
  std::byte* begin_;
  std::byte* out_;
};

bool takes_operands(Kind kind) {
  return kind == Kind::read_modify_write || kind == Kind::lock || kind == Kind::unlock ||
         kind == Kind::lock_note;
}

bool takes_extent(Kind kind) { return kind == Kind::get || kind == Kind::fetch_update; }
bool takes_operation(Kind kind) { return kind == Kind::accumulate || kind == Kind::fetch_update; }

bool is_request(uint8_t kind) {
  return kind >= static_cast<uint8_t>(Kind::put) && kind <= static_cast<uint8_t>(Kind::lock_note);
}

bool may_be_locked(const RequestHeader& header) {
  switch (static_cast<Kind>(header.kind)) {
    case Kind::put:
    case Kind::get:
    case Kind::accumulate:
    case Kind::read_modify_write:
    case Kind::fetch_update:
      return (header.flags & ~(flag_locked | flag_scaled)) == 0 && header.reply_slot != 0;
    default: return false;
  }
}

Status short_message(std::string_view part, size_t bytes) {
  return error(Code::invalid, "message of ", bytes, " bytes ends within its ", part);
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::put: return "put";
    case Kind::get: return "get";
    case Kind::accumulate: return "accumulate";
    case Kind::read_modify_write: return "read-modify-write";
    case Kind::lock: return "lock";
    case Kind::unlock: return "unlock";
    case Kind::key: return "key";
    case Kind::fetch_update: return "fetching update";
    case Kind::lock_note: return "lock note";
  }
  return "unknown";
}

std::string to_string(const RequestHeader& h) {
  const bool is_key = static_cast<Kind>(h.kind) == Kind::key;
  return concat(to_string(static_cast<Kind>(h.kind)), " ", h.number, " of rank ", h.origin_rank,
                " (session ", h.incarnation, ") to rank ", h.target_rank, ", node ", h.target_node,
                ", server ", h.target_server, ", segment ", h.segment_owner, ".",
                h.segment_generation, is_key ? " for at most " : " at ", h.offset,
                h.reply_slot != 0 ? concat(", answer to slot ", h.reply_slot) : std::string());
}

std::string to_string(const ReplyHeader& h) {
  const auto kind = static_cast<AnswerKind>(h.kind);
  const char* const what = kind == AnswerKind::reply     ? "reply to request "
                           : kind == AnswerKind::failure ? "refusal of request "
                                                         : "acknowledgement";
  return concat(what, kind == AnswerKind::acknowledge ? std::string() : concat(h.number),
                " (session ", h.incarnation, "), applied ", h.applied,
                h.slot != 0 ? concat(", slot ", h.slot, " use ", h.tag) : std::string(),
                h.code != 0 ? concat(", code ", int{h.code}) : std::string());
}

uint32_t encode(const Request& request, std::span<std::byte, max_request_bytes> out) {
  Writer body(out.data() + sizeof(RequestHeader));
  if (request.header.flags != 0 || request.kind() != Kind::put) {
    if (request.has(flag_scaled)) body.add(request.scale);
    if (request.has(flag_notify)) body.add(request.notify);
    if (request.has(flag_locked)) body.add(request.guard);
    if (takes_operands(request.kind())) body.add(request.operands);
    if (takes_extent(request.kind())) body.add(Extent{request.extent_bytes});
    if (request.has(flag_strided)) {
      body.add(request.shape);
      for (uint32_t k = 0; k < request.shape.levels; ++k) body.add(request.level[k]);
    }
  }
  std::memcpy(out.data(), &request.header, sizeof(RequestHeader));
  const uint16_t body_bytes = static_cast<uint16_t>(body.length());
  std::memcpy(out.data() + offsetof(RequestHeader, body_bytes), &body_bytes, sizeof body_bytes);
  return static_cast<uint32_t>(sizeof(RequestHeader)) + body.length();
}

Status decode(Bytes in, Request* request) {
  Reader reader(in);
  RequestHeader& h = request->header;
  if (!reader.take(&h)) return short_message("request header", in.size());
  if (h.version != version)
    return error(Code::invalid, "wire version ", int{h.version}, ", expected ", int{version});
  if (!is_request(h.kind))
    return error(Code::invalid, "message kind ", int{h.kind}, " is not a request");
  if ((h.flags & ~flag_all) != 0)
    return error(Code::invalid, "unknown request flags ", int{h.flags});
  if (h.number == 0) return error(Code::invalid, "request number 0");
  if (in.size() != sizeof(RequestHeader) + h.body_bytes)
    return error(Code::invalid, "request body of ", in.size() - sizeof(RequestHeader),
                 " bytes, announced ", h.body_bytes);
  const Kind kind = request->kind();
  if (request->has(flag_strided) && request->has(flag_vector))
    return error(Code::invalid, "a request is strided and vector at once");
  if (request->has(flag_vector) != (h.piece_count != 0))
    return error(Code::invalid, "piece count ", h.piece_count, " and the vector flag disagree");
  if (kind != Kind::put && kind != Kind::accumulate && (h.flags & (flag_notify | flag_scaled)) != 0)
    return error(Code::invalid, "flags ", int{h.flags}, " do not go with ", to_string(kind));
  if (std::any_of(std::begin(h.reserved), std::end(h.reserved), [](uint8_t r) { return r != 0; }))
    return error(Code::invalid, "a reserved byte of a ", to_string(kind), " is not 0");
  if (h.operation != 0 && !takes_operation(kind))
    return error(Code::invalid, "operation ", int{h.operation}, " does not go with ",
                 to_string(kind));
  if ((takes_operands(kind) || kind == Kind::key) && (h.flags & (flag_strided | flag_vector)) != 0)
    return error(Code::invalid, "flags ", int{h.flags}, " do not go with ", to_string(kind));

  if (request->has(flag_locked) && !may_be_locked(h))
    return error(Code::invalid, "flags ", int{h.flags}, " of a ", to_string(kind),
                 " under a lock: it is a plain, contiguous access");

  if (request->has(flag_scaled) && !reader.take(&request->scale))
    return short_message("scale", in.size());
  if (request->has(flag_notify) && !reader.take(&request->notify))
    return short_message("notification", in.size());
  if (request->has(flag_locked) && !reader.take(&request->guard))
    return short_message("guard", in.size());
  if (takes_operands(kind) && !reader.take(&request->operands))
    return short_message("operands", in.size());
  if (takes_extent(kind)) {
    Extent extent{};
    if (!reader.take(&extent)) return short_message("extent", in.size());
    request->extent_bytes = extent.bytes;
  }
  if (request->has(flag_strided)) {
    if (!reader.take(&request->shape)) return short_message("shape", in.size());
    if (request->shape.levels > max_levels)
      return error(Code::invalid, "shape of ", request->shape.levels, " levels, at most ",
                   max_levels);
    for (uint32_t k = 0; k < request->shape.levels; ++k)
      if (!reader.take(&request->level[k])) return short_message("shape level", in.size());
  }
  if (!reader.empty())
    return error(Code::invalid, "request of ", in.size(), " bytes is longer than its parts");
  return {};
}

namespace {

// A message that is one struct.
template <class Header>
Status decode_whole(Bytes in, std::string_view what, Header* header) {
  if (in.size() != sizeof *header)
    return error(Code::invalid, what, " header of ", in.size(), " bytes, expected ",
                 sizeof *header);
  std::memcpy(header, in.data(), sizeof *header);
  return {};
}

template <class Family>
bool peek_between(Bytes in, Family first, Family last, Family* kind) {
  if (in.size() < 2 || in[0] != std::byte{version}) return false;
  const auto said = std::to_integer<uint8_t>(in[1]);
  if (said < static_cast<uint8_t>(first) || said > static_cast<uint8_t>(last)) return false;
  *kind = static_cast<Family>(said);
  return true;
}

}  // namespace

Status decode(Bytes in, ReplyHeader* reply) {
  SKERRY_TRY(decode_whole(in, "reply", reply));
  return reply->code > 0 ? error(Code::invalid, "reply code ", int{reply->code}) : Status();
}

Status decode(Bytes in, CloseHeader* close) { return decode_whole(in, "close", close); }

Status decode(Bytes in, GrantHeader* grant) { return decode_whole(in, "grant", grant); }

bool peek(Bytes in, AnswerKind* kind) {
  return peek_between(in, AnswerKind::acknowledge, AnswerKind::failure, kind);
}

bool peek(Bytes in, CloseKind* kind) {
  return peek_between(in, CloseKind::please_close, CloseKind::farewell, kind);
}

Status unexpected(Bytes in) {
  if (in.size() < 2) return error(Code::invalid, "message of ", in.size(), " bytes has no kind");
  if (in[0] != std::byte{version})
    return error(Code::invalid, "wire version ", int(in[0]), ", expected ", int{version});
  return error(Code::invalid, "message kind ", int(in[1]), " has no place here");
}

}  // namespace skerry::wire
