"""NumPy's functions and methods on whole arrays: for any arguments they give what NumPy gives, or
an error that names what to call instead."""

import inspect
import random
import re
import warnings
import zlib

import numpy as np
import pytest

import skerry as sk
import skerry.numpy as snp
from skerry import xp


def tells_arguments(function):
    """Functions and methods in C do so from NumPy 2.4 on."""
    try:
        return bool(inspect.signature(function))
    except ValueError:
        return False


MODULES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
FUNCTIONS = {
    f"{module}.{name}": getattr(home, name)
    for module, home in MODULES.items()
    for name in home.__all__
    if type(getattr(home, name)).__name__ == "_ArrayFunctionDispatcher"
    and tells_arguments(getattr(home, name))
}
# They write files.
LEAVE_OUT = {
    "numpy.empty_like",
    "numpy.argpartition",  # of several orders, NumPy's is its own: test_names.py
    "numpy.partition",
    "numpy.unique_values",  # of any values, in any order
    "numpy.save",
    "numpy.savez",
    "numpy.savez_compressed",
    "numpy.savetxt",
}
# Some arguments that NumPy refuses have a meaning here.
LENIENT = set(
    """numpy.clip numpy.convolve numpy.reshape x.reshape numpy.fft.fftshift x.std x.var
    x.clip numpy.fft.ifftshift numpy.linalg.norm numpy.std numpy.var numpy.astype numpy.sort
    numpy.argsort x.argsort""".split()
)
if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    LEAVE_OUT.add("numpy.nonzero")  # took numbers too
if np.lib.NumpyVersion(np.__version__) < "2.4.0":
    LENIENT.add("numpy.size")  # of one axis only
METHODS = [
    name for name in dir(np.ndarray)
    if not name.startswith("_") and callable(getattr(np.ndarray, name))
    and tells_arguments(getattr(np.ndarray, name))
    and name not in ("tofile", "dump", "setflags", "to_device", "dumps", "view", "resize")
    and name not in ("argpartition", "partition")
]  # fmt: skip
EXPLICIT = re.compile(r"\.numpy\(\)|xp\.\w|x\.local")
SHAPES = [(6,), (4, 5), (3, 3), (2, 3, 4), (1, 4), ()]
DTYPES = ["float64", "float64", "int64", "complex128", "bool", "int16", "float32"]
ARRAYS = set("a x x1 m arr ary v array A".split())
VALUES = {
    "axis": [None, 0, 1, -1, (0, 1)], "axes": [None, (1, 0), (0, 2, 1), 1, ([0], [0])],
    "keepdims": [True, False], "dtype": ["float32", "int64", "complex128", None], "ddof": [0, 1],
    "decimals": [0, 1, 2, -1], "initial": [0, 3], "k": [0, 1, -1], "offset": [0, 1, -1],
    "axis1": [0, 1, -1], "axis2": [0, 1, -1], "indices": [0, -1, [0, 2], [[0, 1], [2, 0]]],
    "mode": ["raise", "clip", "wrap", "same", "reduced", "r"], "shift": [1, -2, (1, 2)],
    "repeats": [0, 2], "reps": [2, (2,), (2, 1), (1, 2, 2)], "n": [None, 0, 1, 2, 5],
    "order": ["C", "F", "K", "A", None], "shape": [(-1,), -1, (2, -1), (3, 4, 5), (4,)],
    "kind": [None, "stable"], "side": ["left", "right"], "a_min": [0, 1, 0.5, None],
    "a_max": [2, 3, 1.5, None], "min": [0, 1], "max": [1, 2], "source": [0, -1],
    "ord": [None, 1, 2],
    "destination": [0, -1], "return_index": [True], "return_inverse": [True], "minlength": [9],
    "return_counts": [True], "equal_nan": [True, False], "norm": [None, "ortho"], "s": [None, (4,)],
    "rtol": [0.1], "atol": [0.1], "copy": [True, False], "casting": ["unsafe"], "subok": [True],
    "UPLO": ["L", "U"], "full_matrices": [True, False], "compute_uv": [True, False],
    "upper": [True, False], "returned": [True, False], "stable": [None, True],
    "to_end": [1], "prepend": [0], "append": [0], "fill_value": [3], "value": [3],
    "indexing": ["ij"],
    "sparse": [True, False], "kth": [1], "inplace": [False], "include_initial": [True, False],
}  # fmt: skip


