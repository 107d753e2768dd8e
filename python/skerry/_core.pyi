# Made by tools/make_stubs.py: do not edit.
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn, final

import numpy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from skerry._types import Block, Patch, UpdateOp


__version__: str

def init(*, threads: str = 'multiple', on_failure: str = 'end') -> None: ...

def finalize() -> None: ...

def initialized() -> bool:
    """Whether this process is in a job: True from init to finalize. Not collective. Errors:
    none."""

def abort(reason: str = "", status: int = 1) -> None:
    """Ends the whole job at once, with one message that names this rank. Does not return. Not
    collective. Errors: InvalidError (no job)."""

def rank() -> int:
    """Own rank, 0 to size() - 1. Not collective. Errors: InvalidError (no job), FreedError (it
    ended)."""

def size() -> int:
    """Number of ranks. Not collective. Errors: as rank()."""

def nodes() -> int:
    """Number of nodes. Not collective. Errors: as rank()."""

def node(rank: int | None = None) -> int:
    """The node of `rank` (default: own), 0 to nodes() - 1. Not collective. Errors: InvalidError
    (no such rank)."""

def node_ranks(node: int | None = None) -> list[int]:
    """Ranks on a node (default: own), ascending. Not collective. Errors: InvalidError (no such
    node)."""

def same_node(rank: int) -> bool:
    """Whether `rank` shares memory with this one. Not collective. Errors: InvalidError (no such
    rank)."""

def fabric() -> str:
    """What carries bytes between nodes: "tcp", "ofi:tcp", ... Not collective. Errors: as rank()."""

def counters() -> dict[str, int]:
    """What this process has done since init, by name: docs/counters.md lists the names. Not
    collective: it never waits for other processes. Errors: as rank()."""

def _counter_info() -> dict[str, tuple[str, str, str]]: ...

def memory() -> dict[str, int]:
    """Memory that communication takes in this process now, in bytes, without the operating
    system's (skerry_memory in skerry.h has the names). Not collective. Errors: as rank()."""

def limit_connections(max_connections: int) -> None:
    """From now on this process keeps at most so many connections to data servers (0: no limit),
    as SKERRY_MAX_CONN sets it at the start. Not collective. Errors: as rank()."""

def failed() -> list[int]:
    """Ranks that have died, ascending, with on_failure="continue". Not collective. Errors: none."""

def is_spare() -> bool:
    """Whether this rank began as a spare (``skerry run --spares``). Not collective. Errors: as
    rank()."""

def is_leaving() -> bool:
    """Whether ``skerry drain`` takes this rank's host out of the job. It ends in the next
    sk.protect() of all. Not collective. Errors: as rank()."""

def _hear() -> None: ...

def _has_refilled() -> bool: ...

def world() -> Group:
    """The group of all ranks. Not collective. Errors: as rank()."""

def barrier(group: Group | None = None) -> None:
    """Waits until every member is here. Orders the ranks, not their operations; see sync.
    Collective. Errors: InvalidError (no group), PeerDeadError."""

def sync(group: Group | None = None) -> None:
    """A barrier after which all earlier operations on members are visible to all: the end of a
    phase of one-sided work. Collective. Errors: InvalidError (no group), PeerDeadError."""

def _sync(group: Group | None) -> None: ...

def fence(rank: int | None = None) -> None:
    """On return, what this rank issued to `rank` (default: to all ranks) is visible there. Not
    collective. Errors: InvalidError (no such rank), PeerDeadError."""

def _reduce(buffer: Block, op: str, root: int, group: Group | None) -> None: ...

def _broadcast(buffer: Block, root: int, group: Group | None) -> None: ...

def _scan(values: Block, op: str, inclusive: bool, group: Group | None) -> None: ...

def _reduce_scatter(values: Block, out: Block, op: str, group: Group | None) -> None: ...

def _alltoall(values: Block, out: Block, group: Group | None) -> None: ...

def _alltoallv(
    values: Block, bytes: list[int], out: Block, out_bytes: list[int], group: Group | None
) -> None: ...

def _reduce_by(
    buffer: Block,
    element_bytes: int,
    function: Callable[[memoryview, memoryview], None],
    group: Group | None,
) -> None: ...

