// Connections of the ofi fabric: requests, answers, and the events that tell of them.
#pragma once

#include "fabric/ofi/messages.hpp"

namespace skerry::fabric::ofi {

class Connector {
 public:
  Connector(Domain& domain, Endpoints& endpoints, Messages& messages, const Options& options)
      : domain_(domain), endpoints_(endpoints), messages_(messages), options_(options) {}

  Status listen(std::vector<std::byte>* address);
  void stop_listening() { listener_.reset(); }
  Status connect(Bytes address, Bytes hello, EndpointId* id);
  Status accept(RequestId request, Bytes reply, EndpointId* id);
  void reject(RequestId request, CloseReason why);
  void hold(RequestId request);

  void read_events(Sink& sink);
  void run_deadlines(Sink& sink);
  bool any_opening() const { return !opening_.empty(); }

 private:
  Status open(Endpoint& endpoint, fi_info* info);
  Endpoint* find_asking(RequestId request) const;
  void refuse(fid_t handle, CloseReason why);
  void handle_request(fi_info* info, Bytes data, Sink& sink);
  void handle_connected(Endpoint& endpoint, Bytes data, Sink& sink);
  bool handle_event_error(Sink& sink);

  Domain& domain_;
  Endpoints& endpoints_;
  Messages& messages_;
  const Options& options_;
  Handle<fid_pep> listener_;        // null: does not listen
  std::deque<EndpointId> opening_;  // with deadlines; lazily cleaned
};

}  // namespace skerry::fabric::ofi
