"""IDX files: what is written is read again, and every kind of damage is one clear error."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from equiset.data.mnist.idx import idx_md5, read_idx, write_idx
from equiset.errors import EquisetError
from equiset.files import digest

ARRAY = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx(shape: tuple[int, ...], data: bytes, kind: int = 8, zeros: int = 0) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", zeros, kind, len(shape), *shape) + data


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6)), st.sampled_from(["a", "a.gz"]))
def test_round_trip(tmp_path_factory, array, name):
    path = tmp_path_factory.mktemp("idx") / name
    write_idx(path, array)
    again = read_idx(path)
    assert again.dtype == np.uint8
    assert again.shape == array.shape
    assert (again == array).all()


def test_equal_arrays_give_equal_files(tmp_path):
    write_idx(tmp_path / "a.gz", ARRAY)
    write_idx(tmp_path / "b.gz", np.asfortranarray(ARRAY))
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.gz", "b.gz"]


def test_compression_is_told_by_content(tmp_path):
    write_idx(tmp_path / "a.gz", ARRAY)
    (tmp_path / "a").write_bytes((tmp_path / "a.gz").read_bytes())
    assert (read_idx(tmp_path / "a") == ARRAY).all()


def test_md5_is_that_of_the_plain_file(tmp_path):
    write_idx(tmp_path / "a", ARRAY)
    assert digest(tmp_path / "a", "md5") == idx_md5(ARRAY)


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros(3, np.int8), np.array(1, np.uint8)])
def test_only_bytes_are_written(tmp_path, array):
    with pytest.raises(ValueError, match="uint8"):
        write_idx(tmp_path / "a", array)
    assert list(tmp_path.iterdir()) == []


DAMAGED = {
    "empty": (b"", "cut off within its header"),
    "half a magic number": (b"\0\0", "cut off within its header"),
    "half a header": (b"\0\0\x08\x03\0\0\0\x02\0\0", "cut off within its header"),
    "other magic": (idx((2,), b"ab", zeros=7), "is not an IDX file"),
    "no dimension": (idx((), b"a"), "is not an IDX file"),
    "web page": (b"<html>quota</html>", "is not an IDX file"),
    "floats": (idx((1,), b"abcd", kind=0x0D), "type 0x0d"),
    "cut off": (idx((10,), b"only"), "is cut off: its header announces 10 bytes, and 4 follow"),
    "trailing bytes": (idx((2,), b"abc"), "is damaged: its header announces 2 bytes, and 3 follow"),
    "huge": (idx((60_000, 60_000, 60_000), b"abc"), "announces 60000 x 60000 x 60000 bytes, and 3 follow"),
    "overflow": (idx((2**32 - 1,) * 8, b"abc"), "is cut off"),
    "a shape beyond NumPy's limits": (idx((0, *[2**32 - 1] * 8), b""), "is damaged"),
    "too many dimensions": (idx((1,) * 200, b"a"), "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged(tmp_path: Path, kind: str, compressed: bool):
    content, message = DAMAGED[kind]
    path = tmp_path / ("file.gz" if compressed else "file")
    path.write_bytes(gzip.compress(content, mtime=0) if compressed else content)
    with pytest.raises(EquisetError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cut_off_gzip(tmp_path):
    write_idx(tmp_path / "a.gz", np.random.default_rng(0).integers(0, 256, 10_000).astype(np.uint8))
    whole = (tmp_path / "a.gz").read_bytes()
    for length in (2, 9, 15, 5000, len(whole) - 9, len(whole) - 1):
        (tmp_path / "a.gz").write_bytes(whole[:length])
        with pytest.raises(EquisetError, match=r"a\.gz is (cut off|damaged)"):
            read_idx(tmp_path / "a.gz")


@pytest.mark.parametrize("position", [-5, -1, 40])
def test_changed_gzip(tmp_path, position):
    write_idx(tmp_path / "a.gz", np.random.default_rng(0).integers(0, 256, 10_000).astype(np.uint8))
    content = bytearray((tmp_path / "a.gz").read_bytes())
    content[position] ^= 0xFF
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(EquisetError, match=r"a\.gz "):
        read_idx(tmp_path / "a.gz")


def test_bytes_behind_the_gzip(tmp_path):
    write_idx(tmp_path / "a.gz", ARRAY)
    with (tmp_path / "a.gz").open("ab") as file:
        file.write(b"more")
    with pytest.raises(EquisetError, match="damaged"):
        read_idx(tmp_path / "a.gz")


def test_name_says_gzip_and_content_does_not(tmp_path):
    (tmp_path / "a.gz").write_bytes(idx((2,), b"ab"))
    with pytest.raises(EquisetError, match="not a gzip file, despite its name"):
        read_idx(tmp_path / "a.gz")


def test_no_file(tmp_path):
    with pytest.raises(EquisetError, match="cannot be read: No such file"):
        read_idx(tmp_path / "a.gz")
