#include "sim/storm/storm.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <unordered_set>

#include "memory/doorbell.hpp"
#include "sim/storm/program.hpp"
#include "sim/storm/survivor.hpp"

namespace skerry::sim {
namespace {

// A storm in which no program ends an operation for this time hangs: pauses are far shorter, and so
// are the product's own timers.
constexpr int64_t longest_quiet_ns = 10'000'000'000;
constexpr uint64_t most_steps = 2'000'000;

class Storm {
 public:
  explicit Storm(const StormConfig& config)
      : config_(config),
        scheduler_({Random(~config.seed).next(), config.give_way, config.step_ns}),
        network_(std::make_shared<SimulatedNetwork>(config.network)),
        checker_(config_),
        ledger_(config_, checker_),
        news_(config.ranks()),
        began_ns_(scheduler_.now_ns()) {
    for (size_t i = 0; i < key_.size(); ++i) key_[i] = static_cast<std::byte>(i * 7 + 1);
    for (NodeId n = 0; n < static_cast<NodeId>(config.nodes); ++n)
      nodes_.push_back(std::make_unique<Node>(n, config_, checker_.layout()));
    for (Rank r = 0; r < static_cast<Rank>(config.ranks()); ++r) {
      Node& node = *nodes_[static_cast<uint32_t>(r) / config.ranks_per_node];
      ranks_.push_back(std::make_unique<RankProcess>(r, config_, node));
      checker_.attach(r, node.region(r).base);
      checker_.attach_locks(r, &node.mutex(r, 0), lock::waiter_pool(node.control()));
    }
    for (uint32_t t = 0; t < config.all_threads(); ++t) {
      RankProcess& rank = *ranks_[t / config.threads];
      if (config.deaths != 0)
        survivors_.push_back(
            std::make_unique<Survivor>(t, config_, rank, checker_, ledger_));
      else
        programs_.push_back(std::make_unique<Program>(t, config_, rank, checker_, ending_));
    }
  }

  StormResult run() {
    scheduler_.spawn(Process{0}, "job", [this] { job(); });
    // While anything is done the storm goes on.
    for (uint64_t done = ~uint64_t{0}; !ended_ && !checker_.failed() && done != progress();) {
      done = progress();
      scheduler_.run(scheduler_.now_ns() + longest_quiet_ns, most_steps);
    }
    if (!ended_ && !checker_.failed())
      checker_.fail(
          ending_ ? "a rank died, and calls do not return; " : "nothing goes on any more; ",
          describe());
    for (const auto& program : programs_) {
      result_.counts.operations += program->operations();
      result_.counts.at_once += program->at_once();
      result_.counts.contended += program->contended();
    }
    for (const auto& survivor : survivors_) result_.counts.operations += survivor->operations();
    if (checker_.failed()) {
      leave_behind();
    } else if (config_.deaths != 0) {
      finish_living();
    } else if (!ending_) {
      checker_.finish();
    }
    result_.failure = checker_.failure();
    result_.counts.steps = scheduler_.steps();
    result_.simulated_ns = scheduler_.now_ns() - began_ns_;
    result_.counts.cuts = network_->cuts();
    return result_;
  }

 private:
  // Processes: 0 is the storm's own, 1 + r is rank r's. The first rank of a node hosts its server.
  Process process_of(Rank rank) const { return 1 + static_cast<Process>(rank); }
  Process host_of(const Node& node) const {
    return process_of(static_cast<Rank>(static_cast<uint32_t>(node.id()) * config_.ranks_per_node));
  }

  // Runs `body` in each process at once, and waits for those that live.
  void in_all(const char* name, uint32_t count, const std::function<Process(uint32_t)>& where,
              const std::function<void(uint32_t)>& body) {
    std::vector<bool> done(count);
    for (uint32_t i = 0; i < count; ++i) {
      if (scheduler_.is_dead(where(i))) continue;
      scheduler_.spawn(where(i), concat(name, " ", i), [&, i] {
        body(i);
        done[i] = true;
        scheduler_.wake(this);
      });
    }
    const auto all_done = [&] {
      for (uint32_t i = 0; i < count; ++i)
        if (!done[i] && !scheduler_.is_dead(where(i))) return false;
      return true;
    };
    while (!all_done()) (void)scheduler_.wait("the others", this);
    ++phase_;
  }

