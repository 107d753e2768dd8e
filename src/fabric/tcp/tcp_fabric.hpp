// TcpFabric: the native fabric. Start at poll and dispatch (tcp_fabric.cpp), then wait.cpp,
// receive.cpp, send.cpp, connect.cpp.
//
// Sockets are *blocking* and every call but one passes MSG_DONTWAIT: the exception is poll(only),
// which sleeps directly in recv, so that a request and its answer cost the origin one send and one
// recv.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <list>
#include <unordered_map>
#include <vector>

#include "core/futex.hpp"
#include "fabric/slots.hpp"
#include "fabric/tcp/endpoint.hpp"
#include "fabric/tcp/frame.hpp"

namespace skerry::fabric::tcp {

class TcpFabric final : public Fabric {
 public:
  explicit TcpFabric(const Options& options);
  ~TcpFabric() override;
  Status start();

  std::string_view name() const override { return "tcp"; }
  const Capabilities& capabilities() const override { return capabilities_; }

  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override;
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override;
  void reject(RequestId request) override;
  void hold(RequestId request) override;
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override;
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override;
  SendResult flush(EndpointId endpoint) override;
  uint64_t unsent_bytes(EndpointId endpoint) const override;
  void unpark(EndpointId endpoint) override;
  Status register_memory(void* base, uint64_t bytes, RemoteKey* key,
                         uint64_t* registration) override;
  void deregister_memory(uint64_t registration) override;
  SendResult put(EndpointId, const void*, RemoteKey, uint64_t, uint64_t, uint64_t) override;
  SendResult get(EndpointId, void*, RemoteKey, uint64_t, uint64_t, uint64_t) override;
  Status watch(int fd, uint64_t cookie) override;
  void unwatch(int fd) override;
  void poll(int64_t timeout_ns, EndpointId only) override;
  int dispatch(Sink& sink) override;
  void close(EndpointId endpoint) override;
  void close_drained(EndpointId endpoint) override;
  void divert(EndpointId endpoint) override;
  void wake() override;
  Traffic traffic() const override;
  Memory memory() const override;

 private:
  // What a recv brought: bytes for a started frame or payload first, the rest in buffer_.
  struct Received {
    EndpointId endpoint = no_endpoint;  // no_endpoint: none
    int64_t bytes = 0;  // recv's answer: < 0 with error_number, 0 at the end of the stream
    int error_number = 0;
    uint32_t carried = 0;  // bytes of an earlier recv put in front of buffer_
    uint64_t direct = 0;   // of bytes, how many went straight to the partial frame or payload

    bool nothing_yet() const {
      return bytes < 0 && (error_number == EAGAIN || error_number == EINTR);
    }
  };
  // An upcall that an issue call brought about; performed by the next dispatch.
  struct Deferred {
    enum class Kind { sent, writable, failed } kind;
    EndpointId endpoint;
    uint64_t cookie;     // sent only
    CloseReason reason;  // failed only
    std::string detail;  // failed only
  };
  enum class Parsed { all, parked, gone };

  // tcp_fabric.cpp
  void defer(Deferred upcall);
  int run_deferred(Sink& sink);
  bool set_interest(Endpoint& endpoint, EndpointId id, uint32_t events);
  void release(Endpoint& endpoint);
  void fail(Endpoint& endpoint, CloseReason reason, std::string_view detail, Sink& sink);
  int handle_event(const epoll_event& event, Sink& sink);
  int handle_special(uint64_t tag, Sink& sink);
  void arm_timer(int64_t deadline_ns);
  int run_timer(Sink& sink);

  // wait.cpp
  int wait_for_events(int64_t timeout_ns);  // epoll_wait's answer
  static void set_mark(Endpoint& endpoint, int bytes);
  static uint64_t most_mark_bytes(Endpoint& endpoint);
  void wake_for_rest(Endpoint& endpoint, EndpointId id);
  void lower_mark(Endpoint& endpoint);
  int64_t until_look_ns(int64_t timeout_ns) const;
  int look(Sink& sink);

  // receive.cpp
  Received receive(Endpoint& endpoint, EndpointId id, int flags);
  void block_in_receive(Endpoint& endpoint, EndpointId id, int64_t timeout_ns);
  int consume(const Received& received, Sink& sink);
  int resume(EndpointId id, Sink& sink);
  Parsed parse(Endpoint& endpoint, EndpointId id, const std::byte* data, uint64_t bytes,
               uint64_t* consumed, Sink& sink);
  Parsed deliver(Endpoint& endpoint, EndpointId id, const std::byte* data, uint64_t bytes,
                 uint64_t* consumed, Sink& sink);
  Parsed begin_direct(Endpoint& endpoint, EndpointId id, Bytes header, Bytes available,
                      uint64_t payload_bytes, Sink& sink);
  Parsed begin_placing(Endpoint& endpoint, EndpointId id, Bytes header, Bytes available,
                       uint64_t payload_bytes, std::byte* destination, Sink& sink);
  Parsed finish_direct(Endpoint& endpoint, EndpointId id, Sink& sink);
  void keep_partial(Endpoint& endpoint, const std::byte* data, uint64_t bytes, bool greeting);
  static void keep_backlog(Endpoint& endpoint, Bytes first, Bytes second);
  static Receive& receive_state(Endpoint& endpoint);
  void receive_failed(Endpoint& endpoint, const Received& received, Sink& sink);

  // send.cpp
  void append_bytes(Output& output, Bytes first, Bytes second, Bytes third);
  Output& output_state(Endpoint& endpoint);
  SendResult write_output(Endpoint& endpoint, EndpointId id);
  SendResult send_failed(Endpoint& endpoint, int error_number);
  void bound_send_buffer(Endpoint& endpoint);
  void output_blocked(Endpoint& endpoint, EndpointId id);
  void output_drained(Endpoint& endpoint, EndpointId id);

