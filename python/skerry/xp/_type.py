"""The type of arrays, which is written in C++: _type.pyi describes it."""

from skerry._core import Whole as Array  # noqa: F401
