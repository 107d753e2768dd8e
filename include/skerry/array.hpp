// array.hpp: dense arrays of up to seven dimensions, spread over the ranks of a group, or mirrored:
// one copy per node, spread over the ranks of that node. Row-major. Link libskerry_array.
//
//   sk::Job job;
//   sk::Array<double> a(job.world(), {1000, 1000});
//   a.put({0, 10, 20, 30}, values);          // rows 0..9, columns 20..29; one-sided, from any rank
//   a.sync();
//
// One-sided (any rank, any time): get, put, acc, gather, scatter, read_inc, queries. On a mirrored
// array they use the own node's copy only. Blocking put and acc return when the origin buffer may
// be reused (source done); sync() or a fence makes them visible to others. They may wait for data,
// never for a call of another rank. Queries never block.
//
// Collective (all members, same order, same arguments): construction, fill, zero, scale, copy_to,
// merge, matmul, sync, free, those of mirrors. Each begins and ends with a sync: of the group, or
// of the node's members for fill, zero and scale of a mirrored array.
//
// Units: indices and shapes count elements, strides are bytes, ld counts elements. Buffers belong
// to the caller; a non-blocking call uses them until its Transfer is done.
//
// Threads: one-sided calls may run in parallel if the job was joined with ThreadLevel::multiple.
// Errors: sk::Error; RANGE for a patch that leaves the array, INVALID for other arguments, FREED.
// Sources: J. Nieplocha et al., Global Arrays, for patches and distributions; for mirroring see
// CITATION.cff, "Shared Memory Mirroring for Reducing Communication Overhead on Commodity
// Networks".
#ifndef SKERRY_ARRAY_HPP
#define SKERRY_ARRAY_HPP

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "skerry/skerry.hpp"

namespace sk {
inline namespace v0 {

inline constexpr int max_dims = 7;

// A box of indices: lo[d] <= index < hi[d].
struct Patch {
  int dims = 0;
  std::array<std::int64_t, max_dims> lo{};  // zero beyond dims
  std::array<std::int64_t, max_dims> hi{};  // zero beyond dims

  Patch() = default;
  // {lo, hi} of a vector.
  Patch(std::int64_t lo0, std::int64_t hi0) : dims(1), lo{lo0}, hi{hi0} {}
  // {first row, end row, first column, end column} of a matrix.
  Patch(std::int64_t lo0, std::int64_t hi0, std::int64_t lo1, std::int64_t hi1)
      : dims(2), lo{lo0, lo1}, hi{hi0, hi1} {}
  Patch(std::span<const std::int64_t> low, std::span<const std::int64_t> high)
      : dims(static_cast<int>(low.size())) {
    if (low.size() != high.size() || low.size() > max_dims)
      throw Error(SKERRY_ERR_INVALID, "a patch needs as many low as high bounds, at most 7: got " +
                                          std::to_string(low.size()) + " and " +
                                          std::to_string(high.size()));
    for (std::size_t d = 0; d < low.size(); ++d) lo[d] = low[d], hi[d] = high[d];
  }
  std::int64_t extent(int d) const {
    return hi[static_cast<std::size_t>(d)] - lo[static_cast<std::size_t>(d)];
  }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= extent(d);
    return n;
  }
  bool empty() const {
    for (int d = 0; d < dims; ++d)
      if (extent(d) <= 0) return true;
    return false;
  }
  friend bool operator==(const Patch&, const Patch&) = default;
};
SKERRY_API std::string to_string(const Patch& patch);  // "[0:10, 20:30]"

enum class Placement : int {
  distributed = 0,  // one array over all members
  mirrored = 1      // one copy per node, over the members on that node
};
SKERRY_API const char* to_string(Placement placement);

struct ArrayOptions {
  Placement placement = Placement::distributed;
  // Process grid, one number per dimension. Empty: chosen so that blocks are near to square.
  std::vector<int> grid{};
  // Where blocks may start, per dimension, ascending from 0. Empty: regular blocks. With more
  // blocks than members, neighbours are joined until each member has at most one.
  std::vector<std::vector<std::int64_t>> starts{};
};

// The own block in memory. ld: elements from one row to the next (of the last but one dimension).
template <class T>
struct Block {
  T* data = nullptr;  // null: this rank holds nothing
  Patch patch;
  std::int64_t ld = 0;
};

// Transfers under way. The destructor waits for them; buffers and array must live until then.
class SKERRY_API Transfer {
 public:
  Transfer();
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;
  ~Transfer();
  void wait();
  bool test();  // never blocks

