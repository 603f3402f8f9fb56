"""Draws the sets of digits. A set is N row numbers of the image store and the sum of their labels."""

from pathlib import Path

import numpy as np
import pandas as pd

from equiset.errors import EquisetError
from equiset.experiments.mnist_sums.settings import MnistSets
from equiset.files import digest, read_json, write_json


def make_sets(settings: MnistSets, seed: int, store: Path, folder: Path) -> None:
    """Write `sets.parquet` (split, members, label) and `sets.json` (what they are, and their digest)."""
    labels = np.load(store / "labels.npy")
    about = read_json(store / "store.json")
    rng = np.random.default_rng([seed, settings.members])
    first, last = about["train"], len(labels)  # of the images for validation
    # Whatever names the data says with it what validation is, unless it is the usual.
    data = about["description"]
    if settings.holdout:
        if settings.holdout >= first:
            raise EquisetError(
                f"config key 'holdout': {settings.holdout} of {first} training images would leave none to learn from"
            )
        first, last = first - settings.holdout, first
        data += f" (tuning: validated on {settings.holdout:,} held-out training images)"
    if settings.draw_from == "split":
        pools = {"train": np.arange(first), "validation": np.arange(first, last)}
    else:
        pools = dict.fromkeys(("train", "validation"), np.arange(len(labels)))
        data += " (training and validation sets from all images)"
    parts = [_draw(pools[split], getattr(settings, split), settings.members, rng) for split in pools]
    members = np.concatenate(parts)
    table = pd.DataFrame(
        {
            "split": pd.Categorical(np.repeat(list(pools), [len(part) for part in parts]), categories=list(pools)),
            "members": list(members.astype(np.int32)),
            "label": labels[members].sum(axis=1, dtype=np.int16),
        }
    )
    folder.mkdir(parents=True)
    table.to_parquet(folder / "sets.parquet", index=False)
    write_json(folder / "sets.json", settings.describe(about, seed, digest(folder / "sets.parquet"), data=data))


def _draw(pool: np.ndarray, count: int, members: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` sets of `members` different rows of `pool`; a row may be in many sets."""
    if len(pool) < members:
        raise EquisetError(f"cannot draw sets of {members} different images from {len(pool)}: use fewer members")
    if members**2 > len(pool):  # repeats would be the rule: draw set by set
        return np.stack([rng.choice(pool, members, replace=False) for _ in range(count)])
    drawn = rng.integers(len(pool), size=(count, members))
    while True:
        ordered = np.sort(drawn, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not repeated.any():
            return pool[drawn]
        drawn[repeated] = rng.integers(len(pool), size=(int(repeated.sum()), members))
