// Arrays. The hot path is get and put of a small patch inside one block of the own node: parse the
// patch, ask NumPy for an empty array, copy rows. It neither waits nor releases the interpreter
// lock. Everything else may do both.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <complex>
#include <cstring>

#include "dropped.hpp"
#include "patch.hpp"

namespace skpy {

namespace {

using Bounds = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Irregular {
  std::vector<std::vector<std::int64_t>> starts;
};

// A Python Array. Freed as dropped.hpp says.
struct PyArray : Described {
  sk::AnyArray array;
  sk::ArrayOptions options;  // as asked for
  PyArray(sk::AnyArray&& made, const sk::ArrayOptions& asked);
  ~PyArray();
};

PyArray::PyArray(sk::AnyArray&& made, const sk::ArrayOptions& asked)
    : Described(made.type(), made.shape()), array(std::move(made)), options(asked) {}
PyArray::~PyArray() {
  if (array.freed()) array.release();
  else dropped().drop(this, std::move(array));
}

// Copies of more than this release the interpreter lock, though they do not wait.
constexpr std::int64_t short_copy = 1 << 13;  // elements

// ---- get --------------------------------------------------------------------------------------

// skerry._patches serves patches with steps, element by element.
nb::object stepped(const char* function) {
  return nb::module_::import_("skerry._patches").attr(function);
}

nb::object array_get(const PyArray& a, nb::handle patch, nb::handle out) {
  const Selection s = select(a, patch, true);
  if (s.stepped) [[unlikely]]
    return stepped("stepped_get")(nb::find(a), patch, out);
  check_inside(a, s, a.array);
  if (s.kept == 0 && out.is_none()) {
    alignas(16) char element[16];
    if (!a.array.get_if_local(s.patch, element)) {
      nb::gil_scoped_release waits;
      a.array.get(s.patch, element);
    }
    return element_to_python(a, element);
  }
  nb::object result = out.is_none() ? numpy_empty(result_shape(a, s), a.type) : nb::borrow(out);
  View view;
  Strides strides;
  if (!view.acquire(result, true) || !fits(a, s, view, strides)) refuse_out(a, s, out);
  if (s.patch.elements() <= short_copy &&
      a.array.get_if_local(s.patch, view.data(), strides.span()))
    return result;
  nb::gil_scoped_release waits;
  a.array.get(s.patch, view.data(), strides.span());
  return result;
}

nb::object array_get_nb(nb::handle self, nb::handle patch, nb::handle out) {
  const auto& a = nb::cast<const PyArray&>(self);
  const Selection s = select(a, patch);
  check_inside(a, s, a.array);
  nb::object result = out.is_none() ? numpy_empty(result_shape(a, s), a.type) : nb::borrow(out);
  auto view = std::make_unique<View>();
  Strides strides;
  if (!view->acquire(result, true) || !fits(a, s, *view, strides)) refuse_out(a, s, out);
  sk::Transfer transfer;
  {
    nb::gil_scoped_release waits;
    transfer = a.array.get_nb(s.patch, view->data(), strides.span());
  }
  return nb::cast(
      Request{true, nb::borrow(self), std::move(result), std::move(view), std::move(transfer), {}});
}

// ---- put and acc ------------------------------------------------------------------------------

// The values as a buffer that fits: themselves if they do, otherwise what skerry._convert makes of
// them
// (numbers, lists, broadcasts, other strides). Returns what must stay alive.
nb::object acquire_values(const PyArray& a, const Selection& s, nb::handle values, View& view,
                          Strides& strides) {
  if (view.acquire(values, false) && fits(a, s, view, strides)) return nb::borrow(values);
  view.release();
  nb::list shape;
  for (auto n : result_shape(a, s)) shape.append(n);
  nb::object made = convert_function("conform")(values, dtype_of(a.type), nb::tuple(shape),
                                                sk::to_string(s.patch));
  if (!view.acquire(made, false) || !fits(a, s, view, strides))
    throw sk::Error(SKERRY_ERR_INTERNAL, "values for patch " + sk::to_string(s.patch) +
                                             " were converted to something that does not fit");
  return made;
}

void array_put(const PyArray& a, nb::handle patch, nb::handle values) {
  const Selection s = select(a, patch, true);
  if (s.stepped) [[unlikely]] {
    stepped("stepped_put")(nb::find(a), patch, values);
    return;
  }
  check_inside(a, s, a.array);
  View view;
  Strides strides;
  const nb::object held = acquire_values(a, s, values, view, strides);
  if (s.patch.elements() <= short_copy &&
      a.array.put_if_local(s.patch, view.data(), strides.span()))
    return;
  nb::gil_scoped_release waits;
  a.array.put(s.patch, view.data(), strides.span());
}

void array_acc(const PyArray& a, nb::handle patch, nb::handle values, nb::handle alpha) {
  const Selection s = select(a, patch, true);
  if (s.stepped) [[unlikely]] {
    stepped("stepped_put")(nb::find(a), patch, values, alpha);
    return;
  }
  check_inside(a, s, a.array);
  const Scalar factor(a.type, alpha, "alpha");
  View view;
  Strides strides;
  const nb::object held = acquire_values(a, s, values, view, strides);
  nb::gil_scoped_release waits;
  a.array.acc(s.patch, view.data(), factor.bytes, strides.span());
}

nb::object array_write_nb(nb::handle self, nb::handle patch, nb::handle values, nb::handle alpha) {
  const auto& a = nb::cast<const PyArray&>(self);
  const Selection s = select(a, patch);
  check_inside(a, s, a.array);
  std::optional<Scalar> factor;
  if (alpha.is_valid()) factor.emplace(a.type, alpha, "alpha");
  auto view = std::make_unique<View>();
  Strides strides;
  nb::object held = acquire_values(a, s, values, *view, strides);
  sk::Transfer transfer;
  {
    nb::gil_scoped_release waits;
    transfer = factor ? a.array.acc_nb(s.patch, view->data(), factor->bytes, strides.span())
                      : a.array.put_nb(s.patch, view->data(), strides.span());
  }
  return nb::cast(
      Request{false, nb::borrow(self), std::move(held), std::move(view), std::move(transfer), {}});
}

std::int64_t array_read_inc(const PyArray& a, nb::handle index, std::int64_t n) {
  const Selection s = select(a, index);
  if (s.kept != 0) bad_patch("read_inc needs one element, not patch " + sk::to_string(s.patch));
  nb::gil_scoped_release waits;
  return a.array.read_inc(std::span(s.patch.lo.data(), static_cast<std::size_t>(a.dims)), n);
}

// ---- scattered elements -----------------------------------------------------------------------

nb::list array_traffic(const PyArray& a) {
  sk::Traffic t;
  {
    nb::gil_scoped_release waits;
    t = a.array.traffic();
  }
  nb::list all;
  for (const auto& count : {t.gets, t.puts, t.accs})
    for (const auto n : {count.parts, count.bytes, count.ns, count.nb_bytes}) all.append(n);
  for (const auto n : {t.mirror_fetches, t.mirror_bytes, t.mirror_blocks}) all.append(n);
  return all;
}

void bind_elements(nb::class_<PyArray>& array) {
  array.def("_traffic", &array_traffic,
            nb::sig("def _traffic(self) -> list[int]")).def("_clear_traffic", [](const PyArray& a) {
    a.array.clear_traffic();
  });
  array.def("read_inc", &array_read_inc, nb::arg("index"), nb::arg("n") = 1,
            nb::sig("def read_inc(self, index: int | tuple[int, ...], n: int = 1) -> int"),
            "Adds n to an element of an int32 or int64 array and returns the old value, "
            "atomically. Not collective. Errors: RangeError, InvalidError (another dtype, or "
            "more than one element).")
      .def("acc_nb", &array_write_nb, nb::arg("patch"), nb::arg("values"), nb::arg("alpha") = 1,
           nb::sig("def acc_nb(self, patch: skerry._types.Patch, values: numpy.typing.ArrayLike, "
                   "alpha: complex = 1) -> Request"),
           "Starts an acc. An array of the shape and dtype of the patch is sent from where it "
           "lies: it must stay as it is until the request is done. Not collective. Errors: "
           "RangeError, InvalidError, DtypeError.")
      .def("_gather",
           [](const PyArray& a, nb::handle indices, nb::handle out) {
             Elements each(a, indices, out, true);
             nb::gil_scoped_release waits;
             a.array.gather(each.span(), each.values.data());
           },
           nb::sig("def _gather(self, indices: skerry._types.Block, out: skerry._types.Block, /) "
                   "-> None"))
      .def("_scatter",
           [](const PyArray& a, nb::handle indices, nb::handle values) {
             Elements each(a, indices, values, false);
             nb::gil_scoped_release waits;
             a.array.scatter(each.span(), each.values.data());
           },
           nb::sig("def _scatter(self, indices: skerry._types.Block, values: skerry._types.Block, "
                   "/) -> None"))
      .def("_scatter_acc",
           [](const PyArray& a, nb::handle indices, nb::handle values, nb::handle alpha) {
             Elements each(a, indices, values, false);
             const Scalar factor(a.type, alpha, "alpha");
             nb::gil_scoped_release waits;
             a.array.scatter_acc(each.span(), each.values.data(), factor.bytes);
           },
           nb::sig("def _scatter_acc(self, indices: skerry._types.Block, values: "
                   "skerry._types.Block, alpha: complex, /) -> None"));
}

// ---- making one -------------------------------------------------------------------------------

PyArray* make(const std::vector<std::int64_t>& shape, nb::handle dtype, nb::handle distribution,
              const std::optional<std::vector<int>>& grid, bool mirrored, nb::handle group) {
  const sk::Group members = group_or_world(group);
  sk::ArrayOptions options;
  if (mirrored) options.placement = sk::Placement::mirrored;
  if (grid) options.grid = *grid;
  if (!distribution.is_none()) {
    Irregular* given = nullptr;
    if (!nb::try_cast(distribution, given) || !given)
      throw sk::Error(SKERRY_ERR_INVALID, "distribution is " +
                                              nb::cast<std::string>(nb::repr(distribution)) +
                                              ": pass skerry.Irregular(starts, ...) or None");
    options.starts = given->starts;
  }
  const sk::Type type = type_from_dtype(dtype);
  const bool over_all = members.get() == job().world().get();
  if (over_all) dropped().free_common(members);
  std::unique_ptr<PyArray> array;
  {
    nb::gil_scoped_release waits;
    array = std::make_unique<PyArray>(sk::AnyArray(members, type, shape, options), options);
  }
  if (over_all) dropped().add(array.get());
  return array.release();
}

nb::tuple bounds_of(const sk::Patch& patch) {
  nb::list all;
  for (int d = 0; d < patch.dims; ++d)
    all.append(nb::make_tuple(patch.lo[static_cast<std::size_t>(d)],
                              patch.hi[static_cast<std::size_t>(d)]));
  return nb::tuple(all);
}

template <class Range>
nb::tuple tuple_of(const Range& range) {
  nb::list all;
  for (auto n : range) all.append(n);
  return nb::tuple(all);
}

alignas(16) char nothing_there[16];  // what a view of no elements points at

nb::dlpack::dtype dlpack_of(sk::Type type) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(8 * sk::bytes_of(type));
  const auto of = [&](Code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), bits, 1};
  };
  switch (type) {
    case sk::Type::boolean: return of(Code::Bool);
    case sk::Type::int8:
    case sk::Type::int16:
    case sk::Type::int32:
    case sk::Type::int64: return of(Code::Int);
    case sk::Type::uint8:
    case sk::Type::uint16:
    case sk::Type::uint32:
    case sk::Type::uint64: return of(Code::UInt);
    case sk::Type::float32:
    case sk::Type::float64: return of(Code::Float);
    case sk::Type::complex64:
    case sk::Type::complex128: return of(Code::Complex);
  }
  return of(Code::UInt);
}

