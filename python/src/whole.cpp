// skerry.xp.Array. An array that is whole (every rank has all of it) holds an ndarray, and its
// slots pass operators, indices, methods and functions straight to NumPy. Everything else goes to
// the Python functions of skerry/xp that `xp_setup` names.
//
// docs/design/0054-whole-arrays.md tells what was measured before this was written in C++.
//
// All of it runs under the interpreter lock, which guards the lists of views.
#include <cassert>
#include <cstddef>
#include <cstring>
#include <utility>

#include "binding.hpp"

#if PY_VERSION_HEX < 0x030c0000
#include <structmember.h>
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_T_OBJECT_EX T_OBJECT_EX
#define Py_READONLY READONLY
#endif
#if PY_VERSION_HEX < 0x030b0000
#define Py_Version PY_VERSION_HEX
#endif

namespace skpy {
namespace whole {
namespace {

// ---- NumPy's arrays ----------------------------------------------------------------------------

// The beginning of an ndarray, part of NumPy's binary interface since 1.7. `check_struct` compares
// it with what Python sees, so that no header of NumPy's is needed.
struct NdArray {
  PyObject_HEAD
  char* data;
  int ndim;
  Py_intptr_t* dims;
  Py_intptr_t* strides;
  PyObject* base;  // null: owns its memory, or nobody does
  PyObject* dtype;
  int flags;
};
static_assert(offsetof(NdArray, data) == sizeof(PyObject), "NumPy's fields follow Python's");
constexpr int kCOrder = 0x1, kFortranOrder = 0x2;
constexpr int kOwn = kCOrder | 0x4 | 0x100 | 0x400;  // C order, owns its memory, aligned, writable

PyTypeObject* ndarray_type = nullptr;   // numpy.ndarray; null before xp_setup
PyTypeObject* generic_type = nullptr;   // numpy.generic
PyTypeObject* array_type = nullptr;     // ours
PyTypeObject* function_type = nullptr;  // ours
PyTypeObject* method_type = nullptr;    // ours, of methods and attributes

bool is_ndarray(PyObject* object) { return Py_TYPE(object) == ndarray_type; }
NdArray* as_ndarray(PyObject* object) { return reinterpret_cast<NdArray*>(object); }

Py_ssize_t elements(PyObject* block) {
  assert(is_ndarray(block));
  const NdArray* array = as_ndarray(block);
  Py_ssize_t count = 1;
  for (int d = 0; d < array->ndim; ++d) count *= array->dims[d];
  return count;
}

// What the block takes; -1 with an error. Results are contiguous, so a stride tells the size of an
// element: to ask for the attribute takes as long as the rest of making an array.
Py_ssize_t bytes_of(PyObject* block) {
  const NdArray* array = as_ndarray(block);
  if (array->flags & (kCOrder | kFortranOrder)) {
    Py_ssize_t most = 0;  // of an axis that is long enough to have a stride
    for (int d = 0; d < array->ndim; ++d)
      if (array->dims[d] > 1 && array->dims[d] * array->strides[d] > most)
        most = array->dims[d] * array->strides[d];
    if (most) return most;
  }
  static PyObject* const name = PyUnicode_InternFromString("nbytes");
  PyObject* bytes = PyObject_GetAttr(block, name);
  const Py_ssize_t count = bytes ? PyLong_AsSsize_t(bytes) : -1;
  Py_XDECREF(bytes);
  return count;
}

// ---- our arrays --------------------------------------------------------------------------------

struct Array {
  PyObject_HEAD
  PyObject* block;       // own block, an ndarray; null: not evaluated yet
  PyObject* layout;      // a Layout; null: of a whole array, made when asked for
  PyObject* dtype;       // null: the block's
  PyObject* expression;  // null once evaluated
  PyObject* memory;      // a Memory; null: the root's, or private
  PyObject* recipe;      // of a view made in Python; otherwise null
  PyObject* strides;     // those that NumPy's array would have; null: told by the rest
  PyObject* ahead;       // key -> element, of a divided one that a loop reads; otherwise null
  Py_ssize_t ahead_of;   // `syncs_now` when `ahead` was made
  PyObject* weak;        // references, kept by Python
  Array* root;           // of a view made here: whose memory it is; otherwise null
  Array* first;          // views made here that have this as their root
  Array* next;           // the next of the root's views
  Array** link;          // what points to this one in the root's list; null: no root
  Py_ssize_t counted;    // bytes that `whole_bytes_now` counts for it
  bool whole;            // every rank has all of it
  bool view;
  bool frozen;  // shows elements that NumPy would share, in a copy: it may not be written
};

enum Op {
  kAdd, kSub, kMul, kTruediv, kFloordiv, kMod, kAnd, kOr, kXor, kLshift, kRshift, kDivmod, kPow,
  kMatmul, kNeg, kPos, kAbs, kInvert, kOps
};  // clang-format off
const char* const kOpNames[] = {"add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or",
                                "xor", "lshift", "rshift", "divmod", "pow", "matmul", "neg", "pos",
                                "abs", "invert"};
// clang-format on
static_assert(sizeof kOpNames / sizeof *kOpNames == kOps);

// What Python told in xp_setup. Strong references for ever.
struct {
  PyObject *pending, *settle, *evaluate, *whole_layout, *grown, *getitem, *setitem, *iterate,
      *ufunc, *function, *missing, *memory, *number, *writable, *crowded;
  PyObject* operators[kOps];
  PyObject* comparisons[6];
  PyObject* floating[2];          // dtypes float64 and float32
  PyObject* ufuncs[kTruediv + 1];  // of the operators from add on
  PyObject* moved;                 // the expression of an array whose memory a result took
  PyObject* set_shape;             // (array, shape), of a divided one
  PyObject* binary_op;  // the number of the interpreter's instruction for operators; None: unknown
} python;
static_assert(kAdd == 0 && kTruediv < kOps, "ufuncs are those of the first operators");

// Arrays of at least so many elements are computed lazily; Python decides.
Py_ssize_t lazy_elements = PY_SSIZE_T_MAX;
// In jobs of several ranks: results with more bytes than this are divided.
Py_ssize_t grown_bytes = PY_SSIZE_T_MAX;
bool alone = true;  // a job of one rank
Py_ssize_t group_ranks = 0;  // that skerry.xp is over; 0: it was not used yet
Py_ssize_t whole_bytes_now = 0;
Py_ssize_t whole_bytes_made = 0;
// Bytes of whole arrays that were made of no other array, by calls that all ranks make alike, and
// when the ranks ask one another next whether all of what lives is too much.
Py_ssize_t created_bytes = 0;
Py_ssize_t next_count = PY_SSIZE_T_MAX;

// Syncs of the program, after which elements may be others. The ranks count them alike.
Py_ssize_t syncs_now = 0;

bool is_array(PyObject* object) { return Py_TYPE(object) == array_type; }
Array* as_array(PyObject* object) { return reinterpret_cast<Array*>(object); }
bool at_hand(const Array* array) { return array->whole && array->block; }

PyObject* owned(PyObject* object) {
  Py_INCREF(object);
  return object;
}

void set(PyObject** field, PyObject* value) {
  PyObject* old = *field;
  *field = value == Py_None || !value ? nullptr : owned(value);
  Py_XDECREF(old);
}

void enlist(Array* view, Array* root) {
  assert(view != root && !view->root && !view->link);
  assert(!root->root);  // a view of a view is one of its root
  Py_INCREF(root);
  view->root = root;
  view->next = root->first;
  view->link = &root->first;
  if (root->first) root->first->link = &view->next;
  root->first = view;
}

void delist(Array* view) {
  if (!view->root) return;
  assert(*view->link == view && (!view->next || view->next->link == &view->next));
  *view->link = view->next;
  if (view->next) view->next->link = view->link;
  Array* root = view->root;
  view->root = nullptr, view->link = nullptr, view->next = nullptr;
  Py_DECREF(root);
}

Array* allocate() {
  Array* array = PyObject_New(Array, array_type);
  if (!array) return nullptr;
  std::memset(reinterpret_cast<char*>(array) + sizeof(PyObject), 0,
              sizeof(Array) - sizeof(PyObject));
  return array;
}

// Results of at most so many times `grown_bytes` stay whole if an operand as large is.
constexpr Py_ssize_t kMostGrown = 16;

// Counts the memory of an array that is no view.
void count_whole(Array* array, Py_ssize_t bytes) {
  assert(array->whole && !array->counted && bytes >= 0);
  array->counted = bytes;
  whole_bytes_now += bytes;
  whole_bytes_made += bytes;
  assert(whole_bytes_now <= whole_bytes_made);
}

void uncount(Array* array) {
  whole_bytes_now -= array->counted;
  array->counted = 0;
  assert(whole_bytes_now >= 0);
}

// A whole array of an ndarray, whose reference it takes over; too large ones are divided, but those
// that `stay` only from a larger size on. Null with an error.
PyObject* make_whole(PyObject* block, Array* root = nullptr, bool stay = false) {
  assert(block && is_ndarray(block));
  Array* array = allocate();
  if (!array) {
    Py_DECREF(block);
    return nullptr;
  }
  array->block = block;
  array->whole = true;
  if (root) {
    enlist(array, root);
    array->view = true;
    array->frozen = root->frozen;
  } else if (!alone && elements(block) >= 128) {
    const Py_ssize_t count = bytes_of(block);
    if (count < 0) {
      Py_DECREF(array);
      return nullptr;
    }
    if (count > grown_bytes && !(stay && count / kMostGrown <= grown_bytes)) {
      PyObject* divided = PyObject_CallFunctionObjArgs(
          python.grown, reinterpret_cast<PyObject*>(array), nullptr);
      Py_DECREF(array);
      return divided;
    }
    count_whole(array, count);
  }
  return reinterpret_cast<PyObject*>(array);
}

// Whether `result` looks at the memory of `array`.
bool looks_at(PyObject* result, const Array* array) {
  const Array* root = array->root ? array->root : array;
  if (!root->block) return false;
  PyObject* base = as_ndarray(result)->base;
  PyObject* const owner = as_ndarray(root->block)->base;  // of a copy that NumPy reshaped at once
  static PyObject* const name = PyUnicode_InternFromString("base");
  constexpr int kMost = 6;
  PyObject* given = nullptr;  // a reference: what it is based on lives as long
  for (int i = 0; base && base != root->block && base != owner && base != array->block; ++i) {
    if (i == kMost) {
      base = nullptr;
    } else if (is_ndarray(base)) {
      base = as_ndarray(base)->base;
    } else {  // as_strided makes an array of an object that has what was given to it
      PyObject* const holder = std::exchange(given, PyObject_GetAttr(base, name));
      if (!given) PyErr_Clear();
      base = given;
      Py_XDECREF(holder);
    }
  }
  Py_XDECREF(given);
  return base;
}

// What NumPy gave, as ours: takes over the reference. `sources`: arrays that it may be or look at.
PyObject* wrap(PyObject* result, Array* const* sources, int count) {
  if (!result || !is_ndarray(result)) return result;
  for (int i = 0; i < count; ++i) {
    if (sources[i]->block == result) {
      Py_DECREF(result);
      return owned(reinterpret_cast<PyObject*>(sources[i]));
    }
    if (looks_at(result, sources[i]))
      return make_whole(result, sources[i]->root ? sources[i]->root : sources[i]);
  }
  // A loop over rows or columns has made its operand whole, and goes on with the result.
  bool stay = false;
  for (int i = 0; i < count; ++i)
    stay |= at_hand(sources[i]) && elements(sources[i]->block) >= elements(result);
  return make_whole(result, nullptr, stay);
}

// Also arrays in a tuple or list, of functions that return several.
PyObject* wrap_all(PyObject* result, Array* const* sources, int count) {
  if (!result || is_ndarray(result)) return wrap(result, sources, count);
  const bool is_list = PyList_CheckExact(result);
  if (!is_list && !PyTuple_Check(result)) return result;
  const Py_ssize_t length = PyObject_Size(result);
  bool any = false;
  for (Py_ssize_t i = 0; i < length && !any; ++i) {
    PyObject* item = is_list ? PyList_GetItem(result, i) : PyTuple_GetItem(result, i);
    any = is_ndarray(item) || PyList_CheckExact(item) || PyTuple_Check(item);
  }
  if (!any) return result;
  PyObject* items = PyList_New(length);
  for (Py_ssize_t i = 0; items && i < length; ++i) {
    PyObject* item = owned(is_list ? PyList_GetItem(result, i) : PyTuple_GetItem(result, i));
    item = wrap_all(item, sources, count);
    if (!item || PyList_SetItem(items, i, item) < 0) Py_CLEAR(items);
  }
  PyObject* out = nullptr;
  if (items && is_list) {
    out = owned(items);
  } else if (items && PyTuple_CheckExact(result)) {
    out = PyList_AsTuple(items);
  } else if (items) {  // a named tuple
    PyObject* tuple = PyList_AsTuple(items);
    if (tuple) out = PyObject_Call(reinterpret_cast<PyObject*>(Py_TYPE(result)), tuple, nullptr);
    Py_XDECREF(tuple);
  }
  Py_XDECREF(items);
  Py_DECREF(result);
  return out;
}

// ---- memory of results -------------------------------------------------------------------------

constexpr Py_ssize_t kLeastTaken = 32768;  // elements: 256 KiB, as in NumPy. Less is in a cache.

bool is_large(PyObject* value) { return is_ndarray(value) && elements(value) >= kLeastTaken; }

bool is_like(PyObject* block, PyObject* dtype, int ndim, const Py_intptr_t* dims) {
  const NdArray* array = as_ndarray(block);
  return array->dtype == dtype && array->ndim == ndim &&
         !std::memcmp(array->dims, dims, sizeof(Py_intptr_t) * std::size_t(ndim));
}

// Before memory is written: what is still to be computed from it.
bool settle(PyObject* block) {
  if (PyDict_Size(python.pending) == 0) return true;
  PyObject* done = PyObject_CallFunctionObjArgs(python.settle, block, nullptr);
  Py_XDECREF(done);
  return done != nullptr;
}

bool may_write(Array* array) {
  if (array->frozen) {
    PyObject* none = PyObject_CallFunctionObjArgs(python.writable,
                                                  reinterpret_cast<PyObject*>(array), nullptr);
    if (!none) return false;
    Py_DECREF(none);
  }
  return settle(array->block);
}

// ---- operators ---------------------------------------------------------------------------------

// The operand NumPy takes in place of this one; null: let Python decide. Borrowed.
PyObject* plain(PyObject* operand, Py_ssize_t most) {
  if (is_array(operand)) {
    const Array* array = as_array(operand);
    return at_hand(array) && elements(array->block) < most ? array->block : nullptr;
  }
  if (is_ndarray(operand)) return elements(operand) < most ? operand : nullptr;
  PyTypeObject* type = Py_TYPE(operand);
  if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
      type == &PyComplex_Type || operand == Py_None || type == &PyList_Type ||
      type == &PyTuple_Type || PyType_IsSubtype(type, generic_type))
    return operand;
  return nullptr;
}

// Whether small operands make a result that is computed lazily, as a column and a row do.
bool makes_large(PyObject* left, PyObject* right) {
  if (!is_ndarray(left) || !is_ndarray(right)) return false;
  const double most = double(elements(left)) * double(elements(right));
  if (most < double(lazy_elements)) return false;
  const NdArray* one = as_ndarray(left);
  const NdArray* other = as_ndarray(right);
  double count = 1;
  for (int d = 1; d <= std::max(one->ndim, other->ndim); ++d) {
    const Py_intptr_t a = d <= one->ndim ? one->dims[one->ndim - d] : 1;
    const Py_intptr_t b = d <= other->ndim ? other->dims[other->ndim - d] : 1;
    count *= double(a == 1 ? b : a);  // shapes that do not fit are NumPy's error
  }
  return count >= double(lazy_elements);
}

PyObject* refuse() { return owned(Py_NotImplemented); }

// Whether the statement that computed an operand has the only reference to it. In compiled code a
// variable may hold it: what is then taken from it raises an error when it is used again.
// From Python 3.14 on the interpreter lends a variable's own reference: one tells nothing there.
PyObject* unnamed(PyObject* operand) {
  return Py_Version < 0x030e0000 && Py_REFCNT(operand) == 1 ? Py_True : Py_False;
}

using Binary = PyObject* (*)(PyObject*, PyObject*);

bool is_floating(PyObject* block) {
  PyObject* dtype = as_ndarray(block)->dtype;
  return dtype == python.floating[0] || dtype == python.floating[1];
}

// Whether an operator gives the shape and the floating dtype of the arrays among its operands.
bool keeps_form(PyObject* left, PyObject* right) {
  if (!is_ndarray(left)) std::swap(left, right);
  if (!is_ndarray(left) || !is_floating(left)) return false;
  if (!is_ndarray(right)) return PyFloat_CheckExact(right) || PyLong_CheckExact(right);
  const NdArray* other = as_ndarray(right);
  return is_like(left, other->dtype, other->ndim, other->dims);
}

// ---- results in the memory of an operand that nobody names --------------------------------------

// What the interpreter is at in the innermost frame.
enum class At : char { kElse, kOperator, kInPlace };

// Instructions that were looked at.
struct Place {
  PyObject* code;  // a reference; null: none yet
  long at;
  At what;
};
constexpr std::size_t kPlaces = 64;
Place places[kPlaces];
constexpr long kFirstInPlace = 13;  // of the numbers of BINARY_OP's operators

// The integer at an index of a sequence of bytes; -1: there is none.
long byte_at(PyObject* bytes, long index) {
  PyObject* item = bytes && index >= 0 ? PySequence_GetItem(bytes, index) : nullptr;
  const long byte = item ? PyLong_AsLong(item) : -1;
  Py_XDECREF(item);
  PyErr_Clear();
  return byte;
}

// Whether the interpreter itself is at an operator, and of which kind.
At interpreter_at() {
  if (python.binary_op == Py_None || Py_Version >= 0x030e0000) return At::kElse;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return At::kElse;
  static PyObject* const name = PyUnicode_InternFromString("f_lasti");
  PyObject* last = PyObject_GetAttr(reinterpret_cast<PyObject*>(frame), name);
  const long at = last ? PyLong_AsLong(last) : -1;
  Py_XDECREF(last);
  PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
  Place& place = places[(reinterpret_cast<std::size_t>(code) / 64 + std::size_t(at)) % kPlaces];
  if (place.code != code || place.at != at) {
    PyObject* bytes = PyObject_GetAttrString(code, "co_code");
    At what = At::kElse;
    if (byte_at(bytes, at) == PyLong_AsLong(python.binary_op))
      what = byte_at(bytes, at + 1) < kFirstInPlace ? At::kOperator : At::kInPlace;
    Py_XDECREF(bytes);
    PyErr_Clear();
    Py_XDECREF(place.code);
    place = {owned(code), at, what};
  }
  Py_DECREF(code);
  return place.what;
}

PyObject* get_layout(PyObject* object, void*);

// Whether a result may take the memory of an operand: nothing else refers to that.
bool may_take(PyObject* operand) {
  if (!is_array(operand) || unnamed(operand) != Py_True) return false;
  const Array* array = as_array(operand);
  PyObject* block = array->block;
  return at_hand(array) && is_large(block) && Py_REFCNT(block) == 1 &&
         !as_ndarray(block)->base && (as_ndarray(block)->flags & kOwn) == kOwn && !array->view &&
         !array->first && !array->memory && !array->weak && !array->frozen;
}

// ufunc(left, right), of operands a and b, in the memory of one that nobody names. As after
// evaluate_into, that one raises an error if it is used again. Null without an error: no operand is
// so.
PyObject* into_operand(PyObject* ufunc, PyObject* a, PyObject* b, PyObject* left,
                       PyObject* right) {
  PyObject* taken = may_take(a) ? a : may_take(b) ? b : nullptr;
  if (!taken || !keeps_form(left, right) || PyDict_Size(python.pending) != 0) return nullptr;
  // Then the only reference to an operand is that of the statement. Compiled code that calls an
  // operator may have it in a variable.
  if (interpreter_at() == At::kElse) return nullptr;
  Array* from = as_array(taken);
  PyObject* layout = get_layout(taken, nullptr);  // for who asks for its shape
  if (!layout) return nullptr;
  Py_DECREF(layout);
  // Marked first: the ufunc may raise when it has written, or call what looks at the operand.
  PyObject* block = owned(from->block);
  set(&from->dtype, as_ndarray(block)->dtype);
  set(&from->expression, python.moved);
  Py_CLEAR(from->block);
  uncount(from);
  PyObject* operands[] = {left, right, block};
  PyObject* result = PyObject_Vectorcall(ufunc, operands, 3, nullptr);
  Py_DECREF(block);
  return result;
}

// What NumPy's operators give to the ufunc at once. To call that here saves their look at types. A
// program's own class of numbers may refuse ufuncs.
bool is_operand(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return is_ndarray(value) || type == &PyFloat_Type || type == &PyLong_Type ||
         (PyType_IsSubtype(type, generic_type) &&
          (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) == 0);
}

// ufunc(left, right), of operands a and b.
PyObject* by_ufunc(PyObject* ufunc, PyObject* a, PyObject* b, PyObject* left, PyObject* right) {
  if (is_large(left) || is_large(right)) {
    PyObject* out = into_operand(ufunc, a, b, left, right);
    if (out || PyErr_Occurred()) return out;
  }
  PyObject* operands[] = {left, right};
  return PyObject_Vectorcall(ufunc, operands, 2, nullptr);
}

template <Binary operation, int op>
PyObject* binary(PyObject* a, PyObject* b) {
  static_assert(op >= 0 && op < kOps);
  PyObject* left = plain(a, lazy_elements);
  PyObject* right = left ? plain(b, lazy_elements) : nullptr;
  if (right && !makes_large(left, right)) {
    if constexpr (op <= kTruediv)
      if (is_operand(left) && is_operand(right))
        return wrap(by_ufunc(python.ufuncs[op], a, b, left, right), nullptr, 0);
    return wrap(operation(left, right), nullptr, 0);
  }
  PyObject* call = python.operators[op];
  return call ? PyObject_CallFunctionObjArgs(call, a, b, nullptr) : refuse();
}

template <Binary operation, int op>
PyObject* inplace(PyObject* a, PyObject* b) {
  static_assert(op >= 0 && op < kOps);
  Array* self = as_array(a);
  PyObject* left = plain(a, PY_SSIZE_T_MAX);
  PyObject* right = left ? plain(b, PY_SSIZE_T_MAX) : nullptr;
  if (right) {
    if (!may_write(self)) return nullptr;
    if constexpr (op <= kTruediv) {
      if (is_operand(right)) {
        PyObject* operands[] = {left, right, left};
        return wrap(PyObject_Vectorcall(python.ufuncs[op], operands, 3, nullptr), &self, 1);
      }
    }
    return wrap(operation(left, right), &self, 1);
  }
  PyObject* call = python.operators[op];
  return call ? PyObject_CallFunctionObjArgs(call, a, b, Py_True, unnamed(b), nullptr) : refuse();
}

PyObject* number_power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* number_inplace_power(PyObject* a, PyObject* b) {
  return PyNumber_InPlacePower(a, b, Py_None);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  return modulus == Py_None ? binary<number_power, kPow>(a, b) : refuse();
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject* modulus) {
  return modulus == Py_None ? inplace<number_inplace_power, kPow>(a, b) : refuse();
}

PyObject* divide_with_rest(PyObject* a, PyObject* b) {
  PyObject* left = plain(a, PY_SSIZE_T_MAX);
  PyObject* right = left ? plain(b, PY_SSIZE_T_MAX) : nullptr;
  if (right) return wrap_all(PyNumber_Divmod(left, right), nullptr, 0);
  PyObject* call = python.operators[kDivmod];
  return call ? PyObject_CallFunctionObjArgs(call, a, b, nullptr) : refuse();
}

// Whether every rank computes all of a product. One whose result is divided is shared among ranks.
bool is_whole_product(PyObject* left, PyObject* right) {
  if (alone || !is_ndarray(left) || !is_ndarray(right) || !as_ndarray(left)->ndim) return true;
  const Py_ssize_t inner = as_ndarray(left)->dims[as_ndarray(left)->ndim - 1];
  if (inner <= 0) return true;  // zeros, or nothing
  // Of stacks, the most that it may have. Numbers take at most 16 bytes.
  const Py_ssize_t rows = elements(left) / inner, columns = elements(right) / inner;
  return columns == 0 || rows <= grown_bytes / 16 / columns;
}

PyObject* multiply_matrices(PyObject* a, PyObject* b) {
  PyObject* left = plain(a, PY_SSIZE_T_MAX);
  PyObject* right = left ? plain(b, PY_SSIZE_T_MAX) : nullptr;
  if (right && is_whole_product(left, right))
    return wrap(PyNumber_MatrixMultiply(left, right), nullptr, 0);
  PyObject* call = python.operators[kMatmul];
  return call ? PyObject_CallFunctionObjArgs(call, a, b, nullptr) : refuse();
}

template <PyObject* (*operation)(PyObject*), int op>
PyObject* unary(PyObject* self) {
  static_assert(op >= 0 && op < kOps);
  PyObject* value = plain(self, lazy_elements);
  if (value) return wrap(operation(value), nullptr, 0);
  PyObject* call = python.operators[op];
  return call ? PyObject_CallFunctionObjArgs(call, self, nullptr) : refuse();
}

PyObject* compare(PyObject* a, PyObject* b, int how) {
  PyObject* left = plain(a, lazy_elements);
  PyObject* right = left ? plain(b, lazy_elements) : nullptr;
  if (right) return wrap(PyObject_RichCompare(left, right, how), nullptr, 0);
  PyObject* call = python.comparisons[how];
  return call ? PyObject_CallFunctionObjArgs(call, a, b, nullptr) : refuse();
}

// The value as a number of one element. New reference; null with an error.
PyObject* number(PyObject* self, const char* what) {
  if (at_hand(as_array(self))) return owned(as_array(self)->block);
  PyObject* text = PyUnicode_FromString(what);
  if (!text) return nullptr;
  PyObject* value = PyObject_CallFunctionObjArgs(python.number, self, text, nullptr);
  Py_DECREF(text);
  return value;
}

int as_bool(PyObject* self) {
  PyObject* value = number(self, "bool()");
  if (!value) return -1;
  const int truth = PyObject_IsTrue(value);
  Py_DECREF(value);
  return truth;
}

template <PyObject* (*convert)(PyObject*)>
PyObject* converted(PyObject* self) {
  PyObject* value = number(self, convert == PyNumber_Long    ? "int()"
                                 : convert == PyNumber_Float ? "float()"
                                                             : "an index");
  if (!value) return nullptr;
  PyObject* out = convert(value);
  Py_DECREF(value);
  return out;
}

PyObject* as_complex(PyObject* self, PyObject*) {
  PyObject* value = number(self, "complex()");
  if (!value) return nullptr;
  PyObject* out = PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyComplex_Type), value,
                                               nullptr);
  Py_DECREF(value);
  return out;
}

