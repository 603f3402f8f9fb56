"""Binary tables of FITS files, plain or compressed, read forward in blocks of rows.

Astropy understands the headers; the rows never pass through it, because it would hold a compressed table in memory
as a whole. Here memory is taken for one block at a time, whatever the file announces.
"""

import gzip
import logging
import math
import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from astropy.io import fits

from equiset.data.faults import fault, plain_faults

log = logging.getLogger(__name__)

RECORD = 2880  # bytes; headers and data fill whole records
_CARD = 80
_GZIP = b"\x1f\x8b"
_LONGEST_HEADER = 1000  # records
_LONGEST_ROW = 2**20  # bytes
_CHUNK = 2**20
_MOST_COLUMNS = 999  # what the format allows
# P and Q are the place and length of an array elsewhere in the file.
_TYPES: dict[str, Any] = {"L": "S1", "B": "u1", "I": ">i2", "J": ">i4", "K": ">i8", "E": ">f4", "D": ">f8"}
_TYPES |= {"C": ">c8", "M": ">c16", "P": (">i4", (2,)), "Q": (">i8", (2,))}
_BEST_RATIO = 1032  # deflate cannot compress further


@dataclass(frozen=True)
class Column:
    """What a header says of one column."""

    name: str
    unit: str | None
    scale: float
    zero: float
    null: int | None
    logical: bool


@dataclass
class FitsTable:
    """An open table. `blocks` may be asked for once; the file is read forward only."""

    path: Path
    rows: int
    dtype: np.dtype
    """Of a row as it is in the file: big-endian. Names are in capitals."""
    columns: dict[str, Column]
    header: fits.Header
    _stream: BinaryIO

    def blocks(self, rows: int = 2**16) -> Iterator[np.ndarray]:
        """Yield the rows in order, `rows` at a time; the next block is read while the caller works on this one."""
        sizes = [min(rows, self.rows - start) for start in range(0, self.rows, rows)]
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self._read, sizes[0]) if sizes else None
            for following in [*sizes[1:], 0]:
                if ahead is None:
                    return
                block = ahead.result()
                ahead = reader.submit(self._read, following) if following else None
                yield block
        self._drain()

    def _read(self, rows: int) -> np.ndarray:
        block = np.empty(rows, self.dtype)
        view = memoryview(block.view(np.uint8))
        arrived = 0
        with plain_faults(self.path):
            while arrived < len(view) and (more := self._stream.readinto(view[arrived:])):
                arrived += more
        if arrived < len(view):
            raise fault(self.path, f"is cut off: it ends before the {self.rows} rows that its header announces")
        return block

    def _drain(self) -> None:
        """Read on to the end, so that gzip compares its checksum."""
        with plain_faults(self.path):
            while self._stream.read(_CHUNK):
                pass


@contextmanager
def open_table(path: str | Path, wanted: Collection[str] = ()) -> Iterator[FitsTable]:
    """Open the first binary table of a FITS file that has all columns of `wanted`; if none does, the first."""
    path = Path(path)
    with ExitStack() as closing:
        # Around the opening alone: what fails while the caller works on the table is not the file's fault.
        with plain_faults(path):
            file = closing.enter_context(path.open("rb"))
            table = _open(path, file, wanted)
            if not table.columns.keys() >= set(wanted):
                file.seek(0)
                table = _open(path, file, ())
        yield table


def _open(path: Path, file: BinaryIO, wanted: Collection[str]) -> FitsTable:
    """Return the first table with the wanted columns, or the last of all."""
    size = path.stat().st_size
    compressed = file.read(2) == _GZIP
    file.seek(0)
    if path.suffix == ".gz" and not compressed:
        raise fault(path, "is not a gzip file, despite its name")
    stream = gzip.GzipFile(fileobj=file) if compressed else file
    room = size * _BEST_RATIO if compressed else size
    header: fits.Header | None = _read_header(path, stream, first=True)
    table = None
    while header is not None:
        if str(header.get("XTENSION", "")).strip() == "BINTABLE":
            table = _describe(path, header, stream)
            if table.rows * table.dtype.itemsize > room:
                raise fault(path, f"announces {table.rows} rows, more than it can hold: cut off or damaged")
            if table.columns.keys() >= set(wanted):
                break
        _skip(path, stream, _data_bytes(path, header), room)
        header = _read_header(path, stream)
    if table is None:
        raise fault(path, "holds no binary table")
    return table


