#include <cstdio>
#include <fstream>
#include <sstream>

#include "launcher/describe.hpp"
#include "launcher/job.hpp"
#include "launcher/limits.hpp"
#include "launcher/variables.hpp"

extern char** environ;

namespace skerry::launcher {
namespace {

constexpr int usage_error = 2;

Status read_hostfile(const std::string& path, std::vector<Host>* hosts) {
  std::ifstream file(path);
  if (!file) return error(Code::config, "cannot read the host file \"", path, "\"");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_hostfile(text.str(), hosts);
}

}  // namespace

int run_main(const std::vector<std::string>& words) {
  RunOptions options;
  Placement placement;
  Status status = parse_run_options(words, &options);
  if (status.ok() && options.help) {
    std::fputs(run_help().c_str(), stdout);
    return 0;
  }
  if (status.ok() && !options.hostfile.empty())
    status = read_hostfile(options.hostfile, &options.hosts);
  Config config;
  if (status.ok()) status = read_variables(environ, options.environment, &config);
  if (status.ok()) status = place(&options, own_host_name(), &placement);
  if (status.ok())
    status = options.hosts.empty()
                 ? check_room(options.ranks, room_here())
                 : check_room_for_hosts(static_cast<int>(placement.hosts.size()), room_here());
  if (!status.ok()) {
    std::fprintf(stderr, "skerry run: %s\n", status.message().c_str());
    return usage_error;
  }
  if (const std::string idle = idle_variable(config, placement.nodes); !idle.empty())
    std::fprintf(stderr, "skerry run: %s\n", idle.c_str());
  return Job(std::move(options), std::move(placement)).run();
}

}  // namespace skerry::launcher
