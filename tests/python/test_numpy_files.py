"""skerry.numpy's files, beside NumPy's own: the same bytes, the same values, on any ranks."""

import os

import numpy
import pytest

import skerry as sk
import skerry.numpy as np
from skerry.numpy import ndarray

DRAWN = numpy.random.default_rng(3)
ARRAYS = {
    "rows": DRAWN.random((3000, 7)),
    "columns": DRAWN.random((2, 9000)),
    "cube": DRAWN.integers(0, 255, (30, 40, 50)).astype("i2"),
    "number": numpy.array(4.5),
    "nothing": numpy.zeros((0, 4), "f4"),
    "no columns": numpy.zeros((5000, 0)),
    "fortran": numpy.asfortranarray(DRAWN.random((300, 200))),
    "truths": DRAWN.random(50_001) > 0.5,
    "complex": DRAWN.random((700, 9)) + 1j,
    "halves": DRAWN.random(20_000).astype("f2"),
    "fields": numpy.zeros(4000, "i4,f8,U3"),
    "text": numpy.array([["ab", "c"], ["", "däf"]] * 3000),
    "empty text": numpy.zeros(3, "S0"),
    "dates": numpy.arange("2020-01", "2020-09", dtype="M8[D]"),
}


def of(values):
    return np.array(values) if values.dtype.kind in "biufc" else values


def same(found, values):
    assert isinstance(found, ndarray)
    found = found.numpy()
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_saved_and_loaded(folder, name):
    values = ARRAYS[name]
    np.save(folder / "a", of(values))
    np.savez(str(folder / "s.npz"), of(values), b=numpy.arange(3), c=of(values)[..., ::-1]
             if values.ndim else of(values))  # fmt: skip
    np.savez_compressed(folder / "c.npz", a=of(values))
    found, zipped = numpy.load(folder / "a.npy"), numpy.load(folder / "s.npz")
    packed = numpy.load(folder / "c.npz")
    assert zipped.files == ["arr_0", "b", "c"] and zipped["b"].tolist() == [0, 1, 2]
    for each in found, zipped["arr_0"], packed["a"]:
        assert (each.dtype, each.shape) == (values.dtype, values.shape)
        assert each.tobytes() == values.tobytes()
    turned = values[..., ::-1] if values.ndim else values
    assert zipped["c"].tobytes() == turned.tobytes()
    same(np.load(folder / "a.npy"), values)
    for file in "s.npz", "c.npz":
        with np.load(folder / file) as all_of_it:
            assert all_of_it.files == list(all_of_it) and len(all_of_it) in (1, 3)
            same(all_of_it[all_of_it.files[0]], values)
    sk.sync()
    if sk.rank() == 0:
        numpy.save(folder / "n.npy", values)
        numpy.savez_compressed(folder / "n.npz", values)
    sk.sync()
    same(np.load(folder / "n.npy"), values)
    same(np.load(folder / "n.npz")["arr_0"], values)
    sk.sync()


def test_an_array_in_columns_is_saved(folder):
    x = np.array(ARRAYS["columns"])
    np.save(folder / "x.npy", x.T)
    np.savez(folder / "x.npz", x=x.T + 0, y=x)
    np.testing.assert_array_equal(numpy.load(folder / "x.npy"), ARRAYS["columns"].T)
    zipped = numpy.load(folder / "x.npz")
    numpy.testing.assert_array_equal(zipped["x"], ARRAYS["columns"].T)
    numpy.testing.assert_array_equal(zipped["y"], ARRAYS["columns"])
    np.save(folder / "a.npy", sk.asarray(ARRAYS["columns"]))
    numpy.testing.assert_array_equal(numpy.load(folder / "a.npy"), ARRAYS["columns"])
    sk.sync()


def test_a_file_is_mapped(folder):
    values = ARRAYS["rows"]
    if sk.rank() == 0:
        numpy.save(folder / "m.npy", values)
        numpy.save(folder / "other.npy", values.astype(">f8"))
    sk.sync()
    x = np.load(folder / "m.npy", mmap_mode="r")
    same(x, values)
    assert np.sum(x) == pytest.approx(values.sum())
    assert not x.local.flags.writeable
    y = np.load(folder / "m.npy", mmap_mode="c")
    y[...] = 1
    same(np.load(folder / "m.npy"), values)
    sk.sync()
    z = np.load(folder / "m.npy", mmap_mode="r+")
    z[10:20] = 7
    sk.sync()
    assert (numpy.load(folder / "m.npy")[10:20] == 7).all()
    sk.sync()
    with pytest.raises(sk.InvalidError, match="order of bytes"):
        np.load(folder / "other.npy", mmap_mode="r")
    with pytest.raises(sk.InvalidError, match="'w\\+'"):
        np.load(folder / "m.npy", mmap_mode="w+")
    sk.sync()


