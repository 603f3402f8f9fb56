"""The two tables of redMaPPer: read from FITS by astropy, and checked."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from astropy.io import fits
from astropy.utils.exceptions import AstropyWarning

from equiset.errors import EquisetError
from equiset.files import read_maybe_gzip

log = logging.getLogger(__name__)

BANDS = "UGRIZ"
MAGNITUDES = tuple(f"MODEL_{kind}_{band}" for kind in ("MAG", "MAGERR") for band in BANDS)
FEATURES = ("RA", "DEC", "R", "P", "P_FREE", "IMAG", "IMAG_ERR", *MAGNITUDES)
"""The columns of `features.npy`: what networks may see of a member."""
MEMBER_COLUMNS = ("ID", *FEATURES, "Z_SPEC", "OBJID")
"""The columns of the members that are needed. Others are kept."""
CLUSTER_COLUMNS = ("ID", "Z_LAMBDA", "P_CEN")
"""The columns of the clusters that are needed."""
CANDIDATES = 5  # for the centre of a cluster, the length of P_CEN

UNITS = {"RA": "deg", "DEC": "deg", "R": "Mpc/h", "IMAG": "mag", "IMAG_ERR": "mag"} | dict.fromkeys(MAGNITUDES, "mag")
_LIMITS = {"RA": (0, 360), "DEC": (-90, 90), "R": (0, 100), "P": (0, 1), "P_FREE": (0, 1), "Z_SPEC": (-0.01, 10)}
_TOLERANCE = 1e-3  # probabilities are rounded floats
_MAGNITUDE_LIMITS = (-5, 60)  # what lies outside stands for "not measured"
_NO_REDSHIFT = -1.0
_MOST_UNMEASURED = 0.2  # share of a column; a network sees the mean in place of them
_MOST_COLUMNS = 999  # what FITS allows


def read_clusters(path: Path) -> pa.Table:
    """Read the catalogue of clusters, in the order of their numbers."""
    clusters = read_table(path, CLUSTER_COLUMNS)
    if not len(clusters):
        raise _fault(path, "holds no cluster")
    clusters = clusters.take(pa.array(np.argsort(_identifiers(path, clusters), kind="stable")))
    ids, z = _identifiers(path, clusters), clusters["Z_LAMBDA"].to_numpy()
    if (repeated := ids[:-1][np.diff(ids) == 0]).size:
        raise _fault(path, f"holds the cluster {repeated[0]} twice")
    if not (np.isfinite(z) & (z > 0) & (z < 10)).all():
        raise _fault(path, "holds a Z_LAMBDA that is no redshift")
    if not (whole := np.isfinite(centres_of(clusters)).all(1)).all():
        raise _fault(path, f"holds a P_CEN that is no number, of the cluster {ids[~whole][0]}")
    return clusters


def read_members(path: Path, clusters: np.ndarray) -> pa.Table:
    """Read the members, in the order of their clusters, with null for what was not measured.

    `clusters` has the numbers of all clusters.
    """
    members = read_table(path, MEMBER_COLUMNS)
    if not len(members):
        raise _fault(path, "holds no member")
    ids = _identifiers(path, members)
    if (np.diff(ids) < 0).any():
        log.info("%s is not sorted by cluster: sorting it", path.name)
        members = members.take(pa.array(np.argsort(ids, kind="stable")))
        ids = _identifiers(path, members)
    if (strange := np.setdiff1d(ids, clusters)).size:
        raise _fault(path, f"holds members of the cluster {strange[0]}, which the catalogue does not have")
    if (alone := np.setdiff1d(clusters, ids)).size:
        raise _fault(path, f"holds no member of {len(alone)} clusters of the catalogue, such as {alone[0]}")
    _check_galaxies(path, members, ids)
    for name in ("Z_SPEC", "IMAG", "IMAG_ERR", *MAGNITUDES):
        values = members[name].to_numpy()
        column = pa.array(values, mask=is_absent(name, values), from_pandas=False)
        members = members.set_column(members.column_names.index(name), members.field(name), column)
    _check_values(path, members)
    return members


def read_table(path: Path, required: Sequence[str]) -> pa.Table:
    """Read the first table of a FITS file that has the required columns; names are in capitals, TNULL becomes null.

    Left out are columns that a flat table cannot hold: complex numbers, matrices, arrays of varying length.
    """
    hdu = open_table(path, required)
    arrays, fields = [], []
    with _clear_errors(path):
        for column in hdu.columns:
            array = _to_arrow(hdu.data, column)
            if array is not None:
                name = column.name.upper()
                unit = column.unit or UNITS.get(name)
                arrays.append(array)
                fields.append(pa.field(name, array.type, metadata={"unit": unit} if unit else None))
    table = pa.table(arrays, schema=pa.schema(fields))
    _require(path, table.schema, required)
    return table


def open_table(path: Path, wanted: Sequence[str] = ()) -> fits.BinTableHDU:
    """Return the first table of a FITS file that has the wanted columns, else the first; it has all of its rows."""
    content = read_maybe_gzip(path)
    if not content.startswith(b"SIMPLE  ="):
        raise _fault(path, f"is not a FITS file: it begins with {content[:8]!r}")
    with _clear_errors(path):
        # Of bytes in memory, astropy takes no more for rows that a header merely announces.
        hdus = fits.HDUList.fromstring(content, disable_image_compression=True)
        tables = [hdu for hdu in hdus if isinstance(hdu, fits.BinTableHDU)]
        for hdu in tables:
            # Before anything else is asked: astropy would make room for as many as there are said to be.
            if not 0 < hdu.header["TFIELDS"] <= _MOST_COLUMNS:
                raise _fault(path, f"has a table of {hdu.header['TFIELDS']} columns")
        if not tables:
            raise _fault(path, "holds no binary table")
        names = [[name.upper() for name in hdu.columns.names] for hdu in tables]
        at = next((at for at, found in enumerate(names) if set(found) >= set(wanted)), 0)
        if len(set(names[at])) < len(names[at]):
            raise _fault(path, "has two columns of one name")
        width, columns = tables[at].header["NAXIS1"], tables[at].columns.dtype.itemsize
        if width != columns:
            raise _fault(path, f"has a header that contradicts itself: rows of {width} bytes, columns of {columns}")
        if len(tables[at].data) != tables[at].header["NAXIS2"]:
            raise _fault(path, "is cut off")
        return tables[at]


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Turn what astropy raises for a damaged file, which may be nearly anything, into one line."""
    try:
        with warnings.catch_warnings(action="ignore", category=AstropyWarning):  # what matters is checked here
            yield
    except EquisetError:
        raise
    except Exception as error:
        raise _fault(path, f"is cut off or damaged ({' '.join(str(error).split())})") from None


