// Patch access and queries: everything one-sided.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

using detail::Batch;
using detail::Strides;

// ---- life -------------------------------------------------------------------------------------

AnyArray::AnyArray() = default;
AnyArray::AnyArray(const Group& group, Type type, std::span<const std::int64_t> shape,
                   const ArrayOptions& options)
    : impl_(std::make_shared<const Impl>(group, type, shape, options)),
      exceptions_(std::uncaught_exceptions()) {}
AnyArray::AnyArray(AnyArray&& other) noexcept
    : impl_(std::move(other.impl_)), exceptions_(other.exceptions_) {}
AnyArray& AnyArray::operator=(AnyArray&& other) noexcept {
  std::swap(impl_, other.impl_);
  std::swap(exceptions_, other.exceptions_);
  return *this;
}

AnyArray::~AnyArray() {
  if (impl_) detail::end_owner(*this, exceptions_);
}

void AnyArray::free() {
  impl();  // throws if there is nothing to free
  auto mine = std::const_pointer_cast<Impl>(std::exchange(impl_, nullptr));
  assert(freed());
  mine->segment->free();
  // The world's node group is shared by all its arrays.
  if (mine->nodes->nodes() > 1 && mine->group.get() != skerry_world(mine->group.job()))
    mine->node_group.free();
}

void AnyArray::release() noexcept {
  if (impl_) std::const_pointer_cast<Impl>(impl_)->segment->release();
  impl_.reset();
}

bool AnyArray::freed() const noexcept { return !impl_ || !*impl_->segment; }

const AnyArray::Impl& AnyArray::impl() const {
  if (!impl_) [[unlikely]]
    throw Error(SKERRY_ERR_FREED, "this array was freed or never made: use it before free()");
  if (!*impl_->segment) [[unlikely]]
    throw Error(SKERRY_ERR_FREED, "this array's job has ended: use it before finalize");
  return *impl_;
}

namespace {
// tools/check_docs.py reads this table, as it reads the one in src/capi/counters.cpp.
struct ArrayCounter {
  const char* name;
  CounterKind kind;
  const char* unit;
  const char* description;
  detail::Tally detail::ArrayContext::*tally;
};
constexpr ArrayCounter array_entries[] = {
    {"array_gets", CounterKind::total, "calls", "gets of a patch", &detail::ArrayContext::gets},
    {"array_puts", CounterKind::total, "calls", "puts of a patch", &detail::ArrayContext::puts},
    {"array_accs", CounterKind::total, "calls", "accumulates into a patch",
     &detail::ArrayContext::accs},
    {"merge_bytes_moved", CounterKind::total, "bytes",
     "fetched from other nodes by this process's part of merges",
     &detail::ArrayContext::merge_moved},
    {"merge_bytes_skipped", CounterKind::total, "bytes",
     "what merges did not fetch because it was zero", &detail::ArrayContext::merge_skipped},
    {"mirror_bytes_moved", CounterKind::total, "bytes",
     "tiles that this process fetched from other nodes into mirrors",
     &detail::ArrayContext::mirror_moved},
};
}  // namespace

Counters array_counters(const Group& group) {
  detail::ArrayContext& context = detail::array_context(group.job_ref());
  Counters all;
  for (const ArrayCounter& each : array_entries)
    all.add({each.name, each.unit, each.description, each.kind, (context.*each.tally).value});
  return all;
}

// ---- queries ----------------------------------------------------------------------------------

Type AnyArray::type() const { return impl().type; }
int AnyArray::dims() const { return impl().layout.dims(); }
std::span<const std::int64_t> AnyArray::shape() const { return impl().layout.shape(); }
Placement AnyArray::placement() const { return impl().placement; }
const Group& AnyArray::group() const { return impl().group; }
std::span<const int> AnyArray::grid() const { return impl().layout.grid(); }
std::span<const std::int64_t> AnyArray::block_starts(int d) const {
  const auto& layout = impl().layout;
  if (d < 0 || d >= layout.dims())
    throw Error(SKERRY_ERR_INVALID, "dimension " + std::to_string(d) + " of an array of " +
                                        std::to_string(layout.dims()));
  return layout.bounds(d).first(layout.bounds(d).size() - 1);
}

