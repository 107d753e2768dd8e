// Life of a window, and access epochs that need nothing of the target: lock, unlock, flush.
#include "window/window.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace skerry::window {

std::string_view to_string(Flavor flavor) {
  switch (flavor) {
    case Flavor::allocated: return "allocated";
    case Flavor::created: return "created";
    case Flavor::dynamic: return "dynamic";
  }
  return "unknown";
}

std::string_view to_string(Epoch epoch) {
  switch (epoch) {
    case Epoch::none: return "no";
    case Epoch::fence: return "a fence";
    case Epoch::start: return "a start";
    case Epoch::lock: return "a lock";
    case Epoch::lock_all: return "a lock_all";
  }
  return "unknown";
}

namespace {

// Locks belong to the rank: any of its threads may unlock.
constexpr uint32_t holder_thread = 1;

lock::Holder holder_of(const job::Job& job, const Target& target) {
  return lock::make_holder(job.rank(), holder_thread) | (target.shared ? lock::shared_bit : 0);
}

}  // namespace

// ---- life -------------------------------------------------------------------------------------

namespace {
// Of given memory: its description in a page of its own, then the pages that moved in.
constexpr uint64_t moved_at = 4096;
static_assert(memory::given_one_bytes <= moved_at);
}  // namespace

// Before the others look at the description.
void Window::move_in(void* base, const memory::Pages& pages) {
  if (!moved_.move_in(pages, data_->own() + moved_at)) return;
  given()->moved_from.store(static_cast<uint64_t>(pages.begin - static_cast<std::byte*>(base)));
  given()->moved_bytes.store(pages.bytes);
  // A program may end its job without freeing its windows, and go on with its memory.
  const std::lock_guard lock(job_->shelves_mutex_);
  job_->before_segments_go_[this] = [this] { (void)moved_.move_out(); };
}

void Window::forget_moved() {
  if (!any_moves_) return;
  const std::lock_guard lock(job_->shelves_mutex_);
  job_->before_segments_go_.erase(this);
  any_moves_ = false;
}

Window::~Window() { forget_moved(); }

// What a member says of itself before the window is made.
struct Window::Told {
  uint64_t bytes, unit;
  uint32_t code;  // of the failure that it has already; 0: none
  uint8_t is_fair_queue, protocol, migration, check, moves;
  uint8_t is_unsure;  // it did not reach the memory of all; some may not have allowed it yet
  uint16_t held;      // Reserve::held
};

void Window::give(job::Segment& data, void* base, uint64_t bytes) const {
  auto* const given = reinterpret_cast<memory::Given*>(data.own());
  if (flavor_ == Flavor::created) given->give_one(base, bytes);
  else given->give_many();
}

// Collective.
Status Window::make_data(void* base, uint64_t bytes) {
  const uint64_t slice_bytes = flavor_ == Flavor::allocated ? bytes
                               : flavor_ == Flavor::created ? memory::given_one_bytes
                                                            : sizeof(memory::Given);
  memory::Pages pages;
  if (any_moves_) pages = memory::movable_pages(base, bytes);
  const bool is_allocated = flavor_ == Flavor::allocated;
  const uint32_t purpose = is_allocated ? job::purpose_window : job::purpose_given;
  Status made = job::Segment::alloc(*group_, pages.bytes > 0 ? moved_at + pages.bytes : slice_bytes,
                                    purpose, &data_);
  if (!made.ok() && any_moves_) {  // no room for it: the memory stays where it is
    pages = {};
    made = job::Segment::alloc(*group_, slice_bytes, purpose, &data_);
  }
  SKERRY_TRY(made);
  if (is_allocated) return {};
  give(*data_, base, bytes);
  move_in(base, pages);
  return {};
}

// *is_known: all members know that the others' data are ready.
Status Window::open_data(void* base, uint64_t bytes, bool* is_known) {
  Reserve& reserve = Reserve::of(*group_);
  job::Segment* const kept = keeps_data_ && !any_moves_ ? reserve.find_data(kind(), shape())
                                                        : nullptr;
  *is_known = kept != nullptr || flavor_ == Flavor::allocated;
  if (kept == nullptr) return make_data(base, bytes);
  reserve.take_data(kept);
  data_ = kept;
  return {};
}

