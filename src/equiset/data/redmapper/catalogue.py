"""The two tables of redMaPPer, from FITS to Parquet: a stream of blocks of whole clusters, checked on the way."""

import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from equiset.data.redmapper.fits import FitsTable, open_table
from equiset.errors import EquisetError

log = logging.getLogger(__name__)

BANDS = "UGRIZ"
MAGNITUDES = tuple(f"MODEL_{kind}_{band}" for kind in ("MAG", "MAGERR") for band in BANDS)
FEATURES = ("RA", "DEC", "R", "P", "P_FREE", "IMAG", "IMAG_ERR", *MAGNITUDES)
"""The columns of `features.npy`: what networks may see of a member."""
MEMBER_COLUMNS = ("ID", *FEATURES[:5], "THETA_I", "THETA_R", *FEATURES[5:], "Z_SPEC", "OBJID")
CLUSTER_COLUMNS = ("ID", "Z_LAMBDA", "LAMBDA", "P_CEN")
CANDIDATES = 5  # for the centre of a cluster, the length of P_CEN

UNITS = {"RA": "deg", "DEC": "deg", "R": "Mpc/h", "IMAG": "mag", "IMAG_ERR": "mag"} | dict.fromkeys(MAGNITUDES, "mag")
_LIMITS = {"RA": (0, 360), "DEC": (-90, 90), "R": (0, 100), "P": (0, 1), "P_FREE": (0, 1), "Z_SPEC": (-0.01, 10)}
_TOLERANCE = 1e-3  # probabilities are rounded floats
_MAGNITUDE_LIMITS = (-5, 60)  # what lies outside stands for "not measured"
_NO_REDSHIFT = -1.0
_MOST_UNMEASURED = 0.2  # share of a column; a network sees the mean in place of them
_LARGEST_CLUSTER = 100_000
_BLOCK = 2**16  # rows


class _NotSortedError(Exception):
    """Members of one cluster are not together, or clusters not in the order of their numbers."""


@dataclass
class MemberCounts:
    """What a pass over the members has found."""

    ids: np.ndarray
    """Numbers of the clusters of the catalogue, increasing."""
    members: np.ndarray
    spectroscopic: np.ndarray
    unmeasured: dict[str, int] = field(default_factory=dict)
    """Magnitudes and errors that are missing, by column."""
    last: int | None = None
    """The number of the last cluster that was seen."""


def read_clusters(path: Path) -> pa.Table:
    """Read the catalogue of clusters, in the order of their numbers."""
    with open_table(path, CLUSTER_COLUMNS) as table:
        _require(table, CLUSTER_COLUMNS, vectors={"P_CEN": CANDIDATES})
        if not table.rows:
            raise _fault(path, "holds no cluster")
        parts = [_arrow(table, rows, None) for rows in table.blocks()]
    clusters = pa.concat_tables(parts).sort_by("ID")
    ids, z = _identifiers(path, clusters), clusters["Z_LAMBDA"].to_numpy()
    if (repeated := ids[:-1][np.diff(ids) == 0]).size:
        raise _fault(path, f"holds the cluster {repeated[0]} twice")
    if not (np.isfinite(z) & (z > 0) & (z < 10)).all():
        raise _fault(path, "holds a Z_LAMBDA that is no redshift")
    centres = pc.list_flatten(clusters["P_CEN"]).to_numpy().reshape(len(clusters), -1)
    if not (whole := np.isfinite(centres).all(1)).all():
        raise _fault(path, f"holds a P_CEN that is no number, of the cluster {ids[~whole][0]}")
    return clusters


def convert_members(path: Path, ids: np.ndarray, folder: Path, provenance: dict[str, Any]) -> MemberCounts:
    """Write `members.parquet`, one row group for each block of whole clusters, and the arrays that training maps.

    `features.npy` holds the columns `FEATURES` as float32, NaN where not measured, and `z_spec.npy` the
    spectroscopic redshifts, NaN where there is none. Memory does not grow with the file if the members are sorted by
    cluster, as redMaPPer's are; else the rows pass through a temporary file and 16 bytes are taken for each.
    """
    try:
        return _convert(path, ids, folder, provenance, None)
    except _NotSortedError:
        log.info("%s is not sorted by cluster: sorting it", path.name)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            return _convert(path, ids, folder, provenance, Path(scratch) / "rows")


