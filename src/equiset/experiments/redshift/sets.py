"""Splits the clusters, and measures on the training side alone what inputs are standardised with."""

from pathlib import Path

import numpy as np
import pandas as pd

from equiset.errors import EquisetError
from equiset.experiments.redshift.settings import RedshiftSets
from equiset.files import digest_json, read_arrow, read_json, write_json

SPLITS = ("train", "holdout", "test")
_CHUNK = 2**17  # rows that are summed at once, so that their copies in float64 stay small


def make_sets(settings: RedshiftSets, seed: int, store: Path, folder: Path) -> None:
    """Write `clusters.parquet` (split of each), `removed.npy` (rows) and `sets.json` (scales, counts, digest).

    A galaxy can be a member of two clusters. One that is in a test cluster is removed from the training and the
    holdout clusters, so that no network has seen a test galaxy and no setting was chosen by one. One that is in a
    holdout cluster is removed from the training clusters. The other members of both clusters stay.
    """
    about = read_json(store / "store.json")
    clusters = read_arrow(store / "clusters.parquet", columns=["ID", "P_CEN"])
    offsets = np.load(store / "offsets.npy")
    z_spec = np.load(store / "z_spec.npy", mmap_mode="r")
    galaxies = read_arrow(store / "members.parquet", columns=["OBJID"])["OBJID"]
    # Never as floats, which numpy makes of integers with gaps: numbers of 18 digits would become one.
    objid, known = galaxies.fill_null(0).to_numpy(), galaxies.is_valid().to_numpy()

    split = choose_splits(len(clusters), settings.test_share, settings.holdout, seed)
    row_split = np.repeat(split, np.diff(offsets))
    removed = shared_rows(objid, row_split, known)
    kept = np.ones(len(row_split), bool)
    kept[removed] = False
    labelled = ~np.isnan(z_spec)
    members = {name: kept & (row_split == at) for at, name in enumerate(SPLITS)}
    counts: dict[str, int] = {}
    for at, name in enumerate(SPLITS):
        counts[f"{name}_clusters"] = int((split == at).sum())
        counts[f"{name}_members"] = int(members[name].sum())
        counts[f"{name}_labelled"] = int((members[name] & labelled).sum())
    in_test = np.isin(objid[removed], objid[known & (row_split == SPLITS.index("test"))])
    from_train = row_split[removed] == SPLITS.index("train")
    counts |= {
        "removed_members": int((from_train & in_test).sum()),
        "removed_for_holdout": int((from_train & ~in_test).sum()),
        "removed_from_holdout": int((~from_train).sum()),
    }
    for name in SPLITS:
        if not counts[f"{name}_labelled"] and (name != "holdout" or settings.holdout):
            raise EquisetError(
                f"of {len(clusters)} clusters, the {counts[f'{name}_clusters']} of the {name} split have no "
                "spectroscopic redshift: take more clusters"
            )
    trains = members["train"]
    features = np.load(store / "features.npy", mmap_mode="r")
    centres = np.stack(clusters["P_CEN"].to_numpy(zero_copy_only=False)).astype(np.float64)
    scales = member_scales(features, trains, about["features"])
    scales |= centre_scales(centres, np.add.reduceat(trains.astype(np.int64), offsets[:-1]))
    known = z_spec[trains & labelled].astype(np.float64)
    scales["Z_SPEC"] = [float(known.mean()), float(known.std()) or 1.0]

    folder.mkdir(parents=True)
    table = pd.DataFrame({"ID": clusters["ID"].to_numpy(), "split": pd.Categorical.from_codes(split, SPLITS)})
    table.to_parquet(folder / "clusters.parquet", index=False)
    np.save(folder / "removed.npy", removed)
    content = digest_json([table["ID"].tolist(), table["split"].tolist(), removed.tolist(), scales])
    write_json(folder / "sets.json", settings.describe(about, seed, content, scales=scales, **counts))


def choose_splits(clusters: int, test_share: float, holdout: float, seed: int) -> np.ndarray:
    """Return the split of each cluster, as its place in SPLITS.

    The numbers are exact, and the test clusters are the same with any holdout or none.
    """
    order = np.random.default_rng([seed, clusters]).permutation(clusters)
    tests = round(test_share * clusters)
    split = np.full(clusters, SPLITS.index("train"), np.int8)
    split[order[:tests]] = SPLITS.index("test")
    split[order[tests : tests + round(holdout * (clusters - tests))]] = SPLITS.index("holdout")
    return split


def shared_rows(objid: np.ndarray, row_split: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the rows whose galaxy is `known` to be in a cluster of a later split as well, in the order of SPLITS."""
    shared = np.zeros(len(objid), bool)
    for at in range(1, len(SPLITS)):
        shared |= known & (row_split < at) & np.isin(objid, np.unique(objid[known & (row_split == at)]))
    return np.flatnonzero(shared)


def member_scales(features: np.ndarray, trains: np.ndarray, names: list[str]) -> dict[str, list[float]]:
    """Return mean and standard deviation of each column over the rows that train; missing values do not count."""
    starts = range(0, len(features), _CHUNK)
    chunks = lambda: (features[s : s + _CHUNK][trains[s : s + _CHUNK]].astype(np.float64) for s in starts)  # noqa: E731
    count = sum((~np.isnan(chunk)).sum(0) for chunk in chunks())
    mean = sum(np.nansum(chunk, 0) for chunk in chunks()) / count
    variance = sum(np.nansum((chunk - mean) ** 2, 0) for chunk in chunks()) / count
    # A column that never changes says nothing, whatever it is divided by.
    deviation = np.where(variance > 0, np.sqrt(variance), 1.0)
    return {name: [float(m), float(d)] for name, m, d in zip(names, mean, deviation, strict=True)}


def centre_scales(centres: np.ndarray, members: np.ndarray) -> dict[str, list[float]]:
    """Return mean and standard deviation of each P_CEN, every training member counting once."""
    mean = np.average(centres, axis=0, weights=members)
    deviation = np.sqrt(np.average((centres - mean) ** 2, axis=0, weights=members))
    return {f"P_CEN_{at}": [float(m), float(d) or 1.0] for at, (m, d) in enumerate(zip(mean, deviation, strict=True))}
