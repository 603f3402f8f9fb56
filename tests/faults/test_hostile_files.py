"""Files that lie about themselves are refused before memory or disk is taken for what they announce.

Downloads are held by tests/unit/test_download.py, zip files by tests/unit/test_unpack.py, formats by the tests of their
readers; here is what spans several of them, and what it costs.
"""

import io
import os
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equiset.data.celeba.images import ImageSource, convert, decode
from equiset.data.redmapper.catalogue import open_table
from equiset.errors import EquisetError
from equiset.files import read_arrow, read_parquet
from equiset.results.runs import Run
from tests.unit.test_redmapper_data import member_values, write
from tests.workflow.conftest import ROOT


def png(width, height):
    """A whole PNG file whose header announces a size and whose data are a few bytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def jpeg(width, height):
    """A JPEG file whose frame header is changed afterwards."""
    stream = io.BytesIO()
    Image.new("RGB", (64, 64)).save(stream, "JPEG")
    content = bytearray(stream.getvalue())
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(content)


@pytest.mark.parametrize(
    "content", [png(40_000, 40_000), jpeg(40_000, 40_000), png(5000, 1), png(2**31 - 1, 2**31 - 1)]
)
def test_huge_images_are_refused(content):
    with pytest.raises((ValueError, Image.DecompressionBombError, OSError)):
        decode(content)


def test_a_bad_image_in_the_archive_is_left_out_and_named(tmp_path):
    """Encrypted, compressed in an unknown way, damaged, a bomb, far too large: the others are read."""
    stream = io.BytesIO()
    Image.new("RGB", (178, 218), (200, 30, 30)).save(stream, "JPEG")
    names = [f"{number:06d}.jpg" for number in range(1, 7)]
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names[:5]:
            archive.writestr(name, stream.getvalue())
        archive.writestr(names[5], png(40_000, 40_000))
        archive.writestr("000007.jpg", bytes(2**24 + 1))
    content = bytearray((tmp_path / "images.zip").read_bytes())
    entries = [at for at in range(len(content)) if content[at : at + 4] == b"PK\x01\x02"]
    content[entries[1] + 8] |= 1  # encrypted
    content[entries[2] + 10 : entries[2] + 12] = struct.pack("<H", 77)  # an unknown compression
    local = struct.unpack("<I", content[entries[3] + 42 : entries[3] + 46])[0]
    content[local + 30 + 10 : local + 30 + 20] = b"\xff" * 10  # damaged
    (tmp_path / "images.zip").write_bytes(content)
    source = ImageSource(tmp_path / "images.zip")
    found = convert(source, [*names, "000007.jpg"], tmp_path / "images.npy")
    assert sorted(found.faults) == [names[1], names[2], names[3], names[5], "000007.jpg"]
    images = np.load(tmp_path / "images.npy")
    assert (images[0] == images[4]).all()
    assert images[0].any()
    assert not images[[1, 2, 3, 5, 6]].any()


@pytest.mark.parametrize("columns", ["2000000000", "-1"])
def test_a_fits_header_that_announces_a_billion_columns(tmp_path, columns):
    whole = write(tmp_path / "whole.fits", member_values()).read_bytes()
    at = whole.index(b"TFIELDS =")
    lie = b"TFIELDS = " + columns.rjust(20).encode()
    (tmp_path / "lie.fits").write_bytes(whole[:at] + lie + whole[at + len(lie) :])
    with pytest.raises(EquisetError, match=r"lie\.fits .*columns"):
        open_table(tmp_path / "lie.fits")


def newer_magic(content):
    return content[:-4] + b"PAR9"


def unknown_compression(content):
    """The codec of the one column chunk becomes one that does not exist yet."""
    length = struct.unpack("<I", content[-8:-4])[0]
    footer = bytearray(content[-8 - length : -8])
    # In the column's metadata, after the path ["a"] (field 3, a list of one text) stands the codec (field 4).
    at = footer.index(b"\x19\x18\x01a\x15") + 5
    footer[at] = 2 * 60
    return content[: -8 - length] + bytes(footer) + content[-8:]


def unknown_layout(content):
    length = struct.unpack("<I", content[-8:-4])[0]
    return content[: -8 - length] + b"\xff" * length + content[-8:]


@pytest.mark.parametrize("change", [newer_magic, unknown_compression, unknown_layout, lambda content: content[:50]])
def test_parquet_of_a_newer_version_is_named(tmp_path, change):
    pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(tmp_path / "metrics.parquet")
    content = (tmp_path / "metrics.parquet").read_bytes()
    (tmp_path / "metrics.parquet").write_bytes(change(content))
    for read in (read_parquet, read_arrow, lambda path: Run(path.parent).metrics):
        with pytest.raises(EquisetError, match=r"metrics\.parquet cannot be read: .*newer version"):
            read(tmp_path / "metrics.parquet")
    with pytest.raises(EquisetError, match="is not there"):
        read_parquet(tmp_path / "absent.parquet")


PROGRAM = """
import gzip, json, resource, struct, sys
from pathlib import Path
from equiset.data.celeba.images import decode
from equiset.data.download import unpack
from equiset.data.mnist.idx import read_idx
from equiset.data.redmapper.catalogue import open_table
from equiset.data.modelnet40.mesh_files import read_mesh
from tests.faults.test_hostile_files import jpeg, png

