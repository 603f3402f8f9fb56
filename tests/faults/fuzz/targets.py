"""What the fuzzers feed: the readers that this project wrote itself, with what must hold whatever the bytes are.

A reader either returns something that keeps its promises or raises the error that it documents. Anything else, such as
another exception, an answer that contradicts the bytes, much memory or much time for few bytes, is a finding.
"""

import gzip
import io
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from astropy.io import fits

from equiset.data.celeba.annotations import read_annotations, write_annotations
from equiset.data.mnist.idx import read_idx
from equiset.data.modelnet40 import off
from equiset.data.redmapper.catalogue import read_table
from equiset.errors import EquisetError

_FOLDER = Path(tempfile.mkdtemp(prefix="equiset-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
_BETWEEN = b"\n==\n"
ROLES = ("attributes", "identities", "partition")


def idx(content: bytes) -> None:
    path = _FOLDER / "array"
    path.write_bytes(content)
    try:
        array = read_idx(path)
    except EquisetError:
        return
    plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    assert array.dtype == np.uint8
    assert plain[4 + 4 * array.ndim :] == array.tobytes(), "the array is not what the file holds"


def fits_table(content: bytes) -> None:
    path = _FOLDER / "table.fits"
    path.write_bytes(content)
    try:
        table = read_table(path, ())
    except EquisetError:
        return
    assert table.nbytes <= 20 * len(content), "more memory than the bytes account for"


def off_mesh(content: bytes) -> None:
    try:
        vertices, triangles = off.parse_off(content)
    except ValueError:
        return
    assert vertices.ndim == triangles.ndim == 2
    assert vertices.shape[1] == triangles.shape[1] == 3
    assert vertices.dtype == np.float64
    assert triangles.dtype == np.int64
    assert np.isfinite(vertices).all()
    assert triangles.min() >= 0
    assert triangles.max() < len(vertices)
    assert vertices.nbytes + triangles.nbytes <= 100 * len(content), "more memory than the bytes account for"
    # There is a fast way to read plain files and one for all others; where both can, they must agree.
    n_vertices, n_faces, start = off._header(content)
    if off._plain(content, start, n_vertices, n_faces):
        slow = off._general(content, start, n_vertices, n_faces)
        assert np.array_equal(vertices, slow[0]), "vertices depend on the way of reading"
        assert np.array_equal(triangles, slow[1]), "triangles depend on the way of reading"


def celeba(content: bytes) -> None:
    """The three files, with a line of its own between them."""
    paths = {role: _FOLDER / f"{role}.txt" for role in ROLES}
    for role, part in zip(ROLES, [*content.split(_BETWEEN, 2), b"", b""], strict=False):
        paths[role].write_bytes(part)
    try:
        known = read_annotations(paths)
    except EquisetError:
        return
    assert known["file"].is_unique
    assert not known.isna().any(axis=None)
    assert known["identity"].min() >= 0
    assert set(known["partition"]) <= {0, 1, 2}
    assert set(known.dtypes.iloc[3:]) == {np.dtype(bool)}
    # What a reader makes of it who knows nothing of blocks and types.
    for role, name in (("identities", "identity"), ("partition", "partition")):
        if b"\r" not in paths[role].read_bytes():
            plain = dict(line.split() for line in paths[role].read_bytes().split(b"\n") if line.strip())
            assert [int(plain[file.encode()]) for file in known["file"]] == known[name].tolist(), f"{role} are misread"
    write_annotations(known, paths)
    assert read_annotations(paths).equals(known), "changed on the way out and back"


@dataclass(frozen=True)
class Target:
    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()
    """What the format is made of, for the fuzzer's dictionary."""


def _idx_seeds() -> list[bytes]:
    plain = struct.pack(">HBB3I", 0, 8, 3, 2, 3, 4) + bytes(range(24))
    labels = struct.pack(">HBBI", 0, 8, 1, 5) + bytes(5)
    return [plain, labels, gzip.compress(plain, mtime=0), gzip.compress(labels, mtime=0)]


def _fits_seeds() -> list[bytes]:
    stream = io.BytesIO()
    columns = [
        fits.Column("ID", "J", array=np.arange(3), null=2),
        fits.Column("NAME", "4A", array=np.array(["a", "b", "c"])),
        fits.Column("P_CEN", "5E", array=np.ones((3, 5))),
        fits.Column("FLAG", "L", array=np.array([True, False, True])),
        fits.Column("MANY", "PI()", array=np.array([[1], [2, 3], []], dtype=object)),
    ]
    fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns)]).writeto(stream)
    return [stream.getvalue(), gzip.compress(stream.getvalue(), mtime=0)]


def _off_seeds() -> list[bytes]:
    faces = b"3 0 1 2\n3 0 2 3\n"
    corners = b"0 0 0\n1 0 0\n1 1 0.5\n0 1 -2e-3\n"
    return [
        b"OFF\n4 2 0\n" + corners + faces,
        b"OFF4 2 0\n" + corners + faces,
        b"# made by hand\nOFF\n\n4 1 0 # counts\r\n" + corners + b"\n4 0 1 2 3 255 0 0\n",
        b"COFF\n3 1\n0 0 0 1 1 1 1\n1 0 0 1 1 1 1\n0  1\t0 1 1 1 1\n3 0 1 2",
    ]


def _celeba_seeds() -> list[bytes]:
    names = ["000001.jpg", "000002.jpg", "000003.jpg"]
    columns = {"file": names, "identity": range(3), "partition": range(3)}
    small = pd.DataFrame(columns | {"Bald": [True, False, True], "Male": [False, False, True]})
    paths = {role: _FOLDER / f"{role}.txt" for role in ROLES}
    write_annotations(small, paths)
    return [_BETWEEN.join(paths[role].read_bytes().replace(b"\r\n", end) for role in ROLES) for end in (b"\r\n", b"\n")]


_NUMBERS = (b"                   -1", b"           2000000000", b"        9999999999999")
TARGETS = {
    "fits": Target(fits_table, _fits_seeds, (b"TFORM1  = '", b"TDIM3   = '", b"999999999J", b"END", b"'", *_NUMBERS)),
    "idx": Target(idx, _idx_seeds, (b"\0\0\x08\x03", b"\x1f\x8b\x08", b"\0\0\0\x01", b"\xff\xff\xff\xff")),
    "off": Target(
        off_mesh, _off_seeds, (b"OFF", b"COFF", b"BINARY", b"#", b"nan", b"inf", b"1e999", b"-1", b"_", b"\r\n")
    ),
    "celeba": Target(
        celeba, _celeba_seeds, (b".jpg", b".png", b"\r\n", _BETWEEN, b"\0", b"-1", b" 1", b"\x85", b"\x0b", b"<html")
    ),
}
