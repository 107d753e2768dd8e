"""What the extension asks for when values do not fit as they are."""

import numpy as np

from .errors import DtypeError, Error, InvalidError


def conform(values, dtype, shape, patch):
    """`values` as a dense array of `dtype` and `shape`: numbers and lists are converted, shapes
    broadcast, strides made dense.

    An array of another dtype is refused rather than converted: that would cost a copy each time,
    and may lose digits.
    """
    if isinstance(values, (np.ndarray, np.generic)) and values.dtype != dtype:
        if not (isinstance(values, np.generic) and np.can_cast(values.dtype, dtype, "same_kind")):
            raise DtypeError(
                f"values are {values.dtype}, the array is {dtype}: convert them with .astype({dtype.name!r})"
            )
    try:
        converted = np.asarray(values, dtype)
    except Error:  # values are an Array
        raise
    except (TypeError, ValueError) as error:
        raise DtypeError(f"cannot make {dtype} of {type(values).__name__}: {error}") from None
    try:
        return np.ascontiguousarray(np.broadcast_to(converted, shape)).reshape(shape)
    except ValueError:
        raise InvalidError(
            f"values of shape {converted.shape} do not fit patch {patch}, which needs {shape}"
        ) from None
