#include "impl.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <utility>

namespace sk {
inline namespace v0 {
namespace detail {

// ---- nodes ------------------------------------------------------------------------------------

NodeMap::NodeMap(const Group& group) : job_(group.job()) {
  const int self = skerry_rank(job_);
  const int own = skerry_node_of(job_, self);
  int ranks = 0;  // of the job; of those the world may leave spares out
  for (int node = 0; node < skerry_node_count(job_); ++node) ranks += skerry_node_size(job_, node);
  if (group.get() == skerry_world(job_) && group.size() == ranks) {
    for (int node = 0; node < skerry_node_count(job_); ++node)
      counts_.push_back(skerry_node_size(job_, node));
    own_node_ = own;
  } else {
    std::map<int, std::vector<int>> by_node;
    for (int i = 0; i < group.size(); ++i)
      by_node[skerry_node_of(job_, group.rank(i))].push_back(group.rank(i));
    for (auto& [node, members] : by_node) {
      if (node == own) own_node_ = static_cast<int>(members_.size());
      counts_.push_back(static_cast<int>(members.size()));
      std::sort(members.begin(), members.end());
      members_.push_back(std::move(members));
    }
  }
  own_index_ = find(self).second;
}

int NodeMap::rank(int node, int index) const {
  return members_.empty()
             ? skerry_node_rank(job_, node, index)
             : members_[static_cast<std::size_t>(node)][static_cast<std::size_t>(index)];
}

std::pair<int, int> NodeMap::find(int rank) const {
  const int job_node = skerry_node_of(job_, rank);
  if (job_node < 0) return {-1, -1};
  for (int node = members_.empty() ? job_node : 0; node < nodes(); ++node) {
    if (!members_.empty() && skerry_node_of(job_, this->rank(node, 0)) != job_node) continue;
    for (int i = 0; i < node_size(node); ++i)
      if (this->rank(node, i) == rank) return {node, i};
    break;
  }
  return {-1, -1};
}

bool NodeMap::equal_sizes() const {
  return std::all_of(counts_.begin(), counts_.end(), [&](int n) { return n == counts_[0]; });
}

void agree(const Group& group, std::span<const std::int64_t> what, const std::string& refused,
           const char* differ) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const std::int64_t number : what)
    for (int i = 0; i < 8; ++i)
      hash = (hash ^ ((static_cast<std::uint64_t>(number) >> (8 * i)) & 0xff)) * 0x100000001b3u;
  const auto mine = static_cast<std::int64_t>(hash >> 1);  // so that its negative is in range
  std::int64_t most[3] = {refused.empty() ? 0 : 1, mine, -mine};
  group.allreduce(std::span<std::int64_t>(most), Reduction::max);
  if (!refused.empty()) throw Error(SKERRY_ERR_INVALID, refused);
  if (most[0] != 0 || most[1] != -most[2]) throw Error(SKERRY_ERR_INVALID, differ);
}

ArrayContext& array_context(const JobRef& job) {
  static std::mutex making;  // only against two threads that make a job's first array at once
  std::lock_guard lock(making);
  if (!job->arrays) job->arrays = std::make_shared<ArrayContext>();
  return *static_cast<ArrayContext*>(job->arrays.get());
}

NodeGroups node_groups(const Group& group) {
  ArrayContext& context = array_context(group.job_ref());
  {
    std::lock_guard lock(context.mutex);
    if (context.world && group.get() == skerry_world(group.job())) return *context.world;
  }
  NodeGroups made{std::make_shared<NodeMap>(group), group};
  if (made.nodes->nodes() > 1) made.node_group = group.split(made.nodes->own_node());
  if (group.get() != skerry_world(group.job())) return made;
  std::lock_guard lock(context.mutex);
  return context.world.emplace(std::move(made)), *context.world;
}

// ---- boxes ------------------------------------------------------------------------------------

Strides dense_strides(const Patch& patch, std::uint64_t element_bytes) {
  Strides strides;
  auto step = static_cast<std::int64_t>(element_bytes);
  for (int d = patch.dims - 1; d >= 0; --d) {
    strides.bytes[static_cast<std::size_t>(d)] = step;
    step *= patch.extent(d);
  }
  return strides;
}

Strides origin_strides(const Patch& patch, std::uint64_t element_bytes,
                       std::span<const std::int64_t> given) {
  if (given.empty()) return dense_strides(patch, element_bytes);
  if (static_cast<int>(given.size()) != patch.dims ||
      given.back() != static_cast<std::int64_t>(element_bytes))
    throw Error(SKERRY_ERR_INVALID, "the buffer's last stride is " + std::to_string(given.back()) +
                                        " bytes and it has " + std::to_string(given.size()) +
                                        " dimensions: need stride " +
                                        std::to_string(element_bytes) + " (contiguous rows) and " +
                                        std::to_string(patch.dims) + " dimensions");
  Strides strides;
  std::copy(given.begin(), given.end(), strides.bytes.begin());
  return strides;
}

skerry_strided strided(const Patch& patch, std::uint64_t element_bytes, const Strides& origin,
                       const Strides& target) {
  skerry_strided shape{};
  shape.block_bytes = static_cast<std::uint64_t>(patch.extent(patch.dims - 1)) * element_bytes;
  for (int d = patch.dims - 2; d >= 0; --d) {
    const auto k = static_cast<std::size_t>(d);
    const auto count = static_cast<std::uint64_t>(patch.extent(d));
    if (count == 1) continue;
    const auto block = static_cast<std::int64_t>(shape.block_bytes);
    if (shape.levels == 0 && origin.bytes[k] == block && target.bytes[k] == block) {
      shape.block_bytes *= count;
      continue;
    }
    shape.count[shape.levels] = count;
    shape.origin_stride[shape.levels] = origin.bytes[k];
    shape.target_stride[shape.levels] = target.bytes[k];
    ++shape.levels;
  }
  return shape;
}

namespace {
void copy_levels(const skerry_strided& shape, int level, const std::byte* from, std::byte* to) {
  if (level < 0) {
    std::memcpy(to, from, shape.block_bytes);
    return;
  }
  for (std::uint64_t i = 0; i < shape.count[level]; ++i) {
    copy_levels(shape, level - 1, from, to);
    from += shape.origin_stride[level];
    to += shape.target_stride[level];
  }
}
}  // namespace

void copy_box(const Patch& box, std::uint64_t element_bytes, const std::byte* from,
              const Strides& from_strides, std::byte* to, const Strides& to_strides) {
  if (box.dims == 2) {  // the case that must be fast
    const auto row = static_cast<std::uint64_t>(box.extent(1)) * element_bytes;
    const auto step_from = from_strides.bytes[0], step_to = to_strides.bytes[0];
    if (step_from == step_to && step_from == static_cast<std::int64_t>(row)) {
      std::memcpy(to, from, row * static_cast<std::uint64_t>(box.extent(0)));
      return;
    }
    for (std::int64_t i = box.extent(0); i > 0; --i, from += step_from, to += step_to)
      std::memcpy(to, from, row);
    return;
  }
  const skerry_strided shape = strided(box, element_bytes, from_strides, to_strides);
  copy_levels(shape, shape.levels - 1, from, to);
}

void check_arithmetic(const AnyArray::Impl& a, const char* what) {
  if (a.type == Type::boolean)
    throw Error(SKERRY_ERR_INVALID,
                std::string(what) +
                    " on an array of bool: truth values have no sums; use an array "
                    "of uint8, or put");
}

// ---- batches ----------------------------------------------------------------------------------

Batch::~Batch() {
  for (auto& handle : handles_)
    if (handle) skerry_wait(job_, &handle);  // the first error is already on its way to the caller
}

void Batch::wait() {
  int status = SKERRY_OK;
  std::string message;
  for (auto& handle : handles_) {
    const int one = skerry_wait(job_, &handle);
    if (one < 0 && status == SKERRY_OK) status = one, message = skerry_last_error();
    handle = 0;
  }
  handles_.clear();
  if (status < 0) throw Error(status, message);
}

}  // namespace detail

