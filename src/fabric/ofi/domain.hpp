// What a fabric opens of libfabric: the library itself, a provider on an interface, its domain and
// queues.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <string>

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

constexpr uint32_t window = 8;                        // parcels on their way to one peer
constexpr uint64_t parcel_payload_bytes = 16 * 1024;  // longest payload of one message
constexpr uint64_t buffer_bytes = 17 * 1024;
constexpr uint32_t max_rma_outstanding = 32;  // per endpoint; then would_block
// Buffers that all endpoints share, at most: 4.3 MiB.
constexpr uint32_t max_shared_buffers = 256;

// Set by open, and then constant but for next_registration. Closed from the last member to the
// first.
struct Domain {
  explicit Domain(const Library* loaded) : library(loaded) {}
  Status open(const std::string& provider, const Options& options, Waiter& waiter);
  Status failed(const char* what, int64_t result) const;
  // Libfabric's answer; *number names the registration.
  int register_memory(void* base, uint64_t bytes, uint64_t access, Handle<fid_mr>* mr,
                      uint64_t* number = nullptr);

  const Library* const library;
  std::string name;
  uint64_t capabilities = FI_MSG | FI_RMA;  // what is asked for
  Info info;                                // what the domain was opened with
  Handle<fid_fabric> fabric;
  Handle<fid_domain> domain;
  Handle<fid_eq> events;
  Handle<fid_cq> completions;
  Handle<fid_ep> receives;       // shared by all endpoints; null: each has its own
  uint32_t shared_capacity = 0;  // of receives
  bool mr_local = false;         // buffers must be registered
  bool virtual_addresses = false;
  bool provider_keys = false;
  uint64_t write_flags = 0;  // how a put is to complete
  // Parcels up to this size are injected: no completion to read. 0: never.
  uint64_t inject_bytes = 0;
  uint64_t next_registration = 1;

 private:
  Status find_provider(const std::string& provider, const Options& options);
  Status try_address(const std::string& provider, const Options& options, int family,
                     const uint8_t* address);
  bool get_info(fi_info* hints, bool shared);
  Status open_queues(Waiter& waiter);
  void open_shared_receives();
};

}  // namespace skerry::fabric::ofi