def _begin(buffer: Block | None, op: str, root: int, group: Group | None) -> Request: ...

def _allgather(values: Block, out: Block, group: Group | None) -> None: ...

@final
class Group:
    """Ranks that act together. ``len(group)`` members, in a fixed order."""

    @property
    def ranks(self) -> list[int]:
        """Ranks of the members, in their order. Not collective. Errors: FreedError."""

    def __len__(self) -> int: ...

    def index(self, rank: int) -> int:
        """Position of a job rank in the group. Not collective. Errors: InvalidError (no member)."""

    def rank(self, index: int) -> int:
        """Job rank of the member at a position. Not collective. Errors: InvalidError (no such
        position)."""

    def split(self, color: int, key: int = 0) -> Group | None:
        """Members with the same color form a group, ordered by (key, rank); a negative color
        joins none: None. Collective. Errors: NoMemoryError."""

    def shrink(self, timeout: float = -1.0) -> Group:
        """The members that live, as a new group, with on_failure="continue". The old one is of
        no use afterwards. `timeout` seconds (negative: never) after the first member came an
        error names who is missing. Collective over those that live. Errors: TimeoutError,
        UnsupportedError, InvalidError."""

    def refill(self, timeout: float = -1.0) -> Group:
        """As shrink(), with spares (``skerry run --spares``) in the places of the dead; on a
        spare, of its world: it joins the group that has taken it in. Collective over those
        that live. Errors: those of shrink()."""

    def spares(self) -> int:
        """How many spares a refill() would take in now, in a job of ``skerry run --elastic``:
        places are free, and hosts were added since. As far as this rank has heard. Not
        collective. Errors: FreedError."""

    def free(self) -> None:
        """Gives back what the group takes. Collective. Errors: InvalidError (the group of all
        ranks)."""

class _Irregular:
    def __init__(self, arg: Sequence[Sequence[int]], /) -> None: ...

    @property
    def _starts(self) -> list[list[int]]: ...

def mirror(array: Array) -> Mirror:
    """A mirror of a distributed array: the same shape and dtype. Moves nothing yet. Collective.
    Errors: InvalidError (a mirrored array), NoMemoryError."""

@final
class Request:
    """A transfer or collective under way. Keeps its buffers and its array alive."""

    def wait(self) -> Any:
        """The data (get_nb, broadcast_nb, allreduce_nb), with the shape and dtype of `out`, or
        None. The buffer of a put or accumulate may be reused afterwards. Not collective.
        Errors: PeerDeadError, NetworkError."""

    def done(self) -> bool:
        """Whether wait() would return at once. Not collective. Errors: as wait()."""

