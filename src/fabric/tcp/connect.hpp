// Connections that we begin: the peer's addresses one after the other, our greeting, its reply.
// Issue side, but what take_reply does in dispatch.
#pragma once

#include "fabric/tcp/send.hpp"
#include "fabric/tcp/timer.hpp"

namespace skerry::fabric::tcp {

// The socket options of every connection. Accepted sockets inherit them from the listener, so that
// an unauthenticated peer costs no further system calls.
void configure(int fd, const Options& options);
void set_option(int fd, int level, int name, int value);
std::vector<std::byte> make_greeting(uint32_t magic, Bytes hello);

class Connector {
 public:
  Connector(Endpoints& endpoints, Sender& sender, Timer& timer, const Options& options)
      : endpoints_(endpoints), sender_(sender), timer_(timer), options_(options) {}

  Status connect(Bytes address, Bytes hello, EndpointId* id);
  // A near peer has answered the connect already: no need to sleep until the kernel says so.
  void at_once(Endpoint& endpoint);
  // The kernel says so, or that it failed.
  void progress(Endpoint& endpoint, Sink& sink);
  // The beginning of the stream: all, when what is left of it is frames.
  Parsed take_reply(Endpoint& endpoint, Bytes data, uint64_t* consumed, Sink& sink);
  void expire(int64_t now_ns, Sink& sink);

 private:
  bool try_next(Endpoint& endpoint, std::string* why);
  bool send_greeting(Endpoint& endpoint);
  static std::string why_not(const Endpoint& endpoint, int error_number);

  Endpoints& endpoints_;
  Sender& sender_;
  Timer& timer_;
  const Options& options_;
};

}  // namespace skerry::fabric::tcp
