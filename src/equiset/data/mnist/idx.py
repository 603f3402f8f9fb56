"""Arrays of bytes in the IDX format of MNIST's files, plain or compressed."""

import gzip
import hashlib
import math
import struct
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from equiset.errors import EquisetError
from equiset.files import atomic_path, read_maybe_gzip

_UINT8 = 0x08


def read_idx(path: str | Path) -> np.ndarray:
    """Read an IDX file of unsigned bytes; its content tells whether it is compressed."""
    path = Path(path)
    content = read_maybe_gzip(path)
    zeros, kind, dimensions = struct.unpack(">HBB", content[:4]) if len(content) >= 4 else (0, _UINT8, 1)
    start = 4 + 4 * dimensions
    if zeros != 0 or dimensions == 0:
        raise _fault(path, f"is not an IDX file: it begins with {content[:4].hex()}")
    if kind != _UINT8:
        raise _fault(path, f"holds values of IDX type 0x{kind:02x}; only unsigned bytes (0x08) are read")
    if len(content) < start:
        raise _fault(path, "is cut off within its header")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if (held := len(content) - start) != math.prod(shape):
        problem = "cut off" if held < math.prod(shape) else "damaged"
        announced = " x ".join(map(str, shape[:4]))
        raise _fault(path, f"is {problem}: its header announces {announced} bytes, and {held} follow")
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # no bytes in a shape beyond NumPy's limits, such as 0 x 4294967295 x 4294967295
        raise _fault(path, f"is damaged: {error}") from None


def write_idx(path: str | Path, array: np.ndarray) -> None:
    """Write an array of unsigned bytes as IDX; compressed if the name ends in .gz. Equal arrays give equal files."""
    path = Path(path)
    content = idx_header(array) + array.tobytes()
    # Not by `gzip.compress`, whose header depends on Python's version.
    pack = partial(gzip.GzipFile, "", "wb", 6, mtime=0) if path.suffix == ".gz" else nullcontext
    with atomic_path(path) as temporary, temporary.open("wb") as file, pack(file) as stream:
        stream.write(content)


def idx_header(array: np.ndarray) -> bytes:
    if array.dtype != np.uint8 or not 1 <= array.ndim <= 255:
        raise ValueError(
            f"IDX files here hold uint8 arrays with at least one dimension, not {array.dtype}, {array.shape}"
        )
    return struct.pack(f">HBB{array.ndim}I", 0, _UINT8, array.ndim, *array.shape)


def idx_md5(array: np.ndarray) -> str:
    """Return the MD5 of the array's uncompressed IDX file, by which a data set is known however it was compressed."""
    return hashlib.md5(idx_header(array) + array.tobytes(), usedforsecurity=False).hexdigest()


def _fault(path: Path, what: str) -> EquisetError:
    return EquisetError(f"{path} {what}. Remove the file and fetch it again.")
