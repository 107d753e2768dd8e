// What a study says: a table on the screen and out/sim.json. Both say that it is simulated, and
// with which parameters.
#pragma once

#include <string>
#include <vector>

#include "core/pure/status.hpp"
#include "sim/study/study.hpp"

namespace skerry::sim {

// Of JSON: a number in six digits, and a row as bench/ writes them (docs/simulator.md), labelled
// simulated.
std::string real(double value);
std::string json_row(const std::string& name, double value, const char* unit);

class Report {
 public:
  void job(const std::string& name, const TrafficConfig& traffic, const Costs& costs,
           const Survey& seen);
  void heading() const;
  void add(const std::string& job, const StudyConfig& config, const StudyResult& result,
           double optimal_setups, double seconds);
  Status write(const std::string& path) const;

 private:
  std::vector<std::string> jobs_;  // JSON objects
  std::vector<std::string> runs_;
  std::vector<std::string> rows_;
};

}  // namespace skerry::sim
