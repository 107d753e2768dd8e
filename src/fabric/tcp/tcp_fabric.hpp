// TcpFabric: the native fabric. Here is poll and dispatch; its parts are
//
//   endpoints   the connections, and what all parts do to one
//   send        from send to the socket
//   marks       how many bytes a socket wakes us for; looks for wake-ups that the kernel lost
//   receive     from the socket to the sink
//   opener      connections that begin, ours and those of peers
//
// Each knows those above it, and none knows the fabric.
//
// Sockets are *blocking*, and every call but poll(only) passes MSG_DONTWAIT. poll(only) sleeps
// directly in recv, so that a request and its answer cost the origin one send and one recv.
#pragma once

#include "fabric/tcp/opener.hpp"

namespace skerry::fabric::tcp {

// poll(only) sees one endpoint, and not what arrives for the others. After longest_blind_ns of such
// polls in a row the next poll looks at all endpoints. One of them sleeps in recv for
// longest_block_ns at most, so that the others wait for the sum of both at most.
constexpr int64_t longest_blind_ns = 100'000'000;
constexpr int64_t longest_block_ns = 140'000'000;

class TcpFabric final : public Fabric {
 public:
  explicit TcpFabric(const Options& options);
  Status start();

  std::string_view name() const override { return "tcp"; }
  const Capabilities& capabilities() const override { return capabilities_; }

  Status listen(std::vector<std::byte>* address) override { return opener_.listen(address); }
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    return opener_.connect(address, hello, endpoint);
  }
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override {
    return opener_.accept(request, reply, endpoint);
  }
  void reject(RequestId request, CloseReason why) override { opener_.reject(request, why); }
  void hold(RequestId request) override { opener_.hold(request); }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    return sender_.send(endpoint, header, payload, more, cookie);
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    return sender_.send_gathered(endpoint, header, parts, cookie);
  }
  SendResult flush(EndpointId endpoint) override;
  uint64_t unsent_bytes(EndpointId endpoint) const override;
  void unpark(EndpointId endpoint) override { receiver_.unpark(endpoint); }
  Status watch(int fd) override { return waiter_.watch(fd); }
  void unwatch(int fd) override { waiter_.unwatch(fd); }
  void poll(int64_t timeout_ns, EndpointId only) override;
  bool open_await() override { return waiter_.open_await(); }
  void await(int64_t timeout_ns) override;
  void blind_await() override { (void)waiter_.blind(true); }
  void end_blindness(int64_t due_ns) override;
  void dispatch(Sink& sink) override;
  void close(EndpointId endpoint) override;
  void close_drained(EndpointId endpoint) override;
  void divert(EndpointId endpoint) override { receiver_.divert(endpoint); }
  void wake() override { waiter_.wake(); }
  Traffic traffic() const override;
  Memory memory() const override;

 private:
  bool blocks_on(EndpointId only, int64_t timeout_ns);
  void handle_event(const epoll_event& event, Sink& sink);
  void handle_endpoint(Endpoint& endpoint, uint32_t events, Sink& sink);
  void leave_unread(Endpoint& endpoint, uint32_t events);

  Capabilities capabilities_;
  const Options options_;
  Waiter waiter_;
  Endpoints endpoints_{waiter_};
  Sender sender_{endpoints_, options_};
  Marks marks_{endpoints_};
  Receiver receiver_{endpoints_, sender_, marks_};
  Opener opener_{{waiter_, endpoints_, sender_, receiver_}, options_};

  // Progress side.
  IdleCoreSpin idle_core_spin_;
  bool slept_in_vain_ = false;  // the last poll found nothing
  std::atomic<bool> awaited_in_vain_{false};     // the last await did
  std::atomic<int64_t> look_in_ns_{-1};  // how long await sleeps at most; -1: no limit
  bool told_all_ = false;       // the last poll asked epoll, and got all that it had to tell
  int64_t look_at_all_ns_ = 0;  // when a poll of one endpoint is to look at all of them
};

}  // namespace skerry::fabric::tcp
