#include "launcher/options.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "core/pure/nearest.hpp"
#include "job/bootstrap/bootstrap.hpp"

namespace skerry::launcher {
namespace {

Status parse_number(const std::string& option, const std::string& text, int least, int* value) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stop != end || number < least) {
    return error(Code::config, option, " needs a whole number of at least ", least, ", not \"",
                 text, "\"");
  }
  *value = number;
  return {};
}

struct Option {
  std::vector<std::string> names;
  std::string argument;  // what help calls it; empty: takes none
  std::string help;
  std::function<Status(RunOptions*, const std::string& name, const std::string& text)> apply;
};

Status parse_bind(RunOptions* options, const std::string& name, const std::string& text) {
  if (text != "none" && text != "core")
    return error(Code::config, name, " needs \"none\" or \"core\", not \"", text, "\"");
  options->bind = text == "core" ? Bind::core : Bind::none;
  return {};
}

const std::vector<Option>& all_options() {
  using O = RunOptions;
  using S = const std::string&;
  static const std::vector<Option> options = {
      {{"-n", "-np", "--ranks"},
       "P",
       "start P ranks (with hosts: all their slots by default)",
       [](O* o, S name, S text) { return parse_number(name, text, 1, &o->ranks); }},
      {{"--nodes"},
       "K",
       "split the ranks over K virtual nodes that share no memory",
       [](O* o, S name, S text) { return parse_number(name, text, 1, &o->nodes); }},
      {{"-l", "--prefix"},
       "",
       "put the rank before every line of output: [3] text",
       [](O* o, S, S) { return o->prefix = true, Status(); }},
      {{"--hosts"},
       "A:2,B:2",
       "run on these hosts, so many ranks each (default 1)",
       [](O* o, S, S text) { return parse_hosts(text, &o->hosts); }},
      {{"--hostfile"},
       "FILE",
       "the same from a file, one host a line: A:2 or A slots=2",
       [](O* o, S, S text) { return o->hostfile = text, Status(); }},
      {{"--spares"},
       "K",
       "K more ranks, which wait in skerry_init until they take the place of dead ones",
       [](O* o, S name, S text) { return parse_number(name, text, 1, &o->spares); }},
      {{"--elastic"}, "FILE", "spares without a slot come with hosts that are written to FILE",
       [](O* o, S, S text) { return o->elastic = text, Status(); }},
      {{"--agent"},
       "CMD",
       "how to run a command on a host: CMD HOST COMMAND (default: ssh)",
       [](O* o, S, S text) { return o->agent = text, Status(); }},
      {{"--remote-skerry"},
       "PATH",
       "where this program is on the other hosts (default: same path)",
       [](O* o, S, S text) { return o->remote_program = text, Status(); }},
      {{"--interface"},
       "NAME",
       "network interface (or address) the other hosts connect to",
       [](O* o, S, S text) { return o->interface = text, Status(); }},
      {{"--env"},
       "NAME[=V]",
       "set a variable for all ranks (without =V: its value here)",
       [](O* o, S, S text) { return o->environment.push_back(text), Status(); }},
      {{"--counters"},
       "",
       "at the end print what all ranks did: operations, connections, refusals",
       [](O* o, S, S) { return o->environment.push_back("SKERRY_COUNTERS=1"), Status(); }},
      {{"--timeout"},
       "S",
       "end the job after S seconds",
       [](O* o, S name, S text) { return parse_number(name, text, 1, &o->timeout_s); }},
      {{"--start-timeout"},
       "S",
       "wait S seconds for the other hosts (default 60)",
       [](O* o, S name, S text) { return parse_number(name, text, 1, &o->start_timeout_s); }},
      {{"--lease"},
       "MS",
       "a host silent for MS is lost, if the job goes on (default 5000)",
       [](O* o, S name, S text) { return parse_number(name, text, 100, &o->lease_ms); }},
      {{"--bind"},
       "none|core",
       "bind rank i of a host to its i-th core (default: none)",
       parse_bind},
      {{"-h", "--help"}, "", "show this", [](O* o, S, S) { return o->help = true, Status(); }},
  };
  return options;
}

const Option* find_option(const std::string& name) {
  for (const auto& option : all_options()) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end())
      return &option;
  }
  return nullptr;
}

Status unknown_option(const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& option : all_options())
    known.insert(known.end(), option.names.begin(), option.names.end());
  const std::string_view near = nearest(name, known);
  return error(Code::config, "unknown option ", name,
               near.empty() ? "" : concat("; did you mean ", near, "?"),
               " (`skerry run --help` lists them)");
}

