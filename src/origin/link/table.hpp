// All links of this process, by server, by index and by endpoint.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "origin/context.hpp"
#include "origin/link/link.hpp"

namespace skerry::origin {

class LinkTable {
 public:
  explicit LinkTable(EngineContext& context) : context_(context) {}

  Link& to(placement::ServerRef server);
  Link* find(placement::ServerRef server);  // null: never talked to
  Link* of(fabric::EndpointId endpoint);    // null: late, it was closed meanwhile
  Link& at(uint32_t index) { return *all_[index]; }

 protected:
  const std::vector<Link*>& all() const { return all_; }  // by index
  const std::unordered_map<fabric::EndpointId, Link*>& by_endpoint() const { return by_endpoint_; }
  void attach(fabric::EndpointId endpoint, Link& link) { by_endpoint_[endpoint] = &link; }
  void detach(fabric::EndpointId endpoint) { by_endpoint_.erase(endpoint); }
  void account(fabric::ConnectionsMemory* taken) const;  // adds

  EngineContext& context_;

 private:
  std::unordered_map<uint64_t, std::unique_ptr<Link>> by_server_;  // by node << 16 | index
  std::vector<Link*> all_;
  std::unordered_map<fabric::EndpointId, Link*> by_endpoint_;
  Link* last_ = nullptr;  // cache of the last look-up
};

}  // namespace skerry::origin
