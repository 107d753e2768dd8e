"""One-sided communication and distributed or mirrored arrays for the processes of a parallel job.

    import skerry as sk
    sk.init()
    a = sk.zeros((1000, 1000))              # collective: blocks spread over all ranks
    if sk.rank() == 0:
        a[0:10, 20:30] = 1.0                # any rank writes anywhere; the owner takes no part
    sk.sync()
    print(a[5, 20:30])
    sk.finalize()

Start it with ``skerry run -n 4 --nodes 2 python program.py``, mpirun or srun; started alone it is a
job of one rank.

*Collective* functions are called by all members of the group, in the same order, and wait for one
another. Calls that wait release the interpreter lock. Every failure is an ``Error`` whose ``code``
is the number in ``skerry.h``; its text names the value and the remedy. Sizes and offsets of memory
are bytes, times are seconds.
"""

from os import PathLike
from types import TracebackType
from typing import (
    Any,
    Callable,
    Literal,
    Mapping,
    NamedTuple,
    NoReturn,
    Sequence,
    SupportsIndex,
    TypeAlias,
    final,
)

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__version__: str

# ---- errors --------------------------------------------------------------------------------------

class Error(Exception):
    """Anything Skerry refuses or that went wrong. ``code`` is negative, as in skerry.h."""

    code: int

class InvalidError(Error, ValueError): ...
class DtypeError(InvalidError, TypeError): ...

class GatherError(InvalidError, TypeError):
    """An operation would silently fetch a whole distributed array: call ``a.get()`` instead."""

class FileError(InvalidError, OSError):
    """A file that is not there, is damaged or is no array's, or that could not be written."""

class RangeError(Error, IndexError): ...
class FreedError(Error, ValueError): ...
class NoMemoryError(Error, MemoryError): ...
class PeerDeadError(Error, ConnectionError): ...
class TimeoutError(Error): ...  # also a builtin TimeoutError
class NetworkError(Error, OSError): ...
class ConfigError(Error, ValueError): ...
class UnsupportedError(Error, NotImplementedError): ...
class ForkedError(Error, RuntimeError): ...
class ThreadError(Error, RuntimeError): ...
class InternalError(Error, RuntimeError): ...
class ConflictError(Error, ValueError): ...

# ---- job -----------------------------------------------------------------------------------------

def init(
    *,
    threads: Literal["single", "serialized", "multiple"] = "multiple",
    on_failure: Literal["end", "raise"] = "end",
) -> None:
    """Joins the job; collective over all ranks. A second call does nothing. Errors: ConfigError,
    NetworkError."""

def finalize() -> None:
    """Leaves the job and frees what is left; collective. Called at the program's end if you did
    not, except if its exit status is not 0: then the job ends."""

def initialized() -> bool:
    """Whether this process is in a job: True from init to finalize."""

def abort(reason: str = "", status: int = 1) -> None:
    """Ends the whole job at once, with one message that names this rank. Does not return."""

def rank() -> int:
    """Own rank, 0 to size() - 1."""

def size() -> int:
    """Number of ranks."""

def node(rank: int | None = None) -> int:
    """The node of `rank` (default: own), 0 to nodes() - 1."""

def nodes() -> int:
    """Number of nodes."""

def node_ranks(node: int | None = None) -> list[int]:
    """Ranks on a node (default: own), ascending."""

def same_node(rank: int) -> bool:
    """Whether `rank` shares memory with this one. Errors: InvalidError."""

def fabric() -> str:
    """What carries bytes between nodes: "tcp", "ofi:tcp", ..."""

class CounterInfo(NamedTuple):
    """What a number of counters() means."""

    kind: str
    """ "total" only grows; "now" is the present value; "peak" is the highest value so far."""
    unit: str
    description: str

def counters() -> dict[str, int]:
    """What this process has done since init, by name: docs/counters.md lists the names. Never waits
    for other processes."""

def counter_info() -> dict[str, CounterInfo]:
    """Kind, unit and description of every counter, by name."""

def memory() -> dict[str, int]:
    """Memory that communication takes in this process now, in bytes, without the operating system's
    (skerry_memory in skerry.h has the names)."""

def limit_connections(max_connections: int) -> None:
    """From now on this process keeps at most so many connections to data servers (0: no limit), as
    SKERRY_MAX_CONN sets it at the start. Not collective."""

# ---- groups and collectives ----------------------------------------------------------------------

@final
class Group:
    """Ranks that act together. ``len(group)`` members, in a fixed order."""

    @property
    def ranks(self) -> list[int]: ...
    def __len__(self) -> int: ...
    def index(self, rank: int) -> int:
        """Position of a job rank in the group; InvalidError if it is no member."""

    def rank(self, index: int) -> int: ...
    def split(self, color: int, key: int = 0) -> Group | None:
        """Collective. Members with the same color form a group, ordered by (key, rank); a negative
        color joins none."""

    def free(self) -> None: ...

def world() -> Group: ...
def barrier(group: Group | None = None) -> None:
    """Waits until every member is here. Orders the ranks, not their operations; see sync."""

def sync(group: Group | None = None) -> None:
    """A barrier after which all earlier operations on members are visible to all: the end of a
    phase of one-sided work."""

def fence(rank: int | None = None) -> None:
    """On return, what this rank issued to `rank` (default: to all ranks) is visible there. Not
    collective."""

Op: TypeAlias = Literal["sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor"]
UpdateOp: TypeAlias = Op | Literal["replace", "no_op"]

