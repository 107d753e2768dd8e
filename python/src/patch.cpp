#include "patch.hpp"

#include <algorithm>
#include <cassert>
#include <complex>
#include <cstring>

namespace skpy {

void bad_patch(const std::string& what) {
  throw sk::Error(
      SKERRY_ERR_INVALID,
      what + ": give slices of step 1, indices or (low, high) pairs, one per dimension");
}

namespace {

void refuse_or_note_step(Selection& s, int d, Py_ssize_t step, bool steps) {
  if (!steps)
    throw sk::Error(SKERRY_ERR_UNSUPPORTED, "a step of " + std::to_string(step) + " in dimension " +
                                                std::to_string(d) +
                                                ": only get, put and acc of an Array take steps");
  s.stepped = true;
}

void select_one(const Described& a, Selection& s, int d, PyObject* item, bool steps) {
  const auto k = static_cast<std::size_t>(d);
  const std::int64_t n = a.shape[d];
  if (PySlice_Check(item)) {
    const Slice slice(item);
    const auto number = [&](PyObject* from, std::int64_t none) -> std::int64_t {
      if (from == Py_None) return none;
      const Py_ssize_t value = PyNumber_AsSsize_t(from, PyExc_IndexError);
      if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
      return value < 0 ? value + n : value;
    };
    if (slice.step != Py_None) {
      const Py_ssize_t step = PyNumber_AsSsize_t(slice.step, PyExc_IndexError);
      if (step == -1 && PyErr_Occurred()) nb::raise_python_error();
      if (step != 1) return refuse_or_note_step(s, d, step, steps);
    }
    s.patch.lo[k] = number(slice.start, 0);
    s.patch.hi[k] = number(slice.stop, n);
    ++s.kept;
    return;
  }
  if (PyTuple_Check(item)) {
    if (PyTuple_Size(item) != 2)
      bad_patch("a tuple of " + std::to_string(PyTuple_Size(item)) + " in dimension " +
                std::to_string(d));
    s.patch.lo[k] = PyNumber_AsSsize_t(PyTuple_GetItem(item, 0), PyExc_IndexError);
    s.patch.hi[k] = PyNumber_AsSsize_t(PyTuple_GetItem(item, 1), PyExc_IndexError);
    if (PyErr_Occurred()) nb::raise_python_error();
    ++s.kept;
    return;
  }
  if (PyIndex_Check(item)) {
    std::int64_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) nb::raise_python_error();
    if (index < 0) index += n;
    s.patch.lo[k] = index;
    s.patch.hi[k] = index + 1;
    s.dropped[d] = true;
    return;
  }
  bad_patch(nb::cast<std::string>(nb::repr(nb::handle(item))) + " in dimension " +
            std::to_string(d));
}

void select_all(const Described& a, Selection& s, int from, int to) {
  for (int d = from; d < to; ++d) {
    s.patch.lo[static_cast<std::size_t>(d)] = 0;
    s.patch.hi[static_cast<std::size_t>(d)] = a.shape[d];
    ++s.kept;
  }
}

}  // namespace

Selection select(const Described& a, nb::handle patch, bool steps) {
  Selection s;
  s.patch.dims = a.dims;
  if (!PyTuple_Check(patch.ptr())) {
    if (patch.ptr() == Py_Ellipsis) {
      select_all(a, s, 0, a.dims);
    } else {
      select_one(a, s, 0, patch.ptr(), steps);
      select_all(a, s, 1, a.dims);
    }
    return s;
  }
  const auto items = static_cast<int>(PyTuple_Size(patch.ptr()));
  int d = 0;
  bool expanded = false;
  for (int i = 0; i < items; ++i) {
    PyObject* item = PyTuple_GetItem(patch.ptr(), i);
    if (item == Py_Ellipsis) {
      if (expanded) bad_patch("two ... in one patch");
      expanded = true;
      const int to = a.dims - (items - 1 - i);
      select_all(a, s, d, to);
      d = std::max(d, to);
      continue;
    }
    if (d >= a.dims)
      throw sk::Error(SKERRY_ERR_RANGE, "a patch of " + std::to_string(items) +
                                            " dimensions of an array of " + std::to_string(a.dims));
    select_one(a, s, d++, item, steps);
  }
  select_all(a, s, d, a.dims);
  assert(s.kept <= a.dims);
  return s;
}