Status Window::open(void* base, uint64_t bytes, const lock::Choice& choice, bool has_desk) {
  bool is_known = false;
  SKERRY_TRY(open_data(base, bytes, &is_known));
  if (!has_desk) SKERRY_TRY(Reserve::of(*group_).make_desk(&desk_));
  if (choice.machines == nullptr) {
    locks_ = desk_.locks;
    lock_index_ = desk_.place;
  } else {
    SKERRY_TRY(MachineLocks::create(*group_, choice, &machines_));
  }
  exposure_.open(*group_, *desk_.signals, desk_.signals_at);
  return is_known || !has_desk || choice.machines != nullptr ? Status() : group_->barrier();
}

// Fails alike on all members if one has failed already, or wants something else. Whatever a member
// wrote before, the others see on return.
Status Window::compare(job::Group& group, const Told& mine, const Status& status,
                       std::vector<Told>* told) {
  told->resize(static_cast<size_t>(group.size()));
  SKERRY_TRY(group.allgather(&mine, sizeof mine, told->data()));
  const auto failed = std::ranges::find_if(*told, [](const Told& one) { return one.code != 0; });
  SKERRY_TRY(group.explain(static_cast<int32_t>(failed - told->begin()), status));
  for (const Told& one : *told) {
    if (one.is_fair_queue != mine.is_fair_queue || one.protocol != mine.protocol ||
        one.migration != mine.migration)
      return error(Code::config, "SKERRY_LOCK is not the same on all members of the window");
    if (one.check != mine.check)
      return error(Code::config, "SKERRY_CHECK is not the same on all members of the window");
  }
  return {};
}

// Collective. By the first exchange all have allowed what the system needs to be asked for. So
// where one did not reach the others' memory before it, all look once more.
Status Window::agree(job::Group& group, const Window& made, Told mine, const Status& status,
                     std::vector<Told>* told) {
  SKERRY_TRY(compare(group, mine, status, told));
  if (std::ranges::none_of(*told, [](const Told& one) { return one.is_unsure != 0; })) return {};
  const Status reached = made.check_reach();
  mine.code = static_cast<uint32_t>(reached.code());
  return compare(group, mine, reached, told);
}

void Window::take_note(const std::vector<Told>& told) {
  std::vector<uint64_t> sizes, units;
  for (const Told& one : told) {
    any_moves_ = any_moves_ || one.moves != 0;
    most_bytes_ = std::max(most_bytes_, one.bytes);
    sizes.push_back(one.bytes);
    units.push_back(one.unit);
  }
  members_.bytes.assign(std::move(sizes));
  members_.unit.assign(std::move(units));
}

Status Window::make(job::Group& group, Flavor flavor, void* base, uint64_t bytes, uint64_t unit,
                    std::unique_ptr<Window>* window) {
  const job::JobOptions& options = group.job().options();
  lock::Choice choice;
  Status status = lock::choose(options.config.lock, &choice);
  const Check::Level check = options.config.check;
  if (status.ok() && unit == 0)
    status = error(Code::invalid, "unit is 0: give the bytes of one displacement, >= 1");
  if (status.ok() && flavor == Flavor::created && base == nullptr && bytes > 0)
    status = error(Code::invalid, "base is null, and bytes ", bytes, ": give the memory");
  if (status.ok() && flavor != Flavor::allocated) status = memory::allow_given();
  auto made = std::make_unique<Window>();
  made->job_ = &group.job();
  made->group_ = &group;
  made->flavor_ = flavor;
  made->multiple_ = options.thread_level == job::ThreadLevel::multiple;
  made->keeps_data_ = check == Check::Level::off;
  // What the group keeps is made ready before the members compare, so that one collective is all.
  Reserve& reserve = Reserve::of(group);
  const bool has_desk = reserve.take_desk(&made->desk_);
  if (flavor != Flavor::allocated && status.ok())
    if (job::Segment* const kept = reserve.find_data(made->kind(), {}); kept != nullptr)
      made->give(*kept, base, bytes);
  const bool is_unsure = status.ok() && flavor != Flavor::allocated && !made->check_reach().ok();
  const Told mine{bytes,
                  unit,
                  static_cast<uint32_t>(status.code()),
                  choice.machines == nullptr,
                  choice.machines == nullptr ? uint8_t{0} : choice.machines->id,
                  static_cast<uint8_t>(choice.migration),
                  static_cast<uint8_t>(check),
                  flavor == Flavor::created && options.config.move_given,
                  is_unsure,
                  reserve.held(made->kind())};
  std::vector<Told> told;
  Status opened = agree(group, *made, mine, status, &told);
  if (opened.ok()) {
    made->take_note(told);
    uint16_t held = 0;
    for (const Told& one : told) held |= one.held;
    reserve.give_up_held(made->kind(), held);
    opened = made->open(base, bytes, choice, has_desk);
  }
  if (!opened.ok()) {
    made->give_up_segments();  // all members failed alike, and give back the same
    return opened;
  }
  if (check != Check::Level::off) {
    const SegmentId id = made->data_->id();
    made->check_ = std::make_unique<Check>(
        check, made->job_->rank(),
        "window (" + std::to_string(id.owner) + ", " + std::to_string(id.generation) + ")",
        made->job_->engine());
  }
  made->own_ = flavor == Flavor::allocated ? made->data_->own() : base;
  *window = std::move(made);
  return {};
}

