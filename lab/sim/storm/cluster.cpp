#include "sim/storm/cluster.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "memory/doorbell.hpp"
#include "memory/slots.hpp"

namespace skerry::sim {

using origin::Access;
using origin::Side;

// ---- node -------------------------------------------------------------------------------------

void Node::Free::operator()(std::byte* memory) const { std::free(memory); }

Node::Memory Node::allocate(uint64_t bytes) {
  const uint64_t whole = memory::round_up(bytes, memory::page_bytes);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(memory::page_bytes, whole));
  std::memset(memory, 0, whole);
  return Memory(memory);
}

Node::Node(NodeId id, const StormConfig& config, const Layout& layout)
    : id_(id), config_(config), layout_(layout), members_(config.ranks_per_node) {
  memory::ControlSizes sizes;
  sizes.members = members_;
  sizes.slots_per_member = config.slots;
  sizes.waiters = config.waiters;
  const memory::ControlLayout control = memory::control_layout(sizes);
  control_memory_ = allocate(control.total_bytes);
  control_ = memory::Control(control_memory_.get(), control);
  control_.initialise(config.deaths != 0);
  for (uint32_t member = 0; member < members_; ++member) {
    slices_.push_back(allocate(layout.total_bytes));
    mutexes_.push_back(allocate(Layout::mutexes * sizeof(lock::Mutex)));
    stripes_.emplace_back(control_.stripes(), member, control_.watch());
    control_.member(member).state.store(static_cast<uint32_t>(memory::MemberState::joined));
  }
}

Status Node::start(std::shared_ptr<SimulatedNetwork> network, const connection::JobKey& key) {
  for (uint16_t index = 0; index < config_.servers; ++index)
    SKERRY_TRY(start_server(index, network, key));
  return {};
}

Status Node::start_server(uint16_t index, std::shared_ptr<SimulatedNetwork> network,
                          const connection::JobKey& key) {
  fabric::Options options;
  options.connect_timeout_ns = config_.connect_timeout_ns;
  auto made = std::make_unique<SimulatedFabric>(std::move(network), options);
  fabrics_.push_back(made.get());
  std::unique_ptr<fabric::Fabric> side = std::move(made);
  if (!config_.routes().is_direct()) {
    share::Options proxy;
    proxy.key = key;
    proxy.node = static_cast<uint32_t>(id_);
    proxy.index = index;
    proxy.guide = guide(index);
    proxy.pool_bytes = config_.pool_bytes;
    proxy.max_passing = config_.max_passing();
    proxy.max_trunks = config_.trunk_cap();
    proxy.victim = config_.victim;
    proxy.unused_trunk_ns = config_.unused_trunk_ns;
    proxy.connect_timeout_ns = config_.connect_timeout_ns;
    proxy.counters = proxies_.emplace_back(std::make_shared<share::Counters>());
    SKERRY_TRY(share::make_proxy(std::move(side), std::move(proxy), &side));
  }
  servers_.push_back(std::make_unique<server::Server>(
      server::ServerConfig{
          {id_, index}, key, static_cast<int32_t>(config_.ranks()), config_.server_cap},
      std::move(side), *this));
  return servers_.back()->start(&addresses_.emplace_back());
}

share::Guide Node::guide(uint32_t lane) const {
  return {config_.routes(), [this, lane](NodeId node) {
            return map_.server_address(placement::server_in_lane(map_, node, lane));
          }};
}

void Node::open(std::span<const std::byte> map_block) {
  SKERRY_ASSERT(placement::NodeMap::view(map_block, &map_).ok(), "the map is our own");
  std::vector<server::Server*> all;
  for (const auto& server : servers_) all.push_back(server.get());
  for (server::Server* const server : all)
    server->open({control_, 0,
                  [this](Rank rank) {
                    return map_.node_of(rank) == id_ ? static_cast<int32_t>(member_of(rank)) : -1;
                  },
                  &map_, all});
}

void Node::die() {
  for (SimulatedFabric* const fabric : fabrics_) fabric->die();
  for (auto& server : servers_) (void)server.release();  // its fibers stand where they stood
  servers_.clear();
}

memory::Region Node::region(Rank rank) const {
  return {slices_[member_of(rank)].get(), layout_.total_bytes,
          memory::stripe_seed(data_segment, rank), memory::Kind::node_shared};
}

