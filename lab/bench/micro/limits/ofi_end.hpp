// One end of a connection of bare libfabric (FI_EP_MSG), for limit_ofi and limit_rma. Its objects
// live until the process ends, as does whatever it opens; a failure ends the process.
#pragma once

#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "../common.hpp"

namespace bench {

inline void check_ofi(long status, const char* what) {
  if (status >= 0) return;
  std::fprintf(stderr, "%s: %s\n", what, fi_strerror(static_cast<int>(-status)));
  std::exit(2);
}

class OfiEnd {
 public:
  struct Wants {
    uint64_t capabilities = FI_MSG;
    uint64_t access = FI_SEND | FI_RECV;  // of its memory
    fi_wait_obj queue = FI_WAIT_NONE;     // how one may wait for completions
  };
  // `flags`: FI_SOURCE for the one that listens.
  OfiEnd(const Wants& wants, const std::string& provider, const std::string& host,
         const std::string& port, uint64_t flags, void* memory, size_t bytes)
      : wants_(wants), base_(memory), bytes_(bytes) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = wants.capabilities;
    hints->mode = FI_CONTEXT;
    hints->tx_attr->op_flags = FI_COMPLETION;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    hints->fabric_attr->prov_name = strdup(provider.c_str());
    check_ofi(fi_getinfo(FI_VERSION(1, 17), host.empty() ? nullptr : host.c_str(), port.c_str(),
                         flags, hints, &info_),
              "fi_getinfo");
    fi_freeinfo(hints);
    check_ofi(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr events{};
    events.wait_obj = FI_WAIT_UNSPEC;
    check_ofi(fi_eq_open(fabric_, &events, &eq_, nullptr), "fi_eq_open");
    // Registered before a peer is there: the request's domain is that of our own information.
    check_ofi(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    check_ofi(fi_mr_reg(domain_, base_, bytes_, wants.access, 0, 1, 0, &memory_, nullptr),
              "fi_mr_reg");
  }

  uint16_t listen() {
    check_ofi(fi_passive_ep(fabric_, info_, &listener_, nullptr), "fi_passive_ep");
    check_ofi(fi_pep_bind(listener_, &eq_->fid, 0), "fi_pep_bind");
    check_ofi(fi_listen(listener_), "fi_listen");
    sockaddr_in name{};
    size_t length = sizeof name;
    check_ofi(fi_getname(&listener_->fid, &name, &length), "fi_getname");
    return ntohs(name.sin_port);
  }
  // `opened`: called with the endpoint before the peer may send.
  template <class Opened>
  void accept(Opened&& opened) {
    fi_eq_cm_entry entry{};
    wait_event(FI_CONNREQ, &entry);
    open_endpoint(entry.info);
    opened();
    check_ofi(fi_accept(endpoint_, nullptr, 0), "fi_accept");
    wait_event(FI_CONNECTED, &entry);
  }
  template <class Opened>
  void connect(Opened&& opened) {
    fi_eq_cm_entry entry{};
    open_endpoint(info_);
    opened();
    check_ofi(fi_connect(endpoint_, info_->dest_addr, nullptr, 0), "fi_connect");
    wait_event(FI_CONNECTED, &entry);
  }
  // The peer has left.
  bool is_gone() {
    fi_eq_cm_entry entry{};
    uint32_t event = 0;
    return fi_eq_read(eq_, &event, &entry, sizeof entry, 0) > 0 && event == FI_SHUTDOWN;
  }

  fid_ep* endpoint() { return endpoint_; }
  fid_cq* queue() { return cq_; }
  void* descriptor() { return fi_mr_desc(memory_); }
  uint64_t key() { return fi_mr_key(memory_); }

 private:
  void open_endpoint(fi_info* info) {
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.wait_obj = wants_.queue;
    queue.size = 64;
    check_ofi(fi_cq_open(domain_, &queue, &cq_, nullptr), "fi_cq_open");
    check_ofi(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    check_ofi(fi_ep_bind(endpoint_, &eq_->fid, 0), "fi_ep_bind");
    check_ofi(fi_ep_bind(endpoint_, &cq_->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    check_ofi(fi_enable(endpoint_), "fi_enable");
  }
  void wait_event(uint32_t wanted, fi_eq_cm_entry* entry) {
    uint32_t event = 0;
    const ssize_t got = fi_eq_sread(eq_, &event, entry, sizeof *entry, 20'000, 0);
    if (got >= 0 && event == wanted) return;
    std::fprintf(stderr, "expected connection event %u, got %u (%s)\n", wanted, event,
                 got < 0 ? fi_strerror(static_cast<int>(-got)) : "no error");
    std::exit(2);
  }

  const Wants wants_;
  void* const base_;
  const size_t bytes_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_pep* listener_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mr* memory_ = nullptr;
};

}  // namespace bench
