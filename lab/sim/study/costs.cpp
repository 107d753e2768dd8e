#include "sim/study/costs.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace skerry::sim {
namespace {

struct Field {
  const char* name;
  int64_t Costs::*integer;
};
constexpr Field fields[] = {
    {"latency_ns", &Costs::latency_ns},
    {"request_ns", &Costs::request_ns},
    {"reply_ns", &Costs::reply_ns},
    {"service_ns", &Costs::service_ns},
    {"choose_ns", &Costs::choose_ns},
    {"connect_ns", &Costs::connect_ns},
    {"accept_ns", &Costs::accept_ns},
    {"ready_ns", &Costs::ready_ns},
    {"bye_ns", &Costs::bye_ns},
    {"bye_service_ns", &Costs::bye_service_ns},
    {"close_ns", &Costs::close_ns},
    {"origin_connection_bytes", &Costs::origin_connection_bytes},
    {"server_connection_bytes", &Costs::server_connection_bytes},
    {"origin_link_bytes", &Costs::origin_link_bytes},
    {"server_session_bytes", &Costs::server_session_bytes},
    {"cpu_atomic_ns", &Costs::cpu_atomic_ns},
    {"cpu_transfer_ns", &Costs::cpu_transfer_ns},
    {"adapter_ns", &Costs::adapter_ns},
    {"wake_ns", &Costs::wake_ns},
};

// The values of one flat JSON object: "name": number, true, false or "text". Enough for a file of
// our own.
Status parse_flat(const std::string& text, std::vector<std::pair<std::string, std::string>>* out) {
  size_t at = 0;
  const auto skip = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' ||
                                text[at] == '\r' || text[at] == ',' || text[at] == ':'))
      ++at;
  };
  const auto string = [&]() -> std::string {
    const size_t end = text.find('"', at + 1);
    if (end == std::string::npos) return at = text.size(), std::string();
    std::string value = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return value;
  };
  skip();
  if (at >= text.size() || text[at] != '{')
    return error(Code::config, "costs are one JSON object: {\"latency_ns\": 2000, ...}");
  ++at;
  for (;;) {
    skip();
    if (at < text.size() && text[at] == '}') return {};
    if (at >= text.size() || text[at] != '"')
      return error(Code::config, "costs: a name in quotes is expected at byte ", at);
    const std::string name = string();
    skip();
    if (at < text.size() && text[at] == '"') {
      out->emplace_back(name, string());
      continue;
    }
    const size_t end = text.find_first_of(",}\n \t\r", at);
    if (end == std::string::npos || end == at)
      return error(Code::config, "costs: a value is expected after \"", name, "\"");
    out->emplace_back(name, text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

Costs Costs::infiniband_2010() {
  Costs c;
  c.source =
      "assumed: InfiniBand of 2010, set-up and tear-down of some hundred microseconds, 44 KB a "
      "connection and side";
  return c;
}

Costs Costs::tcp() {
  Costs c;
  c.source =
      "estimated: native tcp between two network namespaces of a 2-core machine; run skerry "
      "calibrate for measured ones";
  c.latency_ns = 2'000;
  c.ns_per_byte = 0.15;
  c.request_ns = 1'000;
  c.reply_ns = 800;
  c.service_ns = 1'000;
  c.choose_ns = 200;
  c.connect_ns = 8'000;
  c.accept_ns = 8'000;
  c.ready_ns = 1'000;
  c.overlapped_setup = false;
  c.bye_ns = 800;
  c.bye_service_ns = 1'500;
  c.close_ns = 1'600;
  c.origin_connection_bytes = 8 * 1024;
  c.server_connection_bytes = 8 * 1024;
  return c;
}

Status Costs::by_name(const std::string& name, Costs* costs) {
  if (name == "tcp") *costs = tcp();
  else if (name == "infiniband-2010") *costs = infiniband_2010();
  else
    return error(Code::config, "no costs \"", name,
                 "\": give tcp, infiniband-2010 or a file that skerry-sim calibrate wrote");
  return {};
}

Status Costs::read(const std::string& path, Costs* costs) {
  std::ifstream file(path);
  if (!file) return error(Code::config, "cannot read the costs ", path);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::pair<std::string, std::string>> values;
  SKERRY_TRY(parse_flat(text.str(), &values));
  std::string base = "tcp";
  for (const auto& [name, value] : values)
    if (name == "base") base = value;
  SKERRY_TRY(by_name(base, costs));
  costs->source = path;
  for (const auto& [name, value] : values) {
    if (name == "base") continue;
    if (name == "source") {
      costs->source = value;
      continue;
    }
    if (name == "overlapped_setup") {
      costs->overlapped_setup = value == "true";
      continue;
    }
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (end == value.c_str() || *end != 0 || number < 0)
      return error(Code::config, path, ": ", name, " is \"", value,
                   "\"; give a number of zero or more");
    if (name == "ns_per_byte") {
      costs->ns_per_byte = number;
      continue;
    }
    bool known = false;
    for (const Field& field : fields)
      if (name == field.name) {
        costs->*field.integer = static_cast<int64_t>(number);
        known = true;
      }
    if (!known && !name.starts_with("note"))
      return error(Code::config, path, ": unknown cost \"", name, "\"; see docs/simulator.md");
  }
  return {};
}

std::string Costs::json() const {
  std::string text = concat("{\"source\": \"", source, "\"");
  for (const Field& field : fields)
    text += concat(", \"", field.name, "\": ", this->*field.integer);
  char number[32];
  std::snprintf(number, sizeof number, "%.4g", ns_per_byte);
  return text + concat(", \"ns_per_byte\": ", number,
                       ", \"overlapped_setup\": ", overlapped_setup ? "true" : "false", "}");
}

}  // namespace skerry::sim
