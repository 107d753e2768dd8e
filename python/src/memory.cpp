// Segments, mutexes and the shared counter. Collecting their Python objects frees nothing: freeing
// is collective, and only one rank knows when it collects. free() frees, or the end of the job.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <utility>
#include <vector>

#include "binding.hpp"

namespace skpy {

int operation_of(const std::string& name) {
  static const char* const names[] = {"sum",  "prod", "min", "max",  "land",    "lor",
                                      "lxor", "band", "bor", "bxor", "replace", "no_op"};
  for (int i = 0; i <= SKERRY_NO_OP; ++i)
    if (name == names[i]) return i;
  throw sk::Error(SKERRY_ERR_INVALID,
                  "no operation \"" + name +
                      "\": use sum, prod, min, max, land, lor, lxor, band, bor, bxor, replace or "
                      "no_op");
}

namespace {

template <class Owner>
struct Held {
  Owner owner;
  template <class... Args>
    requires std::constructible_from<Owner, Args...>
  explicit Held(Args&&... args) : owner(std::forward<Args>(args)...) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { owner.release(); }
};
using HeldSegment = Held<sk::Segment>;
using HeldMutexes = Held<sk::Mutexes>;
using HeldCounter = Held<sk::Counter>;

std::uint8_t no_bytes;  // what a view of no bytes points at

nb::object bytes_view(void* data, std::size_t bytes, nb::handle owner) {
  const std::size_t shape[] = {data ? bytes : 0};
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(
      data ? static_cast<std::uint8_t*>(data) : &no_bytes, 1, shape, view_owner(owner, data)));
}

sk::Type word_type(nb::handle dtype) {
  if (PyUnicode_Check(dtype.ptr())) {  // as mostly: without asking NumPy
    if (PyUnicode_CompareWithASCIIString(dtype.ptr(), "int64") == 0) return sk::Type::int64;
    if (PyUnicode_CompareWithASCIIString(dtype.ptr(), "int32") == 0) return sk::Type::int32;
  }
  const sk::Type type = type_from_dtype(dtype);
  if (type != sk::Type::int32 && type != sk::Type::int64)
    throw_dtype(std::string("read-modify-write on ") + sk::to_string(type) +
                ": it needs int32 or int64");
  return type;
}

template <class Fn>
std::int64_t on_word(int rank, nb::handle dtype, Fn&& fn) {
  const bool wide = word_type(dtype) == sk::Type::int64;
  const Released waits(rank);
  return wide ? fn(std::int64_t{}) : fn(std::int32_t{});
}

template <class T>
T narrow(std::int64_t value) {
  if (static_cast<T>(value) != value)
    throw sk::Error(SKERRY_ERR_INVALID,
                    std::to_string(value) + " does not fit int32: use dtype=\"int64\"");
  return static_cast<T>(value);
}

void segment_acc(HeldSegment& s, int rank, std::uint64_t offset, nb::handle values,
                 nb::handle alpha) {
  View view;
  acquire_contiguous(view, values, false, "the values");
  const int type = view.element_type("accumulate");
  std::optional<Scalar> factor;
  if (!alpha.is_none()) {
    if (type == SKERRY_LONG_DOUBLE)
      throw sk::Error(SKERRY_ERR_UNSUPPORTED, "alpha with longdouble: multiply the values by it");
    factor.emplace(static_cast<sk::Type>(type), alpha, "alpha");
  }
  nb::gil_scoped_release waits;
  sk::check(skerry_acc(s.owner.get(), rank, offset, type, factor ? factor->bytes : nullptr,
                       view.data(), view.elements()));
}

void segment_update(HeldSegment& s, int rank, std::uint64_t offset, nb::handle values,
                    const std::string& op) {
  View view;
  acquire_contiguous(view, values, false, "the values");
  const int type = view.element_type("update"), operation = operation_of(op);
  nb::gil_scoped_release waits;
  sk::check(
      skerry_update(s.owner.get(), rank, offset, type, operation, view.data(), view.elements()));
}

// What a fetching update works on: the operands, if there are any, and where the old elements go.
struct Fetch {
  nb::object values, out;
  View operands;
  std::unique_ptr<View> old = std::make_unique<View>();
  int type = 0, operation = 0;
  std::uint64_t count = 0;

