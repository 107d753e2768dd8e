"""Random arrays: the same numbers on every number of ranks, each rank drawing its own part alone.

    rng = xp.random.default_rng(7)
    x = rng.random((4000, 4000))            # NumPy's own numbers of that seed
    y = rng.normal(size=(4000, 4000))

All members make the same generators and call them together; each keeps all of a generator's state.
What a call gives:

- `random` of float64 and float32, `uniform` between two numbers, and `bytes`: what
  numpy.random.default_rng(seed) gives, whatever the size. Its PCG64 jumps ahead to the own part.
- up to 65,536 numbers of any distribution: the same as NumPy gives. Every rank draws all of them.
- more of another distribution: other numbers than NumPy's, since how much of the stream each takes
  is known to those alone who draw it. They come in runs of 65,536 in C order; every run has a
  stream of its own (2^64 numbers of a PCG64DXSM), whose seed the generator draws.

The functions of this module (`rand`, `normal`, `seed`) are those of numpy.random.RandomState, the
same in the same way, but `random` and `rand` of more than 65,536 numbers, which come in runs.
"""

import builtins
import pickle
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import skerry as sk
from . import _exchange, _whole
from ._array import Array, as_array, made, new_layout, of_numpy
from ._manipulation import reshape

_RUN = 65536  # numbers that one stream gives, and most that every rank draws alike

_Distribution = Callable[..., Any]
Draw = Callable[[Any, int], np.ndarray]  # draw(generator, count): numbers in one dimension


def _shape(size: Any) -> tuple[int, ...]:
    if size is None:
        return ()
    return tuple(int(n) for n in size) if np.ndim(size) else (int(size),)


class _Streams:
    """A generator for each run, of the key that a call drew."""

    def __init__(self, key: Sequence[int]) -> None:
        self._bits = np.random.PCG64DXSM(np.random.SeedSequence(list(key)))
        self._begin = self._bits.state
        self._numpy = np.random.Generator(self._bits)

    def of(self, run: int) -> np.random.Generator:
        """The generator of a run, until the next one is asked for."""
        self._bits.state = self._begin
        self._bits.advance(run << 64)
        return self._numpy