def test_text_is_written_and_read(folder):
    values = ARRAYS["rows"]
    options = {"header": "of\nall", "footer": "end", "delimiter": ",", "fmt": "%.17g"}
    np.savetxt(folder / "t.csv", np.array(values), **options)
    np.savetxt(folder / "v.txt", np.arange(5000), "%d")
    if sk.rank() == 0:
        numpy.savetxt(folder / "n.csv", values, **options)
        (folder / "gaps.csv").write_text("a,b\n1,2.5\n,4\n")
    sk.sync()
    assert (folder / "t.csv").read_bytes() == (folder / "n.csv").read_bytes()
    same(np.loadtxt(folder / "t.csv", delimiter=","), values)
    same(np.loadtxt(folder / "v.txt", dtype=int), numpy.arange(5000))
    first, last = np.loadtxt(folder / "t.csv", delimiter=",", usecols=(0, -1), unpack=True)
    same(first, values[:, 0].copy())
    assert last.numpy().tolist() == values[:, -1].tolist()
    gaps = np.genfromtxt(folder / "gaps.csv", delimiter=",", skip_header=1, filling_values=-1)
    assert gaps.numpy().tolist() == [[1, 2.5], [-1, 4]]
    named = np.genfromtxt(folder / "gaps.csv", delimiter=",", names=True, dtype=None)
    assert named.numpy()["b"].tolist() == [2.5, 4]
    with pytest.raises(sk.FileError, match="rank 0 refused|could not convert"):
        np.loadtxt(folder / "gaps.csv", delimiter=",")
    with pytest.raises(sk.InvalidError, match="compressed"):
        np.savetxt(folder / "t.csv.gz", values)
    sk.sync()


def test_plain_elements_are_written_and_read(folder):
    for name in "rows", "columns", "truths":
        values = ARRAYS[name]
        x = np.array(values)
        x.tofile(folder / "x.bin")
        assert (folder / "x.bin").read_bytes() == values.tobytes()
        same(np.fromfile(folder / "x.bin", values.dtype), values.reshape(-1))
        sk.sync()
    same(np.fromfile(folder / "x.bin", "u1", 1000, offset=5), values.view("u1")[5:1005])
    np.arange(6000).tofile(folder / "x.txt", sep=" ")
    same(np.fromfile(folder / "x.txt", int, sep=" "), numpy.arange(6000))
    sk.sync()


def test_files_are_refused_on_every_member(folder):
    if sk.rank() == 0:
        numpy.save(folder / "o.npy", numpy.array([{}]), allow_pickle=True)
        (folder / "t.npy").write_text("something else")
    sk.sync()
    for refused, kind, text in (
        (lambda: np.load(folder / "none.npy"), sk.FileError, "no such file"),
        (lambda: np.load(folder / "o.npy", allow_pickle=True), sk.DtypeError, "Python objects"),
        (lambda: np.load(folder / "t.npy"), sk.FileError, "no .npy or .npz"),
        (lambda: np.save(folder / "x.npy", [{}]), sk.DtypeError, "Python objects"),
        (lambda: np.save(folder / "no" / "x.npy", [1]), sk.FileError, "no folder|refused"),
        (lambda: np.save(open(os.devnull, "wb"), [1]), sk.InvalidError, "give a path"),
        (lambda: np.savez(folder / "x", 1, arr_0=2), ValueError, "arr_0"),
        (lambda: np.fromfile(folder / "none"), sk.FileError, "none"),
        (lambda: np.loadtxt(folder / "none"), sk.FileError, "none|refused"),
    ):
        with pytest.raises(kind, match=text):
            refused()
    with pytest.raises(KeyError):
        np.savez(folder / "x", a=1)
        np.load(folder / "x.npz")["b"]
    sk.sync()
