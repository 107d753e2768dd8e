// Job: the context that owns everything of one rank. Nothing of it is global, so several ranks may
// be threads of one process.
//
// Start order: bootstrap, host identity; the leader starts the broker and the data servers, then
// makes the node map and the control segment; the engine; the world group. Stop is the reverse,
// with a barrier between "nobody sends any more" and "the server goes".
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "core/config.hpp"
#include "core/futex.hpp"
#include "job/background.hpp"
#include "job/bootstrap/bootstrap.hpp"
#include "job/deaths.hpp"
#include "job/late_servers.hpp"
#include "job/memory_survey.hpp"
#include "job/objects.hpp"
#include "job/panel.hpp"
#include "job/reserve.hpp"
#include "job/servers.hpp"
#include "job/spares.hpp"
#include "job/views.hpp"
#include "memory/node_memory.hpp"
#include "memory/stripes.hpp"
#include "origin/engine/engine.hpp"
#include "placement/node_map.hpp"
#include "placement/plan.hpp"
#include "server/server.hpp"
#include "share/share.hpp"

namespace skerry::job {

enum class ThreadLevel : int32_t { single = 0, serialized = 1, multiple = 2 };

// A lock that a rank has asked for and does not wait for yet, because it may travel with what needs
// it (src/window).
class AskedLock {
 public:
  virtual Status take_asked() = 0;  // it is held on return

 protected:
  ~AskedLock() = default;
};

// In a job that goes on without its dead there is always one that was asked for, and it is never
// taken. So every lock goes the long way, which tells whether its holder before died.
struct LongWay final : AskedLock {
  Status take_asked() override { return {}; }
};

struct JobOptions {
  ThreadLevel thread_level = ThreadLevel::single;
  bool failures_return = false;
  bool goes_on = false;  // without its dead
  Config config;
};

class Job {
 public:
  // Collective. Errors: config, network, no_memory.
  static Status start(std::unique_ptr<Bootstrap> bootstrap, const JobOptions& options,
                      const FabricMaker& make_fabric, std::unique_ptr<Job>* job);
  ~Job();
  // Collective; completes what is outstanding and leaves in order.
  Status stop();

  // A tracer that saw this job just before its end may still write Spans::until_ns: the memory of
  // an ended job is kept, for the next one.
  static void* operator new(size_t bytes, std::align_val_t alignment);
  static void operator delete(void* memory, std::align_val_t alignment);

  Rank rank() const { return rank_; }
  Rank size() const { return map_.ranks(); }
  NodeId node() const { return node_; }
  const placement::NodeMap& map() const { return map_; }
  origin::Engine& engine() { return *engine_; }
  const memory::Control& control() const { return control_; }
  const memory::Stripes& stripes() const { return *stripes_; }
  memory::NodeMemory& node_memory() { return *node_memory_; }
  // The data servers of the node by index; none unless this rank is its leader.
  std::span<const std::unique_ptr<server::Server>> servers() const {
    if (node_servers_ == nullptr) return {};
    return node_servers_->all();
  }
  // How this job's connections are planned.
  const placement::Plan& plan() const { return plan_; }
  // Null unless this rank is the leader of its node.
  NodeServers* node_servers() const { return node_servers_.get(); }
  // Of all ranks but the spares; on a spare, of itself alone.
  Group& world() { return spares_.world() != nullptr ? *spares_.world() : *world_; }
  const JobOptions& options() const { return options_; }
  uint32_t member_index() const { return member_index_; }
  int32_t member_of(Rank rank) const {
    return map_.node_of(rank) == node_ ? map_.index_in_node(rank) : -1;
  }
  uint64_t waiter_bytes() const;  // memory of this node's waiters' records
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
  // More ranks than cores share this rank's machine, as far as it knows.
  bool is_crowded() const { return is_crowded_; }

  Background& background() { return background_; }
  // Of the calling thread: the job whose server it has borrowed; null: none.
  static inline thread_local Job* borrower_of = nullptr;
  // The calling thread is one of ours that waits as the program's do: it does none of its work.
  static inline thread_local bool is_own_thread = false;

  // While no thread waits.
  void while_waiting(origin::WaitingWork work) {
    work_ = work;
    engine_->while_waiting(work);
  }
  // Waits by wait(deadline), which sleeps; wakes up for the work in between, and, if no helper
  // thread does so, to hear what other processes want of this one's connections.
  template <class Wait>
  WaitResult wait_working(int64_t deadline_ns, Wait&& wait) {
    const bool listens = engine_ != nullptr && engine_->needs_looks();
    const bool works = work_.call != nullptr && !is_own_thread;
    if (!works && !listens) return wait(deadline_ns);
    for (int64_t pause_ns = origin::WaitingWork::first_pause_ns;;
         pause_ns = origin::WaitingWork::next_pause_ns(pause_ns)) {
      const int64_t until_ns = deadline_after(pause_ns);
      const bool last = deadline_ns != no_deadline && deadline_ns <= until_ns;
      const WaitResult result = wait(last ? deadline_ns : until_ns);
      if (result != WaitResult::timeout) return result;
      if (listens) engine_->look();
      if (last) return result;
      if (works) work_.call(work_.context);
    }
  }

