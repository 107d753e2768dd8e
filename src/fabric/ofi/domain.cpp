#include "fabric/ofi/domain.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric/ofi/providers.hpp"

namespace skerry::fabric::ofi {

namespace {

constexpr uint64_t tag_queue = 1;
// FI_OPT_MAX_MSG_SIZE and FI_OPT_MAX_RMA_SIZE, which the headers of 1.17 do not have.
constexpr int option_max_message = 12, option_max_rma = 14;

bool is_verbs(const fi_info& info) {
  return std::strstr(info.fabric_attr->prov_name, "verbs") != nullptr;
}

// By version, not just by name: fi_info grew over the years, and the versions below are those whose
// layout the headers of 1.17 describe.
struct Loaded {
  Library library;
  std::string failure;  // empty: all found
  Loaded() {
    void* handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      failure = concat("libfabric cannot be loaded: ", dlerror(),
                       "; install libfabric1, or set SKERRY_FABRIC=tcp");
      return;
    }
    find(handle, "fi_getinfo", "FABRIC_1.3", &library.getinfo);
    find(handle, "fi_freeinfo", "FABRIC_1.3", &library.freeinfo);
    find(handle, "fi_dupinfo", "FABRIC_1.3", &library.dupinfo);
    find(handle, "fi_fabric", "FABRIC_1.1", &library.fabric);
    find(handle, "fi_strerror", "FABRIC_1.0", &library.strerror);
  }
  template <class Function>
  void find(void* handle, const char* name, const char* version, Function* function) {
    *function = reinterpret_cast<Function>(dlvsym(handle, name, version));
    if (*function == nullptr && failure.empty()) {
      failure = concat("libfabric has no ", name, " of version ", version,
                       ": it is older than 1.3 or not libfabric; set SKERRY_FABRIC=tcp");
    }
  }
};

// That shows when something is in a queue; negative: there is none.
int descriptor_of(fid* queue) {
  int fd = -1;
  return fi_control(queue, FI_GETWAIT, &fd) == 0 ? fd : -1;
}

}  // namespace

Status load(const Library** library) {
  static const Loaded loaded;
  if (!loaded.failure.empty()) return Status(Code::unsupported, loaded.failure);
  *library = &loaded.library;
  return {};
}

Status Domain::open(Kind wanted, const std::string& provider, const Options& options,
                    Waiter& waiter) {
  name = "ofi:" + provider;
  kind = wanted;
  if (wants_atomics(options, provider)) {
    capabilities |= FI_ATOMIC;
    if (!find_provider(provider, options).ok()) capabilities &= ~FI_ATOMIC;
  }
  if (!has_atomics()) SKERRY_TRY(find_provider(provider, options));
  SKERRY_TRY(open_queues());
  SKERRY_TRY(wait_for(waiter));
  const uint64_t mr_mode = static_cast<uint64_t>(info->domain_attr->mr_mode);
  mr_local = (mr_mode & FI_MR_LOCAL) != 0 || imitated.registers_all;
  virtual_addresses = (mr_mode & FI_MR_VIRT_ADDR) != 0;
  provider_keys = (mr_mode & FI_MR_PROV_KEY) != 0;
  bound_registrations = (mr_mode & FI_MR_ENDPOINT) != 0;
  // Injected parcels free their place in the queue without telling; where queues are the adapter's
  // we rather read the completion.
  inject_bytes = is_verbs(*info) ? 0 : info->tx_attr->inject_size;
  events_cost_a_call = is_verbs(*info) && !is_datagram() && can_sleep;
  rma_bytes = info->ep_attr->max_msg_size;
  if (is_datagram()) return open_datagrams();
  open_shared_receives();
  return {};
}

int Domain::register_memory(void* base, uint64_t bytes, uint64_t access, Handle<fid_mr>* mr,
                            uint64_t* number) {
  const uint64_t wanted = next_registration++;
  fid_mr* made = nullptr;
  int result = fi_mr_reg(domain.get(), base, bytes, access, 0, wanted, 0, &made, nullptr);
  mr->reset(made);
  if (result == 0 && bound_registrations) {
    result = fi_mr_bind(made, &receives->fid, 0);
    if (result == 0) result = fi_mr_enable(made);
  }
  if (number != nullptr) *number = wanted;
  return result;
}

Status Domain::failed(const char* what, int64_t result) const {
  return error(Code::network, what, " on ", name, ": ",
               library->strerror(static_cast<int>(-result)),
               "; set SKERRY_FABRIC=tcp to do without libfabric");
}