lock::Mutex& Node::mutex(Rank rank, uint64_t index) const {
  return reinterpret_cast<lock::Mutex*>(mutexes_[member_of(rank)].get())[index];
}

// ---- what the server asks of its node ---------------------------------------------------------

Status Node::find(SegmentId segment, Rank rank, memory::Region* found) {
  if (segment != data_segment || map_.node_of(rank) != id_)
    return error(Code::freed, "rank ", rank, " has no such segment on node ", id_);
  *found = region(rank);
  return {};
}

Status Node::find_lock(SegmentId segment, Rank rank, uint64_t index, lock::Mutex** found) {
  if (segment != mutex_segment || map_.node_of(rank) != id_ || index >= Layout::mutexes)
    return error(Code::invalid, "there is no mutex ", index, " of rank ", rank, " on node ", id_);
  *found = &mutex(rank, index);
  return {};
}

// ---- rank -------------------------------------------------------------------------------------

RankProcess::RankProcess(Rank rank, const StormConfig& config, Node& node)
    : rank_(rank), config_(config), node_(node), member_(node.member_of(rank)) {}

void RankProcess::start(std::shared_ptr<SimulatedNetwork> network, const connection::JobKey& key) {
  origin::EngineConfig config;
  config.rank = rank_;
  config.node = node_.id();
  config.key = key;
  config.map = &node_.map();
  config.control = node_.control();
  config.member_index = member_;
  config.one_thread_at_a_time = config_.threads == 1 && config_.deaths == 0;
  config.helper = config_.helper;
  config.victim = config_.victim;
  const bool node_limits = config_.share == Share::limited;
  config.servers_drop = config_.server_cap != 0 || config_.trunk_cap() != 0;
  config.reconnect_limit_ns = config_.reconnect_limit_ns;
  fabric::Options options;
  options.connect_timeout_ns = config_.connect_timeout_ns;
  auto made = std::make_unique<SimulatedFabric>(std::move(network), options);
  fabric_ = made.get();
  std::unique_ptr<fabric::Fabric> side = std::move(made);
  if (!config_.routes().is_direct()) {
    share::Options client;
    client.key = key;
    client.rank = static_cast<uint32_t>(rank_);
    client.node = static_cast<uint32_t>(node_.id());
    client.guide = node_.guide(placement::lane_of(node_.map(), rank_));
    client.victim = config_.victim;
    client.connect_timeout_ns = config_.connect_timeout_ns;
    SKERRY_ASSERT(share::make_proxy_client(std::move(side), std::move(client), &side).ok(),
                  "the policy is one of the known");
  }
  engine_ = std::make_unique<origin::Engine>(std::move(config), std::move(side));
  (void)limit(node_limits ? 0 : config_.cap);
}

Status RankProcess::limit(uint32_t connections) {
  // Under a higher limit more may open before the call returns.
  if (connections == 0 || (allowed_ != 0 && connections > allowed_)) allowed_ = connections;
  SKERRY_TRY(engine_->limit_connections(connections));
  // Those beyond a lower limit leave as their slots are needed.
  const uint32_t open = fabric_->opened_now();
  allowed_ = connections == 0 ? 0 : std::max(connections, open);
  fabric_->forget_peak();
  return {};
}

void RankProcess::check(Checker& checker) {
  if (config_.share != Share::none) return;
  if (allowed_ != 0 && fabric_->opened_peak() > allowed_ + 1)
    checker.fail("rank ", rank_, " had ", fabric_->opened_peak(),
                 " connections at a time; its limit is ", allowed_,
                 ", and one that leaves besides");
}

Status RankProcess::finish() { return engine_->close_all(); }

void RankProcess::stop() {
  engine_->stop_helper();
  engine_.reset();
}

void RankProcess::die() {
  if (fabric_ != nullptr) fabric_->die();
  (void)engine_.release();
}

Status RankProcess::ended() const {
  return error(Code::peer_dead, "the job is ending: ",
               static_cast<const char*>(node_.control().header().abort_text));
}

