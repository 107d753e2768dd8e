"""The array of skerry.xp: a block per rank, a layout that all ranks know, and a value or an
expression.

An array is *whole* (every rank has all of it) or *divided*. Whole arrays are NumPy's: the type is
written in C++ (python/src/whole.cpp) and passes operators, indices, methods and functions to NumPy
before anything here is asked; views are NumPy's views, elements NumPy's numbers. What is in these
files serves divided arrays, and whole ones that are still to be computed (`_block` is None).

How a function treats them: write it for divided arrays, in NumPy's spelling, and let
`_numpy.function(name, ...)` make what users call. It goes straight to NumPy if all array arguments
are whole, also those in lists and in `out=`. Otherwise it calls the function of that name in
`_names.FUNCTIONS`, whose arguments are NumPy's, or else in `_more`, `xp`, `xp.linalg` or `xp.fft`,
whose arguments are the standard's. A method: `_methods.method(name, function for divided arrays)`.
Such a function may still get whole arrays beside divided ones: `x.layout.whole`, `x._evaluate()`.
`_core.xp_whole(ndarray)` makes a whole array. Results without axes are NumPy's numbers in NumPy's
spelling, and arrays in the functions of xp itself.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from skerry import _core
from . import _exchange, _followers, _layout, _lazy, _options, _pages, _twins
from ._layout import Layout
from ._lazy import Expression
from ._type import Array
from ._types import Axes, Block, Box, Fill, Shape

class Loop:
    """How a program reads elements of a divided array, or rows. All ranks see the same."""

    __slots__ = ("last", "step", "run", "wait", "count")

    def __init__(self) -> None:
        self.last = -1  # place of the last element in C order, or of a row's first
        self.step = 0  # to it from the one before
        self.run = 0  # reads in a row with this step
        self.wait = 16  # as many are needed before elements are read ahead
        self.count = 256  # elements to read ahead next

    def read(self, place: int) -> None:
        """The program reads what lies there."""
        step = place - self.last
        self.run = self.run + 1 if step == self.step else 0
        self.last, self.step = place, step

    def left(self, size: int) -> int:
        """How many more reads with this step an array has, which is not 0."""
        return (size - 1 - self.last) // self.step if self.step > 0 else self.last // -self.step


class Memory:
    """What an array and its views share."""

    __slots__ = ("source", "open", "placed", "views", "followers", "family", "follows", "families",
                 "fixed", "reads", "paid", "work", "parts", "bytes", "loop", "rows", "ahead",
                 "pages", "__weakref__")  # fmt: skip

    def __init__(self, source: sk.Array | None = None) -> None:
        self.source = source  # the sk.Array whose memory it is; None: private memory
        self.open = source is not None  # the program may write it other than through xp
        self.placed = False  # the program of this rank knows which part it has
        self.views = _lazy.LiveArrays()  # arrays that look at it, without the first
        # Copies that follow what is written here (_followers.py), and their memories.
        self.followers: dict[int, Any] | None = None
        self.family: weakref.WeakSet[Memory] | None = None
        # Of a copy that follows others; None: it is none. And those that follow the same.
        self.follows: list[weakref.ref[_followers.Follower]] | None = None
        self.families: Sequence[weakref.WeakSet[Memory]] = ()
        self.fixed = False  # a copy that is never written, as what NumPy has
        self.reads = 0  # small parts that all ranks asked for (_storage.py)
        self.paid = 0  # for these, in units of an element's cost
        self.work = 0  # bytes of operands that lay here
        self.parts = 0  # small parts that were operands, or were written
        self.bytes = 0  # of the array that is no view; 0: nobody has asked yet
        self.loop: Loop | None = None  # of a program that reads elements; None: it has read none
        self.rows: Loop | None = None  # of one that reads rows or columns; None: it has read none
        # The array some of whose elements every rank has; None: there are none.
        self.ahead: weakref.ref[Array] | None = None
        # What others of the node can map; None: they cannot. Perhaps not the block any more.
        self.pages: _pages.Pages | None = None


def _of_pickle(block: Block) -> Array:
    # A function of this file, so that a program that reads a pickle has skerry.xp at hand.
    if not sk.initialized():
        return _core.xp_whole(block)
    return Array(block, _layout.whole(block.shape, _exchange.ranks()))  # perhaps on one rank alone


if TYPE_CHECKING:
    _Base = Array
else:
    _Base = object


class _Behaviour(_Base):  # type: ignore[misc]  # so that checkers know the attributes
    """What Array has beside the slots in C++."""

    def __init__(
        self,
        block: Any,
        layout: Any = None,
        memory: Memory | None = None,
        recipe: tuple[Any, ...] | None = None,
        **options: Any,
    ) -> None:
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
            self._frozen = recipe is not None and recipe[1]._frozen
            memory.views.add(self)

    @classmethod
    def _of(cls, expression: Expression, layout: Layout) -> Array:
        array = cls.__new__(cls)
        array.layout, array.dtype = layout, expression.dtype
        array._expression = expression
        if layout.whole:
            array._counted = prod(layout.shape) * array.dtype.itemsize
        expression.owner = weakref.ref(array)
        _lazy.pending.add(array)
        return array

    def _evaluate(self) -> Block:
        if self._block is None:
            self._settled(self._expression.evaluate())
        return self._block

    def _settled(self, block: Block) -> None:
        if self._block is None:
            self._block, self._expression = block, None
            _lazy.pending.discard(self)

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def itemsize(self) -> int:
        """Bytes of an element. Not collective."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements. Not collective."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """Where it lies: "cpu". Not collective."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Array:
        """This array: there is one device. Shape and dtype stay. Errors: ValueError (another
        device, or a stream). Not collective. Gathers: no."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"device {device!r}, stream {stream!r}: only 'cpu' without a stream")
        return self

    # ---- its data --------------------------------------------------------------------------------

    @property
    def local(self) -> Block:
        """The own block as a NumPy view, without a copy; not collective. `bounds` tells where it
        lies. After writes to it, sk.sync() before others use the array. Its shape is that of the
        block, its dtype that of the array. Errors: none. Gathers: no."""
        _followers.check_alone(self, "x.local")
        return self._opened(self._evaluate())

    def _opened(self, block: Block) -> Block:
        """The block, which the program may write from now on."""
        self._memory.open = True
        _lazy.settle(block)
        return block

    @property
    def bounds(self) -> Box:
        """(low, high) per dimension of the own block. Not collective."""
        self._memory.placed = True
        return self.layout.boxes[_exchange.job().rank]

    def numpy(self) -> Block:
        """A copy of all of it as a NumPy array on every rank. Collective. Shape and dtype: its own.
        Errors: none. Gathers: yes."""
        return np.array(gathered(self, "x.numpy()", explicit=True))

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def copy(self, order: str = "C") -> Array:
        return Array(self._evaluate().copy(), self.layout)

    def _here(self, what: str) -> Block:
        """The value, if this rank has all of it, and may use that."""
        if not self.layout.whole or (_options.values["strict"] and self.shape):
            raise sk.GatherError(
                f"{what} would gather a divided array without saying so: use x.numpy(), or x.local "
                "for the own block"
                + (" (this one is whole, but xp.options(strict=1))" if self.layout.whole else "")
            )
        _followers.check_alone(self, what)
        return self._evaluate()

    def _number(self, what: str) -> Block:
        """The own block of an array without axes, which every rank has."""
        if self.shape:
            kind = ValueError if what == "bool()" else TypeError  # as in NumPy
            raise kind(f"{what} takes a 0-d array: this one has shape {self.shape}")
        return self._evaluate()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Block:
        block = self._here("numpy.asarray(x)")
        if copy:
            return np.array(block, dtype)
        return np.asarray(self._opened(block), dtype, copy=copy)

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Array:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.layout.whole or (_options.values["strict"] and self.shape):
            raise sk.GatherError(
                "a divided array is not pickled, since each rank has a part: pickle x.numpy(), or "
                "write it with sk.save"
            )
        _followers.check_alone(self, "pickle")
        return _of_pickle, (self._evaluate().copy(),)

    def item(self, *index: Any) -> Any:
        """The number in an array of one element, or at an index."""
        if index:
            index = index[0] if isinstance(index[0], tuple) else index
            x = self if len(index) == self.ndim else self.reshape(-1)
            return x[index].item()
        if self.size != 1:
            raise ValueError(f"item() takes an array of one element: this one has {self.shape}")
        return self.numpy().item()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        block = self._opened(self._here("DLPack"))
        if copy:
            block, copy = block.copy(), None
        return block.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"array API version {api_version!r}: the newest here is 2024.12")
        return sys.modules[__package__]


