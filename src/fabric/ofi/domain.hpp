// What a fabric opens of libfabric: the library itself, a provider on an interface, its domain and
// queues.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <string>

#include "fabric/tcp/address.hpp"
#include "fabric/waiter.hpp"

namespace skerry::fabric::ofi {

// The interface version that we are written against; newer libraries serve it as well.
constexpr uint32_t api_version = FI_VERSION(1, 17);

// The few functions that are symbols; everything else goes through the objects' own tables.
struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
};

// Loads it once per call's result; never unloaded (providers start threads and keep statics).
// Errors: unsupported.
Status load(const Library** library);

struct FreeInfo {
  const Library* library = nullptr;
  void operator()(fi_info* info) const { library->freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

struct CloseFid {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
template <class Object>
using Handle = std::unique_ptr<Object, CloseFid>;

constexpr uint32_t window = 8;  // parcels on their way to one peer
constexpr uint64_t buffer_bytes = 17 * 1024;
// Puts and gets over datagrams go through buffers of ours, the long ones in pieces of this size.
constexpr uint64_t long_buffer_bytes = 256 * 1024;
// Over datagrams a parcel is no longer: the software providers take larger ones in two round trips.
constexpr uint64_t longest_datagram_bytes = 16'000;
constexpr uint32_t max_rma_outstanding = 32;  // per endpoint; then would_block
// Buffers that all endpoints share, at most: 4.3 MiB.
constexpr uint32_t max_shared_buffers = 256;

// What a parcel begins with; see messages.hpp.
struct ParcelHead {
  uint16_t credits;   // returned to the receiver of this parcel
  uint16_t frames;    // 0: only credits; control_frames: see datagrams.hpp
  uint32_t sequence;  // of this parcel among those of its connection and direction, from 0
  uint64_t number;    // of the connection, as its receiver told the sender
};
static_assert(sizeof(ParcelHead) == 16);
constexpr uint64_t before_payload_bytes = sizeof(ParcelHead) + 8 + max_header_bytes;

// What a provider's endpoints are.
enum class Kind : uint8_t {
  connected,  // FI_EP_MSG: one for each peer
  datagram,   // FI_EP_RDM: one for a whole side; a peer is an entry of the address vector
};

// Those whose adapters have atomics of their own, as their manual pages say. With others (efa, opx,
// psm3, rxm, rxd) the target's processor performs them. Whether it is so is tried as well.
inline bool has_adapter(std::string_view provider) {
  return provider == "verbs" || provider == "cxi";
}
// Those whose adapters read and write the target's memory themselves.
inline bool has_rma_of_adapter(std::string_view provider) {
  return has_adapter(provider) || provider == "efa";
}
inline bool wants_atomics(const Options& options, std::string_view provider) {
  return options.atomics == Options::Atomics::any ||
         (options.atomics == Options::Atomics::of_adapter && has_adapter(provider));
}

// Set by open, and then constant but for next_registration. Closed from the last member to the
// first.
struct Domain {
  explicit Domain(const Library* loaded) : library(loaded) {}
  Status open(Kind wanted, const std::string& provider, const Options& options, Waiter& waiter);
  Status failed(const char* what, int64_t result) const;
  // Libfabric's answer; *number names the registration.
  int register_memory(void* base, uint64_t bytes, uint64_t access, Handle<fid_mr>* mr,
                      uint64_t* number = nullptr);

  const Library* const library;
  std::string name;
  Kind kind = Kind::connected;
  uint64_t capabilities = FI_MSG | FI_RMA;  // what is asked for, and in the end what there is
  bool has_atomics() const { return (capabilities & FI_ATOMIC) != 0; }
  // libfabric's verbs provider before 2.2.0 takes the address of an operand for its value: the
  // value is then handed over as the address. See trial.cpp.
  bool operands_as_addresses = false;
  // Datagrams, for tests: as an adapter that is worse than the provider.
  struct {
    uint64_t message_bytes = UINT64_MAX, rma_bytes = UINT64_MAX;
    bool registers_all = false;  // FI_MR_LOCAL
    uint64_t write_flags = UINT64_MAX;
  } imitated;
  Info info;                                // what the domain was opened with
  Handle<fid_fabric> fabric;
  Handle<fid_domain> domain;
  Handle<fid_eq> events;  // connected only
  Handle<fid_cq> completions;
  Handle<fid_av> address_vector;  // datagram only
  // Shared by all endpoints; null: each has its own. Datagram: the one endpoint that all share.
  Handle<fid_ep> receives;
  uint32_t shared_capacity = 0;  // of receives
  bool mr_local = false;         // buffers must be registered
  bool virtual_addresses = false;
  bool provider_keys = false;
  bool bound_registrations = false;  // each belongs to an endpoint
  bool can_sleep = true;             // the queues have a descriptor
  uint64_t parcel_bytes = buffer_bytes;  // the longest
  uint64_t rma_bytes = 0;                // of one put or get, the most; the rest goes in pieces
  uint64_t payload_bytes() const { return parcel_bytes - before_payload_bytes; }
  bool is_datagram() const { return kind == Kind::datagram; }
  bool keeps_peers() const { return name == "ofi:sockets"; }
  // Datagrams over the kernel's TCP: a killed process shows as an error of its connection beneath.
  bool kernel_tells_of_death() const {
    return name == "ofi:tcp;ofi_rxm" || name == "ofi:net;ofi_rxm" || name == "ofi:tcp" ||
           name == "ofi:net" || name == "ofi:sockets";
  }
  uint64_t write_flags = 0;  // how a put is to complete
  // Is a put remote done when it completes? In memory: yes. At the target: its adapter has it, and
  // may still be writing. Over a connection of verbs all that comes later, by that adapter or to a
  // processor that it told, sees it: the bus keeps the order of an adapter's writes. Of others
  // libfabric's fi_cq(3) promises nothing.
  bool puts_are_remote_done() const {
    return write_flags == FI_DELIVERY_COMPLETE ||
           (write_flags == FI_TRANSMIT_COMPLETE && name == "ofi:verbs" && !is_datagram());
  }
  // Parcels up to this size are injected: no completion to read. 0: never.
  uint64_t inject_bytes = 0;
  // Completions lie in memory, but events of connections are read by a system call (verbs).
  bool events_cost_a_call = false;
  uint64_t next_registration = 1;

 private:
  Status find_provider(const std::string& provider, const Options& options);
  Status try_address(const std::string& provider, const Options& options,
                     const tcp::InterfaceAddress* address);
  bool get_info(fi_info* hints, bool shared);
  Status open_queues();
  Status open_completions();
  Status wait_for(Waiter& waiter);
  void open_shared_receives();
  Status open_datagrams();
  uint64_t most_bytes(int option) const;
};

}  // namespace skerry::fabric::ofi
