// Which of libfabric's providers `ofi` takes, and what Skerry cannot do without.
#pragma once

#include <string>
#include <string_view>

#include "fabric/ofi/domain.hpp"

namespace skerry::fabric::ofi {

struct Choice {
  const char* provider;
  Kind kind;
};
// Without a name the first of these that can be opened. Adapters come first; an adapter that has
// connections tells of a peer's end. libfabric's own tcp is there to compare with.
constexpr Choice choices[] = {
    {"verbs", Kind::connected}, {"efa", Kind::datagram},  {"cxi", Kind::datagram},
    {"opx", Kind::datagram},    {"psm3", Kind::datagram}, {"tcp", Kind::connected},
};

// Of a provider that has both kinds: its datagrams.
constexpr std::string_view datagram_suffix = ":rdm";

// What Skerry can do for registrations of memory; datagrams also FI_MR_ENDPOINT.
constexpr uint64_t registration_modes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                        FI_MR_PROV_KEY;
constexpr uint64_t all_registration_modes = registration_modes | FI_MR_ENDPOINT | FI_MR_RAW |
                                            FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_HMEM |
                                            FI_MR_COLLECTIVE;

// What the provider lacks, in words that follow its name; empty: nothing that shows before it is
// opened.
std::string lacks(const Library& library, std::string_view provider);

}  // namespace skerry::fabric::ofi
