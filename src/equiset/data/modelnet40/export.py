"""The points of all meshes as `ModelNet40_cloud.h5`, which older code for sets expects and nobody hosts any more."""

import hashlib
from pathlib import Path

import numpy as np

from equiset.errors import EquisetError
from equiset.files import atomic_path, read_json, read_parquet

POINTS = 10_000
"""Points of each object in that file."""


def write_hdf5(store: Path, output: Path, points: int = POINTS) -> None:
    """Write `tr_cloud` and `test_cloud` (meshes, points, 3), float32, and `tr_labels` and `test_labels`, int64.

    The points are those of the store, in the frame of the mesh's bounding box. Each array has its SHA-256 as an
    attribute, the file the names of the classes and the digest of the store.
    """
    try:
        import h5py  # an extra: the workflow itself does without
    except ImportError:
        raise EquisetError("HDF5 files need the package h5py: .venv/bin/pip install h5py") from None
    about = read_json(store / "store.json")
    meshes = read_parquet(store / "meshes.parquet", columns=["split", "label", "points"])
    if (fewest := meshes["points"].min()) < points:
        raise EquisetError(
            f"{store} has {fewest} points of a mesh, and {output.name} needs {points}: raise datasets.modelnet40.pool "
            "and test_pool"
        )
    pool = np.memmap(store / "pool.f32", np.float32, "r").reshape(-1, 3)
    first = meshes["points"].cumsum() - meshes["points"]
    with atomic_path(output) as partial, h5py.File(partial, "w") as file:
        file.attrs["classes"] = about["classes"]
        file.attrs["data"] = about["description"]
        file.attrs["store_sha256"] = about["digest"]
        for split, name in (("train", "tr"), ("test", "test")):
            rows = np.flatnonzero(meshes["split"] == split)
            labels = meshes["label"].to_numpy(np.int64)[rows]
            clouds = file.create_dataset(f"{name}_cloud", (len(rows), points, 3), np.float32)
            sha256 = hashlib.sha256()
            for place, row in enumerate(rows):
                cloud = np.ascontiguousarray(pool[first[row] : first[row] + points])
                clouds[place] = cloud
                sha256.update(cloud)
            clouds.attrs["sha256"] = sha256.hexdigest()
            file[f"{name}_labels"] = labels
            file[f"{name}_labels"].attrs["sha256"] = hashlib.sha256(labels).hexdigest()
