#include "job/bootstrap/bootstrap.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "job/bootstrap/exchange.hpp"
#include "job/bootstrap/run_client.hpp"

namespace skerry::job {

Status nothing_put(int rank, std::string_view key) {
  return error(Code::network, "rank ", rank, " has put no bootstrap value \"", key, "\"");
}

Status Bootstrap::get_runs(std::span<const int> ranks, std::string_view key, const EachRun& each) {
  std::vector<std::byte> value;
  const int count = ranks.empty() ? size() - late().ranks : static_cast<int>(ranks.size());
  for (int i = 0; i < count; ++i) {
    const int rank = ranks.empty() ? i : ranks[static_cast<size_t>(i)];
    SKERRY_TRY(get(rank, key, &value));
    SKERRY_TRY(each(rank, 1, value));
  }
  return {};
}

Status Bootstrap::lowest_with(std::string_view key, std::span<const std::byte> value, int* lowest) {
  std::vector<std::byte> theirs;
  for (*lowest = 0; *lowest < rank(); ++*lowest) {
    SKERRY_TRY(get(*lowest, key, &theirs));
    if (std::ranges::equal(theirs, value)) break;
  }
  return {};
}

Status Bootstrap::report_failures(bool) {
  return error(Code::unsupported, "the launcher (", name(),
               ") ends the job when a rank dies; start it with `skerry run` to be told instead");
}

Status Bootstrap::take_events(std::vector<DeadRank>* dead) {
  dead->clear();
  return {};
}

Status Bootstrap::meet_living(std::string_view, int64_t, std::span<const Run>,
                              std::span<const std::byte>, int) {
  return report_failures(true);  // the same error
}

Status Bootstrap::decide(std::string_view, uint8_t) { return report_failures(true); }

Status Bootstrap::take_news(News* news) {
  *news = {};
  return {};
}

Status discover(std::unique_ptr<Bootstrap>* bootstrap) {
  if (const char* text = std::getenv("SKERRY_CONTROL_FD")) {
    int fd = -1;
    const char* end = text + std::strlen(text);
    if (const auto [stop, problem] = std::from_chars(text, end, fd);
        problem != std::errc() || stop != end || fd < 0) {
      return error(Code::config, "SKERRY_CONTROL_FD=\"", text,
                   "\" is not a descriptor number; only `skerry run` sets it");
    }
    return RunBootstrap::connect(fd, bootstrap);
  }
  for (const auto join : {join_mpi, join_pmix, join_pmi1}) {
    SKERRY_TRY(join(bootstrap));
    if (*bootstrap) return {};
  }
  *bootstrap = make_alone();
  return {};
}

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += digits[static_cast<unsigned>(b) >> 4];
    out += digits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

Status draw_job_key(JobKey* key) {
  // So few come whole, and no signal interrupts it once the kernel has any.
  if (getrandom(key->data(), key->size(), 0) != static_cast<ssize_t>(key->size()))
    return error(Code::internal, "the kernel gives no random numbers: ", std::strerror(errno));
  return {};
}

Status job_key(Bootstrap& bootstrap, JobKey* key) {
  if (const auto given = bootstrap.launcher_key()) {
    *key = *given;
    return {};
  }
  constexpr std::string_view name = "skerry/job-key";
  JobKey drawn{};
  if (bootstrap.rank() == 0) {
    SKERRY_TRY(draw_job_key(&drawn));
    SKERRY_TRY(bootstrap.put(name, drawn));
  }
  SKERRY_TRY(bootstrap.fence());
  if (bootstrap.rank() != 0) {
    std::vector<std::byte> value;
    SKERRY_TRY(bootstrap.get(0, name, &value));
    if (value.size() != drawn.size()) {
      return error(Code::network, "rank 0's job key has ", value.size(), " bytes instead of ",
                   drawn.size());
    }
    std::memcpy(drawn.data(), value.data(), drawn.size());
  }
  *key = drawn;
  return {};
}

}  // namespace skerry::job
