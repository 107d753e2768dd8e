// What the other machines of a job show, through the agents of `skerry run` (launcher/lookout.hpp).
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "core/futex.hpp"
#include "job/bootstrap/control_protocol.hpp"
#include "launcher/look/commands.hpp"
#include "launcher/look/sample.hpp"
#include "launcher/lookout_name.hpp"

namespace skerry::look {
namespace {

constexpr int64_t answer_patience_ns = 8'000'000'000;

// A connection to the agent that started `rank`: one of its process's ancestors, of the same user.
// None: it was started otherwise.
launcher::UniqueFd agent_of(const RankView& rank) {
  struct stat owner {};
  pid_t pid = rank.process->pid();
  if (stat(concat("/proc/", pid).c_str(), &owner) != 0) return {};
  for (pid = parent_of(pid); pid > 1; pid = parent_of(pid)) {
    sockaddr_un address;
    const socklen_t length = launcher::lookout_address(pid, &address);
    launcher::UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (made && connect(made.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
        getsockopt(made.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == pid &&
        peer.uid == owner.st_uid)
      return made;
  }
  return {};
}

// *all: how many answers there will be.
void take_answer(const job::Frame& frame, uint32_t* all, Sample* sample) {
  job::FrameReader reader(frame);
  (void)reader.u32();
  *all = reader.u32();
  const std::string host(reader.string());
  const auto report = reader.rest();
  if (!reader.ok() || *all == 0) return;
  Sample theirs;
  const Status status = report.empty() ? error(Code::invalid, "it could not look")
                                       : decode(report, &theirs);
  if (!status.ok()) sample->remarks.push_back(concat("host ", host, ": ", status.message()));
  else merge(std::move(theirs), sample);
}

void ask(int agent, Sample* sample) {
  job::FrameBuffer buffer(job::max_link_payload);
  const int64_t end_ns = monotonic_ns() + answer_patience_ns;
  uint32_t all = UINT32_MAX;
  for (uint32_t taken = 0; taken < all;) {
    const int64_t left_ms = (end_ns - monotonic_ns()) / 1'000'000;
    pollfd wait{agent, POLLIN, 0};
    std::byte chunk[64 * 1024];
    const ssize_t got = left_ms > 0 && poll(&wait, 1, static_cast<int>(left_ms)) > 0
                            ? read(agent, chunk, sizeof chunk)
                            : 0;
    if (got <= 0) {
      sample->remarks.emplace_back("not all hosts answered");
      return;
    }
    buffer.append({chunk, static_cast<size_t>(got)});
    std::optional<job::Frame> frame;
    while (buffer.next(&frame).ok() && frame) {
      take_answer(*frame, &all, sample);
      ++taken;
    }
  }
}

}  // namespace

Sample take_whole_sample(const JobView& job) {
  Sample sample = take_sample(job);
  if (static_cast<int32_t>(job.ranks.size()) >= job.all_ranks()) return sample;
  if (const launcher::UniqueFd agent = agent_of(job.ranks.front())) ask(agent.get(), &sample);
  return sample;
}

namespace {

constexpr const char* drain_usage =
    "usage: skerry drain [JOB] HOST\n\n"
    "Takes HOST out of a job of `skerry run --hosts` that goes on without the dead. Its ranks\n"
    "are told (skerry_is_leaving), and leave when what they protect is with others. The command\n"
    "returns at once; the launcher prints when the host has left. Run it on a machine that has a\n"
    "rank of the job.\n";

// *told: what the launcher answers.
bool ask_for_drain(int agent, const std::string& host, std::string* told) {
  const auto asked = job::FrameWriter(job::FrameType::drain).u32(0).string(host).finish();
  if (write(agent, asked.data(), asked.size()) != static_cast<ssize_t>(asked.size())) return false;
  job::FrameBuffer buffer(job::max_link_payload);
  const int64_t end_ns = monotonic_ns() + answer_patience_ns;
  for (;;) {
    const int64_t left_ms = (end_ns - monotonic_ns()) / 1'000'000;
    pollfd wait{agent, POLLIN, 0};
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) <= 0) return false;
    std::byte chunk[64 * 1024];
    const ssize_t got = read(agent, chunk, sizeof chunk);
    if (got <= 0) return false;
    buffer.append({chunk, static_cast<size_t>(got)});
    std::optional<job::Frame> frame;
    while (buffer.next(&frame).ok() && frame) {
      if (frame->type != job::FrameType::drain_told) continue;  // the answers to readers that look
      job::FrameReader reader(*frame);
      (void)reader.u32();
      const auto text = reader.rest();
      told->assign(reinterpret_cast<const char*>(text.data()), text.size());
      return true;
    }
  }
}

}  // namespace

int drain_main(const std::vector<std::string>& words) {
  const bool wants_help = !words.empty() && (words[0] == "--help" || words[0] == "-h");
  if (wants_help || words.empty() || words.size() > 2) {
    std::fputs(drain_usage, wants_help ? stdout : stderr);
    return wants_help ? 0 : 2;
  }
  JobView job;
  if (!open_job("drain", words.size() == 2 ? words[0] : "", &job)) return 1;
  const launcher::UniqueFd agent = agent_of(job.ranks.front());
  std::string told;
  if (!agent || !ask_for_drain(agent.get(), words.back(), &told)) {
    std::fprintf(stderr, "skerry drain: the launcher of this job does not answer\n");
    return 1;
  }
  const bool failed = told.starts_with("cannot");
  std::fprintf(failed ? stderr : stdout, "%s%s\n", failed ? "skerry drain: " : "", told.c_str());
  return failed ? 1 : 0;
}

int report_main(const std::vector<std::string>& words) {
  JobView job;
  if (words.size() != 1 || !find_job(words[0], &job).ok()) return 1;
  const std::vector<std::byte> bytes = encode(take_sample(job));
  return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() ? 0 : 1;
}

}  // namespace skerry::look