int AnyArray::Impl::rank_of_block(int b) const {
  return mirrored() ? nodes->rank(nodes->own_node(), b) : group.rank(b);
}

const AnyArray::Impl::LocalBlock* AnyArray::Impl::local_block(int b) const {
  const auto n = local_index.size();
  if (n == 0 || b < local_index.front() || b > local_index.back()) return nullptr;
  // Nearly always the node's blocks are consecutive.
  const auto guess = static_cast<std::size_t>(b - local_index.front());
  if (guess < n && local_index[guess] == b) return &locals[guess];
  const auto found = std::lower_bound(local_index.begin(), local_index.end(), b);
  return *found == b ? &locals[static_cast<std::size_t>(found - local_index.begin())] : nullptr;
}

void AnyArray::Impl::check_patch(const Patch& patch) const {
  if (layout.contains(patch)) [[likely]]
    return;
  std::string shape = "(";
  for (auto n : layout.shape()) shape += std::to_string(n) + ", ";
  shape.resize(shape.size() - 2);
  if (patch.dims != layout.dims())
    throw Error(SKERRY_ERR_RANGE, "patch " + to_string(patch) + " has " +
                                      std::to_string(patch.dims) +
                                      " dimensions, the array of shape " + shape + ") has " +
                                      std::to_string(layout.dims()) + ": give bounds for each");
  throw Error(SKERRY_ERR_RANGE,
              "patch " + to_string(patch) + " is not inside the array of shape " + shape +
                  "): each pair of bounds must ascend and lie within 0 and the length");
}

Patch AnyArray::distribution(int rank) const {
  const Impl& a = impl();
  if (!a.mirrored()) return a.layout.block(a.group.index(rank));
  const auto [node, index] = a.nodes->find(rank);
  if (node < 0)
    throw Error(SKERRY_ERR_INVALID,
                "rank " + std::to_string(rank) +
                    " is not a member of the array's group: ask for one of its ranks");
  if (node == a.nodes->own_node()) return a.layout.block(index);
  return layout::Distribution(a.layout.shape(), a.options, a.nodes->node_size(node)).block(index);
}

int AnyArray::locate(std::span<const std::int64_t> index) const {
  const Impl& a = impl();
  a.check_patch(detail::element_at(index));
  return a.rank_of_block(a.layout.block_of(index));
}

std::vector<PatchHolder> AnyArray::locate(const Patch& patch) const {
  const Impl& a = impl();
  a.check_patch(patch);
  std::vector<PatchHolder> holders;
  a.layout.for_each_block(
      patch, [&](int b, const Patch& part) { holders.push_back({a.rank_of_block(b), part}); });
  return holders;
}

Block<void> AnyArray::local() const {
  const Impl& a = impl();
  Block<void> block;
  block.patch = a.layout.block(a.own_block);
  if (const auto* own = a.own()) block.data = own->data;
  block.ld = block.patch.extent(block.patch.dims - 1);
  return block;
}

// "array float64 1000,1000 500,0 1000,1000 distributed": type, shape, the own block from and to,
// placement. Read by python/skerry/_attach.py.
void AnyArray::label(const std::string& name) const {
  const Impl& a = impl();
  if (a.own() == nullptr) return;  // nothing to see
  const auto list = [](const auto& values, int n) {
    std::string text;
    for (int d = 0; d < n; ++d)
      text += (d == 0 ? " " : ",") + std::to_string(values[static_cast<std::size_t>(d)]);
    return text;
  };
  const Patch& own = a.own()->patch;
  const std::string text = std::string("array ") + to_string(a.type) + list(shape(), dims()) +
                           list(own.lo, own.dims) + list(own.hi, own.dims) +
                           (a.mirrored() ? " mirrored" : " distributed");
  check(skerry_segment_label(a.segment->get(), name.c_str(), text.c_str()));
}

