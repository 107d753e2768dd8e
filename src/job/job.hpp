// Job: the context that owns everything of one rank. There are no process globals, so several ranks
// may be threads of one process.
//
// Start order: bootstrap, host identity, node map; the leader starts the broker and the data
// server; the control segment; the engine; the world group. Stop is the reverse, with a barrier
// between "nobody sends any more" and "the server goes".
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/config.hpp"
#include "core/futex.hpp"
#include "job/bootstrap/bootstrap.hpp"
#include "job/directory.hpp"
#include "job/address_index.hpp"
#include "job/panel.hpp"
#include "job/shelf.hpp"
#include "memory/broker.hpp"
#include "memory/node_memory.hpp"
#include "memory/stripes.hpp"
#include "fabric/hooks/hooks.hpp"
#include "operation/engine.hpp"
#include "placement/node_map.hpp"
#include "placement/plan.hpp"
#include "server/server.hpp"
#include "share/share.hpp"

namespace skerry::job {

class Group;
class Segment;
class Mutexes;

enum class ThreadLevel : int32_t { single = 0, serialized = 1, multiple = 2 };

// A lock that a rank has asked for and does not wait for yet, because it may travel with what needs
// it (src/window).
class AskedLock {
 public:
  virtual Status take_asked() = 0;  // it is held on return

 protected:
  ~AskedLock() = default;
};

struct JobOptions {
  ThreadLevel thread_level = ThreadLevel::single;
  bool failures_return = false;
  Config config;
};

class Job {
 public:
  // Makes the fabric of one side; tests pass their own. Null: by the configuration.
  using FabricMaker = std::function<Status(const fabric::Options&,
                                           std::unique_ptr<fabric::Fabric>*)>;

  // Collective. Errors: config, network, no_memory.
  static Status start(std::unique_ptr<Bootstrap> bootstrap, const JobOptions& options,
                      const FabricMaker& make_fabric, std::unique_ptr<Job>* job);
  ~Job();
  // Collective; completes what is outstanding and leaves in order.
  Status stop();

  Rank rank() const { return rank_; }
  Rank size() const { return map_.ranks(); }
  NodeId node() const { return node_; }
  const placement::NodeMap& map() const { return map_; }
  operation::Engine& engine() { return *engine_; }
  const memory::Control& control() const { return control_; }
  const memory::Stripes& stripes() const { return *stripes_; }
  memory::NodeMemory& node_memory() { return *node_memory_; }
  // The data servers of the node by index; none unless this rank is its leader.
  const std::vector<std::unique_ptr<server::Server>>& servers() const { return servers_; }
  // How this job's connections are planned.
  const placement::Plan& plan() const { return plan_; }
  // Of each of its servers; none unless they forward.
  const std::vector<std::shared_ptr<share::Counters>>& share_counters() const {
    return share_counters_;
  }
  Group& world() { return *world_; }
  const JobOptions& options() const { return options_; }
  uint32_t member_index() const { return member_index_; }
  int32_t member_of(Rank rank) const {
    return map_.node_of(rank) == node_ ? map_.index_in_node(rank) : -1;
  }
  // Memory of this node's waiters' records; of the lists of members of this process's groups; of
  // the tables of live segments on this node. Not while another thread makes or frees any.
  uint64_t waiter_bytes() const;
  uint64_t group_bytes();
  uint64_t segment_table_bytes();
  LocalCounters& local_counters() { return local_counters_; }
  memory::Spans& spans() { return spans_; }
  std::string_view fabric_name() const { return fabric_name_; }

  // False in a forked child, where nothing of the job works.
  bool is_alive() const { return alive_->load(std::memory_order_relaxed) == 1; }
  const std::atomic<uint32_t>* alive_flag() const { return alive_; }
  // The reason of the end if the job is ending, otherwise ok.
  Status check_abort() const;
  // Marks the job as ending with this reason and tells the launcher. Does not return.
  [[noreturn]] void abort(int exit_status, std::string_view reason);

  IdleCoreSpin& idle_core_spin() { return idle_core_spin_; }  // of waits in shared memory

  // While no thread waits.
  void while_waiting(operation::WaitingWork work) {
    work_ = work;
    engine_->while_waiting(work);
  }
  // Waits by wait(deadline), which sleeps; wakes up for the work in between, and, if no helper
  // thread does so, to hear what other processes want of this one's connections.
  template <class Wait>
  WaitResult wait_working(int64_t deadline_ns, Wait&& wait) {
    const bool listens = engine_ != nullptr && engine_->needs_looks();
    if (work_.call == nullptr && !listens) return wait(deadline_ns);
    for (int64_t pause_ns = operation::WaitingWork::first_pause_ns;;
         pause_ns = operation::WaitingWork::next_pause_ns(pause_ns)) {
      const int64_t until_ns = deadline_after(pause_ns);
      const bool last = deadline_ns != no_deadline && deadline_ns <= until_ns;
      const WaitResult result = wait(last ? deadline_ns : until_ns);
      if (result != WaitResult::timeout) return result;
      if (listens) engine_->look();
      if (last) return result;
      if (work_.call != nullptr) work_.call(work_.context);
    }
  }

  // For processes that look from outside: names the own slice of a segment, until that is freed. An
  // empty name takes it away. Errors: invalid (too long).
  Status label(SegmentId segment, std::string_view name, std::string_view text);

  uint64_t address_secret() const { return address_secret_; }  // of Addresses
  // The ranks of this node are charged for memory together.
  bool node_is_one_cgroup() const;

