"""Time meshes to points: python benchmarks/meshes.py [--folder WITH_OFF_FILES] [--points N] [--repeats N]

Ours (pyarrow and a numpy sampler) against `trimesh.load` and `trimesh.sample.sample_surface`, both from the file on.
They take turns in one process on one thread. Without a folder the meshes are bumpy balls of 1,280 to 81,920 triangles.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trimesh

from equiset.data.meshes import points_of


def ours(path: Path, points: int) -> None:
    points_of(path, path.name, points, 0, "area")


def theirs(path: Path, points: int) -> None:
    trimesh.sample.sample_surface(trimesh.load(path, force="mesh"), points, seed=0)


def seconds(work: Callable[[Path, int], None], path: Path, points: int) -> float:
    start = time.process_time()
    work(path, points)
    return time.process_time() - start


def make_meshes(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for level in (3, 4, 5, 6):
        ball = trimesh.creation.icosphere(level)
        ball.vertices *= 1 + 0.1 * rng.random((len(ball.vertices), 1))
        (folder / f"ball_{len(ball.faces)}.off").write_text(ball.export(file_type="off"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        if options.folder is None:
            make_meshes(folder)
        paths = sorted(folder.rglob("*.off"))
        rounds = [
            {path: (seconds(ours, path, options.points), seconds(theirs, path, options.points)) for path in paths}
            for _ in range(options.repeats + 1)
        ][1:]
    print(f"{options.points} points, CPU milliseconds, medians of {options.repeats}\n")
    print("| mesh | ours | trimesh | ratio |\n|---|---|---|---|")
    for path in paths:
        mine, other = (1000 * statistics.median(taken[path][side] for taken in rounds) for side in (0, 1))
        print(f"| {path.name} | {mine:.1f} | {other:.1f} | {other / mine:.1f} |")
    mine, other = (statistics.median(sum(taken[path][side] for path in paths) for taken in rounds) for side in (0, 1))
    each = [statistics.median(taken[path][1] / taken[path][0] for taken in rounds) for path in paths]
    print(f"| all | {1000 * mine:.1f} | {1000 * other:.1f} | {other / mine:.1f} |")
    print(f"\nmedian ratio of a mesh {statistics.median(each):.1f}, of the sums {other / mine:.1f}")


if __name__ == "__main__":
    main()
