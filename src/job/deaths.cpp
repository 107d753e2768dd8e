#include "job/deaths.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace skerry::job {
namespace {

int open_process(int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

// A process of this node has ended. Before it left, this is the end of the job.
void Deaths::note_end(memory::Member& member, std::string_view how) {
  if (member.state.load(std::memory_order_acquire) !=
      static_cast<uint32_t>(memory::MemberState::joined))
    return;
  member.state.store(static_cast<uint32_t>(memory::MemberState::dead), std::memory_order_release);
  const std::string text = concat("rank ", member.rank, " (process ", member.pid, ")", how,
                                  " without leaving the job");
  if (context_.control.set_abort(member.rank, static_cast<int32_t>(Code::peer_dead), text) &&
      !context_.bootstrap->launcher_ends_job() && !context_.failures_return)
    context_.bootstrap->abort(1, text);
}

// (Ranks that are threads of one process have no ends of their own.)
Status Deaths::watch(Context context) {
  context_ = context;
  Bootstrap& bootstrap = *context_.bootstrap;
  if (context_.failures_return) {
    if (Status status = bootstrap.report_failures(); !status.ok())
      return Status(status.code(),
                    concat("on_failure is SKERRY_FAILURE_RETURNS, but ", bootstrap.name(),
                           " ends the job when a rank dies: ", status.message()));
  }
  if (context_.server == nullptr) {
    watch_leader();
    return {};
  }
  if (context_.failures_return) news_fd_ = bootstrap.events_fd();
  if (news_fd_ >= 0)
    context_.server->call(
        [this] { (void)context_.server->watch(news_fd_, [this] { take_news(); }); });
  for (int32_t k = 0; k < context_.map->node_size(context_.node); ++k)
    watch_member(context_.control.member(static_cast<uint32_t>(k)));
  return {};
}

void Deaths::watch_member(memory::Member& member) {
  if (member.pid == getpid()) return;
  const int fd = open_process(member.pid);
  if (fd < 0) return;  // an old kernel: the launcher still sees deaths
  processes_.push_back(fd);
  context_.server->post([this, fd, &member] {
    (void)context_.server->watch(fd, [this, fd, &member] {
      context_.server->unwatch(fd);
      note_end(member, concat(" on node ", context_.node, " ended"));
    });
  });
}

void Deaths::watch_leader() {
  const memory::Member& leader = context_.control.member(0);
  if (leader.pid == getpid()) return;
  const int fd = open_process(leader.pid);
  if (fd < 0) return;
  stop_watch_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_watch_fd_ < 0) {
    close(fd);
    return;
  }
  leader_watch_ = Thread("skerry-watch", [this, fd] {
    pollfd both[2] = {{fd, POLLIN, 0}, {stop_watch_fd_, POLLIN, 0}};
    while (::poll(both, 2, -1) < 0) {
    }
    if ((both[1].revents & POLLIN) == 0)
      note_end(context_.control.member(0), concat(", leader of node ", context_.node, ", ended"));
    close(fd);
  });
}

// The launcher tells of dead ranks, also of other nodes: from then on every wait of this node's
// ranks returns, and none of them hangs. Runs on the server's thread; nobody else uses the
// bootstrap between start and stop.
void Deaths::take_news() {
  std::vector<DeadRank> dead;
  const Status status = context_.bootstrap->take_events(&dead);
  for (const DeadRank& d : dead) {
    if (context_.map->node_of(d.rank) == context_.node)
      context_.control.member(static_cast<uint32_t>(context_.map->index_in_node(d.rank)))
          .state.store(static_cast<uint32_t>(memory::MemberState::dead), std::memory_order_release);
    (void)context_.control.set_abort(d.rank, static_cast<int32_t>(Code::peer_dead),
                                     concat("rank ", d.rank, " ", d.cause));
  }
  if (!status.ok()) {
    context_.server->unwatch(news_fd_);
    (void)context_.control.set_abort(no_rank, static_cast<int32_t>(Code::peer_dead),
                                     "the launcher has gone");
  }
}

void Deaths::stop_news() {
  if (news_fd_ >= 0) context_.server->call([&] { context_.server->unwatch(news_fd_); });
}

void Deaths::stop() {
  if (stop_watch_fd_ < 0) return;
  const uint64_t one = 1;
  (void)!write(stop_watch_fd_, &one, sizeof one);
  leader_watch_.join();
  close(stop_watch_fd_);
  stop_watch_fd_ = -1;
}

Deaths::~Deaths() {
  stop();
  for (const int fd : processes_) close(fd);
}

}  // namespace skerry::job