  // While it lasts, this thread's waits for what other nodes send take the turns of the node's data
  // server (server/server.hpp), if this rank has it. Not around requests to the broker, whose
  // thread that is.
  class Borrowed {
   public:
    explicit Borrowed(Job& job) {
      if (job.lendable_ == nullptr || job.has_cap_) return;
      if (borrower_of != nullptr || !job.lendable_->borrow()) return;
      borrower_of = job_ = &job;
    }
    ~Borrowed() {
      if (job_ != nullptr) job_->give_back_server();
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

   private:
    Job* job_ = nullptr;  // null: there is nothing to give back
  };
  bool has_borrowed() const { return borrower_of == this; }
  // Whether this rank has a cap on connections, or had one: it borrows no server then.
  std::atomic<bool>& has_cap() { return has_cap_; }
  // Of a borrower: see Server::turn.
  void take_turn(int64_t longest_ns) { lendable_->turn(longest_ns); }
  // Before any other sleep. Does nothing if this thread has not borrowed it.
  void give_back_server() {
    if (!has_borrowed()) return;
    borrower_of = nullptr;
    lendable_->give_back();
  }

  Labels& labels() { return labels_; }  // for processes that look from outside

  uint64_t address_secret() const { return address_secret_; }  // of Addresses
  uint64_t machine() const { return machine_; }  // from whose memory it takes (find_host)
  // Nodes that may share a machine.
  bool has_virtual_nodes() const {
    return options_.config.nodes > 0 || bootstrap_->node_hint().has_value();
  }
  // The ranks of this node are charged for memory together.
  bool node_is_one_cgroup() const;
  uint64_t cgroup_hash() const { return control_.member(member_index_).cgroup_hash; }
  // Those that share its cores and memory, of this node and of others. At least 1.
  uint64_t ranks_of_machine() const { return ranks_of_machine_; }
  MemoryRoom& memory_room() { return memory_room_; }
  // What the reserves of all ranks of this machine keep goes back to the system. Errors: peer_dead.
  Status give_back_kept();
  KeptPages& kept_pages() { return kept_pages_; }

  // This rank's counter for ids of segments and groups that it is the lowest member of.
  uint32_t next_generation() { return generation_.fetch_add(1, std::memory_order_relaxed) + 1; }

  Objects& objects() { return objects_; }  // that handles of the program name

  Views views_;  // who lives, in a job that goes on without its dead
  Spares spares_;

  std::atomic<uint32_t> window_locks_{0};  // that this rank holds now, in all windows
  // The lock that this rank has asked for and not taken yet; null: none. Locks are taken in the
  // program's order: it comes before any other that this rank waits for.
  AskedLock* asked_lock_ = nullptr;
  Status take_asked_lock() {
    if (asked_lock_ == nullptr || options_.goes_on) [[likely]]
      return {};
    return std::exchange(asked_lock_, nullptr)->take_asked();
  }

 private:
  Job() = default;
  Status join(const FabricMaker& make_fabric);
  Status find_leader(NodeLayout* layout);
  Status follow_leader();
  Status enter_node();
  Status start_engine(std::unique_ptr<fabric::Fabric> origin_side);
  Status start_leader(const FabricMaker& make_fabric, const fabric::Options& fabric_options,
                      const NodeLayout& layout);
  // Once the node is known; of another node of the same job on this machine.
  memory::Broker::Options broker_options() const { return broker_options(node_); }
  memory::Broker::Options broker_options(NodeId node) const;
  Status attach_control(const memory::ControlSizes& sizes);
  void show_panel();

  JobOptions options_;
  std::unique_ptr<Bootstrap> bootstrap_;
  JobKey key_{};
  Rank rank_ = no_rank;
  NodeId node_ = no_node;
  Rank leader_ = no_rank;
  uint32_t member_index_ = 0;
  std::atomic<uint32_t> generation_{1};  // 1 is the world's
  placement::Plan plan_;     // set by start_engine
  uint64_t address_secret_ = 0;
  uint64_t machine_ = 0;
  uint32_t ranks_of_machine_ = 0;
  std::string fabric_name_;
  std::unique_ptr<NodeServers> node_servers_;  // leader only
  server::Server* lendable_ = nullptr;         // the node's only one; null: none, or not here
  std::atomic<bool> has_cap_{false};           // see has_cap
  std::unique_ptr<memory::NodeMemory> node_memory_;
  memory::Control control_;
  placement::NodeMap map_;
  LateServers late_servers_;
  std::unique_ptr<memory::Stripes> stripes_;
  std::unique_ptr<origin::Engine> engine_;
  Group* world_ = nullptr;
  alignas(64) LocalCounters local_counters_;   // the fast paths look at this line ...
  memory::Spans spans_;                        // ... and at the first word of this one
  std::span<origin::NodeTraffic> traffic_;  // by node; empty: not counted
  Labels labels_;
  Panel panel_;
  MemoryRoom memory_room_;
  Objects objects_;
  KeptPages kept_pages_{objects_};
  origin::WaitingWork work_;  // set by the program
  Background background_{*this};
  IdleCoreSpin idle_core_spin_;
  bool is_crowded_ = false;  // set by join
  const std::atomic<uint32_t>* alive_ = nullptr;  // a page of its own that the kernel wipes on fork
  Deaths deaths_;
  LongWay long_way_;
};

}  // namespace skerry::job