 private:
  friend class AnyArray;
  explicit Transfer(detail::JobRef job) : job_(std::move(job)) {}
  detail::JobRef job_;
  std::vector<skerry_handle> handles_;  // outstanding; empty: all done
};

struct PatchHolder {
  int rank;
  Patch patch;
};

// What this process got from, wrote to and added to other nodes for one array, in patches and
// scattered elements, since it was made or this was last cleared.
struct Traffic {
  struct Count {
    std::uint64_t parts = 0;  // one for each holder
    std::uint64_t bytes = 0;
    std::uint64_t ns = 0;        // that blocking ones took
    std::uint64_t nb_bytes = 0;  // of `bytes`: by non-blocking ones
  };
  Count gets, puts, accs;
  // What a mirror would have fetched for these gets of all the node's ranks, once. The node's first
  // member is told it, the others 0.
  std::uint64_t mirror_fetches = 0, mirror_bytes = 0;
  std::uint64_t mirror_blocks = 0;  // that these tiles are of: a refresh asks each what changed
};

// What this process has done with arrays of the job since it joined: docs/counters.md lists the
// names. `group` is any group of the job.
SKERRY_API Counters array_counters(const Group& group);

// An array whose element type is known at run time. `strides`, where taken, are bytes between
// neighbours of the origin buffer, one per dimension, the last being the element size; empty means
// the buffer is dense.
class SKERRY_API AnyArray {
 public:
  AnyArray();
  // Collective. Of any Type; zeroed. Errors: INVALID, NO_MEMORY: the same on every member.
  AnyArray(const Group& group, Type type, std::span<const std::int64_t> shape,
           const ArrayOptions& options = {});
  AnyArray(AnyArray&&) noexcept;
  AnyArray& operator=(AnyArray&&) noexcept;
  ~AnyArray();  // collective, as every owner of skerry.hpp
  void free();  // collective
  void release() noexcept;
  bool freed() const noexcept;

  Type type() const;
  int dims() const;
  std::span<const std::int64_t> shape() const;
  Placement placement() const;
  const Group& group() const;
  std::span<const int> grid() const;  // process grid; of the own node if mirrored
  std::span<const std::int64_t> block_starts(int d) const;  // of the own node if mirrored

  void get(const Patch& patch, void* out, std::span<const std::int64_t> strides = {}) const;
  void put(const Patch& patch, const void* values,
           std::span<const std::int64_t> strides = {}) const;
  // alpha points to one element; null means one. INVALID for bool, as scale and merge.
  void acc(const Patch& patch, const void* values, const void* alpha = nullptr,
           std::span<const std::int64_t> strides = {}) const;
  Transfer get_nb(const Patch& patch, void* out, std::span<const std::int64_t> strides = {}) const;
  Transfer put_nb(const Patch& patch, const void* values,
                  std::span<const std::int64_t> strides = {}) const;
  Transfer acc_nb(const Patch& patch, const void* values, const void* alpha = nullptr,
                  std::span<const std::int64_t> strides = {}) const;
  // Elements anywhere: `indices` has one number per dimension for each, `values` as many elements,
  // dense. RANGE before anything moves. An element that is named twice: gather reads it twice,
  // scatter_acc adds both, scatter leaves either.
  void gather(std::span<const std::int64_t> indices, void* out) const;
  void scatter(std::span<const std::int64_t> indices, const void* values) const;
  void scatter_acc(std::span<const std::int64_t> indices, const void* values,
                   const void* alpha = nullptr) const;
  // Adds n to one element of an int32 or int64 array and returns its old value, atomically.
  std::int64_t read_inc(std::span<const std::int64_t> index, std::int64_t n = 1) const;
  // Copies the patch and returns true if one block on the own node holds all of it; returns false
  // otherwise, and has copied nothing. Never blocks.
  bool get_if_local(const Patch& patch, void* out,
                    std::span<const std::int64_t> strides = {}) const;
  bool put_if_local(const Patch& patch, const void* values,
                    std::span<const std::int64_t> strides = {}) const;

  Patch distribution(int rank) const;                     // the block `rank` holds; empty if none
  int locate(std::span<const std::int64_t> index) const;  // the rank that holds an element
  std::vector<PatchHolder> locate(const Patch& patch) const;  // all holders, each with its part
  Block<void> local() const;  // the own block, without a copy; valid until free()

  // Names the array for tools that look at the running job from outside, as sk.attach of Python
  // does; an empty name takes it away. Each rank names its own block: no communication, but all
  // should call it. At most 63 bytes. Errors: INVALID.
  void label(const std::string& name) const;

  // Collective over the members on the own node; sk.advise of Python combines those of all members.
  Traffic traffic() const;
  void clear_traffic() const;  // not while others use the array

  void sync() const;  // of the whole group
  void fill(const void* value) const;
  void zero() const;
  void scale(const void* factor) const;
  // Same shape and type, any distributions. Distributed to mirrored fills every node's copy;
  // mirrored to distributed moves nothing between nodes and requires that the copies agree.
  void copy_to(const AnyArray& target) const;
  // Sums the nodes' copies of a mirrored array; all copies are equal afterwards, to the bit. Tiles
  // that are zero are not moved. A sync if it is distributed or on one node.
  void merge() const;

