// skerry-sim locks: a hot lock under every protocol, over the number of ranks, the share of remote
// requests and the share of readers.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "locks/machine.hpp"
#include "locks/study/study.hpp"
#include "sim/commands.hpp"
#include "sim/report.hpp"

namespace skerry::sim {
namespace {

using lock::ProtocolKind;
using lock::machine::Domain;

constexpr const char* help_text =
    "usage: skerry-sim locks [options]   one hot lock under each lock protocol\n\n"
    "Three sweeps in each domain: over the number of ranks; over the share of requests from other\n"
    "nodes; over the share of readers. Everything it prints is simulated: docs/simulator.md.\n\n"
    "  --protocols LIST    two_sided,one_sided,migrating,queue,cohort,asymmetric,reader_writer "
    "(all)\n"
    "  --domains LIST      server: the data server performs remote atomics; nic: the adapter "
    "does,\n"
    "                      incoherent with the processor's (server,nic)\n"
    "  --ranks LIST        (1,2,4,8,16,32,64,256,1024,4096,16384,100000)\n"
    "  --per-node N        ranks on a node (16); the first node has the lock\n"
    "  --sweep-ranks N     ranks of the other two sweeps (32)\n"
    "  --remote LIST       percent of the requests, as offered (0,1,2,5,10,20,50,80,90,95,99,100)\n"
    "  --readers LIST      percent of the requests (0,50,80,90,95,99,100)\n"
    "  --hold-ns N         how long the lock is held (1000)\n"
    "  --think-us N        mean, between two acquisitions of a rank (10)\n"
    "  --sweep-think-us N  the same, in the other two sweeps (200)\n"
    "  --migration NAME    of migrating: always, hysteresis, history (always)\n"
    "  --hand-overs N      inside a cohort, in a row (8)\n"
    "  --network-swap B    yes: the adapter exchanges a value in one atomic; no: by a loop (yes)\n"
    "  --acquisitions N    ends a run (at least 20,000 and two for each rank)\n"
    "  --costs NAME|FILE   tcp, infiniband-2010, or a file of skerry-sim calibrate (server: tcp,\n"
    "                      nic: infiniband-2010)\n"
    "  --seed N            (1)\n"
    "  --out FILE          JSON (out/sim-locks.json); lab/locks/study/figure.py draws it\n";

struct Options {
  std::vector<ProtocolKind> protocols;
  std::vector<Domain> domains = {Domain::server, Domain::nic};
  std::vector<uint64_t> ranks = {1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 16384, 100'000};
  std::vector<uint64_t> remote = {0, 1, 2, 5, 10, 20, 50, 80, 90, 95, 99, 100};
  std::vector<uint64_t> readers = {0, 50, 80, 90, 95, 99, 100};
  LockStudyConfig study;
  uint64_t sweep_ranks = 32;
  uint64_t sweep_think_us = 200;
  std::string costs;
  std::string out = "out/sim-locks.json";
  bool help = false;
  Options() { study.lock.network_swap = true; }
};

Status number(const std::string& option, const std::string& text, uint64_t most, uint64_t* out) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || text[0] == '-' || value > most)
    return error(Code::config, option, " ", text, ": give a whole number up to ", most);
  *out = value;
  return {};
}

// Calls take(part) for each part of "a,b,c".
template <class Take>
Status each(const std::string& list, const Take& take) {
  size_t at = 0;
  for (;;) {
    const size_t end = list.find(',', at);
    SKERRY_TRY(take(list.substr(at, end - at)));
    if (end == std::string::npos) return {};
    at = end + 1;
  }
}

Status numbers(const std::string& option, const std::string& list, uint64_t least, uint64_t most,
               std::vector<uint64_t>* out) {
  out->clear();
  return each(list, [&](const std::string& part) -> Status {
    uint64_t value = 0;
    SKERRY_TRY(number(option, part, most, &value));
    if (value < least) return error(Code::config, option, " ", part, ": give at least ", least);
    out->push_back(value);
    return {};
  });
}

Status read_protocols(const std::string& list, std::vector<ProtocolKind>* out) {
  return each(list, [&](const std::string& name) -> Status {
    ProtocolKind kind{};
    if (!lock::from_string(name, &kind))
      return error(Code::config, "no lock protocol \"", name, "\": see skerry-sim locks --help");
    out->push_back(kind);
    return {};
  });
}

Status read_domains(const std::string& list, std::vector<Domain>* out) {
  out->clear();
  return each(list, [&](const std::string& name) -> Status {
    if (name != "server" && name != "nic")
      return error(Code::config, "no domain \"", name, "\": give server or nic");
    out->push_back(name == "nic" ? Domain::nic : Domain::server);
    return {};
  });
}

Status set_number(const std::string& option, const std::string& value, Options* o) {
  uint64_t n = 0;
  const uint64_t most = option == "--seed"         ? UINT64_MAX
                        : option == "--hand-overs" ? 255
                                                   : 1'000'000'000;
  SKERRY_TRY(number(option, value, most, &n));
  if (option == "--per-node" || option == "--sweep-ranks")
    if (n == 0 || n > 1'000'000)
      return error(Code::config, option, " ", value, ": give a number from 1 to 1000000");
  if (option == "--per-node") o->study.per_node = static_cast<uint32_t>(n);
  else if (option == "--sweep-ranks") o->sweep_ranks = n;
  else if (option == "--hold-ns") o->study.hold_ns = static_cast<int64_t>(n);
  else if (option == "--think-us") o->study.think_ns = static_cast<int64_t>(n) * 1000;
  else if (option == "--sweep-think-us") o->sweep_think_us = n;
  else if (option == "--hand-overs") o->study.lock.hand_overs = static_cast<uint8_t>(n);
  else if (option == "--acquisitions") o->study.acquisitions = n;
  else if (option == "--seed") o->study.seed = n;
  else
    return error(Code::config, "unknown option ", option, "; skerry-sim locks --help lists them");
  return {};
}

Status set(const std::string& option, const std::string& value, Options* o) {
  if (option == "--protocols") return read_protocols(value, &o->protocols);
  if (option == "--domains") return read_domains(value, &o->domains);
  if (option == "--ranks") return numbers(option, value, 1, 4'000'000, &o->ranks);
  if (option == "--remote") return numbers(option, value, 0, 100, &o->remote);
  if (option == "--readers") return numbers(option, value, 0, 100, &o->readers);
  if (option == "--migration") {
    if (!lock::machine::from_string(value, &o->study.lock.migration))
      return error(Code::config, "no migration policy \"", value,
                   "\": give always, hysteresis or history");
    return {};
  }
  if (option == "--network-swap") {
    if (value != "yes" && value != "no")
      return error(Code::config, option, " ", value, ": give yes or no");
    o->study.lock.network_swap = value == "yes";
    return {};
  }
  if (option == "--costs") o->costs = value;
  else if (option == "--out") o->out = value;
  else return set_number(option, value, o);
  return {};
}

Status parse(const std::vector<std::string>& words, Options* o) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") {
      o->help = true;
      continue;
    }
    if (i + 1 == words.size())
      return error(Code::config, "option ", words[i], ": unknown, or its value is missing");
    SKERRY_TRY(set(words[i], words[i + 1], o));
    ++i;
  }
  if (o->protocols.empty())
    for (uint8_t kind = 0; kind < lock::protocol_kinds; ++kind)
      o->protocols.push_back(static_cast<ProtocolKind>(kind));
  return {};
}