Status Window::allocate(job::Group& group, uint64_t bytes, uint64_t unit,
                        std::unique_ptr<Window>* window) {
  return make(group, Flavor::allocated, nullptr, bytes, unit, window);
}

Status Window::create(job::Group& group, void* base, uint64_t bytes, uint64_t unit,
                      std::unique_ptr<Window>* window) {
  return make(group, Flavor::created, base, bytes, unit, window);
}

Status Window::create_dynamic(job::Group& group, std::unique_ptr<Window>* window) {
  return make(group, Flavor::dynamic, nullptr, 0, 1, window);
}

Status Window::attach(void* base, uint64_t bytes) {
  SKERRY_TRY(check_usable());
  if (flavor_ != Flavor::dynamic)
    return error(Code::invalid, "attach to a window that is ", to_string(flavor_),
                 ": only dynamic ones take further memory");
  const State state = guard();
  if (bytes > 0) return given()->add(base, bytes);
  empty_areas_.push_back(base);
  return {};
}

Status Window::detach(void* base) {
  SKERRY_TRY(check_usable());
  if (flavor_ != Flavor::dynamic)
    return error(Code::invalid, "detach from a window that is ", to_string(flavor_),
                 ": only dynamic ones give memory back");
  const State state = guard();
  const Status removed = given()->remove(base);
  const auto empty = std::ranges::find(empty_areas_, base);
  if (removed.ok() || empty == empty_areas_.end()) return removed;
  empty_areas_.erase(empty);
  return {};
}

std::unique_ptr<Window> Window::stand_in(job::Job& job) {
  auto made = std::make_unique<Window>();
  made->job_ = &job;
  return made;
}

// Nobody accesses them any more, and all members know that.
void Window::give_up_segments() {
  const auto release = [&](job::Segment* segment) {
    if (segment == nullptr) return;
    (void)segment->release();
    job_->discard(segment, &job_->segments_);
  };
  Reserve& reserve = Reserve::of(*group_);
  job::Segment* const data = std::exchange(data_, nullptr);
  const bool views_stay = data != nullptr && flavor_ == Flavor::allocated && data->is_held();
  const bool keeps = data != nullptr && keeps_data_ && !any_moves_ &&
                     reserve.keep_data(kind(), shape(),
                                       flavor_ == Flavor::allocated ? most_bytes_ : 0, data,
                                       !views_stay);
  if (!keeps) release(data);
  else if (flavor_ != Flavor::allocated) reinterpret_cast<memory::Given*>(data->own())->take_back();
  else if (own_ != nullptr && !views_stay) std::memset(own_, 0, bytes_of(job_->rank()));
  if (desk_.signals != nullptr) reserve.give_back(std::exchange(desk_, {}));
  locks_ = nullptr;
  release(machines_ != nullptr ? &machines_->segment() : nullptr);
  machines_.reset();
}

