#include "launcher/look/metrics.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/futex.hpp"

namespace skerry::look {
namespace {

constexpr size_t longest_request = 8192;
constexpr int64_t client_patience_ns = 2'000'000'000;  // with a silent client: the next one waits

// One value of all nodes or ranks; `labels(one)`: which of them.
template <class Each, class Labels>
void add(const Value& value, const char* of, const Sample& sample, const std::vector<Each>& all,
         size_t index, Labels&& labels, std::string* text) {
  const std::string name = concat("skerry_", of, "_", value.name, value.only_grows ? "_total" : "");
  *text += concat("# HELP ", name, " ", value.meaning, "\n# TYPE ", name, " ",
                  value.only_grows ? "counter" : "gauge", "\n");
  for (const Each& one : all)
    *text += concat(name, "{job=\"", sample.job, "\",", labels(one), "} ", one.values[index], "\n");
}

// In constant time.
bool same(const std::string& one, const std::string& other) {
  unsigned char differs = one.size() != other.size();
  for (size_t i = 0; i < one.size() && i < other.size(); ++i)
    differs = static_cast<unsigned char>(differs | (one[i] ^ other[i]));
  return differs == 0;
}

std::string response(const char* status, const char* more, const std::string& body) {
  return concat("HTTP/1.1 ", status, "\r\nContent-Type: text/plain; version=0.0.4\r\n",
                "Content-Length: ", body.size(), "\r\nConnection: close\r\n", more, "\r\n", body);
}

bool has_key(const std::string& request, const std::string& key) {
  const std::string wanted = "authorization: bearer ";
  for (size_t at = request.find("\r\n"); at != std::string::npos; at = request.find("\r\n", at)) {
    at += 2;
    const std::string line = request.substr(at, request.find("\r\n", at) - at);
    if (line.size() > wanted.size() &&
        strncasecmp(line.c_str(), wanted.c_str(), wanted.size()) == 0)
      return same(line.substr(wanted.size()), key);
  }
  return false;
}

// Up to the empty line; empty: it is too long, or did not come in time.
std::string read_request(int client) {
  std::string request;
  const int64_t end_ns = monotonic_ns() + client_patience_ns;
  while (request.find("\r\n\r\n") == std::string::npos) {
    pollfd wait{client, POLLIN, 0};
    char chunk[1024];
    const int64_t left_ms = (end_ns - monotonic_ns()) / 1'000'000;
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) <= 0) return "";
    const ssize_t got = read(client, chunk, sizeof chunk);
    if (got <= 0 || request.size() + static_cast<size_t>(got) > longest_request) return "";
    request.append(chunk, static_cast<size_t>(got));
  }
  return request;
}

void write_all(int client, const std::string& text) {
  const int64_t end_ns = monotonic_ns() + client_patience_ns;
  for (size_t sent = 0; sent < text.size() && monotonic_ns() < end_ns;) {
    pollfd wait{client, POLLOUT, 0};
    if (poll(&wait, 1, static_cast<int>(client_patience_ns / 1'000'000)) <= 0) return;
    const ssize_t put = send(client, text.data() + sent, text.size() - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return;
    if (put > 0) sent += static_cast<size_t>(put);
  }
}

Status listen_at(const std::string& place, launcher::UniqueFd* listener) {
  const size_t colon = place.rfind(':');
  const std::string host = colon == std::string::npos ? "127.0.0.1" : place.substr(0, colon);
  const std::string port = colon == std::string::npos ? place : place.substr(colon + 1);
  char* end = nullptr;
  const long number = std::strtol(port.c_str(), &end, 10);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (port.empty() || *end != 0 || number < 1 || number > 65535 ||
      inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    return error(Code::invalid, "--metrics ", place,
                 ": give PORT or ADDRESS:PORT, such as 9400 or 10.0.0.1:9400");
  address.sin_port = htons(static_cast<uint16_t>(number));
  launcher::UniqueFd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  (void)setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!made || bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(made.get(), 16) != 0)
    return error(Code::invalid, "--metrics ", place, ": ", std::strerror(errno));
  *listener = std::move(made);
  return {};
}

}  // namespace

std::string prometheus_text(const Sample& sample) {
  std::string text;
  for (size_t i = 0; i < node_values; ++i)
    add(
        node_value[i], "node", sample, sample.nodes, i,
        [](const NodeSample& node) { return concat("node=\"", node.node, "\""); }, &text);
  for (size_t i = 0; i < rank_values; ++i)
    add(
        rank_value[i], "rank", sample, sample.ranks, i,
        [](const RankSample& rank) {
          return concat("node=\"", rank.node, "\",rank=\"", rank.rank, "\"");
        },
        &text);
  return text;
}

std::string metrics_key(const JobView& job) {
  const auto& key = job.ranks.front().panel.metrics_key;
  return {key.begin(), key.end()};
}

Status serve_metrics(const std::string& place, const std::string& name) {
  JobView job;
  SKERRY_TRY(find_job(name, &job));
  launcher::UniqueFd listener;
  SKERRY_TRY(listen_at(place, &listener));
  const std::string key = metrics_key(job);
  std::printf("job %s at %s/metrics; its key: skerry top %s --key\n", name.c_str(), place.c_str(),
              name.c_str());
  std::fflush(stdout);
  constexpr int look_every_ms = 1000;
  for (;;) {
    pollfd wait{listener.get(), POLLIN, 0};
    if (poll(&wait, 1, look_every_ms) <= 0) {
      if (!find_job(name, &job).ok()) return {};
      continue;
    }
    const launcher::UniqueFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) continue;
    const std::string request = read_request(client.get());
    if (request.empty()) continue;
    if (!has_key(request, key)) {
      write_all(client.get(), response("401 Unauthorized", "WWW-Authenticate: Bearer\r\n",
                                       "the job's key is needed: skerry top JOB --key\n"));
    } else if (request.rfind("GET /metrics ", 0) != 0) {
      write_all(client.get(), response("404 Not Found", "", "there is /metrics\n"));
    } else if (!find_job(name, &job).ok()) {
      return {};
    } else {
      write_all(client.get(), response("200 OK", "", prometheus_text(take_whole_sample(job))));
    }
  }
}

}  // namespace skerry::look
