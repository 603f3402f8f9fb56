"""Verdicts on the paper's claims: `reproduced`, `not reproduced` or `not tested`, each with its reason.

`judge_all(read_claims(path), Measures.read(*paths))` returns one `Judgement` for each claim. Nothing is measured here:
a claim names numbers of `measures.parquet`, and what is missing is said. `workflow/claims.yaml` states the rules.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from equiset.errors import EquisetError
from equiset.results.claims import Above, AtChance, Beside, Claim, Condition, Named, PaperValue, Within
from equiset.results.intervals import LEAST_SEEDS
from equiset.results.measures import Measures, Number

SCALES = ("smoke", "demo", "paper")
ENOUGH = 0.95
"""A part of the paper's data that is as good as the whole."""
POINTS = 0.02
"""A spread of accuracy up to this counts; beyond it only up to three times the paper's own."""
TIMES = 3
RESTS_ON = {
    "whole": "the paper's data",
    "part": "a part of the paper's data",
    "": "generated sets",
    "own": "own data",
    "stand-in": "stand-ins",
}
"""Kind of data -> what a verdict rests on, the weightiest first."""
ELSEWHERE = ("own data", "stand-ins")
"""What reproduces nothing of the paper, whatever is found on it."""
Verdict = Literal["reproduced", "not reproduced", "not tested"]


