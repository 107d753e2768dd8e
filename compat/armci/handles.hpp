// What an armci_hdl_t stands for: requests of Skerry's that are under way.
#pragma once

#include "runtime.hpp"

namespace skerry::armci {

// armci_hdl_t::request is 1 + the index of a record, with this bit set while the handle aggregates
// (then perhaps without a record: index 0).
constexpr int aggregate_bit = 1 << 30;

// Gives a non-blocking operation its skerry_handle and afterwards ties what is still under way to
// the caller's handle. A handle in use that does not aggregate is waited for first. Null handle:
// the implicit set.
class Request {
 public:
  Request(const char* call, armci_hdl_t* handle);
  // To pass to a skerry_*_nb call.
  skerry_handle* slot() { return handle_ == nullptr ? SKERRY_IMPLICIT : &request_; }
  // After the call.
  void keep();

 private:
  const char* call_;
  armci_hdl_t* handle_;
  skerry_handle request_ = 0;
};

// Waits for all that handles stand for.
void wait_explicit();

}  // namespace skerry::armci
