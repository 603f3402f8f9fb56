"""Where the time of a run goes, from the files that its jobs left: python benchmarks/demo_times.py results/demo

All of it depends on the machine and on what else it does; nothing here is a result of the paper.
"""

import argparse
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from equiset.errors import EquisetError
from equiset.results.figures import Canvas, Figure
from equiset.results.palette import BLUE, GREEN, ORANGE
from equiset.results.tables import Table

log = logging.getLogger(__name__)

BOOKKEEPING = ("track", "track_report")
"""Rules that compute nothing."""
_STARTED = re.compile(r"started in ([\d.]+) s, done after ([\d.]+) s of processor time")
_PAUSE_SECONDS = 120
"""Between two jobs that are further apart the workflow did not run."""


@dataclass(frozen=True)
class Times:
    """The jobs of a scale and how they lay beside each other."""

    jobs: pd.DataFrame
    """One row per job: rule, job, begin, seconds, processor_seconds, start_up_seconds, peak_mb."""

    @cached_property
    def cores(self) -> int:
        """The most jobs that ran side by side, for more than moments: files are dated a little late."""
        pieces = list(self._pieces())
        counts = {running for _, _, running in pieces}
        long = {n for n in counts if sum(u - s for s, u, running in pieces if running >= n) > 0.01 * self.wall}
        return max(long, default=1) or 1

    @property
    def wall(self) -> float:
        """Seconds from the first job's begin to the last one's end, less the times when the workflow did not run."""
        return sum(until - since for since, until, _ in self._pieces())

    @property
    def idle(self) -> float:
        """Seconds without any job: Snakemake itself."""
        return sum(until - since for since, until, running in self._pieces() if not running)

    @property
    def bookkeeping(self) -> float:
        """Seconds of the wall time that start-up, Snakemake and tracking took, as if spread evenly over the cores."""
        tracking = self.jobs["rule"].isin(BOOKKEEPING)
        started = self.jobs.loc[~tracking, "start_up_seconds"]
        return self.idle + (self.jobs.loc[tracking, "seconds"].sum() + started.sum(min_count=1)) / self.cores

    @property
    def busy_while_training(self) -> float:
        """Share of the cores that have a job, over the time in which a training runs."""
        pieces = [(until - since, running) for since, until, running in self._pieces("train")]
        whole = sum(length for length, _ in pieces)
        return sum(length * min(running, self.cores) for length, running in pieces) / (whole * self.cores or np.nan)

    def _pieces(self, rule: str | None = None) -> Iterator[tuple[float, float, int]]:
        """Yield pieces of time with the number of jobs that run in each; only those with a job of `rule`, if given."""
        begins, ends = self.jobs["begin"].to_numpy(), (self.jobs["begin"] + self.jobs["seconds"]).to_numpy()
        chosen = np.ones(len(self.jobs), bool) if rule is None else (self.jobs["rule"] == rule).to_numpy()
        marks = np.unique(np.concatenate([begins, ends]))
        for since, until in pairwise(marks):
            runs = (begins <= since) & (ends >= until)
            paused = not runs.any() and until - since > _PAUSE_SECONDS
            if not paused and (rule is None or (runs & chosen).any()):
                yield float(since), float(until), int(runs.sum())


def read_times(benchmarks: Path, logs: Path) -> Times:
    """Read `<rule>/<job>.tsv` as Snakemake writes them, and from the logs beside them what the start-up took."""
    rows = []
    for path in sorted(benchmarks.rglob("*.tsv")):
        place = path.relative_to(benchmarks).with_suffix("")
        try:
            values = pd.read_csv(path, sep="\t", na_values=["-", "NA"]).iloc[0][["s", "max_rss"]].astype(float)
        except (ValueError, LookupError):  # Snakemake was killed when it wrote the file
            log.warning("%s is damaged; the time of this job is left out", path)
            continue
        started = processor = np.nan
        story = logs / place.with_suffix(".log")
        if story.exists() and (said := _STARTED.findall(story.read_text(errors="replace", encoding="utf-8"))):
            started, processor = map(float, said[-1])
        rows.append(
            {
                "rule": place.parts[0],
                "job": "/".join(place.parts[1:]),
                # The file is written when the job ends.
                "begin": path.stat().st_mtime - values["s"],
                "seconds": values["s"],
                "processor_seconds": processor,
                "start_up_seconds": started,
                "peak_mb": values["max_rss"],
            }
        )
    if not rows:
        raise EquisetError(f"no benchmark files in {benchmarks}: let Snakemake run the workflow first")
    return Times(pd.DataFrame(rows))


