"""Fourier transforms: along an axis that every rank has whole; arrays are turned when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from . import _layout
from ._array import Array, as_array, axis_of, made, new_layout, spread, undivided
from ._elementwise import inexact
from ._info import check_device, check_dtype
from ._manipulation import roll
from ._types import Block, Box, Device, Norm, Operand

__all__ = [
    "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "irfft", "rfft2", "irfft2", "rfftn",
    "irfftn", "hfft", "ihfft", "fftfreq", "rfftfreq", "fftshift", "ifftshift",
]  # fmt: skip


def _along(name: str, x: Operand, n: int | None, axis: SupportsIndex, norm: Norm) -> Array:
    x = inexact(as_array(x))
    if not x.ndim:
        raise ValueError(f"{name} takes at least one dimension")
    if name in ("rfft", "ihfft"):
        if x.dtype.kind != "f":
            raise TypeError(f"{name} takes real floating elements, not {x.dtype}")
    axis = axis_of(axis, x.ndim)
    x = undivided(x, (axis,))
    transform = getattr(np.fft, name)
    block = x._evaluate()
    if block.size or x.layout.whole:
        out = transform(block, n, axis, norm)
        length, dtype = out.shape[axis], out.dtype
    else:
        sample = np.zeros([x.shape[axis] if d == axis else 1 for d in range(x.ndim)], x.dtype)
        sample = transform(sample, n, axis, norm)
        out, length, dtype = None, sample.shape[axis], sample.dtype
    shape = tuple(length if d == axis else m for d, m in enumerate(x.shape))
    boxes = tuple(
        tuple((0, length) if d == axis else bounds for d, bounds in enumerate(box))
        if _layout.volume(box)
        else ((0, 0),) * x.ndim
        for box in x.layout.boxes
    )
    layout = _layout.Layout(shape, boxes, x.layout.whole)
    return spread(Array(np.empty((0,) * x.ndim, dtype) if out is None else out, layout))


def fft(
    x: Operand, /, *, n: int | None = None, axis: SupportsIndex = -1, norm: Norm = "backward"
) -> Array:
    """The transform along an axis. Shape: that of x, n along the axis. dtype: complex64 of float32
    and complex64, otherwise complex128. Errors: TypeError (no array, or the dtype), AxisError,
    ValueError (no dimension). Collective. Gathers: 1-d arrays, yes."""
    return _along("fft", x, n, axis, norm)


def ifft(
    x: Operand, /, *, n: int | None = None, axis: SupportsIndex = -1, norm: Norm = "backward"
) -> Array:
    """The inverse transform along an axis. Shape: that of x, n along the axis. dtype: complex64 of
    float32 and complex64, otherwise complex128. Errors: TypeError (no array, or the dtype),
    AxisError, ValueError (no dimension). Collective. Gathers: 1-d arrays, yes."""
    return _along("ifft", x, n, axis, norm)


def rfft(
    x: Operand, /, *, n: int | None = None, axis: SupportsIndex = -1, norm: Norm = "backward"
) -> Array:
    """The transform of real elements: the non-negative frequencies. Shape: that of x, n // 2 + 1
    along the axis. dtype: complex64 of float32 and complex64, otherwise complex128. Errors:
    TypeError (no array, or the dtype), AxisError, ValueError (no dimension). Collective.
    Gathers: 1-d arrays, yes."""
    return _along("rfft", x, n, axis, norm)


def irfft(
    x: Operand, /, *, n: int | None = None, axis: SupportsIndex = -1, norm: Norm = "backward"
) -> Array:
    """The inverse of rfft. Shape: that of x, n along the axis, by default 2 (m - 1) of m. dtype:
    float32 of complex64 and float32, otherwise float64. Errors: TypeError (no array, or the
    dtype), AxisError, ValueError (no dimension). Collective. Gathers: 1-d arrays, yes."""
    return _along("irfft", x, n, axis, norm)


def hfft(
    x: Operand, /, *, n: int | None = None, axis: SupportsIndex = -1, norm: Norm = "backward"
) -> Array:
    """The transform of a Hermitian signal: real. Shape: that of x, n along the axis, by default 2
    (m - 1) of m. dtype: float32 of complex64 and float32, otherwise float64. Errors: TypeError
    (no array, or the dtype), AxisError, ValueError (no dimension). Collective. Gathers: 1-d
    arrays, yes."""
    return _along("hfft", x, n, axis, norm)


def ihfft(
    x: Operand, /, *, n: int | None = None, axis: SupportsIndex = -1, norm: Norm = "backward"
) -> Array:
    """The inverse of hfft. Shape: that of x, n // 2 + 1 along the axis. dtype: complex64 of float32
    and complex64, otherwise complex128. Errors: TypeError (no array, or the dtype), AxisError,
    ValueError (no dimension). Collective. Gathers: 1-d arrays, yes."""
    return _along("ihfft", x, n, axis, norm)


def _lengths(
    x: Array, s: Sequence[int | None] | None, axes: Sequence[SupportsIndex] | None
) -> tuple[list[int], list[int | None]]:
    """Axes and their lengths (None: as they are) of a transform of several axes."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    along = [axis_of(a, x.ndim) for a in axes]
    if s is None:
        return along, [None] * len(along)
    if len(s) != len(along):
        raise ValueError(f"{len(s)} lengths for {len(along)} axes")
    return along, [None if n is None or n == -1 else int(n) for n in s]


def _each(name: str, x: Operand, axes: Sequence[int], s: Sequence[int | None], norm: Norm) -> Array:
    out = as_array(x)
    for axis, n in reversed(list(zip(axes, s, strict=True))):
        out = _along(name, out, n, axis, norm)
    return out


