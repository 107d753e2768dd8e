// Buffers that libfabric works on, and what is posted to it. Issue lock.
#pragma once

#include <memory>
#include <vector>

#include "fabric/ofi/domain.hpp"

namespace skerry::fabric::ofi {

// A piece of memory that libfabric works on; registered where the provider wants that.
struct Buffer {
  std::byte* data = nullptr;
  void* descriptor = nullptr;  // null: needs none
};

// One thing posted to libfabric. Lives until its completion was read or its endpoint is closed.
struct Operation {
  fi_context2
      context{};  // first: some providers keep their own state here, and completions name it
  enum class Kind { send, receive, rma } kind = Kind::receive;
  EndpointId endpoint = no_endpoint;  // none: a receive for all endpoints
  Buffer buffer;       // data null: none (RMA straight from or to the caller's memory)
  uint64_t bytes = 0;  // send: filled so far; receive: received; RMA: all
  // Receive: next frame. RMA: bytes done by earlier pieces.
  uint64_t at = 0;
  uint32_t frames = 0;  // send
  // RMA only.
  RmaCall call;
  uint64_t piece = 0;           // bytes posted now
  Handle<fid_mr> registration;  // of the caller's memory, for this operation; null: not needed, or
                                // bounced through buffer
};

class Pool {
 public:
  explicit Pool(Domain& domain) : domain_(domain) {}
  // Null: no memory now; completions give some back.
  Operation* take(Operation::Kind kind, EndpointId id, bool with_buffer);
  void give_back(Operation* operation);
  uint64_t spare_bytes() const;

 private:
  static constexpr uint64_t buffers_per_slab = 16;
  static constexpr uint64_t slab_bytes = buffers_per_slab * buffer_bytes;
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    Handle<fid_mr> registration;  // null: not needed
  };
  bool take_buffer(Buffer* buffer);

  Domain& domain_;
  std::vector<Slab> slabs_;
  std::vector<Buffer> free_buffers_;
  std::vector<std::unique_ptr<Operation>> operations_;  // all that exist
  std::vector<Operation*> free_operations_;
};

}  // namespace skerry::fabric::ofi