Status Window::close_segments() {
  Status synced;
  if (!group_->is_freed()) synced = group_->sync();
  else if (group_->size() == 1) synced = job_->engine().fence_all();
  else synced = error(Code::freed, "the window's group was freed: free its windows first");
  const Status moved = any_moves_ ? moved_.move_out() : Status();
  forget_moved();
  // Whatever else was reported belongs to earlier requests: the others free it, so this member
  // does.
  const Code code = synced.code();
  if (code == Code::peer_dead || code == Code::network || code == Code::freed) return synced;
  give_up_segments();
  return synced.ok() ? moved : synced;
}

Status Window::free() {
  SKERRY_TRY(check_usable());
  if (epoch_ != Epoch::none && epoch_ != Epoch::fence)
    return error(Code::invalid, "the window is freed inside ", to_string(epoch_),
                 " epoch: end it first");
  if (exposure_.is_open())
    return error(Code::invalid, "the window is freed between post and wait: wait first");
  const Status waited = done_there(no_rank, wait_issued());
  const Status closed = close_segments();
  targets_.clear();
  recent_ = quick_ = nullptr;
  group_ = nullptr;
  return waited.ok() ? closed : waited;
}

// ---- queries ----------------------------------------------------------------------------------

std::byte* Window::pointer(Rank rank) const {
  if (flavor_ != Flavor::allocated) return nullptr;
  const memory::Region* region = data_->local(rank);
  return region == nullptr ? nullptr : region->base;
}

uint64_t Window::bytes_of(Rank rank) const {
  const int32_t index = group_->index_of(rank);
  return index < 0 ? 0 : members_.bytes.of(index);
}

uint64_t Window::unit_of(Rank rank) const {
  const int32_t index = group_->index_of(rank);
  return index < 0 ? 0 : members_.unit.of(index);
}

// ---- checks -----------------------------------------------------------------------------------

Status Window::check_usable() const {
  return is_freed() ? error(Code::freed, "the window was freed") : Status();
}

Status Window::check_member(Rank rank) const {
  if (group_->index_of(rank) >= 0) return {};
  if (rank < 0 || rank >= job_->size())
    return error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                 job_->size() - 1);
  return error(Code::invalid, "rank ", rank, " is not a member of the window's group");
}

// The others of the group look for themselves, so each pair of this node's members is looked at.
Status Window::check_reach() const {
  const placement::NodeMap& map = job_->map();
  const NodeId node = map.node_of(job_->rank());
  for (int32_t k = 0; k < map.node_size(node); ++k)
    if (group_->index_of(map.node_rank(node, k)) >= 0)
      SKERRY_TRY(memory::check_reach(job_->control().member(static_cast<uint32_t>(k)).pid));
  return {};
}

Status Window::check_promises(uint32_t promises, uint32_t allowed, std::string_view call) const {
  if ((promises & ~allowed) == 0) return {};
  return error(Code::invalid, "promises ", promises, " of ", call, ": it takes a sum of ", allowed,
               "'s bits only");
}

// A member of this node whose memory the program gave. This rank's own is as good as mapped.
void Window::describe_given(Target& target) const {
  memory::Region& region = target.given;
  region.seed = target.region->seed;
  region.bytes = target.bytes;
  if (target.rank == job_->rank() && flavor_ == Flavor::created) {
    region.base = static_cast<std::byte*>(own_);
  } else {
    region.kind = memory::Kind::given;
    region.given = reinterpret_cast<const memory::Given*>(target.region->base);
  }
  if (flavor_ == Flavor::created && region.given != nullptr &&
      region.given->moved_bytes.load() > 0) {
    const uint64_t from = region.given->moved_from.load();
    target.moved.seed = region.seed;
    target.moved.base = target.region->base + moved_at - from;  // offsets count from its start
    target.moved.bytes = from + region.given->moved_bytes.load();
    target.moved_from = from;
  }
  target.region = &region;
}

void Window::find_plain(Target& target) {
  if (target.region == nullptr) return;
  if (target.region->kind != memory::Kind::given) {
    target.plain = target.region;
  } else if (target.moved.bytes > target.moved_from) {
    target.plain = &target.moved;
    target.plain_from = target.moved_from;
  }
}

