#include "job/segment.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/pure/assert.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/memory_survey.hpp"
#include "job/waiting.hpp"
#include "memory/doorbell.hpp"

namespace skerry::job {

// ---- layout and life --------------------------------------------------------------------------

Segment::Segment(Job& job, Group* group, SegmentId id)
    : job_(&job), alive_(job.alive_flag()), group_(group), id_(id) {}

void Segment::Layout::find_local(const Group& group) {
  const Job& job = group.job();
  node = job.node();
  local_ranks = group.members_on(node);
  for (const Rank rank : local_ranks) {
    if (rank == job.rank()) own = static_cast<uint32_t>(local_members.size());
    local_members.push_back(group.index_of(rank));
  }
  SKERRY_INVARIANT(std::ranges::binary_search(local_ranks, job.rank()),
                   "who makes a segment is a member, and ranks ascend");
}

void Segment::Layout::list_sizes(std::span<const uint64_t> all, Sizes* sizes) {
  for (const uint64_t bytes : all) sizes->add(bytes);
  for (const int32_t member : local_members)
    slice_bytes.push_back(all[static_cast<size_t>(member)]);
}

Status Segment::Layout::arrange(uint64_t sizes_bytes, uint64_t bases_bytes) {
  const std::vector<uint64_t> rooms(slice_bytes.size(), room);
  if (!memory::plan_segment(room == 0 ? slice_bytes : rooms, &plan)) {
    const auto most = std::ranges::max_element(slice_bytes);
    const auto index = static_cast<size_t>(most - slice_bytes.begin());
    return error(Code::no_memory, "rank ", local_ranks[index], " asks for ", *most,
                 " bytes, and the members on node ", node,
                 " together for more than 2^62: ask for less");
  }
  sizes_offset = plan.total_bytes;
  bases_offset = sizes_offset + memory::round_up(sizes_bytes, memory::page_bytes);
  total_bytes = bases_offset + memory::round_up(bases_bytes, memory::page_bytes);
  return {};
}

Status Segment::attach(const Layout& layout, uint64_t address, uint32_t purpose) {
  SKERRY_INVARIANT(layout.slice_bytes.size() == layout.local_ranks.size() &&
                       layout.plan.offsets.size() == layout.local_ranks.size(),
                   "a size and a place for each member of the node");
  const uint64_t own_bytes = layout.slice_bytes[layout.own];
  memory::AttachRequest request;
  request.id = id_;
  request.total_bytes = layout.total_bytes;
  request.members = static_cast<uint32_t>(layout.local_ranks.size());
  request.own_offset = layout.plan.offsets[layout.own];
  const uint64_t own_pages = memory::round_up(own_bytes, memory::page_bytes);
  request.own_bytes = std::max(layout.room, own_pages);
  request.reserved_bytes = layout.pages == Pages::reserved ? own_pages : 0;
  request.address = address;
  request.others_read_on = layout.others_read_on;
  std::byte* base = nullptr;
  SKERRY_TRY(job_->node_memory().attach(request, -1, &base));
  local_ = memory::LocalSegment(base, id_);
  room_ = layout.room;
  own_offset_ = request.own_offset;
  pages_bytes_ = request.reserved_bytes;
  sizes_offset_ = layout.sizes_offset;
  sizes_room_ = layout.bases_offset - layout.sizes_offset;
  own_index_ = layout.own;
  local_count_ = request.members;
  local_.set_purpose(purpose);  // before anybody else uses it: what follows is collective
  local_.publish(layout.own, request.members, job_->rank(), request.own_offset, own_bytes);
  return {};
}

// Which local ranks have slices, and where this process maps them. The owners may not have
// published yet, so from the layout.
void Segment::index_local(const Layout& layout) {
  const Rank low = layout.local_ranks.front(), high = layout.local_ranks.back();
  const auto span = static_cast<uint64_t>(high - low) + 1;
  const bool dense = span <= 2 * layout.local_ranks.size() + 8;
  if (dense) {
    first_local_ = low;
    dense_count_ = static_cast<uint32_t>(span);
    dense_.assign(span, {});
    dense_is_member_.assign(span, 0);
  }
  sparse_.clear();
  for (size_t k = 0; k < layout.local_ranks.size(); ++k) {
    const Rank rank = layout.local_ranks[k];
    const uint64_t bytes = layout.slice_bytes[k];
    SKERRY_INVARIANT(layout.plan.offsets[k] <= layout.total_bytes &&
                         bytes <= layout.total_bytes - layout.plan.offsets[k],
                     "a slice lies inside its node's part");
    const memory::Region region{bytes == 0 ? nullptr : local_.base() + layout.plan.offsets[k],
                                bytes, memory::stripe_seed(id_, rank), memory::Kind::node_shared};
    if (dense) {
      dense_[static_cast<size_t>(rank - low)] = region;
      dense_is_member_[static_cast<size_t>(rank - low)] = 1;
    } else {
      sparse_.emplace_back(rank, region);
    }
  }
}

// Freed: no address leads to it any more.
void Segment::hide() {
  (void)job_->labels().set(id_, {}, {});
  // Tables are in memory that is about to be unmapped, or used again: the index may be reading
  // them.
  const std::lock_guard guard(job_->objects().mutex());
  freed_ = true;
  if (std::exchange(has_tables_, false)) job_->objects().segments_changed();
  sizes_ = {};
}

// Every look-up takes the slow path, which says that it was freed.
void Segment::forget_local() {
  bases_ = {};
  dense_count_ = 0;
  std::vector<memory::Region>().swap(dense_);
  std::vector<uint8_t>().swap(dense_is_member_);
  decltype(sparse_)().swap(sparse_);
  recent_rank_ = no_rank;
}

const memory::Region* Segment::find_sparse(Rank rank) const {
  const auto found = std::lower_bound(sparse_.begin(), sparse_.end(), rank,
                                      [](const auto& entry, Rank r) { return entry.first < r; });
  return found != sparse_.end() && found->first == rank ? &found->second : nullptr;
}

Status Segment::open(Group& group, SegmentId id, const std::map<Rank, uint64_t>& local_bytes,
                     Segment** segment) {
  auto made = std::make_unique<Segment>(group.job(), &group, id);
  Layout layout;
  layout.find_local(group);
  for (const Rank rank : layout.local_ranks) layout.slice_bytes.push_back(local_bytes.at(rank));
  SKERRY_TRY(layout.arrange(0, 0));
  layout.others_read_on = true;  // a member may close a group that another is just leaving
  SKERRY_TRY(made->attach(layout, 0, purpose_group));
  made->index_local(layout);
  *segment = group.job().objects().keep(std::move(made));
  return {};
}

std::unique_ptr<Segment> Segment::stand_in(Job& job) {
  auto made = std::make_unique<Segment>(job, nullptr, SegmentId{});
  made->freed_ = true;
  return made;
}

Status Segment::close() {
  SKERRY_INVARIANT(!freed_, "a segment is closed once");
  hide();
  return give_up();
}

Status Segment::give_up() {
  SKERRY_INVARIANT(freed_, "its memory goes after the segment");
  job_->kept_pages().remove(local_.kept_bytes(own_index_));
  forget_local();
  return job_->node_memory().detach(id_.first_life());
}

namespace {

uint64_t times_capped(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

// What the members agree on when they have mapped the segment, or failed to.
struct Outcome {
  int32_t first_failed;  // position; the group's size: none
  uint32_t reserved;     // 0
  uint64_t lowest_base, highest_base;
  uint64_t most_bytes;  // of a node's part
};

}  // namespace

// Sizes that are not all equal: they pass by, from the first exception to the last. What is kept:
// those of this node; of all of them runs, at one member of the node.
Status Segment::learn_sizes(Group& group, const MemorySurvey& all, uint64_t mine, Layout* layout,
                            Sizes* sizes) const {
  if (all.least_bytes == all.most_bytes) {
    layout->slice_bytes.assign(layout->local_ranks.size(), mine);
    sizes->add(mine, group.size());
    return {};
  }
  if (group.size() <= MemorySurvey::most_listed) {
    layout->list_sizes({all.bytes_of, static_cast<size_t>(group.size())}, sizes);
    return {};
  }
  const uint64_t usual = all.usual_bytes;
  struct Range {
    int32_t first, end;
  } odd{INT32_MAX, 0};
  if (mine != usual) odd = {group.index(), group.index() + 1};
  SKERRY_TRY(group.combine(&odd, [](Range* into, const Range& from) {
    *into = {std::min(into->first, from.first), std::max(into->end, from.end)};
  }));
  sizes->add(usual, odd.first);
  layout->slice_bytes.assign(layout->local_members.size(), usual);
  SKERRY_TRY(group.collect(
      mine, odd.first, odd.end, [&](std::span<const uint64_t> passing, int32_t member) {
        for (const uint64_t bytes : passing) sizes->add(bytes);
        for (size_t l = 0; l < layout->local_members.size(); ++l)
          if (const auto k = static_cast<size_t>(layout->local_members[l] - member);
              k < passing.size())
            layout->slice_bytes[l] = passing[k];
      }));
  sizes->add(usual, group.size() - odd.end);
  return {};
}

// Where the members map their nodes' parts, if not all at one address.
Status Segment::learn_bases(Group& group, bool are_equal, const Layout& layout) {
  const auto mine = reinterpret_cast<uint64_t>(local_.base());
  bases_ = placement::MemberValues(mine);
  if (are_equal) return {};
  const bool stores = layout.own == 0;
  placement::MemberValues::Builder bases(stores);
  SKERRY_TRY(group.collect(mine, 0, group.size(), [&](std::span<const uint64_t> passing, int32_t) {
    for (const uint64_t base : passing) bases.add(base);
  }));
  std::byte* const table = local_.base() + layout.bases_offset;
  if (stores) bases.store(table);
  bases_ = bases.view(table);
  return {};
}

// All members map it, or none. `most_bytes`: a node's part has no more.
Status Segment::attach_together(Group& group, const Layout& layout, uint64_t most_bytes,
                                uint32_t purpose) {
  const uint64_t address = group.addresses_.choose(most_bytes);
  const Status status = attach(layout, address, purpose);
  const bool attached = status.ok();
  Outcome outcome{attached ? group.size() : group.index(), 0,
                  reinterpret_cast<uint64_t>(local_.base()),
                  reinterpret_cast<uint64_t>(local_.base()), layout.total_bytes};
  const Status met = group.combine(&outcome, [](Outcome* into, const Outcome& from) {
    *into = {std::min(into->first_failed, from.first_failed), 0,
             std::min(into->lowest_base, from.lowest_base),
             std::max(into->highest_base, from.highest_base),
             std::max(into->most_bytes, from.most_bytes)};
  });
  if (!met.ok()) {
    if (attached && group.survivors_.is_broken()) (void)job_->node_memory().detach(id_);
    return met;
  }
  group.addresses_.taken(address, outcome.most_bytes);
  if (Status agreed = group.explain(outcome.first_failed, status); !agreed.ok()) {
    if (attached) (void)job_->node_memory().detach(id_);
    return agreed;
  }
  return learn_bases(group, outcome.lowest_base == outcome.highest_base, layout);
}

bool Segment::has_own_table() const { return group_->size() <= MemorySurvey::most_listed; }

// Returns whether another member writes what is read here: then a barrier comes first.
bool Segment::set_sizes(const Sizes& sizes, bool writes) {
  std::byte* table = local_.base() + sizes_offset_;
  if (has_own_table()) {
    own_table_.resize(sizes.table_bytes());
    table = own_table_.data();
  }
  if (writes) sizes.store(table);
  sizes_ = sizes.view(table);
  return sizes.table_bytes() > 0 && !has_own_table();
}

// The group's members are its members, and `made` is whole: handles and addresses may lead to it.
Segment* Segment::show(std::unique_ptr<Segment> made) {
  Objects& objects = made->job_->objects();
  ++made->group_->segments_;
  made->has_tables_ = true;
  Segment* const shown = objects.keep(std::move(made));
  const std::lock_guard guard(objects.mutex());
  objects.segments_changed();
  return shown;
}

Status Segment::alloc(Group& group, uint64_t bytes, uint32_t purpose, Segment** segment,
                      Pages pages) {
  const bool reserves = pages == Pages::reserved;
  std::optional<Ready> ready;
  if (reserves) ready.emplace(group, bytes, purpose);
  MemorySurvey all;
  SKERRY_TRY(
      MemorySurvey::ask(group, bytes, reserves ? bytes : 0, ready ? ready->id() : 0, &all));
  auto made = std::make_unique<Segment>(group.job(), &group, SegmentId{});
  Layout layout;
  layout.pages = pages;
  layout.find_local(group);
  Sizes sizes(made->writes_table(layout));
  SKERRY_TRY(made->learn_sizes(group, all, bytes, &layout, &sizes));
  layout.room = reserves ? Reserve::room_for(all.most_bytes, group.size()) : 0;
  uint32_t generation = static_cast<uint32_t>(all.generation);
  // Equal on all members, as are their reserves.
  const bool any_is_kept = layout.room != 0 && group.reserve_.find(layout.room) != nullptr;
  *segment = nullptr;
  bool is_known = true;
  if (all.all_are_ready()) {
    *segment = ready->begin(layout, sizes, &is_known);
  } else {
    if (ready) ready->put_back();
    if (any_is_kept)
      SKERRY_TRY(revive(group, bytes, purpose, layout, sizes, segment, &is_known));
  }
  if (*segment != nullptr) return is_known ? Status() : group.barrier();
  // Either the lowest member was ready, and named nothing. Or some took pages in vain, and have to
  // put them back before any member looks for room: the broker gives back only what is kept.
  if (generation == 0 || all.highest_ready != 0 || any_is_kept) {
    if (generation == 0 && group.lowest() == group.job().rank())
      generation = group.job().next_generation();
    SKERRY_TRY(group.combine(
        &generation, [](uint32_t* into, const uint32_t& from) { *into = std::max(*into, from); }));
  }
  made->id_ = SegmentId{static_cast<uint32_t>(group.lowest()), generation};
  return make(std::move(made), all, bytes, purpose, &layout, sizes, segment);
}

// Of memory that is new. All members know all sizes.
Status Segment::make(std::unique_ptr<Segment> made, const MemorySurvey& all, uint64_t bytes,
                     uint32_t purpose, Layout* layout, const Sizes& sizes, Segment** segment) {
  Group& group = *made->group_;
  const bool reserves = layout->pages == Pages::reserved;
  // First everybody looks whether there is room, then everybody takes: no member touches memory
  // that another is refused.
  const auto members = static_cast<uint64_t>(group.size());
  // The next segment in this memory may have a table though this one has none.
  const uint64_t table_room = layout->room == 0
                                  ? sizes.table_bytes()
                                  : std::max<uint64_t>(sizes.table_bytes(), memory::page_bytes);
  Status status = layout->arrange(made->has_own_table() ? 0 : table_room,
                                  members * sizeof(placement::MemberValues::Run));
  if (status.ok()) {
    uint64_t local_bytes = 0;
    for (const uint64_t slice : layout->slice_bytes) local_bytes += whole_pages(slice);
    status = all.check_room(group.job(), reserves ? bytes : 0, reserves ? local_bytes : 0,
                            layout->total_bytes - layout->plan.total_bytes +
                                memory::first_slice_offset(
                                    static_cast<uint32_t>(layout->local_ranks.size())));
  }
  SKERRY_TRY(group.agree(status));
  const auto attach_all = [&] {
    return made->attach_together(
        group, *layout, times_capped(members, std::max(all.most_bytes, layout->room)), purpose);
  };
  Status attached = attach_all();
  if (attached.code() == Code::no_memory) {  // on all alike: what is kept takes addresses, too
    group.job().objects().give_up_groups();
    group.reserve_.clear();
    SKERRY_TRY(group.barrier());  // all members have let go of it
    attached = attach_all();
  }
  SKERRY_TRY(attached);
  const bool waits = made->set_sizes(sizes, made->writes_table(*layout));
  // Without a table that another member of the node writes, everybody's word that it has mapped the
  // segment was barrier enough.
  if (waits || made->bases_.table_bytes() > 0) SKERRY_TRY(group.barrier());
  made->index_local(*layout);
  group.job().local_counters().segments_made.fetch_add(1, std::memory_order_relaxed);
  *segment = show(std::move(made));
  return {};
}

// ---- memory that the group keeps ----------------------------------------------------------------

// Pages that are gone come back, and all are zero.
Status Segment::wake_up(uint64_t bytes, uint32_t purpose) {
  if (is_held()) return error(Code::internal, "a view of a freed segment holds its memory");
  const uint64_t need = whole_pages(bytes);
  SKERRY_INVARIANT(freed_ && need <= room_, "only what is kept, and fits");
  uint64_t there = 0;
  SKERRY_TRY(local_.take_pages(own_index_, job_->control().abort_flag(), &there));
  // What the broker gave back stays counted until the next count, which may have been already.
  job_->kept_pages().remove(there);
  if (const uint64_t missing = need - std::min(need, there); missing > 0) {
    const MemoryAsk ask{missing, missing * local_count_, job_->node_is_one_cgroup()};
    Status status = job_->memory_room().check(*job_, ask);
    if (status.ok())
      status = job_->node_memory().reserve(local_.base(), own_offset_ + there, missing);
    if (!status.ok()) {
      keep_pages(there);
      return status;
    }
  }
  pages_bytes_ = std::max(need, there);
  std::memset(local_.base() + own_offset_, 0, std::min(bytes, there));
  const memory::LocalSegment next(local_.base(), id_.next_life());
  next.set_purpose(purpose);
  next.publish(own_index_, local_count_, job_->rank(), own_offset_, bytes);
  return {};
}

void Segment::go_back() {
  local_.withdraw(own_index_);
  keep_pages(pages_bytes_);
}

// Of the own slice, which nobody uses any more.
void Segment::keep_pages(uint64_t bytes) {
  const bool keeps = bytes > 0 && job_->kept_pages().add(bytes);
  if (!keeps) job_->node_memory().give_back(local_.base(), own_offset_, bytes);
  local_.keep_pages(own_index_, keeps ? bytes : 0);
}

// All members have woken it up. Null: its table of sizes is too small, on all alike.
Segment* Segment::begin_life(Segment* kept, Layout layout, const Sizes& sizes, bool* is_known) {
  if (sizes.table_bytes() > kept->sizes_room_ && !kept->has_own_table()) return nullptr;
  const Status laid_out = layout.arrange(0, 0);
  SKERRY_INVARIANT(laid_out.ok() && layout.room == kept->room_, "it was laid out like this before");
  std::unique_ptr<Segment> made = kept->group_->reserve_.take(kept);
  made->id_ = made->id_.next_life();
  made->local_ = memory::LocalSegment(made->local_.base(), made->id_);
  *is_known = !made->set_sizes(sizes, made->writes_table(layout));
  made->index_local(layout);
  made->freed_ = false;
  made->job_->local_counters().segments_revived.fetch_add(1, std::memory_order_relaxed);
  return show(std::move(made));
}

// Members asked for different amounts, or some had no pages: now that all know what is asked for,
// all look for memory once more. *segment null: there is none.
Status Segment::revive(Group& group, uint64_t bytes, uint32_t purpose, const Layout& layout,
                       const Sizes& sizes, Segment** segment, bool* is_known) {
  Segment* const kept = group.reserve_.find(layout.room);
  if (kept == nullptr) return {};
  const bool is_awake = kept->wake_up(bytes, purpose).ok();
  uint32_t are_awake = is_awake ? 1 : 0;
  SKERRY_TRY(group.combine(
      &are_awake, [](uint32_t* into, const uint32_t& from) { *into = std::min(*into, from); }));
  if (are_awake != 0) *segment = begin_life(kept, layout, sizes, is_known);
  if (*segment != nullptr) return {};
  if (is_awake) kept->go_back();
  return group.reserve_.take(kept)->give_up();
}

Segment::Ready::Ready(Group& group, uint64_t bytes, uint32_t purpose) {
  const uint64_t room = Reserve::room_for(bytes, group.size());
  Segment* const found = room == 0 ? nullptr : group.reserve_.find(room);
  if (found != nullptr && found->wake_up(bytes, purpose).ok()) kept_ = found;
}

uint64_t Segment::Ready::id() const {
  return kept_ == nullptr ? 0 : kept_->id_.next_life().packed();
}

std::byte* Segment::Ready::own() const { return kept_->local_.base() + kept_->own_offset_; }

void Segment::Ready::put_back() {
  if (kept_ != nullptr) std::exchange(kept_, nullptr)->go_back();
}

Segment* Segment::Ready::begin(const Layout& layout, const Sizes& sizes, bool* is_known) {
  Segment* const begun = begin_life(kept_, layout, sizes, is_known);
  if (begun != nullptr) kept_ = nullptr;
  else put_back();
  return begun;
}

Segment* Segment::Ready::begin(std::span<const uint64_t> bytes, bool* is_known) {
  Layout layout;
  layout.room = kept_->room_;
  layout.find_local(*kept_->group_);
  Sizes sizes(kept_->writes_table(layout));
  layout.list_sizes(bytes, &sizes);
  return begin(layout, sizes, is_known);
}

// ---- the end ----------------------------------------------------------------------------------

Status Segment::end_use(Group& group, const Segment* segment, bool* any_holds) {
  const Status fenced = group.job().engine().fence_all();
  if (group.survivors_.ends_before(fenced)) return fenced;
  uint32_t holds = segment != nullptr && segment->is_held() ? 1 : 0;
  SKERRY_TRY(group.combine(
      &holds, [](uint32_t* into, const uint32_t& from) { *into = std::max(*into, from); }));
  *any_holds = holds != 0;
  return fenced;
}

Status Segment::free(bool is_idle) {
  if (freed_) return error(Code::freed, "the segment was freed already");
  if (group_->is_freed() && group_->size() > 1 && !is_idle)
    return error(Code::freed,
                 "the group in which the segment was allocated was freed: free its segments first");
  const Status waited = job_->engine().wait_implicit();
  bool any_holds = true;
  const Status synced = group_->is_freed() ? job_->engine().fence_all()
                                           : end_use(*group_, this, &any_holds);
  for (const Status* status : {&waited, &synced})
    if (group_->survivors_.ends_after(*status)) return *status;
  // Whatever else was reported belongs to earlier requests: the others free it, so this member
  // does.
  SKERRY_TRY(release(!any_holds));
  return waited.ok() ? synced : waited;
}

Status Segment::release(bool keeps) {
  --group_->segments_;
  if (!keeps || room_ == 0 || group_->is_freed() || id_.life() + 1 == SegmentId::most_lives)
    return close();
  hide();
  auto kept = std::make_unique<Segment>(std::move(*this));
  forget_local();  // of what is left here
  kept->recent_rank_ = no_rank;  // the next segment in this memory has other sizes
  kept->go_back();
  kept->group_->reserve_.keep(std::move(kept));
  return {};
}

// ---- queries ----------------------------------------------------------------------------------

uint64_t Segment::bytes_of(Rank rank) const {
  const int32_t index = group_->index_of(rank);
  return index < 0 || !has_tables_ ? 0 : sizes_.at(index);
}

// In its node's part. At most a look at each rank of that node.
uint64_t Segment::offset_of(Rank rank, int32_t member) const {
  const NodeId node = job_->map().node_of(rank);
  const Group::OnNode there = group_->on_node(node, rank);
  const uint64_t first = memory::first_slice_offset(static_cast<uint32_t>(there.count));
  const auto before = static_cast<uint64_t>(there.before);
  if (room_ != 0) return first + before * room_;
  if (sizes_.are_equal()) return first + before * whole_pages(sizes_.at(member));
  uint64_t offset = first;
  for (const Rank other : group_->members_on(node))
    if (other < rank) offset += whole_pages(sizes_.at(group_->index_of(other)));
  return offset;
}

uint64_t Segment::address_of(Rank rank) const {
  const int32_t index = group_->index_of(rank);
  if (index < 0 || !has_tables_ || sizes_.at(index) == 0) return 0;
  return bases_.at(index) + offset_of(rank, index);
}

// Answers false: the caller goes the long way this time.
bool Segment::note_recent(Rank rank) const {
  if (freed_ || !has_tables_ || job_->options().thread_level == ThreadLevel::multiple ||
      local(rank) != nullptr || group_->index_of(rank) < 0)
    return false;
  recent_bytes_ = bytes_of(rank);
  recent_rank_ = rank;
  return false;
}

std::byte* Segment::own() const {
  const memory::Region* region = local(job_->rank());
  return region == nullptr ? nullptr : region->base;
}

Status Segment::check(Rank rank, uint64_t offset, uint64_t bytes) const {
  if (freed_) return error(Code::freed, "the segment was freed");
  const memory::Region* region = local(rank);
  if (region == nullptr && group_->index_of(rank) < 0) {
    if (rank < 0 || rank >= job_->size())
      return error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                   job_->size() - 1);
    return error(Code::invalid, "rank ", rank, " is not a member of the segment's group");
  }
  const uint64_t limit = region != nullptr ? region->bytes : bytes_of(rank);
  if (offset <= limit && bytes <= limit - offset) return {};
  const int64_t from = as_written(offset);
  return error(Code::range, "bytes [", from, ", ", from, " + ", bytes, ") lie outside the ", limit,
               " bytes of rank ", rank, "'s slice");
}

Status Segment::check_shape(Rank rank, uint64_t offset, const Shape& shape,
                            uint64_t* stream) const {
  SKERRY_TRY(check(rank, 0, 0));
  SKERRY_TRY(check_stream(shape, stream));
  const memory::Region* region = local(rank);
  const uint64_t limit = region != nullptr ? region->bytes : bytes_of(rank);
  if (!within(shape, offset, limit))
    return error(Code::range, "a strided transfer from offset ", as_written(offset), " leaves the ",
                 limit, " bytes of rank ", rank, "'s slice");
  return {};
}

// ---- operations -------------------------------------------------------------------------------

namespace {

using origin::Access;
using origin::Side;

void count_local(Job& job, uint64_t bytes) { job.local_counters().add(bytes); }

using memory::CallSpan;
using memory::SpanKind;

memory::Rmw rmw_of(wire::Rmw op, uint64_t operand, uint64_t expected) {
  return {static_cast<memory::RmwOp>(wire::operation_of(op)), wire::word_bytes_of(op), operand,
          expected};
}

// As the memory room moves whole blocks and shapes, if both sides have the same of these forms.
Status apply_whole(const memory::Region& region, const Access& access,
                   const memory::Stripes& stripes) {
  const Side &there = access.remote, &here = access.local;
  std::byte* const target = region.base + there.offset;
  const bool is_strided = there.form == Side::Form::strided;
  if (access.updates() && is_strided)
    return memory::accumulate_strided(region, there.offset, *there.shape, here.base, *here.shape,
                                      access.what, stripes)
        .explain(stripes);
  if (access.updates())
    return memory::accumulate(region, there.offset, here.base, here.bytes, access.what, stripes,
                              memory::Patience::wait, access.result.base)
        .explain(stripes);
  const bool is_put = access.kind == wire::Kind::put;
  if (is_strided && is_put) memory::put_strided(target, *there.shape, here.base, *here.shape);
  else if (is_strided) memory::get_strided(here.base, *here.shape, target, *there.shape);
  else if (is_put) memory::put(target, here.base, here.bytes);
  else memory::get(here.base, target, here.bytes);
  return {};
}

// Sides of different forms, or in pieces: a packed stream, through a small buffer.
Status apply_stream(const memory::Region& region, const Access& access,
                    const memory::Stripes& stripes) {
  // The offset of the target's first block, or 0 of its pieces.
  const uint64_t first = access.remote.form == Side::Form::pieces ? 0 : access.remote.offset;
  std::byte* const target = region.base + first;
  memory::Cursor here = cursor_of(access.local), there = cursor_of(access.remote);
  std::byte buffer[4096];
  memory::Applied applied;
  while (applied.ok() && !here.at_end()) {
    const std::span<std::byte> part(
        buffer, std::min<uint64_t>(sizeof buffer, here.total_bytes() - here.position()));
    if (access.kind == wire::Kind::get) {
      there.pack(part, target);
      here.unpack(access.local.base, part);
      continue;
    }
    here.pack(part, access.local.base);
    if (access.updates())
      applied = there.accumulate(region, first, part, access.what, stripes, memory::Patience::wait);
    else there.unpack(target, part);
  }
  return applied.explain(stripes);
}

Status apply_word(const memory::Region& region, uint64_t offset, const memory::Rmw& what,
                  const memory::Stripes& stripes, uint64_t* old) {
  const LockResult result = memory::rmw(region, offset, what, stripes, memory::Patience::wait, old);
  if (result == LockResult::locked) return {};
  return stripes.explain(result, memory::stripe_index(region.seed, offset));
}

}  // namespace

bool Segment::accumulate_here(Rank rank, uint64_t offset, ElementType type, const void* scale,
                              const void* origin) {
  const memory::Region* region = plain_element(rank, offset, type);
  if (region == nullptr || job_->spans().is_due(SpanKind::accumulate) ||
      memory::accumulate_one(*region, offset, origin, type, scale, job_->stripes()) !=
          LockResult::locked) [[unlikely]]
    return false;
  count_local(*job_, element_bytes(type));
  return true;
}

bool Segment::update_here(Rank rank, uint64_t offset, ElementType type, Operation operation,
                          const void* origin, void* old) {
  const memory::Region* region = plain_element(rank, offset, type);
  const SpanKind kind = old == nullptr ? SpanKind::accumulate : SpanKind::fetch_update;
  if (region == nullptr || job_->spans().is_due(kind) ||
      memory::update_one(*region, offset, origin, type, operation, old, job_->stripes()) !=
          LockResult::locked) [[unlikely]]
    return false;
  count_local(*job_, element_bytes(type));
  return true;
}

bool Segment::read_modify_write_here(Rank rank, uint64_t offset, wire::Rmw op, uint64_t operand,
                                     uint64_t expected, uint64_t* old) {
  const memory::Region* region = local(rank);
  const memory::Rmw what = rmw_of(op, operand, expected);
  if (region == nullptr || freed_ || offset % what.word_bytes != 0 || offset > region->bytes ||
      what.word_bytes > region->bytes - offset || job_->spans().is_due(SpanKind::read_modify_write))
      [[unlikely]]
    return false;
  if (memory::rmw(*region, offset, what, job_->stripes(), memory::Patience::wait, old) !=
      LockResult::locked) [[unlikely]]
    return false;
  count_local(*job_, what.word_bytes);
  return true;
}

bool Segment::join_batch(Rank rank, const origin::Accumulate* what, uint64_t offset,
                         const void* origin, uint64_t bytes, origin::Mode mode) {
  const SpanKind kind = what == nullptr ? SpanKind::put : SpanKind::accumulate;
  return remote_holds(rank, offset, bytes) && !job_->spans().is_due(kind) &&
         job_->engine().join_batch(target(rank), what, offset, origin, bytes, mode);
}

Status Segment::issue(const Access& access, origin::Handle* handle) {
  const Rank rank = access.target.rank;
  const memory::Region* region = local(rank);
  if (region == nullptr) return job_->engine().issue(access, handle);
  const uint64_t bytes = access.bytes();
  const CallSpan call(&job_->spans(), access.span_kind(), rank, bytes);
  count_local(*job_, bytes);
  if (handle != nullptr) *handle = 0;
  if (bytes > 0) {
    const Side::Form form = access.local.form;
    const bool is_whole = form == access.remote.form && form != Side::Form::pieces;
    SKERRY_INVARIANT(access.kind != wire::Kind::fetch_update || access.is_contiguous(),
                     "the elements before the change go to one place");
    SKERRY_TRY(is_whole ? apply_whole(*region, access, job_->stripes())
                        : apply_stream(*region, access, job_->stripes()));
  }
  if (!access.notify) return {};
  uint64_t old = 0;
  const memory::Rmw add{memory::RmwOp::fetch_add, 8, access.notify->increment, 0};
  SKERRY_TRY(apply_word(*region, access.notify->counter_offset, add, job_->stripes(), &old));
  memory::ring_doorbell(job_->control().member(static_cast<uint32_t>(job_->member_of(rank))));
  return {};
}

Status Segment::put_notify(Rank rank, uint64_t offset, std::span<const std::byte> data,
                           const origin::Notify& notify, bool is_fenced, bool stays) {
  Access access;
  access.target = target(rank);
  access.remote.offset = offset;
  access.local.base = const_cast<std::byte*>(data.data());
  access.remote.bytes = access.local.bytes = data.size();
  access.notify = notify;
  access.is_fenced = is_fenced;
  access.stays = stays;
  return issue(access);
}

Status Segment::read_modify_write(Rank rank, uint64_t offset, wire::Rmw op, uint64_t operand,
                                  uint64_t expected, uint64_t* old) {
  const memory::Region* region = local(rank);
  if (region == nullptr)
    return job_->engine().read_modify_write(target(rank), offset, op, operand, expected, old);
  const memory::Rmw what = rmw_of(op, operand, expected);
  const CallSpan call(&job_->spans(), SpanKind::read_modify_write, rank, what.word_bytes);
  count_local(*job_, what.word_bytes);
  return apply_word(*region, offset, what, job_->stripes(), old);
}

Status Segment::wait_counter(uint64_t counter_offset, uint64_t at_least, int64_t timeout_ns,
                             uint64_t* value, bool from_nodes, const Look* look) {
  SKERRY_INVARIANT(own() != nullptr && counter_offset % sizeof(uint64_t) == 0 &&
                       counter_offset + sizeof(uint64_t) <= local(job_->rank())->bytes,
                   "a counter lies in this rank's slice");
  auto& counter = *reinterpret_cast<uint64_t*>(own() + counter_offset);
  uint64_t seen = 0;
  auto is_there = [&] { return (seen = __atomic_load_n(&counter, __ATOMIC_ACQUIRE)) >= at_least; };
  if (!is_there()) {
    // What we wait for may depend on what we sent.
    SKERRY_TRY(job_->engine().push_out(deadline_after(timeout_ns)));
    const Job::Borrowed server(*job_);
    const auto text = [&] {
      return concat("counter ", counter_offset, " of segment ", id_.owner, ".", id_.generation,
                    " to be ", at_least);
    };
    // The rank that was to add to it may be among the dead.
    const Survivors& survivors = group_->survivors_;
    const auto ready = [&] { return is_there() || survivors.is_hurt(); };
    switch (from_nodes ? wait_for_nodes(*job_, timeout_ns, ready, text, look)
                       : wait_here(*job_, timeout_ns, nullptr, ready, text, look)) {
      case WaitResult::reached:
        if (!is_there()) return survivors.death();
        break;
      case WaitResult::timeout:
        return error(Code::timeout, "counter at offset ", counter_offset, " is ", seen, ", not ",
                     at_least, ", after ", timeout_ns, " ns");
      case WaitResult::aborted: return job_->check_abort();
    }
  }
  if (value != nullptr) *value = seen;
  return {};
}

}  // namespace skerry::job
