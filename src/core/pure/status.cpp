#include "core/pure/status.hpp"

namespace skerry {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::ok: return "SKERRY_OK";
    case Code::invalid: return "SKERRY_ERR_INVALID";
    case Code::range: return "SKERRY_ERR_RANGE";
    case Code::freed: return "SKERRY_ERR_FREED";
    case Code::no_memory: return "SKERRY_ERR_NO_MEMORY";
    case Code::peer_dead: return "SKERRY_ERR_PEER_DEAD";
    case Code::timeout: return "SKERRY_ERR_TIMEOUT";
    case Code::network: return "SKERRY_ERR_NETWORK";
    case Code::config: return "SKERRY_ERR_CONFIG";
    case Code::unsupported: return "SKERRY_ERR_UNSUPPORTED";
    case Code::forked: return "SKERRY_ERR_FORKED";
    case Code::thread: return "SKERRY_ERR_THREAD";
    case Code::internal: return "SKERRY_ERR_INTERNAL";
    case Code::conflict: return "SKERRY_ERR_CONFLICT";
    case Code::owner_died: return "SKERRY_ERR_OWNER_DIED";
    case Code::contended: return "contended";
  }
  return "unknown status";
}

const std::string& Status::message() const {
  static const std::string none;
  return failure_ ? failure_->message : none;
}

}  // namespace skerry
