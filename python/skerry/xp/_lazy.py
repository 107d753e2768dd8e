"""Elementwise expressions: kept until a value is needed, then computed block by block.

A chain of operations over large arrays is evaluated in pieces that stay in the cache, so it reads
memory once. Evaluation touches the own block only and never communicates: what other ranks have is
fetched when the expression is made. So any rank may evaluate at any time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NoReturn, TypeAlias

import numpy as np

from skerry import _core
from ._type import Array
from ._types import Block, Cut, Function, Shape

BLOCK_ELEMENTS = 1 << 16  # of one piece: 512 KiB of float64
LEAST_ELEMENTS = 1 << 15  # smaller blocks are computed at once
# The same of whole arrays: NumPy's own statements are faster while their operands stay in a cache.
# Alike on all ranks, set by what their machines have (_exchange._measure_bound).
least_whole = 1 << 19
MOST_NODES = 48  # longer expressions are computed when made
MOST_QUICK_NODES = 4
# What takes about as long as a write. Not exp and log: softmax, which reads the exponentials once
# more, took 1.6 times as long without their block, and sum(exp(x)) takes 1.1 to 1.4 with it.
_QUICK = frozenset(
    (np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.square, np.maximum,
     np.minimum, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
     np.sqrt)
)  # fmt: skip


# A box, the leaves in it, and where results that outlive the run go there.
_Cell: TypeAlias = tuple[Cut, list[Block], list[Any]]


class LiveArrays:
    """Arrays that are still in use, by identity: == of arrays compares elements."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Array]] = {}

    def add(self, array: Array) -> None:
        key, references = id(array), self._references
        references[key] = weakref.ref(array, lambda _: references.pop(key, None))

    def discard(self, array: Array) -> None:
        self._references.pop(id(array), None)

    def __iter__(self) -> Iterator[Array]:
        found = [reference() for reference in list(self._references.values())]
        return (array for array in found if array is not None)

    def __len__(self) -> int:
        return len(self._references)


pending = LiveArrays()  # arrays whose expression is not evaluated yet


class Parts:
    """An operand in several pieces: (slices, array) that cover the block together."""

    __slots__ = ("pieces", "shape", "dtype")

    def __init__(
        self, pieces: Sequence[tuple[Cut, Block]], shape: Shape, dtype: np.dtype[Any]
    ) -> None:
        self.pieces, self.shape, self.dtype = pieces, shape, dtype

    def joined(self) -> Block:
        array = np.empty(self.shape, self.dtype)
        for box, piece in self.pieces:
            array[box] = piece
        return array


class Expression:
    """function(*arguments, out=...) over a block. Arguments: Expression, Parts, array, scalar."""

    __slots__ = ("function", "arguments", "shape", "dtype", "nodes", "value", "owner", "errors",
                 "reduced")  # fmt: skip

    nodes: int
    arguments: Sequence[Any]
    value: Block | None
    owner: weakref.ref[Array] | None

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        shape: Shape,
        dtype: np.dtype[Any],
    ) -> None:
        self.errors = np.geterr()  # of the line that wrote it
        arguments = [
            argument.evaluate()
            if isinstance(argument, Expression) and argument.errors != self.errors
            else argument
            for argument in arguments
        ]
        self.function, self.arguments = function, arguments
        self.shape, self.dtype = shape, dtype
        self.nodes = 1 + sum(a.nodes for a in arguments if isinstance(a, Expression))
        self.value = None  # the block, once evaluated
        self.owner = None  # weak reference to the Array with this value; None: nobody needs it
        self.reduced = False

    def evaluate(self, out: Block | None = None) -> Block:
        """The block. Inner expressions whose arrays are still in use get their values too."""
        if self.value is None:
            with np.errstate(**self.errors):
                _Program(self, out).run()
            self.arguments = ()
        assert self.value is not None  # run() keeps the root's
        return self.value

    def reduce(
        self, ufunc: np.ufunc, axes: tuple[int, ...], keep: bool | None = None, **options: Any
    ) -> Block:
        """ufunc.reduce(block, axes, keepdims=True), piece by piece. `keep`: whether the block is
        kept, or computed again, should it be needed. None: it is if that takes longer than to write
        it, and from the second reduction on."""
        if self.value is not None:
            return ufunc.reduce(self.value, axis=axes, keepdims=True, **options)
        if keep is None:
            keep = self.reduced or not self.quick()
        self.reduced = True
        with np.errstate(**self.errors):
            return _Program(self, None, keep).run(_Reduction(ufunc, axes, self, options))

    def quick(self) -> bool:
        """Whether computing it again takes about as long as reading it. What has an array in use
        gets its value the first time."""
        return (
            self.nodes <= MOST_QUICK_NODES
            and self.function in _QUICK
            and all(
                argument.quick()
                for argument in self.arguments
                if isinstance(argument, Expression)
                and argument.value is None
                and (argument.owner is None or argument.owner() is None)
            )
        )

    def apart(self, memory: Block) -> bool:
        """Whether every leaf either shares nothing with an array or is that array."""
        if self.value is not None:
            return _apart(self.value, memory)
        return all(_apart(argument, memory) for argument in self.arguments)

    def reads(self, memory: Block) -> bool:
        """Whether some leaf may share memory with an array."""
        if self.value is not None:
            return np.may_share_memory(self.value, memory)
        return any(_reads(argument, memory) for argument in self.arguments)