Status RankProcess::put(Rank target, const Side& to, const Side& from,
                        const origin::Notify* notify, origin::Mode mode,
                        origin::Handle* handle) {
  if (!is_local(target)) {
    Access access = Access::put({target, data_segment}, to, from, mode);
    if (notify != nullptr) access.notify = *notify;
    return engine_->issue(access, handle);
  }
  if (handle != nullptr) *handle = 0;
  const memory::Region region = node_.region(target);
  const std::vector<Piece> whole = {{0, from.bytes}}, there = {{to.offset, to.bytes}};
  memory::Cursor source(from.form == Side::Form::pieces ? from.pieces : std::span(whole));
  memory::Cursor destination = to.form == Side::Form::pieces ? memory::Cursor(to.pieces)
                               : to.form == Side::Form::strided
                                   ? memory::Cursor(*to.shape)
                                   : memory::Cursor(std::span<const Piece>(there));
  std::vector<std::byte> stream(from.bytes);
  source.pack(stream, from.base);
  destination.unpack(region.base + (to.form == Side::Form::strided ? to.offset : 0), stream);
  if (notify == nullptr) return {};
  uint64_t old = 0;
  if (memory::rmw(region, notify->counter_offset,
                  {memory::RmwOp::fetch_add, 8, notify->increment, 0}, stripes(),
                  memory::Patience::wait, &old) != LockResult::locked)
    return ended();
  memory::ring_doorbell(node_.control().member(node_.member_of(target)));
  return {};
}

Status RankProcess::get(Rank target, const Side& from, const Side& to, origin::Mode mode,
                        origin::Handle* handle) {
  if (!is_local(target))
    return engine_->issue(Access::get({target, data_segment}, from, to, mode), handle);
  if (handle != nullptr) *handle = 0;
  const memory::Region region = node_.region(target);
  const std::vector<Piece> whole = {{0, to.bytes}}, there = {{from.offset, from.bytes}};
  memory::Cursor destination(to.form == Side::Form::pieces ? to.pieces : std::span(whole));
  memory::Cursor source = from.form == Side::Form::pieces ? memory::Cursor(from.pieces)
                          : from.form == Side::Form::strided
                              ? memory::Cursor(*from.shape)
                              : memory::Cursor(std::span<const Piece>(there));
  std::vector<std::byte> stream(to.bytes);
  source.pack(stream, region.base + (from.form == Side::Form::strided ? from.offset : 0));
  destination.unpack(to.base, stream);
  return {};
}

Status RankProcess::accumulate(Rank target, const Side& to, const Side& from,
                               const origin::Accumulate& what, origin::Mode mode,
                               origin::Handle* handle) {
  if (!is_local(target))
    return engine_->issue(Access::accumulate({target, data_segment}, to, from, what, mode), handle);
  if (handle != nullptr) *handle = 0;
  const memory::Applied applied = memory::accumulate(node_.region(target), to.offset, from.base,
                                                     from.bytes, what, stripes(),
                                                     memory::Patience::wait);
  return applied.result == LockResult::locked ? Status() : ended();
}

Status RankProcess::fetch_update(Rank target, const Side& to, const Side& from, const Side& result,
                                 const origin::Accumulate& what, origin::Mode mode,
                                 origin::Handle* handle) {
  if (!is_local(target))
    return engine_->issue(
        Access::fetch_update({target, data_segment}, to, from, result, what, mode), handle);
  if (handle != nullptr) *handle = 0;
  const memory::Applied applied = memory::accumulate(node_.region(target), to.offset, from.base,
                                                     from.bytes, what, stripes(),
                                                     memory::Patience::wait, result.base);
  return applied.result == LockResult::locked ? Status() : ended();
}

Status RankProcess::read_modify_write(Rank target, uint64_t offset, wire::Rmw op, uint64_t operand,
                                      uint64_t expected, uint64_t* old) {
  if (!is_local(target))
    return engine_->read_modify_write({target, data_segment}, offset, op, operand, expected, old);
  const auto code = static_cast<uint8_t>(op);
  const memory::Rmw what{static_cast<memory::RmwOp>(code / 2), 8, operand, expected};
  return memory::rmw(node_.region(target), offset, what, stripes(), memory::Patience::wait, old) ==
                 LockResult::locked
             ? Status()
             : ended();
}

Status RankProcess::wait_counter(uint64_t counter_offset, uint64_t count) {
  SKERRY_TRY(engine_->push_out());
  auto& counter = *reinterpret_cast<uint64_t*>(node_.region(rank_).base + counter_offset);
  const WaitResult result = memory::wait_doorbell(
      node_.control().member(member_), node_.control().abort_flag(), no_deadline,
      [&] { return __atomic_load_n(&counter, __ATOMIC_ACQUIRE) >= count; });
  return result == WaitResult::reached ? Status() : ended();
}