for _name, _value in vars(_Behaviour).items():
    if _name not in ("__module__", "__dict__", "__weakref__", "__doc__"):
        setattr(Array, _name, _value)


def shows(
    out: Array,
    x: Array,
    make: Callable[[Array], Array],
    like: Block | None,
    fixed: bool = False,
    reshapes: bool = False,
) -> Array:
    """`out`, a copy of what NumPy makes as a view of x, as make(x) does. It follows what is written
    into x, and may not be written while x lives, or if `fixed` ever: whether a write reaches x must
    not depend on the number of ranks. `like`: NumPy's view of x's twin; None: one in C order.
    `reshapes`: as of _followers.follow. Collective."""
    if not out.shape:
        return out
    if out.layout.whole and like is not None:
        out._block = _twins.laid_like(out._evaluate(), like)
    _followers.follow(out, x, lambda it, layout: in_layout(make(it), layout), reshapes)
    out._frozen, out._strides = True, None if like is None else like.strides
    out._memory.fixed = fixed or x._memory.source is not None  # an sk.Array lives on
    return out


def may_not_write(x: Array) -> bool:
    """Whether NumPy shows by x something else that is in use, or that is never written."""
    memory = x._memory
    return x._frozen and (memory.fixed or memory.follows is None or _followers.shows_others(x))


