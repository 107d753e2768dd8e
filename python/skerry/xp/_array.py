"""The array of skerry.xp: a block per rank, a layout that all ranks know, and a value or an
expression.

An array is *whole* (every rank has all of it) or *divided*. Whole arrays are NumPy's: the type is
written in C++ (python/src/whole.cpp) and passes operators, indices, methods and functions to NumPy
before anything here is asked; views are NumPy's views, elements NumPy's numbers. What is in these
files serves divided arrays, and whole ones that are still to be computed (`_block` is None).

How a function treats them: write it for divided arrays, in NumPy's spelling, and let
`_numpy.function(name)` make what users call. It goes straight to NumPy if all array arguments are
whole, also those in lists and in `out=`, and calls the function of that name in `_more`, `xp`,
`xp.linalg` or `xp.fft` otherwise. A method: `_methods.method(name, function for divided arrays)`.
Such a function may still get whole arrays beside divided ones: `x.layout.whole`, `x._evaluate()`.
`_core.xp_whole(ndarray)` makes a whole array. Results without axes are NumPy's numbers in NumPy's
spelling, and arrays in the functions of xp itself.
"""

import operator
import weakref

import numpy as np

import skerry as sk
from skerry import _core
from . import _exchange, _layout, _lazy, _options

Array = _core.Whole


class Memory:
    """What an array and its views share."""

    __slots__ = ("source", "open", "views")

    def __init__(self, source=None):
        self.source = source  # the sk.Array whose memory it is; None: private memory
        self.open = source is not None  # the program may write it other than through xp
        self.views = _lazy.LiveArrays()  # arrays that look at it, without the first


def _of_pickle(block):
    # A function of this file, so that a program that reads a pickle has skerry.xp at hand.
    return _core.xp_whole(block)


