#include "launcher/info.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/config.hpp"
#include "core/pure/status.hpp"
#include "fabric/survey.hpp"
#include "launcher/describe.hpp"
#include "launcher/helper_program.hpp"
#include "launcher/variables.hpp"

namespace skerry::launcher {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string size_text(uint64_t bytes) {
  char text[64];
  const auto value = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) {
    std::snprintf(text, sizeof text, "%.1f GiB", value / (1 << 30));
  } else if (bytes >= 1 << 20) {
    std::snprintf(text, sizeof text, "%.1f MiB", value / (1 << 20));
  } else {
    std::snprintf(text, sizeof text, "%.0f KiB", value / (1 << 10));
  }
  return text;
}

// "[always] madvise never" -> "always"
std::string chosen(const std::string& line) {
  const size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos
             ? line
             : line.substr(begin + 1, end - begin - 1);
}

void add_host(std::vector<Fact>* facts) {
  utsname names{};
  (void)uname(&names);
  facts->push_back({"host", "name", own_host_name()});
  facts->push_back(
      {"host", "kernel", concat(names.sysname, " ", names.release, " ", names.machine)});
}

void add_cores(std::vector<Fact>* facts) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    facts->push_back(
        {"cores", "usable",
         concat(CPU_COUNT(&allowed), " of ", sysconf(_SC_NPROCESSORS_ONLN), " online")});
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    facts->push_back({"cores", "model", line.substr(line.find(':') + 2)});
    break;
  }
  facts->push_back({"cores", "data servers of a node",
                    concat("1; with SKERRY_SERVERS=auto ", servers_for_machine())});
  facts->push_back({"cores", "NUMA nodes", first_line("/sys/devices/system/node/online")});
}

void add_memory(std::vector<Fact>* facts) {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kib = 0;
    words >> name >> kib;
    if (name == "MemTotal:") facts->push_back({"memory", "total", size_text(kib << 10)});
    if (name == "MemAvailable:") facts->push_back({"memory", "available", size_text(kib << 10)});
    if (name == "Hugepagesize:") facts->push_back({"huge pages", "size", size_text(kib << 10)});
    if (name == "HugePages_Total:" && kib > 0)
      facts->push_back({"huge pages", "reserved", std::to_string(kib)});
  }
}

// Every enclosing cgroup's limit counts, not only the innermost one's.
void add_cgroups(std::vector<Fact>* facts) {
  std::ifstream list("/proc/self/cgroup");
  for (std::string line; std::getline(list, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers != "memory") continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string path = line.substr(second + 1);
    while (true) {
      const std::string here = root + (path == "/" ? "" : path);
      const std::string limit = first_line(here + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
      const uint64_t bytes = std::strtoull(limit.c_str(), nullptr, 10);
      // v1 writes "no limit" as a number close to 2^63.
      if (bytes > 0 && bytes < uint64_t{1} << 60) {
        facts->push_back({"cgroup", concat("memory limit (", v2 ? "v2" : "v1", ")"),
                          concat(size_text(bytes), " at ", path)});
      }
      const std::string quota = v2 ? first_line(here + "/cpu.max") : "";
      if (!quota.empty() && quota.rfind("max", 0) != 0)
        facts->push_back({"cgroup", "cpu quota", concat(quota, " at ", path)});
      if (path.empty() || path == "/") break;
      path = path.substr(0, path.rfind('/'));
      if (path.empty()) path = "/";
    }
  }
  if (std::none_of(facts->begin(), facts->end(),
                   [](const Fact& fact) { return fact.section == "cgroup"; })) {
    facts->push_back({"cgroup", "limits", "none"});
  }
}

void add_huge_pages(std::vector<Fact>* facts) {
  const std::string base = "/sys/kernel/mm/transparent_hugepage/";
  for (const auto* file : {"enabled", "shmem_enabled", "defrag"}) {
    const std::string value = chosen(first_line(base + file));
    if (!value.empty()) facts->push_back({"huge pages", concat("transparent, ", file), value});
  }
  facts->push_back({"huge pages", "page tables",
                    "2 MiB per GiB and process with 4 KiB pages, 4 KiB with 2 MiB pages"});
}

void add_interfaces(std::vector<Fact>* facts) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || !(one->ifa_flags & IFF_UP)) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    const std::string speed = first_line(concat("/sys/class/net/", one->ifa_name, "/speed"));
    const bool known = !speed.empty() && speed[0] != '-';
    facts->push_back(
        {"network", one->ifa_name, concat(text, known ? concat(", ", speed, " Mbit/s") : "")});
  }
  freeifaddrs(list);
}

