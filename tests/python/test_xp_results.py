"""skerry.xp gives NumPy's results, wherever elements are: every test divides even small arrays."""

import tracemalloc

import numpy as np
import pytest

import skerry as sk
import skerry.numpy as snp
import skerry.xp as xp

RANDOM = np.random.default_rng(7)
MATRIX, FACTOR = RANDOM.random((23, 17)), RANDOM.random((17, 9))
VECTOR, CUBE = RANDOM.random(101), RANDOM.random((5, 6, 7))
WHOLE_NUMBERS = RANDOM.integers(0, 10, 77)
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
)


@pytest.fixture(autouse=True)
def divided():
    xp.options(whole_bytes=0, check_calls=1)
    yield
    xp.options(whole_bytes=16 << 10, check_calls=0)


def same(ours, numpys):
    numpys = np.asarray(numpys)
    ours = ours.numpy() if isinstance(ours, xp.Array) else ours  # an element is a number
    single = numpys.dtype in (np.float32, np.complex64)
    bound = 1e-5 if single else 1e-12
    np.testing.assert_allclose(ours, numpys, rtol=bound, atol=bound)
    assert ours.dtype == numpys.dtype


@pytest.fixture(params=["rows", "blocks", "turned", "reversed"])
def matrix(request):
    """MATRIX in several layouts."""
    if request.param == "rows":
        return xp.asarray(MATRIX)
    if request.param == "blocks":
        return xp.asarray(sk.asarray(MATRIX))
    if request.param == "turned":
        return xp.asarray(np.ascontiguousarray(MATRIX.T)).T
    return xp.asarray(np.ascontiguousarray(MATRIX[::-1]))[::-1]


@pytest.mark.parametrize("dtype", DTYPES.split())
def test_every_dtype(dtype):
    values = (RANDOM.random((9, 5)) * 4).astype(dtype)
    x = xp.asarray(values)
    same(x, values)
    same(x[::-2, 1:], values[::-2, 1:])
    same(xp.sum(x, axis=0), np.sum(values, axis=0))
    same(xp.concat([x, x[2:]], axis=0), np.concatenate([values, values[2:]]))
    same(x * x, values * values)


def test_basic_slices(matrix):
    for key in np.s_[
        3:20:2, ::-1], np.s_[5], np.s_[:, 4], np.s_[3, 4], np.s_[-1, ::-3], np.s_[4:4], \
            np.s_[..., 2], np.s_[None, 3:, None, 2], np.s_[20:2:-5, 1:]:  # fmt: skip
        same(matrix[key], MATRIX[key])
    with pytest.raises(IndexError, match="out of bounds for axis 0"):
        matrix[23]


def test_operands_with_other_layouts(matrix):
    other, vector = xp.asarray(MATRIX * 2), xp.asarray(VECTOR[:17])
    same(matrix + other, MATRIX + MATRIX * 2)
    same(other - matrix[::-1], MATRIX * 2 - MATRIX[::-1])
    same(matrix * vector, MATRIX * VECTOR[:17])
    same(matrix[:, :1] - vector, MATRIX[:, :1] - VECTOR[:17])
    same(matrix[1:] - matrix[:-1], MATRIX[1:] - MATRIX[:-1])
    same(xp.where(matrix > 0.5, other, 0.0), np.where(MATRIX > 0.5, MATRIX * 2, 0.0))
    same(xp.clip(matrix, 0.2, other), np.clip(MATRIX, 0.2, MATRIX * 2))
    same(2**matrix, 2**MATRIX)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(matrix, axis, keepdims):
    for name in "sum prod max min mean std var all any count_nonzero".split():
        ours = getattr(xp, name)(matrix, axis=axis, keepdims=keepdims)
        same(ours, getattr(np, name)(MATRIX, axis=axis, keepdims=keepdims))
    if not isinstance(axis, tuple):
        for name in "argmax", "argmin":
            ours = getattr(xp, name)(matrix, axis=axis, keepdims=keepdims)
            same(ours, getattr(np, name)(MATRIX, axis=axis, keepdims=keepdims))


def test_positions_of_equal_and_missing_values(matrix):
    rough = np.round(MATRIX * 3)
    same(xp.argmax(xp.round(matrix * 3), axis=0), np.argmax(rough, axis=0))
    same(xp.argmin(xp.round(matrix * 3)), np.argmin(rough))
    holes = np.where(MATRIX > 0.8, np.nan, MATRIX)
    same(xp.argmax(xp.asarray(holes), axis=0), np.argmax(holes, axis=0))


