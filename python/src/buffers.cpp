// Buffers and dtypes. They use the buffer protocol, not NumPy's C interface. So arrays of any
// library work, and building needs no NumPy headers.
#include <cassert>
#include <complex>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "binding.hpp"

namespace skpy {

namespace {

// The beginning of an ndarray, part of NumPy's binary interface since 1.7. The buffer protocol
// makes a text of the dtype for each call, which takes longer than a small transfer; this does not.
struct NdArray {
  PyObject_HEAD
  char* data;
  int ndim;
  Py_ssize_t* dims;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};
static_assert(offsetof(NdArray, data) == sizeof(PyObject), "NumPy's fields follow Python's");
constexpr int in_c_order = 0x1, is_writable = 0x400;

// What is compared with an array before the struct is believed. `array_type` null: it is not.
struct Known {
  PyTypeObject* array_type = nullptr;
  struct Element {
    PyObject* dtype;
    const char* format;
    Py_ssize_t bytes;
  };
  std::vector<Element> elements;
};

// The arrays of this NumPy: believed if one that is made for it looks as it should. NumPy 1 and 2
// have the same beginning.
Known look_at_numpy() {
  Known known;
  const nb::object numpy = nb::module_::import_("numpy");
  const auto every_second = [](int from, int to) {
    return nb::slice(nb::int_(from), nb::int_(to), nb::int_(2));
  };
  const nb::object all = numpy.attr("zeros")(nb::make_tuple(4, 5), "float32");
  const nb::object array = all[nb::make_tuple(every_second(1, 4), every_second(0, 5))];
  const auto* seen = reinterpret_cast<const NdArray*>(array.ptr());
  const bool as_known = seen->ndim == 2 && seen->dims[0] == 2 && seen->dims[1] == 3 &&
                        seen->strides[0] == 40 && seen->strides[1] == 8 &&
                        seen->base == all.ptr() && array.attr("dtype").is(seen->dtype) &&
                        nb::cast<int>(array.attr("flags").attr("num")) == seen->flags;
  if (!as_known) return known;
  for (const char* format : {"?", "b", "h", "i", "l", "B", "H", "I", "L", "f", "d", "F", "D"}) {
    const nb::object dtype = numpy.attr("dtype")(format);
    const char* in_buffers = format[0] == 'F' ? "Zf" : format[0] == 'D' ? "Zd" : format;
    const auto bytes = nb::cast<Py_ssize_t>(dtype.attr("itemsize"));
    known.elements.push_back({nb::object(dtype).release().ptr(), in_buffers, bytes});
  }
  known.array_type = reinterpret_cast<PyTypeObject*>(numpy.attr("ndarray").ptr());
  return known;
}

// Fills `buffer` as the buffer protocol would, for an ndarray in C order of plain numbers.
// PyBuffer_Release gives the reference back; NumPy does not resize an array that others refer to.
bool view_of_numpy(PyObject* object, bool writable, Py_buffer* buffer) {
  static const Known known = look_at_numpy();
  if (Py_TYPE(object) != known.array_type) return false;
  const auto* array = reinterpret_cast<const NdArray*>(object);
  const int wanted = in_c_order | (writable ? is_writable : 0);
  if ((array->flags & wanted) != wanted) return false;
  for (const Known::Element& each : known.elements) {
    if (each.dtype != array->dtype) continue;
    Py_ssize_t count = 1;
    for (int d = 0; d < array->ndim; ++d) count *= array->dims[d];
    if (count == 0) return false;  // its strides may be anything
    assert(count > 0 && each.bytes > 0);
    *buffer = {};
    buffer->obj = nb::borrow(object).release().ptr();
    buffer->buf = array->data;
    buffer->len = count * each.bytes;
    buffer->itemsize = each.bytes;
    buffer->readonly = (array->flags & is_writable) == 0;
    buffer->ndim = array->ndim;
    buffer->format = const_cast<char*>(each.format);
    buffer->shape = array->dims;
    buffer->strides = array->strides;
    return true;
  }
  return false;
}

}  // namespace

bool View::acquire(nb::handle object, bool writable) {
  release();
  assert(!held_);
  if (view_of_numpy(object.ptr(), writable, &buffer_)) return held_ = true;
  if (PyObject_GetBuffer(object.ptr(), &buffer_,
                         PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    PyErr_Clear();
    return false;
  }
  held_ = true;
  return true;
}

void View::release() {
  if (held_) PyBuffer_Release(&buffer_);
  held_ = false;
}

namespace {

// Without the mark of the native byte order. Another order keeps its mark, and matches no type.
std::string_view native_format(const Py_buffer& buffer) {
  std::string_view format = buffer.format ? buffer.format : "B";
  if (!format.empty() && std::string_view("@=<").find(format[0]) != format.npos)
    format.remove_prefix(1);
  return format;
}

// Whether elements of this format (PEP 3118) hold addresses of this process: of objects, memory or
// functions. They mean nothing in another process, and objects that are overwritten lose count.
bool holds_addresses(std::string_view format) {
  bool in_name = false;  // a field's name stands between colons
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] == ':') in_name = !in_name;
    if (in_name) continue;
    if (std::string_view("O&XPz").find(format[i]) != format.npos) return true;
    const char next = i + 1 < format.size() ? format[i + 1] : ' ';
    if (format[i] == 'Z' && std::string_view("fdg").find(next) == std::string_view::npos)
      return true;  // not a complex number
  }
  return false;
}

