"""The paper's claims as data: what `workflow/claims.yaml` may say about them."""

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from equiset.errors import EquisetError
from equiset.settings import Settings

Text = Annotated[str, Field(min_length=1)]


class Metric(Settings):
    """A metric of one variant."""

    kind: Literal["metric"]
    experiment: Text
    metric: Text
    """A key of `equiset.results.quantities.METRICS` of the experiment."""
    variant: Text


class Difference(Settings):
    """A metric of a variant less the same metric of another variant, or less another metric of the same variant."""

    kind: Literal["difference"]
    experiment: Text
    metric: Text
    variant: Text
    less: Text | None = None
    """The other variant."""
    less_metric: Text | None = None
    """The other metric."""

    @model_validator(mode="after")
    def _differs(self) -> "Difference":
        if (self.less is None) == (self.less_metric is None):
            raise ValueError("expected one of `less`, another variant, and `less_metric`, another metric")
        return self


class LossByChange(Settings):
    """The most accuracy that a variant of the point clouds loses when its test clouds are changed within a range."""

    kind: Literal["loss-by-change"]
    variant: Text
    changed: Literal["particles", "rotation_degrees", "scale"]
    reference: float
    """The value that the loss is counted from."""
    lowest: float = Field(alias="from")
    highest: float = Field(alias="to")


class Complexity(Settings):
    """How many more cells of a grid the clouds that units of layer 2 prefer occupy than those of layer 1, relative."""

    kind: Literal["complexity"]
    objective: Literal["max", "mean"]
    cell: float = Field(gt=0)
    """Side of a cell, in standard deviations of a cloud."""


class Measurement(Settings):
    """A column of what `equiset.laws` measured: its mean, or its largest value."""

    kind: Literal["measurement"]
    item: Text
    column: Text
    summary: Literal["mean", "largest"] = "mean"


class PaperValue(Settings):
    """The paper's number, which ours must meet within the combined spread, or surpass."""

    kind: Literal["paper-value"]
    value: float
    spread: float = Field(ge=0)
    """The printed one, else half a unit of the last digit."""
    better: Literal["higher", "lower", "neither"]


class Above(Settings):
    """A bound that the interval lies above."""

    kind: Literal["above"]
    bound: float
    matters: float = Field(gt=0)
    """The smallest excess that would matter: an interval below it decides against the claim."""


class Within(Settings):
    """A range that the interval lies in, ends included."""

    kind: Literal["within"]
    low: float | None = None
    """Empty for no lower end."""
    high: float

    @model_validator(mode="after")
    def _is_a_range(self) -> "Within":
        if self.low is not None and self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self


class AtChance(Settings):
    """The chance level, which the exact binomial interval of a share of right answers holds."""

    kind: Literal["at-chance"]
    confidence: float = Field(0.95, gt=0.5, lt=1)
    width: float = Field(gt=0, lt=1)
    """An interval that is wider than this decides nothing."""


class Condition(Settings):
    """Something that is measured, and what it must be."""

    label: str = ""
    """What is measured, where a claim has several conditions or where the claim does not say it."""
    measure: Annotated[Metric | Difference | LossByChange | Complexity | Measurement, Field(discriminator="kind")]
    expect: Annotated[PaperValue | Above | Within | AtChance, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _fits(self) -> "Condition":
        if isinstance(self.expect, AtChance) and not isinstance(self.measure, Metric):
            raise ValueError("at-chance is about a share of right answers: measure a metric")
        if isinstance(self.expect, PaperValue) and not isinstance(self.measure, Metric):
            raise ValueError("paper-value compares with a spread over seeds: measure a metric")
        return self


class Needs(Settings):
    """What a claim may be judged on."""

    dataset: Literal["mnist", "modelnet40", "celeba", "redmapper"] | None = None
    """Empty for what is measured on generated sets."""
    data: Literal["paper", "any"]
    scale: Literal["smoke", "demo", "paper"]
    """The smallest."""
    sets: dict[str, int] = Field(default_factory=dict)
    """What `sets.json` must say, so that a run with other sizes is not taken for the paper's."""


class Claim(Settings):
    """One claim of the paper."""

    id: Annotated[str, Field(pattern=r"^[A-Z][0-9]+$")]
    place: Text
    statement: Text
    paper: Text
    needs: Needs
    judged_by: list[Condition] = Field(min_length=1)

    @model_validator(mode="after")
    def _numbers_need_the_papers_data(self) -> "Claim":
        if any(isinstance(condition.expect, PaperValue) for condition in self.judged_by) and (
            self.needs.data != "paper" or self.needs.scale != "paper"
        ):
            raise ValueError("a number of the paper needs its data and its scale: needs: {data: paper, scale: paper}")
        if len(self.judged_by) > 1 and not all(condition.label for condition in self.judged_by):
            raise ValueError("several conditions need a label each")
        return self


class Claims(Settings):
    claims: list[Claim] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_differ(self) -> "Claims":
        ids = [claim.id for claim in self.claims]
        twice = sorted({id for id in ids if ids.count(id) > 1})
        if twice:
            raise ValueError(f"more than one claim is named {twice[0]}")
        return self


def read_claims(path: Path) -> list[Claim]:
    """Return the claims of a file, or raise an `EquisetError` that names the wrong entry and key."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise EquisetError(f"{path} is not a claims file that can be read: {error}") from None
    try:
        return Claims.model_validate(content).claims
    except ValidationError as error:
        faults = [f"{_where(fault['loc'], content)}: {fault['msg']}" for fault in error.errors()]
    raise EquisetError(f"{path}: " + "; ".join(faults[:3]) + ("; ..." if len(faults) > 3 else ""))


def _where(keys: tuple[str | int, ...], content: object) -> str:
    """Return the place of a fault, with the claim's id for its number."""
    if len(keys) > 1 and keys[0] == "claims":
        try:
            name = str(content["claims"][keys[1]]["id"])  # type: ignore[index]
        except (KeyError, TypeError):
            name = f"number {int(keys[1]) + 1}"
        return ".".join([f"claim {name}", *map(str, keys[2:])])
    return ".".join(map(str, keys)) or "the file"
