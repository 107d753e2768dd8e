"""The classes of Skerry's errors: each is also the builtin that a NumPy or Python programmer would
expect."""

import builtins


class Error(Exception):
    """Anything Skerry refuses or that went wrong. `code` is negative, as in skerry.h."""

    code = 0


class InvalidError(Error, ValueError):
    code = -1


class DtypeError(InvalidError, TypeError):
    pass


class GatherError(InvalidError, TypeError):
    pass


class FileError(InvalidError, OSError):
    pass


class RangeError(Error, IndexError):
    code = -2


class FreedError(Error, ValueError):
    code = -3


class NoMemoryError(Error, MemoryError):
    code = -4


class PeerDeadError(Error, ConnectionError):
    code = -5


class TimeoutError(Error, builtins.TimeoutError):
    code = -6


class NetworkError(Error, OSError):
    code = -7


class ConfigError(Error, ValueError):
    code = -8


class UnsupportedError(Error, NotImplementedError):
    code = -9


class ForkedError(Error, RuntimeError):
    code = -10


class ThreadError(Error, RuntimeError):
    code = -11


class InternalError(Error, RuntimeError):
    code = -12


class ConflictError(Error, ValueError):
    code = -13


for _class in list(vars().values()):
    if isinstance(_class, type) and issubclass(_class, Error):
        _class.__module__ = "skerry"  # where users import it from
