"""Random numbers are the same on any number of ranks, and NumPy's where the module says so."""

import numpy as np
import pytest

import skerry as sk
from skerry import xp
from skerry.xp import random

LARGE = 100_003  # more than one run, divided unevenly

# Of every distribution some parameters.
PARAMETERS = {
    "beta": (2, 3), "binomial": (10, 0.3), "chisquare": (3,), "dirichlet": ([1, 2, 3],),
    "exponential": (2,), "f": (2, 9), "gamma": (2, 3), "geometric": (0.3,), "gumbel": (1, 2),
    "hypergeometric": (9, 8, 7), "laplace": (1, 2), "logistic": (1, 2), "lognormal": (1, 2),
    "logseries": (0.3,), "multinomial": (9, [0.2, 0.3, 0.5]),
    "multivariate_normal": ([1, 2], [[2, 1], [1, 2]]),
    "multivariate_hypergeometric": ([3, 4, 5], 6), "negative_binomial": (9, 0.3),
    "noncentral_chisquare": (3, 2), "noncentral_f": (3, 9, 2), "normal": (1, 2), "pareto": (3,),
    "poisson": (4,), "power": (3,), "rayleigh": (2,), "standard_cauchy": (),
    "standard_exponential": (), "standard_gamma": (2,), "standard_normal": (), "standard_t": (3,),
    "triangular": (1, 2, 4), "uniform": (1, 2), "vonmises": (1, 2), "wald": (2, 3),
    "weibull": (2,), "zipf": (3,),
}  # fmt: skip


@pytest.fixture(autouse=True)
def divided():
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=0, check_calls=1)
    yield
    xp.options(whole_bytes=before, check_calls=0)


def same(ours, theirs):
    ours = ours.numpy() if isinstance(ours, xp.Array) else ours
    assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    np.testing.assert_array_equal(ours, theirs)


def test_every_distribution_of_numpy_is_there():
    left_out = {"random", "integers", "choice", "permutation", "permuted", "shuffle", "bytes",
                "spawn", "bit_generator"}  # fmt: skip
    theirs = {name for name in dir(np.random.Generator) if not name.startswith("_")} - left_out
    assert theirs == set(PARAMETERS)
    for name in np.random.__all__:
        assert hasattr(random, name), name


@pytest.mark.parametrize("name", PARAMETERS)
def test_distributions(name):
    parameters = PARAMETERS[name]
    ours, theirs = random.default_rng(5), np.random.default_rng(5)
    for size in (None, 7, (3, 50)):
        same(
            getattr(ours, name)(*parameters, size=size),
            getattr(theirs, name)(*parameters, size=size),
        )
    if hasattr(np.random.RandomState, name):
        old, their_old = random.RandomState(5), np.random.RandomState(5)
        same(getattr(old, name)(*parameters, 20), getattr(their_old, name)(*parameters, 20))


@pytest.mark.parametrize("name", ["normal", "poisson", "dirichlet", "standard_exponential"])
def test_many_numbers_come_in_runs_that_do_not_depend_on_the_ranks(name):
    parameters = PARAMETERS[name]
    x = getattr(random.default_rng(5), name)(*parameters, size=LARGE)
    assert x.layout.whole == (sk.size() == 1)
    key = np.random.PCG64(5).random_raw(2).tolist()
    expected = random._values(
        key, lambda rng, n: getattr(rng, name)(*parameters, size=n), 0, LARGE
    )
    same(x, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(LARGE,), (3, 40_000), (77, 31, 41)])
def test_uniform_numbers_are_numpys_whatever_the_size(dtype, shape):
    ours, theirs = random.default_rng(9), np.random.default_rng(9)
    for _ in range(2):
        same(ours.random(shape, dtype), theirs.random(shape, dtype))
        same(ours.random(3, "float32"), theirs.random(3, "float32"))
        same(ours.random(), theirs.random())
    assert ours.bytes(13) == theirs.bytes(13)
    assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)


@pytest.mark.parametrize("shape", [(LARGE,), (2, 50_000, 2), (1, 140_000)])
def test_numbers_between_two_are_numpys_whatever_the_size(shape):
    ours, theirs = random.default_rng(11), np.random.default_rng(11)
    same(ours.uniform(-2, 7, shape), theirs.uniform(-2, 7, shape))
    same(ours.random(9), theirs.random(9))  # it went on as far
    with pytest.raises(OverflowError):
        ours.uniform(0, np.inf, shape)


