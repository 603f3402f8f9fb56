"""Says which meshes are for training, validation and test. Particles are drawn from the pool while it is read."""

from pathlib import Path

import numpy as np
import pandas as pd

from equiset.errors import EquisetError
from equiset.experiments.point_clouds.settings import CloudSets
from equiset.files import digest, read_json, read_parquet, write_json


def make_sets(settings: CloudSets, seed: int, store: Path, folder: Path) -> None:
    """Write `sets.parquet` (row of `meshes.parquet`, split, label, whether a test mesh is also in training), and
    `sets.json` (what they are, and their digest)."""
    about = read_json(store / "store.json")
    if settings.particles > about["pool"]:
        raise EquisetError(
            f"cannot draw {settings.particles} different particles from pools of {about['pool']}: "
            "raise datasets.modelnet40.pool"
        )
    if settings.draws * settings.particles > about["test_pool"]:
        raise EquisetError(
            f"{settings.draws} draws of {settings.particles} test particles that share none need "
            f"{settings.draws * settings.particles} points of a mesh, and test meshes have {about['test_pool']}: raise "
            "datasets.modelnet40.test_pool, or lower draws or particles in experiments.point_clouds.sets"
        )
    meshes = read_parquet(store / "meshes.parquet", columns=["label", "split", "twin_in_training"])
    split = meshes["split"].to_numpy(dtype=object, copy=True)
    train = np.flatnonzero(split == "train")
    held_out = np.random.default_rng(seed).permutation(train)[: round(settings.holdout * len(train))]
    if len(held_out) == len(train):
        raise EquisetError(f"a holdout of {settings.holdout} leaves none of {len(train)} meshes for training")
    split[held_out] = "validation"
    names = ["train", "validation", "test"]
    table = pd.DataFrame(
        {
            "mesh": np.arange(len(meshes), dtype=np.int32),
            "split": pd.Categorical(split, categories=names),
            "label": meshes["label"],
            "twin_in_training": meshes["twin_in_training"],
        }
    )
    folder.mkdir(parents=True)
    table.to_parquet(folder / "sets.parquet", index=False)
    described = settings.describe(
        about,
        seed,
        digest(folder / "sets.parquet"),
        classes=len(about["classes"]),
        meshes={name: int((split == name).sum()) for name in names},
        skipped=len(about["skipped"]),
        twins=about["twins"],
        # Only where it is not what every published run has: the description is part of the name of a checkpoint.
        **({"up": about["up"]} if about.get("up", "z") != "z" else {}),
    )
    write_json(folder / "sets.json", described)
