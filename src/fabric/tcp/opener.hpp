// Connections that begin. Ours: the peer's addresses one after the other, our greeting; its reply
// is the receiver's. And those of peers: an unauthenticated one costs a descriptor, an Endpoint and
// a few dozen bytes, for a bounded time, in a bounded number. Issue side and dispatch.
#pragma once

#include "fabric/tcp/receive.hpp"

namespace skerry::fabric::tcp {

class Opener {
 public:
  struct Parts {
    Waiter& waiter;
    Endpoints& endpoints;
    Sender& sender;
    Receiver& receiver;
  };
  Opener(const Parts& parts, const Options& options) : parts_(parts), options_(options) {}
  ~Opener();
  bool open();  // false: errno says why

  Status connect(Bytes address, Bytes hello, EndpointId* id);
  // A near peer has answered the connect already: no need to sleep until the kernel says so.
  void at_once(Endpoint& endpoint);
  // The kernel says so, or that it failed.
  void progress(Endpoint& endpoint, Sink& sink);

  Status listen(std::vector<std::byte>* address);
  // Takes some of those that wait in the system's queue.
  void take(Sink& sink);
  // Reads at most a greeting, byte for byte checked: garbage is closed at once.
  void read(Endpoint& endpoint, Sink& sink);
  Status accept(RequestId request, Bytes reply, EndpointId* id);
  void reject(RequestId request, CloseReason why);
  void hold(RequestId request);
  const Fabric::Unauthenticated& refused() const { return refused_; }

  // The timer has fired.
  void expire(Sink& sink);

 private:
  using Reason = uint64_t Fabric::Unauthenticated::*;

  bool try_next(Endpoint& endpoint, std::string* why);
  bool greet(Endpoint& endpoint);
  static std::string why_not(const Endpoint& endpoint, int error_number);
  void begin(int fd, Sink& sink);
  void ask(Endpoint& endpoint, Bytes hello, Bytes early, Sink& sink);
  Endpoint* find_asking(RequestId request) const;
  bool make_room();
  void refuse(Endpoint& endpoint, Reason reason);
  void count_refusal(Reason reason);
  void rest(int64_t until_ns);

  const Parts parts_;
  const Options& options_;
  int listen_fd_ = -1;      // -1: does not listen
  int reserve_fd_ = -1;     // given up to accept and close a connection when descriptors run out
  bool is_paused_ = false;  // out of descriptors or memory, or refusing too many: the timer tries
                            // again
  Fabric::Unauthenticated refused_;
  // Each refusal moves it on by its share of a second. While it lies ahead of the clock the
  // listener rests.
  int64_t refusals_paid_ns_ = 0;
};

}  // namespace skerry::fabric::tcp
