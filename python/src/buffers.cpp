// Buffers and dtypes. They use the buffer protocol, not NumPy's C interface. So arrays of any
// library work, and building needs no NumPy headers.
#include <cstring>

#include "binding.hpp"

namespace skpy {

bool View::acquire(nb::handle object, bool writable) {
  release();
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

std::optional<sk::Type> View::type() const {
  const char* format = buffer_.format ? buffer_.format : "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const auto size = buffer_.itemsize;
  if (std::strcmp(format, "d") == 0) return sk::Type::float64;
  if (std::strcmp(format, "f") == 0) return sk::Type::float32;
  if (std::strcmp(format, "Zd") == 0) return sk::Type::complex128;
  if (std::strcmp(format, "Zf") == 0) return sk::Type::complex64;
  if (std::strlen(format) == 1 && std::strchr("ilq", *format)) {
    if (size == 8) return sk::Type::int64;
    if (size == 4) return sk::Type::int32;
  }
  return std::nullopt;
}

void acquire_contiguous(View& view, nb::handle object, bool writable, const char* what) {
  if (!view.acquire(object, writable))
    throw sk::Error(SKERRY_ERR_INVALID,
                    std::string(what) +
                        (writable ? " must be a writable array" : " must be an array") + ", not " +
                        nb::cast<std::string>(nb::repr(object.type())));
  if (!view.contiguous())
    throw sk::Error(
        SKERRY_ERR_INVALID,
        std::string(what) + " must be C-contiguous: pass numpy.ascontiguousarray of it");
}

namespace {
// Looked up once and kept for the life of the process (a reference is left to the interpreter on
// purpose).
nb::handle numpy_function(const char* name) {
  return nb::object(nb::module_::import_("numpy").attr(name)).release();
}
}  // namespace

nb::object dtype_of(sk::Type type) {
  static nb::handle known[6]{};
  nb::handle& entry = known[static_cast<int>(type)];
  if (!entry) entry = nb::module_::import_("numpy").attr("dtype")(sk::to_string(type)).release();
  return nb::borrow(entry);
}

sk::Type type_from_dtype(nb::handle dtype) {
  nb::object wanted;
  try {
    wanted = nb::module_::import_("numpy").attr("dtype")(dtype);
  } catch (nb::python_error&) {
    throw_dtype("no such dtype: " + nb::cast<std::string>(nb::repr(dtype)) +
                "; use int32, int64, float32 or float64");
  }
  for (int i = 0; i < 6; ++i)
    if (wanted.equal(dtype_of(static_cast<sk::Type>(i)))) return static_cast<sk::Type>(i);
  throw_dtype("dtype " + nb::cast<std::string>(nb::str(wanted)) +
              " is not supported: use int32, int64, float32, float64 (also complex64, complex128 "
              "in collectives and segments)");
}

nb::object numpy_empty(const std::vector<nb::ssize_t>& shape, sk::Type type) {
  static const nb::handle empty = numpy_function("empty");
  nb::object dims = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t d = 0; d < shape.size(); ++d)
    PyTuple_SetItem(dims.ptr(), static_cast<Py_ssize_t>(d), PyLong_FromSsize_t(shape[d]));
  const nb::object dtype = dtype_of(type);
  PyObject* arguments[] = {dims.ptr(), dtype.ptr()};
  PyObject* made = PyObject_Vectorcall(empty.ptr(), arguments, 2, nullptr);
  if (!made) nb::raise_python_error();
  return nb::steal(made);
}

nb::object convert_function(const char* name) {
  return nb::module_::import_("skerry._convert").attr(name);
}

}  // namespace skpy