// ---- indices -----------------------------------------------------------------------------------

// The key with ndarrays in place of whole arrays: a new reference. Null without an error: some
// array in it is not at hand.
PyObject* plain_key(PyObject* key) {
  if (is_array(key))
    return at_hand(as_array(key)) ? owned(as_array(key)->block) : nullptr;
  if (!PyTuple_CheckExact(key)) return owned(key);
  const Py_ssize_t length = PyTuple_Size(key);
  bool any = false;
  for (Py_ssize_t i = 0; i < length; ++i) any |= is_array(PyTuple_GetItem(key, i));
  if (!any) return owned(key);
  PyObject* out = PyTuple_New(length);
  for (Py_ssize_t i = 0; out && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(key, i);
    if (is_array(item)) {
      if (!at_hand(as_array(item))) {
        Py_DECREF(out);
        return nullptr;
      }
      item = as_array(item)->block;
    }
    PyTuple_SetItem(out, i, owned(item));
  }
  return out;
}

// An element that was read ahead, by a key of plain integers. Borrowed; null without an error.
PyObject* read_ahead(const Array* self, PyObject* key) {
  if (self->ahead_of != syncs_now) return nullptr;
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(key); ++i)
      if (!PyLong_CheckExact(PyTuple_GetItem(key, i))) return nullptr;
  } else if (!PyLong_CheckExact(key)) {
    return nullptr;
  }
  return PyDict_GetItemWithError(self->ahead, key);
}