folder = Path(sys.argv[1])

def file(name, content):
    (folder / name).write_bytes(content)
    return folder / name

billion = b"OFF\\n1000000000 1000000000 0\\n" + b"0 0 0\\n" * 160
ply = b"ply\\nformat binary_little_endian 1.0\\nelement vertex 4000000000\\nproperty double x\\nproperty double y\\n"
ply += b"property double z\\nelement face 4000000000\\nproperty list uint int vertex_index\\nend_header\\n" + bytes(99)

def gltf(**more):
    about = json.dumps({"asset": {"version": "2.0"}, **more}).encode()
    about += b" " * (-len(about) % 4)
    binary = struct.pack("<I4s", 48 * 10**4, b"BIN\\0") + bytes(48 * 10**4)
    size = 20 + len(about) + len(binary)
    return struct.pack("<4sIII4s", b"glTF", 2, size, len(about), b"JSON") + about + binary

shape = {"attributes": {"POSITION": 0}}
kind = {"componentType": 5126, "type": "VEC3"}
glb = gltf(accessors=[kind | {"count": 3 * 10**9}], bufferViews=[], meshes=[{"primitives": [shape]}])
fits = (folder / "whole.fits").read_bytes().replace(
    b"NAXIS2  =                   11", b"NAXIS2  =         999999999999")
idx = struct.pack(">HBB3I", 0, 8, 3, 60000, 4096, 4096)
cases = [
    lambda: read_mesh(file("a.off", billion)),
    lambda: read_mesh(file("a.ply", ply)),
    lambda: read_mesh(file("a.glb", glb)),
    lambda: read_mesh(file("a.stl", bytes(80) + b"\\xff" * 54)),
    lambda: decode(png(40_000, 40_000)),
    lambda: decode(jpeg(40_000, 40_000)),
    lambda: open_table(file("a.fits", fits)),
    lambda: open_table(file("b.fits.gz", gzip.compress(fits))),
    lambda: read_idx(file("a.idx", idx)),
    lambda: read_idx(file("b.idx", gzip.compress(idx))),
    lambda: unpack(folder / "bomb.zip", folder / "out"),
]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
for number, case in enumerate(cases):
    try:
        case()
    except MemoryError:
        raise
    except Exception as error:
        assert str(error), number
    else:
        sys.exit(f"case {number} was not refused")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_refusing_costs_neither_memory_nor_disk(tmp_path):
    write(tmp_path / "whole.fits", member_values())
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as bomb:
        for number in range(4):
            bomb.writestr(f"{number}.off", bytes(2**24))
    before = {path.name for path in tmp_path.iterdir()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40, f"{done.stdout} MB were taken"
    written = {"a.off", "a.ply", "a.glb", "a.stl", "a.fits", "b.fits.gz", "a.idx", "b.idx"}
    assert {path.name for path in tmp_path.iterdir()} - before <= written
