// Shared by the parts of the extension: the job of this process, buffers, patches and errors.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/array.hpp"

namespace nb = nanobind;

namespace skpy {

// The job this process joined; throws INVALID before init and FREED after finalize.
sk::Job& job();
std::optional<sk::Job>& job_slot();  // empty before init and after finalize

// `group`: a Group or None for all ranks.
sk::Group group_or_world(nb::handle group);

// The NumPy dtype object of an element type, and back. Throws DtypeError for what has none.
nb::object dtype_of(sk::Type type);
sk::Type type_from_dtype(nb::handle dtype);
[[noreturn]] void throw_dtype(const std::string& message);

nb::object numpy_empty(const std::vector<nb::ssize_t>& shape, sk::Type type);
// skerry._convert.<name>, loaded when first needed.
nb::object convert_function(const char* name);

// A Python object's memory, held for as long as this lives.
class View {
 public:
  View() = default;
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() { release(); }
  // False (and no Python error) if the object has no buffer of this kind.
  bool acquire(nb::handle object, bool writable);
  void release();
  const Py_buffer& get() const { return buffer_; }
  char* data() const { return static_cast<char*>(buffer_.buf); }
  std::size_t bytes() const { return static_cast<std::size_t>(buffer_.len); }
  // The element type, or none if it is something that Skerry has no type for.
  std::optional<sk::Type> type() const;
  bool contiguous() const { return PyBuffer_IsContiguous(&buffer_, 'C') != 0; }

 private:
  Py_buffer buffer_{};
  bool held_ = false;
};
// A C-contiguous buffer, or InvalidError.
void acquire_contiguous(View& view, nb::handle object, bool writable, const char* what);

// A transfer under way, with what must outlive it: the transfers come last, so that they are waited
// for before the buffer goes.
struct Request {
  bool returns_buffer;  // a get
  nb::object owner, buffer;
  std::unique_ptr<View> view;  // of buffer
  sk::Transfer transfer;       // of an array; done for others
  sk::Handle handle;           // of a segment; done for others
};

void bind_errors(nb::module_& m);
void bind_job(nb::module_& m);
void bind_array(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_window(nb::module_& m);

}  // namespace skpy