PyObject* subscript(PyObject* object, PyObject* key) {
  Array* self = as_array(object);
  if (self->ahead) {
    PyObject* element = read_ahead(self, key);
    if (element || PyErr_Occurred()) return element ? owned(element) : nullptr;
  }
  if (at_hand(self)) {
    PyObject* index = plain_key(key);
    if (index) {
      PyObject* out = PyObject_GetItem(self->block, index);
      Py_DECREF(index);
      return wrap(out, &self, 1);
    }
    if (PyErr_Occurred()) return nullptr;
  }
  return PyObject_CallFunctionObjArgs(python.getitem, object, key, nullptr);
}

int assign(PyObject* object, PyObject* key, PyObject* value) {
  Array* self = as_array(object);
  if (!value) {
    PyErr_SetString(PyExc_ValueError, "elements of an array cannot be deleted");
    return -1;
  }
  if (at_hand(self)) {
    const bool is_text = PyUnicode_Check(value) || PyBytes_Check(value);
    PyObject* given = is_text ? value : plain(value, PY_SSIZE_T_MAX);
    PyObject* index = given ? plain_key(key) : nullptr;
    if (index) {
      const int done = may_write(self) ? PyObject_SetItem(self->block, index, given) : -1;
      Py_DECREF(index);
      return done;
    }
    if (PyErr_Occurred()) return -1;
  }
  PyObject* done = PyObject_CallFunctionObjArgs(python.setitem, object, key, value, unnamed(value),
                                                nullptr);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

PyObject* shape_of(Array* self) {
  if (!self->block && !self->layout) {  // of __new__ without __init__
    PyErr_SetString(PyExc_ValueError, "this array was never made: call skerry.xp.empty");
    return nullptr;
  }
  return self->block && self->whole ? PyObject_GetAttrString(self->block, "shape")
                                    : PyObject_GetAttrString(self->layout, "shape");
}

Py_ssize_t length(PyObject* object) {
  Array* self = as_array(object);
  if (at_hand(self)) return PyObject_Size(self->block);
  PyObject* shape = shape_of(self);
  if (!shape) return -1;
  Py_ssize_t count = -1;
  if (PyTuple_Size(shape) == 0)
    PyErr_SetString(PyExc_TypeError, "a 0-d array has no length");
  else
    count = PyLong_AsSsize_t(PyTuple_GetItem(shape, 0));
  Py_DECREF(shape);
  return count;
}

// One entry of the first axis, for iteration: negative numbers do not come here.
PyObject* item_of(PyObject* object, Py_ssize_t at) {
  Array* self = as_array(object);
  if (at_hand(self)) return wrap(PySequence_GetItem(self->block, at), &self, 1);
  PyObject* key = PyLong_FromSsize_t(at);
  if (!key) return nullptr;
  PyObject* out = PyObject_CallFunctionObjArgs(python.getitem, object, key, nullptr);
  Py_DECREF(key);
  return out;
}

PyObject* iterate(PyObject* object) {
  Array* self = as_array(object);
  if (!at_hand(self)) return PyObject_CallFunctionObjArgs(python.iterate, object, nullptr);
  if (as_ndarray(self->block)->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "a 0-d array cannot be iterated over");
    return nullptr;
  }
  return PySeqIter_New(object);
}