// ---- get, put, acc ----------------------------------------------------------------------------

namespace {

using Impl = AnyArray::Impl;

// The block that holds all of `patch` and that this process can touch, or null. Also checks that
// the patch is inside the array: whatever is inside a block is.
const Impl::LocalBlock* whole_in_local(const Impl& a, const Patch& patch) {
  const auto within = [&](const Impl::LocalBlock& block) {
    if (patch.dims != block.patch.dims) return false;
    for (int d = 0; d < patch.dims; ++d) {
      const auto k = static_cast<std::size_t>(d);
      if (patch.lo[k] < block.patch.lo[k] || patch.hi[k] > block.patch.hi[k] ||
          patch.lo[k] >= patch.hi[k])
        return false;
    }
    return true;
  };
  const auto hint = static_cast<std::size_t>(a.last_local.load(std::memory_order_relaxed));
  if (hint < a.locals.size() && within(a.locals[hint])) return &a.locals[hint];
  if (!a.layout.contains(patch) || patch.empty()) return nullptr;
  const auto* block = a.local_block(
      a.layout.block_of(std::span(patch.lo.data(), static_cast<std::size_t>(patch.dims))));
  if (!block || !within(*block)) return nullptr;
  a.last_local.store(static_cast<int>(block - a.locals.data()), std::memory_order_relaxed);
  return block;
}

using detail::Kind;

bool copy_if_local(const Impl& a, Kind kind, const Patch& patch, void* buffer,
                   std::span<const std::int64_t> given) {
  const auto* block = whole_in_local(a, patch);
  if (!block) return false;
  const Strides origin = detail::origin_strides(patch, a.element_bytes, given);
  const Strides target{block->strides};
  std::byte* at = block->data + detail::offset_in(block->patch, patch, target);
  if (kind == Kind::get)
    detail::copy_box(patch, a.element_bytes, at, target, static_cast<std::byte*>(buffer), origin);
  else
    detail::copy_box(patch, a.element_bytes, static_cast<const std::byte*>(buffer), origin, at,
                     target);
  return true;
}

// Starts the transfers between nodes, then copies the local parts. Returns with the remote parts
// under way in `batch`.
void copy_parts(const Impl& a, Kind kind, const Patch& patch, void* buffer,
                std::span<const std::int64_t> given, Batch& batch) {
  a.check_patch(patch);
  if (patch.empty()) return;
  const Strides origin = detail::origin_strides(patch, a.element_bytes, given);
  auto* base = static_cast<std::byte*>(buffer);
  if (!a.all_local) {
    std::vector<std::int64_t> tiles;  // that a mirror would need
    a.layout.for_each_block(patch, [&](int b, const Patch& part) {
      if (a.local_block(b)) return;
      const Patch block = a.layout.block(b);
      const Strides target = detail::dense_strides(block, a.element_bytes);
      const skerry_strided shape = detail::strided(part, a.element_bytes, origin, target);
      const auto offset = static_cast<std::uint64_t>(detail::offset_in(block, part, target));
      std::byte* at = base + detail::offset_in(patch, part, origin);
      const int rank = a.rank_of_block(b);
      a.traffic.count(kind, static_cast<std::uint64_t>(part.elements()) * a.element_bytes);
      if (kind == Kind::get)
        a.traffic.tiles(a).map.for_each(part, [&](const auto& tile) {
          if (!a.traffic.is_marked(tile.number)) tiles.push_back(tile.number);
        });
      check(kind == Kind::get
                ? skerry_get_strided_nb(a.segment->get(), rank, offset, at, &shape, batch.add())
                : skerry_put_strided_nb(a.segment->get(), rank, offset, at, &shape, batch.add()));
    });
    if (!tiles.empty()) a.traffic.mark(a, std::move(tiles));
  }
  a.layout.for_each_block(patch, [&](int b, const Patch& part) {
    const auto* block = a.local_block(b);
    if (!block) return;
    const Strides target{block->strides};
    std::byte* there = block->data + detail::offset_in(block->patch, part, target);
    std::byte* here = base + detail::offset_in(patch, part, origin);
    if (kind == Kind::get) detail::copy_box(part, a.element_bytes, there, target, here, origin);
    else detail::copy_box(part, a.element_bytes, here, origin, there, target);
  });
}

void acc_parts(const Impl& a, const Patch& patch, const void* values, const void* alpha,
               std::span<const std::int64_t> given, Batch& batch) {
  detail::check_arithmetic(a, "acc");
  a.check_patch(patch);
  if (patch.empty()) return;
  const Strides origin = detail::origin_strides(patch, a.element_bytes, given);
  const auto* base = static_cast<const std::byte*>(values);
  for (const bool local :
       {false, true}) {  // what crosses nodes first, so that it travels while the rest is added
    if (!local && a.all_local) continue;
    a.layout.for_each_block(patch, [&](int b, const Patch& part) {
      if ((a.local_block(b) != nullptr) != local) return;
      const Patch block = a.layout.block(b);
      const Strides target = detail::dense_strides(block, a.element_bytes);
      const skerry_strided shape = detail::strided(part, a.element_bytes, origin, target);
      const auto offset = static_cast<std::uint64_t>(detail::offset_in(block, part, target));
      const std::byte* at = base + detail::offset_in(patch, part, origin);
      const int rank = a.rank_of_block(b), type = static_cast<int>(a.type);
      if (!local)
        a.traffic.count(Kind::acc, static_cast<std::uint64_t>(part.elements()) * a.element_bytes);
      check(local ? skerry_acc_strided(a.segment->get(), rank, offset, type, alpha, at, &shape)
                  : skerry_acc_strided_nb(a.segment->get(), rank, offset, type, alpha, at, &shape,
                                          batch.add()));
    });
  }
}

// Starts a non-blocking transfer, and counts what of it crosses nodes.
template <class Fn>
void begun(const Impl& a, Kind kind, Fn&& transfer) {
  auto& tallies = a.traffic[kind];
  const std::uint64_t before = tallies.bytes.value;
  transfer();
  tallies.nb_bytes.add(tallies.bytes.value - before);
}

}  // namespace