def may_write(x: Array) -> None:
    """ValueError if x is a copy of what NumPy shows as a view, and what it came from lives."""
    if not x.layout.whole:
        forget_ahead(x._memory)
    if not x._frozen:
        return
    _followers.in_time(x)  # what it came from may live because x waits for it
    if may_not_write(x):
        raise ValueError(
            "assignment destination is read-only: this array is a copy of what NumPy shows as a "
            "view; take x.copy() to write it, or write the array that it came from"
        )
    x._frozen = False


def written(x: Array) -> None:
    """x was written. Collective if x is divided: then copies follow, where NumPy has views."""
    if not x.layout.whole and x._memory.followers:
        _followers.are_late(x._memory)


def forget_ahead(memory: Memory) -> None:
    """Elements that were read ahead are about to be others. A program that writes between reads
    has nothing of them, so that the next ones come later. Collective."""
    reference, memory.ahead = memory.ahead, None
    x = None if reference is None else reference()
    if x is None:
        return
    x._ahead = None
    if memory.loop is not None:
        memory.loop.wait, memory.loop.count = 8 * memory.loop.wait, 256


# ---- layouts of arrays ---------------------------------------------------------------------------


def _stays(dtype: DTypeLike) -> bool:
    """Objects are of one process, and fields have no functions for divided arrays."""
    dtype = np.dtype(dtype)
    return dtype.hasobject or dtype.names is not None


def new_layout(shape: Shape, dtype: DTypeLike, fixed: Iterable[int] = ()) -> Layout:
    """Where the elements of a new array go; axes in `fixed` stay undivided."""
    ranks = _exchange.ranks()
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    if ranks == 1 or nbytes <= _options.values["whole_bytes"] or _stays(dtype):
        return _layout.whole(shape, ranks)
    axis = _layout.free_axis(shape, ranks, frozenset(fixed))
    if axis is None:
        return _layout.whole(shape, ranks)
    return _layout.slabs(shape, axis, ranks)


def flat_layout(shape: Shape, dtype: DTypeLike) -> Layout:
    """Runs of whole first-axis entries in C order, however few."""
    ranks = _exchange.ranks()
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    if ranks == 1 or not shape or nbytes <= _options.values["whole_bytes"] or _stays(dtype):
        return _layout.whole(shape, ranks)
    return _layout.slabs(shape, 0, ranks)


def layout_of(storage: sk.Array) -> Layout:
    shape = tuple(storage.shape)
    boxes = tuple(
        tuple((int(low), int(high)) for low, high in storage.distribution(rank))
        for rank in _exchange.job().members
    )
    return _layout.Layout(shape, boxes)


def of_storage(storage: sk.Array) -> Array:
    """The array with the memory of an sk.Array. Collective."""
    if storage.mirrored:
        raise sk.InvalidError(
            "skerry.xp takes distributed arrays: copy_to() one from this mirrored one"
        )
    if storage.group.ranks != _exchange.job().members:
        raise sk.InvalidError(
            f"skerry.xp takes arrays of all {_exchange.ranks()} ranks: this one's group has "
            f"{len(storage.group)}; copy_to() one of all"
        )
    storage.sync()
    x = Array(storage.local, layout_of(storage))
    x._memory = Memory(storage)
    return x


