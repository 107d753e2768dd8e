// How connections of the ofi fabric begin and end. Here by libfabric's connected endpoints:
// requests, answers, and the events that tell of them. For datagrams see datagrams.hpp.
#pragma once

#include "fabric/ofi/messages.hpp"

namespace skerry::fabric::ofi {

// What both have in common, for the fabric; see fabric.hpp.
class Connector {
 public:
  Connector(Domain& domain, Endpoints& endpoints, Messages& messages, const Options& options)
      : domain_(domain), endpoints_(endpoints), messages_(messages), options_(options) {}
  virtual ~Connector() = default;

  virtual Status listen(std::vector<std::byte>* address) = 0;
  virtual Status connect(Bytes address, Bytes hello, EndpointId* id) = 0;
  virtual Status accept(RequestId request, Bytes reply, EndpointId* id) = 0;
  virtual void reject(RequestId request, CloseReason why) = 0;
  virtual void hold(RequestId request) = 0;
  // The caller closes the endpoint, or it ended here: the peer is told where libfabric does not.
  virtual void leave(Endpoint&) {}
  // The fabric ends: all endpoints were left.
  virtual void stop() = 0;

  // What came beside messages.
  virtual void read_events(Sink& sink) = 0;
  virtual void run_deadlines(Sink& sink);
  virtual bool has_deadlines() const { return !opening_.empty(); }
  // Something must be tried again soon, or an event may be missed.
  virtual bool is_impatient() const { return !opening_.empty(); }

 protected:
  Endpoint* find_asking(RequestId request) const;
  // Requests that the caller has neither answered nor held: at most so many, beyond that the
  // newcomer is refused. (The library cannot be told to drop the oldest of its own.)
  bool is_crowded() const;
  Endpoint& add_asking(uint64_t peer_number, EndpointId* id);

  Domain& domain_;
  Endpoints& endpoints_;
  Messages& messages_;
  const Options& options_;
  std::deque<EndpointId> opening_;  // with deadlines; lazily cleaned
};

class Connected final : public Connector {
 public:
  using Connector::Connector;

  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* id) override;
  Status accept(RequestId request, Bytes reply, EndpointId* id) override;
  void reject(RequestId request, CloseReason why) override;
  void hold(RequestId request) override;
  void stop() override { listener_.reset(); }
  void read_events(Sink& sink) override;

 private:
  Status open(Endpoint& endpoint, fi_info* info);
  void refuse(fid_t handle, CloseReason why);
  void handle_request(fi_info* info, Bytes data, Sink& sink);
  void handle_connected(Endpoint& endpoint, Bytes data, Sink& sink);
  bool handle_event_error(Sink& sink);

  Handle<fid_pep> listener_;  // null: does not listen
};

}  // namespace skerry::fabric::ofi
