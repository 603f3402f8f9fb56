"""Own meshes from a folder to predictions, by the workflow: python examples/own_meshes.py, in the project's folder.

The script makes meshes of four classes, `<class>/train/*.off` and `<class>/test/*.off`, trains on them at the smallest
scale, and lets the network name the classes of new files. More than 90 % of them are right.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import trimesh

RUN = "results/smoke/point_clouds/runs/set-1000/seed0"
SHAPES = {
    "ball": lambda: trimesh.creation.icosphere(subdivisions=2),
    "box": lambda: trimesh.creation.box(),
    "cone": lambda: trimesh.creation.cone(radius=0.6, height=1.5, sections=16),
    "ring": lambda: trimesh.creation.torus(1, 0.25, major_sections=16, minor_sections=8),
}


def write_meshes(folder: Path, seed: int = 0) -> None:
    """Write stretched copies of each shape: some to learn from, some to test, and new ones without a class."""
    rng = np.random.default_rng(seed)
    for name, make in SHAPES.items():
        places = [f"known/{name}/train"] * 16 + [f"known/{name}/test"] * 4 + ["new"] * 5
        for number, place in enumerate(places):
            mesh = make()
            mesh.apply_scale(rng.uniform(0.8, 1.25, 3))
            (folder / place).mkdir(parents=True, exist_ok=True)
            mesh.export(folder / place / f"{name}_{number}.off")


def main() -> float:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_meshes(folder)
        config = [
            "scale=smoke",
            f"datasets={{modelnet40: {{source: folder, folder: {folder / 'known'}}}}}",
            "experiments={point_clouds: {run: [set-1000], defaults: {dropout: 0.2, training: {epochs: 120}}}}",
        ]
        python = [sys.executable, "-m"]
        subprocess.run([*python, "snakemake", "--cores", "2", "--config", *config, "--", f"{RUN}/run.json"], check=True)
        output = folder / "classes.csv"
        subprocess.run([*python, "equiset", "predict", RUN, str(folder / "new"), "--output", str(output)], check=True)
        found = pd.read_csv(output)
    right = (found["class"] == found["file"].str.split("_").str[0]).mean()
    print(found[["file", "class", "probability"]].to_string(index=False))
    print(f"{right:.0%} of {len(found)} new meshes are named right")
    return right


if __name__ == "__main__":
    assert main() > 0.9