// In a process of its own: a provider that nobody has tried may crash or hang in a trial of its
// atomics: *died. False: that, or there is nothing to tell.
bool survey_apart(const fabric::Options& options, std::vector<fabric::ProviderFacts>* providers,
                  bool* died) {
  constexpr int longest_ms = 30'000;  // without a word
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    std::vector<fabric::ProviderFacts> found;
    std::string text;
    if (!fabric::survey_ofi(options, &found).ok()) _exit(1);
    for (const fabric::ProviderFacts& one : found)
      text += concat(one.provider, '\t', one.offers, '\t', one.why_not, '\n');
    const auto written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return false;
  }
  std::string text;
  char part[4096];
  for (ssize_t n = 1; n > 0;) {
    pollfd one{ends[0], POLLIN, 0};
    n = poll(&one, 1, longest_ms) > 0 ? read(ends[0], part, sizeof part) : -1;
    if (n > 0) text.append(part, static_cast<size_t>(n));
    else if (n < 0) kill(child, SIGKILL);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  *died = !WIFEXITED(status);
  if (*died || WEXITSTATUS(status) != 0) return false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    fabric::ProviderFacts& one = providers->emplace_back();
    std::getline(words, one.provider, '\t');
    std::getline(words, one.offers, '\t');
    std::getline(words, one.why_not, '\t');
  }
  return true;
}

void add_fabrics(std::vector<Fact>* facts) {
  facts->push_back({"fabrics", "tcp", "built in"});
  void* library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    facts->push_back({"fabrics", "ofi", "no (libfabric.so.1 is not installed)"});
    return;
  }
  using Version = uint32_t (*)();
  const auto version = reinterpret_cast<Version>(dlsym(library, "fi_version"));
  const uint32_t number = version != nullptr ? version() : 0;
  facts->push_back({"fabrics", "ofi", concat("libfabric ", number >> 16, ".", number & 0xffff)});
  std::vector<fabric::ProviderFacts> providers;
  fabric::Options options;
  options.loopback_only = true;  // looks at all interfaces
  options.atomics = fabric::Options::Atomics::any;
  Status status;
  bool died = false;
  if (!survey_apart(options, &providers, &died)) {
    if (died)
      facts->push_back({"fabrics", "atomics", "not known (a provider did not survive the trial)"});
    options.atomics = fabric::Options::Atomics::none;
    status = fabric::survey_ofi(options, &providers);
  }
  if (!status.ok()) facts->push_back({"fabrics", "ofi", concat("no (", status.message(), ")")});
  bool is_first = true;  // SKERRY_FABRIC=ofi takes it
  for (const fabric::ProviderFacts& one : providers) {
    const bool has_some = !one.offers.empty();
    facts->push_back({"fabrics", concat("ofi:", one.provider),
                      concat(has_some && is_first ? "taken by ofi: " : "",
                             has_some ? one.offers : concat("no (", one.why_not, ")"))});
    is_first = is_first && !has_some;
  }
  std::error_code problem;
  std::string devices;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", problem)) {
    devices += concat(devices.empty() ? "" : ", ", device.path().filename().string());
  }
  facts->push_back({"fabrics", "RDMA devices", devices.empty() ? "none" : devices});
  // Not closed: its providers do not bear that, and we end at once.
}

}  // namespace

std::vector<Fact> machine_facts() {
  std::vector<Fact> facts;
  add_host(&facts);
  add_cores(&facts);
  add_memory(&facts);
  add_cgroups(&facts);
  add_huge_pages(&facts);
  add_interfaces(&facts);
  add_fabrics(&facts);
  std::vector<std::string> order;
  for (const auto& fact : facts) {
    if (std::find(order.begin(), order.end(), fact.section) == order.end())
      order.push_back(fact.section);
  }
  const auto place = [&](const Fact& fact) {
    return std::find(order.begin(), order.end(), fact.section) - order.begin();
  };
  std::stable_sort(facts.begin(), facts.end(),
                   [&](const Fact& a, const Fact& b) { return place(a) < place(b); });
  return facts;
}

int info_main(const std::vector<std::string>& words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::fputs(
        "usage: skerry info [--variables | --connections [--ranks N] [--json FILE] |\n"
        "                    --nodes N --per-node P [--budget 64M] ... [--json FILE]]\n\n"
        "What this machine offers to a job.\n\n"
        "  --nodes N      instead: what a job on N nodes would cost each of them in connections "
        "and\n"
        "                 memory; it starts nothing (skerry info --nodes --help)\n"
        "  --connections  instead: the bytes that a connection and an idle remote node take at\n"
        "                 either end, measured on a job of N ranks on as many virtual nodes (24)\n"
        "  --variables    instead: the SKERRY_* variables, with their defaults\n\n"
        "What a job did, and whom it refused for which reason: skerry run --counters.\n",
        stdout);
    return 0;
  }
  if (std::ranges::find(words, "--nodes") != words.end()) return plan_main(words);
  if (!words.empty() && words[0] == "--connections")
    return connections_main({words.begin() + 1, words.end()});
  if (!words.empty() && words[0] == "--variables")
    return std::fputs(variables_help().c_str(), stdout), 0;
  if (!words.empty() && words[0] == "--per-node")
    return std::fputs("skerry info: --per-node needs --nodes N as well\n", stderr), 2;
  if (!words.empty()) {
    std::fprintf(stderr,
                 "skerry info takes --variables, --connections, --nodes N or nothing, not \"%s\" "
                 "(skerry info --help)\n",
                 words[0].c_str());
    return 2;
  }
  std::string section;
  for (const auto& fact : machine_facts()) {
    if (fact.section != section) std::printf("%s\n", fact.section.c_str());
    section = fact.section;
    std::printf("  %-22s %s\n", fact.name.c_str(), fact.value.c_str());
  }
  return 0;
}

}  // namespace skerry::launcher