int contains(PyObject* object, PyObject* value) {
  Array* self = as_array(object);
  PyObject* given = at_hand(self) ? plain(value, PY_SSIZE_T_MAX) : nullptr;
  if (given) return PySequence_Contains(self->block, given);
  PyObject* equal = compare(object, value, Py_EQ);
  if (!equal) return -1;
  PyObject* any = PyObject_CallMethod(equal, "any", nullptr);
  Py_DECREF(equal);
  if (!any) return -1;
  const int found = PyObject_IsTrue(any);
  Py_DECREF(any);
  return found;
}

// ---- attributes --------------------------------------------------------------------------------

PyObject* or_none(PyObject* value) { return owned(value ? value : Py_None); }

PyObject* get_shape(PyObject* self, void*) { return shape_of(as_array(self)); }

int set_shape(PyObject* object, PyObject* shape, void*) {
  Array* self = as_array(object);
  if (self->whole && !self->block) {
    PyObject* block = PyObject_CallFunctionObjArgs(python.evaluate, object, nullptr);
    if (!block) return -1;
    Py_DECREF(block);
  }
  if (!shape) {
    PyErr_SetString(PyExc_AttributeError, "the shape of an array cannot be deleted");
    return -1;
  }
  if (!at_hand(self)) {
    PyObject* done = PyObject_CallFunctionObjArgs(python.set_shape, object, shape, nullptr);
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  if (!settle(self->block)) return -1;  // expressions read the block as it is
  set(&self->layout, nullptr);
  return PyObject_SetAttrString(self->block, "shape", shape);
}

PyObject* get_ndim(PyObject* object, void*) {
  Array* self = as_array(object);
  if (at_hand(self)) return PyLong_FromLong(as_ndarray(self->block)->ndim);
  PyObject* shape = shape_of(self);
  if (!shape) return nullptr;
  PyObject* out = PyLong_FromSsize_t(PyTuple_Size(shape));
  Py_DECREF(shape);
  return out;
}

PyObject* get_size(PyObject* object, void*) {
  Array* self = as_array(object);
  if (at_hand(self)) return PyLong_FromSsize_t(elements(self->block));
  PyObject* shape = shape_of(self);
  if (!shape) return nullptr;
  Py_ssize_t count = 1;
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); ++i)
    count *= PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
  Py_DECREF(shape);
  return PyLong_FromSsize_t(count);
}

PyObject* get_dtype(PyObject* object, void*) {
  Array* self = as_array(object);
  if (self->block) return PyObject_GetAttrString(self->block, "dtype");
  return or_none(self->dtype);
}

int set_dtype(PyObject* object, PyObject* value, void*) {
  Array* self = as_array(object);
  if (!self->block) {  // of an expression
    set(&self->dtype, value);
    return 0;
  }
  if (!self->whole || !value) {
    PyErr_SetString(PyExc_AttributeError, "the dtype cannot be set: take x.astype(dtype)");
    return -1;
  }
  if (!may_write(self)) return -1;
  set(&self->layout, nullptr);
  return PyObject_SetAttrString(self->block, "dtype", value);
}