def test_cumulative(matrix):
    same(xp.cumulative_sum(xp.asarray(VECTOR)), np.cumsum(VECTOR))
    same(xp.cumulative_sum(matrix, axis=0), np.cumsum(MATRIX, 0))
    same(xp.cumulative_prod(matrix, axis=1), np.cumprod(MATRIX, 1))
    initial = np.concatenate([np.zeros((23, 1)), np.cumsum(MATRIX, 1)], axis=1)
    same(xp.cumulative_sum(matrix, axis=1, include_initial=True), initial)


def test_products(matrix):
    factor, vector = xp.asarray(FACTOR), xp.asarray(VECTOR[:17])
    same(matrix @ factor, MATRIX @ FACTOR)
    same(matrix.T @ matrix, MATRIX.T @ MATRIX)
    same(matrix @ vector, MATRIX @ VECTOR[:17])
    same(vector @ factor, VECTOR[:17] @ FACTOR)
    same(matrix[0] @ vector, MATRIX[0] @ VECTOR[:17])
    cube = xp.asarray(CUBE)
    same(cube @ xp.permute_dims(cube, (0, 2, 1)), CUBE @ CUBE.transpose(0, 2, 1))
    turned = xp.permute_dims(cube, (2, 1, 0))
    same(
        xp.tensordot(cube, turned, axes=((1, 2), (1, 0))),
        np.tensordot(CUBE, CUBE.transpose(2, 1, 0), axes=((1, 2), (1, 0))),
    )
    same(xp.vecdot(matrix, vector), MATRIX @ VECTOR[:17])
    same(xp.linalg.outer(vector, vector), np.outer(VECTOR[:17], VECTOR[:17]))


def test_product_in_pieces(monkeypatch):
    monkeypatch.setattr("skerry.xp.linalg._PIECE_BYTES", 5 * 9 * 8)
    same(xp.asarray(MATRIX) @ xp.asarray(FACTOR), MATRIX @ FACTOR)


def test_linear_algebra(matrix):
    square, square_np = matrix[:17], MATRIX[:17]
    same(xp.linalg.inv(square), np.linalg.inv(square_np))
    same(xp.linalg.solve(square, xp.asarray(VECTOR[:17])), np.linalg.solve(square_np, VECTOR[:17]))
    stack, stack_np = xp.asarray(CUBE[:, :, :6]), CUBE[:, :, :6]
    same(xp.linalg.det(stack), np.linalg.det(stack_np))
    for ours, numpys in zip(xp.linalg.svd(stack), np.linalg.svd(stack_np), strict=True):
        same(ours, numpys)
    same(xp.linalg.svdvals(matrix), np.linalg.svd(MATRIX, compute_uv=False))
    same(xp.linalg.matrix_norm(matrix), np.linalg.norm(MATRIX))
    same(xp.linalg.trace(matrix), np.trace(MATRIX))


def test_an_error_in_one_stack_is_one_on_all_ranks():
    stack = CUBE[:, :, :6].copy()
    stack[-1] = 0
    with pytest.raises((np.linalg.LinAlgError, sk.Error)):
        xp.linalg.inv(xp.asarray(stack))
    with pytest.raises(ValueError, match="negative"):
        xp.asarray(WHOLE_NUMBERS) ** xp.asarray(np.where(np.arange(77) == 76, -1, 1))


def test_sorting(matrix):
    vector, numbers = xp.asarray(VECTOR), xp.asarray(WHOLE_NUMBERS)
    same(xp.sort(vector), np.sort(VECTOR))
    same(xp.sort(vector, descending=True), np.sort(VECTOR)[::-1])
    same(xp.argsort(numbers), np.argsort(WHOLE_NUMBERS, kind="stable"))
    down = 76 - np.flip(np.argsort(WHOLE_NUMBERS[::-1], kind="stable"))
    same(xp.argsort(numbers, descending=True), down)
    same(xp.sort(matrix, axis=0), np.sort(MATRIX, axis=0))
    same(xp.argsort(matrix, axis=1), np.argsort(MATRIX, axis=1))
    same(xp.searchsorted(xp.sort(vector), vector), np.searchsorted(np.sort(VECTOR), VECTOR))