class Sweeps {
 public:
  explicit Sweeps(const Options& o) : o_(o) {}

  Status domain(Domain domain) {
    Costs costs;
    const std::string name = !o_.costs.empty()       ? o_.costs
                             : domain == Domain::nic ? "infiniband-2010"
                                                     : "tcp";
    if (name == "tcp" || name == "infiniband-2010") SKERRY_TRY(Costs::by_name(name, &costs));
    else SKERRY_TRY(Costs::read(name, &costs));
    domains_ += concat(domains_.empty() ? "" : ", ", "\"", to_string(domain), "\": ", costs.json());
    LockStudyConfig c = o_.study;
    c.costs = costs;
    c.lock.domain = domain;
    heading("ranks", domain, costs);
    for (const uint64_t ranks : o_.ranks) {
      c.ranks = static_cast<uint32_t>(ranks);
      all_protocols("ranks", static_cast<double>(ranks), c);
    }
    c.ranks = static_cast<uint32_t>(o_.sweep_ranks);
    c.think_ns = static_cast<int64_t>(o_.sweep_think_us) * 1000;
    heading("remote", domain, costs);
    for (const uint64_t percent : o_.remote) {
      c.remote_share = static_cast<double>(percent) / 100;
      all_protocols("remote", static_cast<double>(percent), c);
    }
    c.remote_share = -1;
    heading("readers", domain, costs);
    for (const uint64_t percent : o_.readers) {
      c.shared_share = static_cast<double>(percent) / 100;
      all_protocols("readers", static_cast<double>(percent), c);
    }
    return {};
  }

