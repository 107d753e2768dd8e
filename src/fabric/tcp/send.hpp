// From send to the socket: with one sendmsg when nothing waits, otherwise through the endpoint's
// output. Issue side only.
#pragma once

#include "fabric/tcp/endpoints.hpp"
#include "fabric/tcp/frame.hpp"

namespace skerry::fabric::tcp {

class Sender {
 public:
  Sender(Endpoints& endpoints, const Options& options)
      : endpoints_(endpoints), bounds_buffers_(options.socket_buffer_bytes == 0) {}

  // See Fabric.
  SendResult send(EndpointId id, Bytes header, Bytes payload, bool more, uint64_t cookie);
  SendResult send_gathered(EndpointId id, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie);
  // Writes what there is. What the socket does not take waits for EPOLLOUT.
  SendResult flush(Endpoint& endpoint);
  SendResult write_output(Endpoint& endpoint);

  // A greeting to a socket that is empty or broken; false: errno says why.
  bool send_greeting(Endpoint& endpoint, Bytes greeting, bool more);
  // The same, to go along with what follows.
  void append_greeting(Endpoint& endpoint, Bytes greeting);
  // The connection is open: what was sent before goes out, what would have blocked may come.
  void opened(Endpoint& endpoint);

  // Messages of an endpoint are being delivered. While another one follows the present one, what is
  // sent to it waits for what is sent then; the last goes with end_delivery, or before a close.
  void begin_delivery(EndpointId id) { delivering_ = id; }
  void next_follows(bool follows) { more_follows_ = follows; }
  void end_delivery(Endpoint& endpoint, bool is_gone);
  void before_close(EndpointId id);

  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t heap_bytes() const;

 private:
  void append(Output& output, Bytes first, Bytes second, Bytes third);
  static void refer(Output& output, Bytes part, uint64_t cookie, bool last);
  Output& output_of(Endpoint& endpoint);
  void pass(Output& output, uint64_t taken, EndpointId id);
  SendResult failed(Endpoint& endpoint, int error_number);
  void bound_send_buffer(Endpoint& endpoint);
  void blocked(Endpoint& endpoint);
  void drained(Endpoint& endpoint);

  Endpoints& endpoints_;
  const bool bounds_buffers_;
  std::vector<std::unique_ptr<std::byte[]>> spare_buffers_;  // output buffers, at most a few
  std::unique_ptr<Output> spare_output_;
  EndpointId delivering_ = no_endpoint;  // no_endpoint: nobody's messages
  bool more_follows_ = false;
  bool gathered_ = false;  // something waits for the end of the delivery
  uint64_t bytes_sent_ = 0;
};

}  // namespace skerry::fabric::tcp
