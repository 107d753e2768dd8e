#include "job/views.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/futex.hpp"
#include "job/servers.hpp"
#include "memory/doorbell.hpp"

namespace skerry::job {

Status Views::announce(Bootstrap& bootstrap) {
  const Status status = bootstrap.report_failures(true);
  if (status.ok()) return status;
  return Status(status.code(), concat("on_failure is SKERRY_FAILURE_CONTINUES, but ",
                                      bootstrap.name(), " ends the job when a rank dies: ",
                                      status.message()));
}

Status Views::start(Watched watched) {
  watched_ = std::move(watched);
  if (watched_.bootstrap->size() == 1) return {};  // nobody else can die
  const memory::Member& leader = watched_.control.member(0);
  if (watched_.servers == nullptr) {
    leader_fd_ = static_cast<int>(syscall(SYS_pidfd_open, leader.pid, 0));
    if (leader_fd_ < 0 && errno == ESRCH)
      return error(Code::peer_dead, "the leader of this node, process ", leader.pid, ", has ended");
    if (leader_fd_ < 0)
      return error(Code::unsupported,
                   "on_failure is SKERRY_FAILURE_CONTINUES, but this kernel has no pidfd_open, by "
                   "which a rank sees the end of its node's leader: Linux 5.3 has it");
  }
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) return error(Code::no_memory, "no descriptor for the thread that hears news");
  thread_ = Thread("skerry-views", [this] { run(); });
  return {};
}

void Views::stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(stop_fd_, &one, sizeof one);
    thread_.join();
    // The servers, which do it, are stopped later.
    if (watched_.servers != nullptr) {
      (void)await_burials(no_deadline);
      // A member that has heard of a later death waits for its burial, which is none of ours: this
      // leader has met all for the last time.
      constexpr uint32_t all_that_come = 1U << 30;
      tell_burials(all_that_come);
    }
  }
  for (int* const fd : {&stop_fd_, &leader_fd_})
    if (*fd >= 0) close(std::exchange(*fd, -1));
}

void Views::run() {
  take_news();  // that came during the start
  for (;;) {
    pollfd all[3] = {{stop_fd_, POLLIN, 0}, {watched_.bootstrap->events_fd(), POLLIN, 0},
                     {leader_fd_, POLLIN, 0}};
    const bool launcher_gone = [&] {
      const Lock lock(mutex_);
      return launcher_gone_;
    }();
    if (launcher_gone) all[1].fd = -1;
    if (::poll(all, 3, -1) < 0) continue;
    if (all[0].revents != 0) return;
    // The memory of this node went with its leader, and nobody serves it. The launcher declares all
    // its ranks dead.
    if (all[2].revents != 0) (void)kill(getpid(), SIGKILL);
    if (all[1].revents != 0) take_news();
  }
}

void Views::take_news() {
  News news;
  const Status status = watched_.bootstrap->take_news(&news);
  for (const News::LatePut& put : news.late) watched_.hear_late(put);
  for (const DeadRank& dead : news.dead) take(dead);
  if (news.spares_wait) waiting_spares_.store(*news.spares_wait, std::memory_order_release);
  if (news.leave) leaves_.store(true, std::memory_order_release);
  {
    const Lock lock(mutex_);
    for (News::Met& met : news.met)
      if (const auto asked = meetings_.find(met.key); asked != meetings_.end())
        asked->second = std::move(met);
    for (const News::Decided& decided : news.decided)
      if (const auto asked = decisions_.find(decided.key); asked != decisions_.end())
        asked->second = decided.value;
    if (!status.ok()) launcher_gone_ = true;
    answered_.notify_all();
  }
  if (!status.ok())
    (void)watched_.control.set_abort(no_rank, static_cast<int32_t>(Code::peer_dead),
                                     "the launcher has gone");
}