@final
class Array:
    """A dense array of 1 to 7 dimensions.

    It lies in blocks over the ranks of a group, or (mirrored) in one copy per node, in blocks
    over the ranks of that node.

    It moves data only where the program says so: ``a[patch]``, ``a.get(patch)``,
    ``a.put(patch, values)``, ``a.acc(...)``. ``a.get()`` is a copy of all of it. What would
    fetch it without saying so is a GatherError: ``np.asarray(a)``, NumPy functions,
    iteration, ``x in a``, ``bool(a)``, ``int(a)``, ``float(a)``, ``complex(a)``. ``print(a)``
    shows shape, dtype and grid.

    One-sided calls (get, put, acc, gather, ...) are of any rank, at any time. Those of a
    mirrored array stay on the node and touch only that node's copy. Every call of a freed
    array is a FreedError.
    """

    def _traffic(self) -> list[int]: ...

    def _clear_traffic(self) -> None: ...

    def read_inc(self, index: int | tuple[int, ...], n: int = 1) -> int:
        """Adds n to an element of an int32 or int64 array and returns the old value, atomically.
        Not collective. Errors: RangeError, InvalidError (another dtype, or more than one
        element)."""

    def acc_nb(self, patch: Patch, values: ArrayLike, alpha: complex = 1) -> Request:
        """Starts an acc. An array of the shape and dtype of the patch is sent from where it
        lies: it must stay as it is until the request is done. Not collective. Errors:
        RangeError, InvalidError, DtypeError."""

    def _gather(self, indices: Block, out: Block, /) -> None: ...

    def _scatter(self, indices: Block, values: Block, /) -> None: ...

    def _scatter_acc(self, indices: Block, values: Block, alpha: complex, /) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions. Not collective."""

    @property
    def ndim(self) -> int:
        """Number of dimensions. Not collective."""

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Type of the elements: bool, int8 to int64, uint8 to uint64, float32, float64,
        complex64 or complex128. Not collective."""

    @property
    def nbytes(self) -> int:
        """Bytes of one copy. Not collective."""

    @property
    def mirrored(self) -> bool:
        """Whether every node has a copy. Not collective."""

    @property
    def _options(self) -> tuple[list[list[int]], list[int]]: ...

    @property
    def grid(self) -> tuple[int, ...]:
        """The process grid; of the own node if mirrored. Not collective. Errors: FreedError."""

    @property
    def block_starts(self) -> tuple[list[int], ...]:
        """Where blocks start, per dimension; of the own node if mirrored. Not collective.
        Errors: FreedError."""

    @property
    def group(self) -> Group:
        """The ranks that hold it. Not collective. Errors: FreedError."""

    @property
    def freed(self) -> bool:
        """Whether its memory was given back. Not collective."""

    @property
    def local(self) -> Block:
        """The own block, as a writable view without a copy: of its shape, of size 0 if this rank
        holds none, and of the dtype of the array. A view keeps its memory, also after free()
        and finalize(): then others do not see it. Not collective. Errors: FreedError."""

    def label(self, name: str) -> None:
        """Names the array for sk.attach; "" takes the name away. At most 63 bytes. Each rank
        names its own block: not collective, but all should call it. Errors: InvalidError."""

    def distribution(self, rank: int | None = None) -> tuple[tuple[int, int], ...]:
        """(low, high) per dimension of the block that `rank` (default: own) holds; low == high
        if none. Not collective. Errors: InvalidError (no such rank)."""

    def locate(self, *index: int) -> int:
        """The rank that holds an element; on the own node if mirrored. Not collective. Errors:
        RangeError, InvalidError (not one number for each dimension)."""

    def locate_patch(self, patch: Patch) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        """(rank, its part of the patch) for every holder. Not collective. Errors: RangeError,
        InvalidError."""

    def __len__(self) -> int:
        """shape[0]."""

    def __getitem__(self, patch: Patch, /) -> Any:
        """get(patch)."""

    def __setitem__(self, patch: Patch, values: ArrayLike, /) -> None:
        """put(patch, values)."""

    def get(self, patch: Patch = ..., out: Block | None = None) -> Any:
        """A copy of a patch (default: the whole array), as a NumPy array with the patch's shape,
        without the dimensions that an index chose; a number for one element. Its dtype is the
        array's. `out` receives it if given: same shape and dtype, last axis contiguous. Not
        collective. Errors: RangeError, InvalidError, DtypeError."""

    def put(self, patch: Patch, values: ArrayLike) -> None:
        """Writes a patch. `values` are broadcast to its shape; their dtype is the array's. They
        may be reused on return; others see the data after fence or sync. Not collective.
        Errors: RangeError, InvalidError, DtypeError."""

    def acc(self, patch: Patch, values: ArrayLike, alpha: complex = 1) -> None:
        """patch += alpha * values, atomic per element with other acc and read_inc. `values` are
        broadcast to the shape of the patch; their dtype is that of the array, not bool. Not
        collective. Errors: RangeError, InvalidError, DtypeError."""

    def get_nb(self, patch: Patch = ..., out: Block | None = None) -> Request:
        """Starts a get; the request gives what get() returns. `out` (same shape and dtype) must
        stay as it is until then. Not collective. Errors: RangeError, InvalidError,
        DtypeError."""

    def put_nb(self, patch: Patch, values: ArrayLike) -> Request:
        """Starts a put. An array of the shape and dtype of the patch is sent from where it lies:
        it must stay as it is until the request is done. Not collective. Errors: RangeError,
        InvalidError, DtypeError."""

    def zero(self) -> Array:
        """Sets all elements to 0; of any shape and dtype. Begins and ends with a sync.
        Collective. Errors: FreedError."""

    def fill(self, value: complex) -> Array:
        """Sets all elements to `value`; of any shape and dtype. Begins and ends with a sync.
        Collective. Errors: TypeError (no number of this dtype), InvalidError (it does not
        fit)."""

    def scale(self, factor: complex) -> Array:
        """Multiplies all elements by `factor`; of any shape, and any dtype but bool. Begins and
        ends with a sync. Collective. Errors: TypeError (no number of this dtype),
        InvalidError (bool, or it does not fit)."""

    def copy_to(self, target: Array) -> Array:
        """Same shape and dtype, any distributions, mirrored or not. Distributed to mirrored
        fills every node's copy; mirrored to distributed moves nothing between nodes and
        requires that the copies agree. Begins and ends with a sync. Returns `target`.
        Collective. Errors: InvalidError (shapes, dtypes or groups differ)."""

    def merge(self) -> Array:
        """Sums the nodes' copies of a mirrored array, of any shape and dtype but bool; all
        copies are equal afterwards. Tiles that are zero are not moved. Does nothing but a
        sync if distributed or on one node. Collective. Errors: InvalidError (bool)."""

    def sync(self) -> None:
        """sync of its group. Collective. Errors: PeerDeadError."""

    def _become(self, other: Array) -> None: ...

    def free(self) -> None:
        """Gives the memory back, but what views of it keep. Collective. Errors: FreedError."""

    def __enter__(self) -> Array: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def __repr__(self) -> str: ...

    def _repr_svg_(self) -> str:
        """Who holds what; of a mirrored array, on the own node."""

    def _repr_html_(self) -> str: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn: ...
    def __array_ufunc__(
        self, ufunc: numpy.ufunc, method: str, *inputs: Any, **options: Any
    ) -> NoReturn: ...

    def __array_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any, options: Any
    ) -> NoReturn: ...

    def __iter__(self) -> NoReturn: ...
    def __contains__(self, value: object) -> NoReturn: ...
    def __bool__(self) -> NoReturn: ...
    def __int__(self) -> NoReturn: ...
    def __float__(self) -> NoReturn: ...
    def __complex__(self) -> NoReturn: ...
    def protect(self, partner: int = 1) -> None:
        """From the next sk.protect() on the array comes back after a death: see there. Of any
        shape and dtype. Collective. Errors: those of sk.protect()."""

    def gather(self, index: Any, out: Block | None = None) -> Block:
        """The elements at `index`: a tuple of index arrays, one per dimension, broadcast as in
        NumPy; of a vector an array alone. Negative ones count from the end. The result has
        the shape of the index arrays and the array's dtype; `out` receives it if given. Not
        collective. A mirror: not during a refresh. Errors: RangeError before anything moves,
        InvalidError, DtypeError."""

    def scatter(self, index: Any, values: ArrayLike) -> None:
        """Writes the elements at `index`, as of gather; of one that is named twice either value
        stays. Values are broadcast to the shape of the index arrays; their dtype is the
        array's. Not collective. Errors: RangeError before anything moves, InvalidError,
        DtypeError."""

    def scatter_acc(self, index: Any, values: ArrayLike, alpha: complex = 1) -> None:
        """Adds alpha * values to the elements at `index`, as of gather, atomic per element; also
        to one that is named twice. Values are broadcast to the shape of the index arrays;
        their dtype is the array's, not bool. Not collective. Errors: RangeError before
        anything moves, InvalidError, DtypeError."""

    def copy(self) -> Array:
        """A new array with the same shape, dtype, distribution and elements. Begins and ends
        with a sync. Collective. Errors: NoMemoryError, FreedError."""

