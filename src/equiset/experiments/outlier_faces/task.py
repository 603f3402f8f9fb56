"""The network of appendix B.2 and its baseline, and how they learn to find the outliers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.errors import EquisetError
from equiset.experiments.outlier_faces.settings import FaceVariant
from equiset.nn import SetDropout, SetLayer, SetPool
from equiset.nn.shares import draw, dropout
from equiset.parallel import share
from equiset.parquet import read_parquet
from equiset.training import Batch, Sums

SIDE = 64
_EVALUATED = 8  # sets at once: as much memory as a training step
POOLS = (2, 2, 5)  # after each three convolutions; 64-58-29-23-11-5-1 pixels


class Convolutions(nn.Module):
    """Nine 3x3 convolutions without padding, with batch normalisation, ELU and dropout.

    ELU is monotone, so it commutes with the maximum: pooling first gives the same values from a quarter of the
    activations. Feature maps lie channel by channel in memory (`channels_last`), which CPU and GPU convolve faster.

    Shapes: (images, 3, 64, 64) -> (images, channels).
    """

    def __init__(self, settings: FaceVariant):
        super().__init__()
        widths = [3, *settings.channels]
        # Batch normalisation subtracts the mean, so a bias before it would do nothing.
        self.layers = nn.ModuleList(nn.Conv2d(widths[i], widths[i + 1], 3, bias=False) for i in range(len(widths) - 1))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        self.dropout = nn.Dropout2d(settings.conv_dropout)
        if settings.conv_dropout_shape == "element":
            self.dropout = QuickDropout(settings.conv_dropout)

    def forward(self, x: Tensor) -> Tensor:
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = norm(layer(x))
            if number % 3 == 2:
                x = F.max_pool2d(x, POOLS[number // 3])
            x = self.dropout(F.elu(x, inplace=True))
        return x.flatten(1)


class QuickDropout(nn.Module):
    """Dropout of single values, with four decisions from every random number of 64 bits.

    On a CPU, `torch.nn.Dropout` spends a quarter of the training step on drawing one number for each value. Here the
    rate is rounded to a multiple of 2^-16. Elsewhere torch's own is as fast and serves.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        dense = x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)
        if x.device.type != "cpu" or not dense:
            return dropout(x, self.p)
        dropped = round(self.p * 2**16)
        bits = draw(len(x), lambda images: _random_bits(images, x[0].numel())).reshape(-1)
        keep = torch.ge(bits, dropped - 2**15, out=x.new_empty(x.numel()))
        # Laid out in memory as x is, so that the product is a plain pass over both.
        return x * keep.mul_(2**16 / (2**16 - dropped)).as_strided(x.shape, x.stride())


def _random_bits(rows: int, columns: int) -> Tensor:
    """Return (rows, columns) random numbers of 16 bits."""
    values = rows * columns
    longs = torch.empty(-(-values // 4), dtype=torch.int64).random_(-(2**63), None)
    return longs.view(torch.int16)[:values].view(rows, columns)


class OutlierNet(nn.Module):
    """(batch, members, 3, 64, 64) images -> (batch, members) logits of being the outlier.

    The set layers are those of eq. 5. The baseline pools over the set first, and its fully connected layers then give
    one logit for each position.
    """

    def __init__(self, settings: FaceVariant, members: int):
        super().__init__()
        self.pooling = settings.model == "set-pooling"
        self.convolutions = Convolutions(settings)
        self.pool = SetPool(settings.set_pool)
        layers: list[nn.Module] = []
        width = settings.channels[-1]
        for after in settings.set_channels:
            if self.pooling:
                layers += [nn.Linear(width, after), nn.ELU(), nn.Dropout(settings.set_dropout)]
            else:
                dropout = SetDropout(settings.set_dropout, simultaneous=settings.simultaneous_dropout)
                layers += [SetLayer(width, after, activation="elu"), dropout]
            width = after
        layers.append(nn.Linear(width, members) if self.pooling else SetLayer(width, 1))
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        batch, members = images.shape[:2]
        features = self.convolutions(images.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        features = features.unflatten(0, (batch, members))
        return self.layers(self.pool(features)) if self.pooling else self.layers(features).squeeze(2)


class Task:
    """Which members of a set do not belong; see `equiset.training.Task`.

    Images stay in the memory-mapped store; a batch reads the few that it needs.
    """

    def __init__(self, settings: FaceVariant, store: Path, sets: Path, device: torch.device):
        self.settings = settings
        self.device = device
        self.images = store / "images.npy"
        if np.load(self.images, mmap_mode="r").shape[1:] != (SIDE, SIDE, 3):
            raise EquisetError(f"{self.images} holds no {SIDE}x{SIDE} images: prepare the data anew")
        table = self.table = read_parquet(sets / "sets.parquet")
        self.splits = {
            str(split): (np.stack(part["members"].to_numpy()), np.stack(part["outlier"].to_numpy()))
            for split, part in table.groupby("split", observed=True)
        }

    def build_model(self) -> nn.Module:
        members = self.splits["train"][0].shape[1]
        return OutlierNet(self.settings, members).to(memory_format=torch.channels_last)

    def train_batches(self, generator: torch.Generator) -> Iterator[Batch]:
        order = torch.randperm(len(self.splits["train"][0]), generator=generator).numpy()
        return self._batches("train", order, self.settings.training.batch_size)

    def validation_batches(self) -> Iterator[Batch]:
        return self._in_order("validation")

    def _in_order(self, split: str, most: int | None = None) -> Iterator[Batch]:
        return self._batches(split, np.arange(len(self.splits[split][0]))[:most], _EVALUATED)

    def _batches(self, split: str, order: np.ndarray, size: int) -> Iterator[Batch]:
        members, outlier = self.splits[split]
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            rows = rows[share(len(rows))]
            # A map for each batch: pages that were read count as memory of this process as long as a map holds them.
            pixels = torch.from_numpy(np.load(self.images, mmap_mode="r")[members[rows]]).to(self.device)
            # (batch, members, 64, 64, 3) bytes -> (batch, members, 3, 64, 64) from -1 to 1, still stored pixel by pixel
            images = pixels.movedim(-1, 2).float().div_(127.5).sub_(1)
            yield images, torch.from_numpy(outlier[rows]).to(self.device)

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