nb::object array_local(nb::handle self) {
  const auto& a = nb::cast<const PyArray&>(self);
  const sk::Block<void> own = a.array.local();
  std::size_t shape[sk::max_dims];
  for (int d = 0; d < a.dims; ++d) shape[d] = static_cast<std::size_t>(own.patch.extent(d));
  return nb::cast(nb::ndarray<nb::numpy>(own.data ? own.data : nothing_there,
                                         static_cast<std::size_t>(a.dims), shape,
                                         view_owner(self, own.data), nullptr, dlpack_of(a.type)));
}

void bind_parts(nb::module_& m) {
  nb::class_<Irregular>(m, "_Irregular")
      .def(nb::init<std::vector<std::vector<std::int64_t>>>())
      .def_prop_ro("_starts", [](const Irregular& i) { return i.starts; });

  m.def("mirror", [](const PyArray& a) { return make_mirror(a.array); }, nb::arg("array"),
        nb::sig("def mirror(array: Array) -> Mirror"),
        "A mirror of a distributed array: the same shape and dtype. Moves nothing yet. "
        "Collective. Errors: InvalidError (a mirrored array), NoMemoryError.");

  nb::class_<Request>(m, "Request",
        "A transfer or collective under way. Keeps its buffers and its array alive.")
      .def("wait",
           [](Request& r) {
             {
               nb::gil_scoped_release waits;
               r.transfer.wait();
               r.handle.wait();
             }
             return r.returns_buffer ? r.buffer : nb::none();
           },
           nb::sig("def wait(self) -> typing.Any"),
           "The data (get_nb, broadcast_nb, allreduce_nb), with the shape and dtype of `out`, or "
           "None. The buffer of a put or accumulate may be reused afterwards. Not collective. "
           "Errors: PeerDeadError, NetworkError.")
      .def("done", [](Request& r) { return r.transfer.test() && r.handle.test(); },
           "Whether wait() would return at once. Not collective. Errors: as wait().");
}

