// OfiFabric: messages through pre-posted buffers with a window per connection, RMA through
// registered memory. Here is poll and dispatch; its parts are
//
//   domain       what is opened of libfabric
//   peers        datagrams: entries of the address vector
//   endpoints    the connections, what all parts do to one, and what is posted for it
//   rma          puts, gets and atomics; trial: whether the atomics are right
//   messages     parcels and credits
//   connect      how connections begin and end: requests, answers, events
//   datagrams    the same over datagrams, by parcels
//
// Each knows those above it, and none knows the fabric.
//
// One lock: the caller's issue lock covers everything but poll. That reads completions into a place
// of its own, asks libfabric whether it may sleep, and sleeps.
#pragma once

#include "core/futex.hpp"
#include "fabric/ofi/datagrams.hpp"
#include "fabric/ofi/trial.hpp"

namespace skerry::fabric::ofi {

class OfiFabric : public Fabric {
 public:
  OfiFabric(const Options& options, const Library* library);
  ~OfiFabric() override;
  Status start(const std::string& provider, Kind kind = Kind::connected);
  // The same for the trial of its atomics: they are on, whatever they are.
  Status start_for_trial(const std::string& provider, Kind kind, bool operands_as_addresses);
  const uint64_t* last_operand() const { return rma_.last_operand(); }

  std::string in_words() const;  // what was opened, for people; see survey.cpp

  std::string_view name() const override { return domain_.name; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status listen(std::vector<std::byte>* address) override { return connector_->listen(address); }
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    return connector_->connect(address, hello, endpoint);
  }
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override {
    return connector_->accept(request, reply, endpoint);
  }
  void reject(RequestId request, CloseReason why) override { connector_->reject(request, why); }
  void hold(RequestId request) override { connector_->hold(request); }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more, uint64_t) override {
    return messages_.send(endpoint, header, payload, more);
  }
  SendResult flush(EndpointId endpoint) override { return messages_.flush(endpoint); }
  uint64_t unsent_bytes(EndpointId endpoint) const override;
  void unpark(EndpointId endpoint) override { messages_.unpark(endpoint); }
  Status register_memory(void* base, uint64_t bytes, RemoteKey* key,
                         uint64_t* registration) override {
    return rma_.register_memory(base, bytes, key, registration);
  }
  void deregister_memory(uint64_t registration) override { rma_.deregister_memory(registration); }
  SendResult start_rma(EndpointId endpoint, const RmaCall& call) override {
    return rma_.start(endpoint, call);
  }
  SendResult start_atomic(EndpointId endpoint, const AtomicCall& call) override {
    return rma_.start_atomic(endpoint, call);
  }
  Status watch(int fd) override { return waiter_.watch(fd); }
  void unwatch(int fd) override { waiter_.unwatch(fd); }
  void poll(int64_t timeout_ns, EndpointId only) override;
  void dispatch(Sink& sink) override;
  void close(EndpointId endpoint) override;
  void wake() override { waiter_.wake(); }
  Traffic traffic() const override;
  Memory memory() const override;

 private:
  Status open(const std::string& provider, Kind kind);
  void run_completions(Sink& sink);
  void receive_shared(const Completion& completion, Sink& sink);
  bool spin(int64_t timeout_ns);
  int64_t next_sleep_ns();
  void run_completion(Endpoint& endpoint, const Completion& completion, Sink& sink);
  void run_endings(Sink& sink);

  const Options options_;
  Capabilities capabilities_;
  std::string no_atomics_because_ = "not tried";
  Waiter waiter_;

 protected:  // for a layer of the tests
  Domain domain_;
  Peers peers_{domain_};
  Pool pool_{domain_};
  Endpoints endpoints_{domain_, pool_, waiter_};

 private:
  Rma rma_{domain_, pool_, endpoints_};
  Messages messages_{domain_, pool_, endpoints_, rma_};
  Connected connected_{domain_, endpoints_, messages_, options_};
  Datagrams datagrams_{domain_, peers_, pool_, endpoints_, messages_, options_};
  Connector* connector_ = &connected_;  // one of both
  // How long poll sleeps where nothing would end the sleep: longer each time that nothing came.
  // Progress role.
  int64_t look_ns_ = 0;
  uint32_t polls_ = 0, dispatches_ = 0;  // progress role: see looks_for_a_call
  IdleCoreSpin idle_core_spin_;
};

}  // namespace skerry::fabric::ofi
