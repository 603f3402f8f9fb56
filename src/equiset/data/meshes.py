"""From a folder of meshes to one file of points: the same bytes whatever the number of processes."""

import hashlib
import logging
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equiset.data.off import read_off
from equiset.data.surface import Cloud, sample_surface
from equiset.errors import EquisetError
from equiset.files import write_json

log = logging.getLogger(__name__)

_FEW = 64  # meshes that are read sooner than processes are started


def points_of(path: Path, name: str, count: int, seed: int, sampling: str) -> Cloud:
    """Return the points of one mesh. Seed and name decide them, so that they do not depend on the other meshes."""
    vertices, triangles = read_off(path)
    named = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    rng = np.random.default_rng([seed, named])
    try:
        return sample_surface(vertices, triangles, count, rng, poisson_disk=sampling == "poisson-disk")
    except ValueError as reason:
        raise EquisetError(f"{path}: {reason}. Mend or remove the file, or set on_bad_mesh: skip") from None


def _try(root: Path, count: int, seed: int, sampling: str, name: str) -> Cloud | str:
    try:
        return points_of(root / name, name, count, seed, sampling)
    except EquisetError as error:
        return str(error)


def write_store(
    root: Path,
    meshes: list[dict[str, Any]],
    folder: Path,
    about: dict[str, Any],
    count: int,
    seed: int,
    sampling: str,
    on_bad_mesh: str,
    threads: int,
) -> None:
    """Draw `count` points of every mesh, and write

    - `pool.f32`: float32, meshes x count x 3, to be memory-mapped; see `equiset.data.pool`;
    - `meshes.parquet`: file, class, label, split, area, and centre and scale that lead back to the mesh's units;
    - `store.json`: what the data are, the names of the classes, the meshes that were left out, the digest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    classes = sorted({mesh["class"] for mesh in meshes})
    sha256, rows, skipped = hashlib.sha256(), [], []
    one = partial(_try, root, count, seed, sampling)
    with (folder / "pool.f32").open("wb") as file, _mapper(len(meshes), sampling, threads) as mapped:
        for mesh, cloud in zip(meshes, mapped(one, [mesh["file"] for mesh in meshes]), strict=True):
            if isinstance(cloud, str):
                if on_bad_mesh == "stop":
                    raise EquisetError(cloud)
                log.warning("left out: %s", cloud)
                skipped.append({"file": mesh["file"], "reason": cloud.split(". Mend")[0].replace(str(root), "")})
                continue
            content = cloud.points.tobytes()
            file.write(content)
            sha256.update(content)
            place = {"scale": cloud.scale, **dict(zip(("x", "y", "z"), cloud.centre, strict=True))}
            label = classes.index(mesh["class"])
            rows.append({**mesh, "label": label, "area": cloud.area, **place})
    table = pd.DataFrame(rows).astype({"label": "int16"}) if rows else pd.DataFrame({"class": [], "split": []})
    for name in classes:
        for split in ("train", "test"):
            if not ((table["class"] == name) & (table["split"] == split)).any():
                raise EquisetError(f"no mesh of {root / name / split} can be used; see the log for the reasons")
    table.to_parquet(folder / "meshes.parquet", index=False)
    sha256.update(table["label"].to_numpy().tobytes() + "".join(table["split"]).encode())
    store = {
        **about,
        "classes": classes,
        "pool": count,
        "sampling": sampling,
        "meshes": len(table),
        "train": int((table["split"] == "train").sum()),
        "test": int((table["split"] == "test").sum()),
        "skipped": skipped,
        "digest": sha256.hexdigest(),
    }
    write_json(folder / "store.json", store)
    log.info("%s: %d training and %d test meshes", store["description"], store["train"], store["test"])


@contextmanager
def _mapper(tasks: int, sampling: str, threads: int) -> Iterator[Any]:
    """Yield a `map` over processes, or the plain one where that is quicker."""
    fresh = sampling == "poisson-disk"
    if not fresh and (threads < 2 or tasks <= _FEW):
        yield map
        return
    # pymeshlab's random numbers go on from call to call, so its results are the same only in a process of its own.
    server = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if server else "spawn")
    if server:
        context.set_forkserver_preload(["equiset.data.meshes", *(["pymeshlab"] if fresh else [])])
    with ProcessPoolExecutor(threads, mp_context=context, max_tasks_per_child=1 if fresh else None) as executor:
        try:
            yield partial(executor.map, chunksize=1 if fresh else 16)
        except BrokenProcessPool:
            raise EquisetError(
                "a process that read meshes was killed, perhaps for lack of memory: fewer cores help"
            ) from None
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
