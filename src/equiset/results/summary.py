"""A summary of one run once everything is measured: its numbers, the paper's, verdicts, costs and a figure."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from equiset.config.roles import Role
from equiset.errors import MissingFileError
from equiset.results.figures import Canvas, Figure, draw_curve, name_data
from equiset.results.measures import WHOLE, Measure, Measures
from equiset.results.palette import BLUE, ORANGE
from equiset.results.runs import Run


@dataclass(frozen=True)
class Findings:
    """What was found on all runs of an experiment, beside what each of them left."""

    measures: Measures = field(default_factory=lambda: Measures([]))
    claims: list[dict[str, str]] = field(default_factory=list)
    """Rows of claims.csv."""
    conditions: list[dict[str, str]] = field(default_factory=list)
    """Rows of conditions.csv."""
    roles: dict[str, Role] = field(default_factory=dict)

    @classmethod
    def read(cls, measures: Path, claims: Path, roles: dict[str, Role]) -> "Findings":
        """Read them from `measures.parquet` and the folder of the claims."""
        return cls(
            Measures.read(measures), *(_rows(claims / f"{name}.csv") for name in ("claims", "conditions")), roles
        )

    def resting_on(self, run: Run) -> list[dict[str, str]]:
        """Return the conditions that are judged by the variant of a run, alone or against another."""
        experiment = run.info["spec"]["experiment"]
        return [
            row
            for row in self.conditions
            if row["experiment"] == experiment and run.variant in (row["variant"], row["less"])
        ]

    def verdicts(self, run: Run) -> dict[str, str]:
        """Return the verdicts on the claims that rest on a run, by their names."""
        ids = {row["claim"] for row in self.resting_on(run)}
        return {row["claim"]: _with_reason(row) for row in self.claims if row["claim"] in ids}

    def title(self, run: Run) -> str:
        """Return what the variant of a run is called in tables and figures; empty if nowhere."""
        role = self.roles.get(run.variant, Role())
        return f"{role.title} (a change of {role.changes})" if role.changes else role.title

    def paper(self, run: Run) -> str:
        """Return what the paper says of the variant of a run, in its words; empty if nothing."""
        claim = self.roles.get(run.variant, Role()).claim
        return next((row["paper"] for row in self.claims if row["claim"] == claim), "")

    def paper_numbers(self, run: Run) -> dict[str, float]:
        """Return the paper's values of what is measured on a run, by the measures' names."""
        expected = {row["measure"]: json.loads(row["expected"]) for row in self.resting_on(run) if not row["less"]}
        return {f"{name}_paper": found["value"] for name, found in expected.items() if "value" in found}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _with_reason(row: dict[str, str]) -> str:
    return f"{row['verdict']} ({row['reason']})" if row["reason"] else row["verdict"]


def numbers(run: Run, measures: dict[str, Measure], findings: Findings) -> dict[str, float]:
    """Return the final numbers of a run, spread and interval of its variant, and the paper's values."""
    found = {}
    for name, measure in measures.items():
        try:
            sample = measure.sample(run)
        except (MissingFileError, KeyError):  # not evaluated yet, or not analysed
            continue
        sample = sample.get(WHOLE) if isinstance(sample, dict) else sample
        if sample is not None:
            found[name] = sample.value
        if number := findings.measures.get(run.variant, name):
            found |= {key: value for key, value in number.columns().items() if key != name}
    return {name: value for name, value in (found | findings.paper_numbers(run)).items() if not np.isnan(value)}


def costs(run: Run) -> dict[str, float]:
    """Return what a run took."""
    seconds = run.info["epoch_seconds"]
    found = {"training_seconds": sum(seconds), "epochs_per_hour": 3600 * len(seconds) / (sum(seconds) or 1)}
    return found | {key: run.info[key] for key in ("peak_memory_mb",) if key in run.info}


def curves(run: Run) -> Figure:
    """Draw what was measured by epoch, training beside validation."""
    names = list(dict.fromkeys(name.partition("_")[2] for name in run.metrics if name != "epoch"))
    canvas = Canvas(figsize=(3.4 * len(names), 2.6), layout="constrained")
    for axis, name in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for split, colour in (("train", ORANGE), ("validation", BLUE)):
            if f"{split}_{name}" in run.metrics:
                draw_curve(axis, [run], f"{split}_{name}", factor=1, color=colour, label=split)
        axis.set_title(name)
        axis.legend(fontsize=7)
    name_data(canvas, {run.variant: [run]})
    return Figure(canvas)
