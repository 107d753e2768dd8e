// Merging of sorted arrays, for sorting by ranks (skerry.xp._sorting).
#include <nanobind/ndarray.h>

#include <algorithm>

#include "binding.hpp"

namespace skpy {
namespace {

using SortedRun = nb::ndarray<nb::ro, nb::device::cpu, nb::ndim<1>, nb::c_contig>;
using MergedRun = nb::ndarray<nb::device::cpu, nb::ndim<1>, nb::c_contig>;

// A row of ascending values.
template <class T>
struct Run {
  const T* begin;
  const T* end;
  std::size_t length() const { return static_cast<std::size_t>(end - begin); }
};

// Merges from both ends at once: two chains of comparisons, neither of which waits for the other.
// The choice of a value is a move: every other branch would be mispredicted. Of equal values those
// of `low` come first.
template <class T>
void merge_ascending(Run<T> low, Run<T> high, T* out) {
  T* end = out + low.length() + high.length();
  while (const std::size_t steps = std::min(low.length(), high.length()) / 2)
    for (std::size_t i = 0; i < steps; ++i) {
      const T a = *low.begin, b = *high.begin;
      *out++ = b < a ? b : a;
      high.begin += b < a;
      low.begin += !(b < a);
      const T y = low.end[-1], z = high.end[-1];
      *--end = z < y ? y : z;
      low.end -= z < y;
      high.end -= !(z < y);
    }
  std::merge(low.begin, low.end, high.begin, high.end, out);
}

// NaN is above all.
template <class T>
const T* first_nan(const T* begin, const T* end) {
  return std::partition_point(begin, end, [](T value) { return value == value; });
}

template <class T>
void merge_as(const SortedRun& low, const SortedRun& high, const MergedRun& out) {
  const auto* a = static_cast<const T*>(low.data());
  const auto* b = static_cast<const T*>(high.data());
  auto* to = static_cast<T*>(out.data());
  const T *a_end = a + low.shape(0), *b_end = b + high.shape(0);
  const T *a_nan = first_nan(a, a_end), *b_nan = first_nan(b, b_end);
  merge_ascending<T>({a, a_nan}, {b, b_nan}, to);
  std::copy(b_nan, b_end, std::copy(a_nan, a_end, to + (a_nan - a) + (b_nan - b)));
}

template <class... T>
bool merge_one_of(const SortedRun& low, const SortedRun& high, const MergedRun& out) {
  return ((low.dtype() == nb::dtype<T>() && (merge_as<T>(low, high, out), true)) || ...);
}

void merge(const SortedRun& low, const SortedRun& high, const MergedRun& out) {
  bool fits = low.dtype() == high.dtype() && low.dtype() == out.dtype() &&
              out.shape(0) == low.shape(0) + high.shape(0);
  if (fits) {
    nb::gil_scoped_release released;
    fits = merge_one_of<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                        std::uint16_t, std::uint32_t, std::uint64_t, float, double>(low, high, out);
  }
  if (!fits) throw nb::type_error("xp_merge: one dtype, of numbers, and room for both");
}

}  // namespace

void bind_merge(nb::module_& m) {
  m.def("xp_merge", &merge, nb::arg("low"), nb::arg("high"), nb::arg("out").noconvert(),
        nb::sig("def xp_merge(low: Block, high: Block, out: Block) -> None"),
        "Merges two ascending 1-d arrays of one dtype into `out`, which has room for both; of\n"
        "equal values those of `low` come first, NaN is last. Not collective. Errors: TypeError\n"
        "(other than integers, float32 and float64, of two dtypes, or not in one piece).");
}

}  // namespace skpy
