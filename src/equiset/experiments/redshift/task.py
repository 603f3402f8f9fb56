"""How the networks learn redshifts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import torch
from torch import Tensor, nn

from equiset.data.redmapper.catalogue import CANDIDATES, FEATURES
from equiset.experiments.redshift.networks import FOOTNOTE, build_network
from equiset.experiments.redshift.sets import SPLITS
from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.files import read_arrow, read_json, read_parquet
from equiset.nn.sets import PackedSets
from equiset.training.feeding import feed
from equiset.training.loop import Batch, Sums

EVALUATION_BATCH = 256  # clusters


@dataclass(frozen=True)
class Rows:
    """The members of some sets, one set after the other: row numbers of the store, and where each set begins."""

    numbers: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the row numbers and the offsets of the chosen sets, in their order."""
        starts, sizes = self.offsets[sets], self.offsets[sets + 1] - self.offsets[sets]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return self.numbers[np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])], offsets


class Task:
    """Redshifts by squared loss on members with a spectrum; see `equiset.training.loop.Task`.

    The members stay in their file and are mapped; a batch copies the rows of its clusters. Those of the test clusters
    are read by `predict` alone.
    """

    def __init__(self, settings: RedshiftVariant, store: Path, sets: Path, device: torch.device):
        self.settings = settings
        self.device = device
        self.store = store
        self.features = np.load(store / "features.npy", mmap_mode="r")
        self.z_spec = np.load(store / "z_spec.npy", mmap_mode="r")
        self.offsets = np.load(store / "offsets.npy")
        clusters = read_arrow(store / "clusters.parquet", columns=["P_CEN"])
        self.centres = pc.list_flatten(clusters["P_CEN"]).to_numpy().astype(np.float32).reshape(len(clusters), -1)
        self.about = read_json(sets / "sets.json")
        columns = read_json(store / "store.json")["features"]
        self.names = feature_names(settings)
        self.columns = [columns.index(name) for name in self.names if name in columns]
        self.shift, self.scale = feature_scales(settings, self.about)
        self.origin, self.unit = target_scale(settings, self.about)
        split, removed = read_parquet(sets / "clusters.parquet")["split"].to_numpy(), np.load(sets / "removed.npy")
        self.splits = {name: self._rows(split == name, removed) for name in SPLITS}

    def _rows(self, chosen: np.ndarray, removed: np.ndarray) -> Rows:
        """Return the chosen clusters that hold a labelled member, without the removed ones: others add nothing."""
        sizes = np.diff(self.offsets)
        kept = np.repeat(chosen, sizes)
        kept[removed] = False
        labelled = kept & ~np.isnan(self.z_spec)
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        useful = np.bincount(cluster[labelled], minlength=len(sizes)) > 0
        # The perceptron sees labelled galaxies alone; the set model sees all members.
        numbers = np.flatnonzero(labelled if self.settings.model == "mlp" else kept & useful[cluster])
        if self.settings.model == "mlp" and self.settings.batch_of == "galaxies":
            return Rows(numbers, np.arange(len(numbers) + 1))
        counts = np.bincount(cluster[numbers], minlength=len(sizes))[useful]
        return Rows(numbers, np.concatenate([[0], np.cumsum(counts)]))

    def build_model(self) -> nn.Module:
        return build_network(self.settings, self.about)

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        return feed(self._shuffled(generator), self.device)

    def _shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        size = self.settings.training.batch_size
        order = torch.randperm(len(self.splits["train"]), generator=generator).numpy()
        for start in range(0, len(order), size):
            yield self._batch(*self.splits["train"].take(order[start : start + size]))

    def validation_batches(self) -> dict[str, Iterator[Batch]]:
        """Return the holdout clusters, if there are any. What the test says must not be known while tuning."""
        return {"validation": feed((self._batch(*part) for part in self._in_order("holdout")), self.device)}

    def _in_order(self, split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        size = EVALUATION_BATCH * (64 if self.settings.model == "mlp" else 1)
        rows = self.splits[split]
        for start in range(0, len(rows), size):
            yield rows.take(np.arange(start, min(start + size, len(rows))))

    def _batch(self, rows: np.ndarray, offsets: np.ndarray) -> Batch:
        """Return in main memory what the network sees, the redshifts, and the numbers of those that are known."""
        values = self.features[rows][:, self.columns]
        if len(self.columns) < len(self.names):
            values = np.concatenate([values, self.centres[self._cluster_of(rows)]], 1)
        x = preprocess(values, offsets, self.shift, self.scale, self.settings.model == "set")
        z_spec = torch.from_numpy(self.z_spec[rows])
        return x, z_spec, (~z_spec.isnan()).nonzero().squeeze(1)

    def _labelled(self, split: str) -> Iterator[Batch]:
        """Yield what the network sees, and of the members with a spectrum their rows, redshifts and places in it."""
        for rows, offsets in self._in_order(split):
            x, z_spec, known = self._batch(rows, offsets)
            known = known.numpy()
            yield x, rows[known], z_spec.numpy()[known], known

    def _cluster_of(self, numbers: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, numbers, side="right") - 1

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Sums]:
        x, z_spec, known = batch
        z_spec = z_spec[known]
        predicted = model(x).float()[known]
        squared = (predicted - (z_spec - self.origin) / self.unit).square()
        with torch.no_grad():
            scatter = ((self.origin + self.unit * predicted - z_spec).abs() / (1 + z_spec)).sum()
        return squared.mean(), {"sets": len(known), "loss": squared.detach().sum(), "scatter": scatter}

    @torch.no_grad()
    def predict(self, model: nn.Module) -> pd.DataFrame:
        """Return the estimates for test and holdout galaxies with a spectrum, beside their host's Z_LAMBDA.

        The column `split` tells them apart; without a holdout all are of the test.
        """
        parts = []
        for split in ("holdout", "test"):
            for x, rows, z_spec, known in feed(self._labelled(split), self.device):
                predicted = self.origin + self.unit * model(x).float().cpu().numpy()[known]
                columns = {"row": rows, "z_spec": z_spec, "z": predicted}
                parts.append(pd.DataFrame({"split": split, **columns}))
        table = pd.concat(parts, ignore_index=True)
        clusters = read_arrow(self.store / "clusters.parquet", columns=["ID", "Z_LAMBDA"])
        host = self._cluster_of(table["row"].to_numpy())
        table.insert(0, "cluster", clusters["ID"].to_numpy()[host])
        return table.assign(z_catalogue=clusters["Z_LAMBDA"].to_numpy()[host])


