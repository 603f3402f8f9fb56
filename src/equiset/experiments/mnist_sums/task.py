"""How the models of figure 1 learn the sum of a set of digits."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.errors import EquisetError
from equiset.experiments.mnist_sums.networks import build_network
from equiset.experiments.mnist_sums.settings import MnistVariant
from equiset.files import read_json, read_parquet
from equiset.training.loop import Batch, Sums

PROBED = 2000
"""Training sets, and new sets of their images, that a network is measured on after an epoch."""


class Task:
    """The sum of a set of digits as a classification; see `equiset.training.loop.Task`."""

    def __init__(self, settings: MnistVariant, store: Path, sets: Path, device: torch.device):
        self.settings = settings
        self.device = device
        self.about = read_json(sets / "sets.json")
        self.images = torch.from_numpy(np.load(store / "images.npy")).to(device)
        self.shift, self.scale = pixel_scale(settings, self.about, store)
        table = read_parquet(sets / "sets.parquet")
        self.splits = {
            str(split): (
                torch.from_numpy(np.stack(part["members"].to_numpy())).long().to(device),
                torch.from_numpy(part["label"].to_numpy(copy=True)).long().to(device),
            )
            for split, part in table.groupby("split", observed=True)
        }
        members = np.stack(table.loc[table["split"] == "train", "members"].to_numpy())
        new = np.random.default_rng(0).permutation(members.ravel()).reshape(members.shape)[:PROBED]
        sums = np.load(store / "labels.npy")[new].sum(1, dtype=np.int64)
        self.same_images = tuple(torch.from_numpy(part).to(device) for part in (new.astype(np.int64), sums))
        self.mean_label = self.splits["validation"][1].float().mean()

    def build_model(self) -> nn.Module:
        return build_network(self.settings, self.about)

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        order = torch.randperm(len(self.splits["train"][0]), generator=generator).to(self.device)
        return self._batches(*self.splits["train"], order.split(self.settings.training.batch_size))

    def validation_batches(self) -> dict[str, Iterator[Batch]]:
        """Return the validation sets, some training sets, and as many new sets of the same images.

        A network that has memorised sets knows the second kind alone; one that has memorised images, the third too.
        """
        own_sets = tuple(part[:PROBED] for part in self.splits["train"])
        parts = {"validation": self.splits["validation"], "own_sets": own_sets, "same_images": self.same_images}
        return {name: self._in_order(*part) for name, part in parts.items()}

    def _in_order(self, members: Tensor, labels: Tensor) -> Iterator[Batch]:
        return self._batches(members, labels, torch.arange(len(labels), device=self.device).split(256))

    def _batches(self, members: Tensor, labels: Tensor, orders: tuple[Tensor, ...]) -> Iterator[Batch]:
        for order in orders:
            yield preprocess(self.images[members[order]], self.shift, self.scale), labels[order]

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Sums]:
        images, labels = batch
        logits = model(images).float()
        loss = F.cross_entropy(logits, labels)
        predicted = logits.detach().argmax(1)
        sums = {"sets": len(labels), "loss": loss.detach() * len(labels), "accuracy": (predicted == labels).sum()}
        if not model.training:
            sums["distance_from_mean"] = (predicted - self.mean_label).abs().sum()
        return loss, sums

    @torch.no_grad()
    def predict(self, model: nn.Module) -> pd.DataFrame:
        """Return the predicted sum of every training and validation set, without dropout."""
        parts = []
        for split in self.splits:
            for images, labels in self._in_order(*self.splits[split]):
                probability, predicted = model(images).float().softmax(1).max(1)
                columns = {"label": labels, "predicted": predicted, "probability": probability}
                part = pd.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
                parts.append(part.assign(split=split))
        return pd.concat(parts, ignore_index=True).astype({"split": "category", "label": "int16", "predicted": "int16"})


def preprocess(images: Tensor, shift: float, scale: float) -> Tensor:
    """Return what the network sees of images with values from 0 to 255."""
    return images.to(torch.float32, copy=True).sub_(shift).div_(scale)


def pixel_scale(settings: MnistVariant, sets: dict[str, Any], store: Path | None) -> tuple[float, float]:
    """Return what is subtracted from pixels, and what they are divided by; `sets` is the content of `sets.json`."""
    if settings.pixels == "unit":
        return 0.0, 255.0
    if store is None:
        raise EquisetError(
            "this network sees standardised pixels. Mean and deviation are those of its training images, and the "
            "prepared data are not beside the run: leave the run where the workflow made it"
        )
    return mean_and_sd(store, read_json(store / "store.json")["train"] - sets.get("holdout", 0))


@cache
def mean_and_sd(store: Path, count: int) -> tuple[float, float]:
    """Return mean and standard deviation of the pixels of the first images, from their histogram."""
    images = np.load(store / "images.npy", mmap_mode="r")[:count]
    # In parts, because bincount makes eight bytes of each.
    counts = sum(np.bincount(part.reshape(-1), minlength=256) for part in np.array_split(images, 64))
    values = np.arange(256)
    mean = np.average(values, weights=counts)
    return float(mean), float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