def _to_arrow(rows: fits.FITS_rec, column: fits.Column) -> pa.Array | None:
    raw = np.asarray(rows)[column.name]  # before astropy scales it
    if raw.dtype.kind == "S":
        text = np.char.decode(np.char.rstrip(raw), "ascii", "replace")
        return pa.array(text.astype(object)) if raw.ndim == 1 else None
    values = rows.field(column.name)
    if values.dtype.kind not in "biuf" or values.ndim > 2 or 0 in values.shape[1:]:
        return None
    # Of a column that is scaled, TNULL is the value before scaling, which `astropy.table` overlooks.
    absent = (raw == column.null).reshape(-1) if column.null is not None and raw.dtype.kind in "iu" else None
    array = pa.array(values.astype(values.dtype.newbyteorder("=")).reshape(-1), mask=absent, from_pandas=False)
    return array if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(array, values.shape[1])


def _require(path: Path, schema: pa.Schema, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in schema.names]:
        raise _fault(path, f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}")
    for name in names:
        kind, form = schema.field(name).type, "a number"
        if name == "P_CEN":
            form = f"{CANDIDATES} numbers"
            right = pa.types.is_fixed_size_list(kind) and kind.list_size == CANDIDATES and _is_number(kind.value_type)
        elif name in ("ID", "OBJID"):
            form, right = "an integer", pa.types.is_integer(kind)
        else:
            right = _is_number(kind)
        if not right:
            raise _fault(path, f"has a column {name} of the form {kind}, expected {form} in each row")


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def centres_of(table: pa.Table) -> np.ndarray:
    """Return the P_CEN of each row: float32, (rows, candidates)."""
    return pc.list_flatten(table["P_CEN"]).to_numpy().astype(np.float32).reshape(len(table), CANDIDATES)


def features_of(table: pa.Table, names: Sequence[str] = FEATURES) -> np.ndarray:
    """Return columns as float32, (rows, columns), with NaN for null."""
    return np.stack([table[name].to_numpy().astype(np.float32, copy=False) for name in names], 1)


def is_absent(name: str, values: np.ndarray) -> np.ndarray:
    """Say which values of a member's column mean that there is none."""
    if name == "Z_SPEC":
        return (values == _NO_REDSHIFT) | np.isnan(values)
    if name in ("IMAG", "IMAG_ERR", *MAGNITUDES):
        low, high = _MAGNITUDE_LIMITS
        return ~((values > low) & (values < high))
    return np.isnan(values)


def _identifiers(path: Path, table: pa.Table) -> np.ndarray:
    """Return the numbers of the clusters, all of which must be there."""
    if missing := table["ID"].null_count:
        raise _fault(path, f"holds {missing} rows whose cluster (ID) is null")
    return table["ID"].to_numpy().astype(np.int64)


def _check_galaxies(path: Path, members: pa.Table, ids: np.ndarray) -> None:
    """Refuse a galaxy that is in a cluster twice; two clusters may share one."""
    known = members["OBJID"].is_valid().to_numpy()
    pairs = pd.DataFrame({"ID": ids[known], "OBJID": members["OBJID"].drop_null().to_numpy()})
    if (twice := pairs[pairs.duplicated()]).size:
        cluster, galaxy = twice.iloc[0]
        raise _fault(path, f"holds the galaxy {galaxy} (OBJID) twice in the cluster {cluster}")


def _check_values(path: Path, members: pa.Table) -> None:
    for name, (low, high) in _LIMITS.items():
        values = members[name].to_numpy()
        values = values[~np.isnan(values)] if name == "Z_SPEC" else values
        # Written so that NaN fails as well.
        if not (values.size == 0 or (values.min() >= low - _TOLERANCE and values.max() <= high + _TOLERANCE)):
            raise _fault(path, f"holds a {name} outside of {low:g} to {high:g}, or one that is no number")
    if members["Z_SPEC"].null_count == len(members):
        raise _fault(path, "holds no spectroscopic redshift (all Z_SPEC are -1), so nothing can be learned from it")
    for name, missing in unmeasured(members).items():
        if missing > _MOST_UNMEASURED * len(members):
            raise _fault(path, f"lacks {missing} of {len(members)} values of {name}")
        log.warning("%s: %d values of %s are not measured; networks see the mean there", path.name, missing, name)


def unmeasured(members: pa.Table) -> dict[str, int]:
    """Return how many magnitudes and errors are missing, by column."""
    counts = {name: members[name].null_count for name in ("IMAG", "IMAG_ERR", *MAGNITUDES)}
    return {name: count for name, count in counts.items() if count}


def _fault(path: Path, what: str) -> EquisetError:
    return EquisetError(
        f"{path} {what}. Give redMaPPer's own two tables, or two with the same columns; see docs/own-data.md."
    )
