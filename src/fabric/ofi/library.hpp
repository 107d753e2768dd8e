// libfabric at run time: the few functions that are symbols; everything else goes through the
// objects' own tables.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <string>

#include "core/pure/status.hpp"

namespace skerry::fabric::ofi {

// The interface version that we are written against; newer libraries serve it as well.
constexpr uint32_t api_version = FI_VERSION(1, 17);

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

}  // namespace skerry::fabric::ofi