bool AnyArray::get_if_local(const Patch& patch, void* out,
                            std::span<const std::int64_t> strides) const {
  const Impl& a = impl();
  if (!copy_if_local(a, Kind::get, patch, out, strides)) return false;
  a.context->gets.add(1);
  return true;
}

bool AnyArray::put_if_local(const Patch& patch, const void* values,
                            std::span<const std::int64_t> strides) const {
  const Impl& a = impl();
  if (!copy_if_local(a, Kind::put, patch, const_cast<void*>(values), strides)) return false;
  a.context->puts.add(1);
  return true;
}

void AnyArray::get(const Patch& patch, void* out, std::span<const std::int64_t> strides) const {
  if (get_if_local(patch, out, strides)) return;
  const Impl& a = impl();
  Batch batch(a.group.job());
  a.watched(Kind::get, [&] {
    copy_parts(a, Kind::get, patch, out, strides, batch);
    batch.wait();
  });
  a.context->gets.add(1);
}

void AnyArray::put(const Patch& patch, const void* values,
                   std::span<const std::int64_t> strides) const {
  if (put_if_local(patch, values, strides)) return;
  const Impl& a = impl();
  Batch batch(a.group.job());
  a.watched(Kind::put, [&] {
    copy_parts(a, Kind::put, patch, const_cast<void*>(values), strides, batch);
    batch.wait();
  });
  a.context->puts.add(1);
}

void AnyArray::acc(const Patch& patch, const void* values, const void* alpha,
                   std::span<const std::int64_t> strides) const {
  const Impl& a = impl();
  Batch batch(a.group.job());
  a.watched(Kind::acc, [&] {
    acc_parts(a, patch, values, alpha, strides, batch);
    batch.wait();
  });
  a.context->accs.add(1);
}

