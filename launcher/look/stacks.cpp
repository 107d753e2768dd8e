// `skerry stacks`: what each rank waits for, and circles among locks.
#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

#include "core/futex.hpp"
#include "launcher/look/commands.hpp"

namespace skerry::look {
namespace {

constexpr const char* stacks_usage =
    "usage: skerry stacks [JOB] [--json]\n\n"
    "What each rank of a running job waits for, and since when; of a lock, who holds it. A\n"
    "deadlock among locks is named as a circle. Reads the job's memory and asks nothing of it.\n\n"
    "  JOB     its name, or the process of a rank or of `skerry run`; without: the only job of\n"
    "          this user on this machine, or a list of them\n"
    "  --json  the same for programs\n\n"
    "Exit status: 0; 3: there is a circle; 1: no such job; 2: wrong words.\n";

std::vector<Edge> edges_of(const Sample& sample) {
  std::vector<Edge> edges;
  for (const RankSample& rank : sample.ranks) {
    if (!rank.wait || !rank.wait->lock) continue;
    const Holders holders = sample.holders_of(rank.wait->lock);
    if (holders.ranks.size() == 1 && holders.unnamed == 0)
      edges.push_back({{rank.rank, rank.wait->lock, rank.wait->since_ns}, holders.ranks.front()});
  }
  return edges;
}

bool same(const Circle& one, const Circle& other) {
  return std::ranges::equal(one, other, [](const Link& a, const Link& b) {
    return a.rank == b.rank && a.since_ns == b.since_ns;
  });
}

// One that is still there a moment later: the first look was no moment, and locks may have changed
// hands during it.
std::vector<Circle> lasting_circles(const JobView& job, const Sample& sample) {
  std::vector<Circle> found = circles_in(edges_of(sample));
  if (found.empty()) return found;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::vector<Circle> again = circles_in(edges_of(take_whole_sample(job)));
  std::erase_if(found, [&](const Circle& each) {
    return std::ranges::none_of(again, [&](const Circle& other) { return same(each, other); });
  });
  return found;
}

std::string holders_text(const Holders& holders) {
  if (!holders.is_known) return "; its home is on another machine: look there";
  if (holders.ranks.empty() && holders.unnamed == 0) return "; nobody holds it now";
  std::string text = lock::shares(holders.word) ? ", shared by" : ", held by";
  for (const Rank rank : holders.ranks) text += concat(" rank ", rank);
  if (holders.unnamed != 0)
    text += concat(holders.ranks.empty() ? " " : " and ", holders.unnamed, " not named");
  return text;
}

// "rank 1 waits for lock 0 of rank 0, held by rank 2, which waits for ..."
std::string text_of(const Circle& circle) {
  std::string text = concat("rank ", circle.front().rank);
  for (size_t i = 0; i < circle.size(); ++i)
    text += concat(i == 0 ? "" : ", which", " waits for ", name_of(circle[i].lock),
                   " held by rank ", circle[(i + 1) % circle.size()].rank);
  return text;
}

double seconds(int64_t ns) { return static_cast<double>(std::max<int64_t>(ns, 0)) / 1e9; }

void print(const Sample& sample, const std::vector<Circle>& circles) {
  std::printf("job %s: %d rank%s on %d node%s for %.1f s: %s\n", sample.job.c_str(),
              sample.all_ranks, sample.all_ranks == 1 ? "" : "s", sample.all_nodes,
              sample.all_nodes == 1 ? "" : "s", seconds(sample.age_ns), sample.program.c_str());
  for (const RankSample& rank : sample.ranks) {
    std::printf("rank %d (node %d, process %d) ", rank.rank, rank.node, rank.pid);
    if (!rank.wait) {
      std::printf("does not wait\n");
      continue;
    }
    const auto& [since_ns, text, lock] = *rank.wait;
    const std::string what = lock ? name_of(lock) + holders_text(sample.holders_of(lock)) : text;
    std::printf("waits for %.1f s: %s\n", seconds(rank.time_ns - since_ns), what.c_str());
  }
  for (const Circle& circle : circles) std::printf("deadlock: %s\n", text_of(circle).c_str());
  std::fputs(elsewhere(sample, "stacks").c_str(), stdout);
}

std::string json_of(const Sample& sample, const RankSample& rank) {
  std::string out = concat("{\"rank\": ", rank.rank, ", \"node\": ", rank.node,
                           ", \"pid\": ", rank.pid, ", \"waits\": ");
  if (!rank.wait) return out + "null}";
  out += concat("{\"seconds\": ", seconds(rank.time_ns - rank.wait->since_ns),
                ", \"for\": ", quoted(rank.wait->text));
  if (const memory::LockName& lock = rank.wait->lock) {
    const Holders holders = sample.holders_of(lock);
    out += concat(", \"lock\": {\"segment\": [", lock.segment.owner, ", ", lock.segment.generation,
                  "], \"home\": ", lock.rank, ", \"index\": ", lock.index, ", \"holders\": [");
    for (const Rank& each : holders.ranks)
      out += concat(&each == &holders.ranks.front() ? "" : ", ", each);
    out += concat("], \"unnamed_holders\": ", holders.unnamed, "}");
  }
  return out + "}}";
}

void print_json(const Sample& sample, const std::vector<Circle>& circles) {
  std::string out = concat("{\"job\": ", quoted(sample.job), ", \"ranks\": [");
  for (const RankSample& rank : sample.ranks)
    out += concat(&rank == &sample.ranks.front() ? "" : ", ", json_of(sample, rank));
  out += "], \"circles\": [";
  for (const Circle& circle : circles) {
    out += &circle == &circles.front() ? "[" : ", [";
    for (const Link& link : circle) out += concat(&link == &circle.front() ? "" : ", ", link.rank);
    out += "]";
  }
  std::printf("%s]}\n", out.c_str());
}

int list_jobs(const std::vector<JobView>& jobs) {
  for (const JobView& job : jobs)
    std::printf("%s  %d ranks on %d nodes, %zu of them here, for %.0f s: %s\n", job.name.c_str(),
                job.all_ranks(), job.nodes(), job.ranks.size(),
                seconds(monotonic_ns() - job.ranks.front().panel.started_ns),
                job.program().c_str());
  return 0;
}

}  // namespace

std::vector<Circle> circles_in(const std::vector<Edge>& waiting) {
  std::map<Rank, const Edge*> by_rank;
  for (const Edge& edge : waiting) by_rank[edge.waiter.rank] = &edge;
  std::vector<Circle> circles;
  for (const auto& [first, edge] : by_rank) {
    // Each waits for one: from a rank of a circle the way leads back to it.
    Circle way;
    Rank at = first;
    for (auto next = by_rank.find(at); next != by_rank.end() && way.size() <= by_rank.size();
         next = by_rank.find(at)) {
      way.push_back(next->second->waiter);
      at = next->second->holder;
      if (at == first) break;
    }
    const bool is_circle = !way.empty() && at == first;
    const bool from_lowest = std::ranges::all_of(
        way, [first = first](const Link& link) { return link.rank >= first; });
    if (is_circle && from_lowest) circles.push_back(std::move(way));
  }
  return circles;
}

int stacks_main(const std::vector<std::string>& words) {
  Words read;
  int status = 0;
  if (!read_words(words, "stacks", stacks_usage, {"--json"}, {}, &read, &status)) return status;
  if (read.job.empty()) {
    std::vector<std::string> remarks;
    const std::vector<JobView> jobs = find_jobs(&remarks);
    if (jobs.size() > 1) return list_jobs(jobs);
  }
  JobView job;
  if (!open_job("stacks", read.job, &job)) return 1;
  const Sample sample = take_whole_sample(job);
  const std::vector<Circle> circles = lasting_circles(job, sample);
  if (read.has("--json")) print_json(sample, circles);
  else print(sample, circles);
  return circles.empty() ? 0 : 3;
}

}  // namespace skerry::look
