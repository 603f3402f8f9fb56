"""Redshifts of a user's own galaxies, in redMaPPer's columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from equiset.data.redmapper.catalogue import CANDIDATES, FEATURES, is_absent, read_table
from equiset.errors import EquisetError
from equiset.experiments.redshift import task
from equiset.experiments.redshift.networks import FOOTNOTE
from equiset.nn.sets import PackedSets
from equiset.training.load_run import Reject, Tables, Trained, check_array

_ENDINGS = (".parquet", ".fit", ".fits", ".fit.gz", ".fits.gz")


def preprocess(run: Trained, values: np.ndarray, offsets: np.ndarray) -> Tensor | PackedSets:
    """Take float32 (members, features), NaN where nothing was measured, and the row at which each cluster begins,
    with the number of rows at the end."""
    features = len(task.feature_names(run.settings))
    values = check_array(values, f"values (members, {features})", features).astype(np.float32)
    offsets = check_array(offsets, "offsets (clusters + 1,)")
    if offsets.dtype.kind == "f" or [*offsets[:1], *offsets[-1:]] != [0, len(values)] or (np.diff(offsets) < 1).any():
        raise EquisetError(
            f"expected offsets that are whole numbers and grow from 0 to the {len(values)} rows of values"
        )
    return task.preprocess(values, offsets, *task.feature_scales(run.settings, run.sets), run.settings.model == "set")


def predict(runs: list[Trained], source: Path, reject: Reject) -> Tables:
    """Return the number of galaxies, and a table of their redshifts; of several networks, the mean and spread.

    The members are a FITS or Parquet file. P_CEN, if the network sees it, is one of its columns or in a second file,
    that of the clusters, in the same folder.
    """
    footnote = runs[0].settings.features == "footnote"
    names = FOOTNOTE if footnote else FEATURES
    path, clusters = (_find(source, "member"), _find(source, "cluster|cat")) if source.is_dir() else (source, None)
    if path is None:
        raise EquisetError(f"{source} holds no file of members: *members* that ends in {', '.join(_ENDINGS)}")
    members = _read(path, ["ID", *names, *["P_CEN"] * (footnote and clusters is None)])
    for name in names:
        if not _is_number(members[name].type):
            raise EquisetError(f"{path}: {name} must hold numbers, and holds {members[name].type}")
    if not len(members):
        raise EquisetError(f"{path} holds no member")
    if members["ID"].null_count:
        raise EquisetError(f"{path} holds a member without its cluster (ID)")
    columns = [_measured(name, members[name].to_numpy()) for name in names]
    if footnote:
        columns.extend(_centres(clusters or path, members, clusters is not None).T)
    return len(members), iter([_redshifts(runs, members, np.stack(columns, 1))])


def _find(folder: Path, words: str) -> Path | None:
    found = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith(_ENDINGS)]
    found = [path for path in found if any(word in path.name.lower() for word in words.split("|"))]
    if len(found) > 1:
        raise EquisetError(f"{folder} holds several files that may be meant: {found[0].name} and {found[1].name}")
    return found[0] if found else None


def _read(path: Path, names: list[str]) -> pa.Table:
    """Return columns of a table, with the OBJID if there is one."""
    if path.suffix == ".parquet":
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise EquisetError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
        if missing := [name for name in names if name not in table.column_names]:
            raise EquisetError(f"{path} lacks the columns {', '.join(missing)}; see docs/predict.md")
    else:
        table = read_table(path, names)
    try:
        ids = table["ID"].cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise EquisetError(f"{path}: ID, the number of the cluster, must hold whole numbers ({reason})") from None
    table = table.set_column(table.column_names.index("ID"), "ID", ids)
    return table.select([name for name in table.column_names if name in {*names, "OBJID"}])


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _centres(path: Path, members: pa.Table, apart: bool) -> np.ndarray:
    """Return the P_CEN of each member's cluster, from the members' own table or, `apart`, from the clusters'."""
    table = _read(path, ["ID", "P_CEN"]) if apart else members
    kind = table["P_CEN"].type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not (lists and _is_number(kind.value_type)):
        raise EquisetError(f"{path}: P_CEN must hold {CANDIDATES} numbers in each row, and holds {kind}")
    flat = pc.list_flatten(table["P_CEN"]).to_numpy()
    if len(flat) != CANDIDATES * len(table):
        raise EquisetError(f"{path}: P_CEN must hold {CANDIDATES} numbers in each row")
    centres = flat.astype(np.float32).reshape(-1, CANDIDATES)
    if not apart:
        return centres
    place = pc.index_in(members["ID"], table["ID"])
    if place.null_count:
        strange = members["ID"].to_numpy()[place.is_null().to_numpy()][0]
        raise EquisetError(f"the members name the cluster {strange}, which is not among the clusters")
    return centres[place.to_numpy()]


def _redshifts(runs: list[Trained], members: pa.Table, values: np.ndarray) -> pd.DataFrame:
    """Return the redshift of each member, in the order of the table, whose clusters need not be in order."""
    ids = members["ID"].to_numpy()
    order = np.argsort(ids, kind="stable")
    edges = np.append(np.flatnonzero(np.diff(ids[order], prepend=ids[order[0]] - 1)), len(ids))
    found = np.empty((len(runs), len(ids)), np.float32)
    for first in range(0, len(edges) - 1, task.EVALUATION_BATCH):
        offsets = edges[first : first + task.EVALUATION_BATCH + 1]
        here = order[offsets[0] : offsets[-1]]
        for z, run in zip(found, runs, strict=True):
            origin, unit = task.target_scale(run.settings, run.sets)
            z[here] = origin + unit * run(values[here], offsets - offsets[0]).numpy()
    table = {name: members[name].to_numpy() for name in ("ID", "OBJID") if name in members.column_names}
    spread = {"z_spread": np.std(found, 0, ddof=1)} if len(runs) > 1 else {}
    return pd.DataFrame(table | {"z": np.mean(found, 0)} | spread)


def _measured(name: str, values: np.ndarray) -> np.ndarray:
    """Return a column as float32, NaN for what stands for no measurement."""
    return np.where(is_absent(name, values), np.nan, values).astype(np.float32)