def _runs(low: int, high: int, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """Elements low to high of a call's sequence, of which draw(run) gives a run."""
    out: np.ndarray | None = None
    for run in range(low // _RUN, -(-high // _RUN)):
        begin = run * _RUN
        drawn = draw(run)[max(low - begin, 0) : high - begin]
        if len(drawn) == high - low:
            return drawn
        if out is None:
            out = np.empty((high - low, *drawn.shape[1:]), drawn.dtype)
        at = max(begin - low, 0)
        out[at : at + len(drawn)] = drawn
    return draw(0)[:0] if out is None else out


def _values(key: Sequence[int], method: Draw, low: int, high: int) -> np.ndarray:
    """Elements low to high of a call's sequence: method(generator, count) draws a run."""
    streams = _Streams(key)
    return _runs(low, high, lambda run: method(streams.of(run), min(_RUN, high - run * _RUN)))


def _by_rows(
    shape: tuple[int, ...], dtype: Any, rows: Callable[[int, int], np.ndarray]
) -> Array:
    """An array whose flat elements low to high are rows(low, high)."""
    layout = new_layout(shape, dtype)
    box = layout.boxes[_exchange.job().rank]
    if all(bounds == (0, n) for bounds, n in zip(box[1:], shape[1:], strict=True)):
        (low, high), width = box[0], prod(shape[1:])
        block = rows(low * width, high * width).reshape(high - low, *shape[1:])
        return of_numpy(np.asarray(block, dtype)) if layout.whole else Array(block, layout)

    def fill(block: np.ndarray, box: Any) -> None:
        if not block.size:
            return
        (low, high), width = box[0], prod(shape[1:])
        drawn = rows(low * width, high * width).reshape(high - low, *shape[1:])
        block[...] = drawn[(slice(None), *(slice(*bounds) for bounds in box[1:]))]

    return made(layout, np.dtype(dtype), fill)


def _entropy() -> int:
    """A seed that nobody chose: rank 0's."""
    fresh = np.random.SeedSequence().generate_state(2, np.uint64)
    told = _exchange.broadcast(fresh.view(np.int64)).view(np.uint64)
    return int(told[0]) << 64 | int(told[1])


def _of_rank_0(source: Any) -> Any:
    """What every rank made of its own, as rank 0 made it: it may have asked its system for
    entropy."""
    if _exchange.ranks() == 1:
        return source
    mine = np.frombuffer(pickle.dumps(source), np.uint8).astype(np.int64)
    told = np.zeros(_exchange.agree([len(mine)])[0, 0], np.int64)
    told[: len(mine)] = mine[: len(told)]
    return pickle.loads(_exchange.broadcast(told).astype(np.uint8).tobytes())


class _Drawing:
    """What Generator and RandomState share: small draws are NumPy's, large ones come in runs."""

    _numpy: Any  # NumPy's generator; the same state on every rank
    # Distributions, made below; the same for RandomState, if NumPy's has them.
    beta: _Distribution
    binomial: _Distribution
    chisquare: _Distribution
    dirichlet: _Distribution
    exponential: _Distribution
    f: _Distribution
    gamma: _Distribution
    geometric: _Distribution
    gumbel: _Distribution
    hypergeometric: _Distribution
    laplace: _Distribution
    logistic: _Distribution
    lognormal: _Distribution
    logseries: _Distribution
    multinomial: _Distribution
    multivariate_normal: _Distribution
    multivariate_hypergeometric: _Distribution
    negative_binomial: _Distribution
    noncentral_chisquare: _Distribution
    noncentral_f: _Distribution
    normal: _Distribution
    pareto: _Distribution
    poisson: _Distribution
    power: _Distribution
    rayleigh: _Distribution
    standard_cauchy: _Distribution
    standard_exponential: _Distribution
    standard_gamma: _Distribution
    standard_normal: _Distribution
    standard_t: _Distribution
    triangular: _Distribution
    uniform: _Distribution
    vonmises: _Distribution
    wald: _Distribution
    weibull: _Distribution
    zipf: _Distribution

    def _key(self) -> list[int]:
        raise NotImplementedError

    def _draw(self, name: str, size: Any, *parameters: Any, **options: Any) -> Any:
        """Numbers of a distribution by its name in NumPy."""
        vectors = name in _VECTORS
        arrays = [p for p in parameters if not vectors and np.ndim(_small(p)) > 0]
        shape = (
            np.broadcast_shapes(*[np.shape(p) for p in arrays])
            if size is None and arrays
            else _shape(size)
        )
        count = prod(shape)
        if count <= _RUN:
            parameters = tuple(_whole.known(p, name) for p in parameters)
            value = getattr(self._numpy, name)(*parameters, size=size, **options)
            return of_numpy(value) if isinstance(value, np.ndarray) else value
        options.pop("method", None)
        if arrays:
            return self._of_parameters(name, shape, parameters, options)
        draw = _drawing(name, tuple(_whole.known(p, name) for p in parameters), options)
        sample = draw(np.random.default_rng(0), 1)  # its errors on every rank, and the dtype
        key = self._key()
        if vectors:
            wide = sample.shape[-1]
            flat = _by_rows((count, wide), sample.dtype, _of_rows(key, draw, wide))
            return reshape(flat, (*shape, wide))
        return _by_rows(shape, sample.dtype, lambda low, high: _values(key, draw, low, high))

    def _of_parameters(
        self, name: str, shape: tuple[int, ...], parameters: tuple, options: dict[str, Any]
    ) -> Array:
        """Parameters that are arrays: every run draws with its own part of them."""
        known = [np.broadcast_to(_whole.known(p, name), shape).reshape(-1) for p in parameters]
        key = self._key()

        streams, named = _Streams(key), _NEW_NAMES.get(name, name)

        def drawn(run: int) -> np.ndarray:
            part = slice(run * _RUN, (run + 1) * _RUN)
            return getattr(streams.of(run), named)(*[p[part] for p in known], **options)

        sample = getattr(np.random.default_rng(0), named)(*[p[:1] for p in known], **options)
        return _by_rows(shape, sample.dtype, lambda low, high: _runs(low, high, drawn))

    # ---- orders and choices ----------------------------------------------------------------------

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Numbers below x in random order, or the entries of x along an axis; a new array. More
        than 65,536 are sorted by random keys. Collective. Gathers: no."""
        if hasattr(x, "__index__") and not isinstance(x, (Array, np.ndarray)):
            n = int(x)
            return of_numpy(self._numpy.permutation(n)) if n <= _RUN else self._order(n)
        x = x if isinstance(x, Array) else as_array(np.asarray(x))
        from ._indexing import take_known

        order = self._order_of(x.shape[axis])
        if isinstance(order, np.ndarray):
            return take_known(x, order, axis % x.ndim)
        from ._indexing import take

        return take(x, order, axis=axis)

    def _order_of(self, n: int) -> Any:
        return self._numpy.permutation(n) if n <= _RUN else self._order(n)

    def _order(self, n: int) -> Array:
        from ._sorting import argsort

        key = self._key()
        keys = _by_rows(
            (n,), "uint64", lambda low, high: _values(key, _whole_words, low, high)
        )
        return argsort(keys)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """The entries of x along an axis in random order, in place. Collective. Gathers: no."""
        if not isinstance(x, Array):
            self._numpy.shuffle(x) if axis == 0 else self._numpy.shuffle(x, axis)
            return
        x[...] = self.permutation(x, axis) if axis else self.permutation(x)

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, *rest: Any,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Entries of a (or numbers below it), with probabilities p, with or without putting them
        back. Collective. Gathers: p; a if it is short."""
        number = hasattr(a, "__index__") and not isinstance(a, (Array, np.ndarray))
        n = int(a) if number else np.shape(a)[rest[0] if rest else options.get("axis", 0)]
        count = prod(_shape(size))
        if count <= _RUN and n <= _RUN or size is None and p is None and replace:
            p = _whole.known(p, "choice")
            shuffle = (rest[1:] or [options.get("shuffle", True)])[0]
            more = {} if shuffle else {"shuffle": False}  # RandomState has none
            places = self._numpy.choice(n, size, replace, p, **more)
            places = of_numpy(places) if isinstance(places, np.ndarray) else int(places)
        elif replace and p is None:
            places = self._integers_below(n, size)
        elif replace:
            edges = np.cumsum(np.asarray(_whole.known(p, "choice"), np.float64))
            if len(edges) != n or not np.isclose(edges[-1], 1):
                raise ValueError("probabilities do not sum to 1")
            edges /= edges[-1]
            from ._sorting import searchsorted

            drawn = self._draw("random", size)
            drawn = drawn if isinstance(drawn, Array) else of_numpy(np.asarray(drawn))
            places = searchsorted(of_numpy(edges), drawn, side="right")
            places = places if size is not None else int(places)
        elif p is None:
            if count > n:
                raise ValueError(
                    "Cannot take a larger sample than population when replace is False"
                )
            places = reshape(self._order(n)[:count], _shape(size))
        else:
            raise sk.GatherError(
                f"choice of {count} of {n} without putting them back, with probabilities, is not "
                "distributed: use numpy.random"
            )
        if number:
            return places
        a = a if isinstance(a, Array) else as_array(np.asarray(a))
        axis = rest[0] if rest else options.get("axis", 0)
        if isinstance(places, int):
            return a[(slice(None),) * (axis % a.ndim) + (places,)]
        from ._more import take

        return take(a, places, axis=axis)

    def _integers_below(self, n: int, size: Any) -> Any:
        raise NotImplementedError


def _small(value: Any) -> Any:
    return value if isinstance(value, (Array, np.ndarray, list, tuple)) else 0


def _whole_words(generator: Any, count: int) -> np.ndarray:
    return generator.integers(0, 1 << 64, count, np.uint64)


_NEW_NAMES = {"randint": "integers", "random_sample": "random"}
# Distributions whose numbers are vectors.
_VECTORS = frozenset(
    "dirichlet multinomial multivariate_normal multivariate_hypergeometric".split()
)


def _drawing(name: str, parameters: tuple, options: dict[str, Any]) -> Draw:
    name = _NEW_NAMES.get(name, name)
    return lambda generator, count: getattr(generator, name)(*parameters, size=count, **options)


def _of_rows(key: list[int], draw: Draw, wide: int) -> Callable[[int, int], np.ndarray]:
    """Flat elements of an array whose rows, not numbers, are drawn."""

    def rows(low: int, high: int) -> np.ndarray:
        return _values(key, draw, low // wide, high // wide).reshape(-1)

    return rows


class Generator(_Drawing):
    """numpy.random.Generator over PCG64: its methods with NumPy's arguments, for arrays of any
    size. What is the same as in NumPy: see the module. `out=` fills an array."""

    def __init__(self, seed: Any = None) -> None:
        """seed: as of numpy.random.default_rng; None: one that rank 0 chooses. Collective."""
        if isinstance(seed, np.random.SeedSequence):
            seed = _of_rank_0(seed)
        bits = seed if isinstance(seed, np.random.BitGenerator) else None
        if isinstance(seed, np.random.Generator):
            bits = seed.bit_generator
        if bits is not None and not isinstance(bits, (np.random.PCG64, np.random.PCG64DXSM)):
            raise TypeError(
                f"a {type(bits).__name__} cannot jump ahead by numbers: give a seed or a PCG64"
            )
        self._numpy = np.random.Generator(
            np.random.PCG64(_entropy() if seed is None else _whole.known(seed, "a seed"))
            if bits is None
            else _of_rank_0(bits)
        )

    @classmethod
    def _over(cls, numpy: np.random.Generator) -> "Generator":
        """A generator that is the same on every rank already, or that one rank alone uses."""
        self = cls.__new__(cls)
        self._numpy = numpy
        return self

    @property
    def bit_generator(self) -> Any:
        """NumPy's generator of bits; the same state on every rank. Not collective."""
        return self._numpy.bit_generator

    def __repr__(self) -> str:
        return f"skerry.xp.random.Generator({type(self.bit_generator).__name__})"

    def spawn(self, n_children: int) -> list["Generator"]:
        """Independent generators. Not collective. Errors: TypeError (bits without a seed)."""
        return [self._over(each) for each in self._numpy.spawn(n_children)]

    def bytes(self, length: int) -> builtins.bytes:
        """Random bytes, NumPy's, on every rank. Collective. Errors: none."""
        return self._numpy.bytes(length)

    def _key(self) -> list[int]:
        return [int(word) for word in self.bit_generator.random_raw(2)]

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform in [0, 1), float64 or float32; NumPy's numbers. Errors: TypeError (another
        dtype), ValueError (a negative length). Collective. Gathers: no."""
        dtype = np.dtype(dtype)
        if out is not None:
            out[...] = self.random(out.shape, dtype)
            return out
        shape = _shape(size)
        if size is None or prod(shape) <= _RUN or dtype not in (np.float64, np.float32):
            value = self._numpy.random(size, dtype)
            return of_numpy(value) if isinstance(value, np.ndarray) else value
        return self._ahead(shape, dtype, lambda numpy, count: numpy.random(count, dtype))

    def _draw(self, name: str, size: Any, *parameters: Any, **options: Any) -> Any:
        if name != "uniform" or prod(_shape(size)) <= _RUN or any(map(np.ndim, parameters)):
            return super()._draw(name, size, *parameters, **options)
        low, high = (_whole.known(p, name) for p in parameters)
        np.random.default_rng(0).uniform(low, high, 1)  # its errors on every rank
        return self._ahead(
            _shape(size), np.dtype(np.float64), lambda numpy, count: numpy.uniform(low, high, count)
        )

    def _ahead(self, shape: tuple[int, ...], dtype: Any, draw: Draw) -> Array:
        """An array of what draw(generator, count) draws, where each number takes a word of 64 bits,
        or half of one for float32. Each rank jumps ahead to its part."""
        before, narrow = self.bit_generator.state, dtype == np.float32
        self._skip(prod(shape), narrow)

        def rows(low: int, high: int) -> np.ndarray:
            mine = self._over(np.random.Generator(type(self.bit_generator)(0)))
            mine.bit_generator.state = before
            mine._skip(low, narrow)
            return draw(mine._numpy, high - low)

        return _by_rows(shape, dtype, rows)

    def _skip(self, count: int, narrow: bool) -> None:
        """Goes on by as many numbers. Of narrow ones a 64-bit word gives two: its low half, then
        its high half, which waits in the state."""
        bits = self.bit_generator
        if not narrow:
            state = bits.state
            bits.advance(count)
            if state["has_uint32"]:  # advance() forgets the half that waits
                bits.state = {**bits.state, "has_uint32": 1, "uinteger": state["uinteger"]}
            return
        if count and bits.state["has_uint32"]:
            self._numpy.random(dtype=np.float32)
            count -= 1
        if count > 1:
            bits.advance(count // 2)
        if count % 2:
            self._numpy.random(dtype=np.float32)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:  # fmt: skip
        """Integers in [low, high), or [0, low); with `endpoint` up to high itself. Errors:
        ValueError (low is not below high), TypeError (no dtype of whole numbers). Collective.
        Gathers: low and high."""
        if high is None:
            low, high = 0, low
        return self._draw("integers", size, low, high, dtype=dtype, endpoint=endpoint)

    def _integers_below(self, n: int, size: Any) -> Any:
        return self.integers(n, size=size)

    def permuted(self, x: Any, axis: int | None = None, out: Any = None) -> Array:
        """x with every line along an axis (None: all elements) in an order of its own. Shape and
        dtype: those of x. Errors: AxisError. Collective. Gathers: no."""
        from ._sorting import argsort
        from ._indexing import take_along_axis

        x = x if isinstance(x, Array) else as_array(np.asarray(x))
        if x.size <= _RUN:
            value = of_numpy(self._numpy.permuted(x.numpy(), axis=axis))
        else:
            flat = reshape(x, (-1,)) if axis is None else x
            line = 0 if axis is None else axis
            key = self._key()
            keys = _by_rows(
                flat.shape, "uint64", lambda low, high: _values(key, _whole_words, low, high)
            )
            value = take_along_axis(flat, argsort(keys, axis=line), axis=line)
            value = reshape(value, x.shape)
        if out is None:
            return value
        out[...] = value
        return out


class RandomState(_Drawing):
    """numpy.random.RandomState, of Mersenne Twister: numbers of up to 65,536 are NumPy's with that
    seed. Collective."""

    def __init__(self, seed: Any = None) -> None:
        self.seed(seed)

    def seed(self, seed: Any = None) -> None:
        """Begins the sequence of a seed; None: one that rank 0 chooses. Collective. Errors:
        ValueError (a seed that is negative or too large)."""
        seed = _entropy() % 2**32 if seed is None else seed
        self._numpy = np.random.RandomState(_whole.known(seed, "a seed"))

    def get_state(self, legacy: bool = True) -> Any:
        """The state, the same on every rank. Not collective. Errors: none."""
        return self._numpy.get_state(legacy)

    def set_state(self, state: Any) -> None:
        """Goes on from a state of get_state(). All members set the same. Collective. Errors:
        ValueError, TypeError (no state)."""
        self._numpy.set_state(state)

    def bytes(self, length: int) -> builtins.bytes:
        """Random bytes, NumPy's, on every rank. Collective. Errors: none."""
        return self._numpy.bytes(length)

    def _key(self) -> list[int]:
        return [int(word) for word in self._numpy.randint(0, 1 << 63, 2, np.int64)]

    def random_sample(self, size: Any = None) -> Any:
        """Uniform in [0, 1). Errors: ValueError (a negative length). Collective. Gathers: no."""
        return self._draw("random_sample", size)

    random = ranf = sample = random_sample

    def rand(self, *shape: int) -> Any:
        """random_sample(shape). Collective. Gathers: no. Errors: ValueError (a negative length)."""
        return self.random_sample(shape or None)

    def randn(self, *shape: int) -> Any:
        """standard_normal(shape). Collective. Gathers: no. Errors: ValueError (a negative
        length)."""
        return self.standard_normal(shape or None)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Integers in [low, high), or [0, low). Errors: ValueError (low is not below high).
        Collective. Gathers: low and high."""
        if high is None:
            low, high = 0, low
        return self._draw("randint", size, low, high, dtype=dtype)

    def random_integers(self, low: int, high: int | None = None, size: Any = None) -> Any:
        """Integers in [low, high], or [1, low]. Errors: ValueError (low is not below high).
        Collective. Gathers: no."""
        low, high = (1, low) if high is None else (low, high)
        return self.randint(low, high + 1, size)

    def _integers_below(self, n: int, size: Any) -> Any:
        return self.randint(n, size=size)


# Distributions: parameters with their defaults, in NumPy's order; then size.
_REQUIRED = object()
_DISTRIBUTIONS: dict[str, tuple[tuple[str, Any], ...]] = {
    "beta": (("a", _REQUIRED), ("b", _REQUIRED)),
    "binomial": (("n", _REQUIRED), ("p", _REQUIRED)),
    "chisquare": (("df", _REQUIRED),),
    "dirichlet": (("alpha", _REQUIRED),),
    "exponential": (("scale", 1.0),),
    "f": (("dfnum", _REQUIRED), ("dfden", _REQUIRED)),
    "gamma": (("shape", _REQUIRED), ("scale", 1.0)),
    "geometric": (("p", _REQUIRED),),
    "gumbel": (("loc", 0.0), ("scale", 1.0)),
    "hypergeometric": (("ngood", _REQUIRED), ("nbad", _REQUIRED), ("nsample", _REQUIRED)),
    "laplace": (("loc", 0.0), ("scale", 1.0)),
    "logistic": (("loc", 0.0), ("scale", 1.0)),
    "lognormal": (("mean", 0.0), ("sigma", 1.0)),
    "logseries": (("p", _REQUIRED),),
    "multinomial": (("n", _REQUIRED), ("pvals", _REQUIRED)),
    "multivariate_normal": (("mean", _REQUIRED), ("cov", _REQUIRED)),
    "multivariate_hypergeometric": (("colors", _REQUIRED), ("nsample", _REQUIRED)),
    "negative_binomial": (("n", _REQUIRED), ("p", _REQUIRED)),
    "noncentral_chisquare": (("df", _REQUIRED), ("nonc", _REQUIRED)),
    "noncentral_f": (("dfnum", _REQUIRED), ("dfden", _REQUIRED), ("nonc", _REQUIRED)),
    "normal": (("loc", 0.0), ("scale", 1.0)),
    "pareto": (("a", _REQUIRED),),
    "poisson": (("lam", 1.0),),
    "power": (("a", _REQUIRED),),
    "rayleigh": (("scale", 1.0),),
    "standard_cauchy": (),
    "standard_exponential": (),
    "standard_gamma": (("shape", _REQUIRED),),
    "standard_normal": (),
    "standard_t": (("df", _REQUIRED),),
    "triangular": (("left", _REQUIRED), ("mode", _REQUIRED), ("right", _REQUIRED)),
    "uniform": (("low", 0.0), ("high", 1.0)),
    "vonmises": (("mu", _REQUIRED), ("kappa", _REQUIRED)),
    "wald": (("mean", _REQUIRED), ("scale", _REQUIRED)),
    "weibull": (("a", _REQUIRED),),
    "zipf": (("a", _REQUIRED),),
}


def _distribution(name: str, parameters: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    names = [key for key, _ in parameters]

    def draw(self: _Drawing, *arguments: Any, **options: Any) -> Any:
        given = dict(zip([*names, "size"], arguments, strict=False))
        if len(arguments) > len(names) + 1 or given.keys() & options.keys():
            raise TypeError(f"{name} takes {', '.join(names)} and size")
        given.update(options)
        missing = [key for key, value in parameters if value is _REQUIRED and key not in given]
        if missing:
            raise TypeError(f"{name} needs {' and '.join(missing)}")
        ordered = [given.pop(key, value) for key, value in parameters]
        size, out = given.pop("size", None), given.pop("out", None)
        if out is not None:
            out[...] = self._draw(name, out.shape, *ordered, **given)
            return out
        return self._draw(name, size, *ordered, **given)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = (
        f"Numbers of numpy.random's {name}({', '.join([*names, 'size'])}): a number if size is "
        "None and no parameter is an array. Shape: size, or that of the parameters. dtype: as "
        "NumPy's. Errors: ValueError (parameters), TypeError (their names). Collective. Gathers: "
        "parameters that are arrays."
    )
    return draw


for _name, _parameters in _DISTRIBUTIONS.items():
    setattr(Generator, _name, _distribution(_name, _parameters))
    if hasattr(np.random.RandomState, _name):
        setattr(RandomState, _name, _distribution(_name, _parameters))


def default_rng(seed: Any = None) -> Generator:
    """A generator like numpy.random.default_rng(seed), the same on all members. None: a seed that
    rank 0 chooses. Collective. Errors: TypeError (bits that cannot jump ahead), ValueError (a
    negative seed)."""
    return seed if isinstance(seed, Generator) else Generator(seed)


BitGenerator, SeedSequence = np.random.BitGenerator, np.random.SeedSequence
PCG64, PCG64DXSM = np.random.PCG64, np.random.PCG64DXSM
MT19937, Philox, SFC64 = np.random.MT19937, np.random.Philox, np.random.SFC64

_global: list[RandomState] = []  # of the functions below, once one was called


def _state() -> RandomState:
    if not _global:
        _global.append(RandomState())
    return _global[0]


def _module_state() -> Any:
    """Of the functions below; None: none was called. Not collective."""
    return _global[0].get_state() if _global else None


def _set_module_state(state: Any) -> None:
    """As it was; None: none was called. Not collective."""
    if state is None:
        _global.clear()
        return
    if not _global:
        _global.append(RandomState(0))  # without a seed, all would have to agree on one
    _global[0].set_state(state)


def seed(seed: Any = None) -> None:
    """Begins the sequence of a seed; the same on all members. Collective. Errors: ValueError (a
    seed that is negative or too large)."""
    if _global:
        _global[0].seed(seed)
    else:
        _global.append(RandomState(seed))


def _module_function(name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(_state(), name)(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = getattr(RandomState, name).__doc__
    return call


# Methods of RandomState as functions.
beta = _module_function("beta")
binomial = _module_function("binomial")
bytes = _module_function("bytes")
chisquare = _module_function("chisquare")
choice = _module_function("choice")
dirichlet = _module_function("dirichlet")
exponential = _module_function("exponential")
f = _module_function("f")
gamma = _module_function("gamma")
geometric = _module_function("geometric")
get_state = _module_function("get_state")
gumbel = _module_function("gumbel")
hypergeometric = _module_function("hypergeometric")
laplace = _module_function("laplace")
logistic = _module_function("logistic")
lognormal = _module_function("lognormal")
logseries = _module_function("logseries")
multinomial = _module_function("multinomial")
multivariate_normal = _module_function("multivariate_normal")
negative_binomial = _module_function("negative_binomial")
noncentral_chisquare = _module_function("noncentral_chisquare")
noncentral_f = _module_function("noncentral_f")
normal = _module_function("normal")
pareto = _module_function("pareto")
permutation = _module_function("permutation")
poisson = _module_function("poisson")
power = _module_function("power")
rand = _module_function("rand")
randint = _module_function("randint")
randn = _module_function("randn")
random = _module_function("random")
random_integers = _module_function("random_integers")
random_sample = _module_function("random_sample")
ranf = _module_function("ranf")
rayleigh = _module_function("rayleigh")
sample = _module_function("sample")
set_state = _module_function("set_state")
shuffle = _module_function("shuffle")
standard_cauchy = _module_function("standard_cauchy")
standard_exponential = _module_function("standard_exponential")
standard_gamma = _module_function("standard_gamma")
standard_normal = _module_function("standard_normal")
standard_t = _module_function("standard_t")
triangular = _module_function("triangular")
uniform = _module_function("uniform")
vonmises = _module_function("vonmises")
wald = _module_function("wald")
weibull = _module_function("weibull")
zipf = _module_function("zipf")
