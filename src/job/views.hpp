// Who lives, in a job that goes on without its dead (on_failure "continue"). The launcher alone
// decides that: each death begins a *view* of the job, and all ranks hear of the views in the same
// order. Here a rank keeps what it has heard, and does what follows from it.
//
// A leader's death is its node's: all ranks of the node count as dead with it. A rank that leads no
// node dies alone, for its memory and its locks stay with the node.
//
// A thread of its own sleeps until the launcher has news. At a death, in this order:
//   1. the rank counts as dead here: collectives of its groups end (survivors.hpp)
//   2. of a lost node: requests to it fail, and nothing of them is sent again (Engine::lose)
//   3. threads that sleep on this rank's doorbell look again
//   4. on a leader: its data servers take no more from the dead, and give their locks to the next;
//      this thread does not wait for them
// Without deaths nothing of this runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/thread.hpp"
#include "job/bootstrap/bootstrap.hpp"
#include "memory/control.hpp"
#include "placement/node_map.hpp"

namespace skerry::job {

class Job;
class NodeServers;

class Views {
 public:
  struct Watched {
    Bootstrap* bootstrap;
    memory::Control control;
    const placement::NodeMap* map;
    Rank rank;
    NodeServers* servers;  // of a leader; null on other ranks
    // Requests to this node fail from now on.
    std::function<void(NodeId node, const Status& why)> lose;
    // A late spare has put this.
    std::function<void(const News::LatePut&)> hear_late{};
  };
  // Before the last fence of the start: after it the job goes on without any rank. Errors:
  // unsupported (a launcher without views).
  static Status announce(Bootstrap& bootstrap);
  // When the bootstrap serves nobody else any more. Errors: unsupported (a kernel without
  // pidfd_open).
  Status start(Watched watched);
  // The bootstrap serves its caller again. Does nothing if it does not run.
  void stop();
  ~Views() { stop(); }

  // How many ranks have died, as far as this one has heard. Any thread.
  uint32_t deaths() const { return deaths_.load(std::memory_order_acquire); }
  // The host of this rank is taken out of the job: its program saves what it has, and ends. Any
  // thread.
  bool leaves() const { return leaves_.load(std::memory_order_acquire); }
  // Spares that wait, in a job to which hosts may be added, as far as this rank has heard. It hears
  // the number before it hears of a meeting that has taken some in. Any thread.
  uint32_t waiting_spares() const { return waiting_spares_.load(std::memory_order_acquire); }
  bool is_dead(Rank rank) const;
  std::vector<Rank> dead() const;  // ascending
  // Why, in words that follow the rank's name; empty if it lives.
  std::string cause(Rank rank) const;
  // The lowest dead rank for which is_member is true; no_rank: none.
  Rank first_dead(const std::function<bool(Rank)>& is_member) const;
  // peer_dead, naming the rank and its end.
  Status death_of(Rank rank) const;

  // Comes to a meeting of those that live: launcher/meetings.hpp. Blocks until it is over. Then
  // this rank has heard of all deaths before it. Errors: timeout (*met names who is missing),
  // peer_dead (the job is ending), network, unsupported.
  Status meet(std::string_view key, int64_t timeout_ns, std::span<const Bootstrap::Run> members,
              std::span<const std::byte> bytes, News::Met* met, int size = 0);
  // Of a rank that has come to leave_meeting, and that this one waits for: it is ended, and when
  // this returns, this rank has heard so. Errors: of a meeting.
  Status await_end_of(Rank leaver);
  // This rank has heard of all deaths that any rank had heard of before. Errors: peer_dead (the job
  // is ending), network.
  Status hear();
  // The servers of this node have buried all of whose death this rank has heard: nothing of those
  // arrives here any more. Errors: timeout. The end of the job ends the wait, too.
  Status await_burials(int64_t until_ns);
  // *value in: what this rank proposes; out: what all get.
  Status decide(std::string_view key, uint8_t* value);

 private:
  void run();
  void take_news();
  void take(const DeadRank& dead);
  void bury(const std::vector<Rank>& dead);
  void pass_on_locks(const std::vector<Rank>& dead);
  void tell_burials(uint32_t count);
  // meet() that answers ok also if somebody is missing. *met names who.
  Status ask(std::string_view key, int64_t timeout_ns, std::span<const Bootstrap::Run> members,
             std::span<const std::byte> bytes, News::Met* met, int size);
  Status meet_alone(std::string_view what, std::span<const Bootstrap::Run> members);
  Status await(Lock& lock, const std::function<bool()>& answered);

  Watched watched_{};
  Thread thread_;
  int stop_fd_ = -1;    // eventfd that ends the thread
  int leader_fd_ = -1;  // pidfd of the own leader; -1: this rank leads
  std::atomic<uint32_t> deaths_{0};
  std::atomic<bool> leaves_{false};
  std::atomic<uint32_t> waiting_spares_{0};
  mutable Mutex mutex_;  // guards what follows
  std::map<Rank, std::string> dead_;
  bool launcher_gone_ = false;
  uint64_t hearings_ = 0;  // so far: each has a name
  uint32_t burials_ = 0;  // that the node's servers do, or have done: as ControlHeader::deaths
  std::unordered_set<Rank> buried_;  // by all servers; the first server's thread's alone
  Condition answered_;
  std::map<std::string, std::optional<News::Met>, std::less<>> meetings_;  // null: no answer yet
  std::map<std::string, std::optional<uint8_t>, std::less<>> decisions_;
  Mutex sending_;  // one question at a time is sent
};

}  // namespace skerry::job
