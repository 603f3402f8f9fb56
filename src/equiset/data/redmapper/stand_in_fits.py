"""Writes a binary table as a FITS file, block by block, the same bytes every time."""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np
from astropy.io import fits

from equiset.files import atomic_path

ORIGIN = "equiset stand-in"
"""The keyword ORIGIN of every table written here, by which it is never taken for the real one."""


def write_table(
    path: str | Path, blocks: Iterator[np.ndarray], rows: int, dtype: np.dtype, units: Mapping[str, str]
) -> None:
    """Write blocks of big-endian rows, `rows` in total, as the first extension; compressed if the name ends in .gz."""
    path = Path(path)
    header = fits.BinTableHDU(np.empty(0, dtype)).header
    header["NAXIS2"] = rows
    for number, name in enumerate(dtype.names, 1):
        if name in units:
            header.set(f"TUNIT{number}", units[name], after=f"TFORM{number}")
    header["ORIGIN"] = (ORIGIN, "simulated, not observed")
    pack = _packed if path.suffix == ".gz" else nullcontext
    with atomic_path(path) as partial, partial.open("wb") as file, pack(file) as stream:
        stream.write(fits.PrimaryHDU().header.tostring().encode())
        stream.write(header.tostring().encode())
        written = 0
        for block in blocks:
            stream.write(block.tobytes())
            written += len(block)
        if written != rows:
            raise ValueError(f"{path.name} was to have {rows} rows, but {written} came")
        stream.write(b"\0" * (-rows * dtype.itemsize % 2880))


def _packed(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file, mtime=0)