@pytest.mark.parametrize("first", [np.nan, np.inf])
def test_values_that_some_ranks_have_alone_are_sorted(first):
    values = np.concatenate((np.full(40000, first), np.arange(1.0, 40001.0)))
    x = xp.concat((xp.full(40000, first), xp.arange(1.0, 40001.0)))
    same(xp.sort(x), np.sort(values))
    same(xp.sort(xp.asarray(values, copy=True)), np.sort(values))
    assert xp.unique_values(x).shape == np.unique(values, equal_nan=False).shape


def test_sets():
    numbers = xp.asarray(WHOLE_NUMBERS.reshape(7, 11))
    for ours, numpys in zip(
        xp.unique_all(numbers), np.unique_all(WHOLE_NUMBERS.reshape(7, 11)), strict=True
    ):
        same(ours, numpys)
    for ours, numpys in zip(
        xp.unique_counts(numbers), np.unique_counts(WHOLE_NUMBERS), strict=True
    ):
        same(ours, numpys)
    same(xp.unique_values(numbers), np.unique(WHOLE_NUMBERS))


def test_index_arrays(matrix):
    chosen = xp.asarray(WHOLE_NUMBERS)
    same(matrix[matrix > 0.5], MATRIX[MATRIX > 0.5])
    same(matrix[matrix[:, 0] > 0.3], MATRIX[MATRIX[:, 0] > 0.3])
    same(matrix[chosen, chosen], MATRIX[WHOLE_NUMBERS, WHOLE_NUMBERS])
    same(matrix[chosen], MATRIX[WHOLE_NUMBERS])
    same(xp.take(matrix, chosen, axis=1), np.take(MATRIX, WHOLE_NUMBERS, axis=1))
    order = xp.argsort(matrix, axis=0)
    same(xp.take_along_axis(matrix, order, axis=0), np.sort(MATRIX, axis=0))
    few = np.argsort(MATRIX, axis=0)[:4]
    same(
        xp.take_along_axis(matrix, xp.asarray(few), axis=0), np.take_along_axis(MATRIX, few, axis=0)
    )
    for ours, numpys in zip(xp.nonzero(matrix > 0.5), np.nonzero(MATRIX > 0.5), strict=True):
        same(ours, numpys)
    with pytest.raises(IndexError):
        xp.take(matrix, xp.asarray([1, 23]), axis=0)


@pytest.mark.parametrize("shape", [(40,), (40, 3), (9, 4, 5)])
def test_rows_by_index(shape):
    """Index arrays of integers on one axis: the result, its shape, and what is assigned."""
    values = RANDOM.random(shape)
    for index_shape in [(7,), (100,), (3, 4), (0,)]:
        for axis in range(values.ndim):
            index = RANDOM.integers(-shape[axis], shape[axis], index_shape)
            key = (slice(None),) * axis + (index,)
            x, h = xp.asarray(values), values.copy()
            same(x[key], h[key])
            same(x[(slice(None),) * axis + (xp.asarray(index),)], h[key])
            if axis == 0:
                new = RANDOM.random(h[key].shape)
                x[key], h[key] = new, new
                same(x, h)
                x[key], h[key] = 3, 3
                same(x, h)
    for wrong in (shape[0], -shape[0] - 1):
        with pytest.raises(IndexError):
            x[np.array([0, wrong])]
        with pytest.raises(IndexError):
            x[np.array([0, wrong])] = 1


def test_rows_by_index_take_little_memory():
    """Bug guarded against: index arrays of the whole result for each dimension on every rank."""
    rows, width = 2000, 50
    x = xp.asarray(RANDOM.random((rows, width)))
    index = RANDOM.permutation(rows)
    x[index]  # the staging segments are made
    own = x._evaluate().nbytes
    tracemalloc.start()
    y = x[index]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert y.shape == x.shape
    assert peak < 3 * own + 6 * index.nbytes + (64 << 10)


def test_a_diagonal_is_not_written():
    """As NumPy's, on any number of ranks."""
    x = xp.asarray(MATRIX)
    with pytest.raises(ValueError, match="read-only"):
        xp.linalg.diagonal(x)[3] = 7
    same(x, MATRIX)


