// Mirrors. Collecting one frees nothing, as in memory.cpp.
#include "patch.hpp"

namespace skpy {

namespace {

struct PyMirror : Described {
  sk::Mirror mirror;
  explicit PyMirror(sk::Mirror&& made)
      : Described(made.type(), made.shape()), mirror(std::move(made)) {}
  PyMirror(PyMirror&&) = default;
  ~PyMirror() { mirror.release(); }
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
  nb::gil_scoped_release waits;
  m.mirror.free();
}

}  // namespace

nb::object make_mirror(const sk::AnyArray& array) {
  sk::Mirror made;
  {
    nb::gil_scoped_release waits;
    made = sk::Mirror(array);
  }
  return nb::cast(PyMirror(std::move(made)));
}

void bind_mirror(nb::module_& m) {
  nb::class_<PyMirror>(m, "Mirror")
      .def_prop_ro("shape",
                   [](const PyMirror& self) {
                     nb::list all;
                     for (int d = 0; d < self.dims; ++d) all.append(self.shape[d]);
                     return nb::tuple(all);
                   })
      .def_prop_ro("ndim", [](const PyMirror& self) { return self.dims; })
      .def_prop_ro("dtype", [](const PyMirror& self) { return dtype_of(self.type); })
      .def_prop_ro("freed", [](const PyMirror& self) { return self.mirror.freed(); })
      .def("__len__", [](const PyMirror& self) { return self.shape[0]; })
      .def("__getitem__", [](const PyMirror& self,
                             nb::handle patch) { return mirror_get(self, patch, nb::none()); })
      .def("get", &mirror_get, nb::arg("patch") = nb::ellipsis(), nb::arg("out") = nb::none())
      .def("_gather",
           [](const PyMirror& self, nb::handle indices, nb::handle out) {
             Elements each(self, indices, out, true);
             nb::gil_scoped_release waits;
             self.mirror.gather(each.span(), each.values.data());
           })
      .def("refresh",
           [](nb::handle self) {
             const auto& m = nb::cast<const PyMirror&>(self);
             {
               nb::gil_scoped_release waits;
               m.mirror.refresh();
             }
             return nb::borrow(self);
           })
      .def("free", &free)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__",
          [](PyMirror& self, nb::handle kind, nb::handle, nb::handle) {
            if (kind.is_none() && !self.mirror.freed()) free(self);
          },
          nb::arg("kind").none(), nb::arg("value").none(), nb::arg("trace").none());
}

}  // namespace skpy
