// What a data server sends to origins: answers, acknowledgements, and that a connection ends. It
// never blocks: what the fabric does not take is kept beside its client and goes first as soon as
// there is room. Server's thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fabric/fabric.hpp"
#include "lock/mutex.hpp"
#include "server/clients.hpp"
#include "wire/message.hpp"

namespace skerry::server {

class Answers {
 public:
  explicit Answers(fabric::Fabric& fabric) : fabric_(fabric) {}

  // A request is begun only if there is room for its answer, and all earlier answers are sent.
  bool has_room(Client& client);
  // The answer to `request`. A payload longer than inline_payload_bytes lies in its segment: the
  // fabric reads it there.
  void reply(Client& client, const wire::Request& request, fabric::Bytes payload, int code = 0,
             uint64_t result = 0);
  // The same for a payload that lies in several places of the segment, longer than
  // inline_payload_bytes in all.
  void reply_gathered(Client& client, const wire::Request& request,
                      std::span<const fabric::Bytes> parts);
  // The answer to a lock request that waited: granted (the default), or refused after all.
  void reply_late(Client& client, const lock::Waiter& waiter, uint64_t number = 0, int code = 0,
                  std::string_view text = {});
  // A lock was granted. `has_dead`: its holder may ask whether the one before it died.
  void grant(Client& client, const lock::Waiter& waiter, bool has_dead);
  // A request without a reply was refused.
  void tell_failure(Client& client, uint64_t number, int code, std::string_view text);
  // The same of all that its origin may not have heard of; messages.cpp has it.
  void refuse_again(Client& client);
  // please_close, farewell or bye_answer.
  fabric::SendResult tell_close(const Client& client, wire::CloseKind kind);
  // Says how far the session is applied: at the end of the turn, unless a reply says so before.
  void acknowledge_soon(Client& client);
  // The same of a notification that no fence waits for: within longest_quiet_ns, and often with
  // later ones.
  void acknowledge_later(Client& client);
  int64_t due_in_ns() const;  // until that is over; -1: there is none
  void acknowledge(Client& client);
  void acknowledge_all(Clients& clients);
  // The fabric's upcalls.
  void on_writable(Client& client);
  static void on_sent(Client& client);

  uint64_t memory_bytes() const {
    return (soon_.capacity() + later_.capacity()) * sizeof(fabric::EndpointId);
  }

 private:
  void send(Client& client, const wire::ReplyHeader& header, std::span<const fabric::Bytes> parts,
            SegmentId segment);
  void send(Client& client, const wire::ReplyHeader& header, fabric::Bytes payload,
            SegmentId segment = {}) {
    send(client, header, std::span(&payload, 1), segment);
  }

  static constexpr int64_t longest_quiet_ns = 5'000'000;
  static constexpr uint8_t most_quiet = 64;  // far fewer than a session may have unacknowledged

  fabric::Fabric& fabric_;
  std::vector<fabric::EndpointId> soon_;  // of clients to acknowledge at the end of the turn
  std::vector<fabric::EndpointId> later_;  // with Client::quiet_notes, or acknowledged meanwhile
  int64_t due_ns_ = 0;                     // when those are; later_ empty: never
};

}  // namespace skerry::server