def test_integers_and_numbers_into_an_array():
    ours, theirs = random.default_rng(2), np.random.default_rng(2)
    same(ours.integers(5, size=1000), theirs.integers(5, size=1000))
    same(ours.integers(1, 6, (3, 4), "uint8", endpoint=True),
         theirs.integers(1, 6, (3, 4), "uint8", endpoint=True))  # fmt: skip
    many = ours.integers(3, size=LARGE).numpy()
    assert set(many.tolist()) == {0, 1, 2}
    out, into = xp.zeros(50), np.zeros(50)
    assert ours.random(out=out) is out
    theirs.bit_generator.state = {**theirs.bit_generator.state}
    del into
    with pytest.raises(ValueError):
        ours.integers(5, 2, LARGE)


def test_parameters_may_be_arrays():
    means = np.arange(50.0)
    ours, theirs = random.default_rng(2), np.random.default_rng(2)
    same(ours.normal(xp.asarray(means), 2), theirs.normal(means, 2))
    many = np.arange(float(LARGE))
    x = random.default_rng(2).normal(xp.asarray(many), 1e-9)
    np.testing.assert_allclose(x.numpy(), many, atol=1e-6)


def test_orders_and_choices():
    ours, theirs = random.default_rng(4), np.random.default_rng(4)
    x = np.arange(60.0).reshape(20, 3)
    same(ours.permutation(50), theirs.permutation(50))
    same(ours.permutation(xp.asarray(x)), x[theirs.permutation(20)])
    same(ours.choice(30, 9), theirs.choice(30, 9))
    same(ours.choice(30, 9, replace=False), theirs.choice(30, 9, replace=False))
    p = np.arange(30) / 435
    same(ours.choice(30, 9, p=p), theirs.choice(30, 9, p=p))
    same(ours.choice(xp.asarray(x[:, 0]), (2, 3)), theirs.choice(x[:, 0], (2, 3)))
    y = xp.asarray(x, copy=True)
    ours.shuffle(y)
    assert sorted(y.numpy()[:, 0].tolist()) == x[:, 0].tolist()
    lines = ours.permuted(xp.asarray(x), axis=1).numpy()
    assert (np.sort(lines, axis=1) == x).all()


def test_large_orders_and_choices():
    rng = random.default_rng(4)
    order = rng.permutation(LARGE).numpy()
    assert (np.sort(order) == np.arange(LARGE)).all() and (order[:9] != np.arange(9)).any()
    few = rng.choice(LARGE, 70_000, replace=False).numpy()
    assert len(set(few.tolist())) == 70_000
    many = rng.choice(3, LARGE, p=[0.5, 0, 0.5]).numpy()
    assert set(many.tolist()) == {0, 2} and abs(many.mean() - 1) < 0.02
    x = rng.random(LARGE)
    before = np.sort(x.numpy())
    rng.shuffle(x)
    same(np.sort(x.numpy()), before)
    same(np.sort(rng.permuted(x).numpy()), before)


def test_old_functions_follow_their_seed():
    random.seed(3)
    theirs = np.random.RandomState(3)
    same(random.rand(5, 6), theirs.rand(5, 6))
    same(random.randint(5, size=1000), theirs.randint(5, size=1000))
    same(random.randn(7), theirs.randn(7))
    assert random.normal() == theirs.normal() and type(random.random()) is float
    theirs.random()
    x = random.rand(300, 700)
    assert x.layout.whole == (sk.size() == 1)
    key = theirs.randint(0, 1 << 63, 2).tolist()
    expected = random._values(key, lambda generator, n: generator.random(n), 0, 210_000)
    same(x, expected.reshape(300, 700))
    assert (random.rand(300, 700).numpy() != x.numpy()).any()


def test_a_seed_that_nobody_chose_is_the_same_everywhere():
    for x in (random.default_rng().random(50), random.RandomState().rand(50)):
        assert (sk.allgather(x.numpy()) == x.numpy()).all()


@pytest.mark.parametrize("make", [np.random.SeedSequence, np.random.PCG64, np.random.default_rng])
def test_a_generator_of_the_systems_entropy_is_the_same_everywhere(make):
    # Each rank had its own, and "whole" arrays that differed.
    rng = random.default_rng(make())
    for each in (rng, rng.spawn(1)[0]):
        drawn = np.array([each.random()])
        assert (sk.allgather(drawn) == drawn).all()


def test_a_choice_is_numpys_whatever_the_number_of_places():
    numpys, ours = np.random.default_rng(3), random.default_rng(3)
    chances = np.full(100000, 1e-5)
    assert ours.choice(100000, p=chances) == numpys.choice(100000, p=chances)
    given = dict(size=5, replace=False, shuffle=False)
    assert ours.choice(10, **given).tolist() == numpys.choice(10, **given).tolist()
    assert ours.random(np.array([2, 3])).tolist() == numpys.random(np.array([2, 3])).tolist()


def test_a_generator_that_cannot_jump_is_refused():
    with pytest.raises(TypeError, match="PCG64"):
        random.default_rng(np.random.MT19937(3))