Status add_host(const std::string& name, int slots, std::vector<Host>* hosts) {
  if (name.empty()) return error(Code::config, "a host without a name; write them as a:2,b:2");
  // It becomes an argument of ssh or another program, which must not take it for an option.
  if (name[0] == '-')
    return error(Code::config, "a host's name may not begin with \"-\": \"", name, "\"");
  const auto found = std::find_if(hosts->begin(), hosts->end(),
                                  [&](const Host& host) { return host.name == name; });
  if (found != hosts->end()) {
    found->slots += slots;
  } else {
    hosts->push_back({name, slots});
  }
  return {};
}

// "name" or "name:slots"; an IPv6 address has several colons and stands in brackets if slots
// follow.
Status parse_host(const std::string& text, std::vector<Host>* hosts) {
  std::string name = text;
  int slots = 1;
  const size_t colon = text.rfind(':');
  const size_t bracket = text.rfind(']');
  const bool has_slots = colon != std::string::npos &&
                         (bracket != std::string::npos ? colon > bracket : text.find(':') == colon);
  if (has_slots) {
    SKERRY_TRY(parse_number(concat("host \"", text, "\""), text.substr(colon + 1), 1, &slots));
    name = text.substr(0, colon);
  }
  if (name.size() > 2 && name.front() == '[' && name.back() == ']')
    name = name.substr(1, name.size() - 2);
  return add_host(name, slots, hosts);
}

}  // namespace

Status parse_hosts(const std::string& text, std::vector<Host>* hosts) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) SKERRY_TRY(parse_host(part, hosts));
  if (hosts->empty()) return error(Code::config, "--hosts names no host; write it as a:2,b:2");
  return {};
}

Status parse_host_lines(const std::string& text, std::vector<Host>* hosts) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host, extra;
    if (!(words >> host)) continue;
    if (words >> extra) {
      if (extra.rfind("slots=", 0) != 0) {
        return error(Code::config, "host file line \"", line,
                     "\": expected slots=N after the host, not \"", extra, "\"");
      }
      int slots = 0;
      SKERRY_TRY(parse_number(concat("host file line \"", line, "\""), extra.substr(6), 1, &slots));
      SKERRY_TRY(add_host(host, slots, hosts));
    } else {
      SKERRY_TRY(parse_host(host, hosts));
    }
  }
  return {};
}

Status parse_hostfile(const std::string& text, std::vector<Host>* hosts) {
  SKERRY_TRY(parse_host_lines(text, hosts));
  if (hosts->empty()) return error(Code::config, "the host file names no host");
  return {};
}

Status parse_run_options(std::span<const std::string> words, RunOptions* options) {
  size_t i = 0;
  for (; i < words.size() && words[i].size() > 1 && words[i][0] == '-'; ++i) {
    if (words[i] == "--") {
      ++i;
      break;
    }
    std::string name = words[i];
    std::optional<std::string> text;
    if (const size_t equals = name.find('=');
        equals != std::string::npos && name.rfind("--", 0) == 0) {
      text = name.substr(equals + 1);
      name.resize(equals);
    }
    const Option* option = find_option(name);
    if (option == nullptr && name.size() > 2 && name.rfind("-n", 0) == 0 &&
        name.find_first_not_of("0123456789", 2) == std::string::npos) {  // -n4
      text = name.substr(2);
      option = find_option("-n");
    }
    if (option == nullptr) return unknown_option(name);
    if (option->argument.empty() && text)
      return error(Code::config, name, " takes no value, but got \"", *text, "\"");
    if (!option->argument.empty() && !text) {
      if (++i == words.size())
        return error(Code::config, name, " needs a value: ", name, " ", option->argument);
      text = words[i];
    }
    SKERRY_TRY(option->apply(options, name, text.value_or("")));
    if (options->help) return {};
  }
  options->command.assign(words.begin() + static_cast<ptrdiff_t>(i), words.end());
  if (options->command.empty())
    return error(Code::config, "no program to run: skerry run -n P program arguments...");
  if (!options->elastic.empty() && options->spares == 0)
    return error(Code::config, "--elastic needs --spares K: so many ranks may come with hosts of ",
                 options->elastic);
  if (!options->hosts.empty() && !options->hostfile.empty())
    return error(Code::config, "give either --hosts or --hostfile");
  for (const auto& variable : options->environment) {
    if (variable.empty() || variable[0] == '=')
      return error(Code::config, "--env needs NAME or NAME=VALUE, not \"", variable, "\"");
  }
  return {};
}