def an_array(dice, shape=None, dtype=None):
    shape = dice.choice(SHAPES) if shape is None else shape
    values = np.random.default_rng(dice.randrange(1 << 30)).integers(-9, 10, shape)
    values = values / 2 if dice.random() < 0.7 else values
    return np.asarray(values.astype(dtype or dice.choice(DTYPES)))


def value_of(name, dice, first):
    """For a parameter of that name."""
    if name in ARRAYS | {"condition", "y", "x2", "b", "choices", "weights", "values", "other"}:
        alike = dice.random() < 0.7
        return an_array(dice, first.shape if alike and first is not None else None)
    if name in ("arrays", "tup", "args", "xi", "operands"):
        shape = dice.choice(SHAPES)
        return [an_array(dice, shape) for _ in range(dice.randint(1, 3))]
    if name in ("where", "where_"):
        return an_array(dice, None if first is None else first.shape, "bool")
    if name == "val":
        return 1
    if name.startswith("axis") and first is not None and not first.ndim:
        return None  # some functions know axes of numbers, others do not
    return dice.choice(VALUES.get(name, [0, 1]))


def arguments_for(parameters, dice, first=None):
    method = first is not None
    """(positional, by name) of a call."""
    positional, named, by_name = [], {}, False
    for parameter in parameters:
        required = parameter.default is parameter.empty
        if parameter.kind == parameter.VAR_KEYWORD or parameter.name in ("like", "out", "xp"):
            by_name = True
            continue
        if parameter.kind == parameter.VAR_POSITIONAL:
            if method:  # axes, a shape, an index
                positional += [0] * (parameter.name == "args")
            else:
                positional += value_of("operands", dice, first)
            continue
        if not required and dice.random() < 0.6:
            by_name = True
            continue
        value = value_of(parameter.name, dice, first)
        first = value if isinstance(value, np.ndarray) and first is None else first
        if by_name or parameter.kind == parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return positional, named


def is_array(value):
    return isinstance(value, np.ndarray) or (
        isinstance(value, list) and value and isinstance(value[0], np.ndarray)
    )


def whole(value):
    """The same for skerry.xp."""
    if isinstance(value, np.ndarray):
        return xp.asarray(value, copy=True)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [whole(each) for each in value]
    return value


def outcome(call, positional, named):
    """(value, error)"""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return call(*positional, **named), None
    except Exception as error:  # noqa: BLE001 (any: it is compared)
        return None, error


def differences(ours, theirs):
    """How two results differ; None if they do not."""
    if isinstance(theirs, (tuple, list)) and not isinstance(ours, xp.Array):
        if not isinstance(ours, (tuple, list)) or len(ours) != len(theirs):
            return f"{ours} instead of {theirs}"
        return next(filter(None, map(differences, ours, theirs)), None)
    if isinstance(ours, xp.Array):
        ours = ours.numpy()
    if not isinstance(theirs, (np.ndarray, np.generic)):
        return None if np.array_equal(ours, theirs) else f"{ours} instead of {theirs}"
    ours = np.asarray(ours)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.shape} {ours.dtype} instead of {theirs.shape} {theirs.dtype}"
    exact = theirs.dtype.kind not in "fc"
    alike = (
        np.array_equal(ours, theirs)
        if exact
        else np.allclose(
            ours,
            theirs,
            rtol=1e-4 if theirs.dtype.itemsize < 8 else 1e-9,
            atol=1e-5,
            equal_nan=True,
        )
    )
    return None if alike else f"{ours} instead of {theirs}"


