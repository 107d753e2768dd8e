"""A pytest plugin: every call of a NumPy function in NumPy's own tests is made twice.

Once as the test wrote it: the test goes on with that result, so it never stops early. Once with
every array argument as a divided array of skerry.xp. Results, errors, and what the call wrote into
its arguments are compared. All ranks run the same tests with the same random numbers. Each rank
tells what it counted in the file SKERRY_USER_REPORT.RANK.
"""

import functools
import json
import os
import types
import warnings
import zlib
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

import skerry as sk
import skerry.xp as xp
from skerry.xp._info import DTYPES

sk.init()
xp.options(
    whole_bytes=int(os.environ.get("SKERRY_USER_WHOLE_BYTES", 0)),
    check_calls=int(sk.size() > 1),
    gather_bytes=1 << 26,
)
settings.register_profile(
    "judged", derandomize=True, database=None, deadline=None, max_examples=20,
    suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
MOST_BYTES = 1 << 22  # of an argument: larger ones test NumPy's limits, not what it computes
MOST_CALLS = 300  # of a function that are judged: some tests try every pair of dtypes
MOST_EXAMPLES = 3  # of what differs, a function
HOMES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
VERDICTS = ("same", "differs", "error", "refused", "lenient")
counts: dict[str, Counter] = defaultdict(Counter)
examples: dict[str, list[str]] = defaultdict(list)
where = {"test": "", "busy": False}


def covered():
    """NumPy's functions by identity."""
    found = {}
    for module, home in HOMES.items():
        for name in home.__all__:
            value = getattr(home, name)
            kind = type(value).__name__
            if kind in ("_ArrayFunctionDispatcher", "ufunc"):
                found.setdefault(id(value), (f"{module}.{name}", value))
    return found


FUNCTIONS = covered()
# They write files, take no arrays, or give what is in no order.
LEAVE_OUT = {
    f"numpy.{name}"
    for name in "save savez savez_compressed savetxt empty empty_like array2string array_repr "
    "array_str busday_count busday_offset is_busday datetime_as_string result_type can_cast "
    "min_scalar_type einsum_path shares_memory may_share_memory common_type argpartition partition "
    "unique_values apply_over_axes apply_along_axis piecewise".split()
}



def convertible(value):
    """Whether an argument can be an array of skerry.xp."""
    return (
        type(value) is np.ndarray
        and value.dtype in DTYPES.values()
        and value.dtype.isnative
        and value.nbytes <= MOST_BYTES
    )


def changed(value, change, kind):
    if isinstance(value, kind):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(changed(each, change, kind) for each in value)
    if type(value) is dict:
        return {key: changed(each, change, kind) for key, each in value.items()}
    return value


def leaves(value):
    if type(value) in (list, tuple):
        return [leaf for each in value for leaf in leaves(each)]
    if type(value) is dict:
        return leaves(list(value.values()))
    return [value]


def plain(value):
    """Judged functions among arguments, as NumPy's own."""
    return changed(value, lambda judged: judged.function, Judged)


def outcome(call, arguments, options):
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return call(*arguments, **options), None
    except Exception as error:  # noqa: BLE001 (any: it is compared)
        return None, error


def differences(ours, theirs):
    """How two results differ; None if they do not."""
    if isinstance(theirs, (tuple, list)):
        if not isinstance(ours, (tuple, list)) or len(ours) != len(theirs):
            return "another number of results"
        return next(filter(None, map(differences, ours, theirs)), None)
    if isinstance(ours, xp.Array):
        ours = ours.numpy()
    if not isinstance(theirs, (np.ndarray, np.generic)):
        if isinstance(theirs, (bool, int, float, complex, str, type(None))):
            return None if np.array_equal(ours, theirs, equal_nan=True) else f"{ours!r}: {theirs!r}"
        return None
    ours = np.asarray(ours)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.shape} {ours.dtype} instead of {theirs.shape} {theirs.dtype}"
    if theirs.dtype.kind not in "fc":
        return None if np.array_equal(ours, theirs) else "other values"
    rough = {2: 1e-2, 4: 1e-4}.get(theirs.dtype.itemsize // (1 + (theirs.dtype.kind == "c")), 1e-9)
    size = np.abs(theirs[np.isfinite(theirs)])
    most = float(size.max()) if size.size else 0.0
    with np.errstate(all="ignore"):
        alike = np.allclose(ours, theirs, rtol=rough, atol=rough * most, equal_nan=True)
    return None if alike else "other values"


def note(name, what, text=""):
    counts[name][what] += 1
    if what in ("differs", "error") and len(examples[name]) < MOST_EXAMPLES:
        examples[name].append(f"{where['test']}: {text}"[:700])


def told(name, arguments, options):
    text = ", ".join([*map(repr, arguments), *(f"{k}={v!r}" for k, v in options.items())])
    return " ".join(f"{name}({text})".split())[:500]


def judge(name, function, arguments, options):
    """Both calls, and what their comparison says."""
    if "empty" in [x for x in leaves([arguments, options]) if isinstance(x, str)]:
        return  # pad with whatever memory holds
    if name == "numpy.argsort":  # by default, NumPy may order equal elements as it likes
        axis = options.get("axis", arguments[1] if len(arguments) > 1 else -1)
        arguments, options = arguments[:1], {"axis": axis, "kind": "stable"}
    before = changed((arguments, options), np.copy, np.ndarray)
    theirs, refused = outcome(function, *changed(before, np.copy, np.ndarray))

    def own(x):
        return xp.asarray(x, copy=True) if convertible(x) else x.copy()

    mine = changed(before, own, np.ndarray)
    ours, error = outcome(function, *mine)
    if error is not None:
        if isinstance(error, sk.GatherError):
            note(name, "refused")
        elif refused is None:
            note(name, "error", f"{type(error).__name__}: {error}: {told(name, *before)}"[:600])
        else:
            note(name, "same")  # an error in both
        return
    if refused is not None:
        # Arrays of NumPy may be refused where ours have a meaning: counted apart.
        note(name, "lenient")
        return
    wrong = differences(ours, theirs)
    if wrong is None and not options.get("overwrite_input"):
        after = changed(before, np.copy, np.ndarray)
        outcome(function, *after)
        for x, y in zip(leaves(list(mine)), leaves(list(after)), strict=True):
            if isinstance(y, np.ndarray):
                wrong = wrong or differences(x, y)
    note(name, "differs" if wrong else "same", f"{wrong}: {told(name, *before)}")


class Judged:
    """A function of NumPy's in a test module."""

    def __init__(self, name, function):
        self.name, self.function = name, function
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *arguments, **options):
        arguments, options = plain(arguments), plain(options)
        arrays = [x for x in leaves([arguments, options]) if isinstance(x, np.ndarray)]
        fits = [x for x in arrays if convertible(x)]
        enough = sum(counts[self.name][what] for what in VERDICTS) >= MOST_CALLS
        numbers = all(x.dtype.kind not in "OV" for x in arrays)
        if fits and numbers and not where["busy"] and not enough:
            where["busy"] = True
            try:
                judge(self.name, self.function, arguments, options)
            finally:
                where["busy"] = False
        elif not where["busy"]:
            counts[self.name]["more" if fits else "beside"] += 1
        return self.function(*arguments, **options)

    def __getattr__(self, name):
        value = getattr(self.function, name)
        if name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            return Judged(f"{self.name}.{name}", value)
        return value

    def __reduce__(self):
        return self.function.__reduce__()

    def __repr__(self):
        return repr(self.function)