def allreduce(
    values: ArrayLike,
    op: Op = "sum",
    *,
    out: NDArray[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """Element-wise over the members; every member gets the same bits. Returns a new array (a scalar
    for a scalar), or `out`, which may be `values` itself. Integers, float32, float64, longdouble,
    complex64, complex128; of bool all but sum and prod."""

def reduce(
    values: ArrayLike,
    op: Op = "sum",
    root: int = 0,
    *,
    out: NDArray[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """Like allreduce, but only `root` (a rank) gets the result; others get None."""

def broadcast(values: NDArray[Any], root: int = 0, *, group: Group | None = None) -> NDArray[Any]:
    """Overwrites `values` (C-contiguous; the same shape and dtype on every member) with those of
    rank `root`, and returns it."""

def allgather(values: ArrayLike, *, group: Group | None = None) -> NDArray[Any]:
    """Every member's `values` (the same shape and dtype), stacked along a new first axis in the
    order of the group: the result has shape ``(len(group), *values.shape)``."""

def alltoall(values: ArrayLike, *, group: Group | None = None) -> NDArray[Any]:
    """Swaps parts: what member i has in ``values[j]`` is ``result[i]`` of member j. ``values``
    (the same shape and dtype on every member) has the members as its first axis."""

def reduce_scatter(values: ArrayLike, op: Op = "sum", *, group: Group | None = None) -> Any:
    """Element-wise over the members, of which this one gets ``values[its position]`` alone: shape
    ``values.shape[1:]``. ``values`` has the members as its first axis; dtypes as of allreduce."""

def scan(
    values: ArrayLike,
    op: Op = "sum",
    *,
    out: NDArray[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """Element-wise over the members up to this one, in the order of the group. Otherwise like
    allreduce."""

def exscan(
    values: ArrayLike,
    op: Op = "sum",
    *,
    out: NDArray[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """Like scan over the members before this one; the first member gets its own values back."""

# ---- arrays --------------------------------------------------------------------------------------

Span: TypeAlias = slice | SupportsIndex | tuple[int, int]
# One entry per dimension (trailing ones may be left out): a slice, an index (drops the dimension,
# as in NumPy), or a (low, high) pair; e.g. np.s_[0:10, 20:30] or ((0, 10), (20, 30)). Slices with a
# step other than 1 suit get, put and acc of an Array; their elements move one by one.
Patch: TypeAlias = Span | tuple[Span, ...]

@final
class Irregular:
    """Blocks may start only at these indices of each dimension (each list begins with 0 and
    ascends). With more blocks than members, neighbouring blocks are joined until each member has at
    most one: so the list of all atoms' first basis functions suits any number of ranks, and each
    node's share of a mirrored array."""

    def __init__(self, *starts: Sequence[int]) -> None: ...
    @property
    def starts(self) -> tuple[list[int], ...]: ...

@final
class Request:
    """A transfer under way. Keeps its buffers and its array alive."""

    def wait(self) -> Any:
        """The data (get_nb) or None. The buffer of a put or accumulate may be reused afterwards."""

    def done(self) -> bool: ...

@final
class Array:
    """A dense array of 1 to 7 dimensions, in blocks over the ranks of a group, or (mirrored) one
    copy per node in blocks over the ranks of that node.

    It moves data only where the program says so: ``a[patch]``, ``a.get(patch)``, ``a.put(patch,
    values)``, ``a.acc(...)``. ``a.get()`` is a copy of all of it. What would fetch it without
    saying so is a GatherError: ``np.asarray(a)``, NumPy functions, iteration, ``x in a``,
    ``bool(a)``, ``int(a)``, ``float(a)``, ``complex(a)``. ``print(a)`` shows shape, dtype and grid.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def nbytes(self) -> int:
        """Bytes of one copy."""

    @property
    def mirrored(self) -> bool:
        """Whether every node has a copy."""

    @property
    def grid(self) -> tuple[int, ...]:
        """The process grid; of the own node if mirrored."""

    @property
    def block_starts(self) -> tuple[list[int], ...]:
        """Where blocks start, per dimension; of the own node if mirrored."""

    @property
    def group(self) -> Group: ...
    @property
    def freed(self) -> bool: ...

    # One-sided: any rank, any time. A mirrored array's stay on the node and touch only that node's
    # copy.
    def get(self, patch: Patch = ..., out: NDArray[Any] | None = None) -> Any:
        """A copy of a patch (default: the whole array), as a NumPy array with the patch's shape,
        without the dimensions that an index chose; a number for one element. `out` receives it if
        given: same shape and dtype, last axis contiguous. Errors: RangeError, InvalidError,
        DtypeError."""

    def put(self, patch: Patch, values: ArrayLike) -> None:
        """Writes a patch. `values` are broadcast to its shape; their dtype is the array's. They may
        be reused on return; others see the data after fence or sync. Errors: RangeError,
        InvalidError, DtypeError."""

    def acc(self, patch: Patch, values: ArrayLike, alpha: complex = 1) -> None:
        """patch += alpha * values, atomic per element with other acc and read_inc. Otherwise like
        put."""

    # Elements anywhere. index: a tuple of index arrays, one per dimension, broadcast as in NumPy;
    # of a vector an array alone. Negative ones count from the end. Errors: RangeError before
    # anything moves, InvalidError, DtypeError.
    def gather(self, index: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The elements, in the shape of the index arrays; `out` receives them if given."""

    def scatter(self, index: Any, values: ArrayLike) -> None:
        """Writes the elements; of one that is named twice either value stays."""

    def scatter_acc(self, index: Any, values: ArrayLike, alpha: complex = 1) -> None:
        """Adds alpha * values, atomic per element; also to one that is named twice."""

    # Non-blocking: the buffer must stay as it is until the request is done.
    def get_nb(self, patch: Patch = ..., out: NDArray[Any] | None = None) -> Request: ...
    def put_nb(self, patch: Patch, values: NDArray[Any]) -> Request: ...
    def acc_nb(self, patch: Patch, values: NDArray[Any], alpha: complex = 1) -> Request: ...
    def read_inc(self, index: int | tuple[int, ...], n: int = 1) -> int:
        """Adds n to an element of an integer array and returns the old value, atomically. Errors:
        RangeError, InvalidError (not int32 or int64)."""

    def label(self, name: str) -> None:
        """Names the array for sk.attach; "" takes the name away. Each rank names its own block: no
        communication, but all should call it. At most 63 bytes. Errors: InvalidError."""

    def __getitem__(self, patch: Any) -> Any:
        """get(patch)."""

    def __setitem__(self, patch: Any, values: ArrayLike) -> None:
        """put(patch, values)."""

    def __len__(self) -> int:
        """shape[0]."""

    # These raise GatherError.
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn: ...
    def __iter__(self) -> NoReturn: ...
    def __contains__(self, value: object) -> NoReturn: ...
    def __bool__(self) -> NoReturn: ...
    def __int__(self) -> NoReturn: ...
    def __float__(self) -> NoReturn: ...
    def __complex__(self) -> NoReturn: ...

    # Where data is; no communication.
    @property
    def local(self) -> NDArray[Any]:
        """The own block, as a writable view without a copy; of size 0 if this rank holds none. A
        view keeps its memory, also after free() and finalize(): then others do not see it."""

    def distribution(self, rank: int | None = None) -> tuple[tuple[int, int], ...]:
        """(low, high) per dimension of the block that `rank` (default: own) holds; low == high if
        none."""

    def locate(self, *index: int) -> int:
        """The rank that holds an element; on the own node if mirrored."""

    def locate_patch(self, patch: Patch) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        """(rank, its part of the patch) for every holder."""

    # Collective; each begins and ends with a sync.
    def zero(self) -> Array: ...
    def fill(self, value: complex) -> Array: ...
    def scale(self, factor: complex) -> Array: ...
    def copy_to(self, target: Array) -> Array:
        """Same shape and dtype, any distributions, mirrored or not. Distributed to mirrored fills
        every node's copy; mirrored to distributed moves nothing between nodes and requires that the
        copies agree. Returns `target`."""

    def copy(self) -> Array:
        """A new array with the same distribution and elements."""

    def merge(self) -> Array:
        """Sums the nodes' copies of a mirrored array; all copies are equal afterwards. Tiles that
        are zero are not moved. Does nothing but a sync if distributed or on one node."""

    def sync(self) -> None: ...
    def free(self) -> None:
        """Gives the memory back, but what views of it keep."""

    def __enter__(self) -> Array: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class Mirror:
    """A read-only copy of an array in each node's memory, as the array was when the mirror was made
    or last refreshed. A tile comes from its owner's node when a rank of the node first reads it,
    once; a node takes memory for those tiles, and for a copy of its own blocks."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def freed(self) -> bool: ...
    def __len__(self) -> int: ...
    def __getitem__(self, patch: Any) -> Any:
        """get(patch)."""

    def get(self, patch: Patch = ..., out: NDArray[Any] | None = None) -> Any:
        """A copy of a patch, as Array.get. One-sided, but not during a refresh."""

    def gather(self, index: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Elements anywhere, as Array.gather. One-sided, but not during a refresh."""

    def refresh(self) -> Mirror:
        """Makes the mirror current, after any kind of write; only tiles that changed move again.
        Collective; begins with a sync of the array's group. FreedError if the array was freed."""

    def free(self) -> None:
        """Gives the memory back; collective."""

    def __enter__(self) -> Mirror: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def mirror(array: Array) -> Mirror:
    """A mirror of a distributed array; collective. InvalidError for a mirrored array."""

def Cluster(
    n: int, *, nodes: int = 1, launcher: Literal["skerry", "srun"] = "skerry", **options: Any
) -> Any:
    """Ranks for a notebook, by ipyparallel's conventions: an ``ipyparallel.Cluster`` whose n
    engines are the ranks of one job on `nodes` virtual nodes, engine i being rank i. They have
    joined the job and know ``sk``, ``xp`` and ``np``. Launcher srun: on nodes of Slurm. `options`
    are ipyparallel's. UnsupportedError without ipyparallel.

        with sk.Cluster(4) as ranks:
            ranks[:].execute("a = sk.zeros((1000, 1000))").get()
    """

class Advice(NamedTuple):
    """What to do with an array, and why. Seconds are of the rank that waits longest, bytes and
    transfers (gets, puts and accumulates, one for each holder) those between all nodes, memory what
    the job takes beyond now."""

    use: Literal["distributed", "mirror", "mirrored"]
    seconds: float
    seconds_now: float
    bytes: int
    bytes_now: int
    transfers: int
    transfers_now: int
    memory: int
    why: str
    @property
    def pays(self) -> bool:
        """Whether something else than the distributed array is quicker, by a tenth."""

def advise(a: Array, *, refreshes: int = 1, clear: bool = False) -> Advice:
    """Would a mirror (`sk.mirror(a)`) or a mirrored array with `merge` pay? Collective over the
    array's group. It rests on what patches and elements of the array have moved between nodes until
    now and how long that took, on the tiles that were read, and on a short measurement of the link.
    `refreshes`: how often the mirror would be filled, or the array merged, meanwhile; bytes and
    transfers are those if everything changes each time. `clear` begins counting anew. InvalidError
    for a mirrored array."""

# Making arrays. All of these are collective, and make the same array on every member.
#
# dtype: bool, int8 to int64, uint8 to uint64, float32, float64, complex64 or complex128; bool has
# no acc, scale and merge. Options, by keyword only:
#   distribution  where blocks may start; default: blocks near to square, of equal size
#   grid          blocks per dimension; default: chosen, at most one block for each rank
#   mirrored      one copy on every node, over the ranks of that node; otherwise one over all ranks
#   group         the ranks that hold it; default: all
#
# Errors, the same on every member: InvalidError (a shape, an option, or members that disagree),
# DtypeError, NoMemoryError.

def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike = "float64",
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array whose contents are undefined."""

def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike = "float64",
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array of zeros."""

def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike = "float64",
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array of ones."""

def full(
    shape: int | Sequence[int],
    fill_value: float,
    dtype: DTypeLike | None = None,
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array whose elements are all `fill_value`; its dtype by default, so ``full(3, 2)`` is
    int64."""

def asarray(
    data: ArrayLike | Array,
    dtype: DTypeLike | None = None,
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """`data` (1 to 7 dimensions, the same on every member) as an Array. Each member copies its own
    block from its own `data`; nothing is sent. An Array is returned as it is; with another dtype,
    or with options, that is an error."""

# Like another array: the shape and dtype of `prototype`, and if it is an Array its distribution,
# grid and group. `mirrored` None: as the prototype.

def empty_like(
    prototype: Array | ArrayLike, dtype: DTypeLike | None = None, *, mirrored: bool | None = None
) -> Array:
    """A new array whose contents are undefined."""

def zeros_like(
    prototype: Array | ArrayLike, dtype: DTypeLike | None = None, *, mirrored: bool | None = None
) -> Array:
    """A new array of zeros."""

def ones_like(
    prototype: Array | ArrayLike, dtype: DTypeLike | None = None, *, mirrored: bool | None = None
) -> Array:
    """A new array of ones."""

def full_like(
    prototype: Array | ArrayLike,
    fill_value: float,
    dtype: DTypeLike | None = None,
    *,
    mirrored: bool | None = None,
) -> Array:
    """A new array whose elements are all `fill_value`."""

def matmul(
    a: Array,
    b: Array,
    out: Array,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: bool = False,
    trans_b: bool = False,
) -> Array:
    """out = alpha op(a) op(b) + beta out for 2-d float32 or float64 arrays, mirrored or not; op
    transposes if trans_a or trans_b is True. Collective. Returns `out`. A mirrored `out` has equal
    copies afterwards (with beta, they must agree before). Errors: InvalidError (shapes),
    DtypeError."""

def transpose(array: Array, out: Array | None = None) -> Array:
    """The array with its dimensions in reverse order, in `out` or a new one. Collective. Errors:
    InvalidError."""

def symmetrize(array: Array) -> Array:
    """array = (array + its transpose) / 2, of a square matrix. Collective. Errors: InvalidError,
    DtypeError."""

def select(array: Array, what: Literal["max", "min"] = "max") -> tuple[Any, tuple[int, ...]]:
    """The largest or smallest element and its index, complex numbers by size. Collective."""

class Periodic:
    """Patches that wrap around: bounds are taken modulo the array's shape, so -1 is not the last
    index but the one before 0. One-sided, as the array's own. A slice or (low, high) for each
    dimension. Errors: InvalidError, RangeError."""

    def get(self, patch: Any) -> NDArray[Any]: ...
    def put(self, patch: Any, values: ArrayLike) -> None: ...
    def acc(self, patch: Any, values: ArrayLike, alpha: complex = 1) -> None: ...
    def __getitem__(self, patch: Any) -> NDArray[Any]: ...
    def __setitem__(self, patch: Any, values: ArrayLike) -> None: ...

def periodic(array: Array) -> Periodic:
    """``sk.periodic(a)[-1:3, 8:12]``. Not collective."""

def ghosts(
    shape: int | Sequence[int],
    dtype: DTypeLike = "float64",
    *,
    width: int | Sequence[int] = 1,
    periodic: bool | Sequence[bool] = False,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    group: Group | None = None,
) -> GhostArray:
    """A new array of zeros whose blocks have `width` ghost cells around them. `width` and
    `periodic`: one for all dimensions, or one for each. Collective. Errors: those of zeros()."""

class GhostArray:
    """A distributed array with ghost cells: copies of its neighbours' elements, as of the last
    update(). At the ends of a dimension that is not periodic they belong to the program.

        g = sk.ghosts((1000, 1000), width=1, periodic=True)
        p = g.update(corners=False).padded
        g.local[...] = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])

    ``skerry.xp.asarray(g)`` is the whole array, without a copy."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    width: tuple[int, ...]
    periodic: tuple[bool, ...]
    grid: tuple[int, ...]
    block_starts: tuple[list[int], ...]
    group: Group
    @property
    def ndim(self) -> int: ...
    def distribution(self) -> tuple[tuple[int, int], ...]:
        """(low, high) per dimension of the own block, without ghost cells."""

    @property
    def local(self) -> NDArray[Any]:
        """The own block, a view without a copy."""

    @property
    def padded(self) -> NDArray[Any]:
        """The own block with its ghost cells, a view without a copy."""

    # One-sided, of the array without ghost cells.
    def get(self, patch: Patch = ...) -> Any: ...
    def get_nb(self, patch: Patch = ..., out: NDArray[Any] | None = None) -> Request:
        """As of an Array; what it returns is used as a Request, but is not of that class."""

    def put(self, patch: Patch, values: ArrayLike) -> None: ...
    def acc(self, patch: Patch, values: ArrayLike, alpha: complex = 1) -> None: ...
    def __getitem__(self, patch: Any) -> Any: ...
    def __setitem__(self, patch: Any, values: ArrayLike) -> None: ...

    # Collective.
    def update(
        self, *, corners: bool = True, axis: int | None = None, side: Literal[-1, 0, 1] = 0
    ) -> GhostArray:
        """Fetches the ghost cells; with those diagonal to the block if `corners`. `axis`: only
        those beside the block along it, on its low side (-1), high side (1) or both. Begins and
        ends with a sync."""

    def fill(self, value: complex) -> GhostArray:
        """Fills blocks and ghost cells."""

    def sync(self) -> None: ...
    def free(self) -> None: ...

class CyclicArray:
    """A distributed array whose tiles go around the process grid: tile i of a dimension belongs to
    coordinate i mod p. So the work of a factorisation stays even while the matrix shrinks."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    tile: tuple[int, ...]
    grid: tuple[int, ...]
    block_starts: tuple[list[int], ...]
    group: Group
    @property
    def ndim(self) -> int: ...
    @property
    def local(self) -> NDArray[Any]:
        """The own tiles side by side, a view: ScaLAPACK's local matrix, row-major."""

    def tiles(self, rank: int | None = None) -> list[tuple[slice, ...]]:
        """The tiles that a rank holds, by default the own, in C order."""

    def locate(self, *index: int) -> int: ...

    # One-sided.
    def get(self, patch: Patch = ...) -> Any: ...
    def get_nb(self, patch: Patch = ..., out: NDArray[Any] | None = None) -> Request:
        """As of an Array; what it returns is used as a Request, but is not of that class."""

    def put(self, patch: Patch, values: ArrayLike) -> None: ...
    def acc(self, patch: Patch, values: ArrayLike, alpha: complex = 1) -> None: ...
    def __getitem__(self, patch: Any) -> Any: ...
    def __setitem__(self, patch: Any, values: ArrayLike) -> None: ...

    # Collective.
    def copy_to(self, target: Array) -> Array:
        """Fills an array of the same shape and any distribution."""

    def copy_from(self, source: Array | GhostArray | CyclicArray) -> CyclicArray:
        """Takes the values of an array of the same shape and type and any distribution; of other
        tiles too."""

    def fill(self, value: complex) -> CyclicArray: ...
    def sync(self) -> None: ...
    def free(self) -> None: ...

def cyclic(
    shape: int | Sequence[int],
    dtype: DTypeLike = "float64",
    *,
    tile: int | Sequence[int],
    grid: Sequence[int] | None = None,
    group: Group | None = None,
) -> CyclicArray:
    """A block-cyclic array of zeros, of tiles of `tile` elements along each dimension; smaller at
    the ends. Collective. Errors: those of zeros()."""

@final
class Counter:
    """A shared 64-bit counter that hands out work. Creating it and reset() are collective; next()
    is not."""

    def __init__(
        self, start: int = 0, *, group: Group | None = None, host: int | None = None
    ) -> None:
        """`host`: the rank that holds the number; default: the first of the group."""

    def next(self, n: int = 1) -> int:
        """Adds n and returns the old value, atomically."""

    def reset(self, value: int = 0) -> None: ...
    def free(self) -> None: ...

class Tasks:
    """An iterator over the tasks that this rank draws, made by tasks()."""

    def __iter__(self) -> Tasks: ...
    def __next__(self) -> Any: ...
    def __len__(self) -> int:
        """Tasks of all members."""

    def drawn(self) -> int:
        """How many were drawn so far by all members. One-sided."""

def tasks(
    work: Array | Sequence[Any] | int,
    *,
    tile: Sequence[int] | int | None = None,
    cost: Callable[[Any], float] | Sequence[float] | None = None,
    progress: bool | Callable[[int, int], object] = False,
    group: Group | None = None,
) -> Tasks:
    """Work that balances itself: each task is drawn by one member, once.

        for tile in sk.tasks(a):              # a patch of a, mostly of the own block
            a[tile] = f(a[tile])
        for i in sk.tasks(range(1000), cost=lambda i: i):
            ...
        sk.sync()

    The call is collective; the loop is not: ranks leave it when nothing is left, or before. An
    Array: its tiles, as patches; a member draws its own first, then those of its node, then those
    of the next nodes. A mirrored array's tiles are shared evenly. `tile`: their edges; default:
    about 32 tiles for each member. A range, a number n (range(n)) or a list: its entries. `cost`
    tells what each is expected to cost: the dearest come first, and members begin with equal sums.
    `progress` True: the group's first member says on stderr, when it draws and once a second at
    most, how many were drawn; or it calls what you give with (drawn, all). Several threads may
    draw from one iterator. Errors, on every member: InvalidError, FreedError."""

# Files. Both calls are collective over the arrays' group. What one member meets, all raise:
# FileError, UnsupportedError (a package is missing), InvalidError, DtypeError. The path must lead
# to a file system that all members share.

def save(
    data: Array | Mapping[str, Array],
    path: str | PathLike[str],
    *,
    chunks: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    compression: Literal["gzip", "lzf", "zstd", "deflate", "none"] | None = None,
) -> None:
    """Writes an array, or several with names, of any distribution; `data` may be a whole array of
    skerry.xp. The suffix of `path` says how:

    - ``.npy`` (one array), ``.npz``, as numpy.save and numpy.savez: each member writes its part,
      long rows from where they lie. A .npz has checksums, and may be compressed ("deflate"), by
      all members at once.
    - ``.h5``, ``.hdf5``: HDF5 by the package h5py, each array in one piece, of which each member
      writes its part; without checksums. With `compression` ("gzip", "lzf") or `chunks` one member
      writes, with checksums.
    - ``.zarr``: a Zarr 3 array or group with checksums, by the package zarr, compressed ("zstd" if
      you do not say "gzip" or "none"). Each member writes whole chunks, which it gets one-sidedly.

    `chunks`: their edges; default: a block, or parts of it of 8 MiB at most. What was at `path` is
    replaced when all is written: a job that is killed before leaves it as it was, and a hidden file
    beside it that the next save() removes. All nodes must see the folder. On a terminal a bar shows
    what takes longer than a second. Begins and ends with a sync. Errors: InvalidError, FileError,
    UnsupportedError (a package is missing)."""

def load(
    path: str | PathLike[str],
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Any:
    """The Array at `path`, or a dict of Arrays by name; on any number of ranks. Reads what zarr,
    h5py and NumPy can read, of any writer, but no Python objects; elements in the order or the
    bytes of other machines too. Each member reads its own block. The options are those of empty(),
    for each array. Errors: FileError (damaged, too short, a checksum is wrong), InvalidError (no
    dimensions, or more than 7), DtypeError (text, fields: no Array holds them),
    UnsupportedError."""

# As in mpi4py.util.sync. Making one and free() are collective, the rest is not. Waits sleep.

class Semaphore:
    """`value` permits. `bounded`: never more than that; release() refuses. ``with`` takes one."""

    def __init__(
        self, value: int = 1, *, bounded: bool = True, group: Group | None = None
    ) -> None: ...
    def acquire(self, blocking: bool = True) -> bool:
        """Takes a permit, first come first served. False if there is none and not `blocking`."""

    def release(self, n: int = 1) -> None:
        """Gives n permits back. What this rank wrote before, after a fence, the taker sees.
        Errors: InvalidError."""

    def free(self) -> None: ...
    def __enter__(self) -> Semaphore: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

class Condition:
    """A mutex that a thread may lock again, and waiting until another rank changed something.
    `mutex`: another Condition, whose mutex this one shares.

        with condition:                     # one rank
            condition.wait_for(lambda: a[0] > 0)
        with condition:                     # another
            a[0] = 1
            sk.fence()
            condition.notify()
    """

    def __init__(self, mutex: Condition | None = None, *, group: Group | None = None) -> None: ...
    def acquire(self) -> None: ...
    def release(self) -> None: ...
    def locked(self) -> bool:
        """Whether this thread holds the mutex."""

    # With the mutex held. Errors: InvalidError.
    def wait(self) -> None:
        """Gives the mutex away, sleeps until notified, and takes it again. One thread of a rank can
        wait at a time."""

    def wait_for(self, predicate: Callable[[], Any]) -> Any:
        """Waits until predicate() is true; returns what it returned."""

    def notify(self, n: int = 1) -> int:
        """Wakes n of those that wait, the first first; returns how many it woke."""

    def notify_all(self) -> int: ...
    def free(self) -> None: ...
    def __enter__(self) -> Condition: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

# ---- memory --------------------------------------------------------------------------------------

@final
class Segment:
    """Zeroed memory: every member owns `nbytes` (may differ). Creation and free() are collective.
    Offsets are bytes."""

    def __init__(self, nbytes: int, *, group: Group | None = None) -> None: ...
    @property
    def local(self) -> NDArray[np.uint8]:
        """The own slice, without a copy. Valid until free()."""

    def pointer(self, rank: int) -> NDArray[np.uint8] | None:
        """A same-node member's slice, without a copy; None if it is on another node."""

    def nbytes(self, rank: int | None = None) -> int:
        """Bytes of the slice of `rank` (default: own)."""

    # Buffers are C-contiguous. Errors: RangeError (beyond the slice), InvalidError.
    def get(self, rank: int, offset: int, out: NDArray[Any]) -> NDArray[Any]:
        """Copies out.nbytes bytes of the slice of `rank` into `out`, and returns it."""

    def put(self, rank: int, offset: int, values: NDArray[Any]) -> None:
        """Copies `values` into the slice of `rank`. They may be reused on return; others see the
        data after fence or sync."""

    def acc(
        self, rank: int, offset: int, values: NDArray[Any], alpha: complex | None = None
    ) -> None:
        """slice += alpha * values (alpha None: 1), atomic per element; of any type that
        update takes."""

    def update(self, rank: int, offset: int, values: NDArray[Any], op: UpdateOp = "sum") -> None:
        """slice = slice (op) values, atomic per element; integers of 8 to 64 bits, float32,
        float64, longdouble, complex64, complex128. "min" and "max" are not for complex numbers,
        logical ("l") and bitwise ("b") operations for integers only. Errors: InvalidError,
        DtypeError."""

    def fetch_update(
        self,
        rank: int,
        offset: int,
        values: NDArray[Any] | None = None,
        op: UpdateOp = "sum",
        *,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """The same; returns what the elements were before, in `out` or a new array like `values`.
        "no_op" reads, each element at once, and needs no values if there is an `out`."""

    def fetch_update_nb(
        self,
        rank: int,
        offset: int,
        values: NDArray[Any] | None = None,
        op: UpdateOp = "sum",
        *,
        out: NDArray[Any] | None = None,
    ) -> Request: ...
    def get_nb(self, rank: int, offset: int, out: NDArray[Any]) -> Request: ...
    def put_nb(self, rank: int, offset: int, values: NDArray[Any]) -> Request: ...
    # Atomic on one word, int64 or int32, at a multiple of its size; each returns the old value.
    def fetch_add(self, rank: int, offset: int, value: int, dtype: DTypeLike = "int64") -> int: ...
    def swap(self, rank: int, offset: int, value: int, dtype: DTypeLike = "int64") -> int: ...
    def compare_swap(
        self, rank: int, offset: int, expected: int, desired: int, dtype: DTypeLike = "int64"
    ) -> int: ...
    def put_notify(
        self,
        rank: int,
        offset: int,
        values: NDArray[Any] | None,
        counter_offset: int,
        increment: int = 1,
    ) -> None:
        """put, then adds `increment` to the 64-bit counter at `counter_offset` of the same slice: a
        reader that sees the counter sees the data. `values` None: only the counter."""

    def notify_wait(self, counter_offset: int, at_least: int, timeout: float | None = None) -> int:
        """Sleeps until the own counter is at least `at_least`; returns it. `timeout` in seconds;
        None: no limit. Errors: TimeoutError."""

    def free(self) -> None: ...

@final
class Mutexes:
    """Each member hosts `count` fair mutexes. Creation and free() are collective."""

    def __init__(self, count: int, *, group: Group | None = None) -> None: ...
    def lock(self, rank: int, index: int = 0) -> None:
        """Waits for mutex `index` of `rank`. Errors: RangeError, InvalidError (already held)."""

    def unlock(self, rank: int, index: int = 0) -> None:
        """What the holder issued to that rank's node is visible to the next holder. Errors:
        InvalidError (not held)."""

    def free(self) -> None: ...

# ---- looking at a running job --------------------------------------------------------------------

def attach(job: str | int = "") -> Attached:
    """A running job of this user, seen from a process that is none of its ranks, such as a
    notebook on a node of the job. `job`: its name, as `skerry stacks` lists it, or the process of a
    rank or of `skerry run`; "": the only one. Reads the ranks' memory and asks nothing of them, so
    that ending the reader, or killing it, does nothing to the job.

        job = sk.attach()
        job["density"][10:20, :]         # what is there now

    Only named arrays (Array.label), and of them what ranks of this machine hold. Needs no
    sk.init(). Errors: InvalidError (no such job, or another user's)."""

@final
class Attached:
    @property
    def name(self) -> str:
        """Of the job."""

    def names(self) -> list[str]:
        """Of its arrays, now."""

    def __getitem__(self, name: str) -> AttachedArray:
        """Errors: KeyError."""

@final
class AttachedArray:
    """A named array of a running job, read-only. It is gone when the job frees it: reading raises
    FreedError, then or when the job has ended."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, patch: Any) -> Any:
        """A copy of a patch, as Array's; ranks may be writing it meanwhile. Steps must be 1.
        Errors: RangeError, InvalidError (a part of it is on another machine), FreedError."""

# ---- windows -------------------------------------------------------------------------------------

def window(
    shape: int | Sequence[int], dtype: DTypeLike = "uint8", *, group: Group | None = None
) -> Window:
    """A window over new memory: `shape` elements of `dtype` on this member, zeroed; by default
    bytes. Shapes may differ between members, the dtype may not. Collective.

        w = sk.window(100, "int64")
        with w.lock(1):                  # rank 1 takes no part
            w.put(1, 7, w.get(1, 7) + 1)

    Errors: InvalidError (a shape), DtypeError, NoMemoryError; on every member if on one."""

def window_over(memory: NDArray[Any], *, group: Group | None = None) -> Window:
    """A window over memory that the program owns: any C-contiguous, writable array, of the same
    dtype on every member. It keeps the array alive until free(). The others reach it without this
    process's help. Collective. Errors: InvalidError, DtypeError; UnsupportedError if this system
    does not let the processes of a node reach each other's memory."""

def window_dynamic(*, group: Group | None = None) -> Window:
    """A window of bytes, without memory: members attach and detach their own at any time.
    Displacements are addresses, as attach returns them, in bytes. Collective."""

@final
class Window:
    """Memory of each member of a group that the others access between two synchronization calls,
    in an *access epoch*. docs/windows.md explains epochs. The meaning is that of MPI's windows.

    lock, lock_all, fence, start and post act at once; what they return is a context manager that
    ends the epoch: with unlock, unlock_all, a second fence, complete or wait. After an error in its
    body, `with` ends epochs of lock, lock_all and start all the same. It leaves out what would wait
    for other members: the second fence, and wait.

    Displacements (`at`) count elements of the target's memory, in C order, from 0. Calls that may
    wait release the interpreter lock. Every call may raise InvalidError (outside an epoch, or in
    one of another kind: the text names it) and FreedError."""

    @property
    def local(self) -> NDArray[Any]:
        """The own memory, without a copy: shape and dtype as given. Valid until free()."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the own memory."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def group(self) -> Group: ...
    def pointer(self, rank: int) -> NDArray[Any] | None:
        """The memory of a member on the own node, without a copy, flat; None if it is on another
        node, or was not allocated by window(). Valid until free()."""

    def nbytes(self, rank: int | None = None) -> int:
        """Bytes of the memory of `rank` (default: own)."""

    def attach(self, memory: NDArray[Any]) -> int:
        """Makes a C-contiguous, writable array accessible through a dynamic window. Returns its
        address: send that to the others. Keeps it alive until detach or free. Not collective.
        Errors: InvalidError (it overlaps attached memory, or the window is not dynamic),
        NoMemoryError (1024 areas are attached)."""

    def detach(self, address: int) -> None:
        """Takes back what was attached at `address`. Errors: InvalidError (nothing is)."""

    # Passive target: `rank` takes no part.
    def lock(self, rank: int, *, shared: bool = False, no_check: bool = False) -> Epoch:
        """Begins an access epoch at the memory of `rank`: alone, or beside other shared holders.
        no_check: you promise that nobody locks in conflict. Errors: InvalidError (locked already,
        or another kind of epoch is open)."""

    def unlock(self, rank: int) -> None:
        """Ends it. What was issued in it is done there and here."""

    def lock_all(self, *, no_check: bool = False) -> Epoch:
        """Shared locks of all members, each taken when it is first used. Not collective."""

    def unlock_all(self) -> None: ...
    def flush(self, rank: int | None = None) -> None:
        """What was issued to `rank` (default: to all) is done there and here; the epoch goes on."""

    def sync(self) -> None:
        """Orders own loads and stores of window memory with others' accesses."""

    # Active target. The promises are those of MPI's assertions.
    def fence(
        self,
        *,
        no_store: bool = False,
        no_put: bool = False,
        no_precede: bool = False,
        no_succeed: bool = False,
    ) -> Epoch:
        """Ends the epochs of the last fence and begins new ones: what any member issued before is
        done. Collective. `with` calls it again at the end, with no_succeed."""

    def post(
        self,
        ranks: Sequence[int],
        *,
        no_check: bool = False,
        no_store: bool = False,
        no_put: bool = False,
    ) -> Epoch:
        """Exposes the own memory to `ranks`, which call start. `with` waits at the end, so
        ``with w.post([left]), w.start([right]): w.put(right, 0, x)`` passes x round a ring."""

    def start(self, ranks: Sequence[int], *, no_check: bool = False) -> Epoch:
        """Begins an access epoch at the memory of `ranks`; waits until they have posted."""

    def complete(self) -> None:
        """Ends the epoch of start: what was issued in it is done here."""

    def wait(self) -> None:
        """Ends the epoch of post: waits until all `ranks` of it called complete. What they issued
        is done."""

    def test(self) -> bool:
        """Whether wait would return at once; if so, the epoch of post has ended."""

    # Access, inside an epoch. Arrays are C-contiguous and of the window's dtype; a window of bytes
    # (uint8) takes arrays of every dtype. Numbers and lists are converted. Errors: RangeError
    # (beyond the target's memory), DtypeError.
    def put(self, rank: int, at: int, values: ArrayLike) -> None:
        """Copies `values` to displacement `at` of the memory of `rank`. They may be reused on
        return; others see the data after the epoch, or flush."""

    def get(self, rank: int, at: int, out: NDArray[Any] | None = None) -> Any:
        """Copies into `out` what is at displacement `at`, and returns it. `out` None: returns one
        element, as a NumPy scalar. Returns with the data."""

    # Each element changes atomically with all other updates of the window. op: "sum", "prod",
    # "min", "max", "land", "lor", "lxor", "band", "bor", "bxor", "replace" or "no_op". Whole
    # numbers of 1 to 8 bytes, floating point, complex. Errors as above, and InvalidError for an
    # operation that the dtype does not have.
    def update(self, rank: int, at: int, values: ArrayLike, op: str = "sum") -> None:
        """target[i] = target[i] op values[i]. `values` may be reused on return."""

    def fetch_update(
        self,
        rank: int,
        at: int,
        values: ArrayLike | None,
        op: str = "sum",
        out: NDArray[Any] | None = None,
    ) -> Any:
        """The same; returns what the elements were before, in `out` if given: an array like the
        values, a NumPy scalar for a scalar. values None with "no_op": reads one element, or
        `out`."""

    def compare_swap(self, rank: int, at: int, expected: Any, desired: Any) -> Any:
        """Stores `desired` if the element is `expected`: it was if that is what is returned. Whole
        numbers of 1 to 8 bytes."""

    def put_nb(self, rank: int, at: int, values: ArrayLike) -> Request:
        """Starts a put. Wait for the request inside the epoch; do not change `values` before."""

    def get_nb(self, rank: int, at: int, out: NDArray[Any]) -> Request:
        """Starts a get. Wait for the request inside the epoch; it returns `out`."""

    def free(self) -> None:
        """Frees the window and its memory; collective. Errors: InvalidError (an own epoch is
        open)."""

    def __enter__(self) -> Window: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class Epoch:
    """An epoch of a window, for ``with``, which ends it. Without ``with``, end it by the window's
    calls."""

    def __enter__(self) -> Epoch: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
