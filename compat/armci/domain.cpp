// Domains are nodes: processes that share memory, real or (SKERRY_NODES) virtual ones.
#include "runtime.hpp"

namespace skerry::armci {
namespace {

void check_domain(armci_domain_t domain) {
  need_start("domain");
  if (domain != ARMCI_DOMAIN_SMP)
    die("domain", text("domain ", domain, ": there is only ARMCI_DOMAIN_SMP"));
}

int answer(int value) { return value >= 0 ? value : (die("domain", skerry_last_error()), -1); }

}  // namespace

extern "C" int armci_domain_count(armci_domain_t domain) {
  check_domain(domain);
  return skerry_node_count(runtime().job);
}
extern "C" int armci_domain_my_id(armci_domain_t domain) {
  check_domain(domain);
  return answer(skerry_node_of(runtime().job, runtime().rank));
}
extern "C" int armci_domain_id(armci_domain_t domain, int proc) {
  check_domain(domain);
  return answer(skerry_node_of(runtime().job, proc));
}
extern "C" int armci_domain_nprocs(armci_domain_t domain, int id) {
  check_domain(domain);
  return answer(
      skerry_node_size(runtime().job, id < 0 ? skerry_node_of(runtime().job, runtime().rank) : id));
}
extern "C" int armci_domain_glob_proc_id(armci_domain_t domain, int id, int local) {
  check_domain(domain);
  return answer(skerry_node_rank(runtime().job, id, local));
}
extern "C" int armci_domain_same_id(armci_domain_t domain, int proc) {
  check_domain(domain);
  return skerry_same_node(runtime().job, proc);
}
PROFILED(int, Same_node, (int proc)) {
  need_start("Same_node");
  return skerry_same_node(runtime().job, proc);
}

}  // namespace skerry::armci
