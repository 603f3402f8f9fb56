"""Redshifts of galaxies that somebody brings, in redMaPPer's columns."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from equiset.data.redmapper.catalogue import CANDIDATES, FEATURES, _absent, _arrow
from equiset.data.redmapper.fits import open_table
from equiset.errors import EquisetError
from equiset.experiments.redshift.networks import FOOTNOTE
from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.experiments.redshift.task import _EVALUATION_BATCH
from equiset.experiments.redshift.task import preprocess as preprocess_members
from equiset.nn.sets import PackedSets
from equiset.training.load_run import Bad, Tables, Trained, checked

_BLOCK = 2**16  # rows that are read at once
_ENDINGS = (".parquet", ".fit", ".fits", ".fit.gz", ".fits.gz")


def preprocessing(
    settings: RedshiftVariant, sets: dict[str, Any], store: Path | None
) -> Callable[[np.ndarray, np.ndarray], Tensor | PackedSets]:
    centres = [f"P_CEN_{number}" for number in range(CANDIDATES)]
    names = FEATURES if settings.features == "columns" else (*FOOTNOTE, *centres)
    shift, scale = np.array([sets["scales"][name] for name in names], np.float32).T

    def preprocess(values: np.ndarray, offsets: np.ndarray) -> Tensor | PackedSets:
        """Take float32 (members, features), NaN where nothing was measured, and the row at which each cluster begins,
        with the number of rows at the end."""
        values = checked(values, f"values (members, {len(names)})", len(names)).astype(np.float32)
        return preprocess_members(values, offsets, shift, scale, settings.model == "set")

    return preprocess


def predict(runs: list[Trained], source: Path, bad: Bad) -> Tables:
    """Return the number of galaxies and, block by block, their redshifts; of several networks, the mean and spread.

    The members are a FITS or Parquet file, sorted by cluster. P_CEN, if the network sees it, is one of its columns or
    in a second file, that of the clusters, in the same folder.
    """
    footnote = runs[0].settings.features == "footnote"
    names = FOOTNOTE if footnote else FEATURES
    members, clusters = (_find(source, "member"), _find(source, "cluster|cat")) if source.is_dir() else (source, None)
    if members is None:
        raise EquisetError(f"{source} holds no file of members: *members* that ends in {', '.join(_ENDINGS)}")
    centres = None
    if footnote and clusters:
        centres = pa.concat_tables(_read(clusters, ["ID", "P_CEN"])[1]).sort_by("ID")
    rows, blocks = _read(members, ["ID", *names, *["P_CEN"] * (footnote and centres is None)])
    return rows, _redshifts(runs, names, _whole_clusters(members, blocks), centres)


def _find(folder: Path, words: str) -> Path | None:
    found = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith(_ENDINGS)]
    found = [path for path in found if any(word in path.name.lower() for word in words.split("|"))]
    if len(found) > 1:
        raise EquisetError(f"{folder} holds several files that may be meant: {found[0].name} and {found[1].name}")
    return found[0] if found else None


def _read(path: Path, names: list[str]) -> tuple[int, Iterator[pa.Table]]:
    """Return the number of rows of a table, and the rows in blocks, with their OBJID if they have one."""
    if path.suffix == ".parquet":
        try:
            file = pq.ParquetFile(path, pre_buffer=False)  # which would hold what is read ahead
        except (pa.ArrowException, OSError) as error:
            raise EquisetError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
        rows, there = file.metadata.num_rows, set(file.schema_arrow.names)
        columns = [*names, *{"OBJID"} & there]
        blocks = (pa.table(batch) for batch in file.iter_batches(_BLOCK, columns=columns))
    else:
        with open_table(path, names) as table:
            rows, there = table.rows, set(table.columns)
        blocks = _fits_blocks(path, names)
    if missing := [name for name in names if name not in there]:
        raise EquisetError(f"{path} lacks the columns {', '.join(missing)}; see docs/predict.md")
    return rows, blocks


def _fits_blocks(path: Path, names: list[str]) -> Iterator[pa.Table]:
    with open_table(path, names) as table:
        columns = [*names, *{"OBJID"} & set(table.columns)]
        for rows in table.blocks(_BLOCK):
            yield _arrow(table, rows, None).select(columns)


def _whole_clusters(path: Path, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Cut the stream of rows between clusters, as many of them at a time as an evaluation takes."""
    held = None
    for block in chain(blocks, [None]):
        held = block if held is None else held if block is None else pa.concat_tables([held, block])
        if held is None or not len(held):
            raise EquisetError(f"{path} holds no member")
        steps = np.diff(ids := held["ID"].to_numpy())
        if not (steps >= 0).all():  # so that NaN, made of null, fails as well
            raise EquisetError(f"{path} is not sorted by cluster: ID must be there for all members, and not decrease")
        starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
        # The last cluster may go on in the next block.
        whole = len(starts) if block is None else (len(starts) - 1) // _EVALUATION_BATCH * _EVALUATION_BATCH
        edges = np.append(starts, len(ids))
        for first in range(0, whole, _EVALUATION_BATCH):
            yield held.slice(edges[first], edges[min(first + _EVALUATION_BATCH, whole)] - edges[first])
        held = held.slice(edges[whole])


def _redshifts(
    runs: list[Trained], names: tuple[str, ...], blocks: Iterator[pa.Table], centres: pa.Table | None
) -> Iterator[pd.DataFrame]:
    for block in blocks:
        ids = block["ID"].to_numpy()
        columns = [_measured(name, block[name].to_numpy()) for name in names]
        if centres is not None:
            place = pc.index_in(block["ID"], centres["ID"])
            if place.null_count:
                strange = ids[place.is_null().to_numpy()][0]
                raise EquisetError(f"the members name the cluster {strange}, which is not among the clusters")
            block = block.append_column("P_CEN", centres["P_CEN"].take(place))
        if "P_CEN" in block.column_names:
            columns.extend(pc.list_flatten(block["P_CEN"]).to_numpy().astype(np.float32).reshape(-1, CANDIDATES).T)
        values, found = np.stack(columns, 1), []
        offsets = np.append(np.flatnonzero(np.diff(ids, prepend=ids[0] - 1)), len(ids))
        for run in runs:
            origin, unit = run.sets["scales"]["Z_SPEC"] if run.settings.target == "standardised" else (0.0, 1.0)
            found.append(origin + unit * run(values, offsets).numpy())
        table = {name: block[name].to_numpy() for name in ("ID", "OBJID") if name in block.column_names}
        spread = {"z_spread": np.std(found, 0, ddof=1)} if len(runs) > 1 else {}
        yield pd.DataFrame(table | {"z": np.mean(found, 0)} | spread)


def _measured(name: str, values: np.ndarray) -> np.ndarray:
    """Return a column as float32, NaN for what stands for no measurement."""
    absent = _absent(name, values)
    return (values if absent is None else np.where(absent, np.nan, values)).astype(np.float32)
