#include "launcher/variables.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "connection/cap.hpp"
#include "lock/machine.hpp"

namespace skerry::launcher {

Status read_variables(const char* const* environment, std::span<const std::string> given,
                      Config* config) {
  std::map<std::string, std::string, std::less<>> found;  // name: NAME=value
  const auto set = [&](const std::string& entry) {
    found[entry.substr(0, entry.find('='))] = entry;
  };
  for (; *environment != nullptr; ++environment) set(*environment);
  for (const std::string& entry : given)
    if (entry.find('=') != std::string::npos) set(entry);  // otherwise: its value here
  std::vector<const char*> entries;
  for (const auto& [name, entry] : found) entries.push_back(entry.c_str());
  entries.push_back(nullptr);
  SKERRY_TRY(read_config(entries.data(), config));
  SKERRY_TRY(connection::find_policy(config->victim));
  lock::Choice unused;
  return lock::choose(config->lock, &unused);
}

std::string idle_variable(const Config& config, int nodes) {
  if (config.nodes == 0 || config.nodes == nodes) return {};
  return concat("SKERRY_NODES=", config.nodes, " is for other launchers: this job has ", nodes,
                nodes == 1 ? " node" : " nodes", "; give --nodes ", config.nodes);
}

std::string variables_help() {
  std::string text;
  for (const Variable& variable : variables()) {
    std::string left = concat("  ", variable.name, "=", variable.fallback);
    left.resize(std::max<size_t>(left.size() + 1, 32), ' ');
    text += concat(left, variable.meaning,
                   variable.agreement == Agreement::job    ? "; the same on all ranks\n"
                   : variable.agreement == Agreement::node ? "; the same on all ranks of a node\n"
                                                           : "\n");
  }
  return text;
}

}  // namespace skerry::launcher
