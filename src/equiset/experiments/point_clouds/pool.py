"""The points of all meshes, in one file: how they are found there."""

from pathlib import Path

import numpy as np

from equiset.files import read_parquet


class Pool:
    """Finds the points of a mesh by its row in `meshes.parquet`. Meshes may have different numbers of points."""

    def __init__(self, store: Path):
        self.file = store / "pool.f32"
        self.sizes = read_parquet(store / "meshes.parquet", columns=["points"])["points"].to_numpy(np.int64)
        self.ends = np.cumsum(self.sizes)

    def open(self) -> np.memmap:
        """Map the points of all meshes, one mesh after the other: float32, points x 3.

        Pages read through a map count as memory of the process until the map is dropped, so code that goes through all
        meshes opens a new map for each batch.
        """
        return np.memmap(self.file, np.float32, "r", shape=(int(self.sizes.sum()), 3))

    def of(self, mesh: int, points: np.ndarray) -> np.ndarray:
        """Return the points of one mesh; `points` is what `open` returned."""
        return points[self.ends[mesh] - self.sizes[mesh] : self.ends[mesh]]
