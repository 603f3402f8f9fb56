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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from equiset.data.modelnet40.mesh_files import BadMeshError, Up, read_mesh
from equiset.data.modelnet40.official import Counts, name_of, recognise, some
from equiset.data.modelnet40.surface import Cloud, sample_surface
from equiset.errors import EquisetError
from equiset.files import write_json

if TYPE_CHECKING:
    from equiset.data.modelnet40 import ModelNetSettings

log = logging.getLogger(__name__)

_FEW = 64  # meshes that are read sooner than processes are started


class Drawn(NamedTuple):
    """What is taken from one mesh."""

    cloud: Cloud
    counts: Counts
    content: str
    """Digest of its triangles, the same in all formats."""


def points_of(path: Path, name: str, count: int, seed: int, sampling: str, up: Up = "z") -> Drawn:
    """Return the points of one mesh. Seed and name decide them, so that they do not depend on the other meshes."""
    vertices, triangles = read_mesh(path, up)
    named = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    rng = np.random.default_rng([seed, named])
    try:
        cloud = sample_surface(vertices, triangles, count, rng, poisson_disk=sampling == "poisson-disk")
    except ValueError as reason:
        raise BadMeshError(f"{path}: {reason}") from None
    # Other formats may repeat a vertex for each of its triangles.
    counts = Counts(len(vertices) if path.suffix.lower() in (".off", ".ply") else None, len(triangles))
    # Some formats have float32 only, and no vertices in common; zero has no sign.
    with np.errstate(over="ignore"):
        corners = vertices.astype(np.float32)[triangles] + np.float32(0)
    return Drawn(cloud, counts, hashlib.sha256(corners.tobytes()).hexdigest())


def _try(root: Path, seed: int, sampling: str, up: Up, task: tuple[str, int]) -> Drawn | str:
    file, count = task
    try:
        return points_of(root / file, name_of(file), count, seed, sampling, up)
    except BadMeshError as error:
        return str(error)


def write_store(
    root: Path,
    files: list[str],
    folder: Path,
    about: dict[str, Any],
    settings: "ModelNetSettings",
    threads: int,
) -> None:
    """Draw points of every mesh, and write

    - `pool.f32`: the points of one mesh after the other, to be memory-mapped;
    - `meshes.parquet`: file, class, label, split, number of points, area, centre and scale that lead back to the
      mesh's units, and whether a test mesh is also in training;
    - `store.json`: what the data are, the names of the classes, the meshes that were left out, the digest;
    - `absent.txt`: which of ModelNet40's meshes are not there, if some are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    places = [file.split("/")[:2] for file in files]  # class and split
    classes = sorted({name for name, _ in places})
    sha256, rows, skipped, counts, contents = hashlib.sha256(), [], [], {}, []
    sizes, sampling = {"train": settings.pool, "test": settings.test_pool}, settings.sampling
    one = partial(_try, root, settings.seed, sampling, settings.up)
    tasks = [(file, sizes[split]) for file, (_, split) in zip(files, places, strict=True)]
    with (folder / "pool.f32").open("wb") as file, _mapper(len(files), sampling, threads) as mapped:
        for name, (kind, split), drawn in zip(files, places, mapped(one, tasks), strict=True):
            if isinstance(drawn, str):
                if settings.on_bad_mesh == "stop":
                    raise EquisetError(f"{drawn}. Fix or remove the file, or set on_bad_mesh: skip")
                log.warning("left out: %s", drawn)
                skipped.append({"file": name, "reason": drawn.replace(str(root), "")})
                continue
            cloud = drawn.cloud
            content = cloud.points.tobytes()
            file.write(content)
            sha256.update(content)
            place = {"scale": cloud.scale, **dict(zip(("x", "y", "z"), cloud.centre, strict=True))}
            row = {"file": name, "class": kind, "split": split, "label": classes.index(kind)}
            rows.append({**row, "points": len(cloud.points), "area": cloud.area, **place})
            counts[name_of(name)] = drawn.counts
            contents.append(drawn.content)
    table = pd.DataFrame(rows).astype({"label": "int16"}) if rows else pd.DataFrame({"class": [], "split": []})
    for kind in classes:
        for split in ("train", "test"):
            if not ((table["class"] == kind) & (table["split"] == split)).any():
                raise EquisetError(f"no mesh of {root / kind / split} can be used; see the log for the reasons")
    twins, table["twin_in_training"] = find_twins(table, contents)
    table.to_parquet(folder / "meshes.parquet", index=False)
    sha256.update(table["label"].to_numpy().tobytes() + "".join(table["split"]).encode())
    store = {
        **about,
        **_settle(about, counts, folder),
        "classes": classes,
        "pool": sizes["train"],
        "test_pool": sizes["test"],
        "sampling": sampling,
        "up": settings.up,
        "meshes": len(table),
        "train": int((table["split"] == "train").sum()),
        "test": int((table["split"] == "test").sum()),
        "skipped": skipped,
        "twins": twins,
        "digest": sha256.hexdigest(),
    }
    write_json(folder / "store.json", store)
    log.info("%s: %d training and %d test meshes", store["description"], store["train"], store["test"])


def _settle(about: dict[str, Any], counts: dict[str, Counts], folder: Path) -> dict[str, Any]:
    """Say whose meshes these are, now that they were read, and which are foreign or absent."""
    if about["kind"] == "stand-in":
        return {}
    # The archive's checksum says more than numbers of vertices.
    known = counts if about["source"] == "folder" else dict.fromkeys(counts)
    kind, foreign, absent = recognise(known)
    if foreign:
        log.warning("not ModelNet40's, so results are not the paper's: %d meshes (%s)", len(foreign), some(foreign))
        return {**kind, "foreign": {"meshes": len(foreign), "first": foreign[:20]}}
    if absent:
        (folder / "absent.txt").write_text("\n".join(absent) + "\n", encoding="utf-8")
    return {**kind, "absent": len(absent)}


def find_twins(table: pd.DataFrame, contents: list[str]) -> tuple[dict[str, int], pd.Series]:
    """Count the groups of meshes with the same triangles, and mark the test meshes that are also in training."""
    groups = table.groupby(pd.Series(contents, index=table.index))
    several = groups.size() > 1
    across_split, across_classes = ((groups[column].nunique() > 1) for column in ("split", "class"))
    trained = groups["split"].transform(lambda split: (split == "train").any())
    twins = (table["split"] == "test") & trained
    return {
        "groups": int(several.sum()),
        "across_split": int(across_split.sum()),
        "across_classes": int(across_classes.sum()),
        "test_meshes": int(twins.sum()),
    }, twins


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
        context.set_forkserver_preload(["equiset.data.modelnet40.meshes", *(["pymeshlab"] if fresh else [])])
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
