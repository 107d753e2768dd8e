// Windows: their memory as NumPy arrays, epochs as context managers, and access. Collecting a
// window frees nothing, as in memory.cpp.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "binding.hpp"
#include "skerry/window.hpp"

namespace skpy {

namespace {

struct PyWindow {
  sk::Window window;
  sk::Group group;
  nb::object dtype;  // of every member's elements
  nb::object shape;  // of the own memory
  // Memory that the program gave, by its address; empty if Skerry allocated it.
  std::map<const void*, std::unique_ptr<View>> given;
  nb::object memory;  // the one that was given at the start; null: none
  PyWindow(sk::Window w, sk::Group g, nb::object type, nb::object own)
      : window(std::move(w)), group(std::move(g)), dtype(std::move(type)), shape(std::move(own)) {}
  PyWindow(PyWindow&&) = default;
  // A window that was not freed is still open to others, so its memory stays for ever.
  ~PyWindow() {
    if (window)
      for (auto& [address, view] : given) (void)view.release();
    window.release();
  }
  void free() {
    {
      nb::gil_scoped_release waits;
      window.free();
    }
    given.clear();
    memory.reset();
  }
};

enum class EpochKind { lock, lock_all, fence, start, post };

// What `with` ends.
struct Epoch {
  nb::object owner;  // the PyWindow
  EpochKind kind;
  int rank;  // of lock
};

sk::Promise promise_if(bool wanted, sk::Promise promise) {
  return wanted ? promise : sk::Promise::none;
}

// `count` elements at `data`, or of 0 bytes, that keep `owner` alive.
nb::object array_at(void* data, std::size_t bytes, nb::handle owner, nb::handle shape,
                    nb::handle dtype) {
  static std::uint8_t nothing_there;
  const std::size_t length[] = {data ? bytes : 0};
  auto* first = data ? static_cast<std::uint8_t*>(data) : &nothing_there;
  const nb::object memory = nb::cast(
      nb::ndarray<nb::numpy, std::uint8_t>(first, 1, length, view_owner(owner, data)));
  return nb::module_::import_("numpy").attr("ndarray")(shape, dtype, memory);
}

nb::object local_array(nb::handle self) {
  auto& w = nb::cast<PyWindow&>(self);
  const nb::object owner = w.memory.is_valid() ? nb::object(nb::make_tuple(self, w.memory))
                                               : nb::borrow(self);
  return array_at(w.window.local(), w.window.bytes(job().rank()), owner, w.shape, w.dtype);
}

nb::object array_of_peer(nb::handle self, int rank) {
  auto& w = nb::cast<PyWindow&>(self);
  w.group.index(rank);  // throws if it is no member
  if (!job().same_node(rank)) return nb::none();
  const auto bytes = w.window.bytes(rank);
  if (!w.given.empty() || (bytes > 0 && !w.window.pointer(rank))) return nb::none();
  return array_at(w.window.pointer(rank), bytes, self, nb::int_(bytes / w.window.unit(rank)),
                  w.dtype);
}

// ---- values -------------------------------------------------------------------------------------

// An origin buffer of the window's dtype: `values` itself if it is such an array, or made of it.
struct Values {
  nb::object array;
  View view;
  Values(const PyWindow& w, nb::handle values) {
    array = convert_function("window_values")(values, w.dtype);
    acquire_contiguous(view, array, false, "the values");
  }
};

// Where a get arrives: `out`, or one new element.
struct Result {
  nb::object array;
  View view;
  bool is_element;
  Result(const PyWindow& w, nb::handle out) : is_element(out.is_none()) {
    array = convert_function("window_out")(out, w.dtype);
    acquire_contiguous(view, array, true, "out");
  }
  nb::object value() const { return is_element ? array[nb::make_tuple()] : array; }
};

void put(PyWindow& w, int rank, std::uint64_t at, nb::handle values) {
  const Values from(w, values);
  nb::gil_scoped_release waits;
  w.window.put_nb(rank, at, std::span<const char>(from.view.data(), from.view.bytes())).wait();
}

nb::object get(PyWindow& w, int rank, std::uint64_t at, nb::handle out) {
  const Result to(w, out);
  {
    nb::gil_scoped_release waits;
    w.window.get_nb(rank, at, std::span<char>(to.view.data(), to.view.bytes())).wait();
  }
  return to.value();
}

// `array` is the origin buffer, of the window's dtype.
nb::object start_transfer(nb::handle self, int rank, std::uint64_t at, nb::object array,
                          bool is_get) {
  auto& w = nb::cast<PyWindow&>(self);
  auto view = std::make_unique<View>();
  acquire_contiguous(*view, array, is_get, is_get ? "out" : "the values");
  sk::Handle handle;
  {
    nb::gil_scoped_release waits;
    if (is_get) handle = w.window.get_nb(rank, at, std::span<char>(view->data(), view->bytes()));
    else handle = w.window.put_nb(rank, at, std::span<const char>(view->data(), view->bytes()));
  }
  return nb::cast(
      Request{is_get, nb::borrow(self), std::move(array), std::move(view), {}, std::move(handle)});
}

// ---- updates ------------------------------------------------------------------------------------

void update(PyWindow& w, int rank, std::uint64_t at, nb::handle values, const std::string& op) {
  const Values from(w, values);
  const int type = from.view.element_type("update"), operation = operation_of(op);
  nb::gil_scoped_release waits;
  skerry_handle handle = 0;
  sk::check(skerry_window_update_nb(w.window.get(), rank, at, type, operation, from.view.data(),
                                    from.view.elements(), &handle));
  sk::Handle(w.group.job_ref(), handle).wait();
}

nb::object fetch_update(PyWindow& w, int rank, std::uint64_t at, nb::object values,
                        const std::string& op, nb::handle out) {
  const int operation = operation_of(op);
  if (values.is_none()) {
    if (operation != SKERRY_NO_OP)
      throw sk::Error(SKERRY_ERR_INVALID,
                      "values None with \"" + op + "\": only \"no_op\" needs none");
    values = convert_function("window_out")(out, w.dtype);
  }
  const Values from(w, values);
  nb::object result = out.is_none() ? convert_function("like")(from.array) : nb::borrow(out);
  View to;
  acquire_contiguous(to, result, true, "out");
  const int type = from.view.element_type("update");
  if (to.bytes() != from.view.bytes() || to.element_type("update") != type)
    throw_dtype("out must be an array like the values");
  const bool reads = operation != SKERRY_NO_OP;
  {
    nb::gil_scoped_release waits;
    skerry_handle handle = 0;
    sk::check(skerry_window_fetch_update_nb(w.window.get(), rank, at, type, operation,
                                            reads ? from.view.data() : nullptr, to.data(),
                                            from.view.elements(), &handle));
    sk::Handle(w.group.job_ref(), handle).wait();
  }
  return out.is_none() ? nb::object(result[nb::make_tuple()]) : result;
}

nb::object compare_swap(PyWindow& w, int rank, std::uint64_t at, nb::handle expected,
                        nb::handle desired) {
  const Values if_it_is(w, expected), then(w, desired);
  const nb::object result = convert_function("like")(if_it_is.array);
  View old;
  acquire_contiguous(old, result, true, "the result");
  const int type = old.element_type("compare");
  if (old.elements() != 1 || then.view.elements() != 1 || then.view.element_type("compare") != type)
    throw_dtype("expected and desired must be one element each, of the same dtype");
  {
    nb::gil_scoped_release waits;
    sk::check(skerry_window_compare_swap(w.window.get(), rank, at, type, if_it_is.view.data(),
                                         then.view.data(), old.data()));
  }
  return result[nb::make_tuple()];
}

void bind_updates(nb::class_<PyWindow>& c) {
  c.def("update", &update, nb::arg("rank"), nb::arg("at"), nb::arg("values"),
        nb::arg("op") = "sum",
        nb::sig("def update(self, rank: int, at: int, values: numpy.typing.ArrayLike, op: "
                "skerry._types.UpdateOp = \"sum\") -> None"),
        "target[i] = target[i] op values[i], each element atomically with all other updates of "
        "the window. `values`, of any shape, may be reused on return. dtypes: whole numbers of 1 "
        "to 8 bytes, floating point, complex. Not collective. Errors: RangeError, DtypeError, "
        "InvalidError (the dtype does not have the operation).");
  c.def("fetch_update", &fetch_update, nb::arg("rank"), nb::arg("at"), nb::arg("values").none(),
        nb::arg("op") = "sum", nb::arg("out") = nb::none(),
        nb::sig("def fetch_update(self, rank: int, at: int, values: numpy.typing.ArrayLike | "
                "None, op: skerry._types.UpdateOp = \"sum\", out: skerry._types.Block | None = "
                "None) -> typing.Any"),
        "As update; returns what the elements were before, in `out` if given: of the shape and "
        "dtype of the values, a NumPy scalar for a scalar. values None with \"no_op\": reads one "
        "element, or `out`. Not collective. Errors: as update.");
  c.def("compare_swap", &compare_swap, nb::arg("rank"), nb::arg("at"), nb::arg("expected"),
        nb::arg("desired"),
        nb::sig("def compare_swap(self, rank: int, at: int, expected: typing.Any, desired: "
                "typing.Any) -> typing.Any"),
        "Stores `desired` if the element is `expected`: it was if that is what is returned. "
        "dtypes: whole numbers of 1 to 8 bytes; shapes: one element. Not collective. Errors: "
        "RangeError, DtypeError.");
}

void bind_access(nb::class_<PyWindow>& c) {
  c.def("put", &put, nb::arg("rank"), nb::arg("at"), nb::arg("values"),
        nb::sig("def put(self, rank: int, at: int, values: numpy.typing.ArrayLike) -> None"),
        "Copies `values`, of any shape, to displacement `at` of the memory of `rank`; dtype: the "
        "window's. They may be reused on return; others see the data after the epoch, or flush. "
        "Not collective. Errors: RangeError (beyond the target's memory), DtypeError.");
  c.def("get", &get, nb::arg("rank"), nb::arg("at"), nb::arg("out") = nb::none(),
        nb::sig("def get(self, rank: int, at: int, out: skerry._types.Block | None = None) -> "
                "typing.Any"),
        "Copies into `out`, of any shape, what is at displacement `at`, and returns it; dtype: "
        "the window's. `out` None: returns one element, as a NumPy scalar. Returns with the "
        "data. Not collective. Errors: RangeError (beyond the target's memory), DtypeError.");
  c.def(
      "put_nb",
      [](nb::handle self, int rank, std::uint64_t at, nb::handle values) {
        const nb::object dtype = nb::cast<PyWindow&>(self).dtype;
        return start_transfer(self, rank, at, convert_function("window_values")(values, dtype),
                              false);
      },
      nb::arg("rank"), nb::arg("at"), nb::arg("values"),
      nb::sig("def put_nb(self, rank: int, at: int, values: numpy.typing.ArrayLike) -> Request"),
      "Starts a put: shapes and dtypes as there. Wait for the request inside the epoch; do not "
      "change `values` before. Not collective. Errors: as put.");
  c.def(
      "get_nb",
      [](nb::handle self, int rank, std::uint64_t at, nb::handle out) {
        const nb::object dtype = nb::cast<PyWindow&>(self).dtype;
        return start_transfer(self, rank, at, convert_function("window_out")(out, dtype), true);
      },
      nb::arg("rank"), nb::arg("at"), nb::arg("out"),
      nb::sig("def get_nb(self, rank: int, at: int, out: skerry._types.Block) -> Request"),
      "Starts a get: shapes and dtypes as there. Wait for the request inside the epoch; it "
      "returns `out`. Not collective. Errors: as get.");
}

// ---- epochs -------------------------------------------------------------------------------------

Epoch lock(nb::handle self, int rank, bool shared, bool no_check) {
  const sk::Window& window = nb::cast<PyWindow&>(self).window;
  {
    nb::gil_scoped_release waits;
    sk::check(skerry_window_lock(window.get(), shared ? SKERRY_LOCK_SHARED : SKERRY_LOCK_EXCLUSIVE,
                                 rank, no_check ? SKERRY_NO_CHECK : 0));
  }
  return {nb::borrow(self), EpochKind::lock, rank};
}

Epoch lock_all(nb::handle self, bool no_check) {
  const sk::Window& window = nb::cast<PyWindow&>(self).window;
  sk::check(skerry_window_lock_all(window.get(), no_check ? SKERRY_NO_CHECK : 0));
  return {nb::borrow(self), EpochKind::lock_all, 0};
}

Epoch fence(nb::handle self, bool no_store, bool no_put, bool no_precede, bool no_succeed) {
  const sk::Window& window = nb::cast<PyWindow&>(self).window;
  const sk::Promise promises = promise_if(no_store, sk::Promise::no_store) |
                               promise_if(no_put, sk::Promise::no_put) |
                               promise_if(no_precede, sk::Promise::no_precede) |
                               promise_if(no_succeed, sk::Promise::no_succeed);
  {
    nb::gil_scoped_release waits;
    window.fence(promises);
  }
  return {nb::borrow(self), EpochKind::fence, 0};
}

Epoch start(nb::handle self, const std::vector<int>& ranks, bool no_check) {
  const sk::Window& window = nb::cast<PyWindow&>(self).window;
  {
    nb::gil_scoped_release waits;
    window.start(ranks, promise_if(no_check, sk::Promise::no_check));
  }
  return {nb::borrow(self), EpochKind::start, 0};
}

Epoch post(nb::handle self, const std::vector<int>& ranks, bool no_check, bool no_store,
           bool no_put) {
  const sk::Window& window = nb::cast<PyWindow&>(self).window;
  {
    nb::gil_scoped_release waits;
    window.post(ranks, promise_if(no_check, sk::Promise::no_check) |
                           promise_if(no_store, sk::Promise::no_store) |
                           promise_if(no_put, sk::Promise::no_put));
  }
  return {nb::borrow(self), EpochKind::post, 0};
}

// After an error in the body, what waits for other members is left out: they may never come.
void end_epoch(Epoch& e, nb::handle error) {
  const sk::Window& window = nb::cast<PyWindow&>(e.owner).window;
  const bool failed = !error.is_none();
  nb::gil_scoped_release waits;
  switch (e.kind) {
    case EpochKind::lock: sk::check(skerry_window_unlock(window.get(), e.rank)); break;
    case EpochKind::lock_all: sk::check(skerry_window_unlock_all(window.get())); break;
    case EpochKind::start: window.complete(); break;
    case EpochKind::fence:
      if (!failed) window.fence(sk::Promise::no_succeed);
      break;
    case EpochKind::post:
      if (!failed) window.wait();
      break;
  }
}

void bind_epochs(nb::class_<PyWindow>& c) {
  using Free = nb::call_guard<nb::gil_scoped_release>;
  c.def("lock", &lock, nb::arg("rank"), nb::kw_only(), nb::arg("shared") = false,
        nb::arg("no_check") = false,
        nb::sig("def lock(self, rank: int, *, shared: bool = False, no_check: bool = False) -> "
                "Epoch"),
        "Begins an access epoch at the memory of `rank`, which takes no part: alone, or beside "
        "other shared holders. no_check: you promise that nobody locks in conflict. Not "
        "collective. Errors: InvalidError (locked already, or another kind of epoch is open).");
  c.def(
      "unlock",
      [](PyWindow& w, int rank) { sk::check(skerry_window_unlock(w.window.get(), rank)); },
      nb::arg("rank"), Free(),
      "Ends the epoch of lock. What was issued in it is done there and here. Not collective. "
      "Errors: InvalidError (not locked).");
  c.def("lock_all", &lock_all, nb::kw_only(), nb::arg("no_check") = false,
        nb::sig("def lock_all(self, *, no_check: bool = False) -> Epoch"),
        "Shared locks of all members, each taken when it is first used. Not collective. Errors: "
        "InvalidError (an epoch is open).");
  c.def(
      "unlock_all", [](PyWindow& w) { sk::check(skerry_window_unlock_all(w.window.get())); },
      Free(),
      "Ends the epoch of lock_all. What was issued in it is done there and here. Not collective. "
      "Errors: InvalidError (not locked).");
  c.def(
      "flush",
      [](PyWindow& w, std::optional<int> rank) { rank ? w.window.flush(*rank) : w.window.flush(); },
      nb::arg("rank") = nb::none(), Free(),
      "What was issued to `rank` (default: to all) is done there and here; the epoch goes on. "
      "Not collective. Errors: InvalidError (no epoch of lock or lock_all).");
  c.def("fence", &fence, nb::kw_only(), nb::arg("no_store") = false, nb::arg("no_put") = false,
        nb::arg("no_precede") = false, nb::arg("no_succeed") = false,
        nb::sig("def fence(self, *, no_store: bool = False, no_put: bool = False, no_precede: "
                "bool = False, no_succeed: bool = False) -> Epoch"),
        "Ends the epochs of the last fence and begins new ones: what any member issued before is "
        "done. `with` calls it again at the end, with no_succeed. The promises are those of "
        "MPI's assertions. Collective. Errors: InvalidError (another kind of epoch is open).");
  c.def("post", &post, nb::arg("ranks"), nb::kw_only(), nb::arg("no_check") = false,
        nb::arg("no_store") = false, nb::arg("no_put") = false,
        nb::sig("def post(self, ranks: collections.abc.Sequence[int], *, no_check: bool = False, "
                "no_store: bool = False, no_put: bool = False) -> Epoch"),
        "Exposes the own memory to `ranks`, which call start. `with` waits at the end, so ``with "
        "w.post([left]), w.start([right]): w.put(right, 0, x)`` passes x round a ring. Not "
        "collective. Errors: InvalidError (ranks that are no members, or memory is exposed "
        "already).");
  c.def("start", &start, nb::arg("ranks"), nb::kw_only(), nb::arg("no_check") = false,
        nb::sig("def start(self, ranks: collections.abc.Sequence[int], *, no_check: bool = False) "
                "-> Epoch"),
        "Begins an access epoch at the memory of `ranks`; waits until they have posted. Not "
        "collective. Errors: InvalidError (ranks that are no members, or an epoch is open).");
  c.def("complete", [](PyWindow& w) { w.window.complete(); }, Free(),
        "Ends the epoch of start: what was issued in it is done here. Not collective. Errors: "
        "InvalidError (no such epoch).");
  c.def("wait", [](PyWindow& w) { w.window.wait(); }, Free(),
        "Ends the epoch of post: waits until all `ranks` of it called complete. What they issued "
        "is done. Not collective. Errors: InvalidError (no such epoch).");
  c.def("test", [](PyWindow& w) { return w.window.test(); },
        "Whether wait would return at once; if so, the epoch of post has ended. Not collective. "
        "Errors: InvalidError (no such epoch).");
  c.def("sync", [](PyWindow& w) { w.window.sync(); },
        "Orders own loads and stores of window memory with others' accesses. Not collective. "
        "Errors: FreedError.");
}

void bind_life(nb::class_<PyWindow>& c) {
  c.def_prop_ro("local", &local_array,
                nb::sig("def local(self) -> skerry._types.Block"),
                "The own memory, without a copy: shape and dtype as given. Valid until free(). "
                "Not collective. Errors: FreedError.");
  c.def_prop_ro("shape", [](const PyWindow& w) { return w.shape; },
                nb::sig("def shape(self) -> tuple[int, ...]"),
                "Of the own memory. Not collective.");
  c.def_prop_ro("dtype", [](const PyWindow& w) { return w.dtype; },
                nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"),
                "Of the elements of every member. Not collective.");
  c.def_prop_ro("group", [](const PyWindow& w) { return w.group; },
                "The members. Not collective.");
  c.def("pointer", &array_of_peer, nb::arg("rank"),
        nb::sig("def pointer(self, rank: int) -> skerry._types.Block | None"),
        "The memory of a member on the own node, without a copy, of shape (elements,) and the "
        "window's dtype; None if it is on another node, or was not allocated by window(). Valid "
        "until free(). Not collective. Errors: InvalidError (no member).");
  c.def(
      "nbytes",
      [](const PyWindow& w, std::optional<int> rank) {
        return w.window.bytes(rank ? *rank : job().rank());
      },
      nb::arg("rank") = nb::none(),
      "Bytes of the memory of `rank` (default: own); 0 of no member. Not collective. Errors: "
      "FreedError.");
  c.def("free", &PyWindow::free,
        "Frees the window and its memory. Collective. Errors: InvalidError (an own epoch is "
        "open).");
  c.def("__enter__", [](nb::handle self) { return nb::borrow(self); },
        nb::sig("def __enter__(self) -> Window"));
  c.def(
      "__exit__",
      [](PyWindow& w, nb::handle kind, nb::handle, nb::handle) {
        if (kind.is_none() && w.window) w.free();  // after an error the others may never come
      },
      nb::arg("kind").none(), nb::arg("value").none(), nb::arg("trace").none(),
      nb::sig("def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, "
              "trace: types.TracebackType | None) -> None"));
}

// ---- making windows -----------------------------------------------------------------------------

nb::object allocate(std::uint64_t bytes, nb::object dtype, nb::object shape, nb::handle group) {
  const sk::Group members = group_or_world(group);
  const auto unit = nb::cast<std::uint64_t>(dtype.attr("itemsize"));
  sk::Window made;
  {
    nb::gil_scoped_release waits;
    made = sk::Window::allocate(members, bytes, unit);
  }
  return nb::cast(PyWindow(std::move(made), members, std::move(dtype), std::move(shape)));
}

// `memory`: a writable C-contiguous array; None: a dynamic window, of bytes.
nb::object over(nb::handle memory, nb::object dtype, nb::object shape, nb::handle group) {
  const sk::Group members = group_or_world(group);
  std::unique_ptr<View> view;
  if (!memory.is_none()) {
    view = std::make_unique<View>();
    acquire_contiguous(*view, memory, true, "the memory of a window");
  }
  const auto unit = nb::cast<std::uint64_t>(dtype.attr("itemsize"));
  skerry_window* made = nullptr;
  {
    nb::gil_scoped_release waits;
    sk::check(view ? skerry_window_create(members.get(), view->data(), view->bytes(), unit, &made)
                   : skerry_window_create_dynamic(members.get(), &made));
  }
  PyWindow window(sk::Window(members, made), members, std::move(dtype), std::move(shape));
  if (view) {
    window.memory = nb::borrow(memory);
    window.given.emplace(view->data(), std::move(view));
  }
  return nb::cast(std::move(window));
}

std::uint64_t attach(PyWindow& w, nb::handle memory) {
  auto view = std::make_unique<View>();
  acquire_contiguous(*view, memory, true, "attached memory");
  w.window.attach(std::span<char>(view->data(), view->bytes()));
  const void* const address = view->data();
  w.given.emplace(address, std::move(view));
  return sk::Window::address_of(address);
}

void detach(PyWindow& w, std::uint64_t address) {
  void* const memory = reinterpret_cast<void*>(address);
  w.window.detach(memory);
  w.given.erase(memory);
}

void bind_makers(nb::module_& m, nb::class_<PyWindow>& c) {
  m.def("_window_allocate", &allocate, nb::arg("bytes"), nb::arg("dtype"), nb::arg("shape"),
        nb::arg("group").none(),
        nb::sig("def _window_allocate(bytes: int, dtype: numpy.dtype[typing.Any], shape: "
                "tuple[int, ...], group: Group | None) -> Window"));
  m.def("_window_over", &over, nb::arg("memory").none(), nb::arg("dtype"), nb::arg("shape"),
        nb::arg("group").none(),
        nb::sig("def _window_over(memory: skerry._types.Block | None, dtype: "
                "numpy.dtype[typing.Any], shape: tuple[int, ...], group: Group | None) -> Window"));
  c.def("attach", &attach, nb::arg("memory"),
        nb::sig("def attach(self, memory: skerry._types.Block) -> int"),
        "Makes a C-contiguous, writable array of any shape and dtype accessible through a "
        "dynamic window. Returns its address: send that to the others. Keeps it alive until "
        "detach or free. Not collective. Errors: InvalidError (it overlaps attached memory, or "
        "the window is not dynamic), NoMemoryError (1024 areas are attached).");
  c.def("detach", &detach, nb::arg("address"),
        "Takes back what was attached at `address`. Not collective. Errors: InvalidError "
        "(nothing is).");
}

}  // namespace

void bind_window(nb::module_& m) {
  nb::class_<PyWindow> window(m, "Window",
        R"(Memory of each member of a group that the others access in epochs.

An *access epoch* lies between two synchronization calls. docs/windows.md explains epochs. The
meaning is that of MPI's windows.

lock, lock_all, fence, start and post act at once; what they return is a context manager that ends
the epoch: with unlock, unlock_all, a second fence, complete or wait. After an error in its body,
`with` ends epochs of lock, lock_all and start all the same. It leaves out what would wait for other
members: the second fence, and wait.

Displacements (`at`) count elements of the target's memory, in C order, from 0. Calls that may wait
release the interpreter lock. Every call may raise InvalidError (outside an epoch, or in one of
another kind: the text names it) and FreedError. Arrays are C-contiguous and of the window's dtype;
a window of bytes (uint8) takes arrays of every dtype. Numbers and lists are converted.)");
  bind_life(window);
  bind_makers(m, window);
  bind_epochs(window);
  bind_access(window);
  bind_updates(window);
  nb::class_<Epoch>(m, "Epoch",
        "An epoch of a window, for ``with``, which ends it. Without ``with``, end it by the "
        "window's calls.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); },
           nb::sig("def __enter__(self) -> Epoch"))
      .def(
          "__exit__", [](Epoch& e, nb::handle kind, nb::handle, nb::handle) { end_epoch(e, kind); },
          nb::arg("kind").none(), nb::arg("value").none(), nb::arg("trace").none(),
          nb::sig("def __exit__(self, kind: type[BaseException] | None, value: BaseException | "
                  "None, trace: types.TracebackType | None) -> None"));
}

}  // namespace skpy
