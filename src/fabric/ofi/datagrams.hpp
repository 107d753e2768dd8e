// Connections over reliable datagrams. One endpoint of libfabric serves a whole side, and the
// provider tells of no beginning and no end: *control parcels* do.
//
//   connect   hello  -->  on_connect_request
//             held   <--  hold
//   connected accept <--  accept            from here on both may send
//   closed    refuse <--  reject
//   close     farewell -> closed, when all parcels are there that went before it
//   silence   ask  -->                      tell answers it: what was sent. Or a farewell, if the
//                                           connection is not known
//
// A control parcel names the connection by the number that its receiver gave it, as all parcels do.
// So what comes late finds nothing. A hello carries the sender's address instead. An origin that
// closes while it connects does not know the number of the other end: it withdraws by address. If
// the answer is under way already, a farewell follows it.
//
// Some providers lose parcels. A hello without an answer is said again, with `parcels` 1; its
// receiver then says again what it answered.
//
// Puts of a closed connection may still be under way, and no close of the passive side stops them.
// So an origin says no hello to a peer before its earlier puts there are complete. When a
// connection is accepted, none of an older one follows it (Capabilities::close_fences_rma).
#pragma once

#include "fabric/ofi/connect.hpp"

namespace skerry::fabric::ofi {

// ParcelHead::frames of a control parcel: more than a parcel can hold.
constexpr uint16_t control_frames = 0xffff;

enum class ControlKind : uint8_t { hello = 1, accept, refuse, held, farewell, ask, tell };

// Text (of hello and accept; of refuse one byte, the CloseReason) and address (of hello, accept,
// ask and a farewell without a number) follow.
struct Control {
  ParcelHead head;   // sequence: control_magic; number: the receiver's, 0 with an address
  uint64_t from;     // the number of the sender's end; 0: none
  uint32_t parcels;  // farewell, ask, tell: so many went before it; refuse: whether the peer was
                     // held; hello: whether it was said before
  uint8_t kind;
  uint8_t version;
  uint8_t text_bytes;
  uint8_t address_bytes;
};
static_assert(sizeof(Control) == 32);
constexpr uint32_t control_magic = 0x4d474453;  // "SDGM"
constexpr uint8_t control_version = 1;

class Datagrams final : public Connector {
 public:
  Datagrams(Domain& domain, Peers& peers, Pool& pool, Endpoints& endpoints, Messages& messages,
            const Options& options)
      : Connector(domain, endpoints, messages, options), peers_(peers), pool_(pool) {}

  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* id) override;
  Status accept(RequestId request, Bytes reply, EndpointId* id) override;
  void reject(RequestId request, CloseReason why) override;
  void hold(RequestId request) override;
  void leave(Endpoint& endpoint) override;
  void stop() override;
  void read_events(Sink& sink) override;  // sends what libfabric did not take
  void run_deadlines(Sink& sink) override;
  bool has_deadlines() const override {
    return Connector::has_deadlines() || !leaving_.empty() || !withdrawn_.empty();
  }
  bool is_impatient() const override { return !unsent_.empty(); }

  // A parcel arrived whose head says control_frames; takes the operation.
  void take(Operation* parcel, Sink& sink);
  void sent(const Completion& completion);

 private:
  struct Parts {  // what differs between control parcels
    uint64_t number = 0, from = 0;
    uint32_t parcels = 0;
    Bytes text = {};
  };
  void refuse(const std::shared_ptr<Peer>& peer, uint64_t number, CloseReason why, bool was_held);
  void say(ControlKind kind, const std::shared_ptr<Peer>& peer, EndpointId id, const Parts& parts);
  bool try_to_send(Operation* operation);
  void failed(Operation* operation, int error_number);
  void handle_hello(const Control& control, Bytes text, const std::string& address, Sink& sink);
  bool was_heard(uint64_t number, const Peer& peer);
  void handle_accept(const Control& control, Bytes reply, const std::string& address, Sink& sink);
  void handle_answer(const Control& control, Bytes reason, Sink& sink);
  void handle_farewell(const Control& control, const std::string& address);
  void handle_ask(const Control& control, const std::string& address);
  void count_parcels(Endpoint& endpoint, uint32_t sent);
  void begin_silence(Endpoint& endpoint, int64_t now_ns);
  bool is_silent_for_long(Endpoint& endpoint, int64_t now_ns);
  void look_after(Endpoint& endpoint, int64_t now_ns);
  int64_t longest_question_ns() const;
  void say_hello_again(Endpoint& endpoint, int64_t now_ns);
  void say_accept(const Endpoint& endpoint);
  bool take_back_hello(EndpointId id);

  Peers& peers_;
  Pool& pool_;
  std::string own_;  // our address; known since listen or connect
  bool listens_ = false;
  std::deque<Operation*> unsent_;  // `at`: when to give up; owned
  uint32_t under_way_ = 0;         // control parcels that libfabric has
  // Connections that we gave up before the peer answered, by their number.
  struct Withdrawn {
    std::shared_ptr<Peer> peer;
    int64_t deadline_ns;
  };
  std::unordered_map<uint64_t, Withdrawn> withdrawn_;
  std::deque<EndpointId> leaving_;  // the peer left, and parcels of it are missing
  int64_t looked_ns_ = 0;           // when silence was looked for
};

}  // namespace skerry::fabric::ofi