def _convert(
    path: Path, ids: np.ndarray, folder: Path, provenance: dict[str, Any], scratch: Path | None
) -> MemberCounts:
    counts = MemberCounts(ids, np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64))
    with (
        open_table(path, MEMBER_COLUMNS) as table,
        (folder / "features.npy").open("wb") as features,
        (folder / "z_spec.npy").open("wb") as redshifts,
    ):
        _require(table, MEMBER_COLUMNS)
        _begin_array(features, (table.rows, len(FEATURES)))
        _begin_array(redshifts, (table.rows,))
        writer = None
        try:
            blocks = table.blocks(_BLOCK) if scratch is None else _sorted_blocks(table, scratch)
            for rows in _whole_clusters(path, blocks):
                part = _arrow(table, rows, provenance)
                writer = writer or pq.ParquetWriter(
                    folder / "members.parquet",
                    part.schema,
                    # Measurements hardly repeat: dictionaries would take time and space, and compression would make
                    # the file 7 % smaller for twice the time.
                    use_dictionary=["ID"],
                    compression="none",
                )
                _count(path, part, counts)
                matrix = np.stack([_floats(part[name]) for name in FEATURES], 1)
                features.write(matrix.data)
                redshifts.write(_floats(part["Z_SPEC"]).data)
                writer.write_table(part, row_group_size=len(rows))
        finally:
            if writer:
                writer.close()
    _check_counts(path, counts)
    return counts


def _whole_clusters(path: Path, blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Cut the stream of rows between clusters."""
    rest = None
    for block in blocks:
        rows = block if rest is None else np.concatenate([rest, block])
        ids = rows["ID"]
        others = np.flatnonzero(ids != ids[-1])
        if others.size:
            cut = others[-1] + 1
            yield rows[:cut]
            rows = rows[cut:]
        rest = rows.copy()
        if len(rest) > _LARGEST_CLUSTER:
            raise _fault(path, f"gives the cluster {ids[-1]} more than {_LARGEST_CLUSTER} members")
    if rest is not None:
        yield rest


def _sorted_blocks(table: FitsTable, scratch: Path) -> Iterator[np.ndarray]:
    ids = np.empty(table.rows, np.int64)
    with scratch.open("wb") as file:
        done = 0
        for block in table.blocks(_BLOCK):
            ids[done : done + len(block)] = block["ID"]
            done += len(block)
            file.write(block.tobytes())
    if not done:
        return
    order = np.argsort(ids, kind="stable")
    rows = np.memmap(scratch, table.dtype, "r")
    for start in range(0, len(order), _BLOCK):
        yield np.asarray(rows[order[start : start + _BLOCK]])


def _arrow(table: FitsTable, rows: np.ndarray, provenance: dict[str, Any] | None) -> pa.Table:
    """Turn rows into columns of the machine's byte order, with their types, units, and null where there is no value."""
    arrays, fields = [], []
    for name, column in table.columns.items():
        values = _values(table, rows, name)
        if values is None:
            continue
        absent = _absent(name, values) if provenance is not None else None
        if column.null is not None and values.dtype.kind in "iu":
            absent = values == column.null
        array = pa.array(values.reshape(-1), mask=absent, from_pandas=False)
        if values.ndim == 2:
            array = pa.FixedSizeListArray.from_arrays(array, values.shape[1])
        unit = column.unit or UNITS.get(name)
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata={"unit": unit} if unit else None))
    metadata = {"equiset": json.dumps(provenance, sort_keys=True)} if provenance else None
    return pa.table(arrays, schema=pa.schema(fields, metadata))


def _values(table: FitsTable, rows: np.ndarray, name: str) -> np.ndarray | None:
    """Return a column as the machine counts, scaled as its header says; None for kinds that a table cannot hold."""
    column, values = table.columns[name], rows[name]
    if values.dtype.kind == "c" or values.size == 0 or values.ndim > 2:
        return None
    if column.logical:
        return values == b"T"
    if values.dtype.kind == "S":
        return np.char.decode(np.char.rstrip(values), "ascii", "replace").astype(object) if values.ndim == 1 else None
    values = values.astype(values.dtype.newbyteorder("="))
    if column.scale == 1 and column.zero == 0:
        return values
    if column.scale == 1 and values.dtype.kind in "iu" and column.zero == 2 ** (8 * values.dtype.itemsize - 1):
        # How FITS writes unsigned integers.
        return (values ^ np.iinfo(values.dtype).min).view(values.dtype.str.replace("i", "u"))
    return values * column.scale + column.zero


