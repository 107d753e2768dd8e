// matmul: every member computes its share of the result from panels of a and b that it fetches
// one-sidedly, the next panel under way while BLAS works on this one (the scheme known as SRUMMA).
// Panels inside one block of the own node are used in place.
#include <algorithm>
#include <array>
#include <set>

#include "blas.hpp"
#include "impl.hpp"

namespace sk {
inline namespace v0 {

namespace {

using Impl = AnyArray::Impl;

// Row-major c (m x n) += alpha op(a) op(b) + beta c: column-major BLAS sees all transposed, so the
// factors change places.
template <class T>
void gemm(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
          std::int64_t ldc) {
  const char ta = trans_a ? 'T' : 'N', tb = trans_b ? 'T' : 'N';
  const auto at_least_1 = [](std::int64_t value) { return std::max<std::int64_t>(value, 1); };
  blas::gemm<T>(tb, ta, n, m, k, alpha, b, at_least_1(ldb), a, at_least_1(lda), beta, c,
                at_least_1(ldc));
}

constexpr std::int64_t
    panel_depth = 512;  // of the summed dimension: large enough for BLAS, small enough to overlap

// A panel of a factor: in place, or fetched.
template <class T>
struct Panel {
  const T* data = nullptr;
  std::int64_t ld = 0;
  std::vector<T> memory;
  Transfer transfer;

  void start(const AnyArray& array, const Patch& patch) {
    const Impl& a = array.impl();
    ld = patch.extent(1);
    if (!patch.empty()) {
      const std::int64_t corner[2] = {patch.lo[0], patch.lo[1]};
      const auto* block = a.local_block(a.layout.block_of(corner));
      if (block && patch.hi[0] <= block->patch.hi[0] && patch.hi[1] <= block->patch.hi[1]) {
        ld = block->patch.extent(1);
        data = reinterpret_cast<const T*>(block->data) + (patch.lo[0] - block->patch.lo[0]) * ld +
               (patch.lo[1] - block->patch.lo[1]);
        return;
      }
    }
    memory.resize(static_cast<std::size_t>(patch.elements()));
    data = memory.data();
    transfer = array.get_nb(patch, memory.data());
  }
};

template <class T>
class Product {
 public:
  Product(const AnyArray& a, const AnyArray& b, const AnyArray& out, double alpha, double beta,
          bool trans_a, bool trans_b)
      : a_(a),
        b_(b),
        out_(out),
        alpha_(static_cast<T>(alpha)),
        beta_(static_cast<T>(beta)),
        trans_a_(trans_a),
        trans_b_(trans_b),
        depth_(a.shape()[trans_a ? 0 : 1]) {}

  void run() {
    const Impl& c = out_.impl();
    const blas::OneThread one;
    c.group.sync();
    if (c.mirrored()) run_mirrored();
    else if (const auto* own = c.own())
      multiply(own->patch, reinterpret_cast<T*>(own->data), beta_);
    c.group.sync();
  }

 private:
  // Nodes share the result evenly by members. Each adds its share to a zeroed copy, and the merge
  // fills in the rest. Shares are disjoint, so it moves every tile once.
  void run_mirrored() {
    const Impl& c = out_.impl();
    int members_before = c.nodes->own_index();
    for (int node = 0; node < c.nodes->own_node(); ++node)
      members_before += c.nodes->node_size(node);
    const layout::Distribution shares(c.layout.shape(), {}, c.group.size());
    const Patch share = shares.block(members_before);
    std::vector<T> memory(static_cast<std::size_t>(share.elements()));
    if (!share.empty()) {
      if (beta_ != T(0)) out_.get(share, memory.data());
      multiply(share, memory.data(), beta_);
    }
    out_.zero();
    if (!share.empty()) out_.put(share, memory.data());
    out_.merge();
  }

  // c (dense, of `share`'s extents) = alpha op(a) op(b) + beta c.
  void multiply(const Patch& share, T* c, T beta) {
    const std::int64_t m = share.extent(0), n = share.extent(1);
    const std::vector<std::int64_t> cuts = depth_cuts();
    const std::size_t panels = cuts.size() - 1;
    if (panels == 0) {  // nothing to sum
      for (std::int64_t i = 0; i < m * n; ++i) c[i] = beta == T(0) ? T(0) : beta * c[i];
      return;
    }
    // Members start at different panels, so that they do not all fetch from the same owner.
    const std::size_t shift = static_cast<std::size_t>(
                                  out_.group().index(skerry_rank(out_.group().job()))) %
                              panels;
    Panel<T> left[2], right[2];
    const auto start = [&](std::size_t i) {
      const std::size_t at = (i + shift) % panels;
      const std::int64_t k0 = cuts[at], k1 = cuts[at + 1];
      left[i & 1].start(a_, trans_a_ ? Patch(k0, k1, share.lo[0], share.hi[0])
                                     : Patch(share.lo[0], share.hi[0], k0, k1));
      right[i & 1].start(b_, trans_b_ ? Patch(share.lo[1], share.hi[1], k0, k1)
                                      : Patch(k0, k1, share.lo[1], share.hi[1]));
    };
    start(0);
    for (std::size_t i = 0; i < panels; ++i) {
      if (i + 1 < panels) start(i + 1);
      Panel<T>&l = left[i & 1], &r = right[i & 1];
      l.transfer.wait();
      r.transfer.wait();
      const std::size_t at = (i + shift) % panels;
      gemm<T>(trans_a_, trans_b_, m, n, cuts[at + 1] - cuts[at], alpha_, l.data, l.ld, r.data, r.ld,
              i == 0 ? beta : T(1), c, n);
    }
  }

  // Where the summed dimension is cut: at the factors' block bounds, so that panels have few
  // owners, and at panel_depth.
  std::vector<std::int64_t> depth_cuts() const {
    std::set<std::int64_t> bounds{0, depth_};
    for (auto k : a_.block_starts(trans_a_ ? 0 : 1)) bounds.insert(k);
    for (auto k : b_.block_starts(trans_b_ ? 1 : 0)) bounds.insert(k);
    std::vector<std::int64_t> cuts;
    for (auto k : bounds) {
      if (k > depth_) break;
      while (!cuts.empty() && k - cuts.back() > panel_depth)
        cuts.push_back(cuts.back() + panel_depth);
      cuts.push_back(k);
    }
    return cuts;
  }

  const AnyArray &a_, &b_, &out_;
  const T alpha_, beta_;
  const bool trans_a_, trans_b_;
  const std::int64_t depth_;  // of the sum
};

std::string shape_text(const AnyArray& a, bool transposed) {
  return "(" + std::to_string(a.shape()[0]) + ", " + std::to_string(a.shape()[1]) + ")" +
         (transposed ? "^T" : "");
}

}  // namespace

void matmul(const AnyArray& a, const AnyArray& b, const AnyArray& out, double alpha, double beta,
            bool trans_a, bool trans_b) {
  for (const auto* array : {&a, &b, &out}) {
    if (array->dims() != 2)
      throw Error(SKERRY_ERR_INVALID, "matmul multiplies matrices: got an array of " +
                                          std::to_string(array->dims()) + " dimensions");
    if (array->type() != out.type())
      throw Error(SKERRY_ERR_INVALID, std::string("matmul needs one type: got ") +
                                          to_string(a.type()) + ", " + to_string(b.type()) +
                                          " and " + to_string(out.type()));
    if (array->group().get() != out.group().get())
      throw Error(SKERRY_ERR_INVALID,
                  "matmul needs arrays of one group: make all three over the same");
    for (auto n : array->shape())
      if (n > 0x7fffffff)
        throw Error(SKERRY_ERR_UNSUPPORTED,
                    "matmul of a dimension of " + std::to_string(n) + ": BLAS counts to 2^31 - 1");
  }
  if (&a.impl() == &out.impl() || &b.impl() == &out.impl())
    throw Error(SKERRY_ERR_INVALID, "matmul cannot write over a factor: give another array as out");
  const auto m = a.shape()[trans_a ? 1 : 0], ka = a.shape()[trans_a ? 0 : 1];
  const auto kb = b.shape()[trans_b ? 1 : 0], n = b.shape()[trans_b ? 0 : 1];
  if (ka != kb || out.shape()[0] != m || out.shape()[1] != n)
    throw Error(SKERRY_ERR_INVALID, "matmul shapes do not fit: " + shape_text(a, trans_a) +
                                        " times " + shape_text(b, trans_b) + " into " +
                                        shape_text(out, false));
  if (out.type() == Type::float32)
    return Product<float>(a, b, out, alpha, beta, trans_a, trans_b).run();
  if (out.type() == Type::float64)
    return Product<double>(a, b, out, alpha, beta, trans_a, trans_b).run();
  throw Error(SKERRY_ERR_INVALID,
              std::string("matmul of ") + to_string(out.type()) + ": it needs float32 or float64");
}

}  // namespace v0
}  // namespace sk