void Views::take(const DeadRank& dead) {
  const placement::NodeMap& map = *watched_.map;
  const NodeId node = map.node_of(dead.rank);
  const bool leads = map.node_rank(node, 0) == dead.rank;
  const int32_t ranks = map.node_size(node);
  std::vector<Rank> fresh;
  {
    const Lock lock(mutex_);
    if (dead_.try_emplace(dead.rank, dead.cause).second) fresh.push_back(dead.rank);
    for (int32_t k = 1; leads && k < ranks; ++k)
      if (dead_
              .try_emplace(map.node_rank(node, k),
                           concat("ended with rank ", dead.rank, ", which led node ", node,
                                  " and ", dead.cause))
              .second)
        fresh.push_back(map.node_rank(node, k));
    if (fresh.empty()) return;
    deaths_.store(static_cast<uint32_t>(dead_.size()), std::memory_order_release);
  }
  for (const Rank rank : fresh)
    if (map.node_of(rank) == map.node_of(watched_.rank))
      watched_.control.member(static_cast<uint32_t>(map.index_in_node(rank)))
          .state.store(static_cast<uint32_t>(memory::MemberState::dead), std::memory_order_release);
  {
    const Lock lock(mutex_);
    ++burials_;
  }
  if (leads) {
    std::string who = concat("node ", node, " is lost: rank ", dead.rank, ", which led it, ",
                             dead.cause);
    if (ranks > 1) who += concat("; with it ended its other ranks, up to ",
                                 map.node_rank(node, ranks - 1));
    watched_.lose(node, Status(Code::peer_dead, std::move(who)));
  }
  bury(fresh);
  memory::ring_doorbell(
      watched_.control.member(static_cast<uint32_t>(map.index_in_node(watched_.rank))));
}

// On a leader. All servers refuse what the dead have sent before any of their locks goes on: the
// next holder must not meet a late write. This thread waits for none of it. A server may wait for a
// guard whose owner dies meanwhile, and takes it over when the owner's state says so: it is this
// thread that hears of that death.
void Views::bury(const std::vector<Rank>& dead) {
  if (watched_.servers == nullptr) return;
  const auto& all = watched_.servers->all();
  const auto left = std::make_shared<std::atomic<size_t>>(all.size());
  for (const auto& one : all)
    one->post([this, dead, left, server = one.get()] {
      server->bury(dead);
      if (left->fetch_sub(1) == 1)
        watched_.servers->first().post([this, dead] { pass_on_locks(dead); });
    });
}

// On the first server's thread, which may have buried others already that some server has not.
void Views::pass_on_locks(const std::vector<Rank>& dead) {
  buried_.insert(dead.begin(), dead.end());
  watched_.servers->pass_on_locks(buried_);
  tell_burials(1);
}

// To those of this node that await them.
void Views::tell_burials(uint32_t count) {
  std::atomic<uint32_t>& done = watched_.control.header().deaths;
  done.fetch_add(count, std::memory_order_release);
  futex_wake(&done, INT32_MAX);
}

// All ranks hear of deaths in one order, so all count the same burials of their node.
Status Views::await_burials(int64_t until_ns) {
  const uint32_t wanted = [this] {
    const Lock lock(mutex_);
    return burials_;
  }();
  const WaitResult result = wait_until(
      &watched_.control.header().deaths,
      [wanted](uint32_t done) { return static_cast<int32_t>(done - wanted) >= 0; }, until_ns,
      watched_.control.abort_flag());
  return result != WaitResult::timeout
             ? Status()
             : error(Code::timeout, "the data servers of this node still wait for a lock that "
                                    "guards what the dead have left: was a process stopped?");
}

// ---- what others ask ---------------------------------------------------------------------------

bool Views::is_dead(Rank rank) const {
  if (deaths() == 0) return false;
  const Lock lock(mutex_);
  return dead_.contains(rank);
}

std::vector<Rank> Views::dead() const {
  const Lock lock(mutex_);
  std::vector<Rank> ranks;
  for (const auto& [rank, cause] : dead_) ranks.push_back(rank);
  return ranks;
}

std::string Views::cause(Rank rank) const {
  const Lock lock(mutex_);
  const auto found = dead_.find(rank);
  return found == dead_.end() ? std::string() : found->second;
}