def _absent(name: str, values: np.ndarray) -> np.ndarray | None:
    """Say which values of a member's column mean that there is none."""
    if name == "Z_SPEC":
        return (values == _NO_REDSHIFT) | np.isnan(values)
    if name in ("IMAG", "IMAG_ERR", *MAGNITUDES):
        low, high = _MAGNITUDE_LIMITS
        return ~((values > low) & (values < high))
    return None


def _identifiers(path: Path, table: pa.Table) -> np.ndarray:
    """Return the numbers of the clusters, all of which must be there."""
    if missing := table["ID"].null_count:
        raise _fault(path, f"holds {missing} rows whose cluster (ID) is null")
    return table["ID"].to_numpy().astype(np.int64)


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as float32, NaN for null."""
    values = column.to_numpy()
    return values if values.dtype == np.float32 else values.astype(np.float32)


def _count(path: Path, part: pa.Table, counts: MemberCounts) -> None:
    """Check a block of whole clusters, and count its members."""
    ids = _identifiers(path, part)
    if (np.diff(ids, prepend=ids[0] if counts.last is None else counts.last) < 0).any():
        raise _NotSortedError
    counts.last = int(ids[-1])
    for name, (low, high) in _LIMITS.items():
        values = part[name].drop_null().to_numpy() if part[name].null_count else part[name].to_numpy()
        # Written so that NaN fails as well.
        if not (values.size == 0 or (values.min() >= low - _TOLERANCE and values.max() <= high + _TOLERANCE)):
            raise _fault(path, f"holds a {name} outside of {low:g} to {high:g}, or one that is no number")
    first = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    known = np.searchsorted(counts.ids, ids[first])
    strange = (known == len(counts.ids)) | (counts.ids[known.clip(max=len(counts.ids) - 1)] != ids[first])
    if strange.any():
        raise _fault(path, f"holds members of the cluster {ids[first][strange][0]}, which the catalogue does not have")
    counts.members[known] = np.diff(first, append=len(ids))
    has = ~np.isnan(_floats(part["Z_SPEC"]))
    counts.spectroscopic[known] = np.add.reduceat(has.astype(np.int64), first)
    for name in ("IMAG", "IMAG_ERR", *MAGNITUDES):
        if missing := part[name].null_count:
            counts.unmeasured[name] = counts.unmeasured.get(name, 0) + missing


def _check_counts(path: Path, counts: MemberCounts) -> None:
    if not counts.members.sum():
        raise _fault(path, "holds no member")
    if not counts.members.all():
        alone = counts.ids[counts.members == 0]
        raise _fault(path, f"holds no member of {len(alone)} clusters of the catalogue, such as {alone[0]}")
    if not counts.spectroscopic.any():
        raise _fault(path, "holds no spectroscopic redshift (all Z_SPEC are -1), so nothing can be learned from it")
    for name, missing in counts.unmeasured.items():
        if missing > _MOST_UNMEASURED * counts.members.sum():
            raise _fault(path, f"lacks {missing} of {counts.members.sum()} values of {name}")
        log.warning("%s: %d values of %s are not measured; networks see the mean there", path.name, missing, name)


def _require(table: FitsTable, names: Sequence[str], vectors: dict[str, int] | None = None) -> None:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise _fault(table.path, f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}")
    for name in names:
        kind, length = table.dtype[name], (vectors or {}).get(name, 1)
        integer = name in ("ID", "OBJID")
        if kind.base.kind not in ("iu" if integer else "fiu") or kind.shape != ((length,) if length > 1 else ()):
            wanted = f"{length} numbers" if length > 1 else "an integer" if integer else "a number"
            raise _fault(table.path, f"has a column {name} of the form {kind}, expected {wanted} in each row")


def _begin_array(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """Write the beginning of an .npy file of float32; its rows follow as they come."""
    header = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _fault(path: Path, what: str) -> EquisetError:
    return EquisetError(
        f"{path} {what}. Give redMaPPer's own two tables, or two with the same columns; see docs/own-data.md."
    )
