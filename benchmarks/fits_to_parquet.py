"""Time FITS to Parquet: python benchmarks/fits_to_parquet.py [--rows N] [--repeats N] [--large] [--gz]

Each conversion is a process of its own, so that its peak memory is known; the two ways take turns. Ours checks the
members and writes the arrays for training as well, the rival (astropy, pandas) only the table.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from equiset.data.catalogue import convert_members
from equiset.provenance import peak_memory_mb
from equiset.twins.fits import write_table
from equiset.twins.redmapper import MEMBER_TYPE, MEMBER_UNITS, draw_clusters, draw_members

ROWS = 1_703_685


def streaming(source: Path, folder: Path, clusters: int) -> None:
    convert_members(source, np.arange(1, clusters + 1), folder, {"file": source.name})


def astropy_pandas(source: Path, folder: Path, clusters: int) -> None:
    from astropy.table import Table

    Table.read(source).to_pandas().to_parquet(folder / "members.parquet")


WAYS = {"equiset, blocks of rows": streaming, "astropy Table, pandas, Parquet": astropy_pandas}


def write_members(path: Path, rows: int) -> int:
    """Write a sorted table of about `rows` members, and return the number of its clusters."""
    block = next(draw_members(draw_clusters(1000, seed=0), seed=0))
    _, number = np.unique(block["ID"], return_inverse=True)
    rounds = -(-rows // len(block))

    def blocks() -> Iterator[np.ndarray]:
        for at in range(rounds):
            copy = block.copy()
            copy["ID"] = 1000 * at + number + 1
            copy["OBJID"] += at * len(block)
            yield copy

    write_table(path, blocks(), rounds * len(block), MEMBER_TYPE, MEMBER_UNITS)
    return 1000 * rounds


def run(way: str, source: Path, clusters: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--way", way, "--source", str(source), "--clusters", str(clusters)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def work(way: str, source: Path, clusters: int) -> None:
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        started, cpu = time.perf_counter(), time.process_time()
        WAYS[way](source, Path(folder), clusters)
        done = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
        print(json.dumps(done | {"peak_mb": peak_memory_mb()}))


def compare(title: str, source: Path, clusters: int, ways: list[str], repeats: int) -> None:
    rounds = [{way: run(way, source, clusters) for way in ways} for _ in range(repeats)]
    print(f"\n| {title} | median s | best s | CPU s | peak MB | times faster |\n|---|---|---|---|---|---|", flush=True)
    for way in ways:
        seconds = [taken[way]["seconds"] for taken in rounds]
        faster = statistics.median(taken[ways[-1]]["seconds"] / taken[way]["seconds"] for taken in rounds)
        cpu = statistics.median(taken[way]["cpu"] for taken in rounds)
        peak = max(taken[way]["peak_mb"] for taken in rounds)
        print(
            f"| {way} | {statistics.median(seconds):.2f} | {min(seconds):.2f} | {cpu:.2f} | {peak:.0f} | {faster:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="ten times as many rows as well (2 GB of disk)")
    parser.add_argument("--gz", action="store_true", help="compressed files, as the catalogue's are")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--clusters", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        work(options.way, options.source, options.clusters)
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"members.fits{'.gz' * options.gz}"
        clusters = write_members(source, options.rows)
        compare(f"{options.rows:,} rows, {source.suffix}", source, clusters, list(WAYS), options.repeats)
        if options.large:
            clusters = write_members(source, 10 * options.rows)
            compare(f"{10 * options.rows:,} rows, {source.suffix}", source, clusters, list(WAYS)[:1], 1)


if __name__ == "__main__":
    main()
