"""Meshes to points, from the file on: python benchmarks/meshes.py [FOLDER WITH OFF FILES]

Ours (pyarrow and a numpy sampler) against `trimesh.load` and `trimesh.sample.sample_surface`, and against pymeshlab's
Monte-Carlo sampling. Without a folder the meshes are bumpy balls of 1,280 to 81,920 triangles.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from instrument import Benchmark, Form, Step, main

from equiset.data.modelnet40.meshes import points_of

POINTS = 10_000
LEVELS = {3: 1_280, 4: 5_120, 5: 20_480, 6: 81_920}


def ours(path: Path) -> None:
    points_of(path, path.name, POINTS, 0, "area")


def theirs(path: Path) -> None:
    import trimesh

    trimesh.sample.sample_surface(trimesh.load(path, force="mesh"), POINTS, seed=0)


def pymeshlab(path: Path) -> None:
    import pymeshlab

    meshes = pymeshlab.MeshSet()
    meshes.load_new_mesh(str(path))
    meshes.generate_sampling_montecarlo(samplenum=POINTS)
    meshes.current_mesh().vertex_matrix()


def make_meshes(folder: Path) -> None:
    import trimesh

    rng = np.random.default_rng(0)
    for level, faces in LEVELS.items():
        ball = trimesh.creation.icosphere(level)
        ball.vertices *= 1 + 0.1 * rng.random((len(ball.vertices), 1))
        (folder / f"ball_{faces}.off").write_text(ball.export(file_type="off"), encoding="utf-8")


def step_of(work: Callable[[Path], None], pattern: str = "*") -> Callable[[Path], Step]:
    def prepare(folder: Path) -> Step:
        paths = sorted((Path(sys.argv[1]) if GIVEN else folder).rglob(f"{pattern}.off"))

        def step() -> None:
            for path in paths:
                work(path)

        return step

    return prepare


GIVEN = len(sys.argv) > 1 and Path(sys.argv[1]).is_dir()


def benchmark(name: str, pattern: str, bar: float | None) -> Benchmark:
    return Benchmark(
        f"meshes to {POINTS} points, {name}",
        (
            Form("pyarrow reader, numpy sampler", step_of(ours, pattern)),
            Form("trimesh", step_of(theirs, pattern)),
            Form("pymeshlab", step_of(pymeshlab, pattern)),
        ),
        bar=bar,
        prepare=None if GIVEN else make_meshes,
        memory=False,
    )


BENCHMARKS = [benchmark("given files", "*", 10)] if GIVEN else [
    benchmark("1,280 to 81,920 triangles", "*", 10),
    benchmark("1,280 triangles", "ball_1280", None),
]  # fmt: skip

if __name__ == "__main__":
    main(BENCHMARKS, sys.argv[2:] if GIVEN else None)