// ---- construction -----------------------------------------------------------------------------

namespace {

std::string invalid_arguments(Type type, std::span<const std::int64_t> shape,
                              const ArrayOptions& options, int members) {
  if (bytes_of(type) == 0)
    return "element type " + std::to_string(static_cast<int>(type)) + " does not exist: give an " +
           "sk::Type";
  std::string why = layout::invalid_shape(shape, bytes_of(type));
  if (why.empty()) why = layout::invalid_grid(shape, options.grid);
  if (why.empty()) why = layout::invalid_starts(shape, options.starts);
  if (why.empty() && !options.grid.empty()) {
    std::int64_t blocks = 1;
    for (int n : options.grid) blocks = blocks > members ? blocks : blocks * n;
    if (blocks > members)
      why = "the grid has more blocks than the " + std::to_string(members) +
            " members that share the array: make it smaller or leave it out";
  }
  return why;
}

std::vector<std::int64_t> numbers_of(Type type, std::span<const std::int64_t> shape,
                                     const ArrayOptions& options) {
  std::vector<std::int64_t> all{static_cast<std::int64_t>(type),
                                static_cast<std::int64_t>(options.placement)};
  const auto add = [&](const auto& list) {
    all.push_back(static_cast<std::int64_t>(list.size()));
    all.insert(all.end(), list.begin(), list.end());
  };
  add(shape);
  add(options.grid);
  for (const auto& list : options.starts) add(list);
  return all;
}

}  // namespace