bool fits(const Described& a, const Selection& s, const View& view, Strides& strides) {
  if (view.type() != a.type || view.get().ndim != s.kept) return false;
  strides.n = a.dims;
  int axis = 0;
  for (int d = 0; d < a.dims; ++d) {
    strides.bytes[d] = static_cast<std::int64_t>(a.element_bytes);
    if (s.dropped[d]) continue;
    if (view.get().shape[axis] != s.patch.extent(d)) return false;
    // Of a single row or column the stride says nothing.
    if (s.patch.extent(d) > 1) strides.bytes[d] = view.get().strides[axis];
    ++axis;
  }
  assert(s.stepped || axis == s.kept);
  return strides.bytes[a.dims - 1] == static_cast<std::int64_t>(a.element_bytes);
}

std::vector<nb::ssize_t> result_shape(const Described& a, const Selection& s) {
  std::vector<nb::ssize_t> shape;
  shape.reserve(sk::max_dims);
  for (int d = 0; d < a.dims; ++d)
    if (!s.dropped[d]) shape.push_back(std::max<std::int64_t>(s.patch.extent(d), 0));
  return shape;
}

void refuse_out(const Described& a, const Selection& s, nb::handle out) {
  const nb::object shape = nb::getattr(out, "shape", nb::none()),
                   dtype = nb::getattr(out, "dtype", nb::none());
  const std::string
      text = "out has shape " + nb::cast<std::string>(nb::str(shape)) + " and dtype " +
             nb::cast<std::string>(nb::str(dtype)) + "; patch " + sk::to_string(s.patch) + " of " +
             sk::to_string(a.type) +
             " needs the same extents and dtype, a contiguous last axis and a writable buffer";
  if (!dtype.is_none() && !dtype.equal(dtype_of(a.type))) throw_dtype(text);
  throw sk::Error(SKERRY_ERR_INVALID, text);
}

nb::object element_to_python(const Described& a, const void* element) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, element, sizeof(value));
    return value;
  };
  const auto complex = [](std::complex<double> value) {
    return nb::steal(PyComplex_FromDoubles(value.real(), value.imag()));
  };
  switch (a.type) {
    case sk::Type::boolean: return nb::bool_(read(bool{}));
    case sk::Type::int8: return nb::int_(read(std::int8_t{}));
    case sk::Type::int16: return nb::int_(read(std::int16_t{}));
    case sk::Type::int32: return nb::int_(read(std::int32_t{}));
    case sk::Type::int64: return nb::int_(read(std::int64_t{}));
    case sk::Type::uint8: return nb::int_(read(std::uint8_t{}));
    case sk::Type::uint16: return nb::int_(read(std::uint16_t{}));
    case sk::Type::uint32: return nb::int_(read(std::uint32_t{}));
    case sk::Type::uint64: return nb::int_(read(std::uint64_t{}));
    case sk::Type::float32: return nb::float_(read(float{}));
    case sk::Type::float64: return nb::float_(read(double{}));
    case sk::Type::complex64: return complex(read(std::complex<float>{}));
    case sk::Type::complex128: return complex(read(std::complex<double>{}));
  }
  return nb::none();
}

Elements::Elements(const Described& a, nb::handle index_rows, nb::handle elements, bool writable) {
  acquire_contiguous(indices, index_rows, false, "the indices");
  acquire_contiguous(values, elements, writable, writable ? "out" : "the values");
  if (indices.type() != sk::Type::int64 || values.type() != a.type ||
      indices.elements() != values.elements() * static_cast<std::uint64_t>(a.dims))
    throw sk::Error(SKERRY_ERR_INTERNAL, "scattered elements were not converted");
}

}  // namespace skpy
