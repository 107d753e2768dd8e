"""The classes of Skerry's errors: each is also the builtin that a NumPy or Python programmer would
expect."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ._core import Group


class Error(Exception):
    """Anything Skerry refuses or that went wrong. ``code`` is negative, as in skerry.h."""

    code = 0


class InvalidError(Error, ValueError):
    """An argument that cannot be, a call out of turn, or members that disagree."""

    code = -1


class DtypeError(InvalidError, TypeError):
    """A dtype that cannot be, or does not fit."""


class GatherError(InvalidError, TypeError):
    """An operation would silently fetch a whole distributed array: call ``a.get()`` instead."""

    """An operation would silently fetch a whole distributed array: call ``a.get()`` instead."""
    pass


class FileError(InvalidError, OSError):
    """A file that is not there, is damaged or is no array's, or that could not be written."""

    """A file that is not there, is damaged or is no array's, or that could not be written."""
    pass


class RangeError(Error, IndexError):
    """An index, offset or patch beyond what there is."""

    code = -2


class FreedError(Error, ValueError):
    """What was freed, or belongs to a job that has ended."""

    code = -3


class NoMemoryError(Error, MemoryError):
    """There is not as much memory as was asked for."""

    code = -4


class PeerDeadError(Error, ConnectionError):
    """A rank or node that this call needs has died."""

    code = -5


class LostError(PeerDeadError):
    """What was protected cannot be brought back: its nodes are lost. `group`: of those that live,
    if they have met."""

    group: Group | None = None


class TimeoutError(Error, builtins.TimeoutError):
    """A wait took longer than the program allows; also a builtin TimeoutError."""

    code = -6


class NetworkError(Error, OSError):
    """The network, or what the system says about it."""

    code = -7


class ConfigError(Error, ValueError):
    """A SKERRY_* variable or an option is wrong."""

    code = -8


class UnsupportedError(Error, NotImplementedError):
    """This build, system or fabric cannot do it, or a package is missing."""

    code = -9


class ForkedError(Error, RuntimeError):
    """A call in a forked child: start a new program instead."""

    code = -10


class ThreadError(Error, RuntimeError):
    """A call from a thread that init's ``threads`` does not allow."""

    code = -11


class InternalError(Error, RuntimeError):
    """A mistake in Skerry: please report it."""

    code = -12


class ConflictError(Error, ValueError):
    """Accesses to the same bytes in one epoch, in the debug mode of windows."""

    code = -13


for _class in list(vars().values()):
    if isinstance(_class, type) and issubclass(_class, Error):
        _class.__module__ = "skerry"  # where users import it from