AnyArray::Impl::Impl(const Group& members, Type element_type, std::span<const std::int64_t> shape,
                     const ArrayOptions& wanted)
    : group(members),
      type(element_type),
      element_bytes(bytes_of(element_type)),
      options(wanted),
      placement(wanted.placement) {
  detail::NodeGroups shared = detail::node_groups(group);
  context = &detail::array_context(group.job_ref());
  nodes = shared.nodes;
  node_group = shared.node_group;

  int most_members = group.size();
  if (placement == Placement::mirrored) {
    most_members = 0;
    for (int node = 0; node < nodes->nodes(); ++node)
      most_members = std::max(most_members, nodes->node_size(node));
  }
  detail::agree(group, numbers_of(type, shape, options),
                invalid_arguments(type, shape, options, most_members),
                "the members of the group asked for different arrays: give all the same type, "
                "shape, placement and distribution");

  layout = layout::Distribution(shape, options,
                                mirrored() ? nodes->node_size(nodes->own_node()) : group.size());
  own_block = mirrored() ? nodes->own_index() : group.index(skerry_rank(group.job()));
  const Patch own_patch = layout.block(own_block);
  auto bytes = static_cast<std::uint64_t>(own_patch.elements()) * element_bytes;
  if (mirrored() && nodes->nodes() > 1) {
    tiles.emplace(layout::Distribution(shape, options, nodes->node_size(0)));
    if (own_block == 0)
      bytes = layout::flags_offset(layout, element_bytes) +
              static_cast<std::uint64_t>(tiles->tiles());
  }
  segment.emplace(group, bytes);

  // Blocks of this node, in ascending order of their number.
  std::vector<std::pair<int, LocalBlock>> found;
  const int count = nodes->node_size(nodes->own_node());
  for (int i = 0; i < count; ++i) {
    const int rank = nodes->rank(nodes->own_node(), i);
    const int b = mirrored() ? i : group.index(rank);
    LocalBlock block;
    block.patch = layout.block(b);
    if (block.patch.empty()) continue;
    block.data = segment->pointer(rank);
    block.strides = detail::dense_strides(block.patch, element_bytes).bytes;
    found.emplace_back(b, std::move(block));
  }
  std::ranges::sort(found, {}, [](const auto& one) { return one.first; });
  for (auto& [b, block] : found) {  // a group may order its ranks differently than their node
    assert(local_index.empty() || local_index.back() < b);
    local_index.push_back(b);
    locals.push_back(std::move(block));
  }
  assert(locals.size() == local_index.size() && locals.size() <= static_cast<std::size_t>(count));
  all_local = mirrored() || nodes->nodes() == 1;
}

}  // namespace v0
}  // namespace sk
