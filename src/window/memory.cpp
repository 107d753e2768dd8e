#include "window/memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "window/reserve.hpp"

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

void Memory::give(job::Segment& data) const {
  auto* const given = reinterpret_cast<memory::Given*>(data.own());
  if (flavor_ == Flavor::created) given->give_one(base_, base_bytes_);
  else given->give_many();
}

void Memory::give_kept() {
  if (flavor_ == Flavor::allocated) return;
  job::Segment* const kept = Reserve::of(*context_.group).find_data(kind(), {});
  if (kept != nullptr) give(*kept);
}

void Memory::take_note(std::vector<uint64_t> bytes, std::vector<uint64_t> units, bool any_moves) {
  any_moves_ = any_moves;
  most_bytes_ = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  bytes_.assign(std::move(bytes));
  unit_.assign(std::move(units));
}

// Collective.
Status Memory::make_data() {
  job::Group& group = *context_.group;
  const uint64_t slice_bytes = flavor_ == Flavor::allocated ? base_bytes_
                               : flavor_ == Flavor::created ? memory::given_one_bytes
                                                            : sizeof(memory::Given);
  memory::Pages pages;
  if (any_moves_) pages = memory::movable_pages(base_, base_bytes_);
  const bool is_allocated = flavor_ == Flavor::allocated;
  const uint32_t purpose = is_allocated ? job::purpose_window : job::purpose_given;
  Status made = job::Segment::alloc(group, pages.bytes > 0 ? moved_at + pages.bytes : slice_bytes,
                                    purpose, &data_);
  if (!made.ok() && any_moves_) {  // no room for it: the memory stays where it is
    pages = {};
    made = job::Segment::alloc(group, slice_bytes, purpose, &data_);
  }
  SKERRY_TRY(made);
  if (is_allocated) return {};
  give(*data_);
  move_in(pages);
  return {};
}

Status Memory::open(bool* is_known) {
  Reserve& reserve = Reserve::of(*context_.group);
  job::Segment* const kept = keeps_data_ && !any_moves_ ? reserve.find_data(kind(), shape())
                                                        : nullptr;
  *is_known = kept != nullptr || flavor_ == Flavor::allocated;
  if (kept != nullptr) {
    reserve.take_data(kept);
    data_ = kept;
  } else {
    SKERRY_TRY(make_data());
  }
  own_ = flavor_ == Flavor::allocated ? data_->own() : base_;
  return {};
}

void Memory::give_up() {
  job::Segment* const data = std::exchange(data_, nullptr);
  if (data == nullptr) return;
  const bool is_allocated = flavor_ == Flavor::allocated;
  const bool views_stay = is_allocated && data->is_held();
  const bool keeps = keeps_data_ && !any_moves_ &&
                     Reserve::of(*context_.group)
                         .keep_data(kind(), shape(), is_allocated ? most_bytes_ : 0, data,
                                    !views_stay);
  if (!keeps) {
    (void)data->release();
    context_.job.objects().discard(data);
  } else if (!is_allocated) {
    reinterpret_cast<memory::Given*>(data->own())->take_back();
  } else if (own_ != nullptr && !views_stay) {
    std::memset(own_, 0, bytes_of(context_.job.rank()));
  }
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
  if (target.region != nullptr && flavor_ != Flavor::allocated) describe_given(target);
  find_plain(target);
}

// A member of this node whose memory the program gave. This rank's own is as good as mapped.
void Memory::describe_given(Target& target) const {
  memory::Region& region = target.given;
  region.seed = target.region->seed;
  region.bytes = target.bytes;
  if (target.rank == context_.job.rank() && flavor_ == Flavor::created) {
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

void Memory::find_plain(Target& target) {
  if (target.region == nullptr) return;
  if (target.region->kind != memory::Kind::given) {
    target.plain = target.region;
  } else if (target.moved.bytes > target.moved_from) {
    target.plain = &target.moved;
    target.plain_from = target.moved_from;
  }
}

}  // namespace skerry::window
