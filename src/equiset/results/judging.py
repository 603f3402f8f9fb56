"""Verdicts on the paper's claims: `reproduced`, `not reproduced` or `not tested`, each with its reason.

`judge_all(read_claims(path), evidence)` returns one `Judgement` for each claim. Nothing here trains or predicts: it
reads result files, and what is missing is said.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats

from equiset.errors import EquisetError
from equiset.results.claims import (
    Above,
    AtChance,
    Claim,
    Complexity,
    Condition,
    LossByChange,
    Measurement,
    PaperValue,
    Within,
)
from equiset.results.quantities import LEAST_ITEMS, LEAST_SEEDS, Estimate, Evidence, NotTestedError, estimate
from equiset.results.runs import Run, kind_of_data

SCALES = ("smoke", "demo", "paper")
GENERATED = "generated sets"
ENOUGH = 0.95
"""A part of the paper's data of at least this share serves where a claim needs the paper's data."""
RISING = 0.01
"""A gain of validation accuracy near the end of training that says that it was no end."""
LEAST_VALIDATIONS = 5
"""With fewer points a curve does not show whether it still rises."""
Verdict = Literal["reproduced", "not reproduced", "not tested"]


@dataclass(frozen=True)
class Ruling:
    """The verdict on one condition."""

    label: str
    verdict: Verdict
    reason: str
    expected: str
    shown: str
    """What was measured, for people; a dash for nothing."""
    measured: Estimate | None = None
    """The same as numbers, also where it does not count."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim."""

    claim: Claim
    verdict: Verdict
    reason: str
    """Why it was not tested or not reproduced, or what to know about how it was; may be empty."""
    ours: str
    """What was measured, with its spread or 95 % interval."""
    data: str
    """What it was measured on."""
    kind: str
    """Whose data these are: `equiset.data.source.Kind`; empty for generated sets, and where nothing was measured."""
    share: float | None
    """The share of the paper's data."""
    scale: str
    seeds: int
    rulings: tuple[Ruling, ...]

    @property
    def verdict_with_reason(self) -> str:
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict

    @property
    def runs(self) -> list[str]:
        """Folders of the runs, and other files, that are behind the verdict."""
        found = [str(source) for ruling in self.rulings if ruling.measured for source in ruling.measured.sources]
        return list(dict.fromkeys(found))

    @property
    def short(self) -> dict[str, str]:
        """The short form: id, statement, the paper's value, ours, verdict."""
        return {
            "Claim": self.claim.id,
            "Statement": self.claim.statement,
            "Paper": self.claim.paper,
            "Ours": self.ours,
            "Verdict": self.verdict_with_reason,
        }


def judge_all(claims: list[Claim], evidence: Evidence) -> list[Judgement]:
    """Judge every claim."""
    return [judge(claim, evidence) for claim in claims]


def judge(claim: Claim, evidence: Evidence) -> Judgement:
    """Judge a claim: reproduced if all its conditions hold, not reproduced if one fails, else not tested."""
    runs = [run for name in _experiments(claim) for group in evidence.runs.get(name, {}).values() for run in group]
    barrier = _barrier(claim, evidence, runs)
    rulings = tuple(_rule(condition, claim, evidence, barrier) for condition in claim.judged_by)
    seeds = max((ruling.measured.seeds for ruling in rulings if ruling.measured), default=0)
    sources = {source for ruling in rulings if ruling.measured for source in ruling.measured.sources}
    remarks = _remarks(evidence, runs, seeds) + _still_rising([run for run in runs if run.folder in sources])
    verdict, reason = _combine(rulings, remarks)
    generated = claim.needs.dataset is None and any(ruling.measured for ruling in rulings)
    kind, share = kind_of_data(runs) if runs else ("", None)
    return Judgement(
        claim,
        verdict,
        reason,
        ours="; ".join(ruling.shown for ruling in rulings) if any(ruling.measured for ruling in rulings) else "—",
        data=GENERATED if generated else "; ".join(sorted({run.info["sets"]["data"] for run in runs})) or "—",
        kind=kind,
        share=share,
        scale=_scale(evidence, runs),
        seeds=seeds,
        rulings=rulings,
    )


def _experiments(claim: Claim) -> set[str]:
    """Return the experiments that a claim is judged by."""
    names = set()
    for condition in claim.judged_by:
        match condition.measure:
            case LossByChange() | Complexity():
                names.add("point_clouds")
            case Measurement():
                pass
            case measure:
                names.add(measure.experiment)
    return names


def _scale(evidence: Evidence, runs: list[Run]) -> str:
    """Return the smallest scale of the runs."""
    return min((run.info["spec"]["scale"] for run in runs), key=SCALES.index, default=evidence.scale)


