"""Fourier transforms: along an axis that every rank has whole; arrays are turned when needed."""

import numpy as np

from . import _layout
from ._array import Array, as_array, axis_of, made, new_layout, spread, undivided
from ._elementwise import inexact
from ._info import check_device, check_dtype
from ._manipulation import roll

__all__ = (
    "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft fftfreq "
    "rfftfreq fftshift ifftshift"
).split()


def _along(name, x, n, axis, norm):
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


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform along an axis."""
    return _along("fft", x, n, axis, norm)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse transform along an axis."""
    return _along("ifft", x, n, axis, norm)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of real elements: the non-negative frequencies."""
    return _along("rfft", x, n, axis, norm)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of rfft."""
    return _along("irfft", x, n, axis, norm)


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of a Hermitian signal: real."""
    return _along("hfft", x, n, axis, norm)


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of hfft."""
    return _along("ihfft", x, n, axis, norm)


def _lengths(x, s, axes):
    """Axes and their lengths (None: as they are) of a transform of several axes."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [axis_of(a, x.ndim) for a in axes]
    s = [None] * len(axes) if s is None else [None if n in (None, -1) else int(n) for n in s]
    if len(s) != len(axes):
        raise ValueError(f"{len(s)} lengths for {len(axes)} axes")
    return axes, s


def _each(name, x, axes, s, norm):
    for axis, n in reversed(list(zip(axes, s, strict=True))):
        x = _along(name, x, n, axis, norm)
    return x


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform along several axes."""
    x = as_array(x)
    return _each("fft", x, *_lengths(x, s, axes), norm)


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse transform along several axes."""
    x = as_array(x)
    return _each("ifft", x, *_lengths(x, s, axes), norm)


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform of real elements along several axes."""
    x = as_array(x)
    axes, s = _lengths(x, s, axes)
    x = _along("rfft", x, s[-1], axes[-1], norm)
    return _each("fft", x, axes[:-1], s[:-1], norm)


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of rfftn."""
    x = as_array(x)
    axes, s = _lengths(x, s, axes)
    for axis, n in zip(axes[:-1], s[:-1], strict=True):
        x = _along("ifft", x, n, axis, norm)
    return _along("irfft", x, s[-1], axes[-1], norm)


def fft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """The transform along two axes. Collective. Gathers: no."""
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """The inverse of fft2. Collective. Gathers: no."""
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """The transform of real elements along two axes. Collective. Gathers: no."""
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """The inverse of rfft2. Collective. Gathers: no."""
    return irfftn(x, s=s, axes=axes, norm=norm)


def _frequencies(function, n, d, dtype, device):
    check_device(device)
    dtype = check_dtype("float64" if dtype is None else dtype)
    if dtype.kind != "f":
        raise TypeError(f"frequencies are real floating, not {dtype}")
    values = function(n, d)

    def fill(block, box):
        block[...] = values[slice(*box[0])]

    return made(new_layout(values.shape, dtype), dtype, fill)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of fft's results."""
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of rfft's results."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def _shifted(x, axes, sign):
    x = as_array(x)
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    axes = tuple(axis_of(a, x.ndim) for a in axes)
    shifts = tuple(sign * (x.shape[a] // 2) for a in axes)
    return roll(x, shifts, axis=axes)


def fftshift(x, /, *, axes=None):
    """Frequency zero in the middle."""
    return _shifted(x, axes, 1)


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift."""
    return _shifted(x, axes, -1)