def time_by_rule(times: Times) -> Table:
    """The table: one row per rule, the longest first."""
    groups = times.jobs.groupby("rule")
    numbers = pd.DataFrame(
        {
            "jobs": groups.size(),
            "seconds": groups["seconds"].sum(),
            "start_up_seconds": groups["start_up_seconds"].sum(min_count=1),
            "longest_job_seconds": groups["seconds"].max(),
            "peak_mb": groups["peak_mb"].max(),
        }
    ).sort_values("seconds", ascending=False)
    numbers.insert(2, "share", numbers["seconds"] / numbers["seconds"].sum())
    numbers = numbers.reset_index()
    shown = pd.DataFrame(
        {
            "Rule": numbers["rule"],
            "Jobs": numbers["jobs"].astype(str),
            "Seconds of all jobs": numbers["seconds"].map("{:.0f}".format),
            "Share (%)": (100 * numbers["share"]).map("{:.1f}".format),
            "of that start-up (s)": numbers["start_up_seconds"].map("{:.0f}".format).replace("nan", "—"),
            "Longest job (s)": numbers["longest_job_seconds"].map("{:.0f}".format),
            "Peak memory of a job (MB)": numbers["peak_mb"].map("{:.0f}".format).replace("nan", "—"),
        }
    )
    return Table(numbers, shown, "Where the time goes", (_summary(times),))


def _summary(times: Times) -> str:
    minutes, seconds = divmod(round(times.wall), 60)
    share = times.bookkeeping / times.wall
    kept = "an unknown part" if np.isnan(share) else f"{100 * share:.0f} %"
    return (
        f"From the first job to the last: {minutes}:{seconds:02d} minutes, {len(times.jobs)} jobs, {times.cores} at a "
        f"time. Start-up of jobs, Snakemake and MLflow: {kept} of it. While a training runs, "
        f"{100 * times.busy_while_training:.0f} % of the cores have a job. Times depend on the machine and on what "
        "else it does; they are no result."
    )


def draw_time_by_rule(times: Times) -> Figure:
    """Above: seconds by rule. Below: which rule ran when, one line for each core."""
    numbers = time_by_rule(times).numbers.iloc[::-1]
    canvas = Canvas(figsize=(6.8, 1.6 + 0.24 * len(numbers)), layout="constrained")
    above, below = canvas.subplots(2, 1, height_ratios=[len(numbers), 3])
    started = numbers["start_up_seconds"].fillna(0)
    above.barh(numbers["rule"], numbers["seconds"] - started, left=started, color=BLUE, label="work")
    above.barh(numbers["rule"], started, color=ORANGE, label="start-up")
    above.set(xlabel="seconds of all jobs", title="Where the time goes")
    above.grid(axis="y", visible=False)
    above.legend(loc="lower right")
    origin, lanes = times.jobs["begin"].min(), [-np.inf] * times.cores
    for job in times.jobs.sort_values("begin").itertuples():
        # Files are dated a little after the end of a job, so that neighbours may seem to overlap.
        lane = int(np.argmin(lanes))
        lanes[lane] = job.begin + job.seconds
        colour = {"train": GREEN, "evaluate": "#66C2A5"}.get(job.rule, ORANGE if job.rule in BOOKKEEPING else "0.6")
        below.barh(
            lane, job.seconds / 60, left=(job.begin - origin) / 60, color=colour, edgecolor="white", linewidth=0.3
        )
    below.set(xlabel="minutes", yticks=[], ylabel="cores")
    kinds = {"training": GREEN, "evaluation": "#66C2A5", "tracking": ORANGE, "all else": "0.6"}
    keys = [Patch(color=colour, label=name) for name, colour in kinds.items()]
    below.legend(handles=keys, loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=4, fontsize=7)
    below.grid(axis="y", visible=False)
    canvas.supxlabel("Depends on the machine and on what else it does.", fontsize=6, color="0.35", x=0.01, ha="left")
    return Figure(canvas)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results of one scale")
    folder = parser.parse_args(argv).results
    times = read_times(folder / "benchmarks", folder / "logs")
    for kind in ("csv", "md", "tex"):
        time_by_rule(times).write(folder / "time" / f"time_by_rule.{kind}")
    draw_time_by_rule(times).write(folder / "time" / "time_by_rule.png")


if __name__ == "__main__":
    main()
