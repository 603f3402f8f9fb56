"""The points of all meshes, as `prepare` wrote them. Apart from the readers of meshes: training depends on none."""

from pathlib import Path

import numpy as np

from equiset.files import read_json


def open_pool(store: Path) -> np.memmap:
    """Map the points of all meshes: float32, meshes x points x 3.

    What has been read through a map counts as memory of the process until the map is dropped. Who reads all meshes
    in turn opens a map for each batch.
    """
    about = read_json(store / "store.json")
    return np.memmap(store / "pool.f32", np.float32, "r", shape=(about["meshes"], about["pool"], 3))