void array_sync(const PyArray& a) {
  program_syncs(a.array.group().size());
  nb::gil_scoped_release waits;
  a.array.sync();
}
// The Python object is `other` from now on, whose object is of no use any more. What it was stays
// until the job ends: others may still read it, or it cannot be freed, for members have died.
void array_become(PyArray& a, PyArray& other) {
  dropped().forget(&a);
  dropped().forget(&other);
  a.array.release();
  a.array = std::move(other.array);
  a.options = other.options;
}
void array_label(const PyArray& a, const std::string& name) { a.array.label(name); }

void bind_facts(nb::class_<PyArray>& array) {
  array
      .def_prop_ro("shape",
                   [](const PyArray& a) {
                     return tuple_of(std::span(a.shape, static_cast<std::size_t>(a.dims)));
                   },
                   nb::sig("def shape(self) -> tuple[int, ...]"),
                   "Lengths of the dimensions. Not collective.")
      .def_prop_ro("ndim", [](const PyArray& a) { return a.dims; },
                   "Number of dimensions. Not collective.")
      .def_prop_ro("dtype", [](const PyArray& a) { return dtype_of(a.type); },
                   nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"),
                   "Type of the elements: bool, int8 to int64, uint8 to uint64, float32, "
                   "float64, complex64 or complex128. Not collective.")
      .def_prop_ro("nbytes",
                   [](const PyArray& a) {
                     auto bytes = static_cast<std::int64_t>(a.element_bytes);
                     for (int d = 0; d < a.dims; ++d) bytes *= a.shape[d];
                     return bytes;
                   },
                   "Bytes of one copy. Not collective.")
      .def_prop_ro("mirrored",
                   [](const PyArray& a) { return a.array.placement() == sk::Placement::mirrored; },
                   "Whether every node has a copy. Not collective.")
      .def_prop_ro(
          "_options",
          [](const PyArray& a) { return nb::make_tuple(a.options.starts, a.options.grid); },
          nb::sig("def _options(self) -> tuple[list[list[int]], list[int]]"))
      .def_prop_ro("grid", [](const PyArray& a) { return tuple_of(a.array.grid()); },
                   nb::sig("def grid(self) -> tuple[int, ...]"),
                   "The process grid; of the own node if mirrored. Not collective. Errors: "
                   "FreedError.")
      .def_prop_ro("block_starts",
                   [](const PyArray& a) {
                     nb::list all;
                     for (int d = 0; d < a.dims; ++d)
                       all.append(nb::list(tuple_of(a.array.block_starts(d))));
                     return nb::tuple(all);
                   },
                   nb::sig("def block_starts(self) -> tuple[list[int], ...]"),
                   "Where blocks start, per dimension; of the own node if mirrored. Not "
                   "collective. Errors: FreedError.")
      .def_prop_ro("group", [](const PyArray& a) { return sk::Group(a.array.group()); },
                   "The ranks that hold it. Not collective. Errors: FreedError.")
      .def_prop_ro("freed", [](const PyArray& a) { return a.array.freed(); },
                   "Whether its memory was given back. Not collective.")
      .def_prop_ro("local", &array_local,
                   nb::sig("def local(self) -> skerry._types.Block"),
                   "The own block, as a writable view without a copy: of its shape, of size 0 if "
                   "this rank holds none, and of the dtype of the array. A view keeps its memory, "
                   "also after free() and finalize(): then others do not see it. Not collective. "
                   "Errors: FreedError.");
}

