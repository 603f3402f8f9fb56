"""FITS to Parquet: python benchmarks/fits_to_parquet.py

The simulated catalogue at full size: 26,111 clusters, 1.7 million members. Ours reads both tables, checks them, and
writes the arrays for training as well as the Parquet files; astropy's `Table` and pandas convert the members alone,
without a check, and lose which numbers are null.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from instrument import Benchmark, Form, Step, main

from equiset.data.manifest import make_manifest
from equiset.data.redmapper import CLUSTERS, FILES, RedmapperSettings, find, prepare, stand_in


def ours(folder: Path, output: Path) -> None:
    settings = RedmapperSettings(source="folder", folder=str(folder))
    prepare(make_manifest(settings, output, find(folder), "stand-in", "simulated"), output)


def astropy_pandas(folder: Path, output: Path) -> None:
    from astropy.table import Table

    (members,) = find(folder)["members"]
    Table.read(members).to_pandas().to_parquet(output / "members.parquet")


def step_of(convert: Callable[[Path, Path], None]) -> Callable[[Path], Step]:
    def prepare(folder: Path) -> Step:
        def step() -> None:
            with tempfile.TemporaryDirectory(dir=folder) as output:
                convert(folder, Path(output))

        return step

    return prepare


def write_files(ending: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        paths = [folder / FILES[role].replace(".fits.gz", ending) for role in ("catalogue", "members")]
        stand_in.write(*paths, clusters=CLUSTERS, seed=0)

    return write


FORMS = (
    Form("both tables, checked, with arrays", step_of(ours)),
    Form("members by astropy Table, pandas", step_of(astropy_pandas)),
)
BENCHMARKS = [
    Benchmark(f"FITS to Parquet, 1.7 million rows, {ending}", FORMS, rounds=3, warm=False, prepare=write_files(ending))
    for ending in (".fits", ".fits.gz")
]

if __name__ == "__main__":
    main(BENCHMARKS)