def test_a_copy_of_what_numpy_shows_is_written_when_nobody_can_tell():
    """Not while the array that it came from lives: a write would reach it in NumPy."""
    x = xp.reshape(xp.arange(24.0), (4, 6))  # on some numbers of ranks elements move
    x[0] = 7
    part = x[1:3]
    part[...] = 8
    same(x, np.concatenate([np.full((1, 6), 7.0), np.full((2, 6), 8.0), [np.arange(18.0, 24)]]))
    y = xp.asarray(np.arange(35.0).reshape(5, 7))
    turned = xp.reshape(y, (7, 5))
    if turned._frozen:
        with pytest.raises(ValueError, match="read-only"):
            turned[3] = 1
        with pytest.raises(ValueError, match="read-only"):
            turned[3:5][0] = 1
    del y
    turned[3:5] = 1
    same(turned[3:5], np.ones((2, 5)))
    with pytest.raises(ValueError, match="read-only"):
        x.imag[0] = 1


def test_shapes(matrix):
    cube = xp.asarray(CUBE)
    for shape in (7, 30), (-1,), (5, 42), (1, 210), (210, 1), (2, 3, 5, 7):
        same(xp.reshape(cube, shape), CUBE.reshape(shape))
    same(xp.reshape(matrix, (17, 23)), MATRIX.reshape(17, 23))
    same(xp.concat([matrix, matrix[:5]]), np.concatenate([MATRIX, MATRIX[:5]]))
    same(xp.stack([matrix, matrix], axis=1), np.stack([MATRIX, MATRIX], axis=1))
    same(xp.roll(matrix, 3), np.roll(MATRIX, 3))
    same(xp.roll(matrix, (3, -2), axis=(0, 1)), np.roll(MATRIX, (3, -2), axis=(0, 1)))
    same(xp.tile(matrix, (2, 1, 3)), np.tile(MATRIX, (2, 1, 3)))
    same(xp.repeat(matrix, 3, axis=0), np.repeat(MATRIX, 3, axis=0))
    same(xp.diff(matrix, axis=0, n=2), np.diff(MATRIX, axis=0, n=2))
    same(xp.moveaxis(cube, 0, 2), np.moveaxis(CUBE, 0, 2))
    same(xp.expand_dims(matrix, 1), MATRIX[:, None])
    same(xp.broadcast_to(matrix, (3, 23, 17)), np.broadcast_to(MATRIX, (3, 23, 17)))
    same(xp.tril(matrix, k=1), np.tril(MATRIX, 1))


def test_new_arrays():
    same(xp.linspace(0, 1, 50), np.linspace(0, 1, 50))
    same(xp.arange(3, 90, 4), np.arange(3, 90, 4))
    same(xp.arange(90, 3, -4, dtype=xp.int16), np.arange(90, 3, -4, dtype=np.int16))
    same(xp.eye(9, 7, k=2), np.eye(9, 7, 2))
    same(xp.full((4, 5), 3), np.full((4, 5), 3))
    for ours, numpys in zip(
        xp.meshgrid(xp.arange(5), xp.arange(4)), np.meshgrid(np.arange(5), np.arange(4)),
        strict=True,
    ):  # fmt: skip
        same(ours, numpys)


def test_empty_arrays():
    x = xp.zeros((0, 5))
    same(xp.sum(x, axis=0), np.zeros(5))
    same(x + 1, np.zeros((0, 5)))
    same(xp.concat([x, xp.ones((2, 5))]), np.ones((2, 5)))
    same(xp.sort(xp.zeros(0)), np.zeros(0))
    with pytest.raises(ValueError, match="identity"):
        xp.max(x)
    same(xp.asarray(x.array), np.zeros((0, 5)))  # stored, as for a file
    same(x, np.zeros((0, 5)))


def test_fourier(matrix):
    vector, cube = xp.asarray(VECTOR), xp.asarray(CUBE)
    same(xp.fft.fft(vector), np.fft.fft(VECTOR))
    same(xp.fft.rfft(matrix, axis=0), np.fft.rfft(MATRIX, axis=0))
    same(xp.fft.fftn(cube), np.fft.fftn(CUBE))
    same(xp.fft.irfftn(xp.fft.rfftn(cube), s=CUBE.shape), CUBE)
    same(xp.fft.ifft(vector, n=64), np.fft.ifft(VECTOR, n=64))
    same(xp.fft.fftshift(matrix), np.fft.fftshift(MATRIX))
    same(xp.fft.fftfreq(17, d=0.5), np.fft.fftfreq(17, d=0.5))