  void on_each_node(const char* name, const std::function<void(Node&)>& body) {
    in_all(
        name, config_.nodes, [&](uint32_t i) { return host_of(*nodes_[i]); },
        [&](uint32_t i) { body(*nodes_[i]); });
  }
  void on_each_rank(const char* name, const std::function<void(RankProcess&)>& body) {
    in_all(
        name, config_.ranks(), [&](uint32_t i) { return process_of(ranks_[i]->rank()); },
        [&](uint32_t i) { body(*ranks_[i]); });
  }

  void job() {
    on_each_node("start of node", [&](Node& node) { (void)node.start(network_, key_); });
    std::vector<NodeId> rank_node;
    std::vector<std::vector<std::vector<std::byte>>> addresses(config_.nodes);
    for (uint32_t n = 0; n < config_.nodes; ++n) addresses[n] = nodes_[n]->addresses();
    for (uint32_t r = 0; r < config_.ranks(); ++r)
      rank_node.push_back(static_cast<NodeId>(r / config_.ranks_per_node));
    map_ = placement::build_node_map(rank_node, addresses);
    on_each_node("opening of node", [&](Node& node) { node.open(map_); });
    on_each_rank("start of rank", [&](RankProcess& rank) { rank.start(network_, key_); });
    if (config_.fault_interval_ns > 0) schedule_fault();
    else network_->stop_faults();
    if (config_.death)
      scheduler_.at(scheduler_.now_ns() + scheduler_.random().between(1, config_.faults_last_ns),
                    [this] { die(); });
    for (uint32_t i = 0; i < config_.deaths; ++i) schedule_death(i);
    if (config_.stripes_held || config_.guards_held)
      for (const auto& node : nodes_)
        scheduler_.spawn(Process{0}, "holder of stripes", [this, n = node.get()] { hold(*n); });
    if (config_.guards_held && config_.deaths == 0)  // in the name of ranks that live
      for (const auto& node : nodes_)
        scheduler_.spawn(Process{0}, "holder of guards",
                         [this, n = node.get()] { stop_inside_guards(*n); });
    run_programs();
    network_->stop_faults();
    finish();
    ended_ = true;
    scheduler_.stop();
  }

  void run_programs() {
    in_all(
        "program", config_.all_threads(),
        [&](uint32_t i) { return process_of(static_cast<Rank>(i / config_.threads)); },
        [&](uint32_t i) {
          if (config_.deaths != 0) survivors_[i]->run();
          else programs_[i]->run();
        });
    programs_over_ = true;
  }

