"""Where the time went, from the benchmark file that Snakemake writes for every job."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd


@dataclass(frozen=True)
class RuleTime:
    """What all jobs of one rule took together."""

    rule: str
    jobs: int
    seconds: float
    """Wall-clock time, added up over the jobs; jobs that ran side by side count each."""
    cpu_seconds: float
    longest_job: str
    longest_seconds: float
    peak_memory_mb: float


def read_benchmarks(folder: Path) -> pd.DataFrame:
    """Return one row for each job: rule, job, seconds, cpu_seconds, peak_memory_mb."""
    rows = []
    for path in sorted(folder.rglob("*.tsv")):
        rule, *job = path.relative_to(folder).with_suffix("").parts
        # A row for each repetition; `-` stands for what was too short to measure.
        table = pd.read_csv(path, sep="\t", na_values="-")
        times = (float(table[column].sum()) for column in ("s", "cpu_time"))
        rows.append((rule, "/".join(job), *times, float(table["max_rss"].fillna(0).max())))
    return pd.DataFrame(rows, columns=["rule", "job", "seconds", "cpu_seconds", "peak_memory_mb"])


def time_by_rule(folder: Path) -> list[RuleTime]:
    """Return the rules, the one that took longest first."""
    found = []
    for rule, part in read_benchmarks(folder).groupby("rule"):
        longest = part.loc[part["seconds"].idxmax()]
        sums = part[["seconds", "cpu_seconds"]].sum()
        peak = float(part["peak_memory_mb"].max())
        found.append(
            RuleTime(
                str(rule), len(part), sums["seconds"], sums["cpu_seconds"], longest["job"], longest["seconds"], peak
            )
        )
    return sorted(found, key=lambda one: -one.seconds)