def test_numpys_functions(matrix):
    same(np.exp(matrix), np.exp(MATRIX))
    same(np.sum(matrix, axis=0), np.sum(MATRIX, axis=0))
    same(np.sum(matrix, 0), np.sum(MATRIX, 0))
    same(np.std(matrix, ddof=1), np.std(MATRIX, ddof=1))
    same(np.concatenate([matrix, matrix]), np.concatenate([MATRIX, MATRIX]))
    same(np.transpose(matrix), MATRIX.T)
    same(MATRIX + matrix, MATRIX + MATRIX)
    same(np.linalg.inv(matrix[:17]), np.linalg.inv(MATRIX[:17]))
    same(np.histogram(matrix)[0], np.histogram(MATRIX)[0])
    same(np.apply_over_axes(np.sum, matrix, [0]), np.apply_over_axes(np.sum, MATRIX, [0]))


@pytest.mark.parametrize("dtype", ["uint32", "int8", "float32"])
def test_cumulative_sums_keep_the_dtype_asked_for_on_all_ranks(dtype):
    # Ranks behind the first summed small integers in 64 bits, and had another dtype.
    x = xp.cumulative_sum(xp.asarray(WHOLE_NUMBERS % 2), dtype=dtype)
    assert x.local.dtype == dtype
    same(x, np.cumsum(WHOLE_NUMBERS % 2, dtype=dtype))


@pytest.mark.parametrize("rows", [2, 23])  # two: divided in columns where ranks are more
def test_values_of_what_a_mask_chose_are_written_where_they_are(rows):
    values = RANDOM.random((rows, 17))
    for mask in (values < 0.4, values[:, 0] < 0.4, values < 2, values < 0):
        x, known, expected = xp.asarray(values.copy()), xp.asarray(mask), values.copy()
        before = xp.counters()["gathers"]
        x[known] = x[known] ** 2 + x[known]
        assert xp.counters()["gathers"] == before or rows == 2
        expected[mask] = expected[mask] ** 2 + expected[mask]
        same(x, expected)
        chosen = len(values[mask])
        other = RANDOM.random((chosen, *values.shape[mask.ndim :]))
        x[mask] = xp.asarray(other)  # divided by other counts than the mask's
        expected[mask] = other
        same(x, expected)
        with pytest.raises(ValueError, match="places|fit|shape|assign"):
            x[known] = xp.zeros((chosen + 2, *values.shape[mask.ndim :]))
        if mask.ndim == 1:  # the same row for each
            before = xp.counters()["gathers"]
            x[known] = xp.asarray(other[0] if chosen else np.zeros(17))
            expected[mask] = other[0] if chosen else 0
            same(x, expected)
        same(x, expected)


def test_lists_and_single_values_beside_divided_arrays():
    line = xp.asarray(VECTOR)
    same(snp.where(True, line, np.nan), VECTOR)
    same(snp.where(np.bool_(False), line, 3.0), np.where(False, VECTOR, 3.0))
    same(snp.where([True, False] * 50 + [True], line, 0.0),
         np.where([True, False] * 50 + [True], VECTOR, 0.0))  # fmt: skip
    rtol = [0.1, 0.0, 0.9, 0.5, 0.2]
    wanted = np.linalg.matrix_rank(CUBE, rtol=rtol)
    same(snp.linalg.matrix_rank(xp.asarray(CUBE), rtol=rtol), wanted)


def test_grids_are_arrays_of_ours():
    # NumPy's were returned: an index that is divided could not be taken of them.
    x, y = snp.mgrid[0:6, 0:50:3]
    wanted = np.mgrid[0:6, 0:50:3]
    assert isinstance(x, xp.Array)
    same(x, wanted[0])
    same(x[y > 7], wanted[0][wanted[1] > 7])
    for ours, numpys in zip(snp.ogrid[0:4, 0:1:5j], np.ogrid[0:4, 0:1:5j], strict=True):
        same(ours, numpys)
    same(snp.mgrid[3:9], np.mgrid[3:9])
    large = snp.mgrid[0:400, 0:300]
    assert large.layout.largest < large.size or sk.size() == 1
    assert large[0].layout.owner is None  # all ranks have rows of each grid