PyObject* get_layout(PyObject* object, void*) {
  Array* self = as_array(object);
  if (!self->layout && at_hand(self)) {
    PyObject* shape = shape_of(self);
    if (!shape) return nullptr;
    self->layout = PyObject_CallFunctionObjArgs(python.whole_layout, shape, nullptr);
    Py_DECREF(shape);
    if (!self->layout) return nullptr;
  }
  return or_none(self->layout);
}

int set_layout(PyObject* object, PyObject* value, void*) {
  Array* self = as_array(object);
  PyObject* whole = value ? PyObject_GetAttrString(value, "whole") : nullptr;
  if (!whole) return -1;
  self->whole = PyObject_IsTrue(whole) == 1;
  Py_DECREF(whole);
  set(&self->layout, value);
  return 0;
}

PyObject* get_block(PyObject* object, void*) { return or_none(as_array(object)->block); }

int set_block(PyObject* object, PyObject* value, void*) {
  Array* self = as_array(object);
  if (value && value != Py_None && !is_ndarray(value)) {
    PyErr_SetString(PyExc_TypeError, "the own block is a numpy.ndarray");
    return -1;
  }
  uncount(self);
  set(&self->block, value);
  // Of what was computed late, or has become whole. Views have their array's memory.
  if (alone || !at_hand(self) || self->view || as_ndarray(value)->base || elements(value) < 128)
    return 0;
  const Py_ssize_t count = bytes_of(value);
  if (count < 0) return -1;
  count_whole(self, count);
  return 0;
}

PyObject* get_counted(PyObject* object, void*) {
  return PyLong_FromSsize_t(as_array(object)->counted);
}

// Of a result that is computed late, which holds at least as much until then.
int set_counted(PyObject* object, PyObject* value, void*) {
  Array* self = as_array(object);
  const Py_ssize_t bytes = value ? PyLong_AsSsize_t(value) : 0;
  if (PyErr_Occurred()) return -1;
  uncount(self);
  if (!alone && self->whole && bytes > 0) count_whole(self, bytes);
  return 0;
}

PyObject* get_ahead(PyObject* object, void*) {
  Array* self = as_array(object);
  return or_none(self->ahead_of == syncs_now ? self->ahead : nullptr);
}

int set_ahead(PyObject* object, PyObject* value, void*) {
  Array* self = as_array(object);
  if (value && value != Py_None && !PyDict_CheckExact(value)) {
    PyErr_SetString(PyExc_TypeError, "elements that were read ahead are in a dict");
    return -1;
  }
  set(&self->ahead, value);
  self->ahead_of = syncs_now;
  return 0;
}

PyObject* get_memory(PyObject* object, void*) {
  Array* self = as_array(object);
  if (self->memory) return owned(self->memory);
  if (self->root) return get_memory(reinterpret_cast<PyObject*>(self->root), nullptr);
  self->memory = PyObject_CallFunctionObjArgs(python.memory, nullptr);
  return self->memory ? owned(self->memory) : nullptr;
}

int set_memory(PyObject* object, PyObject* value, void*) {
  delist(as_array(object));
  set(&as_array(object)->memory, value);
  return 0;
}

template <PyObject* Array::*field>
PyObject* get_field(PyObject* object, void*) {
  return or_none(as_array(object)->*field);
}

template <PyObject* Array::*field>
int set_field(PyObject* object, PyObject* value, void*) {
  set(&(as_array(object)->*field), value);
  return 0;
}

template <bool Array::*field>
PyObject* get_flag(PyObject* object, void*) {
  return PyBool_FromLong(as_array(object)->*field);
}

template <bool Array::*field>
int set_flag(PyObject* object, PyObject* value, void*) {
  as_array(object)->*field = value && PyObject_IsTrue(value) == 1;
  return 0;
}

// Whole views made here.
PyObject* get_views(PyObject* object, void*) {
  PyObject* views = PyList_New(0);
  for (Array* view = as_array(object)->first; views && view; view = view->next)
    if (PyList_Append(views, reinterpret_cast<PyObject*>(view)) < 0) Py_CLEAR(views);
  return views;
}

// What NumPy's arrays have and ours do not: of a whole array that of its block.
PyObject* get_attribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_CallFunctionObjArgs(python.missing, object, name, nullptr);
}

// ---- functions ---------------------------------------------------------------------------------

// A function or method of NumPy's: straight to NumPy where all arrays are whole, otherwise to the
// function of skerry.xp.
struct Function {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* whole;   // what NumPy has: a function, or of a method its name
  PyObject* direct;  // the function behind NumPy's dispatch by types of arguments; null: none
  PyObject* spread;  // called with the arguments as they are
  PyObject* dict;
  bool is_method;
  bool is_attribute;  // not called: what NumPy's arrays have under that name
  bool is_lazy;  // large arrays, and those not evaluated yet, go to `spread`, which fuses
  bool fuses;    // those not evaluated yet
  bool writes;   // its first argument
};

struct Unwrapped {
  static constexpr int kMost = 8;
  Array* sources[kMost];  // references: what NumPy calls may empty the lists that hold them
  int count = 0;
  bool spread = false;   // some array is divided
  bool pending = false;  // some array is not evaluated yet
  bool large = false;

  Unwrapped() = default;
  Unwrapped(const Unwrapped&) = delete;
  Unwrapped& operator=(const Unwrapped&) = delete;
  ~Unwrapped() {
    while (count) Py_DECREF(reinterpret_cast<PyObject*>(sources[--count]));
  }
};

void note(Unwrapped& seen, Array* array) {
  if (seen.count < Unwrapped::kMost)
    seen.sources[seen.count++] = as_array(owned(reinterpret_cast<PyObject*>(array)));
  if (!array->whole)
    seen.spread = true;
  else if (!array->block)
    seen.pending = true;
  else if (elements(array->block) >= lazy_elements)
    seen.large = true;
}

bool holds_arrays(PyObject* value, Unwrapped& seen) {
  if (is_array(value)) {
    note(seen, as_array(value));
    return true;
  }
  const bool is_list = PyList_CheckExact(value);
  if (!is_list && !PyTuple_CheckExact(value)) return false;
  bool any = false;
  const Py_ssize_t length = PyObject_Size(value);
  for (Py_ssize_t i = 0; i < length; ++i) {
    PyObject* item = is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
    if (Py_TYPE(item) == &PyFloat_Type || Py_TYPE(item) == &PyLong_Type) continue;
    any |= holds_arrays(item, seen);
  }
  return any;
}

// A new reference to what NumPy takes for an argument; whole arrays are evaluated.
PyObject* unwrapped(PyObject* value) {
  if (is_array(value)) {
    if (as_array(value)->block) return owned(as_array(value)->block);
    return PyObject_CallFunctionObjArgs(python.evaluate, value, nullptr);
  }
  const bool is_list = PyList_CheckExact(value);
  if (!is_list && !PyTuple_CheckExact(value)) return owned(value);
  const Py_ssize_t length = PyObject_Size(value);
  PyObject* out = is_list ? PyList_New(length) : PyTuple_New(length);
  for (Py_ssize_t i = 0; out && i < length; ++i) {
    PyObject* item = unwrapped(is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i));
    if (!item) {
      Py_CLEAR(out);
    } else if (is_list) {
      PyList_SetItem(out, i, item);
    } else {
      PyTuple_SetItem(out, i, item);
    }
  }
  return out;
}

// Whether NumPy's dispatch by types, of Python functions that only list arguments, finds nothing in
// what it gets for an argument: then the function behind it is called at once.
bool is_plain(PyObject* value, int depth = 2) {
  PyTypeObject* type = Py_TYPE(value);
  if (is_ndarray(value) || value == Py_None || type == &PyFloat_Type || type == &PyLong_Type ||
      type == &PyBool_Type || type == &PyUnicode_Type || PyType_IsSubtype(type, generic_type))
    return true;
  const bool is_list = type == &PyList_Type;
  if ((!is_list && type != &PyTuple_Type) || !depth) return false;
  const Py_ssize_t length = PyObject_Size(value);
  constexpr Py_ssize_t kMost = 16;
  for (Py_ssize_t i = 0; i < length && i < kMost; ++i)
    if (!is_plain(is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i), depth - 1))
      return false;
  return length <= kMost;
}

bool settle_sources(const Unwrapped& seen) {
  for (int i = 0; i < seen.count; ++i)
    if (seen.sources[i]->whole && seen.sources[i]->block && !settle(seen.sources[i]->block))
      return false;
  return true;
}

