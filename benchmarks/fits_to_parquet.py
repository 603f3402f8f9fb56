"""FITS to Parquet: python benchmarks/fits_to_parquet.py [--large]

As many members as the catalogue has. Ours checks the members and writes the arrays for training as well, the rival
(astropy, pandas) only the table. With --large also ten times as many rows (2 GB of disk): the memory must not grow.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from instrument import Benchmark, Form, Step, main

from equiset.data.redmapper.catalogue import UNITS, convert_members
from equiset.data.redmapper.stand_in import MEMBER_TYPE, draw_clusters, draw_members
from equiset.data.redmapper.stand_in_fits import write_table

ROWS = 1_703_685


def streaming(source: Path, folder: Path) -> None:
    clusters = int((source.parent / "clusters").read_text(encoding="utf-8"))
    convert_members(source, np.arange(1, clusters + 1), folder, {"file": source.name})


def astropy_pandas(source: Path, folder: Path) -> None:
    from astropy.table import Table

    Table.read(source).to_pandas().to_parquet(folder / "members.parquet")


def write_members(folder: Path, rows: int = ROWS) -> None:
    """Write a sorted table of about `rows` members, and beside it the number of its clusters."""
    block = next(draw_members(draw_clusters(1000, seed=0), seed=0))
    _, number = np.unique(block["ID"], return_inverse=True)
    rounds = -(-rows // len(block))

    def blocks() -> Iterator[np.ndarray]:
        for at in range(rounds):
            copy = block.copy()
            copy["ID"] = 1000 * at + number + 1
            copy["OBJID"] += at * len(block)
            yield copy

    write_table(folder / "members.fits", blocks(), rounds * len(block), MEMBER_TYPE, UNITS)
    (folder / "clusters").write_text(str(1000 * rounds), encoding="utf-8")


def step_of(convert: Callable[[Path, Path], None]) -> Callable[[Path], Step]:
    def prepare(folder: Path) -> Step:
        def step() -> None:
            with tempfile.TemporaryDirectory(dir=folder) as output:
                convert(folder / "members.fits", Path(output))

        return step

    return prepare


FORMS = (
    Form("blocks of rows, checked", step_of(streaming)),
    Form("astropy Table, pandas, Parquet", step_of(astropy_pandas)),
)
BENCHMARKS = [
    Benchmark(
        "FITS to Parquet, 1.7 million rows", FORMS, bar=2.5, rounds=3, clock="wall", warm=False, prepare=write_members
    )
]
LARGE = replace(
    BENCHMARKS[0],
    name="FITS to Parquet, 17 million rows",
    forms=FORMS[:1],
    bar=None,
    rounds=1,
    prepare=lambda folder: write_members(folder, 10 * ROWS),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--large", action="store_true")
    options, others = parser.parse_known_args()
    main([*BENCHMARKS, LARGE] if options.large else BENCHMARKS, others)
