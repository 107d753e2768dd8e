// What libfabric has on this machine for Skerry, for people who ask (skerry info). All its
// providers are looked at; those that have something are opened and closed again.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.hpp"

namespace skerry::fabric {

struct ProviderFacts {
  std::string provider;  // for SKERRY_FABRIC=ofi:PROVIDER
  // "connected endpoints, puts and gets, descriptor to wait for, ..."; empty: see why_not.
  std::string offers;
  std::string why_not;  // what it lacks
};

// First the one that SKERRY_FABRIC=ofi takes, if there is one. Errors: unsupported (built without
// libfabric, or it is not installed).
Status survey_ofi(const Options& options, std::vector<ProviderFacts>* facts);

}  // namespace skerry::fabric
