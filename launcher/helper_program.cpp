#include "launcher/helper_program.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "launcher/job.hpp"

namespace skerry::launcher {
namespace {

int missing(const char* name) {
  std::fprintf(stderr,
               "skerry: %s is not installed: it belongs into libexec/skerry beside the directory "
               "of this program\n",
               name);
  return 1;
}

// Becomes that program. Returns only if that fails, with the exit status.
int become(const char* name, const std::vector<std::string>& words) {
  const std::string program = helper_program(name);
  if (program.empty()) return missing(name);
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  std::fprintf(stderr, "skerry: cannot start %s: %s\n", program.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace

std::string helper_program(const std::string& name) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path path = self.parent_path().parent_path() / "libexec" / "skerry" / name;
  return !failed && access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

int plan_main(const std::vector<std::string>& words) { return become("skerry-plan", words); }

int look_main(const std::string& command, const std::vector<std::string>& words) {
  std::vector<std::string> all{command};
  all.insert(all.end(), words.begin(), words.end());
  return become("skerry-look", all);
}

// `skerry info --connections`: the words after that.
int connections_main(const std::vector<std::string>& words) {
  std::string ranks = "24", json;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i + 1 < words.size() && words[i] == "--ranks") {
      ranks = words[++i];
      if (const int n = std::atoi(ranks.c_str()); n < 4 || n > 128) {
        std::fprintf(stderr, "skerry info: --ranks %s: give 4 to 128\n", ranks.c_str());
        return 2;
      }
    } else if (i + 1 < words.size() && words[i] == "--json") {
      json = words[++i];
    } else {
      std::fprintf(
          stderr,
          "skerry info: unknown word %s; it takes --connections [--ranks N] [--json FILE]\n",
          words[i].c_str());
      return 2;
    }
  }
  const std::string program = helper_program("skerry-connections");
  if (program.empty()) return missing("skerry-connections");
  std::vector<std::string> run = {"-n", ranks, "--nodes", ranks, "--timeout", "60", program};
  if (!json.empty()) run.push_back(json);
  return run_main(run);
}

}  // namespace skerry::launcher