  struct Impl;
  const Impl& impl() const;  // throws FREED
 private:
  friend class Mirror;
  std::shared_ptr<const Impl> impl_;  // null: freed, moved from, or never made
  int exceptions_ = 0;                // under way when it was made
};

// A read-only copy of a distributed array in each node's shared memory, as the array was when the
// mirror was made or last refreshed. A tile comes from its owner's node when a rank of the node
// first reads it, once. A node takes memory for those tiles, and for a copy of its own blocks.
class SKERRY_API Mirror {
 public:
  Mirror();
  // Collective; begins and ends with a sync. Errors: INVALID (a mirrored array), NO_MEMORY.
  explicit Mirror(const AnyArray& array);
  Mirror(Mirror&&) noexcept;
  Mirror& operator=(Mirror&&) noexcept;
  ~Mirror();    // collective, as every owner of skerry.hpp
  void free();  // collective; the array may have been freed before
  void release() noexcept;
  bool freed() const noexcept;

  Type type() const;
  std::span<const std::int64_t> shape() const;
  // One-sided, as those of AnyArray. Any threads at once, but not during a refresh.
  void get(const Patch& patch, void* out, std::span<const std::int64_t> strides = {}) const;
  void gather(std::span<const std::int64_t> indices, void* out) const;
  // Makes it current, after any kind of write: owners compare their blocks with what they gave out,
  // and the others forget the tiles that changed. Collective; begins with a sync of the group and
  // ends with one of the node. Errors: FREED.
  void refresh() const;

 private:
  struct Impl;
  Impl& impl() const;  // throws FREED
  std::shared_ptr<Impl> impl_;
  int exceptions_ = 0;  // under way when it was made
};

// out = alpha op(a) op(b) + beta out, for matrices of float32 or float64 in one group; op
// transposes if trans_a or trans_b is true. Collective over the group. A mirrored `out` has equal
// copies afterwards; with beta they must agree before. Errors: INVALID (shapes, types, groups).
SKERRY_API void matmul(const AnyArray& a, const AnyArray& b, const AnyArray& out, double alpha = 1,
                       double beta = 0, bool trans_a = false, bool trans_b = false);

template <class T>
class Array : public AnyArray {
 public:
  Array() = default;
  Array(const Group& group, std::span<const std::int64_t> shape, const ArrayOptions& options = {})
      : AnyArray(group, type_of_v<T>, shape, options) {}
  Array(const Group& group, std::initializer_list<std::int64_t> shape,
        const ArrayOptions& options = {})
      : AnyArray(group, type_of_v<T>, std::span<const std::int64_t>(shape.begin(), shape.size()),
                 options) {}

  // ld: elements from one row of the buffer to the next; 0: dense. For matrices and vectors; more
  // dimensions must be dense.
  void get(const Patch& patch, T* out, std::int64_t ld = 0) const {
    AnyArray::get(patch, out, Strides(patch, ld).span());
  }
  void put(const Patch& patch, const T* values, std::int64_t ld = 0) const {
    AnyArray::put(patch, values, Strides(patch, ld).span());
  }
  void acc(const Patch& patch, const T* values, T alpha = T(1), std::int64_t ld = 0) const {
    AnyArray::acc(patch, values, &alpha, Strides(patch, ld).span());
  }
  Transfer get_nb(const Patch& patch, T* out, std::int64_t ld = 0) const {
    return AnyArray::get_nb(patch, out, Strides(patch, ld).span());
  }
  Transfer put_nb(const Patch& patch, const T* values, std::int64_t ld = 0) const {
    return AnyArray::put_nb(patch, values, Strides(patch, ld).span());
  }
  Transfer acc_nb(const Patch& patch, const T* values, T alpha = T(1), std::int64_t ld = 0) const {
    return AnyArray::acc_nb(patch, values, &alpha, Strides(patch, ld).span());
  }
  T read_inc(std::initializer_list<std::int64_t> index, T n = 1) const {
    return static_cast<T>(
        AnyArray::read_inc(std::span<const std::int64_t>(index.begin(), index.size()), n));
  }
  Block<T> local() const {
    Block<void> own = AnyArray::local();
    return {static_cast<T*>(own.data), own.patch, own.ld};
  }
  void fill(T value) const { AnyArray::fill(&value); }
  void scale(T factor) const { AnyArray::scale(&factor); }

 private:
  struct Strides {
    std::int64_t bytes[2] = {0, sizeof(T)};
    std::size_t n = 0;
    Strides(const Patch& patch, std::int64_t ld) {
      if (ld == 0) return;
      if (patch.dims != 2)
        throw Error(SKERRY_ERR_INVALID,
                    "a leading dimension suits matrices: pass 0 for " + to_string(patch));
      if (ld < patch.extent(1))
        throw Error(SKERRY_ERR_INVALID, "leading dimension " + std::to_string(ld) +
                                            " is smaller than a row of " + to_string(patch));
      bytes[0] = ld * static_cast<std::int64_t>(sizeof(T));
      n = 2;
    }
    std::span<const std::int64_t> span() const { return {bytes, n}; }
  };
};

}  // namespace v0
}  // namespace sk
#endif  // SKERRY_ARRAY_HPP