class _Behaviour:
    """What Array has beside the slots in C++."""

    def __init__(self, block, layout=None, memory=None, recipe=None, **options):
        if not isinstance(block, np.ndarray):  # NumPy's spelling: ndarray(shape, dtype)
            self._take(block, layout, memory, options)
            return
        if not block.size and block.shape != layout.extent(_exchange.job().rank):
            block = empty_block(layout, block.dtype)  # it had lost its shape
        self.layout = layout
        self._block = block if type(block) is np.ndarray else np.asarray(block)
        if memory is not None:
            self._is_view, self._memory = True, memory
            self._recipe = recipe  # of a view: (function, array, argument) that make it
            memory.views.add(self)

    def _take(self, shape, dtype, buffer, options):
        """A new array as numpy.ndarray(shape, dtype, buffer=None) makes one."""
        from ._creation import empty

        dtype, buffer = options.pop("dtype", dtype), options.pop("buffer", buffer)
        if buffer is not None or options.keys() - {"order"}:
            raise sk.GatherError("ndarray() of a buffer: use numpy.ndarray and np.asarray")
        made = empty(shape, dtype="float64" if dtype is None else dtype)
        self.layout, self._block = made.layout, made._block

    @classmethod
    def _of(cls, expression, layout):
        array = cls.__new__(cls)
        array.layout, array.dtype = layout, expression.dtype
        array._expression = expression
        expression.owner = weakref.ref(array)
        _lazy.pending.add(array)
        return array

    def _evaluate(self):
        if self._block is None:
            self._settled(self._expression.evaluate())
        return self._block

    def _settled(self, block):
        if self._block is None:
            self._block, self._expression = block, None
            _lazy.pending.discard(self)

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def itemsize(self):
        return self.dtype.itemsize

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    @property
    def device(self):
        return "cpu"

    def to_device(self, device, /, *, stream=None):
        """This array: there is one device."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"device {device!r}, stream {stream!r}: only 'cpu' without a stream")
        return self

    # ---- its data --------------------------------------------------------------------------------

    @property
    def local(self):
        """The own block as a NumPy view, without a copy; not collective. `bounds` tells where it
        lies. After writes to it, sk.sync() before others use the array."""
        return self._opened(self._evaluate())

    def _opened(self, block):
        """The block, which the program may write from now on."""
        self._memory.open = True
        _lazy.settle(block)
        return block

    @property
    def bounds(self):
        """(low, high) per dimension of the own block."""
        return self.layout.boxes[_exchange.job().rank]

    @property
    def array(self):
        """The sk.Array with the same memory; of a computed array, one that takes its memory over.
        Collective."""
        if self._is_view:
            raise sk.InvalidError("a view is no sk.Array: take xp.asarray(x, copy=True).array")
        if self._memory.source is None:
            self._move_to(new_storage(self.shape, self.dtype, self.layout))
        return self._memory.source

    def _move_to(self, storage):
        """Takes the memory of `storage`. Views follow, where they can without communication."""
        layout, views, old = layout_of(storage), list(self._memory.views), self._evaluate()
        followers = _following(self, old)
        storage.local[...] = in_layout(self, layout)
        storage.sync()
        _lazy.settle(old)
        self._memory = Memory(storage)
        self.layout, self._block = layout, storage.local
        _follow(self, followers)
        for view in views:  # an array's views come after it
            function, parent, argument = view._recipe or (None, None, None)
            if parent is not None and parent._memory is self._memory:
                followers = _following(view, view._block) if view.layout.whole else []
                again = function(parent, argument)
                view._memory = self._memory
                view.layout, view._block = again.layout, again._block
                self._memory.views.add(view)
                _follow(view, followers)

    def numpy(self):
        """A copy of all of it as a NumPy array on every rank. Collective."""
        return np.array(gathered(self, "x.numpy()", explicit=True))

    def tolist(self):
        return self.numpy().tolist()

    def copy(self, order="C"):
        return Array(self._evaluate().copy(), self.layout)

    def _here(self, what):
        """The value, if this rank has all of it."""
        if not self.layout.whole:
            raise sk.GatherError(
                f"{what} would gather a divided array without saying so: use x.numpy(), or x.local "
                "for the own block"
            )
        return self._evaluate()

    def _number(self, what):
        """The own block of an array without axes, which every rank has."""
        if self.shape:
            raise TypeError(f"{what} takes a 0-d array: this one has shape {self.shape}")
        return self._evaluate()

    def __array__(self, dtype=None, copy=None):
        block = self._here("numpy.asarray(x)")
        if copy:
            return np.array(block, dtype)
        return np.asarray(self._opened(block), dtype, copy=copy)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        if not self.layout.whole:
            raise sk.GatherError(
                "a divided array is not pickled, since each rank has a part: pickle x.numpy(), or "
                "write it with sk.save"
            )
        return _of_pickle, (self._evaluate().copy(),)

    def item(self, *index):
        """The number in an array of one element, or at an index."""
        if index:
            x = self if len(index) == self.ndim else self.reshape(-1)
            return x[index[0] if isinstance(index[0], tuple) else index].item()
        if self.size != 1:
            raise ValueError(f"item() takes an array of one element: this one has {self.shape}")
        return self.numpy().item()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        block = self._opened(self._here("DLPack"))
        if copy:
            block, copy = block.copy(), None
        return block.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self):
        return self._evaluate().__dlpack_device__()

    def __array_namespace__(self, /, *, api_version=None):
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"array API version {api_version!r}: the newest here is 2024.12")
        from skerry import xp

        return xp


for _name, _value in vars(_Behaviour).items():
    if _name not in ("__module__", "__dict__", "__weakref__", "__doc__"):
        setattr(Array, _name, _value)


# ---- views that NumPy made of whole arrays -------------------------------------------------------


def _following(x, block):
    """Views of x as (view, key, order of axes): what makes each of them of x."""
    found = []
    for view in x._whole_views:
        key = _key_of(view._evaluate(), block)
        if key is None:
            raise sk.InvalidError(
                f"an array of which there is a view of shape {view.shape} that is no slice cannot "
                "become an sk.Array: drop the view, or take x.copy().array"
            )
        found.append((view, *key))
    return found


def _follow(x, followers):
    from ._indexing import view as slice_of
    from ._manipulation import permute_dims

    for view, key, axes in followers:
        again = permute_dims(slice_of(x, key), axes)
        view.layout, view._block = again.layout, again._block


def _key_of(part, block):
    """The basic key and order of axes that make `part`, a view of `block`; None if there is none.
    Works on distinct strides, which every C-contiguous block has but for axes of length 1."""
    if not part.size:
        return None
    offset = part.__array_interface__["data"][0] - block.__array_interface__["data"][0]
    start, order = [0] * block.ndim, sorted(range(block.ndim), key=lambda d: -block.strides[d])
    for d in order:
        if block.shape[d] > 1:
            start[d], offset = divmod(offset, block.strides[d])
    if offset or any(not 0 <= at < n for at, n in zip(start, block.shape, strict=True)):
        return None
    key, source = list(start), {}
    for axis, (n, stride) in enumerate(zip(part.shape, part.strides, strict=True)):
        if n == 1:
            continue
        fits = [d for d in order if block.shape[d] > 1 and stride % block.strides[d] == 0]
        if not fits or not isinstance(key[fits[0]], int):
            return None
        d = fits[0]
        step = stride // block.strides[d]
        if not step or not 0 <= start[d] + (n - 1) * step < block.shape[d]:
            return None
        key[d], source[d] = (start[d], n, step), axis
    made = [source[d] for d in range(block.ndim) if d in source]
    ones = [axis for axis, n in enumerate(part.shape) if n == 1]
    places = made + ones  # new axes come last, then all take their places
    return (*key, *(None for _ in ones)), [places.index(axis) for axis in range(part.ndim)]


def not_writable():
    """The error of writing a copy of what NumPy would show as a view."""
    return ValueError(
        "assignment destination is read-only: this array is a copy of what NumPy shows as a view; "
        "take x.copy() to write it, or write the array that it came from"
    )


# ---- layouts of arrays ---------------------------------------------------------------------------


def _stays(dtype):
    """Objects are of one process, and fields have no functions for divided arrays."""
    dtype = np.dtype(dtype)
    return dtype.hasobject or dtype.names is not None


def new_layout(shape, dtype, fixed=()):
    """Where the elements of a new array go; axes in `fixed` stay undivided."""
    ranks = _exchange.ranks()
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if ranks == 1 or nbytes <= _options.values["whole_bytes"] or _stays(dtype):
        return _layout.whole(shape, ranks)
    axis = _layout.free_axis(shape, ranks, frozenset(fixed))
    if axis is None:
        return _layout.whole(shape, ranks)
    return _layout.slabs(shape, axis, ranks)


def flat_layout(shape, dtype):
    """Runs of whole first-axis entries in C order, however few."""
    ranks = _exchange.ranks()
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if ranks == 1 or not shape or nbytes <= _options.values["whole_bytes"] or _stays(dtype):
        return _layout.whole(shape, ranks)
    return _layout.slabs(shape, 0, ranks)


def layout_of(storage):
    shape = tuple(storage.shape)
    boxes = tuple(
        tuple((int(low), int(high)) for low, high in storage.distribution(rank))
        for rank in range(_exchange.ranks())
    )
    return _layout.Layout(shape, boxes)


def new_storage(shape, dtype, layout):
    """An sk.Array, divided as the layout is if it is one of slabs."""
    ranks, grid = _exchange.ranks(), None
    for axis, n in enumerate(shape):
        if n and not layout.whole and layout == _layout.slabs(shape, axis, ranks):
            grid = [min(n, ranks) if d == axis else 1 for d in range(len(shape))]
    return sk.empty(shape, dtype, grid=grid)


def empty_block(layout, dtype):
    return np.empty(layout.extent(_exchange.job().rank), dtype)


def made(layout, dtype, fill):
    """A new array; fill(block, box) writes the own block."""
    block = empty_block(layout, dtype)
    fill(block, layout.boxes[_exchange.job().rank])
    return Array(block, layout)


def of_numpy(values, layout=None):
    """An array of what every rank has. The array may keep `values` itself."""
    values = np.asarray(values)
    if layout is None:
        layout = new_layout(values.shape, values.dtype)
    if layout.whole:
        return Array(values, layout)
    box = layout.boxes[_exchange.job().rank]
    return Array(np.ascontiguousarray(values[tuple(slice(*bounds) for bounds in box)]), layout)


def in_layout(x, layout):
    """The own block of x in another layout; a view where nothing had to move."""
    block = x._evaluate()
    if x.layout == layout:
        return block
    parts = _exchange.bring(block, x.layout, layout)
    extent = layout.extent(_exchange.job().rank)
    if len(parts) == 1 and parts[0][1].shape == extent:
        return parts[0][1]
    array = np.empty(extent, x.dtype)
    for box, part in parts:
        array[box] = part
    return array


def redistributed(x, layout):
    """x in another layout: itself, or a new array."""
    if x.layout == layout:
        return x
    return Array(in_layout(x, layout), layout)


def _check_gather(x, what):
    if x.nbytes > _options.values["gather_bytes"]:
        raise sk.GatherError(
            f"{what} collects the whole array on every rank: {x.nbytes} bytes, more than "
            f"{_options.values['gather_bytes']}; raise it by xp.options(gather_bytes=...)"
        )


def gathered(x, what, explicit=False):
    """All of x on every rank, perhaps without a copy: read it only."""
    if x.layout.whole:
        return x._evaluate()
    if not explicit:
        _check_gather(x, what)
    _exchange.count_gather()
    return in_layout(x, _layout.whole(x.shape, _exchange.ranks()))


def undivided(x, axes):
    """x in a layout in which every rank has whole `axes`."""
    if not _layout.divided(x.layout, axes):
        return x
    layout = new_layout(x.shape, x.dtype, axes)
    if layout.whole:
        _check_gather(x, "an operation along all divided axes")
        _exchange.count_gather()
    return redistributed(x, layout)


def spread(x):
    """A result that every rank computed, divided as a new array is; moves nothing."""
    return redistributed(x, new_layout(x.shape, x.dtype)) if x.layout.whole else x


def as_array(x, name="an operand"):
    if isinstance(x, Array):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        array = of_numpy(x)
        array._memory.open = True  # the program may change its ndarray: computed at once
        return array
    if isinstance(x, sk.Array):
        from ._creation import asarray

        return asarray(x)
    raise TypeError(f"{name} is a {type(x).__name__}: give an array (xp.asarray makes one)")


def axis_of(axis, ndim):
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def axes_of(axis, ndim):
    """Sorted non-negative axes; None: all."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    out = tuple(sorted(axis_of(a, ndim) for a in axes))
    if len(set(out)) != len(out):
        raise ValueError(f"axis {axis} names one twice")
    return out