PyObject* call_function(PyObject* object, PyObject* const* arguments, std::size_t flags,
                        PyObject* names) {
  auto* self = reinterpret_cast<Function*>(object);
  const Py_ssize_t given = PyVectorcall_NARGS(flags);
  const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  const Py_ssize_t total = given + named;
  constexpr Py_ssize_t kMost = 12;
  Unwrapped seen;
  bool nested[kMost];
  if (total > kMost) return PyObject_Vectorcall(self->spread, arguments, flags, names);
  for (Py_ssize_t i = 0; i < total; ++i) nested[i] = holds_arrays(arguments[i], seen);
  if (seen.spread || (seen.pending && (self->fuses || self->is_lazy)) ||
      (seen.large && self->is_lazy && !names))
    return PyObject_Vectorcall(self->spread, arguments, given, names);
  if (self->is_method && given == 0) {
    PyErr_Format(PyExc_TypeError, "%U of an array needs the array", self->whole);
    return nullptr;
  }
  bool has_out = self->writes || PyDict_Size(python.pending) != 0;
  if (self->writes && total && is_array(arguments[0]) && as_array(arguments[0])->frozen &&
      !may_write(as_array(arguments[0])))
    return nullptr;
  if (has_out && !settle_sources(seen)) return nullptr;
  if (self->writes && total && is_array(arguments[0]))  // resize() changes the shape
    set(&as_array(arguments[0])->layout, nullptr);
  PyObject* stack[kMost + 1];
  Py_ssize_t made = 0;
  bool fine = true;
  for (; made < total && fine; ++made) {
    stack[made + 1] = nested[made] ? unwrapped(arguments[made]) : owned(arguments[made]);
    fine = stack[made + 1] != nullptr;
  }
  PyObject* out = nullptr;
  if (fine) {
    const std::size_t count = static_cast<std::size_t>(given) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    bool direct = self->direct;
    for (Py_ssize_t i = 0; i < total && direct; ++i) direct = is_plain(stack[i + 1]);
    PyObject* function = direct ? self->direct : self->whole;
    out = self->is_method ? PyObject_VectorcallMethod(function, stack + 1, count, names)
                          : PyObject_Vectorcall(function, stack + 1, count, names);
    out = wrap_all(out, seen.sources, seen.count);
  }
  for (Py_ssize_t i = 0; i < made; ++i) Py_XDECREF(stack[i + 1]);
  return out;
}

PyObject* bind_function(PyObject* object, PyObject* instance, PyObject*) {
  auto* self = reinterpret_cast<Function*>(object);
  if (!instance || instance == Py_None) return owned(object);
  if (self->is_attribute) {
    Array* array = as_array(instance);
    if (at_hand(array)) return wrap(PyObject_GetAttr(array->block, self->whole), &array, 1);
    return PyObject_CallFunctionObjArgs(self->spread, instance, nullptr);
  }
  return self->is_method ? PyMethod_New(object, instance) : owned(object);
}

int set_attribute(PyObject* object, PyObject* instance, PyObject* value) {
  auto* self = reinterpret_cast<Function*>(object);
  Array* array = as_array(instance);
  if (!self->is_attribute || !at_hand(array) || !value) {
    PyErr_Format(PyExc_AttributeError, "%U of this array cannot be set", self->whole);
    return -1;
  }
  PyObject* given = unwrapped(value);
  if (!given) return -1;
  const int done = may_write(array) ? PyObject_SetAttr(array->block, self->whole, given) : -1;
  Py_DECREF(given);
  return done;
}

PyObject* function_attribute(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  const auto* function = reinterpret_cast<Function*>(self);
  if (found || function->is_method || function->is_attribute ||
      !PyErr_ExceptionMatches(PyExc_AttributeError))
    return found;
  PyErr_Clear();
  return PyObject_GetAttr(function->whole, name);
}

void free_function(PyObject* object) {
  auto* self = reinterpret_cast<Function*>(object);
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(self->whole);
  Py_XDECREF(self->direct);
  Py_XDECREF(self->spread);
  Py_XDECREF(self->dict);
  PyObject_Free(object);
  Py_DECREF(type);
}

// xp_function(whole, spread, kind): kind holds some of the words method, attribute, lazy, fuses,
// writes
PyObject* make_function(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Py_ssize_t length = 0;
  const char* kind = count == 3 ? PyUnicode_AsUTF8AndSize(arguments[2], &length) : nullptr;
  if (!kind) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "xp_function takes 3 arguments");
    return nullptr;
  }
  const std::string words(kind, static_cast<std::size_t>(length));
  const auto is = [&](const char* word) { return words.find(word) != std::string::npos; };
  Function* self = PyObject_New(
      Function, is("method") || is("attribute") ? method_type : function_type);
  if (!self) return nullptr;
  self->call = call_function;
  self->whole = owned(arguments[0]);
  self->direct = PyObject_GetAttrString(arguments[0], "_implementation");
  PyErr_Clear();
  self->spread = owned(arguments[1]);
  self->dict = nullptr;
  self->is_method = is("method");
  self->is_attribute = is("attribute");
  self->is_lazy = is("lazy");
  self->fuses = is("fuses");
  self->writes = is("writes");
  return reinterpret_cast<PyObject*>(self);
}

// ---- NumPy's protocols -------------------------------------------------------------------------

// The dict with ndarrays in place of arrays; a new reference.
PyObject* unwrapped_dict(PyObject* options) {
  PyObject* out = PyDict_New();
  PyObject *key, *value;
  for (Py_ssize_t at = 0; out && PyDict_Next(options, &at, &key, &value);) {
    PyObject* item = unwrapped(value);
    if (!item || PyDict_SetItem(out, key, item) < 0) Py_CLEAR(out);
    Py_XDECREF(item);
  }
  return out;
}

void look_into(PyObject* options, Unwrapped& seen) {
  PyObject *key, *value;
  if (options)
    for (Py_ssize_t at = 0; PyDict_Next(options, &at, &key, &value);) holds_arrays(value, seen);
}

// A ufunc of two operands that are at hand: a number of NumPy's times an array comes here, once for
// each turn of many a loop. Null without an error: another case.
PyObject* two_at_hand(PyObject* function, PyObject* a, PyObject* b) {
  for (PyObject* each : {a, b})
    if (PyTuple_CheckExact(each) || PyList_CheckExact(each)) return nullptr;
  PyObject* left = plain(a, lazy_elements);
  PyObject* right = left ? plain(b, lazy_elements) : nullptr;
  if (!right) return nullptr;
  PyObject* operands[] = {left, right};
  return wrap_all(PyObject_Vectorcall(function, operands, 2, nullptr), nullptr, 0);
}

// Whether a result is NumPy's array that the program gave for it, as in place.
bool is_output(PyObject* result, PyObject* options) {
  PyObject* out = options ? PyDict_GetItemString(options, "out") : nullptr;
  return result && out && PyTuple_Check(out) && PyTuple_Size(out) == 1 &&
         PyTuple_GetItem(out, 0) == result;
}

// __array_ufunc__(self, ufunc, method, *inputs, **options)
PyObject* array_ufunc(PyObject* self, PyObject* arguments, PyObject* options) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  const bool no_options = !options || PyDict_Size(options) == 0;
  if (count == 4 && no_options &&
      PyUnicode_CompareWithASCIIString(PyTuple_GetItem(arguments, 1), "__call__") == 0) {
    PyObject* out = two_at_hand(PyTuple_GetItem(arguments, 0), PyTuple_GetItem(arguments, 2),
                                PyTuple_GetItem(arguments, 3));
    if (out || PyErr_Occurred()) return out;
  }
  Unwrapped seen;
  for (Py_ssize_t i = 2; i < count; ++i) holds_arrays(PyTuple_GetItem(arguments, i), seen);
  look_into(options, seen);
  if (seen.spread || seen.pending || (seen.large && !options)) {
    PyObject* all = PyTuple_New(count + 1);
    if (!all) return nullptr;
    PyTuple_SetItem(all, 0, owned(self));
    for (Py_ssize_t i = 0; i < count; ++i)
      PyTuple_SetItem(all, i + 1, owned(PyTuple_GetItem(arguments, i)));
    PyObject* out = PyObject_Call(python.ufunc, all, options);
    Py_DECREF(all);
    return out;
  }
  if (PyDict_Size(python.pending) != 0 && !settle_sources(seen)) return nullptr;
  PyObject* inputs = PyTuple_New(count - 2);
  PyObject* named = options ? unwrapped_dict(options) : nullptr;
  for (Py_ssize_t i = 2; inputs && i < count; ++i) {
    PyObject* item = unwrapped(PyTuple_GetItem(arguments, i));
    if (!item)
      Py_CLEAR(inputs);
    else
      PyTuple_SetItem(inputs, i - 2, item);
  }
  PyObject* out = nullptr;
  if (inputs && (named || !options)) {
    PyObject *function = PyTuple_GetItem(arguments, 0), *name = PyTuple_GetItem(arguments, 1);
    const bool plain_call = PyUnicode_CompareWithASCIIString(name, "__call__") == 0;
    PyObject* method = plain_call ? owned(function) : PyObject_GetAttr(function, name);
    out = method ? PyObject_Call(method, inputs, named) : nullptr;
    if (!is_output(out, options)) out = wrap_all(out, seen.sources, seen.count);
    Py_XDECREF(method);
  }
  Py_XDECREF(inputs);
  Py_XDECREF(named);
  return out;
}

