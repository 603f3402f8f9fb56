"""Sets of faces from attributes: python benchmarks/set_assembly.py

Six thousand sets of sixteen from as many images as CelebA has. The rival works set by set: it draws two attributes,
searches the images that have both and the images that have neither, and draws from them.
"""

from pathlib import Path

import numpy as np
from instrument import Benchmark, Form, Step, main

from equiset.data.celeba.stand_in import annotate
from equiset.experiments.outlier_faces.sets import draw_sets
from equiset.experiments.outlier_faces.settings import FaceSets

IMAGES, SETS, MEMBERS = 202_599, 6_000, 16


def make_attributes(folder: Path) -> None:
    np.save(folder / "attributes.npy", annotate((IMAGES,), seed=0).attributes.astype(bool))


def ours(folder: Path) -> Step:
    attributes = np.load(folder / "attributes.npy")
    settings = FaceSets(members=MEMBERS, train=SETS, validation=1, test=1)
    return lambda: draw_sets(attributes, SETS, settings, "train", np.random.default_rng(0))


def set_by_set(folder: Path) -> Step:
    attributes = np.load(folder / "attributes.npy")

    def step() -> np.ndarray:
        rng = np.random.default_rng(0)
        sets = []
        while len(sets) < SETS:
            first, second = rng.choice(attributes.shape[1], 2, replace=False)
            both = np.flatnonzero(attributes[:, first] & attributes[:, second])
            neither = np.flatnonzero(~(attributes[:, first] | attributes[:, second]))
            if len(both) >= MEMBERS - 1 and len(neither):
                members = np.append(rng.choice(both, MEMBERS - 1, replace=False), rng.choice(neither))
                sets.append(rng.permutation(members))
        return np.stack(sets)

    return step


BENCHMARKS = [
    Benchmark(
        "assembly of 6,000 sets from 202,599 faces",
        (Form("pair by pair", ours), Form("set by set", set_by_set)),
        rounds=2,
        warm=False,
        prepare=make_attributes,
        memory=False,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