def _barrier(claim: Claim, evidence: Evidence, runs: list[Run]) -> str:
    """Say what about data and scale forbids to judge a claim; empty if nothing does."""
    if claim.needs.dataset and not runs:
        return "experiment not run"
    if claim.needs.data == "paper" and runs and kind_of_data(runs)[1] < ENOUGH:
        return _other_data(runs)
    scale = _scale(evidence, runs)
    return f"scale {scale}" if SCALES.index(scale) < SCALES.index(claim.needs.scale) else ""


def _other_data(runs: list[Run]) -> str:
    """Say in what data differ from the paper's; empty if in nothing."""
    kind, share = kind_of_data(runs)
    return {"whole": "", "part": f"{100 * share:.1f} % of the paper's data"}.get(kind, f"{kind} data")


def _rule(condition: Condition, claim: Claim, evidence: Evidence, barrier: str) -> Ruling:
    title = f"{condition.label}: " * bool(condition.label)
    ruling = Ruling(condition.label, "not tested", barrier, _expected(condition), shown=f"{title}—")
    try:
        measured = estimate(condition.measure, evidence)
    except NotTestedError as error:
        return replace(ruling, reason=barrier or str(error))
    ruling = replace(ruling, measured=measured, shown=title + _show(measured, condition))
    if barrier:
        return ruling
    if difference := _other_sizes(claim, condition, evidence):
        return replace(ruling, reason=difference)
    verdict, reason = decide(condition.expect, measured)
    if verdict == "not reproduced" and (short := _too_short(measured, evidence)):
        return replace(ruling, reason=short)
    return replace(ruling, verdict=verdict, reason=reason)


def _too_short(measured: Estimate, evidence: Evidence) -> str:
    """Say which runs were validated too seldom to tell whether they had ended: they decide against no claim."""
    runs = [run for variants in evidence.runs.values() for group in variants.values() for run in group]
    short = {
        run.variant: int(run.metrics["epoch"].max())
        for run in runs
        if run.folder in measured.sources
        and "validation_accuracy" in run.metrics
        and run.metrics["validation_accuracy"].count() < LEAST_VALIDATIONS
    }
    return "; ".join(f"only {epochs} epochs of {variant}" for variant, epochs in short.items())


def _other_sizes(claim: Claim, condition: Condition, evidence: Evidence) -> str:
    """Say in which sizes of its sets a run differs from what the claim needs."""
    variants = [getattr(condition.measure, key, None) for key in ("variant", "less")]
    groups = [evidence.runs[name].get(variant, []) for name in _experiments(claim) for variant in variants]
    for run in (run for group in groups for run in group):
        for key, wanted in claim.needs.sets.items():
            if (found := run.info["sets"].get(key)) != wanted:
                return f"{key} {found}, not {wanted}"
    return ""


def decide(expected: PaperValue | Above | Within | AtChance, measured: Estimate) -> tuple[Verdict, str]:
    """Return the verdict on what was measured, and its reason."""
    match expected:
        case PaperValue():
            return _meets(expected, measured)
        case AtChance():
            return _is_at_chance(expected, measured)
    if measured.items is not None and measured.items < LEAST_ITEMS:
        return "not tested", f"only {measured.items} test items"
    low, high = measured.low, measured.high
    if isinstance(expected, Above):
        if low > expected.bound:
            return "reproduced", ""
        if high < expected.bound + expected.matters:
            return "not reproduced", f"expected {_expected_above(expected, measured)}"
        return "not tested", f"undecided: the interval holds {_number(expected.bound, measured)}"
    lowest = -np.inf if expected.low is None else expected.low
    if lowest <= low and high <= expected.high:
        return "reproduced", ""
    if high < lowest or low > expected.high:
        return "not reproduced", f"expected {_expected_within(expected, measured)}"
    end = lowest if low < lowest else expected.high
    return "not tested", f"undecided: the interval holds {_number(end, measured)}"


def _meets(expected: PaperValue, measured: Estimate) -> tuple[Verdict, str]:
    off = measured.value - expected.value
    combined = float(np.hypot(expected.spread, measured.spread))
    # Not by less than a rounding error of the sum.
    if abs(off) <= combined * (1 + 1e-9) + 1e-12:
        return "reproduced", ""
    if (expected.better == "higher" and off > 0) or (expected.better == "lower" and off < 0):
        return "reproduced", "better than the paper"
    unit = " points" if measured.percent else ""
    by = f"off by {_number(off, measured, sign=True)}{unit}"
    return "not reproduced", f"{by}, combined spread {_number(combined, measured)}"