  // connect.cpp
  bool try_candidate(Endpoint& endpoint, EndpointId id, std::string* why);
  void connect_at_once(Endpoint& endpoint, EndpointId id);
  void connect_progress(Endpoint& endpoint, EndpointId id, Sink& sink);
  bool send_greeting(Endpoint& endpoint, EndpointId id);
  bool take_held(Endpoint& endpoint, EndpointId id, const std::byte* data, uint64_t bytes,
                 uint64_t* consumed, Sink& sink);
  Parsed take_reply(Endpoint& endpoint, EndpointId id, const std::byte* data, uint64_t bytes,
                    uint64_t* consumed, Sink& sink);
  int accept_unauthenticated(Sink& sink);
  bool take_unauthenticated(int fd, Sink& sink);
  int read_unauthenticated(Endpoint& endpoint, EndpointId id, Sink& sink);
  bool close_oldest_unauthenticated();
  void refuse(Endpoint& endpoint, uint64_t Unauthenticated::*reason);
  void count_refusal(uint64_t Unauthenticated::*reason);
  void rest_listener(int64_t until_ns);
  void configure(int fd) const;

  Capabilities capabilities_;
  const Options options_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;     // eventfd
  int timer_fd_ = -1;    // fires at the earliest deadline of unauthenticated peers and connects
  int listen_fd_ = -1;   // -1: does not listen
  int reserve_fd_ = -1;  // given up to accept and close a connection when descriptors run out
  bool listener_paused_ = false;  // out of descriptors or memory, or refusing too many: the timer
                                  // tries again

  Slots<Endpoint> endpoints_;
  std::list<EndpointId> unauthenticated_;  // oldest first; all have the same time to live
  std::list<EndpointId> held_;  // peers that wait for the caller's answer as long as it takes,
                                // and connects of ours that wait so
  std::list<EndpointId> connecting_;  // oldest first
  std::unordered_map<int, uint64_t> watched_;
  std::vector<Deferred> deferred_;
  std::vector<EndpointId> ready_;  // unparked: their backlog can be delivered
  std::vector<std::unique_ptr<std::byte[]>> spare_buffers_;  // output buffers, at most a few
  std::unique_ptr<Output> spare_output_;
  bool dispatching_ = false;  // issue lock
  // Whose messages are being delivered, and whether another one follows the present one: then what
  // is sent to it now waits for what is sent then. no_endpoint: nobody's. Issue lock.
  EndpointId delivering_ = no_endpoint;
  bool more_follows_ = false;
  bool gathered_ = false;  // something waits so, and goes when the last message was delivered
  int64_t timer_deadline_ns_ = 0;  // 0: timer not armed
  // deferred_ or ready_ hold something: poll returns at once
  std::atomic<bool> work_pending_{false};
  IdleCoreSpin idle_core_spin_;
  std::atomic<bool> polling_{false};  // poll sleeps or is about to
  std::atomic<bool> woken_{false};    // wake_fd_ was written and not yet drained
  std::atomic<uint64_t> bytes_received_{0};
  uint64_t bytes_sent_ = 0;
  Unauthenticated unauthenticated_refused_;
  int64_t refusals_paid_ns_ = 0;  // each refusal moves it on by its share of a second; while it
                                  // lies ahead of the clock the listener rests
  int upcalls_ = 0;               // for what dispatch returns; wraps

  // Progress side.
  static constexpr uint32_t buffer_bytes = 128 * 1024;
  static constexpr int max_events = 64;
  // One for all connections: what recv fills and parse empties before the next recv.
  std::unique_ptr<std::byte[]> buffer_;
  Received received_;                // by poll(only), for the next dispatch
  std::vector<epoll_event> events_;  // by poll, for the next dispatch
  int event_count_ = 0;
  uint64_t ready_count_ = 1;  // connections among which this dispatch shares its turn
  // See wait.cpp.
  std::list<EndpointId> raised_;  // endpoints with a raised low-water mark
  bool slept_in_vain_ = false;    // the last poll found nothing
  bool told_all_ = false;         // the last poll asked epoll, and got all that it had to tell
  int64_t look_at_ns_ = 0;        // when the next look is due
  int64_t look_pause_ns_ = 0;     // from the last look to it
  uint64_t found_late_ = 0;       // endpoints that a look found ready and no event had told of
};

// Tags of epoll events that are not endpoints (those have a generation of at least 1 in the upper
// half).
constexpr uint64_t tag_wake = 0;
constexpr uint64_t tag_timer = 1;
constexpr uint64_t tag_listener = 2;
constexpr uint64_t tag_watch_base = 16;  // + descriptor

// Before it sleeps, a wait looks for so long on a core that nobody else wants: to wake a core that
// went idle takes 50 us and more.
constexpr int64_t longest_spin_ns = 60'000;
constexpr int looks_a_turn = 1;  // a system call
// Unsent output from which on send answers would_block.
constexpr uint64_t output_limit_bytes = 256 * 1024;
constexpr uint64_t output_buffer_bytes = prefix_bytes + max_header_bytes +
                                         inline_payload_bytes;  // of what is not sent yet
// Output held back by `more` is written out from this size on.
constexpr uint64_t batch_bytes = 64 * 1024;
// Answers to messages that arrived together travel together, in one system call instead of many,
// but at most about this much: the peer goes on while we work on the rest. Some 70 short answers.
constexpr uint64_t gather_bytes = 4 * 1024;

int64_t now_ns();
CloseReason close_reason_of(int error_number);
std::string error_text(int error_number);

}  // namespace skerry::fabric::tcp
