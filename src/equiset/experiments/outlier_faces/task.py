"""How the networks of appendix B.2 learn to find the outliers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.errors import EquisetError
from equiset.experiments.outlier_faces.networks import SIDE, build_network
from equiset.experiments.outlier_faces.settings import FaceVariant
from equiset.files import read_json, read_parquet
from equiset.training.feeding import feed
from equiset.training.loop import Batch, Sums

EVALUATED = 8  # sets at once: as much memory as a training step


class Task:
    """Which members of a set do not belong; see `equiset.training.loop.Task`.

    Images stay in the memory-mapped store; a batch reads the few that it needs.
    """

    def __init__(self, settings: FaceVariant, store: Path, sets: Path, device: torch.device):
        self.settings = settings
        self.device = device
        self.images = store / "images.npy"
        if np.load(self.images, mmap_mode="r").shape[1:] != (SIDE, SIDE, 3):
            raise EquisetError(f"{self.images} holds no {SIDE}x{SIDE} images: prepare the data anew")
        self.about = read_json(sets / "sets.json")
        table = self.table = read_parquet(sets / "sets.parquet")
        self.splits = {
            str(split): (np.stack(part["members"].to_numpy()), np.stack(part["outlier"].to_numpy()))
            for split, part in table.groupby("split", observed=True)
        }

    def build_model(self) -> nn.Module:
        return build_network(self.settings, self.about)

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        order = torch.randperm(len(self.splits["train"][0]), generator=generator).numpy()
        return self._batches("train", order, self.settings.training.batch_size)

    def validation_batches(self) -> dict[str, Iterator[Batch]]:
        return {"validation": self._in_order("validation")}

    def _in_order(self, split: str, most: int | None = None) -> Iterator[Batch]:
        return self._batches(split, np.arange(len(self.splits[split][0]))[:most], EVALUATED)

    def _batches(self, split: str, order: np.ndarray, size: int) -> Iterator[Batch]:
        for pixels, outlier in feed(self._pixels(split, order, size), self.device):
            yield preprocess(pixels), outlier

    def _pixels(self, split: str, order: np.ndarray, size: int) -> Iterator[Batch]:
        members, outlier = self.splits[split]
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            # A map for each batch: pages that were read count as memory of this process as long as a map holds them.
            pixels = np.load(self.images, mmap_mode="r")[members[rows]]
            yield torch.from_numpy(pixels), torch.from_numpy(outlier[rows])

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Sums]:
        images, outlier = batch
        logits = model(images).float()
        if self.settings.output == "softmax":
            loss = F.cross_entropy(logits, outlier.int().argmax(1))
            right = _is_first(logits.detach(), outlier)
        else:
            loss = F.binary_cross_entropy_with_logits(logits, outlier.float())
            right = ((logits.detach() > 0) == outlier).all(1)
        return loss, {"sets": len(outlier), "loss": loss.detach() * len(outlier), "accuracy": right.sum()}

    @torch.no_grad()
    def predict(self, model: nn.Module) -> pd.DataFrame:
        """Return the probability of every member of every test set, and of as many training sets, without dropout."""
        parts = []
        for split in ("train", "test"):
            count = min(len(self.splits[split][0]), len(self.splits["test"][0]))
            logits = torch.cat([model(images).float().cpu() for images, _ in self._in_order(split, count)])
            probability = logits.softmax(1) if self.settings.output == "softmax" else logits.sigmoid()
            # Members and attributes go along for the figures.
            sets = self.table[self.table["split"] == split][:count]
            parts.append(sets.assign(probability=list(probability.numpy())))
        return pd.concat(parts, ignore_index=True)


def _is_first(logits: Tensor, outlier: Tensor) -> Tensor:
    """Say for each set whether the largest logit is that of an outlier."""
    return outlier.gather(1, logits.argmax(1, keepdim=True)).squeeze(1)


def preprocess(pixels: Tensor) -> Tensor:
    """Return what the network sees of faces with values from 0 to 255.

    (batch, members, 64, 64, 3) to (batch, members, 3, 64, 64), from -1 to 1, still stored pixel by pixel.
    """
    return pixels.movedim(-1, 2).to(torch.float32, copy=True).div_(127.5).sub_(1)