def test_products_and_masks_without_elements():
    rows, none = xp.asarray(MATRIX[:1]), xp.zeros((17, 0))
    same(xp.matmul(rows, none), np.zeros((1, 0)))
    same(xp.tensordot(xp.zeros((2, 0)), xp.zeros((0, 40)), axes=1), np.zeros((2, 40)))
    same(xp.asarray(MATRIX)[xp.zeros((0, 0), dtype="bool")], np.zeros(0))
    same(xp.asarray(MATRIX)[xp.zeros((0,), dtype="bool")], np.zeros((0, 17)))
    with pytest.raises(IndexError, match="mask|boolean"):
        xp.asarray(MATRIX)[xp.zeros((1, 0), dtype="bool")]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint16"])
def test_elements_by_two_divided_index_arrays(dtype):
    """Every rank got keys and values whole; now each asks and tells the owners alone."""
    values = RANDOM.random((40, 17))
    rows, columns = RANDOM.integers(0, 40, 500), RANDOM.integers(0, 17, 500)
    if np.dtype(dtype).kind == "i":
        rows, columns = rows - 40 * (rows % 3 == 0), columns - 17 * (columns % 2)
    rows, columns = rows.astype(dtype), columns.astype(dtype)
    i, j, x = xp.asarray(rows), xp.asarray(columns), xp.asarray(values.copy())
    same(x[i, j], values[rows, columns])
    x[i, j] = 3
    values[rows, columns] = 3
    new = RANDOM.random(500)
    given = xp.asarray(new)
    gathers = xp.counters()["gathers"]
    x[i, j] = given  # places come several times: the last one counts
    assert xp.counters()["gathers"] == gathers
    values[rows, columns] = new
    same(x, values)
    x[i, j] = x[i, j] + given
    values[rows, columns] = values[rows, columns] + new
    x[i[:0], j[:0]] = given[:0]
    x[i, columns] = 2.5  # one that every rank has
    values[rows, columns] = 2.5
    same(x, values)
    same(x[i[:0], j[:0]], values[:0, 0])
    with pytest.raises(IndexError, match="outside|bounds"):
        x[i, j + 17] = 1
    with pytest.raises(IndexError, match="outside|bounds"):
        x[i + 40, j]
    with pytest.raises(ValueError, match="broadcast|fit|shape"):
        x[i, j] = given[:7]
    same(x, values)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64"])
def test_indices_of_dtypes_that_cannot_hold_the_length(dtype):
    # Ranks that begin behind 127 raised OverflowError, alone.
    values = RANDOM.random((1000, 3))
    index = np.array([1, 99, 5] + [-1] * (dtype == "int8"), dtype)
    x = xp.asarray(values.copy())
    same(x[index], values[index])
    same(x[index, 1], values[index, 1])
    x[index] = 7
    np.put_along_axis(x, index[:, None], 8.0, 0)
    expected = values.copy()
    expected[index] = 7
    np.put_along_axis(expected, index[:, None], 8.0, 0)
    same(x, expected)


def test_rows_of_slices_that_some_ranks_have_nothing_of():
    expected = RANDOM.random((100, 2))
    x, index = xp.asarray(expected.copy()), np.array([1, 2, 3, 1])
    same(x[:5][index], expected[:5][index])
    same(x[index[:2] * 30], expected[index[:2] * 30])  # fewer rows than ranks
    part, view = x[:5], expected[:5]
    part[index] = np.arange(8.0).reshape(1, 4, 2)
    view[index] = np.arange(8.0).reshape(1, 4, 2)
    same(x, expected)


def test_an_empty_list_is_an_index_and_texts_are_numbers_on_all_ranks():
    x = xp.asarray(MATRIX.copy())
    same(x[[]], MATRIX[[]])
    same(x[:, []], MATRIX[:, []])
    x[[0, 1]] = ["1.5"] * 17
    same(x[:2], np.full((2, 17), 1.5))
    with pytest.raises(ValueError, match="could not convert"):
        x[[0]] = ["one"] * 17


def test_views_of_a_copy_that_may_not_be_written():
    x = xp.asarray(np.arange(4200.0).reshape(100, 42))
    flat = xp.reshape(xp.reshape(x, (42, 100)), (4200,))
    try:
        flat[0] = -1
    except ValueError as error:
        assert "read-only" in str(error)
    else:  # all are views, as NumPy's
        assert float(x[0, 0]) == -1


def test_one_element_of_a_divided_array_goes_into_an_array_without_axes():
    target = xp.zeros(())
    target[...] = xp.asarray(MATRIX)[3, 4:5]
    same(target, MATRIX[3, 4])