def feature_names(settings: RedshiftVariant) -> list[str]:
    """Return the names of what the network sees of a member, in their order."""
    centres = [f"P_CEN_{at}" for at in range(CANDIDATES)]
    return list(FEATURES) if settings.features == "columns" else [*FOOTNOTE, *centres]


def feature_scales(settings: RedshiftVariant, sets: dict[str, Any]) -> np.ndarray:
    """Return mean and standard deviation of each feature, (2, features); `sets` is the content of `sets.json`."""
    return np.array([sets["scales"][name] for name in feature_names(settings)], np.float32).T


def target_scale(settings: RedshiftVariant, sets: dict[str, Any]) -> tuple[float, float]:
    """Return what is added to the network's output, after it is multiplied with the second, to give a redshift."""
    return sets["scales"]["Z_SPEC"] if settings.target == "standardised" else (0.0, 1.0)


def preprocess(
    values: np.ndarray, offsets: np.ndarray, shift: np.ndarray, scale: np.ndarray, of_sets: bool
) -> Tensor | PackedSets:
    """Return what the network sees of members: (members, features), and where each cluster begins.

    Standardised, the mean is zero: what a value that was not measured (NaN) becomes.
    """
    rows = torch.from_numpy(np.nan_to_num((values - shift) / scale, nan=0.0, copy=False))
    return PackedSets(rows, torch.from_numpy(offsets)) if of_sets else rows
