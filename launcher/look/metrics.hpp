// `skerry top --metrics`: a job's values for Prometheus, over HTTP, for those who have the job's
// key.
#pragma once

#include <string>

#include "core/pure/status.hpp"
#include "launcher/look/sample.hpp"

namespace skerry::look {

// All values as Prometheus' text.
std::string prometheus_text(const Sample& sample);

// Serves `job` at "PORT" or "ADDRESS:PORT" (numeric; without an address 127.0.0.1) until the job
// ends. Errors: invalid (no such address, the port is taken).
Status serve_metrics(const std::string& place, const std::string& job);

// The key: 32 hexadecimal digits, equal on all nodes, that only the job's user and root can read.
std::string metrics_key(const JobView& job);

}  // namespace skerry::look