def empty_block(layout: Layout, dtype: DTypeLike) -> Block:
    return np.empty(layout.extent(_exchange.job().rank), dtype)


def made(layout: Layout, dtype: DTypeLike, fill: Fill) -> Array:
    """A new array; fill(block, box) writes the own block."""
    block = empty_block(layout, dtype)
    fill(block, layout.boxes[_exchange.job().rank])
    if layout.whole and block.nbytes <= _options.values["whole_bytes"]:
        return _core.xp_whole(block)
    return Array(block, layout)


def of_numpy(values: Any, layout: Layout | None = None) -> Array:
    """An array of what every rank has. The array may keep `values` itself."""
    values = np.asarray(values)
    if layout is None:
        layout = new_layout(values.shape, values.dtype)
        if layout.whole:
            return _core.xp_whole(np.asarray(values))
    if layout.whole:
        return Array(values, layout)
    box = layout.boxes[_exchange.job().rank]
    return Array(np.ascontiguousarray(values[tuple(slice(*bounds) for bounds in box)]), layout)


def of_data(values: Block, fresh: bool) -> Array:
    """An array of the program's data, which every rank has. Unless it is `fresh`, made for this, it
    is copied: each rank copies its part."""
    layout = new_layout(values.shape, values.dtype)
    if layout.whole:
        return of_numpy(values if fresh else values.copy())
    part = values[tuple(slice(*bounds) for bounds in layout.boxes[_exchange.job().rank])]
    pages = _pages_for(layout, values.dtype)
    if pages is None:
        return Array(np.array(part, order="C", copy=None if fresh else True), layout)
    block = pages.bytes.view(values.dtype).reshape(part.shape)
    block[...] = part
    x = Array(block, layout)
    x._memory.pages = pages
    return x


def _pages_for(layout: Layout, dtype: np.dtype[Any]) -> _pages.Pages | None:
    """Memory for the own block of a large array, where it may become whole without a copy."""
    here = _exchange.job()
    (low, high), *_ = layout.boxes[here.rank]
    row = prod(layout.shape[1:]) * dtype.itemsize
    if (high - low) * row < _pages.LEAST_BYTES:
        return None
    if not _layout.ordered(layout):
        return None
    try:
        return _pages.Pages((high - low) * row, low * row)
    except OSError:  # the usual memory will do
        return None


_LEAST_PARTS = 64
_LEAST_TIMES = 16  # a small part is so many times smaller than the array


def works(x: Array) -> None:
    """Notes that x is an operand; being divided pays for that, but not of small parts of an array,
    one in each turn of a loop. x may be whole when this returns. Collective."""
    if x.layout.whole:
        return
    nbytes, memory = x.nbytes, x._memory
    memory.work += nbytes
    if x._is_view:
        used(x, memory, nbytes)


def used(x: Array, memory: Memory, nbytes: int) -> None:
    """Counts a part of x, of so many bytes, if it is small. Collective."""
    if not memory.bytes:
        memory.bytes = origin(x).nbytes
    if nbytes * _LEAST_TIMES > memory.bytes:
        return
    memory.parts += 1
    if memory.parts >= _LEAST_PARTS and not memory.parts & (memory.parts - 1):
        for told in small_parts:
            told(x)


def origin(x: Array) -> Array:
    """The array that x is a view of, as far as it is known."""
    while x._is_view and x._recipe is not None:
        x = x._recipe[1]
    return x


# Called as (array) when a program has used many small parts of its memory.
small_parts: list[Callable[[Array], None]] = []

# Called as (array, bytes) before a part of a divided array is brought to all ranks.
small_reads: list[Callable[[Array, int], None]] = []


def in_layout(x: Array, layout: Layout) -> Block:
    """The own block of x in another layout; a view where nothing had to move."""
    block = x._evaluate()
    if x.layout == layout:
        return block
    if layout.whole and x._is_view:
        for told in small_reads:
            told(x, x.nbytes)
        if x.layout == layout:
            return x._evaluate()
    if layout.whole and (owner := x.layout.owner) is not None:
        mine = block if owner == _exchange.job().rank else None
        return _exchange.from_rank(owner, mine, x.shape, x.dtype)
    if layout.whole and x.layout.largest * x.itemsize > _PIECE_BYTES:
        return _collected(x, layout)
    parts = _exchange.bring(block, x.layout, layout, views=True)
    extent = layout.extent(_exchange.job().rank)
    if len(parts) == 1 and parts[0][1].shape == extent:
        part = parts[0][1]
        return part if np.may_share_memory(part, block) else part.copy()
    array = np.empty(extent, x.dtype)
    for box, part in parts:
        array[box] = part
    return array