Rank Views::first_dead(const std::function<bool(Rank)>& is_member) const {
  const Lock lock(mutex_);
  for (const auto& [rank, cause] : dead_)
    if (is_member(rank)) return rank;
  return no_rank;
}

Status Views::death_of(Rank rank) const {
  return error(Code::peer_dead, "rank ", rank, " ", cause(rank));
}

// ---- meetings and decisions --------------------------------------------------------------------

namespace {

constexpr int64_t ns_per_ms = 1'000'000;

}  // namespace

// In slices: the job may end meanwhile.
Status Views::await(Lock& lock, const std::function<bool()>& answered) {
  while (!answered()) {
    if (launcher_gone_ || watched_.control.is_aborted())
      return error(Code::peer_dead, "the job is ending: ",
                   static_cast<const char*>(watched_.control.header().abort_text));
    answered_.wait_for(lock, wait_slice_ns);
  }
  return {};
}

Status Views::meet(std::string_view key, int64_t timeout_ns,
                   std::span<const Bootstrap::Run> members, std::span<const std::byte> bytes,
                   News::Met* met, int size) {
  SKERRY_TRY(ask(key, timeout_ns, members, bytes, met, size));
  if (!met->missing.empty()) {
    std::string missing;
    for (const int rank : met->missing) missing += concat(missing.empty() ? "" : ", ", rank);
    return error(Code::timeout, "of the ranks that live these have not come within ",
                 timeout_ns / ns_per_ms, " ms: ", missing);
  }
  return {};
}

Status Views::ask(std::string_view key, int64_t timeout_ns,
                  std::span<const Bootstrap::Run> members, std::span<const std::byte> bytes,
                  News::Met* met, int size) {
  *met = {};
  if (!thread_.joinable()) {  // a job of one rank
    met->came.emplace_back(watched_.rank, std::vector<std::byte>(bytes.begin(), bytes.end()));
    return {};
  }
  const int64_t limit_ms = timeout_ns < 0 ? -1 : (timeout_ns + ns_per_ms - 1) / ns_per_ms;
  Lock lock(mutex_);
  const auto asked = meetings_.try_emplace(std::string(key)).first;
  lock.unlock();
  Status status;
  {
    const Lock sending(sending_);
    status = watched_.bootstrap->meet_living(key, limit_ms, members, bytes, size);
  }
  lock.lock();
  if (status.ok()) status = await(lock, [&] { return asked->second.has_value(); });
  if (status.ok()) *met = std::move(*asked->second);
  meetings_.erase(asked);
  return status;
}

// A meeting that nobody but this rank comes to. The launcher tells each rank of deaths and of
// meetings in their order: this one comes after all that others were told before.
Status Views::meet_alone(std::string_view what, std::span<const Bootstrap::Run> members) {
  uint64_t number = 0;
  {
    const Lock lock(mutex_);
    number = ++hearings_;
  }
  News::Met met;
  return ask(concat(what, watched_.rank, ".", number), -1, members, {}, &met, 0);
}

Status Views::hear() {
  const Bootstrap::Run alone{watched_.rank, 1};
  return meet_alone("hear.", {&alone, 1});
}

// The launcher ends a rank that leaves and is wanted at another meeting.
Status Views::await_end_of(Rank leaver) {
  const std::array<Bootstrap::Run, 2> both{{{watched_.rank, 1}, {leaver, 1}}};
  return meet_alone("left.", both);
}

Status Views::decide(std::string_view key, uint8_t* value) {
  if (!thread_.joinable()) return {};
  Lock lock(mutex_);
  const auto asked = decisions_.try_emplace(std::string(key)).first;
  lock.unlock();
  Status status;
  {
    const Lock sending(sending_);
    status = watched_.bootstrap->decide(key, *value);
  }
  lock.lock();
  if (status.ok()) status = await(lock, [&] { return asked->second.has_value(); });
  if (status.ok()) *value = *asked->second;
  decisions_.erase(asked);
  return status;
}

}  // namespace skerry::job
