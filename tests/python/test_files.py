"""Arrays in files: any number of ranks, errors on all, and the file that is there is whole."""

import math
import os
import random
import shutil
import zlib

import h5py
import numpy as np
import pytest
import zarr

import skerry as sk
import skerry.xp as xp
from skerry import _files, _parts


@pytest.fixture(params=["zarr", "h5", "npy", "npz"])
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
    edges = None if chunks is None or suffix in ("npy", "npz") else (chunks,) * len(shape)
    sk.save(sk.asarray(x, mirrored=mirrored), path, chunks=edges)
    for other in {}, {"mirrored": True}, {"grid": (1,) * len(shape)}:
        np.testing.assert_array_equal(sk.load(path, **other).get(), x)
        sk.sync()
    if suffix == "zarr":
        stored = zarr.open_array(path, mode="r")
        assert stored.metadata.zarr_format == 3
        assert len(set(stored.metadata.dimension_names)) == stored.ndim  # as xarray needs
        np.testing.assert_array_equal(stored[...], x)
    sk.sync()


def test_several_arrays_with_names(folder, suffix):
    x, y = np.arange(60.0).reshape(6, 10), np.arange(7, dtype="int32")
    path = folder / f"all.{suffix}"
    both = {"y": sk.asarray(y), "x": xp.asarray(x) + 1}
    if suffix == "npy":
        with pytest.raises(sk.InvalidError, match="holds one array"):
            sk.save(both, path)
        return
    sk.save(both, path)
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


def test_the_libraries_read_what_was_saved(folder, dtype_of_file, compression):
    """Bit for bit, from arrays in blocks of every kind, and nothing but the arrays."""
    if sk.rank() == 0:
        bits = np.random.default_rng(7).integers(0, 256, (90, 41, np.dtype(dtype_of_file).itemsize))
        np.save(folder / "bits.npy", bits.astype("u1").view(dtype_of_file)[..., 0] if
                dtype_of_file != "bool" else bits[..., 0] > 100)  # fmt: skip
    sk.sync()
    x, n = np.load(folder / "bits.npy"), sk.size()
    for options in {}, {"grid": (n, 1)}, {"grid": (1, n)}, {"mirrored": True}:
        a = sk.asarray(x, **options)
        for name in "x.npy", "x.npz", "x.h5":
            packs = {".npz": "deflate", ".h5": compression and "gzip", ".npy": None}
            sk.save(a, folder / name, compression=packs[name[1:]] if compression else None)
        for found in (
            np.load(folder / "x.npy"),
            np.load(folder / "x.npz")["arr_0"],
            h5py.File(folder / "x.h5")["array"][...],
        ):
            assert found.dtype == x.dtype and found.tobytes() == x.tobytes()
        for name in "x.npy", "x.npz", "x.h5":
            b = sk.load(folder / name, **options)
            assert b.get().tobytes() == x.tobytes()
            sk.sync()
            b.free()
        a.free()


@pytest.fixture(params=["bool", "int8", "float64", "complex128"])
def dtype_of_file(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "compressed"])
def compression(request):
    return request.param


def test_long_rows_are_written_by_their_owners(folder, monkeypatch):
    """What is long enough goes to the file from where it lies; only short pieces are got."""
    n, written = 3 << 12, []
    a, pwrite = sk.zeros((8, n), grid=(1, sk.size())), os.pwrite
    a.local[...] = np.arange(a.local.size).reshape(a.local.shape) + 1000 * sk.rank()
    monkeypatch.setattr(os, "pwrite", lambda f, d, at: written.append(len(d)) or pwrite(f, d, at))
    monkeypatch.setattr(sk.Array, "get", lambda *_, **__: 1 / 0)
    sk.save(a, folder / "x.npy")
    monkeypatch.undo()
    assert sum(written) == a.local.nbytes
    np.testing.assert_array_equal(np.load(folder / "x.npy"), a.get())


def test_files_of_numpy(folder):
    """Fortran order, another order of bytes, compressed; what no Array can hold is refused."""
    x = np.arange(60.0).reshape(3, 4, 5)
    if sk.rank() == 0:
        np.save(folder / "f.npy", np.asfortranarray(x))
        np.save(folder / "big.npy", x.astype(">f4"))
        np.savez(folder / "s.npz", f=np.asfortranarray(x), none=np.zeros((0, 4)), i=x.astype("i2"))
        np.savez_compressed(folder / "c.npz", f=np.asfortranarray(x), c=x * 1j)
        np.save(folder / "text.npy", np.array(["a", "bc"]))
        np.save(folder / "fields.npy", np.zeros(3, "i4,f8"))
        np.save(folder / "objects.npy", np.array([None, {}]), allow_pickle=True)
        np.save(folder / "number.npy", 3.0)
    sk.sync()
    np.testing.assert_array_equal(sk.load(folder / "f.npy").get(), x)
    np.testing.assert_array_equal(sk.load(folder / "big.npy").get(), x)
    s, c = sk.load(folder / "s.npz"), sk.load(folder / "c.npz", grid=(1, sk.size(), 1)[:3]
                                               if sk.size() < 5 else None)  # fmt: skip
    assert list(s) == ["f", "none", "i"] and s["none"].shape == (0, 4) and s["i"].dtype == "int16"
    np.testing.assert_array_equal(s["f"].get(), x)
    np.testing.assert_array_equal(c["f"].get(), x)
    np.testing.assert_array_equal(c["c"].get(), x * 1j)
    for name, kind, text in (
        ("text", sk.DtypeError, "<U2"),
        ("fields", sk.DtypeError, "no Array can hold"),
        ("objects", sk.DtypeError, "Python objects"),
        ("number", sk.InvalidError, "1 to 7 dimensions"),
    ):
        with pytest.raises(kind, match=text):
            sk.load(folder / f"{name}.npy")
    sk.sync()


