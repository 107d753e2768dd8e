#include "sim/report.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace skerry::sim {

std::string real(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string json_row(const std::string& name, double value, const char* unit) {
  return concat("{\"name\": \"", name, "\", \"value\": ", real(value), ", \"unit\": \"", unit,
                "\", \"simulated\": true, \"limit\": null, \"limit_name\": null, "
                "\"ratio\": null, \"target\": null, \"met\": null}");
}

namespace {

std::string spread(const Spread& s) {
  return concat("{\"mean\": ", real(s.mean), ", \"most\": ", real(s.most), "}");
}

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += concat(text.empty() ? "\n    " : ",\n    ", item);
  return text;
}

}  // namespace

void Report::job(const std::string& name, const TrafficConfig& traffic, const Costs& costs,
                 const Survey& seen) {
  std::printf("costs: %s\n", costs.source.c_str());
  jobs_.push_back(concat(
      "{\"name\": \"", name, "\", \"traffic\": ", traffic.json(), ", \"costs\": ", costs.json(),
      ", \"requests\": ", seen.requests, ", \"partners\": {\"least\": ", seen.partners_least,
      ", \"mean\": ", real(seen.partners_mean), ", \"most\": ", seen.partners_most, "}}"));
}

void Report::heading() const {
  std::printf("%6s %-8s | %9s %9s %7s | %10s %10s %7s | %9s | %9s | %6s %9s | %6s %9s\n", "cap",
              "policy", "set-ups", "teardowns", "/ best", "teardown s", "exposed s", "hidden",
              "set-up s", "time s", "conn.", "MB/rank", "conn.", "MB/server");
}

void Report::add(const std::string& job, const StudyConfig& config, const StudyResult& r,
                 double best, double seconds) {
  const std::string policy = config.cap == 0 ? "none" : config.policy;
  const double ratio = best > 0 ? r.setups.mean / best : 1;
  std::printf(
      "%6s %-8s | %9.1f %9.1f %7.3f | %10.4f %10.4f %6.1f%% | %9.4f | %9.3f | %6.0f %9.3f | %6.0f "
      "%9.3f\n",
      config.cap == 0 ? "-" : std::to_string(config.cap).c_str(), policy.c_str(), r.setups.mean,
      r.teardowns.mean, ratio, r.teardown_s.mean, r.exposed_teardown_s.mean, r.hidden_closes * 100,
      r.setup_s.mean, r.time_s, r.connections.most, r.origin_bytes.most / 1e6,
      r.server_connections.most, r.server_bytes.most / 1e6);
  std::fflush(stdout);
  runs_.push_back(concat(
      "{\"job\": \"", job, "\", \"simulated\": true, \"cap\": ", config.cap, ", \"policy\": \"",
      policy, "\", \"protocol\": \"", to_string(config.protocol), "\", \"requests\": ", r.requests,
      ", \"setups\": ", spread(r.setups), ", \"optimal_setups\": ", real(best),
      ", \"teardowns\": ", spread(r.teardowns), ", \"teardown_s\": ", spread(r.teardown_s),
      ", \"exposed_teardown_s\": ", spread(r.exposed_teardown_s), ", \"hidden_closes\": ",
      real(r.hidden_closes), ", \"setup_s\": ", spread(r.setup_s), ", \"time_s\": ", real(r.time_s),
      ", \"mean_time_s\": ", real(r.mean_time_s), ", \"connections\": ", spread(r.connections),
      ", \"server_connections\": ", spread(r.server_connections), ", \"origin_bytes\": ",
      spread(r.origin_bytes), ", \"server_bytes\": ", spread(r.server_bytes),
      ", \"events\": ", r.events, ", \"simulator_s\": ", real(seconds), "}"));
  const auto row = [&](const char* what, double value, const char* unit) {
    rows_.push_back(
        json_row(concat("sim.", job, ".cap_", config.cap, ".", policy, ".", what), value, unit));
  };
  row("teardowns", r.teardowns.mean, "per rank");
  row("setups_over_optimum", ratio, "ratio");
  row("teardown", r.teardown_s.mean, "s per rank");
  row("exposed_teardown", r.exposed_teardown_s.mean, "s per rank");
  row("time", r.time_s, "s");
  row("connections", r.connections.most, "per rank, most");
}

Status Report::write(const std::string& path) const {
  std::error_code ignored;
  if (const auto parent = std::filesystem::path(path).parent_path(); !parent.empty())
    std::filesystem::create_directories(parent, ignored);
  std::ofstream file(path);
  file << "{\n  \"simulated\": true,\n  \"note\": \"a model, not a measurement: see "
          "docs/simulator.md\",\n  \"jobs\": ["
       << list(jobs_) << "\n  ],\n  \"runs\": [" << list(runs_) << "\n  ],\n  \"rows\": ["
       << list(rows_) << "\n  ]\n}\n";
  file.close();
  if (!file) return error(Code::config, "cannot write ", path);
  return {};
}

}  // namespace skerry::sim