def judged(value):
    """What stands for a value in a test module."""
    found = FUNCTIONS.get(id(value))
    if found is None or found[0] in LEAVE_OUT:
        return value
    return Judged(*found)


class Numpy(types.ModuleType):
    """NumPy, as a test module sees it."""

    def __init__(self, module):
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["_module"] = module

    def __getattr__(self, name):
        value = getattr(self._module, name)
        if value is np.linalg or value is np.fft:
            return MODULES[value.__name__]
        return judged(value)

    def __setattr__(self, name, value):
        setattr(self._module, name, value)


MODULES = {name: Numpy(home) for name, home in HOMES.items()}
_seen = set()


def enter(module):
    if module.__name__ in _seen:
        return
    _seen.add(module.__name__)
    for name, value in list(vars(module).items()):
        if isinstance(value, types.ModuleType):
            if value.__name__ in MODULES:
                setattr(module, name, MODULES[value.__name__])
        elif id(value) in FUNCTIONS:
            setattr(module, name, judged(value))


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    settings.load_profile("judged")


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "module"):
            enter(item.module)
        for name, value in getattr(getattr(item, "callspec", None), "params", {}).items():
            if id(value) in FUNCTIONS:
                item.callspec.params[name] = judged(value)


_default_rng = np.random.default_rng
np.random.default_rng = lambda seed=None: _default_rng(12345 if seed is None else seed)


@pytest.fixture(autouse=True)
def together(request):
    """All ranks begin a test with the same random numbers."""
    where["test"] = request.node.nodeid.rpartition("/")[2]
    np.random.seed(zlib.crc32(where["test"].encode()))
    yield


outcomes: Counter = Counter()


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.outcome] += 1


def pytest_sessionfinish(session):
    session.exitstatus = 0  # a failing rank would end the others; the reports say what failed
    report = os.environ.get("SKERRY_USER_REPORT")
    if report:
        with open(f"{report}.{sk.rank()}", "w") as file:
            json.dump({"tests": outcomes, "calls": counts, "examples": examples}, file)
