// What servers answer: acknowledgements, replies, and the ends of connections. All upcalls run with
// the engine's mutex held.
#include <cstring>

#include "memory/slots.hpp"
#include "operation/engine.hpp"

namespace skerry::operation {

// Completes the request that waits in slot `index` (already checked to be this use of it).
void Engine::complete(uint32_t index, int code, fabric::Bytes payload, bool landed,
                      uint64_t result) {
  Pending& p = pending_[index];
  if (code != 0) {
    Status status(static_cast<Code>(code),
                  std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
    if (p.op->status.ok()) p.op->status = std::move(status);
  } else if (!landed) {
    if (p.result != nullptr) *p.result = result;
    if (p.land != nullptr) std::memcpy(p.land, payload.data(), payload.size());
    else if (p.cursor) p.cursor->unpack(p.base, payload);
  }
  // Not of a mutex: its grant may overtake the lost answers of earlier requests, which the server
  // must go on keeping.
  if (!p.lock_request) p.link->session.result_received(p.number);
  release(index);
}

fabric::Verdict Engine::on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                                   fabric::Bytes payload) {
  Link* link = link_of(endpoint);
  if (link == nullptr) return fabric::Verdict::taken;
  wire::Kind kind;
  Status status = wire::peek(header, &kind);
  if (status.ok()) switch (kind) {
      case wire::Kind::acknowledge:
      case wire::Kind::reply:
      case wire::Kind::failure: {
        wire::ReplyHeader reply;
        if (status = wire::decode(header, &reply); !status.ok()) break;
        if (reply.incarnation != link->session.incarnation())
          return fabric::Verdict::taken;  // late: of an earlier session
        if (status = acknowledge(*link, reply); !status.ok()) break;
        if (kind == wire::Kind::failure &&
            reply.number >
                link->failure_number) {  // else we heard of it before the connection broke
          link->failure_number = reply.number;
          link->session.result_received(reply.number);
          if (link->request_failure.ok())
            link->request_failure = Status(
                static_cast<Code>(reply.code),
                std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
        }
        if (kind == wire::Kind::reply) {
          const uint32_t index = reply.slot - 1;
          if (index >= pending_.size()) {
            status = error(Code::internal, "reply for slot ", reply.slot, " of ", pending_.size());
            break;
          }
          Pending& p = pending_[index];
          if (p.op == nullptr || memory::slot_generation(slot(index)) != reply.tag)
            return fabric::Verdict::taken;  // late: a duplicate reply
          if (reply.code == 0 && p.result == nullptr && payload.size() != p.bytes) {
            status = error(Code::internal, "reply of ", payload.size(), " bytes to a get of ",
                           p.bytes);
            break;
          }
          complete(index, reply.code, payload, false, reply.result);
        }
        maybe_drained(*link);
        return fabric::Verdict::taken;
      }
      case wire::Kind::please_close:  // in the middle of a transfer it would wait for
                                      // acknowledgements that come with its last part
        if (link->transfers == 0) drive(*link, connection::Event::please_close);
        return fabric::Verdict::taken;
      case wire::Kind::farewell:  // the end of the connection follows; what crosses it is sent
                                  // again
        link->dropped = true;
        return fabric::Verdict::taken;
      case wire::Kind::bye_answer:
        drive(*link, connection::Event::bye_answer);
        return fabric::Verdict::taken;
      case wire::Kind::put:
      case wire::Kind::get:
      case wire::Kind::accumulate:
      case wire::Kind::read_modify_write:
      case wire::Kind::lock:
      case wire::Kind::unlock:
      case wire::Kind::key:
      case wire::Kind::bye:
      case wire::Kind::grant:
      case wire::Kind::grant_taken:
        status = error(Code::internal, "an origin was sent a ", wire::to_string(kind));
        break;
    }
  cut(*link, error(Code::internal, "node ", link->server.node,
                   " does not speak our protocol: ", status.message()));
  return fabric::Verdict::taken;
}

// A put or get of the fabric's own finished.
void Engine::on_rma_done(fabric::EndpointId endpoint, uint64_t cookie, bool ok) {
  const auto found = rma_.find(cookie);
  if (found == rma_.end()) return;  // late: its link failed meanwhile
  const Rma rma = found->second;
  if (!ok && rma.link->failure.ok())
    return;  // its connection is going: it is issued again on the next one
  rma_.erase(found);
  --rma.link->rma_outstanding;
  if (rma.is_get) --rma.link->rma_gets_outstanding;
  --rma.op->waiting_replies;
  if (!ok && rma.op->status.ok())
    rma.op->status = error(Code::peer_dead, "a transfer of rank ", config_.rank, " to node ",
                           rma.link->server.node, " failed under way");
  (void)endpoint;
  maybe_drained(*rma.link);
}

std::byte* Engine::on_landing(fabric::EndpointId endpoint, fabric::Bytes header,
                              uint64_t payload_bytes) {
  Link* link = link_of(endpoint);
  wire::ReplyHeader reply;
  wire::Kind kind;
  if (link == nullptr || !wire::peek(header, &kind).ok() || kind != wire::Kind::reply ||
      !wire::decode(header, &reply).ok())
    return nullptr;
  const uint32_t index = reply.slot - 1;
  if (index >= pending_.size()) return nullptr;
  Pending& p = pending_[index];
  if (p.op == nullptr || memory::slot_generation(slot(index)) != reply.tag || p.land == nullptr ||
      p.bytes != payload_bytes)
    return nullptr;
  return p.land;
}

fabric::Verdict Engine::on_landed(fabric::EndpointId endpoint, fabric::Bytes header, uint64_t) {
  Link* link = link_of(endpoint);
  wire::ReplyHeader reply;
  if (link == nullptr || !wire::decode(header, &reply).ok()) return fabric::Verdict::taken;
  if (Status status = acknowledge(*link, reply); !status.ok()) {
    cut(*link, std::move(status));
    return fabric::Verdict::taken;
  }
  complete(reply.slot - 1, reply.code, {}, true, 0);
  maybe_drained(*link);
  return fabric::Verdict::taken;
}

}  // namespace skerry::operation
