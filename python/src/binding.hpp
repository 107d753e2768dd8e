// Shared by the parts of the extension: the job of this process, buffers, patches and errors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/array.hpp"

namespace nb = nanobind;

namespace skpy {

// The job this process joined; throws INVALID before init and FREED after finalize.
sk::Job& job();

// Whether a call that reaches `rank` (-1: any) may wait for the network, or is a mistake.
bool may_wait(int rank);
// Releases the interpreter lock for a call that may wait, or that copies more than a few bytes:
// for others, releasing takes longer than the call.
class Released {
 public:
  explicit Released(int rank, std::uint64_t bytes = 0) {
    if (bytes > short_bytes || may_wait(rank)) lock_.emplace();
  }

 private:
  static constexpr std::uint64_t short_bytes = 4096;
  std::optional<nb::gil_scoped_release> lock_;
};

// `group`: a Group or None for all ranks.
sk::Group group_or_world(nb::handle group);

// The NumPy dtype object of an element type, and back. Throws DtypeError for what has none.
nb::object dtype_of(sk::Type type);
sk::Type type_from_dtype(nb::handle dtype);
// The SKERRY_SUM, ... of a name. Errors: InvalidError.
int operation_of(const std::string& name);
[[noreturn]] void throw_dtype(const std::string& message);

// One element of a type, from a Python number. Errors: DtypeError, InvalidError (does not fit).
struct Scalar {
  alignas(16) char bytes[16];
  Scalar(sk::Type type, nb::handle value, const char* what);
};

// The owner of a view of Skerry's memory at `data`: keeps `owner`, and the memory also after it was
// freed or its job has ended.
nb::object view_owner(nb::handle owner, const void* data);

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
  // The same as a skerry_type, which also knows long double, but no bool; otherwise DtypeError,
  // which says what was to be done with the elements.
  int element_type(const char* what) const;
  // Elements that `element_type` counts.
  std::uint64_t elements() const { return bytes() / static_cast<std::size_t>(buffer_.itemsize); }
  bool contiguous() const { return PyBuffer_IsContiguous(&buffer_, 'C') != 0; }

 private:
  Py_buffer buffer_{};
  bool held_ = false;
};
// A C-contiguous buffer, or InvalidError. DtypeError if other processes cannot use its elements.
void acquire_contiguous(View& view, nb::handle object, bool writable, const char* what);

// A transfer or a collective under way, with what must outlive it. The transfers come last, so that
// they are waited for before the buffer goes.
struct Request {
  Request(bool gives_buffer, nb::object of, nb::object memory, std::unique_ptr<View> of_memory,
          sk::Transfer of_array, sk::Handle of_others, bool is_of_all = false)
      : returns_buffer(gives_buffer),
        is_collective(is_of_all),
        owner(std::move(of)),
        buffer(std::move(memory)),
        view(std::move(of_memory)),
        transfer(std::move(of_array)),
        handle(std::move(of_others)) {}
  Request(Request&&) = default;
  ~Request() {
    if (is_collective) keep_until_done();
  }
  // Of a collective that is dropped. Its error is told when the program leaves the job.
  bool is_done() noexcept;

  bool returns_buffer;  // a get, or a collective that brings data
  bool is_collective;
  nb::object owner, buffer;
  std::unique_ptr<View> view;  // of buffer
  sk::Transfer transfer;       // of an array; done for others
  sk::Handle handle;           // of a segment, or a collective; done for others

 private:
  // Nobody waits for a collective that the program drops: other ranks may never come to it, and
  // leaving the job tells them, and this one. With the interpreter lock.
  void keep_until_done();
};

// Of all that skerry.xp is over: elements that were read ahead may be others.
void program_syncs(int members);
void end_arrays();  // the job ends, and all memory with it
void bind_errors(nb::module_& m);
void bind_job(nb::module_& m);
void bind_array(nb::module_& m);
void bind_mirror(nb::module_& m);
nb::object make_mirror(const sk::AnyArray& array);  // collective
void bind_memory(nb::module_& m);
void bind_window(nb::module_& m);
void bind_whole(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_merge(nb::module_& m);

}  // namespace skpy
