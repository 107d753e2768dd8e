// What a program names of an array or a mirror: a patch, and the buffer that serves it.
#pragma once

#include <cassert>
#include <span>

#include "binding.hpp"

namespace skpy {

struct Described {
  sk::Type type;
  int dims;
  std::int64_t shape[sk::max_dims]{};
  std::uint64_t element_bytes;
  Described(sk::Type element, std::span<const std::int64_t> lengths)
      : type(element),
        dims(static_cast<int>(lengths.size())),
        element_bytes(sk::bytes_of(element)) {
    assert(lengths.size() <= sk::max_dims && element_bytes > 0);
    for (std::size_t d = 0; d < lengths.size(); ++d) shape[d] = lengths[d];
  }
};

struct Selection {
  sk::Patch patch;
  bool dropped[sk::max_dims]{};  // chosen by an index: not a dimension of the result
  int kept = 0;                  // dimensions of the result
  bool stepped = false;          // a slice has a step other than 1
};

struct Strides {
  std::int64_t bytes[sk::max_dims];
  int n;
  std::span<const std::int64_t> span() const { return {bytes, static_cast<std::size_t>(n)}; }
};

// The fields of a slice object.
struct Slice {
#ifdef Py_LIMITED_API
  explicit Slice(nb::handle item)
      : owners{item.attr("start"), item.attr("stop"), item.attr("step")} {}
  nb::object owners[3];
  PyObject* start = owners[0].ptr();
  PyObject* stop = owners[1].ptr();
  PyObject* step = owners[2].ptr();
#else  // the same, faster
  explicit Slice(nb::handle item) : Slice(reinterpret_cast<PySliceObject*>(item.ptr())) {}
  explicit Slice(PySliceObject* item) : start(item->start), stop(item->stop), step(item->step) {}
  PyObject* start;
  PyObject* stop;
  PyObject* step;
#endif
};

[[noreturn]] void bad_patch(const std::string& what);
// With `steps`, a patch may have them, and its selection says so; without, they are refused.
Selection select(const Described& a, nb::handle patch, bool steps = false);
// Whether the buffer can serve the selection as it is; then its strides.
bool fits(const Described& a, const Selection& s, const View& view, Strides& strides);
std::vector<nb::ssize_t> result_shape(const Described& a, const Selection& s);
[[noreturn]] void refuse_out(const Described& a, const Selection& s, nb::handle out);
nb::object element_to_python(const Described& a, const void* element);

// Scattered elements. skerry._patches has made both of what the program gave: int64 indices, one
// row for each element, and dense values of the array's type.
struct Elements {
  View indices, values;
  Elements(const Described& a, nb::handle index_rows, nb::handle elements, bool writable);
  std::span<const std::int64_t> span() {
    return {reinterpret_cast<const std::int64_t*>(indices.data()),
            static_cast<std::size_t>(indices.elements())};
  }
};

// Checks the patch before memory is asked for it. A patch out of range throws here: `source`, which
// has a `get`, says why.
template <class Source>
void check_inside(const Described& a, const Selection& s, const Source& source) {
  for (int d = 0; d < a.dims; ++d) {
    const auto k = static_cast<std::size_t>(d);
    if (s.patch.lo[k] < 0 || s.patch.hi[k] < s.patch.lo[k] || s.patch.hi[k] > a.shape[d])
        [[unlikely]] {
      source.get(s.patch, nullptr);
      return;
    }
  }
}

}  // namespace skpy
