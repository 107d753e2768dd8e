// A job of one rank: nobody started us.
#pragma once

#include <map>
#include <string>

#include "job/bootstrap/bootstrap.hpp"

namespace skerry::job {

class AloneBootstrap final : public Bootstrap {
 public:
  std::string_view name() const override { return "alone"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::optional<int> node_hint() const override { return 0; }
  bool launcher_ends_job() const override { return false; }

  Status put(std::string_view key, std::span<const std::byte> value) override;
  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override;
  Status fence() override { return {}; }
  Status finish() override { return {}; }
  [[noreturn]] void abort(int exit_status, std::string_view message) override;
  Status report_failures() override { return {}; }  // no other rank could die

 private:
  std::map<std::string, std::vector<std::byte>, std::less<>> values_;
};

}  // namespace skerry::job