  Fetch(nb::object given, const std::string& op, nb::object out_given)
      : values(std::move(given)), out(std::move(out_given)), operation(operation_of(op)) {
    const bool reads = operation != SKERRY_NO_OP;
    if (reads && values.is_none())
      throw sk::Error(SKERRY_ERR_INVALID, "values is None: only no_op goes without");
    if (!values.is_none()) acquire_contiguous(operands, values, false, "the values");
    if (out.is_none()) {
      if (values.is_none())
        throw sk::Error(SKERRY_ERR_INVALID, "give `out` or `values`: how many elements, of what?");
      out = nb::module_::import_("numpy").attr("empty_like")(values);
    }
    acquire_contiguous(*old, out, true, "out");
    type = old->element_type("update");
    count = old->elements();
    if (reads && (operands.element_type("update") != type || operands.bytes() != old->bytes()))
      throw sk::Error(SKERRY_ERR_INVALID,
                      "`out` must have as many elements as the values, of the same dtype");
  }
};

nb::object segment_fetch_update(HeldSegment& s, int rank, std::uint64_t offset, nb::object values,
                                const std::string& op, nb::object out) {
  Fetch f(std::move(values), op, std::move(out));
  {
    nb::gil_scoped_release waits;
    sk::check(skerry_fetch_update(s.owner.get(), rank, offset, f.type, f.operation,
                                  f.operands.data(), f.old->data(), f.count));
  }
  return f.out;
}

nb::object segment_fetch_update_nb(nb::handle self, int rank, std::uint64_t offset,
                                   nb::object values, const std::string& op, nb::object out) {
  auto& s = nb::cast<HeldSegment&>(self);
  Fetch f(std::move(values), op, std::move(out));
  skerry_handle handle = 0;
  {
    nb::gil_scoped_release waits;
    sk::check(skerry_fetch_update_nb(s.owner.get(), rank, offset, f.type, f.operation,
                                     f.operands.data(), f.old->data(), f.count, &handle));
  }
  return nb::cast(Request{true,
                          nb::make_tuple(self, f.values),
                          f.out,
                          std::move(f.old),
                          {},
                          sk::Handle(job().world().job_ref(), handle)});
}

nb::object segment_start(nb::handle self, int rank, std::uint64_t offset, nb::object buffer,
                         bool get) {
  auto& s = nb::cast<HeldSegment&>(self);
  auto view = std::make_unique<View>();
  acquire_contiguous(*view, buffer, get, get ? "out" : "the values");
  skerry_handle handle = 0;
  {
    nb::gil_scoped_release waits;
    sk::check(
        get ? skerry_get_nb(s.owner.get(), rank, offset, view->data(), view->bytes(), &handle)
            : skerry_put_nb(s.owner.get(), rank, offset, view->data(), view->bytes(), &handle));
  }
  return nb::cast(Request{get,
                          nb::borrow(self),
                          std::move(buffer),
                          std::move(view),
                          {},
                          sk::Handle(job().world().job_ref(), handle)});
}

void bind_mutexes(nb::module_& m) {
  nb::class_<HeldMutexes>(m, "Mutexes",
        "Each member hosts `count` fair mutexes. Making it is collective. Errors: InvalidError, "
        "NoMemoryError.")
      .def(
          "__init__",
          [](HeldMutexes* self, std::int64_t count, nb::handle group) {
            if (count < 0 || count > 0xffffffff)
              throw sk::Error(SKERRY_ERR_INVALID,
                              std::to_string(count) + " mutexes: give a number from 0 to 2^32 - 1");
            const sk::Group members = group_or_world(group);
            nb::gil_scoped_release waits;
            new (self) HeldMutexes(members, static_cast<std::uint32_t>(count));
          },
          nb::arg("count"), nb::kw_only(), nb::arg("group") = nb::none(),
          nb::sig("def __init__(self, count: int, *, group: Group | None = None) -> None"))
      .def(
          "lock",
          [](HeldMutexes& h, int rank, std::uint32_t index) { return h.owner.lock(rank, index); },
          nb::arg("rank"), nb::arg("index") = 0, nb::call_guard<nb::gil_scoped_release>(),
          "Waits for mutex `index` of `rank`. True, unless the rank that held it before died with "
          "it (on_failure=\"continue\"): then what it guards may be half changed. Not collective. "
          "Errors: RangeError, InvalidError (already held).")
      .def(
          "unlock",
          [](HeldMutexes& h, int rank, std::uint32_t index) { h.owner.unlock(rank, index); },
          nb::arg("rank"), nb::arg("index") = 0, nb::call_guard<nb::gil_scoped_release>(),
          "What the holder issued to that rank's node is visible to the next holder. Not "
          "collective. Errors: InvalidError (not held).")
      .def(
          "free", [](HeldMutexes& h) { h.owner.free(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Gives the memory back. Collective. Errors: FreedError.");

  nb::class_<HeldCounter>(m, "Counter",
        "A shared 64-bit counter that hands out work. Making it is collective. Errors: "
        "InvalidError (`host` is no member), NoMemoryError.")
      .def(
          "__init__",
          [](HeldCounter* self, std::int64_t start, nb::handle group, std::optional<int> host) {
            const sk::Group members = group_or_world(group);
            const int host_index = host ? members.index(*host) : 0;
            nb::gil_scoped_release waits;
            new (self) HeldCounter(members, start, host_index);
          },
          nb::arg("start") = 0, nb::kw_only(), nb::arg("group") = nb::none(),
          nb::arg("host") = nb::none(),
          nb::sig("def __init__(self, start: int = 0, *, group: Group | None = None, host: int | "
                  "None = None) -> None"),
          "`host`: the rank that holds the number; default: the first of the group. Collective.")
      .def(
          "next", [](HeldCounter& h, std::int64_t n) { return h.owner.next(n); }, nb::arg("n") = 1,
          nb::call_guard<nb::gil_scoped_release>(),
          "Adds n and returns the old value, atomically. Not collective. Errors: FreedError, "
          "PeerDeadError.")
      .def(
          "reset", [](HeldCounter& h, std::int64_t value) { h.owner.reset(value); },
          nb::arg("value") = 0, nb::call_guard<nb::gil_scoped_release>(),
          "Sets the value. Begins and ends with a sync. Collective. Errors: FreedError.")
      .def(
          "free", [](HeldCounter& h) { h.owner.free(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Gives the memory back. Collective. Errors: FreedError.");
}

void bind_starts_and_updates(nb::class_<HeldSegment>& segment) {
  segment
      .def("update", &segment_update, nb::arg("rank"), nb::arg("offset"), nb::arg("values"),
           nb::arg("op") = "sum",
           nb::sig("def update(self, rank: int, offset: int, values: skerry._types.Block, op: "
                   "skerry._types.UpdateOp = \"sum\") -> None"),
           "slice = slice (op) values, atomic per element; of any shape. dtypes: integers of 8 "
           "to 64 bits, float32, float64, longdouble, complex64, complex128. \"min\" and \"max\" "
           "are not for complex numbers, logical (\"l\") and bitwise (\"b\") operations for "
           "integers only. Not collective. Errors: RangeError (beyond the slice), InvalidError, "
           "DtypeError.")
      .def("fetch_update", &segment_fetch_update, nb::arg("rank"), nb::arg("offset"),
           nb::arg("values").none() = nb::none(), nb::arg("op") = "sum", nb::kw_only(),
           nb::arg("out") = nb::none(),
           nb::sig("def fetch_update(self, rank: int, offset: int, values: skerry._types.Block | "
                   "None = None, op: skerry._types.UpdateOp = \"sum\", *, out: "
                   "skerry._types.Block | None = None) -> skerry._types.Block"),
           "As update; returns what the elements were before, in `out` or a new array of the "
           "shape and dtype of the values. \"no_op\" reads, each element at once, and needs no "
           "values if there is an `out`. Not collective. Errors: as update.")
      .def("fetch_update_nb", &segment_fetch_update_nb, nb::arg("rank"), nb::arg("offset"),
           nb::arg("values").none() = nb::none(), nb::arg("op") = "sum", nb::kw_only(),
           nb::arg("out") = nb::none(),
           nb::sig("def fetch_update_nb(self, rank: int, offset: int, values: skerry._types.Block "
                   "| None = None, op: skerry._types.UpdateOp = \"sum\", *, out: "
                   "skerry._types.Block | None = None) -> Request"),
           "Starts a fetch_update: shapes and dtypes as there. The buffers must stay as they are "
           "until the request is done. Not collective. Errors: as update.")
      .def(
          "get_nb",
          [](nb::handle self, int rank, std::uint64_t offset, nb::object out) {
            return segment_start(self, rank, offset, std::move(out), true);
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("out"),
          nb::sig("def get_nb(self, rank: int, offset: int, out: skerry._types.Block) -> Request"),
          "Starts a get into `out`, of any shape and dtype. It must stay as it is until the "
          "request is done. Not collective. Errors: as get.")
      .def(
          "put_nb",
          [](nb::handle self, int rank, std::uint64_t offset, nb::object values) {
            return segment_start(self, rank, offset, std::move(values), false);
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("values"),
          nb::sig("def put_nb(self, rank: int, offset: int, values: skerry._types.Block) -> "
                  "Request"),
          "Starts a put of `values`, of any shape and dtype. They must stay as they are until "
          "the request is done. Not collective. Errors: as put.");
}

void bind_own_memory(nb::class_<HeldSegment>& segment) {
  segment
      .def(
          "__init__",
          [](HeldSegment* self, std::int64_t bytes, nb::handle group) {
            if (bytes < 0)
              throw sk::Error(SKERRY_ERR_INVALID, "a segment of " + std::to_string(bytes) +
                                                      " bytes: the size cannot be negative");
            const sk::Group members = group_or_world(group);
            nb::gil_scoped_release waits;
            new (self) HeldSegment(members, static_cast<std::uint64_t>(bytes));
          },
          nb::arg("nbytes"), nb::kw_only(), nb::arg("group") = nb::none(),
          nb::sig("def __init__(self, nbytes: int, *, group: Group | None = None) -> None"))
      .def_prop_ro("local",
                   [](nb::handle self) {
                     auto& s = nb::cast<HeldSegment&>(self);
                     return bytes_view(s.owner.local(), s.owner.bytes(job().rank()), self);
                   },
                   nb::sig("def local(self) -> numpy.typing.NDArray[numpy.uint8]"),
                   "The own slice, of dtype uint8 and shape (bytes,), without a copy. Valid "
                   "until free(). Not collective. Errors: FreedError.")
      .def(
          "pointer",
          [](nb::handle self, int rank) -> nb::object {
            auto& s = nb::cast<HeldSegment&>(self);
            if (!job().same_node(rank)) return nb::none();
            return bytes_view(s.owner.pointer(rank), s.owner.bytes(rank), self);
          },
          nb::arg("rank"),
          nb::sig("def pointer(self, rank: int) -> numpy.typing.NDArray[numpy.uint8] | None"),
          "A same-node member's slice, of dtype uint8 and shape (bytes,), without a copy; None "
          "if it is on another node. Not collective. Errors: InvalidError (no member), "
          "FreedError.")
      .def(
          "nbytes",
          [](HeldSegment& s, std::optional<int> rank) {
            return s.owner.bytes(rank ? *rank : job().rank());
          },
          nb::arg("rank") = nb::none(),
          "Bytes of the slice of `rank` (default: own); 0 of no member. Not collective. Errors: "
          "FreedError.");
}

void bind_transfers(nb::class_<HeldSegment>& segment) {
  segment
      .def(
          "get",
          [](HeldSegment& s, int rank, std::uint64_t offset, nb::object out) {
            View view;
            acquire_contiguous(view, out, true, "out");
            {
              const Released waits(rank, view.bytes());
              sk::check(skerry_get(s.owner.get(), rank, offset, view.data(), view.bytes()));
            }
            return out;
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("out"),
          nb::sig("def get(self, rank: int, offset: int, out: skerry._types.Block) -> "
                  "skerry._types.Block"),
          "Copies out.nbytes bytes of the slice of `rank` into `out` (of any shape and dtype, "
          "C-contiguous), and returns it. Not collective. Errors: RangeError (beyond the slice), "
          "InvalidError.")
      .def(
          "put",
          [](HeldSegment& s, int rank, std::uint64_t offset, nb::handle values) {
            View view;
            acquire_contiguous(view, values, false, "the values");
            const Released waits(rank, view.bytes());
            sk::check(skerry_put(s.owner.get(), rank, offset, view.data(), view.bytes()));
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("values"),
          nb::sig("def put(self, rank: int, offset: int, values: skerry._types.Block) -> None"),
          "Copies `values` (of any shape and dtype, C-contiguous) into the slice of `rank`. They "
          "may be reused on return; others see the data after fence or sync. Not collective. "
          "Errors: RangeError (beyond the slice), InvalidError.")
      .def("acc", &segment_acc, nb::arg("rank"), nb::arg("offset"), nb::arg("values"),
           nb::arg("alpha") = nb::none(),
           nb::sig("def acc(self, rank: int, offset: int, values: skerry._types.Block, alpha: "
                   "complex | None = None) -> None"),
           "slice += alpha * values (alpha None: 1), atomic per element; of any shape, of the "
           "dtypes that update takes. Not collective. Errors: RangeError (beyond the slice), "
           "InvalidError, DtypeError.");
}

void bind_words(nb::class_<HeldSegment>& segment) {
  segment
      .def(
          "fetch_add",
          [](HeldSegment& s, int rank, std::uint64_t offset, std::int64_t value, nb::handle dtype) {
            return on_word(rank, dtype, [&]<class T>(T) -> std::int64_t {
              return s.owner.fetch_add<T>(rank, offset, narrow<T>(value));
            });
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("value"), nb::arg("dtype") = "int64",
          nb::sig("def fetch_add(self, rank: int, offset: int, value: int, dtype: "
                  "numpy.typing.DTypeLike = \"int64\") -> int"),
          "Adds `value` to one word, int64 or int32, at a multiple of its size, atomically; "
          "returns the old value. Not collective. Errors: RangeError (beyond the slice), "
          "InvalidError (the offset, or a number that does not fit), DtypeError.")
      .def(
          "swap",
          [](HeldSegment& s, int rank, std::uint64_t offset, std::int64_t value, nb::handle dtype) {
            return on_word(rank, dtype, [&]<class T>(T) -> std::int64_t {
              return s.owner.swap<T>(rank, offset, narrow<T>(value));
            });
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("value"), nb::arg("dtype") = "int64",
          nb::sig("def swap(self, rank: int, offset: int, value: int, dtype: "
                  "numpy.typing.DTypeLike = \"int64\") -> int"),
          "Stores `value` in one word, int64 or int32, at a multiple of its size, atomically; "
          "returns the old value. Not collective. Errors: RangeError (beyond the slice), "
          "InvalidError (the offset, or a number that does not fit), DtypeError.")
      .def(
          "compare_swap",
          [](HeldSegment& s, int rank, std::uint64_t offset, std::int64_t expected,
             std::int64_t desired, nb::handle dtype) {
            return on_word(rank, dtype, [&]<class T>(T) -> std::int64_t {
              return s.owner.compare_swap<T>(rank, offset, narrow<T>(expected), narrow<T>(desired));
            });
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("expected"), nb::arg("desired"),
          nb::arg("dtype") = "int64",
          nb::sig("def compare_swap(self, rank: int, offset: int, expected: int, desired: int, "
                  "dtype: numpy.typing.DTypeLike = \"int64\") -> int"),
          "Stores `desired`, if `expected` is there, in one word, int64 or int32, at a multiple "
          "of its size, atomically; returns the old value. Not collective. Errors: RangeError "
          "(beyond the slice), InvalidError (the offset, or a number that does not fit), "
          "DtypeError.");
}

void bind_notices(nb::class_<HeldSegment>& segment) {
  segment
      .def(
          "put_notify",
          [](HeldSegment& s, int rank, std::uint64_t offset, nb::handle values,
             std::uint64_t counter_offset, std::uint64_t increment) {
            View view;
            if (!values.is_none()) acquire_contiguous(view, values, false, "the values");
            nb::gil_scoped_release waits;
            sk::check(skerry_put_notify(s.owner.get(), rank, offset, view.data(), view.bytes(),
                                        counter_offset, increment));
          },
          nb::arg("rank"), nb::arg("offset"), nb::arg("values").none(), nb::arg("counter_offset"),
          nb::arg("increment") = 1,
          nb::sig("def put_notify(self, rank: int, offset: int, values: skerry._types.Block | "
                  "None, counter_offset: int, increment: int = 1) -> None"),
          "put, of any shape and dtype, then adds `increment` to the 64-bit counter at "
          "`counter_offset` of the same slice: a reader that sees the counter sees the data. "
          "`values` None: only the counter. Not collective. Errors: RangeError (beyond the "
          "slice), InvalidError.")
      .def(
          "notify_wait",
          [](HeldSegment& s, std::uint64_t counter_offset, std::uint64_t at_least,
             std::optional<double> timeout) {
            nb::gil_scoped_release waits;
            return s.owner.notify_wait(counter_offset, at_least,
                                       timeout ? static_cast<std::int64_t>(*timeout * 1e9) : -1);
          },
          nb::arg("counter_offset"), nb::arg("at_least"), nb::arg("timeout") = nb::none(),
          "Sleeps until the own counter is at least `at_least`; returns it. `timeout` in "
          "seconds; None: no limit. Not collective. Errors: TimeoutError, RangeError, "
          "InvalidError.");
}

// Brings `then` to what `now` is, tile by tile, where they differ: (begin, end) in bytes of runs of
// such tiles, ascending.
std::vector<std::pair<std::size_t, std::size_t>> take_changed(nb::handle now, nb::handle then,
                                                              std::size_t tile) {
  View from, to;
  acquire_contiguous(from, now, false, "what changed");
  acquire_contiguous(to, then, true, "the copy");
  if (from.bytes() != to.bytes() || tile == 0)
    throw sk::Error(SKERRY_ERR_INVALID, "a copy has as many bytes as what it is of");
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  const nb::gil_scoped_release waits;
  for (std::size_t at = 0; at < from.bytes(); at += tile) {
    const std::size_t end = std::min(at + tile, from.bytes());
    if (std::memcmp(from.data() + at, to.data() + at, end - at) == 0) continue;
    std::memcpy(to.data() + at, from.data() + at, end - at);
    if (!runs.empty() && runs.back().second == at) runs.back().second = end;
    else runs.emplace_back(at, end);
  }
  return runs;
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("_take_changed", &take_changed, nb::arg("now"), nb::arg("then"), nb::arg("tile"),
        nb::sig("def _take_changed(now: skerry._types.Block, then: skerry._types.Block, "
                "tile: int) -> list[tuple[int, int]]"));
  nb::class_<HeldSegment> segment(m, "Segment",
        "Zeroed memory: every member owns `nbytes` (may differ). Offsets are bytes. Making it is "
        "collective. Errors: InvalidError, NoMemoryError. Buffers are C-contiguous arrays of any "
        "shape, and of any dtype without Python objects.");
  bind_starts_and_updates(segment);
  bind_own_memory(segment);
  bind_transfers(segment);
  bind_words(segment);
  bind_notices(segment);
  segment.def(
      "free", [](HeldSegment& s) { s.owner.free(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Gives the memory back. Collective. Errors: FreedError.");
  bind_mutexes(m);
}

}  // namespace skpy