void bind_placement(nb::class_<PyArray>& array) {
  array
      .def("label", &array_label, nb::arg("name"),
           "Names the array for sk.attach; \"\" takes the name away. At most 63 bytes. Each rank "
           "names its own block: not collective, but all should call it. Errors: InvalidError.")
      .def(
          "distribution",
          [](const PyArray& a, nb::handle rank) {
            return bounds_of(
                a.array.distribution(rank.is_none() ? job().rank() : nb::cast<int>(rank)));
          },
          nb::arg("rank") = nb::none(),
          nb::sig("def distribution(self, rank: int | None = None) -> tuple[tuple[int, int], ...]"),
          "(low, high) per dimension of the block that `rank` (default: own) holds; low == high "
          "if none. Not collective. Errors: InvalidError (no such rank).")
      .def("locate",
           [](const PyArray& a, nb::args index) {
             const Selection s = select(a, index);
             if (s.kept != 0)
               bad_patch("locate needs one element, not patch " + sk::to_string(s.patch));
             return a.array.locate(std::span(s.patch.lo.data(), static_cast<std::size_t>(a.dims)));
           },
           nb::sig("def locate(self, *index: int) -> int"),
           "The rank that holds an element; on the own node if mirrored. Not collective. Errors: "
           "RangeError, InvalidError (not one number for each dimension).")
      .def(
          "locate_patch",
          [](const PyArray& a, nb::handle patch) {
            nb::list all;
            for (const auto& holder : a.array.locate(select(a, patch).patch))
              all.append(nb::make_tuple(holder.rank, bounds_of(holder.patch)));
            return all;
          },
          nb::arg("patch"),
          nb::sig("def locate_patch(self, patch: skerry._types.Patch) -> list[tuple[int, "
                  "tuple[tuple[int, int], ...]]]"),
          "(rank, its part of the patch) for every holder. Not collective. Errors: RangeError, "
          "InvalidError.");
}

