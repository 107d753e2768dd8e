# Made by tools/make_stubs.py: do not edit.
from collections.abc import Iterator, Sequence
from os import PathLike
from types import ModuleType
from typing import Any, SupportsIndex, final

import numpy as np
from numpy.typing import DTypeLike
from typing_extensions import Self

import skerry as sk
from ._array import Memory
from ._layout import Layout
from ._lazy import Expression
from ._types import Axes, Block, Box, Operand, Shape


@final
class Array:
    """An array of all ranks: whole (every rank has all of it) or divided.

    Whole arrays are NumPy's in all respects; divided ones have the same operators and
    methods, which compute where the data is. Operators are elementwise: shapes are broadcast,
    dtypes promoted as by NumPy. All members use an array alike: operators and methods are
    collective unless they say otherwise. None of them gathers a divided array unless it says
    so. docs/xp.md says what moves when.
    """

    @property
    def T(self) -> Array:
        """The axes of the shape reversed; a view of this dtype. Errors: none. Not collective.
        Gathers: no."""

    def all(
        self, axis: Axes = None, out: Array | None = None, keepdims: bool = ..., *, where: Any = ...
    ) -> Any:
        """Whether all elements along axes are true. Shape: without these axes, or with length 1
        if keepdims; of all axes a number. dtype: bool. Errors: AxisError, ValueError (`out`
        does not fit). Collective. Gathers: no."""

    def any(
        self, axis: Axes = None, out: Array | None = None, keepdims: bool = ..., *, where: Any = ...
    ) -> Any:
        """Whether some element along axes is true. Shape: without these axes, or with length 1
        if keepdims; of all axes a number. dtype: bool. Errors: AxisError, ValueError (`out`
        does not fit). Collective. Gathers: no."""

    def argmax(
        self, axis: SupportsIndex | None = None, out: Array | None = None, *, keepdims: bool = ...
    ) -> Any:
        """Where the greatest element is; the first of several. Shape: without these axes, or
        with length 1 if keepdims; of all axes a number. dtype: int64. Errors: AxisError,
        ValueError (`out` does not fit), ValueError (no elements). Collective. Gathers: no."""

    def argmin(
        self, axis: SupportsIndex | None = None, out: Array | None = None, *, keepdims: bool = ...
    ) -> Any:
        """Where the least element is; the first of several. Shape: without these axes, or with
        length 1 if keepdims; of all axes a number. dtype: int64. Errors: AxisError,
        ValueError (`out` does not fit), ValueError (no elements). Collective. Gathers: no."""

    def argpartition(
        self,
        kth: Any,
        axis: SupportsIndex | None = -1,
        kind: str = 'introselect',
        order: Any = None,
    ) -> Array:
        """Positions that put element kth in its place along an axis; the shape as here. dtype:
        int64. Errors: AxisError, ValueError (kth). Collective. Gathers: no."""

    def argsort(
        self,
        axis: SupportsIndex | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: bool | None = None,
    ) -> Array:
        """The positions along an axis in order of their elements; the shape as here. dtype:
        int64. Errors: AxisError. Collective. Gathers: no."""

    @property
    def array(self) -> sk.Array:
        """The sk.Array with the same memory; of a computed array, one that takes its memory
        over. Collective. Shape and dtype: its own. Errors: InvalidError (a view, or some rank
        has a view of it that is no slice), DtypeError (no sk.Array has the dtype). Gathers:
        no."""

    def astype(
        self,
        dtype: DTypeLike,
        order: str = 'K',
        casting: str = 'unsafe',
        subok: bool = True,
        copy: bool = True,
    ) -> Array:
        """With another dtype; the shape as here. Errors: TypeError (`casting` does not allow it,
        or imaginary parts would be lost). Collective. Gathers: no."""

    @property
    def base(self) -> Any:
        """NumPy's, of whole arrays. Not collective. Gathers: no."""

    @property
    def bounds(self) -> Box:
        """(low, high) per dimension of the own block. Not collective."""

    def byteswap(self, inplace: bool = False) -> Array:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    def choose(self, choices: Any, out: Array | None = None, mode: str = 'raise') -> Array:
        """Of each place the element of choices[x]. Shape: broadcast. dtype: of the choices.
        Errors: ValueError (a number out of range). Collective. Gathers: no."""

    def clip(
        self, min: Any = None, max: Any = None, out: Array | None = None, **options: Any
    ) -> Array:
        """Elementwise, between bounds. Shape: broadcast. dtype: what holds all of them. Errors:
        ValueError (shapes do not fit). Collective. Gathers: no."""

    def compress(
        self, condition: Any, axis: SupportsIndex | None = None, out: Array | None = None
    ) -> Array:
        """Entries along an axis for which the 1-d condition holds; the dtype as here, a shorter
        shape. Errors: AxisError. Collective. Gathers: the condition."""

    def conj(self) -> Array:
        """Complex conjugates; shape and dtype as here. Errors: none. Collective. Gathers: no."""

    def conjugate(self) -> Array:
        """Complex conjugates; shape and dtype as here. Errors: none. Collective. Gathers: no."""

    def copy(self, order: str = 'C') -> Array:
        """A copy, of this shape and dtype. Errors: none. Not collective. Gathers: no."""

    @property
    def ctypes(self) -> Any:
        """NumPy's, of whole arrays. Not collective. Gathers: no."""

    def cumprod(
        self,
        axis: SupportsIndex | None = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """The products of ever more elements along an axis (None: of the flat array). Shape: as
        here, or flat. dtype: as of prod(). Errors: AxisError, ValueError (`out` does not
        fit). Collective. Gathers: no."""

    def cumsum(
        self,
        axis: SupportsIndex | None = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """The sums of ever more elements along an axis (None: of the flat array). Shape: as
        here, or flat. dtype: as of sum(). Errors: AxisError, ValueError (`out` does not fit).
        Collective. Gathers: no."""

    @property
    def data(self) -> Any:
        """NumPy's, of whole arrays. Not collective. Gathers: no."""

    @property
    def device(self) -> str:
        """Where it lies: "cpu". Not collective."""

    def diagonal(
        self, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1
    ) -> Array:
        """The diagonals along two axes, as a last axis of the shape; the dtype as here. Errors:
        AxisError, ValueError. Collective. Gathers: no."""

    def dot(self, other: Any, out: Array | None = None) -> Any:
        """Products over the last axis here and the last but one of `other`. Shape: the other
        axes. dtype: what holds both. Errors: ValueError (shapes do not fit). Collective.
        Gathers: no."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements. Not collective."""
    @dtype.setter
    def dtype(self, value: Any, /) -> None: ...

    def dump(self, file: Any) -> None:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    def dumps(self) -> bytes:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    def fill(self, value: complex) -> None:
        """Sets all elements; shape and dtype stay. Errors: ValueError (a copy that may not be
        written), TypeError (the value does not fit). Collective. Gathers: no."""

    @property
    def flags(self) -> Any:
        """NumPy's, of whole arrays. Not collective. Gathers: no."""

    @property
    def flat(self) -> Any:
        """NumPy's, of whole arrays. Not collective. Gathers: no."""

    def flatten(self, order: str = 'C') -> Array:
        """A copy of shape (size,), of this dtype. Errors: GatherError (of a divided array in
        another order than C). Collective. Gathers: no."""

    def getfield(self, dtype: DTypeLike, offset: int = 0) -> Array:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    @property
    def imag(self) -> Array:
        """Imaginary parts, in this shape, of a floating dtype. Errors: none. Not collective.
        Gathers: no."""
    @imag.setter
    def imag(self, value: Any, /) -> None: ...

    def item(self, *index: Any) -> Any:
        """The number in an array of one element, or at an index, of Python's type for the dtype.
        Errors: ValueError (a shape of several elements), IndexError. Collective. Gathers: one
        element."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element. Not collective."""

    @property
    def layout(self) -> Layout:
        """Which rank has what. Not collective."""
    @layout.setter
    def layout(self, value: Any, /) -> None: ...

    @property
    def local(self) -> Block:
        """The own block as a NumPy view, without a copy; not collective. `bounds` tells where it
        lies. After writes to it, sk.sync() before others use the array. Its shape is that of
        the block, its dtype that of the array. Errors: none. Gathers: no."""

    @property
    def mT(self) -> Array:
        """The last two axes of the shape exchanged; a view of this dtype. Errors: ValueError
        (fewer than 2 dimensions). Not collective. Gathers: no."""

    def max(
        self,
        axis: Axes = None,
        out: Array | None = None,
        keepdims: bool = ...,
        initial: complex = ...,
        where: Any = ...,
    ) -> Any:
        """The greatest along axes. Shape: without these axes, or with length 1 if keepdims; of
        all axes a number. dtype: this one's. Errors: AxisError, ValueError (`out` does not
        fit), ValueError (no elements). Collective. Gathers: no."""

    def mean(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = ...,
        where: Any = ...,
    ) -> Any:
        """The mean along axes. Shape: without these axes, or with length 1 if keepdims; of all
        axes a number. dtype: `dtype`; by default this one's, float64 for whole numbers.
        Errors: AxisError, ValueError (`out` does not fit). Collective. Gathers: no."""

    def min(
        self,
        axis: Axes = None,
        out: Array | None = None,
        keepdims: bool = ...,
        initial: complex = ...,
        where: Any = ...,
    ) -> Any:
        """The least along axes. Shape: without these axes, or with length 1 if keepdims; of all
        axes a number. dtype: this one's. Errors: AxisError, ValueError (`out` does not fit),
        ValueError (no elements). Collective. Gathers: no."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements. Not collective."""

    @property
    def ndim(self) -> int:
        """Number of axes. Not collective."""

    def nonzero(self) -> tuple[Array, ...]:
        """The indices of elements that are not zero: an array of shape (count,) per dimension.
        dtype: int64. Errors: ValueError (no dimension). Collective. Gathers: no."""

    def numpy(self) -> Block:
        """A copy of all of it as a NumPy array on every rank. Collective. Shape and dtype: its
        own. Errors: none. Gathers: yes."""

    def partition(
        self, kth: Any, axis: SupportsIndex = -1, kind: str = 'introselect', order: Any = None
    ) -> None:
        """Puts element kth in its place along an axis; shape and dtype stay. Errors: AxisError,
        ValueError (kth). Collective. Gathers: no."""

    def prod(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = ...,
        initial: complex = ...,
        where: Any = ...,
    ) -> Any:
        """The product along axes. Shape: without these axes, or with length 1 if keepdims; of
        all axes a number. dtype: `dtype`; by default this one's, 64 bits for whole numbers.
        Errors: AxisError, ValueError (`out` does not fit). Collective. Gathers: no."""

    def put(self, indices: Any, values: Any, mode: str = 'raise') -> None:
        """x.flat[indices] = values; shape and dtype stay. Errors: IndexError, ValueError (a copy
        that may not be written). Collective. Gathers: the indices and values."""

    def ravel(self, order: str = 'C') -> Array:
        """Of shape (size,) and this dtype, in C order. Errors: GatherError (of a divided array
        in another order than C). Collective. Gathers: no."""

    @property
    def real(self) -> Array:
        """Real parts, in this shape, of a floating dtype. Errors: none. Not collective. Gathers:
        no."""
    @real.setter
    def real(self, value: Any, /) -> None: ...

    def repeat(self, repeats: Any, axis: SupportsIndex | None = None) -> Array:
        """Each element several times; the dtype as here, a longer shape. Errors: AxisError,
        ValueError. Collective. Gathers: the repeats."""

    def reshape(self, *shape: Any, order: str = 'C', copy: bool | None = None) -> Array:
        """In another shape, in C order; the dtype as here. Errors: ValueError (sizes differ, or
        a copy is needed), GatherError (a divided array in another order). Collective.
        Gathers: no."""

    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    def round(self, decimals: SupportsIndex = 0, out: Array | None = None) -> Array:
        """Elementwise, to so many decimals; shape and dtype as here. Errors: AxisError,
        ValueError (`out` does not fit). Collective. Gathers: no."""

    def searchsorted(self, v: Any, side: str = 'left', sorter: Any = None) -> Any:
        """Where elements of v belong here. Shape: that of v. dtype: int64. Errors: ValueError
        (not 1-d). Collective. Gathers: this array."""

    def setfield(self, val: Any, dtype: DTypeLike, offset: int = 0) -> None:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    def setflags(
        self, *, write: bool | None = None, align: bool | None = None, uic: bool | None = None
    ) -> None:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    @property
    def shape(self) -> Shape:
        """Lengths of the axes. Not collective."""
    @shape.setter
    def shape(self, value: Any, /) -> None: ...

    @property
    def size(self) -> int:
        """Number of elements. Not collective."""

    def sort(
        self,
        axis: SupportsIndex = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: bool | None = None,
    ) -> None:
        """Sorts along an axis in place; shape and dtype stay. Errors: AxisError, ValueError (a
        copy that may not be written). Collective. Gathers: no."""

    def squeeze(self, axis: Axes = None) -> Array:
        """Without axes of length 1 in the shape; a view of this dtype. Errors: AxisError,
        ValueError (another length). Collective. Gathers: no."""

    def std(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        ddof: float = 0,
        keepdims: bool = ...,
        where: Any = ...,
        mean: Any = ...,
        correction: float = ...,
    ) -> Any:
        """The standard deviation along axes. Shape: without these axes, or with length 1 if
        keepdims; of all axes a number. dtype: floating. Errors: AxisError, ValueError (`out`
        does not fit). Collective. Gathers: no."""

    @property
    def strides(self) -> Any:
        """NumPy's, of whole arrays. Not collective. Gathers: no."""

    def sum(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = ...,
        initial: complex = ...,
        where: Any = ...,
    ) -> Any:
        """The sum along axes. Shape: without these axes, or with length 1 if keepdims; of all
        axes a number. dtype: `dtype`; by default this one's, 64 bits for whole numbers.
        Errors: AxisError, ValueError (`out` does not fit). Collective. Gathers: no."""

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Array:
        """Two axes of the shape exchanged; a view of this dtype. Errors: AxisError. Collective.
        Gathers: no."""

    def take(
        self,
        indices: Any,
        axis: SupportsIndex | None = None,
        out: Array | None = None,
        mode: str = 'raise',
    ) -> Any:
        """Elements along an axis (None: of the flat array). Shape: the indices' in place of the
        axis. dtype: this one's. Errors: AxisError, IndexError. Collective. Gathers: the
        indices."""

    def to_device(self, device: str, /, *, stream: None = None) -> Array:
        """This array: there is one device. Shape and dtype stay. Errors: ValueError (another
        device, or a stream). Not collective. Gathers: no."""

    def tobytes(self, order: str = 'C') -> bytes:
        """A copy of all of it as bytes, whatever the shape and dtype, on every rank. Errors:
        none. Collective. Gathers: yes."""

    def tofile(self, fid: str | PathLike[str], sep: str = '', format: str = '%s') -> None:
        """Writes the elements, of any shape and dtype without objects, in C order. Errors:
        FileError, InvalidError (no path). Collective. Gathers: text (`sep`) alone."""

    def tolist(self) -> Any:
        """All of it as numbers in nested lists of its shape, of Python's types for the dtype.
        Errors: none. Collective. Gathers: yes."""

    def trace(
        self,
        offset: SupportsIndex = 0,
        axis1: SupportsIndex = 0,
        axis2: SupportsIndex = 1,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
    ) -> Any:
        """Sums of the diagonals along two axes, which the shape lacks; dtype: as of sum().
        Errors: AxisError, ValueError. Collective. Gathers: no."""

    def transpose(self, *axes: Any) -> Array:
        """Axes of the shape in another order, by default reversed; a view of this dtype. Errors:
        AxisError, ValueError. Collective. Gathers: no."""

    def var(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        ddof: float = 0,
        keepdims: bool = ...,
        where: Any = ...,
        mean: Any = ...,
        correction: float = ...,
    ) -> Any:
        """The variance along axes. Shape: without these axes, or with length 1 if keepdims; of
        all axes a number. dtype: floating. Errors: AxisError, ValueError (`out` does not
        fit). Collective. Gathers: no."""

    def view(self, *arguments: Any, **options: Any) -> Array:
        """NumPy's, of whole arrays, for any shape and dtype. Errors: GatherError (a divided
        array has none: use x.numpy(), or x.local). Not collective. Gathers: no."""

    def __abs__(self) -> Array: ...

    def __add__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __and__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Block: ...

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, options: Any
    ) -> Any: ...

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType: ...

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any: ...

    def __bool__(self) -> bool: ...

    def __complex__(self) -> complex: ...

    def __contains__(self, value: object, /) -> bool: ...

    def __copy__(self) -> Array: ...

    def __deepcopy__(self, memo: Any) -> Array: ...

    def __divmod__(self, other: Operand | complex, /) -> tuple[Array, Array]: ...

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __eq__(self, other: Any, /) -> Array: ...  # type: ignore[override]

    def __float__(self) -> float: ...

    def __floordiv__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __format__(self, specification: str) -> str:
        """As NumPy: numbers in the format asked for, arrays without one. Not collective."""

    def __ge__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __gt__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    __hash__: None  # type: ignore[assignment]

    def __iadd__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __iand__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __ifloordiv__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __ilshift__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __imatmul__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __imod__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __imul__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __index__(self) -> int: ...

    def __init__(
        self,
        block: Any,
        layout: Any = None,
        memory: Memory | None = None,
        recipe: tuple[Any, ...] | None = None,
        **options: Any,
    ) -> None: ...

    def __int__(self) -> int: ...

    def __invert__(self) -> Array: ...

    def __ior__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __ipow__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __irshift__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __isub__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __itruediv__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __ixor__(self, other: Operand | complex | Sequence[Any], /) -> Self: ...

    def __le__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __len__(self) -> int: ...

    def __lshift__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __lt__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __matmul__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __mod__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __mul__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __ne__(self, other: Any, /) -> Array: ...  # type: ignore[override]

    def __neg__(self) -> Array: ...

    def __or__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __pos__(self) -> Array: ...

    def __pow__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __radd__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rand__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rdivmod__(self, other: Operand | complex, /) -> tuple[Array, Array]: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __repr__(self) -> str:
        """NumPy's repr of a whole array; of a divided one the own part, with the shape of all
        and where the part lies. Not collective."""

    def __rfloordiv__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rlshift__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rmatmul__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rmod__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rmul__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __ror__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rpow__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rrshift__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rshift__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rsub__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rtruediv__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __rxor__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __setitem__(self, key: Any, value: Any, /) -> None: ...

    def __str__(self) -> str:
        """NumPy's str of a whole array; of a divided one the own part, and where it lies. Not
        collective."""

    def __sub__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __truediv__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    def __xor__(self, other: Operand | complex | Sequence[Any], /) -> Array: ...

    @property
    def _ahead(self) -> dict[Any, Any] | None: ...
    @_ahead.setter
    def _ahead(self, value: Any, /) -> None: ...

    @property
    def _block(self) -> Any: ...
    @_block.setter
    def _block(self, value: Any, /) -> None: ...

    @property
    def _counted(self) -> int: ...
    @_counted.setter
    def _counted(self, value: int, /) -> None: ...

    def _evaluate(self) -> Block: ...

    @property
    def _expression(self) -> Any: ...
    @_expression.setter
    def _expression(self, value: Any, /) -> None: ...

    @property
    def _frozen(self) -> bool: ...
    @_frozen.setter
    def _frozen(self, value: Any, /) -> None: ...

    def _here(self, what: str) -> Block:
        """The value, if this rank has all of it, and may use that."""

    @property
    def _is_view(self) -> bool: ...
    @_is_view.setter
    def _is_view(self, value: Any, /) -> None: ...

    @property
    def _memory(self) -> Any: ...
    @_memory.setter
    def _memory(self, value: Any, /) -> None: ...

    def _number(self, what: str) -> Block:
        """The own block of an array without axes, which every rank has."""

    @classmethod
    def _of(cls, expression: Expression, layout: Layout) -> Array: ...

    def _opened(self, block: Block) -> Block:
        """The block, which the program may write from now on."""

    @property
    def _recipe(self) -> Any: ...
    @_recipe.setter
    def _recipe(self, value: Any, /) -> None: ...

    def _repr_html_(self) -> str: ...

    def _repr_svg_(self) -> str:
        """Who holds what."""

    def _settled(self, block: Block) -> None: ...

    @property
    def _strides(self) -> Any: ...
    @_strides.setter
    def _strides(self, value: Any, /) -> None: ...

    def _take(self, shape: Any, dtype: Any, buffer: Any, options: dict[str, Any]) -> None:
        """A new array as numpy.ndarray(shape, dtype, buffer=None) makes one."""

    @property
    def _whole_views(self) -> list[Array]: ...