std::string run_help() {
  std::string out =
      "usage: skerry run -n P [options] program arguments...\n\n"
      "Starts P processes of one job, on this machine or on several hosts. Each finds SKERRY_RANK "
      "and\n"
      "SKERRY_SIZE in its environment. Standard input goes to rank 0; output and signals are "
      "forwarded.\n"
      "If a rank fails, the others are ended, and the exit status is the failed rank's (128 + "
      "signal).\n\n";
  for (const auto& option : all_options()) {
    std::string left = "  ";
    for (const auto& name : option.names)
      left += concat(&name == &option.names.front() ? "" : ", ", name);
    if (!option.argument.empty()) left += concat(" ", option.argument);
    left.resize(std::max<size_t>(left.size() + 1, 28), ' ');
    out += left + option.help + "\n";
  }
  out +=
      "\nSKERRY_* variables tune the job; `skerry info --variables` lists them. For many nodes and "
      "little\n"
      "memory: SKERRY_SERVER_BUDGET=64M bounds what connections take on a node, and\n"
      "`skerry info --nodes N --per-node P` says beforehand what they would take.\n";
  return out;
}

namespace {

// Late spares make nodes as large as the largest that is there.
Status add_late(int late, Placement* placement) {
  if (late == 0) return {};
  std::map<uint32_t, int> on_node;
  for (const HostRanks& host : placement->hosts)
    for (const PlannedRank& rank : host.ranks) ++on_node[rank.node];
  for (const auto& [node, count] : on_node)
    placement->late_per_node = std::max(placement->late_per_node, count);
  if (late % placement->late_per_node != 0)
    return error(Code::config, late, " spares have no slot, and hosts that are added take whole ",
                 "nodes of ", placement->late_per_node, " ranks, as large as the largest node: ",
                 "give ", late % placement->late_per_node, " spares less");
  placement->late = late;
  placement->ranks += late;
  placement->nodes += late / placement->late_per_node;
  return {};
}

}  // namespace

Status place(RunOptions* options, const std::string& own_name, Placement* placement) {
  *placement = {};
  std::vector<Host> hosts = options->hosts;
  if (hosts.empty()) {
    if (options->ranks == 0)
      return error(Code::config, "how many ranks? skerry run -n P program arguments...");
    hosts.push_back({own_name, options->ranks + (options->elastic.empty() ? options->spares : 0)});
  }
  const int slots = std::accumulate(hosts.begin(), hosts.end(), 0,
                                    [](int sum, const Host& host) { return sum + host.slots; });
  const bool is_elastic = !options->elastic.empty();
  if (options->ranks == 0)
    options->ranks = is_elastic ? slots : std::max(0, slots - options->spares);
  const int regular = options->ranks, all = regular + options->spares;
  const int ranks = is_elastic ? std::clamp(all, regular, std::max(regular, slots)) : all;
  if (regular < 1)
    return error(Code::config, options->spares, " spares, but only ", slots,
                 " slots: no rank would be at work");
  if (ranks > slots) {
    return error(Code::config, ranks, options->spares > 0 ? " ranks with the spares" : " ranks",
                 " but only ", slots, " slots on ", hosts.size(),
                 " hosts; give more ranks to a host as --hosts ", hosts[0].name, ":", ranks);
  }
  if (options->nodes > regular) {
    return error(Code::config, options->nodes, " nodes need at least as many ranks, but there are ",
                 regular, "; use --nodes ", regular, " or fewer");
  }
  // Spares are on nodes of their own, as large as the others.
  const int per_node = options->nodes > 0 ? (regular + options->nodes - 1) / options->nodes : 1;
  const auto node_of = [&](int rank) {
    return rank < regular ? job::block_node(rank, regular, options->nodes)
                          : options->nodes + (rank - regular) / per_node;
  };
  int rank = 0;
  for (const auto& host : hosts) {
    if (rank == ranks) break;
    HostRanks here{host.name, {}};
    const int host_number = static_cast<int>(placement->hosts.size());
    for (int slot = 0; slot < host.slots && rank < ranks; ++slot, ++rank) {
      const int node = options->nodes > 0 ? node_of(rank) : host_number;
      if (!placement->hosts.empty() &&
          static_cast<uint32_t>(node) == placement->hosts.back().ranks.back().node) {
        return error(Code::config, "--nodes ", options->nodes, " would put ranks ", rank - 1,
                     " and ", rank, " of hosts ", placement->hosts.back().host, " and ", host.name,
                     " on one node; leave --nodes out or use a multiple of ", "the hosts");
      }
      here.ranks.push_back({static_cast<uint32_t>(rank), static_cast<uint32_t>(node)});
    }
    placement->hosts.push_back(std::move(here));
  }
  placement->ranks = ranks;
  placement->nodes = options->nodes > 0 ? node_of(ranks - 1) + 1
                                        : static_cast<int>(placement->hosts.size());
  return add_late(all - ranks, placement);
}

}  // namespace skerry::launcher