  void finish() {
    if (checker_.failed()) return;
    wait_for_news();
    if (!ending_)
      on_each_rank("end of rank", [&](RankProcess& rank) {
        if (const Status status = rank.finish();
            !status.ok() && !ending_ &&
            !(status.code() == Code::invalid && config_.refused_percent) &&
            !(status.code() == Code::peer_dead && ledger_.living() < config_.ranks()))
          checker_.fail("rank ", rank.rank(), " does not close: ", status.message());
      });
    if (checker_.failed()) return;
    if (ending_) {  // everybody has been told, or is about to be
      for (const auto& node : nodes_) tell(*node);
      scheduler_.sleep(wait_slice_ns);
    }
    for (const auto& rank : ranks_)
      if (!scheduler_.is_dead(process_of(rank->rank()))) count(*rank);
    on_each_rank("stop of rank", [](RankProcess& rank) { rank.stop(); });
    scheduler_.sleep(1'000'000'000 + 2 * config_.unused_trunk_ns);
    if (const uint64_t ends = network_->open_ends(); ends != 0 && !ending_)
      checker_.fail(ends, " ends of connections are open when all have left");
    for (const auto& node : nodes_)
      if (!scheduler_.is_dead(host_of(*node))) count(*node);
    on_each_node("stop of node", [](Node& node) { node.stop(); });
  }

  void count(RankProcess& rank) {
    const origin::EngineCounters counters = rank.engine().counters();
    result_.counts.resumed += counters.connections_resumed;
    result_.counts.replayed += counters.requests_replayed;
    result_.counts.evictions += counters.connections_evicted;
    result_.counts.dropped += counters.connections_dropped;
  }

  void count(Node& node) {
    for (const auto& server : node.servers()) {
      const server::Server::Counters& counters = server->counters();
      result_.counts.requests += counters.requests.load();
      result_.counts.relayed += counters.grants_relayed.load();
      if (config_.server_cap != 0 && counters.clients_peak.load() > config_.server_cap)
        checker_.fail("a server of node ", node.id(), " had ", counters.clients_peak.load(),
                      " connections; its limit is ", config_.server_cap);
    }
    for (const auto& proxy : node.proxies()) {
      result_.counts.trunks += proxy->trunks_opened.load();
      result_.counts.no_room += proxy->channels_dropped.load();
      result_.counts.forwarded += proxy->messages.load();
      const uint32_t limit = config_.trunk_cap();
      if (limit != 0 && proxy->trunks_peak.load() > limit + 1)
        checker_.fail("a proxy of node ", node.id(), " had ", proxy->trunks_peak.load(),
                      " connections; its limit is ", limit, ", and one that leaves besides");
    }
  }

  // ---- faults ----

  void schedule_fault() {
    const int64_t at_ns = scheduler_.now_ns() +
                          scheduler_.random().between(1, 2 * config_.fault_interval_ns);
    if (at_ns > began_ns_ + config_.faults_last_ns || programs_over_)
      return network_->stop_faults();  // from now on everything must converge
    scheduler_.at(at_ns, [this] {
      fault();
      schedule_fault();
    });
  }

  void fault() {
    Random& random = scheduler_.random();
    const uint32_t dice = random.below(10);
    if (dice < 7) {
      (void)network_->cut_any();
    } else if (dice < 8 || !config_.pauses) {
      network_->replay_hello();
    } else {
      const int64_t longest_ns_here = random.below(4) == 0 ? 300'000'000 : 2'000'000;
      const auto rank = static_cast<Rank>(random.below(config_.ranks()));
      const int64_t until_ns = scheduler_.now_ns() + random.between(0, longest_ns_here);
      const bool is_host = host_of(ranks_[static_cast<size_t>(rank)]->node()) == process_of(rank);
      if (config_.hosts_pause || !is_host) scheduler_.pause(process_of(rank), until_ns);
    }
  }

  // Somebody on the node computes under a stripe, again and again.
  void hold(Node& node) {
    Random random(config_.seed + static_cast<uint64_t>(node.id()));
    while (!programs_over_ && !ending_ &&
           scheduler_.now_ns() < began_ns_ + config_.faults_last_ns) {
      const bool of_locks = config_.at_once_percent != 0 && random.below(2) == 0;
      const auto all = static_cast<uint32_t>(checker_.layout().total_bytes);
      const uint64_t offset = of_locks ? checker_.layout().counted(0) : random.below(all);
      const auto rank = static_cast<Rank>(random.below(config_.ranks()));
      const uint32_t stripe = memory::stripe_index(memory::stripe_seed(data_segment, rank), offset);
      if (node.stripes(0).lock(stripe, memory::Patience::wait) != LockResult::locked) return;
      scheduler_.sleep(random.below(30'000));
      node.stripes(0).unlock(stripe);
      scheduler_.sleep(random.below(60'000));
    }
  }

  // Somebody on the node stops while it changes the queue of a lock, again and again.
  void stop_inside_guards(Node& node) {
    Random random(~config_.seed + static_cast<uint64_t>(node.id()));
    while (!programs_over_ && !ending_ &&
           scheduler_.now_ns() < began_ns_ + config_.faults_last_ns) {
      const auto rank = static_cast<Rank>(static_cast<uint32_t>(node.id()) *
                                              config_.ranks_per_node +
                                          random.below(config_.ranks_per_node));
      OwnerWord& word = node.mutex(rank, random.below(Layout::mutexes)).guard;
      const OwnerWatch watch = node.control().watch();
      if (lock_word(word, node.member_of(rank), watch) != LockResult::locked) return;
      scheduler_.sleep(random.below(30'000));
      unlock_word(word);
      scheduler_.sleep(random.below(30'000));
    }
  }

  // A process ends without leaving the job; the nodes hear of it in their own time, as from a
  // launcher.
  void die() {
    if (programs_over_) return;
    ending_ = true;
    ++result_.counts.deaths;
    const Rank rank = static_cast<Rank>(scheduler_.random().below(config_.ranks()));
    Node& node = ranks_[static_cast<size_t>(rank)]->node();
    const Process process = process_of(rank);
    scheduler_.kill(process);
    ranks_[static_cast<size_t>(rank)]->die();
    if (host_of(node) == process) node.die();
    scheduler_.wake(this);
    node.control()
        .member(node.member_of(rank))
        .state.store(static_cast<uint32_t>(memory::MemberState::dead));
    for (const auto& other : nodes_)
      scheduler_.at(scheduler_.now_ns() + scheduler_.random().between(0, 5'000'000),
                    [this, n = other.get()] { tell(*n); });
  }

  // ---- deaths that the job goes on without: as the launcher and job/views.cpp do ----

  void schedule_death(uint32_t number) {
    Random& random = scheduler_.random();
    const bool at_once = number != 0 && random.below(3) == 0;
    if (!at_once)
      next_death_ns_ = scheduler_.now_ns() + random.between(1, config_.faults_last_ns);
    scheduler_.at(next_death_ns_, [this] { lose_somebody(); });
  }

  // One that leads its node, any rank, or all processes of a node at once.
  void lose_somebody() {
    Random& random = scheduler_.random();
    auto rank = static_cast<Rank>(random.below(config_.ranks()));
    const bool whole_node = random.below(4) == 0;
    if (whole_node) rank -= rank % static_cast<Rank>(config_.ranks_per_node);
    const auto dies = [&](Rank other) {
      return !ledger_.is_dead(other) &&
             (other == rank || ((whole_node || leads(rank)) && are_neighbours(other, rank)));
    };
    uint32_t dying = 0;
    for (Rank other = 0; other < static_cast<Rank>(config_.ranks()); ++other) dying += dies(other);
    if (programs_over_ || dying == 0 || dying >= ledger_.living()) return;  // one goes on
    if (!leads(rank) && config_.guards_held && random.below(2) == 0) return die_inside_guard(rank);
    if (!leads(rank) && random.below(3) == 0) return die_before_telling(rank);
    std::vector<Rank> fresh;
    for (Rank other = 0; other < static_cast<Rank>(config_.ranks()); ++other)
      if (dies(other)) fresh.push_back(other);
    for (const Rank other : fresh) ledger_.die(other);
    for (const Rank other : fresh) {
      // The launcher kills the others of a lost node, and so do they themselves.
      if (other == rank || whole_node) kill(other);
      else
        scheduler_.at(scheduler_.now_ns() + random.between(0, 200'000),
                      [this, other] { kill(other); });
    }
    tell_all(rank, fresh);
  }

  // While it changes a queue, which is left as it is.
  void die_inside_guard(Rank rank) {
    const uint32_t mutex = scheduler_.random().below(Layout::mutexes);
    scheduler_.spawn(process_of(rank), "one that dies", [this, rank, mutex] {
      Node& node = ranks_[static_cast<size_t>(rank)]->node();
      const OwnerWatch watch = node.control().watch();
      (void)lock_word(node.mutex(rank, mutex).guard, node.member_of(rank), watch);
      scheduler_.at(scheduler_.now_ns() + 1, [this, rank] {
        if (ledger_.is_dead(rank) || ledger_.living() < 2) return;
        kill(rank);
        tell_all(rank, {rank});
      });
      scheduler_.sleep(1'000);
    });
  }

  // Between handing a lock over and telling its next holder. A rank that hands none over lives.
  void die_before_telling(Rank rank) {
    ranks_[static_cast<size_t>(rank)]->die_before_telling([this, rank] {
      scheduler_.at(scheduler_.now_ns() + 1, [this, rank] {
        if (ledger_.is_dead(rank) || ledger_.living() < 2) return;
        kill(rank);
        tell_all(rank, {rank});
      });
      scheduler_.sleep(never_ns - scheduler_.now_ns());
    });
  }

  bool are_neighbours(Rank one, Rank two) const {
    return &ranks_[static_cast<size_t>(one)]->node() == &ranks_[static_cast<size_t>(two)]->node();
  }
  bool leads(Rank rank) const {
    return host_of(ranks_[static_cast<size_t>(rank)]->node()) == process_of(rank);
  }

  void kill(Rank rank) {
    if (scheduler_.is_dead(process_of(rank))) return;
    ++result_.counts.deaths;
    if (!ledger_.is_dead(rank)) ledger_.die(rank);
    RankProcess& dead = *ranks_[static_cast<size_t>(rank)];
    scheduler_.kill(process_of(rank));
    dead.die();
    if (leads(rank)) dead.node().die();
    scheduler_.wake(this);
  }

  struct News {
    Rank dead;
    std::vector<Rank> fresh;  // with it
  };
  // What a rank has not heard yet, in the order of views.
  struct Inbox {
    std::vector<News> all;
    size_t heard = 0;
    int64_t last_ns = 0;  // when the newest comes
    bool is_read = false;  // a fiber does so
  };

  // Each rank hears of it in its own time.
  void tell_all(Rank dead, const std::vector<Rank>& fresh) {
    Random& random = scheduler_.random();
    const int64_t longest_ns = random.below(4) == 0 ? 50'000'000 : 1'000'000;
    for (Rank rank = 0; rank < static_cast<Rank>(config_.ranks()); ++rank) {
      Inbox& inbox = news_[static_cast<size_t>(rank)];
      inbox.all.push_back({dead, fresh});
      inbox.last_ns = std::max(inbox.last_ns,
                               scheduler_.now_ns() + random.between(0, longest_ns));
      scheduler_.at(inbox.last_ns, [this, rank] {
        if (ledger_.is_dead(rank) || news_[static_cast<size_t>(rank)].is_read) return;
        news_[static_cast<size_t>(rank)].is_read = true;
        scheduler_.spawn(process_of(rank), "views", [this, rank] { hear(rank); });
      });
    }
  }

  // As Views::take.
  void hear(Rank rank) {
    Inbox& inbox = news_[static_cast<size_t>(rank)];
    RankProcess& self = *ranks_[static_cast<size_t>(rank)];
    const memory::Control& control = self.node().control();
    while (inbox.heard < inbox.all.size()) {
      const News news = inbox.all[inbox.heard];
      for (const Rank dead : news.fresh)
        if (are_neighbours(dead, rank))
          control.member(self.node().member_of(dead))
              .state.store(static_cast<uint32_t>(memory::MemberState::dead));
      if (leads(news.dead))
        self.engine().losses.lose(
            ranks_[static_cast<size_t>(news.dead)]->node().id(),
            Status(Code::peer_dead, concat("rank ", news.dead, " died with its node")));
      if (leads(rank)) bury(self.node(), news.fresh);
      memory::ring_doorbell(control.member(self.node().member_of(rank)));
      ++inbox.heard;
    }
    inbox.is_read = false;
    scheduler_.wake(this);
  }

  // As Views::bury.
  void bury(Node& node, const std::vector<Rank>& fresh) {
    const auto left = std::make_shared<size_t>(node.servers().size());
    for (const auto& one : node.servers())
      one->post([this, fresh, left, &node, server = one.get()] {
        server->bury(fresh);
        if (--*left == 0)
          node.servers().front()->post([this, fresh, &node] { pass_on_locks(node, fresh); });
      });
  }

  void pass_on_locks(Node& node, const std::vector<Rank>& fresh) {
    auto& buried = buried_[node.id()];
    buried.insert(fresh.begin(), fresh.end());
    for (uint32_t k = 0; k < config_.ranks_per_node; ++k)
      for (uint32_t m = 0; m < Layout::mutexes; ++m)
        node.servers().front()->pass_on(node.mutex(
            static_cast<Rank>(static_cast<uint32_t>(node.id()) * config_.ranks_per_node + k), m),
            buried);
    node.control().header().deaths.fetch_add(1);
  }

  void wait_for_news() {
    const auto all_heard = [&] {
      for (Rank rank = 0; rank < static_cast<Rank>(config_.ranks()); ++rank) {
        const Inbox& inbox = news_[static_cast<size_t>(rank)];
        if (!ledger_.is_dead(rank) && (inbox.is_read || inbox.heard < inbox.all.size()))
          return false;
      }
      return true;
    };
    while (!all_heard()) (void)scheduler_.wait("news of deaths", this);
  }

  void finish_living() {
    std::vector<const std::byte*> memory;
    for (const auto& rank : ranks_) memory.push_back(rank->node().region(rank->rank()).base);
    ledger_.finish(memory, checker_.layout());
    for (const auto& rank : ranks_)
      for (uint32_t m = 0; m < Layout::mutexes; ++m)
        if (const uint64_t left = rank->node().mutex(rank->rank(), m).word;
            left != 0 && !ledger_.is_lost(rank->node().id()))
          checker_.fail("mutex ", m, " of rank ", rank->rank(), " is not free at the end: ", left);
  }

  uint64_t progress() const {
    uint64_t sum = phase_;
    for (const auto& survivor : survivors_) sum += survivor->operations() + survivor->ended();
    for (const auto& program : programs_) sum += program->operations() + program->ended();
    return sum;
  }

  void tell(Node& node) { (void)node.control().set_abort(0, -5, "a rank died"); }

  void leave_behind() {
    for (auto& rank : ranks_) (void)rank.release();
    for (auto& node : nodes_) (void)node.release();
    for (auto& program : programs_) (void)program.release();
    for (auto& survivor : survivors_) (void)survivor.release();
  }

  std::string describe_lock(Rank of, uint32_t index) const {
    const Node& node = ranks_[static_cast<size_t>(of)]->node();
    const lock::Mutex& mutex = node.mutex(of, index);
    const uint64_t word = mutex.word.load();
    if (word == 0) return {};
    const uint64_t holder = word & ~(lock::queued_bit | lock::invited_bit);
    std::string text = concat("  ", index, " of rank ", of, ": ");
    if (holder == 0) text += "open";
    else if (lock::shares(holder)) text += concat("shared by ", holder & 0xffff'ffff);
    else text += concat("held by rank ", lock::rank_of(holder));
    if ((word & lock::invited_bit) != 0) text += ", the first is invited";
    const lock::WaiterPool pool = lock::waiter_pool(node.control());
    for (uint32_t i = (word & lock::queued_bit) != 0 ? mutex.first : 0; pool.has(i);
         i = pool.next_of(i))
      text += concat(", rank ", lock::rank_of(pool.at(i).waiter.holder), " waits",
                     lock::shares(pool.at(i).waiter.holder) ? " to share" : "");
    return text + '\n';
  }

  std::string describe() const {
    std::string text = "what the programs do:\n";
    for (const auto& program : programs_) text += concat("  ", program->describe(), '\n');
    for (const auto& survivor : survivors_) text += concat("  ", survivor->describe(), '\n');
    text += "locks that are not free:\n";
    for (const auto& rank : ranks_)
      for (uint32_t i = 0; i < Layout::mutexes; ++i) text += describe_lock(rank->rank(), i);
    text += "what the fibers do:\n" + scheduler_.describe();
    return text + "connections:\n" + network_->describe();
  }

  const StormConfig config_;
  Scheduler scheduler_;
  std::shared_ptr<SimulatedNetwork> network_;
  Checker checker_;
  Ledger ledger_;            // of a job that goes on
  std::vector<Inbox> news_;  // of each rank
  std::map<NodeId, std::unordered_set<Rank>> buried_;  // by all servers of a node
  int64_t next_death_ns_ = 0;
  const int64_t began_ns_;
  connection::JobKey key_{};
  std::vector<std::byte> map_;
  bool ending_ = false;  // a rank died
  bool ended_ = false;
  bool programs_over_ = false;
  uint64_t phase_ = 0;  // of job()
  StormResult result_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<std::unique_ptr<Survivor>> survivors_;  // in place of programs
};

}  // namespace

StormResult run_storm(const StormConfig& config) {
  rule_left_out = config.left_out;
  StormResult result = Storm(config).run();
  rule_left_out = Rule::none;
  return result;
}

std::string run_storm_apart(const StormConfig& config) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(longest_seed_s);  // for loops in which no fiber gives way
    const std::string failure = run_storm(config).failure;
    [[maybe_unused]] const ssize_t n = write(ends[1], failure.data(), failure.size());
    _exit(0);
  }
  close(ends[1]);
  std::string failure;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
    failure.append(part, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    failure += concat("it ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                      ")");
  else if (WEXITSTATUS(status) != 0) failure += concat("it exited with ", WEXITSTATUS(status));
  return failure;
}

StormResult::Counts& StormResult::Counts::operator+=(const Counts& more) {
  steps += more.steps;
  operations += more.operations;
  at_once += more.at_once;
  contended += more.contended;
  requests += more.requests;
  cuts += more.cuts;
  resumed += more.resumed;
  replayed += more.replayed;
  evictions += more.evictions;
  dropped += more.dropped;
  relayed += more.relayed;
  trunks += more.trunks;
  forwarded += more.forwarded;
  no_room += more.no_room;
  deaths += more.deaths;
  return *this;
}

}  // namespace skerry::sim