def _array(
    shape: list[int],
    dtype: DTypeLike,
    distribution: _Irregular | None,
    grid: list[int] | None,
    mirrored: bool,
    group: Group | None,
) -> Array: ...

def _matmul(
    a: Array, b: Array, out: Array, alpha: float, beta: float, trans_a: bool, trans_b: bool, /
) -> Array: ...

@final
class Mirror:
    """A read-only copy of an array in each node's memory, as the array was when the mirror was
    made or last refreshed. A tile comes from its owner's node when a rank of the node first
    reads it, once; a node takes memory for those tiles, and for a copy of its own blocks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions. Not collective."""

    @property
    def ndim(self) -> int:
        """Number of dimensions. Not collective."""

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Type of the elements. Not collective."""

    @property
    def freed(self) -> bool:
        """Whether its memory was given back. Not collective."""

    def __len__(self) -> int:
        """shape[0]."""

    def __getitem__(self, patch: Patch, /) -> Any:
        """get(patch)."""

    def get(self, patch: Patch = ..., out: Block | None = None) -> Any:
        """A copy of a patch, with the shape and dtype of Array.get. Not collective, but not
        during a refresh. Errors: RangeError, InvalidError, DtypeError, FreedError."""

    def _gather(self, indices: Block, out: Block, /) -> None: ...

    def refresh(self) -> Mirror:
        """Makes the mirror current, after any kind of write; only tiles that changed move again.
        Begins with a sync of the array's group. Collective. Errors: FreedError (the array was
        freed)."""

    def free(self) -> None:
        """Gives the memory back. Collective. Errors: FreedError."""

    def __enter__(self) -> Mirror: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def gather(self, index: Any, out: Block | None = None) -> Block:
        """The elements at `index`: a tuple of index arrays, one per dimension, broadcast as in
        NumPy; of a vector an array alone. Negative ones count from the end. The result has
        the shape of the index arrays and the array's dtype; `out` receives it if given. Not
        collective. A mirror: not during a refresh. Errors: RangeError before anything moves,
        InvalidError, DtypeError."""

def _take_changed(now: Block, then: Block, tile: int) -> list[tuple[int, int]]: ...

@final
class Segment:
    """Zeroed memory: every member owns `nbytes` (may differ). Offsets are bytes. Making it is
    collective. Errors: InvalidError, NoMemoryError. Buffers are C-contiguous arrays of any
    shape, and of any dtype without Python objects."""

    def __init__(self, nbytes: int, *, group: Group | None = None) -> None: ...

    def update(self, rank: int, offset: int, values: Block, op: UpdateOp = "sum") -> None:
        """slice = slice (op) values, atomic per element; of any shape. dtypes: integers of 8 to
        64 bits, float32, float64, longdouble, complex64, complex128. "min" and "max" are not
        for complex numbers, logical ("l") and bitwise ("b") operations for integers only. Not
        collective. Errors: RangeError (beyond the slice), InvalidError, DtypeError."""

    def fetch_update(
        self,
        rank: int,
        offset: int,
        values: Block | None = None,
        op: UpdateOp = "sum",
        *,
        out: Block | None = None,
    ) -> Block:
        """As update; returns what the elements were before, in `out` or a new array of the shape
        and dtype of the values. "no_op" reads, each element at once, and needs no values if
        there is an `out`. Not collective. Errors: as update."""

    def fetch_update_nb(
        self,
        rank: int,
        offset: int,
        values: Block | None = None,
        op: UpdateOp = "sum",
        *,
        out: Block | None = None,
    ) -> Request:
        """Starts a fetch_update: shapes and dtypes as there. The buffers must stay as they are
        until the request is done. Not collective. Errors: as update."""

    def get_nb(self, rank: int, offset: int, out: Block) -> Request:
        """Starts a get into `out`, of any shape and dtype. It must stay as it is until the
        request is done. Not collective. Errors: as get."""

    def put_nb(self, rank: int, offset: int, values: Block) -> Request:
        """Starts a put of `values`, of any shape and dtype. They must stay as they are until the
        request is done. Not collective. Errors: as put."""

    @property
    def local(self) -> NDArray[numpy.uint8]:
        """The own slice, of dtype uint8 and shape (bytes,), without a copy. Valid until free().
        Not collective. Errors: FreedError."""

    def pointer(self, rank: int) -> NDArray[numpy.uint8] | None:
        """A same-node member's slice, of dtype uint8 and shape (bytes,), without a copy; None if
        it is on another node. Not collective. Errors: InvalidError (no member), FreedError."""

    def nbytes(self, rank: int | None = None) -> int:
        """Bytes of the slice of `rank` (default: own); 0 of no member. Not collective. Errors:
        FreedError."""

    def get(self, rank: int, offset: int, out: Block) -> Block:
        """Copies out.nbytes bytes of the slice of `rank` into `out` (of any shape and dtype,
        C-contiguous), and returns it. Not collective. Errors: RangeError (beyond the slice),
        InvalidError."""

    def put(self, rank: int, offset: int, values: Block) -> None:
        """Copies `values` (of any shape and dtype, C-contiguous) into the slice of `rank`. They
        may be reused on return; others see the data after fence or sync. Not collective.
        Errors: RangeError (beyond the slice), InvalidError."""

    def acc(self, rank: int, offset: int, values: Block, alpha: complex | None = None) -> None:
        """slice += alpha * values (alpha None: 1), atomic per element; of any shape, of the
        dtypes that update takes. Not collective. Errors: RangeError (beyond the slice),
        InvalidError, DtypeError."""

    def fetch_add(self, rank: int, offset: int, value: int, dtype: DTypeLike = "int64") -> int:
        """Adds `value` to one word, int64 or int32, at a multiple of its size, atomically;
        returns the old value. Not collective. Errors: RangeError (beyond the slice),
        InvalidError (the offset, or a number that does not fit), DtypeError."""

    def swap(self, rank: int, offset: int, value: int, dtype: DTypeLike = "int64") -> int:
        """Stores `value` in one word, int64 or int32, at a multiple of its size, atomically;
        returns the old value. Not collective. Errors: RangeError (beyond the slice),
        InvalidError (the offset, or a number that does not fit), DtypeError."""

    def compare_swap(
        self, rank: int, offset: int, expected: int, desired: int, dtype: DTypeLike = "int64"
    ) -> int:
        """Stores `desired`, if `expected` is there, in one word, int64 or int32, at a multiple
        of its size, atomically; returns the old value. Not collective. Errors: RangeError
        (beyond the slice), InvalidError (the offset, or a number that does not fit),
        DtypeError."""

    def put_notify(
        self, rank: int, offset: int, values: Block | None, counter_offset: int, increment: int = 1
    ) -> None:
        """put, of any shape and dtype, then adds `increment` to the 64-bit counter at
        `counter_offset` of the same slice: a reader that sees the counter sees the data.
        `values` None: only the counter. Not collective. Errors: RangeError (beyond the
        slice), InvalidError."""

    def notify_wait(self, counter_offset: int, at_least: int, timeout: float | None = None) -> int:
        """Sleeps until the own counter is at least `at_least`; returns it. `timeout` in seconds;
        None: no limit. Not collective. Errors: TimeoutError, RangeError, InvalidError."""

    def free(self) -> None:
        """Gives the memory back. Collective. Errors: FreedError."""

@final
class Mutexes:
    """Each member hosts `count` fair mutexes. Making it is collective. Errors: InvalidError,
    NoMemoryError."""

    def __init__(self, count: int, *, group: Group | None = None) -> None: ...

    def lock(self, rank: int, index: int = 0) -> bool:
        """Waits for mutex `index` of `rank`. True, unless the rank that held it before died with
        it (on_failure="continue"): then what it guards may be half changed. Not collective.
        Errors: RangeError, InvalidError (already held)."""

    def unlock(self, rank: int, index: int = 0) -> None:
        """What the holder issued to that rank's node is visible to the next holder. Not
        collective. Errors: InvalidError (not held)."""

    def free(self) -> None:
        """Gives the memory back. Collective. Errors: FreedError."""

@final
class Counter:
    """A shared 64-bit counter that hands out work. Making it is collective. Errors: InvalidError
    (`host` is no member), NoMemoryError."""

    def __init__(
        self, start: int = 0, *, group: Group | None = None, host: int | None = None
    ) -> None:
        """`host`: the rank that holds the number; default: the first of the group. Collective."""

    def next(self, n: int = 1) -> int:
        """Adds n and returns the old value, atomically. Not collective. Errors: FreedError,
        PeerDeadError."""

    def reset(self, value: int = 0) -> None:
        """Sets the value. Begins and ends with a sync. Collective. Errors: FreedError."""

    def free(self) -> None:
        """Gives the memory back. Collective. Errors: FreedError."""

@final
class Window:
    """Memory of each member of a group that the others access in epochs.

    An *access epoch* lies between two synchronization calls. docs/windows.md explains epochs.
    The meaning is that of MPI's windows.

    lock, lock_all, fence, start and post act at once; what they return is a context manager
    that ends the epoch: with unlock, unlock_all, a second fence, complete or wait. After an
    error in its body, `with` ends epochs of lock, lock_all and start all the same. It leaves
    out what would wait for other members: the second fence, and wait.

    Displacements (`at`) count elements of the target's memory, in C order, from 0. Calls that
    may wait release the interpreter lock. Every call may raise InvalidError (outside an
    epoch, or in one of another kind: the text names it) and FreedError. Arrays are
    C-contiguous and of the window's dtype; a window of bytes (uint8) takes arrays of every
    dtype. Numbers and lists are converted.
    """

    @property
    def local(self) -> Block:
        """The own memory, without a copy: shape and dtype as given. Valid until free(). Not
        collective. Errors: FreedError."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the own memory. Not collective."""

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Of the elements of every member. Not collective."""

    @property
    def group(self) -> Group:
        """The members. Not collective."""

    def pointer(self, rank: int) -> Block | None:
        """The memory of a member on the own node, without a copy, of shape (elements,) and the
        window's dtype; None if it is on another node, or was not allocated by window(). Valid
        until free(). Not collective. Errors: InvalidError (no member)."""

    def nbytes(self, rank: int | None = None) -> int:
        """Bytes of the memory of `rank` (default: own); 0 of no member. Not collective. Errors:
        FreedError."""

    def free(self) -> None:
        """Frees the window and its memory. Collective. Errors: InvalidError (an own epoch is
        open)."""

    def __enter__(self) -> Window: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def attach(self, memory: Block) -> int:
        """Makes a C-contiguous, writable array of any shape and dtype accessible through a
        dynamic window. Returns its address: send that to the others. Keeps it alive until
        detach or free. Not collective. Errors: InvalidError (it overlaps attached memory, or
        the window is not dynamic), NoMemoryError (1024 areas are attached)."""

    def detach(self, address: int) -> None:
        """Takes back what was attached at `address`. Not collective. Errors: InvalidError
        (nothing is)."""

    def lock(self, rank: int, *, shared: bool = False, no_check: bool = False) -> Epoch:
        """Begins an access epoch at the memory of `rank`, which takes no part: alone, or beside
        other shared holders. no_check: you promise that nobody locks in conflict. Not
        collective. Errors: InvalidError (locked already, or another kind of epoch is open)."""

    def unlock(self, rank: int) -> None:
        """Ends the epoch of lock. What was issued in it is done there and here. Not collective.
        Errors: InvalidError (not locked)."""

    def lock_all(self, *, no_check: bool = False) -> Epoch:
        """Shared locks of all members, each taken when it is first used. Not collective. Errors:
        InvalidError (an epoch is open)."""

    def unlock_all(self) -> None:
        """Ends the epoch of lock_all. What was issued in it is done there and here. Not
        collective. Errors: InvalidError (not locked)."""

    def flush(self, rank: int | None = None) -> None:
        """What was issued to `rank` (default: to all) is done there and here; the epoch goes on.
        Not collective. Errors: InvalidError (no epoch of lock or lock_all)."""

    def fence(
        self,
        *,
        no_store: bool = False,
        no_put: bool = False,
        no_precede: bool = False,
        no_succeed: bool = False,
    ) -> Epoch:
        """Ends the epochs of the last fence and begins new ones: what any member issued before
        is done. `with` calls it again at the end, with no_succeed. The promises are those of
        MPI's assertions. Collective. Errors: InvalidError (another kind of epoch is open)."""

    def post(
        self,
        ranks: Sequence[int],
        *,
        no_check: bool = False,
        no_store: bool = False,
        no_put: bool = False,
    ) -> Epoch:
        """Exposes the own memory to `ranks`, which call start. `with` waits at the end, so
        ``with w.post([left]), w.start([right]): w.put(right, 0, x)`` passes x round a ring.
        Not collective. Errors: InvalidError (ranks that are no members, or memory is exposed
        already)."""

    def start(self, ranks: Sequence[int], *, no_check: bool = False) -> Epoch:
        """Begins an access epoch at the memory of `ranks`; waits until they have posted. Not
        collective. Errors: InvalidError (ranks that are no members, or an epoch is open)."""

    def complete(self) -> None:
        """Ends the epoch of start: what was issued in it is done here. Not collective. Errors:
        InvalidError (no such epoch)."""

    def wait(self) -> None:
        """Ends the epoch of post: waits until all `ranks` of it called complete. What they
        issued is done. Not collective. Errors: InvalidError (no such epoch)."""

    def test(self) -> bool:
        """Whether wait would return at once; if so, the epoch of post has ended. Not collective.
        Errors: InvalidError (no such epoch)."""

    def sync(self) -> None:
        """Orders own loads and stores of window memory with others' accesses. Not collective.
        Errors: FreedError."""

    def put(self, rank: int, at: int, values: ArrayLike) -> None:
        """Copies `values`, of any shape, to displacement `at` of the memory of `rank`; dtype:
        the window's. They may be reused on return; others see the data after the epoch, or
        flush. Not collective. Errors: RangeError (beyond the target's memory), DtypeError."""

    def get(self, rank: int, at: int, out: Block | None = None) -> Any:
        """Copies into `out`, of any shape, what is at displacement `at`, and returns it; dtype:
        the window's. `out` None: returns one element, as a NumPy scalar. Returns with the
        data. Not collective. Errors: RangeError (beyond the target's memory), DtypeError."""

    def put_nb(self, rank: int, at: int, values: ArrayLike) -> Request:
        """Starts a put: shapes and dtypes as there. Wait for the request inside the epoch; do
        not change `values` before. Not collective. Errors: as put."""

    def get_nb(self, rank: int, at: int, out: Block) -> Request:
        """Starts a get: shapes and dtypes as there. Wait for the request inside the epoch; it
        returns `out`. Not collective. Errors: as get."""

    def update(self, rank: int, at: int, values: ArrayLike, op: UpdateOp = "sum") -> None:
        """target[i] = target[i] op values[i], each element atomically with all other updates of
        the window. `values`, of any shape, may be reused on return. dtypes: whole numbers of
        1 to 8 bytes, floating point, complex. Not collective. Errors: RangeError, DtypeError,
        InvalidError (the dtype does not have the operation)."""

    def fetch_update(
        self,
        rank: int,
        at: int,
        values: ArrayLike | None,
        op: UpdateOp = "sum",
        out: Block | None = None,
    ) -> Any:
        """As update; returns what the elements were before, in `out` if given: of the shape and
        dtype of the values, a NumPy scalar for a scalar. values None with "no_op": reads one
        element, or `out`. Not collective. Errors: as update."""

    def compare_swap(self, rank: int, at: int, expected: Any, desired: Any) -> Any:
        """Stores `desired` if the element is `expected`: it was if that is what is returned.
        dtypes: whole numbers of 1 to 8 bytes; shapes: one element. Not collective. Errors:
        RangeError, DtypeError."""

