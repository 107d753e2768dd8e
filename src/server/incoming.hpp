// One request while it is applied, and whether what it names exists. A value: valid within one
// upcall of the fabric.
#pragma once

#include <cstdint>
#include <string_view>

#include "memory/apply.hpp"
#include "server/clients.hpp"
#include "wire/message.hpp"

namespace skerry::server {

struct Incoming {
  Client& client;
  const wire::Request& request;
  fabric::Bytes payload;
  bool again = false;  // it was applied before: its answer is wanted once more, not its effect
  memory::Region region = {};  // the slice it names, once that is looked up

  session::TargetSession& session() const { return *client.session; }
  bool has(uint8_t flag) const { return request.has(flag); }
  // Strided accesses go to mapped memory only; origins cut those of given memory into pieces.
  // Batches of puts and accumulates go to both.
  Status check_mapped() const;
  Status check_range(uint64_t offset, uint64_t bytes) const;
  Shape shape() const;
  // `bytes` of the shape's stream, from skip_bytes on, in the slice. *at: where the shape begins.
  Status check_shape(uint64_t bytes, std::string_view what, Shape* shape, std::byte** at) const;
  // The table of pieces at the payload's start fits into it.
  Status check_table(uint64_t* table_bytes) const;
  // A grant goes to the rank that the holder names, so no rank may ask in the name of another.
  Status check_holder(lock::Holder holder) const;
};

}  // namespace skerry::server