_PIECE_BYTES = 4 << 20  # that a rank publishes at a time: more takes fresh pages, and out of cache


def _collected(x: Array, layout: Layout) -> Block:
    """All of a large divided array on every rank: of each rank's block a part at a time."""
    array = np.empty(x.shape, x.dtype)
    collect(x, layout, array)
    return array


def collect(x: Array, layout: Layout, array: Block, all_parts: bool = True) -> None:
    """Writes a large divided array, whose blocks are rows, into `array`, or only what other nodes
    have. Collective."""
    block, rank = x._evaluate(), _exchange.job().rank
    pieces = -(-x.layout.largest * x.itemsize // _PIECE_BYTES)
    for piece in range(pieces):
        boxes = []
        for (low, high), *others in x.layout.boxes:
            ends = [low + (high - low) * at // pieces for at in (piece, piece + 1)]
            some = ends[1] > ends[0]
            boxes.append(((ends[0], ends[1]), *others) if some else ((0, 0),) * x.ndim)
        source = Layout(x.shape, tuple(boxes))
        begin = boxes[rank][0][0] - x.layout.boxes[rank][0][0]
        part = block[begin : begin + source.extent(rank)[0]]
        if not part.size:
            part = empty_block(source, x.dtype)
        for box, values in _exchange.bring(part, source, layout, views=True, into=array):
            if all_parts:
                array[box] = values


def redistributed(x: Array, layout: Layout) -> Array:
    """x in another layout: itself, or a new array."""
    if x.layout == layout:
        return x
    block = in_layout(x, layout)
    return x if x.layout == layout else Array(block, layout)  # reading it may have made it whole


def _check_gather(x: Array, what: str) -> None:
    if x.nbytes > _options.values["gather_bytes"]:
        raise sk.GatherError(
            f"{what} collects the whole array on every rank: {x.nbytes} bytes, more than "
            f"{_options.values['gather_bytes']}; raise it by xp.options(gather_bytes=...)"
        )


def gathered(x: Array, what: str, explicit: bool = False) -> Block:
    """All of x on every rank, perhaps without a copy: read it only."""
    if x.layout.whole:
        return x._evaluate()
    if not explicit:
        _check_gather(x, what)
    _exchange.count_gather()
    return in_layout(x, _layout.whole(x.shape, _exchange.ranks()))


def undivided(x: Array, axes: Iterable[int]) -> Array:
    """x in a layout in which every rank has whole `axes`."""
    if not _layout.divided(x.layout, axes):
        return x
    layout = new_layout(x.shape, x.dtype, axes)
    if layout.whole:
        _check_gather(x, "an operation along all divided axes")
        _exchange.count_gather()
    return redistributed(x, layout)


def spread(x: Array) -> Array:
    """A result that every rank computed, divided as a new array is; moves nothing."""
    return redistributed(x, new_layout(x.shape, x.dtype)) if x.layout.whole else x


def as_array(x: Any, name: str = "an operand") -> Array:
    if isinstance(x, Array):
        return _followers.in_time(x)
    if isinstance(x, (np.ndarray, np.generic)):
        array = of_numpy(x)
        # The program may change its ndarray: computed at once. Its numbers it cannot change.
        array._memory.open = isinstance(x, np.ndarray)
        return array
    if isinstance(x, sk.Array):
        return of_storage(x)
    raise TypeError(f"{name} is a {type(x).__name__}: give an array (xp.asarray makes one)")


def some(x: Array) -> bool:
    """Whether some element is true; the same answer on every rank. Collective if x is divided."""
    here = bool(x._evaluate().any())
    return here if x.layout.whole else _exchange.on_any_rank(here)


def axis_of(axis: SupportsIndex, ndim: int) -> int:
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def axes_of(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Sorted non-negative axes; None: all."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    out = tuple(sorted(axis_of(a, ndim) for a in axes))
    if len(set(out)) != len(out):
        raise ValueError(f"axis {axis} names one twice")
    return out