def _window_allocate(
    bytes: int, dtype: numpy.dtype[Any], shape: tuple[int, ...], group: Group | None
) -> Window: ...

def _window_over(
    memory: Block | None, dtype: numpy.dtype[Any], shape: tuple[int, ...], group: Group | None
) -> Window: ...

@final
class Epoch:
    """An epoch of a window, for ``with``, which ends it. Without ``with``, end it by the
    window's calls."""

    def __enter__(self) -> Epoch: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def xp_blocks() -> None: ...

def xp_merge(low: Block, high: Block, out: Block) -> None:
    """Merges two ascending 1-d arrays of one dtype into `out`, which has room for both; of
    equal values those of `low` come first, NaN is last. Not collective. Errors: TypeError
    (other than integers, float32 and float64, of two dtypes, or not in one piece)."""

def xp_setup(view: Block, generic: type, functions: dict[str, Any], /) -> None: ...
def xp_limits(ranks: int, lazy_elements: int, whole_bytes: int, crowd_bytes: int, /) -> None: ...
def xp_function(whole: Any, spread: Any, kind: str, /) -> Any: ...
def xp_whole(block: Any, /) -> Any: ...
def xp_room(shape: tuple[int, ...], dtype: Any, operands: list[Any], /) -> Any: ...
def xp_bytes() -> tuple[int, int]: ...