std::string dtype_name(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  return dtype.is_none() ? nb::cast<std::string>(nb::repr(object.type()))
                         : "dtype " + nb::cast<std::string>(nb::str(dtype));
}

[[noreturn]] void refuse_buffer(nb::handle object, bool writable, const char* what) {
  View readable;
  if (writable && readable.acquire(object, false))
    throw sk::Error(SKERRY_ERR_INVALID, std::string(what) +
                                            " must be a writable array, and this one is read-only: "
                                            "pass a copy");
  if (nb::hasattr(object, "dtype") && nb::hasattr(object, "__array_interface__"))
    throw_dtype(std::string(what) + ": " + dtype_name(object) +
                " gives no buffer; pass numbers of the same size, as .view('int64') of dates");
  throw sk::Error(SKERRY_ERR_INVALID,
                  std::string(what) +
                      (writable ? " must be a writable array" : " must be an array") + ", not " +
                      nb::cast<std::string>(nb::repr(object.type())));
}

}  // namespace

std::optional<sk::Type> View::type() const {
  const std::string_view format = native_format(buffer_);
  if (format == "d") return sk::Type::float64;
  if (format == "f") return sk::Type::float32;
  if (format == "Zd") return sk::Type::complex128;
  if (format == "Zf") return sk::Type::complex64;
  if (format == "?") return sk::Type::boolean;
  if (format.size() != 1) return std::nullopt;
  const bool is_signed = std::string_view("bhilq").find(format[0]) != format.npos;
  if (!is_signed && std::string_view("BHILQ").find(format[0]) == format.npos) return std::nullopt;
  switch (buffer_.itemsize) {
    case 1: return is_signed ? sk::Type::int8 : sk::Type::uint8;
    case 2: return is_signed ? sk::Type::int16 : sk::Type::uint16;
    case 4: return is_signed ? sk::Type::int32 : sk::Type::uint32;
    case 8: return is_signed ? sk::Type::int64 : sk::Type::uint64;
    default: return std::nullopt;
  }
}

int View::element_type(const char* what) const {
  if (native_format(buffer_) == "g" && buffer_.itemsize == 16) return SKERRY_LONG_DOUBLE;
  const auto found = type();
  if (found && *found != sk::Type::boolean) return static_cast<int>(*found);
  throw_dtype(std::string("cannot ") + what + " elements of format \"" +
              (buffer_.format ? buffer_.format : "B") +
              "\": use an integer, float32, float64, longdouble, complex64 or complex128, in this "
              "machine's byte order");
}

void acquire_contiguous(View& view, nb::handle object, bool writable, const char* what) {
  if (!view.acquire(object, writable)) refuse_buffer(object, writable, what);
  if (view.get().format && holds_addresses(view.get().format))
    throw_dtype(std::string(what) + ": the elements of " + dtype_name(object) +
                " are addresses in this process, which mean nothing in another; pass numbers "
                "(.astype('float64')), or pickle.dumps of the objects in a uint8 array");
  if (!view.contiguous())
    throw sk::Error(
        SKERRY_ERR_INVALID,
        std::string(what) + " must be C-contiguous: pass numpy.ascontiguousarray of it");
}

nb::object view_owner(nb::handle owner, const void* data) {
  struct Kept {
    nb::object owner;
    const void* data;
    ~Kept() { skerry_memory_unhold(data); }
  };
  if (data == nullptr || skerry_memory_hold(data) != SKERRY_OK) return nb::borrow(owner);
  return nb::capsule(new Kept{nb::borrow(owner), data},
                     [](void* kept) noexcept { delete static_cast<Kept*>(kept); });
}

// ---- one element --------------------------------------------------------------------------------

namespace {

template <class T>
T whole(sk::Type type, nb::handle value, const char* what) {
  const nb::int_ number(value);
  if (!value.equal(number))
    throw_dtype(std::string(what) + " " + nb::cast<std::string>(nb::repr(value)) +
                " is not a whole number, the array is of " + sk::to_string(type));
  T result;
  if (!nb::try_cast(number, result))
    throw sk::Error(SKERRY_ERR_INVALID, std::string(what) + " " +
                                            nb::cast<std::string>(nb::str(number)) +
                                            " does not fit " + sk::to_string(type));
  return result;
}

double real(nb::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred()) nb::raise_python_error();
  return number;
}

