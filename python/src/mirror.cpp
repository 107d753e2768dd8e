// Mirrors. Collecting one frees nothing at once (dropped.hpp).
#include "dropped.hpp"
#include "patch.hpp"

namespace skpy {

namespace {

struct PyMirror : Described {
  sk::Mirror mirror;
  explicit PyMirror(sk::Mirror&& made)
      : Described(made.type(), made.shape()), mirror(std::move(made)) {}
  ~PyMirror() {
    if (mirror.freed()) mirror.release();
    else dropped().drop(this, std::move(mirror));
  }
};

nb::object mirror_get(const PyMirror& m, nb::handle patch, nb::handle out) {
  const Selection s = select(m, patch);
  check_inside(m, s, m.mirror);
  if (s.kept == 0 && out.is_none()) {
    alignas(16) char element[16];
    {
      nb::gil_scoped_release waits;
      m.mirror.get(s.patch, element);
    }
    return element_to_python(m, element);
  }
  nb::object result = out.is_none() ? numpy_empty(result_shape(m, s), m.type) : nb::borrow(out);
  View view;
  Strides strides;
  if (!view.acquire(result, true) || !fits(m, s, view, strides)) refuse_out(m, s, out);
  nb::gil_scoped_release waits;
  m.mirror.get(s.patch, view.data(), strides.span());
  return result;
}

void free(PyMirror& m) {
  dropped().forget(&m);
  nb::gil_scoped_release waits;
  m.mirror.free();
}

}  // namespace

nb::object make_mirror(const sk::AnyArray& array) {
  const bool over_all = array.group().get() == job().world().get();
  if (over_all) dropped().free_common(array.group());
  std::unique_ptr<PyMirror> mirror;
  {
    nb::gil_scoped_release waits;
    mirror = std::make_unique<PyMirror>(sk::Mirror(array));
  }
  if (over_all) dropped().add(mirror.get());
  return nb::cast(mirror.release(), nb::rv_policy::take_ownership);
}

void bind_mirror(nb::module_& m) {
  nb::class_<PyMirror>(m, "Mirror",
        "A read-only copy of an array in each node's memory, as the array was when the mirror "
        "was made or last refreshed. A tile comes from its owner's node when a rank of the node "
        "first reads it, once; a node takes memory for those tiles, and for a copy of its own "
        "blocks.")
      .def_prop_ro("shape",
                   [](const PyMirror& self) {
                     nb::list all;
                     for (int d = 0; d < self.dims; ++d) all.append(self.shape[d]);
                     return nb::tuple(all);
                   },
                   nb::sig("def shape(self) -> tuple[int, ...]"),
                   "Lengths of the dimensions. Not collective.")
      .def_prop_ro("ndim", [](const PyMirror& self) { return self.dims; },
                   "Number of dimensions. Not collective.")
      .def_prop_ro("dtype", [](const PyMirror& self) { return dtype_of(self.type); },
                   nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"),
                   "Type of the elements. Not collective.")
      .def_prop_ro("freed", [](const PyMirror& self) { return self.mirror.freed(); },
                   "Whether its memory was given back. Not collective.")
      .def("__len__", [](const PyMirror& self) { return self.shape[0]; },
           "shape[0].")
      .def("__getitem__", [](const PyMirror& self,
                             nb::handle patch) { return mirror_get(self, patch, nb::none()); },
           nb::sig("def __getitem__(self, patch: skerry._types.Patch, /) -> typing.Any"),
           "get(patch).")
      .def("get", &mirror_get, nb::arg("patch") = nb::ellipsis(), nb::arg("out") = nb::none(),
           nb::sig("def get(self, patch: skerry._types.Patch = ..., out: skerry._types.Block | "
                   "None = None) -> typing.Any"),
           "A copy of a patch, with the shape and dtype of Array.get. Not collective, but not "
           "during a refresh. Errors: RangeError, InvalidError, DtypeError, FreedError.")
      .def("_gather",
           [](const PyMirror& self, nb::handle indices, nb::handle out) {
             Elements each(self, indices, out, true);
             nb::gil_scoped_release waits;
             self.mirror.gather(each.span(), each.values.data());
           },
           nb::sig("def _gather(self, indices: skerry._types.Block, out: skerry._types.Block, /) "
                   "-> None"))
      .def("refresh",
           [](nb::handle self) {
             const auto& m = nb::cast<const PyMirror&>(self);
             {
               nb::gil_scoped_release waits;
               m.mirror.refresh();
             }
             return nb::borrow(self);
           },
           nb::sig("def refresh(self) -> Mirror"),
           "Makes the mirror current, after any kind of write; only tiles that changed move "
           "again. Begins with a sync of the array's group. Collective. Errors: FreedError (the "
           "array was freed).")
      .def("free", &free,
           "Gives the memory back. Collective. Errors: FreedError.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); },
           nb::sig("def __enter__(self) -> Mirror"))
      .def(
          "__exit__",
          [](PyMirror& self, nb::handle kind, nb::handle, nb::handle) {
            if (kind.is_none() && !self.mirror.freed()) free(self);
          },
          nb::arg("kind").none(), nb::arg("value").none(), nb::arg("trace").none(),
          nb::sig("def __exit__(self, kind: type[BaseException] | None, value: BaseException | "
                  "None, trace: types.TracebackType | None) -> None"));
}

}  // namespace skpy
