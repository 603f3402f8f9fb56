"""Splits the clusters, and measures on the training side alone what inputs are standardised with."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from equiset.errors import EquisetError
from equiset.experiments.redshift.settings import RedshiftSets
from equiset.files import digest_json, read_json, write_json

_CHUNK = 2**17  # rows


def make_sets(settings: RedshiftSets, seed: int, store: Path, folder: Path) -> None:
    """Write `clusters.parquet` (split of each), `removed.npy` (rows) and `sets.json` (scales, counts, digest).

    A galaxy can be a member of two clusters. One that is in a test cluster is removed from the training clusters, so
    that no network has seen a test galaxy. The other members of both clusters stay.
    """
    about = read_json(store / "store.json")
    clusters = pq.read_table(store / "clusters.parquet", columns=["ID", "P_CEN"])
    offsets = np.load(store / "offsets.npy")
    z_spec = np.load(store / "z_spec.npy", mmap_mode="r")
    objid = pq.read_table(store / "members.parquet", columns=["OBJID"])["OBJID"].to_numpy()

    is_test = choose_test(len(clusters), settings.test_share, seed)
    row_is_test = np.repeat(is_test, np.diff(offsets))
    removed = shared_rows(objid, row_is_test)
    trains = ~row_is_test
    trains[removed] = False
    labelled = ~np.isnan(z_spec)
    counts = {
        "train_clusters": int((~is_test).sum()),
        "test_clusters": int(is_test.sum()),
        "train_members": int(trains.sum()),
        "test_members": int(row_is_test.sum()),
        "train_labelled": int((trains & labelled).sum()),
        "test_labelled": int((row_is_test & labelled).sum()),
        "removed_members": len(removed),
    }
    if not counts["train_labelled"] or not counts["test_labelled"]:
        raise EquisetError(
            f"of {len(clusters)} clusters, those for training have {counts['train_labelled']} spectroscopic redshifts "
            f"and those for the test {counts['test_labelled']}: take more clusters"
        )
    features = np.load(store / "features.npy", mmap_mode="r")
    centres = np.stack(clusters["P_CEN"].to_numpy(zero_copy_only=False)).astype(np.float64)
    scales = member_scales(features, trains, about["features"])
    scales |= centre_scales(centres, np.add.reduceat(trains.astype(np.int64), offsets[:-1]))
    known = z_spec[trains & labelled].astype(np.float64)
    scales["Z_SPEC"] = [float(known.mean()), float(known.std()) or 1.0]

    folder.mkdir(parents=True)
    split = pd.Categorical(np.where(is_test, "test", "train"), categories=["train", "test"])
    table = pd.DataFrame({"ID": clusters["ID"].to_numpy(), "split": split})
    table.to_parquet(folder / "clusters.parquet", index=False)
    np.save(folder / "removed.npy", removed)
    write_json(folder / "sets.json", describe(settings, seed, about, counts | {"scales": scales}, table, removed))


def describe(
    settings: RedshiftSets,
    seed: int,
    store: dict[str, Any],
    measured: dict[str, Any],
    table: pd.DataFrame,
    removed: np.ndarray,
) -> dict[str, Any]:
    content = [table["ID"].tolist(), table["split"].tolist(), removed.tolist(), measured["scales"]]
    return {
        "dataset": store["dataset"],
        "source": store["source"],
        "real": store["real"],
        "data": store["description"],
        "store_digest": store["digest"],
        "digest": digest_json(content),
        "seed": seed,
        **measured,
        **settings.model_dump(mode="json"),
    }


def choose_test(clusters: int, share: float, seed: int) -> np.ndarray:
    """Return for each cluster whether it is kept for the test; the number is exact."""
    chosen = np.random.default_rng([seed, clusters]).permutation(clusters)[: round(share * clusters)]
    is_test = np.zeros(clusters, bool)
    is_test[chosen] = True
    return is_test


def shared_rows(objid: np.ndarray, row_is_test: np.ndarray) -> np.ndarray:
    """Return the rows of training clusters whose galaxy is in a test cluster as well."""
    return np.flatnonzero(~row_is_test & np.isin(objid, np.unique(objid[row_is_test])))


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