@dataclass(frozen=True)
class Ruling:
    """The verdict on one condition."""

    condition: Condition
    verdict: Verdict | Literal["shown"]
    reason: str
    number: Number | None = None
    """What was measured, also where it does not count."""

    @property
    def shown(self) -> str:
        """What was measured, for people; a dash for nothing."""
        title = f"{self.condition.label}: " * bool(self.condition.label)
        number = self.number
        if number is None or np.isnan(number.value):
            return f"{title}—"
        unit = f" {number.unit}".rstrip()
        if isinstance(self.condition.expect, PaperValue | Beside):
            return f"{title}{number.with_spread}{unit}"
        ends = "" if number.low == number.high or np.isnan(number.low) else f" ({number.interval})"
        return f"{title}{number.shown}{unit}{ends}"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim."""

    claim: Claim
    verdict: Verdict
    reason: str
    """Why it was not tested or not reproduced, or what to know about how it was; may be empty."""
    rulings: tuple[Ruling, ...]

    @property
    def numbers(self) -> list[Number]:
        return [ruling.number for ruling in self.rulings if ruling.number]

    @property
    def verdict_with_reason(self) -> str:
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict

    @property
    def ours(self) -> str:
        """What was measured, with its spread or 95 % interval."""
        measured = any(not np.isnan(number.value) for number in self.numbers)
        return "; ".join(ruling.shown for ruling in self.rulings) if measured else "—"

    @property
    def data(self) -> str:
        """What it was measured on."""
        return "; ".join(sorted({number.data for number in self.numbers})) or "—"

    @property
    def rests_on(self) -> str:
        """What the verdict rests on, the least weighty; empty if there is none."""
        if self.verdict == "not tested":
            return ""
        return max(map(resting_on, self.numbers), key=list(RESTS_ON.values()).index)

    @property
    def scale(self) -> str:
        return min((number.scale for number in self.numbers), key=SCALES.index, default="—")

    @property
    def seeds(self) -> int:
        return max((number.seeds for number in self.numbers), default=0)

    @property
    def runs(self) -> list[str]:
        """Folders of the runs, and other files, that are behind the verdict."""
        return list(dict.fromkeys(run for number in self.numbers for run in number.runs.split(";")))


def judge_all(claims: list[Claim], measures: Measures) -> list[Judgement]:
    """Judge every claim."""
    return [judge(claim, measures) for claim in claims]


def judge(claim: Claim, measures: Measures) -> Judgement:
    """Judge a claim: reproduced if all its conditions hold, not reproduced if one fails, else not tested."""
    rulings = tuple(_worst(_rule(condition, claim, measures)) for condition in claim.judged_by)
    judgement = Judgement(claim, "not tested", "", rulings)
    verdict, reason = _combine([ruling for ruling in rulings if ruling.verdict != "shown"], _remarks(judgement))
    return replace(judgement, verdict=verdict, reason=reason)


def _worst(rulings: Iterator[Ruling]) -> Ruling:
    """Return the ruling that decides, where a condition is about several numbers: of equal ones that of the largest."""
    order = ("shown", "reproduced", "not tested", "not reproduced")
    return max(rulings, key=lambda one: (order.index(one.verdict), one.number.value if one.number else 0.0))


def _rule(condition: Condition, claim: Claim, measures: Measures) -> Iterator[Ruling]:
    """Rule on every number that a condition names."""
    named = condition.measure
    known = measures.of(named.experiment)
    found = [
        number
        for number in known.parts(named.variant, named.name, named.part, named.less)
        if (named.lowest is None or number.at >= named.lowest) and (named.highest is None or number.at <= named.highest)
    ]
    beside = isinstance(condition.expect, Beside)
    if not found:
        yield Ruling(condition, "shown" if beside else "not tested", _missing(named, known))
    for number in found:
        if beside:
            yield Ruling(condition, "shown", "", number)
            continue
        ruling = Ruling(condition, "not tested", number.doubt, number)
        barrier = "" if np.isnan(number.value) else _barrier(claim, condition, number, known)
        if barrier:
            ruling = replace(ruling, reason=barrier)
        elif not np.isnan(number.value):
            if condition.control:  # it is about what was learnt so far, not about an end
                number = replace(number, doubt="", unfinished="")
            ruling = Ruling(condition, *decide(condition.expect, number), number)
            if condition.control and ruling.verdict == "not reproduced":
                ruling = replace(ruling, verdict="not tested")
        yield ruling


def _missing(named: Named, known: Measures) -> str:
    variants = {number.variant for number in known.numbers}
    if not variants:
        return "experiment not run" if named.variant else "not measured"
    for variant in filter(None, (named.variant, named.less)):
        if variant not in variants:
            return f"variant {variant} not run"
    names = {number.measure for number in known.numbers}
    if named.name not in names:
        return f"{named.name.replace('_', ' ')} not measured"
    return f"{named.name.replace('_', ' ')} of {named.variant or named.experiment} not measured"


def _barrier(claim: Claim, condition: Condition, number: Number, known: Measures) -> str:
    """Say what about data, scale, sizes or settings forbids to judge a claim by a number; empty if nothing does."""
    needs = claim.needs
    if needs.data == "paper" and number.kind not in ("whole", "part"):
        return f"{number.kind} data"
    if SCALES.index(number.scale) < SCALES.index(needs.scale):
        return f"scale {number.scale}"
    both = [number, *(known.parts(number.less, number.measure, "")[:1] if number.less else ())]
    for one in both:
        if different := _different(json.loads(one.sets), needs.sets, "{} {}, not {}"):
            return different
        stated = needs.settings | (condition.settings if one is number else {})
        if different := _different(json.loads(one.settings), stated, "{} {}, the paper has {}"):
            return different if one is number else f"{one.variant}: {different}"
    return _unlike(claim, known)


def _different(found: dict[str, Any], wanted: dict[str, Any], words: str) -> str:
    for key, value in wanted.items():
        if (has := _setting(found, key)) != value:
            return words.format(key, has, value)
    return ""


def _setting(settings: dict[str, Any], key: str) -> Any:
    """Return the setting that a key with dots names; None if there is none."""
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None  # type: ignore[assignment]
    return settings


def _unlike(claim: Claim, known: Measures) -> str:
    """Say in which setting the variants of a claim differ that should be alike in it."""
    decide = [one.measure for one in claim.judged_by if not isinstance(one.expect, Beside)]
    names = {name for measure in decide for name in (measure.variant, measure.less) if name}
    variants = {number.variant: json.loads(number.settings) for number in known.numbers if number.variant in names}
    for key in claim.needs.alike:
        values = {name: _setting(settings, key) for name, settings in variants.items()}
        if len(set(map(str, values.values()))) > 1:
            return f"{key} differs: " + ", ".join(f"{name} {value}" for name, value in sorted(values.items()))
    return ""


def decide(expected: PaperValue | Above | Within | AtChance, number: Number) -> tuple[Verdict, str]:
    """Return the verdict on a number, and its reason."""
    if isinstance(expected, AtChance):
        return _is_at_chance(expected, number)
    if number.doubt:
        return "not tested", f"undecided: {number.doubt}"
    verdict, reason = _meets(expected, number) if isinstance(expected, PaperValue) else _lies(expected, number)
    # A bound that has been passed cannot be lost by rising.
    passed = isinstance(expected, Above) and verdict == "reproduced" and not number.less
    if number.unfinished and not passed:
        return "not tested", f"undecided: {number.unfinished}"
    return verdict, reason


def _meets(expected: PaperValue, number: Number) -> tuple[Verdict, str]:
    most = max(POINTS if number.percent else 0.0, TIMES * expected.spread)
    unit = " points" if number.percent else ""
    if number.spread > most:
        return "not tested", f"undecided: a spread of {number.write(number.spread)}{unit}, above {number.write(most)}"
    off = number.value - expected.value
    combined = float(np.hypot(expected.spread, number.spread))
    # Not by less than a rounding error of the sum.
    if abs(off) <= combined * (1 + 1e-9) + 1e-12:
        return "reproduced", ""
    better = (expected.better == "higher" and off > 0) or (expected.better == "lower" and off < 0)
    if better and not expected.baseline:
        return "reproduced", "better than the paper"
    by = f"off by {number.write(off, sign=True)}{unit}, combined spread {number.write(combined)}"
    return "not reproduced", f"better than in the paper, {by}" if better else by


def _lies(expected: Above | Within, number: Number) -> tuple[Verdict, str]:
    low, high = number.low, number.high
    if isinstance(expected, Above):
        bound = _chance(number) if expected.bound == "chance" else expected.bound
        if low > bound:
            return "reproduced", ""
        if high < bound + expected.matters:
            return "not reproduced", f"expected above {number.write(bound)}"
        return "not tested", f"undecided: the interval holds {number.write(bound)}"
    lowest = -np.inf if expected.low is None else expected.low
    if lowest <= low and high <= expected.high:
        return "reproduced", ""
    if high < lowest or low > expected.high:
        ends = f"at most {number.write(expected.high)}"
        if expected.low is not None:
            ends = f"{number.write(expected.low)} to {number.write(expected.high)}"
        return "not reproduced", f"expected {ends}"
    end = lowest if low < lowest else expected.high
    return "not tested", f"undecided: the interval holds {number.write(end)}"


def _is_at_chance(expected: AtChance, number: Number) -> tuple[Verdict, str]:
    if not number.low <= _chance(number) <= number.high:
        return "not reproduced", f"chance is {number.write(number.chance)} %"
    if number.high - number.low > expected.width:
        return "not tested", f"only {number.answers:,} answers"
    return "reproduced", ""


def _chance(number: Number) -> float:
    if np.isnan(number.chance):
        raise EquisetError(f"the claims file compares {number.measure} with chance, and it has no chance level")
    return number.chance


def _combine(rulings: list[Ruling], remarks: list[str]) -> tuple[Verdict, str]:
    def labelled(ruling: Ruling) -> str:
        return f"{ruling.condition.label}: {ruling.reason}" if len(rulings) > 1 else ruling.reason

    failed = [ruling for ruling in rulings if ruling.verdict == "not reproduced"]
    untested = [ruling for ruling in rulings if ruling.verdict == "not tested"]
    controls = [ruling for ruling in untested if ruling.condition.control]
    if failed and not controls:
        held = [one.condition.label for one in rulings if one.verdict == "reproduced" and not one.condition.control]
        as_well = [f"as in the paper: {', '.join(held)}"] if held else []
        return "not reproduced", "; ".join([labelled(failed[0]), *as_well, *remarks])
    if untested:
        if untested == rulings and len({ruling.reason for ruling in rulings}) == 1:
            return "not tested", untested[0].reason
        return "not tested", labelled((controls or untested)[0])
    return "reproduced", "; ".join(dict.fromkeys([*(ruling.reason for ruling in rulings if ruling.reason), *remarks]))


def resting_on(number: Number) -> str:
    return RESTS_ON["whole" if number.kind == "part" and number.share >= ENOUGH else number.kind]


def _remarks(judgement: Judgement) -> list[str]:
    """Return what a reader must know about a verdict: other data, a smaller scale, few seeds."""
    remarks = []
    for number in judgement.numbers:
        if number.kind == "part":
            remarks.append(f"on {100 * number.share:.1f} % of the paper's data")
        elif number.kind in ("own", "stand-in"):
            remarks.append(f"{number.kind} data")
    if any(number.kind for number in judgement.numbers) and judgement.scale != "paper":
        remarks.append(f"scale {judgement.scale}")
    if 0 < judgement.seeds < LEAST_SEEDS and any(number.kind for number in judgement.numbers):
        remarks.append("one seed" if judgement.seeds == 1 else f"{judgement.seeds} seeds")
    return list(dict.fromkeys(remarks))


def headline(rows: list[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count verdicts by what they rest on: pairs of both -> what they rest on -> verdict -> how many."""
    found: dict[str, dict[str, int]] = {}
    for base in RESTS_ON.values():
        verdicts = [verdict for verdict, rests_on in rows if rests_on == base]
        counts = {verdict: verdicts.count(verdict) for verdict in ("reproduced", "not reproduced")}
        if any(counts.values()):
            found[base] = counts
    return found


def in_words(rows: list[tuple[str, str]]) -> str:
    """Return the counts as a sentence."""
    parts = [
        f"on {base}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        for base, counts in headline(rows).items()
    ]
    untested = sum(verdict == "not tested" for verdict, _ in rows)
    return "; ".join([*parts, f"{untested} not tested"])