Transfer AnyArray::get_nb(const Patch& patch, void* out,
                          std::span<const std::int64_t> strides) const {
  const Impl& a = impl();
  Batch batch(a.group.job());
  begun(a, Kind::get, [&] { copy_parts(a, Kind::get, patch, out, strides, batch); });
  a.context->gets.add(1);
  Transfer transfer(a.group.job_ref());
  transfer.handles_ = batch.take();
  return transfer;
}

Transfer AnyArray::put_nb(const Patch& patch, const void* values,
                          std::span<const std::int64_t> strides) const {
  const Impl& a = impl();
  Batch batch(a.group.job());
  begun(a, Kind::put,
        [&] { copy_parts(a, Kind::put, patch, const_cast<void*>(values), strides, batch); });
  a.context->puts.add(1);
  Transfer transfer(a.group.job_ref());
  transfer.handles_ = batch.take();
  return transfer;
}

Transfer AnyArray::acc_nb(const Patch& patch, const void* values, const void* alpha,
                          std::span<const std::int64_t> strides) const {
  const Impl& a = impl();
  Batch batch(a.group.job());
  begun(a, Kind::acc, [&] { acc_parts(a, patch, values, alpha, strides, batch); });
  a.context->accs.add(1);
  Transfer transfer(a.group.job_ref());
  transfer.handles_ = batch.take();
  return transfer;
}

std::int64_t AnyArray::read_inc(std::span<const std::int64_t> index, std::int64_t n) const {
  const Impl& a = impl();
  const Patch element = detail::element_at(index);
  a.check_patch(element);
  const int b = a.layout.block_of(index);
  const Patch block = a.layout.block(b);
  const auto offset = static_cast<std::uint64_t>(
      detail::offset_in(block, element, detail::dense_strides(block, a.element_bytes)));
  if (a.type == Type::int64)
    return a.segment->fetch_add<std::int64_t>(a.rank_of_block(b), offset, n);
  if (a.type == Type::int32) {
    if (n != static_cast<std::int32_t>(n))
      throw Error(SKERRY_ERR_INVALID,
                  "read_inc by " + std::to_string(n) + " does not fit int32: use an int64 array");
    return a.segment->fetch_add<std::int32_t>(a.rank_of_block(b), offset,
                                              static_cast<std::int32_t>(n));
  }
  throw Error(SKERRY_ERR_INVALID, std::string("read_inc on an array of ") + to_string(a.type) +
                                      ": it needs int32 or int64");
}

Traffic AnyArray::traffic() const { return impl().traffic.read(impl()); }

void AnyArray::clear_traffic() const { impl().traffic.clear(); }

// ---- transfers under way ----------------------------------------------------------------------

Transfer::Transfer() = default;
Transfer::Transfer(Transfer&& other) noexcept
    : job_(std::move(other.job_)), handles_(std::exchange(other.handles_, {})) {}
Transfer& Transfer::operator=(Transfer&& other) noexcept {
  std::swap(job_, other.job_);
  std::swap(handles_, other.handles_);
  return *this;
}
Transfer::~Transfer() {
  if (!job_ || !job_->handle) return;
  for (auto& handle : handles_)
    if (handle) skerry_wait(job_->handle, &handle);
}
void Transfer::wait() {
  if (!job_ || !job_->handle) return;
  while (!handles_.empty()) {  // after an error, the destructor waits for the rest
    skerry_handle handle = handles_.back();
    handles_.pop_back();
    check(skerry_wait(job_->handle, &handle));
  }
}
bool Transfer::test() {
  if (!job_ || !job_->handle) return true;
  while (!handles_.empty()) {
    int done = 0;
    check(skerry_test(job_->handle, &handles_.back(), &done));
    if (!done) return false;
    handles_.pop_back();
  }
  return true;
}

}  // namespace v0
}  // namespace sk
