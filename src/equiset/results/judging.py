"""Verdicts on the paper's claims: one `holds`, `differs`, or is open for one of five causes, each with its reason.

`judge_all(read_claims(path), Measures.read(*paths))` returns one `Judgement` for each claim. Nothing is measured here:
a claim names numbers of `measures.parquet`, and what is missing is named. `workflow/claims.yaml` states the rules.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from equiset.errors import EquisetError
from equiset.results.claims import Above, AtChance, Beside, Claim, Condition, MeasureName, PaperValue, Within
from equiset.results.intervals import MIN_SEEDS
from equiset.results.measures import Measures, Number

SCALES = ("smoke", "demo", "paper")
NEARLY_WHOLE = 0.95
"""From this share of the paper's data on, a part counts as the whole."""
LARGEST_SPREAD = 0.02
"""A number whose spread is larger decides nothing about accuracy, unless the paper's own spread allows it."""
SPREAD_FACTOR = 3
"""A spread may always be so many times the paper's own."""
RESTS_ON = {
    "whole": "the paper's data",
    "part": "a part of the paper's data",
    "": "generated sets",
    "own": "own data",
    "stand-in": "stand-ins",
}
"""Kind of data -> what a verdict rests on, from the strongest evidence to the weakest."""
NOT_THE_PAPERS = ("own data", "stand-ins")
"""Data on which nothing of the paper can be reproduced."""
CONFIDENCE = 1.96
"""Standard deviations of a 95 % interval."""
Verdict = Literal["holds", "differs", "no data here", "not run", "too short", "control failed", "undecided"]
OPEN: tuple[Verdict, ...] = ("undecided", "control failed", "too short", "not run", "no data here")
"""Verdicts that leave a claim open, the one that says most first."""