Status Window::find_target(Rank rank, Target** found) {
  std::unique_ptr<Target>& known = targets_[rank];
  if (known == nullptr) {
    if (Status status = check_member(rank); !status.ok()) {
      targets_.erase(rank);
      return status;
    }
    known = std::make_unique<Target>();
    known->rank = rank;
    known->node = job_->map().node_of(rank);
    known->unit = unit_of(rank);
    known->bytes = flavor_ == Flavor::dynamic ? UINT64_MAX : bytes_of(rank);
    known->region = data_->local(rank);
    if (known->region != nullptr && flavor_ != Flavor::allocated) describe_given(*known);
    find_plain(*known);
    if (machines_ != nullptr) known->machine = machines_->requester_of(rank);
    else if (const memory::Region* lock = locks_->segment().local(rank); lock != nullptr)
      known->mutex = reinterpret_cast<lock::Mutex*>(lock->base) + lock_index_;
  }
  *found = known.get();
  if (multiple_) return {};
  recent_ = known.get();
  quick_ = check_ == nullptr && known->region != nullptr ? known.get() : nullptr;
  return {};
}

// ---- locks ------------------------------------------------------------------------------------

// Where several threads call: a thread takes or gives back this lock right now, outside `state`.
void Window::await_settled(const Target& target, State& state) const {
  if (multiple_) settled_->wait(state, [&] { return target.hold != Hold::busy; });
}

void Window::settle(Target& target, Hold hold, State& state) const {
  if (multiple_ && !state.owns_lock()) state.lock();
  target.hold = hold;
  if (multiple_) settled_->notify_all();
}

// A rank waits for locks in the order in which it asked for them. So it takes the one that is only
// asked for before it waits for another, of whatever window, and before it locks a mutex.
Status Window::take_lazy(job::Job& job) {
  auto* const window = static_cast<Window*>(std::exchange(job.lazy_window_, nullptr));
  if (window == nullptr) return {};
  Target& target = *std::exchange(window->lazy_, nullptr);
  State state;  // below thread level multiple alone
  return window->flush_deferred(target, state);
}

void Window::forget_lazy(const Target& target) {
  if (lazy_ != &target) return;
  lazy_ = nullptr;
  job_->lazy_window_ = nullptr;
}

Status Window::acquire(Target& target) {
  if (job_->lazy_window_ != nullptr) [[unlikely]]
    SKERRY_TRY(take_lazy(*job_));
  if (target.machine != nullptr) [[unlikely]] {
    SKERRY_TRY(target.machine->lock(target.shared));
    count_held(1);
    return {};
  }
  lock::Holder holder = holder_of(*job_, target);
  // Ranks that hold some locks and wait for others would wait for each other in a circle.
  if (target.shared && job_->window_locks_.load(std::memory_order_relaxed) != 0)
    holder |= lock::joins_bit;
  const bool here = target.mutex != nullptr &&
                    (target.shared
                         ? locks_->share_here(*target.mutex, holder)
                         : lock::try_lock(*target.mutex, holder) == lock::LockAnswer::granted);
  if (!here) [[unlikely]]
    SKERRY_TRY(locks_->lock_as(target.rank, lock_index_, holder));
  count_held(1);
  return {};
}

// Its lock is held on return, or as much as before. It waits outside `state`: other threads go on.
Status Window::take(Target& target, State& state) {
  const Hold before = target.hold;
  if (multiple_) {
    target.hold = Hold::busy;
    state.unlock();
  }
  const Status status = acquire(target);
  settle(target, status.ok() ? Hold::held : before, state);
  return status;
}

Status Window::issue_deferred(Target& target) {
  Deferred& deferred = target.deferred;
  operation::Side remote, local;
  remote.offset = deferred.offset;
  switch (std::exchange(deferred.kind, Deferred::Kind::none)) {
    case Deferred::Kind::none: return {};
    case Deferred::Kind::put:
      local.base = deferred.data.data();
      remote.bytes = local.bytes = deferred.data.size();
      return job_->engine().put(address(target), remote, local, nullptr, operation::Mode::blocking,
                                nullptr);
    case Deferred::Kind::get:
      local.base = deferred.into.data();
      remote.bytes = local.bytes = deferred.into.size();
      return job_->engine().get(address(target), remote, local, operation::Mode::implicit, nullptr);
    case Deferred::Kind::update:
      local.base = deferred.data.data();
      remote.bytes = local.bytes = deferred.data.size();
      return job_->engine().accumulate(address(target), remote, local, deferred.what,
                                       operation::Mode::blocking, nullptr);
    case Deferred::Kind::fetch_update: break;
  }
  operation::Side result;
  result.base = deferred.into.data();
  local.base = deferred.data.empty() ? result.base : deferred.data.data();
  remote.bytes = local.bytes = result.bytes = deferred.into.size();
  return job_->engine().fetch_update(address(target), remote, local, result, deferred.what,
                                     operation::Mode::implicit, nullptr);
}