def test_pieces_cover_what_they_should():
    draw = random.Random(5)
    for _ in range(500):
        shape = tuple(draw.randint(0, 5) for _ in range(draw.randint(0, 4)))
        n, most = math.prod(shape), draw.randint(1, 30)
        low = draw.randint(0, n)
        high, x = draw.randint(low, n), np.arange(n).reshape(shape)
        found = []
        for at, box in _parts.pieces(shape, low, high, most):
            part = x[box].reshape(-1)
            assert 0 < part.size <= most and part[0] == at
            found += part.tolist()
        assert found == list(range(low, high))
        if not n:
            continue
        bounds = tuple(sorted((draw.randint(0, m), draw.randint(0, m))) for m in shape)
        found = []
        for at, box in _parts.block_pieces(shape, tuple(map(tuple, bounds)), most):
            part = x[box].reshape(-1)
            assert part.tolist() == list(range(at, at + part.size))
            found += part.tolist()
        assert found == x[tuple(slice(*each) for each in bounds)].reshape(-1).tolist()


def test_checksums_of_parts_join():
    draw = random.Random(6)
    for a, b in (0, 0), (1, 0), (0, 1), (70_001, 12_345):
        a, b = draw.randbytes(a), draw.randbytes(b)
        assert _parts.joined_crc(zlib.crc32(a), zlib.crc32(b), len(b)) == zlib.crc32(a + b)


def test_a_bar_is_shown_on_a_terminal_alone(monkeypatch, capsys):
    for terminal in False, True:
        monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
        bar = _files.Progress("saving x.npy", 200, True)
        bar(50)
        bar.next = 0  # a second has passed
        bar(50)
        bar.end()
        shown = capsys.readouterr().err
        assert ("50 %" in shown and shown.endswith("\r\033[K")) if terminal else not shown


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
    if sk.rank() == (0 if suffix == "zarr" else sk.size() - 1):  # on one member alone

        def full(*arguments):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(*((sk.Array, "get") if suffix == "zarr" else (os, "pwrite")), full)
    with pytest.raises(sk.FileError, match="No space left|rank . refused"):
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
    for name, options in (
        ("x.h5", {"chunks": (32, 32)}),
        ("x.h5", {"compression": "gzip"}),
        ("x.npz", {}),
        ("x.npz", {"compression": "deflate"}),
    ):
        path = folder / name
        sk.save(sk.asarray(x), path, **options)
        if sk.rank() == 0:
            data = bytearray(path.read_bytes())
            data[-5000] ^= 1
            path.write_bytes(data)
        sk.sync()
        with pytest.raises(sk.FileError, match="x.h5|x.npz|refused its part"):
            sk.load(path)
        sk.sync()
    for name in "x.h5", "x.npy", "x.npz":
        path = folder / name
        for damage in "something else", "too short":
            sk.save(sk.asarray(x), path)
            if sk.rank() == 0:
                if damage == "too short":
                    os.truncate(path, path.stat().st_size - 2000)
                else:
                    path.write_text(damage)
            sk.sync()
            with pytest.raises(sk.FileError, match=name):
                sk.load(path)
            sk.sync()


def test_files_refuse_on_every_member(folder):
    a, last = sk.zeros((4, 4)), sk.rank() == sk.size() - 1
    for refused, kind, text in (
        (lambda: sk.save(a, folder / "x.txt"), sk.InvalidError, ".zarr, .h5, .hdf5, .npy, .npz"),
        (lambda: sk.load(folder / "x.zarr"), sk.FileError, "no such file"),
        (lambda: sk.load(folder / "x.npx"), sk.InvalidError, "'.npx'"),
        (lambda: sk.save({"a": a}, folder / "x.npy"), sk.InvalidError, "one array"),
        (lambda: sk.save(a, folder / "x.npy", chunks=(1, 1)), sk.InvalidError, "no chunks"),
        (lambda: sk.save(a, folder / "x.npy", compression="gzip"), sk.InvalidError, "none at all"),
        (lambda: sk.save(a, folder / "x.h5", compression="zip"), sk.InvalidError, "'gzip' or"),
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
        with pytest.raises(sk.FileError, match="different"):
            sk.save(a, folder / "x.h5", compression="gzip" if last else None)
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


def test_what_is_replaced_goes_beside_the_next_calls(folder):
    x, path = sk.asarray(np.arange(1000.0)), folder / "x.npy"
    for _ in range(3):
        sk.save(x, path)
    _files._finish_removal()
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
              if os.path.islink(f"/proc/self/fd/{fd}")]  # fmt: skip
    assert not [name for name in opened if str(folder) in name]
    sk.sync()
