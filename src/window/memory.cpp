#include "window/memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "window/desks.hpp"

namespace skerry::window {

std::string_view to_string(Flavor flavor) {
  switch (flavor) {
    case Flavor::allocated: return "allocated";
    case Flavor::created: return "created";
    case Flavor::dynamic: return "dynamic";
  }
  return "unknown";
}

namespace {
// Of given memory: its description in a page of its own, then the pages that moved in.
constexpr uint64_t moved_at = 4096;
static_assert(memory::given_one_bytes <= moved_at);
}  // namespace

// ---- life -------------------------------------------------------------------------------------

// Before the others look at the description.
void Memory::move_in(const memory::Pages& pages) {
  if (!moved_.move_in(pages, data_->own() + moved_at)) return;
  given()->moved_from.store(static_cast<uint64_t>(pages.begin - static_cast<std::byte*>(base_)));
  given()->moved_bytes.store(pages.bytes);
  // A program may end its job without freeing its windows, and go on with its memory.
  context_.job.objects().before_end(this, [this] { (void)moved_.move_out(); });
}

void Memory::forget_moved() {
  if (!any_moves_) return;
  context_.job.objects().forget(this);
  any_moves_ = false;
}

Status Memory::move_out() {
  const Status moved = any_moves_ ? moved_.move_out() : Status();
  forget_moved();
  return moved;
}

void Memory::give(std::byte* description) const {
  auto* const given = reinterpret_cast<memory::Given*>(description);
  if (flavor_ == Flavor::created) given->give_one(base_, base_bytes_);
  else given->give_many();
}

uint64_t Memory::slice_bytes() const {
  return flavor_ == Flavor::allocated ? base_bytes_
         : flavor_ == Flavor::created ? memory::given_one_bytes
                                      : sizeof(memory::Given);
}

uint64_t Memory::make_ready() {
  if (!keeps_data_) return 0;
  ready_.emplace(*context_.group, slice_bytes(),
                 flavor_ == Flavor::allocated ? job::purpose_window : job::purpose_given);
  if (flavor_ != Flavor::allocated && ready_->id() != 0) give(ready_->own());
  return ready_->id();
}

void Memory::take_note(std::vector<uint64_t> bytes, std::vector<uint64_t> units, bool any_moves,
                       bool all_are_ready) {
  any_moves_ = any_moves;
  if (!all_are_ready || any_moves) ready_.reset();
  bytes_.assign(std::move(bytes));
  unit_.assign(std::move(units));
}

// Collective.
Status Memory::make_data() {
  job::Group& group = *context_.group;
  memory::Pages pages;
  if (any_moves_) pages = memory::movable_pages(base_, base_bytes_);
  const bool is_allocated = flavor_ == Flavor::allocated;
  const uint32_t purpose = is_allocated ? job::purpose_window : job::purpose_given;
  Status made = job::Segment::alloc(group, pages.bytes > 0 ? moved_at + pages.bytes : slice_bytes(),
                                    purpose, &data_);
  if (!made.ok() && any_moves_) {  // no room for it: the memory stays where it is
    pages = {};
    made = job::Segment::alloc(group, slice_bytes(), purpose, &data_);
  }
  SKERRY_TRY(made);
  if (is_allocated) return {};
  give(data_->own());
  move_in(pages);
  return {};
}

Status Memory::open(bool* is_known) {
  if (ready_ && ready_->id() != 0) {
    std::vector<uint64_t> bytes(static_cast<size_t>(context_.group->size()), slice_bytes());
    if (flavor_ == Flavor::allocated)
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = bytes_.of(static_cast<int32_t>(i));
    data_ = ready_->begin(bytes, is_known);
  }
  ready_.reset();
  if (data_ != nullptr) return {};
  *is_known = flavor_ == Flavor::allocated;
  return make_data();
}

Status Memory::end_use(bool* any_holds) const {
  return job::Segment::end_use(*context_.group, data_, any_holds);
}

void Memory::give_up(bool keeps) {
  (void)move_out();  // before its segment goes; a window that is closed has told of it already
  ready_.reset();
  if (data_ != nullptr) close_segment(std::exchange(data_, nullptr), keeps && keeps_data_);
}

Status Memory::attach(void* base, uint64_t bytes) {
  if (flavor_ != Flavor::dynamic)
    return error(Code::invalid, "attach to a window that is ", to_string(flavor_),
                 ": only dynamic ones take further memory");
  const std::lock_guard lock(areas_mutex_);
  if (bytes > 0) return given()->add(base, bytes);
  empty_areas_.push_back(base);
  return {};
}

Status Memory::detach(void* base) {
  if (flavor_ != Flavor::dynamic)
    return error(Code::invalid, "detach from a window that is ", to_string(flavor_),
                 ": only dynamic ones give memory back");
  const std::lock_guard lock(areas_mutex_);
  const Status removed = given()->remove(base);
  const auto empty = std::ranges::find(empty_areas_, base);
  if (removed.ok() || empty == empty_areas_.end()) return removed;
  empty_areas_.erase(empty);
  return {};
}

// ---- where it is ------------------------------------------------------------------------------

std::byte* Memory::pointer(Rank rank) const {
  if (flavor_ != Flavor::allocated) return nullptr;
  const memory::Region* region = data_->local(rank);
  return region == nullptr ? nullptr : region->base;
}

uint64_t Memory::bytes_of(Rank rank) const {
  const int32_t index = context_.group->index_of(rank);
  return index < 0 ? 0 : bytes_.of(index);
}

uint64_t Memory::unit_of(Rank rank) const {
  const int32_t index = context_.group->index_of(rank);
  return index < 0 ? 0 : unit_.of(index);
}

Status Memory::check_reach() const {
  const job::Job& job = context_.job;
  const placement::NodeMap& map = job.map();
  const NodeId node = map.node_of(job.rank());
  for (int32_t k = 0; k < map.node_size(node); ++k)
    if (context_.group->index_of(map.node_rank(node, k)) >= 0)
      SKERRY_TRY(memory::check_reach(job.control().member(static_cast<uint32_t>(k)).pid));
  return {};
}

void Memory::describe(Target& target) const {
  target.unit = unit_of(target.rank);
  target.bytes = flavor_ == Flavor::dynamic ? UINT64_MAX : bytes_of(target.rank);
  target.region = data_->local(target.rank);
  if (target.region == nullptr) return;
  if (flavor_ != Flavor::allocated) describe_given(target);
  if (target.region->kind != memory::Kind::given) target.plain = target.region;
}

// A member of this node whose memory the program gave. This rank's own is as good as mapped.
void Memory::describe_given(Target& target) const {
  const memory::Region& description = *target.region;
  memory::Region& region = target.given;
  region.seed = description.seed;
  region.bytes = target.bytes;
  target.region = &region;
  if (target.rank == context_.job.rank() && flavor_ == Flavor::created) {
    region.base = static_cast<std::byte*>(base_);
    return;
  }
  region.kind = memory::Kind::given;
  region.given = reinterpret_cast<const memory::Given*>(description.base);
  const uint64_t moved = flavor_ == Flavor::created ? region.given->moved_bytes.load() : 0;
  if (moved == 0) return;
  target.plain = &target.moved;
  target.plain_from = region.given->moved_from.load();
  target.moved.seed = region.seed;
  // Offsets count from the start of the memory.
  target.moved.base = description.base + moved_at - target.plain_from;
  target.moved.bytes = target.plain_from + moved;
  SKERRY_INVARIANT(target.moved.bytes <= target.bytes, "what moved in lies inside");
}

}  // namespace skerry::window