  Status write() const {
    std::error_code ignored;
    if (const auto parent = std::filesystem::path(o_.out).parent_path(); !parent.empty())
      std::filesystem::create_directories(parent, ignored);
    std::ofstream file(o_.out);
    file << "{\n  \"simulated\": true,\n  \"note\": \"a model, not a measurement: see "
            "docs/simulator.md\",\n  \"costs\": {"
         << domains_ << "},\n  \"hold_ns\": " << o_.study.hold_ns
         << ",\n  \"think_ns\": " << o_.study.think_ns << ",\n  \"per_node\": " << o_.study.per_node
         << ",\n  \"sweep_ranks\": " << o_.sweep_ranks
         << ",\n  \"sweep_think_ns\": " << o_.sweep_think_us * 1000 << ",\n  \"migration\": \""
         << to_string(o_.study.lock.migration)
         << "\",\n  \"hand_overs\": " << static_cast<int>(o_.study.lock.hand_overs)
         << ",\n  \"network_swap\": " << (o_.study.lock.network_swap ? "true" : "false")
         << ",\n  \"runs\": [" << runs_ << "\n  ],\n  \"rows\": [" << rows_ << "\n  ]\n}\n";
    file.close();
    if (!file) return error(Code::config, "cannot write ", o_.out);
    return {};
  }

 private:
  static void heading(const char* sweep, Domain domain, const Costs& costs) {
    std::printf("\n%s, over %s (simulated; costs: %s)\n", std::string(to_string(domain)).c_str(),
                sweep, costs.source.c_str());
    std::printf("%9s %-14s | %12s | %11s %12s | %8s %8s | %7s %7s\n", sweep, "protocol",
                "per second", "wait us", "longest us", "remote", "never", "atomics", "messages");
  }

  void all_protocols(const char* sweep, double x, LockStudyConfig c) {
    for (const ProtocolKind protocol : o_.protocols) {
      c.protocol = protocol;
      add(sweep, x, c, run_lock_study(c));
    }
  }

  void add(const char* sweep, double x, const LockStudyConfig& c, const LockStudyResult& r) {
    std::printf("%9.0f %-14s | %12.0f | %11.2f %s%11.1f | %7.1f%% %8llu | %7.2f %7.2f%s\n", x,
                std::string(to_string(c.protocol)).c_str(), r.per_second, r.mean_wait_us,
                r.never_granted != 0 ? ">" : " ", r.longest_wait_us, r.remote_granted * 100,
                static_cast<unsigned long long>(r.never_granted), r.network_atomics, r.messages,
                r.is_complete ? "" : "  (stopped at its most events)");
    std::fflush(stdout);
    const std::string domain(to_string(c.lock.domain));
    runs_ += concat(
        runs_.empty() ? "" : ",", "\n    {\"simulated\": true, \"sweep\": \"", sweep,
        "\", \"x\": ", real(x), ", \"domain\": \"", domain, "\", \"protocol\": \"",
        to_string(c.protocol), "\", \"ranks\": ", c.ranks, ", \"per_second\": ", real(r.per_second),
        ", \"mean_wait_us\": ", real(r.mean_wait_us),
        ", \"longest_wait_us\": ", real(r.longest_wait_us),
        ", \"longest_local_us\": ", real(r.longest_local_us),
        ", \"longest_remote_us\": ", real(r.longest_remote_us),
        ", \"never_granted\": ", r.never_granted, ", \"remote_granted\": ", real(r.remote_granted),
        ", \"network_atomics\": ", real(r.network_atomics), ", \"messages\": ", real(r.messages),
        ", \"holders_most\": ", r.holders_most, ", \"acquisitions\": ", r.acquisitions,
        ", \"time_s\": ", real(r.time_s), ", \"complete\": ", r.is_complete ? "true" : "false",
        "}");
    const auto row = [&](const char* what, double value, const char* unit) {
      rows_ += concat(rows_.empty() ? "" : ",", "\n    ",
                      json_row(concat("sim.locks.", domain, ".", sweep, "_", real(x), ".",
                                      to_string(c.protocol), ".", what),
                               value, unit));
    };
    row("throughput", r.per_second, "acquisitions per s");
    row("longest_wait", r.longest_wait_us, "us");
  }

  const Options& o_;
  std::string domains_, runs_, rows_;  // JSON
};

}  // namespace

int locks_main(const std::vector<std::string>& words) {
  Options o;
  if (Status status = parse(words, &o); !status.ok()) return complain("skerry-sim locks", status);
  if (o.help) return std::fputs(help_text, stdout), 0;
  Sweeps sweeps(o);
  for (const Domain domain : o.domains)
    if (Status status = sweeps.domain(domain); !status.ok())
      return complain("skerry-sim locks", status);
  if (Status status = sweeps.write(); !status.ok()) return complain("skerry-sim locks", status);
  std::printf("\nsimulated; wrote %s\n", o.out.c_str());
  return 0;
}

}  // namespace skerry::sim