// Array.__array_ufunc__. NumPy's numbers and arrays look it up in the type of the other operand: if
// it is None, they leave the operator to that. Otherwise they call the ufunc, which looks it up
// again, and calls it. So at an operator of the interpreter it is None, which takes a third of the
// time. Operators in place are not left to others: they find the method.
struct Protocol {
  PyObject_HEAD
  PyObject* method;  // of arrays
};

PyObject* get_protocol(PyObject* object, PyObject* instance, PyObject* type) {
  PyObject* method = reinterpret_cast<Protocol*>(object)->method;
  if (instance && instance != Py_None)
    return PyObject_CallMethod(method, "__get__", "OO", instance, type ? type : Py_None);
  return owned(interpreter_at() == At::kOperator ? Py_None : method);
}

void free_protocol(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(reinterpret_cast<Protocol*>(object)->method);
  PyObject_Free(object);
  Py_DECREF(type);
}

// __array_function__(self, function, types, arguments, options)
PyObject* array_function(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "__array_function__ takes 4 arguments");
    return nullptr;
  }
  Unwrapped seen;
  holds_arrays(given[2], seen);
  look_into(given[3], seen);
  if (seen.spread || seen.pending)
    return PyObject_CallFunctionObjArgs(python.function, self, given[0], given[1], given[2],
                                        given[3], nullptr);
  if (PyDict_Size(python.pending) != 0 && !settle_sources(seen)) return nullptr;
  PyObject* arguments = unwrapped(given[2]);
  PyObject* options = unwrapped_dict(given[3]);
  PyObject* out = nullptr;
  if (arguments && options)
    out = wrap_all(PyObject_Call(given[0], arguments, options), seen.sources, seen.count);
  Py_XDECREF(arguments);
  Py_XDECREF(options);
  return out;
}

// ---- life --------------------------------------------------------------------------------------

PyObject* new_array(PyTypeObject*, PyObject*, PyObject*) {
  if (!ndarray_type) {
    PyErr_SetString(PyExc_ImportError, "import skerry.xp first");
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(allocate());
}

void free_array(PyObject* object) {
  Array* self = as_array(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->weak) PyObject_ClearWeakRefs(object);
  assert(!self->first);  // its views refer to it
  delist(self);
  uncount(self);
  Py_XDECREF(self->block);
  Py_XDECREF(self->layout);
  Py_XDECREF(self->dtype);
  Py_XDECREF(self->expression);
  Py_XDECREF(self->memory);
  Py_XDECREF(self->recipe);
  Py_XDECREF(self->strides);
  Py_XDECREF(self->ahead);
  PyObject_Free(object);
  Py_DECREF(type);
}

PyGetSetDef array_attributes[] = {
    {"shape", get_shape, set_shape, "Lengths of the axes.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of axes.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"dtype", get_dtype, set_dtype, "Type of the elements.", nullptr},
    {"layout", get_layout, set_layout, "Which rank has what.", nullptr},
    {"_block", get_block, set_block, nullptr, nullptr},
    {"_counted", get_counted, set_counted, nullptr, nullptr},
    {"_memory", get_memory, set_memory, nullptr, nullptr},
    {"_expression", get_field<&Array::expression>, set_field<&Array::expression>, nullptr, nullptr},
    {"_recipe", get_field<&Array::recipe>, set_field<&Array::recipe>, nullptr, nullptr},
    {"_strides", get_field<&Array::strides>, set_field<&Array::strides>, nullptr, nullptr},
    {"_is_view", get_flag<&Array::view>, set_flag<&Array::view>, nullptr, nullptr},
    {"_ahead", get_ahead, set_ahead, "Elements that were read ahead: {key: number}; None: none.",
     nullptr},
    {"_frozen", get_flag<&Array::frozen>, set_flag<&Array::frozen>, nullptr, nullptr},
    {"_whole_views", get_views, nullptr, nullptr, nullptr},
    {}};

PyMethodDef array_methods[] = {
    {"__complex__", as_complex, METH_NOARGS, nullptr},
    {"__array_ufunc__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_ufunc)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__array_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_function)),
     METH_FASTCALL, nullptr},
    {}};

PyMemberDef array_members[] = {
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(Array, weak), Py_READONLY, nullptr}, {}};

#define SLOT(name, function) {name, reinterpret_cast<void*>(function)}
#define OPERATOR(name, Name, op) \
  SLOT(Py_nb_##name, (binary<PyNumber_##Name, op>)), \
  SLOT(Py_nb_inplace_##name, (inplace<PyNumber_InPlace##Name, op>))

PyType_Slot array_slots[] = {
    OPERATOR(add, Add, kAdd), OPERATOR(subtract, Subtract, kSub),
    OPERATOR(multiply, Multiply, kMul), OPERATOR(true_divide, TrueDivide, kTruediv),
    OPERATOR(floor_divide, FloorDivide, kFloordiv), OPERATOR(remainder, Remainder, kMod),
    OPERATOR(and, And, kAnd), OPERATOR(or, Or, kOr), OPERATOR(xor, Xor, kXor),
    OPERATOR(lshift, Lshift, kLshift), OPERATOR(rshift, Rshift, kRshift),
    SLOT(Py_nb_power, power), SLOT(Py_nb_inplace_power, inplace_power),
    SLOT(Py_nb_divmod, divide_with_rest),
    SLOT(Py_nb_matrix_multiply, multiply_matrices),
    SLOT(Py_nb_inplace_matrix_multiply, (inplace<PyNumber_InPlaceMatrixMultiply, kMatmul>)),
    SLOT(Py_nb_negative, (unary<PyNumber_Negative, kNeg>)),
    SLOT(Py_nb_positive, (unary<PyNumber_Positive, kPos>)),
    SLOT(Py_nb_absolute, (unary<PyNumber_Absolute, kAbs>)),
    SLOT(Py_nb_invert, (unary<PyNumber_Invert, kInvert>)),
    SLOT(Py_nb_bool, as_bool), SLOT(Py_nb_int, converted<PyNumber_Long>),
    SLOT(Py_nb_float, converted<PyNumber_Float>), SLOT(Py_nb_index, converted<PyNumber_Index>),
    SLOT(Py_mp_subscript, subscript), SLOT(Py_mp_ass_subscript, assign),
    SLOT(Py_mp_length, length), SLOT(Py_sq_length, length), SLOT(Py_sq_item, item_of),
    SLOT(Py_sq_contains, contains), SLOT(Py_tp_iter, iterate),
    SLOT(Py_tp_richcompare, compare), SLOT(Py_tp_hash, PyObject_HashNotImplemented),
    SLOT(Py_tp_getattro, get_attribute), SLOT(Py_tp_new, new_array),
    SLOT(Py_tp_dealloc, free_array), SLOT(Py_tp_getset, array_attributes),
    SLOT(Py_tp_methods, array_methods), SLOT(Py_tp_members, array_members),
    {0, nullptr}};  // clang-format off
// clang-format on
PyType_Spec array_spec = {"skerry.xp.Array", sizeof(Array), 0, Py_TPFLAGS_DEFAULT, array_slots};

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Function, call), Py_READONLY, nullptr},
    {"__dictoffset__", Py_T_PYSSIZET, offsetof(Function, dict), Py_READONLY, nullptr},
    {"__wrapped__", Py_T_OBJECT_EX, offsetof(Function, whole), Py_READONLY, nullptr},
    {"_spread", Py_T_OBJECT_EX, offsetof(Function, spread), Py_READONLY, nullptr},
    {}};
// Pickled, and copied, by name.
PyObject* name_of_function(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(self, "__qualname__");
}

PyMethodDef function_methods[] = {{"__reduce__", name_of_function, METH_NOARGS, nullptr}, {}};

// No descriptors, as NumPy's ufuncs are none: a class may keep one, and an instance another.
PyType_Slot function_slots[] = {SLOT(Py_tp_call, PyVectorcall_Call),
                                SLOT(Py_tp_getattro, function_attribute),
                                SLOT(Py_tp_dealloc, free_function),
                                SLOT(Py_tp_members, function_members),
                                SLOT(Py_tp_methods, function_methods),
                                {0, nullptr}};
PyType_Spec function_spec = {"skerry.xp.Function", sizeof(Function), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, function_slots};
PyType_Slot method_slots[] = {SLOT(Py_tp_call, PyVectorcall_Call),
                              SLOT(Py_tp_descr_get, bind_function),
                              SLOT(Py_tp_descr_set, set_attribute),
                              SLOT(Py_tp_getattro, function_attribute),
                              SLOT(Py_tp_dealloc, free_function),
                              SLOT(Py_tp_members, function_members),
                              {0, nullptr}};
PyType_Spec method_spec = {"skerry.xp.Method", sizeof(Function), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                               Py_TPFLAGS_METHOD_DESCRIPTOR,
                           method_slots};