def _is_at_chance(expected: AtChance, measured: Estimate) -> tuple[Verdict, str]:
    low, high = chance_interval(expected, measured)
    if not low <= measured.chance <= high:
        return "not reproduced", f"chance is {_number(measured.chance, measured)} %"
    if high - low > expected.width:
        return "not tested", f"only {measured.answers:,} answers"
    return "reproduced", ""


def chance_interval(expected: AtChance, measured: Estimate) -> tuple[float, float]:
    """Return the exact (Clopper and Pearson) interval of a share of right answers."""
    if measured.right is None or measured.chance is None:
        raise EquisetError("the claims file compares a metric with chance that is no share of right answers")
    found = stats.binomtest(measured.right, measured.answers).proportion_ci(expected.confidence, "exact")
    return float(found.low), float(found.high)


def _combine(rulings: tuple[Ruling, ...], remarks: list[str]) -> tuple[Verdict, str]:
    failed = [ruling for ruling in rulings if ruling.verdict == "not reproduced"]
    if failed:
        return "not reproduced", "; ".join([_labelled(failed[0], rulings), *remarks])
    untested = [ruling for ruling in rulings if ruling.verdict == "not tested"]
    if untested:
        same = len({ruling.reason for ruling in rulings}) == 1
        return "not tested", untested[0].reason if same else _labelled(untested[0], rulings)
    return "reproduced", "; ".join(dict.fromkeys([*(ruling.reason for ruling in rulings if ruling.reason), *remarks]))


def _labelled(ruling: Ruling, rulings: tuple[Ruling, ...]) -> str:
    return f"{ruling.label}: {ruling.reason}" if len(rulings) > 1 else ruling.reason


def _remarks(evidence: Evidence, runs: list[Run], seeds: int) -> list[str]:
    """Return what a reader must know about a verdict: other data, a smaller scale, few seeds."""
    remarks = []
    if runs and (other := _other_data(runs)):
        remarks.append(other)
    if runs and (scale := _scale(evidence, runs)) != "paper":
        remarks.append(f"scale {scale}")
    if 0 < seeds < LEAST_SEEDS:
        remarks.append("one seed" if seeds == 1 else f"{seeds} seeds")
    return remarks


def _still_rising(runs: list[Run]) -> list[str]:
    """Say which runs ended while their validation accuracy still rose: longer ones might judge otherwise.

    Of the last two fifths of the validations, the later half must be more than a point above the earlier.
    """
    rising = {}
    for run in runs:
        if "validation_accuracy" not in run.metrics:
            continue
        curve = run.metrics["validation_accuracy"].dropna().to_numpy()
        fifth = len(curve) // 5
        if fifth and curve[-fifth:].mean() - curve[-2 * fifth : -fifth].mean() > RISING:
            rising[run.variant] = int(run.metrics["epoch"].max())
    if not rising:
        return []
    return [f"still rising after {max(rising.values())} epochs: {', '.join(rising)}"]


def _number(value: float, measured: Estimate, sign: bool = False) -> str:
    if measured.percent:
        return f"{100 * value:{'+' if sign else ''}.1f}".replace("-", "−")
    return f"{value:{'+' if sign else ''}.3g}".replace("-", "−")


def _unit(measured: Estimate, condition: Condition) -> str:
    if not measured.percent:
        return ""
    return " %" if condition.measure.kind == "metric" else " points"


def _show(measured: Estimate, condition: Condition) -> str:
    unit, expected = _unit(measured, condition), condition.expect
    value = _number(measured.value, measured)
    if isinstance(expected, PaperValue):
        spread = _number(measured.spread, measured) if measured.percent else f"{measured.spread:.2g}"
        return f"{value} ± {spread}{unit}"
    low, high = chance_interval(expected, measured) if isinstance(expected, AtChance) else (measured.low, measured.high)
    if low == high:
        return f"{value}{unit}"
    return f"{value}{unit} ({_number(low, measured)} to {_number(high, measured)})"


def _expected(condition: Condition) -> str:
    """Return what a condition expects, in the units of the result files."""
    match condition.expect:
        case PaperValue() as paper:
            better = "" if paper.better == "neither" else f", or {paper.better}"
            return f"{paper.value:g} ± {paper.spread:g}{better}"
        case Above() as above:
            return f"above {above.bound:g}"
        case Within() as within:
            return f"at most {within.high:g}" if within.low is None else f"from {within.low:g} to {within.high:g}"
        case AtChance():
            return "chance"


def _expected_above(expected: Above, measured: Estimate) -> str:
    return f"above {_number(expected.bound, measured)}"


def _expected_within(expected: Within, measured: Estimate) -> str:
    high = _number(expected.high, measured)
    return f"at most {high}" if expected.low is None else f"{_number(expected.low, measured)} to {high}"
