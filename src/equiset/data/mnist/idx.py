"""Arrays of bytes in the IDX format of MNIST's files, plain or compressed."""

import gzip
import hashlib
import math
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np

from equiset.data.faults import fault, plain_faults
from equiset.files import atomic_path

_UINT8 = 0x08
_GZIP = b"\x1f\x8b"
_CHUNK = 2**20
_LARGEST = 2**32  # bytes; no data set of this kind comes near
_BEST_RATIO = 1032  # deflate cannot compress further
_MOST_DIMENSIONS = 32  # NumPy has a limit, too


def read_idx(path: str | Path) -> np.ndarray:
    """Read an IDX file of unsigned bytes, compressed or not.

    Memory is taken for bytes that are there, never for bytes that a header announces.
    """
    path = Path(path)
    with plain_faults(path), path.open("rb") as file:
        size = path.stat().st_size
        compressed = file.read(2) == _GZIP
        file.seek(0)
        if compressed:
            with gzip.GzipFile(fileobj=file) as stream:
                return _read(path, stream, size * _BEST_RATIO, exact=False)
        if path.suffix == ".gz":
            raise fault(path, "is not a gzip file, despite its name")
        return _read(path, file, size, exact=True)


def write_idx(path: str | Path, array: np.ndarray) -> None:
    """Write an array of unsigned bytes as IDX; compressed if the name ends in .gz. Equal arrays give equal files."""
    path = Path(path)
    with atomic_path(path) as partial, partial.open("wb") as file:
        packed = path.suffix == ".gz"
        with gzip.GzipFile("", "wb", 6, file, mtime=0) if packed else nullcontext(file) as stream:
            stream.write(idx_header(array))
            stream.write(np.ascontiguousarray(array))


def idx_header(array: np.ndarray) -> bytes:
    if array.dtype != np.uint8 or not 1 <= array.ndim <= 255:
        raise ValueError(
            f"IDX files here hold uint8 arrays with at least one dimension, not {array.dtype}, {array.shape}"
        )
    return struct.pack(f">HBB{array.ndim}I", 0, _UINT8, array.ndim, *array.shape)


def idx_md5(array: np.ndarray) -> str:
    """Return the MD5 of the array's uncompressed IDX file, by which a data set is known however it was compressed."""
    md5 = hashlib.md5(idx_header(array), usedforsecurity=False)
    md5.update(np.ascontiguousarray(array))
    return md5.hexdigest()


def _read(path: Path, stream: BinaryIO, available: int, *, exact: bool) -> np.ndarray:
    magic = stream.read(4)
    if len(magic) < 4:
        raise fault(path, "is cut off within its header")
    zeros, kind, dimensions = struct.unpack(">HBB", magic)
    if zeros != 0 or dimensions == 0:
        raise fault(path, f"is not an IDX file: it begins with {magic.hex()}")
    if kind != _UINT8:
        raise fault(path, f"holds values of IDX type 0x{kind:02x}; only unsigned bytes (0x08) are read")
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise fault(path, "is cut off within its header")
    shape = struct.unpack(f">{dimensions}I", sizes)
    expected = math.prod(shape)
    behind_header = available - 4 - 4 * dimensions
    if expected > min(behind_header, _LARGEST):
        raise fault(
            path, f"announces {expected} bytes of data ({_times(shape)}), more than it can hold: cut off or damaged"
        )
    # Even an array of no bytes, 0 x 4294967295 x ..., may be more than can be numbered.
    if dimensions > _MOST_DIMENSIONS or math.prod(size for size in shape if size) > 2**62:
        raise fault(path, f"announces an array of an absurd shape: {_times(shape)}")
    if exact and expected < behind_header:
        raise fault(path, f"holds {behind_header - expected} bytes more than the {expected} that its header announces")
    data = bytearray()
    # One byte beyond the end is asked for: it shows trailing bytes, and makes gzip compare its checksum.
    while chunk := stream.read(min(_CHUNK, expected + 1 - len(data))):
        data += chunk
        if len(data) > expected:
            raise fault(path, f"holds more than the {expected} bytes that its header announces")
    if len(data) < expected:
        raise fault(path, f"is cut off: {len(data)} of the {expected} bytes that its header announces")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape[:4])) + (" ..." if len(shape) > 4 else "")