// ---- mutexes of the own node: as job::Mutexes does --------------------------------------------

Status RankProcess::lock(Rank target, uint64_t index, uint64_t holder) {
  if (!is_local(target)) return engine_->lock({target, mutex_segment}, index, holder);
  lock::Mutex& mutex = node_.mutex(target, index);
  const bool taken = lock::shares(holder)
                         ? lock::share(mutex, lock::reader_lines(node_.control()), member_, holder)
                         : lock::try_lock(mutex, holder) == lock::LockAnswer::granted;
  return taken ? Status() : lock_here(mutex, holder);
}

// As job::Mutexes::lock in a job that goes on.
Status RankProcess::lock_or_inherit(Rank target, uint64_t index, uint64_t holder, bool* told) {
  uint64_t asks = 1;
  if (is_local(target)) SKERRY_TRY(lock(target, index, holder));
  else SKERRY_TRY(engine_->lock({target, mutex_segment}, index, holder, &asks));
  *told = false;
  if (asks == 0) return {};
  uint64_t died = 0;
  if (is_local(target))
    died = static_cast<uint64_t>(lock::take_death(node_.mutex(target, index)) + 1);
  else
    SKERRY_TRY(engine_->read_modify_write({target, mutex_segment}, index, wire::Rmw::take_death,
                                          holder, 0, &died));
  *told = died != 0;
  return {};
}

Status RankProcess::lock_here(lock::Mutex& mutex, uint64_t holder) {
  SKERRY_TRY(engine_->push_out());
  uint32_t slot = 0;
  SKERRY_TRY(engine_->borrow_slot(&slot));
  const memory::Control& control = node_.control();
  memory::CompletionSlot& mine = control.slot(member_ * control.layout().slots_per_member + slot);
  lock::LockCaller caller = node_.caller_of(member_);
  const lock::LockAnswer answer = lock::wait_for_lock(
      mutex, holder, slot, mine, caller,
      [](int64_t until_ns, auto&& wait) { return wait(until_ns); });
  const Status status = answer == lock::LockAnswer::granted ? Status() : ended();
  memory::free_slot(mine);
  engine_->return_slot(slot);
  return status;
}

namespace {

// Hands a lock over, and dies before it tells the next holder.
class DyingCaller final : public lock::Caller {
 public:
  DyingCaller(lock::LockCaller& living, const std::function<void()>& dies)
      : Caller(living.pool), living_(living), dies_(dies) {}
  bool acquire(OwnerWord& guard) override { return living_.acquire(guard); }
  void release(OwnerWord& guard) override { living_.release(guard); }
  bool reaches(const lock::Waiter& waiter) const override { return living_.reaches(waiter); }
  void tell(const lock::Waiter&) override { dies_(); }
  bool invites(const lock::Waiter& waiter) const override { return living_.invites(waiter); }
  void record_freed() override { living_.record_freed(); }

 private:
  lock::LockCaller& living_;
  const std::function<void()>& dies_;
};

}  // namespace

// A waiter on another node can be told by the node's data server only: it does the hand-over then.
Status RankProcess::unlock(Rank target, uint64_t index, uint64_t holder) {
  if (!is_local(target)) return engine_->unlock({target, mutex_segment}, index, holder);
  lock::Mutex& mutex = node_.mutex(target, index);
  const bool released = lock::shares(holder)
                            ? lock::unshare(mutex, lock::reader_lines(node_.control()), member_)
                            : lock::try_unlock(mutex, holder) == lock::UnlockAnswer::released;
  if (released) return {};
  lock::LockCaller caller = node_.caller_of(member_);
  DyingCaller dying(caller, dies_);
  lock::Caller& who = dies_ ? static_cast<lock::Caller&>(dying) : caller;
  const lock::UnlockAnswer answer = lock::release(mutex, holder, who);
  if (answer == lock::UnlockAnswer::released) return {};
  if (answer == lock::UnlockAnswer::not_holder)
    return error(Code::invalid, "rank ", rank_, " unlocks what it does not hold");
  if (answer != lock::UnlockAnswer::out_of_reach) return ended();
  SKERRY_TRY(engine_->unlock({target, mutex_segment}, index, holder));
  return engine_->fence_node(node_.id());
}

}  // namespace skerry::sim
