// Set-up, poll and dispatch of the ofi fabric.
#include "fabric/ofi/ofi_fabric.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/pure/container_bytes.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/tcp/address.hpp"

namespace skerry::fabric {

Status make_ofi_fabric(const Options& options, const std::string& provider,
                       std::unique_ptr<Fabric>* fabric) {
  const ofi::Library* library = nullptr;
  SKERRY_TRY(ofi::load(&library));
  Status last;
  for (const std::string& name : provider.empty() ? std::vector<std::string>{"verbs", "tcp"}
                                                  : std::vector<std::string>{provider}) {
    auto made = std::make_unique<ofi::OfiFabric>(options, library);
    last = made->start(name);
    if (!last.ok()) continue;
    *fabric = std::move(made);
    return {};
  }
  return last;
}

namespace ofi {
namespace {

constexpr uint64_t tag_wake = 0, tag_queue = 1, tag_watch_base = 16;
// A sleep is never longer: a provider whose descriptor misses an event (there were such bugs) then
// costs a pause, not a hang.
constexpr int64_t longest_sleep_ns = 500'000'000;
constexpr int64_t impatient_sleep_ns = 2'000'000;

bool is_verbs(const fi_info& info) {
  return std::strstr(info.fabric_attr->prov_name, "verbs") != nullptr;
}

}  // namespace

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

OfiFabric::OfiFabric(const Options& options, const Library* library)
    : options_(options), library_(library) {}

OfiFabric::~OfiFabric() {
  listener_.reset();
  endpoints_.for_each([&](Endpoint& endpoint) { release(endpoint); });
  receives_.reset();  // nothing arrives in our buffers any more
  registrations_.clear();
  operations_.clear();
  slabs_.clear();
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

Status OfiFabric::failed(const char* what, int64_t result) const {
  return error(Code::network, what, " on ", name_, ": ",
               library_->strerror(static_cast<int>(-result)),
               "; set SKERRY_FABRIC=tcp to do without libfabric");
}

// Asks the provider whether it has something for one of our addresses.
Status OfiFabric::try_address(const std::string& provider, int family, const uint8_t* address,
                              bool* found) {
  *found = false;
  const Info hints(library_->dupinfo(nullptr), FreeInfo{library_});
  if (hints == nullptr) return error(Code::no_memory, "no memory for libfabric's hints");
  const tcp::SocketAddress source = tcp::socket_address(family, address, 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_SAFE;  // poll runs beside issue calls
  hints->addr_format = family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
  hints->fabric_attr->prov_name = strdup(provider.c_str());  // freed with the hints
  hints->src_addr = std::malloc(source.bytes);
  if (hints->src_addr == nullptr) return error(Code::no_memory, "no memory for libfabric's hints");
  std::memcpy(hints->src_addr, &source.storage, source.bytes);
  hints->src_addrlen = source.bytes;
  // Queues default to hundreds of entries; what we post is bounded by the window.
  hints->tx_attr->size = window + 2 + max_rma_outstanding;
  hints->rx_attr->size = window + 2;
  for (const uint64_t atomics : {options_.atomics ? uint64_t{FI_ATOMIC} : 0, uint64_t{0}}) {
    hints->caps = FI_MSG | FI_RMA | atomics;
    for (const uint64_t flags :
         {uint64_t{FI_DELIVERY_COMPLETE}, uint64_t{FI_TRANSMIT_COMPLETE}, uint64_t{0}}) {
      hints->tx_attr->op_flags = flags;
      fi_info* info = nullptr;
      hints->ep_attr->rx_ctx_cnt = options_.shared_receives ? FI_SHARED_CONTEXT : 0;
      int result = library_->getinfo(api_version, nullptr, nullptr, 0, hints.get(), &info);
      if (result != 0 && options_.shared_receives) {  // each its own, then
        hints->ep_attr->rx_ctx_cnt = 0;
        result = library_->getinfo(api_version, nullptr, nullptr, 0, hints.get(), &info);
      }
      if (result != 0) continue;
      info_ = Info(info, FreeInfo{library_});
      write_flags_ = flags;
      // Asked only to learn what there is: a message need not wait for its acknowledgement.
      info_->tx_attr->op_flags = 0;
      *found = true;
      return {};
    }
  }
  return {};
}

Status OfiFabric::open_domain(const std::string& provider) {
  std::vector<tcp::InterfaceAddress> addresses;
  SKERRY_TRY(tcp::choose_listen_addresses(options_, &addresses));
  // An RDMA device may sit on any interface: jobs on one host use it as well when it is asked for.
  if (options_.loopback_only) {
    for (const tcp::InterfaceAddress& one : tcp::interface_addresses()) addresses.push_back(one);
  }
  std::string tried;
  for (const tcp::InterfaceAddress& one : addresses) {
    bool found = false;
    SKERRY_TRY(try_address(provider, one.family, one.address.data(), &found));
    if (found) return {};
    tried += concat(tried.empty() ? "" : ", ", one.interface, " (", tcp::to_string(one), ")");
  }
  return error(Code::unsupported, "libfabric's provider ", provider,
               " has connected endpoints on none of ", tried,
               "; set SKERRY_INTERFACE to the interface of the adapter, or SKERRY_FABRIC=tcp");
}

Status OfiFabric::start(const std::string& provider) {
  SKERRY_TRY(open(provider));
  try_atomics(provider);
  return {};
}

Status OfiFabric::open(const std::string& provider) {
  name_ = "ofi:" + provider;
  SKERRY_TRY(open_domain(provider));
  SKERRY_TRY(open_queues());
  open_shared_receives();
  describe_capabilities();
  return {};
}

Status OfiFabric::open_queues() {
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  if (const int result = library_->fabric(info_->fabric_attr, &fabric, nullptr); result != 0)
    return failed("fi_fabric", result);
  fabric_.reset(fabric);
  if (const int result = fi_domain(fabric, info_.get(), &domain, nullptr); result != 0)
    return failed("fi_domain", result);
  domain_.reset(domain);

  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_FD;
  fid_eq* eq = nullptr;
  if (const int result = fi_eq_open(fabric, &eq_attr, &eq, nullptr); result != 0)
    return failed("fi_eq_open", result);
  eq_.reset(eq);
  fid_cq* cq = nullptr;
  int result = 0;
  // One queue for all endpoints must hold what they can complete together; adapters differ in how
  // much they allow.
  for (const size_t size : {size_t{16384}, size_t{4096}, size_t{0}}) {
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_MSG;
    cq_attr.wait_obj = FI_WAIT_FD;
    cq_attr.size = size;
    result = fi_cq_open(domain, &cq_attr, &cq, nullptr);
    if (result == 0) break;
  }
  if (result != 0) return failed("fi_cq_open", result);
  cq_.reset(cq);

  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int eq_fd = -1, cq_fd = -1;
  fi_control(&eq->fid, FI_GETWAIT, &eq_fd);
  fi_control(&cq->fid, FI_GETWAIT, &cq_fd);
  for (auto [fd, tag] :
       {std::pair{wake_fd_, tag_wake}, std::pair{eq_fd, tag_queue}, std::pair{cq_fd, tag_queue}}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) {
      return error(Code::network, "cannot wait for libfabric's queues: error ", errno,
                   "; raise the limit of open files (ulimit -n)");
    }
  }
  events_.resize(16);
  return {};
}

// Adapters differ in how many buffers one context may have. Where there is none, each endpoint has
// buffers of its own.
void OfiFabric::open_shared_receives() {
  if (info_->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT) return;
  for (const uint32_t size : {max_shared_buffers, max_shared_buffers / 4}) {
    fi_rx_attr attr = *info_->rx_attr;
    attr.size = size;
    attr.iov_limit = 1;
    fid_ep* receives = nullptr;
    if (fi_srx_context(domain_.get(), &attr, &receives, nullptr) != 0) continue;
    receives_.reset(receives);
    shared_capacity_ = size;
    return;
  }
  info_->ep_attr->rx_ctx_cnt = 1;
}

void OfiFabric::describe_capabilities() {
  const uint64_t mr_mode = static_cast<uint64_t>(info_->domain_attr->mr_mode);
  mr_local_ = (mr_mode & FI_MR_LOCAL) != 0;
  virtual_addresses_ = (mr_mode & FI_MR_VIRT_ADDR) != 0;
  provider_keys_ = (mr_mode & FI_MR_PROV_KEY) != 0;
  // Injected parcels free their place in the queue without telling; where queues are the adapter's
  // we rather read the completion.
  inject_bytes_ = is_verbs(*info_) ? 0 : info_->tx_attr->inject_size;
  capabilities_.rma = true;
  capabilities_.direct_placement = false;
  capabilities_.am_after_rma_ordered = (info_->tx_attr->msg_order & FI_ORDER_SAW) != 0 &&
                                       (info_->rx_attr->msg_order & FI_ORDER_SAW) != 0;
  capabilities_.rma_ordered = false;
  capabilities_
      .close_fences_rma = true;  // the connection carries RMA and messages: closed is closed
  capabilities_.connection_bytes = receives_ != nullptr ? ofi_connection_bytes
                                                        : ofi_own_buffers_connection_bytes;
  capabilities_.max_payload_bytes = parcel_payload_bytes;
  capabilities_.rma_from_bytes = parcel_payload_bytes + 1;
}

// --- progress ----------------------------------------------------------------------------------

void OfiFabric::want_dispatch() {
  if (dispatching_) return;  // the end of dispatch looks
  work_pending_.store(true, std::memory_order_seq_cst);
  if (polling_.load(std::memory_order_seq_cst)) wake();
}

void OfiFabric::poll(int64_t timeout_ns, EndpointId) {
  if (event_count_ > 0) return;
  polling_.store(true, std::memory_order_seq_cst);
  if (work_pending_.load(std::memory_order_seq_cst)) timeout_ns = 0;
  if (timeout_ns != 0) {
    // Arms the queues' descriptors. "Again" means that there is something to read, perhaps without
    // the descriptor showing it.
    fid* queues[] = {&cq_->fid, &eq_->fid};
    if (fi_trywait(fabric_.get(), queues, 2) != 0) timeout_ns = 0;
    const int64_t limit_ns = impatient_.load(std::memory_order_relaxed) ? impatient_sleep_ns
                                                                        : longest_sleep_ns;
    if (timeout_ns < 0 || timeout_ns > limit_ns) timeout_ns = limit_ns;
  }
  const int count = epoll_wait(epoll_fd_, events_.data(), static_cast<int>(events_.size()),
                               static_cast<int>((timeout_ns + 999'999) / 1'000'000));
  event_count_ = std::max(count, 0);
  polling_.store(false, std::memory_order_relaxed);
}

void OfiFabric::wake() {
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_fd_, &one, sizeof one);
}

int OfiFabric::dispatch(Sink& sink) {
  dispatching_ = true;
  int upcalls = run_watched(sink);
  std::vector<EndpointId> ids;
  ids.swap(ready_);
  for (EndpointId id : ids) {
    if (Endpoint* endpoint = endpoints_.find(id)) endpoint->parked = false;
    upcalls += deliver(id, sink);
  }
  ids.clear();
  if (receives_ != nullptr) post_shared();  // if there was no memory for all
  ids.swap(again_);
  for (EndpointId id : ids) {
    if (Endpoint* endpoint = endpoints_.find(id)) after_progress(*endpoint, id);
  }
  drain_completions();
  upcalls += run_completions(sink);
  upcalls += read_events(sink);
  if (!ending_.empty()) upcalls += run_endings(sink);
  if (!opening_.empty()) upcalls += run_deadlines(sink);
  ids.clear();
  ids.swap(writable_);
  for (EndpointId id : ids) {
    if (endpoints_.find(id) == nullptr) continue;
    sink.on_writable(id);
    ++upcalls;
  }
  const bool short_of_buffers = receives_ != nullptr && shared_posted_ < shared_wanted();
  impatient_.store(!again_.empty() || !opening_.empty() || short_of_buffers,
                   std::memory_order_relaxed);
  work_pending_.store(!ready_.empty() || !completions_.empty() || !writable_.empty(),
                      std::memory_order_seq_cst);
  dispatching_ = false;
  return upcalls;
}

int OfiFabric::run_watched(Sink& sink) {
  int upcalls = 0;
  const int count = event_count_;
  event_count_ = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events_[static_cast<size_t>(i)].data.u64;
    if (tag == tag_wake) {
      uint64_t value;
      [[maybe_unused]] const ssize_t n = read(wake_fd_, &value, sizeof value);
      woken_.store(false, std::memory_order_seq_cst);
    }
    if (tag < tag_watch_base) continue;
    const auto found = watched_.find(static_cast<int>(tag - tag_watch_base));
    if (found == watched_.end()) continue;
    sink.on_watched(found->first, found->second);
    ++upcalls;
  }
  return upcalls;
}

Status OfiFabric::watch(int fd, uint64_t cookie) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_watch_base + static_cast<uint64_t>(fd);
  if (epoll_ctl(epoll_fd_, watched_.count(fd) != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) !=
      0) {
    return error(Code::internal, "cannot watch descriptor ", fd, ": error ", errno);
  }
  watched_[fd] = cookie;
  return {};
}

void OfiFabric::unwatch(int fd) {
  if (watched_.erase(fd) != 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

Fabric::Traffic OfiFabric::traffic() const {
  Traffic out = traffic_;
  out.endpoints_open = 0;
  endpoints_.for_each(
      [&](const Endpoint& endpoint) { out.endpoints_open += endpoint.state != State::asking; });
  return out;
}

// A connection's own: its window of posted buffers above all. What libfabric keeps for it cannot be
// seen from here.
Fabric::Memory OfiFabric::memory() const {
  Memory out;
  uint64_t used_operations = 0, used_buffers = 0;
  const auto count = [&](const Operation* operation) {
    if (operation == nullptr) return;
    ++used_operations;
    used_buffers += operation->buffer.data != nullptr ? 1 : 0;
  };
  endpoints_.for_each([&](const Endpoint& e) {
    out.endpoint_bytes += endpoints_.item_bytes() + table_bytes(e.operations) +
                          deque_bytes(e.inbox) + deque_bytes(e.rma_waiting) +
                          vector_bytes(e.end_detail);
    for (const Operation* operation : e.operations) count(operation);
    for (const Operation* operation : e.inbox) count(operation);
    count(e.filling);
  });
  out.endpoint_bytes += table_bytes(by_fid_) + used_operations * sizeof(Operation) +
                        used_buffers * buffer_bytes;
  out.fixed_bytes = sizeof *this + endpoints_.spare_bytes() + vector_bytes(operations_) +
                    vector_bytes(free_operations_) + vector_bytes(free_buffers_) +
                    free_operations_.size() * sizeof(Operation) +
                    (free_buffers_.size() + shared_posted_) * buffer_bytes +
                    shared_posted_ * sizeof(Operation) + vector_bytes(by_slot_) +
                    table_bytes(registrations_) + table_bytes(watched_) + vector_bytes(events_);
  return out;
}

}  // namespace ofi
}  // namespace skerry::fabric