void bind_access(nb::class_<PyArray>& array) {
  array.def("__len__", [](const PyArray& a) { return a.shape[0]; },
            "shape[0].")
      .def("__getitem__",
           [](const PyArray& a, nb::handle patch) { return array_get(a, patch, nb::none()); },
           nb::sig("def __getitem__(self, patch: skerry._types.Patch, /) -> typing.Any"),
           "get(patch).")
      .def("__setitem__", &array_put,
           nb::sig("def __setitem__(self, patch: skerry._types.Patch, values: "
                   "numpy.typing.ArrayLike, /) -> None"),
           "put(patch, values).")
      .def("get", &array_get, nb::arg("patch") = nb::ellipsis(), nb::arg("out") = nb::none(),
           nb::sig("def get(self, patch: skerry._types.Patch = ..., out: skerry._types.Block | "
                   "None = None) -> typing.Any"),
           "A copy of a patch (default: the whole array), as a NumPy array with the patch's "
           "shape, without the dimensions that an index chose; a number for one element. Its "
           "dtype is the array's. `out` receives it if given: same shape and dtype, last axis "
           "contiguous. Not collective. Errors: RangeError, InvalidError, DtypeError.")
      .def("put", &array_put, nb::arg("patch"), nb::arg("values"),
           nb::sig("def put(self, patch: skerry._types.Patch, values: numpy.typing.ArrayLike) -> "
                   "None"),
           "Writes a patch. `values` are broadcast to its shape; their dtype is the array's. "
           "They may be reused on return; others see the data after fence or sync. Not "
           "collective. Errors: RangeError, InvalidError, DtypeError.")
      .def("acc", &array_acc, nb::arg("patch"), nb::arg("values"), nb::arg("alpha") = 1,
           nb::sig("def acc(self, patch: skerry._types.Patch, values: numpy.typing.ArrayLike, "
                   "alpha: complex = 1) -> None"),
           "patch += alpha * values, atomic per element with other acc and read_inc. `values` "
           "are broadcast to the shape of the patch; their dtype is that of the array, not bool. "
           "Not collective. Errors: RangeError, InvalidError, DtypeError.")
      .def("get_nb", &array_get_nb, nb::arg("patch") = nb::ellipsis(), nb::arg("out") = nb::none(),
           nb::sig("def get_nb(self, patch: skerry._types.Patch = ..., out: skerry._types.Block | "
                   "None = None) -> Request"),
           "Starts a get; the request gives what get() returns. `out` (same shape and dtype) "
           "must stay as it is until then. Not collective. Errors: RangeError, InvalidError, "
           "DtypeError.")
      .def(
          "put_nb",
          [](nb::handle self, nb::handle patch, nb::handle values) {
            return array_write_nb(self, patch, values, nb::handle());
          },
          nb::arg("patch"), nb::arg("values"),
          nb::sig("def put_nb(self, patch: skerry._types.Patch, values: numpy.typing.ArrayLike) "
                  "-> Request"),
          "Starts a put. An array of the shape and dtype of the patch is sent from where it "
          "lies: it must stay as it is until the request is done. Not collective. Errors: "
          "RangeError, InvalidError, DtypeError.");
}

