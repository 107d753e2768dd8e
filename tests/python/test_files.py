"""Arrays in files: any number of ranks, errors on all, and the file that is there is whole."""

import os
import shutil

import h5py
import numpy as np
import pytest
import zarr

import skerry as sk
import skerry.xp as xp
from skerry import _files



@pytest.fixture(params=["zarr", "h5"])
def suffix(request):
    return request.param


DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
DTYPES += ["complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_was_saved_is_loaded(folder, suffix, dtype):
    x = (np.arange(37 * 23) % 100).reshape(37, 23).astype(dtype)
    path = folder / f"x.{suffix}"
    sk.save(sk.asarray(x), path)
    b = sk.load(path)
    assert b.dtype == dtype
    np.testing.assert_array_equal(b.get(), x)
    sk.sync()


@pytest.mark.parametrize("shape", [(1,), (1000,), (3, 4, 5, 6), (0, 4), (1, 1, 1)])
@pytest.mark.parametrize("chunks", [None, 3])
def test_shapes_and_chunks(folder, suffix, shape, chunks, mirrored):
    x = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    path = folder / f"x.{suffix}"
    edges = None if chunks is None else (chunks,) * len(shape)
    sk.save(sk.asarray(x, mirrored=mirrored), path, chunks=edges)
    for other in {}, {"mirrored": True}, {"grid": (1,) * len(shape)}:
        np.testing.assert_array_equal(sk.load(path, **other).get(), x)
        sk.sync()
    if suffix == "zarr":
        stored = zarr.open_array(path, mode="r")
        assert stored.metadata.zarr_format == 3
        np.testing.assert_array_equal(stored[...], x)
    sk.sync()


def test_several_arrays_with_names(folder, suffix):
    x, y = np.arange(60.0).reshape(6, 10), np.arange(7, dtype="int32")
    path = folder / f"all.{suffix}"
    sk.save({"y": sk.asarray(y), "x": xp.asarray(x) + 1}, path)
    got = sk.load(path)
    assert list(got) == ["x", "y"]
    np.testing.assert_array_equal(got["x"].get(), x + 1)
    np.testing.assert_array_equal(got["y"].get(), y)
    sk.save({"alone": sk.asarray(y)}, path)
    assert list(sk.load(path)) == ["alone"]
    sk.save(sk.asarray(y), path)
    assert sk.load(path).shape == (7,)
    whole = xp.asarray(sk.asarray(x))
    sk.save(whole[1:3, ::2], path)
    np.testing.assert_array_equal(sk.load(path).get(), x[1:3, ::2])
    sk.sync()
    assert sorted(os.listdir(folder)) == [path.name]
    sk.sync()


def test_files_of_others(folder):
    """What zarr and h5py wrote without us, chunks left out and another order of bytes too."""
    x = np.zeros((20, 30))
    x[3, 4] = 5
    if sk.rank() == 0:
        zarr.save_array(folder / "z.zarr", x)
        stored = zarr.create_array(folder / "v2.zarr", shape=x.shape, chunks=(7, 8), dtype=">f4",
                                   zarr_format=2)  # fmt: skip
        stored[...] = x
        with h5py.File(folder / "h.h5", "w") as file:
            file["a"], file["b"] = x, x.astype(">i2")
            file.create_group("g")["deep"] = x
    sk.sync()
    np.testing.assert_array_equal(sk.load(folder / "z.zarr").get(), x)
    v2 = sk.load(folder / "v2.zarr")
    assert v2.dtype == "float32"
    np.testing.assert_array_equal(v2.get(), x)
    h = sk.load(folder / "h.h5")
    assert sorted(h) == ["a", "b"] and h["b"].dtype == "int16"
    np.testing.assert_array_equal(h["b"].get(), x)
    sk.sync()


def test_each_member_writes_and_reads_parts(folder):
    n = 64
    a = sk.zeros((n, n))
    a.local[...] = sk.rank() + 1
    sk.save(a, folder / "x.zarr", chunks=(8, 8))
    assert zarr.open_array(folder / "x.zarr").nchunks == 64
    np.testing.assert_array_equal(sk.load(folder / "x.zarr").get(), a.get())
    sk.sync()


def test_the_previous_file_stays_if_a_save_fails(folder, suffix, monkeypatch):
    path = folder / f"x.{suffix}"
    x = np.arange(100.0)
    sk.save(sk.asarray(x), path)
    if sk.rank() == 0:  # on one member alone

        def full(*arguments):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(sk.Array, "get", full)
    with pytest.raises(sk.FileError, match="No space left|rank 0 refused"):
        sk.save(sk.zeros(100), path)
    monkeypatch.undo()
    sk.sync()
    assert os.listdir(folder) == [path.name]
    np.testing.assert_array_equal(sk.load(path).get(), x)
    sk.sync()


def test_leftovers_of_a_killed_save(folder, suffix, monkeypatch):
    path = folder / f"x.{suffix}"
    hidden, old = folder / f".x.{suffix}.saving", folder / f".x.{suffix}.old"
    x = np.arange(50.0)
    sk.save(sk.asarray(x), path)
    if sk.rank() == 0:
        shutil.copytree(path, hidden) if path.is_dir() else shutil.copy(path, hidden)
    sk.sync()
    np.testing.assert_array_equal(sk.load(path).get(), x)
    sk.sync()
    sk.save(sk.asarray(x + 1), path)
    assert os.listdir(folder) == [path.name]
    np.testing.assert_array_equal(sk.load(path).get(), x + 1)
    sk.sync()
    # Where names cannot be exchanged, a kill may come while the old file has its other name.
    monkeypatch.setattr(_files, "_exchange", lambda a, b: False)
    if sk.rank() == 0:
        path.rename(old)
    sk.sync()
    np.testing.assert_array_equal(sk.load(path).get(), x + 1)
    sk.sync()
    sk.save(sk.asarray(x + 2), path)
    sk.save(sk.asarray(x + 3), path)
    assert os.listdir(folder) == [path.name]
    np.testing.assert_array_equal(sk.load(path).get(), x + 3)
    sk.sync()


def chunk_files(path):
    return sorted(p for p in path.rglob("*") if p.is_file() and p.name != "zarr.json")


def test_damage_is_an_error_on_all(folder):
    x = np.random.default_rng(1).random((64, 64))
    for damage in "a bit", "short", "missing", "metadata", "no metadata":
        path = folder / "x.zarr"
        sk.save(sk.asarray(x), path, chunks=(32, 32))
        if sk.rank() == 0:
            last = chunk_files(path)[-1]
            data = bytearray(last.read_bytes())
            if damage == "a bit":
                data[len(data) // 2] ^= 1
                last.write_bytes(data)
            elif damage == "short":
                last.write_bytes(data[: len(data) // 2])
            elif damage == "missing":
                last.unlink()
            elif damage == "metadata":
                (path / "zarr.json").write_text("{")
            else:
                (path / "zarr.json").unlink()
        sk.sync()
        with pytest.raises(sk.FileError, match="x.zarr|refused its part"):
            sk.load(path)
        sk.sync()
    path = folder / "x.h5"
    sk.save(sk.asarray(x), path, chunks=(32, 32))
    if sk.rank() == 0:
        data = bytearray(path.read_bytes())
        data[-5000] ^= 1
        path.write_bytes(data)
    sk.sync()
    with pytest.raises(sk.FileError, match="x.h5|refused its part"):
        sk.load(path)
    sk.sync()
    if sk.rank() == 0:
        path.write_text("something else")
    sk.sync()
    with pytest.raises(sk.FileError, match="x.h5"):
        sk.load(path)
    sk.sync()


def test_files_refuse_on_every_member(folder):
    a, last = sk.zeros((4, 4)), sk.rank() == sk.size() - 1
    for refused, kind, text in (
        (lambda: sk.save(a, folder / "x.txt"), sk.InvalidError, ".zarr, .h5, .hdf5"),
        (lambda: sk.load(folder / "x.zarr"), sk.FileError, "no such file"),
        (lambda: sk.load(folder / "x.npy"), sk.InvalidError, "'.npy'"),
        (lambda: sk.save(a, folder / "no" / "x.zarr"), sk.FileError, "no folder|refused"),
        (lambda: sk.save(a, folder / "x.zarr", chunks=(0, 1)), sk.InvalidError, "from 1 on"),
        (lambda: sk.save(a, folder / "x.zarr", chunks=(1,)), sk.InvalidError, "2 numbers"),
        (lambda: sk.save({}, folder / "x.zarr"), sk.InvalidError, "empty"),
        (lambda: sk.save({"a/b": a}, folder / "x.zarr"), sk.InvalidError, "a/b"),
        (lambda: sk.save({3: a}, folder / "x.zarr"), sk.InvalidError, "name 3"),
        (lambda: sk.save(np.zeros(3), folder / "x.zarr"), sk.InvalidError, "sk.asarray"),
    ):
        with pytest.raises(kind, match=text):
            refused()
    if sk.size() > 1:
        with pytest.raises(sk.FileError, match="different"):
            sk.save(a, folder / ("x.zarr" if last else "y.zarr"))
        with pytest.raises(sk.FileError, match="different"):
            sk.save(a, folder / "x.zarr", chunks=(2, 1 + last))
        with pytest.raises(sk.Error, match="from 1 on|refused its part"):
            sk.save(a, folder / "x.zarr", chunks=(2, 0) if last else (2, 1))
    sk.sync()
    assert os.listdir(folder) == []
    sk.sync()
    if sk.rank() == 0:
        zarr.save_array(folder / "half.zarr", np.zeros(3, "float16"))
        zarr.create_group(folder / "empty.zarr")
        zarr.create_array(folder / "scalar.zarr", shape=(), dtype="f8")
        (folder / "plain.zarr").mkdir()
        (folder / "file.zarr").write_text("text")
    sk.sync()
    for name, kind, text in (
        ("half", sk.DtypeError, "float16"),
        ("empty", sk.FileError, "no arrays"),
        ("scalar", sk.InvalidError, "1 to 7 dimensions"),
        ("plain", sk.FileError, "zarr.json"),
        ("file", sk.FileError, "zarr.json"),
    ):
        with pytest.raises(kind, match=text):
            sk.load(folder / f"{name}.zarr")
    with pytest.raises(sk.InvalidError, match="grid"):
        sk.save(a, folder / "a.zarr")
        sk.load(folder / "a.zarr", grid=(100, 100))
    a.free()
    with pytest.raises(sk.FreedError):
        sk.save(a, folder / "x.zarr")
    sk.sync()


def test_a_missing_package_names_the_remedy(folder, monkeypatch):
    import sys

    for package, path in ("zarr", "x.zarr"), ("h5py", "x.h5"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(sk.UnsupportedError, match="pip install 'skerry\\[files\\]'"):
            sk.save(sk.zeros(3), folder / path)
        monkeypatch.undo()
    sk.sync()