// The epoch goes on: the lock is taken after all.
Status Window::flush_deferred(Target& target, State& state) {
  forget_lazy(target);
  SKERRY_TRY(take(target, state));
  return issue_deferred(target);
}

Status Window::release_at_once(Target& target, bool* released) {
  const operation::Target at = address(target);
  const operation::Engine::Locked lock{locks_->segment().id(), lock_index_,
                                       holder_of(*job_, target)};
  Deferred& deferred = target.deferred;
  bool contended = false;
  Status status;
  switch (deferred.kind) {
    case Deferred::Kind::none: break;
    case Deferred::Kind::put:
      status = job_->engine().put_locked(at, deferred.offset, deferred.data, lock, &contended);
      break;
    case Deferred::Kind::get:
      status = job_->engine().get_locked(at, deferred.offset, deferred.into, lock, &contended);
      break;
    case Deferred::Kind::update:
      status = job_->engine().update_locked(at, deferred.offset, deferred.what, deferred.data, {},
                                            lock, &contended);
      break;
    case Deferred::Kind::fetch_update:
      status = job_->engine().update_locked(at, deferred.offset, deferred.what, deferred.data,
                                            deferred.into, lock, &contended);
      break;
  }
  *released = !contended;
  if (*released) deferred.kind = Deferred::Kind::none;
  return status;
}

// Everything that this rank issued is done here, with handles or without.
Status Window::wait_issued() const {
  const Status implicit = job_->engine().wait_implicit();
  const Status named = job_->engine().wait_named();
  return implicit.ok() ? named : implicit;
}

Status Window::finish(const Target& target) {
  if (target.region != nullptr) {
    complete_stores();
    return {};
  }
  const Status waited = wait_issued();
  const Status fenced = job_->engine().fence_node(target.node);
  return waited.ok() ? fenced : waited;
}

Status Window::give_back(Target& target) {
  // What goes to the lock's node behind the accesses takes effect behind them. Only a message to
  // another rank could come before.
  const bool tells = target.machine->tells_directly();
  const Status waited = tells                      ? finish(target)
                        : target.region == nullptr ? wait_issued()
                                                   : Status();
  const Status unlocked = target.machine->unlock();
  const Status fenced = tells ? Status() : finish(target);
  return !waited.ok() ? waited : !unlocked.ok() ? unlocked : fenced;
}

Status Window::give_back_fairly(Target& target) {
  const lock::Holder holder = holder_of(*job_, target);
  if (target.mutex != nullptr) {
    if (target.shared && locks_->unshare_here(*target.mutex)) return {};
    if (lock::try_unlock(*target.mutex, holder) == lock::UnlockAnswer::released) [[likely]]
      return {};
    return locks_->unlock_as(target.rank, lock_index_, holder);
  }
  // The gets' data must be here, and the rest is applied in order before the unlock.
  const Status waited = wait_issued();
  const Status unlocked = locks_->unlock_as(target.rank, lock_index_, holder);
  const Status fenced = job_->engine().fence_node(target.node);
  return !waited.ok() ? waited : !unlocked.ok() ? unlocked : fenced;
}

Status Window::end_epoch(Target& target, Hold before) {
  Status issued;
  if (before == Hold::wanted && machines_ == nullptr) {
    forget_lazy(target);
    bool released = false;
    const Status status = release_at_once(target, &released);
    if (released) return status;
    // Others have the lock: queue up for it.
    if (Status taken = acquire(target); !taken.ok()) {
      target.deferred.kind = Deferred::Kind::none;
      return taken;
    }
    issued = issue_deferred(target);  // whatever comes of it, the lock is given back
    before = Hold::held;
  }
  Status ended;
  if (before == Hold::held) {
    count_held(-1);
    complete_stores();
    ended = target.machine != nullptr ? give_back(target) : give_back_fairly(target);
  } else if (before == Hold::free) {
    ended = finish(target);
  }
  return issued.ok() ? ended : issued;
}