PyType_Slot protocol_slots[] = {SLOT(Py_tp_descr_get, get_protocol),
                                SLOT(Py_tp_dealloc, free_protocol),
                                {0, nullptr}};
PyType_Spec protocol_spec = {"skerry.xp.Protocol", sizeof(Protocol), 0, Py_TPFLAGS_DEFAULT,
                             protocol_slots};

// Puts a Protocol in the place of the method. False with an error.
bool make_protocol(PyObject* type) {
  PyObject* method = PyObject_GetAttrString(type, "__array_ufunc__");
  PyObject* kind = method ? PyType_FromSpec(&protocol_spec) : nullptr;
  Protocol* made = kind ? PyObject_New(Protocol, reinterpret_cast<PyTypeObject*>(kind)) : nullptr;
  Py_XDECREF(kind);
  if (!made) {
    Py_XDECREF(method);
    return false;
  }
  made->method = method;
  PyObject* protocol = reinterpret_cast<PyObject*>(made);
  const bool fine = PyObject_SetAttrString(type, "__array_ufunc__", protocol) == 0;
  Py_DECREF(protocol);
  return fine;
}

// ---- what Python says --------------------------------------------------------------------------

// Compares NdArray with what Python sees of numpy.zeros((3, 5))[1:, ::2].
bool check_struct(PyObject* view) {
  const NdArray* array = as_ndarray(view);
  PyObject* base = PyObject_GetAttrString(view, "base");
  const bool fine = base && array->ndim == 2 && array->dims[0] == 2 && array->dims[1] == 3 &&
                    array->strides[0] == 40 && array->strides[1] == 16 && array->base == base &&
                    (array->flags & 0xfff) == 0x500 &&  // aligned and writable
                    (as_ndarray(base)->flags & kOwn) == kOwn;
  Py_XDECREF(base);
  if (!fine && !PyErr_Occurred())
    PyErr_SetString(PyExc_ImportError,
                    "skerry.xp does not know this NumPy's arrays in memory: take NumPy 2");
  return fine;
}

bool take(PyObject* from, const char* name, PyObject** into) {
  PyObject* value = PyDict_GetItemString(from, name);
  if (!value) {
    PyErr_Format(PyExc_TypeError, "xp_setup: no %s", name);
    return false;
  }
  Py_XDECREF(*into);
  *into = owned(value);
  return true;
}

// xp_setup(a view to look at, numpy.generic, {name: function})
PyObject* setup(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "xp_setup takes 3 arguments");
    return nullptr;
  }
  if (!check_struct(given[0])) return nullptr;
  ndarray_type = Py_TYPE(given[0]);
  generic_type = reinterpret_cast<PyTypeObject*>(given[1]);
  Py_INCREF(ndarray_type);
  Py_INCREF(generic_type);
  PyObject* from = given[2];
  const struct {
    const char* name;
    PyObject** into;
  } wanted[] = {
      {"pending", &python.pending},     {"settle", &python.settle},
      {"evaluate", &python.evaluate},   {"whole_layout", &python.whole_layout},
      {"grown", &python.grown},         {"getitem", &python.getitem},
      {"setitem", &python.setitem},     {"iterate", &python.iterate},
      {"ufunc", &python.ufunc},         {"function", &python.function},
      {"missing", &python.missing},     {"memory", &python.memory},
      {"number", &python.number},       {"writable", &python.writable},
      {"crowded", &python.crowded},     {"moved", &python.moved},
      {"set_shape", &python.set_shape},
      {"binary_op", &python.binary_op},
      {"lt", &python.comparisons[Py_LT]}, {"le", &python.comparisons[Py_LE]},
      {"eq", &python.comparisons[Py_EQ]}, {"ne", &python.comparisons[Py_NE]},
      {"gt", &python.comparisons[Py_GT]}, {"ge", &python.comparisons[Py_GE]},
      {"float64", &python.floating[0]},   {"float32", &python.floating[1]},
      {"np.add", &python.ufuncs[kAdd]},   {"np.sub", &python.ufuncs[kSub]},
      {"np.mul", &python.ufuncs[kMul]},   {"np.truediv", &python.ufuncs[kTruediv]}};
  for (const auto& each : wanted)
    if (!take(from, each.name, each.into)) return nullptr;
  for (int op = 0; op < kOps; ++op)
    if (!take(from, kOpNames[op], &python.operators[op])) return nullptr;
  return owned(Py_None);
}

// xp_limits(ranks, lazy elements, bytes of results that are divided, bytes of new whole arrays
// after which the ranks look at what lives; 0: never)
PyObject* limits(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "xp_limits takes 4 arguments");
    return nullptr;
  }
  const Py_ssize_t ranks = PyLong_AsSsize_t(given[0]), lazy = PyLong_AsSsize_t(given[1]),
                   bytes = PyLong_AsSsize_t(given[2]), crowd = PyLong_AsSsize_t(given[3]);
  if (PyErr_Occurred()) return nullptr;
  alone = ranks == 1;
  group_ranks = ranks;
  lazy_elements = lazy;
  grown_bytes = alone ? PY_SSIZE_T_MAX : bytes;
  next_count = crowd > 0 ? created_bytes + crowd : PY_SSIZE_T_MAX;
  return owned(Py_None);
}

// Counts an array that a function made of no other. False with an error.
bool count_created(PyObject* made) {
  if (!made || !is_array(made) || as_array(made)->counted == 0) return made != nullptr;
  created_bytes += as_array(made)->counted;
  if (created_bytes < next_count) return true;
  PyObject* done = PyObject_CallFunctionObjArgs(python.crowded, nullptr);
  Py_XDECREF(done);
  return done != nullptr;
}

// xp_whole(ndarray): a new whole array that holds it; other objects as they are. All ranks call it.
PyObject* wrapped(PyObject*, PyObject* block) {
  if (!is_ndarray(block)) return owned(block);
  PyObject* out = make_whole(owned(block));
  if (!alone && !count_created(out)) Py_CLEAR(out);
  return out;
}

// xp_room(shape, dtype, operands): memory for a result: that of an operand of an expression which
// nothing else refers to. None: there is none. `operands` is a list.
PyObject* room(PyObject*, PyObject* const* given, Py_ssize_t count) {
  constexpr Py_ssize_t kMostDims = 32;
  if (count != 3 || !PyTuple_Check(given[0]) || !PyList_Check(given[2])) {
    PyErr_SetString(PyExc_TypeError, "xp_room takes a tuple, a dtype and a list");
    return nullptr;
  }
  Py_intptr_t dims[kMostDims];
  const Py_ssize_t ndim = PyTuple_Size(given[0]);
  if (ndim > kMostDims) return owned(Py_None);
  for (Py_ssize_t d = 0; d < ndim; ++d) dims[d] = PyLong_AsSsize_t(PyTuple_GetItem(given[0], d));
  if (PyErr_Occurred()) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_Size(given[2]); ++i) {
    PyObject* item = PyList_GetItem(given[2], i);
    if (is_ndarray(item) && Py_REFCNT(item) == 1 && !as_ndarray(item)->base &&
        (as_ndarray(item)->flags & kOwn) == kOwn &&
        is_like(item, given[1], static_cast<int>(ndim), dims))
      return owned(item);
  }
  return owned(Py_None);
}

// xp_bytes(): bytes of whole arrays now, and of all that were made.
PyObject* bytes_held(PyObject*, PyObject*) {
  return Py_BuildValue("nn", whole_bytes_now, whole_bytes_made);
}

#define FAST(name, function, flags) \
  {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), flags, nullptr}
PyMethodDef functions[] = {FAST("xp_setup", setup, METH_FASTCALL),
                           FAST("xp_limits", limits, METH_FASTCALL),
                           FAST("xp_function", make_function, METH_FASTCALL),
                           FAST("xp_whole", wrapped, METH_O),
                           FAST("xp_room", room, METH_FASTCALL),
                           FAST("xp_bytes", bytes_held, METH_NOARGS), {}};

}  // namespace
}  // namespace whole

void program_syncs(int members) {
  if (members == whole::group_ranks) ++whole::syncs_now;
}

void bind_whole(nb::module_& m) {
  using namespace whole;
  PyObject* type = PyType_FromSpec(&array_spec);
  if (!type || !make_protocol(type)) nb::raise_python_error();
  PyObject* function = PyType_FromSpec(&function_spec);
  PyObject* method = function ? PyType_FromSpec(&method_spec) : nullptr;
  if (!method || PyModule_AddFunctions(m.ptr(), functions) < 0) nb::raise_python_error();
  array_type = reinterpret_cast<PyTypeObject*>(type);
  function_type = reinterpret_cast<PyTypeObject*>(function);
  method_type = reinterpret_cast<PyTypeObject*>(method);
  m.attr("Whole") = nb::handle(type);
}

}  // namespace skpy
