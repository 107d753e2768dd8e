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
  if (watched_.control.set_abort(member.rank, static_cast<int32_t>(Code::peer_dead), text) &&
      !watched_.bootstrap->launcher_ends_job() && !watched_.failures_return)
    watched_.bootstrap->abort(1, text);
}

// (Ranks that are threads of one process have no ends of their own.)
Status Deaths::watch(Watched watched) {
  watched_ = watched;
  Bootstrap& bootstrap = *watched_.bootstrap;
  if (watched_.failures_return) {
    if (Status status = bootstrap.report_failures(); !status.ok())
      return Status(status.code(),
                    concat("on_failure is SKERRY_FAILURE_RETURNS, but ", bootstrap.name(),
                           " ends the job when a rank dies: ", status.message()));
  }
  if (watched_.server == nullptr) {
    watch_leader();
    return {};
  }
  if (watched_.failures_return) news_fd_ = bootstrap.events_fd();
  if (news_fd_ >= 0)
    watched_.server->call(
        [this] { (void)watched_.server->watch(news_fd_, [this] { take_news(); }); });
  for (int32_t k = 0; k < watched_.map->node_size(watched_.node); ++k)
    watch_member(watched_.control.member(static_cast<uint32_t>(k)));
  return {};
}

void Deaths::watch_member(memory::Member& member) {
  if (member.pid == getpid()) return;
  const int fd = open_process(member.pid);
  if (fd < 0) return;  // an old kernel: the launcher still sees deaths
  processes_.push_back(fd);
  watched_.server->post([this, fd, &member] {
    (void)watched_.server->watch(fd, [this, fd, &member] {
      watched_.server->unwatch(fd);
      note_end(member, concat(" on node ", watched_.node, " ended"));
    });
  });
}

void Deaths::watch_leader() {
  const memory::Member& leader = watched_.control.member(0);
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
      note_end(watched_.control.member(0), concat(", leader of node ", watched_.node, ", ended"));
    close(fd);
  });
}

// The launcher tells of dead ranks, also of other nodes: from then on every wait of this node's
// ranks returns, and none of them hangs. Runs on the server's thread; nobody else uses the
// bootstrap between start and stop.
void Deaths::take_news() {
  std::vector<DeadRank> dead;
  const Status status = watched_.bootstrap->take_events(&dead);
  for (const DeadRank& d : dead) {
    if (watched_.map->node_of(d.rank) == watched_.node)
      watched_.control.member(static_cast<uint32_t>(watched_.map->index_in_node(d.rank)))
          .state.store(static_cast<uint32_t>(memory::MemberState::dead), std::memory_order_release);
    (void)watched_.control.set_abort(d.rank, static_cast<int32_t>(Code::peer_dead),
                                     concat("rank ", d.rank, " ", d.cause));
  }
  if (!status.ok()) {
    watched_.server->unwatch(news_fd_);
    (void)watched_.control.set_abort(no_rank, static_cast<int32_t>(Code::peer_dead),
                                     "the launcher has gone");
  }
}

void Deaths::stop_news() {
  if (news_fd_ >= 0) watched_.server->call([&] { watched_.server->unwatch(news_fd_); });
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