void bind_collectives(nb::class_<PyArray>& array) {
  array
      .def("zero",
           [](nb::handle self) {
             const auto& a = nb::cast<const PyArray&>(self);
             {
               nb::gil_scoped_release waits;
               a.array.zero();
             }
             return nb::borrow(self);
           },
           nb::sig("def zero(self) -> Array"),
           "Sets all elements to 0; of any shape and dtype. Begins and ends with a sync. "
           "Collective. Errors: FreedError.")
      .def(
          "fill",
          [](nb::handle self, nb::handle value) {
            const auto& a = nb::cast<const PyArray&>(self);
            const Scalar element(a.type, value, "value");
            {
              nb::gil_scoped_release waits;
              a.array.fill(element.bytes);
            }
            return nb::borrow(self);
          },
          nb::arg("value"),
          nb::sig("def fill(self, value: complex) -> Array"),
          "Sets all elements to `value`; of any shape and dtype. Begins and ends with a sync. "
          "Collective. Errors: TypeError (no number of this dtype), InvalidError (it does not "
          "fit).")
      .def(
          "scale",
          [](nb::handle self, nb::handle factor) {
            const auto& a = nb::cast<const PyArray&>(self);
            const Scalar element(a.type, factor, "factor");
            {
              nb::gil_scoped_release waits;
              a.array.scale(element.bytes);
            }
            return nb::borrow(self);
          },
          nb::arg("factor"),
          nb::sig("def scale(self, factor: complex) -> Array"),
          "Multiplies all elements by `factor`; of any shape, and any dtype but bool. Begins and "
          "ends with a sync. Collective. Errors: TypeError (no number of this dtype), "
          "InvalidError (bool, or it does not fit).");
}