def _reads(argument: Any, memory: Block) -> bool:
    if isinstance(argument, Expression):
        return argument.reads(memory)
    if isinstance(argument, Parts):
        return any(np.may_share_memory(piece, memory) for _, piece in argument.pieces)
    return isinstance(argument, np.ndarray) and np.may_share_memory(argument, memory)


def _apart(argument: Any, memory: Block) -> bool:
    if isinstance(argument, Expression):
        return argument.apart(memory)
    if isinstance(argument, Parts):
        return all(_apart(piece, memory) for _, piece in argument.pieces)
    if not isinstance(argument, np.ndarray) or not np.may_share_memory(argument, memory):
        return True
    return argument.shape == memory.shape and (
        argument.__array_interface__["data"] == memory.__array_interface__["data"]
        and argument.strides == memory.strides
        and argument.dtype == memory.dtype
    )


def settle(memory: Block) -> None:
    """Evaluates what is pending and reads `memory`, which is about to change."""
    for array in pending:
        expression = array._expression
        if expression is not None and expression.reads(memory):
            array._evaluate()


class _Moved:
    """The expression of an array whose value went into another one, since nobody had a name for
    it."""

    nodes, value, dtype, shape, owner = 1, None, None, None, None

    def evaluate(self, *arguments: Any, **options: Any) -> NoReturn:
        raise RuntimeError(
            "an array was used after another one had taken its value, or its memory, since it had "
            "no name: compiled code must hold a second reference to it, or take x.copy()"
        )

    reduce = reads = evaluate


MOVED: Any = _Moved()


def evaluate_into(expression: Expression, out: Block, array: Array) -> None:
    """Computes an expression into `out`, of its shape, where that reads nothing of `out` that was
    written before. `array` has it as its value, or as a part of it, and is not used afterwards."""
    assert array._expression is not None
    array._expression.owner = None  # no block of its own, if it is a part
    array._expression = MOVED
    pending.discard(array)
    settle(out)
    if expression.dtype == out.dtype and expression.apart(out):
        expression.evaluate(out)
    else:
        np.copyto(out, expression.evaluate(), casting="same_kind")


class _Reduction:
    """A block's reduction along axes, of which pieces come one after another in C order."""

    def __init__(
        self, ufunc: np.ufunc, axes: tuple[int, ...], block: Expression, options: dict[str, Any]
    ) -> None:
        self.ufunc, self.axes, self.options = ufunc, axes, options
        self.whole = len(axes) == len(block.shape)
        shape = tuple(1 if d in axes else n for d, n in enumerate(block.shape))
        dtype = ufunc.reduce(np.ones(1, block.dtype), **options).dtype
        self.result = np.empty(shape, dtype)
        self.parts: list[Any] = []  # of all axes: one of each piece

    def take(self, piece: Block, cell: Sequence[slice], place: Sequence[slice]) -> None:
        """A piece of a cell, where `place` says."""
        if self.whole:
            axis = 0 if piece.ndim == 1 else None
            self.parts.append(self.ufunc.reduce(piece, axis=axis, **self.options))
            return
        box = [
            slice(cut.start + at.start, cut.start + at.stop)
            for cut, at in zip(cell, place, strict=False)
        ]
        box += cell[len(box) :]
        part = self.ufunc.reduce(piece, axis=self.axes, keepdims=True, **self.options)
        into = self.result[tuple(slice(0, 1) if d in self.axes else at for d, at in enumerate(box))]
        if all(box[d].start == 0 for d in self.axes):
            into[...] = part
        else:
            self.ufunc(into, part, out=into)

    def taken(self) -> Block:
        """The result, when all pieces were taken."""
        if self.whole:
            self.result[...] = self.ufunc.reduce(np.array(self.parts), axis=0, **self.options)
        return self.result


