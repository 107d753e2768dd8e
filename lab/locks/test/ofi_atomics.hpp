// The ofi fabric with the atomics of its provider.
//
// A trial decides whether they are trusted: the fabric connects to itself, adds, compares and
// swaps, and looks at every answer and at memory. libfabric's verbs provider before 2.2.0 takes the
// address of an operand for its value. The trial sees that exactly, and then values are handed over
// as addresses. Anything else that is not right turns atomics off.
#pragma once

#include <string>

#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/test/atomics.hpp"

namespace skerry::fabric::test {

class OfiAtomics final : public ofi::OfiFabric, public HasAtomics {
 public:
  using OfiFabric::OfiFabric;
  // Errors: as make_ofi_fabric. Where there are no atomics, or they fail their trial, it is made
  // without them: see none_because.
  static Status make(const Options& options, const std::string& provider,
                     std::unique_ptr<Fabric>* made);
  SendResult start_atomic(EndpointId endpoint, const AtomicCall& call) override;
  const std::string& none_because() const { return none_because_; }  // empty: they work

 private:
  Status open(const std::string& provider);
  static std::string run_trial(OfiAtomics& origin, OfiAtomics& target, bool* takes_addresses);
  static void make_trial(const Options& options, const std::string& provider, std::string* wrong,
                         bool* as_addresses);

  std::string none_because_;
  bool operands_as_addresses_ = false;
  const uint64_t* last_operand_ = nullptr;  // in a buffer of the pool
};

}  // namespace skerry::fabric::test
