"""How the networks learn redshifts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import torch
from torch import Tensor, nn

from equiset.experiments.redshift.networks import FOOTNOTE, build_network
from equiset.experiments.redshift.sets import SPLITS
from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.files import read_arrow, read_json, read_parquet
from equiset.nn.sets import PackedSets
from equiset.training.feeding import feed
from equiset.training.loop import Batch, Sums

_EVALUATION_BATCH = 256  # clusters
_BLOCK = 2**14  # members that are read at once, a megabyte


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


@dataclass(frozen=True)
class Window:
    """Members at hand, and the sets that they form; `rows` has their places in the arrays."""

    features: np.ndarray
    z_spec: np.ndarray
    rows: Rows
    numbers: np.ndarray | None = None
    """Their row numbers in the store, unless places are row numbers."""

    def row_numbers(self, places: np.ndarray) -> np.ndarray:
        return places if self.numbers is None else self.numbers[places]


class Task:
    """Redshifts by squared loss on members with a spectrum; see `equiset.training.loop.Task`.

    The members stay in their file and are mapped; a batch copies the rows of its clusters. Those of the test clusters
    are read by `predict` alone. A catalogue that is too large for `memory_mb` is read in windows: blocks of whole
    clusters in a random order, as many as there is room for, whose clusters are shuffled among each other.
    """

    def __init__(self, settings: RedshiftVariant, store: Path, sets: Path, device: torch.device):
        self.settings = settings
        self.device = device
        self.store = store
        self.features = np.load(store / "features.npy", mmap_mode="r")
        self.z_spec = np.load(store / "z_spec.npy", mmap_mode="r")
        self.offsets = np.load(store / "offsets.npy")
        clusters = read_arrow(store / "clusters.parquet", columns=["P_CEN"])
        # Not by a Python list of arrays, which would take gigabytes for millions of clusters.
        self.centres = pc.list_flatten(clusters["P_CEN"]).to_numpy().astype(np.float32).reshape(len(clusters), -1)
        about = self.about = read_json(sets / "sets.json")
        columns = read_json(store / "store.json")["features"]
        centres = [f"P_CEN_{at}" for at in range(self.centres.shape[1])]
        self.names = columns if settings.features == "columns" else [*FOOTNOTE, *centres]
        self.columns = [columns.index(name) for name in self.names if name in columns]
        shift, scale = np.array([about["scales"][name] for name in self.names], np.float32).T
        self.shift, self.scale = shift, scale
        # What the network's output is multiplied with, and what is added to it, to give a redshift.
        self.origin, self.unit = about["scales"]["Z_SPEC"] if settings.target == "standardised" else (0.0, 1.0)
        self.split = read_parquet(sets / "clusters.parquet")["split"].to_numpy()
        self.removed = np.load(sets / "removed.npy")
        room = int(settings.memory_mb * 2**20 / 4)
        self.splits: dict[str, Rows] = {}
        """All sets of each split, if there is room for the members."""
        if self.features.nbytes + self.z_spec.nbytes <= room:
            self.splits = {name: self._rows(name, 0, len(self.split)) for name in SPLITS}
            return
        # Clusters at which blocks begin and end.
        edges = np.searchsorted(self.offsets, np.arange(0, len(self.z_spec), _BLOCK))
        self.edges = np.unique([*edges, len(self.split)])
        largest = int(np.diff(self.offsets[self.edges]).max())
        row_bytes = self.features[:1].nbytes + self.z_spec[:1].nbytes + self.offsets[:1].nbytes
        self.blocks_at_once = max(1, room // (largest * row_bytes))
        # One memory for all windows: freed and taken anew, it would lie scattered.
        most = min(len(self.z_spec), self.blocks_at_once * largest)
        self.space = np.empty((most, self.features.shape[1]), np.float32), np.empty(most, np.float32)

    def _windows(self, split: str, generator: torch.Generator | None = None) -> Iterator[Window]:
        """Yield the members of a split, in the order of the catalogue or in one that `generator` decides."""
        if self.splits:
            yield Window(self.features, self.z_spec, self.splits[split])
            return
        blocks = len(self.edges) - 1
        order = np.arange(blocks) if generator is None else torch.randperm(blocks, generator=generator).numpy()
        for start in range(0, blocks, self.blocks_at_once):
            yield self._read_blocks(split, np.sort(order[start : start + self.blocks_at_once]))

    def _read_blocks(self, split: str, blocks: np.ndarray) -> Window:
        """Read what a split has in some blocks; it takes the place of what was read before."""
        features, z_spec = self.space
        parts = [self._rows(split, *self.edges[block : block + 2]) for block in blocks]
        done = 0
        for block, part in zip(blocks, parts, strict=True):
            start, end = self.offsets[self.edges[block : block + 2]]
            here = slice(done, done + len(part.numbers))
            np.take(_read(self.features, start, end), part.numbers - start, axis=0, out=features[here])
            np.take(_read(self.z_spec, start, end), part.numbers - start, out=z_spec[here])
            done = here.stop
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        rows = Rows(np.arange(done), np.concatenate([[0], np.cumsum(sizes)]))
        return Window(features[:done], z_spec[:done], rows, np.concatenate([part.numbers for part in parts]))

    def _rows(self, split: str, first: int, last: int) -> Rows:
        """Return the sets of a split among some clusters, if they hold a labelled member: others add nothing."""
        start, end = self.offsets[[first, last]]
        sizes = np.diff(self.offsets[first : last + 1])
        kept = np.repeat(self.split[first:last] == split, sizes)
        kept[self.removed[slice(*np.searchsorted(self.removed, [start, end]))] - start] = False
        labelled = kept & ~np.isnan(_read(self.z_spec, start, end))
        cluster = np.repeat(np.arange(len(sizes)), sizes)
        useful = np.bincount(cluster[labelled], minlength=len(sizes)) > 0
        # The perceptron sees labelled galaxies alone; the set model sees all members.
        numbers = np.flatnonzero(labelled if self.settings.model == "mlp" else kept & useful[cluster])
        if self.settings.model == "mlp" and self.settings.batch_of == "galaxies":
            return Rows(start + numbers, np.arange(len(numbers) + 1))
        counts = np.bincount(cluster[numbers], minlength=len(sizes))[useful]
        return Rows(start + numbers, np.concatenate([[0], np.cumsum(counts)]))

    def build_model(self) -> nn.Module:
        return build_network(self.settings, self.about)

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        return feed(self._shuffled(generator), self.device)

    def _shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        size = self.settings.training.batch_size
        for window in self._windows("train", generator):
            order = torch.randperm(len(window.rows), generator=generator).numpy()
            for start in range(0, len(order), size):
                chosen = order[start : start + size]
                yield self._batch(window, *window.rows.take(chosen))

    def validation_batches(self) -> Iterator[Batch]:
        """Yield the holdout clusters; nothing if there are none. What the test says must not be known while tuning."""
        return feed((self._batch(*part) for part in self._in_order("holdout")), self.device)

    def _in_order(self, split: str) -> Iterator[tuple[Window, np.ndarray, np.ndarray]]:
        size = _EVALUATION_BATCH * (64 if self.settings.model == "mlp" else 1)
        for window in self._windows(split):
            for start in range(0, len(window.rows), size):
                chosen = np.arange(start, min(start + size, len(window.rows)))
                yield window, *window.rows.take(chosen)

    def _batch(self, window: Window, places: np.ndarray, offsets: np.ndarray) -> Batch:
        """Return in main memory what the network sees, the redshifts, and the numbers of those that are known."""
        values = window.features[places][:, self.columns]
        if len(self.columns) < len(self.names):
            values = np.concatenate([values, self.centres[self._cluster_of(window.row_numbers(places))]], 1)
        x = preprocess(values, offsets, self.shift, self.scale, self.settings.model == "set")
        z_spec = torch.from_numpy(window.z_spec[places])
        return x, z_spec, (~z_spec.isnan()).nonzero().squeeze(1)

    def _labelled(self, split: str) -> Iterator[Batch]:
        """Yield what the network sees, and of the members with a spectrum their rows, redshifts and places in it."""
        for window, places, offsets in self._in_order(split):
            x, z_spec, known = self._batch(window, places, offsets)
            known = known.numpy()
            yield x, window.row_numbers(places)[known], z_spec.numpy()[known], known

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


def _read(array: np.memmap, first: int, last: int) -> np.ndarray:
    """Read rows of a mapped file without the map, whose pages would count as memory of this process."""
    row = array[:1]
    count, offset = int(last - first) * row.size, array.offset + int(first) * row.nbytes
    return np.fromfile(array.filename, array.dtype, count, offset=offset).reshape(-1, *array.shape[1:])


def preprocess(
    values: np.ndarray, offsets: np.ndarray, shift: np.ndarray, scale: np.ndarray, of_sets: bool
) -> Tensor | PackedSets:
    """Return what the network sees of members: (members, features), and where each cluster begins.

    Standardised, the mean is zero: what a value that was not measured (NaN) becomes.
    """
    rows = torch.from_numpy(np.nan_to_num((values - shift) / scale, nan=0.0, copy=False))
    return PackedSets(rows, torch.from_numpy(offsets)) if of_sets else rows