def _read_header(path: Path, stream: BinaryIO, first: bool = False) -> fits.Header | None:
    """Return the next header, or None at the end of the file."""
    text = b""
    while True:
        record = stream.read(RECORD)
        if first and not text and not record.startswith(b"SIMPLE  ="):
            raise fault(path, f"is not a FITS file: it begins with {record[:8]!r}")
        if not record and not text:
            return None
        if len(record) < RECORD or len(text) > _LONGEST_HEADER * RECORD:
            raise fault(path, "is cut off or damaged: a header does not end")
        text += record
        if any(record[at : at + _CARD].rstrip() == b"END" for at in range(0, RECORD, _CARD)):
            break
    try:
        return fits.Header.fromstring(text.decode("ascii"))
    except (ValueError, fits.VerifyError) as error:
        raise fault(path, f"has a header that cannot be read ({error})") from None


def _data_bytes(path: Path, header: fits.Header) -> int:
    """Return how many bytes of data follow a header, filled up to whole records."""
    try:
        axes = [int(header[f"NAXIS{axis + 1}"]) for axis in range(int(header["NAXIS"]))]
        values = math.prod(axes) if axes else 0
        data = abs(int(header["BITPIX"])) // 8 * int(header.get("GCOUNT", 1)) * (int(header.get("PCOUNT", 0)) + values)
    except (KeyError, ValueError, TypeError) as error:
        raise fault(path, f"has a header that cannot be read ({error})") from None
    if data < 0:
        raise fault(path, "has a header that announces less than nothing")
    return -(-data // RECORD) * RECORD


def _skip(path: Path, stream: BinaryIO, size: int, room: int) -> None:
    if size > room:
        raise fault(path, f"announces {size} bytes, more than it can hold: cut off or damaged")
    while size and (chunk := stream.read(min(size, _CHUNK))):
        size -= len(chunk)
    if size:
        raise fault(path, "is cut off before its first table")


def _describe(path: Path, header: fits.Header, stream: BinaryIO) -> FitsTable:
    try:
        rows, width = int(header["NAXIS2"]), int(header["NAXIS1"])
        if not 0 <= int(header["TFIELDS"]) <= _MOST_COLUMNS:
            raise ValueError(f"a table of {header['TFIELDS']} columns")
        columns = [_column(header, number + 1) for number in range(int(header["TFIELDS"]))]
        fields = [(column.name, _type(str(header[f"TFORM{at + 1}"]))) for at, column in enumerate(columns)]
    except (KeyError, ValueError, TypeError, fits.VerifyError) as error:
        raise fault(path, f"has a table header that cannot be read ({error})") from None
    if len({name for name, _ in fields}) < len(fields):
        raise fault(path, "has two columns of one name")
    taken = sum(np.dtype(kind).itemsize for _, kind in fields)
    if rows < 0 or not 0 < width <= _LONGEST_ROW or taken != width:
        raise fault(path, f"has a table header that contradicts itself: rows of {width} bytes, columns of {taken}")
    return FitsTable(path, rows, np.dtype(fields), {column.name: column for column in columns}, header, stream)


def _column(header: fits.Header, number: int) -> Column:
    def word(key: str) -> str:
        return str(header.get(f"{key}{number}", "")).strip()

    return Column(
        word("TTYPE").upper() or f"COLUMN{number}",
        word("TUNIT") or None,
        float(word("TSCAL") or 1),
        float(word("TZERO") or 0),
        int(word("TNULL")) if word("TNULL") else None,
        word("TFORM").strip("0123456789") == "L",
    )


def _type(form: str) -> Any:
    """Return the numpy type of a column: `5E` is five big-endian floats, `20A` a text of 20 bytes."""
    found = re.fullmatch(r"(\d{0,7})([A-Z])[^ ]*", form.strip())
    if not found or (found[2] not in "AX" and found[2] not in _TYPES):
        raise ValueError(f"no column has the form {form!r}")
    count = int(found[1] or 1)
    match found[2]:
        case "A":
            return f"S{count}" if count else ("u1", (0,))
        case "X":  # bits
            return ("u1", (-(-count // 8),))
        case letter:
            kind = _TYPES[letter]
            return kind if count == 1 and isinstance(kind, str) else np.dtype((kind, (count,)))
