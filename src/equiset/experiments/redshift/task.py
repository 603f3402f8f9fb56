"""The network of set layers and the multi-layer perceptron, and how they learn redshifts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from equiset.experiments.redshift.sets import SPLITS
from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.files import read_json
from equiset.nn import SetDropout, SetLayer
from equiset.parquet import read_arrow, read_parquet
from equiset.sets import PackedSets
from equiset.training import Batch, Sums

FOOTNOTE = ("RA", "DEC", *(f"MODEL_{kind}_{band}" for kind in ("MAG", "MAGERR") for band in "UGRIZ"))
_EVALUATION_BATCH = 256  # clusters


class RedshiftNet(nn.Module):
    """Four layers, 17-128-128-128-1: a number for each member.

    Shapes: `PackedSets` of (total, features), for the perceptron a tensor of that shape -> (total,).
    """

    def __init__(self, settings: RedshiftVariant, features: int):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise([features, *settings.channels]):
            if settings.model == "set":
                layers += [SetLayer(before, after, settings.form, "tanh"), SetDropout(settings.dropout)]
            else:
                layers += [nn.Linear(before, after), nn.Tanh(), nn.Dropout(settings.dropout)]
        width = settings.channels[-1]
        layers.append(SetLayer(width, 1, settings.form) if settings.model == "set" else nn.Linear(width, 1))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor | PackedSets) -> Tensor:
        y = self.layers(x)
        return (y.rows if isinstance(y, PackedSets) else y).squeeze(1)


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
    """Redshifts by squared loss on members with a spectrum; see `equiset.training.Task`.

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
        self.centres = np.stack(clusters["P_CEN"].to_numpy(zero_copy_only=False)).astype(np.float32)
        about = read_json(sets / "sets.json")
        columns = read_json(store / "store.json")["features"]
        centres = [f"P_CEN_{at}" for at in range(self.centres.shape[1])]
        self.names = columns if settings.features == "columns" else [*FOOTNOTE, *centres]
        self.columns = [columns.index(name) for name in self.names if name in columns]
        shift, scale = np.array([about["scales"][name] for name in self.names], np.float32).T
        self.shift, self.scale = shift, scale
        # What the network's output is multiplied with, and what is added to it, to give a redshift.
        self.origin, self.unit = about["scales"]["Z_SPEC"] if settings.target == "standardised" else (0.0, 1.0)
        split = read_parquet(sets / "clusters.parquet")["split"].to_numpy()
        removed = np.load(sets / "removed.npy")
        self.splits = {name: self._rows(split == name, removed) for name in SPLITS}

    def _rows(self, chosen: np.ndarray, removed: np.ndarray) -> Rows:
        """Return the sets of a split that hold a labelled member; the others would add nothing to the loss."""
        sizes = np.diff(self.offsets)
        kept = np.repeat(chosen, sizes)
        kept[removed] = False
        labelled = kept & ~np.isnan(self.z_spec)
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        useful = np.bincount(cluster[labelled], minlength=len(sizes)) > 0
        # The perceptron sees labelled galaxies, each a set of its own; the set model sees all members.
        numbers = np.flatnonzero(labelled if self.settings.model == "mlp" else kept & useful[cluster])
        if self.settings.model == "mlp":
            return Rows(numbers, np.arange(len(numbers) + 1))
        counts = np.bincount(cluster[numbers], minlength=len(sizes))[useful]
        return Rows(numbers, np.concatenate([[0], np.cumsum(counts)]))

    def build_model(self) -> nn.Module:
        return RedshiftNet(self.settings, len(self.names))

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        rows = self.splits["train"]
        order = torch.randperm(len(rows), generator=generator).numpy()
        for start in range(0, len(order), self.settings.training.batch_size):
            yield self._batch(*rows.take(order[start : start + self.settings.training.batch_size]))

    def validation_batches(self) -> Iterator[Batch]:
        """Yield the holdout clusters; nothing if there are none. What the test says must not be known while tuning."""
        return (self._batch(numbers, offsets) for numbers, offsets in self._in_order("holdout"))

    def _in_order(self, split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rows = self.splits[split]
        size = _EVALUATION_BATCH * (64 if self.settings.model == "mlp" else 1)
        for start in range(0, len(rows), size):
            yield rows.take(np.arange(start, min(start + size, len(rows))))

    def _batch(self, numbers: np.ndarray, offsets: np.ndarray) -> Batch:
        values = self.features[numbers][:, self.columns]
        if len(self.columns) < len(self.names):
            values = np.concatenate([values, self.centres[self._cluster_of(numbers)]], 1)
        # Standardised, the mean is zero: what a value that was not measured becomes.
        values = np.nan_to_num((values - self.shift) / self.scale, nan=0.0, copy=False)
        x = torch.from_numpy(values).to(self.device)
        if self.settings.model == "set":
            x = PackedSets(x, torch.from_numpy(offsets).to(self.device))
        return x, torch.from_numpy(self.z_spec[numbers]).to(self.device)

    def _cluster_of(self, numbers: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, numbers, side="right") - 1

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Sums]:
        x, z_spec = batch
        known = (~z_spec.isnan()).nonzero().squeeze(1)
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
            for numbers, offsets in self._in_order(split):
                x, z_spec = self._batch(numbers, offsets)
                known = ~np.isnan(self.z_spec[numbers])
                predicted = self.origin + self.unit * model(x).float().cpu().numpy()[known]
                columns = {"row": numbers[known], "z_spec": z_spec.cpu().numpy()[known], "z": predicted}
                parts.append(pd.DataFrame({"split": split, **columns}))
        table = pd.concat(parts, ignore_index=True)
        clusters = read_arrow(self.store / "clusters.parquet", columns=["ID", "Z_LAMBDA"])
        host = self._cluster_of(table["row"].to_numpy())
        table.insert(0, "cluster", clusters["ID"].to_numpy()[host])
        return table.assign(z_catalogue=clusters["Z_LAMBDA"].to_numpy()[host])