def _room(shape: Shape, dtype: np.dtype[Any], operands: list[Any]) -> Block:
    """A block for a result: an operand that nobody else has, or a new one."""
    found = _core.xp_room(shape, dtype, operands)
    return np.empty(shape, dtype) if found is None else found


def _operands_of(node: Expression) -> list[Any]:
    """The operands that the result may overwrite, piece by piece: none if an error may end the
    evaluation, which could be tried again, or if the function does more than one pass."""
    safe = isinstance(node.function, np.ufunc) and "raise" not in node.errors.values()
    return node.arguments if safe and isinstance(node.arguments, list) else []


def _spoiled(*arguments: Any) -> NoReturn:
    raise RuntimeError("the evaluation of this array was interrupted: compute it again")


class _Program:
    """An expression as a list of steps in the order of evaluation."""

    def __init__(self, root: Expression, out: Block | None, keep: bool = True) -> None:
        self.shape = root.shape
        self.leaves: list[Any] = []
        self.scalars: list[tuple[int, Any]] = []
        self.steps: list[tuple[Function, list[int], int, Block | None, np.dtype[Any]]] = []
        self.leaf_slots: list[int] = []
        self.values = 0
        self.made: list[tuple[Expression, Block]] = []  # results that outlive the run
        self.slots: dict[int, int] = {}
        root.value = None
        self.root, self.root_out, self.keeps_root = root, out, keep
        self.overwrites = False  # the result takes an operand's memory
        self._add(root, True)

    def _slot(self) -> int:
        self.values += 1
        return self.values - 1

    def _add(self, node: Any, root: bool = False) -> int:
        if isinstance(node, Expression) and node.value is not None:
            node = node.value
        known = self.slots.get(id(node))
        if known is not None:
            return known
        if isinstance(node, Expression):
            target = self._target(node, root)  # before its operands are noted
            inputs = [self._add(argument) for argument in node.arguments]
            if target is not None:
                self.made.append((node, target))
            slot = self._slot()
            self.steps.append((node.function, inputs, slot, target, node.dtype))
        else:
            slot = self._slot()
            if isinstance(node, (np.ndarray, Parts)) and node.shape != ():
                self.leaves.append(node)
                self.leaf_slots.append(slot)
            else:
                self.scalars.append((slot, node))
        self.slots[id(node)] = slot
        return slot

    def _target(self, node: Expression, root: bool) -> Block | None:
        """Where a result goes that outlives the run; None: it does not."""
        if root and self.root_out is not None:
            return self.root_out if self.keeps_root else None
        if root and self.keeps_root:
            operands = _operands_of(node)
            target = _room(node.shape, node.dtype, operands)
            self.overwrites = any(each is target for each in operands)
            return target
        if not root and node.owner is not None and node.owner() is not None:
            return _room(node.shape, node.dtype, [])
        return None

    def run(self, reduction: _Reduction | None = None) -> Any:
        """Computes what was asked for, and the reduction of it."""
        scratch = self._scratch()
        try:
            for cell in self._cells():
                self._run_cell(cell, scratch, reduction)
        except BaseException:
            if self.overwrites:
                self.root.function = _spoiled
            raise
        for node, array in self.made:
            node.value = array
            if node.owner is not None:
                owner = node.owner()
                if owner is not None:
                    owner._settled(array)
        return None if reduction is None else reduction.taken()

    def _scratch(self) -> dict[int, Block]:
        """A buffer of one piece for each inner result; those that are read no more are reused."""
        last = {}
        for at, (_, inputs, _, _, _) in enumerate(self.steps):
            for slot in inputs:
                last[slot] = at
        free: dict[np.dtype[Any], list[Block]] = {}
        buffers: dict[int, Block] = {}
        for at, (_, inputs, slot, target, dtype) in enumerate(self.steps):
            if target is None:
                spare = free.get(dtype)
                buffers[slot] = spare.pop() if spare else np.empty(BLOCK_ELEMENTS, dtype)
            for used in set(inputs):
                if last[used] == at and used in buffers:
                    free.setdefault(buffers[used].dtype, []).append(buffers[used])
        return buffers

    def _cells(self) -> Iterator[_Cell]:
        """Boxes in which every leaf is one array: (box, leaves, targets), in C order."""
        edges = [{0, n} for n in self.shape]
        for leaf in self.leaves:
            if isinstance(leaf, Parts):
                skip = len(self.shape) - len(leaf.shape)
                for box, _ in leaf.pieces:
                    for d, bounds in enumerate(box, skip):
                        if leaf.shape[d - skip] == self.shape[d]:
                            edges[d].update((bounds.start, bounds.stop))
        cuts = [sorted(each) for each in edges]
        for corner in product(*(list(zip(cut[:-1], cut[1:], strict=True)) for cut in cuts)):
            box = tuple(slice(*bounds) for bounds in corner)
            shape = tuple(high - low for low, high in corner)
            leaves = [_inside(leaf, box, shape, self.shape) for leaf in self.leaves]
            targets = [None if step[3] is None else step[3][box] for step in self.steps]
            yield box, leaves, targets

    def _run_cell(
        self, cell: _Cell, scratch: dict[int, Block], reduction: _Reduction | None
    ) -> None:
        box, leaves, targets = cell
        shape = tuple(bounds.stop - bounds.start for bounds in box)
        arrays = leaves + [target for target in targets if target is not None]
        may_flatten = reduction is None or reduction.whole
        if may_flatten and all(a.flags.c_contiguous and a.shape == shape for a in arrays):
            leaves = [a.reshape(-1) for a in leaves]
            targets = [None if a is None else a.reshape(-1) for a in targets]
            shape = (int(np.prod(shape, dtype=np.int64)),)
        values: list[Any] = [None] * self.values
        for slot, scalar in self.scalars:
            values[slot] = scalar
        steps = [
            (function, inputs, slot, target)
            for (function, inputs, slot, _, _), target in zip(self.steps, targets, strict=True)
        ]
        inputs_of_all = list(zip(self.leaf_slots, leaves, strict=True))
        views: dict[int, Block] = {}
        seen = None
        # One operation reads nothing twice: NumPy's one call is faster than one a piece.
        at_once = len(steps) == 1 and reduction is None
        everything: Cut = tuple(slice(0, n) for n in shape)
        for block, size in [(everything, shape)] if at_once else _blocks(shape):
            if size != seen:
                count, seen = int(np.prod(size, dtype=np.int64)), size
                views = {slot: buffer[:count].reshape(size) for slot, buffer in scratch.items()}
            for slot, leaf in inputs_of_all:
                values[slot] = leaf[block]
            for function, inputs, slot, target in steps:
                out = values[slot] = views[slot] if target is None else target[block]
                # By name: maximum and minimum warn of a third operand.
                if len(inputs) == 2:
                    function(values[inputs[0]], values[inputs[1]], out=out)
                else:
                    function(*[values[i] for i in inputs], out=out)
            if reduction is not None:
                reduction.take(out, box, block)