Status Window::release(Target& target, State& state) {
  const Hold before = std::exchange(target.hold, multiple_ ? Hold::busy : Hold::none);
  if (!multiple_) return end_epoch(target, before);
  state.unlock();
  const Status status = end_epoch(target, before);
  settle(target, Hold::none, state);
  return status;
}

Status Window::lock(lock::Holder mode, Rank rank, uint32_t promises) {
  SKERRY_TRY(check_usable());
  SKERRY_TRY(check_promises(promises, no_check, "lock"));
  State state = guard();
  Target* target = nullptr;
  SKERRY_TRY(this->target(rank, &target));
  await_settled(*target, state);
  if (epoch_ != Epoch::none && epoch_ != Epoch::fence && epoch_ != Epoch::lock) [[unlikely]]
    return error(Code::invalid, "rank ", job_->rank(), " locks rank ", rank, " inside ",
                 to_string(epoch_), " epoch of the same window: end that first");
  if (target->hold != Hold::none) [[unlikely]]
    return error(Code::invalid, "rank ", job_->rank(), " locks rank ", rank,
                 " again: unlock it first (a shared lock cannot become an exclusive one)");
  target->shared = mode != 0;
  target->own_epoch = true;
  epoch_ = Epoch::lock;
  ++locked_;
  if (promises != 0) {
    target->hold = Hold::free;
    return {};
  }
  // Where several threads call, an access must not be the one that waits for the lock.
  const bool lazily = target->mutex == nullptr && machines_ == nullptr && !multiple_;
  const Status status = lazily ? take_lazy(*job_) : take(*target, state);
  if (!status.ok()) [[unlikely]] {
    if (--locked_ == 0) epoch_ = Epoch::none;
    return status;
  }
  if (lazily) {
    target->hold = Hold::wanted;
    lazy_ = target;
    job_->lazy_window_ = this;
    job_->take_lazy_ = &Window::take_lazy;
  }
  return {};
}

bool Window::lock_quickly(Rank rank) {
  Target* const target = quick_;
  if (target == nullptr || target->rank != rank || target->hold != Hold::none ||
      target->mutex == nullptr || epoch_ > Epoch::fence || job_->lazy_window_ != nullptr ||
      !job_->is_alive()) [[unlikely]]
    return false;
  if (lock::try_lock(*target->mutex, lock::make_holder(job_->rank(), holder_thread)) !=
      lock::LockAnswer::granted) [[unlikely]]
    return false;
  target->shared = false;
  target->own_epoch = true;
  target->hold = Hold::held;
  epoch_ = Epoch::lock;
  ++locked_;
  count_held(1);
  return true;
}

bool Window::unlock_quickly(Rank rank) {
  Target* const target = quick_;
  if (target == nullptr || target->rank != rank || target->hold != Hold::held ||
      !target->own_epoch || target->shared || target->mutex == nullptr || !job_->is_alive())
      [[unlikely]]
    return false;
  if (lock::try_unlock(*target->mutex, lock::make_holder(job_->rank(), holder_thread)) !=
      lock::UnlockAnswer::released) [[unlikely]]
    return false;
  full_fence_after_rmw();
  has_stored_ = false;  // below thread level multiple alone
  target->hold = Hold::none;
  if (--locked_ == 0) epoch_ = Epoch::none;
  count_held(-1);
  return true;
}

Status Window::locked_target(Rank rank, std::string_view call, State& state, Target** found) {
  SKERRY_TRY(target(rank, found));
  await_settled(**found, state);
  if ((*found)->hold != Hold::none && (*found)->own_epoch) [[likely]]
    return {};
  return error(Code::invalid, "rank ", job_->rank(), " calls ", call, " for rank ", rank,
               ", which it has not locked");
}

Status Window::unlock(Rank rank) {
  SKERRY_TRY(check_usable());
  State state = guard();
  Target* target = nullptr;
  SKERRY_TRY(locked_target(rank, "unlock", state, &target));
  if (--locked_ == 0) epoch_ = Epoch::none;
  return done_there(rank, release(*target, state));
}

