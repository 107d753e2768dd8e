#include "job/job.hpp"

#include <sodium.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/crash.hpp"
#include "core/memory_limits.hpp"
#include "job/bootstrap/control_protocol.hpp"
#include "job/group.hpp"
#include "job/host.hpp"
#include "job/mutexes.hpp"
#include "lock/machine.hpp"

namespace skerry::job {
namespace {

std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

// A secret of its own for each purpose, so that one that leaks says nothing of the others.
template <size_t N>
std::array<std::byte, N> derive(const JobKey& key, std::string_view purpose) {
  std::array<std::byte, N> out{};
  crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return out;
}

// Of settings that must agree (Agreement): equal for equal ones.
using SettingsHash = std::array<std::byte, 16>;
SettingsHash hash_of(std::string_view settings) {
  SettingsHash hash;
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(settings.data()), settings.size(),
                     nullptr, 0);
  return hash;
}

struct HostCard {         // every rank -> all
  HostIdentity identity;  // equal: one node
  uint64_t machine;       // equal: one machine, with the same cores and memory
  SettingsHash of_job;    // equal on all ranks
  SettingsHash of_node;   // equal on all ranks of a node
  uint8_t has_settings;   // 1: it put them too, as it has others than the fallbacks
  uint8_t servers;        // data servers of the node
  uint8_t goes_on;        // 1: without its dead; equal on all ranks
  uint8_t reserved[5];    // 0
};
static_assert(std::has_unique_object_representations_v<HostCard>, "compared byte by byte");
constexpr std::string_view settings_key = "settings";
constexpr size_t most_settings_bytes = 4096;  // Bootstrap::put takes no more

static_assert(placement::Settings::auto_cluster == Config::cluster_auto &&
              placement::Settings::sqrt_cluster == Config::cluster_sqrt);
static_assert(Config::least_server_budget_bytes ==
                  4 * placement::least_sessions *
                      (placement::session_bytes + placement::passing_bytes),
              "a quarter pays for the sessions that are always there");

constexpr uint64_t automatic_part = 32;  // SKERRY_RESERVE: auto

struct Invitation {  // leader -> the other ranks of its node
  NodeId node;
  uint32_t ranks_of_machine;
  memory::ControlSizes sizes;
};

Status read_value(std::span<const std::byte> bytes, Rank rank, std::string_view key, auto* value) {
  if (bytes.size() != sizeof *value)
    return error(Code::network, "rank ", rank, " published ", bytes.size(), " bytes as ", key,
                 ", expected ", sizeof *value);
  std::memcpy(value, bytes.data(), sizeof *value);
  return {};
}

Status get_value(Bootstrap& bootstrap, Rank rank, std::string_view key, auto* value) {
  std::vector<std::byte> bytes;
  SKERRY_TRY(bootstrap.get(rank, key, &bytes));
  return read_value(bytes, rank, key, value);
}

// The settings of `rank` that must agree, from its card.
Status read_settings(Bootstrap& bootstrap, Rank rank, const HostCard& card, std::string* settings) {
  settings->clear();
  if (card.has_settings == 0) return {};
  std::vector<std::byte> bytes;
  SKERRY_TRY(bootstrap.get(rank, settings_key, &bytes));
  settings->assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

// Do two ranks have the same settings where they must?
bool agree(const HostCard& one, const HostCard& two) {
  return one.of_job == two.of_job && one.goes_on == two.goes_on &&
         (one.identity != two.identity || one.of_node == two.of_node);
}

// The error of two ranks that do not agree.
Status disagreement(Bootstrap& bootstrap, Rank rank, Rank other) {
  HostCard one{}, two{};
  SKERRY_TRY(get_value(bootstrap, rank, "host", &one));
  SKERRY_TRY(get_value(bootstrap, other, "host", &two));
  if (one.goes_on != two.goes_on)
    return error(Code::config, "rank ", one.goes_on != 0 ? rank : other,
                 " asks for on_failure SKERRY_FAILURE_CONTINUES, and rank ",
                 one.goes_on != 0 ? other : rank, " does not: give all ranks the same");
  const bool of_job = one.of_job != two.of_job;
  std::string first, second;
  SKERRY_TRY(read_settings(bootstrap, rank, one, &first));
  SKERRY_TRY(read_settings(bootstrap, other, two, &second));
  const Difference found = difference(first, second, of_job ? Agreement::job : Agreement::node);
  const auto named = [&](std::string_view value, Rank whose) {
    return value.empty() ? concat("no ", found.name, " on rank ", whose)
                         : concat(found.name, "=", value, " on rank ", whose);
  };
  return error(Code::config,
               found.name.empty()
                   ? concat("long values of SKERRY_* variables differ on ranks ", rank, " and ",
                            other)
                   : concat(named(found.one, rank), ", but ", named(found.other, other)),
               one.identity == two.identity ? " of the same node" : "", ": give all ranks of a ",
               of_job ? "job" : "node", " the same");
}

// What SKERRY_LOCK asks of the fabric.
fabric::Options::Atomics atomics_for(std::string_view lock) {
  using Atomics = fabric::Options::Atomics;
  if (lock == "auto") return Atomics::of_adapter;
  return lock.starts_with("migrating") ? Atomics::any : Atomics::none;
}

// All ranks know beforehand which nodes may come, how large they are, and how many servers they
// have: as many as rank 0's. A host that has others does not fit, and does not come.
Status add_late_nodes(const Bootstrap& bootstrap, uint8_t servers, NodeLayout* layout) {
  const Bootstrap::Late late = bootstrap.late();
  placement::Shape& shape = layout->shape;
  if (late.ranks == 0) return {};
  if (bootstrap.is_late(bootstrap.rank()) && shape.servers != servers)
    return error(Code::config, "SKERRY_SERVERS gives ", shape.servers, " data servers here, and ",
                 servers, " on the node of rank 0: hosts that are added must have as many");
  layout->late_nodes = static_cast<size_t>(late.ranks / late.per_node);
  layout->late_servers = servers;
  shape.ranks_per_node = std::max(shape.ranks_per_node, static_cast<uint32_t>(late.per_node));
  const auto first_node = static_cast<NodeId>(layout->leaders.size());
  const Rank first = bootstrap.size() - late.ranks;
  for (size_t k = 0; k < layout->late_nodes; ++k) {
    layout->leaders.push_back(first + static_cast<Rank>(k) * late.per_node);
    shape.all_servers.add(servers);
  }
  for (Rank r = 0; r < late.ranks; ++r)
    layout->rank_node.push_back(first_node + static_cast<NodeId>(r / late.per_node));
  return {};
}

// On a late rank alone: adds the ranks of late nodes on its machine, its own among them. What came
// with its host has put its cards; a node that comes later is not counted.
Status count_late(Bootstrap& bootstrap, const NodeLayout& layout, uint64_t machine,
                  uint32_t* ranks) {
  if (!bootstrap.is_late(bootstrap.rank())) return {};
  for (const Rank leader : std::span(layout.leaders).last(layout.late_nodes)) {
    std::vector<std::byte> bytes;
    HostCard card{};
    if (!bootstrap.get(leader, "host", &bytes).ok()) continue;  // it has not come
    SKERRY_TRY(read_value(bytes, leader, "host", &card));
    if (card.machine == machine) *ranks += static_cast<uint32_t>(bootstrap.late().per_node);
  }
  return {};
}

// A program may start a job for each of its communicators. A remark is printed only if its job is
// heavier than all that this process was in before. Every rank remembers the heaviest, for rank 0
// of the next job may be another process.
bool is_news(uint64_t weight) {
  static std::atomic<uint64_t> heaviest{0};
  uint64_t before = heaviest.load();
  while (before < weight && !heaviest.compare_exchange_weak(before, weight)) {
  }
  return before < weight;
}

}  // namespace

Status Job::start(std::unique_ptr<Bootstrap> bootstrap, const JobOptions& options,
                  const FabricMaker& make_fabric, std::unique_ptr<Job>* job) {
  if (sodium_init() < 0) return error(Code::internal, "libsodium does not start");
  std::unique_ptr<Job> made(new Job);
  made->options_ = options;
  made->bootstrap_ = std::move(bootstrap);
  made->rank_ = made->bootstrap_->rank();
  watch_crashes(made->rank_, {options.config.backtrace, options.config.freeze});
  // On all ranks alike, before anyone waits for another.
  SKERRY_TRY(connection::find_policy(options.config.victim));
  lock::Choice unused;
  SKERRY_TRY(lock::choose(options.config.lock, &unused));
  SKERRY_TRY(made->join(make_fabric));
  *job = std::move(made);
  return {};
}

memory::Broker::Options Job::broker_options(NodeId node) const {
  memory::Broker::Options options;
  options.job_tag = to_hex(derive<16>(key_, "broker name"));
  options.node = node;
  options.token = derive<16>(key_, "broker token");
  return options;
}

// The leader makes it, the other ranks of its node map it.
Status Job::attach_control(const memory::ControlSizes& sizes) {
  node_memory_ = memory::make_node_memory(memory::Broker::address_of(broker_options()),
                                          options_.config.huge_pages);
  const memory::ControlLayout layout = memory::control_layout(sizes);
  memory::AttachRequest request;
  request.id = SegmentId{static_cast<uint32_t>(leader_), 0};
  request.total_bytes = layout.total_bytes;
  request.members = sizes.members;
  request.own_bytes = rank_ == leader_ ? layout.total_bytes : 0;
  std::byte* base = nullptr;
  SKERRY_TRY(node_memory_->attach(request, options_.config.connect_timeout_ns, &base));
  control_ = memory::Control(base, layout);
  return {};
}

Status Job::join(const FabricMaker& make_fabric) {
  NodeLayout layout;
  SKERRY_TRY(find_leader(&layout));
  SKERRY_TRY(job_key(*bootstrap_, &key_));

  fabric::Options fabric_options;
  fabric_options.interface = options_.config.interface;
  fabric_options.connect_timeout_ns = options_.config.connect_timeout_ns;
  fabric_options.silence_timeout_ns = options_.config.silence_timeout_ns;
  fabric_options.shared_receives = options_.config.shared_receives;
  fabric_options.longest_look_ns = int64_t{options_.config.poll_us} * 1000;
  fabric_options.atomics = atomics_for(options_.config.lock);
  fabric_options.faults = options_.config.faults;
  fabric_options.faults_side = static_cast<uint64_t>(rank_);
  std::unique_ptr<fabric::Fabric> origin_side;
  SKERRY_TRY(make_fabric(fabric_options, &origin_side));
  fabric_name_ = origin_side->name();

  if (leader_ == rank_) {
    // With all ranks on one node nobody else connects: no network is needed, and none is listened
    // on. (An RDMA adapter is no loopback.)
    fabric_options.loopback_only = layout.shape.nodes == 1 && fabric_options.interface.empty() &&
                                   options_.config.fabric == "tcp";
    fabric_options.faults.clear();  // of its own side; servers have theirs
    SKERRY_TRY(start_leader(make_fabric, fabric_options, layout));
  } else {
    SKERRY_TRY(follow_leader());
  }
  SKERRY_TRY(enter_node());
  kept_pages_.limit(options_.config.reserve_bytes != Config::reserve_auto
                        ? options_.config.reserve_bytes
                        : memory_limit() / automatic_part / ranks_of_machine());
  SKERRY_TRY(start_engine(std::move(origin_side)));
  show_panel();
  objects_.start(*this);
  is_crowded_ = ranks_of_machine_ > usable_cores();
  SKERRY_TRY(Group::create_world(*this, &world_));
  if (options_.goes_on) SKERRY_TRY(Views::announce(*bootstrap_));
  SKERRY_TRY(bootstrap_->fence());  // every area is attached: collectives work from here on
  bootstrap_->start_is_over();
  if (options_.goes_on) {
    asked_lock_ = &long_way_;
    SKERRY_TRY(views_.start({bootstrap_.get(), control_, &map_, rank_, node_servers_.get(),
                             [this](NodeId node, const Status& why) {
                               engine_->losses.lose(node, why);
                             },
                             [this](const News::LatePut& put) {
                               hear_late(put, map_, &late_servers_);
                             }}));
    return spares_.enter(*this, bootstrap_->spares());
  }
  if (bootstrap_->spares() != 0)
    return error(Code::config, "this job has ", bootstrap_->spares(),
                 " spares, which are for jobs that go on without their dead: give skerry_init "
                 "on_failure SKERRY_FAILURE_CONTINUES, or leave --spares out");
  return deaths_.watch({bootstrap_.get(), control_, &map_, node_,
                        node_servers_ ? &node_servers_->first() : nullptr,
                        options_.failures_return});
}

// Finds the ranks that share memory with this one: those with an equal host card. Only leaders read
// the cards of all ranks; *layout is theirs, and stays empty elsewhere.
Status Job::find_leader(NodeLayout* layout) {
  const Rank size = bootstrap_->size();
  HostCard card{};
  std::optional<int> node_hint = bootstrap_->node_hint();
  if (const int nodes = options_.config.nodes; !node_hint && nodes > 0) {
    if (nodes > size)
      return error(Code::config, "SKERRY_NODES=", nodes, ": this job has only ", size,
                   " ranks, and every node needs one");
    node_hint = block_node(bootstrap_->rank(), size, nodes);
  }
  SKERRY_TRY(find_host(node_hint, &card.identity, &card.machine));
  machine_ = card.machine;
  const std::string of_job = settings_text(options_.config, Agreement::job);
  const std::string of_node = settings_text(options_.config, Agreement::node);
  card.of_job = hash_of(of_job);
  card.of_node = hash_of(of_node);
  card.servers = static_cast<uint8_t>(servers_of(options_.config));
  static_assert(Config::most_servers <= UINT8_MAX);
  card.goes_on = options_.goes_on ? 1 : 0;
  if (const std::string settings = concat(of_node, of_job).substr(0, most_settings_bytes);
      !settings.empty()) {
    card.has_settings = 1;
    SKERRY_TRY(bootstrap_->put(settings_key, std::as_bytes(std::span(settings))));
  }
  SKERRY_TRY(bootstrap_->put("host", bytes_of(card)));
  SKERRY_TRY(bootstrap_->fence());
  HostCard zero{};  // rank 0's
  SKERRY_TRY(get_value(*bootstrap_, 0, "host", &zero));
  if (!agree(card, zero)) return disagreement(*bootstrap_, rank_, 0);
  SKERRY_TRY(bootstrap_->lowest_with("host", bytes_of(card), &leader_));
  if (leader_ != rank_) return {};

  struct Node {
    NodeId number;
    Rank first;
    HostCard card;
    uint32_t ranks = 0;
  };
  std::map<HostIdentity, Node> nodes;
  std::optional<std::pair<Rank, Rank>> differ;  // the first two found that do not agree
  const auto read = [&](Rank first, int count, std::span<const std::byte> bytes) {
    HostCard theirs{};
    SKERRY_TRY(read_value(bytes, first, "host", &theirs));
    if (!differ && !agree(zero, theirs)) differ = {0, first};
    const auto [node, is_new] = nodes.try_emplace(
        theirs.identity, Node{static_cast<NodeId>(nodes.size()), first, theirs});
    if (is_new) layout->leaders.push_back(first);
    if (!differ && !agree(node->second.card, theirs)) differ = {node->second.first, first};
    node->second.ranks += static_cast<uint32_t>(count);
    if (theirs.machine == machine_) ranks_of_machine_ += static_cast<uint32_t>(count);
    layout->rank_node.insert(layout->rank_node.end(), static_cast<size_t>(count),
                             node->second.number);
    return Status{};
  };
  SKERRY_TRY(bootstrap_->get_runs({}, "host", read));
  if (differ) return disagreement(*bootstrap_, differ->first, differ->second);
  placement::Shape& shape = layout->shape;
  const Bootstrap::Late late = bootstrap_->late();
  shape.nodes = static_cast<NodeId>(nodes.size()) + late.ranks / late.per_node;
  // A job of one node uses its server as a broker alone.
  shape.servers = shape.nodes == 1 ? 1 : card.servers;
  shape.all_servers = placement::ServerCounts(shape.servers);
  for (const auto& [identity, node] : nodes) {
    shape.ranks_per_node = std::max(shape.ranks_per_node, node.ranks);
    if (shape.nodes > 1) shape.all_servers.add(node.card.servers);
  }
  SKERRY_TRY(add_late_nodes(*bootstrap_, zero.servers, layout));
  return count_late(*bootstrap_, *layout, machine_, &ranks_of_machine_);
}

// On every rank but the leader of its node: attaches the control segment that the leader made.
Status Job::follow_leader() {
  SKERRY_TRY(bootstrap_->fence());  // addresses are out
  SKERRY_TRY(bootstrap_->fence());  // invitations are out
  Invitation invitation;
  SKERRY_TRY(get_value(*bootstrap_, leader_, "node", &invitation));
  node_ = invitation.node;
  ranks_of_machine_ = invitation.ranks_of_machine;
  SKERRY_TRY(attach_control(invitation.sizes));
  if (!control_.matches())
    return error(Code::internal, "the control segment of node ", node_,
                 " has another layout than rank ", rank_,
                 " expects: two versions of Skerry in one job");
  return placement::NodeMap::view({control_.node_table(), invitation.sizes.node_table_bytes},
                                  &map_);
}

// Signs in at the node's control segment.
Status Job::enter_node() {
  member_index_ = static_cast<uint32_t>(map_.index_in_node(rank_));
  SKERRY_ASSERT(map_.node_of(rank_) == node_ && member_index_ < control_.layout().members,
                "the node's table has this rank where its leader sees it");
  memory::Member& me = control_.member(member_index_);
  SKERRY_INVARIANT(me.state.load() == 0, "a place in the control segment is taken once");
  me.rank = rank_;
  me.pid = static_cast<int32_t>(getpid());
  me.cgroup_hash = memory_cgroup_hash();
  randombytes_buf(&me.incarnation, sizeof me.incarnation);
  me.state.store(static_cast<uint32_t>(memory::MemberState::joined), std::memory_order_release);
  const auto secret = derive<16>(key_, "addresses");  // libsodium makes no shorter ones
  std::memcpy(&address_secret_, secret.data(), sizeof address_secret_);
  node_memory_->watch_abort(control_.abort_flag());
  stripes_ = std::make_unique<memory::Stripes>(control_.stripes(), member_index_,
                                               control_.stripe_watch());

  void* page = mmap(nullptr, memory::page_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return error(Code::no_memory, "no page for the fork marker");
  (void)madvise(
      page, memory::page_bytes,
      MADV_WIPEONFORK);  // kernels before 4.14 refuse: then a forked child is not recognised
  alive_ = new (page) std::atomic<uint32_t>(1);
  return {};
}

bool Job::node_is_one_cgroup() const {
  for (uint32_t k = 1; k < control_.layout().members; ++k)
    if (control_.member(k).cgroup_hash != control_.member(0).cgroup_hash) return false;
  return true;
}

Status Job::give_back_kept() {
  objects_.give_up_groups();
  std::vector<memory::BrokerAddress> others;
  if (has_virtual_nodes())
    for (NodeId n = 0; n < map_.nodes(); ++n)
      if (n != node_) others.push_back(memory::Broker::address_of(broker_options(n)));
  return node_memory_->give_back_kept(others);
}

Status Job::start_engine(std::unique_ptr<fabric::Fabric> origin_side) {
  origin::EngineConfig config;
  config.rank = rank_;
  config.node = node_;
  config.key = key_;
  config.map = &map_;
  config.late_address = std::bind_front(&LateServers::address_of, &late_servers_);
  config.control = control_;
  config.member_index = member_index_;
  config.one_thread_at_a_time = options_.thread_level != ThreadLevel::multiple;
  config.helper = options_.config.progress_thread;
  config.victim = options_.config.victim;
  config.reconnect_limit_ns = options_.config.reconnect_timeout_ns;
  config.servers_drop = options_.config.server_max_connections != 0 ||
                        options_.config.node_max_connections != 0;
  uint32_t most_ranks = 1;
  for (const auto& [leader, ranks] : map_.all_sizes())
    most_ranks = std::max(most_ranks, static_cast<uint32_t>(ranks));
  // The same routes on all ranks: they agree on what these are made of.
  const uint64_t idle_bytes = origin_side->capabilities().connection_bytes;
  const placement::Shape shape{map_.nodes(), most_ranks, map_.servers(node_),
                               placement::server_counts(map_)};
  plan_ = placement::plan(shape, settings_of(options_.config), idle_bytes);
  if (const placement::Remark remark = placement::remark(shape, settings_of(options_.config),
                                                         idle_bytes);
      is_news(remark.weight) && rank_ == 0)
    std::fprintf(stderr, "skerry: %s\n", remark.text.c_str());
  if (options_.goes_on && !plan_.routes.is_direct())
    return error(Code::unsupported,
                 "on_failure is SKERRY_FAILURE_CONTINUES, but requests to some nodes of this job "
                 "go through others, whose death would break them: set SKERRY_CLUSTER_SIZE=1 and "
                 "SKERRY_SHARE=0");
  share::Guide way = guide(plan_.routes, map_, placement::lane_of(map_, rank_));
  config.quiet = way.routes.is_direct() && !config.servers_drop;
  if (!way.routes.is_direct()) {
    if (options_.config.server_budget_bytes != 0) config.servers_drop = true;
    share::Options member;
    member.key = key_;
    member.rank = static_cast<uint32_t>(rank_);
    member.node = static_cast<uint32_t>(node_);
    member.guide = std::move(way);
    member.victim = options_.config.victim;
    member.connect_timeout_ns = options_.config.connect_timeout_ns;
    SKERRY_TRY(share::make_proxy_client(std::move(origin_side), std::move(member), &origin_side));
  }
  if (map_.nodes() > 1) {
    // Pages appear for the nodes that it talks to.
    const size_t bytes = static_cast<size_t>(map_.nodes()) * sizeof(origin::NodeTraffic);
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
      return error(Code::no_memory, "no ", bytes, " bytes for counters of ", map_.nodes(),
                   " nodes");
    traffic_ = {static_cast<origin::NodeTraffic*>(pages), static_cast<size_t>(map_.nodes())};
    config.traffic = traffic_.data();
  }
  config.spans = &spans_;
  // A borrower takes the server's turns alone. Under a cap its own requests may wait for a
  // connection meanwhile: jobs were seen to stand still.
  if (options_.config.max_connections != 0 || options_.config.server_max_connections != 0 ||
      options_.config.node_max_connections != 0)
    has_cap() = true;
  if (servers().size() == 1 && map_.nodes() > 1) {
    lendable_ = servers().front().get();
    config.before_waiting = [this] { give_back_server(); };
  }
  engine_ = std::make_unique<origin::Engine>(std::move(config), std::move(origin_side));
  return engine_->limit_connections(options_.config.max_connections);
}

// From here on processes outside the job see what this one counts.
void Job::show_panel() {
  panel_.layout = panel_layout();
  std::ranges::copy(broker_options().job_tag.substr(0, 8), panel_.job.begin());
  std::ranges::copy(to_hex(derive<16>(key_, "metrics")), panel_.metrics_key.begin());
  panel_.ranks = map_.ranks();
  panel_.nodes = map_.nodes();
  panel_.node = node_;
  panel_.started_ns = monotonic_ns();
  panel_.local = &local_counters_;
  panel_.engine = &engine_->live_counters();
  panel_.traffic = traffic_.data();
  panel_.labels = labels_.first();
  panel_.spans = &spans_;
  for (const auto& server : servers()) panel_.server[panel_.servers++] = &server->counters();
  if (node_servers_ != nullptr)
    for (size_t k = 0; k < node_servers_->share_counters().size(); ++k)
      panel_.share[k] = node_servers_->share_counters()[k].get();
  // Where only relatives may look at a process, it may allow others of its user. Refused with
  // EINVAL, and not needed, where there is no such rule.
  if (options_.config.look) (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  control_.member(member_index_)
      .panel.store(reinterpret_cast<uint64_t>(&panel_), std::memory_order_release);
}

Status Job::start_leader(const FabricMaker& make_fabric, const fabric::Options& fabric_options,
                         const NodeLayout& layout) {
  node_ = layout.rank_node[static_cast<size_t>(rank_)];
  std::vector<std::byte> map_block;
  SKERRY_TRY(NodeServers::start({options_.config, key_, node_, map_, late_servers_, make_fabric,
                                 fabric_options},
                                broker_options(), layout, *bootstrap_, &node_servers_, &map_block));
  SKERRY_TRY(placement::NodeMap::view(map_block, &map_));
  SKERRY_INVARIANT(layout.shape.all_servers == placement::server_counts(map_),
                   "each node has as many data servers as its host card said");
  const auto ranks = static_cast<uint32_t>(map_.ranks());
  const auto members = static_cast<uint32_t>(map_.node_size(node_));
  const Invitation invitation{
      node_, ranks_of_machine_,
      {members, options_.config.slots, memory::waiters_of(ranks, members), map_block.size()}};
  SKERRY_TRY(attach_control(invitation.sizes));
  std::memcpy(control_.node_table(), map_block.data(), map_block.size());
  control_.initialise(options_.goes_on);
  SKERRY_TRY(placement::NodeMap::view({control_.node_table(), map_block.size()}, &map_));
  node_servers_->open(control_, static_cast<uint32_t>(map_.index_in_node(rank_)),
                      [this](Rank r) { return member_of(r); });
  SKERRY_TRY(bootstrap_->put("node", bytes_of(invitation)));
  return bootstrap_->fence();
}

uint64_t Job::waiter_bytes() const {
  return (uint64_t{control_.layout().waiters} + 1) * memory::waiter_record_bytes;
}

Status Job::check_abort() const {
  if (!control_.is_aborted()) return {};
  return Status(Code::peer_dead, concat("the job is ending: ",
                                        static_cast<const char*>(control_.header().abort_text)));
}

void Job::abort(int exit_status, std::string_view reason) {
  const std::string text = concat("rank ", rank_, " aborts: ", reason);
  report_crash(text.c_str());
  (void)control_.set_abort(rank_, static_cast<int32_t>(Code::peer_dead), text);
  bootstrap_->abort(exit_status, text);
  std::_Exit(exit_status);  // not reached: abort does not return
}

namespace {

// The memory of ended jobs.
struct Ended {
  Ended* next;
};
std::mutex ended_mutex;
Ended* ended_jobs = nullptr;

}  // namespace

void* Job::operator new(size_t bytes, std::align_val_t alignment) {
  const std::lock_guard guard(ended_mutex);
  if (ended_jobs == nullptr) return ::operator new(bytes, alignment);
  return std::exchange(ended_jobs, ended_jobs->next);
}

void Job::operator delete(void* memory, std::align_val_t) {
  const std::lock_guard guard(ended_mutex);
  ended_jobs = new (memory) Ended{ended_jobs};
}

// ---- the end ----------------------------------------------------------------------------------

Status Job::stop() {
  // A request of ours that failed is reported at the end. A rank that left while others wait for
  // it would end the job as if it had died.
  Status first = engine_->wait_implicit();
  first.also(engine_->fence_all());
  if (!options_.goes_on && (first.code() == Code::peer_dead || first.code() == Code::network))
    return first;  // nothing can come of a barrier any more
  // Others may wait for this rank in some groups, and it for them in the background. So it tells
  // all, comes to the end of the world, and waits then.
  background_.leave();
  for (Group* const group : objects_.groups()) {
    const bool meets = group == world_ && !options_.goes_on;
    if (!meets && !background_.is_twin(*group)) group->part_with(rank_);
  }
  Status left;
  if (options_.goes_on) {
    std::fflush(stdout);  // it may be ended here: others may wait for it elsewhere
    News::Met met;
    const Bootstrap::Run all{0, size()};
    // Views go on until all that live have come here: a leader buries those that die meanwhile.
    SKERRY_TRY(views_.meet(leave_meeting, -1, {&all, 1}, {}, &met));
  } else {
    left = world_->leave();
  }
  first.also(background_.finish());
  SKERRY_TRY(left);
  // Farewells to ranks that died meanwhile are nothing to the program.
  const Status closed = engine_->close_all();
  if (!options_.goes_on || closed.code() != Code::peer_dead) first.also(closed);
  SKERRY_TRY(check_abort());
  deaths_.stop_news();
  views_.stop();
  // From here on nobody sends a request. The launcher's fence, not ours: our collectives need
  // connections.
  SKERRY_TRY(bootstrap_->fence());
  memory::Member& me = control_.member(member_index_);
  SKERRY_INVARIANT(
      me.rank == rank_ && me.state.load() == static_cast<uint32_t>(memory::MemberState::joined),
      "only who has joined leaves");
  me.panel.store(0, std::memory_order_release);
  me.state.store(static_cast<uint32_t>(memory::MemberState::left), std::memory_order_release);
  objects_.end();
  deaths_.stop();
  engine_->stop_helper();
  if (!node_servers_) {  // the leader's servers still sign with the control segment
    node_memory_->watch_abort(nullptr);
    (void)node_memory_->detach(SegmentId{static_cast<uint32_t>(leader_), 0});
  }
  Status finished = bootstrap_->finish();  // returns when all have come here: the leader's server
                                           // has outlived every detach
  return first.ok() ? finished : first;
}

Job::~Job() {
  (void)background_.finish();
  deaths_.stop();
  views_.stop();
  engine_.reset();
  if (node_servers_) node_servers_->stop();
  node_memory_.reset();
  node_servers_.reset();
  if (alive_ != nullptr) munmap(const_cast<std::atomic<uint32_t>*>(alive_), memory::page_bytes);
  if (!traffic_.empty()) munmap(traffic_.data(), traffic_.size_bytes());
}

}  // namespace skerry::job