def compare(name, theirs, ours, positional, named):
    """Runs both; says what is wrong."""
    if "argsort" in name:  # by default, NumPy may order equal elements as it likes
        positional = positional[:1]
        named = {"kind": "stable", **({"axis": named["axis"]} if "axis" in named else {})}
    if "searchsorted" in name and positional[0].ndim:
        positional = [np.sort(positional[0]), *positional[1:3]]
        named = {key: value for key, value in named.items() if key != "sorter"}
    expected, refused = outcome(theirs, positional, named)
    alike = {key: whole(value) for key, value in named.items()}
    got, error = outcome(ours, list(map(whole, positional)), alike)
    call = ", ".join([*map(repr, positional), *(f"{k}={v!r}" for k, v in named.items())])
    call = " ".join(f"{name}({call})".split())
    if error is not None:
        if refused is None and not EXPLICIT.search(str(error)):
            return f"{type(error).__name__}: {error}, instead of {expected!r}: {call}"
        return None
    if refused is not None:
        return None if name in LENIENT else f"{got!r} instead of {refused!r}: {call}"
    wrong = differences(got, expected)
    return wrong and f"{wrong}: {call}"


@pytest.fixture(autouse=True, params=[0, 1 << 14] if sk.size() == 1 else [0])  # divided, whole
def layouts(request):
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=request.param, check_calls=1)
    yield
    xp.options(whole_bytes=before, check_calls=0)


CALLS = 8 if sk.size() == 1 else 3


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - LEAVE_OUT))
def test_functions(name):
    function, dice = FUNCTIONS[name], random.Random(zlib.crc32(name.encode()))
    parameters = list(inspect.signature(function).parameters.values())
    for _ in range(CALLS):
        positional, named = arguments_for(parameters, dice)
        if not any(map(is_array, [*positional, *named.values()])):
            continue
        wrong = compare(name, function, function, positional, named)
        assert not wrong, wrong


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    dice = random.Random(zlib.crc32(name.encode()))
    parameters = list(inspect.signature(getattr(np.ndarray, name)).parameters.values())[1:]
    if name in ("max", "min", "sum", "mean", "prod", "std", "var"):
        parameters += list(inspect.signature(getattr(np, name)).parameters.values())[4:]
        parameters = list({p.name: p for p in parameters if p.kind != p.VAR_KEYWORD}.values())

    def call(x, *positional, **named):
        value = getattr(x, name)(*positional, **named)
        return x if value is None else value  # those in place give nothing

    for _ in range(CALLS):
        first = an_array(dice)
        positional, named = arguments_for(parameters, dice, first)
        wrong = compare(f"x.{name}", call, call, [first.copy(), *positional], named)
        assert not wrong, wrong


def stored(np_, a):
    a[range(3), range(3)] = 0
    return a


def test_what_a_newcomer_wrote_and_met():
    """Each was an error on divided arrays, or wrong in silence (emath)."""
    values = np.arange(120.0).reshape(12, 10)
    for call in (
        stored,
        lambda np_, a: a[(0, 1), (1, 2)],
        lambda np_, a: a[(0, 1), :],
        lambda np_, a: a[range(3)],
        lambda np_, a: a[:, range(2)],
        lambda np_, a: np_.emath.sqrt(a - 50.5),
        lambda np_, a: np_.emath.log(a - 50.5),
        lambda np_, a: np_.emath.logn(2, a - 50.5),
        lambda np_, a: np_.c_[a[:, 0], a[:, 1:3]],
        lambda np_, a: np_.c_[np_.ones(12), a],
        lambda np_, a: np_.r_[0, a[0], 5.0],
        lambda np_, a: np_.r_[a, a],
        lambda np_, a: np_.r_[2:5, 1],
    ):
        got = call(snp, snp.asarray(values.copy()))
        expected = call(np, values.copy())
        got = got.numpy() if isinstance(got, xp.Array) else np.asarray(got)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-14)
    with pytest.raises(ValueError, match="truth|0-d"):
        bool(snp.asarray(values) > 3)