  // This rank's counter for ids of segments and groups that it is the lowest member of.
  uint32_t next_generation() { return ++generation_; }

  // Everything that C handles name lives on a shelf, which recognises the handles of what was
  // freed.
  template <class T>
  T* keep(std::unique_ptr<T> object, Shelf<T>* shelf) {
    const std::lock_guard guard(shelves_mutex_);
    return shelf->keep(std::move(*object));
  }
  template <class T>
  void discard(T* object, Shelf<T>* shelf) {
    const std::lock_guard guard(shelves_mutex_);
    shelf->discard(object);
  }
  // A freed group stays while segments of it live: they know their members by it.
  void discard_if_unused(Group* group);

  std::mutex shelves_mutex_;  // guards the shelves, and which segments are freed
  Shelf<Segment> segments_;
  Shelf<Group> groups_;
  Shelf<Mutexes> mutexes_;
  // Called before the segments go at the end, by owner: memory of the program is among them.
  std::map<const void*, std::function<void()>> before_segments_go_;
  std::atomic<uint32_t> window_locks_{0};  // that this rank holds now, in all windows
  std::shared_ptr<void> windows_;  // what src/window and src/capi keep of this job; null: nothing
  // The lock that this rank has asked for and not taken yet; null: none. Locks are taken in the
  // program's order: it comes before any other that this rank waits for.
  AskedLock* asked_lock_ = nullptr;
  Status take_asked_lock() {
    if (asked_lock_ == nullptr) [[likely]]
      return {};
    return std::exchange(asked_lock_, nullptr)->take_asked();
  }
  AddressIndex address_index_{
      shelves_mutex_,
      [this](Rank rank, std::vector<AddressIndex::Slice>* slices) { list_slices(rank, slices); }};

 private:
  Job() = default;
  Status join(const FabricMaker& make_fabric);
  void list_slices(Rank rank, std::vector<AddressIndex::Slice>* slices);
  Status find_leader(std::vector<NodeId>* rank_node);
  Status follow_leader();
  Status enter_node();
  Status start_engine(std::unique_ptr<fabric::Fabric> origin_side);
  Status start_leader(const FabricMaker& make_fabric, const std::vector<NodeId>& rank_node);
  placement::Settings settings() const;
  share::Guide guide(const placement::Routes& routes, uint32_t lane) const;
  Status forward(share::Guide way, const placement::Budget& budget, uint16_t index,
                 std::unique_ptr<fabric::Fabric>* side);
  uint32_t max_sessions_ = 0;  // leader: of each of its servers; 0: no limit
  uint32_t own_servers_ = 1;   // leader: data servers of this node
  // Of all nodes: a leader knows them from host cards before it starts its own, the others from the
  // node map.
  placement::ServerCounts server_counts_;
  Status start_servers(const FabricMaker& make_fabric, const std::vector<NodeId>& rank_node);
  Status find_servers(const std::vector<NodeId>& rank_node);
  server::Server* first_server() { return servers_.empty() ? nullptr : servers_.front().get(); }
  Status make_server_side(const FabricMaker& make_fabric, const std::vector<NodeId>& rank_node,
                          uint16_t index, std::unique_ptr<fabric::Fabric>* side);
  fabric::FaultPlan faults(int32_t side) const;  // SKERRY_FAULTS, with a seed for this side
  Status attach_control(const memory::ControlSizes& sizes);
  void show_panel();
  Status watch_members();
  void note_end(memory::Member& member, std::string_view how);
  void take_news();
  void stop_leader_watch();

  JobOptions options_;
  std::unique_ptr<Bootstrap> bootstrap_;
  JobKey key_{};
  Rank rank_ = no_rank;
  NodeId node_ = no_node;
  Rank leader_ = no_rank;
  uint32_t member_index_ = 0;
  uint32_t generation_ = 1;  // 1 is the world's
  placement::Plan plan_;     // set by start_engine
  uint64_t address_secret_ = 0;
  std::string fabric_name_;
  std::unique_ptr<memory::Broker> broker_;                   // leader only
  std::vector<std::unique_ptr<NodeDirectory>> directories_;  // leader only: one for each server
  // Leader only. The first one also runs the broker and watches processes.
  std::vector<std::unique_ptr<server::Server>> servers_;
  // Leader only, and only if its servers forward.
  std::vector<std::shared_ptr<share::Counters>> share_counters_;
  std::unique_ptr<memory::NodeMemory> node_memory_;
  memory::Control control_;
  placement::NodeMap map_;
  std::vector<std::byte> map_block_;  // leader, before the control segment exists
  std::unique_ptr<memory::Stripes> stripes_;
  std::unique_ptr<operation::Engine> engine_;
  Group* world_ = nullptr;
  alignas(64) LocalCounters local_counters_;   // the fast paths look at this line ...
  memory::Spans spans_;                        // ... and at the first word of this one
  std::span<operation::NodeTraffic> traffic_;  // by node; empty: not counted
  std::list<Label> labels_;                    // shelves_mutex_
  std::atomic<const Label*> first_label_{nullptr};
  Panel panel_;
  operation::WaitingWork work_;  // set by the program
  IdleCoreSpin idle_core_spin_;
  const std::atomic<uint32_t>* alive_ = nullptr;  // a page of its own that the kernel wipes on fork
  Thread leader_watch_;                           // sleeps until the leader's process ends
  int stop_watch_fd_ = -1;                        // eventfd that ends leader_watch_
  bool stopped_ = false;
};

}  // namespace skerry::job