std::complex<double> complex(nb::handle value) {
  if (!PyNumber_Check(value.ptr())) return real(value);  // raises: complex() would read a text
  const nb::object number = nb::handle(reinterpret_cast<PyObject*>(&PyComplex_Type))(value);
  return {PyComplex_RealAsDouble(number.ptr()), PyComplex_ImagAsDouble(number.ptr())};
}

bool truth(nb::handle value) {
  const int answer = PyObject_IsTrue(value.ptr());
  if (answer < 0) nb::raise_python_error();
  return answer != 0;
}

}  // namespace

Scalar::Scalar(sk::Type type, nb::handle value, const char* what) {
  static_assert(sizeof(std::complex<double>) <= sizeof bytes, "the longest element");
  const auto store = [&](auto number) { std::memcpy(bytes, &number, sizeof(number)); };
  switch (type) {
    case sk::Type::boolean: store(truth(value)); break;
    case sk::Type::int8: store(whole<std::int8_t>(type, value, what)); break;
    case sk::Type::int16: store(whole<std::int16_t>(type, value, what)); break;
    case sk::Type::int32: store(whole<std::int32_t>(type, value, what)); break;
    case sk::Type::int64: store(whole<std::int64_t>(type, value, what)); break;
    case sk::Type::uint8: store(whole<std::uint8_t>(type, value, what)); break;
    case sk::Type::uint16: store(whole<std::uint16_t>(type, value, what)); break;
    case sk::Type::uint32: store(whole<std::uint32_t>(type, value, what)); break;
    case sk::Type::uint64: store(whole<std::uint64_t>(type, value, what)); break;
    case sk::Type::float32: store(static_cast<float>(real(value))); break;
    case sk::Type::float64: store(real(value)); break;
    case sk::Type::complex64: store(std::complex<float>(complex(value))); break;
    case sk::Type::complex128: store(complex(value)); break;
  }
}

// ---- NumPy --------------------------------------------------------------------------------------

namespace {
// Looked up once and kept for the life of the process (a reference is left to the interpreter on
// purpose).
nb::handle numpy_function(const char* name) {
  return nb::object(nb::module_::import_("numpy").attr(name)).release();
}
}  // namespace

namespace {
constexpr sk::Type all_types[] = {sk::Type::boolean,   sk::Type::int8,    sk::Type::int16,
                                  sk::Type::int32,     sk::Type::int64,   sk::Type::uint8,
                                  sk::Type::uint16,    sk::Type::uint32,  sk::Type::uint64,
                                  sk::Type::float32,   sk::Type::float64, sk::Type::complex64,
                                  sk::Type::complex128};
constexpr const char* use_instead =
    "use bool, int8 to int64, uint8 to uint64, float32, float64, complex64 or complex128";
}  // namespace

nb::object dtype_of(sk::Type type) {
  static nb::handle known[static_cast<int>(sk::Type::boolean) + 1]{};
  assert(static_cast<int>(type) >= 0 && type <= sk::Type::boolean);
  nb::handle& entry = known[static_cast<int>(type)];
  if (!entry) entry = nb::module_::import_("numpy").attr("dtype")(sk::to_string(type)).release();
  return nb::borrow(entry);
}

sk::Type type_from_dtype(nb::handle dtype) {
  nb::object wanted;
  try {
    wanted = nb::module_::import_("numpy").attr("dtype")(dtype);
  } catch (nb::python_error&) {
    throw_dtype("no such dtype: " + nb::cast<std::string>(nb::repr(dtype)) + "; " + use_instead);
  }
  for (const sk::Type type : all_types)
    if (wanted.equal(dtype_of(type))) return type;
  throw_dtype("dtype " + nb::cast<std::string>(nb::str(wanted)) +
              " is not supported: " + use_instead);
}

nb::object numpy_empty(const std::vector<nb::ssize_t>& shape, sk::Type type) {
  static const nb::handle empty = numpy_function("empty");
  nb::object dims = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t d = 0; d < shape.size(); ++d)
    PyTuple_SetItem(dims.ptr(), static_cast<Py_ssize_t>(d), PyLong_FromSsize_t(shape[d]));
  const nb::object dtype = dtype_of(type);
#ifdef Py_LIMITED_API
  PyObject* made = PyObject_CallFunctionObjArgs(empty.ptr(), dims.ptr(), dtype.ptr(),
                                                static_cast<void*>(nullptr));
#else  // the same, faster
  PyObject* arguments[] = {dims.ptr(), dtype.ptr()};
  PyObject* made = PyObject_Vectorcall(empty.ptr(), arguments, 2, nullptr);
#endif
  if (!made) nb::raise_python_error();
  return nb::steal(made);
}

nb::object convert_function(const char* name) {
  return nb::module_::import_("skerry._convert").attr(name);
}

}  // namespace skpy
