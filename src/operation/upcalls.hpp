// What servers answer, and what the fabric tells. All upcalls run with the mutex held.
#pragma once

#include <string_view>

#include "fabric/fabric.h"
#include "operation/link.hpp"
#include "wire/message.hpp"

namespace skerry::operation {

struct Layers;

class Upcalls final : public fabric::Sink {
 public:
  explicit Upcalls(Layers& layers) : layers_(layers) {}

  void on_connect_request(fabric::RequestId, fabric::Bytes, std::string_view) override {}
  void on_held(fabric::EndpointId endpoint) override;
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes reply) override;
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  fabric::Verdict on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  void on_writable(fabric::EndpointId endpoint) override;
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId endpoint, uint64_t cookie, bool ok) override;
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                 std::string_view detail) override;

 private:
  void done_at_the_door(Link& link, Status status);
  Status take(Link& link, fabric::Bytes header, fabric::Bytes payload);
  Status take_reply(const wire::ReplyHeader& answer, fabric::Bytes payload);
  void take_failure(Link& link, const wire::ReplyHeader& answer, fabric::Bytes text);

  Layers& layers_;
};

}  // namespace skerry::operation
