"""How the networks of Table 1 learn to classify point clouds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.errors import EquisetError
from equiset.experiments.point_clouds.networks import build_network
from equiset.experiments.point_clouds.pool import Pool
from equiset.experiments.point_clouds.settings import CloudVariant
from equiset.files import read_json, read_parquet
from equiset.training.feeding import feed
from equiset.training.loop import Batch, Sums

# Particles that are evaluated at once.
ROWS = 64_000


class Clouds:
    """Draws particles from the pools of a store, in main memory."""

    def __init__(self, store: Path):
        self.pool = Pool(store)

    def draw(self, meshes: np.ndarray, particles: int, rng: np.random.Generator) -> Tensor:
        """Return (meshes, particles, 3): for each mesh, particles of its pool without replacement."""
        sizes = self.pool.sizes[meshes]
        chosen = [rng.choice(size, particles, replace=False, shuffle=False) for size in sizes]
        return self._take(meshes, chosen, particles)

    def fixed_draw(
        self, meshes: np.ndarray, particles: int, *seeds: int, draw: int = 0
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield the clouds of all `meshes` in batches, with the rows that they are; the seeds decide the particles.

        For the same seeds, no two draws have a particle in common.
        """
        start, stop = draw * particles, (draw + 1) * particles
        if stop > (smallest := self.pool.sizes[meshes].min(initial=stop)):
            raise EquisetError(
                f"draw {draw + 1} of {particles} different particles needs {stop} points, and a mesh has {smallest}: "
                "raise datasets.modelnet40.test_pool (pool for a holdout)"
            )
        rng = np.random.default_rng(seeds)
        step = max(1, ROWS // particles)
        for first in range(0, len(meshes), step):
            rows = slice(first, first + step)
            # Shuffled whole, so that a draw does not depend on how many others there are.
            chosen = [rng.permutation(size)[start:stop] for size in self.pool.sizes[meshes[rows]]]
            yield rows, self._take(meshes[rows], chosen, particles)

    def _take(self, meshes: np.ndarray, chosen: list[np.ndarray], particles: int) -> Tensor:
        # A map for each batch: pages that were read count as memory of this process as long as a map holds them.
        points = self.pool.open()
        clouds = np.empty((len(meshes), particles, 3), dtype=np.float32)
        for cloud, mesh, rows in zip(clouds, meshes, chosen, strict=True):
            np.take(self.pool.of(mesh, points), rows, axis=0, out=cloud)
        return torch.from_numpy(clouds)


class Task:
    """The class of a cloud; see `equiset.training.loop.Task`."""

    def __init__(self, settings: CloudVariant, store: Path, sets: Path, device: torch.device):
        self.settings, self.device = settings, device
        self.about = read_json(sets / "sets.json")
        self.particles: int = self.about["particles"]
        self.clouds = Clouds(store)
        table = read_parquet(sets / "sets.parquet")
        self.splits = {
            str(split): (part["mesh"].to_numpy(), part["label"].to_numpy(dtype=np.int64))
            for split, part in table.groupby("split", observed=False)
        }
        self.twins = table.loc[table["split"] == "test", "twin_in_training"].to_numpy()

    def build_model(self) -> nn.Module:
        return build_network(self.settings, self.about)

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        return feed(self._drawn_anew(generator), self.device)

    def _drawn_anew(self, generator: torch.Generator) -> Iterator[Batch]:
        meshes, labels = self.splits["train"]
        rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
        order = rng.permutation(len(meshes))
        for start in range(0, len(order), self.settings.training.batch_size):
            chosen = order[start : start + self.settings.training.batch_size]
            yield self.clouds.draw(meshes[chosen], self.particles, rng), torch.from_numpy(labels[chosen])

    def validation_batches(self) -> dict[str, Iterator[Batch]]:
        """Return the held-out meshes; if there are none, one draw of the test meshes.

        The curve of the test meshes chooses nothing. It shows what the best epoch would have reported, and compares
        runs of different lengths after equal epochs.
        """
        split, seed = ("validation", 0) if len(self.splits["validation"][0]) else ("test", 1)
        return {split: feed(self._fixed(split, seed), self.device)}

    def _fixed(self, split: str, seed: int) -> Iterator[Batch]:
        meshes, labels = self.splits[split]
        for rows, clouds in self.clouds.fixed_draw(meshes, self.particles, self.about["seed"], seed):
            yield clouds, torch.from_numpy(labels[rows])

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Sums]:
        clouds, labels = batch
        logits = model(clouds).float()
        loss = F.cross_entropy(logits, labels)
        correct = (logits.detach().argmax(1) == labels).sum()
        return loss, {"sets": len(labels), "loss": loss.detach() * len(labels), "accuracy": correct}

    @torch.no_grad()
    def predict(self, model: nn.Module) -> pd.DataFrame:
        """Return the predicted class of every test mesh, once for each draw of its particles.

        `twin_in_training` marks meshes that are also among those of training.
        """
        meshes, labels = self.splits["test"]
        parts = []
        for draw in range(self.about["draws"]):
            drawn = self.clouds.fixed_draw(meshes, self.particles, self.about["seed"], 1, draw=draw)
            for rows, clouds in feed(drawn, self.device):
                probability, predicted = model(clouds).float().softmax(1).max(1)
                columns = {"mesh": meshes[rows], "draw": draw, "label": labels[rows]}
                columns |= {"twin_in_training": self.twins[rows]}
                columns |= {"predicted": predicted.cpu().numpy(), "probability": probability.cpu().numpy()}
                parts.append(pd.DataFrame(columns))
        small = dict.fromkeys(("draw", "label", "predicted"), "int16")
        return pd.concat(parts, ignore_index=True).astype(small)