// Asks the provider whether it has something for one of our addresses (null: whatever it has
// itself): then there is an info.
Status Domain::try_address(const std::string& provider, const Options& options,
                           const tcp::InterfaceAddress* address) {
  const Info hints(library->dupinfo(nullptr), FreeInfo{library});
  if (hints == nullptr) return error(Code::no_memory, "no memory for libfabric's hints");
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = is_datagram() ? FI_EP_RDM : FI_EP_MSG;
  hints->domain_attr->mr_mode = static_cast<int>(registration_modes |
                                                 (is_datagram() ? FI_MR_ENDPOINT : 0));
  hints->domain_attr->threading = FI_THREAD_SAFE;          // poll runs beside issue calls
  hints->fabric_attr->prov_name = strdup(provider.c_str());  // freed with the hints
  if (address != nullptr) {
    const tcp::SocketAddress source = tcp::socket_address(address->family, address->address.data(),
                                                          0);
    hints->addr_format = address->family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
    hints->src_addr = std::malloc(source.bytes);
    if (hints->src_addr == nullptr)
      return error(Code::no_memory, "no memory for libfabric's hints");
    std::memcpy(hints->src_addr, &source.storage, source.bytes);
    hints->src_addrlen = source.bytes;
  }
  // Queues default to hundreds of entries; what we post is bounded by the window. The queues of
  // datagrams are those of all peers.
  hints->tx_attr->size = is_datagram() ? 0 : window + 2 + max_rma_outstanding;
  hints->rx_attr->size = is_datagram() ? 0 : window + 2;
  hints->caps = capabilities;
  for (const uint64_t flags :
       {uint64_t{FI_DELIVERY_COMPLETE}, uint64_t{FI_TRANSMIT_COMPLETE}, uint64_t{0}}) {
    hints->tx_attr->op_flags = flags;
    // Where receives cannot be shared, each endpoint has its own.
    const bool shares = options.shared_receives && !is_datagram();
    if ((!shares || !get_info(hints.get(), true)) && !get_info(hints.get(), false)) continue;
    write_flags = std::min(flags, imitated.write_flags);
    // Asked only to learn what there is: a message need not wait for its acknowledgement.
    info->tx_attr->op_flags = 0;
    break;
  }
  return {};
}

bool Domain::get_info(fi_info* hints, bool shared) {
  hints->ep_attr->rx_ctx_cnt = shared ? FI_SHARED_CONTEXT : 0;
  fi_info* found = nullptr;
  if (library->getinfo(api_version, nullptr, nullptr, 0, hints, &found) != 0) return false;
  info = Info(found, FreeInfo{library});
  return true;
}

Status Domain::find_provider(const std::string& provider, const Options& options) {
  std::vector<tcp::InterfaceAddress> addresses;
  SKERRY_TRY(tcp::choose_listen_addresses(options, &addresses));
  // An RDMA device may sit on any interface: jobs on one host use it as well when it is asked for.
  if (options.loopback_only) {
    for (const tcp::InterfaceAddress& one : tcp::interface_addresses()) addresses.push_back(one);
  }
  std::string tried;
  for (const tcp::InterfaceAddress& one : addresses) {
    SKERRY_TRY(try_address(provider, options, &one));
    if (info != nullptr) return {};
    tried += concat(tried.empty() ? "" : ", ", one.interface, " (", tcp::to_string(one), ")");
  }
  // Adapters whose addresses are their own.
  if (is_datagram()) SKERRY_TRY(try_address(provider, options, nullptr));
  if (info != nullptr) return {};
  return error(Code::unsupported, "libfabric's provider ", provider, " has ",
               is_datagram() ? "datagrams" : "connected endpoints", " on none of ", tried,
               "; set SKERRY_INTERFACE to the interface of the adapter, or SKERRY_FABRIC=tcp");
}

Status Domain::open_queues() {
  fid_fabric* opened_fabric = nullptr;
  fid_domain* opened_domain = nullptr;
  if (const int result = library->fabric(info->fabric_attr, &opened_fabric, nullptr); result != 0)
    return failed("fi_fabric", result);
  fabric.reset(opened_fabric);
  if (const int result = fi_domain(opened_fabric, info.get(), &opened_domain, nullptr); result != 0)
    return failed("fi_domain", result);
  domain.reset(opened_domain);
  if (!is_datagram()) {
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_FD;
    fid_eq* eq = nullptr;
    if (const int result = fi_eq_open(opened_fabric, &eq_attr, &eq, nullptr); result != 0)
      return failed("fi_eq_open", result);
    events.reset(eq);
  }
  return open_completions();
}