void bind_copies(nb::class_<PyArray>& array) {
  array
      .def(
          "copy_to",
          [](const PyArray& a, nb::handle target) {
            const auto& to = nb::cast<const PyArray&>(target);
            {
              nb::gil_scoped_release waits;
              a.array.copy_to(to.array);
            }
            return nb::borrow(target);
          },
          nb::arg("target"),
          nb::sig("def copy_to(self, target: Array) -> Array"),
          "Same shape and dtype, any distributions, mirrored or not. Distributed to mirrored "
          "fills every node's copy; mirrored to distributed moves nothing between nodes and "
          "requires that the copies agree. Begins and ends with a sync. Returns `target`. "
          "Collective. Errors: InvalidError (shapes, dtypes or groups differ).")
      .def("merge", [](nb::handle self) {
        const auto& a = nb::cast<const PyArray&>(self);
        {
          nb::gil_scoped_release waits;
          a.array.merge();
        }
        return nb::borrow(self);
      },
           nb::sig("def merge(self) -> Array"),
           "Sums the nodes' copies of a mirrored array, of any shape and dtype but bool; all "
           "copies are equal afterwards. Tiles that are zero are not moved. Does nothing but a "
           "sync if distributed or on one node. Collective. Errors: InvalidError (bool).");
}

void bind_life(nb::class_<PyArray>& array) {
  array.def("sync", &array_sync,
            "sync of its group. Collective. Errors: PeerDeadError.")
      .def("_become", &array_become, nb::arg("other"),
           nb::sig("def _become(self, other: Array) -> None"))
      .def("free",
           [](PyArray& a) {
             dropped().forget(&a);
             nb::gil_scoped_release waits;
             a.array.free();
           },
           "Gives the memory back, but what views of it keep. Collective. Errors: FreedError.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); },
           nb::sig("def __enter__(self) -> Array"))
      .def(
          "__exit__",
          [](PyArray& a, nb::handle kind, nb::handle, nb::handle) {
            if (!kind.is_none() || a.array.freed())
              return;  // after an error the others may never come
            dropped().forget(&a);
            nb::gil_scoped_release waits;
            a.array.free();
          },
          nb::arg("kind").none(), nb::arg("value").none(), nb::arg("trace").none(),
          nb::sig("def __exit__(self, kind: type[BaseException] | None, value: BaseException | "
                  "None, trace: types.TracebackType | None) -> None"));
}

}  // namespace

void end_arrays() { dropped().end(); }

void bind_array(nb::module_& m) {
  bind_parts(m);
  nb::class_<PyArray> array(m, "Array", nb::is_weak_referenceable(),
        R"(A dense array of 1 to 7 dimensions.

It lies in blocks over the ranks of a group, or (mirrored) in one copy per node, in blocks over the
ranks of that node.

It moves data only where the program says so: ``a[patch]``, ``a.get(patch)``, ``a.put(patch,
values)``, ``a.acc(...)``. ``a.get()`` is a copy of all of it. What would fetch it without saying so
is a GatherError: ``np.asarray(a)``, NumPy functions, iteration, ``x in a``, ``bool(a)``,
``int(a)``, ``float(a)``, ``complex(a)``. ``print(a)`` shows shape, dtype and grid.

One-sided calls (get, put, acc, gather, ...) are of any rank, at any time. Those of a mirrored array
stay on the node and touch only that node's copy. Every call of a freed array is a FreedError.)");
  bind_elements(array);
  bind_facts(array);
  bind_placement(array);
  bind_access(array);
  bind_collectives(array);
  bind_copies(array);
  bind_life(array);

  m.def("_array", &make, nb::rv_policy::take_ownership, nb::arg("shape"), nb::arg("dtype"),
        nb::arg("distribution").none(), nb::arg("grid").none(), nb::arg("mirrored"),
        nb::arg("group").none(),
        nb::sig("def _array(shape: list[int], dtype: numpy.typing.DTypeLike, distribution: "
                "_Irregular | None, grid: list[int] | None, mirrored: bool, group: Group | None) "
                "-> Array"));
  m.def("_matmul", [](const PyArray& a, const PyArray& b, nb::handle out, double alpha, double beta,
                      bool trans_a, bool trans_b) {
    const auto& c = nb::cast<const PyArray&>(out);
    {
      nb::gil_scoped_release waits;
      sk::matmul(a.array, b.array, c.array, alpha, beta, trans_a, trans_b);
    }
    return nb::borrow(out);
  },
        nb::sig("def _matmul(a: Array, b: Array, out: Array, alpha: float, beta: float, trans_a: "
                "bool, trans_b: bool, /) -> Array"));
}

}  // namespace skpy