Status Window::lock_all(uint32_t promises) {
  SKERRY_TRY(check_usable());
  SKERRY_TRY(check_promises(promises, no_check, "lock_all"));
  const State state = guard();
  if (epoch_ != Epoch::none && epoch_ != Epoch::fence)
    return error(Code::invalid, "rank ", job_->rank(), " calls lock_all inside ", to_string(epoch_),
                 " epoch of the same window: end that first");
  epoch_ = Epoch::lock_all;
  all_promises_ = promises;
  return {};
}

// Members that an epoch has reached: the map changes while others wait outside `state`.
std::vector<Target*> Window::targets_in_use(State& state) const {
  std::vector<Target*> found;
  for (auto& [rank, target] : targets_)
    if (target->hold != Hold::none) found.push_back(target.get());
  for (Target* target : found) await_settled(*target, state);
  return found;
}

Status Window::unlock_all() {
  SKERRY_TRY(check_usable());
  State state = guard();
  if (epoch_ != Epoch::lock_all)
    return error(Code::invalid, "rank ", job_->rank(), " calls unlock_all without lock_all");
  epoch_ = Epoch::none;
  const std::vector<Target*> used = targets_in_use(state);
  std::vector<Hold> before;
  for (Target* target : used) before.push_back(std::exchange(target->hold, Hold::busy));
  if (state.owns_lock()) state.unlock();
  Status first = wait_issued();
  for (size_t i = 0; i < used.size(); ++i)
    if (Status status = end_epoch(*used[i], before[i]); !status.ok() && first.ok()) first = status;
  for (Target* target : used) settle(*target, Hold::none, state);
  return done_there(no_rank, first);
}

// ---- flush ------------------------------------------------------------------------------------
// They wait outside `state`, too.

Status Window::flush(Rank rank) {
  SKERRY_TRY(check_usable());
  State state = guard();
  Target* target = nullptr;
  SKERRY_TRY(this->target(rank, &target));
  if (epoch_ != Epoch::lock_all) SKERRY_TRY(locked_target(rank, "flush", state, &target));
  if (target->deferred.kind != Deferred::Kind::none) SKERRY_TRY(flush_deferred(*target, state));
  if (state.owns_lock()) state.unlock();
  return done_there(rank, finish(*target));
}

Status Window::check_passive(std::string_view call) const {
  if (epoch_ == Epoch::lock_all || epoch_ == Epoch::lock) return {};
  return error(Code::invalid, "rank ", job_->rank(), " calls ", call, " in ", to_string(epoch_),
               " epoch: it needs lock or lock_all");
}

Status Window::flush_all() {
  SKERRY_TRY(check_usable());
  State state = guard();
  SKERRY_TRY(check_passive("flush_all"));
  Status first;
  std::vector<Target*> used = targets_in_use(state);
  for (Target* target : used)
    if (target->deferred.kind != Deferred::Kind::none)
      if (Status status = flush_deferred(*target, state); !status.ok() && first.ok())
        first = status;
  std::erase_if(used, [](const Target* target) {
    return target->hold != Hold::held && target->hold != Hold::free;
  });
  if (state.owns_lock()) state.unlock();
  if (Status status = wait_issued(); !status.ok() && first.ok()) first = status;
  for (const Target* target : used)
    if (Status status = finish(*target); !status.ok() && first.ok()) first = status;
  return done_there(no_rank, first);
}

Status Window::flush_local(Rank rank) {
  SKERRY_TRY(check_usable());
  State state = guard();
  Target* target = nullptr;
  SKERRY_TRY(this->target(rank, &target));
  if (epoch_ != Epoch::lock_all) SKERRY_TRY(locked_target(rank, "flush_local", state, &target));
  if (target->deferred.returns_data()) SKERRY_TRY(flush_deferred(*target, state));
  if (state.owns_lock()) state.unlock();
  return done_here(rank, target->region != nullptr ? Status() : wait_issued());
}

Status Window::flush_local_all() {
  SKERRY_TRY(check_usable());
  State state = guard();
  SKERRY_TRY(check_passive("flush_local_all"));
  for (Target* target : targets_in_use(state))
    if (target->deferred.returns_data()) SKERRY_TRY(flush_deferred(*target, state));
  if (state.owns_lock()) state.unlock();
  return done_here(no_rank, wait_issued());
}

Status Window::sync() const {
  SKERRY_TRY(check_usable());
  full_fence();
  return {};
}

}  // namespace skerry::window
