#include "job/segment.hpp"

#include <algorithm>
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

void Segment::find_local(const Group& group, Layout* layout) const {
  layout->local_ranks = group.members_on(job_->node());
  for (const Rank rank : layout->local_ranks) {
    if (rank == job_->rank()) layout->own = static_cast<uint32_t>(layout->local_members.size());
    layout->local_members.push_back(group.index_of(rank));
  }
  SKERRY_INVARIANT(std::ranges::binary_search(layout->local_ranks, job_->rank()),
                   "who makes a segment is a member, and ranks ascend");
}

Status Segment::lay_out(uint64_t sizes_bytes, uint64_t bases_bytes, Layout* layout) const {
  if (!memory::plan_segment(layout->slice_bytes, &layout->plan)) {
    const auto most = std::ranges::max_element(layout->slice_bytes);
    const auto index = static_cast<size_t>(most - layout->slice_bytes.begin());
    return error(Code::no_memory, "rank ", layout->local_ranks[index], " asks for ", *most,
                 " bytes, and the members on node ", job_->node(),
                 " together for more than 2^62: ask for less");
  }
  layout->sizes_offset = layout->plan.total_bytes;
  layout->bases_offset = layout->sizes_offset + memory::round_up(sizes_bytes, memory::page_bytes);
  layout->total_bytes = layout->bases_offset + memory::round_up(bases_bytes, memory::page_bytes);
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
  request.own_bytes = memory::round_up(own_bytes, memory::page_bytes);
  request.reserves = layout.pages == Pages::reserved;
  request.address = address;
  std::byte* base = nullptr;
  SKERRY_TRY(job_->node_memory().attach(request, -1, &base));
  local_ = memory::LocalSegment(base, id_);
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
    dense_.resize(span);
    dense_is_member_.resize(span);
  }
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

// Freed: every look-up takes the slow path, which says so.
void Segment::forget_local() {
  (void)job_->labels().set(id_, {}, {});
  {
    // Tables are in memory that is about to be unmapped: the index may be reading them.
    const std::lock_guard guard(job_->objects().mutex());
    freed_ = true;
    if (std::exchange(has_tables_, false)) job_->objects().segments_changed();
    sizes_ = bases_ = {};
  }
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
  made->find_local(group, &layout);
  for (const Rank rank : layout.local_ranks) layout.slice_bytes.push_back(local_bytes.at(rank));
  SKERRY_TRY(made->lay_out(0, 0, &layout));
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
  forget_local();
  return job_->node_memory().detach(id_);
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
Status Segment::learn_sizes(Group& group, uint64_t mine, uint64_t usual, Layout* layout,
                            placement::MemberValues::Builder* sizes) const {
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
  SKERRY_TRY(group.combine(&outcome, [](Outcome* into, const Outcome& from) {
    *into = {std::min(into->first_failed, from.first_failed), 0,
             std::min(into->lowest_base, from.lowest_base),
             std::max(into->highest_base, from.highest_base),
             std::max(into->most_bytes, from.most_bytes)};
  }));
  group.addresses_.taken(address, outcome.most_bytes);
  if (Status agreed = group.explain(outcome.first_failed, status); !agreed.ok()) {
    if (attached) (void)job_->node_memory().detach(id_);
    return agreed;
  }
  return learn_bases(group, outcome.lowest_base == outcome.highest_base, layout);
}

Status Segment::alloc(Group& group, uint64_t bytes, uint32_t purpose, Segment** segment,
                      Pages pages) {
  Job& job = group.job();
  const bool reserves = pages == Pages::reserved;
  const uint64_t taken = reserves ? bytes : 0;
  MemorySurvey all;
  SKERRY_TRY(MemorySurvey::ask(group, bytes, taken, &all));
  const SegmentId id{static_cast<uint32_t>(group.lowest()), static_cast<uint32_t>(all.generation)};
  auto made = std::make_unique<Segment>(job, &group, id);
  Layout layout;
  layout.pages = pages;
  made->find_local(group, &layout);
  const bool stores = layout.own == 0;
  placement::MemberValues::Builder sizes(stores);
  if (all.least_bytes == all.most_bytes) {
    layout.slice_bytes.assign(layout.local_ranks.size(), bytes);
    sizes.add(bytes, group.size());
  } else {
    SKERRY_TRY(made->learn_sizes(group, bytes, all.usual_bytes, &layout, &sizes));
  }
  // First everybody looks whether there is room, then everybody takes: no member touches memory
  // that another is refused.
  const auto members = static_cast<uint64_t>(group.size());
  Status status = made->lay_out(sizes.table_bytes(), members * sizeof(placement::MemberValues::Run),
                                &layout);
  if (status.ok()) {
    const uint64_t first = memory::first_slice_offset(
        static_cast<uint32_t>(layout.local_ranks.size()));
    status = all.check_room(job, taken, reserves ? layout.plan.total_bytes - first : 0,
                            layout.total_bytes - layout.plan.total_bytes + first);
  }
  SKERRY_TRY(group.agree(status));
  SKERRY_TRY(made->attach_together(group, layout, times_capped(members, all.most_bytes), purpose));
  std::byte* const table = made->local_.base() + layout.sizes_offset;
  if (stores) sizes.store(table);
  made->sizes_ = sizes.view(table);
  made->has_tables_ = true;
  // Before anybody reads a table that another member of the node writes. Without one, everybody's
  // word that it has mapped the segment was barrier enough.
  if (made->table_bytes() > 0) SKERRY_TRY(group.barrier());
  made->index_local(layout);
  ++group.segments_;
  *segment = job.objects().keep(std::move(made));
  const std::lock_guard guard(job.objects().mutex());
  job.objects().segments_changed();
  return {};
}

Status Segment::free() {
  if (freed_) return error(Code::freed, "the segment was freed already");
  if (group_->is_freed() && group_->size() > 1)
    return error(Code::freed,
                 "the group in which the segment was allocated was freed: free its segments first");
  const Status waited = job_->engine().wait_implicit();
  const Status synced = group_->is_freed() ? job_->engine().fence_all() : group_->sync();
  for (const Status* status : {&waited, &synced})
    if (status->code() == Code::peer_dead || status->code() == Code::network) return *status;
  // Whatever else was reported belongs to earlier requests: the others free it, so this member
  // does.
  SKERRY_TRY(release());
  return waited.ok() ? synced : waited;
}

Status Segment::release() {
  --group_->segments_;
  return close();
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
                           const origin::Notify& notify) {
  Access access;
  access.target = target(rank);
  access.remote.offset = offset;
  access.local.base = const_cast<std::byte*>(data.data());
  access.remote.bytes = access.local.bytes = data.size();
  access.notify = notify;
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
                             uint64_t* value) {
  SKERRY_INVARIANT(own() != nullptr && counter_offset % sizeof(uint64_t) == 0 &&
                       counter_offset + sizeof(uint64_t) <= local(job_->rank())->bytes,
                   "a counter lies in this rank's slice");
  auto& counter = *reinterpret_cast<uint64_t*>(own() + counter_offset);
  uint64_t seen = 0;
  auto ready = [&] { return (seen = __atomic_load_n(&counter, __ATOMIC_ACQUIRE)) >= at_least; };
  if (!ready()) {
    // What we wait for may depend on what we sent.
    SKERRY_TRY(job_->engine().push_out(deadline_after(timeout_ns)));
    const auto text = [&] {
      return concat("counter ", counter_offset, " of segment ", id_.owner, ".", id_.generation,
                    " to be ", at_least);
    };
    switch (wait_here(*job_, timeout_ns, nullptr, ready, text)) {
      case WaitResult::reached: break;
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