@dataclass(frozen=True)
class Ruling:
    """The verdict on one condition."""

    condition: Condition
    verdict: Verdict | Literal["shown"]
    reason: str
    number: Number | None = None
    """What was measured, also where it does not count."""

    @property
    def text(self) -> str:
        """What was measured, as tables show it; a dash for nothing."""
        title = f"{self.condition.label}: " * bool(self.condition.label)
        number = self.number
        if number is None or np.isnan(number.value):
            return f"{title}—"
        spread = isinstance(self.condition.expect, PaperValue | Beside)
        shown = number.with_spread if spread else number.with_interval
        value, space, interval = shown.partition(" (")
        return f"{title}{value}{f' {number.unit}'.rstrip()}{space}{interval}"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim."""

    claim: Claim
    verdict: Verdict
    reason: str
    """How it differs, why it is open, or what to know about how it was tested; may be empty."""
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
        return "; ".join(ruling.text for ruling in self.rulings) if measured else "—"

    @property
    def data(self) -> str:
        """What it was measured on."""
        return "; ".join(sorted({number.data for number in self.numbers})) or "—"

    @property
    def rests_on(self) -> str:
        """What the verdict rests on, the weakest of its numbers; empty for an open claim."""
        if self.verdict in OPEN:
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
    """Judge a claim: it holds if all its conditions do, differs if one does, else it is open."""
    rulings = tuple(_worst(_rule(condition, claim, measures)) for condition in claim.judged_by)
    judgement = Judgement(claim, "not run", "", rulings)
    verdict, reason = _combine([ruling for ruling in rulings if ruling.verdict != "shown"], _remarks(judgement))
    return replace(judgement, verdict=verdict, reason=reason)


def _worst(rulings: Iterator[Ruling]) -> Ruling:
    """Return the ruling that decides where a condition is about several numbers; among equals, that of the largest."""
    order = ("shown", "holds", *OPEN, "differs")
    return max(rulings, key=lambda one: (order.index(one.verdict), one.number.value if one.number else 0.0))


def _rule(condition: Condition, claim: Claim, measures: Measures) -> Iterator[Ruling]:
    """Rule on every number that a condition names."""
    named = condition.measure
    known = Measures(measures.select(experiment=named.experiment))
    found = [
        number
        for number in known.select(variant=named.variant, measure=named.name, part=named.part, less=named.less)
        if (named.lowest is None or number.at >= named.lowest) and (named.highest is None or number.at <= named.highest)
    ]
    beside = isinstance(condition.expect, Beside)
    if not found:
        yield Ruling(condition, "shown" if beside else "not run", _missing(named, known))
    for number in found:
        if beside:
            yield Ruling(condition, "shown", "", number)
        elif obstacle := _obstacle(claim, condition, number, known):
            yield Ruling(condition, *obstacle, number)
        elif condition.control:  # it is about what was learnt so far, not about an end
            verdict, reason = decide(condition.expect, replace(number, doubt="", unfinished=""))
            yield Ruling(condition, "holds" if verdict == "holds" else "control failed", reason, number)
        else:
            yield Ruling(condition, *decide(condition.expect, number), number)


def _missing(named: MeasureName, known: Measures) -> str:
    if not known.numbers:
        return "the experiment" if named.variant else "not measured"
    for variant in filter(None, (named.variant, named.less)):
        if variant not in {number.variant for number in known.numbers}:
            return f"variant {variant}"
    of = f" of {named.variant or named.experiment}"
    measured = named.name in {number.measure for number in known.numbers}
    return f"{named.name.replace('_', ' ')}{of * measured} not measured"


def _obstacle(claim: Claim, condition: Condition, number: Number, known: Measures) -> tuple[Verdict, str] | None:
    """Return why a number decides nothing: its data, scale, sizes or settings; None if it may decide."""
    needs = claim.needs
    if needs.data == "paper" and number.kind not in ("whole", "part"):
        return "no data here", (claim.no_data if number.kind == "stand-in" else "") or f"{number.kind} data"
    if np.isnan(number.value):
        return "not run", number.doubt or "no number"
    if SCALES.index(number.scale) < SCALES.index(needs.scale):
        return "too short", f"scale {number.scale}"
    subtracted = known.get(number.less, number.measure) if number.less else None
    for one in filter(None, (number, subtracted)):
        if different := _different(json.loads(one.sets), needs.sets, "{} {}, the paper has {}"):
            return "too short", different
        stated = needs.settings | (condition.settings if one is number else {})
        if different := _different(json.loads(one.settings), stated, "{} {}, the paper has {}"):
            return "not run", different if one is number else f"{one.variant}: {different}"
    different = _differing_setting(claim, known)
    return ("not run", different) if different else None


def _different(found: dict[str, Any], wanted: dict[str, Any], words: str) -> str:
    """Return the first setting that is not as wanted, in these words; empty if all are."""
    for key, value in wanted.items():
        if (has := _setting(found, key)) != value:
            return words.format(key, has, value)
    return ""


def _setting(settings: dict[str, Any], key: str) -> Any:
    """Return the setting that a key with dots names; None if there is none."""
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None  # type: ignore[assignment]
    return settings


def _differing_setting(claim: Claim, known: Measures) -> str:
    """Return in which setting, of those that must be the same, the variants of a claim differ; empty if in none."""
    decide = [one.measure for one in claim.judged_by if not isinstance(one.expect, Beside)]
    names = {name for measure in decide for name in (measure.variant, measure.less) if name}
    variants = {number.variant: json.loads(number.settings) for number in known.numbers if number.variant in names}
    for key in claim.needs.same_settings:
        values = {name: _setting(settings, key) for name, settings in variants.items()}
        if len(set(map(str, values.values()))) > 1:
            return f"{key} differs: " + ", ".join(f"{name} {value}" for name, value in sorted(values.items()))
    return ""


def decide(expected: PaperValue | Above | Within | AtChance, number: Number) -> tuple[Verdict, str]:
    """Return the verdict on a number, and its reason."""
    if number.doubt and not number.unfinished and not isinstance(expected, AtChance):
        return "undecided", number.doubt
    match expected:
        case AtChance():
            verdict, reason = _compare_chance(expected, number)
        case PaperValue():
            verdict, reason = _compare_value(expected, number)
        case Above():
            verdict, reason = _compare_bound(expected, number)
        case Within():
            verdict, reason = _compare_range(expected, number)
    if number.unfinished and (number.doubt or not _outlasts(expected, verdict, number)):
        near = isinstance(expected, PaperValue) and verdict == "undecided" and _comparable(expected, number)
        return "too short", "; ".join([*[reason] * near, number.unfinished])
    return verdict, reason


def _outlasts(expected: object, verdict: Verdict, number: Number) -> bool:
    """Return whether a verdict on a single network stays the same however much that network still improves."""
    if number.less:
        return False
    if isinstance(expected, PaperValue) and expected.better != "neither":
        if expected.baseline:
            return verdict != "holds" and _comparable(expected, number) and _better(expected, number)
        return verdict == "holds"
    return isinstance(expected, Above) and verdict == "holds"


def _largest_spread(expected: PaperValue, number: Number) -> float:
    return max(LARGEST_SPREAD if number.percent else 0.0, SPREAD_FACTOR * expected.spread)


def _comparable(expected: PaperValue, number: Number) -> bool:
    """Return whether a number's spread is small enough to compare it with the paper's."""
    return not number.spread > _largest_spread(expected, number)


def _better(expected: PaperValue, number: Number) -> bool:
    off = number.value - expected.value
    return (expected.better == "higher" and off > 0) or (expected.better == "lower" and off < 0)


def _compare_value(expected: PaperValue, number: Number) -> tuple[Verdict, str]:
    unit = " points" if number.percent else ""
    if not _comparable(expected, number):
        most = number.format(_largest_spread(expected, number))
        return "undecided", f"a spread of {number.format(number.spread)}{unit}, above {most}"
    off = number.value - expected.value
    combined = float(np.hypot(expected.spread, number.spread))
    # Not by less than a rounding error of the sum.
    if abs(off) <= combined * (1 + 1e-9) + 1e-12:
        return "holds", ""
    better = _better(expected, number)
    if better and not expected.baseline:
        return "holds", "better than the paper"
    distance = f"{number.format(abs(off))}{unit}, {abs(off) / combined:.1f} standard deviations"
    way = "better than" if better else "above" if off > 0 else "below"
    return "undecided" if abs(off) <= CONFIDENCE * combined else "differs", f"{way} the paper by {distance}"


def _compare_bound(expected: Above, number: Number) -> tuple[Verdict, str]:
    bound = _chance(number) if expected.bound == "chance" else expected.bound
    if number.low > bound:
        return "holds", ""
    if number.high < bound + expected.matters:
        return "differs", f"expected above {number.format(bound)}"
    return "undecided", f"the interval holds {number.format(bound)}"


def _compare_range(expected: Within, number: Number) -> tuple[Verdict, str]:
    low, high = number.low, number.high
    lowest = -np.inf if expected.low is None else expected.low
    if lowest <= low and high <= expected.high:
        return "holds", ""
    if high < lowest or low > expected.high:
        ends = f"at most {number.format(expected.high)}"
        if expected.low is not None:
            ends = f"{number.format(expected.low)} to {number.format(expected.high)}"
        return "differs", f"expected {ends}"
    end = lowest if low < lowest else expected.high
    return "undecided", f"the interval holds {number.format(end)}"


def _compare_chance(expected: AtChance, number: Number) -> tuple[Verdict, str]:
    if not number.low <= _chance(number) <= number.high:
        return "differs", f"chance is {number.format(number.chance)} %"
    if number.high - number.low > expected.width:
        return "undecided", f"only {number.answers:,} answers"
    return "holds", ""


def _chance(number: Number) -> float:
    if np.isnan(number.chance):
        raise EquisetError(f"the claims file compares {number.measure} with chance, and it has no chance level")
    return number.chance


def _combine(rulings: list[Ruling], remarks: list[str]) -> tuple[Verdict, str]:
    def labelled(ruling: Ruling) -> str:
        return f"{ruling.condition.label}: {ruling.reason}" if len(rulings) > 1 else ruling.reason

    deciding = [ruling for ruling in rulings if not ruling.condition.control]
    failed = [ruling for ruling in deciding if ruling.verdict == "differs"]
    undecided = [ruling for ruling in deciding if ruling.verdict in OPEN]
    gates = ("failure", "verdict") if failed else ("verdict",)
    controls = [ruling for ruling in rulings if ruling.condition.control in gates and ruling.verdict != "holds"]
    if undecided and not failed:
        # What has not been run is the first thing to know.
        worst = max((ruling.verdict for ruling in undecided), key=OPEN.index)
        first, *others = [ruling for ruling in undecided if ruling.verdict == worst]
        if worst == "too short":  # each network once, whatever the conditions are that it is part of
            reasons = [part for ruling in (first, *others) for part in ruling.reason.split("; ")]
        else:
            same = len({(ruling.verdict, ruling.reason) for ruling in deciding}) == 1
            reasons = [first.reason if same else labelled(first)]
        so_far = _so_far(undecided) if worst != "undecided" else []  # "so far" is of claims that more runs may change
        return worst, "; ".join([*dict.fromkeys(reasons), *so_far, *_unequal(deciding)])
    if controls:
        return controls[0].verdict, labelled(controls[0])
    if failed:
        held = [ruling.condition.label for ruling in deciding if ruling.verdict == "holds"]
        as_well = [f"as in the paper: {', '.join(held)}"] if held else []
        more = [*as_well, *_so_far(undecided), *_unequal(deciding), *remarks]
        return "differs", "; ".join([labelled(failed[0]), *more])
    said = [ruling.reason for ruling in deciding if ruling.reason]
    return "holds", "; ".join(dict.fromkeys([*said, *_unequal(deciding), *remarks]))


def _so_far(rulings: list[Ruling]) -> list[str]:
    """Return which open conditions are as in the paper, which are not, and which are undecided, as networks are now."""
    words = {"holds": "so far as in the paper", "differs": "so far not", "undecided": "so far undecided"}
    found: dict[str, list[str]] = {text: [] for text in words.values()}
    for ruling in rulings:
        if ruling.verdict == "too short" and ruling.number and ruling.number.unfinished and ruling.condition.label:
            number = replace(ruling.number, unfinished="", doubt="")
            verdict, _ = decide(ruling.condition.expect, number)  # type: ignore[arg-type]  # `beside` is not ruled on
            found[words[verdict]].append(ruling.condition.label)
        elif ruling.verdict == "undecided" and ruling.condition.label:
            found[words[ruling.verdict]].append(ruling.condition.label)
    return [f"{text}: {' and '.join(labels)}" for text, labels in found.items() if labels]


def _unequal(rulings: list[Ruling]) -> list[str]:
    """Return that networks were compared after different numbers of epochs, and in which conditions if not in all."""
    compared = [(one.number.lengths, one.condition.label) for one in rulings if one.number and one.number.less]
    found = []
    for lengths in sorted({lengths for lengths, _ in compared if lengths}):
        labels = [label for other, label in compared if other == lengths]
        of = f" of {' and '.join(labels)}" if len(labels) < len(compared) else ""
        found.append(f"unequal length{of}: {lengths}")
    return found


def resting_on(number: Number) -> str:
    """Return what a verdict by a number rests on, in the words of `RESTS_ON`."""
    return RESTS_ON["whole" if number.kind == "part" and number.share >= NEARLY_WHOLE else number.kind]


def _remarks(judgement: Judgement) -> list[str]:
    """Return what limits a verdict: other data than the paper's, a smaller scale, few seeds."""
    remarks = []
    for number in judgement.numbers:
        if number.kind == "part":
            remarks.append(f"on {100 * number.share:.1f} % of the paper's data")
        elif number.kind in ("own", "stand-in"):
            remarks.append(f"{number.kind} data")
    if any(number.kind for number in judgement.numbers) and judgement.scale != "paper":
        remarks.append(f"scale {judgement.scale}")
    if 0 < judgement.seeds < MIN_SEEDS and any(number.kind for number in judgement.numbers):
        remarks.append("one seed" if judgement.seeds == 1 else f"{judgement.seeds} seeds")
    return list(dict.fromkeys(remarks))