Status Domain::open_completions() {
  fid_cq* cq = nullptr;
  int result = 0;
  // Datagrams do without a descriptor where there is none: poll then looks again and again.
  for (const fi_wait_obj wait : {FI_WAIT_FD, FI_WAIT_NONE}) {
    // One queue for all endpoints must hold what they can complete together; adapters differ in how
    // much they allow.
    for (const size_t size : {size_t{16384}, size_t{4096}, size_t{0}}) {
      fi_cq_attr cq_attr{};
      cq_attr.format = FI_CQ_FORMAT_MSG;
      cq_attr.wait_obj = wait;
      cq_attr.size = size;
      result = fi_cq_open(domain.get(), &cq_attr, &cq, nullptr);
      if (result != 0) continue;
      completions.reset(cq);
      can_sleep = wait == FI_WAIT_FD;
      // Some providers say that they have one, and do not.
      if (can_sleep && is_datagram() && descriptor_of(&cq->fid) < 0) break;
      return {};
    }
    if (!is_datagram()) break;
  }
  return failed("fi_cq_open", result);
}

Status Domain::wait_for(Waiter& waiter) {
  SKERRY_TRY(waiter.open(name));
  for (fid* const queue : {events != nullptr ? &events->fid : nullptr, &completions->fid}) {
    if (queue == nullptr || !can_sleep) continue;
    if (!waiter.control(EPOLL_CTL_ADD, descriptor_of(queue), EPOLLIN, tag_queue) && errno != EEXIST)
      return error(Code::network, "cannot wait for libfabric's queues: error ", errno,
                   "; raise the limit of open files (ulimit -n)");
  }
  return {};
}

// Adapters have other limits for messages than for puts and gets. Older libraries know one alone.
uint64_t Domain::most_bytes(int option) const {
  size_t most = 0, bytes = sizeof most;
  const int result = fi_getopt(&receives->fid, FI_OPT_ENDPOINT, option, &most, &bytes);
  return result == 0 && most != 0 ? std::min(most, info->ep_attr->max_msg_size)
                                  : info->ep_attr->max_msg_size;
}

// The one endpoint, which sends to all peers and receives from all of them.
Status Domain::open_datagrams() {
  fi_av_attr attr{};
  attr.type = info->domain_attr->av_type;
  fid_av* av = nullptr;
  if (const int result = fi_av_open(domain.get(), &attr, &av, nullptr); result != 0)
    return failed("fi_av_open", result);
  address_vector.reset(av);
  fid_ep* endpoint = nullptr;
  if (const int result = fi_endpoint(domain.get(), info.get(), &endpoint, nullptr); result != 0)
    return failed("fi_endpoint", result);
  receives.reset(endpoint);
  if (const int result = fi_ep_bind(endpoint, &av->fid, 0); result != 0)
    return failed("fi_ep_bind", result);
  if (const int result = fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV);
      result != 0)
    return failed("fi_ep_bind", result);
  if (const int result = fi_enable(endpoint); result != 0) return failed("fi_enable", result);
  // Not before: libfabric 2.5's shm crashes when an endpoint that is not enabled is asked.
  rma_bytes = std::min(most_bytes(option_max_rma), imitated.rma_bytes);
  parcel_bytes = std::min({longest_datagram_bytes, most_bytes(option_max_message),
                           imitated.message_bytes});
  if (parcel_bytes < 2 * before_payload_bytes)
    return error(Code::unsupported, name, " takes messages of ", parcel_bytes,
                 " bytes at most, and Skerry needs ", 2 * before_payload_bytes,
                 "; set SKERRY_FABRIC=tcp");
  shared_capacity = static_cast<uint32_t>(
      std::min<uint64_t>(max_shared_buffers, info->rx_attr->size));
  return {};
}

// Adapters differ in how many buffers one context may have. Where there is none, each endpoint has
// buffers of its own.
void Domain::open_shared_receives() {
  if (info->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT) return;
  for (const uint32_t size : {max_shared_buffers, max_shared_buffers / 4}) {
    fi_rx_attr attr = *info->rx_attr;
    attr.size = size;
    attr.iov_limit = 1;
    fid_ep* opened = nullptr;
    if (fi_srx_context(domain.get(), &attr, &opened, nullptr) != 0) continue;
    receives.reset(opened);
    shared_capacity = size;
    return;
  }
  info->ep_attr->rx_ctx_cnt = 1;
}

}  // namespace skerry::fabric::ofi
