"""A stand-in for ModelNet40: furniture, vehicles and vessels put together from boxes, turned profiles and balls.

A mesh gets random proportions, parts and tessellation, a random heading and unit of length, and some of the quirks of
the real files: a header joined with its counts, CRLF line ends, degenerate and repeated faces, unreferenced vertices,
polygons of four corners.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from equiset.data.modelnet40 import MARKER, stand_in_furniture, stand_in_objects
from equiset.data.modelnet40.official import CLASS_SIZES
from equiset.data.modelnet40.stand_in_parts import Mesh, Parts, turn
from equiset.files import atomic_path

DESCRIPTION = "stand-in for ModelNet40: meshes of 40 parametric families with its class names"

Family = Callable[[Parts], None]
FAMILIES: dict[str, Family] = {
    name: getattr(stand_in_furniture, name, None) or getattr(stand_in_objects, name) for name in CLASS_SIZES
}


def draw(family: Family, rng: np.random.Generator) -> Mesh:
    """Return one mesh as it lies in a file: with a heading, a place and a unit of length of its own."""
    parts = Parts(rng)
    family(parts)
    vertices, triangles = parts.mesh()
    stretch = np.exp(rng.normal(0, 0.1, 3))
    # Most real meshes are aligned, not all of them: a few look another way.
    heading = rng.normal(0, 4) + 90 * int(rng.choice(4, p=[0.82, 0.06, 0.06, 0.06]))
    vertices = vertices * stretch @ turn(rz=heading)
    # Bent a little, smoothly, as no two makers draw the same curve.
    size = np.ptp(vertices, axis=0).max()
    wave, phase = rng.normal(0, 2 / size, (3, 3)), rng.uniform(0, 2 * np.pi, 3)
    vertices = vertices + 0.02 * size * np.sin(vertices @ wave + phase)
    return vertices * 10 ** rng.uniform(-1, 2.5) + rng.normal(0, 5, 3), triangles


def as_off(vertices: np.ndarray, triangles: np.ndarray, rng: np.random.Generator) -> bytes:
    """Return the bytes of an OFF file, with the quirks that some real files have."""
    joined, crlf, repeated, unused, quads = rng.random(5) < (0.15, 0.1, 0.1, 0.1, 0.05)
    if repeated:  # and degenerate
        again = triangles[rng.integers(len(triangles), size=4)]
        triangles = np.concatenate([triangles, again, again[:, [0, 0, 1]]])
    if unused:
        vertices = np.concatenate([vertices, vertices[:3] + 1])
    if quads:  # pairs of triangles 0 1 2, 0 2 3 become one face; all shapes are made of such pairs
        pairs = triangles[: len(triangles) // 2 * 2].reshape(-1, 6)
        faces = [_face(row) for row in pairs.tolist()] + [f"3 {a} {b} {c}" for a, b, c in triangles[len(pairs) * 2 :]]
        body, count = "\n".join(faces) + "\n", sum(face.count("\n") + 1 for face in faces)
    else:
        body, count = "3 %d %d %d\n" * len(triangles) % tuple(triangles.ravel().tolist()), len(triangles)
    head = f"OFF{'' if joined else chr(10)}{len(vertices)} {count} 0\n"
    text = head + "%.6f %.6f %.6f\n" * len(vertices) % tuple(vertices.ravel().tolist()) + body
    return (text.replace("\n", "\r\n") if crlf else text).encode()


def _face(pair: list[int]) -> str:
    a, b, c, d, e, f = pair
    if (a, c) == (d, e):
        return f"4 {a} {b} {c} {f}"
    return f"3 {a} {b} {c}\n3 {d} {e} {f}"


def write(folder: Path, sizes: dict[str, tuple[int, int]], seed: int) -> None:
    """Write the meshes as `<class>/{train,test}/<class>_0001.off`, numbered through both splits, as the real ones."""
    with atomic_path(folder) as partial:
        for number, (name, (train, test)) in enumerate(sorted(sizes.items())):
            for split, first, count in (("train", 0, train), ("test", train, test)):
                (partial / name / split).mkdir(parents=True)
                for index in range(first, first + count):
                    rng = np.random.default_rng([seed, number, split == "test", index - first])
                    path = partial / name / split / f"{name}_{index + 1:04}.off"
                    path.write_bytes(as_off(*draw(FAMILIES[name], rng), rng))
        (partial / MARKER).write_text(f"{DESCRIPTION}\nSeed {seed}.\n", encoding="utf-8")