def _inside(leaf: Any, box: Cut, shape: Shape, whole: Shape) -> Block:
    """The part of a leaf in a box, with the box's shape."""
    skip = len(whole) - len(leaf.shape)
    bounds = tuple(
        slice(0, 1) if leaf.shape[d] == 1 and whole[d + skip] != 1 else box[d + skip]
        for d in range(len(leaf.shape))
    )
    if isinstance(leaf, Parts):
        bounds, leaf = next(
            (_shift(bounds, at), piece)
            for at, piece in leaf.pieces
            if all(a.start <= b.start and b.stop <= a.stop for a, b in zip(at, bounds, strict=True))
        )
    return (
        np.broadcast_to(leaf[bounds], shape)
        if leaf.ndim < len(shape)
        or any(b.stop - b.start != n for b, n in zip(bounds, shape[skip:], strict=True))
        else leaf[bounds]
    )


def _shift(bounds: Cut, origin: Cut) -> Cut:
    return tuple(
        slice(b.start - at.start, b.stop - at.start) for b, at in zip(bounds, origin, strict=True)
    )


def _blocks(shape: Shape) -> Iterator[tuple[Cut, Shape]]:
    """(slices, shape) of pieces of at most BLOCK_ELEMENTS that cover a shape, in C order."""
    axis, inner = len(shape) - 1, 1
    while axis > 0 and inner * shape[axis] <= BLOCK_ELEMENTS:
        inner *= shape[axis]
        axis -= 1
    rows = max(1, BLOCK_ELEMENTS // inner)
    tail = shape[axis + 1 :]
    for outer in np.ndindex(*shape[:axis]):
        lead = tuple(slice(i, i + 1) for i in outer)
        for low in range(0, shape[axis], rows):
            high = min(low + rows, shape[axis])
            yield (*lead, slice(low, high)), (*(1,) * axis, high - low, *tail)