def fftn(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The transform along several axes. Shape: that of x, s along the axes. dtype: complex64 of
    float32 and complex64, otherwise complex128. Errors: TypeError (no array, or the dtype),
    AxisError, ValueError (lengths and axes). Collective. Gathers: 1-d arrays, yes."""
    x = as_array(x)
    return _each("fft", x, *_lengths(x, s, axes), norm)


def ifftn(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The inverse transform along several axes. Shape: that of x, s along the axes. dtype:
    complex64 of float32 and complex64, otherwise complex128. Errors: TypeError (no array, or the
    dtype), AxisError, ValueError (lengths and axes). Collective. Gathers: 1-d arrays, yes."""
    x = as_array(x)
    return _each("ifft", x, *_lengths(x, s, axes), norm)


def rfftn(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The transform of real elements along several axes. Shape: as of fftn, half and one along the
    last of the axes. dtype: complex64 of float32 and complex64, otherwise complex128. Errors:
    TypeError (no array, or the dtype), AxisError, ValueError (lengths and axes). Collective.
    Gathers: 1-d arrays, yes."""
    x = as_array(x)
    axes, s = _lengths(x, s, axes)
    x = _along("rfft", x, s[-1], axes[-1], norm)
    return _each("fft", x, axes[:-1], s[:-1], norm)


def irfftn(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The inverse of rfftn. Shape: that of x, s along the axes. dtype: float32 of complex64 and
    float32, otherwise float64. Errors: TypeError (no array, or the dtype), AxisError, ValueError
    (lengths and axes). Collective. Gathers: 1-d arrays, yes."""
    x = as_array(x)
    axes, s = _lengths(x, s, axes)
    for axis, n in zip(axes[:-1], s[:-1], strict=True):
        x = _along("ifft", x, n, axis, norm)
    return _along("irfft", x, s[-1], axes[-1], norm)


def fft2(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = (-2, -1),
    norm: Norm = "backward",
) -> Array:
    """The transform along two axes. Collective. Gathers: no. Shape: that of x, s along the axes.
    dtype: complex64 of float32 and complex64, otherwise complex128. Errors: TypeError (no array,
    or the dtype), AxisError, ValueError (lengths and axes). Collective. Gathers: 1-d arrays,
    yes."""
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = (-2, -1),
    norm: Norm = "backward",
) -> Array:
    """The inverse of fft2. Collective. Gathers: no. Shape: that of x, s along the axes. dtype:
    complex64 of float32 and complex64, otherwise complex128. Errors: TypeError (no array, or the
    dtype), AxisError, ValueError (lengths and axes). Collective. Gathers: 1-d arrays, yes."""
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = (-2, -1),
    norm: Norm = "backward",
) -> Array:
    """The transform of real elements along two axes. Collective. Gathers: no. Shape: as of fftn,
    half and one along the last of the axes. dtype: complex64 of float32 and complex64, otherwise
    complex128. Errors: TypeError (no array, or the dtype), AxisError, ValueError (lengths and
    axes). Collective. Gathers: 1-d arrays, yes."""
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(
    x: Operand,
    /,
    *,
    s: Sequence[int | None] | None = None,
    axes: Sequence[SupportsIndex] | None = (-2, -1),
    norm: Norm = "backward",
) -> Array:
    """The inverse of rfft2. Collective. Gathers: no. Shape: that of x, s along the axes. dtype:
    float32 of complex64 and float32, otherwise float64. Errors: TypeError (no array, or the
    dtype), AxisError, ValueError (lengths and axes). Collective. Gathers: 1-d arrays, yes."""
    return irfftn(x, s=s, axes=axes, norm=norm)


def _frequencies(
    function: Callable[[int, float], Block],
    n: int,
    d: float,
    dtype: DTypeLike | None,
    device: Device,
) -> Array:
    check_device(device)
    dtype = check_dtype("float64" if dtype is None else dtype)
    if dtype.kind != "f":
        raise TypeError(f"frequencies are real floating, not {dtype}")
    values = function(n, d)

    def fill(block: Block, box: Box) -> None:
        block[...] = values[slice(*box[0])]

    return made(new_layout(values.shape, dtype), dtype, fill)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """The frequencies of fft's results. Shape: 1-d. dtype: `dtype`, by default float64. Errors:
    TypeError (no floating dtype), ValueError (the device). Collective. Gathers: no."""
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """The frequencies of rfft's results. Shape: 1-d. dtype: `dtype`, by default float64. Errors:
    TypeError (no floating dtype), ValueError (the device). Collective. Gathers: no."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def _shifted(x: Operand, axes: int | Sequence[SupportsIndex] | None, sign: int) -> Array:
    x = as_array(x)
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    axes = tuple(axis_of(a, x.ndim) for a in axes)
    shifts = tuple(sign * (x.shape[a] // 2) for a in axes)
    return roll(x, shifts, axis=axes)


def fftshift(x: Operand, /, *, axes: int | Sequence[SupportsIndex] | None = None) -> Array:
    """Frequency zero in the middle. Shape and dtype: those of x. Errors: TypeError (no array),
    AxisError. Collective. Gathers: no."""
    return _shifted(x, axes, 1)


def ifftshift(x: Operand, /, *, axes: int | Sequence[SupportsIndex] | None = None) -> Array:
    """The inverse of fftshift. Shape and dtype: those of x. Errors: TypeError (no array),
    AxisError. Collective. Gathers: no."""
    return _shifted(x, axes, -1)
