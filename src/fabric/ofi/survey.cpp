#include "fabric/survey.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/ofi/providers.hpp"

namespace skerry::fabric {

namespace ofi {
namespace {

Info allocate(const Library& library, std::string_view provider) {
  Info hints(library.dupinfo(nullptr), FreeInfo{&library});
  if (hints != nullptr && !provider.empty())
    hints->fabric_attr->prov_name = strdup(std::string(provider).c_str());
  return hints;
}

Info ask(const Library& library, const fi_info* hints) {
  fi_info* found = nullptr;
  const int result = library.getinfo(api_version, nullptr, nullptr, 0, hints, &found);
  return Info(result == 0 ? found : nullptr, FreeInfo{&library});
}

void add_word(std::string* list, std::string_view word) {
  *list += concat(list->empty() ? "" : ", ", word);
}

std::string modes_in_words(uint64_t mr_mode) {
  std::string words;
  for (const auto& [bit, word] :
       {std::pair<uint64_t, const char*>{FI_MR_LOCAL, "local buffers too"},
        {FI_MR_VIRT_ADDR, "virtual addresses"},
        {FI_MR_ALLOCATED, "allocated"},
        {FI_MR_PROV_KEY, "provider's keys"},
        {FI_MR_ENDPOINT, "bound to the endpoint"},
        {FI_MR_RAW, "raw keys"},
        {FI_MR_MMU_NOTIFY, "told of mappings"},
        {FI_MR_HMEM, "device memory"}})
    if ((mr_mode & bit) != 0) add_word(&words, word);
  return words.empty() ? "none" : words;
}

const char* progress_in_words(fi_progress progress) {
  return progress == FI_PROGRESS_AUTO ? "by itself, as it says" : "when we look";
}

}  // namespace

// The hints become those of Domain step by step; the first step after which nothing is left names
// what is missing.
std::string lacks(const Library& library, std::string_view provider) {
  const Info hints = allocate(library, provider);
  if (hints == nullptr) return "no memory";
  uint64_t mr_mode = 0;
  const auto add_all = [&] {
    hints->mode = ~uint64_t{0};
    hints->domain_attr->mr_mode = static_cast<int>(all_registration_modes);
  };
  add_all();
  if (ask(library, hints.get()) == nullptr)
    return "has nothing on this machine: no adapter, or this libfabric is built without it";
  fi_ep_type kinds[] = {FI_EP_MSG, FI_EP_RDM};
  const auto any = [&] {
    return std::ranges::any_of(kinds, [&](fi_ep_type kind) {
      hints->ep_attr->type = kind;
      const Info found = ask(library, hints.get());
      if (found != nullptr) mr_mode = static_cast<uint64_t>(found->domain_attr->mr_mode);
      return found != nullptr;
    });
  };
  hints->caps = FI_MSG;
  if (!any()) return "has no connected endpoints (FI_EP_MSG) and no reliable datagrams (FI_EP_RDM)";
  hints->caps = FI_MSG | FI_RMA;
  if (!any()) return "has no puts and gets (FI_RMA)";
  hints->domain_attr->mr_mode = static_cast<int>(registration_modes | FI_MR_ENDPOINT);
  if (!any())
    return concat("wants a registration of memory that Skerry does not know (its modes: ",
                  modes_in_words(mr_mode), ")");
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  if (!any()) return "wants more of its user than contexts (fi_getinfo's mode)";
  hints->domain_attr->threading = FI_THREAD_SAFE;
  if (!any()) return "may be used by one thread alone (no FI_THREAD_SAFE)";
  return "";
}

std::string OfiFabric::in_words() const {
  const fi_info& info = *domain_.info;
  std::string words = domain_.is_datagram() ? "datagrams (FI_EP_RDM)" : "connections (FI_EP_MSG)";
  add_word(&words, concat("progress ", progress_in_words(info.domain_attr->data_progress)));
  add_word(&words, domain_.can_sleep ? "waits on a descriptor" : "looked at again and again");
  add_word(&words, concat("puts complete ",
                          domain_.write_flags == FI_DELIVERY_COMPLETE   ? "in memory"
                          : domain_.write_flags == FI_TRANSMIT_COMPLETE ? "at the target"
                                                                        : "here"));
  if (!capabilities_.rma) words += ", which is no use, so messages carry all";
  add_word(&words, capabilities_.atomic_swap ? "atomics add, compare and swap"
                   : capabilities_.atomics   ? "atomics add and compare"
                                             : concat("no atomics (", no_atomics_because_, ")"));
  if (capabilities_.atomics_of_adapter)
    words += concat(" by the adapter, ", capabilities_.atomic_ns, " ns each");
  add_word(&words, concat("registration: ",
                          modes_in_words(static_cast<uint64_t>(info.domain_attr->mr_mode))));
  return words;
}

}  // namespace ofi

Status survey_ofi(const Options& options, std::vector<ProviderFacts>* facts) {
  const ofi::Library* library = nullptr;
  SKERRY_TRY(ofi::load(&library));
  std::vector<std::pair<std::string, ofi::Kind>> known;
  for (const ofi::Choice& one : ofi::choices) known.push_back({one.provider, one.kind});
  const ofi::Info hints = ofi::allocate(*library, "");
  if (hints == nullptr) return error(Code::no_memory, "no memory for libfabric's hints");
  hints->mode = ~uint64_t{0};
  hints->domain_attr->mr_mode = static_cast<int>(ofi::all_registration_modes);
  const ofi::Info all = ofi::ask(*library, hints.get());
  for (const fi_info* one = all.get(); one != nullptr; one = one->next) {
    if (one->ep_attr->type != FI_EP_MSG && one->ep_attr->type != FI_EP_RDM) continue;
    const ofi::Kind kind = one->ep_attr->type == FI_EP_MSG ? ofi::Kind::connected
                                                           : ofi::Kind::datagram;
    const std::pair<std::string, ofi::Kind> entry{one->fabric_attr->prov_name, kind};
    if (std::ranges::find(known, entry) == known.end()) known.push_back(entry);
  }
  std::string chosen;
  for (const auto& [provider, kind] : known) {
    const bool has_both = std::ranges::count(known, provider, &decltype(known)::value_type::first) >
                          1;
    ofi::OfiFabric fabric(options, library);
    ProviderFacts one;
    one.provider = provider;
    if (has_both && kind == ofi::Kind::datagram) one.provider += ofi::datagram_suffix;
    const Status status = fabric.start(provider, kind);
    if (status.ok()) {
      one.offers = fabric.in_words();
    } else {
      one.why_not = ofi::lacks(*library, provider);
      if (one.why_not.empty()) one.why_not = status.message();
    }
    const bool is_first = status.ok() && chosen.empty() && facts->size() < std::size(ofi::choices);
    if (is_first) chosen = provider;
    facts->insert(is_first ? facts->begin() : facts->end(), std::move(one));
  }
  return {};
}

}  // namespace skerry::fabric
